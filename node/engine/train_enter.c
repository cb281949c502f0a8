#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void
job_drop(struct train *train)
{
    stage_close(train->stage);
    train->stage = NULL;
    held_free_all(train);
    last_write_forget(train);
    data_close(train->data);
    train->data = NULL;
    memset(&train->job, 0, sizeof(train->job));
    train->live = train->prepared = train->normed = false;
    train->applied = -1;
    train->lineage = train->prepared_in = (struct lineage){0};
    train->norm_bits = train->samples_hash = 0;
}

/* What this epoch makes of the state that we come with: of its base step, or of no
 * use. */
static void
bring_to_base(struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    const struct state_name base = train_base(train);
    if (train->live && train->prepared && recovery->apply_prepared &&
        lineage_same(&train->prepared_in, &base.lineage) &&
        train->applied == recovery->base_step - 1) {
        double norm;
        memcpy(&norm, &recovery->norm_bits, sizeof(norm));
        train_apply(train, recovery->base_step, norm);
    }
    train->prepared = false;
    train->samples_hash = recovery->samples_hash;
    const struct state_name own = {train->applied, train->lineage};
    bool same = state_same(&own, &base);
    train->live = train->live && same;
    train->live_at_base = train->live;
    if (!same) {
        train->normed = recovery->normed;
        train->norm_bits = recovery->norm_bits;
        train->applied = base.step;
        train->lineage = base.lineage;
    }
    /* Copies of steps that are given up have done their duty. */
    train->copied = recovery->copied;
    for (int i = train->held_count - 1; i >= 0; i--)
        if (train->held[i]->header.name.step > base.step)
            held_free(train, train->held[i]);
}

static void
find_part(struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    const struct plan *plan = &epoch->plan;
    train->stage_number = train->pipeline = -1;
    train->previous = train->next = train->tied = -1;
    train->ring = (struct group_ring){.port = train_port(train, BULK_REDUCE)};
    if (!plan_place(plan, epoch->self, &train->stage_number, &train->pipeline))
        return;
    int s = train->stage_number, j = train->pipeline, last = plan->stages_count - 1;
    if (s > 0)
        train->previous = plan->stages[s - 1].nodes[j];
    if (s < last)
        train->next = plan->stages[s + 1].nodes[j];
    if (last > 0 && (s == 0 || s == last))
        train->tied = plan->stages[last - s].nodes[j];
    train->micro_batches = plan->micro_batches[j];
    train->first_sample = plan_first_sample(plan, j);
    train->loss_scale =
        1.0 / ((double)epoch->request.sequences * (double)epoch->request.shape.context);
    train->ring.count = plan->pipelines_count;
    train->ring.rank = j;
    for (int i = 0; i < plan->pipelines_count; i++)
        train->ring.members[i] = plan->stages[s].nodes[i];
}

static struct stage_spec
spec_of(const struct train_epoch *epoch, int stage)
{
    const struct plan *plan = &epoch->plan;
    int most = 1; /* as plan_stage_bytes() counts */
    for (int j = 0; j < plan->pipelines_count; j++)
        most = plan->micro_batches[j] > most ? plan->micro_batches[j] : most;
    return (struct stage_spec){
        .first_layer = plan->stages[stage].first_layer,
        .layers = plan->stages[stage].layers,
        .micro_batch = plan->micro_batch,
        .in_flight = schedule_in_flight(plan->stages_count, stage, most),
        .copies = epoch->request.copies,
    };
}

static bool
spec_same(const struct stage_spec *left, const struct stage_spec *right)
{
    return left->first_layer == right->first_layer && left->layers == right->layers &&
           left->micro_batch == right->micro_batch && left->in_flight == right->in_flight;
}

/* The stage of this epoch: the one that is open, or another; what the old one held is
 * moved out first. */
static int
open_stage(struct train *train, struct err *err)
{
    const struct train_epoch *epoch = train->epoch;
    struct stage_spec spec = {0};
    if (train->stage_number >= 0)
        spec = spec_of(epoch, train->stage_number);
    if (train->stage && train->stage_number >= 0 && spec_same(&spec, &train->spec))
        return 0;
    if (train->stage && train->live) {
        train->moved = held_new(train, train->spec.first_layer, train->spec.layers, err);
        if (!train->moved)
            return -1;
        held_copy_stage(train, train->moved);
    }
    train->live = false;
    stage_close(train->stage);
    train->stage = NULL;
    if (train->stage_number < 0)
        return 0;
    train->spec = spec;
    train->stage = stage_open(&train->shape, &spec, train->options.threads, err);
    return train->stage ? 0 : -1;
}

static float *
take(float **arena, int64_t floats)
{
    float *taken = floats ? *arena : NULL;
    *arena += floats;
    return taken;
}

/* Boundaries, scratch, tokens, handles: all that steps need, so that they allocate
 * nothing. */
static int
open_buffers(struct train *train, struct err *err)
{
    const struct communication_layout *layout = &train->communication;
    workload_communication_floats(&train->shape, &train->spec, &train->communication);
    must(train->ring.count == 1 ||
         (int64_t)group_ring_scratch((size_t)layout->reduction * 2 - 1,
                                     train->ring.count) <= layout->reduction);
    train->boundary = alloc_arena((size_t)layout->total * sizeof(float));
    if (!train->boundary)
        return err_set(err, ERR_LIMIT, "no memory for communication: needs %lld bytes",
                       (long long)layout->total * 4);
    float *arena = train->boundary;
    train->activation_receive = take(&arena, layout->activation_receive);
    train->gradient_send = take(&arena, layout->gradient_send);
    train->activation_send = take(&arena, layout->activation_send);
    train->gradient_receive = take(&arena, layout->gradient_receive);
    train->reduction = take(&arena, layout->reduction);
    train->tied_gradient = take(&arena, layout->tied);

    size_t slots = (size_t)train->spec.in_flight;
    train->ops_in = xcalloc(slots * 4, sizeof(uint32_t));
    train->ops_back = train->ops_in + slots;
    train->ops_out = train->ops_back + slots;
    train->ops_return = train->ops_out + slots;
    if (train->previous < 0 || train->next < 0) {
        size_t tokens =
            slots * (size_t)train->spec.micro_batch * ((size_t)train->shape.context + 1);
        train->tokens = xcalloc(tokens, sizeof(*train->tokens));
    }
    commit_open(train);
    return 0;
}

/* Is all that we need in the live stage already? */
static bool
keeps_live(const struct train_epoch *epoch)
{
    for (int i = 0; i < epoch->recovery.transfers_count; i++) {
        const struct transfer *transfer = &epoch->recovery.transfers[i];
        if (transfer->to == epoch->self &&
            (transfer->from != epoch->self || transfer->source != SOURCE_LIVE))
            return false;
    }
    return true;
}

static void
say_memory(struct train *train)
{
    struct train_report report = {.kind = REPORT_MEMORY,
                                  .predicted_bytes = train_predicted_bytes(train->epoch)};
    train_report(train, &report);
}

int
epoch_begin(struct train *train, struct err *err)
{
    const struct train_epoch *epoch = train->epoch;
    for (int i = 0; i < BULK_PORTS; i++)
        bulk_port_enter(train->ports[i], epoch->lineage.epoch);
    if (!id_equal(&train->job, &epoch->job.id))
        job_drop(train);
    train->job = epoch->job.id;
    train->shape = epoch->request.shape;
    find_part(train);
    train_waits_reset(train);
    bring_to_base(train);
    say_memory(train);
    train->moved = NULL; /* one that an older epoch left stays as a copy */
    if (open_stage(train, err) || flow_open(train, err))
        return -1;
    if (!keeps_live(epoch))
        train->live = false; /* until all has come */
    if (transfer_all(train, err))
        return -1;
    train->disk_fixed = false;
    train->live = train->stage != NULL;
    train->computing = train->live && epoch->recovery.base_step < epoch->job.steps;
    train->computed = false;
    train->done_due = train->live || train->gather.job;
    if (train->live && open_buffers(train, err))
        return -1;
    if (train->computing && train->tokens && data_use(train, err))
        return -1;
    if (train->live && !train->computing) /* the run ends here */
        return flow_step(train, train->applied, err);
    return 0;
}

void
epoch_end(struct train *train)
{
    for (int i = 0; i < BULK_PORTS; i++)
        bulk_port_drain(train->ports[i]);
    flow_close(train);
    commit_close(train);
    arena_release(train->boundary, (size_t)train->communication.total * sizeof(float));
    train->boundary = NULL;
    free(train->ops_in);
    train->ops_in = NULL;
    free(train->tokens);
    train->tokens = NULL;
    train->computing = train->done_due = false;
    train_epoch_free(train->epoch);
    train->epoch = NULL;
}
