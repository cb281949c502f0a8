#include "gossip/probe.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

void
prober_release(struct prober *prober)
{
    free(prober->list);
    free(prober->order);
    *prober = (struct prober){0};
}

struct probe *
prober_start(struct prober *prober, enum probe_kind kind, const struct id *target,
             int64_t now_ms, int64_t patience_ms, int64_t deadline_ms)
{
    if (prober->count == PROBES_MAX)
        return NULL;
    if (prober->count == prober->capacity) {
        prober->capacity = prober->capacity ? 2 * prober->capacity : 8;
        prober->list = xrealloc(prober->list, prober->capacity, sizeof(*prober->list));
    }
    struct probe *probe = &prober->list[prober->count++];
    *probe = (struct probe){.kind = kind,
                            .target = *target,
                            .nonce = rng_next(&prober->rng),
                            .sent_ms = now_ms,
                            .patience_ms = patience_ms,
                            .ask_ms = now_ms + patience_ms,
                            .fail_ms = now_ms + deadline_ms};
    return probe;
}

struct probe *
prober_find(struct prober *prober, uint64_t nonce)
{
    for (size_t i = 0; i < prober->count; i++)
        if (prober->list[i].nonce == nonce)
            return &prober->list[i];
    return NULL;
}

bool
prober_busy(const struct prober *prober, enum probe_kind kind, const struct id *target)
{
    for (size_t i = 0; i < prober->count; i++)
        if (prober->list[i].kind == kind && id_equal(&prober->list[i].target, target))
            return true;
    return false;
}

void
prober_end(struct prober *prober, struct probe *probe)
{
    must(probe >= prober->list && probe < prober->list + prober->count);
    *probe = prober->list[--prober->count];
}

void
prober_shift(struct prober *prober, int64_t gap_ms)
{
    for (size_t i = 0; i < prober->count; i++) {
        prober->list[i].sent_ms += gap_ms;
        prober->list[i].ask_ms += gap_ms;
        prober->list[i].fail_ms += gap_ms;
    }
}

static bool
active(const struct entry *entry)
{
    return entry->member.state == MEMBER_ALIVE || entry->member.state == MEMBER_SUSPECT;
}

static void
reshuffle(struct prober *prober, const struct table *table, const struct id *self)
{
    prober->order_count = prober->order_next = 0;
    for (size_t i = 0; i < table->count; i++)
        if (active(table->list[i]) && !id_equal(&table->list[i]->member.record->id, self))
            prober_insert(prober, &table->list[i]->member.record->id);
}

const struct id *
prober_next(struct prober *prober, const struct table *table, const struct id *self)
{
    for (int round = 0; round < 2; round++) {
        while (prober->order_next < prober->order_count) {
            const struct id *id = &prober->order[prober->order_next++];
            const struct entry *entry = table_find(table, id);
            if (entry && active(entry))
                return id;
        }
        reshuffle(prober, table, self);
    }
    return NULL;
}

void
prober_insert(struct prober *prober, const struct id *id)
{
    if (prober->order_count == MEMBERS_MAX)
        return; /* it comes with the next round */
    if (prober->order_count == prober->order_capacity) {
        prober->order_capacity = prober->order_capacity ? 2 * prober->order_capacity : 16;
        prober->order =
            xrealloc(prober->order, prober->order_capacity, sizeof(*prober->order));
    }
    size_t to_come = prober->order_count - prober->order_next;
    size_t at = prober->order_next + (size_t)rng_below(&prober->rng, to_come + 1);
    prober->order[prober->order_count++] = prober->order[at];
    prober->order[at] = *id;
}

void
prober_health(struct prober *prober, int change)
{
    int health = (int)prober->health + change;
    prober->health = health < 0 ? 0 : health > HEALTH_MAX ? HEALTH_MAX : (unsigned)health;
}

struct choice {
    bool suspects;
    const struct id *self, *except, *nor;
    size_t nor_count;
};

static bool
eligible(const struct choice *choice, const struct entry *entry)
{
    const struct id *id = &entry->member.record->id;
    if (entry->member.state != MEMBER_ALIVE && !(choice->suspects && active(entry)))
        return false;
    if (id_equal(id, choice->self) || (choice->except && id_equal(id, choice->except)))
        return false;
    for (size_t i = 0; i < choice->nor_count; i++)
        if (id_equal(id, &choice->nor[i]))
            return false;
    return true;
}

/* Reservoir: each of those seen so far is in with the same chance. */
static size_t
choose_among_all(struct prober *prober, const struct set *set,
                 const struct choice *choice, size_t most, struct entry **out)
{
    size_t seen = 0, count = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct entry *entry = set->list[i];
        if (!eligible(choice, entry))
            continue;
        seen++;
        if (count < most) {
            out[count++] = entry;
            continue;
        }
        size_t at = (size_t)rng_below(&prober->rng, seen);
        if (at < most)
            out[at] = entry;
    }
    return count;
}

/* By trial, when nearly everybody will do: the cost does not grow with the swarm. */
static size_t
choose_by_trial(struct prober *prober, const struct set *set, const struct choice *choice,
                size_t most, struct entry **out)
{
    size_t count = 0;
    for (size_t tries = 8 * most; tries > 0 && count < most; tries--) {
        struct entry *entry = set->list[rng_below(&prober->rng, set->count)];
        bool fits = eligible(choice, entry);
        for (size_t i = 0; i < count && fits; i++)
            fits = out[i] != entry;
        if (fits)
            out[count++] = entry;
    }
    return count;
}

size_t
prober_choose(struct prober *prober, const struct table *table, bool suspects,
              const struct id *self, const struct id *except, const struct id *nor,
              size_t nor_count, size_t most, struct entry **out)
{
    const struct set *set = &table->sets[SET_ACTIVE];
    struct choice choice = {.suspects = suspects,
                            .self = self,
                            .except = except,
                            .nor = nor,
                            .nor_count = nor_count};
    size_t count = 0;
    if (set->count > 16 * (most + 1))
        count = choose_by_trial(prober, set, &choice, most, out);
    if (count < most)
        count = choose_among_all(prober, set, &choice, most, out);
    return count;
}
