/*
 * exhaust.h - every plan of a small fleet: all cuts, all multisets of pipelines. What cannot
 * win by its pipelines' pace is passed over; nothing else is.
 */
#ifndef PLANNER_EXHAUST_H
#define PLANNER_EXHAUST_H

#include "planner/draft.h"

enum { EXHAUST_DEVICES = 8, EXHAUST_LAYERS = 10 };

/* Is the fleet small enough? */
bool exhaust_feasible(const struct board *board);

/* Put the best of all plans into `best`, which is weighed (`found`) or not there yet. Returns
 * whether there is one. */
bool exhaust(const struct board *board, struct draft *best, bool found, int64_t *weighed);

#endif
