/*
 * excluded.h - who is left out of new epochs for a while, because it did not report or
 * was gone: a leader's memory, a step machine without clocks or sockets.
 *
 * A node that hears but is not heard (one direction of its path is cut) looks alive and
 * never reports: each time that it is tried again costs everybody a halt. So it is left
 * out for EXCLUDED_MS_MIN, and twice as long each time, up to EXCLUDED_MS_MAX; a report
 * in time, or a connection made anew, wipes that out. (A minute and not more: when what was
 * wrong is mended, everybody is to be back soon.)
 */
#ifndef NODE_EXCLUDED_H
#define NODE_EXCLUDED_H

#include "transport/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXCLUDED_MS_MIN = 3000, EXCLUDED_MS_MAX = 60000 };

struct excluded;

struct excluded *excluded_new(void);
void excluded_free(struct excluded *excluded);

/* From now on it is left out. For how long, ms. */
int64_t excluded_add(struct excluded *excluded, int64_t now_ms, const struct id *id);
bool excluded_is(const struct excluded *excluded, int64_t now_ms, const struct id *id);
/* It reported, or connected anew: what was before is forgotten. */
void excluded_heard(struct excluded *excluded, const struct id *id);

#endif
