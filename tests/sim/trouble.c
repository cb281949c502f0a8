#include "tests/sim/trouble.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/story_guard.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

enum { CUTS_MAX = 32 };

/* Messages from hosts of one set to those of the other do not come through. */
static struct cut {
    int64_t until_us; /* 0: free */
    uint64_t from, to;
    bool back;    /* nor those of the other way */
    bool refused; /* a firewall answers */
    bool data;    /* the data plane alone */
} cuts[CUTS_MAX];

static unsigned jobs;

void
trouble_open(void)
{
    memset(cuts, 0, sizeof(cuts));
    jobs = 0;
}

static int64_t
between(int64_t least, int64_t most)
{
    return least + (int64_t)world_below((uint64_t)(most - least + 1));
}

/* ---- this seed's faults ---- */

static int
maybe(int percent, int64_t least, int64_t most)
{
    return world_below(100) < (uint64_t)percent ? (int)between(least, most) : 0;
}

void
trouble_choose(void)
{
    struct faults *faults = &world.faults;
    const struct {
        int *field;
        int percent, least, most;
    } draws[] = {
        {&faults->drop_ppm, 50, 1000, 200000},
        {&faults->twice_ppm, 30, 1000, 50000},
        {&faults->stall_ppm, 40, 500, 10000},
        {&faults->stall_ms, 100, 100, 3000},
        {&faults->break_ppm, 40, 200, 5000},
        {&faults->crash_disk_ppm, 35, 500, 15000},
        {&faults->full_disk_ppm, 10, 200, 3000},
        {&faults->crash, 60, 1, 6},
        {&faults->pause, 50, 1, 5},
        {&faults->cut, 50, 1, 5},
        {&faults->oneway, 35, 1, 4},
        {&faults->bridge, 25, 1, 3},
        {&faults->isolate, 45, 1, 4},
        {&faults->refuse, 25, 1, 3},
        {&faults->dark, 25, 1, 2},
        {&faults->leave, 30, 1, 2},
        {&faults->drift, 25, 1, 2},
        {&faults->job, 40, 1, 2},
        {&faults->stop, 20, 1, 1},
        {&faults->forget, 25, 1, 2},
        {&faults->plane, 35, 1, 3},
    };
    /* One after the other: compilers differ in the order of a list's expressions. */
    faults->delay_us = between(0, 3) == 0 ? between(5000, 60000) : between(100, 5000);
    faults->delay_far = (int)between(1, 8);
    faults->every_ms = between(300, 4000);
    for (size_t i = 0; i < sizeof(draws) / sizeof(*draws); i++)
        *draws[i].field = maybe(draws[i].percent, draws[i].least, draws[i].most);
    faults->jitter_us = faults->delay_us * between(0, 4);
    if (world_below(10) == 0) /* a calm one: it has to train to its end */
        *faults =
            (struct faults){.delay_us = faults->delay_us, .delay_far = faults->delay_far};
}

/* ---- links ---- */

static void
apply_cuts(void)
{
    memset(world.blocked, 0, sizeof(world.blocked));
    memset(world.refused, 0, sizeof(world.refused));
    memset(world.split, 0, sizeof(world.split));
    for (int i = 0; i < CUTS_MAX; i++) {
        const struct cut *cut = &cuts[i];
        for (int a = 0; cut->until_us && a < world.hosts_count; a++)
            for (int b = 0; b < world.hosts_count; b++) {
                bool forth = cut->from >> a & 1 && cut->to >> b & 1;
                bool back = cut->back && cut->from >> b & 1 && cut->to >> a & 1;
                if (a == b || (!forth && !back))
                    continue;
                if (cut->data)
                    world.split[a][b] = true;
                else
                    world.blocked[a][b] = true;
                if (cut->refused)
                    world.refused[a][b] = true;
            }
    }
    net_paths_changed();
}

static void
mend_cuts(struct event *event)
{
    (void)event;
    for (int i = 0; i < CUTS_MAX; i++)
        if (cuts[i].until_us && cuts[i].until_us <= world.now_us)
            cuts[i].until_us = 0;
    apply_cuts();
}

static void
cut_for(int64_t us, struct cut cut)
{
    for (int i = 0; i < CUTS_MAX; i++) {
        if (cuts[i].until_us)
            continue;
        cut.until_us = world.now_us + us;
        cuts[i] = cut;
        world.cuts++;
        world_say("cut %llx to %llx%s%s%s for %lld ms", (unsigned long long)cut.from,
                  (unsigned long long)cut.to, cut.back ? " and back" : "",
                  cut.refused ? ", refused" : "", cut.data ? ", data" : "",
                  (long long)us / 1000);
        world_in(us, NULL, mend_cuts);
        apply_cuts();
        return;
    }
}

static uint64_t
everybody(void)
{
    return (UINT64_C(1) << world.hosts_count) - 1;
}

static uint64_t
some(void)
{
    return world_below(everybody() + 1);
}

static void
isolate(struct event *event)
{
    uint64_t one = UINT64_C(1) << event->a;
    if (world.healed)
        return;
    cut_for(event->b, (struct cut){.from = one, .to = everybody() & ~one, .back = true});
}

static int64_t
while_us(void)
{
    return world_below(4) == 0 ? between(8 * SECOND, 25 * SECOND)
                               : between(200 * MS, 8 * SECOND);
}

static void
strike_link(int kind)
{
    uint64_t side = some(), other = everybody() & ~side;
    uint64_t one = UINT64_C(1) << world_below((uint64_t)world.hosts_count);
    uint64_t two = UINT64_C(1) << world_below((uint64_t)world.hosts_count);
    switch (kind) {
    case 0:
        cut_for(while_us(), (struct cut){.from = side, .to = other, .back = true});
        break;
    case 1:
        if (world_below(2))
            cut_for(while_us(), (struct cut){.from = side, .to = other});
        else
            cut_for(while_us(), (struct cut){.from = one, .to = two});
        break;
    case 2: /* one of them sees both sides */
        cut_for(while_us(),
                (struct cut){.from = side & ~one, .to = other & ~one, .back = true});
        break;
    case 3:
        cut_for(while_us(),
                (struct cut){.from = one, .to = everybody() & ~one, .back = true});
        break;
    case 4:
        cut_for(while_us(),
                (struct cut){.from = one, .to = two, .back = true, .refused = true});
        break;
    default:
        cut_for(while_us(),
                (struct cut){.from = one, .to = two, .back = true, .data = true});
        break;
    }
}

void
trouble_mend_links(void)
{
    memset(cuts, 0, sizeof(cuts));
    apply_cuts();
}

void
trouble_part(uint64_t some_hosts, int64_t us)
{
    cut_for(us, (struct cut){
                    .from = some_hosts, .to = everybody() & ~some_hosts, .back = true});
}

/* ---- machines ---- */

struct host *
trouble_any(void)
{
    int first = (int)world_below((uint64_t)world.hosts_count);
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[(first + i) % world.hosts_count];
        if (host->node)
            return host;
    }
    return NULL;
}

static void
crash(struct host *host)
{
    if (!host->node)
        return;
    host_crash(host);
    host->restart_us = world.now_us + between(50 * MS, 12 * SECOND);
}

static void
light(struct event *event)
{
    world.hosts[event->a].dark = false;
    net_paths_changed();
}

static void
strike_forget(struct host *host)
{
    if (!check_decides(UINT64_C(1) << host->index))
        return; /* a majority that is gone for good is nobody's to bring back */
    crash(host);
    check_forgotten(host);
    if (world_below(2)) {
        world_say("%s loses its disk", host->address);
        disk_wipe(host, NULL);
    } else {
        world_say("%s loses its agreement's state", host->address);
        disk_wipe(host, "agree.state");
        disk_wipe(host, "swarm.id");
    }
}

static void
submit_job(struct host *host, int steps)
{
    char text[512], request[1536];
    char plan[64] = "";
    if (world_below(2)) /* several stages, as long as there are nodes for them */
        snprintf(plan, sizeof(plan), "plan: {pipeline: %d}\\n", (int)between(2, 3));
    static const int shapes[][3] = {{2, 2, 32}, {4, 2, 64}, {6, 4, 64}};
    const int *shape = shapes[world_below(3)];
    int sequences = 4 << world_below(3), copy_every = (int)between(2, 12);
    int checkpoint_every = (int)between(5, 40);
    int used = snprintf(text, sizeof(text),
                        "name: job%u\\nmodel: {layers: %d, heads: %d, hidden: %d, "
                        "context: 32}\\ndata: {train: \\\"x\\\"}\\nbatch: {sequences: %d}"
                        "\\nsteps: %d\\nseed: %u\\ncopy: {every_steps: %d}\\ncheckpoint: "
                        "{every_steps: %d}\\n%s",
                        jobs, shape[0], shape[1], shape[2], sequences, steps, jobs + 1,
                        copy_every, checkpoint_every, plan);
    must(used < (int)sizeof(text));
    struct id data = {{0}};
    char data_text[ID_TEXT_SIZE];
    memset(data.bytes, 0x40 + (int)(jobs % 64), ID_BYTES);
    engine_put_data(host, &data);
    used = snprintf(request, sizeof(request),
                    "{\"command\": \"train\", \"job\": \"%s\", \"data\": \"%s\", "
                    "\"data_bytes\": 1000000, \"follow\": false}\n",
                    text, id_text(&data, data_text));
    must(used < (int)sizeof(request));
    jobs++;
    world.jobs++;
    world_say("%s submits job%u of %d steps", host->address, jobs - 1, steps);
    system_say(host, request);
}

void
trouble_submit(struct host *host, int steps)
{
    if (host && host->node && host->node->entered)
        submit_job(host, steps);
}

static void
strike_host(int kind, struct host *host)
{
    switch (kind) {
    case 0:
        crash(host);
        break;
    case 1:
        world.pauses++;
        int64_t us = world_below(4) == 0 ? between(5 * SECOND, 25 * SECOND)
                                         : between(100 * MS, 6 * SECOND);
        world_say("%s is stopped for %lld ms", host->address, (long long)us / 1000);
        host_pause(host, us);
        if (world_below(4) == 0) { /* and wakes up alone */
            struct event *event = world_in(us * 3 / 4, NULL, isolate);
            event->a = host->index;
            event->b = us / 4 + 2 * SECOND;
        }
        break;
    case 2:
        world_say("%s is switched off", host->address);
        host->dark = true;
        world_in(between(SECOND, 20 * SECOND), NULL, light)->a = host->index;
        crash(host);
        net_paths_changed();
        break;
    case 3:
        world_say("%s is told to leave", host->address);
        system_say(host, "{\"command\": \"leave\"}\n");
        break;
    case 4:
        host_drift(host, between(700000, 1400000));
        break;
    case 5:
        trouble_submit(host, (int)between(5, 120));
        break;
    case 6:
        world_say("%s is told to stop the job", host->address);
        system_say(host, "{\"command\": \"stop\", \"follow\": false}\n");
        break;
    case 7:
        strike_forget(host);
        break;
    default:
        host->cost_us = host->cost_us ? 0 : between(200, 8000);
        break;
    }
}

void
trouble_strike(void)
{
    const struct faults *faults = &world.faults;
    const int weights[] = {
        faults->cut,   faults->oneway, faults->bridge, faults->isolate, faults->refuse,
        faults->plane, faults->crash,  faults->pause,  faults->dark,    faults->leave,
        faults->drift, faults->job,    faults->stop,   faults->forget,  faults->pause};
    enum { KINDS = sizeof(weights) / sizeof(weights[0]), LINK_KINDS = 6 };
    int total = 0;
    for (int i = 0; i < KINDS; i++)
        total += weights[i];
    struct host *host = trouble_any();
    if (total == 0 || !host)
        return;
    int drawn = (int)world_below((uint64_t)total), kind = 0;
    while (drawn >= weights[kind])
        drawn -= weights[kind++];
    if (kind == LINK_KINDS - 1 && world_below(2))
        plane_break(host, &world.hosts[world_below((uint64_t)world.hosts_count)]);
    else if (kind < LINK_KINDS)
        strike_link(kind);
    else
        strike_host(kind - LINK_KINDS, host);
}

void
trouble_heal(void)
{
    world.healed = true;
    memset(cuts, 0, sizeof(cuts));
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        host->dark = host->banned;
        host->contrary = false;
        host->cost_us = 0;
        host_drift(host, 1000000);
        host_wake_by(host, 500 * MS);
        if (!host->node && !host->banned)
            host->restart_us = world.now_us + between(10 * MS, SECOND);
    }
    apply_cuts();
}

/* ---- those who look after the machines ---- */

static bool
has(struct host *host, const char *name)
{
    struct buf bytes = {0};
    bool there = disk_get(host, name, &bytes);
    buf_release(&bytes);
    return there;
}

/* The secret, as somebody copies it from a machine that has it. */
static void
give_secret(struct host *host, const struct host *seed)
{
    struct buf secret = {0};
    disk_get(&world.hosts[seed->index], "swarm.secret", &secret);
    for (int i = 0; i < world.hosts_count && secret.len == 0; i++)
        disk_get(&world.hosts[i], "swarm.secret", &secret);
    for (int i = 0; i < world.hosts_count && secret.len == 0; i++)
        disk_get(&world.hosts[i], "given", &secret);
    if (secret.len > 0)
        disk_put(host, "given", secret.data, secret.len);
    buf_release(&secret);
}

void
trouble_join(struct host *host)
{
    const struct host *seed = NULL;
    for (int tries = 0; tries < 8 && (!seed || !seed->node->member || seed->outcast);
         tries++)
        seed = trouble_any();
    if (!seed || seed->outcast)
        return;
    give_secret(host, seed);
    host_start(host, seed->address);
}

static void
start_again(struct host *host)
{
    if (host->failed_starts >= 3) {
        world_say("%s is set up anew", host->address);
        check_forgotten(host);
        disk_wipe(host, NULL);
        host->failed_starts = 0;
    }
    bool known = has(host, "agree.state") && has(host, "swarm.id");
    if (known && host->failed_starts < 2)
        host_start(host, NULL);
    else if (trouble_any())
        trouble_join(host);
    if (host->node)
        host->failed_starts = 0;
}

/* Its seed is gone, or it has lost all addresses: whoever looks after it reads so in its
 * log, and names another seed. */
static bool
waits_in_vain(const struct host *host)
{
    const struct node *node = host->node;
    if (!node || world.now_us - host->started_us < 8 * SECOND || guard_alone(host))
        return false;
    bool knows = false; /* an address of anybody who votes, and may be in it still */
    for (uint32_t v = 0; node->entered && v < node->decree.voters_count; v++) {
        const struct id *voter = &node->decree.voters[v];
        bool evicted =
            guard.kind == GUARD_EVICT && guard.done && id_equal(voter, &guard.evicted);
        knows = knows ||
                (!evicted && !id_equal(voter, &node->id) &&
                 (gossip_find(node->gossip, voter) || view_node(node->view, voter) >= 0));
    }
    bool outside = !node->member || id_empty(agree_leader(node->agree));
    return !node->entered || (outside && !knows) || guard_outdated(host);
}

void
trouble_mend(void)
{
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        if (host->outcast)
            continue;
        if (waits_in_vain(host)) {
            host_crash(host);
            host->restart_us =
                world.now_us + SECOND; /* if there is no other at present */
            trouble_join(host);
        }
        if (!host->node && !host->banned && host->restart_us &&
            host->restart_us <= world.now_us && (!host->dark || world.healed))
            start_again(host);
    }
}
