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

/* There is no draft: ERR_PLAN and -1 if the job fixes more pipelines and stages than there
 * are devices that were measured, or if there would be a plan were all devices joined; else
 * 0. */
int refuse_apart(const struct board *board, struct err *err);

/* Devices of the pools of which something was measured. */
int refuse_usable(const struct board *board);

#endif
