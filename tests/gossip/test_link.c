#include "gossip/link.h"
#include "tests/suite.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_link(void);

#define MINUTE_MS INT64_C(60000)

static struct id peer = {{5}};

/* The one estimate there is. */
static struct record_link
only(struct links *links, int64_t now_ms)
{
    struct record_link out[RECORD_LINKS_MAX];
    ck_assert_uint_eq(links_fill(links, now_ms, out), 1);
    return out[0];
}

static double
rate_of(struct links *links, int64_t now_ms)
{
    return (double)rate_decode(only(links, now_ms).rate);
}

START_TEST(the_first_sample_is_the_estimate)
{
    struct links *links = links_new();
    links_sample(links, 1000, &peer, 1 << 20, 83886, false); /* 12.5 MB/s */
    struct record_link link = only(links, 1000);
    ck_assert(id_equal(&link.peer, &peer));
    ck_assert_uint_eq(link.rate, rate_encode(12500000));
    ck_assert_uint_gt(link.confidence, 0);
    ck_assert_uint_eq(link.round_trip_us, 0);
    links_free(links);
}
END_TEST

START_TEST(noisy_samples_converge_to_the_rate)
{
    struct rng rng = {.seed = suite_seed("noisy_samples_converge_to_the_rate", 5)};
    struct links *links = links_new();
    for (int i = 0; i < 60; i++) {
        double rate = 12.5e6 * (0.85 + 0.3 * rng_unit(&rng));
        links_sample(links, 1000L * i, &peer, 1 << 20, (int64_t)((1 << 20) * 1e6 / rate),
                     false);
    }
    ck_assert_double_gt(rate_of(links, 60000), 12.5e6 * 0.87);
    ck_assert_double_lt(rate_of(links, 60000), 12.5e6 * 1.13);
    ck_assert_uint_gt(only(links, 60000).confidence, 70);
    links_free(links);
}
END_TEST

START_TEST(one_outlier_moves_little_and_a_real_change_is_followed)
{
    struct links *links = links_new();
    for (int i = 0; i < 20; i++)
        links_sample(links, i, &peer, 1000000, 100000, false); /* 10 MB/s */
    uint8_t sure = only(links, 20).confidence;
    links_sample(links, 21, &peer, 1000000, 1000000, false); /* 1 MB/s, once */
    ck_assert_double_gt(rate_of(links, 21), 5e6);
    ck_assert_uint_lt(only(links, 21).confidence, sure);
    for (int i = 0; i < 8; i++)
        links_sample(links, 22 + i, &peer, 1000000, 1000000, false);
    ck_assert_double_lt(rate_of(links, 40), 1.3e6);
    links_free(links);
}
END_TEST

START_TEST(a_limited_sample_counts_only_upwards)
{
    struct links *links = links_new();
    for (int i = 0; i < 5; i++)
        links_sample(links, i, &peer, 1000000, 100000, false);
    double before = rate_of(links, 5);
    for (int i = 0; i < 50; i++)
        links_sample(links, i, &peer, 1000000, 1000000, true);
    ck_assert_double_eq(rate_of(links, 60), before);
    for (int i = 0; i < 50; i++)
        links_sample(links, i, &peer, 1000000, 50000, true);
    ck_assert_double_gt(rate_of(links, 60), 1.5e7);
    links_free(links);
}
END_TEST

START_TEST(samples_that_tell_nothing_are_dropped)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    links_sample(links, 0, &peer, 100, 10, false);
    links_sample(links, 0, &peer, 1 << 20, 0, false);
    links_sample(links, 0, &peer, -5, 10, false);
    links_round_trip(links, 0, &peer, 0);
    ck_assert_uint_eq(links_fill(links, 0, out), 0);
    links_sample(links, 0, &peer, INT64_MAX, 1, false); /* no overflow */
    ck_assert_uint_eq(links_fill(links, 0, out), 1);
    links_free(links);
}
END_TEST

START_TEST(confidence_halves_every_half_hour)
{
    struct links *links = links_new();
    for (int i = 0; i < 20; i++)
        links_sample(links, 1000, &peer, 1000000, 100000, false);
    uint8_t now = only(links, 1000).confidence;
    uint8_t later = only(links, 1000 + 30 * MINUTE_MS).confidence;
    ck_assert_int_le(abs(now / 2 - later), 1);
    ck_assert_int_le(abs(now / 4 - only(links, 1000 + 60 * MINUTE_MS).confidence), 1);
    ck_assert_uint_eq(only(links, 1000 + 100000 * MINUTE_MS).confidence, 0);
    links_free(links);
}
END_TEST

START_TEST(the_round_trip_is_the_smallest_of_lately)
{
    struct links *links = links_new();
    links_round_trip(links, 1000, &peer, 40000);
    links_round_trip(links, 2000, &peer, 20000);
    links_round_trip(links, 3000, &peer, 70000);
    ck_assert_uint_eq(only(links, 3000).round_trip_us, 20000);
    links_round_trip(links, 3000 + 6 * MINUTE_MS, &peer, 50000);
    ck_assert_uint_eq(only(links, 3000 + 6 * MINUTE_MS).round_trip_us, 20000);
    links_round_trip(links, 3000 + 12 * MINUTE_MS, &peer, 60000);
    ck_assert_uint_eq(only(links, 3000 + 12 * MINUTE_MS).round_trip_us, 50000);
    links_free(links);
}
END_TEST

START_TEST(a_change_shows_until_it_is_told)
{
    struct links *links = links_new();
    ck_assert(!links_changed(links));
    links_sample(links, 0, &peer, 1000000, 100000, false);
    ck_assert(links_changed(links));
    only(links, 0);
    ck_assert(!links_changed(links));
    links_sample(links, 1, &peer, 1000000, 110000, false);
    ck_assert(!links_changed(links)); /* a little */
    for (int i = 0; i < 10; i++)
        links_sample(links, 2, &peer, 1000000, 150000, false);
    ck_assert(links_changed(links)); /* by a third */
    only(links, 3);
    links_round_trip(links, 4, &peer, 400);
    ck_assert(links_changed(links)); /* appeared */
    only(links, 4);
    links_round_trip(links, 4, &peer, 100);
    ck_assert(!links_changed(links)); /* below a millisecond: chance */
    links_free(links);
}
END_TEST

START_TEST(the_freshest_links_are_told_in_ascending_order)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    for (int i = 0; i < 200; i++) {
        struct id id = {{(uint8_t)(i * 37), (uint8_t)i}};
        links_sample(links, 1000 + i, &id, 1000000, 1000L * (i + 1), false);
    }
    ck_assert_uint_eq(links_fill(links, 2000, out), RECORD_LINKS_MAX);
    for (int i = 0; i < RECORD_LINKS_MAX; i++) {
        ck_assert_uint_ge(out[i].peer.bytes[1], 200 - RECORD_LINKS_MAX);
        if (i > 0)
            ck_assert_int_lt(id_compare(&out[i - 1].peer, &out[i].peer), 0);
    }
    ck_assert(!links_changed(links)); /* those left out do not cry for ever */
    links_free(links);
}
END_TEST

START_TEST(each_new_link_is_probed_once_400_ms_apart)
{
    struct links *links = links_new();
    struct id peers[3] = {{{1}}, {{2}}, {{3}}};
    int64_t bytes = 0, now_ms = 1000;
    for (int i = 0; i < 3; i++) {
        const struct id *due = links_probe_due(links, now_ms, peers, 3, &bytes);
        ck_assert_ptr_eq(due, &peers[i]);
        ck_assert_int_ge(bytes, 1 << 20);
        ck_assert_int_le(bytes, 8 << 20);
        links_probe_sent(links, now_ms, due, bytes);
        ck_assert_ptr_null(links_probe_due(links, now_ms + 399, peers, 3, &bytes));
        links_sample(links, now_ms + 100, due, bytes, 100000, false);
        now_ms += 400;
    }
    ck_assert_ptr_null(links_probe_due(links, now_ms, peers, 3, &bytes));
    now_ms += 10 * MINUTE_MS;
    links_sample(links, now_ms, &peers[0], 1 << 20, 100000, false);
    ck_assert_ptr_eq(links_probe_due(links, now_ms, peers, 3, &bytes), &peers[1]);
    ck_assert_ptr_null(links_probe_due(links, now_ms, peers, 0, &bytes));
    links_free(links);
}
END_TEST

START_TEST(a_probe_that_brought_nothing_is_not_repeated_at_once)
{
    struct links *links = links_new();
    int64_t bytes;
    ck_assert_ptr_nonnull(links_probe_due(links, 1000, &peer, 1, &bytes));
    links_probe_sent(links, 1000, &peer, bytes);
    ck_assert_ptr_null(links_probe_due(links, 60000, &peer, 1, &bytes));
    ck_assert_ptr_nonnull(
        links_probe_due(links, 1000 + 11 * MINUTE_MS, &peer, 1, &bytes));
    links_free(links);
}
END_TEST

START_TEST(probes_keep_to_their_budget)
{
    struct links *links = links_new();
    struct id peers[256];
    int64_t sent = 0, bytes;
    for (int i = 0; i < 256; i++)
        peers[i] = (struct id){{(uint8_t)i, 1}};
    for (int64_t now_ms = 1000; now_ms < 60 * MINUTE_MS; now_ms += 500) {
        const struct id *due = links_probe_due(links, now_ms, peers, 256, &bytes);
        if (!due)
            continue;
        links_probe_sent(links, now_ms, due, bytes);
        links_sample(links, now_ms, due, bytes, bytes, false); /* 1 MB/s */
        sent += bytes;
    }
    /* A hundredth of 1 MB/s for an hour, saved up once: twice the 36 MB. */
    ck_assert_int_gt(sent, 16 << 20);
    ck_assert_int_le(sent, 2 * 36000000 + (1 << 20));
    links_free(links);
}
END_TEST

START_TEST(a_forgotten_link_is_gone)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    struct id other = {{6}};
    links_sample(links, 0, &peer, 1000000, 100000, false);
    links_sample(links, 0, &other, 1000000, 100000, false);
    links_forget(links, &peer);
    links_forget(links, &(struct id){{77}});
    ck_assert_uint_eq(links_fill(links, 0, out), 1);
    ck_assert(id_equal(&out[0].peer, &other));
    links_free(links);
    links_free(NULL);
}
END_TEST

START_TEST(links_without_end_stay_bounded)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    for (int i = 0; i < 3 * MEMBERS_MAX; i++) {
        struct id id = {{(uint8_t)i, (uint8_t)(i >> 8)}};
        links_sample(links, i, &id, 1000000, 100000, false);
    }
    ck_assert_uint_eq(links_fill(links, 4000, out), RECORD_LINKS_MAX);
    links_free(links);
}
END_TEST

Suite *
suite_link(void)
{
    Suite *suite = suite_create("link");
    TCase *tests = suite_case(suite, "link", 30);
    tcase_add_test(tests, the_first_sample_is_the_estimate);
    tcase_add_test(tests, noisy_samples_converge_to_the_rate);
    tcase_add_test(tests, one_outlier_moves_little_and_a_real_change_is_followed);
    tcase_add_test(tests, a_limited_sample_counts_only_upwards);
    tcase_add_test(tests, samples_that_tell_nothing_are_dropped);
    tcase_add_test(tests, confidence_halves_every_half_hour);
    tcase_add_test(tests, the_round_trip_is_the_smallest_of_lately);
    tcase_add_test(tests, a_change_shows_until_it_is_told);
    tcase_add_test(tests, the_freshest_links_are_told_in_ascending_order);
    tcase_add_test(tests, each_new_link_is_probed_once_400_ms_apart);
    tcase_add_test(tests, a_probe_that_brought_nothing_is_not_repeated_at_once);
    tcase_add_test(tests, probes_keep_to_their_budget);
    tcase_add_test(tests, a_forgotten_link_is_gone);
    tcase_add_test(tests, links_without_end_stay_bounded);
    return suite;
}
