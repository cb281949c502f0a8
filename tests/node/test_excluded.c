#include "node/excluded.h"
#include "tests/suite.h"

Suite *suite_excluded(void);

static struct id
id_at(unsigned at)
{
    struct id id = {{0}};
    id.bytes[0] = (uint8_t)(at >> 8);
    id.bytes[1] = (uint8_t)at;
    id.bytes[31] = 1;
    return id;
}

START_TEST(who_does_not_report_is_left_out_twice_as_long_each_time_up_to_a_minute)
{
    struct excluded *excluded = excluded_new();
    struct id deaf = id_at(1), other = id_at(2);
    int64_t now = 1000, rest = EXCLUDED_MS_MIN, sum = 0;
    for (int i = 0; i < 12; i++) {
        ck_assert(!excluded_is(excluded, now, &deaf));
        ck_assert_int_eq(excluded_add(excluded, now, &deaf), rest);
        ck_assert(excluded_is(excluded, now + rest - 1, &deaf));
        ck_assert(!excluded_is(excluded, now + rest, &deaf));
        ck_assert(!excluded_is(excluded, now, &other));
        now += rest;
        sum += rest;
        rest = 2 * rest < EXCLUDED_MS_MAX ? 2 * rest : EXCLUDED_MS_MAX;
    }
    /* In seven minutes everybody is halted for it a dozen times, not 140. */
    ck_assert_int_gt(sum, 420 * 1000);
    excluded_free(excluded);
}
END_TEST

START_TEST(a_report_in_time_wipes_out_what_was_before)
{
    struct excluded *excluded = excluded_new();
    struct id id = id_at(1);
    excluded_add(excluded, 0, &id);
    ck_assert_int_eq(excluded_add(excluded, 0, &id), 2 * EXCLUDED_MS_MIN);
    excluded_heard(excluded, &id);
    ck_assert(!excluded_is(excluded, 1, &id));
    ck_assert_int_eq(excluded_add(excluded, 10, &id), EXCLUDED_MS_MIN);
    excluded_free(excluded);
}
END_TEST

START_TEST(of_too_many_the_one_that_ends_first_is_forgotten)
{
    struct excluded *excluded = excluded_new();
    for (unsigned i = 0; i < 1000; i++) {
        struct id id = id_at(i);
        excluded_add(excluded, i, &id);
    }
    struct id last = id_at(999), first = id_at(0);
    ck_assert(excluded_is(excluded, 1000, &last));
    ck_assert(!excluded_is(excluded, 1000, &first));
    excluded_free(excluded);
}
END_TEST

Suite *
suite_excluded(void)
{
    Suite *suite = suite_create("excluded");
    TCase *t = suite_case(suite, "excluded", 30);
    tcase_add_test(
        t, who_does_not_report_is_left_out_twice_as_long_each_time_up_to_a_minute);
    tcase_add_test(t, a_report_in_time_wipes_out_what_was_before);
    tcase_add_test(t, of_too_many_the_one_that_ends_first_is_forgotten);
    return suite;
}
