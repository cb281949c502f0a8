/*
 * fleet_plan.h - what is asked of a plan over a fleet, and the plan.
 *
 *              pipeline 0          pipeline 1
 *     stage 0  2 devices of pool 1 4 devices of pool 1    layers [0, 7)
 *     stage 1  2 devices of pool 0 2 devices of pool 0    layers [7, 26)
 *              9 micro-batches     17 micro-batches
 *
 * Replica j of a stage feeds replica j of the next; the replicas of a stage reduce their
 * gradients over a ring in the order of j. A replica is a tensor-parallel group of devices
 * of one machine. What the engine of this version carries out is tp 1.
 */
#ifndef PLANNER_FLEET_PLAN_H
#define PLANNER_FLEET_PLAN_H

#include "planner/fleet.h"

enum objective { OBJECTIVE_THROUGHPUT, OBJECTIVE_COST };

/* What is kept of a micro-batch until its backward pass. */
enum recompute {
    RECOMPUTE_NONE,  /* all that the backward pass reads */
    RECOMPUTE_LAYERS /* each layer's input; its forward pass is done again */
};

/* A choice that a job makes, or leaves to the search. */
enum choice { CHOICE_OFF, CHOICE_ON, CHOICE_OPEN };

/* What the framework that carries the plan out does. */
struct framework {
    /* A bucket of gradients is reduced as soon as its layers' last backward is done, and
     * sends do not hold up who sends. Else all stages reduce after the last backward of
     * any, a replica waits until what it sends is gone, and neighbours exchange: what a
     * forward made goes out when the gradient is in that its stage works on next. */
    bool overlap;
    double bucket_bytes; /* of gradients, reduced one after the other */
    /* What one that is not ours has on a device beside a plan's own bytes; of ours all are
     * 0. For plans that are given: a search does not look at it. */
    int64_t
        transfer_buffer_bytes; /* without overlap: what each device's buffers take of a
                                     message, at either end; 0: its sender has none, its
                                     receiver room for all of it */
    int bucket_buffers;        /* made before the first step, whatever is reduced */
    int working_layers;        /* times the activations of the largest layer, for the
                                       gradients of what is at hand */
    int extra_bytes_per_parameter; /* further copies of weights and gradients */
    int64_t fixed_bytes;           /* a process's own */
    int64_t fixed_tp_bytes;        /* the same in a tensor-parallel group */
};

struct parallel;

struct fleet_request {
    int sequences; /* global batch; kept exactly */
    enum objective objective;
    double usd_per_iteration_max; /* below 0: no limit; 0 is a limit */
    double usd_per_hour_max;      /* below 0: no limit */
    double iterations_per_s_min;  /* 0: no limit */
    /* Fixed by the job; 0: free. */
    int pipeline;
    int replicas;
    int micro_batch;
    int tp;
    int stage_zones_count; /* == pipeline when given with it; 0: free */
    int stage_zones[STAGES_MAX];
    enum choice bf16;
    enum choice recompute;
    enum choice shard_optimizer; /* ZeRO-1 over the replicas of a stage */
    struct framework framework;  /* the replay's; the published model has its own */
    bool quick; /* a search of a millisecond or so, for who plans again and again */
    const struct parallel
        *parallel; /* who does the work; borrowed; NULL: the caller alone */
};

/* A free request for the engine's own framework: no limits, nothing fixed or open. */
void fleet_request_init(struct fleet_request *request, int sequences);

struct replica {
    int16_t pool;
    int16_t tp;
};

struct fleet_plan {
    int micro_batch; /* sequences */
    int stages_count;
    int width; /* replicas of every stage */
    int first_layer[STAGES_MAX];
    int layers[STAGES_MAX];
    int *micro_batches; /* [width], owned */
    struct replica
        *replicas; /* [stages_count x width], owned: stage * width + pipeline */
    enum precision precision;
    enum recompute recompute;
    bool shard_optimizer;
};

/* Makes room; both counts are set, the rest is zero. */
void fleet_plan_init(struct fleet_plan *plan, int stages_count, int width);
void fleet_plan_release(struct fleet_plan *plan);
void fleet_plan_copy(const struct fleet_plan *plan, struct fleet_plan *out);

static inline const struct replica *
fleet_plan_replica(const struct fleet_plan *plan, int stage, int pipeline)
{
    return &plan->replicas[(int64_t)stage * plan->width + pipeline];
}

/* Devices of each pool that a plan uses; their sum is returned. */
int fleet_plan_devices(const struct fleet_plan *plan, int used[FLEET_POOLS_MAX]);

/* Every promise but memory: layers covered once, batch kept, pools not exceeded, tp groups
 * within a machine, all used (kind, micro-batch, tp) measured, all neighbours joined, and
 * what the request fixes. ERR_PLAN with a sentence. Safe on any plan whose arrays have the
 * size that it says. */
int fleet_plan_check(const struct fleet_plan *plan, const struct fleet_request *request,
                     const struct fleet *fleet, struct err *err);

#endif
