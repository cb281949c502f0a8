/*
 * A job from a user's text and from a peer's bytes: taken or refused with a sentence;
 * what is taken comes back from its bytes as it was.
 */
#include "node/job.h"
#include "transport/base/must.h"
#include "transport/key.h"

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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job job;
    struct err err = {0};
    must(key_setup(&err) == 0);
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
    return 0;
}
