/*
 * spread.h - plans in which every device has a pipeline to itself: the fastest of a zone, or
 * of all zones, however different they are. A shape (shape.h) begins with devices that are
 * alike; where all are different this is the better beginning.
 */
#ifndef PLANNER_SPREAD_H
#define PLANNER_SPREAD_H

#include "planner/draft.h"

/* The best draft of one setting, weighed; false if no device has room for the model. */
bool spread_best(const struct board *board, int setting, struct draft *out,
                 int64_t *weighed);

/* The best draft of one replica that has the whole model, which needs no links; false if
 * none has the room. */
bool spread_alone(const struct board *board, struct draft *out, int64_t *weighed);

#endif
