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
#include "tests/sim/engine.h"
#include "planner/schedule.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/mutant.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reports ---- */

void
engine_report(struct train *train, struct train_report *said)
{
    said->epoch = train->newest.epoch;
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

void
engine_fail(struct train *train, const char *what, const char *why)
{
    struct train_report said = {.kind = REPORT_FAILED, .step = train->applied};
    snprintf(said.what, sizeof(said.what), "%s", what);
    err_set(&said.err, ERR_USAGE, "%s", why);
    engine_report(train, &said);
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

int
engine_layers_of(const struct train_epoch *epoch)
{
    return workload_layers(&epoch->request.shape);
}

bool
engine_gathers(const struct train_epoch *epoch)
{
    for (int g = 0; g < epoch->duties.gatherers_count; g++)
        if (epoch->duties.gatherers[g] == epoch->self)
            return true;
    return false;
}

/* ---- an epoch begins ---- */

struct state_name
engine_base(const struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    return (struct state_name){recovery->base_step, recovery->lineage};
}

static uint64_t
chain_after(uint64_t chain, int64_t step, uint64_t norm)
{
    return rng_mix(rng_mix(chain, (uint64_t)step), norm);
}

void
engine_apply(struct train *train, int64_t step, uint64_t norm, uint64_t samples_hash)
{
    train->chain = chain_after(train->chain, step, norm);
    train->applied = step;
    train->lineage = train->prepared_in;
    train->normed = true;
    train->prepared = false;
    train->norm_bits = norm;
    train->samples_hash = samples_hash;
    check_applied(train->host, &train->epoch->job, &train->lineage, train->newest.epoch,
                  step, train->chain, samples_hash);
}

static void
bring_to_base(struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    const struct state_name base = engine_base(train);
    if (train->live && train->prepared && recovery->apply_prepared &&
        lineage_same(&train->prepared_in, &base.lineage) &&
        train->applied == recovery->base_step - 1)
        engine_apply(train, recovery->base_step, recovery->norm_bits,
                     recovery->samples_hash);
    train->prepared = false;
    train->samples_hash = recovery->samples_hash;
    const struct state_name own = {train->applied, train->lineage};
    bool same = state_same(&own, &base);
    train->live = train->live && same;
    if (!same) {
        train->normed = recovery->normed;
        train->norm_bits = recovery->norm_bits;
        train->applied = base.step;
        train->lineage = base.lineage;
    }
    train->copied = recovery->copied;
    for (int i = train->copies_count - 1; i >= 0; i--)
        if (train->copies[i].name.step > base.step)
            engine_copy_remove(train, i);
}

static void
give(struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    const struct state_name base = engine_base(train);
    int self = train->epoch->self;
    for (int i = 0; i < recovery->transfers_count; i++) {
        const struct transfer *transfer = &recovery->transfers[i];
        if (transfer->from != self || transfer->to == self)
            continue;
        const struct copy *copy = engine_find_layer(train, &base, transfer->layer);
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
    train->newest = epoch->lineage;
    train->stopped = false;
    if (!id_equal(&train->expected, &epoch->job.id) ||
        !id_equal(&train->data_expected, &epoch->job.data)) {
        train->expected = epoch->job.id;
        train->data_expected = epoch->job.data;
        engine_look_at_disk(train);
    }
    if (!id_equal(&train->job, &epoch->job.id))
        engine_drop_job(train);
    train->job = epoch->job.id;
    bring_to_base(train);
    place_of(&epoch->plan, epoch->self, &train->stage, &train->pipeline);
    struct train_report said = {.kind = REPORT_MEMORY, .predicted_bytes = 1};
    engine_report(train, &said);
    /* What we have stays as a copy until the first step is applied. */
    if (train->live) {
        struct copy live = engine_live_copy(train);
        engine_copy_add(train, &live);
    }
    give(train);
    for (int s = 0; s < STAGES_MAX; s++)
        train->parts[s].name.step = -1;
    train->gathered = -1;
    train->computed = false;
    train->done_due = train->stage >= 0 || engine_gathers(epoch);
    train->phase = train->stage >= 0 ? PHASE_FETCH : PHASE_REST;
    train->disk_fixed = train->stage >= 0;
    train->began_us = train->waits_us = world.now_us;
    train->stall_us = STALL_US;
}

/* All that our stage needs, from others and from ourselves; true: it is whole. */
bool
engine_fetch(struct train *train, int *missing)
{
    const struct train_epoch *epoch = train->epoch;
    const struct recovery *recovery = &epoch->recovery;
    const struct state_name base = engine_base(train);
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
                copy = engine_find_layer(train, &base, transfer->layer);
            else
                message = plane_find(train->options.bulk, PLANE_STATE, transfer->from,
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

void
engine_fetched(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
    struct err err;
    if (epoch->recovery.data_from[epoch->self] != epoch->self) {
        snprintf(folder, sizeof(folder), "%s/data", train->folder);
        engine_data_path(train, &epoch->job.data, path);
        if (file_make_folder(folder, &err) || file_write(path, "data", 4, 0600, &err)) {
            engine_fail(train, "epoch", err.msg);
            train->phase = PHASE_IDLE;
            return;
        }
        train->has_data = true;
    }
    train->live = true;
    train->disk_fixed = false;
    train->first_layer = epoch->plan.stages[train->stage].first_layer;
    train->layers = epoch->plan.stages[train->stage].layers;
    check_base(train->host, &epoch->job, epoch->lineage.epoch, train->applied,
               train->chain);
}

/* ---- orders ---- */

static void
measure(struct train *train, const struct order *order)
{
    struct train_report said = {.kind = REPORT_PROFILED};
    if (order->measurement <= train->measurement_end) {
        engine_report(train, &said);
        return;
    }
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
    said.profile = profile;
    engine_report(train, &said);
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
        engine_say_halted(train);
        break;
    case ORDER_COPIED:
        if (train->epoch)
            engine_copied(train, order->step);
        break;
    case ORDER_DROP:
        train_epoch_free(train->epoch);
        train->epoch = NULL;
        train->work++;
        train->phase = PHASE_IDLE;
        engine_drop_job(train);
        train->disk_fixed = false;
        memset(&train->expected, 0, sizeof(train->expected));
        memset(&train->data_expected, 0, sizeof(train->data_expected));
        train->disk.name.step = -1;
        train->has_data = false;
        break;
    case ORDER_PROFILE:
        measure(train, order);
        break;
    case ORDER_EXPECT:
        train->expected = order->job;
        train->data_expected = order->data;
        engine_look_at_disk(train);
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
    give_order(train, &(struct order){.kind = ORDER_PROFILE,
                                      .sequences = sequences,
                                      .measurement = ++train->measurements});
}

void
train_profile_stop(struct train *train)
{
    train->measurement_end = train->measurements;
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
    train->applied = train->disk.name.step = train->copied.step = train->gathered = -1;
    here->train = train;
    world_in(STALL_US, here, engine_every_second);
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
