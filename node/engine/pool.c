#include "node/engine/pool.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
    struct pool *pool;
    int number;
    pthread_t thread;
    sem_t start;
};

struct pool {
    int threads;
    int started; /* workers that run: threads - 1 */
    struct worker *workers;
    sem_t done;
    /* The work at hand: written before `start` is posted, read after. */
    pool_fn fn;
    void *context;
    int64_t count, grain, parts;
    bool ending;
};

static void
wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) < 0)
        must(errno == EINTR);
}

static void
work(const struct pool *pool, int number)
{
    int64_t grains = pool->count / pool->grain;
    int64_t first = grains * number / pool->parts * pool->grain;
    int64_t end = number + 1 == pool->parts
                      ? pool->count
                      : grains * (number + 1) / pool->parts * pool->grain;
    if (first < end)
        pool->fn(pool->context, first, end, number);
}

static void *
worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    for (;;) {
        wait_for(&worker->start);
        if (pool->ending)
            return NULL;
        work(pool, worker->number);
        sem_post(&pool->done);
    }
}

struct pool *
pool_new(int threads, struct err *err)
{
    must(threads >= 1 && threads <= POOL_THREADS_MAX);
    struct pool *pool = xcalloc(1, sizeof(*pool));
    pool->threads = threads;
    pool->workers = xcalloc((size_t)threads, sizeof(*pool->workers));
    sem_init(&pool->done, 0, 0);
    for (int i = 0; i < threads - 1; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->number = i + 1;
        sem_init(&worker->start, 0, 0);
        errno = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (errno) {
            err_set_errno(err, "could not start compute thread %d of %d", i + 2, threads);
            sem_destroy(&worker->start);
            pool_free(pool);
            return NULL;
        }
        pool->started++;
    }
    return pool;
}

void
pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pool->ending = true;
    for (int i = 0; i < pool->started; i++)
        sem_post(&pool->workers[i].start);
    for (int i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        sem_destroy(&pool->workers[i].start);
    }
    sem_destroy(&pool->done);
    free(pool->workers);
    free(pool);
}

void
pool_run(struct pool *pool, int64_t count, int64_t grain, pool_fn fn, void *context)
{
    must(grain > 0);
    int64_t parts = count / grain;
    if (parts > pool->threads)
        parts = pool->threads;
    if (parts <= 1) {
        if (count > 0)
            fn(context, 0, count, 0);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    pool->count = count;
    pool->grain = grain;
    pool->parts = parts;
    for (int i = 0; i < parts - 1; i++)
        sem_post(&pool->workers[i].start);
    work(pool, 0);
    for (int i = 0; i < parts - 1; i++)
        wait_for(&pool->done);
}
