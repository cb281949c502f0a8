#include "tests/suite.h"
#include "transport/detour.h"

Suite *suite_detour(void);

static const struct id a = {{1, 1}}, b = {{2, 2}};
static const struct id carriers[] = {{{3, 9}}, {{4, 1}}, {{5, 5}}};
enum { CARRIERS = 3 };

START_TEST(both_ends_ask_the_same_carrier_first)
{
    for (uint8_t seed = 0; seed < 50; seed++) {
        struct id left = {{seed, 1, 7}}, right = {{99, seed, 3}};
        struct detour one = {0}, two = {0};
        const struct id *via = detour_tick(&one, 0, &left, &right, carriers, CARRIERS);
        ck_assert_ptr_nonnull(via);
        ck_assert(id_equal(via, detour_tick(&two, 0, &right, &left, carriers, CARRIERS)));
    }
}
END_TEST

START_TEST(a_carrier_that_does_not_answer_is_followed_by_the_next)
{
    struct detour detour = {0};
    int64_t now = 0;
    unsigned seen = 0;
    for (int i = 0; i < CARRIERS; i++, now += DETOUR_ASK_MS) {
        const struct id *via = detour_tick(&detour, now, &a, &b, carriers, CARRIERS);
        ck_assert_ptr_nonnull(via);
        seen |= 1u << (via->bytes[0] - 3);
        ck_assert_ptr_null(detour_tick(&detour, now + 1, &a, &b, carriers, CARRIERS));
    }
    ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(an_answer_makes_it_a_way_until_it_is_silent_or_lost)
{
    struct detour detour = {0};
    const struct id via = *detour_tick(&detour, 0, &a, &b, carriers, CARRIERS);
    detour_heard(&detour, 10, &via);
    ck_assert_int_eq(detour.state, DETOUR_UP);
    /* Looked after, and its answers keep it up. */
    ck_assert_ptr_nonnull(
        detour_tick(&detour, DETOUR_AGAIN_MS, &a, &b, carriers, CARRIERS));
    detour_heard(&detour, DETOUR_AGAIN_MS + 5, &via);
    ck_assert_ptr_null(
        detour_tick(&detour, DETOUR_AGAIN_MS + 10, &a, &b, carriers, CARRIERS));
    /* The peer speaks by another carrier: ours is not given up for it, nor kept by it. */
    const struct id *other = id_equal(&via, &carriers[0]) ? &carriers[1] : &carriers[0];
    detour_heard(&detour, DETOUR_AGAIN_MS + 20, other);
    ck_assert(id_equal(&detour.via, &via));
    ck_assert_int_eq(detour.heard_ms, DETOUR_AGAIN_MS + 5);
    detour_lost(&detour, other);
    ck_assert_int_eq(detour.state, DETOUR_UP);
    const struct id *next = detour_tick(&detour, DETOUR_AGAIN_MS + 5 + DETOUR_SILENT_MS,
                                        &a, &b, carriers, CARRIERS);
    ck_assert_ptr_nonnull(next);
    ck_assert(!id_equal(next, &via));
    ck_assert_int_eq(detour.state, DETOUR_ASKING);
}
END_TEST

START_TEST(a_peer_that_nobody_reaches_is_asked_for_ever_more_rarely)
{
    struct detour detour = {0};
    int asked[3] = {0};
    const int64_t ends[] = {10000, 60000, 600000};
    int64_t now = 0;
    for (int part = 0; part < 3; part++)
        for (; now < ends[part]; now += 50) {
            const struct id *via = detour_tick(&detour, now, &a, &b, carriers, CARRIERS);
            if (via) {
                asked[part]++;
                detour_lost(&detour, via); /* it says so at once */
            }
        }
    ck_assert_int_ge(asked[0], CARRIERS);
    ck_assert_int_le(asked[0], 4 * CARRIERS);
    ck_assert_int_ge(asked[2], CARRIERS); /* it is never given up */
    ck_assert_int_le(asked[2], 540 / 30 * CARRIERS + CARRIERS);
    /* A word by a carrier makes it as quick as at first. */
    detour_heard(&detour, now, &carriers[0]);
    ck_assert_int_eq(detour.state, DETOUR_UP);
    detour_lost(&detour, &carriers[0]);
    ck_assert_ptr_nonnull(detour_tick(&detour, now, &a, &b, carriers, CARRIERS));
}
END_TEST

START_TEST(a_carrier_that_we_lose_is_no_way)
{
    struct detour detour = {0};
    const struct id via = *detour_tick(&detour, 0, &a, &b, carriers, CARRIERS);
    detour_heard(&detour, 10, &via);
    ck_assert_ptr_null(detour_tick(&detour, 20, &a, &b, NULL, 0));
    ck_assert_int_eq(detour.state, DETOUR_NONE);
}
END_TEST

Suite *
suite_detour(void)
{
    Suite *suite = suite_create("detour");
    TCase *tests = suite_case(suite, "detour", 10);
    tcase_add_test(tests, both_ends_ask_the_same_carrier_first);
    tcase_add_test(tests, a_carrier_that_does_not_answer_is_followed_by_the_next);
    tcase_add_test(tests, an_answer_makes_it_a_way_until_it_is_silent_or_lost);
    tcase_add_test(tests, a_carrier_that_we_lose_is_no_way);
    tcase_add_test(tests, a_peer_that_nobody_reaches_is_asked_for_ever_more_rarely);
    return suite;
}
