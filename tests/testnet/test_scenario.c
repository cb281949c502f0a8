#include "testnet/scenario.h"
#include "tests/suite.h"
#include "transport/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_scenario(void);

static char folder[4096];
static struct err err;

static struct scenario *
read_text(const char *text)
{
    char path[PATH_BYTES_MAX];
    if (!folder[0])
        suite_folder(folder);
    err = (struct err){0};
    ck_assert_int_eq(
        file_write(path_join(path, folder, "s.yaml"), text, strlen(text), 0600, &err), 0);
    return scenario_read(path, &err);
}

static const char example[] =
    "nodes: [{name: a1, zone: a, memory: 1GiB}, {name: b1, zone: b}, {name: b2, zone: b, "
    "join_s: 15}]\n"
    "links: [{from: a, to: b, mbit_per_s: 100, delay_ms: 20}, {from: b, to: a, "
    "mbit_per_s: 100, delay_ms: 20}]   # directed, one way\n"
    "job: {...}                                    # as in job.yaml; or job: file.yaml\n"
    "events: [{kill: leader, at_step: 60}, {cut: b, at_s: 20}, {heal: b, at_s: 40}]\n"
    "expect: {loss_below: 2.6, recovered_within_s: 6, same_loss_as: single.yaml, within: "
    "1e-3}\n";

START_TEST(the_designs_example_is_read)
{
    struct scenario *scenario = read_text(example);
    ck_assert_msg(scenario != NULL, "%s", err.msg);
    ck_assert_str_eq(scenario->name, "s");
    ck_assert_int_eq(scenario->nodes_count, 3);
    ck_assert_int_eq(scenario->zones_count, 2);
    ck_assert_str_eq(scenario->nodes[0].memory, "1GiB");
    ck_assert(!scenario->nodes[0].late && scenario->nodes[2].late);
    ck_assert(scenario->nodes[2].join_s == 15);
    ck_assert(scenario->links[0][1].mbit_per_s == 100);
    ck_assert(scenario->links[1][0].delay_ms == 20);
    ck_assert(scenario->links[0][0].mbit_per_s == 0);
    ck_assert_int_eq(scenario->events_count, 4); /* with the late join */
    ck_assert(scenario->events[0].action == ACTION_KILL &&
              scenario->events[0].target == TARGET_LEADER &&
              scenario->events[0].at_step == 60 && scenario->events[0].at_s < 0);
    ck_assert(scenario->events[1].action == ACTION_CUT &&
              scenario->events[1].target == TARGET_ZONE &&
              scenario->events[1].index == 1 && scenario->events[1].at_s == 20);
    ck_assert(scenario->events[3].action == ACTION_JOIN &&
              scenario->events[3].index == 2);
    ck_assert(scenario->expect.loss_below == 2.6 && scenario->expect.within == 1e-3);
    ck_assert(scenario->expect.steps < 0 && scenario->expect.joined_within_s < 0);
    ck_assert_int_eq(scenario->expect.steps_compared, 50);
    ck_assert(scenario->expect.links_within < 0 && scenario->expect.links_by_s == 10 &&
              !scenario->expect.links_passive);
    ck_assert_ptr_nonnull(strstr(scenario->expect.same_loss_as, "/single.yaml"));
    ck_assert_ptr_nonnull(strstr(scenario->job, "{...}"));
    scenario_free(scenario);
}
END_TEST

START_TEST(only_what_is_shaped_or_may_be_cut_goes_by_the_relay)
{
    struct scenario *scenario = read_text(
        "nodes: [{name: a1, zone: a}, {name: b1, zone: b}, {name: c1, zone: c}]\n"
        "links: [{from: a, to: b, mbit_per_s: 100, delay_ms: 20}]\n"
        "events: [{kill: leader, at_s: 5}]\n");
    ck_assert_msg(scenario != NULL, "%s", err.msg);
    ck_assert(scenario_relayed(scenario, 0, 1) && scenario_relayed(scenario, 1, 0));
    ck_assert(!scenario_relayed(scenario, 0, 2) && !scenario_relayed(scenario, 2, 1));
    ck_assert(!scenario_relayed(scenario, 0, 0));
    scenario_free(scenario);
    scenario = read_text("nodes: [{name: a1, zone: a}, {name: b1, zone: b}]\n"
                         "events: [{cut: b, at_s: 5}]\n");
    ck_assert_msg(scenario != NULL, "%s", err.msg);
    ck_assert(scenario_relayed(scenario, 0, 1) && scenario_relayed(scenario, 1, 0));
    scenario_free(scenario);
}
END_TEST

START_TEST(a_jobs_paths_are_from_the_scenarios_folder_and_its_lines_stay)
{
    struct scenario *scenario = read_text("nodes: [{name: a, zone: z}]\njob:\n"
                                          "  name: j\n  data: {train: ../it''s.txt}\n"
                                          "  steps: 7\ntime_limit_s: 9\n");
    char wanted[8192];
    ck_assert_msg(scenario != NULL, "%s", err.msg);
    snprintf(wanted, sizeof(wanted),
             "\n\n  name: j\n  data: {train: '%s/../it''''s.txt'}\n  steps: 7\n\n",
             folder);
    ck_assert_str_eq(scenario->job, wanted);
    ck_assert(scenario->time_limit_s == 9);
    scenario_free(scenario);
}
END_TEST

START_TEST(a_job_may_be_a_file_of_its_own)
{
    char path[PATH_BYTES_MAX];
    static const char job[] = "name: j\ndata: {train: x.txt}\nsteps: 7\n";
    if (!folder[0])
        suite_folder(folder);
    ck_assert_int_eq(
        file_write(path_join(path, folder, "j.yaml"), job, sizeof(job) - 1, 0600, &err),
        0);
    struct scenario *scenario = read_text("nodes: [{name: a, zone: z}]\njob: j.yaml\n");
    ck_assert_msg(scenario != NULL, "%s", err.msg);
    ck_assert_ptr_nonnull(strstr(scenario->job, "steps: 7"));
    char wanted[8192];
    snprintf(wanted, sizeof(wanted), "'%s/x.txt'", folder);
    ck_assert_ptr_nonnull(strstr(scenario->job, wanted));
    scenario_free(scenario);
    ck_assert_ptr_null(read_text("nodes: [{name: a, zone: z}]\njob: none.yaml\n"));
    ck_assert_int_eq(err.code, ERR_USAGE);
}
END_TEST

START_TEST(what_is_wrong_has_a_sentence)
{
#define NODES "nodes: [{name: a1, zone: a}, {name: b1, zone: b}]\n"
    static const struct {
        const char *text, *words;
    } bad[] = {
        {NODES "evnts: []\n", "line 2: unknown key \"evnts\"; did you mean \"events\"?"},
        {NODES "expect: {\n  loss_bellow: 2}\n",
         "line 3: unknown key \"loss_bellow\" in \"expect\"; did you mean "
         "\"loss_below\"?"},
        {NODES "events: [{kil: a1, at_s: 1}]\n", "did you mean \"kill\"?"},
        {"nodes: []\n", "\"nodes\" has 0 entries"},
        {"nodes: [{name: a, zone: z}, {name: a, zone: z}]\n", "\"a\" is there twice"},
        {"nodes: [{name: leader, zone: z}]\n", "cannot be called \"leader\""},
        {"nodes: [{name: 'a/b', zone: z}]\n", "names and zones are letters"},
        {"nodes: [{name: a, zone: z, join_s: 3}]\n", "founds the swarm"},
        {"nodes: [{name: a, zone: z, memory: lots}]\n", "size \"lots\" is not one"},
        {NODES "links: [{from: a, to: c, mbit_per_s: 1, delay_ms: 1}]\n",
         "no node is in \"c\""},
        {NODES "links: [{from: a, to: b, mbit_per_s: 0, delay_ms: 1}]\n",
         "mbit_per_s is from"},
        {NODES "links: [{from: a, to: b, mbit_per_s: 1, delay_ms: 1}, "
               "{from: a, to: b, mbit_per_s: 1, delay_ms: 1}]\n",
         "is there twice"},
        {NODES "events: [{kill: c1, at_s: 1}]\n", "there is no such node"},
        {NODES "events: [{cut: a1, at_s: 1}]\n", "there is no such zone"},
        {NODES "events: [{kill: a1}]\n", "needs one of at_s and at_step"},
        {NODES "events: [{kill: a1, at_s: 1, at_step: 2}]\n", "needs one of at_s"},
        {NODES "events: [{kill: a1, stop: b1, at_s: 1}]\n", "several things"},
        {NODES "events: [{at_s: 1}]\n", "nothing"},
        {NODES "events: [{kill: a1, at_s: -1}]\n", "before the beginning"},
        {NODES "time_limit_s: 0\n", "time_limit_s is 0"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(read_text(bad[i].text) == NULL, "taken: %s", bad[i].text);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_msg(strstr(err.msg, bad[i].words) != NULL, "%s", err.msg);
        ck_assert_msg(strstr(err.msg, "s.yaml") != NULL, "%s", err.msg);
    }
    ck_assert_ptr_null(scenario_read("/nowhere/at/all.yaml", &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
}
END_TEST

START_TEST(the_committed_scenarios_are_read)
{
    static const char *const names[] = {"smoke",       "single",    "four",
                                        "pipeline",    "join-late", "kill-worker",
                                        "stop-worker", "cut-zone"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "testnet/scenarios/%s.yaml", names[i]);
        if (!file_exists(path)) {
            suite_skip("the_committed_scenarios_are_read",
                       "not run from the root folder");
            return;
        }
        struct scenario *scenario = scenario_read(path, &err);
        ck_assert_msg(scenario != NULL, "%s", err.msg);
        ck_assert_str_eq(scenario->name, names[i]);
        ck_assert_ptr_nonnull(scenario->job);
        scenario_free(scenario);
    }
}
END_TEST

Suite *
suite_scenario(void)
{
    Suite *suite = suite_create("scenario");
    TCase *tests = suite_case(suite, "scenario", 10);
    tcase_add_test(tests, the_designs_example_is_read);
    tcase_add_test(tests, only_what_is_shaped_or_may_be_cut_goes_by_the_relay);
    tcase_add_test(tests, a_jobs_paths_are_from_the_scenarios_folder_and_its_lines_stay);
    tcase_add_test(tests, a_job_may_be_a_file_of_its_own);
    tcase_add_test(tests, what_is_wrong_has_a_sentence);
    tcase_add_test(tests, the_committed_scenarios_are_read);
    return suite;
}
