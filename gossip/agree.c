#include "gossip/agree_state.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum { SILENCE_MS = 2000, BEAT_MS = 400, SILENCE_ROUND_TRIPS = 10, BEHIND_MS = 5000 };

const char *
agree_role_name(enum agree_role role)
{
    static const char *const names[] = {"observer", "follower", "pre-candidate",
                                        "candidate", "leader"};
    return (unsigned)role < sizeof(names) / sizeof(*names) ? names[role] : "unknown";
}

/* ---- shared by the parts ---- */

int
agree_voter_index(const struct agree *agree, const struct id *id)
{
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        if (id_equal(&agree->decree.voters[i], id))
            return (int)i;
    return -1;
}

bool
agree_votes(const struct agree *agree)
{
    return agree->amnesia == 0 && agree_voter_index(agree, &agree->self) >= 0;
}

uint64_t
agree_floor(const struct agree *agree)
{
    return agree->leader_term > agree->promised ? agree->leader_term : agree->promised;
}

/* Who does not vote keeps its promises for the day on which it does. */
uint64_t
agree_follow_floor(const struct agree *agree)
{
    if (agree_votes(agree))
        return agree_floor(agree);
    uint64_t decided = agree->certificate.term;
    return !id_empty(&agree->leader) && agree->leader_term > decided ? agree->leader_term
                                                                     : decided;
}

static uint64_t
term_known(const struct agree *agree)
{
    uint64_t floor = agree_floor(agree);
    return agree->seen_term > floor ? agree->seen_term : floor;
}

bool
agree_term_within(const struct agree *agree, uint64_t term)
{
    return term <= term_known(agree) + agree_term_jump;
}

void
agree_term_note(struct agree *agree, uint64_t term)
{
    uint64_t known = term_known(agree);
    if (term > known)
        agree->seen_term =
            term - known > agree_term_jump ? known + agree_term_jump : term;
}

uint64_t
agree_term_next(const struct agree *agree)
{
    return term_known(agree) + 1;
}

int64_t
agree_silence(const struct agree *agree)
{
    int64_t by_link = SILENCE_ROUND_TRIPS * agree->round_trip_ms;
    return by_link > agree->options.silence_ms ? by_link : agree->options.silence_ms;
}

int64_t
agree_resend(const struct agree *agree)
{
    int64_t by_link = agree->round_trip_ms * 3 / 2;
    return by_link > AGREE_RESEND_MS ? by_link : AGREE_RESEND_MS;
}

/* Was this kind sent to this peer within the interval? If not, it is now. */
bool
agree_recently(struct agree *agree, int64_t now_ms, const struct id *peer,
               enum frame_kind kind, int64_t interval_ms)
{
    size_t at = agree->recent_next;
    for (size_t i = 0; i < AGREE_RECENT_MAX; i++) {
        if (agree->recent[i].kind != kind || !id_equal(&agree->recent[i].peer, peer))
            continue;
        if (now_ms - agree->recent[i].at_ms < interval_ms)
            return true;
        at = i;
        break;
    }
    if (at == agree->recent_next)
        agree->recent_next = (agree->recent_next + 1) % AGREE_RECENT_MAX;
    agree->recent[at].peer = *peer;
    agree->recent[at].kind = kind;
    agree->recent[at].at_ms = now_ms;
    return false;
}

void
agree_lead_by(struct agree *agree, const struct id *leader, uint64_t term,
              struct effects *effects)
{
    if (id_equal(&agree->leader, leader) && agree->leader_term == term)
        return;
    if (id_empty(leader)) {
        if (id_empty(&agree->leader))
            return;
        agree->lost = agree->leader;
    } else {
        agree->leader_term = term;
        agree->lost = (struct id){0};
    }
    agree->leader = *leader;
    struct effect *effect = effects_add(effects, EFFECT_LEADER, NULL, 0);
    effect->peer = *leader;
    effect->term = agree->leader_term;
}

void
agree_step_down(struct agree *agree, struct effects *effects)
{
    agree->role = agree_votes(agree) ? AGREE_FOLLOWER : AGREE_OBSERVER;
    agree->renewing = false;
    decide_drop(agree);
    if (id_equal(&agree->leader, &agree->self))
        agree_lead_by(agree, &(struct id){0}, 0, effects);
}

static void
quorum_tell(struct agree *agree, bool quorum, struct effects *effects)
{
    if (agree->quorum == quorum)
        return;
    agree->quorum = quorum;
    effects_add(effects, EFFECT_QUORUM, NULL, 0)->after = quorum;
}

/* Who leads hears a majority, or steps down. For others a beat is the sign, or, while
 * there is no leader, words of a majority. */
static void
quorum_update(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    int self = agree_votes(agree) ? agree_voter_index(agree, &agree->self) : -1;
    uint32_t heard = self >= 0 ? 1u << self : 0;
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        if (now_ms - agree->heard_ms[i] <= agree_silence(agree))
            heard |= 1u << i;
    if (self >= 0 && decree_quorum(&agree->decree, heard))
        agree->quorum_ms = now_ms;
    else if (agree->role == AGREE_LEADER) {
        agree->quorum_ms = agree_never;
        for (int i = 0; i < VOTERS_MAX; i++)
            agree->heard_ms[i] = agree_never;
        agree_step_down(agree, effects);
        elect_arm(agree, now_ms, false);
    }
    quorum_tell(agree, now_ms - agree->quorum_ms <= 2 * agree_silence(agree), effects);
}

/* ---- life cycle ---- */

struct agree *
agree_new(const struct agree_options *options, int64_t now_ms, const void *saved,
          size_t saved_len, struct err *err)
{
    must(options->key != NULL && (saved != NULL || saved_len == 0));
    struct agree *agree = xcalloc(1, sizeof(*agree));
    agree->options = *options;
    if (agree->options.silence_ms == 0)
        agree->options.silence_ms = SILENCE_MS;
    if (agree->options.beat_ms == 0)
        agree->options.beat_ms = BEAT_MS;
    agree->self = *key_id(options->key);
    agree->rng = (struct rng){.seed = options->seed, .stream = id_prefix(&agree->self)};
    agree->leader_heard_ms = agree->quorum_ms = agree->resigned_until_ms = agree_never;
    agree->refused.at_ms = agree->rival_at_ms = agree_never;
    for (int i = 0; i < VOTERS_MAX; i++)
        agree->heard_ms[i] = agree_never;
    for (int i = 0; i < AGREE_RECENT_MAX; i++)
        agree->recent[i].at_ms = agree_never;
    agree->poll_at_ms = now_ms + AGREE_POLL_MS;
    if (saved && agree_load(agree, saved, saved_len, err)) {
        agree_free(agree);
        return NULL;
    }
    if (agree->founded && agree_votes(agree)) {
        agree->role = AGREE_FOLLOWER;
        elect_arm(agree, now_ms, agree->decree.voters_count == 1);
    }
    return agree;
}

void
agree_free(struct agree *agree)
{
    if (!agree)
        return;
    decide_drop(agree);
    decree_release(&agree->round.best);
    decree_release(&agree->decree);
    decree_release(&agree->accepted);
    chain_clear(&agree->chain);
    root_set(&agree->root, NULL, NULL, 0);
    free(agree);
}

void
agree_found(struct agree *agree, int64_t now_ms, uint64_t incarnation,
            const uint8_t nonce[ID_BYTES], const void *body, size_t body_len,
            struct effects *effects)
{
    must(!agree->founded && body_len <= DECREE_BYTES_MAX);
    struct decree_member founder = {.id = agree->self, .incarnation = incarnation};
    struct decree decree = {.epoch = 1,
                            .cause = CAUSE_FOUNDING,
                            .members_count = 1,
                            .members = xmemdup(&founder, sizeof(founder)),
                            .voters_count = 1,
                            .voters = {agree->self},
                            .body = xmemdup(body, body_len),
                            .body_len = body_len};
    memcpy(decree.previous.bytes, nonce, ID_BYTES);
    must(!id_empty(&decree.previous));
    key_hash(body, body_len, &decree.body_hash);
    struct certificate certificate = {.term = 1, .mask = 1};
    struct id hash;
    decree_hash(&decree, &hash);
    accept_sign(agree->options.key, &decree, &hash, 1, certificate.signatures[0]);
    agree->swarm = hash;
    agree->voted = agree->self;
    agree->promised = 1;
    agree->role = AGREE_LEADER;
    agree->open = true;
    agree_lead_by(agree, &agree->self, 1, effects);
    decide_store(agree, &decree, &hash, &certificate, effects);
    decide_settle(agree, now_ms, effects);
    quorum_update(agree, now_ms, effects);
}

/* ---- events ---- */

int
agree_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
              struct effects *effects, struct err *err)
{
    typedef int receive_fn(struct agree *, int64_t, const struct frame *,
                           struct effects *, struct err *);
    static const struct {
        enum frame_kind kind;
        receive_fn *receive;
    } table[] = {
        {FRAME_BEAT, beat_receive},       {FRAME_BEAT_REPLY, beat_reply_receive},
        {FRAME_PREVOTE, prevote_receive}, {FRAME_PREVOTE_REPLY, prevote_reply_receive},
        {FRAME_VOTE, vote_receive},       {FRAME_VOTE_REPLY, vote_reply_receive},
        {FRAME_PROPOSE, propose_receive}, {FRAME_ACCEPT, accept_receive},
        {FRAME_REJECT, reject_receive},   {FRAME_COMMIT, commit_receive},
        {FRAME_FETCH, fetch_receive},
    };
    if (!agree->founded)
        return 0;
    if (!id_equal(&frame->swarm, &agree->swarm))
        return err_set(err, ERR_WIRE, "frame of another swarm");
    if (!id_equal(&frame->to, &agree->self) || id_equal(&frame->from, &agree->self))
        return err_set(err, ERR_WIRE, "frame for somebody else");
    receive_fn *receive = NULL;
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (table[i].kind == frame->kind)
            receive = table[i].receive;
    if (!receive)
        return err_set(err, ERR_WIRE, "frame of kind %d is not agreement's",
                       (int)frame->kind);
    if (receive(agree, now_ms, frame, effects, err))
        return -1;
    int voter = agree_voter_index(agree, &frame->from);
    if (voter >= 0) {
        agree->heard_ms[voter] = now_ms;
        if (!id_equal(&frame->from, &agree->leader) &&
            !id_equal(&frame->from, &agree->lost))
            agree->gone[voter] = false;
    }
    quorum_update(agree, now_ms, effects);
    return 0;
}

void
agree_tick(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    if (!agree->founded)
        return;
    quorum_update(agree, now_ms, effects);
    elect_tick(agree, now_ms, effects);
    decide_tick(agree, now_ms, effects);
    quorum_update(agree, now_ms, effects);
}

void
agree_gone(struct agree *agree, int64_t now_ms, const struct id *node,
           struct effects *effects)
{
    if (!agree->founded || id_equal(node, &agree->self))
        return;
    int voter = agree_voter_index(agree, node);
    if (voter >= 0)
        agree->gone[voter] = true;
    if (id_equal(node, &agree->leader) && !agree->leader_gone) {
        agree->leader_gone = true;
        elect_gone(agree, now_ms, effects);
    }
}

void
agree_round_trip(struct agree *agree, int64_t round_trip_ms)
{
    agree->round_trip_ms = round_trip_ms < 0 ? 0 : round_trip_ms;
}

void
agree_resign(struct agree *agree, int64_t now_ms, struct effects *effects)
{
    if (agree->role != AGREE_LEADER)
        return;
    int successor = -1;
    for (int i = 0; i < (int)agree->decree.voters_count; i++)
        if (!id_equal(&agree->decree.voters[i], &agree->self) && !agree->gone[i] &&
            (successor < 0 ||
             (now_ms - agree->heard_ms[i] < agree->options.beat_ms * 3 &&
              now_ms - agree->heard_ms[successor] >= agree->options.beat_ms * 3)))
            successor = i;
    if (successor < 0)
        return;
    elect_beat(agree, now_ms, &agree->decree.voters[successor], effects);
    agree->resigned_until_ms = now_ms + AGREE_RESIGNED_MS;
    agree_step_down(agree, effects);
    elect_arm(agree, now_ms, false);
}

/* ---- what is ---- */

enum agree_role
agree_role(const struct agree *agree)
{
    return agree->role;
}

uint64_t
agree_term(const struct agree *agree)
{
    return id_empty(&agree->leader) ? agree_floor(agree) : agree_follow_floor(agree);
}

const struct id *
agree_leader(const struct agree *agree)
{
    return &agree->leader;
}

const struct decree *
agree_decree(const struct agree *agree)
{
    return agree->founded ? &agree->decree : NULL;
}

const struct id *
agree_decree_hash(const struct agree *agree)
{
    return &agree->hash;
}

bool
agree_quorum(const struct agree *agree)
{
    return agree->quorum;
}

bool
agree_behind(const struct agree *agree, int64_t now_ms)
{
    return agree->behind_since_ms > 0 && now_ms - agree->behind_since_ms > BEHIND_MS;
}

void
agree_ask(struct agree *agree, int64_t now_ms, const struct id *node,
          struct effects *effects)
{
    if (agree->founded)
        decide_fetch(agree, now_ms, node, effects);
}

void
agree_tell(struct agree *agree, int64_t now_ms, const struct id *node, uint64_t epoch,
           struct effects *effects)
{
    if (agree->founded && epoch < agree->decree.epoch)
        decide_tell(agree, now_ms, node, epoch, effects);
}

bool
agree_idle(const struct agree *agree)
{
    return agree->role == AGREE_LEADER && agree->open && !agree->proposal.active &&
           agree->renew_at_ms == 0;
}

int64_t
agree_current_ms(const struct agree *agree)
{
    return agree->current_ms;
}

int64_t
agree_heard_ms(const struct agree *agree, const struct id *voter)
{
    int index = agree_voter_index(agree, voter);
    return index < 0 || agree->heard_ms[index] == agree_never ? 0
                                                              : agree->heard_ms[index];
}
