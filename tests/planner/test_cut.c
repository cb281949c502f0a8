#include "planner/cut.h"
#include "planner/schedule.h"
#include "tests/planner/world.h"
#include "tests/suite.h"

#include <string.h>

/* Stages by chance for a model of six layers. */
struct setup {
    struct plan_request request;
    struct cutter *cutter;
    struct cut_stage stages[3];
    struct plan plan;
};

static void
setup_random(struct setup *setup, struct rng *rng)
{
    memset(setup, 0, sizeof(*setup));
    world_request(&setup->request, 4);
    setup->cutter = cutter_new(&setup->request);
    cutter_micro_batch(setup->cutter, 2);
    setup->plan.stages_count = 1 + (int)rng_below(rng, 3);
    int64_t all = cutter_run_bytes(setup->cutter, 0, 6, 1);
    for (int s = 0; s < setup->plan.stages_count; s++) {
        struct cut_stage *stage = &setup->stages[s];
        stage->in_flight = schedule_in_flight(setup->plan.stages_count, s, 8);
        stage->memory_bytes = all * (int64_t)(20 + rng_below(rng, 200)) / 100;
        for (int kind = 0; kind < LAYER_KINDS; kind++)
            stage->layer_ns[kind] = 1000 + (int64_t)rng_below(rng, 5000);
    }
}

/* Time of the slowest stage of a cut, -1 when a stage does not fit. */
static int64_t
slowest(struct setup *setup, const int *layers)
{
    int64_t most = 0;
    int first = 0;
    for (int s = 0; s < setup->plan.stages_count; s++) {
        const struct cut_stage *stage = &setup->stages[s];
        if (layers[s] < 1 || first + layers[s] > 6 ||
            cutter_run_bytes(setup->cutter, first, layers[s], stage->in_flight) >
                stage->memory_bytes)
            return -1;
        int64_t ns = 0;
        for (int layer = first; layer < first + layers[s]; layer++)
            ns += stage->layer_ns[workload_layer_kind(&setup->request.shape, layer)];
        most = ns > most ? ns : most;
        first += layers[s];
    }
    return first == 6 ? most : -1;
}

START_TEST(slowest_stage_is_as_fast_as_any_cut_makes_it)
{
    struct rng rng = {.seed = suite_seed("slowest_stage", 8)};
    int cuts = 0;
    for (int round = 0; round < 500; round++) {
        struct setup setup;
        setup_random(&setup, &rng);
        int64_t best = -1;
        for (int way = 0; way < 7 * 7 * 7; way++) {
            int layers[] = {way % 7, way / 7 % 7, way / 49};
            int64_t ns = slowest(&setup, layers);
            if (ns >= 0 && (best < 0 || ns < best))
                best = ns;
        }
        enum cut_result cut = cut_layers(setup.cutter, setup.stages, &setup.plan);
        ck_assert_int_eq(cut == CUT_NONE, best < 0);
        if (cut != CUT_NONE) {
            int layers[3];
            for (int s = 0; s < 3; s++)
                layers[s] = setup.plan.stages[s].layers;
            int64_t ns = slowest(&setup, layers);
            /* The search for the best time stops a 4096th short of it. */
            ck_assert(ns >= best && ns <= best + best / 4096);
            cuts++;
        }
        cutter_free(setup.cutter);
    }
    ck_assert_int_gt(cuts, 100);
}
END_TEST

START_TEST(tight_is_told_from_good)
{
    struct plan_request request;
    world_request(&request, 4);
    struct cutter *cutter = cutter_new(&request);
    cutter_micro_batch(cutter, 1);
    struct cut_stage stages[2] = {
        {{10, 10, 10}, INT64_C(1) << 40, 2},
        {{10, 10, 10}, INT64_C(1) << 40, 1},
    };
    struct plan plan = {.stages_count = 2};
    ck_assert_int_eq(cut_layers(cutter, stages, &plan), CUT_GOOD);
    ck_assert_int_eq(plan.stages[0].layers, 3);
    stages[0].memory_bytes = cutter_run_bytes(cutter, 0, 2, 2);
    ck_assert_int_eq(cut_layers(cutter, stages, &plan), CUT_TIGHT);
    ck_assert_int_eq(plan.stages[0].layers, 2);
    stages[0].memory_bytes = 1;
    ck_assert_int_eq(cut_layers(cutter, stages, &plan), CUT_NONE);
    cutter_free(cutter);
}
END_TEST

START_TEST(remembered_sizes_are_those_of_the_workload)
{
    struct plan_request request;
    world_request(&request, 4);
    request.copies = true;
    struct cutter *cutter = cutter_new(&request);
    for (int size = 1; size <= 4; size *= 2) {
        cutter_micro_batch(cutter, size);
        for (int twice = 0; twice < 2; twice++) {
            for (int first = 0; first < 6; first++) {
                for (int layers = 1; layers <= 6 - first; layers++) {
                    struct stage_spec spec = {first, layers, size, 3, true};
                    struct stage_bytes bytes;
                    workload_stage_bytes(&request.shape, &spec, &bytes);
                    ck_assert_int_eq(cutter_run_bytes(cutter, first, layers, 3),
                                     bytes.total);
                    ck_assert_int_eq(cutter_gradient_bytes(cutter, first, layers),
                                     bytes.gradients);
                }
            }
        }
    }
    cutter_free(cutter);
}
END_TEST

/* Can three stages be served by the blocks in this order? */
static bool
order_fits(struct cutter *cutter, const int64_t *bytes, const int *group,
           const int *in_flight, const int *order)
{
    int first = 0;
    for (int s = 0; s < 3; s++) {
        if (group[s] != group[order[s]])
            return false;
        int layers = 0;
        while (layers < 6 - first - (2 - s) &&
               cutter_run_bytes(cutter, first, layers + 1, in_flight[s]) <=
                   bytes[order[s]])
            layers++;
        if (layers == 0)
            return false;
        first += layers;
    }
    return first == 6;
}

START_TEST(blocks_are_assigned_whenever_an_order_fits)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct rng rng = {.seed = suite_seed("blocks_are_assigned", 9)};
    struct plan_request request;
    world_request(&request, 4);
    request.shape.vocabulary = 2000;
    struct cutter *cutter = cutter_new(&request);
    cutter_micro_batch(cutter, 1);
    int64_t all = cutter_run_bytes(cutter, 0, 6, 1);
    int assigned = 0;
    for (int round = 0; round < 1000; round++) {
        int64_t bytes[3];
        int group[3];
        int in_flight[3] = {3, 2, 1};
        int chosen[3];
        for (int s = 0; s < 3; s++) {
            bytes[s] = all * (int64_t)(10 + rng_below(&rng, 60)) / 100;
            group[s] = (int)rng_below(&rng, 2);
        }
        bool possible = false;
        for (int i = 0; i < 6; i++)
            possible = possible || order_fits(cutter, bytes, group, in_flight, orders[i]);
        bool found = cut_assign(cutter, 3, group, in_flight, bytes, chosen);
        ck_assert_int_eq(found, possible);
        if (found)
            ck_assert(order_fits(cutter, bytes, group, in_flight, chosen));
        assigned += found;
    }
    ck_assert_int_gt(assigned, 50);
    ck_assert_int_lt(assigned, 950);
    cutter_free(cutter);
}
END_TEST

Suite *suite_cut(void);
Suite *
suite_cut(void)
{
    Suite *suite = suite_create("cut");
    TCase *tests = suite_case(suite, "cut", 20);
    tcase_add_test(tests, slowest_stage_is_as_fast_as_any_cut_makes_it);
    tcase_add_test(tests, tight_is_told_from_good);
    tcase_add_test(tests, remembered_sizes_are_those_of_the_workload);
    tcase_add_test(tests, blocks_are_assigned_whenever_an_order_fits);
    return suite;
}
