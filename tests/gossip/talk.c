#include "tests/gossip/talk.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <string.h>

struct talk
talk_new(int members)
{
    struct talk talk = {.net = council_new(1, members)};
    talk.net->delay_ms = 10;
    council_grow(talk.net, members);
    ck_assert_str_eq(talk.net->history->wrong, "");
    return talk;
}

void
talk_end(struct talk *talk)
{
    effects_release(&talk->effects);
    buf_release(&talk->body);
    council_free(talk->net);
}

struct agree *
talk_agree(const struct talk *talk, int node)
{
    return talk->net->nodes[node].agree;
}

/* The node's agree hears talk->body from another node. */
int
talk_hear(struct talk *talk, int to, int from, enum frame_kind kind)
{
    struct agree *agree = talk_agree(talk, to);
    struct frame frame = {.kind = kind,
                          .swarm = agree->swarm,
                          .from = talk->net->nodes[from].id,
                          .to = agree->self,
                          .body = talk->body.data,
                          .body_len = talk->body.len};
    effects_clear(&talk->effects);
    int result =
        agree_receive(agree, talk->net->now_ms, &frame, &talk->effects, &talk->err);
    buf_clear(&talk->body);
    return result;
}

const struct effect *
talk_effect(const struct talk *talk, enum effect_kind kind)
{
    for (size_t i = 0; i < talk->effects.count; i++)
        if (talk->effects.list[i].kind == kind)
            return &talk->effects.list[i];
    return NULL;
}

const struct effect *
talk_frame(const struct talk *talk, enum frame_kind kind)
{
    for (size_t i = 0; i < talk->effects.count; i++)
        if (talk->effects.list[i].kind == EFFECT_SEND &&
            talk->effects.list[i].frame == kind)
            return &talk->effects.list[i];
    return NULL;
}

/* Durable before it leaves. */
void
talk_persisted(const struct talk *talk, enum frame_kind kind)
{
    ck_assert_ptr_nonnull(talk_effect(talk, EFFECT_PERSIST));
    ck_assert_ptr_nonnull(talk_frame(talk, kind));
    ck_assert(talk_effect(talk, EFFECT_PERSIST) < talk_frame(talk, kind));
}

struct vote_reply
talk_vote(struct talk *talk, int to, int from, enum frame_kind kind, uint64_t term)
{
    const struct agree *agree = talk_agree(talk, to);
    struct vote_ask ask = {
        .term = term, .epoch = agree->decree.epoch, .hash = agree->hash};
    vote_ask_encode(&ask, &talk->body);
    ck_assert_int_eq(talk_hear(talk, to, from, kind), 0);
    const struct effect *reply =
        talk_frame(talk, kind == FRAME_VOTE ? FRAME_VOTE_REPLY : FRAME_PREVOTE_REPLY);
    ck_assert_ptr_nonnull(reply);
    struct vote_reply vote;
    ck_assert_int_eq(vote_reply_decode(reply->bytes, reply->len, &vote, &talk->err), 0);
    return vote;
}

/* A decree that follows the node's newest, with the same members. */
struct decree
talk_next(const struct agree *agree, const char *body)
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
talk_propose(struct talk *talk, int to, int from, uint64_t term, struct decree *decree,
             struct id *hash)
{
    struct buf bytes = {0};
    decree_encode(decree, &bytes);
    struct propose message = {
        .term = term, .decree = bytes.data, .decree_len = bytes.len};
    propose_encode(&message, &talk->body);
    decree_hash(decree, hash);
    decree_release(decree);
    buf_release(&bytes);
    return talk_hear(talk, to, from, FRAME_PROPOSE);
}

struct reject
talk_rejected(struct talk *talk)
{
    struct reject reject;
    const struct effect *sent = talk_frame(talk, FRAME_REJECT);
    ck_assert_ptr_nonnull(sent);
    ck_assert_int_eq(reject_decode(sent->bytes, sent->len, &reject, &talk->err), 0);
    return reject;
}

void
talk_judge(struct talk *talk, int node, const struct id *hash, bool right)
{
    effects_clear(&talk->effects);
    agree_judged(talk_agree(talk, node), talk->net->now_ms, hash, right, "I count 3",
                 &talk->effects);
}
