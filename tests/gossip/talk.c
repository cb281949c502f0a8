#include "tests/gossip/talk.h"

#include <stdlib.h>
#include <string.h>

struct net net;
struct effects effects;
struct gossip *us;
struct err err;

/* Node 0 runs and knows nodes 1..known-1, of boot 1, as they would be if they ran. */
void
talk_begin(size_t count, size_t known)
{
    net_open(&net, 1, count);
    net_start(&net, 0);
    us = net.nodes[0].gossip;
    for (size_t i = 1; i < count; i++)
        net.nodes[i].boot = 1;
    for (size_t i = 1; i < known; i++) {
        struct record record;
        struct buf bytes = {0};
        net_record(&net, i, &record);
        record_sign(&record, net.nodes[i].key, &net.swarm, &bytes);
        ck_assert_int_eq(
            gossip_merge(us, net.now_ms, bytes.data, bytes.len, &effects, &err), 0);
        buf_release(&bytes);
    }
    effects_clear(&effects);
    gossip_tick(us, net.now_ms += 60, &effects);
    gossip_tick(us, net.now_ms += 60, &effects);
    effects_clear(&effects);
}

void
talk_end(void)
{
    effects_release(&effects);
    net_close(&net);
}

/* A record of node `who`, signed by it. */
struct buf
talk_record_of(size_t who, uint64_t incarnation, uint64_t version, bool leaving)
{
    struct record record;
    struct buf bytes = {0};
    net_record(&net, who, &record);
    record.incarnation = incarnation;
    record.version = version;
    record.leaving = leaving;
    record_sign(&record, net.nodes[who].key, &net.swarm, &bytes);
    return bytes;
}

struct accusation
talk_accusation_by(size_t accuser, size_t target, uint64_t incarnation,
                   enum accusation_kind kind)
{
    struct accusation out = {.accuser = net.nodes[accuser].id, .kind = kind};
    secret_admit(net.secret, &net.swarm, &out.accuser, out.admission);
    accusation_sign(&out, net.nodes[accuser].key, &net.swarm, &net.nodes[target].id,
                    incarnation);
    return out;
}

static int
by_accuser(const void *left, const void *right)
{
    return id_compare(&((const struct accusation *)left)->accuser,
                      &((const struct accusation *)right)->accuser);
}

/* Add what is said of `target`: a record of this incarnation, accused by the `count`
 * nodes from `first` on. */
void
talk_state(struct draft *draft, size_t target, uint64_t incarnation, size_t first,
           uint32_t count, enum accusation_kind kind)
{
    struct accusation list[ACCUSERS_MAX] = {0};
    struct buf record = talk_record_of(target, incarnation, 0, false);
    for (uint32_t i = 0; i < count; i++)
        list[i] = talk_accusation_by(first + i, target, incarnation, kind);
    qsort(list, count, sizeof(*list), by_accuser);
    draft_state(draft, record.data, record.len, list, count);
    buf_release(&record);
}

void
talk_announce(struct draft *draft, size_t target, uint64_t incarnation, uint64_t version,
              size_t first, uint32_t count, enum accusation_kind kind)
{
    struct accusation list[ACCUSERS_MAX] = {0};
    struct record record = {
        .id = net.nodes[target].id, .incarnation = incarnation, .version = version};
    for (uint32_t i = 0; i < count; i++)
        list[i] = talk_accusation_by(first + i, target, incarnation, kind);
    qsort(list, count, sizeof(*list), by_accuser);
    draft_announce(draft, &record, list, count);
}

int
talk_receive_bytes(size_t from, enum frame_kind kind, const void *body, size_t len)
{
    struct frame frame = {.kind = kind,
                          .swarm = net.swarm,
                          .from = net.nodes[from].id,
                          .to = net.nodes[0].id,
                          .body = body,
                          .body_len = len};
    return gossip_receive(us, net.now_ms, &frame, &effects, &err);
}

/* Hand the message to node 0 as a frame from `from`, whose record is (boot 1, version 0)
 * unless said. */
int
talk_receive(size_t from, enum frame_kind kind, struct draft *draft)
{
    struct buf body = {0};
    if (draft->incarnation == 0)
        draft->incarnation = 1ULL << 32;
    draft_encode(draft, &body);
    int result = talk_receive_bytes(from, kind, body.data, body.len);
    buf_release(&body);
    draft_release(draft);
    return result;
}

/* The first frame of this kind to this node among the effects, decoded; NULL when there
 * is none. */
struct message *
talk_sent(size_t to, enum frame_kind kind)
{
    static struct message message;
    message_release(&message);
    for (size_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.list[i];
        if (effect->kind != EFFECT_SEND || effect->frame != kind ||
            !id_equal(&effect->peer, &net.nodes[to].id))
            continue;
        ck_assert_int_eq(message_decode(effect->bytes, effect->len, &message, &err), 0);
        return &message;
    }
    return NULL;
}

const struct statement *
talk_said(const struct message *message, size_t of, struct record *record)
{
    for (size_t i = 0; message && i < message->count; i++) {
        if (!message->statements[i].bytes)
            continue;
        ck_assert_int_eq(record_open(message->statements[i].bytes,
                                     message->statements[i].len, &net.swarm,
                                     secret_admit_id(net.secret), record, &err),
                         0);
        if (id_equal(&record->id, &net.nodes[of].id))
            return &message->statements[i];
    }
    return NULL;
}

const struct statement *
talk_announced(const struct message *message, size_t of)
{
    for (size_t i = 0; message && i < message->count; i++)
        if (!message->statements[i].bytes &&
            message->statements[i].prefix == id_prefix(&net.nodes[of].id))
            return &message->statements[i];
    return NULL;
}

const struct effect *
talk_first_effect(enum effect_kind kind)
{
    for (size_t i = 0; i < effects.count; i++)
        if (effects.list[i].kind == kind)
            return &effects.list[i];
    return NULL;
}

const struct record *
talk_mine(void)
{
    return gossip_member_self(us)->record;
}

/* All that can be seen of a core. */
uint64_t
talk_fingerprint(void)
{
    uint64_t hash = gossip_health(us);
    for (size_t i = 0; i < gossip_count(us); i++) {
        const struct member *member = gossip_at(us, i);
        struct id digest;
        key_hash(member->bytes, member->len, &digest);
        hash = rng_mix(hash, id_prefix(&digest));
        hash = rng_mix(hash, (uint64_t)member->state);
        hash = rng_mix(hash, (uint64_t)member->heard_ms);
    }
    return hash;
}

static int
by_prefix(const void *left, const void *right)
{
    uint64_t a = ((const struct digest_entry *)left)->prefix;
    uint64_t b = ((const struct digest_entry *)right)->prefix;
    return a < b ? -1 : a > b;
}

void
talk_digest(size_t from, struct digest_entry *entries, size_t count)
{
    uint64_t everybody = 0;
    struct digest digest = {.lists = true,
                            .words = &everybody,
                            .words_count = 1,
                            .entries = entries,
                            .count = count};
    struct buf body = {0};
    qsort(entries, count, sizeof(*entries), by_prefix);
    digest_encode(&digest, &body);
    ck_assert_int_eq(talk_receive_bytes(from, FRAME_DIGEST, body.data, body.len), 0);
    buf_release(&body);
}
