/*
 * profile.h - the times of this machine on a model's layers.
 */
#ifndef NODE_ENGINE_PROFILE_H
#define NODE_ENGINE_PROFILE_H

#include "planner/cluster.h"

/* Measure one block, the embedding and the head with doubling micro-batches, up to
 * `sequences` and what memory and half a second allow. Thread CPU time. The caller frees
 * it. NULL with ERR_LIMIT when one sequence does not fit. */
struct profile *profile_measure(const struct model_shape *shape, int sequences,
                                int64_t memory_bytes, int threads, struct err *err);

#endif
