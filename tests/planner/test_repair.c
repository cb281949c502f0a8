#include "planner/repair.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

static const struct repair_terms terms = {.horizon = REPAIR_HORIZON, .rollback_steps = 5};

static int
rounds(int few)
{
    const char *text = getenv("FLOTILLA_SEEDS");
    int many = text ? (int)strtol(text, NULL, 10) : 0;
    return many > 0 ? many : few;
}

static void
must_search(const struct fleet_request *request, const struct fleet *fleet,
            struct fleet_answer *answer)
{
    struct err err;
    int rc = fleet_search(request, fleet, answer, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
}

static void
must_repair(const struct fleet_request *request, const struct fleet *before,
            const struct fleet_plan *plan, const struct fleet *after,
            struct repair_answer *out)
{
    struct err err;
    int rc = fleet_repair(request, before, plan, after, &terms, out, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    rc = fleet_plan_check(&out->plan, request, after, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert(out->estimate.fits);
}

/* Devices go, come, and links change. */
static struct fleet *
changed(struct rng *rng, const struct fleet *before)
{
    struct fleet *after = fleet_copy(before);
    for (int p = 0; p < after->pools_count; p++) {
        struct fleet_pool *pool = &after->pools[p];
        int way = (int)rng_below(rng, 4);
        if (way == 0)
            pool->devices -= (int)rng_below(rng, (uint64_t)pool->devices + 1);
        if (way == 1)
            pool->devices += (int)rng_below(rng, 9);
    }
    if (rng_below(rng, 3) == 0)
        for (int c = 0; c < after->curves_count; c++)
            after->curves[c].c0 *= 0.5 + rng_unit(rng);
    return after;
}

START_TEST(repair_is_never_worse_than_staying_or_planning_afresh)
{
    uint64_t seed = suite_seed(__func__, 1);
    int count = rounds(2);
    for (int i = 0; i < count; i++) {
        struct rng rng = {.seed = seed + (uint64_t)i};
        int devices[4];
        for (int p = 0; p < 4; p++)
            devices[p] = 4 + (int)rng_below(&rng, 24);
        struct fleet *before = fleets_cloud(&rng, 2, 2, devices, COST_MODEL_PUBLISHED);
        struct fleet_request request;
        fleet_request_init(&request, 128);
        struct fleet_answer answer;
        must_search(&request, before, &answer);
        struct fleet *after = changed(&rng, before);
        struct fleet_answer afresh;
        struct err err;
        if (fleet_search(&request, after, &afresh, &err) == 0) {
            struct repair_answer next;
            struct repair_price cost;
            must_repair(&request, before, &answer.plan, after, &next);
            int rc = fleet_repair_price(&request, before, &answer.plan, after,
                                        &afresh.plan, &terms, &cost, &err);
            ck_assert_msg(rc == 0, "%s", err.msg);
            ck_assert_double_le(next.price.total_s, cost.total_s);
            if (next.stay.possible)
                ck_assert_double_le(next.price.total_s, next.stay.total_s);
            ck_assert_double_eq_tol(next.price.total_s,
                                    next.price.lost_s + next.price.moved_s +
                                        next.price.steps_s,
                                    1e-9 * next.price.total_s);
            repair_answer_release(&next);
            fleet_answer_release(&afresh);
        }
        fleet_answer_release(&answer);
        fleet_free(before);
        fleet_free(after);
    }
}
END_TEST

static struct fleet *
two_zones(int here, int there)
{
    struct rng rng = {.seed = 3};
    int devices[] = {here, there};
    return fleets_cloud(&rng, 1, 2, devices, COST_MODEL_PUBLISHED);
}

START_TEST(nothing_changed_means_staying_for_nothing)
{
    struct fleet *fleet = two_zones(16, 16);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, fleet, &answer);
    struct repair_answer next;
    must_repair(&request, fleet, &answer.plan, fleet, &next);
    ck_assert_int_eq(next.way, REPAIR_STAY);
    ck_assert_double_eq(next.price.lost_s, 0.0);
    ck_assert_int_eq(next.price.moved_bytes, 0);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(fleet);
}
END_TEST

START_TEST(lost_devices_cost_the_step_under_way_and_staying_is_impossible)
{
    struct fleet *before = two_zones(16, 0);
    struct fleet *after = two_zones(12, 0);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    int used[FLEET_POOLS_MAX];
    ck_assert_int_gt(fleet_plan_devices(&answer.plan, used), 12);
    struct repair_answer next;
    must_repair(&request, before, &answer.plan, after, &next);
    ck_assert_int_ne(next.way, REPAIR_STAY);
    ck_assert(!next.stay.possible);
    ck_assert_double_ge(next.price.lost_s, answer.estimate.iteration_s * 0.999);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

/* A change that wins by so little that the moves eat it up within a short horizon. */
START_TEST(short_horizon_does_not_pay_for_moves)
{
    struct fleet *before = two_zones(16, 0);
    struct fleet *after = two_zones(16, 16);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    struct repair_answer next;
    struct err err;
    const struct repair_terms brief = {.horizon = 1, .rollback_steps = 5};
    int rc = fleet_repair(&request, before, &answer.plan, after, &brief, &next, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(next.way, REPAIR_STAY);
    repair_answer_release(&next);
    must_repair(&request, before, &answer.plan, after, &next);
    ck_assert_int_ne(next.way, REPAIR_STAY);
    ck_assert_int_gt(next.price.moved_bytes, 0);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

START_TEST(lost_stage_costs_the_steps_since_the_copies)
{
    struct fleet *before = two_zones(8, 8);
    struct fleet *after = two_zones(8, 0);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    request.pipeline = 2;
    request.stage_zones_count = 2;
    request.stage_zones[1] = 1;
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    request.stage_zones_count = 0;
    struct repair_answer next;
    must_repair(&request, before, &answer.plan, after, &next);
    ck_assert_double_eq_tol(next.price.lost_s, answer.estimate.iteration_s * 6.0,
                            1e-6 * next.price.lost_s);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

START_TEST(nothing_left_is_said_so)
{
    struct fleet *before = two_zones(8, 8);
    struct fleet *after = two_zones(0, 0);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    struct repair_answer next;
    struct err err;
    ck_assert_int_eq(
        fleet_repair(&request, before, &answer.plan, after, &terms, &next, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

Suite *suite_repair(void);

Suite *
suite_repair(void)
{
    Suite *suite = suite_create("repair");
    TCase *all = suite_case(suite, "repair", 600);
    tcase_add_test(all, nothing_changed_means_staying_for_nothing);
    tcase_add_test(all, lost_devices_cost_the_step_under_way_and_staying_is_impossible);
    tcase_add_test(all, short_horizon_does_not_pay_for_moves);
    tcase_add_test(all, lost_stage_costs_the_steps_since_the_copies);
    tcase_add_test(all, nothing_left_is_said_so);
    tcase_add_test(all, repair_is_never_worse_than_staying_or_planning_afresh);
    return suite;
}
