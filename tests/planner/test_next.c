#include "planner/next.h"
#include "tests/planner/world.h"
#include "tests/suite.h"

#include <string.h>

enum { ROUNDS = 300 };

struct answer {
    bool found;
    struct plan plan;
    struct err err;
};

static void
ask(const struct plan_request *request, const struct cluster *cluster, struct answer *out)
{
    memset(out, 0, sizeof(*out));
    out->found = plan_next(request, cluster, NULL, &out->plan, &out->err) == 0;
    if (out->found) {
        int rc = plan_check(&out->plan, request, cluster, &out->err);
        ck_assert_msg(rc == 0, "plan found is refused: %s", out->err.msg);
    } else {
        ck_assert_int_eq(out->err.code, ERR_PLAN);
    }
}

static void
must_find(const struct plan_request *request, const struct cluster *cluster,
          struct answer *out)
{
    ask(request, cluster, out);
    ck_assert_msg(out->found, "%s", out->err.msg);
}

/* The job that fixes 2 stages across zones a and b, 2 replicas. */
static void
fix_two_by_two(struct plan_request *request)
{
    world_request(request, 4);
    request->pipeline = 2;
    request->replicas = 2;
    request->micro_batch = 4;
    request->zones_count = 2;
    request->zones[0][0] = 'a';
    request->zones[1][0] = 'b';
}

static bool
uses(const struct plan *plan, int stage, int node)
{
    for (int j = 0; j < plan->pipelines_count; j++)
        if (plan->stages[stage].nodes[j] == node)
            return true;
    return false;
}

START_TEST(fixed_two_stages_across_zones_are_kept)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){2, 2});
    fix_two_by_two(&request);
    must_find(&request, &cluster, &answer);
    ck_assert(!answer.plan.loosened);
    ck_assert_int_eq(answer.plan.stages_count, 2);
    ck_assert_int_eq(answer.plan.pipelines_count, 2);
    ck_assert_int_eq(answer.plan.micro_batch, 4);
    ck_assert_int_eq(answer.plan.micro_batches[0], 4);
    ck_assert_int_eq(answer.plan.micro_batches[1], 4);
    ck_assert(uses(&answer.plan, 0, 0) && uses(&answer.plan, 0, 1));
    ck_assert(uses(&answer.plan, 1, 2) && uses(&answer.plan, 1, 3));
    cluster_release(&cluster);
}
END_TEST

START_TEST(zones_without_a_pipeline_give_a_stage_each)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 3, (const int[]){2, 1, 2});
    world_request(&request, 4);
    request.zones_count = 3;
    request.zones[0][0] = 'c';
    request.zones[1][0] = 'b';
    request.zones[2][0] = 'a';
    must_find(&request, &cluster, &answer);
    ck_assert(!answer.plan.loosened);
    ck_assert_int_eq(answer.plan.stages_count, 3);
    ck_assert_int_eq(answer.plan.pipelines_count, 1);
    for (int s = 0; s < 3; s++)
        ck_assert_int_eq(cluster.nodes[answer.plan.stages[s].nodes[0]].zone, 2 - s);
    cluster_release(&cluster);
}
END_TEST

START_TEST(lost_node_costs_a_replica_before_it_costs_the_zones)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){1, 2}); /* a1 is lost */
    fix_two_by_two(&request);
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.loosened);
    ck_assert_int_eq(answer.plan.stages_count, 2);
    ck_assert_int_eq(answer.plan.pipelines_count, 1);
    ck_assert_int_eq(answer.plan.micro_batch, 4);
    ck_assert_int_eq(answer.plan.stages[0].nodes[0], 0);
    ck_assert_int_eq(answer.plan.stages[1].nodes[0], 1);
    cluster_release(&cluster);
}
END_TEST

START_TEST(lost_zone_costs_the_zones_before_it_costs_the_pipeline)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){2, 0});
    fix_two_by_two(&request);
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.loosened);
    ck_assert_int_eq(answer.plan.stages_count, 2);
    ck_assert_int_eq(answer.plan.pipelines_count, 1);
    ck_assert(uses(&answer.plan, 0, 0) != uses(&answer.plan, 0, 1));
    cluster_release(&cluster);

    /* A zone that is not even known any more is no different. */
    world_cluster(&cluster, 1, (const int[]){4});
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.loosened);
    ck_assert_int_eq(answer.plan.stages_count, 2);
    ck_assert_int_eq(answer.plan.pipelines_count, 2);
    cluster_release(&cluster);
}
END_TEST

START_TEST(last_node_does_everything)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){0, 1});
    fix_two_by_two(&request);
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.loosened);
    ck_assert_int_eq(answer.plan.stages_count, 1);
    ck_assert_int_eq(answer.plan.pipelines_count, 1);
    ck_assert_int_eq(answer.plan.micro_batch, 4);
    cluster_release(&cluster);
}
END_TEST

START_TEST(micro_batch_gives_way_last)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 1, (const int[]){1});
    world_request(&request, 4);
    request.micro_batch = 5; /* does not divide 32 */
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.loosened);

    /* Memory for two sequences at once, not for the four that are fixed. */
    request.micro_batch = 4;
    struct stage_spec spec = {0, 6, 2, 1, false};
    struct stage_bytes bytes;
    workload_stage_bytes(&request.shape, &spec, &bytes);
    cluster.nodes[0].memory_bytes = bytes.total;
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.loosened);
    ck_assert_int_le(answer.plan.micro_batch, 2);
    cluster_release(&cluster);
}
END_TEST

START_TEST(fixed_micro_batch_may_be_shared_unevenly)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 1, (const int[]){3});
    world_request(&request, 4);
    request.replicas = 3;
    request.micro_batch = 4;
    must_find(&request, &cluster, &answer);
    ck_assert(!answer.plan.loosened);
    ck_assert_int_eq(answer.plan.micro_batches[0], 3);
    ck_assert_int_eq(answer.plan.micro_batches[1], 3);
    ck_assert_int_eq(answer.plan.micro_batches[2], 2);
    cluster_release(&cluster);
}
END_TEST

START_TEST(slow_pipeline_takes_fewer_micro_batches)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 1, (const int[]){2});
    world_speed(&cluster, 0, 300);
    world_request(&request, 4);
    request.replicas = 2;
    request.micro_batch = 1;
    must_find(&request, &cluster, &answer);
    ck_assert_int_eq(answer.plan.stages[0].nodes[0], 1);
    ck_assert_int_eq(answer.plan.micro_batches[0], 24);
    ck_assert_int_eq(answer.plan.micro_batches[1], 8);
    cluster_release(&cluster);
}
END_TEST

START_TEST(slow_stage_takes_fewer_layers)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_speed(&cluster, 0, 300);
    world_request(&request, 8);
    request.zones_count = 2;
    request.zones[0][0] = 'a';
    request.zones[1][0] = 'b';
    must_find(&request, &cluster, &answer);
    /* 30 ms of work: 3 times slower over a quarter of it. */
    ck_assert_int_eq(answer.plan.stages[0].layers, 3);
    ck_assert_int_eq(answer.plan.stages[1].layers, 7);
    cluster_release(&cluster);
}
END_TEST

START_TEST(alone_a_planner_stays_in_the_fast_zone)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){4, 4});
    world_request(&request, 4);
    cluster.links[1].bytes_per_s = 100000;
    cluster.links[2].bytes_per_s = 100000;
    world_speed(&cluster, 2, 150);
    must_find(&request, &cluster, &answer);
    for (int s = 0; s < answer.plan.stages_count; s++)
        for (int j = 0; j < answer.plan.pipelines_count; j++)
            ck_assert_int_eq(cluster.nodes[answer.plan.stages[s].nodes[j]].zone, 1);
    cluster_release(&cluster);
}
END_TEST

START_TEST(zones_join_when_their_link_is_wide)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){2, 2});
    world_request(&request, 8);
    for (int link = 0; link < 4; link++)
        cluster.links[link] = (struct cluster_link){.bytes_per_s = INT64_C(10000000000),
                                                    .round_trip_us = 20};
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.stages_count * answer.plan.pipelines_count == 4);
    cluster_release(&cluster);
}
END_TEST

START_TEST(model_too_large_for_a_node_is_cut)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){2, 2});
    world_request(&request, 8);
    struct stage_spec all = {0, 10, 1, 1, false};
    struct stage_bytes bytes;
    workload_stage_bytes(&request.shape, &all, &bytes);
    for (int n = 0; n < 4; n++)
        cluster.nodes[n].memory_bytes = bytes.total * 2 / 3;
    must_find(&request, &cluster, &answer);
    ck_assert(!answer.plan.loosened);
    ck_assert_int_ge(answer.plan.stages_count, 2);
    cluster_release(&cluster);
}
END_TEST

START_TEST(roomy_node_takes_the_layers_that_others_cannot)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_request(&request, 8);
    request.pipeline = 2;
    struct stage_spec tail = {8, 2, 1, 1, false};
    struct stage_bytes bytes;
    workload_stage_bytes(&request.shape, &tail, &bytes);
    cluster.nodes[0].memory_bytes = bytes.total + bytes.total / 10;
    world_speed(&cluster, 1, 300); /* and it is the slow one that has room */
    must_find(&request, &cluster, &answer);
    ck_assert(!answer.plan.loosened);
    int small = answer.plan.stages[0].nodes[0] == 0 ? 0 : 1;
    ck_assert_int_le(answer.plan.stages[small].layers, 2);
    cluster_release(&cluster);
}
END_TEST

START_TEST(fixed_stage_takes_the_roomy_nodes_of_its_zone)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 2, (const int[]){3, 2});
    fix_two_by_two(&request);
    cluster.nodes[0].memory_bytes = 1000;
    world_speed(&cluster, 0, 10);
    must_find(&request, &cluster, &answer);
    ck_assert(!answer.plan.loosened);
    ck_assert(!uses(&answer.plan, 0, 0));
    cluster_release(&cluster);
}
END_TEST

START_TEST(layer_without_room_is_named)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    char name[ID_SHORT_SIZE];
    world_cluster(&cluster, 1, (const int[]){2});
    world_request(&request, 4);
    cluster.nodes[0].memory_bytes = 3000;
    cluster.nodes[1].memory_bytes = 5000;
    ask(&request, &cluster, &answer);
    ck_assert(!answer.found);
    ck_assert_ptr_nonnull(strstr(answer.err.msg, "cannot place layer 0: needs "));
    id_short(&cluster.nodes[1].id, name);
    ck_assert_ptr_nonnull(strstr(answer.err.msg, name));
    ck_assert_ptr_nonnull(strstr(answer.err.msg, "has 4.8 KiB free; add a node"));

    /* Room for the beginning only. */
    struct stage_spec spec = {0, 3, 1, 2, false};
    struct stage_bytes bytes;
    workload_stage_bytes(&request.shape, &spec, &bytes);
    cluster.nodes[0].memory_bytes = bytes.total;
    ask(&request, &cluster, &answer);
    ck_assert(!answer.found);
    ck_assert_ptr_nonnull(strstr(answer.err.msg, "cannot place layer 3: needs "));
    cluster_release(&cluster);
}
END_TEST

START_TEST(node_without_a_profile_only_watches)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 1, (const int[]){3});
    world_request(&request, 4);
    cluster.nodes[1].profile.count = 0;
    must_find(&request, &cluster, &answer);
    for (int s = 0; s < answer.plan.stages_count; s++)
        ck_assert(!uses(&answer.plan, s, 1));
    cluster.nodes[0].profile.count = 0;
    cluster.nodes[2].profile.count = 0;
    ask(&request, &cluster, &answer);
    ck_assert(!answer.found);
    ck_assert_ptr_nonnull(strstr(answer.err.msg, "none of 3 nodes has a measured"));
    cluster_release(&cluster);
}
END_TEST

START_TEST(request_out_of_range_is_a_usage_error)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    struct err err = {0};
    world_cluster(&cluster, 1, (const int[]){1});
    world_request(&request, 4);
    request.sequences = 0;
    ck_assert_int_eq(plan_next(&request, &cluster, NULL, &plan, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    world_request(&request, 4);
    request.shape.heads = 3;
    ck_assert_int_eq(plan_next(&request, &cluster, NULL, &plan, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    cluster_release(&cluster);
}
END_TEST

START_TEST(same_snapshot_gives_the_same_plan)
{
    struct rng rng = {.seed = suite_seed("same_snapshot", 2)};
    for (int round = 0; round < ROUNDS / 6; round++) {
        struct cluster cluster;
        struct plan_request request;
        static struct answer first;
        static struct answer again;
        world_random(&rng, 8, 4, &cluster, &request);
        ask(&request, &cluster, &first);
        ask(&request, &cluster, &again);
        ck_assert_int_eq(first.found, again.found);
        ck_assert_mem_eq(&first.plan, &again.plan, sizeof(first.plan));
        cluster_release(&cluster);
    }
}
END_TEST

/* The pool without what is `gone` may not be planned better than the whole pool. */
static void
not_better_without(const struct plan_request *request, const struct cluster *cluster,
                   const bool *gone, const struct answer *whole)
{
    struct cluster part;
    static struct answer answer;
    world_without(cluster, gone, &part);
    ask(request, &part, &answer);
    cluster_release(&part);
    if (!answer.found)
        return;
    ck_assert(whole->found);
    ck_assert_msg(whole->plan.predicted_step_ns <= answer.plan.predicted_step_ns,
                  "whole pool %lld ns, a part of it %lld ns",
                  (long long)whole->plan.predicted_step_ns,
                  (long long)answer.plan.predicted_step_ns);
}

START_TEST(pool_is_never_worse_than_a_zone_or_a_node_of_it)
{
    struct rng rng = {.seed = suite_seed("pool_is_never_worse", 5)};
    for (int round = 0; round < ROUNDS; round++) {
        struct cluster cluster;
        struct plan_request request;
        static struct answer whole;
        bool gone[PLAN_NODES_MAX];
        world_random(&rng, 7, 4, &cluster, &request);
        ask(&request, &cluster, &whole);
        for (int n = 0; n < cluster.nodes_count; n++) {
            for (int k = 0; k < cluster.nodes_count; k++)
                gone[k] = k != n;
            not_better_without(&request, &cluster, gone, &whole);
        }
        for (int zone = 0; zone < cluster.zones_count; zone++) {
            for (int k = 0; k < cluster.nodes_count; k++)
                gone[k] = cluster.nodes[k].zone != zone;
            not_better_without(&request, &cluster, gone, &whole);
        }
        cluster_release(&cluster);
    }
}
END_TEST

/* Every cut into up to three stages. */
static bool
brute_force_cuts(struct plan *plan, const struct plan_request *request,
                 const struct cluster *cluster)
{
    int layers = workload_layers(&request->shape);
    int borders[4] = {0};
    for (borders[1] = 1; borders[1] <= layers; borders[1]++) {
        for (borders[2] = borders[1]; borders[2] <= layers; borders[2]++) {
            borders[3] = layers;
            borders[plan->stages_count] = layers;
            bool whole = true;
            for (int s = 0; s < plan->stages_count; s++) {
                plan->stages[s].first_layer = borders[s];
                plan->stages[s].layers = borders[s + 1] - borders[s];
                whole = whole && plan->stages[s].layers > 0;
            }
            struct err err;
            if (whole && plan_check(plan, request, cluster, &err) == 0)
                return true;
            if (plan->stages_count < 3)
                break;
        }
        if (plan->stages_count < 2)
            break;
    }
    return false;
}

/* Can a fixed request on a small cluster be met? Tries every choice of nodes and every
 * cut, with r replicas. */
static bool
brute_force(const struct plan_request *request, const struct cluster *cluster)
{
    int slots = request->pipeline * request->replicas;
    int64_t ways = 1;
    for (int i = 0; i < slots; i++)
        ways *= cluster->nodes_count;
    static struct plan plan;
    memset(&plan, 0, sizeof(plan));
    plan.stages_count = request->pipeline;
    plan.pipelines_count = request->replicas;
    plan.micro_batch = request->micro_batch;
    int total = request->sequences / request->micro_batch;
    if (request->sequences % request->micro_batch != 0 || total < request->replicas)
        return false;
    for (int j = 0; j < request->replicas; j++)
        plan.micro_batches[j] =
            total / request->replicas + (j < total % request->replicas);
    for (int64_t way = 0; way < ways; way++) {
        int64_t rest = way;
        bool usable = true;
        for (int i = 0; i < slots; i++) {
            int node = (int)(rest % cluster->nodes_count);
            rest /= cluster->nodes_count;
            plan.stages[i / request->replicas].nodes[i % request->replicas] = node;
            usable = usable && cluster->nodes[node].profile.count > 0;
        }
        if (usable && brute_force_cuts(&plan, request, cluster))
            return true;
    }
    return false;
}

START_TEST(what_is_fixed_is_kept_whenever_it_can_be)
{
    struct rng rng = {.seed = suite_seed("what_is_fixed", 4)};
    int kept = 0;
    int loosened = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct cluster cluster;
        struct plan_request request;
        static struct answer answer;
        world_random(&rng, 5, 2, &cluster, &request);
        request.pipeline = 1 + (int)rng_below(&rng, 3);
        request.replicas = 1 + (int)rng_below(&rng, request.pipeline == 3 ? 1 : 2);
        request.micro_batch = 1 + (int)rng_below(&rng, 3);
        int share = 1 + (int)rng_below(&rng, 4); /* tighter, to the point of impossible */
        for (int n = 0; n < cluster.nodes_count; n++)
            cluster.nodes[n].memory_bytes = cluster.nodes[n].memory_bytes / share + 1;
        if (rng_below(&rng, 2) == 0) {
            request.zones_count = request.pipeline;
            for (int s = 0; s < request.zones_count; s++)
                request.zones[s][0] = (char)('a' + (int)rng_below(&rng, 2));
        }
        ask(&request, &cluster, &answer);
        bool possible = brute_force(&request, &cluster);
        ck_assert_msg(possible == (answer.found && !answer.plan.loosened),
                      "round %d: possible %d, found %d, loosened %d", round, possible,
                      answer.found, answer.plan.loosened);
        kept += possible;
        loosened += answer.found && !possible;
        cluster_release(&cluster);
    }
    ck_assert_int_gt(kept, ROUNDS / 10);
    ck_assert_int_gt(loosened, ROUNDS / 10);
}
END_TEST

START_TEST(large_clusters_are_planned_in_counted_work)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 6, (const int[]){12, 12, 10, 10, 10, 10});
    world_request(&request, 24);
    request.sequences = 1024;
    struct rng rng = {.seed = suite_seed("large_clusters", 6)};
    for (int n = 0; n < cluster.nodes_count; n++)
        world_speed(&cluster, n, 50 + (int)rng_below(&rng, 200));
    must_find(&request, &cluster, &answer);
    ck_assert(answer.plan.stages_count * answer.plan.pipelines_count > 8);
    cluster_release(&cluster);
}
END_TEST

START_TEST(hopeless_requests_are_refused_in_counted_work)
{
    struct cluster cluster;
    struct plan_request request;
    struct answer answer;
    world_cluster(&cluster, 6, (const int[]){12, 12, 10, 10, 10, 10});
    world_request(&request, 24);
    request.sequences = 1024;
    request.pipeline = 16;
    request.replicas = 4;
    for (int n = 0; n < cluster.nodes_count; n++) {
        world_speed(&cluster, n, 50 + n);
        cluster.nodes[n].memory_bytes = 100000 + n;
    }
    ask(&request, &cluster, &answer);
    ck_assert(!answer.found);
    ck_assert_ptr_nonnull(strstr(answer.err.msg, "cannot place layer 0: needs "));
    cluster_release(&cluster);
}
END_TEST

START_TEST(another_plan_has_to_save_a_twentieth)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan plan, next;
    struct err err;
    world_cluster(&cluster, 1, (const int[]){2});
    world_request(&request, 4);
    request.pipeline = 1;
    request.replicas = 1;
    request.micro_batch = 4;
    struct plan current = {.micro_batch = 4, .stages_count = 1, .pipelines_count = 1};
    current.micro_batches[0] = 8;
    current.stages[0].layers = 6;
    current.predicted_step_ns = 1;
    const struct {
        int percent;
        int node;
    } cases[] = {{100, 0}, {96, 0}, {94, 1}, {50, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world_speed(&cluster, 1, cases[i].percent);
        ck_assert_int_eq(plan_next(&request, &cluster, &current, &next, &err), 0);
        ck_assert_int_eq(next.stages[0].nodes[0], cases[i].node);
    }
    /* Once it has moved, it stays there. */
    ck_assert_int_eq(plan_next(&request, &cluster, &next, &plan, &err), 0);
    ck_assert(plan_same(&next, &plan));
    cluster.nodes[1].profile.count = 0;
    ck_assert_int_eq(plan_next(&request, &cluster, &next, &plan, &err), 0);
    ck_assert_int_eq(plan.stages[0].nodes[0], 0);
    cluster_release(&cluster);
}
END_TEST

/* What moves is charged: a gain of a tenth is worth a move over a fast link, and not over one
 * that the model takes longer to cross than a thousand steps. */
START_TEST(what_must_move_is_weighed_against_the_gain)
{
    struct cluster cluster;
    struct plan_request request;
    struct plan next;
    struct err err;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    world_request(&request, 4);
    request.pipeline = 1;
    request.replicas = 1;
    request.micro_batch = 4;
    struct plan current = {.micro_batch = 4, .stages_count = 1, .pipelines_count = 1};
    current.micro_batches[0] = 8;
    current.stages[0].layers = 6;
    current.predicted_step_ns = 400000000;
    world_speed(&cluster, 1, 90);
    ck_assert_int_eq(plan_next(&request, &cluster, &current, &next, &err), 0);
    ck_assert_int_eq(next.stages[0].nodes[0], 1);
    cluster.links[1].bytes_per_s = 20000; /* about 3 MB of state: 2.5 minutes */
    ck_assert_int_eq(plan_next(&request, &cluster, &current, &next, &err), 0);
    ck_assert_int_eq(next.stages[0].nodes[0], 0);
    cluster_release(&cluster);
}
END_TEST

/* Who is left of a plan keeps its layers when that is the cheapest; nobody who is gone has a
 * place, and the answer does not depend on what was asked before. */
START_TEST(whatever_is_left_of_a_plan_is_made_a_plan_again)
{
    struct rng rng = {.seed = suite_seed("whatever_is_left", 3)};
    int found = 0;
    for (int round = 0; round < ROUNDS / 3; round++) {
        struct cluster cluster;
        struct plan_request request;
        static struct plan first, left, next, again;
        struct err err;
        world_random(&rng, 8, 3, &cluster, &request);
        if (plan_next(&request, &cluster, NULL, &first, &err) == 0) {
            int gone = (int)rng_below(&rng, (uint64_t)cluster.nodes_count);
            cluster.nodes[gone].profile.count = 0;
            left = first;
            for (int s = 0; s < left.stages_count; s++)
                for (int j = 0; j < left.pipelines_count; j++)
                    if (left.stages[s].nodes[j] == gone)
                        left.stages[s].nodes[j] = -1;
            int rc = plan_next(&request, &cluster, &left, &next, &err);
            if (rc == 0) {
                found++;
                ck_assert_msg(plan_check(&next, &request, &cluster, &err) == 0, "%s",
                              err.msg);
                for (int s = 0; s < next.stages_count; s++)
                    ck_assert(!uses(&next, s, gone));
                plan_next(&request, &cluster, NULL, &again, &err);
                ck_assert_int_eq(plan_next(&request, &cluster, &left, &again, &err), 0);
                ck_assert(plan_same(&next, &again));
            }
        }
        cluster_release(&cluster);
    }
    ck_assert_int_gt(found, ROUNDS / 10);
}
END_TEST

Suite *suite_next(void);
Suite *
suite_next(void)
{
    Suite *suite = suite_create("next");
    TCase *fixed = suite_case(suite, "fixed", 60);
    tcase_add_test(fixed, fixed_two_stages_across_zones_are_kept);
    tcase_add_test(fixed, zones_without_a_pipeline_give_a_stage_each);
    tcase_add_test(fixed, lost_node_costs_a_replica_before_it_costs_the_zones);
    tcase_add_test(fixed, lost_zone_costs_the_zones_before_it_costs_the_pipeline);
    tcase_add_test(fixed, last_node_does_everything);
    tcase_add_test(fixed, micro_batch_gives_way_last);
    tcase_add_test(fixed, fixed_micro_batch_may_be_shared_unevenly);
    tcase_add_test(fixed, fixed_stage_takes_the_roomy_nodes_of_its_zone);
    tcase_add_test(fixed, what_is_fixed_is_kept_whenever_it_can_be);

    TCase *choice = suite_case(suite, "choice", 60);
    tcase_add_test(choice, slow_pipeline_takes_fewer_micro_batches);
    tcase_add_test(choice, slow_stage_takes_fewer_layers);
    tcase_add_test(choice, alone_a_planner_stays_in_the_fast_zone);
    tcase_add_test(choice, zones_join_when_their_link_is_wide);
    tcase_add_test(choice, model_too_large_for_a_node_is_cut);
    tcase_add_test(choice, roomy_node_takes_the_layers_that_others_cannot);
    tcase_add_test(choice, layer_without_room_is_named);
    tcase_add_test(choice, node_without_a_profile_only_watches);
    tcase_add_test(choice, request_out_of_range_is_a_usage_error);

    TCase *repair = suite_case(suite, "in force", 60);
    tcase_add_test(repair, another_plan_has_to_save_a_twentieth);
    tcase_add_test(repair, what_must_move_is_weighed_against_the_gain);
    tcase_add_test(repair, whatever_is_left_of_a_plan_is_made_a_plan_again);

    TCase *property = suite_case(suite, "property", 120);
    tcase_add_test(property, same_snapshot_gives_the_same_plan);
    tcase_add_test(property, pool_is_never_worse_than_a_zone_or_a_node_of_it);
    TCase *work = suite_case(suite, "work", 30);
    tcase_add_test(work, large_clusters_are_planned_in_counted_work);
    tcase_add_test(work, hopeless_requests_are_refused_in_counted_work);
    return suite;
}
