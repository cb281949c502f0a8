#include "node/watch.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_watch(void);

static const struct id a = {{1}}, b = {{2}}, c = {{3}};
static struct watch *watch;

static void
setup(void)
{
    watch = watch_new();
    watch_set(watch, 1000, (const struct id[]){b, a}, 2);
}

static void
teardown(void)
{
    watch_free(watch);
}

/* A member that speaks every `every` ms; returns when it spoke last. */
static int64_t
speak(const struct id *id, int64_t from, int64_t every, int times)
{
    for (int i = 1; i <= times; i++)
        watch_heard(watch, from + i * every, id);
    return from + times * every;
}

/* The first moment at which a member counts as gone. */
static int64_t
gone_at(const struct id *id, int64_t from)
{
    int64_t now = from;
    while (watch_gone(watch, now, id) == WATCH_HERE && now < from + 60000)
        now++;
    return now;
}

START_TEST(reasons_have_names)
{
    ck_assert_str_eq(watch_reason_name(WATCH_HERE), "here");
    ck_assert_str_eq(watch_reason_name(WATCH_REFUSED), "refused");
    ck_assert_str_eq(watch_reason_name(WATCH_TOLD), "told");
    ck_assert_str_eq(watch_reason_name(WATCH_SILENT), "silent");
}
END_TEST

START_TEST(who_is_not_watched_is_never_gone)
{
    watch_heard(watch, 1, &c);
    watch_up(watch, 1, &c);
    watch_down(watch, 1, &c);
    watch_refused(watch, 1, &c);
    watch_refused(watch, 2, &c);
    watch_told(watch, 1, &c);
    ck_assert_int_eq(watch_gone(watch, 1 << 30, &c), WATCH_HERE);
    ck_assert(!watch_is_up(watch, &c));
    ck_assert_int_eq(watch_heard_ms(watch, &c), 0);
    watch_set(watch, 5000, NULL, 0);
    ck_assert_int_eq(watch_gone(watch, 1 << 30, &a), WATCH_HERE);
}
END_TEST

START_TEST(a_deadline_follows_the_rhythm_that_was_measured)
{
    int64_t unknown = watch_deadline_ms(watch, &a);
    ck_assert_int_eq(unknown, 2L * WATCH_DEADLINE_MIN_MS);
    int64_t now = speak(&a, 1000, 100, 40);
    ck_assert_int_eq(watch_deadline_ms(watch, &a), WATCH_DEADLINE_MIN_MS);
    ck_assert_int_eq(gone_at(&a, now), now + WATCH_DEADLINE_MIN_MS);
    ck_assert_int_eq(watch_gone(watch, now + WATCH_DEADLINE_MIN_MS, &a), WATCH_SILENT);
    now = speak(&a, now, 800, 40);
    int64_t slow = watch_deadline_ms(watch, &a);
    ck_assert(slow > WATCH_DEADLINE_MIN_MS && slow < WATCH_DEADLINE_MAX_MS);
    ck_assert_int_eq(gone_at(&a, now), now + slow);
    speak(&a, now, 9000, 40);
    ck_assert_int_eq(watch_deadline_ms(watch, &a), WATCH_DEADLINE_MAX_MS);
    /* Another member's rhythm is its own. */
    ck_assert_int_eq(watch_deadline_ms(watch, &b), unknown);
}
END_TEST

START_TEST(an_uneven_rhythm_is_given_more_time)
{
    int64_t now = speak(&a, 1000, 500, 40), even = watch_deadline_ms(watch, &a);
    for (int i = 0; i < 40; i++)
        watch_heard(watch, now += i % 2 ? 200 : 800, &a);
    ck_assert_int_gt(watch_deadline_ms(watch, &a), even);
}
END_TEST

START_TEST(words_in_a_burst_do_not_shorten_the_deadline)
{
    int64_t now = speak(&a, 1000, 800, 20), deadline = watch_deadline_ms(watch, &a);
    for (int i = 0; i < 100; i++)
        watch_heard(watch, now + i % 5, &a);
    ck_assert_int_eq(watch_deadline_ms(watch, &a), deadline);
}
END_TEST

START_TEST(refused_twice_and_for_300_ms_is_gone)
{
    int64_t now = speak(&a, 1000, 100, 20);
    watch_up(watch, now, &a);
    watch_down(watch, now, &a);
    ck_assert(!watch_is_up(watch, &a));
    watch_refused(watch, now + 100, &a);
    ck_assert_int_eq(watch_gone(watch, now + 400, &a), WATCH_HERE);
    watch_refused(watch, now + 200, &a);
    ck_assert_int_eq(watch_gone(watch, now + WATCH_REFUSED_MS - 1, &a), WATCH_HERE);
    ck_assert_int_eq(watch_gone(watch, now + WATCH_REFUSED_MS, &a), WATCH_REFUSED);
}
END_TEST

START_TEST(a_member_that_still_speaks_is_not_refused)
{
    int64_t now = speak(&a, 1000, 100, 20);
    watch_up(watch, now, &a);
    watch_down(watch, now, &a);
    watch_refused(watch, now + 100, &a);
    watch_refused(watch, now + 200, &a);
    watch_heard(watch, now + 290, &a); /* its own connection to us is well */
    ck_assert_int_eq(watch_gone(watch, now + 400, &a), WATCH_HERE);
    ck_assert_int_eq(watch_gone(watch, now + 290 + WATCH_REFUSED_MS, &a), WATCH_REFUSED);
}
END_TEST

START_TEST(a_connection_that_comes_back_forgives)
{
    int64_t now = speak(&a, 1000, 100, 20);
    watch_down(watch, now, &a);
    watch_refused(watch, now + 100, &a);
    watch_refused(watch, now + 200, &a);
    watch_told(watch, now + 200, &a);
    watch_up(watch, now + 250, &a);
    ck_assert(watch_is_up(watch, &a));
    ck_assert_int_eq(watch_gone(watch, now + 900, &a), WATCH_HERE);
    /* And the count begins anew. */
    watch_down(watch, now + 900, &a);
    watch_refused(watch, now + 1000, &a);
    ck_assert_int_eq(watch_gone(watch, now + 1300, &a), WATCH_HERE);
}
END_TEST

START_TEST(what_a_neighbour_says_counts_only_with_our_own_silence)
{
    int64_t now = speak(&a, 1000, 100, 20);
    watch_told(watch, now + 10, &a);
    ck_assert_int_eq(watch_gone(watch, now + WATCH_REFUSED_MS - 1, &a), WATCH_HERE);
    ck_assert_int_eq(watch_gone(watch, now + 2L * WATCH_REFUSED_MS, &a), WATCH_TOLD);
    watch_heard(watch, now + 700, &a);
    ck_assert_int_eq(gone_at(&a, now + 700), now + 700 + WATCH_DEADLINE_MIN_MS);
}
END_TEST

START_TEST(our_own_lateness_is_no_silence_of_others)
{
    int64_t now = speak(&a, 1000, 100, 20);
    int64_t late = now + WATCH_DEADLINE_MIN_MS + 100;
    ck_assert_int_eq(watch_gone(watch, late, &a), WATCH_SILENT);
    watch_late(watch, late, 600);
    ck_assert_int_eq(watch_gone(watch, late, &a), WATCH_HERE);
    ck_assert_int_le(gone_at(&a, late), now + 600 + WATCH_DEADLINE_MIN_MS);
    watch_late(watch, late, 1 << 30); /* never into the future */
    ck_assert_int_eq(watch_heard_ms(watch, &a), late);
}
END_TEST

START_TEST(nobody_is_blamed_for_our_own_sleep)
{
    int64_t now = speak(&a, 1000, 100, 20);
    watch_told(watch, now, &a);
    int64_t woke = now + 20000;
    watch_slept(watch, woke, 19900);
    ck_assert_int_eq(watch_gone(watch, woke, &a), WATCH_HERE);
    ck_assert_int_eq(watch_gone(watch, woke, &b), WATCH_HERE);
    ck_assert_int_le(watch_heard_ms(watch, &a), woke);
    /* But who stays silent afterwards is gone all the same. */
    ck_assert_int_le(gone_at(&a, woke), woke + WATCH_DEADLINE_MIN_MS);
    watch_slept(watch, woke, 1 << 30); /* never into the future */
    ck_assert_int_eq(watch_heard_ms(watch, &a), woke);
}
END_TEST

START_TEST(a_new_set_keeps_the_history_of_who_stays)
{
    int64_t now = speak(&a, 1000, 100, 20);
    speak(&b, 1000, 100, 20);
    watch_up(watch, now, &a);
    watch_set(watch, now + 500, (const struct id[]){c, a}, 2);
    ck_assert(watch_is_up(watch, &a));
    ck_assert_int_eq(watch_heard_ms(watch, &a), now);
    ck_assert_int_eq(watch_deadline_ms(watch, &a), WATCH_DEADLINE_MIN_MS);
    ck_assert_int_eq(watch_heard_ms(watch, &c), now + 500);
    ck_assert_int_eq(watch_heard_ms(watch, &b), 0);
    /* Who comes back begins anew. */
    watch_set(watch, now + 9000, (const struct id[]){a, b}, 2);
    ck_assert_int_eq(watch_deadline_ms(watch, &b), 2L * WATCH_DEADLINE_MIN_MS);
    ck_assert_int_eq(watch_gone(watch, now + 9000, &b), WATCH_HERE);
}
END_TEST

Suite *
suite_watch(void)
{
    Suite *suite = suite_create("watch");
    TCase *tests = suite_case(suite, "watch", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, reasons_have_names);
    tcase_add_test(tests, who_is_not_watched_is_never_gone);
    tcase_add_test(tests, a_deadline_follows_the_rhythm_that_was_measured);
    tcase_add_test(tests, an_uneven_rhythm_is_given_more_time);
    tcase_add_test(tests, words_in_a_burst_do_not_shorten_the_deadline);
    tcase_add_test(tests, refused_twice_and_for_300_ms_is_gone);
    tcase_add_test(tests, a_member_that_still_speaks_is_not_refused);
    tcase_add_test(tests, a_connection_that_comes_back_forgives);
    tcase_add_test(tests, what_a_neighbour_says_counts_only_with_our_own_silence);
    tcase_add_test(tests, our_own_lateness_is_no_silence_of_others);
    tcase_add_test(tests, nobody_is_blamed_for_our_own_sleep);
    tcase_add_test(tests, a_new_set_keeps_the_history_of_who_stays);
    return suite;
}
