/*
 * fill.h - what a draft leaves over, put to work: pipelines of other kinds, or through other
 * pools, beside those that are there.
 */
#ifndef PLANNER_FILL_H
#define PLANNER_FILL_H

#include "planner/draft.h"

/* Adds pipelines from what the pools have left, as long as that makes the draft worth more: each
 * time those that help most, of pipelines on one option and of such as the draft has, with one pool
 * or degree exchanged. The draft keeps its cut and its setting. Its number of weighings. */
int64_t fill_draft(const struct board *board, struct draft *draft);

#endif
