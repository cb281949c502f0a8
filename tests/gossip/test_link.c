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

static void
give(struct links *links, int64_t now_ms, const struct id *from, int64_t bytes,
     int64_t us)
{
    links_sample(links, now_ms, from, &(struct link_sample){.bytes = bytes, .us = us});
}

static void
give_limited(struct links *links, int64_t now_ms, int64_t bytes, int64_t us)
{
    links_sample(links, now_ms, &peer,
                 &(struct link_sample){.bytes = bytes, .us = us, .limited = true});
}

static void
give_probe(struct links *links, int64_t now_ms, int64_t bytes, int64_t us)
{
    links_sample(links, now_ms, &peer,
                 &(struct link_sample){.bytes = bytes, .us = us, .probe = true});
}

static double
rate_of(struct links *links, int64_t now_ms)
{
    return (double)rate_decode(only(links, now_ms).rate);
}

START_TEST(the_first_sample_is_the_estimate)
{
    struct links *links = links_new();
    give(links, 1000, &peer, 1 << 20, 83886); /* 12.5 MB/s */
    struct record_link link = only(links, 1000);
    ck_assert(id_equal(&link.peer, &peer));
    ck_assert_uint_eq(link.rate, rate_encode(12500000));
    ck_assert_uint_eq(link.low, link.rate);
    ck_assert_int_eq(link.method, LINK_PASSIVE);
    ck_assert_uint_gt(link.confidence, 0);
    ck_assert_uint_eq(link.round_trip_us, 0);
    ck_assert_uint_eq(only(links, 8500).age_s, 7);
    links_free(links);
}
END_TEST

START_TEST(noisy_samples_converge_to_the_rate)
{
    struct rng rng = {.seed = suite_seed("noisy_samples_converge_to_the_rate", 5)};
    struct links *links = links_new();
    for (int i = 0; i < 60; i++) {
        double rate = 12.5e6 * (0.85 + 0.3 * rng_unit(&rng));
        give(links, 1000L * i, &peer, 1 << 20, (int64_t)((1 << 20) * 1e6 / rate));
    }
    ck_assert_double_gt(rate_of(links, 60000), 12.5e6 * 0.87);
    ck_assert_double_lt(rate_of(links, 60000), 12.5e6 * 1.13);
    ck_assert_uint_gt(only(links, 60000).confidence, 70);
    ck_assert_uint_lt(only(links, 60000).low, only(links, 60000).rate);
    links_free(links);
}
END_TEST

START_TEST(one_outlier_moves_nothing_and_a_real_change_is_followed)
{
    struct links *links = links_new();
    for (int i = 0; i < 20; i++)
        give(links, i, &peer, 1000000, 100000); /* 10 MB/s */
    double before = rate_of(links, 20);
    give(links, 21, &peer, 1000000, 1000000); /* 1 MB/s, once */
    ck_assert_double_eq(rate_of(links, 21), before);
    give(links, 22, &peer, 1000000, 100000);
    give(links, 22, &peer, 1000000, 100); /* a clump, once */
    ck_assert_double_eq(rate_of(links, 22), before);
    for (int i = 0; i < 2; i++)
        give(links, 23 + i, &peer, 1000000, 1000000);
    ck_assert_double_lt(rate_of(links, 40), 1.1e6);
    give(links, 50, &peer, 1000000, 10000);
    give(links, 50, &peer, 1000000, 10000);
    ck_assert_double_gt(rate_of(links, 50), 9e7);
    links_free(links);
}
END_TEST

START_TEST(what_others_disturb_shows_in_the_low_rate_alone)
{
    /* Two senders share the link half of the time. */
    struct links *links = links_new();
    for (int i = 0; i < 40; i++)
        give(links, i, &peer, 1000000, i % 2 ? 100000 : 190000);
    ck_assert_uint_eq(only(links, 40).rate, rate_encode(10000000));
    ck_assert_uint_eq(only(links, 40).low, rate_encode(1000000000000 / 190000));
    links_free(links);
}
END_TEST

START_TEST(a_probe_outweighs_what_came_by)
{
    struct links *links = links_new();
    for (int i = 0; i < 8; i++)
        give(links, i, &peer, 1000000, 150000);
    give_probe(links, 9, 1000000, 100000);
    ck_assert_uint_eq(only(links, 9).rate, rate_encode(1000000000000 / 150000));
    give_probe(links, 10, 1000000, 100000);
    ck_assert_uint_eq(only(links, 10).rate, rate_encode(10000000));
    ck_assert_int_eq(only(links, 10).method, LINK_PROBE);
    ck_assert_uint_ge(only(links, 10).confidence, LINK_CONFIDENT);
    links_free(links);
}
END_TEST

START_TEST(a_lower_bound_counts_while_there_is_nothing_better)
{
    struct links *links = links_new();
    give_limited(links, 0, 1000000, 1000000);
    ck_assert_double_lt(rate_of(links, 1), 1.1e6);
    ck_assert_uint_lt(only(links, 1).confidence, LINK_CONFIDENT);
    give_limited(links, 1, 1000000, 2000000); /* lower: says nothing */
    ck_assert_double_gt(rate_of(links, 1), 0.9e6);
    for (int i = 0; i < 5; i++)
        give(links, 2, &peer, 1000000, 100000);
    double before = rate_of(links, 2);
    ck_assert_double_gt(before, 9e6);
    for (int i = 0; i < 50; i++) {
        give_limited(links, 60000, 1000000, 1000000);
        give_limited(links, 60000, 1000000, 10);
    }
    ck_assert_double_eq(rate_of(links, 60000), before);
    ck_assert_uint_eq(only(links, 60000).age_s, 0); /* confirmed */
    give_limited(links, 60000 + 11 * MINUTE_MS, 1000000, 50000);
    ck_assert_double_gt(rate_of(links, 60000 + 11 * MINUTE_MS), 1.5e7);
    links_free(links);
}
END_TEST

START_TEST(samples_that_tell_nothing_are_dropped)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    give(links, 0, &peer, 100, 10);
    give(links, 0, &peer, 1 << 20, 0);
    give(links, 0, &peer, -5, 10);
    links_round_trip(links, 0, &peer, 0);
    ck_assert_uint_eq(links_fill(links, 0, out), 0);
    ck_assert(!links_find(links, 0, &peer, out));
    give(links, 0, &peer, INT64_MAX, 1); /* no overflow */
    ck_assert_uint_eq(links_fill(links, 0, out), 1);
    ck_assert(links_find(links, 0, &peer, out));
    links_free(links);
}
END_TEST

START_TEST(confidence_halves_every_half_hour_and_after_a_probe_every_six)
{
    struct links *links = links_new();
    for (int i = 0; i < 20; i++)
        give(links, 1000, &peer, 1000000, 100000);
    uint8_t now = only(links, 1000).confidence;
    uint8_t later = only(links, 1000 + 30 * MINUTE_MS).confidence;
    ck_assert_int_le(abs(now / 2 - later), 1);
    ck_assert_int_le(abs(now / 4 - only(links, 1000 + 60 * MINUTE_MS).confidence), 1);
    ck_assert_uint_eq(only(links, 1000 + 100000 * MINUTE_MS).confidence, 0);
    give_probe(links, 1000, 1000000, 100000);
    now = only(links, 1000).confidence;
    ck_assert_int_le(abs(now / 2 - only(links, 1000 + 360 * MINUTE_MS).confidence), 1);
    links_free(links);
}
END_TEST

START_TEST(samples_far_apart_inspire_less_confidence)
{
    struct links *even = links_new(), *uneven = links_new();
    for (int i = 0; i < 8; i++) {
        give(even, 0, &peer, 1000000, 100000);
        give(uneven, 0, &peer, 1000000, i % 2 ? 75000 : 125000);
    }
    ck_assert_uint_gt(only(even, 0).confidence, only(uneven, 0).confidence + 15);
    links_free(even);
    links_free(uneven);
}
END_TEST

START_TEST(the_curve_is_smoothed_point_by_point)
{
    struct links *links = links_new();
    struct link_sample sample = {
        .bytes = 1 << 20, .us = 100000, .curve = {0, 5000000, 0, 0}};
    links_sample(links, 0, &peer, &sample);
    ck_assert_uint_eq(only(links, 0).curve[0], 0);
    ck_assert_uint_eq(only(links, 0).curve[1], rate_encode(5000000));
    for (int i = 0; i < 20; i++) {
        sample.curve[1] = 10000000;
        sample.curve[3] = 20000000;
        links_sample(links, 0, &peer, &sample);
    }
    ck_assert_int_le(abs(only(links, 0).curve[1] - rate_encode(10000000)), 1);
    ck_assert_uint_eq(only(links, 0).curve[3], rate_encode(20000000));
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
    ck_assert(!links_changed(links, 0));
    give(links, 0, &peer, 1000000, 100000);
    ck_assert(links_changed(links, 0));
    only(links, 0);
    ck_assert(!links_changed(links, 0));
    for (int i = 0; i < 10; i++)
        give(links, 1, &peer, 1000000, 115000);
    ck_assert(!links_changed(links, 1000)); /* a little: not at once */
    ck_assert(links_changed(links, 5000));
    only(links, 5000);
    for (int i = 0; i < 10; i++)
        give(links, 5001, &peer, 1000000, 119000);
    ck_assert(!links_changed(links, 60000)); /* less than a step's worth */
    for (int i = 0; i < 10; i++)
        give(links, 60000, &peer, 1000000, 170000);
    ck_assert(links_changed(links, 60000)); /* by a third */
    only(links, 60000);
    links_round_trip(links, 60000, &peer, 400);
    ck_assert(links_changed(links, 60000)); /* appeared */
    only(links, 60000);
    links_round_trip(links, 60001, &peer, 100);
    ck_assert(!links_changed(links, 60001)); /* below a millisecond: chance */
    only(links, 60001);
    ck_assert(!links_changed(links, 60000 + 9 * MINUTE_MS));
    ck_assert(links_changed(links, 60000 + 11 * MINUTE_MS)); /* told as fresh */
    only(links, 60000 + 11 * MINUTE_MS);
    ck_assert(!links_changed(links, 60000 + 12 * MINUTE_MS));
    /* A plan may not rest on it any more. */
    ck_assert(links_changed(links, 60000 + 40 * MINUTE_MS));
    only(links, 60000 + 40 * MINUTE_MS);
    give_probe(links, 60000 + 40 * MINUTE_MS, 1000000, 170000);
    ck_assert(links_changed(links, 60000 + 41 * MINUTE_MS)); /* by another method */
    links_free(links);
}
END_TEST

START_TEST(the_freshest_links_are_told_in_ascending_order)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    for (int i = 0; i < 200; i++) {
        struct id id = {{(uint8_t)(i * 37), (uint8_t)i}};
        give(links, 1000 + i, &id, 1000000, 1000L * (i + 1));
    }
    ck_assert_uint_eq(links_fill(links, 2000, out), RECORD_LINKS_MAX);
    for (int i = 0; i < RECORD_LINKS_MAX; i++) {
        ck_assert_uint_ge(out[i].peer.bytes[1], 200 - RECORD_LINKS_MAX);
        if (i > 0)
            ck_assert_int_lt(id_compare(&out[i - 1].peer, &out[i].peer), 0);
    }
    ck_assert(!links_changed(links, 2000)); /* those left out do not cry for ever */
    links_free(links);
}
END_TEST

START_TEST(a_forgotten_link_is_gone)
{
    struct links *links = links_new();
    struct record_link out[RECORD_LINKS_MAX];
    struct id other = {{6}};
    give(links, 0, &peer, 1000000, 100000);
    give(links, 0, &other, 1000000, 100000);
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
        give(links, i, &id, 1000000, 100000);
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
    tcase_add_test(tests, one_outlier_moves_nothing_and_a_real_change_is_followed);
    tcase_add_test(tests, what_others_disturb_shows_in_the_low_rate_alone);
    tcase_add_test(tests, a_probe_outweighs_what_came_by);
    tcase_add_test(tests, a_lower_bound_counts_while_there_is_nothing_better);
    tcase_add_test(tests, samples_that_tell_nothing_are_dropped);
    tcase_add_test(tests, confidence_halves_every_half_hour_and_after_a_probe_every_six);
    tcase_add_test(tests, samples_far_apart_inspire_less_confidence);
    tcase_add_test(tests, the_curve_is_smoothed_point_by_point);
    tcase_add_test(tests, the_round_trip_is_the_smallest_of_lately);
    tcase_add_test(tests, a_change_shows_until_it_is_told);
    tcase_add_test(tests, the_freshest_links_are_told_in_ascending_order);
    tcase_add_test(tests, a_forgotten_link_is_gone);
    tcase_add_test(tests, links_without_end_stay_bounded);
    return suite;
}
