#include "planner/muster.h"
#include "planner/next.h"
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

/* What a step of a plan over nodes takes by the replay. -1: it cannot be carried out. */
static int
replayed(const struct plan *plan, const struct plan_request *request,
         const struct cluster *cluster, struct estimate *out, struct err *err)
{
    struct muster muster;
    struct fleet_plan over_pools;
    muster_init(&muster, request, cluster);
    muster_fleet_plan(&muster, plan, &over_pools);
    int rc = fleet_plan_check(&over_pools, &muster.request, muster.fleet, err) != 0 ||
                     evaluate(&over_pools, &muster.request, muster.fleet, NULL, NULL, out,
                              err) != 0
                 ? -1
                 : 0;
    fleet_plan_release(&over_pools);
    muster_release(&muster);
    return rc;
}

static struct estimate
predict(const struct plan *plan, const struct plan_request *request,
        const struct cluster *cluster)
{
    struct estimate estimate;
    struct err err = {0};
    int rc = replayed(plan, request, cluster, &estimate, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    return estimate;
}

/* What is reduced of a whole model: its parameters, and the head's gradient of the
 * embedding. */
static int64_t
gradients_of(const struct plan *plan, const struct plan_request *request)
{
    int64_t sum = (int64_t)request->shape.vocabulary * request->shape.hidden;
    for (int l = 0; l < plan->stages[0].layers; l++)
        sum += workload_layer_parameters(&request->shape, l);
    return 4 * sum;
}

static bool
close_to(double seconds, double ns)
{
    double off = seconds * 1e9 - ns;
    return off < 2.0 && off > -2.0;
}

START_TEST(one_node_takes_the_sum_of_its_work)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    world_cluster(&cluster, 1, (const int[]){1});
    world_request(&request, 4);
    one_stage(&plan, 1, 4, 8);
    struct estimate estimate = predict(&plan, &request, &cluster);
    ck_assert(close_to(estimate.iteration_s, 32.0 * MODEL_NS + UPDATE_NS));
    ck_assert(estimate.stages[0].reduce_s == 0.0);
    struct stage_bytes bytes;
    plan_stage_bytes(&plan, &request, 0, &bytes);
    ck_assert_int_eq(estimate.stages[0].memory.total, bytes.total);
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
    struct estimate estimate = predict(&plan, &request, &cluster);
    /* Six rounds of a quarter of the gradient at 1 GB/s, 0.1 ms each. */
    double ring_ns = 6.0 * (double)gradients_of(&plan, &request) / 4.0 + 600000.0;
    ck_assert(close_to(estimate.stages[0].reduce_s, ring_ns));
    ck_assert(
        close_to(estimate.iteration_s, 8.0 * MODEL_NS + ring_ns + 200000.0 + UPDATE_NS));
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
    struct estimate estimate = predict(&plan, &request, &cluster);
    double bytes = (double)gradients_of(&plan, &request);
    ck_assert(close_to(estimate.stages[0].reduce_s, 6.0 * bytes / 4.0 * 80.0 + 120e6));

    /* Nodes in an order that crosses twice as often queue twice on each direction. */
    plan.stages[0].nodes[1] = 2;
    plan.stages[0].nodes[2] = 1;
    struct estimate crossed = predict(&plan, &request, &cluster);
    ck_assert(close_to(crossed.stages[0].reduce_s, 12.0 * bytes / 4.0 * 80.0 + 120e6));
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
    struct estimate estimate = predict(&plan, &request, &cluster);
    double send_ns = 64.0 * 64 * 4 * 80 + 20e6;
    double tied_ns = 256.0 * 64 * 4 * 80 + 20e6;
    ck_assert(close_to(estimate.iteration_s,
                       MODEL_NS + 2.0 * send_ns + tied_ns + 40e6 + 300e3));
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
    cluster.links[0] =
        (struct cluster_link){.bytes_per_s = INT64_C(1000000000000), .round_trip_us = 0};
    two_stages(&plan, 1, 1, 32);
    struct estimate estimate = predict(&plan, &request, &cluster);
    /* The second stage is the slower: 32 turns of it, between them the first stage's only
     * turn. */
    double first_ns = 2 * 3000000 + 300000;
    double second_ns = 2 * 3000000 + 1500000;
    double least_ns = first_ns + 32.0 * second_ns + 300e3;
    ck_assert(estimate.iteration_s * 1e9 >= least_ns - 2.0);
    ck_assert(estimate.iteration_s * 1e9 <= least_ns + 1000.0);
    ck_assert_int_eq(estimate.bound.stage, 1);
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
    cluster.links[1] = (struct cluster_link){
        .bytes_per_s = 100000, .round_trip_us = 0}; /* 164 ms an activation */
    cluster.links[2] = (struct cluster_link){.bytes_per_s = 100000, .round_trip_us = 0};
    cluster.links[0].round_trip_us = 0;
    cluster.links[3].round_trip_us = 0;
    request.sequences = 16;
    two_stages(&plan, 1, 1, 16);
    plan.stages[1].nodes[0] = 2;
    struct estimate alone = predict(&plan, &request, &cluster);
    plan.pipelines_count = 2;
    plan.micro_batches[0] = 16;
    plan.micro_batches[1] = 16;
    plan.stages[0].nodes[1] = 1;
    plan.stages[1].nodes[1] = 3;
    request.sequences = 32;
    struct estimate shared = predict(&plan, &request, &cluster);
    double activation_s = 64.0 * 64 * 4 / 100000;
    ck_assert(alone.iteration_s >= 16.0 * activation_s);
    ck_assert(shared.iteration_s >= 32.0 * activation_s);
    ck_assert(shared.iteration_s - alone.iteration_s >= 15.0 * activation_s);
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
        struct err err;
        world_random(&rng, 6, 3, &cluster, &request);
        if (plan_next(&request, &cluster, NULL, &plan, &err) == 0) {
            struct estimate fresh = predict(&plan, &request, &cluster);
            ck_assert(close_to(fresh.iteration_s, (double)plan.predicted_step_ns));
            for (int i = 0; i < cluster.zones_count * cluster.zones_count; i++)
                cluster.links[i].bytes_per_s = cluster.links[i].bytes_per_s / 4 + 1;
            struct estimate narrow = predict(&plan, &request, &cluster);
            ck_assert(narrow.iteration_s >= fresh.iteration_s);
            for (int n = 0; n < cluster.nodes_count; n++)
                cluster.nodes[n].profile.correction_ppm = 4000000;
            struct estimate slow = predict(&plan, &request, &cluster);
            ck_assert(slow.iteration_s > narrow.iteration_s);
        }
        cluster_release(&cluster);
    }
}
END_TEST

START_TEST(cut_link_joins_nobody)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    struct estimate estimate;
    struct err err = {0};
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_request(&request, 4);
    cluster.links[1].bytes_per_s = 0;
    two_stages(&plan, 1, 1, 32);
    ck_assert_int_eq(replayed(&plan, &request, &cluster, &estimate, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "which have no link"));
    cluster_release(&cluster);
}
END_TEST

/* A link that small messages fill badly. */
START_TEST(links_have_the_curve_that_was_measured_of_them)
{
    static const struct {
        int64_t bytes, rate;
    } points[] = {{65536, 20000000},
                  {1 << 20, 60000000},
                  {16 << 20, 90000000},
                  {64 << 20, 100000000}};
    struct cluster cluster;
    struct plan_request request;
    struct muster muster;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_request(&request, 4);
    struct cluster_link *far = &cluster.links[1];
    far->bytes_per_s = 100000000;
    for (int i = 0; i < 4; i++) {
        far->message_bytes[i] = points[i].bytes;
        far->message_bytes_per_s[i] = points[i].rate;
    }
    muster_init(&muster, &request, &cluster);
    const struct fleet_curve *curve =
        fleet_curve(muster.fleet, muster.pool_of[0], 0, muster.pool_of[1], 0);
    for (int i = 0; i < 4; i++) {
        double bytes = (double)points[i].bytes;
        double rate = bytes / (fleet_send_s(curve, bytes) - curve->delay_s);
        ck_assert(rate > 0.95 * (double)points[i].rate);
        ck_assert(rate < 1.05 * (double)points[i].rate);
    }
    /* Below what was measured as at its edge. */
    ck_assert(fleet_send_s(curve, 1000.0) - curve->delay_s < 1000.0 / 19e6);
    muster_release(&muster);

    /* Two sizes are no curve, and nonsense is none either. */
    for (int nonsense = 0; nonsense < 2; nonsense++) {
        far->message_bytes_per_s[0] = nonsense ? 1 : 0;
        far->message_bytes_per_s[1] = nonsense ? INT64_C(900000000000) : 0;
        far->message_bytes_per_s[2] = nonsense ? 1 : 90000000;
        muster_init(&muster, &request, &cluster);
        curve = fleet_curve(muster.fleet, muster.pool_of[0], 0, muster.pool_of[1], 0);
        ck_assert(curve->c2 == 0.0 && curve->c1 == 0.0 && curve->c0 == 0.1);
        muster_release(&muster);
    }
    cluster_release(&cluster);
}
END_TEST

START_TEST(who_measured_nothing_or_is_gone_is_in_no_pool)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    struct muster muster;
    struct fleet_plan over_pools;
    world_cluster(&cluster, 1, (const int[]){3});
    world_request(&request, 4);
    cluster.nodes[1].profile.count = 0;
    one_stage(&plan, 3, 1, 8);
    plan.stages[0].nodes[2] = -1;
    muster_init(&muster, &request, &cluster);
    muster_fleet_plan(&muster, &plan, &over_pools);
    ck_assert_int_eq(fleet_plan_replica(&over_pools, 0, 0)->pool, 0);
    ck_assert_int_eq(fleet_plan_replica(&over_pools, 0, 1)->pool, -1);
    ck_assert_int_eq(fleet_plan_replica(&over_pools, 0, 2)->pool, -1);
    ck_assert_int_eq(muster.fleet->pools[0].devices, 2);
    fleet_plan_release(&over_pools);
    muster_release(&muster);
    cluster_release(&cluster);
}
END_TEST

START_TEST(members_are_one_kind_when_they_are_alike_or_too_many)
{
    struct cluster cluster;
    struct plan_request request;
    struct muster muster;
    world_cluster(&cluster, 2, (const int[]){40, 40});
    world_request(&request, 4);
    muster_init(&muster, &request, &cluster);
    ck_assert_int_eq(muster.fleet->kinds_count, 1);
    ck_assert_int_eq(muster.fleet->pools_count, 2);
    muster_release(&muster);

    /* A kind is as fast as its slowest and as roomy as its smallest. */
    for (int n = 0; n < cluster.nodes_count; n++) {
        world_speed(&cluster, n, 100 + n);
        cluster.nodes[n].memory_bytes -= n;
    }
    muster_init(&muster, &request, &cluster);
    ck_assert_int_le(muster.fleet->kinds_count, FLEET_KINDS_MAX);
    for (int n = 0; n < cluster.nodes_count; n++) {
        int kind = muster.fleet->pools[muster.pool_of[n]].kind;
        const struct fleet_kind *of = &muster.fleet->kinds[kind];
        int64_t forward_ns, backward_ns, update_ns;
        cluster_layer_ns(&cluster.nodes[n], LAYER_BLOCK, 1, &forward_ns, &backward_ns,
                         &update_ns);
        ck_assert_int_le(of->memory_bytes, cluster.nodes[n].memory_bytes);
        ck_assert(of->times[0].layers[1].forward_s * 1e9 >= (double)forward_ns - 1.0);
    }
    muster_release(&muster);
    cluster_release(&cluster);
}
END_TEST

/* Who holds the layers keeps them, wherever the plan numbers its pipelines. */
START_TEST(places_go_to_those_who_hold_their_layers)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan current, next;
    struct muster muster;
    struct fleet_plan over_pools;
    world_cluster(&cluster, 1, (const int[]){4});
    world_request(&request, 4);
    two_stages(&current, 2, 1, 16);
    /* Nodes 3 and 1 hold the first half, 0 and 2 the second. */
    current.stages[0].nodes[0] = 3;
    current.stages[0].nodes[1] = 1;
    current.stages[1].nodes[0] = 0;
    current.stages[1].nodes[1] = 2;
    muster_init(&muster, &request, &cluster);
    muster_fleet_plan(&muster, &current, &over_pools);
    ck_assert(muster_plan(&muster, &over_pools, &current, &next));
    for (int s = 0; s < 2; s++)
        for (int j = 0; j < 2; j++)
            ck_assert_int_eq(next.stages[s].nodes[j], current.stages[s].nodes[j]);
    fleet_plan_release(&over_pools);
    muster_release(&muster);
    cluster_release(&cluster);
}
END_TEST

Suite *suite_muster(void);
Suite *
suite_muster(void)
{
    Suite *suite = suite_create("muster");
    TCase *tests = suite_case(suite, "replay", 20);
    tcase_add_test(tests, one_node_takes_the_sum_of_its_work);
    tcase_add_test(tests, replicas_share_the_work_and_pay_for_the_ring);
    tcase_add_test(tests, ring_runs_at_the_pace_of_its_slowest_link);
    tcase_add_test(tests, pipeline_of_one_micro_batch_is_a_chain);
    tcase_add_test(tests, pipeline_hides_all_but_filling_and_draining);
    tcase_add_test(tests, pipelines_contend_for_the_link_between_zones);
    tcase_add_test(tests, slower_link_or_node_never_makes_a_step_faster);
    tcase_add_test(tests, cut_link_joins_nobody);
    tcase_add_test(tests, links_have_the_curve_that_was_measured_of_them);
    TCase *nodes = suite_case(suite, "nodes", 20);
    tcase_add_test(nodes, who_measured_nothing_or_is_gone_is_in_no_pool);
    tcase_add_test(nodes, members_are_one_kind_when_they_are_alike_or_too_many);
    tcase_add_test(nodes, places_go_to_those_who_hold_their_layers);
    return suite;
}
