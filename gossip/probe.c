#include "gossip/probe.h"
#include "transport/base/must.h"

#include <string.h>

struct probe *
prober_start(struct prober *prober, enum probe_kind kind, const struct id *target,
             int64_t now_ms, int64_t patience_ms, int64_t deadline_ms)
{
    if (prober->count == PROBES_MAX)
        return NULL;
    struct probe *probe = &prober->list[prober->count++];
    *probe = (struct probe){.kind = kind,
                            .target = *target,
                            .nonce = rng_next(&prober->rng),
                            .sent_ms = now_ms,
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

size_t
prober_choose(struct prober *prober, const struct table *table, bool suspects,
              const struct id *self, const struct id *except, const struct id *nor,
              size_t most, struct entry **out)
{
    size_t seen = 0, count = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct entry *entry = table->list[i];
        const struct id *id = &entry->member.record->id;
        bool fits = entry->member.state == MEMBER_ALIVE || (suspects && active(entry));
        if (!fits || id_equal(id, self) || (except && id_equal(id, except)) ||
            (nor && id_equal(id, nor)))
            continue;
        /* Reservoir: each of the `seen` so far is in with the same chance. */
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
