#include "tests/node/reporters.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char job_text[] = "name: bound\n"
                               "model: {layers: %d, heads: 4, hidden: 64, context: 64}\n"
                               "data: {train: \"*.txt\"}\n"
                               "batch: {sequences: 32}\n"
                               "steps: 100\n";

void
reporters_job(int blocks, struct job *out)
{
    char text[512];
    struct err err;
    int len = snprintf(text, sizeof(text), job_text, blocks);
    must(job_parse("job.yaml", text, (size_t)len, out, &err) == 0);
    job_bind(out, &(struct id){{7}}, 100000, &(struct id){{9}});
}

static int
compare_keys(const void *left, const void *right)
{
    const struct reporter *a = left, *b = right;
    return id_compare(key_id(a->key), key_id(b->key));
}

static void
link_up(struct reporters *reporters, int number)
{
    struct record *record = &reporters->list[number].report.record;
    record->links_count = 0;
    for (int i = 0; i < reporters->count && record->links_count < RECORD_LINKS_MAX; i++) {
        if (i == number)
            continue;
        bool near = strcmp(reporters->list[i].report.record.zone, record->zone) == 0;
        record->links[record->links_count++] = (struct record_link){
            .peer = *key_id(reporters->list[i].key),
            .rate = rate_encode(near ? 1000000000 : 100000000),
            .round_trip_us = near ? 200 : 20000,
            .confidence = 80,
        };
    }
}

void
reporter_speed(struct reporters *reporters, int number, int percent)
{
    static const int sizes[] = {1, 4, 16};
    struct profile *profile = &reporters->list[number].report.profile;
    *profile = (struct profile){.count = 3, .correction_ppm = 1000000};
    for (int i = 0; i < 3; i++) {
        struct profile_entry *entry = &profile->entries[i];
        entry->micro_batch = sizes[i];
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            entry->forward_ns[kind] = (int64_t)10000 * percent * sizes[i];
            entry->backward_ns[kind] = 2 * entry->forward_ns[kind];
            entry->update_ns[kind] = (int64_t)1000 * percent;
        }
    }
}

void
reporters_open(struct reporters *reporters, int count, int zones, const struct job *job)
{
    struct err err;
    must(key_setup(&err) == 0);
    *reporters = (struct reporters){.swarm = {{42}}, .count = count};
    reporters->secret = secret_parse(
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", &err);
    reporters->admit_id = *secret_admit_id(reporters->secret);
    reporters->list = xcalloc((size_t)count, sizeof(*reporters->list));
    for (int i = 0; i < count; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1), (uint8_t)(i >> 8), 99};
        reporters->list[i].key = key_from_seed(seed);
    }
    qsort(reporters->list, (size_t)count, sizeof(*reporters->list), compare_keys);
    for (int i = 0; i < count; i++) {
        struct reporter *reporter = &reporters->list[i];
        struct record *record = &reporter->report.record;
        *record = (struct record){.id = *key_id(reporter->key),
                                  .incarnation = UINT64_C(3) << 32,
                                  .version = 5,
                                  .threads = 2,
                                  .memory_bytes = 1 << 30,
                                  .epoch = 6};
        snprintf(record->name, sizeof(record->name), "node-%d", i);
        record->zone[0] = (char)('a' + i % zones);
        snprintf(record->address, sizeof(record->address), "10.0.0.%d:7700", i % 250 + 1);
        snprintf(record->device, sizeof(record->device), "cpu");
        secret_admit(reporters->secret, &reporters->swarm, &record->id,
                     record->admission);
        reporter->report.id = record->id;
        reporter->report.term = 4;
        reporter->report.epoch = 6;
        reporter->report.progress = (struct progress){.reported = true, .applied = -1};
        reporter->report.profile.correction_ppm = 1000000;
        if (job) {
            reporter->report.job = job->train.id;
            reporter->report.progress.has_data = true;
            reporter_speed(reporters, i, 100);
        }
    }
    for (int i = 0; i < count; i++) {
        link_up(reporters, i);
        reporter_sign(reporters, i);
    }
}

void
reporters_close(struct reporters *reporters)
{
    for (int i = 0; i < reporters->count; i++) {
        key_free(reporters->list[i].key);
        buf_release(&reporters->list[i].record);
        buf_release(&reporters->list[i].bytes);
    }
    free(reporters->list);
    secret_free(reporters->secret);
}

void
reporter_sign(struct reporters *reporters, int number)
{
    struct reporter *reporter = &reporters->list[number];
    buf_clear(&reporter->record);
    buf_clear(&reporter->bytes);
    record_sign(&reporter->report.record, reporter->key, &reporters->swarm,
                &reporter->record);
    report_sign(&reporter->report, reporter->record.data, reporter->record.len,
                reporter->key, &reporters->swarm, &reporter->bytes);
}
