/*
 * The body of a decree, from a leader who may lie: decoded with every promise that the
 * rest of the node relies on, or refused with a sentence. Bytes as they are, and a good
 * view's bytes with changes.
 */
#include "node/view.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct id swarm = {{1}};
static struct secret *secret;
static struct buf good;

static const char text[] = "name: fuzz\n"
                           "model: {layers: 4, heads: 2, hidden: 8, context: 8}\n"
                           "data: {train: a}\nbatch: {sequences: 4}\nsteps: 10\n"
                           "plan: {pipeline: 2}\n";

static void
add_member(struct view *view, uint8_t number)
{
    const uint8_t seed[32] = {number};
    struct key *key = key_from_seed(seed);
    struct report report = {.id = *key_id(key),
                            .term = 1,
                            .epoch = 2,
                            .job = view->job.train.id,
                            .progress = {.reported = true, .has_data = true},
                            .profile = {.count = 1, .correction_ppm = 1000000}};
    report.profile.entries[0] =
        (struct profile_entry){.micro_batch = 1, .forward_ns = {1000, 1000, 1000}};
    report.record = (struct record){.id = report.id,
                                    .incarnation = UINT64_C(1) << 32,
                                    .memory_bytes = 1 << 28,
                                    .zone = "a",
                                    .name = "n",
                                    .address = "h:1",
                                    .device = "cpu"};
    secret_admit(secret, &swarm, &report.id, report.record.admission);
    struct buf record = {0}, bytes = {0};
    struct err err;
    record_sign(&report.record, key, &swarm, &record);
    report_sign(&report, record.data, record.len, key, &swarm, &bytes);
    must(view_report(view, bytes.data, bytes.len, &swarm, secret_admit_id(secret),
                     &err) == 0);
    buf_release(&record);
    buf_release(&bytes);
    key_free(key);
}

static void
setup(void)
{
    struct err err;
    must(key_setup(&err) == 0);
    secret = secret_parse(
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", &err);
    struct view *view = xcalloc(1, sizeof(*view));
    must(secret && job_parse("fuzz", text, strlen(text), &view->job, &err) == 0);
    job_bind(&view->job, &(struct id){{2}}, 1000, &(struct id){{3}});
    view->state = JOB_RUNNING;
    for (uint8_t i = 1; i <= 3; i++)
        add_member(view, i);
    must(view_derive(view, NULL, &err) == 0);
    view_encode(view, &good);
    view_release(view);
    free(view);
}

static void
decode(const uint8_t *bytes, size_t len)
{
    struct view *view = xcalloc(1, sizeof(*view));
    struct err err = {0};
    if (view_decode(bytes, len, &swarm, secret_admit_id(secret), view, &err)) {
        must(err.code != ERR_NONE && strncmp(err.msg, "plan: ", 6) == 0);
    } else {
        if (view->planned) {
            struct err bad;
            must(view->state != JOB_NONE);
            must(plan_check(&view->plan, &view->request, &view->cluster, &bad) == 0);
            must(view->cluster.nodes_count == (int)view->reports_count);
            must(view->recovery.data_from && view->duties.gatherers_count <= 2);
        }
        struct buf again = {0};
        view_encode(view, &again);
        buf_release(&again);
        view_release(view);
    }
    free(view);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!secret)
        setup();
    decode(data, size);
    uint8_t *bytes = xmemdup(good.data, good.len);
    size_t len = good.len;
    for (size_t i = 0; i + 3 <= size; i += 3) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) % good.len;
        bytes[at] ^= data[i + 2];
        if (data[i + 2] == 0)
            len = at; /* cut there */
    }
    decode(bytes, len);
    free(bytes);
    return 0;
}
