#include "gossip/core.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

/* Whoever accuses right and left is believed so many times, and then more slowly: one node
 * that hears nobody must not set the swarm to refuting (consul #5567). */
static bool
believed(struct gossip *gossip, const struct accusation *accusation)
{
    struct entry *accuser = table_find(&gossip->table, &accusation->accuser);
    if (accuser && accuser == gossip->self)
        return true;
    int64_t *filled_ms = accuser ? &accuser->accuser_ms : &gossip->strangers_ms;
    int32_t *left = accuser ? &accuser->accuser_left : &gossip->strangers_left;
    return allowance_take(filled_ms, left, gossip->now_ms, ACCUSED_EVERY_MS,
                          ACCUSED_MOST);
}

/* The statement less the accusations that are news and not believed. */
static void
sift(struct gossip *gossip, struct statement *statement, const struct entry *entry,
     uint64_t incarnation)
{
    bool same = entry && entry->member.record->incarnation == incarnation;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < statement->accusations_count; i++) {
        const struct accusation *accusation = &statement->accusations[i];
        const struct accusation *known =
            same ? entry_accused_by(entry, &accusation->accuser) : NULL;
        bool news = !known || known->kind < accusation->kind;
        if (!news || believed(gossip, accusation))
            statement->accusations[kept++] = *accusation;
    }
    statement->accusations_count = kept;
}

/* A record of an older boot whose maker has seen one of the newer: its key is at work in
 * two places, and who has the newer boot would take it for a leftover. */
static void
show_twin(struct gossip *gossip, const struct entry *entry, const struct record *record,
          const struct statement *statement, struct effects *effects)
{
    const struct record *known = entry->member.record;
    if (record->twin >> 32 != known->incarnation >> 32 ||
        record->incarnation >> 32 >= known->incarnation >> 32 || !gossip->self ||
        (gossip->forward_ms && gossip->now_ms - gossip->forward_ms < FORWARD_LEAST_MS))
        return;
    gossip->forward_ms = gossip->now_ms;
    struct draft draft = {.incarnation = gossip->self->member.record->incarnation,
                          .version = gossip->self->member.record->version};
    struct buf body = {0};
    draft_state(&draft, statement->bytes, statement->len, NULL, 0);
    draft_encode(&draft, &body);
    effects_send(effects, &record->id, FRAME_RUMORS, body.data, body.len);
    buf_release(&body);
    draft_release(&draft);
}

static const char *
reason(const struct entry *entry, unsigned found, char why[96])
{
    char name[ID_SHORT_SIZE];
    if (entry->member.record->leaving)
        return "said that it leaves";
    if (found & MERGE_ADDED)
        return "new here";
    if (found & MERGE_ACCUSED && entry->charges) {
        snprintf(why, 96, "accused by %s and %u more",
                 id_short(&entry->charges->list[0].accuser, name),
                 entry->charges->count - 1);
        return why;
    }
    return found & MERGE_RISEN ? "spoke for itself" : "has a new record";
}

/* The table took something in. */
static void
learnt(struct gossip *gossip, const struct id *from, struct entry *entry, unsigned found,
       struct effects *effects)
{
    struct id id = entry->member.record->id;
    bool was_dead = entry->member.state == MEMBER_DEAD;
    char why[96];
    if (found & MERGE_ADDED) {
        entry->member.since_ms = gossip->now_ms;
        prober_insert(&gossip->prober, &id);
    }
    if (found & MERGE_RISEN)
        entry->suspected_ms = gossip->now_ms;
    gossip->news++;
    bool answered = gossip->answered;
    if (core_wanted(gossip, id_prefix(&id)))
        gossip->answered = false; /* it was announced: a rumor all the same */
    core_news(gossip, entry, found);
    gossip->answered = answered;
    if (found & MERGE_MOVED) {
        /* To where it was, while we are still connected to there: if somebody with its
         * key is there yet, now is the time to tell. */
        core_list(gossip, entry);
        core_answer(gossip, &id, effects);
    }
    core_settle(gossip, entry, found & MERGE_RECORD, reason(entry, found, why), effects);
    bool met = found & MERGE_ADDED && id_equal(from, &id);
    if (met || (was_dead && entry->member.state == MEMBER_ALIVE))
        core_greet(gossip, &id, effects);
}

void
core_absorb(struct gossip *gossip, const struct id *from,
            const struct statement *statement, struct effects *effects)
{
    struct statement sifted = *statement;
    struct record room;
    const struct record *record =
        statement->bytes ? statement_record(statement, &room) : NULL;
    struct entry *entry = record ? table_find(&gossip->table, &record->id)
                                 : table_find_prefix(&gossip->table, statement->prefix);
    sift(gossip, &sifted, entry, record ? record->incarnation : statement->incarnation);
    if (record ? id_equal(&record->id, &gossip->id) : entry && entry == gossip->self) {
        core_absorb_self(gossip, from, &sifted, effects);
        return;
    }
    unsigned found = table_merge(&gossip->table, &sifted, &entry);
    if (found & MERGE_IGNORED)
        return;
    if (found & MERGE_BEHIND)
        core_want(gossip, from, statement);
    if (found & (MERGE_STALE | MERGE_UNAWARE) ||
        (found & MERGE_TWIN && !(found & MERGE_RECORD)))
        core_list(gossip, entry);
    if (found & MERGE_STALE && record)
        show_twin(gossip, entry, record, statement, effects);
    if (found & (MERGE_RECORD | MERGE_ACCUSED))
        learnt(gossip, from, entry, found, effects);
}
