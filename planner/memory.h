/*
 * memory.h - what one device of a replica allocates for a run of layers, by the sizes in a layer
 * table: the one place that the search's tables and the evaluator both ask.
 */
#ifndef PLANNER_MEMORY_H
#define PLANNER_MEMORY_H

#include "planner/evaluate.h"

/* Sums over the run; bytes are of one sequence. */
struct run_sizes {
    int64_t parameters;
    int64_t kept_bytes;     /* for the backward pass */
    int64_t input_bytes;    /* of all its layers' inputs */
    int64_t largest_bytes;  /* kept by one layer, at most */
    int64_t boundary_bytes; /* what it receives and what it hands on */
};

struct run_terms {
    enum precision precision;
    enum recompute recompute;
    bool shard_optimizer;
    int micro_batch;
    int width;     /* replicas of the stage */
    int tp;        /* devices of this one */
    int in_flight; /* micro-batches kept at once */
};

/* All of `out` but its room. fp32: weights, gradients and two moments; bf16: both at 2 bytes,
 * and a master copy of the weights beside the moments; activations and the buffers between stages
 * at half their size. */
void memory_of_run(const struct run_sizes *sizes, const struct run_terms *terms,
                   const struct framework *framework, struct memory_parts *out);

#endif
