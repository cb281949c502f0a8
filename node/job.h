/*
 * job.h - what a user asks to be trained: job.yaml (docs/manual.md, "flotilla train"),
 * and the same as canonical bytes, as they travel in a decree.
 *
 *     key                                                   left out
 *     name                                                  required
 *     model: {family, layers, heads, hidden, context}       required
 *     data: {train, tokenizer}                              required, bytes
 *     batch: {sequences}                                    required
 *     steps                                                 required
 *     optimizer: {name, learning_rate, warmup_steps,        adamw, 6e-4, 0,
 *                 beta1, beta2, epsilon,                    0.9, 0.95, 1e-8,
 *                 weight_decay, clip_norm}                  0.1, 1
 *     precision, objective, between_zones                   fp32, throughput, [exact]
 *     seed                                                  1
 *     plan: {pipeline, replicas, micro_batch, zones}        the planner's choice
 *     checkpoint: {every_steps, keep}                       200, 3
 *     copy: {every_steps}                                   20
 *
 * What a later version will do (bf16, llama, local_sgd, cost) is refused with a sentence,
 * not ignored.
 */
#ifndef NODE_JOB_H
#define NODE_JOB_H

#include "node/engine/train.h"
#include "transport/base/buf.h"

struct job {
    struct train_job train; /* id and data are filled in by job_bind() */
    struct model_shape shape;
    int sequences;
    int pipeline, replicas, micro_batch; /* fixed by the job, or 0 */
    int zones_count;
    char zones[STAGES_MAX][NAME_BYTES_MAX + 1];
    char pattern[1024]; /* data.train, as written; not part of the canonical bytes */
    char *text;         /* the YAML as submitted, owned */
};

/* Parse a text called `name` in messages; every value is checked against its range.
 * ERR_USAGE. */
int job_parse(const char *name, const char *text, size_t len, struct job *out,
              struct err *err);
void job_release(struct job *job);
void job_copy(struct job *to, const struct job *from);

/* Steps, optimizer, copies and checkpoints, each checked against its range; steps are 0, which is
 * an error, when the file has none. ERR_USAGE. */
struct job_file;
int job_training(const struct job_file *file, struct train_job *out, struct err *err);

/* Name the run: the data set's hash and size, and an id that is a hash of everything and
 * `nonce`. */
void job_bind(struct job *job, const struct id *data, int64_t data_bytes,
              const struct id *nonce);

/* Canonical bytes and back, with every bound checked (the other end is a peer). */
void job_encode(const struct job *job, struct buf *out);
int job_decode(const void *bytes, size_t len, struct job *out, struct err *err);

void job_request(const struct job *job, struct plan_request *out);

#endif
