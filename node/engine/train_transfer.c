#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Floats of a layer's own tensors, side by side as every arena has them. */
int64_t
layer_floats(const struct model_shape *shape, int layer)
{
    struct stage_spec spec = {
        .first_layer = layer, .layers = 1, .micro_batch = 1, .in_flight = 1};
    struct stage_layout layout;
    workload_stage_layout(shape, &spec, &layout);
    return layout.weights - workload_weight_place(shape, &layout, layout.first_tensor);
}

/* A layer as the receiver needs it: with a copy of wte when it holds the head and not
 * layer 0. */
struct piece {
    int tensor; /* first of its tensors */
    int64_t floats;
};

static int
pieces_of(const struct train *train, int layer, int to, struct piece pieces[2])
{
    const struct train_epoch *epoch = train->epoch;
    const struct model_shape *shape = &train->shape;
    int count, stage = -1, pipeline = -1;
    workload_layer_tensors(shape, layer, &pieces[0].tensor, &count);
    pieces[0].floats = layer_floats(shape, layer);
    if (layer != workload_layers(shape) - 1)
        return 1;
    must(plan_place(&epoch->plan, to, &stage, &pipeline));
    if (epoch->plan.stages[stage].first_layer == 0)
        return 1;
    pieces[1] = (struct piece){0, (int64_t)shape->vocabulary * shape->hidden};
    return 2;
}

static uint64_t
piece_tag(int layer, int piece, int kind)
{
    return ((uint64_t)layer * 2 + (uint64_t)piece) * STATE_KINDS + (uint64_t)kind;
}

/* ---- where it is ---- */

static int
open_checkpoint(struct train *train, struct handover *handover, struct err *err)
{
    if (handover->checkpoint)
        return 0;
    struct checkpoint_info info = {0};
    handover->checkpoint = checkpoint_open(train->disk_path, &info, err);
    if (!handover->checkpoint)
        return -1;
    const struct state_name found = {info.step, info.lineage}, base = train_base(train);
    bool ours = memcmp(&info.shape, &train->shape, sizeof(info.shape)) == 0;
    checkpoint_info_release(&info);
    if (!ours)
        return err_set(err, ERR_CORRUPT,
                       "checkpoint \"%s\" is of another model than the job's",
                       train->disk_path);
    if (!state_same(&found, &base))
        return err_set(err, ERR_CORRUPT,
                       "checkpoint \"%s\" is of step %lld as epoch %llu computed it, "
                       "expected step %lld of epoch %llu",
                       train->disk_path, (long long)found.step,
                       (unsigned long long)found.lineage.epoch, (long long)base.step,
                       (unsigned long long)base.lineage.epoch);
    return 0;
}

/* A piece from disk, its tensors as in an arena. */
static int
read_piece(struct train *train, struct handover *handover, const struct piece *piece,
           int kind, float *out, struct err *err)
{
    struct stage_spec spec = {.first_layer = 0,
                              .layers = workload_layers(&train->shape),
                              .micro_batch = 1,
                              .in_flight = 1};
    struct stage_layout layout;
    if (open_checkpoint(train, handover, err))
        return -1;
    workload_stage_layout(&train->shape, &spec, &layout);
    int64_t start = workload_weight_place(&train->shape, &layout, piece->tensor);
    for (int t = piece->tensor; t < layout.tensors; t++) {
        int64_t at = workload_weight_place(&train->shape, &layout, t) - start;
        if (at >= piece->floats)
            break;
        if (checkpoint_tensor(handover->checkpoint, t, kind, out + at, err))
            return -1;
    }
    return 0;
}

/* In memory: the live stage, what was moved out of the one before, or a copy. */
static const float *
find_piece(struct train *train, const struct transfer *transfer,
           const struct piece *piece, int kind)
{
    const struct held *held = train->moved;
    const struct state_name base = train_base(train);
    if (transfer->source == SOURCE_LIVE && !train->live_at_base)
        return NULL;
    if (transfer->source == SOURCE_COPY)
        held = held_find(train, &base, transfer->layer);
    else if (!held)
        return stage_state(train->stage, piece->tensor, (enum state_kind)kind);
    return held ? held_tensor(&train->shape, held, piece->tensor, (enum state_kind)kind)
                : NULL;
}

static int
not_here(const struct train *train, const struct transfer *transfer, struct err *err)
{
    return err_set(
        err, ERR_CORRUPT,
        "layer %d of step %lld is to come from node %d, which does not have it",
        transfer->layer, (long long)train->epoch->recovery.base_step, transfer->from);
}

/* ---- coming and going ---- */

static void
post_receives(struct train *train, const struct transfer *transfer,
              struct handover *handover)
{
    struct piece pieces[2];
    int count = pieces_of(train, transfer->layer, transfer->to, pieces);
    for (int p = 0; p < count; p++)
        for (int kind = 0; kind < STATE_KINDS; kind++) {
            float *to =
                stage_state(train->stage, pieces[p].tensor, (enum state_kind)kind);
            int i = handover->receives_count++;
            handover->peers[i] = transfer->from;
            handover->receives[i] =
                bulk_receive(train_port(train, BULK_STATE), transfer->from, BULK_STATE,
                             piece_tag(transfer->layer, p, kind), to,
                             (size_t)pieces[p].floats * sizeof(float));
        }
}

void
handover_send(struct train *train, struct handover *handover, int peer, uint64_t tag,
              const void *data, size_t bytes)
{
    must(handover->sends_count < handover->sends_room);
    int i = handover->sends_count++;
    handover->sends_to[i] = peer;
    handover->sends[i] =
        bulk_send(train_port(train, BULK_STATE), peer, BULK_STATE, tag, data, bytes);
}

static int
wait_sends(struct train *train, struct handover *handover, struct err *err)
{
    for (int i = 0; i < handover->sends_count; i++)
        if (train_wait(train, BULK_STATE, &handover->sends[i], WAIT_STATE,
                       handover->sends_to[i], err))
            return -1;
    handover->sends_count = 0;
    return 0;
}

/* A layer from disk goes through one area, so that a node that gives all needs little
 * memory. */
static int
give_from_disk(struct train *train, struct handover *handover, const struct piece *piece,
               int peer, uint64_t tag, int kind, struct err *err)
{
    if (wait_sends(train, handover, err))
        return -1;
    size_t bytes = (size_t)piece->floats * sizeof(float);
    if (handover->stage_area_bytes < bytes) {
        arena_release(handover->stage_area, handover->stage_area_bytes);
        handover->stage_area = alloc_arena(bytes);
        handover->stage_area_bytes = handover->stage_area ? bytes : 0;
        if (!handover->stage_area)
            return err_set(err, ERR_LIMIT, "no memory to read a layer of %zu bytes",
                           bytes);
    }
    if (read_piece(train, handover, piece, kind, handover->stage_area, err))
        return -1;
    handover_send(train, handover, peer, tag, handover->stage_area, bytes);
    return 0;
}

static int
give(struct train *train, const struct transfer *transfer, struct handover *handover,
     struct err *err)
{
    struct piece pieces[2];
    int count = pieces_of(train, transfer->layer, transfer->to, pieces);
    for (int p = 0; p < count; p++)
        for (int kind = 0; kind < STATE_KINDS; kind++) {
            uint64_t tag = piece_tag(transfer->layer, p, kind);
            if (transfer->source == SOURCE_DISK) {
                if (give_from_disk(train, handover, &pieces[p], transfer->to, tag, kind,
                                   err))
                    return -1;
                continue;
            }
            const float *from = find_piece(train, transfer, &pieces[p], kind);
            if (!from)
                return not_here(train, transfer, err);
            handover_send(train, handover, transfer->to, tag, from,
                          (size_t)pieces[p].floats * sizeof(float));
        }
    return 0;
}

static int
copy_here(struct train *train, const struct transfer *transfer, struct handover *handover,
          struct err *err)
{
    struct piece pieces[2];
    int count = pieces_of(train, transfer->layer, transfer->to, pieces);
    if (transfer->source == SOURCE_SEED ||
        (transfer->source == SOURCE_LIVE && !train->moved && train->live_at_base))
        return 0;
    for (int p = 0; p < count; p++)
        for (int kind = 0; kind < STATE_KINDS; kind++) {
            float *to =
                stage_state(train->stage, pieces[p].tensor, (enum state_kind)kind);
            if (transfer->source == SOURCE_DISK) {
                if (read_piece(train, handover, &pieces[p], kind, to, err))
                    return -1;
                continue;
            }
            const float *from = find_piece(train, transfer, &pieces[p], kind);
            if (!from)
                return not_here(train, transfer, err);
            memcpy(to, from, (size_t)pieces[p].floats * sizeof(float));
        }
    return 0;
}

/* How long all that is to come may take: a wait that is no longer is not a stall. */
static void
expect_waits(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    const struct cluster *cluster = &epoch->cluster;
    int64_t ns = 0;
    for (int i = 0; i < epoch->recovery.transfers_count; i++) {
        const struct transfer *transfer = &epoch->recovery.transfers[i];
        if (transfer->from == transfer->to)
            continue;
        int64_t bytes = layer_floats(&train->shape, transfer->layer) * 4 * STATE_KINDS;
        ns = ns_plus(ns, cluster_send_ns(cluster, cluster->nodes[transfer->from].zone,
                                         cluster->nodes[transfer->to].zone, bytes));
    }
    for (int n = 0; epoch->recovery.data_from && n < cluster->nodes_count; n++) {
        int from = epoch->recovery.data_from[n];
        if (from >= 0 && from != n)
            ns = ns_plus(ns,
                         cluster_send_ns(cluster, cluster->nodes[from].zone,
                                         cluster->nodes[n].zone, epoch->job.data_bytes));
    }
    /* Who has its state early waits for those who have not. */
    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        int64_t *ms = &train->waits[kind].interval_ms;
        *ms = ns / 500000 > STALL_MS_MAX - *ms ? STALL_MS_MAX : *ms + ns / 500000;
    }
}

static int
carry_out(struct train *train, struct handover *handover, struct err *err)
{
    const struct recovery *recovery = &train->epoch->recovery;
    int self = train->epoch->self;
    for (int i = 0; i < recovery->transfers_count; i++) {
        const struct transfer *transfer = &recovery->transfers[i];
        if (transfer->to == self && transfer->from != self)
            post_receives(train, transfer, handover);
    }
    if (data_post(train, handover, err))
        return -1;
    for (int i = 0; i < recovery->transfers_count; i++) {
        const struct transfer *transfer = &recovery->transfers[i];
        if (transfer->from != self)
            continue;
        if (transfer->to == self ? copy_here(train, transfer, handover, err)
                                 : give(train, transfer, handover, err))
            return -1;
    }
    if (data_give(train, handover, err))
        return -1;
    for (int i = 0; i < handover->receives_count; i++)
        if (train_wait(train, BULK_STATE, &handover->receives[i], WAIT_STATE,
                       handover->peers[i], err))
            return -1;
    if (data_take(train, handover, err))
        return -1;
    return wait_sends(train, handover, err);
}

int
transfer_all(struct train *train, struct err *err)
{
    const struct recovery *recovery = &train->epoch->recovery;
    int self = train->epoch->self, in = 0, out = 0;
    bool seed = false;
    for (int i = 0; i < recovery->transfers_count; i++) {
        const struct transfer *transfer = &recovery->transfers[i];
        in += transfer->to == self && transfer->from != self;
        out += transfer->from == self && transfer->to != self;
        seed |= transfer->to == self && transfer->source == SOURCE_SEED;
    }
    expect_waits(train);
    if (seed)
        stage_init(train->stage, train->epoch->job.seed);
    struct handover handover = {.data_file = -1};
    size_t messages = (size_t)2 * STATE_KINDS;
    handover.receives = xcalloc((size_t)in * messages + 1, sizeof(uint32_t));
    handover.peers = xcalloc((size_t)in * messages + 1, sizeof(int));
    handover.sends_room = out * (int)messages + train->epoch->cluster.nodes_count;
    handover.sends = xcalloc((size_t)handover.sends_room + 1, sizeof(uint32_t));
    handover.sends_to = xcalloc((size_t)handover.sends_room + 1, sizeof(int));
    int failed = carry_out(train, &handover, err);
    if (failed) {
        /* Said first: what is on its way to or from memory that goes ends when the epoch
         * is halted. */
        train_fail(train, "epoch", err);
        err->code = ERR_STOPPED;
        bulk_port_drain(train_port(train, BULK_STATE));
    }
    data_release(train, &handover);
    checkpoint_close(handover.checkpoint);
    arena_release(handover.stage_area, handover.stage_area_bytes);
    free(handover.receives);
    free(handover.peers);
    free(handover.sends);
    free(handover.sends_to);
    return failed;
}
