#include "node/plan/cluster.h"
#include "tests/node/plan_world.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

Suite *suite_plan_cluster(void);

static struct plan_cluster cluster;
static struct err err;

static int
parse_text(const char *text)
{
    return plan_cluster_parse("c.yaml", text, strlen(text), "tiny", plan_world_profile,
                              &cluster, &err);
}

static void
refused(const char *text, const char *why)
{
    err = (struct err){0};
    ck_assert_msg(parse_text(text) == -1, "taken: %s", text);
    ck_assert_msg(strncmp(err.msg, "c.yaml: ", 8) == 0, "%s", err.msg);
    ck_assert_msg(strstr(err.msg, why), "\"%s\" does not say \"%s\"", err.msg, why);
}

/* The world's cluster with one piece replaced. */
static void
refused_with(const char *piece, const char *other, const char *why)
{
    char text[4096];
    plan_world_text(plan_world_cluster, piece, other, text, sizeof(text));
    refused(text, why);
}

static void
taken_with(const char *piece, const char *other)
{
    char text[4096];
    plan_world_text(plan_world_cluster, piece, other, text, sizeof(text));
    ck_assert_msg(parse_text(text) == 0, "%s", err.msg);
}

static double
rate_of(int from, int from_tp, int to, int to_tp)
{
    const struct fleet_curve *curve =
        fleet_curve(cluster.fleet, from, tp_slot(from_tp), to, tp_slot(to_tp));
    return curve ? curve->c0 * 8000 : -1;
}

START_TEST(what_a_file_says_is_what_the_planner_gets)
{
    ck_assert_msg(parse_text(plan_world_cluster) == 0, "%s", err.msg);
    const struct fleet *fleet = cluster.fleet;
    ck_assert_int_eq(fleet->cost_model, COST_MODEL_REPLAY);
    ck_assert_int_eq(fleet->zones_count, 2);
    ck_assert_str_eq(fleet->zones[1].name, "b");
    ck_assert_int_ne(fleet->zones[0].region, fleet->zones[1].region);
    ck_assert_int_eq(fleet->kinds_count, 2);
    ck_assert_int_eq(fleet->kinds[0].memory_bytes, INT64_C(8) << 30);
    ck_assert_int_eq(fleet->kinds[0].machine_devices, 4);
    ck_assert(fleet->kinds[1].correction == 1.25);
    ck_assert_int_eq(fleet->pools_count, 3);
    ck_assert_int_eq(fleet->pools[0].devices, 8);
    ck_assert(fleet->pools[0].usd_per_hour == 2 && fleet->pools[1].usd_per_hour == 1.5);
    ck_assert(fleet->pools[2].usd_per_hour == -1); /* no price is known */
    ck_assert(fleet->egress_usd_per_gb[0 * ZONES_MAX + 1] == 0.02);
    ck_assert(fleet->egress_usd_per_gb[1 * ZONES_MAX + 0] == 0.02);
    ck_assert(fleet->egress_usd_per_gb[1 * ZONES_MAX + 1] == 0);
    ck_assert_int_eq(fleet->table.layers_count, 4);
    ck_assert_int_eq(fleet->table.sequence_tokens, 128);
    ck_assert_int_eq(fleet->table.sizes[0][3].output_bytes, 4 * 40);
    const struct layer_time *times =
        fleet_kind_times(&fleet->kinds[0], PRECISION_FP32, 2, 1);
    ck_assert(times && times[3].forward_s == 0.25 && times[0].update_s == 0.125);
    ck_assert_int_eq(cluster.nodes_count, 1);
    ck_assert_int_eq(cluster.nodes[0].pool, 2);
    ck_assert_int_eq(cluster.nodes[0].devices, 2);
    plan_cluster_release(&cluster);
}
END_TEST

START_TEST(of_links_that_fit_the_most_particular_holds_and_of_equals_the_later)
{
    taken_with("links:",
               "links:\n"
               "  - {from: a, to: a, from_device: fast, from_tp: [2], mbit_per_s: 7}\n"
               "  - {from: a, to: a, from_device: fast, to_tp: [4], mbit_per_s: 8}\n"
               "  - {from: a, to: a, to_device: fast, mbit_per_s: 9}\n"
               "  - {from: a, to: a, mbit_per_s: 3}");
    ck_assert(rate_of(0, 2, 0, 2) == 7);
    ck_assert(rate_of(0, 2, 0, 4) == 8);
    ck_assert(rate_of(0, 1, 0, 1) == 9);
    /* The world's own entry of the zone comes last in the file. */
    ck_assert(rate_of(1, 1, 1, 1) == 1000);
    ck_assert(rate_of(0, 1, 2, 1) == 100 && rate_of(2, 8, 0, 8) == 100);
    plan_cluster_release(&cluster);
}
END_TEST

START_TEST(what_no_entry_joins_is_not_joined)
{
    taken_with(
        "  - {from: a, to: b, mbit_per_s: 100, round_trip_ms: 20, both_ways: true}\n",
        "  - {from: a, to: b, mbit_per_s: 100, round_trip_ms: 20}\n");
    ck_assert(rate_of(0, 1, 2, 1) == 100 && rate_of(2, 1, 0, 1) == -1);
    ck_assert(fleet_curve(cluster.fleet, 0, 0, 2, 0)->delay_s == 0.01);
    plan_cluster_release(&cluster);
}
END_TEST

START_TEST(a_curve_is_read_from_where_it_is_above_nothing)
{
    taken_with("links:", "curves:\n  - {name: k, quadratic: [0.8, 16.4, 33]}\nlinks:\n"
                         "  - {from: a, to: a, from_device: fast, to_device: fast, "
                         "curve: k}");
    const struct fleet_curve *curve = fleet_curve(cluster.fleet, 0, 0, 0, 0);
    ck_assert(curve->c2 == 0.8 && curve->c1 == 16.4 && curve->c0 == 33);
    ck_assert(curve->low_bytes > 65536 && curve->low_bytes <= 1 << 19);
    ck_assert(fleet_send_s(curve, 1) < 1);
    plan_cluster_release(&cluster);
}
END_TEST

START_TEST(a_curve_is_for_the_sizes_that_it_says)
{
    static const char with[] =
        "curves:\n  - {name: k, quadratic: [0, 1, 10]%s}\nlinks:\n"
        "  - {from: a, to: a, from_device: fast, to_device: fast, curve: k}";
    char text[256];
    snprintf(text, sizeof(text), with, ", smallest: 100KB, largest: 1MB");
    taken_with("links:", text);
    const struct fleet_curve *curve = fleet_curve(cluster.fleet, 0, 0, 0, 0);
    ck_assert(curve->low_bytes == 1e5 && curve->high_bytes == 1e6);
    ck_assert_double_eq_tol(fleet_send_s(curve, 1e8), 0.1 / 10, 1e-12); /* as of 1 MB */
    plan_cluster_release(&cluster);
    snprintf(text, sizeof(text), with, "");
    taken_with("links:", text);
    curve = fleet_curve(cluster.fleet, 0, 0, 0, 0);
    ck_assert(curve->low_bytes == 65536 && curve->high_bytes == 1073741824);
    plan_cluster_release(&cluster);
    snprintf(text, sizeof(text), with, ", smallest: 2MB, largest: 1MB");
    refused_with("links:", text,
                 "curve \"k\" is for messages of 2000000 to 1000000 bytes");
    snprintf(text, sizeof(text), with, ", largest: 1");
    refused_with("links:", text, "curve \"k\"");
}
END_TEST

START_TEST(a_device_without_a_profile_of_the_model_is_left_out_and_said)
{
    taken_with("slow.json", "other.json");
    ck_assert(strstr(cluster.notes, "\"slow\" has no profile of the model \"tiny\""));
    ck_assert_int_eq(cluster.fleet->kinds[1].times_count, 0);
    plan_cluster_release(&cluster);
    err = (struct err){0};
    char text[4096];
    plan_world_text(plan_world_cluster, NULL, NULL, text, sizeof(text));
    ck_assert_int_eq(plan_cluster_parse("c.yaml", text, strlen(text), "huge",
                                        plan_world_profile, &cluster, &err),
                     -1);
    ck_assert(strstr(err.msg, "no device has a profile of the model \"huge\""));
}
END_TEST

START_TEST(a_typo_is_named_with_its_line_and_what_was_meant)
{
    refused_with(
        "memory: 8GiB", "memroy: 8GiB",
        "line 5: unknown key \"memroy\" in \"devices\"; did you mean \"memory\"?");
    refused_with("cost_model: replay", "cost_modle: replay", "line 1: unknown key");
    refused_with("cost_model: replay", "cost_model: fast", "it is replay or published");
    refused_with("device: slow, zone: a", "device: slwo, zone: a",
                 "pools entry 2: there is no device \"slwo\"; did you mean \"slow\"?");
    refused_with("device: slow, zone: a", "device: slow, zone: c",
                 "pools entry 2: there is no zone \"c\"; known here: a, b");
}
END_TEST

START_TEST(wrong_numbers_are_named_with_what_they_may_be)
{
    refused_with("mbit_per_s: 100,", "mbit_per_s: -100,",
                 "links entry 3 (a to b): mbit_per_s is -100, it must be above 0");
    refused_with("mbit_per_s: 100,", "mbit_per_s: 0,", "mbit_per_s is 0");
    refused_with("round_trip_ms: 20", "round_trip_ms: -1", "round_trip_ms is -1");
    refused_with("count: 8", "count: 1000000000",
                 "pools entry 1: count is 1000000000, it must be from 0 to 65536");
    refused_with("count: 8", "count: -8", "count is -8");
    refused_with("count: 2", "count: 3", "node \"b1\": count is 3, a machine of");
    refused_with("count: 8}\n", "count: 65536}\n", "have more than 65536 devices");
    refused_with("usd_per_hour: 2,", "usd_per_hour: -2,", "usd_per_hour is -2");
    refused_with("usd_per_gb: 0.02", "usd_per_gb: -0.02", "usd_per_gb is -0.02");
    refused_with("memory: 8GiB", "memory: 0B", "memory is \"0B\"");
    refused_with("memory: 8GiB", "memory: lots", "device \"fast\": memory");
    refused_with("per_machine: 4", "per_machine: 0", "per_machine is 0");
    refused_with("correction: 1.25", "correction: 0", "correction is 0");
}
END_TEST

START_TEST(a_link_to_nowhere_and_one_of_nothing_are_refused)
{
    refused_with("{from: a, to: b, mbit", "{from: a, to: mars, mbit",
                 "links entry 3 (a to mars): there is no zone \"mars\"");
    refused_with("mbit_per_s: 100,", "curve: k,", "there is no curve \"k\"");
    refused_with("mbit_per_s: 100,", "", "give mbit_per_s or the name of a curve");
    refused_with("{from: a, to: b, mbit", "{from: a, to: b, from_tp: [3], mbit",
                 "from_tp has 3, it must be 1, 2, 4 or 8");
    refused_with("links:",
                 "curves:\n  - {name: k, quadratic: [0, 0, -1]}\nlinks:\n"
                 "  - {from: a, to: a, curve: k}",
                 "the curve \"k\" has no rate above 0");
    refused_with("  - {from: a, to: b, usd", "  - {from: a, to: c, usd",
                 "egress entry 1: there is no zone \"c\"");
}
END_TEST

START_TEST(a_cluster_without_devices_has_no_plan)
{
    refused("zones: [{name: a}]\n"
            "devices: [{name: fast, memory: 8GiB, profiles: [fast.json]}]\n"
            "pools: [{device: fast, zone: a, count: 0}]\n",
            "the cluster has no devices");
    ck_assert_int_eq(err.code, ERR_PLAN);
}
END_TEST

/* Devices of a type, and how many each of its machines in zone a has. */
static int
groups_of(int per_machine, int pool, const char *nodes)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "zones: [{name: a}]\n"
             "devices: [{name: fast, memory: 8GiB, per_machine: %d, profiles: "
             "[fast.json]}]\n"
             "pools: [{device: fast, zone: a, count: %d}]\n"
             "%s%s%s"
             "links: [{from: a, to: a, mbit_per_s: 1000}]\n",
             per_machine, pool, *nodes ? "nodes: [" : "", nodes, *nodes ? "]\n" : "");
    ck_assert_msg(parse_text(text) == 0, "%s", err.msg);
    int most = fleet_pool_group_max(cluster.fleet, 0);
    bool said = strstr(cluster.notes, "tensor-parallel groups have at most") != NULL;
    plan_cluster_release(&cluster);
    return said ? -most : most;
}

START_TEST(no_group_spans_machines_that_are_smaller_than_their_type)
{
    static const char one[] = "{name: n1, device: fast, zone: a, count: 1}";
    static const char ones[] = "{name: n1, device: fast, zone: a, count: 1}, "
                               "{name: n2, device: fast, zone: a, count: 1}";
    static const char twos[] = "{name: n1, device: fast, zone: a, count: 2}, "
                               "{name: n2, device: fast, zone: a, count: 2}";
    ck_assert_int_eq(groups_of(4, 8, ""), 4);
    ck_assert_int_eq(groups_of(4, 6, ""), 4); /* 4 and 2: one group of 4 */
    ck_assert_int_eq(groups_of(4, 8, one), 4);
    ck_assert_int_eq(groups_of(4, 0, ones), -1);
    ck_assert_int_eq(groups_of(4, 0, twos), -2);
    ck_assert_int_eq(groups_of(4, 4, twos), -2);
    ck_assert_int_eq(groups_of(3, 3, ""), 3);  /* whatever one has room for */
    ck_assert_int_eq(groups_of(3, 6, ""), -1); /* two groups of 2, not three */
    ck_assert_int_eq(groups_of(6, 12, ""), -2);
}
END_TEST

START_TEST(names_that_are_twice_there_are_refused)
{
    refused_with("{name: b, region: west}", "{name: a}", "zones has \"a\" twice");
    refused_with("name: slow,", "name: fast,", "devices has \"fast\" twice");
    refused_with("usd_per_hour: 1.5}",
                 "usd_per_hour: 1.5}\n  - {device: slow, zone: a, "
                 "count: 1, usd_per_hour: 1}",
                 "two prices of \"slow\"");
    refused_with("fast.json", "slow.json",
                 "the profile \"slow.json\" is one of \"slow\"");
}
END_TEST

START_TEST(profiles_that_disagree_on_the_layers_are_refused)
{
    refused_with("slow.json", "short.json", "has 3 layers of 128 tokens");
    refused_with("slow.json", "wide.json", "are not those of another profile");
}
END_TEST

Suite *
suite_plan_cluster(void)
{
    Suite *suite = suite_create("plan_cluster");
    TCase *tc = suite_case(suite, "files", 10);
    tcase_add_test(tc, what_a_file_says_is_what_the_planner_gets);
    tcase_add_test(tc,
                   of_links_that_fit_the_most_particular_holds_and_of_equals_the_later);
    tcase_add_test(tc, what_no_entry_joins_is_not_joined);
    tcase_add_test(tc, a_curve_is_read_from_where_it_is_above_nothing);
    tcase_add_test(tc, a_curve_is_for_the_sizes_that_it_says);
    tcase_add_test(tc, a_device_without_a_profile_of_the_model_is_left_out_and_said);
    tcase_add_test(tc, a_typo_is_named_with_its_line_and_what_was_meant);
    tcase_add_test(tc, wrong_numbers_are_named_with_what_they_may_be);
    tcase_add_test(tc, a_link_to_nowhere_and_one_of_nothing_are_refused);
    tcase_add_test(tc, a_cluster_without_devices_has_no_plan);
    tcase_add_test(tc, no_group_spans_machines_that_are_smaller_than_their_type);
    tcase_add_test(tc, names_that_are_twice_there_are_refused);
    tcase_add_test(tc, profiles_that_disagree_on_the_layers_are_refused);
    return suite;
}
