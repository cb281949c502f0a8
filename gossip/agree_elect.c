#include "gossip/agree_state.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"

/* Spread of candidacies of the same rank, ms. */
enum {
    JITTER_MS = 100,
    JITTER_GONE_MS = 40,
    JITTER_RETRY_MS = 150,
    RETRY_ROUND_TRIPS = 2,
    YIELD_MS = 600
};

static int64_t
jitter(struct agree *agree, int64_t most_ms)
{
    return (int64_t)rng_below(&agree->rng, (uint64_t)most_ms);
}

static uint32_t
self_bit(const struct agree *agree)
{
    return 1u << agree_voter_index(agree, &agree->self);
}

/* ---- whose turn it is ---- */

/* Voters before us that may still stand: neither the lost leader nor known to be gone. */
static int64_t
rank(const struct agree *agree)
{
    int64_t before = 0;
    for (uint32_t i = 0; i < agree->decree.voters_count; i++) {
        const struct id *voter = &agree->decree.voters[i];
        if (id_equal(voter, &agree->self))
            break;
        if (!agree->gone[i] && !id_equal(voter, &agree->leader) &&
            !id_equal(voter, &agree->lost))
            before++;
    }
    return before;
}

void
elect_arm(struct agree *agree, int64_t now_ms, bool quick)
{
    if (quick)
        agree->election_at_ms =
            now_ms + AGREE_RANK_GONE_MS * rank(agree) + jitter(agree, JITTER_GONE_MS);
    else
        agree->election_at_ms = now_ms + agree_silence(agree) +
                                AGREE_RANK_MS * rank(agree) + jitter(agree, JITTER_MS);
}

static void
put_off(int64_t *at_ms, int64_t now_ms, int64_t gap_ms)
{
    if (*at_ms > 0 && *at_ms < now_ms)
        *at_ms = *at_ms + gap_ms < now_ms ? *at_ms + gap_ms : now_ms;
}

void
agree_late(struct agree *agree, int64_t now_ms, int64_t gap_ms)
{
    if (!agree->leader_gone)
        agree->election_at_ms += gap_ms;
    put_off(&agree->leader_heard_ms, now_ms, gap_ms);
    put_off(&agree->quorum_ms, now_ms, gap_ms);
    for (size_t i = 0; i < VOTERS_MAX; i++)
        put_off(&agree->heard_ms[i], now_ms, gap_ms);
}

static bool
leader_alive(const struct agree *agree, int64_t now_ms, const struct id *but)
{
    if (agree->role == AGREE_LEADER)
        return true;
    return !id_empty(&agree->leader) && !id_equal(&agree->leader, but) &&
           !agree->leader_gone && now_ms - agree->leader_heard_ms < agree_silence(agree);
}

/* ---- beats ---- */

void
elect_beat(struct agree *agree, int64_t now_ms, const struct id *successor,
           struct effects *effects)
{
    struct beat beat = {.term = agree->leader_term,
                        .epoch = agree->decree.epoch,
                        .hash = agree->hash,
                        .successor = *successor};
    struct buf body = {0};
    beat_encode(&beat, &body);
    for (uint32_t i = 0; i < agree->decree.members_count; i++)
        if (!id_equal(&agree->decree.members[i].id, &agree->self))
            effects_send(effects, &agree->decree.members[i].id, FRAME_BEAT, body.data,
                         body.len);
    buf_release(&body);
    agree->beat_at_ms = now_ms + agree->options.beat_ms;
}

void
elect_follow(struct agree *agree, int64_t now_ms, const struct id *leader, uint64_t term,
             struct effects *effects)
{
    if (agree->role != AGREE_FOLLOWER && agree->role != AGREE_OBSERVER)
        agree_step_down(agree, effects);
    agree_lead_by(agree, leader, term, effects);
    agree->leader_heard_ms = now_ms;
    agree->leader_gone = false;
    agree->yielded = false;
    int voter = agree_voter_index(agree, leader);
    if (voter >= 0)
        agree->gone[voter] = false;
    if (decree_member(&agree->decree, &agree->self))
        agree->quorum_ms = now_ms;
    elect_arm(agree, now_ms, false);
}

/* The leader goes: its successor stands at once, the others if that fails. */
static void
leader_resigned(struct agree *agree, int64_t now_ms, const struct beat *beat,
                struct effects *effects)
{
    agree_lead_by(agree, &(struct id){0}, 0, effects);
    agree->leader_gone = true;
    elect_arm(agree, now_ms + YIELD_MS, true);
    if (id_equal(&beat->successor, &agree->self))
        agree->election_at_ms = now_ms;
}

/* Another decree for our epoch can only be of another recovery: let it know of ours, and
 * its answer will say so. */
static int
same_decree(struct agree *agree, int64_t now_ms, const struct id *peer, uint64_t epoch,
            const struct id *hash, struct effects *effects, struct err *err)
{
    if (epoch != agree->decree.epoch || id_equal(hash, &agree->hash))
        return 0;
    if (agree->root.len > 0)
        decide_tell(agree, now_ms, peer, 0, effects);
    return err_set(err, ERR_WIRE, "another decree than ours for epoch %u",
                   epoch_number(epoch));
}

int
beat_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
             struct effects *effects, struct err *err)
{
    struct beat beat;
    if (beat_decode(frame->body, frame->body_len, &beat, err) ||
        same_decree(agree, now_ms, &frame->from, beat.epoch, &beat.hash, effects, err))
        return -1;
    if (beat.epoch < agree->decree.epoch) {
        decide_tell(agree, now_ms, &frame->from, beat.epoch, effects);
        return 0;
    }
    /* Who leads a newer epoch is believed when its decree is here. */
    bool newer = beat.epoch > agree->decree.epoch;
    if (newer)
        decide_fetch(agree, now_ms, &frame->from, effects);
    else if (!decree_voter(&agree->decree, &frame->from))
        return err_set(err, ERR_WIRE, "beat from a node that does not vote");
    else if (!agree_term_within(agree, beat.term))
        agree_term_note(agree, beat.term);
    else if (beat.term >= agree_follow_floor(agree) &&
             (agree->role != AGREE_LEADER || beat.term > agree->leader_term)) {
        elect_follow(agree, now_ms, &frame->from, beat.term, effects);
        agree->current_ms = now_ms;
        if (!id_empty(&beat.successor))
            leader_resigned(agree, now_ms, &beat, effects);
    }
    struct beat_reply reply = {.term = agree_floor(agree), .epoch = agree->decree.epoch};
    struct buf body = {0};
    beat_reply_encode(&reply, &body);
    effects_send(effects, &frame->from, FRAME_BEAT_REPLY, body.data, body.len);
    buf_release(&body);
    return 0;
}

int
beat_reply_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                   struct effects *effects, struct err *err)
{
    struct beat_reply reply;
    if (beat_reply_decode(frame->body, frame->body_len, &reply, err))
        return -1;
    if (reply.epoch > agree->decree.epoch)
        decide_fetch(agree, now_ms, &frame->from, effects);
    if (agree->role != AGREE_LEADER)
        return 0;
    if (reply.epoch < agree->decree.epoch)
        decide_tell(agree, now_ms, &frame->from, reply.epoch, effects);
    if (reply.term > agree->leader_term && decree_voter(&agree->decree, &frame->from)) {
        agree_term_note(agree, reply.term);
        agree_step_down(agree, effects);
        elect_arm(agree, now_ms, true);
    }
    return 0;
}

/* ---- rounds ---- */

/* Ask all who have not answered: in a round of pre-votes also those who refused, since
 * that is about their present state. */
static void
round_ask(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    bool pre = agree->role == AGREE_PRECANDIDATE;
    uint32_t done = agree->round.granted | (pre ? 0 : agree->round.refused);
    struct vote_ask ask = {
        .term = agree->round.term, .epoch = agree->decree.epoch, .hash = agree->hash};
    struct buf body = {0};
    vote_ask_encode(&ask, &body);
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        if (!(done >> i & 1))
            effects_send(effects, &agree->decree.voters[i],
                         pre ? FRAME_PREVOTE : FRAME_VOTE, body.data, body.len);
    buf_release(&body);
    agree->round.sent_ms = now_ms;
}

static void
round_start(struct agree *agree, int64_t now_ms, uint64_t term)
{
    decree_release(&agree->round.best);
    agree->round = (struct round){
        .term = term, .granted = self_bit(agree), .began_ms = now_ms, .sent_ms = now_ms};
}

static void
win(struct agree *agree, int64_t now_ms, bool adopt, struct effects *effects)
{
    agree->role = AGREE_LEADER;
    agree->renewing = agree->leader_gone = agree->yielded = agree->stubborn = false;
    agree->renew_at_ms = 0;
    agree_lead_by(agree, &agree->self, agree->round.term, effects);
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        agree->heard_ms[i] = now_ms;
    agree->quorum_ms = now_ms;
    elect_beat(agree, now_ms, &(struct id){0}, effects);
    agree->open = !adopt || MUTANT(open);
    if (adopt)
        decide_propose(agree, now_ms, &agree->round.best, true, effects);
    else
        effects_add(effects, EFFECT_COLLECT, NULL, 0)->term = agree->leader_term;
}

/* Two that lost to each other try again apart: by more than a vote's way, or over long
 * links they would meet again, and again. */
static void
lose(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    int64_t spread = RETRY_ROUND_TRIPS * agree->round_trip_ms;
    agree_step_down(agree, effects);
    elect_arm(agree, now_ms, true);
    agree->election_at_ms +=
        JITTER_GONE_MS +
        jitter(agree, spread > JITTER_RETRY_MS ? spread : JITTER_RETRY_MS);
}

/* What was accepted for the next epoch must be proposed again, unless those who accepted
 * nothing, and will not in a lower term any more, are enough to rule out that it was
 * chosen. After a refused proposal it is worth waiting for them. */
static void
votes_count(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    const struct round *round = &agree->round;
    uint32_t all = (1u << agree->decree.voters_count) - 1;
    if (decree_quorum(&agree->decree, round->granted)) {
        bool adopt = round->best_term > 0 &&
                     decree_quorum(&agree->decree, all & ~round->empty) &&
                     !MUTANT(noadopt);
        bool wait = adopt && agree->stubborn &&
                    (round->granted | round->refused) != all &&
                    now_ms - round->began_ms < AGREE_PAUSE_MS;
        if (!wait)
            win(agree, now_ms, adopt, effects);
    } else if (!decree_quorum(&agree->decree, all & ~round->refused)) {
        lose(agree, now_ms, effects);
    }
}

static void
stand(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    uint64_t term = agree->round.term;
    must(term > agree->promised);
    agree->role = AGREE_CANDIDATE;
    agree->promised = term;
    agree->voted = agree->self;
    agree_persist(agree, effects);
    round_start(agree, now_ms, term);
    if (agree->accepted_term > 0) {
        agree->round.best_term = agree->accepted_term;
        agree->round.best_hash = agree->accepted_hash;
        decree_copy(&agree->round.best, &agree->accepted);
    } else {
        agree->round.empty = agree->round.granted;
    }
    round_ask(agree, now_ms, effects);
    votes_count(agree, now_ms, effects);
}

void
elect_begin(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    must(agree_votes(agree));
    agree->renewing = agree->role == AGREE_LEADER || agree->renewing;
    if (!agree->renewing)
        agree_lead_by(agree, &(struct id){0}, 0, effects);
    decide_drop(agree);
    agree->role = AGREE_PRECANDIDATE;
    round_start(agree, now_ms, agree_term_next(agree));
    if (decree_quorum(&agree->decree, agree->round.granted) || MUTANT(prevote))
        stand(agree, now_ms, effects);
    else
        round_ask(agree, now_ms, effects);
}

/* ---- pre-votes ---- */

static enum agree_reason
prevote_judge(const struct agree *agree, int64_t now_ms, const struct id *from,
              const struct vote_ask *ask)
{
    if (ask->epoch < agree->decree.epoch)
        return REASON_STALE_EPOCH;
    if (!agree_votes(agree) ||
        (ask->epoch == agree->decree.epoch && !decree_voter(&agree->decree, from)))
        return REASON_NOT_VOTER;
    if (ask->term <= agree_floor(agree) || !agree_term_within(agree, ask->term))
        return REASON_STALE_TERM;
    return leader_alive(agree, now_ms, from) ? REASON_LEADER_ALIVE : REASON_NONE;
}

/* A candidate of better rank stands as well: let it, once. */
static void
yield(struct agree *agree, int64_t now_ms, const struct id *to, struct effects *effects)
{
    int other = agree_voter_index(agree, to);
    if (agree->role != AGREE_PRECANDIDATE || agree->yielded || other < 0 ||
        other > agree_voter_index(agree, &agree->self))
        return;
    agree_step_down(agree, effects);
    agree->yielded = true;
    agree->election_at_ms = now_ms + YIELD_MS + jitter(agree, JITTER_MS);
}

static void
prevote_answer(struct agree *agree, int64_t now_ms, const struct id *from,
               const struct vote_ask *ask, struct effects *effects)
{
    struct vote_reply reply = {.term = ask->term,
                               .reason = prevote_judge(agree, now_ms, from, ask),
                               .my_term = agree_floor(agree),
                               .my_epoch = agree->decree.epoch};
    struct buf body = {0};
    vote_reply_encode(&reply, &body);
    effects_send(effects, from, FRAME_PREVOTE_REPLY, body.data, body.len);
    buf_release(&body);
    agree->refused.at_ms = agree_never;
    if (reply.reason == REASON_LEADER_ALIVE) {
        agree->refused.from = *from;
        agree->refused.ask = *ask;
        agree->refused.at_ms = now_ms;
    }
    if (reply.reason == REASON_NONE)
        yield(agree, now_ms, from, effects);
}

/* What a candidate and we owe each other when one is behind. */
static void
catch_up(struct agree *agree, int64_t now_ms, const struct id *peer, uint64_t epoch,
         struct effects *effects)
{
    if (epoch < agree->decree.epoch)
        decide_tell(agree, now_ms, peer, epoch, effects);
    else if (epoch > agree->decree.epoch)
        decide_fetch(agree, now_ms, peer, effects);
}

int
prevote_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                struct effects *effects, struct err *err)
{
    struct vote_ask ask;
    if (vote_ask_decode(frame->body, frame->body_len, &ask, err) ||
        same_decree(agree, now_ms, &frame->from, ask.epoch, &ask.hash, effects, err))
        return -1;
    if (id_equal(&frame->from, &agree->leader) && ask.epoch >= agree->decree.epoch)
        agree->leader_heard_ms = now_ms; /* it renews its term */
    if (decree_voter(&agree->decree, &frame->from) && !agree_term_within(agree, ask.term))
        agree_term_note(agree, ask.term);
    prevote_answer(agree, now_ms, &frame->from, &ask, effects);
    catch_up(agree, now_ms, &frame->from, ask.epoch, effects);
    return 0;
}

int
prevote_reply_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                      struct effects *effects, struct err *err)
{
    struct vote_reply reply;
    if (vote_reply_decode(frame->body, frame->body_len, &reply, err))
        return -1;
    int voter = agree_voter_index(agree, &frame->from);
    if (voter >= 0)
        agree_term_note(agree, reply.my_term);
    if (reply.my_epoch > agree->decree.epoch)
        decide_fetch(agree, now_ms, &frame->from, effects);
    if (agree->role != AGREE_PRECANDIDATE || reply.term != agree->round.term || voter < 0)
        return 0;
    if (reply.reason == REASON_NONE)
        agree->round.granted |= 1u << voter;
    else if (reply.reason == REASON_STALE_TERM && reply.my_term >= reply.term)
        elect_begin(agree, now_ms, effects);
    if (agree->role == AGREE_PRECANDIDATE &&
        decree_quorum(&agree->decree, agree->round.granted))
        stand(agree, now_ms, effects);
    return 0;
}

/* ---- votes ---- */

static enum agree_reason
vote_judge(const struct agree *agree, const struct id *from, const struct vote_ask *ask)
{
    if (ask->epoch < agree->decree.epoch)
        return REASON_STALE_EPOCH;
    if (!agree_votes(agree) ||
        (ask->epoch == agree->decree.epoch && !decree_voter(&agree->decree, from)))
        return REASON_NOT_VOTER;
    if (ask->term == agree->promised && (id_equal(&agree->voted, from) || MUTANT(twice)))
        return REASON_NONE; /* asked again, answered again */
    return ask->term <= agree_floor(agree) || !agree_term_within(agree, ask->term)
               ? REASON_STALE_TERM
               : REASON_NONE;
}

static void
vote_grant(struct agree *agree, int64_t now_ms, const struct id *to, uint64_t term,
           struct effects *effects)
{
    if (agree->role != AGREE_FOLLOWER)
        agree_step_down(agree, effects);
    if (!id_equal(&agree->leader, to))
        agree_lead_by(agree, &(struct id){0}, 0, effects);
    agree->promised = term;
    agree->voted = *to;
    agree_persist(agree, effects);
    elect_arm(agree, now_ms, false);
}

int
vote_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
             struct effects *effects, struct err *err)
{
    struct vote_ask ask;
    if (vote_ask_decode(frame->body, frame->body_len, &ask, err) ||
        same_decree(agree, now_ms, &frame->from, ask.epoch, &ask.hash, effects, err))
        return -1;
    struct vote_reply reply = {.term = ask.term,
                               .reason = vote_judge(agree, &frame->from, &ask)};
    if (reply.reason == REASON_NONE && ask.term != agree->promised)
        vote_grant(agree, now_ms, &frame->from, ask.term, effects);
    reply.my_term = agree_floor(agree);
    reply.my_epoch = agree->decree.epoch;
    struct buf accepted = {0}, body = {0};
    if (reply.reason == REASON_NONE && agree->accepted_term > 0 &&
        agree->accepted.epoch == ask.epoch + 1) {
        decree_encode(&agree->accepted, &accepted);
        reply.accepted_term = agree->accepted_term;
        reply.accepted = accepted.data;
        reply.accepted_len = accepted.len;
    }
    vote_reply_encode(&reply, &body);
    effects_send(effects, &frame->from, FRAME_VOTE_REPLY, body.data, body.len);
    buf_release(&accepted);
    buf_release(&body);
    catch_up(agree, now_ms, &frame->from, ask.epoch, effects);
    return 0;
}

/* A vote for us, with what its voter has accepted. */
static int
vote_take(struct agree *agree, int voter, const struct vote_reply *reply, struct err *err)
{
    struct round *round = &agree->round;
    if (reply->accepted_term == 0) {
        round->empty |= 1u << voter;
    } else if (reply->accepted_term >= round->term) {
        return err_set(err, ERR_WIRE, "vote with a decree accepted in a later term");
    } else if (reply->accepted_term > round->best_term) {
        struct decree decree;
        if (decree_decode(reply->accepted, reply->accepted_len, &decree, err))
            return err_wrap(err, "vote");
        if (decree.epoch != agree->decree.epoch + 1 ||
            !id_equal(&decree.previous, &agree->hash) ||
            !id_equal(&decree.swarm, &agree->swarm)) {
            decree_release(&decree);
            return err_set(err, ERR_WIRE, "vote with a decree that does not follow ours");
        }
        decree_release(&round->best);
        round->best = decree;
        round->best_term = reply->accepted_term;
        decree_hash(&round->best, &round->best_hash);
    }
    round->granted |= 1u << voter;
    return 0;
}

int
vote_reply_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                   struct effects *effects, struct err *err)
{
    struct vote_reply reply;
    if (vote_reply_decode(frame->body, frame->body_len, &reply, err))
        return -1;
    int voter = agree_voter_index(agree, &frame->from);
    bool ours = agree->role == AGREE_CANDIDATE && reply.term == agree->round.term &&
                voter >= 0 && !(agree->round.granted >> voter & 1);
    if (ours && reply.reason == REASON_NONE && vote_take(agree, voter, &reply, err))
        return -1;
    if (voter >= 0)
        agree_term_note(agree, reply.my_term);
    if (reply.my_epoch > agree->decree.epoch)
        decide_fetch(agree, now_ms, &frame->from, effects);
    if (!ours)
        return 0;
    if (reply.reason != REASON_NONE)
        agree->round.refused |= 1u << voter;
    votes_count(agree, now_ms, effects);
    return 0;
}

/* ---- time ---- */

void
elect_gone(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    if (agree->role == AGREE_FOLLOWER) {
        int64_t before = agree->election_at_ms;
        elect_arm(agree, now_ms, true);
        if (before < agree->election_at_ms)
            agree->election_at_ms = before;
    }
    if (now_ms - agree->refused.at_ms < AGREE_ELECTION_MS) {
        struct id from = agree->refused.from;
        struct vote_ask ask = agree->refused.ask;
        prevote_answer(agree, now_ms, &from, &ask, effects);
    }
}

static void
prevote_tick(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    if (now_ms - agree->round.began_ms >= AGREE_ELECTION_MS) {
        if (agree->renewing)
            lose(agree, now_ms, effects);
        else
            elect_begin(agree, now_ms, effects); /* what was granted may have changed */
    } else if (now_ms - agree->round.sent_ms >= agree_resend(agree)) {
        round_ask(agree, now_ms, effects);
    }
}

static void
vote_tick(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    votes_count(agree, now_ms, effects); /* a wait may be over */
    if (agree->role != AGREE_CANDIDATE)
        return;
    if (now_ms - agree->round.began_ms >= AGREE_ELECTION_MS)
        lose(agree, now_ms, effects);
    else if (now_ms - agree->round.sent_ms >= agree_resend(agree))
        round_ask(agree, now_ms, effects);
}

void
elect_tick(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    switch (agree->role) {
    case AGREE_LEADER:
        if (now_ms >= agree->beat_at_ms)
            elect_beat(agree, now_ms, &(struct id){0}, effects);
        break;
    case AGREE_PRECANDIDATE:
        prevote_tick(agree, now_ms, effects);
        break;
    case AGREE_CANDIDATE:
        vote_tick(agree, now_ms, effects);
        break;
    case AGREE_FOLLOWER:
        if (now_ms >= agree->election_at_ms && now_ms >= agree->resigned_until_ms)
            elect_begin(agree, now_ms, effects);
        break;
    case AGREE_OBSERVER:
        if (now_ms - agree->leader_heard_ms > 2 * agree_silence(agree))
            agree_lead_by(agree, &(struct id){0}, 0, effects);
        break;
    }
}
