#include "planner/search.h"
#include "tests/planner/world.h"
#include "tests/suite.h"

#include <string.h>

/* Sum of forward, backward of the four-block model on one standard node, one sequence. */
enum { MODEL_NS = 4 * 3000000 + 300000 + 1500000, UPDATE_NS = 6 * 100000 };

static void
one_stage(struct plan *plan, int pipelines, int micro_batch, int micro_batches)
{
    memset(plan, 0, sizeof(*plan));
    plan->micro_batch = micro_batch;
    plan->stages_count = 1;
    plan->pipelines_count = pipelines;
    plan->stages[0].layers = 6;
    for (int j = 0; j < pipelines; j++) {
        plan->micro_batches[j] = micro_batches;
        plan->stages[0].nodes[j] = j;
    }
}

/* Stages of three layers each on nodes 0 and 1 (and 2 and 3). */
static void
two_stages(struct plan *plan, int pipelines, int micro_batch, int micro_batches)
{
    one_stage(plan, pipelines, micro_batch, micro_batches);
    plan->stages_count = 2;
    for (int s = 0; s < 2; s++) {
        plan->stages[s].first_layer = 3 * s;
        plan->stages[s].layers = 3;
        for (int j = 0; j < pipelines; j++)
            plan->stages[s].nodes[j] = 2 * j + s;
    }
}

static int64_t
bound(const struct plan *plan, const struct plan_request *request,
      const struct cluster *cluster)
{
    int64_t gradients[STAGES_MAX];
    for (int s = 0; s < plan->stages_count; s++) {
        struct stage_bytes bytes;
        plan_stage_bytes(plan, request, s, &bytes);
        gradients[s] = bytes.gradients;
    }
    return simulate_bound(plan, request, cluster, gradients);
}

static struct prediction
predict(const struct plan *plan, const struct plan_request *request,
        const struct cluster *cluster)
{
    struct prediction prediction;
    struct err err = {0};
    int rc = simulate(plan, request, cluster, &prediction, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert(bound(plan, request, cluster) <= prediction.step_ns);
    return prediction;
}

START_TEST(one_node_takes_the_sum_of_its_work)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 1, (const int[]){1});
    world_request(&request, 4);
    one_stage(&plan, 1, 4, 8);
    struct prediction prediction = predict(&plan, &request, &cluster);
    ck_assert_int_eq(prediction.step_ns, (int64_t)32 * MODEL_NS + UPDATE_NS);
    ck_assert_int_eq(prediction.compute_ns[0], prediction.step_ns);
    ck_assert_int_eq(prediction.reduce_ns, 0);
    struct stage_bytes bytes;
    plan_stage_bytes(&plan, &request, 0, &bytes);
    ck_assert_int_eq(prediction.memory_bytes[0], bytes.total);
    cluster_release(&cluster);
}
END_TEST

START_TEST(replicas_share_the_work_and_pay_for_the_ring)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 1, (const int[]){4});
    world_request(&request, 4);
    one_stage(&plan, 4, 4, 2);
    struct prediction prediction = predict(&plan, &request, &cluster);
    struct stage_bytes bytes;
    plan_stage_bytes(&plan, &request, 0, &bytes);
    /* Six rounds of a quarter of the gradient at 1 GB/s, 0.1 ms each. */
    int64_t ring_ns = 6 * ((bytes.gradients + 3) / 4) + INT64_C(600000);
    ck_assert_int_eq(prediction.reduce_ns, ring_ns);
    ck_assert_int_eq(prediction.step_ns,
                     (int64_t)8 * MODEL_NS + ring_ns + 200000 + UPDATE_NS);
    cluster_release(&cluster);
}
END_TEST

START_TEST(ring_runs_at_the_pace_of_its_slowest_link)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 2, (const int[]){2, 2});
    world_request(&request, 4);
    one_stage(&plan, 4, 4, 2);
    struct prediction prediction = predict(&plan, &request, &cluster);
    struct stage_bytes bytes;
    plan_stage_bytes(&plan, &request, 0, &bytes);
    int64_t ring_ns = 6 * ((bytes.gradients + 3) / 4) * 80 + INT64_C(120000000);
    ck_assert_int_eq(prediction.reduce_ns, ring_ns);

    /* Nodes in an order that crosses twice as often queue twice on each direction. */
    plan.stages[0].nodes[1] = 2;
    plan.stages[0].nodes[2] = 1;
    struct prediction crossed = predict(&plan, &request, &cluster);
    ck_assert_int_eq(crossed.reduce_ns,
                     INT64_C(12) * ((bytes.gradients + 3) / 4) * 80 + INT64_C(120000000));
    cluster_release(&cluster);
}
END_TEST

START_TEST(pipeline_of_one_micro_batch_is_a_chain)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_request(&request, 4);
    request.sequences = 1;
    two_stages(&plan, 1, 1, 1);
    struct prediction prediction = predict(&plan, &request, &cluster);
    int64_t send_ns = 64 * 64 * 4 * 80 + 20000000;
    int64_t tied_ns = 256 * 64 * 4 * 80 + 20000000;
    ck_assert_int_eq(prediction.step_ns,
                     MODEL_NS + 2 * send_ns + tied_ns + 40000000 + INT64_C(300000));
    cluster_release(&cluster);
}
END_TEST

START_TEST(pipeline_hides_all_but_filling_and_draining)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 1, (const int[]){2});
    world_request(&request, 4);
    cluster.links[0] = (struct cluster_link){INT64_C(1000000000000), 0};
    two_stages(&plan, 1, 1, 32);
    struct prediction prediction = predict(&plan, &request, &cluster);
    /* The second stage is the slower: 32 turns of it, between them the first stage's only
     * turn. */
    int64_t first_ns = 2 * 3000000 + 300000;
    int64_t second_ns = 2 * 3000000 + 1500000;
    int64_t least_ns = first_ns + 32 * second_ns + INT64_C(300000);
    ck_assert_int_ge(prediction.step_ns, least_ns);
    ck_assert_int_le(prediction.step_ns, least_ns + 1000);
    ck_assert_int_eq(prediction.bound_stage, 1);
    cluster_release(&cluster);
}
END_TEST

START_TEST(pipelines_contend_for_the_link_between_zones)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 2, (const int[]){2, 2});
    world_request(&request, 4);
    cluster.links[1] = (struct cluster_link){100000, 0}; /* 164 ms an activation */
    cluster.links[2] = (struct cluster_link){100000, 0};
    cluster.links[0].round_trip_us = 0;
    cluster.links[3].round_trip_us = 0;
    request.sequences = 16;
    two_stages(&plan, 1, 1, 16);
    plan.stages[1].nodes[0] = 2;
    struct prediction alone = predict(&plan, &request, &cluster);
    plan.pipelines_count = 2;
    plan.micro_batches[0] = 16;
    plan.micro_batches[1] = 16;
    plan.stages[0].nodes[1] = 1;
    plan.stages[1].nodes[1] = 3;
    request.sequences = 32;
    struct prediction shared = predict(&plan, &request, &cluster);
    int64_t activation_ns = INT64_C(64) * 64 * 4 * 10000;
    ck_assert_int_ge(alone.step_ns, 16 * activation_ns);
    ck_assert_int_ge(shared.step_ns, 32 * activation_ns);
    ck_assert_int_ge(shared.step_ns - alone.step_ns, 15 * activation_ns);
    cluster_release(&cluster);
}
END_TEST

START_TEST(slower_link_or_node_never_makes_a_step_faster)
{
    struct rng rng = {.seed = suite_seed("slower_link_or_node", 5)};
    for (int round = 0; round < 60; round++) {
        struct cluster cluster;
        struct plan_request request;
        struct plan plan;
        struct prediction prediction;
        struct err err;
        world_random(&rng, 6, 3, &cluster, &request);
        if (search(&request, &cluster, &plan, &prediction, &err) == 0) {
            ck_assert_int_eq(plan.predicted_step_ns, prediction.step_ns);
            struct prediction again = predict(&plan, &request, &cluster);
            ck_assert_mem_eq(&again, &prediction, sizeof(again));
            for (int i = 0; i < cluster.zones_count * cluster.zones_count; i++)
                cluster.links[i].bytes_per_s = cluster.links[i].bytes_per_s / 4 + 1;
            struct prediction narrow = predict(&plan, &request, &cluster);
            ck_assert(narrow.step_ns >= prediction.step_ns);
            for (int n = 0; n < cluster.nodes_count; n++)
                cluster.nodes[n].profile.correction_ppm = 4000000;
            struct prediction slow = predict(&plan, &request, &cluster);
            ck_assert(slow.step_ns > narrow.step_ns);
        }
        cluster_release(&cluster);
    }
}
END_TEST

START_TEST(cut_link_means_never)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_request(&request, 4);
    cluster.links[1].bytes_per_s = 0;
    two_stages(&plan, 1, 1, 32);
    ck_assert(predict(&plan, &request, &cluster).step_ns == NS_NEVER);
    cluster_release(&cluster);
}
END_TEST

START_TEST(node_without_a_profile_cannot_be_predicted)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 1, (const int[]){2});
    world_request(&request, 4);
    cluster.nodes[1].profile.count = 0;
    two_stages(&plan, 1, 1, 32);
    struct prediction prediction;
    struct err err = {0};
    ck_assert_int_eq(simulate(&plan, &request, &cluster, &prediction, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    char name[ID_SHORT_SIZE];
    ck_assert_ptr_nonnull(strstr(err.msg, id_short(&cluster.nodes[1].id, name)));
    ck_assert(bound(&plan, &request, &cluster) == NS_NEVER);
    cluster_release(&cluster);
}
END_TEST

Suite *suite_simulate(void);
Suite *
suite_simulate(void)
{
    Suite *suite = suite_create("simulate");
    TCase *tests = suite_case(suite, "replay", 20);
    tcase_add_test(tests, one_node_takes_the_sum_of_its_work);
    tcase_add_test(tests, replicas_share_the_work_and_pay_for_the_ring);
    tcase_add_test(tests, ring_runs_at_the_pace_of_its_slowest_link);
    tcase_add_test(tests, pipeline_of_one_micro_batch_is_a_chain);
    tcase_add_test(tests, pipeline_hides_all_but_filling_and_draining);
    tcase_add_test(tests, pipelines_contend_for_the_link_between_zones);
    tcase_add_test(tests, slower_link_or_node_never_makes_a_step_faster);
    tcase_add_test(tests, cut_link_means_never);
    tcase_add_test(tests, node_without_a_profile_cannot_be_predicted);
    return suite;
}
