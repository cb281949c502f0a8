/*
 * fleet_search.h - the best plan for a request on a fleet, and why.
 *
 * Free: depth, layer split, kind, zone and tp of every replica, micro-batch, micro-batches
 * of each pipeline, the order of the rings, and what a request leaves open. Deterministic:
 * the same input gives the same plan, bit for bit, whatever the compiler; bounded by
 * counted work. Small fleets are searched exhaustively.
 */
#ifndef PLANNER_FLEET_SEARCH_H
#define PLANNER_FLEET_SEARCH_H

#include "planner/evaluate.h"

enum { REJECTIONS_MAX = 16 };

/* Of a plan that was ruled out for memory the replica that lacks the most. */
struct rejection {
    int kind;
    int tp;
    int micro_batch;
    int stages; /* of the plan */
    int first_layer;
    int layers;
    int64_t need_bytes;
    int64_t room_bytes;
    double iteration_s; /* of the plan, had it the room; below 0: not weighed */
};

struct fleet_answer {
    struct fleet_plan plan;
    struct estimate estimate;
    bool has_runner_up; /* the best plan of another shape: depth, micro-batch, kinds or
                           degrees of its stages */
    struct fleet_plan runner_up;
    struct estimate runner_up_estimate;
    int64_t candidates; /* plans that were weighed */
    int rejections_count;
    struct rejection rejections[REJECTIONS_MAX];
};

void fleet_answer_release(struct fleet_answer *answer);

/* The best plan that keeps the request's limits. ERR_PLAN when there is none: a sentence
 * with numbers (which layers need how much and what the roomiest device has; or the best
 * that was found against the limit asked for). ERR_USAGE when a price is missing that the
 * objective or a limit needs. On failure `out` needs no release. */
int fleet_search(const struct fleet_request *request, const struct fleet *fleet,
                 struct fleet_answer *out, struct err *err);

/* The same without what was ruled out: the list in `out` stays empty. For who asks for the
 * plan alone, in a little less time. */
int fleet_search_plan(const struct fleet_request *request, const struct fleet *fleet,
                      struct fleet_answer *out, struct err *err);

/* Some good plan in a few thousand tries, however large the fleet is. */
int fleet_search_glance(const struct fleet_request *request, const struct fleet *fleet,
                        struct fleet_answer *out, struct err *err);

/* Is `left` the better plan for the request? Strict order: by objective, then by fewer
 * devices, then by shape. */
bool fleet_better(const struct fleet_request *request, const struct estimate *left,
                  const struct estimate *right);

/* Does an estimate keep the request's limits and all memory? */
bool fleet_keeps_limits(const struct fleet_request *request,
                        const struct estimate *estimate);

/* An estimate that does not: the limits that were given, and what it has against each, in
 * the limit's unit. ERR_PLAN; -1. */
int fleet_refuse_limits(const struct fleet_request *request, const struct fleet *fleet,
                        const struct estimate *estimate, struct err *err);

/* What one more machine of a pool's kind there would bring: the estimate of the best plan
 * with it, beside the answer's. ERR_PLAN as above. */
int fleet_gain(const struct fleet_request *request, const struct fleet *fleet, int pool,
               struct estimate *out, struct err *err);

#endif
