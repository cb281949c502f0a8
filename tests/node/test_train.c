#include "tests/node/crew.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct crew_plan one_node = {
    .stages = 1, .pipelines = 1, .micro_batch = 2, .layers = {4}, .nodes = {0}};
static const struct crew_plan two_stages = {
    .stages = 2, .pipelines = 1, .micro_batch = 2, .layers = {2, 2}, .nodes = {0, 1}};
static const struct crew_plan two_by_two = {.stages = 2,
                                            .pipelines = 2,
                                            .micro_batch = 2,
                                            .layers = {2, 2},
                                            .nodes = {0, 1, 2, 3}};

/* What a run leaves. */
struct outcome {
    double loss[CREW_STEPS_MAX];
    uint64_t hash[CREW_STEPS_MAX];
    float *state;
    size_t count;
};

static void
keep_outcome(struct crew *crew, struct outcome *out)
{
    crew_halt(crew);
    memcpy(out->loss, crew->loss, sizeof(out->loss));
    memcpy(out->hash, crew->hash, sizeof(out->hash));
    out->state = crew_state(crew, 0, &out->count);
}

/* An undisturbed run of `steps` steps. */
static void
run_plain(const struct crew_plan *plan, int nodes, int64_t steps, struct outcome *out)
{
    struct crew crew;
    crew_open(&crew, nodes);
    crew.job.steps = steps;
    crew_epoch(&crew, plan);
    crew_until_step(&crew, steps);
    keep_outcome(&crew, out);
    crew_close(&crew);
}

START_TEST(a_pipeline_of_two_gives_the_bits_of_one_node)
{
    struct outcome single, pipeline;
    run_plain(&one_node, 1, 10, &single);
    run_plain(&two_stages, 2, 10, &pipeline);
    ck_assert(single.loss[1] > 5 && single.loss[1] < 6);
    ck_assert(single.loss[10] < single.loss[1] - 0.5);
    for (int s = 1; s <= 10; s++) {
        ck_assert_msg(single.loss[s] == pipeline.loss[s], "step %d: %.17g, %.17g", s,
                      single.loss[s], pipeline.loss[s]);
        ck_assert(single.hash[s] == pipeline.hash[s]);
    }
    ck_assert_uint_eq(single.count, pipeline.count);
    ck_assert(memcmp(single.state, pipeline.state, single.count * sizeof(float)) == 0);
    free(single.state);
    free(pipeline.state);
}
END_TEST

START_TEST(two_pipelines_give_the_losses_of_one_node_and_equal_replicas)
{
    struct outcome single, both;
    run_plain(&one_node, 1, 10, &single);
    struct crew crew;
    crew_open(&crew, 4);
    crew_epoch(&crew, &two_by_two);
    crew_until_step(&crew, 10);
    keep_outcome(&crew, &both);
    size_t count;
    float *replica = crew_state(&crew, 1, &count);
    ck_assert(memcmp(replica, both.state, count * sizeof(float)) == 0);
    for (int s = 1; s <= 10; s++) {
        ck_assert_double_le(fabs(single.loss[s] - both.loss[s]), 1e-5 * single.loss[s]);
        ck_assert(single.hash[s] == both.hash[s]);
    }
    ck_assert_double_le(crew_distance(&crew, single.state, both.state), 1e-3);
    crew_close(&crew);
    free(replica);
    free(single.state);
    free(both.state);
}
END_TEST

/* ---- halts ---- */

static bool
never(struct crew *crew, void *arg)
{
    (void)crew, (void)arg;
    return false;
}

/* Plans for four nodes, and for those that are left when one is away. */
static const struct crew_plan shapes[] = {
    {2, 2, 2, {2, 2}, {0, 1, 2, 3}},
    {1, 4, 2, {4}, {0, 1, 2, 3}},
    {2, 1, 4, {1, 3}, {3, 0}},
    {4, 1, 2, {1, 1, 1, 1}, {2, 3, 0, 1}},
    {1, 1, 2, {4}, {2}},
    {3, 1, 1, {1, 2, 1}, {0, 2, 3}},
    {2, 2, 1, {3, 1}, {1, 3, 0, 2}},
    {1, 2, 2, {4}, {1, 3}},
};

static bool
plan_lives(const struct crew *crew, const struct crew_plan *plan)
{
    for (int i = 0; i < plan->stages * plan->pipelines; i++)
        if (!crew->nodes[plan->nodes[i]].train)
            return false;
    return true;
}

static const struct crew_plan *
random_plan(const struct crew *crew, struct rng *rng)
{
    for (;;) {
        const struct crew_plan *plan =
            &shapes[rng_below(rng, sizeof(shapes) / sizeof(shapes[0]))];
        if (plan_lives(crew, plan))
            return plan;
    }
}

static void
same_losses(const struct crew *crew, const struct outcome *plain, int64_t steps)
{
    for (int64_t s = 1; s <= steps; s++) {
        ck_assert_int_gt(crew->applied_by[s], 0);
        ck_assert_msg(fabs(crew->loss[s] - plain->loss[s]) <= 1e-4,
                      "step %d: %.9g instead of %.9g", (int)s, crew->loss[s],
                      plain->loss[s]);
        ck_assert(crew->hash[s] == plain->hash[s]);
    }
}

static int64_t
most_applied(const struct crew *crew)
{
    int64_t most = 0;
    for (int i = 0; i < crew->count; i++)
        if (crew->nodes[i].train && crew->nodes[i].applied > most)
            most = crew->nodes[i].applied;
    return most;
}

START_TEST(a_run_halted_at_any_moment_goes_on_under_any_plan_and_loses_nothing)
{
    enum { STEPS = 100 };
    struct rng rng = {
        .seed = suite_seed(
            "a_run_halted_at_any_moment_goes_on_under_any_plan_and_loses_nothing", 21)};
    struct outcome plain;
    run_plain(&one_node, 1, STEPS, &plain);
    struct crew crew;
    crew_open(&crew, 4);
    crew.job.steps = STEPS;
    crew.job.copy_every = 4;
    crew_epoch(&crew, &two_by_two);
    int rounds = 0;
    int64_t reached = 0;
    for (; rounds < 60 && most_applied(&crew) < STEPS; rounds++) {
        crew_until(&crew, never, NULL, (int64_t)rng_below(&rng, 40));
        int64_t before = most_applied(&crew), asked_ms = clock_ms();
        crew_halt(&crew);
        ck_assert_int_lt(clock_ms() - asked_ms, 500);
        if (most_applied(&crew) > before)
            before = most_applied(&crew);
        crew_epoch(&crew, random_plan(&crew, &rng));
        ck_assert_int_eq(crew.recovery.base_step, before);
        ck_assert_int_eq(crew.recovery.steps_lost, 0);
        reached = before;
    }
    crew_until_step(&crew, STEPS);
    same_losses(&crew, &plain, STEPS);
    ck_assert_int_gt(rounds, 3);
    printf("halts %d, last from step %d\n", rounds, (int)reached);
    crew_close(&crew);
    free(plain.state);
}
END_TEST

START_TEST(nodes_that_die_and_come_back_cost_at_most_the_steps_since_the_copy)
{
    enum { STEPS = 200 };
    struct rng rng = {
        .seed = suite_seed(
            "nodes_that_die_and_come_back_cost_at_most_the_steps_since_the_copy", 31)};
    struct outcome plain;
    run_plain(&one_node, 1, STEPS, &plain);
    struct crew crew;
    crew_open(&crew, 4);
    crew.job.steps = STEPS;
    crew.job.copy_every = 3;
    crew_epoch(&crew, &two_by_two);
    crew_until_step(&crew, 1); /* everybody has the data */
    int away = -1, lost = 0, deaths = 0;
    for (int rounds = 0; rounds < 100 && most_applied(&crew) < STEPS; rounds++) {
        crew_until(&crew, never, NULL, (int64_t)rng_below(&rng, 60));
        int64_t copied = crew.copied_everywhere;
        if (away >= 0) {
            crew_start(&crew, away);
            away = -1;
        } else if (copied > crew.recovery.base_step) { /* one loss at a time */
            away = (int)rng_below(&rng, 4);
            crew_kill(&crew, away);
            deaths++;
        }
        crew_halt(&crew);
        crew_epoch(&crew, random_plan(&crew, &rng));
        ck_assert_int_ge(crew.recovery.base_step, copied);
        lost += crew.recovery.steps_lost > 0;
    }
    crew_until_step(&crew, STEPS);
    same_losses(&crew, &plain, STEPS);
    printf("deaths %d, of which %d cost steps\n", deaths, lost);
    ck_assert_int_gt(deaths, 2);
    crew_close(&crew);
    free(plain.state);
}
END_TEST

Suite *suite_train(void);

Suite *
suite_train(void)
{
    Suite *suite = suite_create("train");
    TCase *steps = suite_case(suite, "steps", 60);
    tcase_add_test(steps, a_pipeline_of_two_gives_the_bits_of_one_node);
    tcase_add_test(steps, two_pipelines_give_the_losses_of_one_node_and_equal_replicas);
    TCase *halts = suite_case(suite, "halts", 120);
    tcase_add_test(halts,
                   a_run_halted_at_any_moment_goes_on_under_any_plan_and_loses_nothing);
    tcase_add_test(halts,
                   nodes_that_die_and_come_back_cost_at_most_the_steps_since_the_copy);
    return suite;
}
