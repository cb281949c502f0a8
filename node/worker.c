/*
 * worker.c - the engine's driver: an epoch becomes orders, the engine's reports become
 * events, progress for others and evidence for the leader; the data plane's events become
 * link estimates and evidence.
 */
#include "node/engine/train.h"
#include "node/node.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_STEP, PROGRESS_COPIED, PROGRESS_DONE, PROGRESS_SPEED };
enum {
    PROGRESS_EVERY_MS = 250,
    SPEED_EVERY_MS = 2000,
    STALL_EVIDENCE_MS = 8000,
    STALE_SETTLE_MS = 300,
    FIELDS_MAX = 8
};

/* Does one of them send the other copies, or parts of a checkpoint? */
static bool
gives(const struct view *view, int from, int to)
{
    const struct duties *duties = &view->duties;
    bool gathers = false;
    for (int g = 0; g < duties->gatherers_count; g++)
        gathers = gathers || duties->gatherers[g] == to;
    for (int s = 0; s < view->plan.stages_count; s++)
        if (duties->source[s] == from && (gathers || duties->keeper[s] == to))
            return true;
    return false;
}

/* Do these two need a data connection? */
static bool
joined(const struct view *view, int a, int b)
{
    if (!view->planned || a < 0 || b < 0)
        return false;
    return (view_worker(view, a) && view_worker(view, b)) || gives(view, a, b) ||
           gives(view, b, a);
}

/* ---- orders ---- */

/* What names the epoch's decree in chunks and in states. */
static uint64_t
plan_tag(const struct node *node)
{
    struct id hash;
    decree_hash(&node->decree, &hash);
    return id_prefix(&hash);
}

static void
enter_bulk(struct node *node)
{
    uint32_t count = node->decree.members_count;
    struct bulk_peer *peers = xcalloc(count, sizeof(*peers));
    struct bulk_epoch epoch = {.generation = node->decree.generation,
                               .epoch = node->decree.epoch,
                               .self = -1,
                               .peers_count = (int)count,
                               .peers = peers};
    epoch.plan_tag = plan_tag(node);
    for (uint32_t i = 0; i < count; i++) {
        peers[i].id = node->decree.members[i].id;
        const struct member *member = gossip_find(node->gossip, &peers[i].id);
        int reported = view_node(node->view, &peers[i].id);
        const char *address = member ? member->record->address
                              : reported >= 0
                                  ? node->view->reports[reported].record.address
                                  : "";
        struct err err;
        peers[i].hidden = paths_hidden(node, &peers[i].id);
        /* In a large swarm those are connected who work with each other. */
        peers[i].lazy = count > REACH_KEEP_ALL_MAX &&
                        !joined(node->view, view_node(node->view, &node->id), (int)i);
        if (id_equal(&peers[i].id, &node->id))
            epoch.self = (int)i;
        else if (address_parse(address, &peers[i].base, &err))
            log_warn("node", "a member has no address to dial reason=\"%s\"", err.msg);
    }
    memset(node->data_ways, 0, sizeof(node->data_ways));
    bulk_enter(node->bulk, &epoch);
    free(peers);
}

static void
copy_recovery(struct recovery *to, const struct recovery *from, int nodes)
{
    *to = *from;
    to->transfers = xmemdup(from->transfers,
                            (size_t)from->transfers_count * sizeof(*from->transfers));
    to->data_from = xmemdup(from->data_from, (size_t)nodes * sizeof(*from->data_from));
}

static void
copy_cluster(struct cluster *to, const struct cluster *from)
{
    cluster_init(to, from->nodes_count, from->zones_count);
    memcpy(to->zones, from->zones, sizeof(to->zones));
    memcpy(to->nodes, from->nodes, (size_t)from->nodes_count * sizeof(*to->nodes));
    memcpy(to->links, from->links,
           (size_t)from->zones_count * (size_t)from->zones_count * sizeof(*to->links));
}

void
worker_enter(struct node *node)
{
    const struct view *view = node->view;
    node->entered_epoch_ms = clock_ms();
    if (!node->train)
        return; /* it has no part in any plan, and no data connections */
    enter_bulk(node);
    memset(node->run.copied, 0, sizeof(node->run.copied));
    node->run.compute_us = node->run.predicted_us = 0;
    node->run.done_step = node->run.written_step = -1;
    if (!view->planned) {
        if (view->state == JOB_NONE) {
            train_drop(node->train);
        } else if (node->decree.cause == CAUSE_RECOVERY) {
            /* Nobody asked us to halt before it. */
            bulk_halt(node->bulk);
            train_halt(node->train);
            node->halts_asked++;
        }
        return;
    }
    struct train_epoch *epoch = xcalloc(1, sizeof(*epoch));
    epoch->lineage = (struct lineage){node->decree.epoch, plan_tag(node)};
    epoch->self = view_node(view, &node->id);
    epoch->job = view->job.train;
    if (view->state == JOB_STOPPING && view->stop_after < epoch->job.steps)
        epoch->job.steps = view->stop_after;
    epoch->request = view->request;
    epoch->plan = view->plan;
    epoch->duties = view->duties;
    copy_cluster(&epoch->cluster, &view->cluster);
    copy_recovery(&epoch->recovery, &view->recovery, view->cluster.nodes_count);
    epoch->text = view->job.text ? xstrdup(view->job.text) : NULL;
    if (!id_equal(&node->run.job, &view->job.train.id)) {
        node->run.job = view->job.train.id;
        node->run.checkpoint_step = 0;
    }
    node->run.step = view->recovery.base_step;
    node->run.copy_step = view->recovery.copied.step;
    node->run.samples_hash = view->recovery.samples_hash;
    train_epoch(node->train, &epoch);
}

/* ---- progress between members ---- */

static void
put_progress(struct buf *body, unsigned kind, const uint64_t *fields, size_t count)
{
    writer_array(body, 2);
    writer_uint(body, kind);
    writer_array(body, count);
    for (size_t i = 0; i < count; i++)
        writer_uint(body, fields[i]);
}

static void
tell_leader(struct node *node, unsigned kind, const uint64_t *fields, size_t count)
{
    struct buf body = {0};
    put_progress(&body, kind, fields, count);
    const struct id *leader = agree_leader(node->agree);
    struct err err;
    if (id_equal(leader, &node->id)) {
        if (worker_progress_receive(node, leader, body.data, body.len, &err))
            log_error("node", "own progress refused reason=\"%s\"", err.msg);
    } else if (!id_empty(leader)) {
        node_send(node, leader, FRAME_PROGRESS, &body);
    }
    buf_release(&body);
}

static void
tell_idle(struct node *node, const uint64_t *fields, size_t count)
{
    struct buf body = {0};
    put_progress(&body, PROGRESS_STEP, fields, count);
    for (uint32_t i = 0; i < node->view->reports_count; i++)
        if (!view_worker(node->view, (int)i) &&
            !id_equal(&node->view->reports[i].id, &node->id))
            node_send(node, &node->view->reports[i].id, FRAME_PROGRESS, &body);
    buf_release(&body);
}

void
worker_copied(struct node *node, int stage, int64_t step)
{
    const struct view *view = node->view;
    if (!node->train || !view->planned || stage < 0 || stage >= view->plan.stages_count)
        return;
    if (step > node->run.copied[stage])
        node->run.copied[stage] = step;
    int64_t complete = INT64_MAX;
    for (int s = 0; s < view->plan.stages_count; s++)
        if (view->duties.keeper[s] >= 0 && node->run.copied[s] < complete)
            complete = node->run.copied[s];
    if (complete == INT64_MAX || complete <= 0 || complete <= node->run.copy_step)
        return;
    node->run.copy_step = complete;
    train_copied(node->train, complete);
    struct json_writer *writer = events_begin(node->events, "copy");
    json_put_int(writer, "step", complete);
    events_end(node->events);
}

static void
remote_step(struct node *node, const uint64_t *fields)
{
    struct run_progress *run = &node->run;
    run->step = (int64_t)fields[0];
    memcpy(&run->loss, &fields[1], sizeof(run->loss));
    run->step_us = (int64_t)fields[3];
    run->tokens_per_s = fields[3] > 0 ? (double)fields[2] * 1e6 / (double)fields[3] : 0;
    run->samples_hash = fields[4];
    struct json_writer *writer = events_begin(node->events, "progress");
    json_put_int(writer, "epoch", epoch_number(node->decree.epoch));
    json_put_int(writer, "step", run->step);
    json_put_double(writer, "loss", run->loss);
    json_put_int(writer, "tokens", (int64_t)fields[2]);
    json_put_int(writer, "nodes", node->decree.members_count);
    json_put_double(writer, "step_s", (double)fields[3] / 1e6);
    events_end(node->events);
}

int
worker_progress_receive(struct node *node, const struct id *from, const void *body,
                        size_t len, struct err *err)
{
    struct reader *reader = reader_open(body, len, err);
    if (!reader)
        return -1;
    uint64_t fields[FIELDS_MAX] = {0};
    reader_enter(reader, 2, 2);
    uint64_t kind = reader_uint(reader, PROGRESS_SPEED);
    size_t count = reader_enter(reader, 1, FIELDS_MAX);
    for (size_t i = 0; i < count; i++)
        fields[i] = reader_uint(reader, UINT64_MAX);
    reader_leave(reader);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    int sender = view_node(node->view, from);
    if (sender < 0)
        return 0;
    switch (kind) {
    case PROGRESS_STEP:
        if (count == 5 && node->view->planned && fields[0] < INT64_MAX &&
            fields[3] < INT64_MAX)
            remote_step(node, fields);
        break;
    case PROGRESS_COPIED:
        if (count == 3 && fields[2] == node->decree.epoch && fields[0] < STAGES_MAX &&
            node->view->duties.keeper[fields[0]] == sender)
            worker_copied(node, (int)fields[0], (int64_t)fields[1]);
        break;
    case PROGRESS_DONE:
        if (count == 3 && fields[1] == node->decree.epoch)
            lead_done(node, sender, fields[2] != 0);
        break;
    case PROGRESS_SPEED:
        if (count == 1 && fields[0] >= 1000 && fields[0] <= 1000000000)
            node->lead.correction_ppm[sender] = (int64_t)fields[0];
        break;
    }
    return 0;
}

/* ---- the engine's reports ---- */

static void
on_step(struct node *node, const struct train_report *report)
{
    struct run_progress *run = &node->run;
    run->step = report->step;
    run->loss = report->loss;
    run->step_us = report->step_us;
    run->samples_hash = report->samples_hash;
    struct err err;
    if (reached_note(&node->reached, clock_ms(), node->config.data,
                     &node->view->job.train.id, report->step, report->samples_hash, &err))
        log_limited(LOG_WARN, "node", "%s", err.msg);
    run->tokens_per_s =
        report->step_us > 0 ? (double)report->tokens * 1e6 / (double)report->step_us : 0;
    /* Smoothed over about sixteen steps. */
    run->compute_us +=
        (report->compute_us - run->compute_us) / (run->compute_us ? 16 : 1);
    run->predicted_us +=
        (report->predicted_compute_us - run->predicted_us) / (run->predicted_us ? 16 : 1);
    char hash[17];
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)report->samples_hash);
    struct json_writer *writer = events_begin(node->events, "step");
    json_put_int(writer, "epoch", epoch_number(report->epoch));
    json_put_int(writer, "step", report->step);
    json_put_double(writer, "loss", report->loss);
    json_put_int(writer, "tokens", report->tokens);
    json_put_int(writer, "nodes", node->decree.members_count);
    json_put_double(writer, "norm", report->norm);
    json_put_double(writer, "step_s", (double)report->step_us / 1e6);
    json_put_text(writer, "samples_hash", hash);
    events_end(node->events);

    /* One worker tells those who have no part in the plan. */
    const struct plan *plan = &node->view->plan;
    int64_t now = clock_ms();
    if (node->view->planned &&
        plan->stages[plan->stages_count - 1].nodes[0] ==
            view_node(node->view, &node->id) &&
        (now - run->told_ms >= PROGRESS_EVERY_MS ||
         report->step == node->view->job.train.steps)) {
        run->told_ms = now;
        uint64_t loss;
        memcpy(&loss, &report->loss, sizeof(loss));
        uint64_t fields[5] = {(uint64_t)report->step, loss, (uint64_t)report->tokens,
                              (uint64_t)report->step_us, report->samples_hash};
        tell_idle(node, fields, 5);
    }
}

static void
on_stall(struct node *node, const struct train_report *report)
{
    const struct view *view = node->view;
    char name[NAME_BYTES_MAX + 1] = "";
    if (report->peer >= 0 && (uint32_t)report->peer < view->reports_count)
        node_name_of(node, &view->reports[report->peer].id, name);
    log_limited(LOG_WARN, "engine", "waiting what=\"%s\" for=%s waited_ms=%lld",
                report->what, name, (long long)report->waited_ms);
    struct json_writer *writer = events_begin(node->events, "stall");
    json_put_text(writer, "peer", name);
    json_put_int(writer, "waited_ms", report->waited_ms);
    json_put_text(writer, "what", report->what);
    events_end(node->events);
    if (report->waited_ms < STALL_EVIDENCE_MS || node->freeze.active || node->paused[0])
        return;
    worker_link_broken(node, report->peer, EVIDENCE_BROKEN, "waited too long");
}

static void
on_checkpoint(struct node *node, const struct train_report *report)
{
    node->run.checkpoint_step = node->run.written_step = report->step;
    log_info("engine", "checkpoint step=%lld path=%s", (long long)report->step,
             report->path);
    struct json_writer *writer = events_begin(node->events, "checkpoint");
    json_put_int(writer, "step", report->step);
    json_put_text(writer, "path", report->path);
    events_end(node->events);
}

static void
on_failed(struct node *node, const struct train_report *report)
{
    log_error("engine", "%s reason=\"%s\"", report->what, report->err.msg);
    struct json_writer *writer = events_begin(node->events, "failed");
    json_put_text(writer, "what", report->what);
    json_put_text(writer, "reason", report->err.msg);
    events_end(node->events);
    if (strcmp(report->what, "checkpoint") == 0 || strcmp(report->what, "copy") == 0)
        return; /* training goes on; older checkpoints and copies are untouched */
    if (strcmp(report->what, "profile") == 0 || strcmp(report->what, "epoch") == 0) {
        follow_cannot(node, strcmp(report->what, "profile") == 0);
        return;
    }
    const struct id *leader = agree_leader(node->agree);
    if (id_equal(leader, &node->id)) {
        node->lead.done = true;
        snprintf(node->lead.ended, sizeof(node->lead.ended), "failed: %.111s",
                 report->err.msg);
    } else if (!id_empty(leader)) {
        node_evidence(node, leader, &node->id, EVIDENCE_FAILED, report->err.msg);
    }
}

static void
on_report(struct node *node, struct train_report *report)
{
    struct json_writer *writer;
    switch (report->kind) {
    case REPORT_COMPUTE:
        writer = events_begin(node->events, "compute");
        json_put_int(writer, "epoch", epoch_number(report->epoch));
        json_put_int(writer, "step", report->step);
        events_end(node->events);
        break;
    case REPORT_STEP:
        on_step(node, report);
        break;
    case REPORT_STALL:
        if (report->epoch == node->decree.epoch)
            on_stall(node, report);
        break;
    case REPORT_HALTED:
        follow_halted(node, report->progress);
        free(report->progress);
        break;
    case REPORT_COPIED: {
        uint64_t fields[3] = {(uint64_t)report->stage, (uint64_t)report->step,
                              report->epoch};
        struct buf body = {0};
        put_progress(&body, PROGRESS_COPIED, fields, 3);
        if (report->epoch == node->decree.epoch) {
            node_broadcast(node, FRAME_PROGRESS, &body);
            worker_copied(node, report->stage, report->step);
        }
        buf_release(&body);
        break;
    }
    case REPORT_CHECKPOINT:
        on_checkpoint(node, report);
        free(report->path);
        break;
    case REPORT_DONE:
        if (report->epoch == node->decree.epoch)
            node->run.done_step = report->step;
        node->progress_ms = 0;
        worker_progress_tick(node, clock_ms());
        break;
    case REPORT_PROFILED:
        follow_profiled(node, report->profile);
        free(report->profile);
        break;
    case REPORT_FAILED:
        on_failed(node, report);
        break;
    case REPORT_MEMORY:
        writer = events_begin(node->events, "memory");
        json_put_int(writer, "predicted_bytes", report->predicted_bytes);
        events_end(node->events);
        break;
    }
}

void
worker_reports(struct node *node)
{
    struct train_report report;
    while (train_report_take(node->train, &report))
        on_report(node, &report);
}

void
worker_progress_tick(struct node *node, int64_t now)
{
    if (now - node->progress_ms < SPEED_EVERY_MS || !node->view->planned)
        return;
    node->progress_ms = now;
    if (node->run.done_step >= 0) {
        /* Said again and again, since a leader may change: until an epoch without the
         * run. */
        uint64_t fields[3] = {(uint64_t)node->run.done_step, node->decree.epoch,
                              node->run.written_step == node->run.done_step};
        tell_leader(node, PROGRESS_DONE, fields, 3);
    }
    if (node->run.predicted_us <= 0 || node->run.compute_us <= 0)
        return;
    int64_t ppm = node->run.compute_us * 1000000 / node->run.predicted_us;
    if (ppm < 1000 || ppm > 1000000000)
        return;
    node->profile.correction_ppm = ppm;
    uint64_t fields[1] = {(uint64_t)ppm};
    tell_leader(node, PROGRESS_SPEED, fields, 1);
}

/* ---- the data plane's events ---- */

void
worker_link_broken(struct node *node, int peer, enum evidence_kind kind, const char *why)
{
    if (!node->view->planned || peer < 0 || (uint32_t)peer >= node->decree.members_count)
        return;
    const struct id *leader = agree_leader(node->agree);
    const struct id *about = &node->decree.members[peer].id;
    char name[NAME_BYTES_MAX + 1];
    log_limited(LOG_WARN, "node",
                "a connection inside the plan is broken to=%s reason=\"%s\"",
                node_name_of(node, about, name), why);
    if (!id_equal(leader, &node->id)) {
        if (!id_empty(leader))
            node_evidence(node, leader, about, kind, why);
    } else if (kind == EVIDENCE_SEVERED) {
        lead_severed(node, &node->id, about);
    } else if (node->lead.link_at_ms == 0) {
        node->lead.link_at_ms = clock_ms();
    }
}

/* A data connection that is not ours to the peer is worth a word. */
static void
data_way(struct node *node, const struct bulk_event *event)
{
    char name[NAME_BYTES_MAX + 1], via[NAME_BYTES_MAX + 1];
    if (event->epoch != node->decree.epoch || event->peer < 0 ||
        event->peer >= PLAN_NODES_MAX)
        return;
    node->data_ways[event->peer] = (uint8_t)event->way;
    if (event->way == BULK_BACK)
        log_info("node", "data goes over the peer's own connection peer=%s",
                 node_name_of(node, &event->id, name));
    if (event->way == BULK_ROUND)
        log_warn("node",
                 "data goes by a third member, since neither side can connect; its rate "
                 "is lower peer=%s via=%s",
                 node_name_of(node, &event->id, name),
                 node_name_of(node, &event->via, via));
}

void
worker_bulk_events(struct node *node)
{
    struct bulk_event event;
    int64_t now = clock_ms();
    while (bulk_event_take(node->bulk, &event)) {
        switch (event.kind) {
        case BULK_UP:
            data_way(node, &event);
            break;
        case BULK_LOST:
            if (event.epoch == node->decree.epoch && node->member &&
                joined(node->view, view_node(node->view, &node->id), event.peer))
                worker_link_broken(node, event.peer, EVIDENCE_SEVERED,
                                   "data connection lost");
            break;
        case BULK_STALE: {
            /* For a moment after a change this is only the slower ones' last words. */
            if (now - node->entered_epoch_ms < STALE_SETTLE_MS)
                break;
            struct buf body = {0};
            agree_export(node->agree, &body);
            node_send(node, &event.id, FRAME_COMMIT, &body);
            buf_release(&body);
            break;
        }
        case BULK_NEWER:
            break; /* the leader's beat names the epoch, and we fetch it */
        case BULK_PROBED:
        case BULK_RATE:
            measure_bulk_event(node, &event);
            break;
        }
    }
}
