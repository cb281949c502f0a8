/*
 * follow.c - what a member does for agreement: halts and reports when the leader asks,
 * judges proposals, takes in new epochs, and knows whether its epoch is still the newest.
 */
#include "node/engine/train.h"
#include "node/neighbour.h"
#include "node/node.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"
#include "transport/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNFREEZE_MS = 4000, AWAKE_AGAIN_MS = 200, OUTSIDE_MS = 5000 };

/* ---- halt and report ---- */

static void
send_report(struct node *node)
{
    struct freeze *freeze = &node->freeze;
    gossip_flush(node->gossip, &node->effects); /* links as they are now */
    const struct member *self = gossip_member_self(node->gossip);
    struct report report = {.id = node->id,
                            .term = freeze->term,
                            .epoch = freeze->epoch,
                            .progress = freeze->progress};
    report.progress.reported = true;
    report.profile.correction_ppm = 1000000;
    report.steady = node->member && clock_ms() - node->member_since_ms >=
                                        node->config.voter_age_s * INT64_C(1000);
    if (freeze->with_job) {
        report.job = freeze->job.train.id;
        if (node->train && !id_equal(&node->cannot, &report.job) && !node->leaving_ms &&
            !freeze->rests)
            report.profile = node->profile;
    }
    struct buf body = {0};
    struct err err;
    report_sign(&report, self->bytes, self->len, node->key, &node->swarm, &body);
    if (!id_equal(&freeze->leader, &node->id))
        node_send(node, &freeze->leader, FRAME_REPORT, &body);
    else if (lead_report(node, body.data, body.len, &err))
        log_limited(LOG_WARN, "lead",
                    "this node's own report is passed over reason=\"%s\"", err.msg);
    buf_release(&body);
}

bool
follow_measured(const struct node *node, const struct job *job)
{
    if (!node->train || id_equal(&node->cannot, &job->train.id))
        return true; /* there is nothing more to find out */
    return node->profile.count > 0 && node->profile_sequences >= job->sequences &&
           memcmp(&node->profile_shape, &job->shape, sizeof(job->shape)) == 0;
}

/* One measurement at a time; its end is follow_profiled(). */
static void
measure(struct node *node, const struct job *job)
{
    if (node->profiling.sequences > 0)
        return;
    node->profiling.shape = job->shape;
    node->profiling.sequences = job->sequences;
    train_profile(node->train, &job->shape, job->sequences, node->config.memory_bytes);
}

/* A joiner measures itself before it is let into a run, so that nobody waits for it. */
static void
measure_for_run(struct node *node)
{
    const struct job *job = &node->view->job;
    if (node->view->state != JOB_NONE && !follow_measured(node, job))
        measure(node, job);
}

/* A job that is withdrawn, or replaced by another, needs no measurement. */
static void
measure_only(struct node *node, const struct job *job)
{
    if (node->profiling.sequences > 0 &&
        (!job || memcmp(&node->profiling.shape, &job->shape, sizeof(job->shape)) != 0))
        train_profile_stop(node->train);
}

/* Halted: what is still to be known before we can report? */
static void
go_on_reporting(struct node *node)
{
    struct freeze *freeze = &node->freeze;
    if (!freeze->halted || freeze->profiling)
        return;
    if (freeze->with_job && !freeze->rests && !follow_measured(node, &freeze->job)) {
        freeze->profiling = true;
        measure(node, &freeze->job);
        return;
    }
    send_report(node);
}

static void
begin_freeze(struct node *node, const struct id *leader, uint64_t term, uint64_t epoch)
{
    struct freeze *freeze = &node->freeze;
    bool halted = freeze->active && freeze->epoch == epoch && freeze->halted;
    struct progress progress = freeze->progress;
    bool profiling = freeze->profiling;
    job_release(&freeze->job);
    *freeze = (struct freeze){.active = true,
                              .leader = *leader,
                              .term = term,
                              .epoch = epoch,
                              .halted = halted,
                              .progress = progress,
                              .profiling = profiling,
                              .since_ms = clock_ms()};
}

int
follow_freeze(struct node *node, const struct id *from, const void *body, size_t len,
              struct err *err)
{
    struct reader *reader = reader_open(body, len, err);
    if (!reader)
        return -1;
    size_t job_len;
    reader_enter(reader, 4, 4);
    uint64_t term = reader_uint(reader, UINT64_MAX);
    uint64_t epoch = reader_uint(reader, UINT64_MAX);
    const uint8_t *bytes = reader_bytes(reader, JOB_BYTES_MAX, &job_len);
    bool rests = reader_bool(reader);
    reader_leave(reader);
    struct job job = {0};
    if (reader_close(&reader, err) ||
        (job_len > 0 && job_decode(bytes, job_len, &job, err)))
        return -1;
    /* Only the leader that we know, for the epoch that we are in: anybody behind catches
     * up first. Who is outside hears no beats, and halts nothing: any voter may ask it.
     */
    bool leads = node->member ? id_equal(from, agree_leader(node->agree)) &&
                                    term == agree_term(node->agree)
                              : decree_voter(&node->decree, from);
    if (!leads || epoch != node->decree.epoch) {
        job_release(&job);
        return 0;
    }
    struct freeze *freeze = &node->freeze;
    bool again = freeze->active && freeze->term == term && freeze->epoch == epoch &&
                 id_equal(&freeze->leader, from) && freeze->rests == rests &&
                 freeze->with_job == (job_len > 0) &&
                 (job_len == 0 || id_equal(&freeze->job.train.id, &job.train.id));
    if (again) {
        job_release(&job);
        go_on_reporting(node);
        return 0;
    }
    bool same_job =
        freeze->with_job && job_len > 0 && id_equal(&freeze->job.train.id, &job.train.id);
    begin_freeze(node, from, term, epoch);
    freeze->rests = rests;
    freeze->with_job = job_len > 0;
    freeze->job = job;
    measure_only(node, freeze->with_job ? &freeze->job : NULL);
    if (freeze->halted && !same_job)
        freeze->halted =
            false; /* asked about another job: what we hold of it is to be found out */
    if (!node->train) {
        freeze->halted = true; /* it holds nothing */
        freeze->progress = (struct progress){.applied = -1};
    } else if (!freeze->halted) {
        bulk_halt(node->bulk);
        train_expect(node->train,
                     freeze->with_job ? &freeze->job.train.id : &(struct id){{0}},
                     freeze->with_job ? &freeze->job.train.data : &(struct id){{0}});
        train_halt(node->train);
        node->halts_asked++;
    }
    go_on_reporting(node);
    return 0;
}

void
follow_halted(struct node *node, const struct progress *progress)
{
    struct json_writer *writer = events_begin(node->events, "halted");
    json_put_int(writer, "epoch", epoch_number(node->decree.epoch));
    json_put_int(writer, "applied", progress->applied);
    json_put_int(writer, "prepared", progress->prepared ? progress->applied + 1 : -1);
    events_end(node->events);
    /* An answer to an earlier question may be about another job. */
    node->halts_answered++;
    if (!node->freeze.active || node->halts_answered != node->halts_asked)
        return;
    node->freeze.halted = true;
    node->freeze.progress = *progress;
    if (node->freeze.with_job)
        reached_fill(&node->reached, &node->freeze.job.train.id, &node->freeze.progress);
    go_on_reporting(node);
}

void
follow_cannot(struct node *node, bool profiling)
{
    const struct job *job = node->freeze.active && node->freeze.with_job
                                ? &node->freeze.job
                                : &node->view->job;
    node->cannot = job->train.id;
    if (profiling) {
        node->profiling.sequences = 0;
        node->freeze.profiling = false;
        enter_record(node);
        go_on_reporting(node);
        return;
    }
    const struct id *leader = agree_leader(node->agree);
    if (id_equal(leader, &node->id))
        node->lead.link_at_ms = clock_ms();
    else if (!id_empty(leader))
        node_evidence(node, leader, &node->id, EVIDENCE_BROKEN,
                      "its engine cannot carry out the epoch");
}

void
follow_profiled(struct node *node, const struct profile *profile)
{
    if (profile) {
        node->profile = *profile;
        node->profile_shape = node->profiling.shape;
        node->profile_sequences = node->profiling.sequences;
    }
    node->profiling.sequences = 0;
    enter_record(node);
    if (node->freeze.active && node->freeze.profiling) {
        node->freeze.profiling = false;
        go_on_reporting(node);
    } else if (!node->member) {
        measure_for_run(node);
    }
}

/* ---- judge ---- */

void
follow_judge(struct node *node, const struct effect *effect)
{
    struct decree decree = {0};
    struct view *view = xcalloc(1, sizeof(*view));
    struct err err = {0};
    bool right = decree_decode(effect->bytes, effect->len, &decree, &err) == 0;
    right = right && view_decode(decree.body, decree.body_len, &node->swarm,
                                 secret_admit_id(node->secret), view, &err) == 0;
    right = right && view_judge(&decree, view, &node->decree, node->view, &err) == 0;
    /* What an earlier leader proposed may have been chosen, with us or without. */
    bool adopted = effect->after != 0;
    right = right && (adopted || id_set_has(&view->policy.evicted, &node->id) ||
                      view_keeps(&decree, &node->id, node->leaving_ms != 0, &err) == 0);
    right = right || MUTANT(judge);
    if (!right)
        log_warn("agree", "a proposal is refused epoch=%llu reason=\"%s\"",
                 (unsigned long long)decree.epoch, err.msg);
    view_release(view);
    free(view);
    decree_release(&decree);
    agree_judged(node->agree, clock_ms(), &effect->hash, right, err.msg, &node->effects);
}

/* ---- a new epoch ---- */

static void
log_epoch(struct node *node, uint64_t term)
{
    char leader[NAME_BYTES_MAX + 1], hash[ID_SHORT_SIZE], name[NAME_BYTES_MAX + 1];
    const struct view *view = node->view;
    const struct decree *decree = &node->decree;
    node_name_of(node, agree_leader(node->agree), leader);
    log_info("node",
             "epoch epoch=%u cause=%s members=%u leader=%s job=%s stages=%d pipelines=%d",
             epoch_number(decree->epoch), decree_cause_name(decree->cause),
             decree->members_count, leader,
             view->state == JOB_NONE ? "none" : view->job.train.name,
             view->planned ? view->plan.stages_count : 0,
             view->planned ? view->plan.pipelines_count : 0);
    struct json_writer *writer = events_begin(node->events, "epoch");
    json_put_int(writer, "epoch", epoch_number(decree->epoch));
    if (decree->generation > 0)
        json_put_int(writer, "generation", decree->generation);
    json_put_int(writer, "term", (int64_t)term);
    const struct id *leads = agree_leader(node->agree);
    json_put_text(writer, "leader", id_empty(leads) ? "" : id_short(leads, hash));
    json_put_text(writer, "leader_name", leader);
    json_put_text(writer, "cause", decree_cause_name(decree->cause));
    struct id full;
    decree_hash(decree, &full);
    char text[ID_TEXT_SIZE];
    json_put_text(writer, "hash", id_text(&full, text));
    json_put_int(writer, "base_step", view->planned ? view->recovery.base_step : -1);
    json_put_text(writer, "job", view->state == JOB_NONE ? "" : view->job.train.name);
    json_array_open(writer, "members");
    for (uint32_t i = 0; i < decree->members_count; i++) {
        json_object_open(writer, NULL);
        json_put_text(writer, "id", id_short(&decree->members[i].id, hash));
        json_put_text(writer, "name", node_name_of(node, &decree->members[i].id, name));
        json_object_close(writer);
    }
    json_array_close(writer);
    json_array_open(writer, "voters");
    for (uint32_t i = 0; i < decree->voters_count; i++)
        json_put_text(writer, NULL, node_name_of(node, &decree->voters[i], name));
    json_array_close(writer);
    status_put_plan(node, view, writer);
    json_put_double(writer, "predicted_step_s",
                    view->planned ? (double)view->plan.predicted_step_ns / 1e9 : 0);
    events_end(node->events);
}

static void
log_job(struct node *node, const struct view *before)
{
    const struct view *view = node->view;
    const char *state = NULL, *name = view->job.train.name;
    if (view->state == JOB_RUNNING && before->state == JOB_NONE)
        state = "running";
    else if (view->state == JOB_STOPPING && before->state == JOB_RUNNING)
        state = "stopping";
    else if (view->state == JOB_NONE && before->state != JOB_NONE) {
        state = view->ended[0] ? view->ended : "done";
        name = before->job.train.name;
    }
    if (state) {
        log_info("node", "job name=%s state=\"%s\"", name, state);
        struct json_writer *writer = events_begin(node->events, "job");
        json_put_text(writer, "name", name);
        json_put_text(writer, "state", state);
        events_end(node->events);
    }
    if (view->planned && view->recovery.steps_lost > 0) {
        log_warn("node", "applied steps are given up from=%lld to=%lld",
                 (long long)(view->recovery.base_step + view->recovery.steps_lost),
                 (long long)view->recovery.base_step);
        struct json_writer *writer = events_begin(node->events, "rollback");
        json_put_int(writer, "from_step",
                     view->recovery.base_step + view->recovery.steps_lost);
        json_put_int(writer, "to_step", view->recovery.base_step);
        events_end(node->events);
    }
}

/* Are we in it, with this boot? */
static bool
listed(const struct node *node, const struct decree *decree)
{
    for (uint32_t i = 0; i < decree->members_count; i++)
        if (id_equal(&decree->members[i].id, &node->id))
            return decree->members[i].incarnation >> 32 == node->boot || MUTANT(boot);
    return false;
}

static void
set_watched(struct node *node)
{
    struct id others[PLAN_NODES_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (!id_equal(&node->decree.members[i].id, &node->id))
            others[count++] = node->decree.members[i].id;
    int64_t now = clock_ms();
    watch_set(node->watch, now, others, count);
    for (size_t i = 0; i < count; i++)
        if (mesh_connected(node->mesh, &others[i]) &&
            !watch_is_up(node->watch, &others[i]))
            watch_up(node->watch, now, &others[i]);
    struct id near[NEIGHBOURS_MAX];
    gossip_watch(node->gossip, near,
                 neighbours_of(node->view, &node->decree, &node->id, near));
}

void
follow_committed(struct node *node, const struct effect *effect)
{
    struct decree decree = {0};
    struct err err;
    struct view *view = xcalloc(1, sizeof(*view));
    if (decree_decode(effect->bytes, effect->len, &decree, &err) ||
        view_decode(decree.body, decree.body_len, &node->swarm,
                    secret_admit_id(node->secret), view, &err)) {
        /* A majority vouches for bytes that we cannot read: another version of the
         * program. */
        log_error("node",
                  "an epoch that a majority agreed on cannot be read here reason=\"%s\"",
                  err.msg);
        free(view);
        decree_release(&decree);
        return;
    }
    struct view *before = node->view;
    bool was = node->member, recalled = effect->before != 0;
    bool outlived = !recalled && node->decree.epoch > 0 &&
                    decree.generation > node->decree.generation;
    decree_release(&node->decree);
    node->decree = decree;
    node->view = view;
    node->member = listed(node, &node->decree);
    if (node->member && !was)
        node->member_since_ms = clock_ms();
    node->wake_mask = 0;
    set_watched(node);
    node->found = node->found || !recalled;
    node->secret_given = node->secret_given && recalled;
    if (!recalled)
        control_committed(node); /* before the events: who follows from here has them */
    log_epoch(node, effect->term);
    if (!recalled)
        log_job(node, before);
    job_release(&node->freeze.job);
    memset(&node->freeze, 0, sizeof(node->freeze));
    measure_only(node, view->state == JOB_NONE ? NULL : &view->job);
    if (node->member) {
        node->was_member = true;
        worker_enter(node);
    } else {
        bulk_halt(node->bulk);
        measure_for_run(node);
        if ((was || outlived) && !node->leaving_ms) {
            log_warn(
                "node",
                "fenced: an epoch without this node is in force epoch=%llu; what it did "
                "in the old one is dropped, and it joins again",
                (unsigned long long)epoch_number(node->decree.epoch));
            struct json_writer *writer = events_begin(node->events, "fenced");
            json_put_int(writer, "epoch", epoch_number(node->decree.epoch));
            events_end(node->events);
            if (node->train)
                train_drop(node->train);
        }
    }
    lead_committed(node);
    admission_committed(node, &before->policy);
    view_release(before);
    free(before);
    enter_record(node);
}

/* ---- is our epoch the newest? ---- */

static bool
voters_connected(const struct node *node)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < node->decree.voters_count; i++) {
        const struct id *voter = &node->decree.voters[i];
        if (id_equal(voter, &node->id) || watch_is_up(node->watch, voter))
            mask |= 1u << i;
    }
    return decree_quorum(&node->decree, mask);
}

static void
ask_awake(struct node *node, int64_t now)
{
    if (now - node->asked_awake_ms < AWAKE_AGAIN_MS)
        return;
    node->asked_awake_ms = now;
    for (uint32_t i = 0; i < node->decree.voters_count; i++)
        if (id_equal(&node->decree.voters[i], &node->id))
            node->wake_mask |= 1u << i;
    if (decree_quorum(&node->decree, node->wake_mask)) {
        node->woken = false;
        return;
    }
    struct buf body = {0};
    writer_array(&body, 2);
    writer_uint(&body, node->wake_nonce);
    writer_uint(&body, node->decree.epoch);
    for (uint32_t i = 0; i < node->decree.voters_count; i++)
        if (!(node->wake_mask >> i & 1))
            node_send(node, &node->decree.voters[i], FRAME_EPOCH_ASK, &body);
    buf_release(&body);
}

void
follow_awake_reply(struct node *node, const struct id *from, uint64_t nonce,
                   uint64_t epoch)
{
    if (!node->woken || nonce != node->wake_nonce || epoch != node->decree.epoch)
        return; /* a newer epoch comes with its certificate */
    for (uint32_t i = 0; i < node->decree.voters_count; i++)
        if (id_equal(&node->decree.voters[i], from))
            node->wake_mask |= 1u << i;
    if (decree_quorum(&node->decree, node->wake_mask))
        node->woken = false;
}

static int64_t
newest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The first of the members that says so of us. */
static const struct id *
who_evicts(const struct node *node)
{
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (mesh_evicts(node->mesh, &node->decree.members[i].id))
            return &node->decree.members[i].id;
    return NULL;
}

/* A node outside does not train: for a joiner that is no news for a while. */
static void
say_outside(struct node *node, int64_t now)
{
    char text[sizeof(node->paused)], name[NAME_BYTES_MAX + 1];
    const char *why = "";
    struct err refused;
    const struct id *evicts = who_evicts(node);
    if (evicts) {
        snprintf(text, sizeof(text),
                 "%s says that this node was evicted; if so its key cannot return: to "
                 "join again it needs an empty data folder and the new secret",
                 node_name_of(node, evicts, name));
        why = text;
    } else if (policy_admits(&node->view->policy, &node->id, &refused)) {
        why = refused.msg;
    } else if (node->was_member || now - node->entered_ms > OUTSIDE_MS)
        why = voters_connected(node)
                  ? "this node is not in the newest epoch yet"
                  : "this node is not in the newest epoch, and no majority of the voters "
                    "that it knows is reachable";
    node_set_paused(node, why);
}

/* We know that our epoch is the newest. */
static void
say_waiting(struct node *node)
{
    const struct view *view = node->view;
    char why[sizeof(node->paused)] = "";
    if (view->state != JOB_NONE && !view->planned)
        snprintf(why, sizeof(why), "the run waits for members that can carry it: %.110s",
                 view->ended);
    node_set_paused(node, why);
}

/*
 * The engine applies nothing unless this was refreshed lately: by the leader's beat, or
 * by a quorum that answers us when we lead. A process that was stopped asks a quorum
 * first, since the beats that wait in its sockets are old.
 */
void
follow_fresh(struct node *node, int64_t now)
{
    if (!node->member) {
        say_outside(node, now);
        return;
    }
    if (node->woken)
        ask_awake(node, now);
    const struct id *leader = agree_leader(node->agree);
    bool fresh;
    if (agree_role(node->agree) == AGREE_LEADER)
        fresh = agree_quorum(node->agree) && voters_connected(node);
    else
        fresh = !id_empty(leader) && watch_is_up(node->watch, leader) &&
                now - newest(agree_current_ms(node->agree), node->entered_epoch_ms) <
                    NODE_FRESH_MS;
    if (fresh && (!node->woken || MUTANT(fence))) {
        node->fresh_at_ms = now;
        say_waiting(node);
    } else if (!voters_connected(node) || !agree_quorum(node->agree)) {
        node_set_paused(
            node, "no majority of voters is reachable; training does not advance here");
    } else if (now - newest(node->fresh_at_ms, node->entered_ms) > OUTSIDE_MS) {
        node_set_paused(node, "no leader is heard, though a majority of voters is "
                              "reachable; training does not advance here");
    }
    if (node->freeze.active && now - node->freeze.since_ms > UNFREEZE_MS &&
        !id_empty(leader)) {
        /* Halted, and no epoch came of it: somebody has to make one. */
        node->freeze.since_ms = now;
        if (id_equal(leader, &node->id))
            node->lead.link_at_ms = now;
        else
            node_evidence(node, leader, &node->id, EVIDENCE_BROKEN, "halted");
    }
}
