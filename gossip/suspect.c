#include "gossip/core.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

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

/* ---- how long ---- */

/* max(1, log10 n) in thousandths, a straight line from each power of ten to the next. */
static int64_t
decades_milli(int64_t n)
{
    int64_t from = 10, result = 1000;
    if (n <= from)
        return result;
    for (; n > 10 * from; from *= 10)
        result += 1000;
    return result + (n - from) * 1000 / (9 * from);
}

static int64_t
least_ms(const struct gossip *gossip)
{
    if (gossip->options.suspicion_ms > 0)
        return gossip->options.suspicion_ms;
    int64_t active = (int64_t)table_active(&gossip->table);
    return 4 * gossip->options.probe_interval_ms * decades_milli(active) / 1000;
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
    size_t more = entry->charges->count - 1;
    int64_t least = least_ms(gossip), most = 6 * least;
    int64_t wait =
        most - (most - least) * share_milli[wanted][more < 3 ? more : 3] / 1000;
    int64_t at = entry->suspected_ms + wait;
    unsigned dead = entry_accusers(entry, &gossip->id, ACCUSE_DEAD);
    unsigned others = entry_accusers(entry, &gossip->id, ACCUSE_SUSPECT);
    if (entry_accused_by(entry, &gossip->id) && dead >= 1)
        at = entry->suspected_ms;
    /* Two have waited for it, or tried it twice: it has had time to hear of it. */
    if (entry->charges->confirmed_ms)
        at = smaller(at, entry->charges->confirmed_ms +
                             4 * gossip->options.probe_interval_ms);
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

/* One accuser alone may be the one who is cut off. Where two could say so, two must: or
 * one, and those that it asked. */
bool
core_enough(const struct gossip *gossip, const struct entry *entry)
{
    size_t suspects = gossip->table.sets[SET_SUSPECT].count;
    size_t alive = table_active(&gossip->table) - suspects;
    return alive < 2 || entry->denied || entry_charges(entry) >= 2;
}

/* ---- states ---- */

void
core_settle(struct gossip *gossip, struct entry *entry, bool news, const char *why,
            struct effects *effects)
{
    enum member_state before = entry->member.state, after = entry_state(entry);
    if (before != after) {
        table_state(&gossip->table, entry, after);
        entry->member.since_ms = gossip->now_ms;
        if (after == MEMBER_SUSPECT)
            entry->suspected_ms = gossip->now_ms;
        if (after == MEMBER_ALIVE)
            entry->misses = 0;
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
static bool
accuse(struct gossip *gossip, struct entry *entry, enum accusation_kind kind,
       const char *why, struct effects *effects)
{
    struct accusation accusation = {.accuser = gossip->id, .kind = kind};
    const struct record *record = entry->member.record;
    const struct accusation *said = entry_accused_by(entry, &gossip->id);
    if (said && said->kind >= kind)
        return true;
    if (!allowance_take(&gossip->accuse_ms, &gossip->accuse_left, gossip->now_ms,
                        ACCUSE_EVERY_MS, ACCUSE_MOST))
        return false; /* others will see it too, unless it is we who see nothing */
    memcpy(accusation.admission, gossip->self->member.record->admission,
           KEY_SIGNATURE_BYTES);
    accusation_sign(&accusation, gossip->options.key, &gossip->options.swarm, &record->id,
                    record->incarnation);
    if (entry_accuse(entry, &accusation))
        core_news(gossip, entry, MERGE_ACCUSED);
    core_settle(gossip, entry, false, why, effects);
    core_list(gossip, entry);
    core_answer(gossip, &record->id, effects);
    return true;
}

void
core_suspect(struct gossip *gossip, struct entry *entry, const char *why,
             struct effects *effects)
{
    enum member_state state = entry->member.state;
    if (state != MEMBER_ALIVE && state != MEMBER_SUSPECT)
        return;
    /* More than four accusers shorten nothing. */
    if (entry_accusers(entry, &gossip->id, ACCUSE_SUSPECT) < 4)
        accuse(gossip, entry, ACCUSE_SUSPECT, why, effects);
}

void
core_expire(struct gossip *gossip, struct entry *entry, const char *why,
            struct effects *effects)
{
    entry->expired = true;
    if (entry_accusers(entry, &gossip->id, ACCUSE_DEAD) < 2)
        accuse(gossip, entry, ACCUSE_DEAD, why, effects);
    core_settle(gossip, entry, false, why, effects);
}

/* ---- time ---- */

static void
tick_suspect(struct gossip *gossip, struct entry *entry, struct effects *effects)
{
    struct charges *charges = entry->charges;
    if (!charges->confirmed_ms && entry_accusers(entry, &gossip->id, ACCUSE_DEAD) >= 2) {
        charges->confirmed_ms = gossip->now_ms;
        /* In a small swarm each tries for itself. */
        if (table_active(&gossip->table) <= CONFIRM_MOST)
            probe_confirm(gossip, entry, effects);
    }
    if (gossip->now_ms >= death_at_ms(gossip, entry) && core_enough(gossip, entry))
        core_expire(gossip, entry, "suspected for too long", effects);
}

void
suspect_tick(struct gossip *gossip, struct effects *effects)
{
    const struct set *suspects = &gossip->table.sets[SET_SUSPECT];
    for (size_t i = suspects->count; i-- > 0;)
        tick_suspect(gossip, suspects->list[i], effects);
}
