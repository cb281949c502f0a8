/*
 * profile.h - the times of this machine on a model's layers.
 */
#ifndef NODE_ENGINE_PROFILE_H
#define NODE_ENGINE_PROFILE_H

#include "planner/cluster.h"

/* Asked between two passes; true: the measurement is not wanted any more. */
typedef bool profile_stop_fn(void *arg);

/* Measure one block, the embedding and the head with doubling micro-batches, up to
 * `sequences` and what memory and half a second allow. Thread CPU time: the median of
 * three passes, or a single one where it takes long. The caller frees it. `stop` may be
 * NULL. NULL with ERR_LIMIT when one sequence does not fit, ERR_STOPPED when stopped. */
struct profile *profile_measure(const struct model_shape *shape, int sequences,
                                int64_t memory_bytes, int threads, profile_stop_fn *stop,
                                void *stop_arg, struct err *err);

#endif
