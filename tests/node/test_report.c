#include "node/report.h"
#include "tests/node/reporters.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_report(void);

static struct reporters people;
static struct job job;
static struct report out;
static struct err err;

static void
setup(void)
{
    reporters_job(4, &job);
    reporters_open(&people, 2, 2, &job);
    err = (struct err){0};
    memset(&out, 0xa5, sizeof(out));
}

static void
teardown(void)
{
    reporters_close(&people);
    job_release(&job);
}

static int
opened(const void *bytes, size_t len)
{
    /* A copy of the exact size, so that a sanitizer sees a read past the end. */
    void *copy = xmemdup(bytes, len);
    int result = report_open(copy, len, &people.swarm, &people.admit_id, &out, &err);
    free(copy);
    return result;
}

static struct lineage
lineage_by_chance(struct rng *rng)
{
    return (struct lineage){.epoch = rng_next(rng), .tag = rng_next(rng)};
}

static void
progress_by_chance(struct rng *rng, struct progress *progress)
{
    *progress = (struct progress){
        .reported = rng_below(rng, 2) == 0,
        .applied = (int64_t)rng_below(rng, 1000) - 1,
        .prepared = rng_below(rng, 2) == 0,
        .lineage = lineage_by_chance(rng),
        .normed = rng_below(rng, 2) == 0,
        .prepared_in = lineage_by_chance(rng),
        .norm_bits = rng_next(rng),
        .samples_hash = rng_next(rng),
        .has_data = rng_below(rng, 2) == 0,
        .holdings_count = (int)rng_below(rng, HOLDINGS_MAX + 1),
    };
    for (int i = 0; i < progress->holdings_count; i++)
        progress->holdings[i] = (struct holding){
            .source = SOURCE_LIVE + (enum state_source)rng_below(rng, 3),
            .name = {(int64_t)rng_below(rng, 1 << 20), lineage_by_chance(rng)},
            .first_layer = (int)rng_below(rng, LAYERS_MAX),
            .layers = 1 + (int)rng_below(rng, LAYERS_MAX),
            .samples_hash = rng_next(rng),
        };
}

static void
profile_by_chance(struct rng *rng, struct profile *profile)
{
    *profile = (struct profile){
        .count = (int)rng_below(rng, PROFILE_ENTRIES_MAX + 1),
        .correction_ppm = 1000 + (int64_t)rng_below(rng, 1000000000 - 1000),
    };
    for (int i = 0; i < profile->count; i++) {
        struct profile_entry *entry = &profile->entries[i];
        entry->micro_batch = (i + 1) * 7;
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            entry->forward_ns[kind] = (int64_t)rng_below(rng, UINT64_C(3600000000000));
            entry->backward_ns[kind] = (int64_t)rng_below(rng, UINT64_C(3600000000000));
            entry->update_ns[kind] = (int64_t)rng_below(rng, UINT64_C(3600000000000));
        }
    }
}

static void
same_progress(const struct progress *left, const struct progress *right)
{
    ck_assert_int_eq(left->reported, right->reported);
    ck_assert_int_eq(left->applied, right->applied);
    ck_assert_int_eq(left->prepared, right->prepared);
    ck_assert_int_eq(left->normed, right->normed);
    ck_assert(lineage_same(&left->lineage, &right->lineage));
    ck_assert(lineage_same(&left->prepared_in, &right->prepared_in));
    ck_assert_uint_eq(left->norm_bits, right->norm_bits);
    ck_assert_uint_eq(left->samples_hash, right->samples_hash);
    ck_assert_int_eq(left->has_data, right->has_data);
    ck_assert_int_eq(left->holdings_count, right->holdings_count);
    for (int i = 0; i < left->holdings_count; i++) {
        const struct holding *a = &left->holdings[i], *b = &right->holdings[i];
        ck_assert_int_eq(a->source, b->source);
        ck_assert(state_same(&a->name, &b->name));
        ck_assert_int_eq(a->first_layer, b->first_layer);
        ck_assert_int_eq(a->layers, b->layers);
        ck_assert_uint_eq(a->samples_hash, b->samples_hash);
    }
}

START_TEST(a_signed_report_comes_back_whole)
{
    struct rng rng = {.seed = suite_seed("a_signed_report_comes_back_whole", 1)};
    for (int round = 0; round < 200; round++) {
        struct report *report = &people.list[0].report;
        report->term = rng_next(&rng);
        report->epoch = rng_next(&rng);
        progress_by_chance(&rng, &report->progress);
        profile_by_chance(&rng, &report->profile);
        reporter_sign(&people, 0);
        const struct buf *bytes = &people.list[0].bytes;
        ck_assert_msg(opened(bytes->data, bytes->len) == 0, "%s", err.msg);
        ck_assert(id_equal(&out.id, &report->id) && id_equal(&out.job, &report->job));
        ck_assert_uint_eq(out.term, report->term);
        ck_assert_uint_eq(out.epoch, report->epoch);
        same_progress(&out.progress, &report->progress);
        ck_assert_int_eq(out.profile.count, report->profile.count);
        ck_assert_int_eq(out.profile.correction_ppm, report->profile.correction_ppm);
        ck_assert_mem_eq(out.profile.entries, report->profile.entries,
                         (size_t)out.profile.count * sizeof(out.profile.entries[0]));
        ck_assert_str_eq(out.record.zone, report->record.zone);
        ck_assert_uint_eq(out.record.links_count, report->record.links_count);
    }
}
END_TEST

START_TEST(no_flipped_bit_is_believed)
{
    const struct buf *bytes = &people.list[0].bytes;
    uint8_t *bad = xmemdup(bytes->data, bytes->len);
    struct report before;
    memcpy(&before, &out, sizeof(out));
    for (size_t i = 0; i < bytes->len; i++) {
        bad[i] ^= (uint8_t)(1u << (i % 8));
        err = (struct err){0};
        ck_assert_msg(opened(bad, bytes->len) == -1, "byte %zu", i);
        ck_assert(err.code == ERR_WIRE || err.code == ERR_AUTH);
        ck_assert_msg(strncmp(err.msg, "report: ", 8) == 0, "%s", err.msg);
        bad[i] = bytes->data[i];
    }
    ck_assert_mem_eq(&before, &out, sizeof(out));
    free(bad);
}
END_TEST

START_TEST(no_part_of_a_report_is_believed)
{
    const struct buf *bytes = &people.list[0].bytes;
    for (size_t len = 0; len < bytes->len; len++) {
        err = (struct err){0};
        ck_assert_msg(opened(bytes->data, len) == -1, "%zu bytes", len);
        ck_assert(err.code == ERR_WIRE && strlen(err.msg) > 8);
    }
    struct buf longer = {0};
    buf_add(&longer, bytes->data, bytes->len);
    buf_add(&longer, "", 1);
    ck_assert_int_eq(opened(longer.data, longer.len), -1);
    buf_release(&longer);
}
END_TEST

START_TEST(a_report_is_of_this_swarm_and_of_who_was_admitted)
{
    const struct buf *bytes = &people.list[0].bytes;
    struct id other = {{43}};
    ck_assert_int_eq(
        report_open(bytes->data, bytes->len, &other, &people.admit_id, &out, &err), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_int_eq(
        report_open(bytes->data, bytes->len, &people.swarm, &other, &out, &err), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
}
END_TEST

START_TEST(a_report_with_the_record_of_another_is_refused)
{
    struct buf bytes = {0};
    report_sign(&people.list[0].report, people.list[1].record.data,
                people.list[1].record.len, people.list[0].key, &people.swarm, &bytes);
    ck_assert_int_eq(opened(bytes.data, bytes.len), -1);
    ck_assert_str_eq(err.msg, "report: the record in it is another node's");
    buf_clear(&bytes);
    /* Signed by another than it says. */
    report_sign(&people.list[0].report, people.list[0].record.data,
                people.list[0].record.len, people.list[1].key, &people.swarm, &bytes);
    ck_assert_int_eq(opened(bytes.data, bytes.len), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_str_eq(err.msg, "report: the signature is not its sender's");
    buf_release(&bytes);
}
END_TEST

static void
refused(const char *what)
{
    reporter_sign(&people, 0);
    const struct buf *bytes = &people.list[0].bytes;
    err = (struct err){0};
    ck_assert_msg(opened(bytes->data, bytes->len) == -1, "%s", what);
    ck_assert_msg(err.code == ERR_WIRE, "%s: %s", what, err.msg);
}

/* A member that is admitted may lie, but not break what follows. */
START_TEST(values_out_of_their_range_are_refused_though_signed)
{
    struct report good = people.list[0].report, *report = &people.list[0].report;
    report->progress.applied = -2;
    refused("applied");
    *report = good;
    report->progress.holdings_count = 1;
    report->progress.holdings[0] =
        (struct holding){.source = SOURCE_NONE, .name.step = 1, .layers = 1};
    refused("a holding without a source");
    report->progress.holdings[0].source = SOURCE_SEED;
    refused("a seed is no holding");
    report->progress.holdings[0] = (struct holding){.source = SOURCE_LIVE, .layers = 0};
    refused("no layers");
    report->progress.holdings[0] =
        (struct holding){.source = SOURCE_LIVE, .first_layer = LAYERS_MAX, .layers = 1};
    refused("a layer beyond all");
    *report = good;
    report->profile.correction_ppm = 0;
    refused("no correction");
    *report = good;
    report->profile.entries[1].micro_batch = report->profile.entries[0].micro_batch;
    refused("two entries of one size");
    *report = good;
    report->profile.entries[0].forward_ns[0] = -1;
    refused("negative time");
    *report = good;
    report->profile.entries[0].update_ns[2] = INT64_C(3600000000001);
    refused("more than an hour");
}
END_TEST

Suite *
suite_report(void)
{
    Suite *suite = suite_create("report");
    TCase *tests = suite_case(suite, "report", 20);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_signed_report_comes_back_whole);
    tcase_add_test(tests, no_flipped_bit_is_believed);
    tcase_add_test(tests, no_part_of_a_report_is_believed);
    tcase_add_test(tests, a_report_is_of_this_swarm_and_of_who_was_admitted);
    tcase_add_test(tests, a_report_with_the_record_of_another_is_refused);
    tcase_add_test(tests, values_out_of_their_range_are_refused_though_signed);
    return suite;
}
