/*
 * train_parts.h - what the files of the trainer share: the engine thread's state.
 *
 *     train.c           thread, orders, reports
 *     train_enter.c     an epoch begins: stage, buffers; and ends
 *     train_transfer.c  weights and moments on their way to who holds them next
 *     train_data.c      the data set: verified, fetched, given
 *     train_step.c      one step; the update
 *     train_wait.c      waits, stalls, deadlines from measured arrivals
 *     pipeline.c        forward and backward by the schedule
 *     sync.c            reduction, tied gradient, commit point
 *     snapshot.c        copies in memory, who holds what
 *     snapshot_flow.c   copies and checkpoints between nodes, in the background
 *     last_write.c      the checkpoint of the run's last step, while it cannot be written
 *
 * One thread owns all of it but the two mailboxes' other ends and the writer's part.
 */
#ifndef NODE_ENGINE_TRAIN_PARTS_H
#define NODE_ENGINE_TRAIN_PARTS_H

#include "node/engine/checkpoint.h"
#include "node/engine/data.h"
#include "node/engine/profile.h"
#include "node/engine/stage.h"
#include "node/engine/train.h"
#include "planner/schedule.h"
#include "transport/base/mailbox.h"
#include "transport/group_ring.h"

#include <pthread.h>
#include <time.h>

/* ---- state in memory ---- */

struct copy_header {
    struct state_name name;
    uint64_t samples_hash;
    int64_t
        copied_step; /* what its source knows to be complete everywhere; above the base
                            step: of this epoch's lineage */
};

enum { HELD_MAX = 4 * STAGES_MAX, HELD_SENDS_MAX = 6 };

/* Weights and moments of consecutive layers at one step, laid out as in a stage. */
struct held {
    int first_layer, layers;
    struct stage_layout layout;
    float *state; /* weights, moment 1, moment 2: layout.weights floats each */
    size_t bytes;
    struct copy_header header; /* name.step -1: nothing in it */
    bool reserved;             /* a buffer of this epoch */
    bool pending;              /* of this epoch, not known to be complete everywhere */
    bool coming;               /* being received: not to be read */
    int sends_count;           /* being sent: not to be written */
    uint32_t sends[HELD_SENDS_MAX];
};

/* What a source sends us in the background, in the order in which it sends it. */
struct inbound {
    int stage;
    int peer;
    bool keeps, gathers;          /* what we are for that stage */
    int64_t step;                 /* of the next message; -1: no more */
    bool gather;                  /* it is for a checkpoint */
    bool announced;               /* its header has come, its state has not */
    uint32_t header_op, state_op; /* posted, 0: not */
    struct copy_header header;
    struct held *into;
    struct held *buffers[2]; /* when it keeps */
};

/* A checkpoint that is gathered. The writer's thread writes it beside the others and gives
 * it back; the engine puts it in its place, and the writer removes older ones. */
struct write_job {
    bool quit;
    bool placed; /* for the writer: what is older is to be removed */
    int parts_count;
    struct held *parts[STAGES_MAX];     /* one per stage; owned */
    const float **tensors[STATE_KINDS]; /* into the parts */
    char folder[PATH_BYTES_MAX];
    struct checkpoint_info info;
    int keep;
    int failed;
    char *path; /* room for the path of what was written, from the writer */
    struct err err;
};

enum gather_state {
    GATHER_FREE,
    GATHER_COMING,
    GATHER_WRITING,
    GATHER_LATE /* of the run's last step; could not be written, is tried again */
};

struct gather {
    enum gather_state state;
    int missing;           /* stages */
    struct write_job *job; /* NULL: we gather nothing */
};

enum { GATHERERS_MAX = sizeof(((struct duties *)0)->gatherers) / sizeof(int) };

/* What is remembered of the last step's checkpoint while it cannot be written here; from
 * epoch to epoch, so that they do not lengthen the patience. */
struct last_write {
    int64_t patience_ms; /* 0: it is not tried again */
    struct id job;
    int64_t step; /* of that run; 0: nothing has failed */
    int64_t since_ms, next_ms, pause_ms;
    int64_t said_ms;
    char said[ERR_MSG_SIZE];
    uint32_t told[GATHERERS_MAX]; /* receives of this epoch: another gatherer has it */
    bool asked, elsewhere;        /* they are posted; one has come */
};

/* ---- waits ---- */

enum wait_kind {
    WAIT_FORWARD,
    WAIT_BACKWARD,
    WAIT_REDUCE,
    WAIT_TIED,
    WAIT_COMMIT,
    WAIT_STATE,
    WAIT_SEND,
    WAIT_COPIES,
    WAIT_KINDS
};

enum { WAITS_KEPT = 32, STALL_MS_MIN = 1000, STALL_MS_MAX = 60000 };

struct wait_history {
    int64_t recent_us[WAITS_KEPT];
    int count; /* ever; the ring is at count % WAITS_KEPT */
    int64_t interval_ms;
};

/* ---- the commit exchange ---- */

/* What every worker tells every other; norm sums follow when it is replica 0. */
struct commit_head {
    int64_t step;
    int64_t applied;
    double loss_sum;  /* last stage */
    int64_t tokens;   /* last stage */
    uint64_t samples; /* first stage */
    uint64_t reserved;
};

struct commit {
    int workers_count;
    int *workers; /* bulk peer numbers, stage by stage, pipeline by pipeline */
    size_t message_bytes_max;
    uint8_t *messages;  /* [workers_count], message_bytes_max each; ours is sent */
    size_t *bytes;      /* [workers_count] */
    uint32_t *receives; /* [workers_count] */
    uint32_t *sends;    /* [workers_count] */
    int own;            /* our place in workers */
    size_t memory_bytes;
};

/* ---- the start of an epoch ---- */

/* What comes and goes before the first step. */
struct handover {
    uint32_t *receives; /* of layers, in the order of the transfers, some 0 */
    int *peers;
    int receives_count;
    uint32_t *sends;
    int *sends_to;
    int sends_count, sends_room;
    struct checkpoint *checkpoint; /* opened when a layer is to come from disk */
    int data_file;                 /* being fetched, -1: none */
    void *data_map;
    uint32_t data_receive;
    void *given;       /* the data set, mapped to be sent */
    float *stage_area; /* layers from disk on their way to others */
    size_t stage_area_bytes;
};

/* ---- orders ---- */

enum order_kind {
    ORDER_EPOCH,
    ORDER_HALT,
    ORDER_COPIED,
    ORDER_DROP,
    ORDER_PROFILE,
    ORDER_EXPECT,
    ORDER_STOP
};

struct order {
    enum order_kind kind;
    struct train_epoch *epoch;
    int64_t step;
    struct id job, data;
    struct model_shape shape;
    int sequences;
    int64_t memory_bytes;
    unsigned measurement; /* of ORDER_PROFILE: its number */
};

/* ---- the trainer ---- */

struct train {
    struct train_options options;
    char *folder;
    pthread_t thread, writer;
    struct mailbox *orders, *reports;        /* control <-> engine */
    struct mailbox *to_writer, *from_writer; /* engine <-> writer: struct write_job * */
    atomic_bool stopping;
    unsigned measurements; /* asked for so far; of the control thread */
    atomic_uint
        measurement_end; /* this one and those before it are not wanted any more */
    struct bulk_port *ports[BULK_PORTS];
    bool has_order; /* an order that ended a step and is still to be carried out */
    struct order order;

    /* The job, and what is on disk of it. */
    struct id job; /* of the state below; empty: none */
    struct id expected, data_expected;
    bool expect_due; /* expected has changed, and the disk was not looked at since */
    struct state_name disk; /* step -1: none */
    uint64_t disk_samples_hash;
    bool disk_fixed; /* a decree may rest on what was reported of the disk: no checkpoint
                        takes its place, or goes */
    struct model_shape disk_shape;
    char disk_path[PATH_BYTES_MAX];
    bool has_data;
    struct id refused; /* data set whose file is another, as it was then */
    int64_t refused_size;
    struct timespec refused_at;
    struct data *data;
    struct id data_open; /* which one that is */
    int data_context;

    /* Live state. */
    struct stage *stage;
    struct model_shape shape;
    struct stage_spec spec;
    bool live;              /* the stage's state is whole, of step `applied` */
    bool live_at_base;      /* what we came into this epoch with was of its base step */
    int64_t applied;        /* -1: none */
    struct lineage lineage; /* of the state of step `applied` */
    bool normed;            /* norm_bits is that step's */
    bool prepared;
    struct lineage prepared_in;
    uint64_t norm_bits, samples_hash;

    /* Copies. */
    int held_count;
    struct held *held[HELD_MAX];
    struct held *moved; /* what the stage before this one held, until a step is applied */
    struct state_name copied;

    /* The epoch. */
    struct train_epoch *epoch; /* NULL: halted */
    struct lineage newest;     /* of what the newest epoch that was begun computes */
    bool computing;            /* has a part in the plan, steps are left */
    bool done_due, computed;
    int stage_number, pipeline; /* -1: no part */
    int micro_batches, first_sample;
    int previous, next, tied; /* peers, -1: none */
    double loss_scale;
    struct communication_layout communication;
    float *boundary; /* arena of communication.total floats */
    float *activation_receive, *gradient_send, *activation_send, *gradient_receive;
    float *reduction, *tied_gradient;
    int32_t *tokens; /* [in_flight][micro_batch][context + 1] */
    size_t tokens_bytes;
    uint32_t *ops_in, *ops_back, *ops_out, *ops_return; /* [in_flight] */
    struct group_ring ring;
    struct commit commit;
    struct held *snapshots[2];
    int snapshots_count;
    struct inbound inbound[STAGES_MAX];
    int inbound_count;
    struct gather gather;
    struct held *own_gather; /* snapshot that is still to go into the checkpoint */
    struct last_write last_write;
    struct wait_history waits[WAIT_KINDS];
    struct adamw adamw; /* of the prepared step */

    /* The step. */
    int64_t step_started_us, compute_us;
    double loss_sum;
    uint64_t samples_sum;
    int64_t ring_waited_ms;
};

/* ---- train.c ---- */

void train_report(struct train *train, struct train_report *report);
void train_fail(struct train *train, const char *what, const struct err *err);
/* Take in what came meanwhile; ERR_STOPPED when the epoch is over. */
int train_listen(struct train *train, struct err *err);
/* Wait for orders, a port or the writer, at most `timeout_ms`. */
void train_rest(struct train *train, int timeout_ms);
struct bulk_port *train_port(struct train *train, enum bulk_channel channel);
/* The state that the epoch begins with. */
struct state_name train_base(const struct train *train);
/* A node's place in a plan; false: it has no part. */
bool plan_place(const struct plan *plan, int node, int *stage, int *pipeline);

/* ---- train_wait.c ---- */

/* Wait for an operation (0: nothing to wait for) and clear the handle. */
int train_wait(struct train *train, enum bulk_channel channel, uint32_t *handle,
               enum wait_kind kind, int peer, struct err *err);
void train_waited(struct train *train, enum wait_kind kind, int64_t us);
void train_waits_reset(struct train *train);
int64_t train_wait_ms(const struct train *train, enum wait_kind kind);
void train_stalled(struct train *train, enum wait_kind kind, int peer, int64_t waited_ms);

/* ---- train_enter.c ---- */

/* ERR_STOPPED: another order came, or the failure is reported already. */
int epoch_begin(struct train *train, struct err *err);
/* Ends what is on its way and gives back what is the epoch's alone; state stays. */
void epoch_end(struct train *train);
/* No job, no state. */
void job_drop(struct train *train);

/* ---- train_transfer.c ---- */

int transfer_all(struct train *train, struct err *err);
int64_t layer_floats(const struct model_shape *shape, int layer);

/* ---- train_data.c ---- */

/* Is the data set here, with the content that its name says? */
bool data_present(struct train *train, const struct id *data);
/* Fetching and giving, in three parts: post the receive, start the sends, take what
 * came. */
int data_post(struct train *train, struct handover *handover, struct err *err);
int data_give(struct train *train, struct handover *handover, struct err *err);
int data_take(struct train *train, struct handover *handover, struct err *err);
void data_release(struct train *train, struct handover *handover);
/* Map it for use; closes one of another job. */
int data_use(struct train *train, struct err *err);
void handover_send(struct train *train, struct handover *handover, int peer, uint64_t tag,
                   const void *data, size_t bytes);

/* ---- train_step.c ---- */

int train_step(struct train *train, struct err *err);
/* The update with what was prepared; the state is then of the lineage in which that was
 * computed. */
void train_apply(struct train *train, int64_t step, double norm);

/* ---- pipeline.c ---- */

int pipeline_run(struct train *train, int64_t step, struct err *err);
int64_t pipeline_sample(const struct train *train, int64_t step, int micro_batch,
                        int sequence);

/* ---- sync.c ---- */

void commit_open(struct train *train);
void commit_close(struct train *train);
void commit_post(struct train *train, int64_t step);
int sync_reduce(struct train *train, int64_t step, struct err *err);
/* Send ours, wait for all; the values of the step. */
struct commit_result {
    double loss, norm;
    int64_t tokens;
    uint64_t samples;
};
int commit_exchange(struct train *train, int64_t step, struct commit_result *out,
                    struct err *err);
/* Its last part: what is in the messages, in one order of addition, whoever holds what.
 * ERR_WIRE: one is of another step, or has numbers that no step has. */
int commit_add_up(const struct train *train, int64_t step, struct commit_result *out,
                  struct err *err);

/* ---- snapshot.c ---- */

struct held *held_new(struct train *train, int first_layer, int layers, struct err *err);
void held_free(struct train *train, struct held *held);
/* The same apart from the list: never a holding. */
struct held *part_new(const struct model_shape *shape, int first_layer, int layers,
                      struct err *err);
void part_free(struct held *part);
void held_free_all(struct train *train);
void held_copy_stage(struct train *train, struct held *held);
const float *held_tensor(const struct model_shape *shape, const struct held *held,
                         int tensor, enum state_kind kind);
/* A copy that has the layer of this state, NULL: none. */
const struct held *held_find(const struct train *train, const struct state_name *name,
                             int layer);
/* Is this what peer's copy of state `due` may begin with? ERR_WIRE. */
int copy_header_check(const struct copy_header *header, const struct state_name *due,
                      int peer, struct err *err);
/* All copies of a step of the newest epoch are complete. */
void held_copied(struct train *train, int64_t step);
void snapshot_holdings(const struct train *train, struct progress *out);
bool snapshot_overwritable(const struct train *train, const struct held *held);

/* ---- snapshot_flow.c ---- */

bool copy_due(const struct train *train, int64_t step);
bool checkpoint_due(const struct train *train, int64_t step);
int flow_open(struct train *train, struct err *err);
void flow_close(struct train *train);
/* After a step was applied: snapshot and send when it is due. May wait for a buffer. */
int flow_step(struct train *train, int64_t step, struct err *err);
/* Take in what has come or gone in the background; never blocks. */
void flow_pump(struct train *train);
bool flow_idle(const struct train *train); /* nothing of ours is on its way */
void *flow_writer(void *train);            /* the writer's thread */
void flow_written(struct train *train);

/* ---- last_write.c ---- */

/* How long to try, by the environment; ERR_USAGE. */
int last_write_setup(struct last_write *last, struct err *err);
/* It could not be written. True: it is kept, tried again, and that is said; false: it is
 * not the last step's, or that is given up. */
bool last_write_failed(struct train *train, const struct write_job *job);
/* It was written: the other gatherers wait no more. */
void last_write_done(struct train *train, const struct write_job *job);
/* Try again when it is time; never blocks. */
void last_write_pump(struct train *train);
/* The epoch ends, and its operations are over; the run is given up. */
void last_write_close(struct train *train);
void last_write_forget(struct train *train);

#endif
