/*
 * lead.c - what a leader does besides leading: finds a reason for a new epoch, halts the
 * members, collects their reports, plans, proposes.
 *
 *     IDLE --reason--> FREEZING --all reported, or time is up--> agree_propose() --> IDLE
 */
#include "node/presence.h"
#include "node/voters.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FREEZE_AGAIN_MS = 250,
    REPORT_MS_MAX =
        3000, /* a member that is alive but does not report is left out after this */
    PROFILE_MS_MAX = 60000, /* the same when devices measure a new model */
    LINK_SETTLE_MS = 400,   /* a broken connection may be the first sign of a loss */
    SLOW_EVERY_MS = 10000,
    SLOW_AGAIN_MS = 60000,
    REST_MS = 3000,
    HAND_OVER_MS_MAX = 20000,
    VOTERS_MS = 250,
    MEASURE_MS_MAX = 20000,
    /* A connection that is up may belong to one who hangs; gossip probes in turns. */
    HEARD_MS_MAX = 1500,
    HEARD_MS_EACH = 500,
    JOIN_SETTLE_MS = 100,
    /* In a swarm of many, joiners that come one after the other share an epoch. */
    JOIN_TOGETHER_MS = 1000,
    JOIN_TOGETHER_MS_MAX = 5000,
    REPORT_MS_EACH = 50, /* of members above nine */
    LINKS_MS_MAX = 3000, /* for the links of a draft plan to be measured */
    LINKS_DONE = -1
};

void
lead_reset(struct node *node)
{
    view_release(&node->lead.draft);
    node->lead.state = LEAD_IDLE;
    node->lead.links_until_ms = 0;
    node->lead.members_count = 0;
}

/*
 * A member that leaves is first planned around: it stays for one epoch without a part (its report
 * says that it does not compute), so that others fetch from it what it alone holds. It is
 * let go when a step of that epoch is applied.
 */
static bool
hands_over(const struct node *node, const struct id *id, int64_t now)
{
    const struct view *view = node->view;
    if (!view->planned || lead_gone(node, id, now))
        return false;
    if (view_worker(view, view_node(view, id)))
        return true;
    return node->run.step <= view->recovery.base_step &&
           now - node->entered_epoch_ms < HAND_OVER_MS_MAX;
}

/* A newer boot of a member lost what the older one knew: it is a joiner. */
static bool
rebooted(const struct node *node, const struct decree_member *listed)
{
    const struct member *member = gossip_find(node->gossip, &listed->id);
    return member && !twins_holds(node, &listed->id) &&
           member->record->incarnation >> 32 != listed->incarnation >> 32;
}

static bool
may_join(const struct node *node, const struct member *member, int64_t now)
{
    const struct id *id = &member->record->id;
    /* While a run goes on a joiner measures itself first; one that cannot comes in
     * without a part. */
    bool measured = node->view->state == JOB_NONE ||
                    member->record->job == id_prefix(&node->view->job.train.id) ||
                    now - member->since_ms >= MEASURE_MS_MAX;
    struct err refused;
    return member->state == MEMBER_ALIVE && !member->record->leaving &&
           policy_admits(&node->view->policy, id, &refused) == 0 &&
           mesh_connected(node->mesh, id) && !excluded_is(node->lead.excluded, now, id) &&
           now - member->heard_ms <
               HEARD_MS_MAX + HEARD_MS_EACH * (int64_t)node->decree.members_count &&
           now - member->since_ms >= JOIN_SETTLE_MS && measured;
}

static bool
was_member(const struct node *node, const struct id *id)
{
    for (uint32_t i = 0; i < node->view->former_count; i++)
        if (id_equal(&node->view->former[i], id))
            return true;
    return false;
}

/* Who is outside and may come in: somebody new, a former member. In a swarm of many a
 * moment is waited for those who come after them. */
static void
find_joiners(const struct node *node, int64_t now, bool *join, bool *back)
{
    int64_t newest = INT64_MAX, oldest = 0; /* ms that they have been here */
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        if (decree_member(&node->decree, &member->record->id) ||
            !may_join(node, member, now))
            continue;
        int64_t here = now - member->since_ms;
        newest = here < newest ? here : newest;
        oldest = here > oldest ? here : oldest;
        if (was_member(node, &member->record->id))
            *back = true;
        else
            *join = true;
    }
    if (node->decree.members_count > VOTERS_MAX && newest < JOIN_TOGETHER_MS &&
        oldest < JOIN_TOGETHER_MS_MAX)
        *join = *back = false;
}

/* Is there a reason for a new epoch? The most urgent one is its cause. */
static bool
find_reason(struct node *node, int64_t now, enum decree_cause *cause)
{
    struct lead *lead = &node->lead;
    bool loss = false, leave = false, join = false, back = false;
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct decree_member *listed = &node->decree.members[i];
        if (lead_leaving(node, &listed->id))
            leave = leave || !hands_over(node, &listed->id, now) ||
                    view_worker(node->view, view_node(node->view, &listed->id));
        else if (lead_gone(node, &listed->id, now))
            loss = true;
        else if (rebooted(node, listed))
            back = true;
    }
    bool came_back = false;
    find_joiners(node, now, &join, &came_back);
    back = back || came_back;
    if (severed_over(lead->severed, now) && node->view->state != JOB_NONE)
        lead->link_at_ms = now;
    bool link = lead->link_at_ms && now - lead->link_at_ms >= LINK_SETTLE_MS;
    if (loss)
        *cause = CAUSE_LOSS;
    else if (leave && node->decree.members_count > 1)
        *cause = CAUSE_LEAVE;
    else if (admission_due(node))
        *cause = CAUSE_POLICY;
    else if (lead->submit || lead->stop || lead->done ||
             (node->decree.cause == CAUSE_RECOVERY && node->view->state != JOB_NONE))
        *cause = CAUSE_JOB; /* after a recovery the run has no plan yet */
    else if (back)
        *cause = CAUSE_RETURN;
    else if (join)
        *cause = CAUSE_JOIN;
    else if (link)
        *cause = CAUSE_LINK;
    else
        return false;
    return true;
}

static int
compare_ids(const void *left, const void *right)
{
    return id_compare(left, right);
}

/* Whom the next epoch is to have: members that are here and stay, and joiners. */
static void
choose_members(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    struct err refused;
    lead->members_count = 0;
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        if ((lead_leaving(node, id) && !hands_over(node, id, now)) ||
            id_set_has(&lead->draft.policy.evicted, id))
            continue;
        if (!lead_gone(node, id, now))
            lead->members[lead->members_count++] = *id;
        else if (!excluded_is(node->lead.excluded, now, id))
            excluded_add(lead->excluded, now,
                         id); /* not back the moment that it is out */
    }
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        if (lead->members_count < PLAN_NODES_MAX &&
            !decree_member(&node->decree, &member->record->id) &&
            policy_admits(&lead->draft.policy, &member->record->id, &refused) == 0 &&
            may_join(node, member, now))
            lead->members[lead->members_count++] = member->record->id;
    }
    qsort(lead->members, lead->members_count, sizeof(lead->members[0]), compare_ids);
}

/* Nobody is halted, or asked again, for what could not be decided. */
static void
wait_for_voters(struct node *node, int64_t now)
{
    log_limited(
        LOG_WARN, "lead",
        "too few voters are here to decide on a new epoch, or on the one after it");
    node->lead.rest_until_ms = now + VOTERS_MS;
    lead_reset(node);
}

static void
ask(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    struct buf body = {0}, job = {0}, newest = {0};
    if (lead->draft.state != JOB_NONE)
        job_encode(&lead->draft.job, &job);
    for (size_t i = 0; i < lead->members_count; i++) {
        const struct id *id = &lead->members[i];
        if (view_node(&lead->draft, id) >= 0)
            continue;
        buf_clear(&body);
        writer_array(&body, 4);
        writer_uint(&body, agree_term(node->agree));
        writer_uint(&body, node->decree.epoch);
        writer_bytes(&body, job.data, job.len);
        writer_bool(&body, severed_rests(lead->severed, now, id));
        if (id_equal(id, &node->id)) {
            struct err err;
            if (follow_freeze(node, id, body.data, body.len, &err))
                log_error("lead", "this node does not halt itself reason=\"%s\"",
                          err.msg);
            continue;
        }
        if (!decree_member(&node->decree, id)) {
            /* Nobody told a joiner of the epochs since it was let in. */
            buf_clear(&newest);
            agree_export(node->agree, &newest);
            node_send(node, id, FRAME_COMMIT, &newest);
        }
        node_send(node, id, FRAME_FREEZE, &body);
    }
    buf_release(&newest);
    lead->again_ms = now + FREEZE_AGAIN_MS;
    buf_release(&job);
    buf_release(&body);
}

static void
freeze(struct node *node, enum decree_cause cause, int64_t now)
{
    struct lead *lead = &node->lead;
    lead_reset(node);
    view_begin(&lead->draft, node->view);
    if (cause == CAUSE_JOB && lead->done) {
        job_release(&lead->draft.job);
        lead->draft.state = JOB_NONE;
        lead->draft.stop_after = 0;
    } else if (lead->submit && lead->draft.state == JOB_NONE && cause == CAUSE_JOB) {
        job_copy(&lead->draft.job, &lead->job);
        lead->draft.state = JOB_RUNNING;
        lead->draft.submitter = lead->submitter;
    } else if (lead->stop && lead->draft.state == JOB_RUNNING && cause == CAUSE_JOB) {
        lead->draft.state = JOB_STOPPING;
    }
    snprintf(lead->draft.ended, sizeof(lead->draft.ended), "%s", lead->ended);
    admission_draft(node, &lead->draft.policy);
    choose_members(node, now);
    if (!lead_chosen_decide(node, now, false)) {
        wait_for_voters(node, now);
        return;
    }
    lead->state = LEAD_FREEZING;
    lead->cause = cause;
    lead->asked_ms = now;
    lead->link_at_ms = 0;
    log_info("lead", "a new epoch is due cause=%s members=%zu", decree_cause_name(cause),
             lead->members_count);
    ask(node, now);
}

/* Former members: those of the old epoch who are not in the new one, newest last. */
static void
note_former(struct node *node)
{
    struct view *draft = &node->lead.draft;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < draft->former_count; i++)
        if (view_node(draft, &draft->former[i]) < 0 &&
            !decree_member(&node->decree, &draft->former[i]))
            draft->former[kept++] = draft->former[i];
    for (uint32_t i = 0; i < node->decree.members_count; i++) {
        const struct id *id = &node->decree.members[i].id;
        if (view_node(draft, id) >= 0)
            continue;
        if (kept == VIEW_FORMER_MAX) {
            memmove(draft->former, draft->former + 1,
                    (kept - 1) * sizeof(draft->former[0]));
            kept--;
        }
        draft->former[kept++] = *id;
    }
    draft->former_count = kept;
}

void
lead_answer(struct node *node, const struct id *to, const char *error)
{
    if (id_equal(to, &node->id)) {
        control_submitted(node, to, error);
        return;
    }
    struct buf body = {0};
    writer_text(&body, error);
    node_send(node, to, FRAME_SUBMIT_REPLY, &body);
    buf_release(&body);
}

static void
answer_submission(struct node *node, const char *error)
{
    node->lead.submit = false;
    lead_answer(node, &node->lead.submitter, error);
}

/* What waited for us to carry it out is not ours any more; who asked for it asks the next
 * leader. */
void
lead_lost(struct node *node)
{
    struct lead *lead = &node->lead;
    lead_reset(node);
    lead->submit = lead->stop = lead->done = false;
    lead->link_at_ms = 0;
}

/* A job's first plan is proposed when the links that it rests on are measured, or after a
 * while. True: they are being measured. */
static bool
begin_links(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    if (lead->cause != CAUSE_JOB || !lead->submit || lead->links_until_ms != 0 ||
        !measure_plan(node, &lead->draft))
        return false;
    log_info("lead", "links of the draft plan are measured first");
    lead->links_until_ms = now + LINKS_MS_MAX;
    lead->again_ms = now + FREEZE_AGAIN_MS;
    return true;
}

/* They are measured, or it took too long: everybody reports anew. */
static void
go_on_with_links(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    lead->again_ms = now + FREEZE_AGAIN_MS;
    if (now < lead->links_until_ms && measure_plan(node, &lead->draft))
        return;
    lead->links_until_ms = LINKS_DONE;
    view_forget_reports(&lead->draft);
    lead->asked_ms = now;
    ask(node, now);
}

static void
propose(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    struct err err;
    struct id voters[VOTERS_MAX];
    uint32_t voters_count = voters_choose(&node->decree, &lead->draft, voters);
    if (!lead_chosen_decide(node, now, true) ||
        !lead_next_decide(node, now, voters, voters_count)) {
        wait_for_voters(node, now);
        return;
    }
    note_former(node);
    if (view_derive(&lead->draft, node->view, &err)) {
        if (lead->cause == CAUSE_JOB && lead->submit) {
            log_warn("lead", "the job has no plan reason=\"%s\"", err.msg);
            answer_submission(node, err.msg);
            lead_reset(node);
            return;
        }
        /* The run waits for members that can carry it; the swarm goes on. */
        log_error("lead",
                  "no plan for the run with the members that are left reason=\"%s\"",
                  err.msg);
        lead->draft.planned = false;
        snprintf(lead->draft.ended, sizeof(lead->draft.ended), "%.127s", err.msg);
    }
    if (begin_links(node, now))
        return;
    struct decree_member *members = xcalloc(lead->draft.reports_count, sizeof(*members));
    for (uint32_t i = 0; i < lead->draft.reports_count; i++)
        members[i] = (struct decree_member){
            .id = lead->draft.reports[i].id,
            .incarnation = lead->draft.reports[i].record.incarnation};
    struct buf body = {0};
    view_encode(&lead->draft, &body);
    if (agree_propose(node->agree, now, lead->cause, members, lead->draft.reports_count,
                      voters, voters_count, body.data, body.len, &node->effects, &err)) {
        log_warn("lead", "not proposed reason=\"%s\"", err.msg);
        /* The members are not halted again and again for what cannot be proposed. */
        lead->rest_until_ms = now + REST_MS;
    }
    buf_release(&body);
    free(members);
    lead_reset(node);
}

/* Not even this node's own engine answered. */
static void
give_up(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    log_warn("lead", "this node's own engine did not report in time");
    if (lead->submit)
        answer_submission(node, "no member could measure itself on the job in time; its "
                                "layers may be too large for these devices");
    lead->rest_until_ms = now + REST_MS;
    lead_reset(node);
}

/* A run that waits for members has nobody to make its last checkpoint: stopping ends it
 * at once. */
static void
end_waiting(struct node *node)
{
    if (node->view->state != JOB_STOPPING || node->view->planned)
        return;
    snprintf(node->lead.ended, sizeof(node->lead.ended),
             "stopped while it waited for members that can carry it");
    node->lead.done = true;
}

static void
exclude_missing(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    size_t kept = 0;
    if (view_node(&lead->draft, &node->id) < 0) {
        give_up(node, now);
        return;
    }
    for (size_t i = 0; i < lead->members_count; i++) {
        const struct id *id = &lead->members[i];
        if (view_node(&lead->draft, id) >= 0) {
            lead->members[kept++] = *id;
            continue;
        }
        char name[NAME_BYTES_MAX + 1];
        log_warn("lead",
                 "a member did not report in time and is left out name=%s for_s=%lld",
                 node_name_of(node, id, name),
                 (long long)excluded_add(lead->excluded, now, id) / 1000);
    }
    lead->members_count = kept;
}

/* While we wait for reports somebody may go, too. */
static void
drop_gone(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    size_t kept = 0;
    for (size_t i = 0; i < lead->members_count; i++) {
        const struct id *id = &lead->members[i];
        if (view_node(&lead->draft, id) >= 0 || id_equal(id, &node->id) ||
            !lead_gone(node, id, now))
            lead->members[kept++] = *id;
        else if (lead->cause != CAUSE_LOSS && decree_member(&node->decree, id))
            lead->cause = CAUSE_LOSS;
    }
    lead->members_count = kept;
}

/* Have measured speeds or links changed so that another plan is worth the change? */
static bool
slow(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    const struct view *view = node->view;
    if (now < lead->slow_at_ms || !view->planned || view->state != JOB_RUNNING ||
        node->run.step >= view->job.train.steps) /* it waits for a checkpoint's room */
        return false;
    lead->slow_at_ms = now + SLOW_EVERY_MS;
    const struct record **records = xcalloc(view->reports_count, sizeof(*records));
    for (uint32_t i = 0; i < view->reports_count; i++) {
        const struct member *member = gossip_find(node->gossip, &view->reports[i].id);
        records[i] = member ? member->record : NULL;
    }
    bool outdated = view_outdated(view, records, lead->correction_ppm);
    free(records);
    if (outdated) /* what the members say then may differ: not again and again */
        lead->slow_at_ms = now + SLOW_AGAIN_MS;
    return outdated;
}

/* Reports of many take longer to send and to verify. */
static int64_t
together(const struct lead *lead)
{
    return lead->members_count > VOTERS_MAX
               ? REPORT_MS_EACH * (int64_t)(lead->members_count - VOTERS_MAX)
               : 0;
}

void
lead_slept(struct node *node, int64_t gap_ms)
{
    node->lead.asked_ms += gap_ms;
}

void
lead_tick(struct node *node, int64_t now)
{
    struct lead *lead = &node->lead;
    if (agree_role(node->agree) != AGREE_LEADER || !agree_idle(node->agree) ||
        !agree_quorum(node->agree)) {
        if (lead->state != LEAD_IDLE)
            lead_reset(node);
        return;
    }
    if (now < lead->rest_until_ms)
        return;
    if (lead->state == LEAD_IDLE) {
        enum decree_cause cause;
        end_waiting(node);
        if (find_reason(node, now, &cause))
            freeze(node, cause, now);
        else if (slow(node, now))
            freeze(node, CAUSE_SLOW, now);
        return;
    }
    drop_gone(node, now);
    if (lead->links_until_ms > 0) {
        if (now >= lead->again_ms)
            go_on_with_links(node, now);
        return;
    }
    bool all = true;
    for (size_t i = 0; i < lead->members_count; i++)
        all = all && view_node(&lead->draft, &lead->members[i]) >= 0;
    int64_t wait =
        lead->cause == CAUSE_JOB && lead->submit ? PROFILE_MS_MAX : REPORT_MS_MAX;
    if (all && lead->members_count > 0)
        propose(node, now);
    else if (lead->members_count == 0)
        give_up(node, now);
    else if (now - lead->asked_ms >= wait + together(lead))
        exclude_missing(node, now);
    else if (now >= lead->again_ms)
        ask(node, now);
}

int
lead_report(struct node *node, const void *bytes, size_t len, struct err *err)
{
    struct lead *lead = &node->lead;
    if (lead->state != LEAD_FREEZING)
        return 0;
    struct report report;
    const struct id *admit_id = secret_admit_id(node->secret);
    if (view_report_open(&lead->draft, bytes, len, &node->swarm, admit_id, &report, err))
        return -1;
    bool asked = false;
    for (size_t i = 0; i < lead->members_count; i++)
        asked = asked || id_equal(&lead->members[i], &report.id);
    if (!asked || report.term != agree_term(node->agree) ||
        report.epoch != node->decree.epoch)
        return 0;
    if (view_report(&lead->draft, bytes, len, &node->swarm, admit_id, err))
        return -1;
    excluded_heard(lead->excluded, &report.id);
    return 0;
}

/* Memory alone may rule a job out, before anybody measures it: every layer has to fit the
 * roomiest member. */
static int
check_room(const struct node *node, const struct job *job, struct err *err)
{
    struct cluster_node roomiest = {0};
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        if (decree_member(&node->decree, &member->record->id) &&
            (int64_t)member->record->memory_bytes >= roomiest.memory_bytes) {
            roomiest.id = member->record->id;
            roomiest.memory_bytes = (int64_t)member->record->memory_bytes;
        }
    }
    int layers = workload_layers(&job->shape);
    for (int layer = 0; layer < layers; layer++) {
        struct stage_spec spec = {.first_layer = layer,
                                  .layers = 1,
                                  .micro_batch = 1,
                                  .in_flight = 1,
                                  .copies = job->train.copy_every > 0};
        struct stage_bytes bytes;
        workload_stage_bytes(&job->shape, &spec, &bytes);
        if (bytes.total > roomiest.memory_bytes)
            return plan_no_room(err, layer, layer, bytes.total, &roomiest, 1);
    }
    return 0;
}

int
lead_submit(struct node *node, const struct job *job, const struct id *submitter,
            struct err *err)
{
    struct lead *lead = &node->lead;
    bool running = node->view->state != JOB_NONE;
    const struct id *before = running ? &node->view->job.train.id : &lead->job.train.id;
    const struct id *by = running ? &node->view->submitter : &lead->submitter;
    if ((running || lead->submit) && id_equal(before, &job->train.id) &&
        id_equal(by, submitter)) {
        if (running)
            lead_answer(node, submitter, "");
        return 0; /* it was said again */
    }
    if (running || lead->submit)
        return err_set(
            err, ERR_LIMIT,
            "the job \"%s\" is running; end it with \"flotilla stop\" before another one",
            running ? node->view->job.train.name : lead->job.train.name);
    const struct member *member = gossip_find(node->gossip, submitter);
    bool no_engine = id_equal(submitter, &node->id)
                         ? node->train == NULL
                         : member && member->record->memory_bytes == 0;
    if (no_engine)
        return err_set(err, ERR_USAGE,
                       "a node whose engine is off cannot give out a job's data; submit "
                       "the job at another node");
    if (check_room(node, job, err))
        return -1;
    job_release(&lead->job);
    job_copy(&lead->job, job);
    lead->submitter = *submitter;
    lead->submit = true;
    lead->stop = lead->done = false;
    lead->ended[0] = '\0';
    return 0;
}

int
lead_stop_job(struct node *node, struct err *err)
{
    if (node->view->state == JOB_STOPPING)
        return 0;
    if (node->view->state == JOB_NONE && node->lead.submit && agree_idle(node->agree)) {
        answer_submission(node, LEAD_WITHDRAWN);
        lead_reset(node);
        return 0;
    }
    if (node->view->state == JOB_NONE && !node->lead.submit)
        return err_set(err, ERR_USAGE, "no job is running");
    node->lead.stop = true;
    return 0;
}

/* The run is over when every worker and gatherer that is in the plan says so. */
void
lead_done(struct node *node, int member, bool written)
{
    struct lead *lead = &node->lead;
    const struct view *view = node->view;
    if (!view->planned || member < 0 || member >= view->cluster.nodes_count)
        return;
    lead->finished[member] = true;
    lead->written |= written;
    for (int i = 0; i < view->cluster.nodes_count; i++) {
        bool gathers = false;
        for (int g = 0; g < view->duties.gatherers_count; g++)
            gathers = gathers || view->duties.gatherers[g] == i;
        if ((gathers || view_worker(view, i)) && !lead->finished[i])
            return;
    }
    if (!lead->written)
        snprintf(
            lead->ended, sizeof(lead->ended),
            "failed: no checkpoint of the last step could be written; the gatherers' "
            "logs say why");
    else if (view->state == JOB_STOPPING)
        snprintf(lead->ended, sizeof(lead->ended), "stopped at step %lld",
                 (long long)view->stop_after);
    else
        snprintf(lead->ended, sizeof(lead->ended), "done");
    lead->done = true;
}

void
lead_severed(struct node *node, const struct id *a, const struct id *b)
{
    struct lead *lead = &node->lead;
    int64_t now = clock_ms();
    if (lead->link_at_ms == 0)
        lead->link_at_ms = now;
    if (id_equal(a, b))
        return;
    bool worked = node->run.step > node->view->recovery.base_step;
    const struct id *rests = severed_broke(lead->severed, now, node->decree.epoch, worked,
                                           &node->id, &node->view->submitter, a, b);
    if (!rests)
        return;
    char one[NAME_BYTES_MAX + 1], other[NAME_BYTES_MAX + 1], name[NAME_BYTES_MAX + 1];
    log_warn("lead",
             "the data connection between two members breaks in every epoch, one of them "
             "has no part in the run for a while; are both open to each other at their "
             "port + 2? a=%s b=%s rests=%s for_s=%lld",
             node_name_of(node, a, one), node_name_of(node, b, other),
             node_name_of(node, rests, name),
             (long long)severed_rest_ms(lead->severed, rests) / 1000);
}

void
lead_committed(struct node *node)
{
    struct lead *lead = &node->lead;
    severed_epoch(lead->severed, &node->decree);
    memset(lead->finished, 0, sizeof(lead->finished));
    /* What was reported of an older epoch is said again if it still holds. */
    lead->link_at_ms = 0;
    lead->done = lead->written = false;
    memset(lead->correction_ppm, 0, sizeof(lead->correction_ppm));
    if (lead->submit && node->view->state != JOB_NONE &&
        id_equal(&node->view->job.train.id, &lead->job.train.id))
        answer_submission(node, "");
    if (node->view->state != JOB_RUNNING)
        lead->stop = false;
    lead_reset(node);
}
