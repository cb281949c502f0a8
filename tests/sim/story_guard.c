#include "tests/sim/story_guard.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/trouble.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

enum { SHARE = 5, PAUSE_US = 12 * SECOND, ASK_AGAIN_US = 3 * SECOND, STREAM = 7 };

struct guard guard;

void
guard_open(uint64_t seed)
{
    memset(&guard, 0, sizeof(guard));
    guard.subject = -1;
    guard_check_open();
    if (seed % SHARE != SHARE - 1)
        return;
    world.ways = true;
    guard.rng = (struct rng){.seed = seed, .stream = STREAM};
    guard.kind = GUARD_EVICT + (enum guard_kind)guard_below(GUARD_KINDS - GUARD_EVICT);
}

void
guard_close(void)
{
    buf_release(&guard.old_secret);
}

/* Somebody who can ask: a member that runs. */
static struct host *
asker(void)
{
    int first = (int)guard_below((uint64_t)world.hosts_count);
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[(first + i) % world.hosts_count];
        if (!host->outcast && host->index != guard.subject && host->node &&
            host->node->entered && host->node->member && host_up(host))
            return host;
    }
    return NULL;
}

/* ---- a node is evicted ---- */

static void
on_evict_answer(struct host *host, const char *text, size_t len)
{
    (void)host;
    if (world.healed && !guard.done && memmem(text, len, "too few voters", 14)) {
        /* It stays, then. */
        guard.calm = true;
    }
}

static void
ask_evict(void)
{
    char request[160], text[ID_TEXT_SIZE];
    struct host *from = asker();
    if (guard.subject < 0) {
        struct host *who = asker();
        if (!who || who == from || world.hosts_count < 3)
            return;
        guard.subject = who->index;
        guard.evicted = who->node->id;
        disk_get(who, "swarm.secret", &guard.old_secret);
        return; /* the next time: somebody else asks */
    }
    if (!from)
        return;
    snprintf(request, sizeof(request), "{\"command\": \"evict\", \"node\": \"%s\"}\n",
             id_text(&guard.evicted, text));
    world_say("%s is told to evict n%d", from->address, guard.subject);
    /* Stopped, it closes nothing itself: the others have to. */
    if (!guard.asked && guard_below(2) == 0)
        host_pause(&world.hosts[guard.subject], PAUSE_US);
    guard.asked = true;
    system_ask(from, request, on_evict_answer);
}

/* ---- an invite ---- */

static void
on_invite(struct host *host, const char *text, size_t len)
{
    static const char mark[] = "swarm1:";
    const char *at = memmem(text, len, mark, sizeof(mark) - 1);
    (void)host;
    if (!at || guard.invite[0])
        return;
    size_t used = 0;
    while (at + used < text + len && at[used] != '"' && used < sizeof(guard.invite) - 1)
        used++;
    memcpy(guard.invite, at, used);
    guard.done = true;
}

static void
ask_invite(void)
{
    char request[160];
    struct host *from = asker();
    if (!from)
        return;
    if (guard.uses == 0) {
        guard.uses = 1 + (int)guard_below(3);
        guard.extra = guard.uses + 1 + (int)guard_below(2);
    }
    snprintf(
        request, sizeof(request),
        "{\"command\": \"invite\", \"uses\": %d, \"seconds\": 3600, \"votes\": %s}\n",
        guard.uses, guard_below(2) ? "true" : "false");
    world_say("%s is asked for an invite for %d", from->address, guard.uses);
    guard.asked = true;
    system_ask(from, request, on_invite);
}

/* ---- a list ---- */

static const struct policy *
newest_policy(void)
{
    for (int i = 0; i < world.hosts_count; i++) {
        const struct host *host = &world.hosts[i];
        if (host->node && host->node->entered &&
            host->node->decree.epoch == check_newest_epoch())
            return &host->node->view->policy;
    }
    return NULL;
}

static void
ask_list(void)
{
    char request[200], text[ID_TEXT_SIZE];
    struct host *from = asker();
    const struct policy *policy = newest_policy();
    if (!from || !policy)
        return;
    const struct id *who = &guard.extra_ids[0];
    if (guard.calm)
        snprintf(request, sizeof(request),
                 "{\"command\": \"mode\", \"mode\": \"secret\"}\n");
    else if (policy->mode == POLICY_SECRET)
        snprintf(request, sizeof(request),
                 "{\"command\": \"mode\", \"mode\": \"allow-list\"}\n");
    else if (!id_empty(who) && !id_set_has(&policy->allowed, who))
        snprintf(request, sizeof(request),
                 "{\"command\": \"allow\", \"nodes\": [\"%s\"]}\n", id_text(who, text));
    else
        return;
    guard.extra = 2; /* one of them is never allowed */
    guard.asked = true;
    world_say("%s is told %.150s", from->address, request);
    system_say(from, request);
}

/* ---- a majority is lost, and the others go on without it ---- */

static void
lose_majority(void)
{
    const struct decree *newest = check_newest_decree();
    uint32_t left = 0;
    uint64_t lost = 0;
    int kept = 0;
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        bool stays = guard_below(2) == 0 && host->node && host->node->entered &&
                     host->node->member && host->node->decree.epoch == newest->epoch;
        if (!stays)
            lost |= UINT64_C(1) << i;
        for (uint32_t v = 0; stays && v < newest->voters_count; v++)
            if (id_equal(&newest->voters[v], &host->node->id))
                left |= 1u << v;
        kept += stays;
    }
    if (kept == 0 || decree_quorum(newest, left))
        return; /* tried again with others */
    guard.lost = lost;
    guard.apart = guard_below(2) == 0;
    trouble_mend_links();
    world.faults = (struct faults){.delay_us = world.faults.delay_us,
                                   .delay_far = world.faults.delay_far};
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        if (!(lost >> i & 1))
            continue;
        host->outcast = true;
        if (host->starts_us == 0)
            host->starts_us = 1; /* nobody sets it up meanwhile */
        host_crash(host);
    }
}

/* An epoch that was under way when they were lost may have left them out: nothing is to be
 * recovered then. */
static bool
decides_without_them(void)
{
    const struct decree *newest = check_newest_decree();
    uint32_t left = 0;
    for (int i = 0; i < world.hosts_count; i++) {
        const struct host *host = &world.hosts[i];
        for (uint32_t v = 0; host->node && !host->outcast && v < newest->voters_count;
             v++)
            if (id_equal(&newest->voters[v], &host->node->id))
                left |= 1u << v;
    }
    return decree_quorum(newest, left);
}

static void
ask_recover(void)
{
    struct host *from = guard.lost ? asker() : NULL;
    if (!guard.lost) {
        lose_majority();
        return;
    }
    if (check_newest_decree()->generation > 0 || decides_without_them()) {
        guard.done = true;
        return;
    }
    if (!from)
        for (int i = 0; i < world.hosts_count && !from; i++)
            if (!world.hosts[i].outcast && world.hosts[i].node &&
                world.hosts[i].node->entered && host_up(&world.hosts[i]))
                from = &world.hosts[i];
    if (!from)
        return;
    world_say("%s is told to recover", from->address);
    guard.asked = true;
    system_say(from, "{\"command\": \"recover\", \"yes\": true}\n");
}

/* ---- when ---- */

static bool
so_far_done(void)
{
    const struct policy *policy = newest_policy();
    switch (guard.kind) {
    case GUARD_EVICT:
        guard.done =
            guard.done || (policy && id_set_has(&policy->evicted, &guard.evicted));
        if (guard.done)
            world.hosts[guard.subject].outcast = true;
        return guard.done;
    case GUARD_INVITE:
        return guard.done;
    case GUARD_LIST:
        return guard.calm && (!policy || policy->mode == POLICY_SECRET);
    case GUARD_ISLAND:
        return true; /* nobody asks for anything */
    default:
        return guard.done && guard.back_us;
    }
}

static void
guard_tick(struct event *event)
{
    static void (*const asks[GUARD_KINDS])(void) = {[GUARD_EVICT] = ask_evict,
                                                    [GUARD_INVITE] = ask_invite,
                                                    [GUARD_LIST] = ask_list,
                                                    [GUARD_RECOVER] = ask_recover};
    (void)event;
    if (guard.kind == GUARD_NONE)
        return;
    world_in(GUARD_LOOK_US, NULL, guard_tick);
    bool given_up = guard.kind == GUARD_EVICT && guard.calm;
    if (!so_far_done() && !given_up && world.now_us >= guard.due_us &&
        world.now_us >= guard.again_us) {
        guard.again_us = world.now_us + (guard.asked ? ASK_AGAIN_US : SECOND);
        asks[guard.kind]();
    }
    exile_look();
    guard_look();
}

void
guard_founded(void)
{
    if (guard.kind == GUARD_ISLAND)
        exile_found();
}

void
guard_begin(void)
{
    if (guard.kind == GUARD_NONE)
        return;
    if (guard.extra == 0)
        guard.first_extra = world.hosts_count;
    guard.due_us = world.now_us + (int64_t)guard_below(8 * SECOND);
    world_in(0, NULL, guard_tick);
}

void
guard_heal(void)
{
    if (guard.kind == GUARD_LIST)
        guard.calm = true;
    if (guard.kind == GUARD_RECOVER && !guard.lost)
        guard.kind = GUARD_NONE; /* there was no majority to lose */
}

bool
guard_holds(void)
{
    return guard.kind == GUARD_RECOVER && guard.lost && !so_far_done();
}

/* Is there somebody who could ask for the eviction? */
static bool
others(void)
{
    for (int i = 0; i < world.hosts_count; i++)
        if (i != guard.subject && !world.hosts[i].banned && !world.hosts[i].outcast)
            return true;
    return false;
}

const char *
guard_waits(void)
{
    switch (guard.kind) {
    case GUARD_EVICT:
        return guard.subject >= 0 && !guard.done && !guard.calm && others()
                   ? "the evicted one is in it still"
                   : NULL;
    case GUARD_LIST:
        return so_far_done() ? NULL : "the list of who is allowed stays";
    case GUARD_RECOVER:
        return guard.back_us && world.now_us > guard.back_us
                   ? NULL
                   : "the lost majority is not back yet";
    default:
        return NULL;
    }
}
