/*
 * engine.h - the inside of the invented engine, shared by its files.
 *
 *     engine.c         orders and reports; an epoch begins
 *     engine_state.c   what it has: copies in memory, checkpoints, data sets
 *     engine_step.c    a step, from gradients to the commit point; copies on their way
 */
#ifndef TESTS_SIM_ENGINE_H
#define TESTS_SIM_ENGINE_H

#include "node/engine/train.h"
#include "tests/sim/plane.h"
#include "tests/sim/world.h"

enum {
    ORDERS_MAX = 64,
    REPORTS_KEPT = 128,
    COPIES_MAX = 32,
    ENGINE_FD = 3 << 22,
    ORDER_US = 300,
    FRESH_LOOK_US = 5 * MS,
    STALL_US = SECOND,
    WRITE_LOOK_US = 20 * MS
};

enum order_kind {
    ORDER_EPOCH,
    ORDER_HALT,
    ORDER_COPIED,
    ORDER_DROP,
    ORDER_PROFILE,
    ORDER_EXPECT
};

struct order {
    enum order_kind kind;
    struct train_epoch *epoch;
    int64_t step;
    struct id job, data;
    int sequences;
    unsigned measurement;
};

/* A run of layers at one step, in memory. */
struct copy {
    int first_layer, layers;
    struct state_name name;
    uint64_t chain, samples_hash;
};

enum phase {
    PHASE_IDLE,
    PHASE_FETCH,   /* state and data are on their way */
    PHASE_COMPUTE, /* until compute_us */
    PHASE_WORK,    /* neighbours and replicas */
    PHASE_COMMIT,  /* everybody's norms */
    PHASE_REST     /* no more steps; copies and checkpoints may be on their way */
};

struct train {
    struct host *host;
    struct train_options options;
    char folder[64];
    struct order orders[ORDERS_MAX];
    size_t orders_first, orders_count;
    unsigned measurements, measurement_end;
    struct train_report reports[REPORTS_KEPT];
    size_t reports_first, reports_count;

    struct id job, expected, data_expected;
    bool has_data;
    bool disk_fixed;  /* a decree may rest on what was reported of it */
    struct copy disk; /* the newest checkpoint of what is expected; name.step -1: none */

    bool live;
    int first_layer, layers; /* of the live stage */
    int64_t applied;
    bool prepared, normed;
    struct lineage lineage, prepared_in; /* of what is applied; of what is prepared */
    uint64_t norm_bits, samples_hash, chain;
    int copies_count;
    struct copy copies[COPIES_MAX];
    struct state_name copied;

    struct train_epoch *epoch;
    struct lineage newest; /* of what the newest epoch that was begun computes */
    enum phase phase;
    int stage, pipeline; /* -1: no part */
    bool sent, computed, done_due, stopped;
    int64_t began_us, waits_us, stall_us, compute_us;
    uint64_t work;           /* so that timers of before are void */
    int64_t gathered;        /* step of the newest checkpoint that was written */
    int64_t writes, written; /* checkpoints that were begun, that are written */
    int64_t written_us;      /* when all checkpoints that are on their way are written */
    struct copy parts[STAGES_MAX];
};

/* ---- engine.c ---- */

void engine_report(struct train *train, struct train_report *said);
void engine_fail(struct train *train, const char *what, const char *why);
int engine_layers_of(const struct train_epoch *epoch);
bool engine_gathers(const struct train_epoch *epoch); /* does this node? */
/* A step is applied with this norm; the samples' running hash after it. */
void engine_apply(struct train *train, int64_t step, uint64_t norm,
                  uint64_t samples_hash);
/* All that our stage needs is here? `missing`: of whom we wait. */
bool engine_fetch(struct train *train, int *missing);
void engine_fetched(struct train *train);

/* ---- engine_step.c ---- */

/* Once a second: what waits is looked at. */
void engine_every_second(struct event *event);

/* ---- engine_state.c ---- */

void engine_data_path(const struct train *train, const struct id *data,
                      char path[PATH_BYTES_MAX]);
void engine_look_at_disk(struct train *train);
/* Of the copy's state, which has all layers. */
void engine_write_checkpoint(struct train *train, const struct id *job,
                             const struct copy *copy);
void engine_copy_remove(struct train *train, int at);
void engine_copy_add(struct train *train, const struct copy *copy);
void engine_copied(struct train *train, int64_t step);
struct copy engine_live_copy(const struct train *train);
const struct copy *engine_find_layer(const struct train *train,
                                     const struct state_name *name, int layer);
/* The state that the epoch begins with. */
struct state_name engine_base(const struct train *train);
void engine_drop_job(struct train *train);
void engine_say_halted(struct train *train);

#endif
