#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"
#include "transport/base/must.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS_MAX = 256, REPORTS_MAX = 512, WRITES_MAX = 16 };

bool
plan_place(const struct plan *plan, int node, int *stage, int *pipeline)
{
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            if (plan->stages[s].nodes[j] == node) {
                *stage = s;
                *pipeline = j;
                return true;
            }
    return false;
}

/* ---- to the control thread ---- */

void
train_report(struct train *train, struct train_report *report)
{
    report->epoch = train->newest.epoch;
    while (!mailbox_put(train->reports, report)) {
        if (atomic_load(&train->stopping)) {
            free(report->progress);
            free(report->profile);
            free(report->path);
            return;
        }
        clock_sleep_ms(1);
    }
}

/* Unless it is only the end of the epoch. */
void
train_fail(struct train *train, const char *what, const struct err *err)
{
    if (err->code == ERR_STOPPED)
        return;
    struct train_report report = {
        .kind = REPORT_FAILED, .step = train->applied, .err = *err};
    snprintf(report.what, sizeof(report.what), "%s", what);
    train_report(train, &report);
}

/* ---- from the control thread ---- */

int
train_listen(struct train *train, struct err *err)
{
    struct order order;
    while (!train->has_order && mailbox_take(train->orders, &order)) {
        if (order.kind == ORDER_COPIED) {
            if (train->epoch) /* what was reported stays until the next one begins */
                held_copied(train, order.step);
        } else if (order.kind == ORDER_EXPECT) {
            train->expect_due |= !id_equal(&order.job, &train->expected) ||
                                 !id_equal(&order.data, &train->data_expected);
            train->expected = order.job;
            train->data_expected = order.data;
        } else if (order.kind == ORDER_PROFILE && train->computing) {
            struct err busy;
            err_set(&busy, ERR_USAGE, "cannot profile: this node is training");
            train_fail(train, "profile", &busy);
        } else {
            train->order = order;
            train->has_order = true;
        }
    }
    if (train->has_order || atomic_load(&train->stopping) ||
        bulk_port_stopped(train->ports[BULK_ENGINE]))
        return err_set(err, ERR_STOPPED, "epoch %llu has ended",
                       (unsigned long long)train->newest.epoch);
    return 0;
}

/* Is anything on its way in the background, so that its port is worth a look? */
static bool
flow_busy(const struct train *train)
{
    for (int i = 0; i < train->snapshots_count; i++)
        if (train->snapshots[i]->sends_count)
            return true;
    for (int i = 0; i < train->inbound_count; i++)
        if (train->inbound[i].header_op || train->inbound[i].state_op)
            return true;
    return false;
}

void
train_rest(struct train *train, int timeout_ms)
{
    struct pollfd waits[3] = {
        {.fd = mailbox_fd(train->orders), .events = POLLIN},
        {.fd = mailbox_fd(train->from_writer), .events = POLLIN},
        {.fd = bulk_port_fd(train_port(train, BULK_COPY)), .events = POLLIN}};
    poll(waits, train->epoch && flow_busy(train) ? 3 : 2, timeout_ms);
    mailbox_clear(train->orders);
    mailbox_clear(train->from_writer);
}

struct state_name
train_base(const struct train *train)
{
    const struct recovery *recovery = &train->epoch->recovery;
    return (struct state_name){recovery->base_step, recovery->lineage};
}

struct bulk_port *
train_port(struct train *train, enum bulk_channel channel)
{
    return train->ports[channel <= BULK_REDUCE ? BULK_ENGINE : BULK_STORE];
}

/* ---- orders ---- */

/* The newest checkpoint of the job that is expected, and whether its data set is here. */
static void
look_at_disk(struct train *train)
{
    train->expect_due = false;
    train->has_data = data_present(train, &train->data_expected);
    train->disk.step = -1;
    if (id_empty(&train->expected))
        return;
    char root[PATH_BYTES_MAX], damaged[ERR_MSG_SIZE] = "";
    struct err err;
    struct checkpoint_info info = {0};
    path_join(root, train->folder, "checkpoints");
    if (checkpoint_newest(root, &train->expected, train->disk_path, damaged,
                          sizeof(damaged), &err) == 0) {
        struct checkpoint *checkpoint = checkpoint_open(train->disk_path, &info, &err);
        if (checkpoint) {
            train->disk = (struct state_name){info.step, info.lineage};
            train->disk_samples_hash = info.samples_hash;
            train->disk_shape = info.shape;
            checkpoint_info_release(&info);
        } else {
            log_warn("engine", "checkpoint not usable reason=\"%s\"", err.msg);
        }
        checkpoint_close(checkpoint);
    }
    if (damaged[0])
        log_warn("engine", "damaged checkpoint passed over reason=\"%s\"", damaged);
}

static void
end_if_begun(struct train *train)
{
    if (train->epoch)
        epoch_end(train);
}

static void
begin_epoch(struct train *train, struct train_epoch *epoch)
{
    end_if_begun(train);
    train->epoch = epoch;
    train->newest = epoch->lineage;
    if (!id_equal(&train->expected, &epoch->job.id) ||
        !id_equal(&train->data_expected, &epoch->job.data)) {
        train->expected = epoch->job.id;
        train->data_expected = epoch->job.data;
        look_at_disk(train);
    }
    struct err err;
    if (epoch_begin(train, &err) == 0)
        return;
    train_fail(train, "epoch", &err);
    epoch_end(train);
}

static void
say_halted(struct train *train)
{
    end_if_begun(train);
    if (!train->has_data) /* it may have been put there meanwhile */
        train->has_data = data_present(train, &train->data_expected);
    struct train_report report = {.kind = REPORT_HALTED,
                                  .step = train->applied,
                                  .progress = xcalloc(1, sizeof(*report.progress))};
    snapshot_holdings(train, report.progress);
    train->disk_fixed = true;
    train_report(train, &report);
}

static void
drop(struct train *train)
{
    end_if_begun(train);
    job_drop(train);
    train->disk_fixed = false;
    memset(&train->expected, 0, sizeof(train->expected));
    memset(&train->data_expected, 0, sizeof(train->data_expected));
    train->disk.step = -1;
    train->has_data = false;
}

struct measurement {
    struct train *train;
    unsigned number;
};

static bool
measurement_over(void *arg)
{
    struct measurement *measurement = arg;
    return atomic_load(&measurement->train->stopping) ||
           measurement->number <= atomic_load(&measurement->train->measurement_end);
}

static void
measure(struct train *train, const struct order *order)
{
    struct err err = {0};
    struct measurement measurement = {train, order->measurement};
    struct train_report report = {.kind = REPORT_PROFILED};
    report.profile =
        profile_measure(&order->shape, order->sequences, order->memory_bytes,
                        train->options.threads, measurement_over, &measurement, &err);
    if (report.profile || err.code == ERR_STOPPED)
        train_report(train, &report);
    else
        train_fail(train, "profile", &err);
}

/* False: the thread ends. */
static bool
carry_out(struct train *train, const struct order *order)
{
    switch (order->kind) {
    case ORDER_EPOCH:
        begin_epoch(train, order->epoch);
        return true;
    case ORDER_HALT:
        say_halted(train);
        return true;
    case ORDER_DROP:
        drop(train);
        return true;
    case ORDER_PROFILE:
        measure(train, order);
        return true;
    case ORDER_STOP:
        end_if_begun(train);
        return false;
    case ORDER_COPIED: /* train_listen() keeps these */
    case ORDER_EXPECT:
        break;
    }
    must(false);
    return false;
}

/* ---- the thread ---- */

static void
idle(struct train *train)
{
    flow_pump(train);
    if (train->epoch && train->done_due && !train->computing && flow_idle(train)) {
        struct train_report report = {.kind = REPORT_DONE,
                                      .step = train->epoch->job.steps};
        train->done_due = false;
        train_report(train, &report);
    }
    train_rest(train, train->epoch ? 1000 : -1);
}

static void *
run(void *arg)
{
    struct train *train = arg;
    for (;;) {
        struct err err;
        (void)train_listen(train, &err);
        if (train->expect_due)
            look_at_disk(train);
        if (train->has_order) {
            struct order order = train->order;
            train->has_order = false;
            if (!carry_out(train, &order))
                return NULL;
        } else if (train->epoch && train->computing) {
            if (train_step(train, &err)) {
                train_fail(train, "step", &err);
                epoch_end(train);
            }
        } else {
            idle(train);
        }
    }
}

struct train *
train_start(const struct train_options *options, struct err *err)
{
    must(options->bulk && options->folder && options->fresh_at_ms &&
         options->threads > 0);
    struct last_write last_write = {0};
    if (last_write_setup(&last_write, err))
        return NULL;
    struct train *train = xcalloc(1, sizeof(*train));
    train->last_write = last_write;
    train->options = *options;
    train->folder = xstrdup(options->folder);
    train->orders = mailbox_new(sizeof(struct order), ORDERS_MAX);
    train->reports = mailbox_new(sizeof(struct train_report), REPORTS_MAX);
    train->to_writer = mailbox_new(sizeof(struct write_job *), WRITES_MAX);
    train->from_writer = mailbox_new(sizeof(struct write_job *), WRITES_MAX);
    for (int i = 0; i < BULK_PORTS; i++)
        train->ports[i] = bulk_port(options->bulk, (enum bulk_port_kind)i);
    train->applied = train->disk.step = train->copied.step = -1;
    int failed = pthread_create(&train->writer, NULL, flow_writer, train);
    must(!failed);
    failed = pthread_create(&train->thread, NULL, run, train);
    must(!failed);
    return train;
}

static void
give_order(struct train *train, const struct order *order)
{
    while (!mailbox_put(train->orders, order))
        clock_sleep_ms(1);
}

static void
stop_writer(struct train *train)
{
    struct write_job *quit = xcalloc(1, sizeof(*quit));
    quit->quit = true;
    while (!mailbox_put(train->to_writer, &quit))
        clock_sleep_ms(1);
    pthread_join(train->writer, NULL);
    train->disk_fixed = false;
    flow_written(train);
}

void
train_stop(struct train *train)
{
    if (!train)
        return;
    atomic_store(&train->stopping, true);
    bulk_halt(train->options.bulk);
    give_order(train, &(struct order){.kind = ORDER_STOP});
    pthread_join(train->thread, NULL);
    stop_writer(train);
    job_drop(train);
    struct train_report report;
    while (train_report_take(train, &report)) {
        free(report.progress);
        free(report.profile);
        free(report.path);
    }
    struct order order;
    while (mailbox_take(train->orders, &order))
        train_epoch_free(order.epoch);
    mailbox_free(train->orders);
    mailbox_free(train->reports);
    mailbox_free(train->to_writer);
    mailbox_free(train->from_writer);
    free(train->folder);
    free(train);
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
    give_order(train, &(struct order){.kind = ORDER_PROFILE,
                                      .shape = *shape,
                                      .sequences = sequences,
                                      .memory_bytes = memory_bytes,
                                      .measurement = ++train->measurements});
}

void
train_profile_stop(struct train *train)
{
    atomic_store(&train->measurement_end, train->measurements);
}

void
train_expect(struct train *train, const struct id *job, const struct id *data)
{
    give_order(train, &(struct order){.kind = ORDER_EXPECT, .job = *job, .data = *data});
}

int
train_report_fd(const struct train *train)
{
    return mailbox_fd(train->reports);
}

bool
train_report_take(struct train *train, struct train_report *report)
{
    if (mailbox_take(train->reports, report))
        return true;
    mailbox_clear(train->reports);
    return mailbox_take(train->reports, report);
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

/* ---- memory ---- */

static int64_t
state_bytes(const struct train_epoch *epoch, int stage)
{
    struct stage_spec spec = {.first_layer = epoch->plan.stages[stage].first_layer,
                              .layers = epoch->plan.stages[stage].layers,
                              .micro_batch = 1,
                              .in_flight = 1};
    struct stage_layout layout;
    workload_stage_layout(&epoch->request.shape, &spec, &layout);
    return layout.weights * STATE_KINDS * (int64_t)sizeof(float);
}

int64_t
train_predicted_bytes(const struct train_epoch *epoch)
{
    int64_t total = 0;
    int own, pipeline;
    if (plan_place(&epoch->plan, epoch->self, &own, &pipeline)) {
        struct stage_bytes bytes;
        plan_stage_bytes(&epoch->plan, &epoch->request, own, &bytes);
        total += bytes.total - bytes.copies;
    }
    bool gatherer = false;
    for (int i = 0; i < epoch->duties.gatherers_count; i++)
        gatherer |= epoch->duties.gatherers[i] == epoch->self;
    for (int s = 0; s < epoch->plan.stages_count; s++) {
        int64_t bytes = state_bytes(epoch, s);
        bool final = epoch->recovery.base_step >= epoch->job.steps;
        if (epoch->duties.source[s] == epoch->self)
            total += 2 * bytes;
        if (epoch->duties.keeper[s] == epoch->self && epoch->job.copy_every > 0 && !final)
            total += 2 * bytes;
        if (gatherer)
            total += bytes;
    }
    return total;
}
