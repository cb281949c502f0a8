#include "gossip/core.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how long ---- */

static int64_t
larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* Three round trips, and not less than links of a continent need. */
static int64_t
answer_ms(const struct entry *entry)
{
    return larger(PROBE_LEAST_MS, 3 * entry->member.round_trip_us / 1000);
}

int64_t
core_patience_ms(const struct gossip *gossip, const struct entry *entry)
{
    return answer_ms(entry) * (gossip->prober.health + 1);
}

int64_t
core_deadline_ms(const struct gossip *gossip, const struct entry *entry)
{
    return larger(gossip->options.probe_interval_ms,
                  (ROUNDS_MAX + 1) * answer_ms(entry)) *
           (gossip->prober.health + 1);
}

/* ---- asking ---- */

void
core_ping(struct gossip *gossip, const struct probe *probe, struct effects *effects)
{
    struct id target = probe->target;
    core_send(gossip, FRAME_PING, &target, probe->nonce, &target, false, effects);
}

/* Through others that were not asked yet, and once more directly. */
static void
ask_others(struct gossip *gossip, struct probe *probe, struct effects *effects)
{
    struct entry *helpers[HELPERS_MAX];
    size_t count =
        prober_choose(&gossip->prober, &gossip->table, false, &gossip->id, &probe->target,
                      probe->helpers, probe->helpers_count, HELPERS_MAX, helpers);
    if (count == 0 && probe->helpers_count > 0) {
        /* All were: the same once more, for what was lost. */
        for (unsigned i = 0; i < probe->helpers_count && count < HELPERS_MAX; i++) {
            struct entry *again = table_find(&gossip->table, &probe->helpers[i]);
            if (again && !(probe->refused >> i & 1))
                helpers[count++] = again;
        }
    } else {
        for (size_t i = 0; i < count; i++)
            probe->helpers[probe->helpers_count++] = helpers[i]->member.record->id;
    }
    probe->rounds++;
    probe->ask_ms = gossip->now_ms + larger(probe->patience_ms, PROBE_LEAST_MS);
    struct entry *target = table_find(&gossip->table, &probe->target);
    for (size_t i = 0; i < count; i++) {
        if (target && entry_accused(target))
            core_list(gossip, target);
        core_send(gossip, FRAME_PING_RELAY, &helpers[i]->member.record->id, probe->nonce,
                  &probe->target, false, effects);
    }
    core_ping(gossip, probe, effects);
}

static struct probe *
start(struct gossip *gossip, enum probe_kind kind, const struct entry *entry,
      int64_t patience_ms, int64_t deadline_ms, struct effects *effects)
{
    const struct id *id = &entry->member.record->id;
    if (prober_busy(&gossip->prober, kind, id))
        return NULL;
    struct probe *probe =
        prober_start(&gossip->prober, kind, id, gossip->now_ms, patience_ms, deadline_ms);
    if (probe && patience_ms > 0)
        core_ping(gossip, probe, effects);
    else if (probe)
        ask_others(gossip, probe, effects);
    return probe;
}

static void
start_usual(struct gossip *gossip, enum probe_kind kind, const struct entry *entry,
            struct effects *effects)
{
    start(gossip, kind, entry, core_patience_ms(gossip, entry),
          core_deadline_ms(gossip, entry), effects);
}

/* ---- answers ---- */

/* A round trip of less than the clock's millisecond counts as half of one; smoothed as
 * TCP does (RFC 6298). */
static void
measure(struct gossip *gossip, struct entry *entry, int64_t sent_ms)
{
    int64_t us = (gossip->now_ms - sent_ms) * 1000;
    int64_t *mean = &entry->member.round_trip_us;
    if (us == 0)
        us = 500;
    *mean = *mean == 0 ? us : *mean + (us - *mean) / 8;
}

void
probe_answered(struct gossip *gossip, struct probe *probe, bool direct,
               struct effects *effects)
{
    struct probe done = *probe;
    struct entry *entry = table_find(&gossip->table, &done.target);
    prober_end(&gossip->prober, probe);
    if (entry) {
        entry->refused_ms = 0;
        entry->misses = 0;
    }
    /* After a second ping nobody knows which of them was answered. */
    if (entry && direct && done.rounds == 0)
        measure(gossip, entry, done.sent_ms);
    if (done.kind == PROBE_RELAYED) {
        if (entry)
            core_list(gossip, entry);
        core_send(gossip, FRAME_PING_REPLY, &done.asker, done.asker_nonce, &done.target,
                  true, effects);
    } else {
        prober_health(&gossip->prober, -1);
    }
}

/* No answer in time, though others were asked. */
static void
failed(struct gossip *gossip, const struct probe *probe, struct effects *effects)
{
    struct entry *entry = table_find(&gossip->table, &probe->target);
    char why[96];
    if (probe->kind == PROBE_RELAYED || probe->kind == PROBE_RECONNECT || !entry)
        return;
    /* Helpers who say that they got no answer either show that it is not us
     * (Lifeguard 4.1). */
    unsigned asked = probe->helpers_count, refusals = probe->refusals;
    if (probe->kind == PROBE_ROUND)
        prober_health(&gossip->prober,
                      asked > 0 ? (int)((asked - refusals) * HELPERS_MAX / asked) : 1);
    snprintf(why, sizeof(why), "no answer in %lld ms, nor to %u of %u others",
             (long long)(gossip->now_ms - probe->sent_ms), refusals, asked);
    bool silent = entry->member.heard_ms <= probe->sent_ms;
    bool suspected = entry->member.state == MEMBER_SUSPECT;
    if (silent && (refusals >= 2 || (asked == 1 && refusals == 1)))
        entry->denied = true;
    if (probe->kind == PROBE_WATCH && silent && entry->misses < UINT8_MAX)
        entry->misses++;
    if (probe->kind == PROBE_ROUND || (probe->kind == PROBE_WATCH && entry->misses < 2))
        core_suspect(gossip, entry, why, effects);
    else if (suspected && silent && core_enough(gossip, entry))
        core_expire(gossip, entry, why, effects);
}

void
probe_refused(struct gossip *gossip, struct probe *probe, const struct id *by,
              struct effects *effects)
{
    for (unsigned i = 0; i < probe->helpers_count; i++) {
        if (!id_equal(&probe->helpers[i], by) || probe->refused >> i & 1)
            continue;
        probe->refused |= 1u << i;
        probe->refusals++;
    }
    bool all = probe->refusals >= probe->helpers_count;
    if (probe->kind != PROBE_REFUSED || !all)
        return;
    struct probe done = *probe;
    prober_end(&gossip->prober, probe);
    failed(gossip, &done, effects);
}

void
probe_after_refusal(struct gossip *gossip, struct entry *entry, struct effects *effects)
{
    /* The caller may say so as often as it looks: each time it would cost others a
     * probe. */
    if (entry->refusal_ms && gossip->now_ms - entry->refusal_ms < REFUSED_MS)
        return;
    entry->refusal_ms = entry->refused_ms = gossip->now_ms;
    core_suspect(gossip, entry, "its connection closed and a new one is refused",
                 effects);
    start(gossip, PROBE_REFUSED, entry, 0, REFUSED_MS, effects);
}

void
probe_confirm(struct gossip *gossip, const struct entry *entry, struct effects *effects)
{
    start_usual(gossip, PROBE_CONFIRM, entry, effects);
}

/* ---- neighbours in the plan ---- */

static int
compare_ids(const void *left, const void *right)
{
    return id_compare(left, right);
}

void
gossip_watch(struct gossip *gossip, const struct id *ids, size_t count)
{
    gossip->watched_count = 0;
    for (size_t i = 0; i < count && gossip->watched_count < WATCHED_MAX; i++)
        if (!id_equal(&ids[i], &gossip->id))
            gossip->watched[gossip->watched_count++] = ids[i];
    qsort(gossip->watched, gossip->watched_count, sizeof(*gossip->watched), compare_ids);
}

/* Traffic is a sign of life: only who is silent is asked. */
static void
tick_watched(struct gossip *gossip, struct effects *effects)
{
    int64_t interval_ms = gossip->options.probe_interval_ms;
    if (gossip->watched_count == 0 || gossip->now_ms < gossip->watch_at_ms)
        return;
    gossip->watch_at_ms = gossip->now_ms + interval_ms * (gossip->prober.health + 1) / 2;
    for (size_t i = 0; i < gossip->watched_count; i++) {
        const struct entry *entry = table_find(&gossip->table, &gossip->watched[i]);
        if (entry && entry_in(entry, SET_ACTIVE) &&
            gossip->now_ms - entry->member.heard_ms >= interval_ms)
            start_usual(gossip, PROBE_WATCH, entry, effects);
    }
}

/* ---- time ---- */

static void
tick_probes(struct gossip *gossip, struct effects *effects)
{
    struct prober *prober = &gossip->prober;
    for (size_t i = prober->count; i-- > 0;) {
        struct probe *probe = &prober->list[i];
        if (gossip->now_ms >= probe->fail_ms) {
            struct probe done = *probe;
            prober_end(prober, probe);
            failed(gossip, &done, effects);
        } else if (gossip->now_ms < probe->ask_ms) {
            continue;
        } else if (probe->kind == PROBE_RELAYED) {
            if (probe->rounds++ == 0)
                core_send(gossip, FRAME_PING_REPLY, &probe->asker, probe->asker_nonce,
                          &probe->target, false, effects);
        } else if (probe->kind != PROBE_RECONNECT && probe->rounds < ROUNDS_MAX) {
            ask_others(gossip, probe, effects);
        }
    }
}

/* One of the dead, by chance: a partition that heals is noticed from either side, sooner
 * while it is young. */
static void
tick_dead(struct gossip *gossip, struct effects *effects)
{
    const struct set *gone = &gossip->table.sets[SET_GONE];
    struct entry *choice = NULL;
    uint64_t seen = 0;
    bool recent = false;
    if (gossip->now_ms < gossip->reconnect_at_ms)
        return;
    for (size_t i = 0; i < gone->count; i++) {
        struct entry *entry = gone->list[i];
        if (entry->member.state != MEMBER_DEAD)
            continue;
        recent = recent || gossip->now_ms - entry->member.since_ms < RECENT_MS;
        if (rng_below(&gossip->prober.rng, ++seen) == 0)
            choice = entry;
    }
    int64_t intervals = !choice ? 1 : recent ? 2 : 10;
    gossip->reconnect_at_ms =
        gossip->now_ms + intervals * gossip->options.probe_interval_ms;
    if (choice)
        start(gossip, PROBE_RECONNECT, choice, core_patience_ms(gossip, choice),
              gossip->options.probe_interval_ms, effects);
}

void
probe_tick(struct gossip *gossip, struct effects *effects)
{
    tick_probes(gossip, effects);
    suspect_tick(gossip, effects);
    const struct id *next = NULL;
    if (gossip->now_ms >= gossip->probe_at_ms) {
        gossip->probe_at_ms = gossip->now_ms + gossip->options.probe_interval_ms *
                                                   (gossip->prober.health + 1);
        next = prober_next(&gossip->prober, &gossip->table, &gossip->id);
    }
    if (next)
        start_usual(gossip, PROBE_ROUND, table_find(&gossip->table, next), effects);
    tick_watched(gossip, effects);
    tick_dead(gossip, effects);
}
