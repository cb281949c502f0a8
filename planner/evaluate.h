/*
 * evaluate.h - what a plan over a fleet will take: time, money, memory, and what bounds
 * it. One interface, two cost models (fleet.cost_model):
 *
 * published  Sailor's formulas (SOSP'25) as they were published, oddities and all, so that
 *            plans can be compared on the published ground. docs/planning.md has them.
 * replay     the schedule's own list of operations (schedule.h), event by event: a replica
 *            computes one thing at a time; a line carries one message at a time, and what is
 *            sent by one replica, or over one shared line, queues for it; gradients are
 *            reduced by a ring, overlapped with the last backward where the framework does
 *            that; then everybody hears from everybody (the commit point), then the
 *            update.
 */
#ifndef PLANNER_EVALUATE_H
#define PLANNER_EVALUATE_H

#include "planner/fleet_plan.h"

/* Bytes of one device of a replica. */
struct memory_parts {
    int64_t weights;
    int64_t gradients;
    int64_t optimizer;
    int64_t activations;
    int64_t workspace; /* buffers, the framework's own */
    int64_t total;
    int64_t room; /* what the device has for a plan */
};

enum bound_kind {
    BOUND_COMPUTE,  /* the slowest stage of the last pipeline */
    BOUND_TRANSFER, /* what it sends and receives */
    BOUND_FILL,     /* filling and draining that pipeline */
    BOUND_REDUCE,   /* the gradients' reduction */
    BOUND_UPDATE
};

/* Where an iteration's time goes: the parts sum up to it. `what` is the largest. */
struct bound {
    enum bound_kind what;
    double part_s[BOUND_UPDATE + 1];
    int pipeline;     /* that ends last */
    int stage;        /* its slowest */
    int reduce_stage; /* whose reduction ends last */
    int link_from; /* pools that the link of the slowest transfer joins: the reduction's */
    int link_to;   /* for BOUND_REDUCE, else the slowest stage's; -1: there is none */
};

struct stage_estimate {
    double compute_s;  /* forward and backward of a micro-batch, slowest replica */
    double transfer_s; /* what it sends for one micro-batch, slowest replica */
    double reduce_s;
    double update_s;
    int fullest;                /* pipeline whose replica has the least room left */
    struct memory_parts memory; /* of that one */
};

struct estimate {
    double iteration_s;
    double tokens_per_s;
    double usd_per_iteration; /* below 0: a price is not known */
    double devices_usd;
    double egress_usd;
    bool fits; /* memory, everywhere */
    struct bound bound;
    int stages_count;
    struct stage_estimate stages[STAGES_MAX];
};

/* A stretch of one replica's time, for pictures. */
enum step_kind {
    STEP_FORWARD,
    STEP_BACKWARD,
    STEP_SEND, /* a link's time; does not hold up its replica in the replay */
    STEP_REDUCE,
    STEP_UPDATE
};
struct step_event {
    enum step_kind kind;
    int stage;
    int pipeline;
    int micro_batch; /* -1 for REDUCE and UPDATE */
    int to_stage;    /* SEND: the receiver's; else -1 */
    double start_s;
    double end_s;
};
typedef void step_event_fn(void *context, const struct step_event *event);

/* The plan passes fleet_plan_check(); memory is told, not checked. `on_event` (may be NULL)
 * is told every stretch of every replica, in no particular order; what no event covers is
 * waiting. Of the published model the events are those of its assumptions: sends hold a
 * replica up, all reductions follow the last backward. ERR_PLAN when a link of the plan carries
 * nothing. */
int evaluate(const struct fleet_plan *plan, const struct fleet_request *request,
             const struct fleet *fleet, step_event_fn *on_event, void *context,
             struct estimate *out, struct err *err);

/* Bytes of one device of one replica, by the fleet's cost model. */
void evaluate_memory(const struct fleet_plan *plan, const struct fleet_request *request,
                     const struct fleet *fleet, int stage, int pipeline,
                     struct memory_parts *out);

#endif
