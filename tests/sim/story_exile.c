/*
 * story_exile.c - those whom a story of who may be in it is about: guests with an invite,
 * strangers, who was evicted, and a majority that comes back late.
 */
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/story_guard.h"
#include "tests/sim/trouble.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

enum { ATTEMPTS_MAX = 12, OUTDATED_US = 12 * SECOND };

struct host *
exile_host(int index)
{
    struct host *host = &world.hosts[index];
    *host = (struct host){.index = index,
                          .life = 1,
                          .memory_bytes = 64 << 20,
                          .speed_percent = 100,
                          .clock_us = (int64_t)(1000 + guard_below(1000000)) * SECOND,
                          .rate_ppm = 1000000,
                          .outcast = true,
                          .starts_us = 1,
                          .disk = disk_new(index)};
    host->rng = (struct rng){.seed = world.seed, .stream = 100 + (uint64_t)index};
    snprintf(host->zone, sizeof(host->zone), "a");
    snprintf(host->address, sizeof(host->address), "n%d:7700", index);
    world.hosts_count++;
    return host;
}

/* A member that would let in whom it may. */
static const struct host *
seed(void)
{
    int first = (int)guard_below((uint64_t)world.hosts_count);
    for (int i = 0; i < world.hosts_count; i++) {
        const struct host *host = &world.hosts[(first + i) % world.hosts_count];
        if (!host->outcast && host->node && host->node->entered && host->node->member)
            return host;
    }
    return NULL;
}

static void
give(struct host *host, const struct host *from)
{
    struct buf secret = {0};
    if (disk_get(&world.hosts[from->index], "swarm.secret", &secret))
        disk_put(host, "given", secret.data, secret.len);
    buf_release(&secret);
}

/* ---- who was evicted, and a stranger with the old secret ---- */

static void
forget(struct host *host, bool identity)
{
    check_forgotten(host);
    if (identity) {
        disk_wipe(host, NULL);
        return;
    }
    static const char *const files[] = {"agree.state", "swarm.id", "members.state",
                                        "seeds.state"};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        disk_wipe(host, files[i]);
}

/* By its folder; by its key and the old secret; by its key and the new one, that
 * somebody gave it. */
static void
come_back(struct host *host)
{
    struct buf bytes = {0};
    const struct host *at = seed();
    bool known = disk_get(host, "agree.state", &bytes);
    buf_release(&bytes);
    uint64_t way = guard_below(3);
    if (!at || (way == 0 && !known))
        return;
    guard.attempts++;
    world_say("n%d, evicted, tries to come back (%llu)", host->index,
              (unsigned long long)way);
    if (way > 0)
        forget(host, false);
    if (way == 1)
        disk_put(host, "given", guard.old_secret.data, guard.old_secret.len);
    if (way == 2)
        give(host, at);
    host_start(host, way == 0 ? NULL : at->address);
}

static void
look_at_evicted(void)
{
    struct host *host = guard.subject >= 0 ? &world.hosts[guard.subject] : NULL;
    if (!host || !guard.done)
        return;
    if (host->node && guard_below(80) == 0)
        host_crash(host); /* it waits in vain at closed doors */
    else if (!host->node && !host->banned && guard.attempts < ATTEMPTS_MAX &&
             guard_below(15) == 0)
        come_back(host);
    if (guard.extra == 0) {
        guard.extra = 1;
        exile_host(guard.first_extra);
    }
    struct host *stranger = &world.hosts[guard.first_extra];
    const struct host *at = seed();
    if (!stranger->node && !stranger->banned && at && guard_below(20) == 0) {
        disk_put(stranger, "given", guard.old_secret.data, guard.old_secret.len);
        host_start(stranger, at->address);
    } else if (stranger->node && guard_below(60) == 0) {
        host_crash(stranger); /* and tries another door */
    }
}

bool
guard_outdated(const struct host *host)
{
    const struct host *at = guard.kind == GUARD_EVICT && guard.done ? seed() : NULL;
    if (!at || host->node->member || admission_known(at->node, &host->node->id) ||
        world.now_us - host->started_us < OUTDATED_US)
        return false;
    /* What it uses: it may have been given an older one than its folder has. */
    return !id_equal(secret_admit_id(host->node->secret),
                     secret_admit_id(at->node->secret));
}

/* ---- guests ---- */

static bool
came_before(const struct id *id)
{
    for (int i = 0; i < guard.came && i < GUARD_EXTRA_MAX; i++)
        if (id_equal(&guard.guests[i], id))
            return true;
    return false;
}

static void
look_at_guests(void)
{
    if (!guard.invite[0])
        return;
    for (int i = 0; i < guard.extra; i++) {
        int index = guard.first_extra + i;
        struct host *host = index < world.hosts_count ? &world.hosts[index] : NULL;
        if (!host && guard_below(10) != 0)
            return; /* one after the other */
        if (!host)
            host = exile_host(index);
        if (!host->outcast)
            continue;
        if (!host->node && !host->banned && guard_below(10) == 0)
            host_start(host, guard.invite);
        if (!host->node || !host->node->entered)
            continue;
        if (!came_before(&host->node->id) && guard.came < GUARD_EXTRA_MAX)
            guard.guests[guard.came++] = host->node->id;
        if (guard.came > guard.uses)
            world_breach("an invite for %d lets in n%d as the %dth", guard.uses, index,
                         guard.came);
        host->outcast = false; /* one of them from here on */
    }
}

/* ---- who is allowed, and who is not ---- */

static void
look_at_list(void)
{
    const struct host *at = seed();
    for (int i = guard.first_extra; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        if (host->node && host->node->member)
            host->outcast = false; /* one of them from here on, maybe the last */
    }
    if (!guard.asked || !at || guard.extra == 0)
        return;
    for (int i = 0; i < guard.extra; i++) {
        int index = guard.first_extra + i;
        struct host *host =
            index < world.hosts_count ? &world.hosts[index] : exile_host(index);
        if (!host->outcast)
            continue;
        if (!host->node && !host->banned && guard_below(15) == 0 &&
            (i == 0 || !guard.calm)) {
            give(host, at);
            host_start(host, at->address);
        }
        if (host->node)
            guard.extra_ids[i] = host->node->id;
        if (host->node && guard.calm && i > 0 && !host->node->member)
            host_crash(host); /* it gives up */
    }
}

/* ---- a majority that comes back ---- */

/* Those who recovered may leave, or crash, and then meet nobody for a while. */
static bool
recovered_run(void)
{
    for (int i = 0; i < world.hosts_count; i++) {
        const struct host *host = &world.hosts[i];
        if (host_up(host) && host->node->entered && host->node->decree.generation > 0)
            return true;
    }
    return false;
}

static void
look_at_lost(void)
{
    if (!guard.done || !guard.lost)
        return;
    if (guard.back_us == 0) {
        guard.back_us = world.now_us + (int64_t)guard_below(6 * SECOND);
        guard.met_us = guard.back_us;
        if (!guard.apart)
            return;
        /* Among themselves they are a majority, and may decide until they meet others. */
        guard.met_us = guard.back_us + 8 * SECOND;
        trouble_part(guard.lost, guard.met_us - world.now_us);
    }
    if (world.now_us < guard.back_us)
        return;
    if (!recovered_run() && guard.met_us < world.now_us)
        guard.met_us = world.now_us;
    for (int i = 0; i < guard.first_extra; i++) {
        struct host *host = &world.hosts[i];
        if (!(guard.lost >> i & 1) || !host->outcast)
            continue;
        host->outcast = false;
        host->restart_us = world.now_us + 1;
    }
}

/* ---- an island ---- */

void
exile_found(void)
{
    guard.first_extra = world.hosts_count;
    guard.extra = 2;
    struct host *host = exile_host(guard.first_extra);
    exile_host(guard.first_extra + 1);
    give(host, &world.hosts[0]);
    host_start(host, world.hosts[0].address);
    for (int i = 0; i < 100 && host->node && !host->node->entered; i++)
        world_run(10 * MS);
    if (host->node && host->node->entered && host->node->decree.epoch == 1)
        guard.done = true; /* it knows the founding decree, and has saved no address */
    host_crash(host);
}

bool
guard_alone(const struct host *host)
{
    const struct host *founder = &world.hosts[0];
    return guard.kind == GUARD_ISLAND && guard.done && host->index == guard.first_extra &&
           founder->node && founder->node->entered && founder->node->member;
}

/* First it reaches nobody, and another one wants to join by it. */
static void
look_at_island(void)
{
    struct host *host = &world.hosts[guard.first_extra];
    struct host *other = &world.hosts[guard.first_extra + 1];
    if (world.now_us < guard.due_us)
        return;
    if (guard.met_us == 0) {
        guard.met_us = world.now_us + 6 * SECOND;
        trouble_part(UINT64_C(3) << guard.first_extra, 6 * SECOND);
        host->outcast = false;
        host->restart_us = world.now_us + 1;
        return;
    }
    if (!other->outcast)
        return;
    const struct host *at = world.now_us < guard.met_us ? host : seed();
    if (!other->node && !other->banned && at && at->node && guard_below(5) == 0) {
        give(other, &world.hosts[0]);
        host_start(other, at->address);
    }
    if (!other->node || !other->node->entered)
        return;
    if (world.now_us < guard.met_us && guard.done && host->node &&
        !seeds_found(host->node))
        world_breach("%s has found nobody, and lets in %s", host->address,
                     other->address);
    other->outcast = false;
}

void
exile_look(void)
{
    switch (guard.kind) {
    case GUARD_EVICT:
        look_at_evicted();
        break;
    case GUARD_INVITE:
        look_at_guests();
        break;
    case GUARD_LIST:
        look_at_list();
        break;
    case GUARD_RECOVER:
        look_at_lost();
        break;
    case GUARD_ISLAND:
        look_at_island();
        break;
    default:
        break;
    }
}
