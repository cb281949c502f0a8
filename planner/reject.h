/*
 * reject.h - what was ruled out for memory: plans that would be better than the answer, had
 * their devices the room, and kinds of devices that do not hold the model whole.
 */
#ifndef PLANNER_REJECT_H
#define PLANNER_REJECT_H

#include "planner/board.h"
#include "planner/fleet_search.h"

/* For each micro-batch size the best plan that a quick search finds if memory is no matter,
 * where it is better than the answer: the replica that lacks the most. Then what cannot hold the
 * whole model. Returns how many. */
int reject_list(const struct board *board, const struct estimate *answer,
                struct rejection list[REJECTIONS_MAX]);

#endif
