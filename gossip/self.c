#include "gossip/core.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- issuing ---- */

void
core_issue(struct gossip *gossip, struct record *record, struct effects *effects)
{
    struct buf bytes = {0};
    bool risen =
        gossip->self && record->incarnation > gossip->self->member.record->incarnation;
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
    gossip->issued_ms = gossip->now_ms;
    free(gossip->held);
    gossip->held = NULL;
    bool urgent = risen || record->leaving;
    core_news(gossip, gossip->self, MERGE_RECORD | (urgent ? MERGE_RISEN : 0));
    core_settle(gossip, gossip->self, false, "ours", effects);
}

/* Estimates of links move all the time: all members together say so four times a second
 * at most. */
static int64_t
links_wait_ms(const struct gossip *gossip)
{
    size_t active = table_active(&gossip->table);
    return active <= LINKS_FREELY ? 0 : (int64_t)active * LINKS_WAIT_MS;
}

void
gossip_self(struct gossip *gossip, const struct record *record, struct effects *effects)
{
    struct record mine;
    record_copy(&mine, record);
    mine.id = gossip->id;
    if (!gossip->self) {
        mine.incarnation &= ~(uint64_t)UINT32_MAX;
        mine.version = 0;
        gossip->digest_at_ms =
            gossip->now_ms; /* with whom we were introduced to before */
    } else {
        const struct record *old = gossip->self->member.record;
        mine.version = old->version;
        mine.twin = old->twin;
        if (mine.incarnation >> 32 <= old->incarnation >> 32) {
            mine.incarnation = old->incarnation;
            /* What was said of us rests on admissions by the old secret: with those it
             * has to go. */
            if (memcmp(mine.admission, old->admission, sizeof(mine.admission)) != 0 &&
                (uint32_t)mine.incarnation != UINT32_MAX)
                mine.incarnation++;
            if (record_same(&mine, old, true)) {
                free(gossip->held);
                gossip->held = NULL;
                return;
            }
            if (record_same(&mine, old, false) &&
                gossip->now_ms - gossip->issued_ms < links_wait_ms(gossip)) {
                free(gossip->held);
                gossip->held = record_dup(&mine);
                return;
            }
        } else {
            mine.incarnation &= ~(uint64_t)UINT32_MAX;
            mine.twin = 0;
        }
    }
    core_issue(gossip, &mine, effects);
    core_tell(gossip, effects);
    if (gossip->now_ms - gossip->spread_ms >= core_spread_ms(gossip))
        core_spread(gossip, NULL, effects);
}

void
core_issue_held(struct gossip *gossip, bool now, struct effects *effects)
{
    struct record mine;
    if (!gossip->held ||
        (!now && gossip->now_ms - gossip->issued_ms < links_wait_ms(gossip)))
        return;
    const struct record *old = gossip->self->member.record;
    record_copy(&mine, gossip->held);
    mine.incarnation = old->incarnation;
    mine.version = old->version;
    mine.twin = old->twin;
    core_issue(gossip, &mine, effects);
}

const struct member *
gossip_member_self(const struct gossip *gossip)
{
    return gossip->self ? &gossip->self->member : NULL;
}

/* ---- what others have of us ---- */

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

/* `false`: said lately. */
static bool
report(struct gossip *gossip, const struct id *from, const char *what,
       struct effects *effects)
{
    if (gossip->conflict_ms && gossip->now_ms - gossip->conflict_ms < CONFLICT_AGAIN_MS)
        return false;
    gossip->conflict_ms = gossip->now_ms;
    struct effect *effect = effects_add(effects, EFFECT_CONFLICT, NULL, 0);
    effect->peer = *from;
    snprintf(effect->text, sizeof(effect->text), "%s", what);
    return true;
}

void
core_conflict(struct gossip *gossip, const struct id *from, const char *what,
              struct effects *effects)
{
    report(gossip, from, what, effects);
}

/* Our record names the twin's from now on: so whoever has both can show the twin that we
 * are here now, and are no leftover of its own. */
static void
name_twin(struct gossip *gossip, const struct id *from, const struct record *record,
          struct effects *effects)
{
    char what[160];
    snprintf(what, sizeof(what),
             "a record that we did not make, of boot %llu at address %.64s",
             (unsigned long long)(record->incarnation >> 32), record->address);
    if (!report(gossip, from, what, effects))
        return;
    struct effect *effect = &effects->list[effects->count - 1];
    effect->term = record->incarnation >> 32;
    effect->len = strlen(record->address) + 1;
    effect->bytes = xmemdup(record->address, effect->len);
    if (gossip->self->member.record->twin >= record->incarnation)
        return;
    struct record mine;
    record_copy(&mine, gossip->self->member.record);
    mine.twin = record->incarnation;
    core_issue(gossip, &mine, effects);
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

/* Somebody knows this incarnation of ours, and perhaps an accusation. */
static void
answer_for_self(struct gossip *gossip, uint64_t incarnation,
                const struct statement *statement, struct effects *effects)
{
    const struct record *mine = gossip->self->member.record;
    if (incarnation < mine->incarnation ||
        (mine->leaving && statement->accusations_count > 0))
        core_list(gossip, gossip->self);
    else if (statement->accusations_count > 0)
        refute(gossip, statement, effects);
}

void
core_absorb_self(struct gossip *gossip, const struct id *from,
                 const struct statement *statement, struct effects *effects)
{
    struct record room;
    if (!gossip->self)
        return;
    const struct record *mine = gossip->self->member.record;
    if (!statement->bytes) {
        if (statement->incarnation > mine->incarnation ||
            (statement->incarnation == mine->incarnation &&
             statement->version > mine->version))
            core_want(gossip, from, statement); /* let us see it */
        else
            answer_for_self(gossip, statement->incarnation, statement, effects);
        return;
    }
    const struct record *record = statement_record(statement, &room);
    if (record->incarnation >> 32 < mine->incarnation >> 32) {
        /* Left over from an older boot, unless it knows of this one. */
        if (record->twin >> 32 == mine->incarnation >> 32)
            name_twin(gossip, from, record, effects);
        core_list(gossip, gossip->self);
    } else if (!issued_by_us(gossip, record, statement)) {
        name_twin(gossip, from, record, effects);
    } else {
        answer_for_self(gossip, record->incarnation, statement, effects);
    }
}
