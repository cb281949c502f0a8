/*
 * workers.h - threads for a search (planner/parallel.h): as many as there are cores, each of which
 * takes the next item when it is done with one.
 */
#ifndef NODE_COMMAND_WORKERS_H
#define NODE_COMMAND_WORKERS_H

#include "planner/parallel.h"

struct workers;

/* One for each core that this process may run on. Fewer, if need be only the caller, when the
 * system has no threads to give: a search is then slower and finds the same. */
struct workers *workers_new(void);
void workers_free(struct workers *workers);

/* Borrowed; NULL: there is only the caller. */
const struct parallel *workers_parallel(const struct workers *workers);

#endif
