#include "tests/suite.h"
#include "transport/score.h"

Suite *suite_score(void);

START_TEST(a_rate_is_kept_to_and_a_burst_is_allowed)
{
    struct score score;
    score_init(&score, &score_words, 1000);
    int64_t taken = 0;
    while (score_take(&score, 1000, 100))
        taken++;
    ck_assert_int_eq(taken, score_words.frames_burst);
    ck_assert_uint_eq(score.over, 1);
    for (int64_t now = 1001; now <= 3000; now++)
        taken += score_take(&score, now, 100);
    ck_assert_int_eq(taken, score_words.frames_burst + 2 * score_words.frames_per_s);
}
END_TEST

START_TEST(bytes_have_a_rate_of_their_own)
{
    struct score score;
    score_init(&score, &score_words, 0);
    int64_t taken = 0;
    while (score_take(&score, 0, 3 << 20))
        taken++;
    /* The last one goes into debt. */
    ck_assert_int_eq(taken, (score_words.bytes_burst + (3 << 20) - 1) / (3 << 20));
    ck_assert(!score_take(&score, 100, 1));
    ck_assert(score_take(&score, 3000, 1));
}
END_TEST

START_TEST(what_a_node_of_a_thousand_says_to_one_peer_is_far_below_the_rates)
{
    struct score score;
    score_init(&score, &score_words, 0);
    /* A leader to a voter: beats, a freeze repeated, a decree of the largest size proposed
     * again and again, and committed; gossip between them all the while. */
    for (int64_t now = 0; now < 10000; now += 50) {
        if (now % 400 == 0)
            ck_assert(score_take(&score, now, 400));
        if (now % 250 == 0)
            ck_assert(score_take(&score, now, 64 << 10));
        if (now % 1000 == 0 && now < 8000)
            ck_assert(score_take(&score, now, 3 << 20));
        ck_assert(score_take(&score, now, 8000));
    }
    ck_assert_int_eq(score.points, 0);
}
END_TEST

START_TEST(nonsense_prunes_for_a_minute_and_then_is_forgiven)
{
    struct score score;
    score_init(&score, &score_words, 0);
    for (int i = 0; i < SCORE_POINTS_MAX / SCORE_NONSENSE - 1; i++)
        score_blame(&score, 10, SCORE_NONSENSE);
    ck_assert(!score_prune(&score, 10));
    score_blame(&score, 10, SCORE_NONSENSE);
    ck_assert(score_prune(&score, 10));
    ck_assert(!score_prune(&score, 10)); /* said once */
    ck_assert(score_pruned(&score, 10));
    ck_assert(score_pruned(&score, 9 + SCORE_PRUNED_MS));
    ck_assert(!score_pruned(&score, 10 + SCORE_PRUNED_MS));
    ck_assert(!score_prune(&score, 10 + SCORE_PRUNED_MS));
}
END_TEST

START_TEST(points_fade)
{
    struct score score;
    score_init(&score, &score_words, 0);
    for (int64_t now = 0; now < 2000000; now += SCORE_NONSENSE * SCORE_FADE_MS) {
        score_blame(&score, now, SCORE_NONSENSE);
        ck_assert(!score_prune(&score, now));
    }
    ck_assert_int_le(score.points, SCORE_NONSENSE);
}
END_TEST

Suite *
suite_score(void)
{
    Suite *suite = suite_create("score");
    TCase *tests = suite_case(suite, "score", 10);
    tcase_add_test(tests, a_rate_is_kept_to_and_a_burst_is_allowed);
    tcase_add_test(tests, bytes_have_a_rate_of_their_own);
    tcase_add_test(tests,
                   what_a_node_of_a_thousand_says_to_one_peer_is_far_below_the_rates);
    tcase_add_test(tests, nonsense_prunes_for_a_minute_and_then_is_forgiven);
    tcase_add_test(tests, points_fade);
    return suite;
}
