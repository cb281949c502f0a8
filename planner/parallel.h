/*
 * parallel.h - work that falls into items, which may be done side by side: by whom, the caller of
 * the planner says, which starts no threads itself. What an item computes follows from its
 * number, so that everything comes out the same for any number of workers.
 */
#ifndef PLANNER_PARALLEL_H
#define PLANNER_PARALLEL_H

enum { PARALLEL_WORKERS_MAX = 64 };

typedef void (*parallel_fn)(void *arg, int item, int worker);

struct parallel {
    int workers; /* at most PARALLEL_WORKERS_MAX */
    /* Calls fn(arg, item, worker) once for each item in [0, count), with a worker in [0, workers)
     * that does one at a time; returns when all are done. */
    void (*run)(void *context, int count, parallel_fn fn, void *arg);
    void *context;
};

/* NULL stands for one worker, who is the caller. */
static inline int
parallel_workers(const struct parallel *parallel)
{
    return parallel ? parallel->workers : 1;
}

static inline void
parallel_run(const struct parallel *parallel, int count, parallel_fn fn, void *arg)
{
    if (parallel && count > 1) {
        parallel->run(parallel->context, count, fn, arg);
        return;
    }
    for (int i = 0; i < count; i++)
        fn(arg, i, 0);
}

#endif
