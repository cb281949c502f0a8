#include "tests/gossip/hearing.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <string.h>

struct hearing
hearing_new(int members)
{
    struct hearing hearing = {.net = council_new(1, members)};
    hearing.net->delay_ms = 10;
    council_grow(hearing.net, members);
    ck_assert_str_eq(hearing.net->history->wrong, "");
    return hearing;
}

void
hearing_end(struct hearing *hearing)
{
    effects_release(&hearing->effects);
    buf_release(&hearing->body);
    council_free(hearing->net);
}

struct agree *
hearing_agree(const struct hearing *hearing, int node)
{
    return hearing->net->nodes[node].agree;
}

/* The node's agree hears hearing->body from another node. */
int
hearing_hear(struct hearing *hearing, int to, int from, enum frame_kind kind)
{
    struct agree *agree = hearing_agree(hearing, to);
    static const uint8_t nothing[1]; /* a frame's body is never NULL */
    struct frame frame = {.kind = kind,
                          .swarm = agree->swarm,
                          .from = hearing->net->nodes[from].id,
                          .to = agree->self,
                          .body = hearing->body.len ? hearing->body.data : nothing,
                          .body_len = hearing->body.len};
    effects_clear(&hearing->effects);
    int result = agree_receive(agree, hearing->net->now_ms, &frame, &hearing->effects,
                               &hearing->err);
    buf_clear(&hearing->body);
    return result;
}

const struct effect *
hearing_effect(const struct hearing *hearing, enum effect_kind kind)
{
    for (size_t i = 0; i < hearing->effects.count; i++)
        if (hearing->effects.list[i].kind == kind)
            return &hearing->effects.list[i];
    return NULL;
}

const struct effect *
hearing_frame(const struct hearing *hearing, enum frame_kind kind)
{
    for (size_t i = 0; i < hearing->effects.count; i++)
        if (hearing->effects.list[i].kind == EFFECT_SEND &&
            hearing->effects.list[i].frame == kind)
            return &hearing->effects.list[i];
    return NULL;
}

/* Durable before it leaves. */
void
hearing_persisted(const struct hearing *hearing, enum frame_kind kind)
{
    ck_assert_ptr_nonnull(hearing_effect(hearing, EFFECT_PERSIST));
    ck_assert_ptr_nonnull(hearing_frame(hearing, kind));
    ck_assert(hearing_effect(hearing, EFFECT_PERSIST) < hearing_frame(hearing, kind));
}

struct vote_reply
hearing_vote(struct hearing *hearing, int to, int from, enum frame_kind kind,
             uint64_t term)
{
    const struct agree *agree = hearing_agree(hearing, to);
    struct vote_ask ask = {
        .term = term, .epoch = agree->decree.epoch, .hash = agree->hash};
    vote_ask_encode(&ask, &hearing->body);
    ck_assert_int_eq(hearing_hear(hearing, to, from, kind), 0);
    const struct effect *reply = hearing_frame(
        hearing, kind == FRAME_VOTE ? FRAME_VOTE_REPLY : FRAME_PREVOTE_REPLY);
    ck_assert_ptr_nonnull(reply);
    struct vote_reply vote;
    ck_assert_int_eq(vote_reply_decode(reply->bytes, reply->len, &vote, &hearing->err),
                     0);
    return vote;
}

/* A decree that follows the node's newest, with the same members. */
struct decree
hearing_next(const struct agree *agree, const char *body)
{
    struct decree header = agree->decree, next;
    header.body = NULL;
    decree_copy(&next, &header);
    next.swarm = agree->swarm;
    next.epoch++;
    next.previous = agree->hash;
    next.cause = CAUSE_JOB;
    next.voters_count =
        decree_next_voters(&agree->decree, next.members, next.members_count, next.voters);
    next.body_len = strlen(body);
    next.body = xmemdup(body, next.body_len);
    key_hash(next.body, next.body_len, &next.body_hash);
    return next;
}

/* Takes the decree. */
int
hearing_propose(struct hearing *hearing, int to, int from, uint64_t term,
                struct decree *decree, struct id *hash)
{
    struct buf bytes = {0};
    decree_encode(decree, &bytes);
    struct propose message = {
        .term = term, .decree = bytes.data, .decree_len = bytes.len};
    propose_encode(&message, &hearing->body);
    decree_hash(decree, hash);
    decree_release(decree);
    buf_release(&bytes);
    return hearing_hear(hearing, to, from, FRAME_PROPOSE);
}

struct reject
hearing_rejected(struct hearing *hearing)
{
    struct reject reject;
    const struct effect *sent = hearing_frame(hearing, FRAME_REJECT);
    ck_assert_ptr_nonnull(sent);
    ck_assert_int_eq(reject_decode(sent->bytes, sent->len, &reject, &hearing->err), 0);
    return reject;
}

void
hearing_judge(struct hearing *hearing, int node, const struct id *hash, bool right)
{
    effects_clear(&hearing->effects);
    agree_judged(hearing_agree(hearing, node), hearing->net->now_ms, hash, right,
                 "I count 3", &hearing->effects);
}
