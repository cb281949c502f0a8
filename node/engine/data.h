/*
 * data.h - training text as tokens, and which sample comes when.
 *
 * A data set is the bytes of its files in order, one token a byte, named by BLAKE2b-256
 * of those bytes. Sample i is the context + 1 tokens at i * context. The n-th sample of a
 * run is a function of (seed, n) alone: a permutation of each pass over the set
 * (rng_permute), the pass number in its stream.
 */
#ifndef NODE_ENGINE_DATA_H
#define NODE_ENGINE_DATA_H

#include "transport/base/err.h"
#include "transport/base/id.h"

struct data;

/* Map a file. ERR_USAGE when it holds less than one sample: it says how much it needs. */
struct data *data_open(const char *path, int context, struct err *err);
void data_close(struct data *data);

int64_t data_samples(const struct data *data);
int64_t data_sample_id(const struct data *data, uint64_t seed, int64_t n);
void data_tokens(const struct data *data, int64_t sample,
                 int32_t *tokens); /* context + 1 */

/* Gather files (a path or a glob pattern relative to `folder`) into `out_path`, in sorted
 * order, and name the result. ERR_USAGE names the pattern that matched nothing, or a file
 * that is empty or not readable. */
int data_gather(const char *folder, const char *pattern, const char *out_path,
                struct id *hash, int64_t *bytes, struct err *err);
int data_hash(const char *path, struct id *hash, int64_t *bytes, struct err *err);

#endif
