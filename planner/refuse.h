/*
 * refuse.h - the sentence that says why a search has no answer.
 */
#ifndef PLANNER_REFUSE_H
#define PLANNER_REFUSE_H

#include "planner/draft.h"

/* The best draft is not an answer: what the job fixes that it has not, or the limits that
 * were given, each with what the draft has against it in the limit's unit. ERR_PLAN; -1. */
int refuse_nearest(const struct board *board, const struct draft *nearest,
                   struct err *err);

/* Nothing was measured that the request can use: no devices, a tp that the job fixes and no
 * machine or no profile has, or no micro-batch that divides the batch. ERR_PLAN; -1. */
int refuse_unmeasured(const struct board *board, struct err *err);

/* Nothing fits. ERR_PLAN; -1: a layer for which no device has room; or more pipelines and stages
 * fixed than there are devices that were measured; or links without which there is no plan; else the
 * whole model, for which there is no room however it is divided. */
int refuse_room(const struct board *board, struct err *err);

#endif
