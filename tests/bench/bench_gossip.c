/*
 * The figures of gossip, measured on real cores in an invented network, each held against
 * its bar; exit code 1 when one is missed.
 *
 *     bench_gossip         all figures, a minute or two
 *     bench_gossip size NODES     rest and updates at this size
 *     bench_gossip deaths NODES HOURS [SEED [LOSS [unwatched]]]
 *                          false deaths in so many hours of a swarm
 */
#include "tests/bench/gossip_world.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 64, SETTLE_MS = 12000, REST_MS = 60000 };

static int missed;

/* The bar is kept when value <= bar. */
static void
figure(const char *what, double value, double bar, const char *unit)
{
    bool kept = value <= bar;
    missed += !kept;
    printf("%-62s %10.3f %-8s bar %g%s\n", what, value, unit, bar,
           kept ? "" : "  MISSED");
    fflush(stdout);
}

static int
compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Nearest rank. */
static double
quantile_s(int64_t *times, int count, double share)
{
    qsort(times, (size_t)count, sizeof(*times), compare_times);
    int at = (int)(share * count + 0.999999) - 1;
    return (double)times[at < 0 ? 0 : at] / 1000;
}

/* ---- how fast news travels ---- */

static void
spread(struct world *world, unsigned loss, uint32_t links, int tries)
{
    int64_t times[TRIES_MAX];
    uint32_t nodes = world->count;
    char what[96];
    world->loss_percent = loss;
    world_count(world);
    for (int i = 0; i < tries; i++) {
        uint32_t node = (uint32_t)rng_below(&world->rng, nodes);
        uint64_t epoch = world->nodes[node].record.epoch + 1;
        int64_t begun_ms = world->now_ms;
        world_links(world, node, links);
        world_update(world, node, epoch);
        while (world_updated(world, node, epoch) * 100 < nodes * 99 &&
               world->now_ms - begun_ms < 60000)
            world_run(world, 10);
        times[i] = world->now_ms - begun_ms;
        world_run(world, 2000);
    }
    snprintf(what, sizeof(what), "update at 99 %% of %u nodes, %u %% lost, worst of %d",
             nodes, loss, tries);
    figure(what, quantile_s(times, tries, 1.0), 2.5, "s");
    printf("    %u links in it: median %.3f s; each node sent %.0f bytes meanwhile\n",
           links, quantile_s(times, tries, 0.5), (double)world->bytes / nodes / tries);
}

/* ---- how fast a death is known ---- */

/* Until all of the living know; appended to `times`. */
static void
kill_some(struct world *world, uint32_t some, int64_t *times, int *count)
{
    uint32_t victims[TRIES_MAX], left = some;
    bool known[TRIES_MAX] = {false};
    for (uint32_t i = 0; i < some; i++) {
        do
            victims[i] = (uint32_t)rng_below(&world->rng, world->count);
        while (world->nodes[victims[i]].dead);
        world_kill(world, victims[i]);
    }
    for (int64_t begun_ms = world->now_ms; left > 0;) {
        world_run(world, 100);
        bool late = world->now_ms - begun_ms >= 120000;
        for (uint32_t i = 0; i < some; i++) {
            if (known[i] ||
                (!late && world_mourned(world, victims[i]) < world_living(world)))
                continue;
            known[i] = true;
            times[(*count)++] = world->now_ms - begun_ms;
            left--;
        }
    }
}

static void
deaths_figure(uint32_t nodes, unsigned loss, bool watched, int64_t *times, int count,
              uint64_t false_deaths)
{
    char what[96];
    snprintf(what, sizeof(what), "death known to all of %u, %u %% lost, %s, p95 of %d",
             nodes, loss, watched ? "watched" : "unwatched", count);
    figure(what, quantile_s(times, count, 0.95), watched ? 15 : 45, "s");
    printf("    median %.1f s, worst %.1f s; false deaths %llu\n",
           quantile_s(times, count, 0.5), quantile_s(times, count, 1.0),
           (unsigned long long)false_deaths);
    missed += false_deaths > 0;
}

static void
death(struct world *world, unsigned loss, bool watched, int rounds, uint32_t at_once)
{
    int64_t times[TRIES_MAX];
    int count = 0;
    world->loss_percent = loss;
    world_watch(world, watched);
    world_count(world);
    for (int round = 0; round < rounds; round++)
        kill_some(world, at_once, times, &count);
    deaths_figure(world->count, loss, watched, times, count, world->false_deaths);
}

/* A swarm of ten has not that many to lose: a new one each time. */
static void
death_of_few(uint32_t nodes, unsigned loss, bool watched, int rounds)
{
    int64_t times[TRIES_MAX];
    int count = 0;
    uint64_t false_deaths = 0;
    for (int round = 0; round < rounds; round++) {
        struct world *world = world_new(100 + (uint64_t)round, nodes, nodes, 0);
        world->loss_percent = loss;
        world_watch(world, watched);
        world_run(world, SETTLE_MS);
        kill_some(world, 1, times, &count);
        false_deaths += world->false_deaths;
        world_free(world);
    }
    deaths_figure(nodes, loss, watched, times, count, false_deaths);
}

/* ---- what rest costs ---- */

/* CPU time of signing and packing one frame, and of unpacking and verifying one: as it is
 * when a third node carries it. Others go unsigned, for a fiftieth. */
static double
envelope_us(void)
{
    enum { TIMES = 2000 };
    uint8_t seed[32] = {9}, body[60] = {0};
    struct key *key = key_from_seed(seed);
    struct id swarm = {{1}}, to = {{2}};
    struct frame frame;
    struct err err;
    int64_t begun_us = clock_thread_cpu_us();
    for (uint64_t i = 0; i < TIMES; i++) {
        struct buf bytes = {0};
        frame_pack(key, &swarm, FRAME_PING, &to, i, body, sizeof(body), &bytes);
        if (frame_unpack(bytes.data, bytes.len, &frame, &err))
            abort();
        buf_release(&bytes);
    }
    key_free(key);
    return (double)(clock_thread_cpu_us() - begun_us) / TIMES;
}

static void
rest(struct world *world, double bar_kb, double bar_percent)
{
    char what[96];
    double envelope = envelope_us();
    world->loss_percent = 0;
    world_watch(world, true);
    world_run(world, SETTLE_MS);
    world_count(world);
    int64_t begun_us = clock_thread_cpu_us();
    world_run(world, REST_MS);
    double node_s = (double)world->real * REST_MS / 1000;
    double core_us = (double)(clock_thread_cpu_us() - begun_us) / node_s;
    double frames = (double)world->frames / node_s;
    snprintf(what, sizeof(what), "at rest, sent by each of %u nodes (%u real)",
             world->count, world->real);
    figure(what, (double)world->bytes / node_s / 1000, bar_kb, "kB/s");
    snprintf(what, sizeof(what), "at rest, CPU of each of %u nodes, every frame signed",
             world->count);
    figure(what, (core_us + frames * envelope) / 1e4, bar_percent, "% core");
    printf("    %.2f frames/s; core and simulator %.1f us/s, envelopes %.1f us/s "
           "(%.1f us a frame, made and checked); suspicions %llu\n",
           frames, core_us, frames * envelope, envelope,
           (unsigned long long)world->suspicions);
    missed += world->suspicions > 0;
}

/* ---- false deaths ---- */

static double
false_deaths(uint32_t nodes, double hours, uint64_t seed, unsigned loss, bool watched,
             double *node_hours)
{
    struct world *world = world_new(seed, nodes, nodes, 0);
    world->loss_percent = loss;
    world_watch(world, watched);
    world_run(world, SETTLE_MS);
    world_count(world);
    int64_t begun_us = clock_thread_cpu_us();
    for (double done = 0; done < hours; done += 0.05)
        world_run(world, 180000);
    double s = (double)(world->now_ms - world->begun_ms) / 1000;
    *node_hours = s / 3600 * nodes;
    double found = (double)world->false_deaths;
    printf(
        "    %u nodes, %u %% loss, seed %llu: %.0f node-hours, %llu false deaths, %llu "
        "suspicions, %.0f frames/s and %.0f bytes/s a node, CPU %.0f s\n",
        nodes, loss, (unsigned long long)seed, *node_hours,
        (unsigned long long)world->false_deaths, (unsigned long long)world->suspicions,
        (double)world->frames / s / nodes, (double)world->bytes / s / nodes,
        (double)(clock_thread_cpu_us() - begun_us) / 1e6);
    fflush(stdout);
    world_free(world);
    return found;
}

static void
deaths_quick(void)
{
    double node_hours = 0, more, found = 0;
    found += false_deaths(10, 10, 1, 20, true, &more);
    node_hours += more;
    found += false_deaths(100, 0.25, 2, 20, true, &more);
    node_hours += more;
    char what[96];
    snprintf(what, sizeof(what), "false deaths in %.0f node-hours at 20 %% loss",
             node_hours);
    figure(what, found, 0, "");
}

static void
all_of(uint32_t nodes, int updates, int rounds, uint32_t at_once)
{
    struct world *world = world_new(10, nodes, nodes, 8);
    world_run(world, SETTLE_MS);
    rest(world, 10, 1);
    world_watch(world, false);
    spread(world, 0, 8, updates);
    spread(world, 20, 8, updates);
    spread(world, 20, RECORD_LINKS_MAX, updates);
    for (int watched = 0; watched < 2 && rounds > 0; watched++) {
        death(world, 0, watched, rounds, at_once);
        death(world, 20, watched, rounds, at_once);
    }
    world_free(world);
}

int
main(int argc, char **argv)
{
    double node_hours;
    if (argc >= 4 && strcmp(argv[1], "deaths") == 0) {
        uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
        unsigned loss = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 20;
        bool watched = argc <= 6 || strcmp(argv[6], "unwatched") != 0;
        return false_deaths((uint32_t)strtoul(argv[2], NULL, 10), strtod(argv[3], NULL),
                            seed, loss, watched, &node_hours) > 0;
    }
    if (argc == 3 && strcmp(argv[1], "size") == 0) {
        all_of((uint32_t)strtoul(argv[2], NULL, 10), 20, 0, 0);
        return missed > 0;
    }
    all_of(10, 20, 0, 0);
    for (int watched = 0; watched < 2; watched++)
        for (unsigned loss = 0; loss <= 20; loss += 20)
            death_of_few(10, loss, watched, 20);
    all_of(100, 20, 4, 5);
    all_of(1000, 5, 1, 20);
    struct world *world = world_new(10, 10000, 40, 8);
    world_run(world, SETTLE_MS);
    rest(world, 20, 2);
    world_free(world);
    deaths_quick();
    printf("bench_gossip: %d figures missed\n", missed);
    return missed > 0;
}
