#include "planner/schedule.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/engine.h"
#include "tests/sim/mutant.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return rng_mix(rng_mix(train->chain, train->newest.epoch),
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
        engine_report(train, &said);
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
            const struct plane_message *message =
                plane_find(train->options.bulk, kind, *missing, step, -1);
            if (!message)
                return false;
            if (message->epoch != train->newest.epoch)
                world_breach("I6: %s in epoch %llu takes in data of epoch %llu",
                             train->host->address,
                             (unsigned long long)train->newest.epoch,
                             (unsigned long long)message->epoch);
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
            if (message->chain != train->chain)
                world_breach("step %lld: %s starts from other weights than node %d of "
                             "epoch %llu",
                             (long long)step, train->host->address, node,
                             (unsigned long long)train->newest.epoch);
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

/* A checkpoint on its way to the disk, which takes its time: the run is not over before. */
struct writing {
    struct id job;
    uint64_t epoch;
    int64_t order;
    struct copy copy;
};

/* One after the other. */
static int64_t
write_us(struct train *train)
{
    bool slow = rng_below(&train->host->rng, 4) == 0;
    int64_t us = (int64_t)rng_below(&train->host->rng, slow ? 4 * SECOND : 200 * MS);
    if (train->written_us < world.now_us)
        train->written_us = world.now_us;
    train->written_us += us + 1;
    return train->written_us - world.now_us;
}

static void write_ends(struct event *event);

static void
write_in(struct train *train, int64_t us, const struct writing *writing)
{
    struct event *event = world_in(us, train->host, write_ends);
    event->data = xmemdup(writing, sizeof(*writing));
    event->len = sizeof(*writing);
}

static void
write_ends(struct event *event)
{
    struct train *train = here->train;
    struct writing writing;
    if (!train)
        return;
    memcpy(&writing, event->data, sizeof(writing));
    if (train->disk_fixed || writing.order != train->written) {
        write_in(train, WRITE_LOOK_US, &writing);
        return;
    }
    train->written++;
    engine_write_checkpoint(train, &writing.job, &writing.copy);
    if (writing.epoch == train->newest.epoch)
        train->gathered = writing.copy.name.step;
    engine_look();
}

static void
gathered(struct train *train, int stage, const struct copy *copy)
{
    const struct train_epoch *epoch = train->epoch;
    const struct state_name *had = &train->parts[stage].name;
    if (had->lineage.epoch == copy->name.lineage.epoch && had->step > copy->name.step)
        return; /* overtaken on the way */
    train->parts[stage] = *copy;
    for (int s = 0; s < epoch->plan.stages_count; s++)
        if (!state_same(&train->parts[s].name, &copy->name))
            return;
    struct writing writing = {.job = train->job,
                              .epoch = train->newest.epoch,
                              .order = train->writes++,
                              .copy = *copy};
    writing.copy.first_layer = 0;
    writing.copy.layers = engine_layers_of(epoch);
    write_in(train, write_us(train), &writing);
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
    struct copy own = engine_live_copy(train);
    engine_copy_add(train, &own);
    struct plane_message message = {.kind = PLANE_COPY,
                                    .step = step,
                                    .tag = train->stage,
                                    .first_layer = own.first_layer,
                                    .layers = own.layers,
                                    .chain = own.chain,
                                    .samples = own.samples_hash,
                                    .lineage = own.name.lineage};
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
        if (taken.epoch != train->newest.epoch)
            world_breach("I6: %s in epoch %llu takes in a copy of epoch %llu",
                         train->host->address, (unsigned long long)train->newest.epoch,
                         (unsigned long long)taken.epoch);
        struct copy copy = {.first_layer = taken.first_layer,
                            .layers = taken.layers,
                            .name = {taken.step, taken.lineage},
                            .chain = taken.chain,
                            .samples_hash = taken.samples};
        if (taken.keeps) {
            engine_copy_add(train, &copy);
            struct train_report said = {
                .kind = REPORT_COPIED, .step = taken.step, .stage = taken.tag};
            engine_report(train, &said);
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
    bool written = !engine_gathers(epoch) || train->gathered == epoch->job.steps;
    if (!train->done_due || !written ||
        (train->stage >= 0 && train->applied < epoch->job.steps))
        return;
    train->done_due = false;
    struct train_report said = {.kind = REPORT_DONE, .step = epoch->job.steps};
    engine_report(train, &said);
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
    engine_report(train, &said);
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
    engine_report(train, &said);
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
    engine_apply(train, step, norm, rng_mix(train->samples_hash, samples));
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
    train->prepared_in = train->newest;
    check_prepared(train->host, &train->job, train->newest.epoch, step,
                   train->epoch->self, workers(train));
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
        if (!engine_fetch(train, &missing)) {
            stalled(train, missing, "state");
            return false;
        }
        engine_fetched(train);
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
        plane_epoch(train->options.bulk) != train->newest.epoch) {
        train->stopped = true;
        return;
    }
    take_copies(train);
    while (advance(train) && !world.why[0])
        ;
}

void
engine_every_second(struct event *event)
{
    (void)event;
    if (!here->train)
        return;
    engine_look();
    world_in(STALL_US, here, engine_every_second);
}
