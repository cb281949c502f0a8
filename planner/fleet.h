/*
 * fleet.h - what a plan may use, by kind: device kinds with their measured layer times,
 * zones, pools of devices, the links between them, prices. And what is trained on them: a
 * table of layers.
 *
 *     zone a          zone b
 *     pool 0: 32 A    pool 2: 64 A        a pool is so many devices of one kind in one
 *     pool 1: 96 V                        zone; its devices are alike
 *
 * Plain values, filled in by whoever reads a file or a swarm. Seconds and rates are
 * doubles here: all arithmetic is + - x / of IEEE double without a math library, so that
 * it has the same bits everywhere. `struct cluster` (cluster.h) is the same for a swarm of
 * single devices that are all different, in integers as they are signed.
 */
#ifndef PLANNER_FLEET_H
#define PLANNER_FLEET_H

#include "planner/workload.h"
#include "transport/base/err.h"
#include "transport/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FLEET_KINDS_MAX = 32,
    FLEET_POOLS_MAX = 256,
    FLEET_DEVICES_MAX = 65536, /* of all pools together */
    FLEET_SEQUENCES_MAX = 1 << 20,
    TP_SLOTS = 4,              /* tensor-parallel degrees 1, 2, 4, 8: slot 0 to 3 */
    MICRO_BATCH_SIZES_MAX = 32 /* measured sizes of one kind */
};

/* 0 to 3; -1 for any other degree. */
int tp_slot(int tp);

/* The rate of one link over the size of a message (Sailor, SOSP'25): a quadratic in
 * l = log2(bytes / 1e6), in 1e9 bytes per second, for sizes within the range it was fitted
 * in; smaller and larger ones go at the rate of the range's ends. A plain rate has c0
 * alone. */
struct fleet_curve {
    double c2, c1, c0;
    double low_bytes, high_bytes;
    double delay_s; /* half a round trip, once a message */
    /* One line for all senders, whose messages queue for it (between sites); else every
     * group of devices sends at this rate by itself (within a data centre, or a cloud). */
    bool shared;
};

/* A plain rate, the same for messages of all sizes, not shared: 1e6 bit/s; milliseconds there and
 * back. */
void fleet_curve_plain(struct fleet_curve *curve, double mbit_per_s,
                       double round_trip_ms);

/* Seconds that a message takes; 0 for no bytes, FLEET_NEVER_S at a rate that is not above
 * 0. */
#define FLEET_NEVER_S 1e15
double fleet_send_s(const struct fleet_curve *curve, double bytes);

/* log2 of a positive normal number, within 2e-15 of it; the same bits everywhere. */
double fleet_log2(double x);

/* One layer of one micro-batch, on a group of tp devices. */
struct layer_time {
    double forward_s;
    double backward_s;
    double update_s; /* see layer_table.update_parameters */
};

enum precision { PRECISION_FP32, PRECISION_BF16, PRECISIONS };

/* The times of one (precision, micro-batch, tp). */
struct fleet_times {
    enum precision precision;
    int micro_batch;
    int tp;
    struct layer_time *layers; /* [layers_count], owned */
};

struct fleet_kind {
    char name[NAME_BYTES_MAX + 1];
    int64_t memory_bytes; /* of one device; what a plan may fill */
    int machine_devices;  /* of one machine: a tp group lies within one */
    double correction;    /* measured over predicted time of past steps; 1: none learnt */
    int times_count;
    struct fleet_times *times; /* owned; any order; what is missing may not be used */
    /* Between two devices of one machine, by slot of the number of devices that take
     * part; for the replay alone. has_inside false: as between machines. */
    bool has_inside;
    struct fleet_curve inside[TP_SLOTS];
};

struct fleet_zone {
    char name[NAME_BYTES_MAX + 1];
    int region; /* a number: zones of one region share it */
};

struct fleet_pool {
    int kind;
    int zone;
    int devices;         /* 0: named, but nothing to use (taken, or excluded by a job) */
    double usd_per_hour; /* of one device; below 0: no price is known */
    /* The largest tp group of which its machines hold as many side by side as its devices
     * would make, whatever else lies there; 0: any that a machine has room for. Machines of
     * 3 devices hold one group of 2 each, though two of them have 6 devices. */
    int group_max;
};

/* A layer as one device of a tp group holds it. Bytes are of one sequence. */
struct layer_size {
    int64_t parameters;
    int64_t output_bytes; /* what goes on to the next layer */
    int64_t kept_bytes;   /* kept for the backward pass */
};

struct layer_table {
    int layers_count;
    int sequence_tokens;
    struct layer_size *sizes[TP_SLOTS]; /* [layers_count], owned; NULL: no such degree */
    /* How many parameters of one device an `update_s` covers; 0: those of its own layer.
     * (A profile that times the optimizer once, on a small model, says of how many.) */
    int64_t update_parameters[TP_SLOTS];
    /* The model is our engine's, which says by itself what a replica of tp 1 allocates, what
     * is reduced and what else is sent (workload.h): borrowed; NULL: it is not. */
    const struct model_shape *engine;
    bool engine_copies; /* replicas keep a copy of their state, for recovery */
};

enum cost_model {
    COST_MODEL_REPLAY,   /* ours: the schedule, event by event */
    COST_MODEL_PUBLISHED /* Sailor's formulas as they were published */
};

struct fleet {
    enum cost_model cost_model;
    struct layer_table table;
    int kinds_count;
    struct fleet_kind kinds[FLEET_KINDS_MAX];
    int zones_count;
    struct fleet_zone zones[ZONES_MAX];
    int pools_count; /* at most one of a (kind, zone) */
    struct fleet_pool pools[FLEET_POOLS_MAX];
    /* Directed links. An endpoint is a pool and the slot of the degree there. */
    int curves_count;
    struct fleet_curve *curves; /* owned */
    int32_t *links; /* owned, [endpoints x endpoints]; a curve's number, -1: not joined */
    /* USD per 1e9 bytes that leave a zone for another: from * ZONES_MAX + to; below 0: no
     * price is known. */
    double *egress_usd_per_gb; /* owned, [ZONES_MAX x ZONES_MAX] */
};

/* An empty fleet, in heap memory because it is large. fleet_pools_done() makes `links`
 * (all -1) once the pools are there. */
struct fleet *fleet_new(void);
void fleet_free(struct fleet *fleet);
void fleet_pools_done(struct fleet *fleet);

/* Another fleet with the same content. */
struct fleet *fleet_copy(const struct fleet *fleet);

/* So many devices of each pool, at most as it has, of one at least: those pools with their kinds and
 * zones and nothing else, in the order of the whole, as if the others had never been named.
 * `pool_from` [FLEET_POOLS_MAX] gets the whole's number of each pool. */
struct fleet *fleet_part(const struct fleet *fleet, const int *devices,
                         int16_t *pool_from);

static inline int
fleet_endpoint(int pool, int slot)
{
    return pool * TP_SLOTS + slot;
}

static inline int32_t *
fleet_link(const struct fleet *fleet, int from_pool, int from_slot, int to_pool,
           int to_slot)
{
    return &fleet->links[fleet_endpoint(from_pool, from_slot) *
                             (fleet->pools_count * TP_SLOTS) +
                         fleet_endpoint(to_pool, to_slot)];
}

/* The curve of a link; NULL when the two are not joined. */
const struct fleet_curve *fleet_curve(const struct fleet *fleet, int from_pool,
                                      int from_slot, int to_pool, int to_slot);

/* The times of a kind; NULL when they were not measured. */
const struct layer_time *fleet_kind_times(const struct fleet_kind *kind,
                                          enum precision precision, int micro_batch,
                                          int tp);

/* The largest tp group that a pool may have. */
int fleet_pool_group_max(const struct fleet *fleet, int pool);

/* Everything that a search and an evaluator rely on: counts within limits, times, rates
 * and sizes finite and not negative, names of curves in range, each (kind, zone) once.
 * ERR_USAGE with a sentence that names kind, zone, layer or link. */
int fleet_check(const struct fleet *fleet, struct err *err);

#endif
