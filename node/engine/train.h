/*
 * train.h - the engine thread: owns a node's share of the model and carries out the plan
 * of an epoch, step by step, over the ports of the data plane.
 *
 *     control --order--> [ engine thread ] --report--> control
 *                          stage, snapshots, kept copies
 *
 * It does not know that peers come and go: an epoch gives it a plan, its place in it, a
 * starting step and who holds what. When the epoch is halted (bulk_halt) it leaves the
 * step at the next opportunity, between two micro-batches or in any wait, reports how far
 * it came and waits for the next epoch, holding on to its state.
 *
 * A step: forward and backward by the schedule; all-reduce over the stage's replicas;
 * tied gradients exchanged between first and last stage of each pipeline; then the commit
 * point: everybody sends everybody its norms, losses and sample hash, and nobody applies
 * before it has all of them.
 */
#ifndef NODE_ENGINE_TRAIN_H
#define NODE_ENGINE_TRAIN_H

#include "node/engine/recover.h"
#include "transport/bulk.h"

#include <stdatomic.h>

/* What the job says about training; values only. */
struct train_job {
    struct id id;   /* of this run: checkpoints and holdings carry it */
    struct id data; /* hash of the data set */
    int64_t data_bytes;
    char name[NAME_BYTES_MAX + 1];
    int64_t steps; /* the run ends after this one */
    uint64_t seed;
    double learning_rate, beta1, beta2, epsilon, weight_decay,
        clip_norm;            /* clip_norm 0: none */
    int64_t warmup_steps;     /* linear warm-up, then constant */
    int64_t copy_every;       /* recovery copies; 0: none */
    int64_t checkpoint_every; /* 0: only at the end */
    int checkpoint_keep;
};

/* An epoch's orders for this node. Owned by the engine once sent. */
struct train_epoch {
    struct lineage lineage; /* of what is computed in it; .epoch is the epoch's number */
    int self;               /* our cluster node number = bulk peer number */
    struct train_job job;
    struct plan_request request;
    struct cluster cluster; /* owned */
    struct plan plan;
    struct recovery recovery; /* owned */
    struct duties duties;
    char *text; /* the job as submitted, for checkpoints; owned, may be NULL */
};

void train_epoch_free(struct train_epoch *epoch);

enum train_report_kind {
    REPORT_COMPUTE,    /* epoch, step: first forward pass begins */
    REPORT_STEP,       /* applied */
    REPORT_STALL,      /* peer, waited_ms, what */
    REPORT_HALTED,     /* progress */
    REPORT_COPIED,     /* the copy of `stage` at `step` is complete here (we keep it) */
    REPORT_CHECKPOINT, /* step, path: written whole, here */
    REPORT_DONE, /* the run's last step is applied and its checkpoint, if we gather, is
                    written */
    REPORT_PROFILED, /* profile; NULL: it was stopped */
    /* err, and `what` could not be done here: "profile" or "epoch" (no memory, a damaged
     * file: a plan without this node may go on), "step" (the numbers themselves: the run
     * is over), "checkpoint", "copy" (training goes on). */
    REPORT_FAILED,
    REPORT_MEMORY /* predicted_bytes: what this epoch lets us take */
};

struct train_report {
    enum train_report_kind kind;
    uint64_t epoch;
    int64_t step;
    double loss;        /* nats per token */
    double norm;        /* global gradient norm before clipping */
    int64_t tokens;     /* of this step */
    int64_t step_us;    /* wall time */
    int64_t compute_us; /* thread CPU time of our own forward, backward and update */
    int64_t predicted_compute_us; /* by our profile, uncorrected */
    uint64_t samples_hash;
    int peer;
    int64_t waited_ms;
    int stage;
    int64_t predicted_bytes;
    char what[64];
    struct progress *progress; /* HALTED: owned by the receiver */
    struct profile *profile;   /* PROFILED: owned by the receiver */
    char *path;                /* CHECKPOINT: owned by the receiver */
    struct err err;            /* FAILED */
};

struct train;

struct train_options {
    struct bulk *bulk;
    const char *folder; /* the node's data folder: checkpoints/, data/ */
    int threads;
    /* Milliseconds (clock_ms) at which the control thread last knew that our epoch is the
     * newest; nothing is applied while it is older than fresh_ms: a process that was
     * stopped asks before it applies anything. */
    const _Atomic int64_t *fresh_at_ms;
    int64_t fresh_ms;
};

/* Starts the thread. */
struct train *train_start(const struct train_options *options, struct err *err);
void train_stop(struct train *train); /* halts, joins the thread, frees */

/* ---- control thread ---- */

/* Carry out an epoch; call bulk_enter() before. */
void train_epoch(struct train *train, struct train_epoch **epoch);

/* Halt: call bulk_halt() first; a REPORT_HALTED follows (with applied -1 when there is no
 * job), also when nothing runs. */
void train_halt(struct train *train);

/* Everybody's copies of `step` are complete: older snapshots may go. */
void train_copied(struct train *train, int64_t step);

/* The run is over or was given up: drop state of the job. */
void train_drop(struct train *train);

/* Measure this node on a model: a REPORT_PROFILED follows. Only while halted or idle.
 * Micro-batch sizes: powers of two up to `sequences` and what memory allows. */
void train_profile(struct train *train, const struct model_shape *shape, int sequences,
                   int64_t memory_bytes);
/* The measurement under way is not wanted any more: its report, soon, has no profile. */
void train_profile_stop(struct train *train);

/* What to look for on disk when the next halt is reported: the job's checkpoint and data
 * set. Empty id: nothing. */
void train_expect(struct train *train, const struct id *job, const struct id *data);

int train_report_fd(const struct train *train);
bool train_report_take(struct train *train, struct train_report *report);

/* Bytes that an epoch lets a node take: stage, snapshots, kept copies, gathered
 * checkpoint. */
int64_t train_predicted_bytes(const struct train_epoch *epoch);

#endif
