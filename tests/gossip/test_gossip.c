#include "tests/gossip/net.h"
#include "tests/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_gossip(void);

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)

static struct net net;

static void
swarm(const char *test, size_t count)
{
    net_open(&net, suite_seed(test, 1), count);
    net_start_all(&net);
    ck_assert_int_ge(net_until_whole(&net, 20 * SECOND_MS), 0);
}

static void
no_deaths(void)
{
    for (size_t i = 0; i < net.count; i++)
        ck_assert_msg(net.nodes[i].deaths == 0, "node %zu: %s", i, net.nodes[i].why);
}

/* ---- coming together ---- */

START_TEST(ten_nodes_find_each_other)
{
    net_open(&net, suite_seed("ten_nodes_find_each_other", 1), 10);
    net_start_all(&net);
    int64_t took = net_until_whole(&net, 20 * SECOND_MS);
    printf("ten nodes: %lld ms, %llu frames\n", (long long)took,
           (unsigned long long)net.sent);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 3 * SECOND_MS);
    net_run(&net, MINUTE_MS);
    no_deaths();
    net_close(&net);
}
END_TEST

START_TEST(fifty_nodes_find_each_other)
{
    net_open(&net, suite_seed("fifty_nodes_find_each_other", 1), 50);
    net_start_all(&net);
    int64_t took = net_until_whole(&net, 20 * SECOND_MS);
    printf("fifty nodes: %lld ms, %llu frames\n", (long long)took,
           (unsigned long long)net.sent);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 5 * SECOND_MS);
    net_run(&net, MINUTE_MS);
    no_deaths();
    net_close(&net);
}
END_TEST

START_TEST(a_quiet_swarm_sends_little)
{
    swarm("a_quiet_swarm_sends_little", 50);
    net_run(&net, MINUTE_MS);
    uint64_t sent = net.sent, bytes = net.bytes;
    net_run(&net, MINUTE_MS);
    sent = (net.sent - sent) / 60 / net.count;
    bytes = (net.bytes - bytes) / 60 / net.count;
    printf("quiet: %llu frames, %llu bytes a second and node\n", (unsigned long long)sent,
           (unsigned long long)bytes);
    ck_assert_uint_le(sent, 4);
    ck_assert_uint_le(bytes, 1500);
    net_close(&net);
}
END_TEST

/* ---- death ---- */

START_TEST(a_killed_node_is_found_dead_by_all)
{
    swarm("a_killed_node_is_found_dead_by_all", 10);
    net_run(&net, 10 * SECOND_MS);
    net_kill(&net, 4);
    int64_t took = net_until(&net, 4, MEMBER_DEAD, MINUTE_MS);
    printf("death of one in ten without a refusal: %lld ms\n", (long long)took);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 15 * SECOND_MS);
    net_close(&net);
}
END_TEST

START_TEST(a_node_that_hangs_is_found_dead_and_comes_back)
{
    swarm("a_node_that_hangs_is_found_dead_and_comes_back", 10);
    net.nodes[4].hung = true;
    ck_assert_int_ge(net_until(&net, 4, MEMBER_DEAD, 30 * SECOND_MS), 0);
    net_run(&net, MINUTE_MS);
    net.nodes[4].hung = false;
    int64_t took = net_until_whole(&net, 10 * SECOND_MS);
    printf("woken, alive everywhere after %lld ms\n", (long long)took);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 3 * SECOND_MS);
    ck_assert_uint_eq(net.nodes[4].deaths,
                      0); /* that it slept is no evidence against the others */
    net_close(&net);
}
END_TEST

START_TEST(a_refused_redial_is_death_within_two_seconds)
{
    swarm("a_refused_redial_is_death_within_two_seconds", 4);
    struct effects effects = {0};
    net_run(&net, 5 * SECOND_MS);
    net_kill(&net, 2);
    net.refusals = true;
    int64_t began_ms = net.now_ms;
    for (size_t i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        gossip_refused(net.nodes[i].gossip, net.now_ms, &net.nodes[2].id, &effects);
        net_deliver(&net, i, &effects);
        ck_assert_int_eq(net_view(&net, i, 2), MEMBER_SUSPECT);
    }
    ck_assert_int_ge(net_until(&net, 2, MEMBER_DEAD, 5 * SECOND_MS), 0);
    printf("refused by all: dead after %lld ms\n", (long long)(net.now_ms - began_ms));
    ck_assert_int_le(net.now_ms - began_ms, SECOND_MS);
    effects_release(&effects);
    net_close(&net);
}
END_TEST

START_TEST(of_two_nodes_the_refused_one_dies_and_the_silent_one_gets_the_longest_time)
{
    struct effects effects = {0};
    swarm("of_two_nodes", 2);
    net_kill(&net, 1);
    net_run(&net, 200); /* what it sent before is through */
    gossip_refused(net.nodes[0].gossip, net.now_ms, &net.nodes[1].id, &effects);
    net_deliver(&net, 0, &effects);
    int64_t took = net_until(&net, 1, MEMBER_DEAD, 10 * SECOND_MS);
    ck_assert_int_ge(took, SECOND_MS);
    ck_assert_int_le(took, 2 * SECOND_MS);
    effects_release(&effects);
    net_close(&net);

    swarm("of_two_nodes", 2);
    net.nodes[1].hung = true;
    took = net_until(&net, 1, MEMBER_DEAD, 2 * MINUTE_MS);
    ck_assert_int_ge(took, 20 * SECOND_MS);
    ck_assert_int_le(took, 40 * SECOND_MS);
    net_close(&net);
}
END_TEST

START_TEST(a_refusal_that_others_do_not_share_kills_nobody)
{
    struct effects effects = {0};
    swarm("a_refusal_that_others_do_not_share_kills_nobody", 4);
    net_cut(&net, 0, 2, true);
    net_cut(&net, 2, 0, true);
    for (int i = 0; i < 20; i++) {
        gossip_refused(net.nodes[0].gossip, net.now_ms, &net.nodes[2].id, &effects);
        net_deliver(&net, 0, &effects);
        net_run(&net, 3 * SECOND_MS);
    }
    no_deaths();
    ck_assert_uint_gt(net.nodes[0].suspicions, 10);
    effects_release(&effects);
    net_close(&net);
}
END_TEST

/* The glue says it at every look, twenty times a second. */
START_TEST(a_refusal_said_over_and_over_is_no_storm)
{
    struct effects effects = {0};
    swarm("a_refusal_said_over_and_over_is_no_storm", 4);
    net_run(&net, 20 * SECOND_MS);
    uint64_t sent = net.sent;
    for (int i = 0; i < 200; i++) {
        gossip_refused(net.nodes[0].gossip, net.now_ms, &net.nodes[2].id, &effects);
        net_deliver(&net, 0, &effects);
        net_run(&net, 50);
    }
    sent = (net.sent - sent) / 10 / net.count;
    printf("refused over and over: %llu frames a second and node\n",
           (unsigned long long)sent);
    ck_assert_uint_le(sent, 20);
    no_deaths();
    effects_release(&effects);
    net_close(&net);
}
END_TEST

START_TEST(heavy_loss_kills_nobody_in_an_hour)
{
    swarm("heavy_loss_kills_nobody_in_an_hour", 10);
    net.loss_percent = 20;
    net.jitter_ms = 30;
    net_run(&net, HOUR_MS);
    unsigned suspicions = 0;
    for (size_t i = 0; i < 10; i++)
        suspicions += net.nodes[i].suspicions;
    printf("an hour at 20 %% loss: %u suspicions, %llu frames\n", suspicions,
           (unsigned long long)net.sent);
    no_deaths();
    net.loss_percent = 0;
    ck_assert_int_ge(net_until_whole(&net, 10 * SECOND_MS), 0);
    net_close(&net);
}
END_TEST

/* ---- partitions ---- */

START_TEST(a_one_way_cut_is_bridged_by_relays)
{
    swarm("a_one_way_cut_is_bridged_by_relays", 5);
    net_cut(&net, 0, 3, true); /* 3 hears nothing from 0, and 0 all from 3 */
    net_run(&net, 5 * MINUTE_MS);
    no_deaths();
    net_cut(&net, 3, 0, true); /* and now neither way */
    net_run(&net, 5 * MINUTE_MS);
    no_deaths();
    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(net.nodes[i].suspicions, 0);
    net_close(&net);
}
END_TEST

START_TEST(an_accusation_reaches_its_target_through_others)
{
    struct effects effects = {0};
    swarm("an_accusation_reaches_its_target_through_others", 5);
    net_cut(&net, 0, 3, true);
    net_cut(&net, 3, 0, true);
    uint64_t before = gossip_member_self(net.nodes[3].gossip)->record->incarnation;
    gossip_refused(net.nodes[0].gossip, net.now_ms, &net.nodes[3].id, &effects);
    net_deliver(&net, 0, &effects);
    ck_assert_int_eq(net_view(&net, 0, 3), MEMBER_SUSPECT);
    int64_t took = net_until(&net, 3, MEMBER_ALIVE, 2 * SECOND_MS);
    ck_assert_int_ge(took, 0);
    ck_assert_uint_eq(gossip_member_self(net.nodes[3].gossip)->record->incarnation,
                      before + 1);
    no_deaths();
    effects_release(&effects);
    net_close(&net);
}
END_TEST

START_TEST(a_partition_that_heals_merges_again)
{
    swarm("a_partition_that_heals_merges_again", 8);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 4; k < 8; k++)
            net.cut[i][k] = net.cut[k][i] = true;
    net_run(&net, 2 * MINUTE_MS);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 4; k < 8; k++)
            ck_assert_int_eq(net_view(&net, i, k), MEMBER_DEAD);
    unsigned deaths = 0;
    for (size_t i = 0; i < 8; i++)
        deaths += net.nodes[i].deaths;
    ck_assert_uint_eq(deaths, 32);
    memset(net.cut, 0, sizeof(net.cut));
    int64_t took = net_until_whole(&net, MINUTE_MS);
    printf("healed after %lld ms\n", (long long)took);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 5 * SECOND_MS);
    net_run(&net, MINUTE_MS);
    for (size_t i = 0; i < 8; i++)
        deaths -= net.nodes[i].deaths;
    ck_assert_uint_eq(deaths, 0); /* nobody died of hearsay from the other side */
    net_close(&net);
}
END_TEST

START_TEST(a_partition_of_twenty_hours_still_heals)
{
    swarm("a_partition_of_twenty_hours_still_heals", 2);
    net.cut[0][1] = net.cut[1][0] = true;
    net_run(&net, 20 * HOUR_MS);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_DEAD);
    net.cut[0][1] = net.cut[1][0] = false;
    ck_assert_int_ge(net_until_whole(&net, 15 * SECOND_MS), 0);
    net_close(&net);
}
END_TEST

START_TEST(the_dead_are_forgotten_after_a_day_by_all)
{
    swarm("the_dead_are_forgotten_after_a_day_by_all", 3);
    net_kill(&net, 2);
    net_run(&net, 23 * HOUR_MS);
    ck_assert_int_eq(net_view(&net, 0, 2), MEMBER_DEAD);
    net_run(&net, 90 * MINUTE_MS);
    ck_assert_int_eq(net_view(&net, 0, 2), MEMBER_UNKNOWN);
    ck_assert_int_eq(net_view(&net, 1, 2), MEMBER_UNKNOWN);
    net_close(&net);
}
END_TEST

/* ---- restarts and goodbyes ---- */

START_TEST(a_restarted_node_is_alive_at_once)
{
    swarm("a_restarted_node_is_alive_at_once", 6);
    net_kill(&net, 2);
    ck_assert_int_ge(net_until(&net, 2, MEMBER_DEAD, MINUTE_MS), 0);
    net_start(&net, 2);
    net_meet(&net, 2, 0);
    int64_t took = net_until_whole(&net, 10 * SECOND_MS);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 2 * SECOND_MS);
    net_close(&net);
}
END_TEST

START_TEST(a_mass_restart_leaves_nobody_held_dead)
{
    /* Many refutations make a high lower half; the restart begins below it. Half of the
     * swarm keeps running and holds old accusations (memberlist #311). */
    struct effects effects = {0};
    swarm("a_mass_restart_leaves_nobody_held_dead", 10);
    for (int i = 0; i < 30; i++) {
        for (size_t k = 5; k < 10; k++) {
            size_t accuser = (size_t)i % 5; /* no one is believed so often */
            gossip_refused(net.nodes[accuser].gossip, net.now_ms, &net.nodes[k].id,
                           &effects);
            net_deliver(&net, accuser, &effects);
        }
        net_run(&net, 2 * SECOND_MS);
    }
    uint64_t before =
        gossip_find(net.nodes[0].gossip, &net.nodes[7].id)->record->incarnation;
    ck_assert_uint_gt(before & UINT32_MAX, 20);
    for (size_t k = 5; k < 10; k++)
        net_kill(&net, k);
    for (size_t k = 5; k < 10; k++)
        ck_assert_int_ge(net_until(&net, k, MEMBER_DEAD, MINUTE_MS), 0);
    for (size_t k = 5; k < 10; k++) {
        net_start(&net, k);
        net_meet(&net, k, 0);
    }
    int64_t took = net_until_whole(&net, 10 * SECOND_MS);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 3 * SECOND_MS);
    ck_assert_uint_eq(
        gossip_find(net.nodes[0].gossip, &net.nodes[7].id)->record->incarnation,
        2ULL << 32);
    for (size_t i = 0; i < 10; i++)
        ck_assert_uint_eq(net.nodes[i].conflicts, 0);
    effects_release(&effects);
    net_close(&net);
}
END_TEST

START_TEST(a_node_that_lost_its_boot_counter_learns_why_it_stays_dead)
{
    swarm("a_node_that_lost_its_boot_counter", 4);
    net_kill(&net, 2);
    net.nodes[2].boot = 6;
    net_start(&net, 2); /* boot 7 */
    net_meet(&net, 2, 0);
    ck_assert_int_ge(net_until_whole(&net, 10 * SECOND_MS), 0);
    net_kill(&net, 2);
    net.nodes[2].boot = 2;
    net_start(&net, 2); /* boot 3 */
    net_meet(&net, 2, 0);
    net_run(&net, 2 * SECOND_MS);
    ck_assert_uint_eq(net.nodes[2].conflicts, 1);
    ck_assert_ptr_nonnull(strstr(net.nodes[2].why, "boot 7"));
    struct record record;
    struct effects effects = {0};
    net.nodes[2].boot = 8;
    net_record(&net, 2, &record);
    gossip_self(net.nodes[2].gossip, &record, &effects);
    net_deliver(&net, 2, &effects);
    ck_assert_int_ge(net_until_whole(&net, 5 * SECOND_MS), 0);
    effects_release(&effects);
    net_close(&net);
}
END_TEST

START_TEST(a_leave_is_known_to_all_and_is_no_death)
{
    swarm("a_leave_is_known_to_all_and_is_no_death", 20);
    net_leave(&net, 7);
    int64_t took = net_until(&net, 7, MEMBER_LEFT, 5 * SECOND_MS);
    printf("leave known after %lld ms\n", (long long)took);
    ck_assert_int_ge(took, 0);
    ck_assert_int_le(took, 2 * SECOND_MS);
    net_kill(&net, 7);
    net_run(&net, 2 * MINUTE_MS);
    for (size_t i = 0; i < 20; i++)
        if (i != 7)
            ck_assert_int_eq(net_view(&net, i, 7), MEMBER_LEFT);
    no_deaths();
    net_start(&net, 7);
    net_meet(&net, 7, 3);
    ck_assert_int_ge(net_until_whole(&net, 5 * SECOND_MS), 0);
    net_close(&net);
}
END_TEST

START_TEST(a_new_record_reaches_all)
{
    struct effects effects = {0};
    struct record record;
    swarm("a_new_record_reaches_all", 30);
    net_run(&net, 20 * SECOND_MS);
    net_record(&net, 9, &record);
    record.epoch = 42;
    gossip_self(net.nodes[9].gossip, &record, &effects);
    ck_assert_uint_gt(effects.count, 0);
    net_deliver(&net, 9, &effects);
    gossip_self(net.nodes[9].gossip, &record, &effects);
    ck_assert_uint_eq(effects.count, 0); /* nothing new */
    net_run(&net, 2 * SECOND_MS);
    for (size_t i = 0; i < 30; i++)
        ck_assert_uint_eq(
            gossip_find(net.nodes[i].gossip, &net.nodes[9].id)->record->epoch, 42);
    effects_release(&effects);
    net_close(&net);
}
END_TEST

START_TEST(round_trips_are_measured)
{
    swarm("round_trips_are_measured", 3);
    net_run(&net, 20 * SECOND_MS);
    for (size_t k = 1; k < 3; k++) {
        int64_t us = gossip_find(net.nodes[0].gossip, &net.nodes[k].id)->round_trip_us;
        ck_assert_int_ge(us, 18000);
        ck_assert_int_le(us, 22000);
    }
    net_close(&net);
}
END_TEST

START_TEST(the_same_seed_runs_the_same_way)
{
    uint64_t sent[2], bytes[2];
    for (int i = 0; i < 2; i++) {
        net_open(&net, suite_seed("the_same_seed_runs_the_same_way", 7), 12);
        net.loss_percent = 30;
        net_start_all(&net);
        net_run(&net, 2 * MINUTE_MS);
        sent[i] = net.sent;
        bytes[i] = net.bytes;
        net_close(&net);
    }
    ck_assert_uint_eq(sent[0], sent[1]);
    ck_assert_uint_eq(bytes[0], bytes[1]);
}
END_TEST

/* One random thing that happens to a swarm. */
static void
happen(struct rng *rng)
{
    struct effects effects = {0};
    size_t who = (size_t)rng_below(rng, net.count),
           other = (size_t)rng_below(rng, net.count);
    struct net_node *node = &net.nodes[who];
    switch (rng_below(rng, 8)) {
    case 0:
        net_kill(&net, who);
        break;
    case 1:
        if (!node->gossip)
            net_start(&net, who);
        break;
    case 2:
        node->hung = node->gossip && !node->hung;
        break;
    case 3:
    case 4:
        net_cut(&net, who, other, !net.cut[who][other]);
        break;
    case 5:
        net.loss_percent = (unsigned)rng_below(rng, 40);
        break;
    case 6:
        net.delay_ms = 1 + (int64_t)rng_below(rng, 200);
        net.jitter_ms = (int64_t)rng_below(rng, 200);
        break;
    case 7:
        if (node->gossip && !node->hung)
            gossip_refused(node->gossip, net.now_ms, &net.nodes[other].id, &effects);
        net_deliver(&net, who, &effects);
        break;
    }
    effects_release(&effects);
}

/* Whatever has happened: when it stops, all see each other again, nobody takes another
 * for a twin, and nothing stormed. */
START_TEST(a_swarm_that_anything_happened_to_comes_together_again)
{
    uint64_t seed = suite_seed("a_swarm_that_anything_happened_to", 1);
    uint64_t busiest = 0;
    int64_t longest_ms = 0;
    for (uint64_t round = 0; round < 30; round++) {
        struct rng rng = {.seed = seed + round, .stream = 1};
        net_open(&net, seed + round, 3 + (size_t)rng_below(&rng, 8));
        net_start_all(&net);
        net.refusals = rng_below(&rng, 2);
        for (int i = 0; i < 60; i++) {
            uint64_t sent = net.sent;
            int64_t wait_ms = 100 * (1 + (int64_t)rng_below(&rng, 60));
            happen(&rng);
            net_run(&net, wait_ms);
            sent = (net.sent - sent) * 1000 / (uint64_t)wait_ms / net.count;
            busiest = wait_ms >= SECOND_MS && sent > busiest ? sent : busiest;
        }
        memset(net.cut, 0, sizeof(net.cut));
        net.loss_percent = 0;
        net.delay_ms = 10;
        net.jitter_ms = 0;
        for (size_t i = 0; i < net.count; i++) {
            net.nodes[i].hung = false;
            if (!net.nodes[i].gossip)
                net_start(&net, i);
            if (i > 0) /* as the glue does with an address of its seeds */
                net_meet(&net, i, 0);
        }
        int64_t took = net_until_whole(&net, 2 * MINUTE_MS);
        ck_assert_msg(took >= 0, "seed %llu", (unsigned long long)(seed + round));
        longest_ms = took > longest_ms ? took : longest_ms;
        for (size_t i = 0; i < net.count; i++)
            ck_assert_uint_eq(net.nodes[i].conflicts, 0);
        net_close(&net);
    }
    printf("whole again after at most %lld ms; at most %llu frames a second and node\n",
           (long long)longest_ms, (unsigned long long)busiest);
    ck_assert_uint_le(busiest, 60);
    ck_assert_int_le(longest_ms, 30 * SECOND_MS);
}
END_TEST

Suite *
suite_gossip(void)
{
    Suite *suite = suite_create("gossip");
    TCase *tests = suite_case(suite, "swarm", 60);
    tcase_add_test(tests, ten_nodes_find_each_other);
    tcase_add_test(tests, fifty_nodes_find_each_other);
    tcase_add_test(tests, a_quiet_swarm_sends_little);
    tcase_add_test(tests, a_new_record_reaches_all);
    tcase_add_test(tests, round_trips_are_measured);
    tcase_add_test(tests, the_same_seed_runs_the_same_way);
    tests = suite_case(suite, "death", 120);
    tcase_add_test(tests, a_killed_node_is_found_dead_by_all);
    tcase_add_test(tests, a_node_that_hangs_is_found_dead_and_comes_back);
    tcase_add_test(tests, a_refused_redial_is_death_within_two_seconds);
    tcase_add_test(
        tests,
        of_two_nodes_the_refused_one_dies_and_the_silent_one_gets_the_longest_time);
    tcase_add_test(tests, a_refusal_that_others_do_not_share_kills_nobody);
    tcase_add_test(tests, a_refusal_said_over_and_over_is_no_storm);
    tcase_add_test(tests, heavy_loss_kills_nobody_in_an_hour);
    tests = suite_case(suite, "partition", 120);
    tcase_add_test(tests, a_one_way_cut_is_bridged_by_relays);
    tcase_add_test(tests, an_accusation_reaches_its_target_through_others);
    tcase_add_test(tests, a_partition_that_heals_merges_again);
    tcase_add_test(tests, a_partition_of_twenty_hours_still_heals);
    tcase_add_test(tests, the_dead_are_forgotten_after_a_day_by_all);
    tcase_add_test(tests, a_swarm_that_anything_happened_to_comes_together_again);
    tests = suite_case(suite, "restart", 60);
    tcase_add_test(tests, a_restarted_node_is_alive_at_once);
    tcase_add_test(tests, a_mass_restart_leaves_nobody_held_dead);
    tcase_add_test(tests, a_node_that_lost_its_boot_counter_learns_why_it_stays_dead);
    tcase_add_test(tests, a_leave_is_known_to_all_and_is_no_death);
    return suite;
}
