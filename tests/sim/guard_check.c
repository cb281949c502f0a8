/*
 * guard_check.c - what must hold of who may be in a swarm:
 *
 *     members of a decree are not evicted; who is evicted stays so in its generation
 *     a node that knows of it has closed its connections with the evicted one within 5 s;
 *         where nothing else is wrong all members know of it and have, 5 s after the
 *         decision
 *     the old secret makes nobody a member after the decision
 *     an invite has no more users than uses, and who came without a vote has none
 *         while others stay
 *     with a list, a new member is on it
 *     who comes back knowing nobody finds its swarm where it joined, in 16 s
 *     after a recovery the old generation decides nothing from 3 s after its nodes could
 *         meet the new one's; and they say that they are fenced
 */
#include "tests/sim/check.h"
#include "tests/sim/story_guard.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    GENERATIONS = 4,
    CALM_US = 3 * SECOND,
    MET_US =
        21 * SECOND, /* a connection to a process that is gone may look open for 20 s */
    FOUND_US = 16 * SECOND
};

static struct {
    uint32_t evicted_count[GENERATIONS]; /* of the newest decree */
    uint32_t generation;                 /* the highest that was decided */
    int64_t decided_us, healed_us;       /* the eviction; 0: not yet */
    uint64_t decided_epoch;
    struct {
        uint64_t life;
        uint32_t generation;
        int64_t knows_us, up_us; /* since when it knows of it, and runs undisturbed */
    } hosts[HOSTS_MAX];
} seen;

void
guard_check_open(void)
{
    memset(&seen, 0, sizeof(seen));
}

static bool
votes(const struct decree *decree, const struct id *id)
{
    for (uint32_t v = 0; v < decree->voters_count; v++)
        if (id_equal(&decree->voters[v], id))
            return true;
    return false;
}

static unsigned long long
number(const struct decree *decree)
{
    return epoch_number(decree->epoch);
}

/* ---- a decree that is new to all ---- */

/* When the last one goes that may vote, the others would be left without a swarm. */
static bool
only_silent_stay(const struct view *view)
{
    for (uint32_t i = 0; i < view->reports_count; i++)
        if (!view->reports[i].record.leaving &&
            !id_set_has(&view->policy.silent, &view->reports[i].id))
            return false;
    return true;
}

static void
look_at_members(const struct decree *decree, const struct view *view)
{
    const struct policy *policy = &view->policy;
    const struct decree *before = check_decree(decree->epoch - 1);
    for (uint32_t i = 0; i < decree->members_count; i++) {
        const struct id *id = &decree->members[i].id;
        char text[ID_SHORT_SIZE];
        if (id_set_has(&policy->evicted, id))
            world_breach("epoch %llu has %s for a member, who is evicted", number(decree),
                         id_short(id, text));
        if (id_set_has(&policy->silent, id) && votes(decree, id) &&
            !only_silent_stay(view))
            world_breach("%s votes in epoch %llu, and came by an invite without a vote",
                         id_short(id, text), number(decree));
        if (policy->mode == POLICY_LIST && before && !decree_member(before, id) &&
            !id_set_has(&policy->allowed, id))
            world_breach("%s is a member of epoch %llu and is not allowed",
                         id_short(id, text), number(decree));
    }
}

static void
look_at_policy(const struct decree *decree, const struct policy *policy)
{
    uint32_t *count = &seen.evicted_count[decree->generation % GENERATIONS];
    if (policy->evicted.count < *count)
        world_breach("an eviction is forgotten in epoch %llu", number(decree));
    *count = policy->evicted.count;
    for (uint32_t i = 0; i < policy->invites_count; i++)
        if (policy->invites[i].users.count > policy->invites[i].uses)
            world_breach("an invite for %u has %u users in epoch %llu",
                         policy->invites[i].uses, policy->invites[i].users.count,
                         number(decree));
    if (guard.kind != GUARD_EVICT || !id_set_has(&policy->evicted, &guard.evicted))
        return;
    if (!seen.decided_us) {
        seen.decided_us = world.now_us;
        seen.decided_epoch = decree->epoch;
    }
    const struct host *stranger = &world.hosts[guard.first_extra];
    if (guard.extra > 0 && stranger->node && decree_member(decree, &stranger->node->id))
        world_breach("%s is a member of epoch %llu by the secret that was replaced",
                     stranger->address, number(decree));
}

static void
look_at_generation(const struct decree *decree)
{
    if (decree->generation > seen.generation)
        seen.generation = decree->generation;
    if (decree->generation < seen.generation && guard.met_us &&
        world.now_us > guard.met_us + MET_US)
        world_breach("generation %u decides epoch %llu, though its nodes have met "
                     "generation %u",
                     decree->generation, number(decree), seen.generation);
}

void
guard_committed(const struct host *host, bool newest)
{
    const struct node *node = host->node;
    const struct decree *decree = &node->decree;
    if (newest) {
        look_at_members(decree, node->view);
        look_at_policy(decree, &node->view->policy);
        look_at_generation(decree);
    }
    if (seen.hosts[host->index].life == host->life &&
        decree->generation > seen.hosts[host->index].generation && !node->member &&
        !node->leaving_ms && host->fenced == 0)
        world_breach("%s is outside generation %u, and does not say that it is fenced",
                     host->address, decree->generation);
    seen.hosts[host->index].life = host->life;
    seen.hosts[host->index].generation = decree->generation;
}

/* The policy of the decree that it follows, as everybody can look it up. */
void
guard_authority(const struct decree *decree, struct id *admit_id)
{
    uint64_t generation = decree->generation - 1;
    const struct decree *before =
        check_decree(generation << EPOCH_NUMBER_BITS | (epoch_number(decree->epoch) - 1));
    struct view *view = xcalloc(1, sizeof(*view));
    struct id hash;
    struct err err;
    if (before)
        decree_hash(before, &hash);
    if (!before || !id_equal(&hash, &decree->previous))
        world_breach("generation %u does not begin with a decree that was decided",
                     decree->generation);
    else if (view_decode(before->body, before->body_len, &decree->swarm, admit_id, view,
                         &err))
        world_breach("what generation %u begins with cannot be read: %s",
                     decree->generation, err.msg);
    else
        *admit_id = view->policy.admit_id;
    view_release(view);
    free(view);
}

/* ---- connections ---- */

static bool
knows(const struct host *host)
{
    return id_set_has(&host->node->view->policy.evicted, &guard.evicted);
}

static void
look_at_host(const struct host *host, const struct host *outcast, bool calm)
{
    int64_t *knows_us = &seen.hosts[host->index].knows_us;
    int64_t *up_us = &seen.hosts[host->index].up_us;
    bool up = !host->outcast && host_up(host) && !host->dark && host->node->entered;
    if (!up)
        *up_us = *knows_us = 0;
    else if (host->started_us > *up_us)
        *up_us = host->started_us;
    if (!up)
        return;
    if (*up_us == 0)
        *up_us = world.now_us;
    if (!knows(host))
        *knows_us = 0;
    else if (*knows_us == 0)
        *knows_us = world.now_us;
    int open = outcast->node && id_equal(&outcast->node->id, &guard.evicted)
                   ? net_connections(host, outcast)
                   : 0;
    if (open > 0 && *knows_us && world.now_us - *knows_us > GUARD_SHUT_US)
        world_breach("%s knows for %d s that %s is evicted, and has %d connections with "
                     "it",
                     host->address, GUARD_SHUT_US / SECOND, outcast->address, open);
    const struct decree *decided = check_decree(seen.decided_epoch);
    if (calm && decided && decree_member(decided, &host->node->id) &&
        *up_us < seen.decided_us - CALM_US && (open > 0 || !*knows_us))
        world_breach("%d s after %s was evicted %s %s", GUARD_SHUT_US / SECOND,
                     outcast->address, host->address,
                     open > 0 ? "is connected with it" : "does not know of it");
}

/* Where it joined a member answers, and nothing is in the way. */
static void
look_at_island(void)
{
    const struct host *host = &world.hosts[guard.first_extra], *at = &world.hosts[0];
    bool could = world.healed && guard_alone(host) && host->node && host_up(host) &&
                 host_up(at) && world.now_us - host->started_us > FOUND_US &&
                 world.now_us - at->started_us > FOUND_US &&
                 world.now_us - seen.healed_us > FOUND_US;
    if (could && !seeds_found(host->node))
        world_breach("%s does not find its swarm again in %d s", host->address,
                     FOUND_US / SECOND);
}

void
guard_look(void)
{
    if (world.healed && !seen.healed_us)
        seen.healed_us = world.now_us;
    if (guard.kind == GUARD_ISLAND)
        look_at_island();
    if (guard.kind != GUARD_EVICT || guard.subject < 0)
        return;
    bool calm = seen.healed_us && seen.decided_us > seen.healed_us + CALM_US &&
                world.now_us > seen.decided_us + GUARD_SHUT_US;
    for (int i = 0; i < world.hosts_count; i++)
        if (world.hosts[i].node)
            look_at_host(&world.hosts[i], &world.hosts[guard.subject], calm);
}
