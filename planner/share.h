/*
 * share.h - how many micro-batches of a step each pipeline takes.
 */
#ifndef PLANNER_SHARE_H
#define PLANNER_SHARE_H

#include "planner/plan.h"

/* As even as it can be, the first pipelines one more. */
void share_evenly(struct plan *plan, int total);

/* So that the pipeline that ends last ends as early as it can: `slowest_ns` is a
 * micro-batch on a pipeline's slowest stage, `others_ns` on all its other stages. Each
 * takes one at least. False if there are too few or too many. */
bool share_micro_batches(struct plan *plan, int total, const int64_t *slowest_ns,
                         const int64_t *others_ns);

#endif
