/*
 * simulate.h - what a step of a plan will take: the schedule of every stage, replayed
 * event by event with measured layer times and links.
 */
#ifndef PLANNER_SIMULATE_H
#define PLANNER_SIMULATE_H

#include "planner/plan.h"

struct prediction {
    int64_t step_ns;
    int64_t compute_ns[STAGES_MAX]; /* busy time of the slowest replica of a stage */
    int64_t reduce_ns;              /* slowest gradient all-reduce */
    int bound_stage;                /* the stage with the largest busy time */
    int64_t memory_bytes[STAGES_MAX];
};

/* ERR_PLAN when a node of the plan has no profile. */
int simulate(const struct plan *plan, const struct plan_request *request,
             const struct cluster *cluster, struct prediction *out, struct err *err);

#endif
