#include "tests/sim/story.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/story_guard.h"
#include "tests/sim/trouble.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

enum {
    LOOK_US = 100 * MS,
    SETTLE_US = 90 * SECOND,
    ADVANCE_US = 30 * SECOND,
    NOTICED_US =
        5 * SECOND /* what was on its way has come, and closed connections show */
};

static int64_t
between(int64_t least, int64_t most)
{
    return least + (int64_t)world_below((uint64_t)(most - least + 1));
}

static void
make_hosts(void)
{
    uint64_t drawn = world_below(100);
    int count = drawn < 8    ? 1 + (int)world_below(2)
                : drawn < 75 ? 3 + (int)world_below(4)
                : drawn < 93 ? 7 + (int)world_below(3)
                             : 10 + (int)world_below(6);
    int zones = 1 + (int)world_below(3);
    world.hosts_count = count;
    for (int i = 0; i < count; i++) {
        struct host *host = &world.hosts[i];
        *host = (struct host){
            .index = i, .life = 1, .memory_bytes = 64 << 20, .speed_percent = 100};
        host->speed_percent = (int)between(40, 150);
        host->clock_us = between(1000, 10000000) * SECOND;
        host->rate_ppm = between(999000, 1001000);
        host->disk = disk_new(i);
        host->rng = (struct rng){.seed = world.seed, .stream = 100 + (uint64_t)i};
        snprintf(host->zone, sizeof(host->zone), "%c",
                 'a' + (int)world_below((uint64_t)zones));
        snprintf(host->address, sizeof(host->address), "n%d:7700", i);
    }
    if (world_below(6) == 0)
        world.hosts[world_below((uint64_t)count)].lies = true;
    if (world_below(8) == 0)
        world.hosts[world_below((uint64_t)count)].contrary = true;
    if (world_below(4) == 0) /* so little that a model takes several */
        for (int i = 0; i < count; i++)
            world.hosts[i].memory_bytes = between(600 << 10, 4 << 20);
}

/* ---- safety: a swarm forms, works, and meets with trouble ---- */

static void
come_in(struct event *event)
{
    struct host *host = &world.hosts[event->a];
    if (!host->node && host->starts_us == 0) {
        host->starts_us = world.now_us;
        trouble_join(host);
    }
}

static void
strike(struct event *event)
{
    (void)event;
    if (world.healed || world.faults.every_ms == 0)
        return;
    trouble_strike();
    world_in(between(1, 2 * world.faults.every_ms) * MS, NULL, strike);
}

static void
first_job(struct event *event)
{
    (void)event;
    int steps = (int)between(10, 150);
    trouble_submit(trouble_any(), steps);
}

static void
mend(struct event *event)
{
    (void)event;
    trouble_mend();
    world_in(LOOK_US, NULL, mend);
}

static void
begin(void)
{
    struct faults faults = world.faults;
    world.faults = (struct faults){.delay_us = faults.delay_us};
    host_start(&world.hosts[0], NULL);
    must(world.hosts[0].node);
    world.hosts[0].starts_us = 1;
    world_run(500 * MS);
    guard_founded();
    for (int i = 1; i < world.hosts_count; i++)
        world_in(world_below(5) == 0 ? between(0, 15 * SECOND) : between(0, 2 * SECOND),
                 NULL, come_in)
            ->a = i;
    world_in(0, NULL, mend);
    if (world_below(8) != 0)
        world_in(between(SECOND, 6 * SECOND), NULL, first_job);
    bool early = world_below(3) == 0; /* trouble from the start */
    world_run(early ? 300 * MS : 4 * SECOND);
    world.faults = faults;
    story_redo();
    world_in(between(0, 2 * SECOND), NULL, strike);
}

/* ---- liveness ---- */

static bool
awaited(const struct host *host)
{
    return !host->banned && !host->outcast;
}

/* Does everybody who is awaited agree, follow one leader and go on? Why not. */
static bool
settled(char why[WHY_SIZE])
{
    uint64_t newest = check_newest_epoch();
    const struct id *leader = NULL;
    uint32_t count = 0;
    for (int i = 0; i < world.hosts_count; i++) {
        const struct host *host = &world.hosts[i];
        if (!awaited(host))
            continue;
        count++;
        const struct node *node = host->node;
        if (!node || !node->entered) {
            snprintf(why, WHY_SIZE, "%s %s", host->address,
                     node ? "has not entered" : "does not run");
            return false;
        }
        if (node->decree.epoch != newest || !node->member) {
            snprintf(why, WHY_SIZE, "%s is in epoch %llu of %llu and %s", host->address,
                     (unsigned long long)node->decree.epoch, (unsigned long long)newest,
                     node->member ? "a member" : "no member");
            return false;
        }
        const struct id *led = agree_leader(node->agree);
        if (id_empty(led) || (leader && !id_equal(led, leader))) {
            snprintf(why, WHY_SIZE, "%s follows %s", host->address,
                     id_empty(led) ? "nobody" : "another leader");
            return false;
        }
        leader = led;
        if (node->paused[0] && node->view->planned) {
            snprintf(why, WHY_SIZE, "%s pauses: %s", host->address, node->paused);
            return false;
        }
    }
    if (check_newest_decree()->members_count != count) {
        snprintf(why, WHY_SIZE, "the newest epoch has %u members, not %u",
                 check_newest_decree()->members_count, count);
        return false;
    }
    return true;
}

/* L1, L3: who can decide does, and everybody alive gets there. */
static int64_t
settle(void)
{
    char why[WHY_SIZE] = "";
    int64_t began = world.now_us;
    while (!world.why[0] && world.now_us - began < SETTLE_US) {
        world_run(LOOK_US);
        if (settled(why) && !guard_waits())
            return (world.now_us - began) / 1000;
    }
    world_breach("L1, L3: %d s after everything was healed %s", SETTLE_US / SECOND,
                 settled(why) && guard_waits() ? guard_waits() : why);
    return -1;
}

/* A run that has a plan gets on. */
static void
advance(void)
{
    const struct host *host = trouble_any();
    int64_t began = world.now_us, steps = check_steps();
    if (!host || world.why[0] || !host->node->view->planned)
        return;
    while (!world.why[0] && world.now_us - began < ADVANCE_US) {
        world_run(LOOK_US);
        host = trouble_any();
        if (check_steps() > steps || !host || !host->node->view->planned)
            return;
    }
    world_breach("%d s after the swarm had settled no step was made",
                 ADVANCE_US / SECOND);
}

/* Lose some for good, as long as the others can decide. Returns who. */
static uint64_t
keep_core(void)
{
    uint64_t lost = 0;
    for (int tries = 0; tries < 4; tries++) {
        struct host *host = &world.hosts[world_below((uint64_t)world.hosts_count)];
        if (!host->node || lost >> host->index & 1 ||
            !check_decides(lost | UINT64_C(1) << host->index))
            continue; /* one that does not run may be back with what only it knows */
        lost |= UINT64_C(1) << host->index;
        world_say("%s is lost for good", host->address);
        host->banned = true;
        host_crash(host);
    }
    return lost;
}

static bool
knows(const struct host *host, const struct host *other)
{
    char address[ADDRESS_BYTES_MAX + 8];
    const struct node *node = host->node;
    if (node->gossip && gossip_find(node->gossip, &other->node->id))
        return true;
    address_text(&node->seed, address);
    return strcmp(address, other->address) == 0;
}

/* Outside, and of those that are not lost it knows none, nor any of them it. */
static bool
stranded(const struct host *host)
{
    if (!awaited(host) || !host->node || host->node->member)
        return false;
    for (int i = 0; i < world.hosts_count; i++) {
        const struct host *other = &world.hosts[i];
        if (other != host && awaited(other) && other->node &&
            (knows(host, other) || knows(other, host)))
            return false;
    }
    return true;
}

static bool
some_stranded(void)
{
    for (int i = 0; i < world.hosts_count; i++)
        if (stranded(&world.hosts[i]))
            return true;
    return false;
}

/* What was on its way when they were lost may have been decided with them: an epoch that
 * only they could have followed up. No rule survives that (docs/protocol.md, section 8); nor
 * can one find its swarm that knew only them. So some of them come back after all, one by
 * one. */
static void
bring_back(uint64_t lost)
{
    if (!lost)
        return;
    world_run(NOTICED_US);
    for (int i = 0; i < world.hosts_count && (!check_decides(lost) || some_stranded());
         i++) {
        struct host *host = &world.hosts[i];
        if (!(lost >> i & 1))
            continue;
        lost &= ~(UINT64_C(1) << i);
        world_say("%s comes back after all", host->address);
        host->banned = host->dark = false;
        host->restart_us = world.now_us + between(10 * MS, SECOND);
    }
    net_paths_changed();
}

void
story_run(uint64_t seed, struct story_result *out)
{
    world_open(seed);
    world.real_keys = seed % 50 == 0;
    trouble_open();
    guard_open(seed);
    make_hosts();
    trouble_choose();
    begin();
    guard_begin();
    world_run(between(8 * SECOND, 30 * SECOND));
    uint64_t lost = 0;
    if (!world.why[0] && world_below(4) == 0 && !guard_holds())
        lost = keep_core();
    trouble_heal();
    guard_heal();
    world_say("everything is healed");
    bring_back(lost);
    int64_t settled_ms = settle();
    advance();
    *out = (struct story_result){.seed = seed,
                                 .hash = world.hash,
                                 .events = world.events,
                                 .frames = world.frames,
                                 .epochs = check_newest_epoch(),
                                 .steps = check_steps(),
                                 .settled_ms = settled_ms,
                                 .crashes = world.crashes,
                                 .starts = world.starts,
                                 .cuts = world.cuts,
                                 .pauses = world.pauses,
                                 .hosts = world.hosts_count};
    snprintf(out->why, sizeof(out->why), "%s", world.why);
    if (world.why[0] && world.trace)
        world_last_words();
    guard_close();
    world_close();
}
