/*
 * A job from a user's text and from a peer's bytes: taken or refused with a sentence;
 * what is taken comes back from its bytes as it was.
 */
#include "node/job.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/key.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
comes_back(const struct job *job)
{
    struct buf bytes = {0}, again = {0};
    struct job out;
    struct err err;
    job_encode(job, &bytes);
    must(job_decode(bytes.data, bytes.len, &out, &err) == 0);
    job_encode(&out, &again);
    must(again.len == bytes.len && memcmp(again.data, bytes.data, bytes.len) == 0);
    must(memcmp(&out.shape, &job->shape, sizeof(out.shape)) == 0);
    must(out.train.steps >= 1 && out.sequences >= 1);
    job_release(&out);
    buf_release(&bytes);
    buf_release(&again);
}

static const char good[] =
    "name: first-sail\n"
    "model: {family: gpt2, layers: 6, heads: 6, hidden: 384, context: 256}\n"
    "data: {train: a*.txt, tokenizer: bytes}\n"
    "batch: {sequences: 64}\n"
    "steps: 1000\n"
    "optimizer: {name: adamw, learning_rate: 6e-4, warmup_steps: 50}\n"
    "between_zones: [exact, local_sgd]\n"
    "plan: {pipeline: 2, replicas: 2, micro_batch: 4, zones: [a, b]}\n"
    "checkpoint: {every_steps: 200, keep: 3}\n";

static void
check(const uint8_t *data, size_t size)
{
    struct job job;
    struct err err = {0};
    if (job_parse("fuzz", (const char *)data, size, &job, &err) == 0) {
        job_bind(&job, &(struct id){{1}}, 1000, &(struct id){{2}});
        comes_back(&job);
        job_release(&job);
    } else {
        must(err.code == ERR_USAGE && strncmp(err.msg, "fuzz: ", 6) == 0);
    }
    err = (struct err){0};
    if (job_decode(data, size, &job, &err) == 0) {
        comes_back(&job);
        job_release(&job);
    } else {
        must(err.code == ERR_WIRE && strncmp(err.msg, "job: ", 5) == 0);
    }
}

/* Something good with the input's changes, (place, value) in three bytes each. */
static void
check_changed(const void *from, size_t len, const uint8_t *data, size_t size)
{
    uint8_t *bytes = xmemdup(from, len);
    for (size_t i = 0; i + 3 <= size; i += 3)
        bytes[((size_t)data[i] << 8 | data[i + 1]) % len] = data[i + 2];
    check(bytes, len);
    free(bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buf bytes;
    if (bytes.len == 0) {
        struct job job;
        struct err err;
        must(key_setup(&err) == 0);
        must(job_parse("good", good, strlen(good), &job, &err) == 0);
        job_encode(&job, &bytes);
        job_release(&job);
    }
    check(data, size);
    check_changed(good, strlen(good), data, size);
    check_changed(bytes.data, bytes.len, data, size);
    return 0;
}
