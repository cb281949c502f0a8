#include "tests/suite.h"
#include "transport/base/limits.h"
#include "transport/base/rng.h"
#include "transport/bulk_probe.h"
#include "transport/bulk_rate.h"

Suite *suite_bulk_rate(void);

enum { KIB = 1 << 10, CHUNK = 64 << 10 };

static struct rate rate;
static struct rate_sample sample;
static int64_t now_us;

static void
begin(void)
{
    rate = (struct rate){0};
    now_us = 1000000;
}

static double
per_us(void)
{
    return (double)sample.bytes / (double)sample.us;
}

/* A chunk after `us`; is it a sample? */
static bool
chunk(int64_t bytes, bool follows, int64_t us)
{
    now_us += us;
    return rate_arrived(&rate, bytes, follows, now_us, &sample);
}

START_TEST(short_bursts_add_up_to_a_sample)
{
    begin();
    int bursts = 0;
    for (bool told = false; !told; bursts++) {
        /* Computing meanwhile: a lower bound at most. */
        ck_assert(!chunk(CHUNK, false, 400000) || sample.limited);
        for (int i = 0; i < 3 && !told; i++)
            told = chunk(CHUNK, true, 5243) && !sample.limited; /* 12.5 MB/s */
    }
    ck_assert_int_eq(bursts, 4); /* 50 ms */
    ck_assert(!sample.limited && !sample.probe);
    ck_assert_double_eq_tol(per_us(), 12.5, 0.01);
}
END_TEST

START_TEST(a_late_look_at_the_socket_does_not_make_the_link_fast)
{
    /* Of 10 ms chunks four in a row are found at once, again and again. */
    begin();
    int64_t bytes = 0, us = 0;
    chunk(CHUNK, false, 0);
    for (int i = 1; i < 400; i++)
        if (chunk(CHUNK, true, i % 4 ? 0 : 40000)) {
            bytes += sample.bytes;
            us += sample.us;
            ck_assert_double_lt(per_us(), CHUNK / 10000.0 * 1.5);
        }
    ck_assert_double_eq_tol((double)bytes / (double)us, CHUNK / 10000.0, 0.3);
}
END_TEST

START_TEST(small_chunks_count_between_large_ones_alone)
{
    begin();
    for (int i = 0; i < 5000; i++) /* 5 MB/s, if it were the link's doing */
        ck_assert(!chunk(100, i > 0, 20) || sample.limited);
    bool told = false;
    chunk(CHUNK, false, 5000);
    for (int i = 0; i < 100 && !told; i++)
        told = (chunk(6250, true, 500) || chunk(CHUNK - 6250, true, 4743)) &&
               !sample.limited;
    ck_assert(told);
    ck_assert_double_eq_tol(per_us(), 12.5, 0.01);
}
END_TEST

START_TEST(what_came_one_by_one_is_a_lower_bound)
{
    begin();
    bool told = false;
    for (int i = 0; i < 40 && !told; i++)
        told = chunk(CHUNK, false, 20000);
    ck_assert(told && sample.limited);
    ck_assert_double_eq_tol(per_us(), CHUNK / 20000.0, 0.4);
    /* A pause is no time of the link's. */
    begin();
    for (int i = 0; i < 40; i++)
        ck_assert(!chunk(CHUNK, false, 1500000));
}
END_TEST

static bool
probe_chunk(uint64_t tag, bool follows, bool last, int64_t us, bool *enough)
{
    now_us += us;
    return rate_probed(&rate,
                       &(struct rate_probe_chunk){
                           .tag = tag, .bytes = CHUNK, .follows = follows, .last = last},
                       now_us, enough, &sample);
}

START_TEST(a_probe_is_enough_when_six_windows_agree)
{
    begin();
    bool enough = false, told = false;
    int chunks = 0;
    for (int i = 0; i < 10; i++) /* finding its pace */
        ck_assert(!probe_chunk(1, false, false, 20000, &enough));
    for (; !enough && chunks < 1000; chunks++)
        told = probe_chunk(1, true, false, 5243, &enough);
    ck_assert(told && sample.probe && !sample.limited);
    ck_assert_double_eq_tol(per_us(), 12.5, 0.01);
    ck_assert_int_eq(chunks, 5 + 6 * 5); /* of 25 ms, the first to settle */
    /* What was under way still comes and says nothing more. */
    ck_assert(!probe_chunk(1, true, false, 5243, &enough));
    ck_assert(!probe_chunk(1, true, true, 5243, &enough));
    /* The next one is another. */
    ck_assert(!probe_chunk(2, false, false, 5243, &enough));
    ck_assert(!enough);
    for (int i = 0; i < 8; i++)
        told = probe_chunk(2, true, i == 7, 10486, &enough);
    ck_assert(told && enough);
    ck_assert_double_eq_tol(per_us(), 6.25, 0.01);
}
END_TEST

START_TEST(what_lay_in_the_socket_before_a_probe_makes_it_no_faster)
{
    begin();
    bool enough = false, told = false;
    probe_chunk(1, false, false, 0, &enough);
    for (int i = 0; i < 60; i++) /* 60 ms of the link at once */
        probe_chunk(1, true, false, 20, &enough);
    while (!told)
        told = probe_chunk(1, true, false, 1000, &enough);
    ck_assert_double_eq_tol(per_us(), CHUNK / 1000.0, 0.5);
}
END_TEST

START_TEST(a_probe_that_never_settles_ends_with_its_last_chunk)
{
    begin();
    bool enough = false;
    int64_t us = 1000;
    for (int i = 0; i < 300; i++, us = us * 103 / 100 + 1)
        ck_assert(!probe_chunk(1, i > 0, false, us, &enough) && !enough);
    ck_assert(probe_chunk(1, true, true, us, &enough));
    ck_assert(sample.probe && !sample.limited);
}
END_TEST

START_TEST(a_probe_gives_points_of_the_curve_when_it_begins_at_the_links_pace)
{
    for (uint64_t tag = 2; tag <= 3; tag++) {
        bool enough = false, told = false;
        begin();
        for (int i = 0; !told; i++)
            told = probe_chunk(tag, i > 0, i == 20, 5243, &enough);
        ck_assert(tag == 2 ? sample.curve[1] == 0
                           : sample.curve[1] == (int64_t)CHUNK * 1000000 / 5243);
    }
}
END_TEST

START_TEST(a_message_gives_points_of_the_curve)
{
    begin();
    rate_message(&rate, CHUNK, CHUNK, 2 * CHUNK, 5000); /* 64 KiB was passed before */
    rate_message(&rate, CHUNK, 960 * KIB, 1024 * KIB, 98304);
    for (int i = 0; !chunk(CHUNK, i > 0, 10000); i++)
        ck_assert_int_lt(i, 100);
    ck_assert_int_eq(sample.curve[0], 0);
    ck_assert_int_eq(sample.curve[1], (int64_t)960 * KIB * 1000000 / 98304);
    ck_assert_int_eq(sample.curve[2], 0);
    for (int i = 0; !chunk(CHUNK, true, 10000); i++)
        ck_assert_int_lt(i, 100);
    ck_assert_int_eq(sample.curve[1], 0); /* told once */
}
END_TEST

/* ---- the sender ---- */

/* A probe over a link of `bytes_per_us` and a round trip, with jitter: how much it keeps
 * on the way at most, and the share of its chunks that follow. */
struct course {
    uint64_t sent, most_flight, follows, chunks;
    int64_t us;
};

static struct course
run_probe(double bytes_per_us, int64_t round_trip_us, uint64_t bytes_max,
          int64_t thought_per_s, uint64_t jitter_us)
{
    enum { FLIGHT = 4096 };
    static struct {
        uint64_t upto;
        int64_t at_us;
    } flight[FLIGHT];
    struct rng rng = {.seed = 11};
    struct probe probe;
    struct course course = {0};
    uint64_t acked = 0, first = 0, last = 0;
    double free_us = 0;
    int64_t now = 1;
    probe_begin(&probe, bytes_max, thought_per_s, now);
    while (probe.active) {
        struct probe_chunk next;
        while (probe_next(&probe, course.sent - acked, now, &next)) {
            course.sent += next.bytes;
            course.chunks++;
            course.follows += next.follows;
            free_us = (free_us > (double)now ? free_us : (double)now) +
                      (double)next.bytes / bytes_per_us;
            flight[last % FLIGHT].upto = course.sent;
            flight[last++ % FLIGHT].at_us = (int64_t)free_us + round_trip_us +
                                            (int64_t)rng_below(&rng, jitter_us + 1);
            ck_assert_uint_lt(last - first, FLIGHT);
            if (course.sent - acked > course.most_flight)
                course.most_flight = course.sent - acked;
            if (probe_sent(&probe, &next, course.sent, now))
                break;
        }
        if (!probe.active)
            break;
        ck_assert_uint_lt(first, last);
        now = flight[first % FLIGHT].at_us > now ? flight[first % FLIGHT].at_us : now;
        uint64_t news = flight[first % FLIGHT].upto - acked;
        acked = flight[first++ % FLIGHT].upto;
        probe_credited(&probe, acked, news, false, now);
    }
    course.us = now;
    return course;
}

START_TEST(a_probe_fills_the_link_and_hardly_more)
{
    static const struct {
        double bytes_per_us;
        int64_t round_trip_us;
    } links[] = {{0.125, 200}, {1.25, 40000}, {12.5, 200}, {12.5, 40000}, {125, 10000}};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct course course =
            run_probe(links[i].bytes_per_us, links[i].round_trip_us, 64 << 20, 0, 2000);
        double full = links[i].bytes_per_us * (double)links[i].round_trip_us;
        ck_assert_double_gt((double)course.most_flight, full);
        /* Twice what the path holds, 80 ms of the rate, and a few small chunks. */
        ck_assert_double_lt((double)course.most_flight,
                            2 * full + links[i].bytes_per_us * 80000 + (160 << 10));
        ck_assert_uint_ge(course.follows, 8);
        ck_assert_int_lt(course.us, 3500000);
    }
}
END_TEST

START_TEST(a_probe_keeps_to_its_bytes_and_its_window)
{
    struct course course = run_probe(12.5, 20000, 300001, 0, 0);
    ck_assert_uint_eq(course.sent, 300001);
    course = run_probe(2000, 100000, 64 << 20, 0, 0);
    ck_assert_uint_le(course.most_flight, BULK_WINDOW_BYTES);
    ck_assert_uint_le(course.sent, 64 << 20);
}
END_TEST

START_TEST(what_is_thought_of_the_link_saves_round_trips)
{
    struct course unknown = run_probe(125, 40000, 16 << 20, 0, 0);
    struct course known = run_probe(125, 40000, 16 << 20, 125000000, 0);
    ck_assert_int_lt(known.us, unknown.us - 100000);
}
END_TEST

Suite *
suite_bulk_rate(void)
{
    Suite *suite = suite_create("bulk_rate");
    TCase *tests = suite_case(suite, "bulk_rate", 30);
    tcase_add_test(tests, short_bursts_add_up_to_a_sample);
    tcase_add_test(tests, a_late_look_at_the_socket_does_not_make_the_link_fast);
    tcase_add_test(tests, small_chunks_count_between_large_ones_alone);
    tcase_add_test(tests, what_came_one_by_one_is_a_lower_bound);
    tcase_add_test(tests, a_probe_is_enough_when_six_windows_agree);
    tcase_add_test(tests, what_lay_in_the_socket_before_a_probe_makes_it_no_faster);
    tcase_add_test(tests, a_probe_that_never_settles_ends_with_its_last_chunk);
    tcase_add_test(tests,
                   a_probe_gives_points_of_the_curve_when_it_begins_at_the_links_pace);
    tcase_add_test(tests, a_message_gives_points_of_the_curve);
    tcase_add_test(tests, a_probe_fills_the_link_and_hardly_more);
    tcase_add_test(tests, a_probe_keeps_to_its_bytes_and_its_window);
    tcase_add_test(tests, what_is_thought_of_the_link_saves_round_trips);
    return suite;
}
