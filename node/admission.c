#include "node/admission.h"
#include "node/node.h"
#include "node/presence.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AGAIN_MS = 2000,
    ASK_MS_MAX = 30000,
    CUT_MS = 500, /* the evicted may still hear why */
    CUT_AGAIN_MS = 2000,
    CUT_TIMES = 2,
    SAVE_MS = 60000
};

static const char times_file[] = "invites.state";

/* ---- our requests ---- */

static void
ask_release(struct ask *ask)
{
    policy_request_release(&ask->request);
    key_wipe(ask->text, sizeof(ask->text));
    memset(ask, 0, sizeof(*ask));
}

static void
answered(struct node *node, struct ask *ask, const char *error)
{
    struct ask done = *ask;
    memset(ask, 0, sizeof(*ask));
    if (done.asker == ASKER_COMMAND)
        control_answer(node, done.ticket, error, error ? NULL : "invite",
                       done.text[0] ? done.text : NULL);
    else if (done.asker == ASKER_JOINER)
        seed_invited(node, &done, error);
    ask_release(&done);
}

/* Would the swarm still decide without it? Who is evicted has no say in what follows. */
static int
check_evict(const struct node *node, const struct id *subject, struct err *err)
{
    uint32_t mask = 0;
    char name[NAME_BYTES_MAX + 1];
    for (uint32_t v = 0; v < node->decree.voters_count; v++)
        if (!id_equal(&node->decree.voters[v], subject))
            mask |= 1u << v;
    if (decree_quorum(&node->decree, mask))
        return 0;
    return err_set(err, ERR_USAGE,
                   "without node %s too few voters are left to decide anything; let "
                   "another node join first, or stop it by hand and run \"flotilla "
                   "recover\"",
                   node_name_of(node, subject, name));
}

/* Signed for the policy as it is now, and to who leads now. */
static void
tell_leader(struct node *node, struct ask *ask, int64_t now)
{
    const struct id *leader = agree_leader(node->agree);
    struct buf bytes = {0};
    struct err err = {0};
    ask->leader = *leader;
    ask->term = agree_term(node->agree);
    ask->version = ask->request.version = node->view->policy.version;
    ask->sent_ms = now;
    policy_request_sign(&ask->request, node->key, &node->swarm, &bytes);
    key_hash(bytes.data, bytes.len, &ask->hash);
    if (id_equal(leader, &node->id)) {
        struct frame own = {.kind = FRAME_POLICY,
                            .from = node->id,
                            .body = bytes.data,
                            .body_len = bytes.len};
        admission_frame(node, &own, &err);
    } else {
        node_send(node, leader, FRAME_POLICY, &bytes);
    }
    buf_release(&bytes);
}

int
admission_ask(struct node *node, struct policy_request *request, struct secret *next,
              enum asker asker, uint64_t ticket, struct ask **made, struct err *err)
{
    struct admission *admission = node->admission;
    struct ask *ask = NULL;
    for (int i = 0; i < ASKS_MAX_OPEN && !ask; i++)
        if (!admission->asks[i].active)
            ask = &admission->asks[i];
    struct policy *trial = xcalloc(1, sizeof(*trial));
    policy_begin(trial, &node->view->policy);
    request->from = node->id;
    request->version = trial->version;
    int failed = -1;
    if (!ask)
        err_set(err, ERR_LIMIT, "too many requests are under way here; try again");
    else if (!node->member)
        err_set(err, ERR_USAGE,
                "this node is not in the newest epoch; ask at one that is");
    else if (request->op == POLICY_EVICT && check_evict(node, &request->subject, err))
        failed = -1;
    else
        failed = policy_apply(trial, request, &node->swarm, "", 0, err);
    policy_release(trial);
    free(trial);
    if (failed) {
        policy_request_release(request);
        secret_free(next);
        return -1;
    }
    *ask = (struct ask){.active = true,
                        .request = *request,
                        .asker = asker,
                        .ticket = ticket,
                        .since_ms = clock_ms()};
    request->ids = (struct id_set){0};
    if (next) {
        /* Others have it before it is in force: nobody's end can lose it. */
        secrets_hand_out(node, next, &ask->request.subject);
        secrets_keep(node, next);
        struct secret **kept = secrets_find(node, &ask->request.admit_id);
        if (kept)
            admission->made_for[kept - admission->secrets] = ask->request.subject;
    }
    if (made)
        *made = ask;
    return 0;
}

void
admission_forget(struct node *node, uint64_t ticket)
{
    for (int i = 0; i < ASKS_MAX_OPEN; i++) {
        struct ask *ask = &node->admission->asks[i];
        if (ask->active && ask->asker == ASKER_COMMAND && ask->ticket == ticket)
            ask_release(ask);
    }
}

static void
go_on_asking(struct node *node, int64_t now)
{
    for (int i = 0; i < ASKS_MAX_OPEN; i++) {
        struct ask *ask = &node->admission->asks[i];
        if (!ask->active)
            continue;
        const struct id *leader = agree_leader(node->agree);
        bool said =
            id_equal(leader, &ask->leader) && ask->term == agree_term(node->agree) &&
            ask->version == node->view->policy.version && now - ask->sent_ms < AGAIN_MS;
        bool hopeless = ask->asker == ASKER_COMMAND && node_leaderless(node, now);
        if (policy_reflects(&node->view->policy, &ask->request))
            answered(node, ask, NULL);
        else if (hopeless || now - ask->since_ms > ASK_MS_MAX)
            answered(node, ask,
                     node->paused[0] ? node->paused
                                     : "the leader does not answer; \"flotilla status\" "
                                       "says who leads");
        else if (!said && !id_empty(leader))
            tell_leader(node, ask, now);
    }
}

/* ---- a leader's collecting ---- */

static void
wanted_remove(struct admission *admission, size_t at)
{
    policy_request_release(&admission->wanted[at].request);
    buf_release(&admission->wanted[at].bytes);
    admission->wanted_count--;
    memmove(&admission->wanted[at], &admission->wanted[at + 1],
            (admission->wanted_count - at) * sizeof(admission->wanted[0]));
}

static void
refuse(struct node *node, const struct id *to, const void *bytes, size_t len,
       const char *why)
{
    struct buf body = {0};
    struct id hash;
    key_hash(bytes, len, &hash);
    writer_array(&body, 2);
    writer_id(&body, &hash);
    writer_text(&body, why);
    if (id_equal(to, &node->id)) {
        struct frame own = {.kind = FRAME_POLICY_REPLY,
                            .from = node->id,
                            .body = body.data,
                            .body_len = body.len};
        struct err err;
        admission_frame(node, &own, &err);
    } else {
        node_send(node, to, FRAME_POLICY_REPLY, &body);
    }
    buf_release(&body);
}

/* On top of what is wanted already: 0, or why not. */
static int
try_wanted(struct node *node, const struct policy_request *request, struct err *err)
{
    struct policy *trial = xcalloc(1, sizeof(*trial));
    policy_begin(trial, &node->view->policy);
    for (size_t i = 0; i < node->admission->wanted_count; i++) {
        const struct wanted_change *wanted = &node->admission->wanted[i];
        struct err passed;
        policy_apply(trial, &wanted->request, &node->swarm, "", 0, &passed);
    }
    int failed = policy_apply(trial, request, &node->swarm, "", 0, err);
    policy_release(trial);
    free(trial);
    if (failed)
        return -1;
    if (request->op == POLICY_USE && !admission_invite_open(node, &request->subject))
        return err_set(err, ERR_AUTH, "the invite is over; ask for another one");
    return request->op == POLICY_EVICT ? check_evict(node, &request->subject, err) : 0;
}

static int
collect(struct node *node, const struct frame *frame, struct err *err)
{
    struct admission *admission = node->admission;
    struct policy_request request;
    if (agree_role(node->agree) != AGREE_LEADER)
        return 0; /* it says it again to who leads */
    if (policy_request_open(frame->body, frame->body_len, &node->swarm, &request, err))
        return -1;
    struct err why = {0};
    if (!id_equal(&request.from, &frame->from) ||
        !decree_member(&node->decree, &frame->from)) {
        policy_request_release(&request);
        return err_set(err, ERR_AUTH, "a change of the policy is asked for by no member");
    }
    for (size_t i = 0; i < admission->wanted_count; i++) {
        const struct buf *have = &admission->wanted[i].bytes;
        if (have->len == frame->body_len &&
            memcmp(have->data, frame->body, frame->body_len) == 0) {
            policy_request_release(&request);
            return 0; /* it was said again */
        }
    }
    if (admission->wanted_count == POLICY_REQUESTS_MAX)
        err_set(&why, ERR_LIMIT, "too many changes at once; try again");
    else if (try_wanted(node, &request, &why) == 0) {
        struct wanted_change *wanted = &admission->wanted[admission->wanted_count++];
        *wanted = (struct wanted_change){.from = frame->from, .request = request};
        buf_add(&wanted->bytes, frame->body, frame->body_len);
        return 0;
    }
    policy_request_release(&request);
    if (why.code != ERR_STOPPED) /* about another version: it will be signed anew */
        refuse(node, &frame->from, frame->body, frame->body_len, why.msg);
    return 0;
}

/* Could it be decided on with those who are here? An eviction needs a quorum without who
 * is evicted: it waits for one, and nothing else waits for it. */
static bool
wanted_now(const struct node *node, const struct policy *policy,
           const struct policy_request *request)
{
    uint32_t mask = 0;
    int64_t now = clock_ms();
    if (request->op != POLICY_EVICT)
        return true;
    for (uint32_t v = 0; v < node->decree.voters_count; v++) {
        const struct id *voter = &node->decree.voters[v];
        if (!id_equal(voter, &request->subject) && !id_set_has(&policy->evicted, voter) &&
            !lead_gone(node, voter, now))
            mask |= 1u << v;
    }
    return decree_quorum(&node->decree, mask);
}

bool
admission_due(const struct node *node)
{
    const struct admission *admission = node->admission;
    for (size_t i = 0; i < admission->wanted_count; i++)
        if (wanted_now(node, &node->view->policy, &admission->wanted[i].request))
            return true;
    return false;
}

/* Invites whose time is over end with the epoch that is made anyway. */
static void
end_invites(struct node *node, struct policy *policy)
{
    for (uint32_t i = policy->invites_count; i-- > 0;) {
        struct policy_invite *invite = &policy->invites[i];
        int64_t left_ms = admission_invite_left_ms(node, &invite->id);
        if (left_ms > 0 && left_ms < invite->left_s * 1000)
            invite->left_s = (left_ms + 999) / 1000;
        if (left_ms != 0)
            continue; /* open still, or of this very epoch */
        struct policy_request request = {.from = node->id,
                                         .version = node->view->policy.version,
                                         .op = POLICY_REVOKE,
                                         .subject = invite->id};
        struct buf bytes = {0};
        struct err err;
        policy_request_sign(&request, node->key, &node->swarm, &bytes);
        if (policy_apply(policy, &request, &node->swarm, bytes.data, bytes.len, &err))
            log_warn("node", "an invite that is over stays open reason=\"%s\"", err.msg);
        buf_release(&bytes);
    }
}

void
admission_draft(struct node *node, struct policy *policy)
{
    struct admission *admission = node->admission;
    if (id_empty(&policy->admit_id))
        return;
    for (size_t i = 0; i < admission->wanted_count;) {
        struct wanted_change *wanted = &admission->wanted[i];
        const struct policy_request *request = &wanted->request;
        struct err why;
        bool lasting = request->op != POLICY_EVICT ||
                       check_evict(node, &request->subject, &why) == 0;
        if (lasting && (!wanted_now(node, policy, request) ||
                        policy_apply(policy, request, &node->swarm, wanted->bytes.data,
                                     wanted->bytes.len, &why) == 0)) {
            i++;
            continue;
        }
        if (why.code != ERR_STOPPED)
            refuse(node, &wanted->from, wanted->bytes.data, wanted->bytes.len, why.msg);
        wanted_remove(admission, i);
    }
    end_invites(node, policy);
}

/* ---- frames ---- */

static int
on_reply(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    struct id hash;
    char text[ERR_MSG_SIZE];
    reader_enter(reader, 2, 2);
    reader_id(reader, &hash);
    reader_text(reader, text, sizeof(text));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    for (int i = 0; i < ASKS_MAX_OPEN; i++) {
        struct ask *ask = &node->admission->asks[i];
        if (ask->active && id_equal(&ask->hash, &hash) &&
            id_equal(&ask->leader, &frame->from))
            answered(node, ask, text);
    }
    return 0;
}

int
admission_frame(struct node *node, const struct frame *frame, struct err *err)
{
    switch ((int)frame->kind) {
    case FRAME_POLICY:
        return collect(node, frame, err);
    case FRAME_POLICY_REPLY:
        return on_reply(node, frame, err);
    case FRAME_SECRET:
        return secrets_received(node, frame, err);
    default:
        return secrets_asked(node, frame, err);
    }
}

/* ---- what is ---- */

bool
admission_known(const struct node *node, const struct id *id)
{
    if (decree_member(&node->decree, id))
        return true;
    for (uint32_t i = 0; i < node->view->former_count; i++)
        if (id_equal(&node->view->former[i], id))
            return true;
    return false;
}

bool
admission_lets(const struct node *node, const struct id *id,
               const uint8_t admission[KEY_SIGNATURE_BYTES])
{
    const struct policy *policy = &node->view->policy;
    if (id_set_has(&policy->evicted, id))
        return false;
    if (id_empty(&policy->admit_id) || admission_known(node, id))
        return true;
    /* A stranger, perhaps made up by somebody with an older secret. */
    return secret_admitted(&policy->admit_id, &node->swarm, id, admission);
}

int64_t
admission_invite_left_ms(const struct node *node, const struct id *invite)
{
    const struct admission *admission = node->admission;
    for (size_t i = 0; i < admission->times_count; i++)
        if (id_equal(&admission->times[i].id, invite))
            return admission->times[i].left_ms;
    return -1;
}

bool
admission_invite_open(const struct node *node, const struct id *invite)
{
    return policy_invite(&node->view->policy, invite) &&
           admission_invite_left_ms(node, invite) > 0;
}

/* ---- invites: their time ---- */

static void
save_times(struct node *node)
{
    struct admission *admission = node->admission;
    struct buf bytes = {0};
    char path[PATH_BYTES_MAX];
    struct err err;
    admission->saved_ms = clock_ms();
    writer_array(&bytes, admission->times_count);
    for (size_t i = 0; i < admission->times_count; i++) {
        writer_array(&bytes, 2);
        writer_id(&bytes, &admission->times[i].id);
        writer_int(&bytes, admission->times[i].left_ms);
    }
    if (file_write(path_join(path, node->config.data, times_file), bytes.data, bytes.len,
                   0600, &err))
        log_limited(LOG_WARN, "node", "invites' time not saved reason=\"%s\"", err.msg);
    buf_release(&bytes);
}

static void
load_times(struct node *node)
{
    struct admission *admission = node->admission;
    struct buf bytes = {0};
    char path[PATH_BYTES_MAX];
    struct err err = {0};
    path_join(path, node->config.data, times_file);
    struct reader *reader = NULL;
    if (file_exists(path) && file_read(path, 1 << 16, &bytes, &err) == 0)
        reader = reader_open(bytes.data, bytes.len, &err);
    if (reader) {
        size_t count = reader_enter(reader, 0, POLICY_INVITES_MAX);
        for (size_t i = 0; i < count; i++) {
            reader_enter(reader, 2, 2);
            reader_id(reader, &admission->times[i].id);
            admission->times[i].left_ms =
                reader_int(reader, 0, (int64_t)POLICY_LEFT_S_MAX * 1000);
            reader_leave(reader);
        }
        admission->times_count = count;
        reader_leave(reader);
        if (reader_close(&reader, &err))
            admission->times_count = 0;
    }
    if (err.code)
        log_warn("node", "what was left of invites is passed over reason=\"%s\"",
                 err.msg);
    buf_release(&bytes);
}

/* Wall clocks are never compared: each node counts, while it runs, from when it learnt of
 * an invite. */
static void
count_down(struct node *node, int64_t now)
{
    struct admission *admission = node->admission;
    int64_t gone_ms = now - admission->counted_ms;
    struct id open[POLICY_INVITES_MAX];
    size_t count = 0, before = 0;
    admission->counted_ms = now;
    for (size_t i = 0; i < admission->times_count; i++) {
        int64_t *left_ms = &admission->times[i].left_ms;
        before += *left_ms > 0;
        *left_ms = *left_ms > gone_ms ? *left_ms - gone_ms : 0;
        if (*left_ms > 0)
            open[count++] = admission->times[i].id;
    }
    if (count != before)
        admit_invites(node->admit, open, count);
    if (admission->times_count > 0 && now - admission->saved_ms >= SAVE_MS)
        save_times(node);
}

/* The policy's invites, with what is left of them here. */
static void
renew_times(struct node *node)
{
    struct admission *admission = node->admission;
    const struct policy *policy = &node->view->policy;
    struct id open[POLICY_INVITES_MAX];
    int64_t left[POLICY_INVITES_MAX];
    size_t count = 0;
    bool changed = admission->times_count != policy->invites_count;
    for (uint32_t i = 0; i < policy->invites_count; i++) {
        const struct policy_invite *invite = &policy->invites[i];
        left[i] = invite->left_s * 1000;
        bool known = false;
        for (size_t k = 0; k < admission->times_count; k++) {
            if (!id_equal(&admission->times[k].id, &invite->id))
                continue;
            known = true;
            if (admission->times[k].left_ms < left[i])
                left[i] = admission->times[k].left_ms;
        }
        changed = changed || !known;
        if (left[i] > 0)
            open[count++] = invite->id;
    }
    admission->times_count = policy->invites_count;
    for (uint32_t i = 0; i < policy->invites_count; i++) {
        admission->times[i].id = policy->invites[i].id;
        admission->times[i].left_ms = left[i];
    }
    admit_invites(node->admit, open, count);
    if (changed)
        save_times(node);
}

/* ---- a new policy ---- */

static const char *
op_text(enum policy_op op)
{
    static const char *const texts[POLICY_OPS] = {[POLICY_EVICT] = "evicted",
                                                  [POLICY_ROTATE] = "secret replaced",
                                                  [POLICY_INVITE] = "invite open",
                                                  [POLICY_REVOKE] = "invite ended",
                                                  [POLICY_USE] = "invite used",
                                                  [POLICY_ALLOW] = "allowed",
                                                  [POLICY_DISALLOW] = "no longer allowed",
                                                  [POLICY_SET_MODE] = "mode"};
    return texts[op];
}

static void
log_changes(struct node *node)
{
    const struct policy *policy = &node->view->policy;
    for (uint32_t i = 0; i < policy->requests_count; i++) {
        struct policy_request request;
        struct err err;
        char subject[NAME_BYTES_MAX + 1], from[NAME_BYTES_MAX + 1], text[ID_TEXT_SIZE];
        const struct buf *bytes = &policy->requests[i];
        if (policy_request_open(bytes->data, bytes->len, &node->swarm, &request, &err))
            continue;
        const struct id *about =
            request.op == POLICY_USE ? &request.user : &request.subject;
        node_name_of(node, about, subject);
        node_name_of(node, &request.from, from);
        log_info("node", "policy what=\"%s\" node=%s ids=%u mode=%s by=%s",
                 op_text(request.op), subject[0] ? subject : "-", request.ids.count,
                 policy->mode == POLICY_LIST ? "allow-list" : "secret", from);
        struct json_writer *writer = events_begin(node->events, "policy");
        json_put_text(writer, "what", op_text(request.op));
        json_put_text(writer, "id", id_empty(about) ? "" : id_text(about, text));
        json_put_text(writer, "name", subject);
        json_put_text(writer, "by", from);
        json_put_int(writer, "version", (int64_t)policy->version);
        events_end(node->events);
        policy_request_release(&request);
    }
}

/* Everybody closes its connections with who is evicted: at once for what comes, and a
 * moment later for good, so that it may hear why. */
static void
shut_out(struct node *node, const struct id *id, int64_t now)
{
    struct admission *admission = node->admission;
    admit_evict(node->admit, id);
    if (admission->cuts_count == ADMISSION_CUTS_MAX)
        return; /* it speaks to nobody; its keys are refused from now on */
    admission->cuts[admission->cuts_count].id = *id;
    admission->cuts[admission->cuts_count].at_ms = now + CUT_MS;
    admission->cuts[admission->cuts_count++].left = CUT_TIMES;
}

static void
cut(struct node *node, int64_t now)
{
    struct admission *admission = node->admission;
    size_t kept = 0;
    for (size_t i = 0; i < admission->cuts_count; i++) {
        if (now >= admission->cuts[i].at_ms && !MUTANT(cut)) {
            mesh_forget(node->mesh, &admission->cuts[i].id);
            bulk_cut(node->bulk, &admission->cuts[i].id);
            admission->cuts[i].at_ms = now + CUT_AGAIN_MS;
            admission->cuts[i].left--;
        }
        if (admission->cuts[i].left > 0)
            admission->cuts[kept++] = admission->cuts[i];
    }
    admission->cuts_count = kept;
}

/* Who is known by an older secret's admission alone has to join again. */
static void
forget_strangers(struct node *node)
{
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct record *record = gossip_at(node->gossip, i)->record;
        if (id_equal(&record->id, &node->id) ||
            id_set_has(&node->view->policy.evicted, &record->id) || /* cut a bit later */
            admission_lets(node, &record->id, record->admission))
            continue;
        struct id id = record->id;
        admit_deny(node->admit, &id);
        mesh_forget(node->mesh, &id);
    }
}

static void
let_known_in(struct node *node)
{
    const struct policy *policy = &node->view->policy;
    for (uint32_t i = 0; i < node->decree.members_count; i++)
        if (!id_set_has(&policy->evicted, &node->decree.members[i].id))
            admit_allow(node->admit, &node->decree.members[i].id);
    for (uint32_t i = 0; i < node->view->former_count; i++)
        if (!id_set_has(&policy->evicted, &node->view->former[i]))
            admit_allow(node->admit, &node->view->former[i]);
}

static void
end_evicted(struct node *node, int64_t now)
{
    if (node->admission->ends_ms && now >= node->admission->ends_ms)
        node_stop(node, 1,
                  "this node was evicted from its swarm, and its key cannot return; to "
                  "join again it needs an empty data folder, and so another identity");
}

void
admission_committed(struct node *node, const struct policy *before)
{
    const struct policy *policy = &node->view->policy;
    int64_t now = clock_ms();
    if (id_empty(&policy->admit_id))
        return;
    const struct id keys[] = {policy->admit_id, policy->before_id};
    agree_authority(node->agree, keys, id_empty(&policy->before_id) ? 1 : 2);
    gossip_admissions(node->gossip, &policy->admit_id, &policy->before_id,
                      policy->version > 1);
    if (policy->version != before->version)
        log_changes(node);
    for (uint32_t i = 0; i < policy->evicted.count; i++)
        if (!id_set_has(&before->evicted, &policy->evicted.list[i]))
            shut_out(node, &policy->evicted.list[i], now);
    let_known_in(node);
    if (!id_empty(&before->admit_id) && !id_equal(&before->admit_id, &policy->admit_id))
        forget_strangers(node);
    renew_times(node);
    struct admission *admission = node->admission;
    for (size_t i = admission->wanted_count; i-- > 0;)
        if (admission->wanted[i].request.version != policy->version)
            wanted_remove(admission, i);
    secrets_tick(node, now);
    /* Who decided on its own eviction tells the others first. */
    if (id_set_has(&policy->evicted, &node->id) && admission->ends_ms == 0)
        admission->ends_ms = id_empty(&before->admit_id) ? now : now + CUT_MS;
    end_evicted(node, now);
}

void
admission_tick(struct node *node, int64_t now)
{
    struct admission *admission = node->admission;
    end_evicted(node, now);
    if (agree_role(node->agree) != AGREE_LEADER)
        while (admission->wanted_count > 0)
            wanted_remove(admission, admission->wanted_count - 1);
    go_on_asking(node, now);
    count_down(node, now);
    cut(node, now);
    secrets_tick(node, now);
}

void
admission_open(struct node *node)
{
    node->admission = xcalloc(1, sizeof(*node->admission));
    node->admission->counted_ms = node->admission->saved_ms = clock_ms();
    load_times(node);
}

void
admission_close(struct node *node)
{
    struct admission *admission = node->admission;
    if (!admission)
        return;
    if (admission->times_count > 0)
        save_times(node);
    for (int i = 0; i < ASKS_MAX_OPEN; i++)
        ask_release(&admission->asks[i]);
    while (admission->wanted_count > 0)
        wanted_remove(admission, admission->wanted_count - 1);
    for (int i = 0; i < SECRETS_MAX; i++)
        secret_free(admission->secrets[i]);
    free(admission);
    node->admission = NULL;
}
