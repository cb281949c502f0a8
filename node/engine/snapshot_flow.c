#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
checkpoint_due(const struct train *train, int64_t step)
{
    const struct train_job *job = &train->epoch->job;
    return step == job->steps ||
           (job->checkpoint_every > 0 && step > 0 && step % job->checkpoint_every == 0);
}

/* Copies go with every checkpoint, too: its snapshot is there anyway. */
bool
copy_due(const struct train *train, int64_t step)
{
    const struct train_epoch *epoch = train->epoch;
    if (epoch->job.copy_every <= 0 || epoch->recovery.base_step >= epoch->job.steps)
        return false;
    for (int s = 0; s < epoch->plan.stages_count; s++)
        if (epoch->duties.keeper[s] < 0)
            return false;
    return step % epoch->job.copy_every == 0 || checkpoint_due(train, step) ||
           (epoch->recovery.copy_soon && step == epoch->recovery.base_step + 1);
}

static bool
gathers(const struct duties *duties, int node)
{
    for (int i = 0; i < duties->gatherers_count; i++)
        if (duties->gatherers[i] == node)
            return true;
    return false;
}

/* A message: which step, whether for a checkpoint, header or state. */
static uint64_t
copy_tag(int64_t step, bool gather, int part)
{
    return (uint64_t)step * 4 + (gather ? 2 : 0) + (uint64_t)part;
}

/* The state that a step of this epoch leaves: the base step's is older. */
static struct state_name
name_in_epoch(const struct train *train, int64_t step)
{
    const struct state_name base = train_base(train);
    return step > base.step ? (struct state_name){step, train->epoch->lineage} : base;
}

/* ---- receiving ---- */

/* The first multiple of `every` (0: never) above `step`. */
static int64_t
multiple_above(int64_t every, int64_t step)
{
    return every > 0 ? (step / every + 1) * every : INT64_MAX;
}

/* The next step after `in->step` for which the source sends us something. */
static void
inbound_next(const struct train *train, struct inbound *in)
{
    const struct train_job *job = &train->epoch->job;
    int64_t step = in->step;
    while (step < job->steps) {
        int64_t copy = multiple_above(job->copy_every, step);
        int64_t next = multiple_above(job->checkpoint_every, step);
        step = copy < next ? copy : next;
        if (in->step == train->epoch->recovery.base_step && in->keeps &&
            copy_due(train, in->step + 1))
            step = in->step + 1; /* the one that is made soon */
        if (step > job->steps)
            step = job->steps;
        bool keep = in->keeps && copy_due(train, step);
        if (keep || (in->gathers && checkpoint_due(train, step))) {
            in->step = step;
            in->gather = !keep;
            return;
        }
    }
    in->step = -1;
}

/* What comes after what came; the order is that of flow_step(). */
static void
inbound_advance(const struct train *train, struct inbound *in)
{
    if (in->keeps && !in->gather && in->gathers && checkpoint_due(train, in->step))
        in->gather = true;
    else
        inbound_next(train, in);
}

/* Is this the checkpoint that is being gathered, or may it begin? */
static bool
gather_opens(struct train *train, int64_t step)
{
    struct gather *gather = &train->gather;
    if (!gather->job)
        return false;
    if (gather->state == GATHER_FREE) {
        gather->state = GATHER_COMING;
        gather->job->info.step = step;
        gather->missing = gather->job->parts_count;
    }
    return gather->state == GATHER_COMING && gather->job->info.step == step;
}

static struct held *
inbound_buffer(struct train *train, struct inbound *in)
{
    if (in->gather)
        return gather_opens(train, in->step) ? train->gather.job->parts[in->stage] : NULL;
    struct held *best = NULL;
    for (int i = 0; i < 2; i++) {
        struct held *held = in->buffers[i];
        if (snapshot_overwritable(train, held) &&
            (!best || held->header.name.step < best->header.name.step))
            best = held;
    }
    return best;
}

/* The header first: it says that what came before is complete everywhere, and so which
 * buffer is free. */
static void
inbound_post(struct train *train, struct inbound *in)
{
    struct bulk_port *port = train_port(train, BULK_COPY);
    if (in->step < 0 || in->header_op || in->state_op)
        return;
    if (!in->announced) {
        in->header_op =
            bulk_receive(port, in->peer, BULK_COPY, copy_tag(in->step, in->gather, 0),
                         &in->header, sizeof(in->header));
        return;
    }
    in->into = inbound_buffer(train, in);
    if (!in->into)
        return;
    in->into->coming = true;
    in->into->header.name.step = -1;
    in->state_op =
        bulk_receive(port, in->peer, BULK_COPY, copy_tag(in->step, in->gather, 1),
                     in->into->state, in->into->bytes);
}

/* ---- a checkpoint ---- */

static void
write_job_free(struct write_job *job)
{
    if (!job)
        return;
    for (int kind = 0; kind < STATE_KINDS; kind++)
        free(job->tensors[kind]);
    for (int s = 0; s < job->parts_count; s++)
        part_free(job->parts[s]);
    checkpoint_info_release(&job->info);
    free(job->path);
    free(job);
}

/* The tensors of all layers, each from the part that is its home. */
static void
find_tensors(const struct train *train, struct write_job *job)
{
    const struct plan *plan = &train->epoch->plan;
    int count = workload_tensor_count(&train->shape);
    for (int kind = 0; kind < STATE_KINDS; kind++)
        job->tensors[kind] = xcalloc((size_t)count, sizeof(*job->tensors[kind]));
    for (int t = 0; t < count; t++) {
        struct tensor_spec spec;
        workload_tensor(&train->shape, t, &spec);
        int s = 0;
        while (spec.layer >= plan->stages[s].first_layer + plan->stages[s].layers)
            s++;
        for (int kind = 0; kind < STATE_KINDS; kind++)
            job->tensors[kind][t] =
                held_tensor(&train->shape, job->parts[s], t, (enum state_kind)kind);
    }
}

static struct write_job *
write_job_new(const struct train *train, struct err *err)
{
    const struct train_epoch *epoch = train->epoch;
    struct write_job *job = xcalloc(1, sizeof(*job));
    char root[PATH_BYTES_MAX];
    path_join(root, train->folder, "checkpoints");
    path_join(job->folder, root, epoch->job.name);
    job->keep = epoch->job.checkpoint_keep;
    job->info = (struct checkpoint_info){
        .seed = epoch->job.seed,
        .job = epoch->job.id,
        .data = epoch->job.data,
        .data_bytes = epoch->job.data_bytes,
        .shape = train->shape,
        .text = epoch->text ? xstrdup(epoch->text) : NULL,
    };
    memcpy(job->info.name, epoch->job.name, sizeof(job->info.name));
    for (int s = 0; s < epoch->plan.stages_count; s++) {
        const struct plan_stage *stage = &epoch->plan.stages[s];
        job->parts[s] = part_new(&train->shape, stage->first_layer, stage->layers, err);
        if (!job->parts[s]) {
            write_job_free(job);
            return NULL;
        }
        job->parts_count++;
    }
    find_tensors(train, job);
    return job;
}

static void
gather_part_done(struct train *train, int stage)
{
    struct gather *gather = &train->gather;
    gather->job->info.samples_hash = gather->job->parts[stage]->header.samples_hash;
    gather->job->info.lineage = gather->job->parts[stage]->header.name.lineage;
    if (--gather->missing > 0)
        return;
    gather->state = GATHER_WRITING;
    must(mailbox_put(train->to_writer, &gather->job));
}

void *
flow_writer(void *arg)
{
    struct train *train = arg;
    for (;;) {
        struct write_job *job = NULL;
        if (!mailbox_take(train->to_writer, &job)) {
            mailbox_wait(train->to_writer, -1);
            continue;
        }
        if (job->quit) {
            free(job);
            return NULL;
        }
        if (job->placed) {
            checkpoint_remove_old(job->folder, job->info.step, job->keep);
        } else {
            const struct checkpoint_state state = {
                .tensors = {job->tensors[0], job->tensors[1], job->tensors[2]}};
            job->failed =
                checkpoint_write_aside(job->folder, &job->info, &state, &job->err);
            free(job->path);
            job->path = xcalloc(1, PATH_BYTES_MAX); /* the engine allocates nothing */
        }
        must(mailbox_put(train->from_writer, &job));
    }
}

/* False: it was not written. */
static bool
place_written(struct train *train, struct write_job *job)
{
    if (job->failed ||
        checkpoint_place(job->folder, job->info.step, job->path, &job->err))
        return false;
    if (id_equal(&job->info.job, &train->expected)) {
        train->disk = (struct state_name){job->info.step, job->info.lineage};
        train->disk_samples_hash = job->info.samples_hash;
        train->disk_shape = job->info.shape;
        snprintf(train->disk_path, sizeof(train->disk_path), "%s", job->path);
    }
    struct train_report report = {
        .kind = REPORT_CHECKPOINT, .step = job->info.step, .path = job->path};
    job->path = NULL;
    train_report(train, &report);
    return true;
}

void
flow_written(struct train *train)
{
    struct write_job *job = NULL;
    while (!train->disk_fixed && mailbox_take(train->from_writer, &job)) {
        bool written = !job->placed && place_written(train, job);
        if (written) {
            last_write_done(train, job);
        } else if (!job->placed) {
            if (last_write_failed(train, job)) {
                train->gather.state = GATHER_LATE;
                continue;
            }
            train_fail(train, "checkpoint", &job->err);
        }
        if (written && !atomic_load(&train->stopping)) {
            job->placed = true;
            if (mailbox_put(train->to_writer, &job))
                continue;
        }
        job->placed = false;
        if (job == train->gather.job)
            train->gather.state = GATHER_FREE;
        else
            write_job_free(job); /* its epoch is over */
    }
}

/* ---- in the background ---- */

static void
inbound_failed(struct train *train, struct inbound *in, const struct err *err)
{
    train_fail(train, "copy", err);
    in->step = -1;
}

static void
take_header(struct train *train, struct inbound *in)
{
    struct err err;
    int failed = bulk_wait(train_port(train, BULK_COPY), in->header_op, 0, &err);
    in->header_op = 0;
    const struct state_name due = name_in_epoch(train, in->step);
    if (!failed)
        failed = copy_header_check(&in->header, &due, in->peer, &err);
    if (failed) {
        inbound_failed(train, in, &err);
        return;
    }
    in->announced = true;
    held_copied(train, in->header.copied_step);
}

static void
take_state(struct train *train, struct inbound *in)
{
    struct err err;
    int failed = bulk_wait(train_port(train, BULK_COPY), in->state_op, 0, &err);
    in->state_op = 0;
    in->announced = false;
    in->into->coming = false;
    if (failed) {
        inbound_failed(train, in, &err);
        return;
    }
    in->into->header = in->header;
    if (in->gather) {
        gather_part_done(train, in->stage);
    } else {
        in->into->pending = in->step > train->copied.step;
        struct train_report report = {
            .kind = REPORT_COPIED, .stage = in->stage, .step = in->step};
        train_report(train, &report);
    }
    inbound_advance(train, in);
}

static void
pump_sends(struct train *train, struct held *held)
{
    struct bulk_port *port = train_port(train, BULK_COPY);
    struct err err;
    int left = 0;
    for (int i = 0; i < held->sends_count; i++)
        if (bulk_test(port, held->sends[i]))
            (void)bulk_wait(port, held->sends[i], 0, &err);
        else
            held->sends[left++] = held->sends[i];
    held->sends_count = left;
}

/* Our own stage's part of a checkpoint, from our own snapshot. */
static void
pump_own_part(struct train *train)
{
    if (!train->own_gather || !gather_opens(train, train->own_gather->header.name.step))
        return;
    struct held *from = train->own_gather;
    struct held *part = train->gather.job->parts[train->stage_number];
    memcpy(part->state, from->state, from->bytes);
    part->header = from->header;
    train->own_gather = NULL;
    gather_part_done(train, train->stage_number);
}

void
flow_pump(struct train *train)
{
    flow_written(train);
    if (!train->epoch)
        return;
    last_write_pump(train);
    for (int i = 0; i < train->snapshots_count; i++)
        if (train->snapshots[i]->sends_count)
            pump_sends(train, train->snapshots[i]);
    pump_own_part(train);
    for (int i = 0; i < train->inbound_count; i++) {
        struct inbound *in = &train->inbound[i];
        struct bulk_port *port = train_port(train, BULK_COPY);
        if (in->header_op && bulk_test(port, in->header_op))
            take_header(train, in);
        inbound_post(train, in);
        if (in->state_op && bulk_test(port, in->state_op))
            take_state(train, in);
        inbound_post(train, in);
    }
}

bool
flow_idle(const struct train *train)
{
    if (train->gather.state != GATHER_FREE || train->own_gather)
        return false;
    for (int i = 0; i < train->snapshots_count; i++)
        if (train->snapshots[i]->sends_count)
            return false;
    for (int i = 0; i < train->inbound_count; i++)
        if (train->inbound[i].step >= 0)
            return false;
    return true;
}

/* ---- the source ---- */

static void
send_to(struct train *train, struct held *held, int peer, bool gather)
{
    struct bulk_port *port = train_port(train, BULK_COPY);
    int64_t step = held->header.name.step;
    must(held->sends_count + 2 <= HELD_SENDS_MAX);
    held->sends[held->sends_count++] =
        bulk_send(port, peer, BULK_COPY, copy_tag(step, gather, 0), &held->header,
                  sizeof(held->header));
    held->sends[held->sends_count++] = bulk_send(
        port, peer, BULK_COPY, copy_tag(step, gather, 1), held->state, held->bytes);
}

/* Somebody who has to take what our stage sends. */
static int
receiver(const struct train *train)
{
    const struct duties *duties = &train->epoch->duties;
    int keeper = duties->keeper[train->stage_number];
    for (int i = 0; keeper < 0 && i < duties->gatherers_count; i++)
        if (duties->gatherers[i] != train->epoch->self)
            keeper = duties->gatherers[i];
    return keeper;
}

/* A buffer that may be written, waiting for one when the copies are behind; or, with
 * `part`, until our part of the checkpoint before is where it belongs. */
static struct held *
snapshot_buffer(struct train *train, bool part, struct err *err)
{
    int64_t started_ms = clock_ms(), stalls = 0;
    for (;;) {
        flow_pump(train);
        struct held *best = NULL;
        for (int i = 0; i < train->snapshots_count; i++) {
            struct held *held = train->snapshots[i];
            if (snapshot_overwritable(train, held) && held != train->own_gather &&
                (!best || held->header.name.step < best->header.name.step))
                best = held;
        }
        if (best && !(part && train->own_gather))
            return best;
        if (train_listen(train, err))
            return NULL;
        int64_t waited_ms = clock_ms() - started_ms;
        if (waited_ms >= STALL_MS_MIN * (stalls + 1)) {
            stalls = waited_ms / STALL_MS_MIN;
            train_stalled(train, WAIT_COPIES, receiver(train), waited_ms);
        }
        train_rest(train, 20);
    }
}

int
flow_step(struct train *train, int64_t step, struct err *err)
{
    const struct duties *duties = &train->epoch->duties;
    bool copy = copy_due(train, step), checkpoint = checkpoint_due(train, step);
    if (!train->snapshots_count || (!copy && !checkpoint))
        return 0;
    struct held *held = snapshot_buffer(train, checkpoint && train->gather.job, err);
    if (!held)
        return -1;
    held_copy_stage(train, held);
    held->header.copied_step = train->copied.step;
    held->pending = copy;
    if (copy)
        send_to(train, held, duties->keeper[train->stage_number], false);
    for (int i = 0; checkpoint && i < duties->gatherers_count; i++) {
        if (duties->gatherers[i] == train->epoch->self)
            train->own_gather = held;
        else
            send_to(train, held, duties->gatherers[i], true);
    }
    flow_pump(train);
    return 0;
}

/* ---- the epoch's buffers ---- */

/* A buffer that is there already and nobody else's, or a new one. `beside` is the other
 * of the two: both must not hold the step that is to be kept, or there is none to write
 * into. */
static struct held *
reserve(struct train *train, const struct plan_stage *stage, const struct held *beside,
        struct err *err)
{
    struct held *found = NULL;
    for (int i = 0; i < train->held_count && !found; i++) {
        struct held *held = train->held[i];
        if (!held->reserved && held != train->moved &&
            held->first_layer == stage->first_layer && held->layers == stage->layers &&
            (!beside || held->header.name.step < 0 ||
             held->header.name.step != beside->header.name.step))
            found = held;
    }
    if (!found)
        found = held_new(train, stage->first_layer, stage->layers, err);
    if (found)
        found->reserved = true;
    return found;
}

static int
reserve_pair(struct train *train, const struct plan_stage *stage, struct held *pair[2],
             struct err *err)
{
    pair[0] = reserve(train, stage, NULL, err);
    pair[1] = pair[0] ? reserve(train, stage, pair[0], err) : NULL;
    return pair[1] ? 0 : -1;
}

static int
open_inbound(struct train *train, struct err *err)
{
    const struct train_epoch *epoch = train->epoch;
    bool final = epoch->recovery.base_step >= epoch->job.steps;
    for (int s = 0; s < epoch->plan.stages_count; s++) {
        const struct plan_stage *stage = &epoch->plan.stages[s];
        struct inbound in = {.stage = s, .peer = epoch->duties.source[s]};
        in.keeps =
            epoch->duties.keeper[s] == epoch->self && epoch->job.copy_every > 0 && !final;
        in.gathers = train->gather.job && in.peer != epoch->self;
        if (!in.keeps && !in.gathers)
            continue;
        if (in.keeps && reserve_pair(train, stage, in.buffers, err))
            return -1;
        in.step = epoch->recovery.base_step;
        if (final)
            in.gather = true; /* the checkpoint of the last step, and nothing else */
        else
            inbound_next(train, &in);
        train->inbound[train->inbound_count++] = in;
    }
    return 0;
}

int
flow_open(struct train *train, struct err *err)
{
    const struct train_epoch *epoch = train->epoch;
    const struct plan *plan = &epoch->plan;
    train->snapshots_count = train->inbound_count = 0;
    train->own_gather = NULL;
    train->gather = (struct gather){.state = GATHER_FREE};
    if (train->stage_number >= 0 &&
        epoch->duties.source[train->stage_number] == epoch->self) {
        if (reserve_pair(train, &plan->stages[train->stage_number], train->snapshots,
                         err))
            return -1;
        train->snapshots_count = 2;
    }
    if (gathers(&epoch->duties, epoch->self)) {
        train->gather.job = write_job_new(train, err);
        if (!train->gather.job)
            return -1;
    }
    if (open_inbound(train, err))
        return -1;
    /* What an older epoch left and no copy is in: nobody will miss it. */
    for (int i = train->held_count - 1; i >= 0; i--)
        if (!train->held[i]->reserved && train->held[i]->header.name.step < 0)
            held_free(train, train->held[i]);
    return 0;
}

/* Operations are over: what was still on its way is not there. */
void
flow_close(struct train *train)
{
    if (train->gather.state != GATHER_WRITING)
        write_job_free(train->gather.job); /* else it comes back by itself */
    train->gather = (struct gather){.state = GATHER_FREE};
    for (int i = 0; i < train->held_count; i++) {
        struct held *held = train->held[i];
        if (held->coming)
            held->header.name.step = -1;
        held->coming = held->reserved = held->pending = false;
        held->sends_count = 0;
    }
    train->snapshots_count = train->inbound_count = 0;
    train->own_gather = NULL;
    last_write_close(train);
}
