/*
 * fit.h - a draft that fits, where memory is short: the roomiest devices, and of all orders of
 * them one in which every stage holds its layers, if there is one. Speed is not looked at;
 * whoever searches begins here and climbs.
 */
#ifndef PLANNER_FIT_H
#define PLANNER_FIT_H

#include "planner/draft.h"

enum { FIT_STAGES_MAX = 10 };

/* Of so many stages and pipelines, in the zones that the request fixes, weighed; false if there
 * is none, or more stages than FIT_STAGES_MAX. */
bool fit_draft(const struct board *board, int setting, int stages, int width,
               struct draft *out, int64_t *weighed);

#endif
