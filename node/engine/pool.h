/*
 * pool.h - the compute threads of one engine: they split a range of items and wait for
 * each other.
 *
 * With one thread nothing is started and the caller does the work. How a range is split
 * changes no result as long as each item is computed by itself.
 */
#ifndef NODE_ENGINE_POOL_H
#define NODE_ENGINE_POOL_H

#include "transport/base/err.h"

#include <stdint.h>

enum { POOL_THREADS_MAX = 256 };

struct pool;

/* Items [first, end) for thread number `thread`. */
typedef void (*pool_fn)(void *context, int64_t first, int64_t end, int thread);

/* `threads` in all, the caller's own among them. ERR_SYSTEM when a thread cannot be
 * started. */
struct pool *pool_new(int threads, struct err *err);
void pool_free(struct pool *pool);

/* Every item of [0, count), in parts cut at multiples of `grain`, none smaller than it;
 * returns when all are done. */
void pool_run(struct pool *pool, int64_t count, int64_t grain, pool_fn fn, void *context);

#endif
