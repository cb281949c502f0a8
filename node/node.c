#include "node/node.h"
#include "node/engine/train.h"
#include "node/status.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"
#include "transport/codec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    LEAVE_MS_MAX = 30000,
    MEASURE_EVERY_MS = 1000,
    LEADERLESS_MS = 8000, /* an election of far apart voters takes five seconds */
    CONTROL_IO_THREADS = 1,
    BULK_IO_THREADS = 1
};

const char *
node_name_of(const struct node *node, const struct id *id, char text[NAME_BYTES_MAX + 1])
{
    const struct member *member = node->gossip ? gossip_find(node->gossip, id) : NULL;
    if (member && member->record->name[0])
        snprintf(text, NAME_BYTES_MAX + 1, "%s", member->record->name);
    else if (id_empty(id))
        text[0] = '\0';
    else
        id_short(id, text);
    return text;
}

const char *
node_zone_of(const struct node *node, const struct id *id)
{
    const struct member *member = node->gossip ? gossip_find(node->gossip, id) : NULL;
    return member ? member->record->zone : "";
}

void
node_send(struct node *node, const struct id *to, enum frame_kind kind,
          const struct buf *body)
{
    struct err err;
    if (node->broken)
        return;
    if (mesh_send(node->mesh, to, kind, body->data, body->len, &err))
        log_debug("node", "frame not sent kind=%s reason=\"%s\"", frame_kind_name(kind),
                  err.msg);
}

void
node_broadcast(struct node *node, enum frame_kind kind, const struct buf *body)
{
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (!id_equal(&node->decree.members[i].id, &node->id))
            node_send(node, &node->decree.members[i].id, kind, body);
}

void
node_evidence(struct node *node, const struct id *to, const struct id *about,
              enum evidence_kind kind, const char *what)
{
    struct buf body = {0};
    char text[112];
    snprintf(text, sizeof(text), "%.111s", what);
    writer_array(&body, 4);
    writer_id(&body, about);
    writer_uint(&body, kind);
    writer_uint(&body, node->decree.epoch);
    writer_text(&body, text);
    if (to)
        node_send(node, to, FRAME_EVIDENCE, &body);
    else
        node_broadcast(node, FRAME_EVIDENCE, &body);
    buf_release(&body);
}

void
node_set_paused(struct node *node, const char *why)
{
    if (strcmp(node->paused, why) == 0)
        return;
    bool was = node->paused[0] != '\0';
    snprintf(node->paused, sizeof(node->paused), "%s", why);
    if (why[0]) {
        log_warn("node", "paused reason=\"%s\"", why);
        struct json_writer *writer = events_begin(node->events, "paused");
        json_put_text(writer, "reason", why);
        events_end(node->events);
    } else if (was) {
        log_info("node", "resumed");
        events_begin(node->events, "resumed");
        events_end(node->events);
    }
}

/* ---- effects ---- */

static void
persist(struct node *node, const struct effect *effect)
{
    char path[PATH_BYTES_MAX];
    struct err err;
    if (MUTANT(forget) && node->decree.epoch > 1)
        return;
    path_join(path, node->config.data, "agree.state");
    if (file_write(path, effect->bytes, effect->len, 0600, &err)) {
        /* A promise that is not durable must not leave: this node ends rather than break
         * its word. */
        log_error("node", "agreement state not written reason=\"%s\"", err.msg);
        node->broken = true;
        node_stop(node, 1, err.msg);
    }
}

/* A node of an older generation may still be in a majority of it, and would decide with it
 * until somebody asks it to join: it is told at once. */
static void
fence_older(struct node *node, const struct id *id)
{
    const struct member *member = gossip_find(node->gossip, id);
    if (member && epoch_generation(member->record->epoch) < node->decree.generation)
        agree_tell(node->agree, clock_ms(), id, member->record->epoch, &node->effects);
}

static void
member_changed(struct node *node, const struct effect *effect)
{
    const struct member *member = gossip_find(node->gossip, &effect->peer);
    if (id_equal(&effect->peer, &node->id))
        return;
    if (!member) {
        /* Forgotten: it has to join again. */
        admit_deny(node->admit, &effect->peer);
        mesh_forget(node->mesh, &effect->peer);
        return;
    }
    if (effect->before != effect->after) {
        log_info("gossip", "member name=%s zone=%s state=%s before=%s reason=\"%s\"",
                 member->record->name, member->record->zone,
                 member_state_name(member->state),
                 member_state_name((enum member_state)effect->before), effect->text);
        char text[ID_SHORT_SIZE];
        struct json_writer *writer = events_begin(node->events, "member");
        json_put_text(writer, "id", id_short(&effect->peer, text));
        json_put_text(writer, "name", member->record->name);
        json_put_text(writer, "zone", member->record->zone);
        json_put_text(writer, "state", member_state_name(member->state));
        json_put_text(writer, "before",
                      member_state_name((enum member_state)effect->before));
        json_put_text(writer, "reason", effect->text);
        events_end(node->events);
    }
    enter_meet(node, member);
    fence_older(node, &effect->peer);
    node->records_dirty = true;
}

static void
leader_changed(struct node *node, const struct effect *effect)
{
    char name[NAME_BYTES_MAX + 1], text[ID_SHORT_SIZE];
    node_name_of(node, &effect->peer, name);
    log_info("agree", "leader term=%llu name=%s", (unsigned long long)effect->term,
             name[0] ? name : "none");
    struct json_writer *writer = events_begin(node->events, "leader");
    json_put_int(writer, "term", (int64_t)effect->term);
    json_put_text(writer, "id",
                  id_empty(&effect->peer) ? "" : id_short(&effect->peer, text));
    json_put_text(writer, "name", name);
    events_end(node->events);
    if (!id_equal(&effect->peer, &node->id))
        lead_lost(node);
}

/* Two recoveries by hand, at two places: only a person can end it. */
static void
rival_met(struct node *node, const struct effect *effect)
{
    char name[NAME_BYTES_MAX + 1], text[ID_TEXT_SIZE];
    node_name_of(node, &effect->peer, name);
    node->rival_generation = (uint32_t)effect->after;
    log_error("agree", "%s peer=%s", effect->text, name);
    struct json_writer *writer = events_begin(node->events, "rival");
    json_put_int(writer, "generation", effect->after);
    json_put_text(writer, "hash", id_text(&effect->hash, text));
    json_put_text(writer, "peer", name);
    json_put_text(writer, "text", effect->text);
    events_end(node->events);
}

static void
carry_out(struct node *node, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_SEND: {
        struct buf body = {.data = effect->bytes, .len = effect->len};
        node_send(node, &effect->peer, effect->frame, &body);
        break;
    }
    case EFFECT_PERSIST:
        persist(node, effect);
        break;
    case EFFECT_MEMBER:
        member_changed(node, effect);
        break;
    case EFFECT_CONFLICT:
        twins_conflict(node, effect);
        break;
    case EFFECT_LEADER:
        leader_changed(node, effect);
        break;
    case EFFECT_COLLECT:
        break; /* lead_tick() looks at agree_idle() */
    case EFFECT_JUDGE:
        follow_judge(node, effect);
        break;
    case EFFECT_COMMITTED:
        follow_committed(node, effect);
        break;
    case EFFECT_RIVAL:
        rival_met(node, effect);
        break;
    case EFFECT_QUORUM:
        log_info("agree", "quorum reachable=%s", effect->after ? "yes" : "no");
        break;
    }
}

void
node_effects(struct node *node)
{
    /* Carrying out an effect may append others: the list is taken in turns until nothing
     * is left. */
    while (node->effects.count > 0) {
        struct effects turn = node->effects;
        memset(&node->effects, 0, sizeof(node->effects));
        for (size_t i = 0; i < turn.count && !node->broken; i++)
            if (!MUTANT(late) || turn.list[i].kind != EFFECT_PERSIST)
                carry_out(node, &turn.list[i]);
        for (size_t i = 0; MUTANT(late) && i < turn.count && !node->broken; i++)
            if (turn.list[i].kind == EFFECT_PERSIST)
                carry_out(node, &turn.list[i]);
        effects_release(&turn);
    }
}

/* ---- connections ---- */

static void
on_peer(void *arg, const struct id *peer, enum mesh_event event)
{
    struct node *node = arg;
    int64_t now = clock_ms();
    switch (event) {
    case MESH_UP:
        if (id_equal(peer, &node->denied_by))
            node->denied_ms = 0;
        node->found = node->found || decree_member(&node->decree, peer);
        watch_up(node->watch, now, peer);
        excluded_heard(node->lead.excluded, peer);
        gossip_met(node->gossip, now, peer, &node->effects);
        fence_older(node, peer);
        break;
    case MESH_DOWN:
        watch_down(node->watch, now, peer);
        break;
    case MESH_REFUSED:
        watch_refused(node->watch, now, peer);
        break;
    case MESH_DENIED:
        /* Our record is on its way to it, or enter_catch_up() asks it. */
        if (!node->denied_ms) {
            node->denied_by = *peer;
            node->denied_ms = now;
        }
        break;
    }
    node_effects(node);
}

/* ---- time ---- */

/* To all members, or where they are many to those who decide: that a node of our zone is
 * gone. Nobody believes it of another zone's. */
static void
tell_gone(struct node *node, const struct id *about, const char *why)
{
    if (strcmp(node->config.zone, node_zone_of(node, about)) != 0)
        return;
    if (node->decree.members_count <= VOTERS_MAX) {
        node_evidence(node, NULL, about, EVIDENCE_GONE, why);
        return;
    }
    for (uint32_t i = 0; i < node->decree.voters_count; i++)
        if (!id_equal(&node->decree.voters[i], &node->id))
            node_evidence(node, &node->decree.voters[i], about, EVIDENCE_GONE, why);
}

/* Members of whom we know that they are gone: others are told, gossip suspects them, a
 * lost leader is replaced. */
static void
look_after_members(struct node *node, int64_t now)
{
    bool tell = now - node->evidence_ms >= 250;
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        if (id_equal(id, &node->id))
            continue;
        enum watch_reason reason = watch_gone(node->watch, now, id);
        if (reason == WATCH_HERE)
            continue;
        agree_gone(node->agree, now, id, &node->effects);
        if (reason == WATCH_REFUSED) {
            gossip_refused(node->gossip, now, id, &node->effects);
            if (tell)
                tell_gone(node, id, watch_reason_name(reason));
        }
    }
    if (tell)
        node->evidence_ms = now;
}

static void
leave_tick(struct node *node, int64_t now)
{
    /* Gone once an epoch without us is in force, or nobody is left to make one, or it
     * takes too long. */
    if (node->decree.members_count <= 1)
        node_stop(node, node->exit_code, "the last member goes");
    else if (!node->member)
        node_stop(node, node->exit_code, "left");
    else if (now - node->leaving_ms > LEAVE_MS_MAX)
        node_stop(node, node->exit_code, "left without a new epoch");
}

/* A process that hardly gets to run measures others more by the time in which it ran,
 * down to a quarter of the clock's; one that did not run at all cannot know what it
 * missed. */
static void
look_at_gap(struct node *node, int64_t now, int64_t gap)
{
    if (gap > NODE_SLEPT_MS) {
        log_warn("node", "this process did not run for a while gap_ms=%lld",
                 (long long)gap);
        watch_slept(node->watch, now, gap);
        lead_slept(node, gap);
        node->woken = true;
        node->wake_mask = 0;
        key_random(&node->wake_nonce, sizeof(node->wake_nonce));
        node->asked_awake_ms = 0;
    } else if (gap > NODE_LATE_MS) {
        int64_t late = (gap - NODE_TICK_MS) * 3 / 4;
        watch_late(node->watch, now, late);
        agree_late(node->agree, now, late);
        lead_slept(node, late);
    }
}

bool
node_leaderless(const struct node *node, int64_t now_ms)
{
    return node->agree && id_empty(agree_leader(node->agree)) &&
           now_ms - node->led_ms > LEADERLESS_MS;
}

static void
on_tick(void *arg)
{
    struct node *node = arg;
    int64_t now = clock_ms();
    int64_t gap = now - node->ticked_ms;
    node->ticked_ms = now;
    enter_tick(node, now);
    if (!node->entered)
        return;
    look_at_gap(node, now, gap);
    gossip_tick(node->gossip, now, &node->effects);
    agree_tick(node->agree, now, &node->effects);
    if (!id_empty(agree_leader(node->agree)))
        node->led_ms = now;
    else if (gap > LEADERLESS_MS / 8)
        node->led_ms += gap; /* we were not there to hear of one */
    node_effects(node);
    look_after_members(node, now);
    node_effects(node);
    follow_fresh(node, now);
    admission_tick(node, now);
    twins_tick(node, now);
    lead_tick(node, now);
    node_effects(node);
    worker_progress_tick(node, now);
    measure_tick(node, now);
    paths_tick(node, now);
    if (now - node->measured_ms >= MEASURE_EVERY_MS) {
        node->measured_ms = now;
        enter_catch_up(node, now);
    }
    if (node->records_dirty && now - node->records_saved_ms > 2000)
        local_save_members(node);
    if (node->leaving_ms)
        leave_tick(node, now);
    node_effects(node);
}

static void
on_signal(void *arg, int fd)
{
    struct node *node = arg;
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (++node->signals > 1) {
        node_stop(node, 1, "a second signal");
        return;
    }
    if (node->entered)
        log_info("node", "leaving the swarm; a second signal stops at once");
    node_leave(node, "signal");
}

void
node_leave(struct node *node, const char *why)
{
    if (node->leaving_ms)
        return;
    if (!node->entered) {
        node_stop(node, 0, why);
        return;
    }
    node->leaving_ms = clock_ms();
    enter_record(node);
    struct buf body = {0};
    writer_text(&body, why);
    node_broadcast(node, FRAME_LEAVE, &body);
    buf_release(&body);
    agree_resign(node->agree, node->leaving_ms, &node->effects); /* if we lead */
    node_effects(node);
}

void
node_stop(struct node *node, int exit_code, const char *why)
{
    log_info("node", "stopping reason=\"%s\"", why);
    if (node->events) {
        struct json_writer *writer = events_begin(node->events, "stop");
        json_put_text(writer, "reason", why);
        events_end(node->events);
    }
    node->exit_code = exit_code;
    snprintf(node->stop_reason, sizeof(node->stop_reason), "%s", why);
    loop_stop(node->loop);
}

/* ---- life ---- */

/* The sockets and the engine: needs the swarm's id. Called by enter.c once that is
 * known. */
int
node_open_swarm(struct node *node, struct err *err)
{
    struct mesh_options mesh = {.key = node->key,
                                .swarm = node->swarm,
                                .listen = node->config.listen,
                                .routes = &node->config.routes,
                                .boot = node->boot,
                                .frame = frames_receive,
                                .peer = on_peer,
                                .arg = node};
    node->mesh = mesh_open(node->loop, node->admit, &mesh, err);
    if (!node->mesh)
        return -1;
    struct bulk_options bulk = {
        .key = node->key, .listen = node->config.listen, .routes = &node->config.routes};
    node->bulk = bulk_open(&bulk, err);
    if (!node->bulk)
        return -1;
    if (node->config.engine_off)
        return 0;
    reached_load(&node->reached, node->config.data);
    struct train_options train = {.bulk = node->bulk,
                                  .folder = node->config.data,
                                  .threads = node->config.threads,
                                  .fresh_at_ms = &node->fresh_at_ms,
                                  .fresh_ms = NODE_FRESH_MS};
    node->train = train_start(&train, err);
    if (!node->train)
        return -1;
    return 0;
}

static void
on_train(void *arg, int fd)
{
    (void)fd;
    worker_reports(arg);
    node_effects(arg);
}

static void
on_bulk(void *arg, int fd)
{
    (void)fd;
    worker_bulk_events(arg);
    node_effects(arg);
}

void
node_watch_swarm(struct node *node)
{
    if (node->train)
        loop_fd(node->loop, train_report_fd(node->train), on_train, node);
    loop_fd(node->loop, bulk_event_fd(node->bulk), on_bulk, node);
    node->measure = measure_new();
    node->entered = true;
    node->ticked_ms = node->entered_ms = node->led_ms = clock_ms();
}

void
node_close(struct node *node)
{
    control_close(node);
    if (node->train)
        train_stop(node->train);
    bulk_close(node->bulk);
    mesh_close(node->mesh);
    join_client_close(node->join_client);
    secret_free(node->handed);
    join_server_close(node->join_server);
    admission_close(node);
    twin_close(node->twin);
    admit_close(node->admit);
    loop_free(node->loop);
    gossip_free(node->gossip);
    agree_free(node->agree);
    links_free(node->links);
    measure_free(node->measure);
    watch_free(node->watch);
    reach_free(node->reach);
    severed_free(node->lead.severed);
    excluded_free(node->lead.excluded);
    effects_release(&node->effects);
    lead_reset(node);
    if (node->view)
        view_release(node->view);
    free(node->view);
    job_release(&node->freeze.job);
    job_release(&node->lead.job);
    decree_release(&node->decree);
    events_close(node->events);
    secret_free(node->secret);
    key_free(node->invite);
    key_free(node->key);
    if (node->signal_fd >= 0)
        close(node->signal_fd);
    if (node->lock_fd >= 0)
        close(node->lock_fd);
    config_release(&node->config);
    free(node);
    loop_teardown();
}

/* SIGTERM and SIGINT become events of the loop; blocked before any thread starts, so that
 * no thread gets them. */
static int
open_signals(struct node *node, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    node->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (node->signal_fd < 0)
        return err_set_errno(err, "could not watch for signals");
    return 0;
}

static void
default_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int
open_local(struct node *node, struct err *err)
{
    if (file_make_folder(node->config.data, err) || local_look(node, err))
        return -1;
    char path[PATH_BYTES_MAX];
    node->lock_fd = file_lock(path_join(path, node->config.data, STATUS_LOCK_FILE), err);
    if (node->lock_fd < 0 && err->code == ERR_LIMIT)
        return err_set(
            err, ERR_USAGE,
            "the data folder \"%s\" belongs to a node that is running; stop it with "
            "\"flotilla leave\", or give this one a folder of its own with --data",
            node->config.data);
    if (node->lock_fd < 0)
        return -1;
    if (open_signals(node, err) || loop_setup(CONTROL_IO_THREADS + BULK_IO_THREADS, err))
        return -1;
    node->loop = loop_new();
    node->events = events_open(node->config.data, err);
    if (!node->events)
        return -1;
    node->admit = admit_open(node->loop, err);
    if (!node->admit)
        return -1;
    admission_open(node);
    secrets_recall(node);
    loop_fd(node->loop, node->signal_fd, on_signal, node);
    loop_timer(node->loop, NODE_TICK_MS, on_tick, node);
    return control_open(node, err);
}

static void
copy_config(struct node_config *to, const struct node_config *from)
{
    *to = *from;
    to->routes.list = from->routes.count > 0
                          ? xmemdup(from->routes.list, (size_t)from->routes.count *
                                                           sizeof(*from->routes.list))
                          : NULL;
}

struct node *
node_open(const struct node_config *config, struct err *err)
{
    struct node *node = xcalloc(1, sizeof(*node));
    copy_config(&node->config, config);
    node->lock_fd = node->signal_fd = -1;
    node->watch = watch_new();
    node->lead.severed = severed_new();
    node->lead.excluded = excluded_new();
    node->links = links_new();
    node->ticked_ms = clock_ms();
    if (key_setup(err) || open_local(node, err) || enter_start(node, err)) {
        node_close(node);
        return NULL;
    }
    return node;
}

int
node_run(const struct node_config *config, struct err *err)
{
    struct node *node = node_open(config, err);
    if (!node)
        return -1;
    loop_run(node->loop);
    /* From here on a signal ends the process at once: a computation that takes minutes may
     * have to end first. */
    default_signals();
    int result = node->exit_code == 0 ? 0
                                      : err_set(err, ERR_STOPPED, "the node stopped: %s",
                                                node->stop_reason);
    node_close(node);
    return result;
}
