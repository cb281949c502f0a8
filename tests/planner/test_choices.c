/* Precision, recompute level and ZeRO-1 where a job leaves them open, and memory by part
 * against figures that were reckoned by hand. */
#include "planner/evaluate.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <string.h>

/* One kind in one zone, under the replay. */
static struct fleet *
one_zone(int devices)
{
    struct rng rng = {.seed = 11};
    return fleets_cloud(&rng, 1, 1, &devices, COST_MODEL_REPLAY);
}

static bool
ask(const struct fleet_request *request, const struct fleet *fleet,
    struct fleet_answer *answer)
{
    struct err err;
    if (fleet_search(request, fleet, answer, &err) != 0) {
        ck_assert_msg(err.code == ERR_PLAN, "%s", err.msg);
        return false;
    }
    ck_assert(answer->estimate.fits);
    return true;
}

static double
seconds_of(const struct fleet_request *request, const struct fleet *fleet)
{
    struct fleet_answer answer;
    if (!ask(request, fleet, &answer))
        return -1.0;
    double seconds = answer.estimate.iteration_s;
    fleet_answer_release(&answer);
    return seconds;
}

/* A little less memory than the request needs for any plan. */
static void
shrink(struct fleet *fleet, const struct fleet_request *request)
{
    int64_t short_of = 0;
    int64_t enough = fleet->kinds[0].memory_bytes;
    while (enough - short_of > enough / 50) {
        int64_t middle = short_of + (enough - short_of) / 2;
        fleet->kinds[0].memory_bytes = middle;
        if (seconds_of(request, fleet) > 0.0)
            enough = middle;
        else
            short_of = middle;
    }
    fleet->kinds[0].memory_bytes = short_of;
}

START_TEST(recompute_is_chosen_where_memory_is_short_and_not_else)
{
    struct fleet *fleet = one_zone(4);
    struct fleet_request request;
    fleet_request_init(&request, 16);
    struct fleet_answer answer;
    request.recompute = CHOICE_OPEN;
    fleet->kinds[0].memory_bytes = INT64_C(1) << 40;
    ck_assert(ask(&request, fleet, &answer));
    ck_assert_int_eq(answer.plan.recompute, RECOMPUTE_NONE);
    fleet_answer_release(&answer);
    request.recompute = CHOICE_OFF;
    fleet->kinds[0].memory_bytes = INT64_C(64) << 30;
    shrink(fleet, &request);
    request.recompute = CHOICE_OPEN;
    ck_assert(ask(&request, fleet, &answer));
    ck_assert_int_eq(answer.plan.recompute, RECOMPUTE_LAYERS);
    fleet_answer_release(&answer);
    fleet_free(fleet);
}
END_TEST

START_TEST(optimizer_is_divided_where_memory_is_short)
{
    struct fleet *fleet = one_zone(4);
    struct fleet_request request;
    fleet_request_init(&request, 16);
    request.pipeline = 1;
    request.tp = 1;
    shrink(fleet, &request);
    request.shard_optimizer = CHOICE_OPEN;
    struct fleet_answer answer;
    ck_assert(ask(&request, fleet, &answer));
    ck_assert(answer.plan.shard_optimizer);
    ck_assert_int_gt(answer.plan.width, 1);
    fleet_answer_release(&answer);
    fleet_free(fleet);
}
END_TEST

/* A step of the optimizer that takes no time is not worth dividing. */
START_TEST(optimizer_is_not_divided_for_nothing)
{
    struct fleet *fleet = one_zone(4);
    for (int t = 0; t < fleet->kinds[0].times_count; t++)
        for (int l = 0; l < fleet->table.layers_count; l++)
            fleet->kinds[0].times[t].layers[l].update_s = 0.0;
    fleet->kinds[0].memory_bytes = INT64_C(1) << 40;
    struct fleet_request request;
    fleet_request_init(&request, 16);
    request.shard_optimizer = CHOICE_OPEN;
    struct fleet_answer answer;
    ck_assert(ask(&request, fleet, &answer));
    ck_assert(!answer.plan.shard_optimizer);
    fleet_answer_release(&answer);
    fleet_free(fleet);
}
END_TEST

/* The same measurements once more, for bf16, so many times as fast. */
static void
measure_bf16(struct fleet *fleet, double faster)
{
    struct fleet_kind *kind = &fleet->kinds[0];
    int count = kind->times_count;
    size_t layers = (size_t)fleet->table.layers_count;
    kind->times = xrealloc(kind->times, (size_t)count * 2, sizeof(*kind->times));
    for (int t = 0; t < count; t++) {
        struct fleet_times *times = &kind->times[count + t];
        *times = kind->times[t];
        times->precision = PRECISION_BF16;
        times->layers = xcalloc(layers, sizeof(*times->layers));
        for (size_t l = 0; l < layers; l++) {
            times->layers[l] = kind->times[t].layers[l];
            times->layers[l].forward_s /= faster;
            times->layers[l].backward_s /= faster;
        }
    }
    kind->times_count = count * 2;
}

START_TEST(bf16_is_chosen_where_it_was_measured_and_is_faster)
{
    static const double speeds[] = {0.0, 0.4, 2.0}; /* 0: was not measured */
    for (int i = 0; i < 3; i++) {
        struct fleet *fleet = one_zone(4);
        fleet->kinds[0].memory_bytes = INT64_C(1) << 40;
        if (speeds[i] > 0.0)
            measure_bf16(fleet, speeds[i]);
        struct fleet_request request;
        fleet_request_init(&request, 16);
        request.bf16 = CHOICE_OPEN;
        struct fleet_answer answer;
        ck_assert(ask(&request, fleet, &answer));
        ck_assert_int_eq(answer.plan.precision,
                         speeds[i] > 1.0 ? PRECISION_BF16 : PRECISION_FP32);
        fleet_answer_release(&answer);
        fleet_free(fleet);
    }
}
END_TEST

START_TEST(what_is_left_open_is_as_good_as_the_best_that_is_fixed)
{
    struct fleet *fleet = one_zone(8);
    measure_bf16(fleet, 1.1);
    fleet->kinds[0].memory_bytes = INT64_C(12) << 30;
    struct fleet_request request;
    fleet_request_init(&request, 32);
    double best = -1.0;
    for (int way = 0; way < 8; way++) {
        request.bf16 = way & 1 ? CHOICE_ON : CHOICE_OFF;
        request.recompute = way & 2 ? CHOICE_ON : CHOICE_OFF;
        request.shard_optimizer = way & 4 ? CHOICE_ON : CHOICE_OFF;
        double seconds = seconds_of(&request, fleet);
        if (seconds > 0.0 && (best < 0.0 || seconds < best))
            best = seconds;
    }
    request.bf16 = CHOICE_OPEN;
    request.recompute = CHOICE_OPEN;
    request.shard_optimizer = CHOICE_OPEN;
    ck_assert_double_gt(best, 0.0);
    /* The replay's weighing is a guess, after which a few are replayed. */
    ck_assert_double_le(seconds_of(&request, fleet), best * 1.005);
    fleet_free(fleet);
}
END_TEST

/* ---- memory by part ---- */

/* Three layers of 10, 20 and 30 parameters, which keep 100, 200 and 300 bytes and put out 8, 8
 * and 4; two replicas of two stages. */
static struct fleet *
by_hand(struct fleet_plan *plan)
{
    struct fleet *fleet = fleet_new();
    fleet->table.layers_count = 3;
    fleet->table.sequence_tokens = 1;
    fleet->table.sizes[0] = xcalloc(3, sizeof(struct layer_size));
    fleet->table.sizes[0][0] = (struct layer_size){10, 8, 100};
    fleet->table.sizes[0][1] = (struct layer_size){20, 8, 200};
    fleet->table.sizes[0][2] = (struct layer_size){30, 4, 300};
    fleet->kinds_count = 1;
    fleet->kinds[0].memory_bytes = 5000;
    fleet->zones_count = 1;
    fleet->pools_count = 1;
    fleet->pools[0].devices = 4;
    fleet_pools_done(fleet);
    fleet_plan_init(plan, 2, 2);
    plan->micro_batch = 2;
    plan->layers[0] = 2;
    plan->first_layer[1] = 2;
    plan->layers[1] = 1;
    plan->micro_batches[0] = 3;
    plan->micro_batches[1] = 1;
    for (int i = 0; i < 4; i++)
        plan->replicas[i].tp = 1;
    return fleet;
}

static void
expect_memory(const struct memory_parts *parts, int64_t weights, int64_t gradients,
              int64_t optimizer, int64_t activations, int64_t workspace)
{
    ck_assert_int_eq(parts->weights, weights);
    ck_assert_int_eq(parts->gradients, gradients);
    ck_assert_int_eq(parts->optimizer, optimizer);
    ck_assert_int_eq(parts->activations, activations);
    ck_assert_int_eq(parts->workspace, workspace);
    ck_assert_int_eq(parts->total,
                     weights + gradients + optimizer + activations + workspace);
    ck_assert_int_eq(parts->room, 5000);
}

START_TEST(memory_of_a_replica_is_what_was_reckoned_by_hand)
{
    struct fleet_plan plan;
    struct fleet *fleet = by_hand(&plan);
    struct fleet_request request;
    struct memory_parts parts;
    fleet_request_init(&request, 8);
    /* 30 parameters; two micro-batches of two sequences in flight, 300 bytes each; a boundary of
     * 8 bytes there and back; one bucket, which the gradients do not fill. */
    evaluate_memory(&plan, &request, fleet, 0, 0, &parts);
    expect_memory(&parts, 120, 120, 240, 1200, 2 * 8 * 2 * 2 + 120);
    /* The other pipeline has one micro-batch, and so never two in flight. */
    evaluate_memory(&plan, &request, fleet, 0, 1, &parts);
    expect_memory(&parts, 120, 120, 240, 600, 2 * 8 * 2 + 120);
    /* The last stage keeps one. */
    evaluate_memory(&plan, &request, fleet, 1, 0, &parts);
    expect_memory(&parts, 120, 120, 240, 600, 2 * 8 * 2 + 120);
    fleet_plan_release(&plan);
    fleet_free(fleet);
}
END_TEST

START_TEST(memory_of_each_choice_is_what_was_reckoned_by_hand)
{
    struct fleet_plan plan;
    struct fleet *fleet = by_hand(&plan);
    struct fleet_request request;
    struct memory_parts parts;
    fleet_request_init(&request, 8);
    plan.recompute = RECOMPUTE_LAYERS; /* inputs (8 bytes), and one layer at work (200) */
    evaluate_memory(&plan, &request, fleet, 0, 0, &parts);
    expect_memory(&parts, 120, 120, 240, (2 * 8 + 200) * 2, 184);
    plan.recompute = RECOMPUTE_NONE;
    plan.shard_optimizer = true; /* over two replicas */
    evaluate_memory(&plan, &request, fleet, 0, 0, &parts);
    expect_memory(&parts, 120, 120, 120, 1200, 184);
    plan.shard_optimizer = false;
    plan.precision = PRECISION_BF16; /* halves, and a master copy beside the moments */
    evaluate_memory(&plan, &request, fleet, 0, 0, &parts);
    expect_memory(&parts, 60, 60, 360, 600, 64 / 2 + 60);
    fleet_plan_release(&plan);
    fleet_free(fleet);
}
END_TEST

Suite *suite_choices(void);

Suite *
suite_choices(void)
{
    Suite *suite = suite_create("choices");
    TCase *all = suite_case(suite, "choices", 300);
    tcase_add_test(all, recompute_is_chosen_where_memory_is_short_and_not_else);
    tcase_add_test(all, optimizer_is_divided_where_memory_is_short);
    tcase_add_test(all, optimizer_is_not_divided_for_nothing);
    tcase_add_test(all, bf16_is_chosen_where_it_was_measured_and_is_faster);
    tcase_add_test(all, what_is_left_open_is_as_good_as_the_best_that_is_fixed);
    tcase_add_test(all, memory_of_a_replica_is_what_was_reckoned_by_hand);
    tcase_add_test(all, memory_of_each_choice_is_what_was_reckoned_by_hand);
    return suite;
}
