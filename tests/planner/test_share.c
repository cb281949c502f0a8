#include "planner/share.h"
#include "tests/suite.h"
#include "transport/base/rng.h"

#include <string.h>

static int64_t
last_end(const int *counts, int n, const int64_t *slowest_ns, const int64_t *others_ns)
{
    int64_t last = 0;
    for (int j = 0; j < n; j++) {
        int64_t end = others_ns[j] + counts[j] * slowest_ns[j];
        last = end > last ? end : last;
    }
    return last;
}

START_TEST(last_pipeline_ends_as_early_as_any_share_lets_it)
{
    struct rng rng = {.seed = suite_seed("last_pipeline", 10)};
    for (int round = 0; round < 500; round++) {
        struct plan plan = {.pipelines_count = 3};
        int64_t slowest_ns[3];
        int64_t others_ns[3];
        int total = 3 + (int)rng_below(&rng, 20);
        for (int j = 0; j < 3; j++) {
            slowest_ns[j] = 1000000 + (int64_t)rng_below(&rng, 9000000);
            others_ns[j] = (int64_t)rng_below(&rng, 20000000);
        }
        ck_assert(share_micro_batches(&plan, total, slowest_ns, others_ns));
        int64_t best = INT64_MAX;
        for (int a = 1; a <= total - 2; a++) {
            for (int b = 1; a + b <= total - 1; b++) {
                int counts[3] = {a, b, total - a - b};
                int64_t end = last_end(counts, 3, slowest_ns, others_ns);
                best = end < best ? end : best;
            }
        }
        int sum = 0;
        for (int j = 0; j < 3; j++) {
            ck_assert_int_ge(plan.micro_batches[j], 1);
            sum += plan.micro_batches[j];
        }
        ck_assert_int_eq(sum, total);
        int64_t end = last_end(plan.micro_batches, 3, slowest_ns, others_ns);
        ck_assert(end >= best && end <= best + best / 2048);
    }
}
END_TEST

START_TEST(equal_pipelines_get_equal_shares)
{
    struct plan plan = {.pipelines_count = 3};
    const int64_t slowest_ns[] = {5, 5, 5};
    const int64_t others_ns[] = {7, 7, 7};
    ck_assert(share_micro_batches(&plan, 8, slowest_ns, others_ns));
    ck_assert_int_eq(plan.micro_batches[0], 3);
    ck_assert_int_eq(plan.micro_batches[1], 3);
    ck_assert_int_eq(plan.micro_batches[2], 2);
}
END_TEST

START_TEST(too_few_and_too_many_are_refused)
{
    struct plan plan = {.pipelines_count = 2};
    const int64_t slowest_ns[] = {5, 6};
    const int64_t others_ns[] = {0, 0};
    ck_assert(!share_micro_batches(&plan, 1, slowest_ns, others_ns));
    ck_assert(share_micro_batches(&plan, 2, slowest_ns, others_ns));
    ck_assert(share_micro_batches(&plan, 2 * MICRO_BATCHES_MAX, slowest_ns, others_ns));
    ck_assert_int_eq(plan.micro_batches[1], MICRO_BATCHES_MAX);
    ck_assert(
        !share_micro_batches(&plan, 2 * MICRO_BATCHES_MAX + 1, slowest_ns, others_ns));
}
END_TEST

Suite *suite_share(void);
Suite *
suite_share(void)
{
    Suite *suite = suite_create("share");
    TCase *tests = suite_case(suite, "share", 20);
    tcase_add_test(tests, last_pipeline_ends_as_early_as_any_share_lets_it);
    tcase_add_test(tests, equal_pipelines_get_equal_shares);
    tcase_add_test(tests, too_few_and_too_many_are_refused);
    return suite;
}
