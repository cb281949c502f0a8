/*
 * A report from a stranger, and one that a member signed whatever is in it: opened or
 * refused with a sentence; what is opened may be planned from.
 */
#include "node/view.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct id swarm = {{1}};
static struct key *key;
static struct secret *secret;
static struct job job;
static struct buf good; /* the body of a report, unsigned */

static const char text[] = "name: fuzz\n"
                           "model: {layers: 2, heads: 2, hidden: 8, context: 8}\n"
                           "data: {train: a}\nbatch: {sequences: 4}\nsteps: 10\n";

static void
setup(void)
{
    struct err err;
    must(key_setup(&err) == 0);
    key = key_from_seed((const uint8_t[32]){1});
    secret = secret_parse(
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", &err);
    must(secret && job_parse("fuzz", text, strlen(text), &job, &err) == 0);
    job_bind(&job, &(struct id){{2}}, 1000, &(struct id){{3}});
    struct report report = {.id = *key_id(key),
                            .term = 1,
                            .epoch = 2,
                            .job = job.train.id,
                            .progress = {.reported = true, .has_data = true},
                            .profile = {.count = 2, .correction_ppm = 1000000}};
    report.progress.holdings_count = 2;
    for (int i = 0; i < 2; i++) {
        report.progress.holdings[i] =
            (struct holding){.source = SOURCE_COPY, .name.step = 3, .layers = 4};
        report.profile.entries[i] = (struct profile_entry){
            .micro_batch = i + 1, .forward_ns = {1000, 1000, 1000}};
    }
    report.record = (struct record){.id = report.id,
                                    .incarnation = UINT64_C(1) << 32,
                                    .memory_bytes = 1 << 28,
                                    .zone = "a",
                                    .name = "n",
                                    .address = "h:1",
                                    .device = "cpu"};
    secret_admit(secret, &swarm, &report.id, report.record.admission);
    struct buf record = {0}, signed_report = {0};
    record_sign(&report.record, key, &swarm, &record);
    report_sign(&report, record.data, record.len, key, &swarm, &signed_report);
    struct reader *reader = reader_open(signed_report.data, signed_report.len, &err);
    size_t len;
    reader_enter(reader, 2, 2);
    const uint8_t *body = reader_bytes(reader, 1 << 16, &len);
    buf_add(&good, body, len);
    uint8_t signature[KEY_SIGNATURE_BYTES];
    reader_fixed(reader, signature, sizeof(signature));
    reader_leave(reader);
    must(reader_close(&reader, &err) == 0);
    buf_release(&record);
    buf_release(&signed_report);
}

/* The good body with the input's changes, (place, value) in three bytes each, signed
 * again. */
static void
sign_changed(const uint8_t *data, size_t size, struct buf *out)
{
    static const char purpose[] = "report1";
    uint8_t *body = xmemdup(good.data, good.len);
    for (size_t i = 0; i + 3 <= size; i += 3)
        body[((size_t)data[i] << 8 | data[i + 1]) % good.len] ^= data[i + 2];
    struct buf words = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    buf_add(&words, purpose, sizeof(purpose));
    buf_add(&words, swarm.bytes, ID_BYTES);
    buf_add(&words, body, good.len);
    key_sign(key, words.data, words.len, signature);
    writer_array(out, 2);
    writer_bytes(out, body, good.len);
    writer_bytes(out, signature, sizeof(signature));
    buf_release(&words);
    free(body);
}

static void
plan_from(const uint8_t *bytes, size_t len)
{
    struct view *view = xcalloc(1, sizeof(*view));
    struct err err = {0};
    must(view_report(view, bytes, len, &swarm, secret_admit_id(secret), &err) == 0);
    view->state = JOB_RUNNING;
    job_copy(&view->job, &job);
    if (view_derive(view, NULL, &err) == 0) {
        struct buf encoded = {0};
        struct view *again = xcalloc(1, sizeof(*again));
        view_encode(view, &encoded);
        must(view_decode(encoded.data, encoded.len, &swarm, secret_admit_id(secret),
                         again, &err) == 0);
        must(again->recovery.base_step == view->recovery.base_step);
        view_release(again);
        free(again);
        buf_release(&encoded);
    } else {
        must(err.code == ERR_PLAN && strlen(err.msg) > 0);
    }
    view_release(view);
    free(view);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct report report;
    struct err err = {0};
    if (!key)
        setup();
    if (report_open(data, size, &swarm, secret_admit_id(secret), &report, &err))
        must((err.code == ERR_WIRE || err.code == ERR_AUTH) &&
             strncmp(err.msg, "report: ", 8) == 0);
    struct buf bytes = {0};
    sign_changed(data, size, &bytes);
    if (report_open(bytes.data, bytes.len, &swarm, secret_admit_id(secret), &report,
                    &err) == 0)
        plan_from(bytes.data, bytes.len);
    buf_release(&bytes);
    return 0;
}
