#include "gossip/agree_state.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- telling and asking for the newest decree ---- */

void
decide_tell(struct agree *agree, int64_t now_ms, const struct id *to, uint64_t epoch,
            struct effects *effects)
{
    if (agree_recently(agree, now_ms, to, FRAME_COMMIT, AGREE_ANSWER_MS))
        return;
    struct buf body = {0};
    agree_commit_encode(agree, epoch, &body);
    effects_send(effects, to, FRAME_COMMIT, body.data, body.len);
    buf_release(&body);
}

void
decide_fetch(struct agree *agree, int64_t now_ms, const struct id *from,
             struct effects *effects)
{
    if (agree_recently(agree, now_ms, from, FRAME_FETCH, AGREE_ANSWER_MS))
        return;
    struct fetch fetch = {.epoch = agree->decree.epoch};
    struct buf body = {0};
    fetch_encode(&fetch, &body);
    effects_send(effects, from, FRAME_FETCH, body.data, body.len);
    buf_release(&body);
}

int
fetch_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
              struct effects *effects, struct err *err)
{
    struct fetch fetch;
    if (fetch_decode(frame->body, frame->body_len, &fetch, err))
        return -1;
    if (fetch.epoch < agree->decree.epoch)
        decide_tell(agree, now_ms, &frame->from, fetch.epoch, effects);
    else if (fetch.epoch > agree->decree.epoch)
        decide_fetch(agree, now_ms, &frame->from, effects);
    return 0;
}

/* ---- a new epoch ---- */

static void
judging_drop(struct agree *agree)
{
    decree_release(&agree->judging.decree);
    agree->judging = (struct judging){0};
}

void
decide_drop(struct agree *agree)
{
    decree_release(&agree->proposal.decree);
    buf_release(&agree->proposal.message);
    agree->proposal = (struct proposal){0};
    agree->renew_at_ms = 0;
    judging_drop(agree);
}

/* What we know of each voter moves to its place among the next ones. */
static void
voters_move(struct agree *agree, const struct decree *next)
{
    int64_t heard_ms[VOTERS_MAX];
    bool gone[VOTERS_MAX];
    for (uint32_t i = 0; i < VOTERS_MAX; i++) {
        int old = i < next->voters_count && agree->founded
                      ? agree_voter_index(agree, &next->voters[i])
                      : -1;
        heard_ms[i] = old >= 0 ? agree->heard_ms[old] : agree_never;
        gone[i] = old >= 0 && agree->gone[old];
    }
    memcpy(agree->heard_ms, heard_ms, sizeof(heard_ms));
    memcpy(agree->gone, gone, sizeof(gone));
}

static void
amnesia_update(struct agree *agree)
{
    const struct decree *decree = &agree->decree;
    for (uint32_t i = 0; i < decree->members_count; i++)
        if (id_equal(&decree->members[i].id, &agree->self) &&
            decree->members[i].incarnation >= agree->amnesia)
            agree->amnesia = 0;
}

void
decide_store(struct agree *agree, struct decree *decree, const struct id *hash,
             const struct certificate *certificate, struct effects *effects)
{
    must(!agree->founded || decree->epoch > agree->decree.epoch);
    must(decree->body != NULL);
    if (agree->founded && decree->generation != agree->decree.generation) {
        /* Who leads was elected by voters that decide nothing any more. */
        agree_step_down(agree, effects);
        agree_lead_by(agree, &(struct id){0}, 0, effects);
    }
    chain_add(&agree->chain, decree, certificate);
    voters_move(agree, decree);
    decree_release(&agree->decree);
    agree->decree = *decree;
    *decree = (struct decree){0};
    agree->hash = *hash;
    agree->certificate = *certificate;
    agree->founded = true;
    if (certificate->term > agree->promised && !MUTANT(raise)) {
        agree->promised = certificate->term;
        agree->voted = (struct id){0};
    }
    if (agree->accepted_term > 0 && agree->accepted.epoch <= agree->decree.epoch) {
        decree_release(&agree->accepted);
        agree->accepted_term = 0;
        agree->accepted_hash = (struct id){0};
    }
    decide_drop(agree);
    memset(&agree->verdict, 0, sizeof(agree->verdict));
    agree->refused.at_ms = agree_never;
    agree->behind_since_ms = 0;
    amnesia_update(agree);
    agree_persist(agree, effects);
    struct buf bytes = {0};
    decree_encode(&agree->decree, &bytes);
    struct effect *effect = effects_add(effects, EFFECT_COMMITTED, bytes.data, bytes.len);
    effect->hash = *hash;
    effect->term = certificate->term;
    buf_release(&bytes);
}

/* We led when the epoch came. */
static void
settle_leader(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        if (agree->heard_ms[i] == agree_never)
            agree->heard_ms[i] = now_ms;
    if (agree->open) {
        elect_beat(agree, now_ms, &(struct id){0}, effects);
        effects_add(effects, EFFECT_COLLECT, NULL, 0)->term = agree->leader_term;
    } else {
        elect_begin(agree, now_ms, effects);
    }
}

void
decide_settle(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    bool votes = agree_votes(agree);
    if (votes && agree->role == AGREE_LEADER && agree->promised == agree->leader_term) {
        settle_leader(agree, now_ms, effects);
        return;
    }
    bool stood = agree->role != AGREE_FOLLOWER && agree->role != AGREE_OBSERVER;
    agree_step_down(agree, effects); /* observer or follower, by the new voters */
    bool removed =
        !id_empty(&agree->leader) && !decree_voter(&agree->decree, &agree->leader);
    if (removed)
        agree_lead_by(agree, &(struct id){0}, 0, effects);
    if (!decree_member(&agree->decree, &agree->self))
        agree->quorum_ms = agree_never;
    if (votes)
        elect_arm(agree, now_ms,
                  stood || removed || agree->decree.voters_count == 1 ||
                      agree->decree.cause == CAUSE_RECOVERY);
}

int
commit_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
               struct effects *effects, struct err *err)
{
    struct commit message;
    if (commit_decode(frame->body, frame->body_len, &message, err))
        return -1;
    struct walk walk;
    walk_start(&walk, agree);
    int result = walk_along(&walk, &message, false, err);
    if (result == 0 && walk.steps > 0) {
        walk_take(&walk, agree, effects);
        decide_settle(agree, now_ms, effects);
    } else if (result != 0 && err->code == ERR_PEER && !message.all) {
        /* Only the newest was sent, to one that lacks more: not the sender's fault. */
        decide_fetch(agree, now_ms, &frame->from, effects);
        result = 0;
    } else if (result != 0 && err->code == ERR_PEER && agree->behind_since_ms == 0) {
        agree->behind_since_ms = now_ms; /* others may have more */
    } else if (!id_empty(&walk.rival)) {
        recover_rival(agree, now_ms, &frame->from, &walk.rival, err->msg, effects);
    }
    walk_release(&walk);
    return result;
}

/* ---- the leader's side ---- */

void
decide_spread(struct agree *agree, const struct decree *before, struct effects *effects)
{
    struct buf body = {0};
    agree_commit_encode(agree, before->epoch, &body);
    for (uint32_t i = 0; i < before->members_count; i++)
        if (!id_equal(&before->members[i].id, &agree->self))
            effects_send(effects, &before->members[i].id, FRAME_COMMIT, body.data,
                         body.len);
    for (uint32_t i = 0; i < agree->decree.members_count; i++) {
        const struct id *member = &agree->decree.members[i].id;
        if (!id_equal(member, &agree->self) && !decree_member(before, member))
            effects_send(effects, member, FRAME_COMMIT, body.data, body.len);
    }
    buf_release(&body);
}

static void
proposal_commit(struct agree *agree, int64_t now_ms, uint32_t accepted,
                struct effects *effects)
{
    struct proposal *proposal = &agree->proposal;
    struct certificate certificate = {.term = agree->leader_term, .mask = accepted};
    memcpy(certificate.signatures, proposal->signatures, sizeof(proposal->signatures));
    int self = agree_voter_index(agree, &agree->self);
    if (accepted >> self & 1)
        accept_sign(agree->options.key, &proposal->decree, &proposal->hash,
                    agree->leader_term, certificate.signatures[self]);
    struct decree next = proposal->decree, before, header = agree->decree;
    struct id hash = proposal->hash;
    proposal->decree = (struct decree){0};
    header.body = NULL;
    decree_copy(&before, &header);
    decide_store(agree, &next, &hash, &certificate, effects);
    decide_spread(agree, &before, effects);
    decree_release(&before);
    decide_settle(agree, now_ms, effects);
}

/* We accept our own proposal only when that completes the majority: then one write covers
 * acceptance and commit, and a proposal that others refuse has not tied us. */
static void
proposal_count(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    struct proposal *proposal = &agree->proposal;
    uint32_t all = (1u << agree->decree.voters_count) - 1;
    uint32_t self = 1u << agree_voter_index(agree, &agree->self);
    uint32_t accepted = proposal->accepted | (proposal->willing ? self : 0);
    if (decree_quorum(&agree->decree, accepted) ||
        (MUTANT(quorum) && proposal->accepted != 0)) {
        proposal_commit(agree, now_ms, accepted, effects);
    } else if (!decree_quorum(&agree->decree, all & ~proposal->refused)) {
        /* One term, one proposal: another one needs another term. */
        decide_drop(agree);
        agree->stubborn = true;
        agree->open = false;
        agree->renew_at_ms = now_ms + AGREE_PAUSE_MS;
    }
}

static void
proposal_send(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    struct proposal *proposal = &agree->proposal;
    uint32_t answered = proposal->accepted | proposal->refused;
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        if (!(answered >> i & 1) && !id_equal(&agree->decree.voters[i], &agree->self))
            effects_send(effects, &agree->decree.voters[i], FRAME_PROPOSE,
                         proposal->message.data, proposal->message.len);
    proposal->sent_ms = now_ms;
}

/* Takes the decree. */
static void
judge(struct agree *agree, const struct id *from, uint64_t term, bool adopted,
      struct decree *decree, const struct id *hash, struct effects *effects)
{
    judging_drop(agree);
    struct buf bytes = {0};
    decree_encode(decree, &bytes);
    agree->judging = (struct judging){
        .active = true, .from = *from, .term = term, .decree = *decree, .hash = *hash};
    *decree = (struct decree){0};
    struct effect *effect = effects_add(effects, EFFECT_JUDGE, bytes.data, bytes.len);
    effect->peer = *from;
    effect->hash = *hash;
    effect->term = term;
    effect->after = adopted;
    buf_release(&bytes);
}

void
decide_propose(struct agree *agree, int64_t now_ms, struct decree *decree, bool adopted,
               struct effects *effects)
{
    struct proposal *proposal = &agree->proposal;
    decide_drop(agree);
    proposal->active = true;
    proposal->decree = *decree;
    *decree = (struct decree){0};
    decree_hash(&proposal->decree, &proposal->hash);
    proposal->began_ms = now_ms;
    proposal->willing = !adopted || (agree->accepted_term > 0 &&
                                     id_equal(&agree->accepted_hash, &proposal->hash));
    struct buf bytes = {0};
    decree_encode(&proposal->decree, &bytes);
    struct propose message = {.term = agree->leader_term,
                              .adopted = adopted,
                              .decree = bytes.data,
                              .decree_len = bytes.len};
    propose_encode(&message, &proposal->message);
    buf_release(&bytes);
    proposal_send(agree, now_ms, effects);
    if (!proposal->willing) {
        struct decree copy;
        decree_copy(&copy, &proposal->decree);
        judge(agree, &agree->self, agree->leader_term, true, &copy, &proposal->hash,
              effects);
    }
    proposal_count(agree, now_ms, effects);
}

int
agree_propose(struct agree *agree, int64_t now_ms, enum decree_cause cause,
              const struct decree_member *members, uint32_t count,
              const struct id *voters, uint32_t voters_count, const void *body,
              size_t body_len, struct effects *effects, struct err *err)
{
    must(count >= 1 && count <= PLAN_NODES_MAX && cause != CAUSE_FOUNDING &&
         cause != CAUSE_RECOVERY);
    for (uint32_t i = 1; i < count; i++)
        must(id_compare(&members[i - 1].id, &members[i].id) < 0);
    if (agree->role != AGREE_LEADER)
        return err_set(err, ERR_STOPPED, "cannot propose: this node does not lead");
    if (!agree_idle(agree))
        return err_set(err, ERR_STOPPED, "could not propose: a proposal is under way");
    if (body_len > DECREE_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "plan of %zu bytes, the limit is %d", body_len,
                       DECREE_BYTES_MAX);
    struct decree decree = {.swarm = agree->swarm,
                            .generation = agree->decree.generation,
                            .epoch = agree->decree.epoch + 1,
                            .previous = agree->hash,
                            .cause = cause,
                            .members_count = count,
                            .members = xmemdup(members, count * sizeof(*members)),
                            .body = xmemdup(body, body_len),
                            .body_len = body_len};
    if (voters) {
        must(voters_count >= 1 && voters_count <= decree_voters_most(count));
        decree.voters_count = voters_count;
        memcpy(decree.voters, voters, voters_count * sizeof(*voters));
    } else {
        decree.voters_count =
            decree_next_voters(&agree->decree, members, count, decree.voters);
    }
    key_hash(body, body_len, &decree.body_hash);
    decide_propose(agree, now_ms, &decree, false, effects);
    return 0;
}

int
accept_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
               struct effects *effects, struct err *err)
{
    struct accept accept;
    if (accept_message_decode(frame->body, frame->body_len, &accept, err))
        return -1;
    struct proposal *proposal = &agree->proposal;
    int voter = agree_voter_index(agree, &frame->from);
    if (agree->role != AGREE_LEADER || !proposal->active || voter < 0 ||
        accept.term != agree->leader_term || !id_equal(&accept.hash, &proposal->hash))
        return 0; /* an answer to what is over */
    if (!accept_verify(&frame->from, &proposal->decree, &proposal->hash, accept.term,
                       accept.signature))
        return err_set(err, ERR_AUTH, "acceptance with a wrong signature");
    proposal->accepted |= 1u << voter;
    proposal->refused &= ~(1u << voter);
    memcpy(proposal->signatures[voter], accept.signature, KEY_SIGNATURE_BYTES);
    proposal_count(agree, now_ms, effects);
    return 0;
}

int
reject_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
               struct effects *effects, struct err *err)
{
    struct reject reject;
    if (reject_decode(frame->body, frame->body_len, &reject, err))
        return -1;
    struct proposal *proposal = &agree->proposal;
    int voter = agree_voter_index(agree, &frame->from);
    if (reject.my_epoch > agree->decree.epoch)
        decide_fetch(agree, now_ms, &frame->from, effects);
    if (agree->role != AGREE_LEADER || !proposal->active || voter < 0 ||
        reject.term != agree->leader_term || !id_equal(&reject.hash, &proposal->hash))
        return 0;
    switch (reject.reason) {
    case REASON_STALE_TERM:
        agree_term_note(agree, reject.my_term);
        if (reject.my_term > agree->leader_term) {
            agree_step_down(agree, effects);
            elect_arm(agree, now_ms, true);
        }
        break;
    case REASON_BEHIND:
        decide_tell(agree, now_ms, &frame->from, reject.my_epoch, effects);
        proposal->sent_ms -= agree_resend(agree) / 2;
        break;
    case REASON_WRONG:
    case REASON_NOT_VOTER:
        if (!(proposal->accepted >> voter & 1))
            proposal->refused |= 1u << voter;
        proposal_count(agree, now_ms, effects);
        break;
    default:
        break; /* what it has newer was asked for */
    }
    return 0;
}

/* ---- the voter's side ---- */

static void
reject(struct agree *agree, const struct id *to, uint64_t term, uint64_t epoch,
       const struct id *hash, enum agree_reason reason, const char *text,
       struct effects *effects)
{
    struct reject message = {.term = term,
                             .epoch = epoch,
                             .hash = *hash,
                             .reason = reason,
                             .my_term = agree_floor(agree),
                             .my_epoch = agree->decree.epoch};
    snprintf(message.text, sizeof(message.text), "%s", text ? text : "");
    for (char *c = message.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' '; /* the codec carries no control characters */
    struct buf body = {0};
    reject_encode(&message, &body);
    effects_send(effects, to, FRAME_REJECT, body.data, body.len);
    buf_release(&body);
}

/* Durable before it leaves. Takes the decree. */
static void
accept(struct agree *agree, const struct id *from, uint64_t term, struct decree *decree,
       const struct id *hash, struct effects *effects)
{
    must(term >= agree->promised);
    bool known = agree->accepted_term > 0 && id_equal(&agree->accepted_hash, hash);
    if (!known || agree->accepted_term != term) {
        if (term > agree->promised) {
            agree->promised = term;
            agree->voted = *from;
        }
        if (!known) {
            decree_release(&agree->accepted);
            agree->accepted = *decree;
            *decree = (struct decree){0};
            agree->accepted_hash = *hash;
        }
        agree->accepted_term = term;
        agree_persist(agree, effects);
    }
    decree_release(decree);
    struct accept message = {.term = term, .epoch = agree->accepted.epoch, .hash = *hash};
    accept_sign(agree->options.key, &agree->accepted, hash, term, message.signature);
    struct buf body = {0};
    accept_message_encode(&message, &body);
    effects_send(effects, from, FRAME_ACCEPT, body.data, body.len);
    buf_release(&body);
}

/* Is this what the protocol lets the sender propose to us? Apart from whether it is
 * right. */
static int
proposal_check(const struct agree *agree, const struct frame *frame,
               const struct decree *decree, const struct id *hash, uint64_t term,
               struct err *err)
{
    if (!decree_voter(&agree->decree, &frame->from))
        return err_set(err, ERR_WIRE, "proposal from a node that does not vote");
    if (!MUTANT(epoch) && (!id_equal(&decree->previous, &agree->hash) ||
                           !id_equal(&decree->swarm, &agree->swarm) ||
                           decree->generation != agree->decree.generation ||
                           decree->cause == CAUSE_RECOVERY))
        return err_set(err, ERR_WIRE, "proposal does not follow our decree");
    if (decree->voters_count > decree_voters_most(decree->members_count))
        return err_set(err, ERR_WIRE, "proposal of %u members with %u voters, above %u",
                       decree->members_count, decree->voters_count,
                       decree_voters_most(decree->members_count));
    if (agree->accepted_term == term && !id_equal(&agree->accepted_hash, hash))
        return err_set(err, ERR_WIRE, "second proposal of term %llu",
                       (unsigned long long)term);
    if (agree->role == AGREE_LEADER && term == agree->leader_term)
        return err_set(err, ERR_WIRE, "second leader of term %llu",
                       (unsigned long long)term);
    return 0;
}

/* A proposal for the epoch after ours, in a term that we may accept. Takes the decree. */
static void
proposal_take(struct agree *agree, int64_t now_ms, const struct frame *frame,
              const struct propose *message, struct decree *decree, const struct id *hash,
              struct effects *effects)
{
    elect_follow(agree, now_ms, &frame->from, message->term, effects);
    bool judged = id_equal(&agree->verdict.hash, hash);
    if ((agree->accepted_term > 0 && id_equal(&agree->accepted_hash, hash)) ||
        (judged && agree->verdict.right)) {
        accept(agree, &frame->from, message->term, decree, hash, effects);
    } else if (judged && agree->verdict.term == message->term) {
        reject(agree, &frame->from, message->term, decree->epoch, hash, REASON_WRONG,
               agree->verdict.reason, effects);
    } else if (agree->judging.active && id_equal(&agree->judging.hash, hash)) {
        agree->judging.from = frame->from;
        agree->judging.term = message->term;
    } else {
        judge(agree, &frame->from, message->term, message->adopted, decree, hash,
              effects);
    }
}

int
propose_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                struct effects *effects, struct err *err)
{
    struct propose message;
    struct decree decree;
    struct id hash;
    if (propose_decode(frame->body, frame->body_len, &message, err) ||
        decree_decode(message.decree, message.decree_len, &decree, err))
        return -1;
    decree_hash(&decree, &hash);
    enum agree_reason reason = REASON_NONE;
    int result = 0;
    if (decree.epoch <= agree->decree.epoch && !MUTANT(epoch)) {
        reason = REASON_STALE_EPOCH;
        decide_tell(agree, now_ms, &frame->from, decree.epoch - 1, effects);
    } else if (decree.epoch > agree->decree.epoch + 1 && !MUTANT(epoch)) {
        reason = REASON_BEHIND;
        decide_fetch(agree, now_ms, &frame->from, effects);
    } else if (!agree_votes(agree)) {
        reason = REASON_NOT_VOTER;
    } else if (message.term < agree_floor(agree) ||
               !agree_term_within(agree, message.term)) {
        reason = REASON_STALE_TERM;
        if (decree_voter(&agree->decree, &frame->from))
            agree_term_note(agree, message.term);
    } else {
        result = proposal_check(agree, frame, &decree, &hash, message.term, err);
    }
    if (reason != REASON_NONE)
        reject(agree, &frame->from, message.term, decree.epoch, &hash, reason, "",
               effects);
    else if (result == 0)
        proposal_take(agree, now_ms, frame, &message, &decree, &hash, effects);
    decree_release(&decree);
    return result;
}

void
agree_judged(struct agree *agree, int64_t now_ms, const struct id *hash, bool right,
             const char *reason, struct effects *effects)
{
    if (!agree->judging.active || !id_equal(&agree->judging.hash, hash))
        return; /* what was judged is over */
    struct judging judging = agree->judging;
    agree->judging = (struct judging){0};
    agree->verdict.hash = *hash;
    agree->verdict.term = judging.term;
    agree->verdict.right = right;
    snprintf(agree->verdict.reason, sizeof(agree->verdict.reason), "%s",
             reason ? reason : "");
    struct proposal *proposal = &agree->proposal;
    if (id_equal(&judging.from, &agree->self)) {
        if (agree->role == AGREE_LEADER && proposal->active &&
            id_equal(&proposal->hash, hash)) {
            proposal->willing = right;
            if (!right)
                proposal->refused |= 1u << agree_voter_index(agree, &agree->self);
            proposal_count(agree, now_ms, effects);
        }
    } else if (judging.term < agree_floor(agree)) {
        reject(agree, &judging.from, judging.term, judging.decree.epoch, hash,
               REASON_STALE_TERM, "", effects);
    } else if (!right) {
        reject(agree, &judging.from, judging.term, judging.decree.epoch, hash,
               REASON_WRONG, reason, effects);
    } else {
        accept(agree, &judging.from, judging.term, &judging.decree, hash, effects);
    }
    decree_release(&judging.decree);
}

/* ---- time ---- */

/* Without a leader, ask voter after voter, then member after member. */
static void
poll(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    const struct decree *decree = &agree->decree;
    uint64_t all = (uint64_t)decree->voters_count + decree->members_count;
    for (uint64_t tried = 0; tried < all; tried++) {
        uint64_t at = agree->poll_next++ % all;
        const struct id *peer = at < decree->voters_count
                                    ? &decree->voters[at]
                                    : &decree->members[at - decree->voters_count].id;
        if (id_equal(peer, &agree->self))
            continue;
        decide_fetch(agree, now_ms, peer, effects);
        break;
    }
    agree->poll_at_ms = now_ms + AGREE_POLL_MS;
}

void
decide_tick(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    struct proposal *proposal = &agree->proposal;
    if (agree->role != AGREE_LEADER) {
        bool led = !id_empty(&agree->leader) &&
                   now_ms - agree->leader_heard_ms < agree_silence(agree);
        if ((!led || agree->behind_since_ms > 0) && now_ms >= agree->poll_at_ms)
            poll(agree, now_ms, effects);
    } else if (agree->renew_at_ms > 0 && now_ms >= agree->renew_at_ms) {
        elect_begin(agree, now_ms, effects);
    } else if (proposal->active && now_ms - proposal->began_ms >= AGREE_PROPOSAL_MS) {
        /* Voters hear us and still do not decide: let another try. */
        agree_resign(agree, now_ms, effects);
        if (agree->role == AGREE_LEADER)
            elect_begin(agree, now_ms, effects);
    } else if (proposal->active && now_ms - proposal->sent_ms >= agree_resend(agree)) {
        proposal_send(agree, now_ms, effects);
    }
}
