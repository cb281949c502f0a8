#include "tests/planner/world.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

/* Two stages of two pipelines: a1 a2 | b1 b2, layers 0..2 and 3..5. */
struct setup {
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
};

static void
setup_plan(struct setup *setup)
{
    memset(&setup->plan, 0, sizeof(setup->plan));
    setup->plan.micro_batch = 4;
    setup->plan.stages_count = 2;
    setup->plan.pipelines_count = 2;
    setup->plan.micro_batches[0] = 5;
    setup->plan.micro_batches[1] = 3;
    for (int s = 0; s < 2; s++) {
        setup->plan.stages[s].first_layer = 3 * s;
        setup->plan.stages[s].layers = 3;
        setup->plan.stages[s].nodes[0] = 2 * s;
        setup->plan.stages[s].nodes[1] = 2 * s + 1;
    }
}

static void
setup_init(struct setup *setup)
{
    world_cluster(&setup->cluster, 2, (const int[]){2, 2});
    world_request(&setup->request, 4);
    setup_plan(setup);
}

static void
refused(const struct setup *setup, const char *part)
{
    struct err err = {0};
    ck_assert_int_eq(plan_check(&setup->plan, &setup->request, &setup->cluster, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_msg(strstr(err.msg, part) != NULL, "\"%s\" lacks \"%s\"", err.msg, part);
}

static void
accepted(const struct setup *setup)
{
    struct err err = {0};
    int rc = plan_check(&setup->plan, &setup->request, &setup->cluster, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(err.code, ERR_NONE);
}

START_TEST(good_plan_is_accepted)
{
    struct setup setup;
    setup_init(&setup);
    accepted(&setup);
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(layers_left_out_or_done_twice_are_refused)
{
    struct setup setup;
    setup_init(&setup);
    setup.plan.stages[1].layers = 2;
    refused(&setup, "plan ends at layer 5");
    setup.plan.stages[1].layers = 4;
    refused(&setup, "stage 1");
    setup_plan(&setup);
    setup.plan.stages[1].first_layer = 2;
    refused(&setup, "from layer 2, expected");
    setup_plan(&setup);
    setup.plan.stages_count = 7;
    refused(&setup, "7 stages");
    setup.plan.stages_count = 0;
    refused(&setup, "0 stages");
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(batch_is_kept_to_the_sequence)
{
    struct setup setup;
    setup_init(&setup);
    setup.plan.micro_batches[1] = 4;
    refused(&setup, "36 sequences a step, the batch has 32");
    setup.plan.micro_batches[1] = 0;
    refused(&setup, "pipeline 1 has 0 micro-batches");
    setup.plan.micro_batches[1] = MICRO_BATCHES_MAX + 1;
    refused(&setup, "pipeline 1");
    setup.plan.micro_batch = 0;
    refused(&setup, "micro-batch of 0");
    setup.plan.micro_batch = 1 << 30;
    refused(&setup, "micro-batch of 1073741824");
    setup.request.sequences = 1 << 30;
    refused(&setup, "tokens, the limit is");
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(node_twice_or_not_there_is_refused)
{
    struct setup setup;
    setup_init(&setup);
    setup.plan.stages[1].nodes[0] = 0;
    refused(&setup, "twice");
    setup.plan.stages[1].nodes[0] = 4;
    refused(&setup, "node 4 of 4");
    setup.plan.stages[1].nodes[0] = -1;
    refused(&setup, "node -1 of 4");
    setup.plan.pipelines_count = REPLICAS_MAX + 1;
    refused(&setup, "pipelines");
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(what_does_not_fit_is_named)
{
    struct setup setup;
    setup_init(&setup);
    struct stage_bytes bytes;
    plan_stage_bytes(&setup.plan, &setup.request, 1, &bytes);
    setup.cluster.nodes[3].memory_bytes = bytes.total;
    accepted(&setup);
    setup.cluster.nodes[3].memory_bytes = bytes.total - 1;
    char name[ID_SHORT_SIZE];
    id_short(&setup.cluster.nodes[3].id, name);
    refused(&setup, "cannot place layer 5: layers 3 to 5 need ");
    refused(&setup, name);
    refused(&setup, " free; lower micro_batch or add a node");
    setup.cluster.nodes[3].memory_bytes = 5 << 10;
    refused(&setup, "cannot place layer 3: needs ");
    refused(&setup, "has 5.0 KiB free");
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(sizes_are_told_in_the_unit_that_fits)
{
    struct cluster_node node = {.memory_bytes = (INT64_C(78) << 30) / 10};
    struct err err;
    char name[ID_SHORT_SIZE];
    id_short(&node.id, name);
    ck_assert_int_eq(plan_no_room(&err, 7, 7, (INT64_C(91) << 30) / 10, &node, 4), -1);
    char expected[ERR_MSG_SIZE];
    snprintf(expected, sizeof(expected),
             "cannot place layer 7: needs 9.1 GiB, node %s has 7.7 GiB free; lower "
             "micro_batch or add a node",
             name);
    ck_assert_str_eq(err.msg, expected);
    node.memory_bytes = (1 << 20) - 1;
    plan_no_room(&err, 0, 2, 1 << 20, &node, 1);
    ck_assert_ptr_nonnull(strstr(err.msg, "layers 0 to 2 need 1.0 MiB"));
    ck_assert_ptr_nonnull(strstr(err.msg, "has 1023.9 KiB free; add a node"));
}
END_TEST

START_TEST(what_the_job_fixes_is_checked)
{
    struct setup setup;
    setup_init(&setup);
    setup.request.pipeline = 2;
    setup.request.replicas = 2;
    setup.request.micro_batch = 4;
    setup.request.zones_count = 2;
    setup.request.zones[0][0] = 'a';
    setup.request.zones[1][0] = 'b';
    accepted(&setup);
    setup.request.replicas = 1;
    refused(&setup, "the job fixes replicas to 1, the plan has 2");
    setup.plan.loosened = true;
    accepted(&setup);
    setup.plan.loosened = false;
    setup.request.replicas = 2;
    setup.request.micro_batch = 2;
    refused(&setup, "micro_batch to 2");
    setup.request.micro_batch = 0;
    setup.request.zones[1][0] = 'a';
    refused(&setup, "stage 1 to zone \"a\", the plan has it in zone \"b\"");
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(samples_follow_pipeline_by_pipeline)
{
    struct setup setup;
    setup_init(&setup);
    ck_assert_int_eq(plan_first_sample(&setup.plan, 0), 0);
    ck_assert_int_eq(plan_first_sample(&setup.plan, 1), 20);
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(bytes_follow_the_schedule)
{
    struct setup setup;
    setup_init(&setup);
    for (int s = 0; s < 2; s++) {
        struct stage_spec spec = {3 * s, 3, 4, 2 - s, false};
        struct stage_bytes expected;
        struct stage_bytes bytes;
        workload_stage_bytes(&setup.request.shape, &spec, &expected);
        plan_stage_bytes(&setup.plan, &setup.request, s, &bytes);
        ck_assert_int_eq(bytes.total, expected.total);
        ck_assert_int_eq(bytes.activations, expected.activations);
    }
    cluster_release(&setup.cluster);
}
END_TEST

START_TEST(random_bytes_for_a_plan_never_crash_the_check)
{
    struct setup setup;
    setup_init(&setup);
    struct rng rng = {.seed = suite_seed("random_bytes_for_a_plan", 1)};
    struct plan good = setup.plan;
    for (int round = 0; round < 20000; round++) {
        setup.plan = good;
        int hits = 1 + (int)rng_below(&rng, 3);
        int small = (int)rng_below(&rng, 2);
        for (int i = 0; i < hits; i++) {
            int *fields[] = {
                &setup.plan.micro_batch,
                &setup.plan.stages_count,
                &setup.plan.pipelines_count,
                &setup.plan.micro_batches[rng_below(&rng, 3)],
                &setup.plan.stages[rng_below(&rng, 3)].first_layer,
                &setup.plan.stages[rng_below(&rng, 3)].layers,
                &setup.plan.stages[rng_below(&rng, 3)].nodes[rng_below(&rng, 3)]};
            int value =
                small ? (int)rng_below(&rng, 9) - 1 : (int)(uint32_t)rng_next(&rng);
            *fields[rng_below(&rng, 7)] = value;
        }
        struct err err = {0};
        if (plan_check(&setup.plan, &setup.request, &setup.cluster, &err) != 0)
            ck_assert_int_eq(err.code, ERR_PLAN);
    }
    cluster_release(&setup.cluster);
}
END_TEST

Suite *suite_plan(void);
Suite *
suite_plan(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = suite_case(suite, "check", 20);
    tcase_add_test(tests, good_plan_is_accepted);
    tcase_add_test(tests, layers_left_out_or_done_twice_are_refused);
    tcase_add_test(tests, batch_is_kept_to_the_sequence);
    tcase_add_test(tests, node_twice_or_not_there_is_refused);
    tcase_add_test(tests, what_does_not_fit_is_named);
    tcase_add_test(tests, sizes_are_told_in_the_unit_that_fits);
    tcase_add_test(tests, what_the_job_fixes_is_checked);
    tcase_add_test(tests, samples_follow_pipeline_by_pipeline);
    tcase_add_test(tests, bytes_follow_the_schedule);
    tcase_add_test(tests, random_bytes_for_a_plan_never_crash_the_check);
    return suite;
}
