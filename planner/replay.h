/*
 * replay.h - our own cost model of a plan over a fleet: its schedule, replayed;
 * evaluate.h has it behind the common interface and the rules.
 */
#ifndef PLANNER_REPLAY_H
#define PLANNER_REPLAY_H

#include "planner/evaluate.h"

int replay_evaluate(const struct fleet_plan *plan, const struct fleet_request *request,
                    const struct fleet *fleet, step_event_fn *on_event, void *context,
                    struct estimate *out, struct err *err);

void replay_memory(const struct fleet_plan *plan, const struct fleet_request *request,
                   const struct fleet *fleet, int stage, int pipeline,
                   struct memory_parts *out);

#endif
