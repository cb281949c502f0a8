#include "tests/planner/world.h"
#include "tests/suite.h"

static struct cluster_node
node_with(int count, const int *sizes, const int64_t *forward)
{
    struct cluster_node node = {0};
    node.profile.count = count;
    for (int i = 0; i < count; i++) {
        node.profile.entries[i].micro_batch = sizes[i];
        node.profile.entries[i].forward_ns[LAYER_BLOCK] = forward[i];
        node.profile.entries[i].backward_ns[LAYER_BLOCK] = 2 * forward[i];
        node.profile.entries[i].update_ns[LAYER_BLOCK] = 500 + i;
    }
    return node;
}

static int64_t
forward_of(const struct cluster_node *node, int micro_batch)
{
    int64_t forward;
    int64_t backward;
    int64_t update;
    ck_assert_int_eq(
        cluster_layer_ns(node, LAYER_BLOCK, micro_batch, &forward, &backward, &update),
        0);
    ck_assert_int_ge(backward, 0);
    ck_assert_int_ge(update, 0);
    return forward;
}

START_TEST(send_takes_half_a_round_trip_plus_size_over_rate)
{
    struct cluster cluster;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    ck_assert_int_eq(cluster_send_ns(&cluster, 0, 1, 12500000), 1020000000);
    ck_assert_int_eq(cluster_send_ns(&cluster, 0, 0, 0), 100000);
    cluster.links[1].bytes_per_s = 25000000; /* a to b alone */
    ck_assert_int_eq(cluster_send_ns(&cluster, 0, 1, 12500000), 520000000);
    ck_assert_int_eq(cluster_send_ns(&cluster, 1, 0, 12500000), 1020000000);
    cluster_release(&cluster);
}
END_TEST

START_TEST(link_without_a_rate_carries_nothing)
{
    struct cluster cluster;
    world_cluster(&cluster, 2, (const int[]){1, 1});
    cluster.links[1].bytes_per_s = 0;
    ck_assert(cluster_send_ns(&cluster, 0, 1, 1) == NS_NEVER);
    cluster.links[1].bytes_per_s = 1;
    ck_assert(cluster_send_ns(&cluster, 0, 1, INT64_MAX) == NS_NEVER);
    cluster_release(&cluster);
}
END_TEST

START_TEST(layer_time_between_entries_lies_between_them)
{
    struct cluster_node node =
        node_with(2, (const int[]){2, 6}, (const int64_t[]){1000, 2000});
    ck_assert_int_eq(forward_of(&node, 2), 1000);
    ck_assert_int_eq(forward_of(&node, 3), 1250);
    ck_assert_int_eq(forward_of(&node, 4), 1500);
    ck_assert_int_eq(forward_of(&node, 6), 2000);
}
END_TEST

START_TEST(layer_time_outside_the_entries_is_scaled)
{
    struct cluster_node node =
        node_with(2, (const int[]){2, 6}, (const int64_t[]){1000, 2400});
    ck_assert_int_eq(forward_of(&node, 1), 500);
    ck_assert_int_eq(forward_of(&node, 12), 4800);
    int64_t forward;
    int64_t backward;
    int64_t update;
    cluster_layer_ns(&node, LAYER_BLOCK, 60, &forward, &backward, &update);
    ck_assert_int_eq(update, 501);
    cluster_layer_ns(&node, LAYER_BLOCK, 1, &forward, &backward, &update);
    ck_assert_int_eq(update, 500);
}
END_TEST

START_TEST(correction_is_applied_to_all_three_times)
{
    struct cluster_node node = node_with(1, (const int[]){1}, (const int64_t[]){1000});
    node.profile.correction_ppm = 1500000;
    int64_t forward;
    int64_t backward;
    int64_t update;
    cluster_layer_ns(&node, LAYER_BLOCK, 1, &forward, &backward, &update);
    ck_assert_int_eq(forward, 1500);
    ck_assert_int_eq(backward, 3000);
    ck_assert_int_eq(update, 750);
    node.profile.correction_ppm = 0;
    ck_assert_int_eq(forward_of(&node, 1), 1000);
}
END_TEST

START_TEST(node_without_a_profile_has_no_times)
{
    struct cluster_node node = {0};
    int64_t ns = 7;
    ck_assert_int_eq(cluster_layer_ns(&node, LAYER_HEAD, 1, &ns, &ns, &ns), -1);
    ck_assert_int_eq(ns, 7);
}
END_TEST

START_TEST(absurd_measurements_do_not_overflow)
{
    struct cluster_node node =
        node_with(2, (const int[]){1, 2}, (const int64_t[]){INT64_MAX / 2, -5});
    for (int size = 1; size < 4096; size *= 2)
        ck_assert_int_le(forward_of(&node, size), INT64_C(1000000000000));
    ck_assert(ns_plus(NS_NEVER - 1, NS_NEVER - 1) == NS_NEVER);
    ck_assert(ns_plus(3, 4) == 7);
    ck_assert(ns_times(1 << 20, NS_NEVER >> 10) == NS_NEVER);
    ck_assert(ns_times(0, NS_NEVER) == 0);
    ck_assert(ns_times(6, 7) == 42);
}
END_TEST

/* Voters recompute each other's plans: whatever compiled them, they must agree to the
 * bit. */
START_TEST(times_have_the_same_bits_under_every_compiler)
{
    struct rng rng = {.seed = 12};
    struct cluster cluster;
    world_cluster(&cluster, 1, (const int[]){1});
    uint64_t hash = 0;
    for (int round = 0; round < 5000; round++) {
        cluster.links[0].bytes_per_s = 1 + (int64_t)(rng_next(&rng) >> 28);
        cluster.links[0].round_trip_us = (int64_t)rng_below(&rng, 300000);
        int64_t bytes = (int64_t)(rng_next(&rng) >> 24);
        hash = rng_mix(hash, (uint64_t)cluster_send_ns(&cluster, 0, 0, bytes));
        struct profile *profile = &cluster.nodes[0].profile;
        profile->correction_ppm = (int64_t)rng_below(&rng, 3000000);
        profile->entries[1].forward_ns[LAYER_BLOCK] = (int64_t)rng_below(&rng, 1 << 30);
        int micro_batch = 1 + (int)rng_below(&rng, 40);
        hash = rng_mix(hash, (uint64_t)forward_of(&cluster.nodes[0], micro_batch));
    }
    ck_assert_uint_eq(hash, UINT64_C(0xc67d303b534133f4));
    cluster_release(&cluster);
}
END_TEST

Suite *suite_cluster(void);
Suite *
suite_cluster(void)
{
    Suite *suite = suite_create("cluster");
    TCase *tests = suite_case(suite, "times", 10);
    tcase_add_test(tests, send_takes_half_a_round_trip_plus_size_over_rate);
    tcase_add_test(tests, link_without_a_rate_carries_nothing);
    tcase_add_test(tests, layer_time_between_entries_lies_between_them);
    tcase_add_test(tests, layer_time_outside_the_entries_is_scaled);
    tcase_add_test(tests, correction_is_applied_to_all_three_times);
    tcase_add_test(tests, node_without_a_profile_has_no_times);
    tcase_add_test(tests, absurd_measurements_do_not_overflow);
    tcase_add_test(tests, times_have_the_same_bits_under_every_compiler);
    return suite;
}
