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

/*
 * The rules of the replay:
 * - a node computes one thing at a time, in the order of its schedule; sending and
 *   receiving do not hold it up;
 * - between two zones all sends of one direction queue for the one link, first come first
 *   served; within a zone each node has the zone's link for itself;
 * - a stage is reduced by a ring over its replicas in their order once all have finished:
 *   each node sends 2 (n - 1) / n of the gradient, and each of the 2 (n - 1) rounds waits
 *   for the slowest neighbours' delay;
 * - then the first and the last stage of each pipeline send each other the tied gradient;
 * - then one round trip between the two plan nodes furthest apart (the norms), then the
 *   update.
 */

/* The plan keeps its promises (plan_check). ERR_PLAN when a node of the plan has no
 * profile. */
int simulate(const struct plan *plan, const struct plan_request *request,
             const struct cluster *cluster, struct prediction *out, struct err *err);

/* A time that no replay of this plan goes below, for a fraction of the work;
 * `gradient_bytes` of each stage as in struct stage_bytes. NS_NEVER when a node has no
 * profile. */
int64_t simulate_bound(const struct plan *plan, const struct plan_request *request,
                       const struct cluster *cluster, const int64_t *gradient_bytes);

#endif
