#include "tests/node/crew.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <math.h>
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

Suite *suite_train(void);

Suite *
suite_train(void)
{
    Suite *suite = suite_create("train");
    TCase *steps = suite_case(suite, "steps", 60);
    tcase_add_test(steps, a_pipeline_of_two_gives_the_bits_of_one_node);
    tcase_add_test(steps, two_pipelines_give_the_losses_of_one_node_and_equal_replicas);
    return suite;
}
