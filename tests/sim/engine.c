/*
 * engine.c - an engine that counts steps (node/engine/train.h): it keeps the protocol of
 * the commit point and reports as the real one does, but weights are one number, the
 * chain of the steps that were applied to them.
 *
 *     gradients of step s:  a hash of (chain, epoch, stage, pipeline)
 *     norm of step s:       a hash of all workers' gradients
 *     chain after step s:   a hash of (chain, s, norm)
 *
 * So a step that is lost, applied twice, or applied with other gradients elsewhere shows
 * in the chain, and the sum of sample hashes shows each sample that is left out or counted
 * twice.
 */
#include "node/engine/train.h"
#include "planner/schedule.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/mutant.h"
#include "tests/sim/plane.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ORDERS_MAX = 64,
    REPORTS_KEPT = 128,
    COPIES_MAX = 32,
    ENGINE_FD = 3 << 22,
    ORDER_US = 300,
    FRESH_LOOK_US = 5 * MS,
    STALL_US = SECOND
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
};

/* A run of layers at one step, in memory. */
struct copy {
    int first_layer, layers;
    int64_t step;
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
    struct train_report reports[REPORTS_KEPT];
    size_t reports_first, reports_count;

    struct id job, expected, data_expected;
    bool has_data;
    struct copy disk; /* the newest checkpoint of what is expected; step -1: none */

    bool live;
    int first_layer, layers; /* of the live stage */
    int64_t applied;
    bool prepared;
    uint64_t computed_epoch, norm_bits, samples_hash, chain;
    int copies_count;
    struct copy copies[COPIES_MAX];
    int64_t copied_step;

    struct train_epoch *epoch;
    uint64_t epoch_number;
    enum phase phase;
    int stage, pipeline; /* -1: no part */
    bool sent, computed, done_due, stopped;
    int64_t began_us, waits_us, stall_us, compute_us;
    uint64_t work;    /* so that timers of before are void */
    int64_t gathered; /* step of the newest checkpoint that was written */
    struct copy parts[STAGES_MAX];
};

/* ---- reports ---- */

static void
report(struct train *train, struct train_report *said)
{
    said->epoch = train->epoch_number;
    if (train->reports_count == REPORTS_KEPT || train->host->dying) {
        free(said->progress);
        free(said->profile);
        free(said->path);
        return;
    }
    train->reports[(train->reports_first + train->reports_count++) % REPORTS_KEPT] =
        *said;
    if (train->reports_count == 1)
        loop_ready(train->host, ENGINE_FD + train->host->index);
}

int
train_report_fd(const struct train *train)
{
    return ENGINE_FD + train->host->index;
}

bool
train_report_take(struct train *train, struct train_report *said)
{
    if (train->reports_count == 0)
        return false;
    *said = train->reports[train->reports_first];
    train->reports_first = (train->reports_first + 1) % REPORTS_KEPT;
    train->reports_count--;
    return true;
}

static void
fail(struct train *train, const char *what, const char *why)
{
    struct train_report said = {.kind = REPORT_FAILED, .step = train->applied};
    snprintf(said.what, sizeof(said.what), "%s", what);
    err_set(&said.err, ERR_USAGE, "%s", why);
    report(train, &said);
}

/* ---- places ---- */

static bool
place_of(const struct plan *plan, int node, int *stage, int *pipeline)
{
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            if (plan->stages[s].nodes[j] == node) {
                *stage = s;
                *pipeline = j;
                return true;
            }
    *stage = *pipeline = -1;
    return false;
}

static int
layers_of(const struct train_epoch *epoch)
{
    return workload_layers(&epoch->request.shape);
}

static bool
gathers(const struct train_epoch *epoch)
{
    for (int g = 0; g < epoch->duties.gatherers_count; g++)
        if (epoch->duties.gatherers[g] == epoch->self)
            return true;
    return false;
}

/* ---- the disk ---- */

struct checkpoint_file {
    struct id job;
    int64_t step;
    int64_t layers;
    uint64_t chain, samples_hash;
    struct id hash; /* of all before */
};

static void
checkpoint_path(const struct train *train, const struct id *job, char path[PATH_BYTES_MAX])
{
    char text[ID_TEXT_SIZE];
    snprintf(path, PATH_BYTES_MAX, "%s/checkpoints/%.16s", train->folder,
             id_text(job, text));
}

static void
data_path(const struct train *train, const struct id *data, char path[PATH_BYTES_MAX])
{
    char text[ID_TEXT_SIZE];
    snprintf(path, PATH_BYTES_MAX, "%s/data/%.16s", train->folder, id_text(data, text));
}

/* The newest checkpoint of the job that is expected, and whether its data set is here. */
static void
look_at_disk(struct train *train)
{
    char path[PATH_BYTES_MAX];
    struct buf bytes = {0};
    struct err err;
    struct checkpoint_file file;
    struct id hash;
    train->disk.step = -1;
    data_path(train, &train->data_expected, path);
    train->has_data = !id_empty(&train->data_expected) && file_exists(path);
    if (id_empty(&train->expected))
        return;
    checkpoint_path(train, &train->expected, path);
    if (file_exists(path) && file_read(path, sizeof(file), &bytes, &err) == 0 &&
        bytes.len == sizeof(file)) {
        memcpy(&file, bytes.data, sizeof(file));
        key_hash(&file, offsetof(struct checkpoint_file, hash), &hash);
        if (id_equal(&hash, &file.hash) && id_equal(&file.job, &train->expected))
            train->disk = (struct copy){.layers = (int)file.layers,
                                        .step = file.step,
                                        .chain = file.chain,
                                        .samples_hash = file.samples_hash};
    }
    buf_release(&bytes);
}

void
engine_put_data(struct host *host, const struct id *data)
{
    char name[64], text[ID_TEXT_SIZE];
    snprintf(name, sizeof(name), "data/%.16s", id_text(data, text));
    disk_put(host, name, "data", 4);
}

static void
write_checkpoint(struct train *train, int64_t step, uint64_t chain, uint64_t samples_hash)
{
    char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
    struct checkpoint_file file;
    struct err err;
    memset(&file, 0, sizeof(file));
    file.job = train->job;
    file.step = step;
    file.layers = layers_of(train->epoch);
    file.chain = chain;
    file.samples_hash = samples_hash;
    key_hash(&file, offsetof(struct checkpoint_file, hash), &file.hash);
    checkpoint_path(train, &train->job, path);
    snprintf(folder, sizeof(folder), "%s/checkpoints", train->folder);
    if (file_make_folder(folder, &err) ||
        file_write(path, &file, sizeof(file), 0600, &err)) {
        fail(train, "checkpoint", err.msg);
        return;
    }
    look_at_disk(train);
    struct train_report said = {
        .kind = REPORT_CHECKPOINT, .step = step, .path = xstrdup(path)};
    report(train, &said);
}

/* ---- copies ---- */

static void
copy_remove(struct train *train, int at)
{
    train->copies_count--;
    memmove(&train->copies[at], &train->copies[at + 1],
            (size_t)(train->copies_count - at) * sizeof(train->copies[0]));
}

static void
copy_add(struct train *train, const struct copy *copy)
{
    for (int i = train->copies_count - 1; i >= 0; i--)
        if (train->copies[i].first_layer == copy->first_layer &&
            train->copies[i].layers == copy->layers &&
            train->copies[i].step == copy->step)
            copy_remove(train, i);
    if (train->copies_count == COPIES_MAX)
        copy_remove(train, 0);
    train->copies[train->copies_count++] = *copy;
}

/* All copies of `step` are complete: what is older has done its duty. */
static void
copied(struct train *train, int64_t step)
{
    if (step <= train->copied_step)
        return;
    train->copied_step = step;
    for (int i = train->copies_count - 1; i >= 0; i--)
        if (train->copies[i].step < step)
            copy_remove(train, i);
}

static struct copy
live_copy(const struct train *train)
{
    return (struct copy){.first_layer = train->first_layer,
                         .layers = train->layers,
                         .step = train->applied,
                         .chain = train->chain,
                         .samples_hash = train->samples_hash};
}

static bool
has_layer(const struct copy *copy, int64_t step, int layer)
{
    return copy->step == step && layer >= copy->first_layer &&
           layer < copy->first_layer + copy->layers;
}

/* What this node has of a layer at a step. */
static const struct copy *
find_layer(const struct train *train, int64_t step, int layer)
{
    for (int i = 0; i < train->copies_count; i++)
        if (has_layer(&train->copies[i], step, layer))
            return &train->copies[i];
    return has_layer(&train->disk, step, layer) ? &train->disk : NULL;
}

static void
drop_job(struct train *train)
{
    memset(&train->job, 0, sizeof(train->job));
    train->live = train->prepared = false;
    train->applied = train->copied_step = -1;
    train->norm_bits = train->samples_hash = train->computed_epoch = train->chain = 0;
    train->copies_count = 0;
}

/* ---- what a halted node says ---- */

static void
add_holding(struct progress *out, enum state_source source, const struct copy *copy)
{
    if (out->holdings_count < HOLDINGS_MAX)
        out->holdings[out->holdings_count++] =
            (struct holding){.source = source,
                             .step = copy->step,
                             .first_layer = copy->first_layer,
                             .layers = copy->layers,
                             .samples_hash = copy->samples_hash};
}

static void
say_halted(struct train *train)
{
    struct progress *out = xcalloc(1, sizeof(*out));
    bool ours = !id_empty(&train->job) && id_equal(&train->job, &train->expected);
    char path[PATH_BYTES_MAX];
    data_path(train, &train->data_expected, path);
    train->has_data = !id_empty(&train->data_expected) && file_exists(path);
    out->reported = true;
    out->applied = -1;
    out->has_data = train->has_data;
    if (ours) {
        out->applied = train->applied;
        out->prepared = train->prepared;
        out->epoch = train->computed_epoch;
        out->norm_bits = train->norm_bits;
        out->samples_hash = train->samples_hash;
        if (train->live) {
            struct copy live = live_copy(train);
            add_holding(out, SOURCE_LIVE, &live);
        }
    }
    if (train->disk.step >= 0)
        add_holding(out, SOURCE_DISK, &train->disk);
    for (int i = train->copies_count - 1; ours && i >= 0; i--)
        if (train->copies[i].step == train->copied_step)
            add_holding(out, SOURCE_COPY, &train->copies[i]);
    for (int i = train->copies_count - 1; ours && i >= 0; i--)
        if (train->copies[i].step != train->copied_step)
            add_holding(out, SOURCE_COPY, &train->copies[i]);
    if (train->host->lies) { /* it knows less than it does */
        out->prepared = false;
        out->has_data = false;
    }
    struct train_report said = {
        .kind = REPORT_HALTED, .step = train->applied, .progress = out};
    report(train, &said);
}

/* ---- an epoch begins ---- */

static uint64_t
chain_after(uint64_t chain, int64_t step, uint64_t norm)
{
    return rng_mix(rng_mix(chain, (uint64_t)step), norm);
}

static void
apply(struct train *train, int64_t step, uint64_t norm, uint64_t samples_hash)
{
    train->chain = chain_after(train->chain, step, norm);
    train->applied = step;
    train->prepared = false;
    train->norm_bits = norm;
    train->samples_hash = samples_hash;
    check_applied(train->host, &train->epoch->job, train->computed_epoch,
                  train->epoch_number, step, train->chain, samples_hash);
}

static void
bring_to_base(struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    if (train->live && train->prepared && recovery->apply_prepared &&
        train->computed_epoch == recovery->prepared_epoch &&
        train->applied == recovery->base_step - 1)
        apply(train, recovery->base_step, recovery->norm_bits, recovery->samples_hash);
    train->prepared = false;
    train->samples_hash = recovery->samples_hash;
    train->live = train->live && train->applied == recovery->base_step;
    if (train->applied != recovery->base_step) {
        train->computed_epoch = 0;
        train->norm_bits = recovery->norm_bits;
        train->applied = recovery->base_step;
    }
    train->copied_step = recovery->copied_step;
    for (int i = train->copies_count - 1; i >= 0; i--)
        if (train->copies[i].step > recovery->base_step)
            copy_remove(train, i);
}

static void
give(struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    int self = train->epoch->self;
    for (int i = 0; i < recovery->transfers_count; i++) {
        const struct transfer *transfer = &recovery->transfers[i];
        if (transfer->from != self || transfer->to == self)
            continue;
        const struct copy *copy = find_layer(train, recovery->base_step, transfer->layer);
        if (!copy) {
            world_breach("%s is asked for layer %d of step %lld, which it has not",
                         train->host->address, transfer->layer,
                         (long long)recovery->base_step);
            return;
        }
        plane_send(train->options.bulk, transfer->to,
                   &(struct plane_message){.kind = PLANE_STATE,
                                           .step = recovery->base_step,
                                           .tag = transfer->layer,
                                           .chain = copy->chain});
    }
    for (int n = 0; n < train->epoch->cluster.nodes_count; n++)
        if (recovery->data_from[n] == self && n != self)
            plane_send(train->options.bulk, n,
                       &(struct plane_message){.kind = PLANE_DATA});
}

static void
begin(struct train *train, struct train_epoch *epoch)
{
    train_epoch_free(train->epoch);
    train->epoch = epoch;
    train->epoch_number = epoch->epoch;
    train->stopped = false;
    if (!id_equal(&train->expected, &epoch->job.id) ||
        !id_equal(&train->data_expected, &epoch->job.data)) {
        train->expected = epoch->job.id;
        train->data_expected = epoch->job.data;
        look_at_disk(train);
    }
    if (!id_equal(&train->job, &epoch->job.id))
        drop_job(train);
    train->job = epoch->job.id;
    bring_to_base(train);
    place_of(&epoch->plan, epoch->self, &train->stage, &train->pipeline);
    struct train_report said = {.kind = REPORT_MEMORY, .predicted_bytes = 1};
    report(train, &said);
    /* What we have stays as a copy until the first step is applied. */
    if (train->live) {
        struct copy live = live_copy(train);
        copy_add(train, &live);
    }
    give(train);
    for (int s = 0; s < STAGES_MAX; s++)
        train->parts[s].step = -1;
    train->gathered = -1;
    train->computed = false;
    train->done_due = train->stage >= 0 || gathers(epoch);
    train->phase = train->stage >= 0 ? PHASE_FETCH : PHASE_REST;
    train->began_us = train->waits_us = world.now_us;
    train->stall_us = STALL_US;
}

/* All that our stage needs, from others and from ourselves; true: it is whole. */
static bool
fetch(struct train *train, int *missing)
{
    const struct train_epoch *epoch = train->epoch;
    const struct recovery *recovery = &epoch->recovery;
    uint64_t chain = check_seed_chain(&epoch->job);
    bool first = true;
    for (int i = 0; i < recovery->transfers_count; i++) {
        const struct transfer *transfer = &recovery->transfers[i];
        if (transfer->to != epoch->self)
            continue;
        uint64_t found = check_seed_chain(&epoch->job);
        if (transfer->source != SOURCE_SEED) {
            const struct plane_message *message = NULL;
            const struct copy *copy = NULL;
            if (transfer->from == epoch->self)
                copy = find_layer(train, recovery->base_step, transfer->layer);
            else
                message =
                    plane_find(train->options.bulk, PLANE_STATE, transfer->from,
                               recovery->base_step, transfer->layer);
            if (transfer->from == epoch->self && !copy) {
                world_breach("%s is to have layer %d of step %lld, and has not",
                             train->host->address, transfer->layer,
                             (long long)recovery->base_step);
                return false;
            }
            *missing = transfer->from;
            if (!copy && !message)
                return false;
            found = copy ? copy->chain : message->chain;
        }
        if (!first && found != chain)
            world_breach("%s gets layers of different steps for its base step %lld",
                         train->host->address, (long long)recovery->base_step);
        chain = found;
        first = false;
    }
    int from = recovery->data_from[epoch->self];
    *missing = from;
    if (from >= 0 && from != epoch->self &&
        !plane_find(train->options.bulk, PLANE_DATA, from, -1, -1))
        return false;
    train->chain = chain;
    return true;
}

static void
fetched(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
    struct err err;
    if (epoch->recovery.data_from[epoch->self] != epoch->self) {
        snprintf(folder, sizeof(folder), "%s/data", train->folder);
        data_path(train, &epoch->job.data, path);
        if (file_make_folder(folder, &err) || file_write(path, "data", 4, 0600, &err)) {
            fail(train, "epoch", err.msg);
            train->phase = PHASE_IDLE;
            return;
        }
        train->has_data = true;
    }
    train->live = true;
    train->first_layer = epoch->plan.stages[train->stage].first_layer;
    train->layers = epoch->plan.stages[train->stage].layers;
    check_base(train->host, &epoch->job, epoch->epoch, train->applied, train->chain);
}

/* ---- a step ---- */

static int64_t
step_us(struct train *train)
{
    int64_t us = 15 * MS + (int64_t)rng_below(&train->host->rng, 40 * MS);
    return us * 100 / train->host->speed_percent;
}

/* The hash of the samples that this pipeline draws for a step. */
static uint64_t
own_samples(const struct train *train, int64_t step)
{
    const struct train_epoch *epoch = train->epoch;
    if (train->stage != 0)
        return 0;
    int first = plan_first_sample(&epoch->plan, train->pipeline);
    int count = epoch->plan.micro_batches[train->pipeline] * epoch->plan.micro_batch;
    if (SIM_MUTANT(samples) && train->pipeline > 0)
        first--;
    return check_samples(&epoch->job, step, first, count);
}

static uint64_t
own_norm(const struct train *train)
{
    return rng_mix(rng_mix(train->chain, train->epoch_number),
                   (uint64_t)train->stage * 1000 + (uint64_t)train->pipeline);
}

static void computed(struct event *event);

static void
compute(struct train *train)
{
    train->phase = PHASE_COMPUTE;
    train->sent = false;
    train->began_us = world.now_us;
    if (!train->computed) {
        struct train_report said = {.kind = REPORT_COMPUTE, .step = train->applied + 1};
        report(train, &said);
        train->computed = true;
    }
    train->compute_us = step_us(train);
    world_in(train->compute_us, train->host, computed)->a = (int64_t)++train->work;
}

static void
computed(struct event *event)
{
    struct train *train = here->train;
    if (!train || train->work != (uint64_t)event->a || train->phase != PHASE_COMPUTE)
        return;
    train->phase = PHASE_WORK;
    train->waits_us = world.now_us;
    train->stall_us = STALL_US;
    engine_look();
}

/* Those with whom activations, gradients and reductions are exchanged. */
static bool
near(const struct train *train, int stage, int pipeline)
{
    return (pipeline == train->pipeline && abs(stage - train->stage) == 1) ||
           (stage == train->stage && pipeline != train->pipeline);
}

/* To the neighbours or to all workers. */
static void
tell(struct train *train, const struct plane_message *message)
{
    const struct plan *plan = &train->epoch->plan;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            if (plan->stages[s].nodes[j] != train->epoch->self &&
                (message->kind == PLANE_COMMIT || near(train, s, j)))
                plane_send(train->options.bulk, plan->stages[s].nodes[j], message);
}

/* Is everybody's message of this kind here? `missing`: the first who is not. */
static bool
all_here(const struct train *train, enum plane_kind kind, int64_t step, int *missing)
{
    const struct plan *plan = &train->epoch->plan;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++) {
            *missing = plan->stages[s].nodes[j];
            if (*missing == train->epoch->self ||
                (kind == PLANE_WORK && !near(train, s, j)))
                continue;
            if (!plane_find(train->options.bulk, kind, *missing, step, -1))
                return false;
        }
    return true;
}

/* Norm and samples of the step, from everybody's message. */
static void
sum_up(const struct train *train, int64_t step, uint64_t *norm, uint64_t *samples)
{
    const struct plan *plan = &train->epoch->plan;
    *norm = *samples = 0;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++) {
            int node = plan->stages[s].nodes[j];
            const struct plane_message *message =
                plane_find(train->options.bulk, PLANE_COMMIT, node, step, -1);
            if (node == train->epoch->self) {
                *norm = rng_mix(*norm, own_norm(train));
                *samples += own_samples(train, step);
                continue;
            }
            if (!message)
                continue;
            if (message->epoch != train->epoch_number)
                world_breach("I6: %s in epoch %llu takes in data of epoch %llu",
                             train->host->address,
                             (unsigned long long)train->epoch_number,
                             (unsigned long long)message->epoch);
            if (message->chain != train->chain)
                world_breach("step %lld: %s starts from other weights than node %d of "
                             "epoch %llu",
                             (long long)step, train->host->address, node,
                             (unsigned long long)train->epoch_number);
            *norm = rng_mix(*norm, message->norm);
            *samples += message->samples;
        }
}

/* ---- copies and checkpoints ---- */

static bool
checkpoint_due(const struct train_epoch *epoch, int64_t step)
{
    return step == epoch->job.steps ||
           (epoch->job.checkpoint_every > 0 && step % epoch->job.checkpoint_every == 0);
}

static bool
copy_due(const struct train_epoch *epoch, int64_t step)
{
    if (epoch->job.copy_every <= 0)
        return false;
    return step % epoch->job.copy_every == 0 || checkpoint_due(epoch, step) ||
           (epoch->recovery.copy_soon && step == epoch->recovery.base_step + 1);
}

static void
gathered(struct train *train, int stage, const struct copy *copy)
{
    const struct train_epoch *epoch = train->epoch;
    train->parts[stage] = *copy;
    for (int s = 0; s < epoch->plan.stages_count; s++)
        if (train->parts[s].step != copy->step)
            return;
    write_checkpoint(train, copy->step, copy->chain, copy->samples_hash);
    train->gathered = copy->step;
}

/* After a step, or at the end that a run begins with. */
static void
flow(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    const struct duties *duties = &epoch->duties;
    int64_t step = train->applied;
    bool check = checkpoint_due(epoch, step);
    if (train->stage < 0 || duties->source[train->stage] != epoch->self ||
        (!check && !copy_due(epoch, step)))
        return;
    struct copy own = live_copy(train);
    copy_add(train, &own);
    struct plane_message message = {.kind = PLANE_COPY,
                                    .step = step,
                                    .tag = train->stage,
                                    .first_layer = own.first_layer,
                                    .layers = own.layers,
                                    .chain = own.chain,
                                    .samples = own.samples_hash};
    int keeper = copy_due(epoch, step) ? duties->keeper[train->stage] : -1;
    for (int n = 0; n < epoch->cluster.nodes_count; n++) {
        message.keeps = n == keeper;
        message.gathers = false;
        for (int g = 0; check && g < duties->gatherers_count; g++)
            message.gathers |= duties->gatherers[g] == n;
        if (n == epoch->self && message.gathers)
            gathered(train, train->stage, &own);
        else if (n != epoch->self && (message.keeps || message.gathers))
            plane_send(train->options.bulk, n, &message);
    }
}

static void
take_copies(struct train *train)
{
    struct plane_message taken;
    while (plane_take(train->options.bulk, PLANE_COPY, &taken)) {
        struct copy copy = {.first_layer = taken.first_layer,
                            .layers = taken.layers,
                            .step = taken.step,
                            .chain = taken.chain,
                            .samples_hash = taken.samples};
        if (taken.keeps) {
            copy_add(train, &copy);
            struct train_report said = {
                .kind = REPORT_COPIED, .step = taken.step, .stage = taken.tag};
            report(train, &said);
        }
        if (taken.gathers)
            gathered(train, taken.tag, &copy);
    }
}

static void
rest(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    train->phase = PHASE_REST;
    bool written = !gathers(epoch) || train->gathered == epoch->job.steps;
    if (!train->done_due || !written || (train->stage >= 0 && train->applied < epoch->job.steps))
        return;
    train->done_due = false;
    struct train_report said = {.kind = REPORT_DONE, .step = epoch->job.steps};
    report(train, &said);
}

/* ---- what is next ---- */

static void
stalled(struct train *train, int missing, const char *what)
{
    int64_t waited = world.now_us - train->waits_us;
    if (waited < train->stall_us)
        return;
    train->stall_us *= 2;
    struct train_report said = {
        .kind = REPORT_STALL, .peer = missing, .waited_ms = waited / 1000};
    snprintf(said.what, sizeof(said.what), "%s", what);
    report(train, &said);
}

static void
look_again(struct event *event)
{
    struct train *train = here->train;
    if (train && train->work == (uint64_t)event->a)
        engine_look();
}

static bool
fresh(const struct train *train)
{
    return clock_ms() - atomic_load(train->options.fresh_at_ms) <=
           train->options.fresh_ms;
}

static void
say_step(struct train *train)
{
    struct train_report said = {.kind = REPORT_STEP,
                                .step = train->applied,
                                .loss = 3,
                                .norm = 1,
                                .tokens = train->epoch->request.sequences,
                                .step_us = world.now_us - train->began_us,
                                .compute_us = train->compute_us,
                                .predicted_compute_us = 35 * MS,
                                .samples_hash = train->samples_hash};
    report(train, &said);
}

/* Everybody's norms are here, or a mutant does not care. */
static bool
finish_step(struct train *train)
{
    int64_t step = train->applied + 1;
    int missing = -1;
    if (!all_here(train, PLANE_COMMIT, step, &missing) && !SIM_MUTANT(early)) {
        stalled(train, missing, "norms");
        return false;
    }
    if (!fresh(train)) {
        world_in(FRESH_LOOK_US, train->host, look_again)->a = (int64_t)train->work;
        return false;
    }
    uint64_t norm, samples;
    sum_up(train, step, &norm, &samples);
    apply(train, step, norm, rng_mix(train->samples_hash, samples));
    plane_drop(train->options.bulk, PLANE_COMMIT, step + 1);
    plane_drop(train->options.bulk, PLANE_WORK, step + 1);
    say_step(train);
    flow(train);
    return true;
}

static uint64_t
workers(const struct train *train)
{
    const struct plan *plan = &train->epoch->plan;
    uint64_t mask = 0;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            mask |= UINT64_C(1) << plan->stages[s].nodes[j];
    return mask;
}

static void
commit(struct train *train)
{
    int64_t step = train->applied + 1;
    train->prepared = true;
    train->computed_epoch = train->epoch_number;
    check_prepared(train->host, &train->job, train->epoch_number, step, train->epoch->self,
                   workers(train));
    tell(train, &(struct plane_message){.kind = PLANE_COMMIT,
                                        .step = step,
                                        .chain = train->chain,
                                        .norm = own_norm(train),
                                        .samples = own_samples(train, step)});
    train->phase = PHASE_COMMIT;
    train->waits_us = world.now_us;
    train->stall_us = STALL_US;
}

static void
work(struct train *train)
{
    int64_t step = train->applied + 1;
    int missing = -1;
    if (!train->sent)
        tell(train, &(struct plane_message){
                        .kind = PLANE_WORK, .step = step, .chain = train->chain});
    train->sent = true;
    if (all_here(train, PLANE_WORK, step, &missing))
        commit(train);
    else
        stalled(train, missing, "work");
}

/* A phase of an epoch that was not halted; true: there may be more to do. */
static bool
advance(struct train *train)
{
    enum phase before = train->phase;
    int missing = -1;
    switch (train->phase) {
    case PHASE_FETCH:
        if (!fetch(train, &missing)) {
            stalled(train, missing, "state");
            return false;
        }
        fetched(train);
        if (train->phase == PHASE_IDLE)
            return false;
        if (train->applied < train->epoch->job.steps)
            compute(train);
        else
            flow(train);
        if (train->phase == PHASE_FETCH)
            rest(train);
        return false;
    case PHASE_WORK:
        work(train);
        break;
    case PHASE_COMMIT:
        if (!finish_step(train))
            return false;
        if (train->applied < train->epoch->job.steps)
            compute(train);
        else
            rest(train);
        return false;
    case PHASE_REST:
        rest(train);
        return false;
    case PHASE_IDLE:
    case PHASE_COMPUTE:
        return false;
    }
    return before != train->phase;
}

void
engine_look(void)
{
    struct train *train = here->train;
    if (!train || !train->epoch || train->stopped || here->dying)
        return;
    if (plane_halted(train->options.bulk) ||
        plane_epoch(train->options.bulk) != train->epoch_number) {
        train->stopped = true;
        return;
    }
    take_copies(train);
    while (advance(train) && !world.why[0])
        ;
}

static void
every_second(struct event *event)
{
    (void)event;
    if (!here->train)
        return;
    engine_look();
    world_in(STALL_US, here, every_second);
}

/* ---- orders ---- */

static void
measure(struct train *train)
{
    struct profile *profile = xcalloc(1, sizeof(*profile));
    profile->correction_ppm = 1000000;
    for (int i = 0; i < 4; i++) {
        struct profile_entry *entry = &profile->entries[profile->count++];
        entry->micro_batch = 1 << i;
        for (int k = 0; k < LAYER_KINDS; k++) {
            int64_t ns = (int64_t)(1 << i) * 100000000 / train->host->speed_percent;
            if (train->host->lies)
                ns = ns / 1000 + 1;
            entry->forward_ns[k] = ns;
            entry->backward_ns[k] = 2 * ns;
            entry->update_ns[k] = ns / 8;
        }
    }
    struct train_report said = {.kind = REPORT_PROFILED, .profile = profile};
    report(train, &said);
}

static void
carry_out(struct train *train, struct order *order)
{
    switch (order->kind) {
    case ORDER_EPOCH:
        begin(train, order->epoch);
        engine_look();
        break;
    case ORDER_HALT:
        train_epoch_free(train->epoch);
        train->epoch = NULL;
        train->work++;
        train->phase = PHASE_IDLE;
        say_halted(train);
        break;
    case ORDER_COPIED:
        copied(train, order->step);
        break;
    case ORDER_DROP:
        train_epoch_free(train->epoch);
        train->epoch = NULL;
        train->work++;
        train->phase = PHASE_IDLE;
        drop_job(train);
        memset(&train->expected, 0, sizeof(train->expected));
        memset(&train->data_expected, 0, sizeof(train->data_expected));
        train->disk.step = -1;
        train->has_data = false;
        break;
    case ORDER_PROFILE:
        measure(train);
        break;
    case ORDER_EXPECT:
        train->expected = order->job;
        train->data_expected = order->data;
        look_at_disk(train);
        break;
    }
}

static void
next_order(struct event *event)
{
    struct train *train = here->train;
    (void)event;
    if (!train || train->orders_count == 0)
        return;
    struct order order = train->orders[train->orders_first];
    train->orders_first = (train->orders_first + 1) % ORDERS_MAX;
    train->orders_count--;
    carry_out(train, &order);
}

static void
give_order(struct train *train, const struct order *order)
{
    must(train->orders_count < ORDERS_MAX);
    train->orders[(train->orders_first + train->orders_count++) % ORDERS_MAX] = *order;
    int64_t us = ORDER_US;
    if (order->kind == ORDER_PROFILE)
        us = 80 * MS * 100 / train->host->speed_percent;
    world_in(us, train->host, next_order);
}

void
train_epoch(struct train *train, struct train_epoch **epoch)
{
    give_order(train, &(struct order){.kind = ORDER_EPOCH, .epoch = *epoch});
    *epoch = NULL;
}

void
train_halt(struct train *train)
{
    give_order(train, &(struct order){.kind = ORDER_HALT});
}

void
train_copied(struct train *train, int64_t step)
{
    give_order(train, &(struct order){.kind = ORDER_COPIED, .step = step});
}

void
train_drop(struct train *train)
{
    give_order(train, &(struct order){.kind = ORDER_DROP});
}

void
train_profile(struct train *train, const struct model_shape *shape, int sequences,
              int64_t memory_bytes)
{
    (void)shape;
    (void)memory_bytes;
    give_order(train, &(struct order){.kind = ORDER_PROFILE, .sequences = sequences});
}

void
train_expect(struct train *train, const struct id *job, const struct id *data)
{
    give_order(train, &(struct order){.kind = ORDER_EXPECT, .job = *job, .data = *data});
}

/* ---- its life ---- */

struct train *
train_start(const struct train_options *options, struct err *err)
{
    (void)err;
    struct train *train = xcalloc(1, sizeof(*train));
    train->host = here;
    train->options = *options;
    snprintf(train->folder, sizeof(train->folder), "%s", options->folder);
    train->applied = train->disk.step = train->copied_step = train->gathered = -1;
    here->train = train;
    world_in(STALL_US, here, every_second);
    return train;
}

void
train_stop(struct train *train)
{
    if (!train)
        return;
    train_epoch_free(train->epoch);
    struct train_report said;
    while (train_report_take(train, &said)) {
        free(said.progress);
        free(said.profile);
        free(said.path);
    }
    for (; train->orders_count > 0; train->orders_count--) {
        train_epoch_free(train->orders[train->orders_first].epoch);
        train->orders_first = (train->orders_first + 1) % ORDERS_MAX;
    }
    free(train);
}

void
train_epoch_free(struct train_epoch *epoch)
{
    if (!epoch)
        return;
    cluster_release(&epoch->cluster);
    recovery_release(&epoch->recovery);
    free(epoch->text);
    free(epoch);
}

int64_t
train_predicted_bytes(const struct train_epoch *epoch)
{
    (void)epoch;
    return 0;
}
