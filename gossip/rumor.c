#include "gossip/core.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
entry_accused(const struct entry *entry)
{
    return entry->accusations_count > 0 && !entry->member.record->leaving;
}

/* ---- what is to be said ---- */

void
core_list(struct gossip *gossip, struct entry *entry)
{
    entry->listed = gossip->listed = true;
}

void
core_ask(struct gossip *gossip, uint64_t prefix)
{
    for (size_t i = 0; i < gossip->asks_count; i++)
        if (gossip->asks[i] == prefix)
            return;
    if (gossip->asks_count < ASKS_MAX)
        gossip->asks[gossip->asks_count++] = prefix;
}

/* Each fact is sent 4 x ceil(log10(N + 1)) times by each node that learns it
 * (memberlist's factor). */
static unsigned
spread_most(const struct gossip *gossip)
{
    unsigned digits = 1;
    for (size_t reach = 10; reach < table_active(&gossip->table) + 1; reach *= 10)
        digits++;
    return 4 * digits;
}

void
core_news(struct gossip *gossip, struct entry *entry)
{
    entry->spread = spread_most(gossip);
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
sending_add(struct gossip *gossip, struct sending *sending, struct entry *entry)
{
    draft_state(&sending->draft, entry->member.bytes, entry->member.len,
                entry->accusations, entry->accusations_count);
    entry->listed = false;
    entry->stamp = gossip->stamp;
    if (entry->spread > 0)
        entry->spread--;
    if (entry == sending->peer) {
        entry->told_ms = gossip->now_ms;
        entry->tell = false;
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
    sending_add(gossip, sending, entry);
}

/* The least often told first. */
static void
sending_piggyback(struct gossip *gossip, struct sending *sending)
{
    const struct table *table = &gossip->table;
    unsigned most = 0;
    for (size_t i = 0; i < table->count; i++)
        if (table->list[i]->spread > most)
            most = table->list[i]->spread;
    for (unsigned level = most; level > 0; level--) {
        for (size_t i = 0; i < table->count; i++) {
            struct entry *entry = table->list[i];
            if (sending->draft.statements.len >= PIGGYBACK_BYTES ||
                sending->draft.count == STATEMENTS_MAX)
                return;
            if (entry->spread == level && entry->stamp != gossip->stamp &&
                entry != sending->peer)
                sending_add(gossip, sending, entry);
        }
    }
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
    if (sending.peer && (sending.peer->listed || entry_accused(sending.peer)))
        sending_listed(gossip, &sending, sending.peer, effects);
    for (size_t i = 0; gossip->listed && i < gossip->table.count; i++)
        if (gossip->table.list[i]->listed)
            sending_listed(gossip, &sending, gossip->table.list[i], effects);
    gossip->listed = false;
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
    if (gossip->listed || gossip->asks_count > 0)
        core_send(gossip, FRAME_RUMORS, to, 0, NULL, false, effects);
}

void
core_spread(struct gossip *gossip, const struct id *except, struct effects *effects)
{
    struct entry *peers[FANOUT];
    size_t count = 0;
    bool any = false;
    for (size_t i = 0; i < gossip->table.count && !any; i++)
        any = gossip->table.list[i]->spread > 0;
    gossip->fresh = false;
    gossip->spread_at_ms = gossip->now_ms + gossip->options.probe_interval_ms / 4;
    if (any)
        count = prober_choose(&gossip->prober, &gossip->table, true, &gossip->id, except,
                              NULL, FANOUT, peers);
    if (count > 0)
        gossip->spread_ms = gossip->now_ms;
    for (size_t i = 0; i < count; i++)
        core_send(gossip, FRAME_RUMORS, &peers[i]->member.record->id, 0, NULL, false,
                  effects);
}

void
core_tell(struct gossip *gossip, struct effects *effects)
{
    if (!gossip->telling || !gossip->self)
        return;
    gossip->telling = false;
    for (size_t i = 0; i < gossip->table.count; i++) {
        struct entry *entry = gossip->table.list[i];
        if (!entry->tell)
            continue;
        if (!entry_accused(entry)) {
            entry->tell = false;
        } else if (entry->told_ms && gossip->now_ms - entry->told_ms < TELL_AGAIN_MS) {
            gossip->telling = true;
        } else {
            core_list(gossip, entry);
            core_answer(gossip, &entry->member.record->id, effects);
        }
    }
}

/* ---- digests ---- */

void
core_digest(struct gossip *gossip, const struct id *to, struct effects *effects)
{
    const struct table *table = &gossip->table;
    struct digest_entry *entries = xcalloc(table->count, sizeof(*entries));
    struct buf body = {0};
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct member *member = &table->list[i]->member;
        uint64_t prefix = id_prefix(&member->record->id);
        if (count > 0 && entries[count - 1].prefix == prefix)
            continue;
        entries[count++] =
            (struct digest_entry){.prefix = prefix,
                                  .incarnation = member->record->incarnation,
                                  .version = member->record->version,
                                  .state = member->state};
    }
    digest_encode(entries, count, &body);
    effects_send(effects, to, FRAME_DIGEST, body.data, body.len);
    buf_release(&body);
    free(entries);
}

void
core_digest_random(struct gossip *gossip, struct effects *effects)
{
    struct entry *peer;
    if (prober_choose(&gossip->prober, &gossip->table, true, &gossip->id, NULL, NULL, 1,
                      &peer) == 1)
        core_digest(gossip, &peer->member.record->id, effects);
}

static void
greet(struct gossip *gossip, const struct id *peer, struct effects *effects)
{
    if (!gossip->self ||
        (gossip->greeted_ms && gossip->now_ms - gossip->greeted_ms < GREET_LEAST_MS))
        return; /* the next periodic digest comes soon */
    gossip->greeted_ms = gossip->now_ms;
    core_digest(gossip, peer, effects);
}

/* ---- ourselves ---- */

void
core_issue(struct gossip *gossip, struct record *record, struct effects *effects)
{
    struct buf bytes = {0};
    record->version++;
    record_sign(record, gossip->options.key, &gossip->options.swarm, &bytes);
    struct issued *issued = &gossip->issued[record->version % ISSUED_MAX];
    issued->incarnation = record->incarnation;
    issued->version = record->version;
    key_hash(bytes.data, bytes.len, &issued->hash);
    if (gossip->self) {
        entry_record(gossip->self, record, bytes.data, bytes.len);
    } else {
        gossip->self = table_add(&gossip->table, record, bytes.data, bytes.len);
        must(gossip->self);
        gossip->table.keeps = gossip->self;
        gossip->self->member.since_ms = gossip->now_ms;
    }
    buf_release(&bytes);
    core_news(gossip, gossip->self);
    core_settle(gossip, gossip->self, false, "ours", effects);
}

/* Did we sign this record of ours? What is too old to remember is taken for ours. */
static bool
issued_by_us(const struct gossip *gossip, const struct record *record,
             const struct statement *statement)
{
    const struct record *mine = gossip->self->member.record;
    const struct issued *issued = &gossip->issued[record->version % ISSUED_MAX];
    struct id hash;
    if (record->incarnation > mine->incarnation || record->version > mine->version)
        return false;
    if (mine->version - record->version >= ISSUED_MAX)
        return true;
    key_hash(statement->bytes, statement->len, &hash);
    return issued->version == record->version &&
           issued->incarnation == record->incarnation && id_equal(&issued->hash, &hash);
}

void
core_conflict(struct gossip *gossip, const struct id *from, const char *what,
              struct effects *effects)
{
    if (gossip->conflict_ms && gossip->now_ms - gossip->conflict_ms < CONFLICT_AGAIN_MS)
        return;
    gossip->conflict_ms = gossip->now_ms;
    struct effect *effect = effects_add(effects, EFFECT_CONFLICT, NULL, 0);
    effect->peer = *from;
    snprintf(effect->text, sizeof(effect->text), "%s", what);
}

static void
refute(struct gossip *gossip, const struct statement *statement, struct effects *effects)
{
    struct record mine;
    char name[ID_SHORT_SIZE], why[96];
    record_copy(&mine, gossip->self->member.record);
    if ((uint32_t)mine.incarnation == UINT32_MAX)
        return; /* four thousand million refutations in one boot */
    mine.incarnation++;
    core_issue(gossip, &mine, effects);
    prober_health(&gossip->prober, 1);
    snprintf(why, sizeof(why), "refuted %s",
             id_short(&statement->accusations[0].accuser, name));
    core_settle(gossip, gossip->self, true, why, effects);
    core_list(gossip, gossip->self);
}

static void
absorb_self(struct gossip *gossip, const struct id *from, const struct record *record,
            const struct statement *statement, struct effects *effects)
{
    if (!gossip->self)
        return;
    const struct record *mine = gossip->self->member.record;
    if (record->incarnation >> 32 < mine->incarnation >> 32) {
        core_list(gossip, gossip->self); /* left over from an older boot */
        return;
    }
    if (!issued_by_us(gossip, record, statement)) {
        char what[160];
        snprintf(what, sizeof(what),
                 "a record that we did not make, of boot %llu at address %.64s",
                 (unsigned long long)(record->incarnation >> 32), record->address);
        core_conflict(gossip, from, what, effects);
        return;
    }
    if (record->incarnation < mine->incarnation ||
        (mine->leaving && statement->accusations_count > 0))
        core_list(gossip, gossip->self);
    else if (statement->accusations_count > 0)
        refute(gossip, statement, effects);
}

/* ---- others ---- */

static const char *
reason(const struct entry *entry, unsigned found, char why[96])
{
    char name[ID_SHORT_SIZE];
    if (entry->member.record->leaving)
        return "said that it leaves";
    if (found & MERGE_ADDED)
        return "new here";
    if (found & MERGE_ACCUSED && entry->accusations_count > 0) {
        snprintf(why, 96, "accused by %s and %u more",
                 id_short(&entry->accusations[0].accuser, name),
                 entry->accusations_count - 1);
        return why;
    }
    return found & MERGE_RISEN ? "spoke for itself" : "has a new record";
}

void
core_absorb(struct gossip *gossip, const struct id *from,
            const struct statement *statement, struct effects *effects)
{
    struct record record;
    struct err err;
    struct entry *entry;
    char why[96];
    must(record_peek(statement->bytes, statement->len, &record, &err) == 0);
    if (id_equal(&record.id, &gossip->id)) {
        absorb_self(gossip, from, &record, statement, effects);
        return;
    }
    unsigned found = table_merge(&gossip->table, statement, &entry);
    if (found & MERGE_IGNORED)
        return;
    if (found & (MERGE_STALE | MERGE_UNAWARE) ||
        (found & MERGE_TWIN && !(found & MERGE_RECORD)))
        core_list(gossip, entry);
    if (!(found & (MERGE_RECORD | MERGE_ACCUSED)))
        return;
    bool was_dead = entry->member.state == MEMBER_DEAD;
    if (found & MERGE_ADDED) {
        entry->member.since_ms = gossip->now_ms;
        prober_insert(&gossip->prober, &record.id);
    }
    if (found & MERGE_RISEN)
        entry->suspected_ms = gossip->now_ms;
    core_news(gossip, entry);
    core_settle(gossip, entry, found & MERGE_RECORD, reason(entry, found, why), effects);
    bool met = found & MERGE_ADDED && id_equal(from, &record.id);
    if (met || (was_dead && entry->member.state == MEMBER_ALIVE))
        greet(gossip, &record.id, effects);
}
