#include "node/severed.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_severed(void);

static struct severed *severed;
static const struct id leader = {{1}}, submitter = {{2}}, third = {{3}}, fourth = {{4}};

static void
setup(void)
{
    severed = severed_new();
}

static void
teardown(void)
{
    severed_free(severed);
}

static const struct id *
broke(int64_t now_ms, uint64_t epoch, const struct id *a, const struct id *b)
{
    return severed_broke(severed, now_ms, epoch, false, &leader, &submitter, a, b);
}

START_TEST(a_pair_that_breaks_once_is_mended_by_an_epoch)
{
    ck_assert_ptr_null(broke(0, 5, &third, &fourth));
    ck_assert_ptr_null(broke(10, 5, &fourth, &third)); /* both ends say so */
    ck_assert(!severed_rests(severed, 20, &third));
    ck_assert(!severed_rests(severed, 20, &fourth));
    ck_assert_ptr_null(broke(60000, 50, &third, &fourth)); /* much later: again once */
}
END_TEST

START_TEST(one_of_a_pair_that_breaks_again_rests)
{
    broke(0, 5, &third, &fourth);
    const struct id *rests = broke(2000, 6, &third, &fourth);
    ck_assert_ptr_nonnull(rests);
    ck_assert(id_equal(rests, &fourth));
    ck_assert(severed_rests(severed, 2001, &fourth));
    ck_assert(!severed_rests(severed, 2001, &third));
    /* The other end's word of the same epoch, and words while it rests, change nothing. */
    ck_assert_ptr_null(broke(2001, 6, &fourth, &third));
    ck_assert_ptr_null(broke(4000, 7, &fourth, &third));
    ck_assert(!severed_rests(severed, 4001, &third));
}
END_TEST

START_TEST(neither_the_leader_nor_the_submitter_rests_if_the_other_can)
{
    broke(0, 5, &fourth, &leader);
    ck_assert(id_equal(broke(2000, 6, &leader, &fourth), &fourth));
    broke(0, 5, &submitter, &third);
    ck_assert(id_equal(broke(2000, 6, &submitter, &third), &third));
    severed_free(severed);
    severed = severed_new();
    broke(0, 5, &submitter, &leader);
    ck_assert(id_equal(broke(2000, 6, &submitter, &leader), &submitter));
}
END_TEST

START_TEST(who_is_named_by_more_pairs_rests)
{
    static const struct id fifth = {{5}};
    broke(0, 5, &third, &fourth);
    broke(0, 5, &third, &fifth);
    ck_assert(id_equal(broke(2000, 6, &third, &fourth), &third));
}
END_TEST

START_TEST(a_connection_that_worked_in_between_breaks_anew)
{
    for (uint64_t epoch = 5; epoch < 15; epoch++)
        ck_assert_ptr_null(severed_broke(severed, (int64_t)epoch * 1000, epoch, true,
                                         &leader, &submitter, &third, &fourth));
}
END_TEST

START_TEST(a_rest_ends_once_and_the_next_is_twice_as_long)
{
    int64_t now = 2000, length = SEVERED_REST_MS_MIN;
    uint64_t epoch = 5;
    broke(now, epoch++, &third, &fourth);
    for (int i = 0; i < 8; i++) {
        ck_assert_ptr_nonnull(broke(now, epoch++, &third, &fourth));
        ck_assert_int_eq(severed_rest_ms(severed, &fourth), length);
        ck_assert(!severed_over(severed, now + length - 1));
        ck_assert(severed_rests(severed, now + length - 1, &fourth));
        now += length;
        ck_assert(!severed_rests(severed, now, &fourth));
        ck_assert(severed_over(severed, now));
        ck_assert(!severed_over(severed, now));
        length = length * 2 < SEVERED_REST_MS_MAX ? length * 2 : SEVERED_REST_MS_MAX;
    }
    /* Long after: as at first. */
    now += 3 * (int64_t)SEVERED_REST_MS_MAX;
    ck_assert_ptr_nonnull(broke(now, epoch++, &third, &fourth));
    ck_assert_int_eq(severed_rest_ms(severed, &fourth), SEVERED_REST_MS_MIN);
}
END_TEST

START_TEST(a_member_that_went_is_forgotten)
{
    struct decree_member members[] = {{.id = leader}, {.id = submitter}, {.id = third}};
    struct decree decree = {.members = members, .members_count = 3};
    broke(0, 5, &third, &fourth);
    broke(0, 5, &submitter, &third);
    severed_epoch(severed, &decree);
    ck_assert_ptr_null(broke(2000, 6, &third, &fourth));
    ck_assert(id_equal(broke(2000, 6, &submitter, &third), &third));
}
END_TEST

START_TEST(more_pairs_than_there_is_room_for_do_no_harm)
{
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 40; i++)
            for (int j = 0; j < i; j++) {
                struct id a = {{10, (uint8_t)i}}, b = {{10, (uint8_t)j}};
                broke(round * 1000, (uint64_t)(round + 5), &a, &b);
            }
    ck_assert(!severed_rests(severed, 3000, &leader));
}
END_TEST

Suite *
suite_severed(void)
{
    Suite *suite = suite_create("severed");
    TCase *tests = suite_case(suite, "severed", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_pair_that_breaks_once_is_mended_by_an_epoch);
    tcase_add_test(tests, one_of_a_pair_that_breaks_again_rests);
    tcase_add_test(tests, neither_the_leader_nor_the_submitter_rests_if_the_other_can);
    tcase_add_test(tests, who_is_named_by_more_pairs_rests);
    tcase_add_test(tests, a_connection_that_worked_in_between_breaks_anew);
    tcase_add_test(tests, a_rest_ends_once_and_the_next_is_twice_as_long);
    tcase_add_test(tests, a_member_that_went_is_forgotten);
    tcase_add_test(tests, more_pairs_than_there_is_room_for_do_no_harm);
    return suite;
}
