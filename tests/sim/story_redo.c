/*
 * story_redo.c - a step is done twice, and both outcomes meet: a node that has a checkpoint
 * is cut off, the others lose theirs and begin again; when they have written one of the same
 * step, everybody crashes, and the node is back. Now the newest step there is on two disks,
 * with other numbers.
 */
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/engine.h"
#include "tests/sim/story.h"
#include "tests/sim/story_guard.h"
#include "tests/sim/trouble.h"

#include <stdio.h>

enum {
    REDO = 0x7265646f,
    FIND_US = 200 * MS,
    MEET_US = 10 * MS,
    APART_US = 20 * SECOND,
    STEP_MAX = 60
};

static int64_t
between(int64_t least, int64_t most)
{
    return least + (int64_t)world_below((uint64_t)(most - least + 1));
}

/* All but `one`. */
static void
crash_others(const struct host *one)
{
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        if (host == one || !host->node)
            continue;
        host_crash(host);
        host->restart_us = world.now_us + between(50 * MS, 400 * MS);
    }
}

static const struct state_name *
on_disk(const struct host *host)
{
    const struct train *train = host->train;
    return train && !id_empty(&train->expected) && train->disk.name.step > 0
               ? &train->disk.name
               : NULL;
}

/* a: who was cut off; b, c: step and epoch of what it has. */
static void
meet(struct event *event)
{
    struct host *one = &world.hosts[event->a];
    bool done = false;
    if (world.healed || !one->node || !on_disk(one))
        return;
    for (int i = 0; i < world.hosts_count && !done; i++) {
        const struct state_name *other =
            i == one->index ? NULL : on_disk(&world.hosts[i]);
        done = other && other->step == event->b &&
               other->lineage.epoch != (uint64_t)event->c;
    }
    if (!done) {
        struct event *again = world_in(MEET_US, NULL, meet);
        again->a = event->a;
        again->b = event->b;
        again->c = event->c;
        return;
    }
    world_say("%s comes back to others with another step %lld", one->address,
              (long long)event->b);
    trouble_mend_links();
    crash_others(NULL);
}

static void
lose_checkpoints(struct host *host, const struct id *job)
{
    char name[64], text[ID_TEXT_SIZE];
    snprintf(name, sizeof(name), "checkpoints/%.16s", id_text(job, text));
    disk_wipe(host, name);
}

static void
find(struct event *event)
{
    (void)event;
    if (world.healed)
        return;
    struct host *one = trouble_any();
    const struct state_name *has = one ? on_disk(one) : NULL;
    int running = 0;
    for (int i = 0; i < world.hosts_count; i++)
        running += world.hosts[i].node != NULL;
    if (!has || has->step > STEP_MAX || running < 3 ||
        one->node->view->state != JOB_RUNNING ||
        !check_decides(UINT64_C(1) << one->index)) {
        world_in(FIND_US, NULL, find);
        return;
    }
    world_say("%s alone keeps its checkpoint, of step %lld", one->address,
              (long long)has->step);
    trouble_part(UINT64_C(1) << one->index, APART_US);
    struct event *next = world_in(MEET_US, NULL, meet);
    next->a = one->index;
    next->b = has->step;
    next->c = (int64_t)has->lineage.epoch;
    crash_others(one);
    for (int i = 0; i < world.hosts_count; i++)
        if (&world.hosts[i] != one)
            lose_checkpoints(&world.hosts[i], &one->train->expected);
}

void
story_redo(void)
{
    if (guard.kind != GUARD_NONE || rng_mix(world.seed, REDO) % 20 != 0)
        return;
    world.faults = (struct faults){.delay_us = world.faults.delay_us,
                                   .delay_far = world.faults.delay_far};
    world_in(between(SECOND, 6 * SECOND), NULL, find);
}
