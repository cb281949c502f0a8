#include "gossip/core.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>

bool
entry_accused(const struct entry *entry)
{
    return entry->charges && !entry->member.record->leaving;
}

/* ---- what is to be said ---- */

void
core_list(struct gossip *gossip, struct entry *entry)
{
    if (!entry_in(entry, SET_LISTED))
        gossip->listed_bytes += entry->member.len;
    table_put(&gossip->table, entry, SET_LISTED);
}

bool
core_room(const struct gossip *gossip)
{
    return gossip->listed_bytes < CAUGHT_UP_BYTES;
}

void
core_ask(struct gossip *gossip, uint64_t prefix)
{
    for (size_t i = 0; i < gossip->asks_count && i < 64; i++)
        if (gossip->asks[i] == prefix)
            return;
    if (gossip->asks_count == ASKS_MAX)
        return; /* the next digest shows the others */
    if (gossip->asks_count == gossip->asks_capacity) {
        gossip->asks_capacity = gossip->asks_capacity ? 2 * gossip->asks_capacity : 16;
        gossip->asks = xrealloc(gossip->asks, gossip->asks_capacity, sizeof(uint64_t));
    }
    gossip->asks[gossip->asks_count++] = prefix;
}

void
core_want(struct gossip *gossip, const struct id *from, const struct statement *statement)
{
    struct wanted *wanted = NULL;
    for (size_t i = 0; i < gossip->wanted_count && !wanted; i++)
        if (gossip->wanted[i].prefix == statement->prefix)
            wanted = &gossip->wanted[i];
    if (wanted && gossip->now_ms - wanted->at_ms < ASK_AGAIN_MS) {
        wanted->from = *from; /* the next time, another */
        return;
    }
    if (!wanted && gossip->wanted_count < WANTED_MAX) {
        wanted = &gossip->wanted[gossip->wanted_count++];
        wanted->times = 0;
    }
    core_ask(gossip, statement->prefix);
    if (!wanted)
        return; /* once; a later announcement, or a digest, shows it again */
    *wanted = (struct wanted){.prefix = statement->prefix,
                              .incarnation = statement->incarnation,
                              .version = statement->version,
                              .from = *from,
                              .at_ms = gossip->now_ms,
                              .times = wanted->times + 1};
}

bool
core_wanted(const struct gossip *gossip, uint64_t prefix)
{
    for (size_t i = 0; i < gossip->wanted_count; i++)
        if (gossip->wanted[i].prefix == prefix)
            return true;
    return false;
}

static bool
here(const struct gossip *gossip, const struct wanted *wanted)
{
    const struct entry *entry = table_find_prefix(&gossip->table, wanted->prefix);
    struct record its = {.incarnation = wanted->incarnation, .version = wanted->version};
    return entry && record_compare(entry->member.record, &its) >= 0;
}

void
core_want_again(struct gossip *gossip, struct effects *effects)
{
    for (size_t i = gossip->wanted_count; i-- > 0;) {
        struct wanted *wanted = &gossip->wanted[i];
        if (gossip->now_ms - wanted->at_ms < ASK_AGAIN_MS)
            continue;
        if (here(gossip, wanted) || wanted->times >= ASK_TIMES) {
            *wanted = gossip->wanted[--gossip->wanted_count];
            continue;
        }
        wanted->at_ms = gossip->now_ms;
        wanted->times++;
        struct id from = wanted->from;
        core_ask(gossip, wanted->prefix);
        core_answer(gossip, &from, effects);
    }
}

/* Each fact is sent 4 x ceil(log10(N + 1)) times by each node that learns it
 * (memberlist's factor), of which the first few with the record; and twelve times in the
 * smallest swarm, so that a fifth of all frames lost leaves out one in ten thousand. */
static unsigned
spread_most(const struct gossip *gossip)
{
    unsigned digits = 3;
    for (size_t reach = 1000; reach < table_active(&gossip->table) + 1; reach *= 10)
        digits++;
    return 4 * digits;
}

void
core_news(struct gossip *gossip, struct entry *entry, unsigned found)
{
    entry->spread = gossip->answered ? ANSWER_SENDS : (uint8_t)spread_most(gossip);
    if (found & MERGE_RECORD)
        entry->full = gossip->answered ? 0 : FULL_SENDS;
    entry->urgent = (found & (MERGE_RISEN | MERGE_ACCUSED)) && !(found & MERGE_ADDED);
    table_put(&gossip->table, entry, SET_HOT);
    gossip->fresh = true;
}

/* ---- sending ---- */

struct sending {
    struct draft draft;
    enum frame_kind kind;
    const struct id *to;
    struct entry *peer; /* NULL: not a member */
};

static void
sending_begin(struct gossip *gossip, struct sending *sending)
{
    sending->draft.incarnation = gossip->self->member.record->incarnation;
    sending->draft.version = gossip->self->member.record->version;
    gossip->stamp++;
}

static void
sending_add(struct gossip *gossip, struct sending *sending, struct entry *entry,
            bool whole)
{
    const struct accusation *charges = entry->charges ? entry->charges->list : NULL;
    if (whole)
        draft_state(&sending->draft, entry->member.bytes, entry->member.len, charges,
                    entry_charges(entry));
    else
        draft_announce(&sending->draft, entry->member.record, charges,
                       entry_charges(entry));
    table_take(&gossip->table, entry, SET_LISTED);
    entry->stamp = gossip->stamp;
    if (whole && entry->full > 0)
        entry->full--;
    if (entry->spread > 0 && --entry->spread == 0)
        table_take(&gossip->table, entry, SET_HOT);
    if (entry == sending->peer) {
        entry->told_ms = gossip->now_ms;
        table_take(&gossip->table, entry, SET_TELL);
    }
}

static void
sending_end(struct sending *sending, struct effects *effects)
{
    struct buf body = {0};
    bool empty = sending->draft.count == 0 && sending->draft.asks_count == 0;
    if (sending->kind != FRAME_RUMORS || !empty) {
        draft_encode(&sending->draft, &body);
        effects_send(effects, sending->to, sending->kind, body.data, body.len);
    }
    buf_release(&body);
    draft_release(&sending->draft);
}

/* A listed statement, in this frame or, when that is full, in one more of rumors. */
static void
sending_listed(struct gossip *gossip, struct sending *sending, struct entry *entry,
               struct effects *effects)
{
    size_t most = sending->kind == FRAME_RUMORS ? RUMORS_BYTES : ANSWER_BYTES;
    if (sending->draft.statements.len >= most || sending->draft.count == STATEMENTS_MAX) {
        sending_end(sending, effects);
        sending->kind = FRAME_RUMORS;
        sending_begin(gossip, sending);
    }
    sending_add(gossip, sending, entry, true);
}

/* A large record goes whole from its own node alone: nobody else has it yet. */
static bool
whole(const struct gossip *gossip, const struct entry *entry)
{
    return entry->full > 0 &&
           (entry->member.len <= INLINE_BYTES || entry == gossip->self);
}

/* The least often told first. */
static void
sending_hot(struct gossip *gossip, struct sending *sending, bool urgent)
{
    const struct set *hot = &gossip->table.sets[SET_HOT];
    unsigned most = 0;
    for (size_t i = 0; i < hot->count; i++)
        if (hot->list[i]->urgent == urgent && hot->list[i]->spread > most)
            most = hot->list[i]->spread;
    for (unsigned level = most; level > 0; level--) {
        for (size_t i = hot->count; i-- > 0;) {
            struct entry *entry = hot->list[i];
            if (sending->draft.statements.len >= PIGGYBACK_BYTES ||
                sending->draft.count == STATEMENTS_MAX)
                return;
            if (entry->spread == level && entry->urgent == urgent &&
                entry->stamp != gossip->stamp && entry != sending->peer)
                sending_add(gossip, sending, entry, whole(gossip, entry));
        }
    }
}

/* Life and death first: however many records change, they do not keep it waiting
 * (memberlist #299). */
static void
sending_piggyback(struct gossip *gossip, struct sending *sending)
{
    if (gossip->table.sets[SET_HOT].count == 0)
        return;
    sending_hot(gossip, sending, true);
    sending_hot(gossip, sending, false);
}

void
core_send(struct gossip *gossip, enum frame_kind kind, const struct id *to,
          uint64_t nonce, const struct id *subject, bool answered,
          struct effects *effects)
{
    struct sending sending = {.kind = kind, .to = to};
    if (!gossip->self)
        return; /* nobody yet, who has nothing to say */
    sending.peer = table_find(&gossip->table, to);
    sending.draft.nonce = nonce;
    if (subject)
        sending.draft.subject = *subject;
    sending.draft.answered = answered;
    sending_begin(gossip, &sending);
    if (sending.peer &&
        (entry_in(sending.peer, SET_LISTED) || entry_accused(sending.peer)))
        sending_listed(gossip, &sending, sending.peer, effects);
    const struct set *listed = &gossip->table.sets[SET_LISTED];
    while (listed->count > 0)
        sending_listed(gossip, &sending, listed->list[0], effects);
    gossip->listed_bytes = 0;
    for (size_t i = 0; i < gossip->asks_count; i++)
        draft_ask(&sending.draft, gossip->asks[i]);
    gossip->asks_count = 0;
    if (!sending.peer || sending.peer->member.state != MEMBER_DEAD)
        sending_piggyback(gossip, &sending);
    sending_end(&sending, effects);
}

void
core_answer(struct gossip *gossip, const struct id *to, struct effects *effects)
{
    if (gossip->table.sets[SET_LISTED].count > 0 || gossip->asks_count > 0)
        core_send(gossip, FRAME_RUMORS, to, 0, NULL, true, effects);
}

int64_t
core_spread_ms(const struct gossip *gossip)
{
    return gossip->table.count > SPREAD_MANY ? SPREAD_MANY_MS : SPREAD_LEAST_MS;
}

void
core_spread(struct gossip *gossip, const struct id *except, struct effects *effects)
{
    struct entry *peers[FANOUT];
    size_t count = 0;
    gossip->fresh = false;
    gossip->spread_at_ms = gossip->now_ms + gossip->options.probe_interval_ms / 4;
    if (gossip->table.sets[SET_HOT].count > 0)
        count = prober_choose(&gossip->prober, &gossip->table, true, &gossip->id, except,
                              NULL, 0, FANOUT, peers);
    if (count > 0)
        gossip->spread_ms = gossip->now_ms;
    for (size_t i = 0; i < count; i++)
        core_send(gossip, FRAME_RUMORS, &peers[i]->member.record->id, 0, NULL, false,
                  effects);
}

void
core_tell(struct gossip *gossip, struct effects *effects)
{
    const struct set *tell = &gossip->table.sets[SET_TELL];
    if (!gossip->self)
        return;
    for (size_t i = tell->count; i-- > 0;) {
        struct entry *entry = tell->list[i];
        if (!entry_accused(entry)) {
            table_take(&gossip->table, entry, SET_TELL);
        } else if (!entry->told_ms || gossip->now_ms - entry->told_ms >= TELL_AGAIN_MS) {
            core_list(gossip, entry);
            core_answer(gossip, &entry->member.record->id, effects);
        }
    }
}

/* ---- digests ---- */

/* memberlist's scale: as often up to 32 members, and half, a third, a fourth as often
 * with each doubling. */
int64_t
core_digest_ms(const struct gossip *gossip)
{
    int64_t scale = 1;
    for (size_t reach = 32; reach < table_active(&gossip->table); reach *= 2)
        scale++;
    return 10 * scale * gossip->options.probe_interval_ms;
}

void
core_digest(struct gossip *gossip, const struct id *to, struct effects *effects)
{
    static const uint64_t everybody = 0;
    uint64_t salt = rng_next(&gossip->prober.rng);
    struct digest digest;
    struct buf body = {0};
    if (gossip->table.count <= DIGEST_SMALL)
        digest_list(&gossip->table, salt, 0, &everybody, 1, &digest);
    else
        digest_hash(&gossip->table, salt, 0, &digest);
    digest_encode(&digest, &body);
    effects_send(effects, to, FRAME_DIGEST, body.data, body.len);
    buf_release(&body);
    digest_release(&digest);
}

void
core_digest_random(struct gossip *gossip, struct effects *effects)
{
    struct entry *peer;
    if (prober_choose(&gossip->prober, &gossip->table, true, &gossip->id, NULL, NULL, 0,
                      1, &peer) == 1)
        core_digest(gossip, &peer->member.record->id, effects);
}

void
core_greet(struct gossip *gossip, const struct id *peer, struct effects *effects)
{
    if (!gossip->self ||
        (gossip->greeted_ms && gossip->now_ms - gossip->greeted_ms < GREET_LEAST_MS))
        return; /* the next periodic digest comes soon */
    gossip->greeted_ms = gossip->now_ms;
    core_digest(gossip, peer, effects);
}
