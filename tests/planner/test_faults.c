/* Faults of the published planner (Sailor, SOSP'25, the artifact) that show when one process is
 * asked more than once. tests/sailor/check.py has the others, by their numbers. */
#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <string.h>

static struct fleet *
cloud_of(int here, int there)
{
    struct rng rng = {.seed = 21};
    int devices[] = {here, there};
    return fleets_cloud(&rng, 1, 2, devices, COST_MODEL_PUBLISHED);
}

static void
must_ask(const struct fleet_request *request, const struct fleet *fleet,
         struct fleet_answer *answer)
{
    struct err err;
    int rc = fleet_search(request, fleet, answer, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
}

static void
expect_same(const struct fleet_answer *left, const struct fleet_answer *right)
{
    ck_assert_int_eq(left->candidates, right->candidates);
    ck_assert_int_eq(left->plan.width, right->plan.width);
    ck_assert_int_eq(left->plan.stages_count, right->plan.stages_count);
    ck_assert_mem_eq(left->plan.replicas, right->plan.replicas,
                     (size_t)left->plan.width * (size_t)left->plan.stages_count *
                         sizeof(*left->plan.replicas));
    ck_assert_mem_eq(&left->estimate.iteration_s, &right->estimate.iteration_s,
                     sizeof(double));
}

START_TEST(fault_2_an_answer_leaves_nothing_behind_for_the_next)
{
    struct fleet *small = cloud_of(32, 0);
    struct fleet *large = cloud_of(128, 64);
    struct fleet_request request;
    struct fleet_answer first, between, second;
    fleet_request_init(&request, 512);
    must_ask(&request, small, &first);
    must_ask(&request, large, &between);
    must_ask(&request, small, &second);
    expect_same(&first, &second);
    int used[FLEET_POOLS_MAX];
    ck_assert_int_le(fleet_plan_devices(&second.plan, used), 32);
    fleet_answer_release(&first);
    fleet_answer_release(&between);
    fleet_answer_release(&second);
    fleet_free(small);
    fleet_free(large);
}
END_TEST

START_TEST(fault_5_an_answer_before_does_not_make_a_limit_forgotten)
{
    struct fleet *fleet = cloud_of(32, 16);
    struct fleet_request request;
    struct fleet_answer free_of, limited, again;
    fleet_request_init(&request, 512);
    must_ask(&request, fleet, &free_of);
    request.usd_per_iteration_max = free_of.estimate.usd_per_iteration * 0.97;
    must_ask(&request, fleet, &limited);
    ck_assert_double_le(limited.estimate.usd_per_iteration,
                        request.usd_per_iteration_max);
    request.usd_per_iteration_max = -1.0;
    must_ask(&request, fleet, &again);
    expect_same(&free_of, &again);
    fleet_answer_release(&free_of);
    fleet_answer_release(&limited);
    fleet_answer_release(&again);
    fleet_free(fleet);
}
END_TEST

START_TEST(fault_5_nothing_to_spend_is_a_limit)
{
    struct fleet *fleet = cloud_of(8, 0);
    struct fleet_request request;
    struct fleet_answer answer;
    struct err err;
    fleet_request_init(&request, 64);
    request.usd_per_iteration_max = 0.0;
    ck_assert_int_eq(fleet_search(&request, fleet, &answer, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_ptr_nonnull(strstr(err.msg, "USD"));
    fleet_free(fleet);
}
END_TEST

/* Kinds that are many do not make the work explode: the published search takes hours. */
START_TEST(fault_6_work_grows_politely_with_the_kinds_of_device)
{
    int64_t work[2];
    for (int i = 0; i < 2; i++) {
        static const int devices[6] = {32, 32, 32, 32, 32, 32};
        struct rng rng = {.seed = 5};
        struct fleet *fleet =
            fleets_cloud(&rng, i == 0 ? 2 : 6, 1, devices, COST_MODEL_PUBLISHED);
        struct fleet_request request;
        struct fleet_answer answer;
        fleet_request_init(&request, 512);
        must_ask(&request, fleet, &answer);
        work[i] = answer.candidates;
        fleet_answer_release(&answer);
        fleet_free(fleet);
    }
    ck_assert_int_lt(work[1], 6 * work[0]);
}
END_TEST

Suite *suite_faults(void);

Suite *
suite_faults(void)
{
    Suite *suite = suite_create("faults");
    TCase *all = suite_case(suite, "faults", 300);
    tcase_add_test(all, fault_2_an_answer_leaves_nothing_behind_for_the_next);
    tcase_add_test(all, fault_5_an_answer_before_does_not_make_a_limit_forgotten);
    tcase_add_test(all, fault_5_nothing_to_spend_is_a_limit);
    tcase_add_test(all, fault_6_work_grows_politely_with_the_kinds_of_device);
    return suite;
}
