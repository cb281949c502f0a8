#include "gossip/core.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

/* ---- how long ---- */

static int64_t
larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

static int64_t
smaller(int64_t left, int64_t right)
{
    return left < right ? left : right;
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
    return larger(gossip->options.probe_interval_ms, 3 * answer_ms(entry)) *
           (gossip->prober.health + 1);
}

/* max(1, log10 n) in thousandths, a straight line from each power of ten to the next. */
static int64_t
decades_milli(int64_t n)
{
    if (n <= 10)
        return 1000;
    if (n <= 100)
        return 1000 + (n - 10) * 1000 / 90;
    return 2000 + (n - 100) * 1000 / 900;
}

/* When suspicion becomes death unless the member speaks up. Starts at the most and falls
 * with each accuser more: log(c + 1) / log(k + 1) of the way (Lifeguard 4.2), k = 3 or as
 * many as there are. */
static int64_t
death_at_ms(const struct gossip *gossip, const struct entry *entry)
{
    static const int64_t share_milli[4][4] = {
        {0, 0, 0, 0}, {0, 1000, 1000, 1000}, {0, 631, 1000, 1000}, {0, 500, 792, 1000}};
    size_t active = table_active(&gossip->table);
    size_t wanted = active < 3 ? 0 : active < 5 ? active - 2 : 3;
    size_t more = entry->accusations_count > 0 ? entry->accusations_count - 1 : 0;
    int64_t least = gossip->options.suspicion_ms;
    if (least == 0)
        least =
            4 * gossip->options.probe_interval_ms * decades_milli((int64_t)active) / 1000;
    int64_t most = 6 * least;
    int64_t wait =
        most - (most - least) * share_milli[wanted][more < 3 ? more : 3] / 1000;
    int64_t at = entry->suspected_ms + wait;
    unsigned dead = entry_accusers(entry, &gossip->id, ACCUSE_DEAD);
    unsigned others = entry_accusers(entry, &gossip->id, ACCUSE_SUSPECT);
    if (entry_accused_by(entry, &gossip->id) && dead >= 1)
        at = entry->suspected_ms;
    if (entry->refused_ms)
        at = smaller(at, entry->refused_ms +
                             (others > 0 ? REFUSED_CONFIRMED_MS : REFUSED_MS));
    /* Who is heard is not dead yet: but who is heard and never answers what is said of it
     * is, in the end. */
    if (entry->member.heard_ms > entry->suspected_ms)
        at = larger(at,
                    smaller(entry->member.heard_ms + least, entry->suspected_ms + most));
    return at;
}

/* ---- states ---- */

void
core_settle(struct gossip *gossip, struct entry *entry, bool news, const char *why,
            struct effects *effects)
{
    enum member_state before = entry->member.state, after = entry_state(entry);
    if (before != after) {
        entry->member.state = after;
        entry->member.since_ms = gossip->now_ms;
        if (after == MEMBER_SUSPECT)
            entry->suspected_ms = gossip->now_ms;
    }
    if (before == after && !news)
        return;
    if (entry == gossip->self && !news)
        return; /* the caller of gossip_self() knows */
    struct effect *effect = effects_add(effects, EFFECT_MEMBER, NULL, 0);
    effect->peer = entry->member.record->id;
    effect->before = (int)before;
    effect->after = (int)after;
    snprintf(effect->text, sizeof(effect->text), "%s", why);
}

/* Sign and spread our word against a member, and tell it. */
static void
accuse(struct gossip *gossip, struct entry *entry, enum accusation_kind kind,
       const char *why, struct effects *effects)
{
    struct accusation accusation = {.accuser = gossip->id, .kind = kind};
    const struct record *record = entry->member.record;
    memcpy(accusation.admission, gossip->self->member.record->admission,
           KEY_SIGNATURE_BYTES);
    accusation_sign(&accusation, gossip->options.key, &gossip->options.swarm, &record->id,
                    record->incarnation);
    if (entry_accuse(entry, &accusation))
        core_news(gossip, entry);
    core_settle(gossip, entry, false, why, effects);
    core_list(gossip, entry);
    core_answer(gossip, &record->id, effects);
}

static void
suspect(struct gossip *gossip, struct entry *entry, const char *why,
        struct effects *effects)
{
    enum member_state state = entry->member.state;
    if (state != MEMBER_ALIVE && state != MEMBER_SUSPECT)
        return;
    /* More than four accusers shorten nothing. */
    if (entry_accusers(entry, &gossip->id, ACCUSE_SUSPECT) < 4)
        accuse(gossip, entry, ACCUSE_SUSPECT, why, effects);
}

static void
expire(struct gossip *gossip, struct entry *entry, const char *why,
       struct effects *effects)
{
    entry->expired = true;
    if (entry_accusers(entry, &gossip->id, ACCUSE_DEAD) < 2)
        accuse(gossip, entry, ACCUSE_DEAD, why, effects);
    else
        core_settle(gossip, entry, false, why, effects);
}

/* ---- probes ---- */

void
core_ping(struct gossip *gossip, const struct probe *probe, struct effects *effects)
{
    struct id target = probe->target;
    core_send(gossip, FRAME_PING, &target, probe->nonce, &target, false, effects);
}

/* Through others, and once more directly. */
static void
ask_others(struct gossip *gossip, struct probe *probe, struct effects *effects)
{
    struct entry *helpers[HELPERS_MAX];
    size_t count = prober_choose(&gossip->prober, &gossip->table, false, &gossip->id,
                                 &probe->target, NULL, HELPERS_MAX, helpers);
    probe->asked = true;
    probe->helpers_count = (unsigned)count;
    for (size_t i = 0; i < count; i++) {
        struct entry *target = table_find(&gossip->table, &probe->target);
        probe->helpers[i] = helpers[i]->member.record->id;
        if (target && entry_accused(target))
            core_list(gossip, target);
        core_send(gossip, FRAME_PING_RELAY, &probe->helpers[i], probe->nonce,
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
    if (entry)
        entry->refused_ms = 0;
    /* After a second ping nobody knows which of them was answered. */
    if (entry && direct && !done.asked)
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
    int missing = (int)probe->helpers_count - (int)probe->refusals;
    if (probe->kind == PROBE_ROUND)
        prober_health(&gossip->prober, probe->helpers_count > 0 ? missing : 1);
    snprintf(why, sizeof(why), "no answer in %lld ms, nor to %u of %u others",
             (long long)(gossip->now_ms - probe->sent_ms), probe->refusals,
             probe->helpers_count);
    bool silent = entry->member.heard_ms <= probe->sent_ms;
    if (probe->kind == PROBE_ROUND)
        suspect(gossip, entry, why, effects);
    else if (entry->member.state == MEMBER_SUSPECT && silent)
        expire(gossip, entry, why, effects);
}

void
probe_refused(struct gossip *gossip, struct probe *probe, struct effects *effects)
{
    probe->refusals++;
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
    suspect(gossip, entry, "its connection closed and a new one is refused", effects);
    start(gossip, PROBE_REFUSED, entry, 0, REFUSED_MS, effects);
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
        } else if (gossip->now_ms >= probe->ask_ms && !probe->asked) {
            if (probe->kind == PROBE_RELAYED)
                core_send(gossip, FRAME_PING_REPLY, &probe->asker, probe->asker_nonce,
                          &probe->target, false, effects);
            else if (probe->kind != PROBE_RECONNECT)
                ask_others(gossip, probe, effects);
            probe->asked = true;
        }
    }
}

static void
tick_suspects(struct gossip *gossip, struct effects *effects)
{
    for (size_t i = 0; i < gossip->table.count; i++) {
        struct entry *entry = gossip->table.list[i];
        if (entry->member.state != MEMBER_SUSPECT)
            continue;
        if (gossip->now_ms >= death_at_ms(gossip, entry)) {
            expire(gossip, entry, "suspected for too long", effects);
        } else if (!entry->confirmed_ms &&
                   entry_accusers(entry, &gossip->id, ACCUSE_DEAD) >= 2) {
            entry->confirmed_ms = gossip->now_ms;
            start(gossip, PROBE_CONFIRM, entry, core_patience_ms(gossip, entry),
                  core_deadline_ms(gossip, entry), effects);
        }
    }
}

/* One of the dead, by chance: a partition that heals is noticed from either side, sooner
 * while it is young. */
static void
tick_dead(struct gossip *gossip, struct effects *effects)
{
    struct entry *choice = NULL;
    uint64_t seen = 0;
    bool recent = false;
    if (gossip->now_ms < gossip->reconnect_at_ms)
        return;
    for (size_t i = 0; i < gossip->table.count; i++) {
        struct entry *entry = gossip->table.list[i];
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
              core_deadline_ms(gossip, choice), effects);
}

void
probe_tick(struct gossip *gossip, struct effects *effects)
{
    tick_probes(gossip, effects);
    tick_suspects(gossip, effects);
    const struct id *next = NULL;
    if (gossip->now_ms >= gossip->probe_at_ms) {
        gossip->probe_at_ms = gossip->now_ms + gossip->options.probe_interval_ms *
                                                   (gossip->prober.health + 1);
        next = prober_next(&gossip->prober, &gossip->table, &gossip->id);
    }
    if (next) {
        const struct entry *entry = table_find(&gossip->table, next);
        start(gossip, PROBE_ROUND, entry, core_patience_ms(gossip, entry),
              core_deadline_ms(gossip, entry), effects);
    }
    tick_dead(gossip, effects);
}
