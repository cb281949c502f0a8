#include "node/command/workers.h"
#include "node/engine/pool.h"
#include "transport/base/alloc.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct workers {
    struct pool *pool;
    struct parallel parallel;
};

struct work {
    parallel_fn fn;
    void *arg;
    int count;
    atomic_int next;
};

static void
take_items(void *context, int64_t first, int64_t end, int thread)
{
    struct work *work = context;
    (void)first;
    (void)end;
    for (;;) {
        int item = atomic_fetch_add(&work->next, 1);
        if (item >= work->count)
            return;
        work->fn(work->arg, item, thread);
    }
}

static void
run(void *context, int count, parallel_fn fn, void *arg)
{
    struct workers *workers = context;
    struct work work = {.fn = fn, .arg = arg, .count = count};
    pool_run(workers->pool, workers->parallel.workers, 1, take_items, &work);
}

struct workers *
workers_new(void)
{
    struct workers *workers = xcalloc(1, sizeof(*workers));
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
    count = count < PARALLEL_WORKERS_MAX ? count : PARALLEL_WORKERS_MAX;
    struct err ignored;
    for (; count > 1 && !workers->pool; count /= 2) {
        workers->pool = pool_new(count, &ignored);
        workers->parallel = (struct parallel){count, run, workers};
    }
    return workers;
}

void
workers_free(struct workers *workers)
{
    if (!workers)
        return;
    pool_free(workers->pool);
    free(workers);
}

const struct parallel *
workers_parallel(const struct workers *workers)
{
    return workers->pool ? &workers->parallel : NULL;
}
