#include "tests/sim/world.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 60, LINE_SIZE = 240, RESTART_MS = 400 };

struct world world;
struct host *here;

static char lines[LINES_MAX][LINE_SIZE];
static uint64_t lines_count;

/* ---- what happened ---- */

void
world_breach(const char *fmt, ...)
{
    if (world.why[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(world.why, sizeof(world.why), fmt, ap);
    va_end(ap);
}

void
world_mix(uint64_t value)
{
    world.hash = rng_mix(world.hash, value);
}

void
world_mix_bytes(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t hash = len;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    uint64_t rest = 0;
    memcpy(&rest, at, len);
    world_mix(hash ^ rest);
}

void
world_say(const char *fmt, ...)
{
    if (!world.trace)
        return;
    char *line = lines[lines_count++ % LINES_MAX];
    int used = snprintf(line, LINE_SIZE, "%10.3f ms %s ", (double)world.now_us / 1000,
                        here ? here->address : "-");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + used, LINE_SIZE - (size_t)used, fmt, ap);
    va_end(ap);
    if (getenv("SIM_TRACE"))
        fprintf(stdout, "%s\n", line);
}

void
world_last_words(void)
{
    uint64_t first = lines_count > LINES_MAX ? lines_count - LINES_MAX : 0;
    for (uint64_t i = first; i < lines_count; i++)
        fprintf(stdout, "    %s\n", lines[i % LINES_MAX]);
}

bool
world_chance(int ppm)
{
    return ppm > 0 && !world.healed && world_below(1000000) < (uint64_t)ppm;
}

uint64_t
world_below(uint64_t bound)
{
    return rng_below(&world.rng, bound);
}

/* ---- events ---- */

static bool
earlier(const struct due *left, const struct due *right)
{
    return left->at_us != right->at_us ? left->at_us < right->at_us
                                       : left->order < right->order;
}

static void
heap_put(struct event *event)
{
    struct due due = {event->at_us, event->order, event};
    if (world.heap_count == world.heap_room) {
        world.heap_room = world.heap_room ? world.heap_room * 2 : 1024;
        world.heap = xrealloc(world.heap, world.heap_room, sizeof(*world.heap));
    }
    size_t at = world.heap_count++;
    while (at > 0 && earlier(&due, &world.heap[(at - 1) / 2])) {
        world.heap[at] = world.heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world.heap[at] = due;
}

static struct event *
heap_take(void)
{
    struct due first = world.heap[0], last = world.heap[--world.heap_count];
    size_t at = 0, count = world.heap_count;
    while (2 * at + 1 < count) {
        size_t child = 2 * at + 1;
        if (child + 1 < count && earlier(&world.heap[child + 1], &world.heap[child]))
            child++;
        if (!earlier(&world.heap[child], &last))
            break;
        world.heap[at] = world.heap[child];
        at = child;
    }
    if (count > 0)
        world.heap[at] = last;
    return first.event;
}

struct event *
world_in(int64_t in_us, const struct host *host, event_fn fn)
{
    struct event *event = xcalloc(1, sizeof(*event));
    event->at_us = world.now_us + (in_us > 0 ? in_us : 0);
    event->order = world.order++;
    event->host = host ? host->index : -1;
    event->life = host ? host->life : 0;
    event->fn = fn;
    event->from = -1;
    /* The order of what is to come at once is fixed only by `order`. */
    heap_put(event);
    return event;
}

static void
event_free(struct event *event)
{
    free(event->data);
    free(event);
}

/* ---- processes ---- */

int64_t
host_clock_us(const struct host *host)
{
    int64_t passed = world.now_us - host->at_us;
    return host->clock_us + passed / 1000000 * host->rate_ppm +
           passed % 1000000 * host->rate_ppm / 1000000;
}

void
host_drift(struct host *host, int64_t rate_ppm)
{
    host->clock_us = host_clock_us(host);
    host->at_us = world.now_us;
    host->rate_ppm = rate_ppm;
}

struct host *
host_of(const struct id *id)
{
    for (int i = 0; i < world.hosts_count; i++)
        if (world.hosts[i].node && id_equal(&world.hosts[i].node->id, id))
            return &world.hosts[i];
    return NULL;
}

struct host *
host_at(const char *name)
{
    int index = name[0] == 'n' ? (int)strtol(name + 1, NULL, 10) : -1;
    return index >= 0 && index < world.hosts_count ? &world.hosts[index] : NULL;
}

bool
host_up(const struct host *host)
{
    return host->node && world.now_us >= host->paused_us;
}

bool
world_path(int from, int to)
{
    return !world.blocked[from][to] && !world.hosts[from].dark && !world.hosts[to].dark;
}

int64_t
world_delay(int from, int to)
{
    const struct faults *faults = &world.faults;
    bool far = strcmp(world.hosts[from].zone, world.hosts[to].zone) != 0;
    int64_t delay = faults->delay_us * (far ? faults->delay_far : 1);
    if (faults->jitter_us > 0)
        delay += (int64_t)world_below((uint64_t)faults->jitter_us);
    return delay + 20;
}

static void
fill_config(struct host *host, const char *join, struct node_config *config)
{
    struct err err;
    config_init(config);
    snprintf(config->data, sizeof(config->data), "%s", disk_folder(host));
    snprintf(config->name, sizeof(config->name), "n%d", host->index);
    snprintf(config->zone, sizeof(config->zone), "%s", host->zone);
    config->threads = 4;
    config->memory_bytes = host->memory_bytes;
    must(address_parse(host->address, &config->listen, &err) == 0);
    config->advertise = config->listen;
    if (join) {
        must(config_join_take(join, config, &err) == 0);
        if (config->invited)
            return;
        snprintf(config->secret_file, sizeof(config->secret_file), "%s/given",
                 disk_folder(host));
    }
}

/* The process ends: its connections close, its unsynced writes are what the disk made of
 * them. */
static void
end_process(struct host *host, bool power)
{
    struct node *node = host->node;
    here = host;
    host->dying = true; /* what it still says is heard by nobody */
    host->node = NULL;
    if (node)
        node_close(node);
    here = NULL;
    host->life++;
    host->dying = host->starting = false;
    host->paused_us = host->busy_us = host->woke_ms = 0;
    host->mesh = NULL;
    host->admit = NULL;
    host->bulk = NULL;
    host->train = NULL;
    host->door = NULL;
    host->loop = NULL;
    disk_close_all(host);
    if (power)
        disk_crash(host);
    check_process_gone(host);
    net_process_gone(host->index);
    plane_process_gone(host->index);
}

void
host_crash(struct host *host)
{
    if (!host->node && !host->starting)
        return;
    world_say("%s crashes", host->address);
    world_mix(0xdead + (uint64_t)host->index);
    world.crashes++;
    end_process(host, true);
}

void
host_start(struct host *host, const char *join)
{
    struct node_config config;
    struct err err = {0};
    must(!host->node);
    fill_config(host, join, &config);
    host->life++;
    host->left = false;
    host->restart_us = 0;
    host->fenced = 0;
    host->starting = true;
    host->started_us = world.now_us;
    here = host;
    world_say("starts %s%s", join ? "to join at " : "", join ? join : "");
    struct node *node = node_open(&config, &err);
    config_release(&config);
    here = NULL;
    host->starting = false;
    host->node = node;
    world.starts++;
    if (host->dying || !node) {
        bool crashed = host->dying;
        if (!crashed)
            world_say("%s could not start: %s", host->address, err.msg);
        end_process(host, crashed);
        if (!crashed)
            host->failed_starts++;
        host->restart_us = world.now_us + RESTART_MS * MS;
        return;
    }
    check_process_starts(host);
}

void
host_pause(struct host *host, int64_t us)
{
    if (host->node && world.now_us >= host->paused_us) {
        host->paused_us = world.now_us + us;
        host->woke_ms = (host_clock_us(host) + us * host->rate_ppm / 1000000) / 1000;
        net_paths_changed();
    }
}

void
host_wake_by(struct host *host, int64_t us)
{
    if (host->paused_us <= world.now_us + us)
        return;
    host->paused_us = world.now_us + us;
    host->woke_ms = (host_clock_us(host) + us * host->rate_ppm / 1000000) / 1000;
    /* What waits for it comes sooner: the heap is put together again. */
    size_t count = world.heap_count;
    struct due *waiting = xmemdup(world.heap, count * sizeof(*waiting));
    world.heap_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct event *event = waiting[i].event;
        if (event->host == host->index && event->held)
            event->at_us = host->paused_us + (event->urgent ? 0 : 1);
        heap_put(event);
    }
    free(waiting);
}

/* After a call into a node: did it end? */
static void
settle(struct host *host)
{
    if (host->dying) {
        host_crash(host);
        host->restart_us = world.now_us + (int64_t)world_below(8 * SECOND);
        return;
    }
    if (!host->node || !loop_stopped(host->loop))
        return;
    bool left = host->node->leaving_ms != 0 && !host->node->broken;
    world_say("%s ends: %s", host->address, host->node->stop_reason);
    world_mix(0xe9d + (uint64_t)host->index);
    end_process(host, false);
    host->left = left;
    host->restart_us = world.now_us + (int64_t)world_below(8 * SECOND);
}

bool
world_step(void)
{
    if (world.heap_count == 0)
        return false;
    struct event *event = heap_take();
    must(event->at_us >= world.now_us);
    world.now_us = event->at_us;
    struct host *host = event->host >= 0 ? &world.hosts[event->host] : NULL;
    if (host && (!host->node || host->life != event->life)) {
        event_free(event);
        return true;
    }
    if (host && host->paused_us > world.now_us) {
        if (event->from >= 0 && world_path(event->from, event->host))
            event->arrived = true;
        event->held = true;
        event->at_us = host->paused_us + (event->urgent ? 0 : 1);
        heap_put(event);
        return true;
    }
    if (host && host->busy_us > world.now_us) {
        event->at_us = host->busy_us;
        heap_put(event);
        return true;
    }
    world.events++;
    world_mix((uint64_t)world.now_us ^ (uint64_t)event->host << 48);
    if (host)
        host->busy_us = world.now_us + host->cost_us;
    here = host;
    event->fn(event);
    here = NULL;
    if (host) {
        settle(host);
        if (host->node)
            check_process(host);
    }
    event_free(event);
    return true;
}

void
world_run(int64_t us)
{
    int64_t until = world.now_us + us;
    while (!world.why[0] && world.heap_count > 0 && world.heap[0].at_us <= until)
        world_step();
    if (!world.why[0])
        world.now_us = until;
}

/* ---- its life ---- */

void
world_open(uint64_t seed)
{
    bool trace = world.trace, real_keys = world.real_keys;
    memset(&world, 0, sizeof(world));
    lines_count = 0;
    here = NULL;
    world.trace = trace;
    world.real_keys = real_keys;
    world.seed = seed;
    world.rng = (struct rng){.seed = seed, .stream = 1};
    net_open();
    system_open();
    check_open();
}

void
world_close(void)
{
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        if (host->node)
            end_process(host, false);
        disk_free(host->disk);
    }
    while (world.heap_count > 0)
        event_free(heap_take());
    free(world.heap);
    world.heap = NULL;
    world.heap_room = 0;
    net_close();
    system_close();
    check_close();
}
