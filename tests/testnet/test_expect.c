#include "tests/suite.h"
#include "tests/testnet/stage.h"

#include <stdio.h>
#include <string.h>

Suite *suite_expect(void);

enum { A1 = 0, A2 = 1, B1 = 2, B2 = 3, ALL = 15, ZONE_A = 3, ZONE_B = 12 };

static struct scenario scenario;
static struct history history;
static struct verdict verdict;

static void
setup(void)
{
    stage_set(&scenario, &history);
}

static void
teardown(void)
{
    history_release(&history);
}

/* Steps `from` to `to` of an epoch, 10 ms each. */
static int
run(unsigned nodes, int epoch, int from, int to, int ms)
{
    for (int step = from; step <= to; step++)
        stage_step(&history, nodes, epoch, step, ms += 10);
    return ms;
}

static void
done(void)
{
    stage_line(&history, A1, "{\"event\":\"job\",\"name\":\"j\",\"state\":\"done\"}");
}

static void
begin(void)
{
    stage_epoch(&history, 1, 1, A1, "founding", -1, 1, 0, 50);
    stage_epoch(&history, 2, 1, A1, "job", 0, ALL, ALL, 100);
    run(ALL, 2, 1, 5, 100);
}

/* The check passes, or fails with these words. */
static void
holds(const char *name, const char *words)
{
    const struct check *check = stage_judge(&history, &verdict, name);
    ck_assert_msg(check->passed, "%s: %s", name, check->detail);
    ck_assert_msg(strstr(check->detail, words) != NULL, "%s", check->detail);
}

static void
fails(const char *name, const char *words)
{
    const struct check *check = stage_judge(&history, &verdict, name);
    ck_assert_msg(!check->passed, "%s: %s", name, check->detail);
    ck_assert_msg(strstr(check->detail, words) != NULL, "%s", check->detail);
    ck_assert(!verdict.passed);
}

START_TEST(a_quiet_run_passes_with_what_is_always_checked)
{
    begin();
    done();
    holds("finished", "done");
    ck_assert(verdict.passed);
    ck_assert_int_ge(verdict.count, 3);
    holds("steps_in_order", "5 steps");
    holds("nodes_agree", "15 compared");
    holds("one_history", "no two");
    holds("nobody_died", "no node died");
}
END_TEST

START_TEST(how_a_run_may_end_badly)
{
    static const struct {
        struct outcome outcome;
        const char *words;
    } ends[] = {
        {{.trouble = "the job was not taken: why", .deaths = "", .job = true},
         "not taken: why"},
        {{.trouble = "", .deaths = "", .job = true, .timed_out = true},
         "100 s has passed"},
        {{.trouble = "", .deaths = "", .job = true, .interrupted = true}, "interrupted"},
    };
    begin();
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        expect_judge(&history, &ends[i].outcome, &verdict);
        ck_assert(!verdict.passed && !verdict.checks[0].passed);
        ck_assert_ptr_nonnull(strstr(verdict.checks[0].detail, ends[i].words));
    }
    stage_line(&history, A1,
               "{\"event\":\"job\",\"name\":\"j\",\"state\":\"failed: no memory\"}");
    fails("finished", "failed: no memory");
    struct outcome outcome = {
        .trouble = "", .deaths = "b1: signal 11", .job = true, .events_left = 1};
    scenario.events_count = 2;
    expect_judge(&history, &outcome, &verdict);
    ck_assert_str_eq(verdict.checks[1].detail, "1 of 2 events took place");
    ck_assert(!verdict.checks[1].passed && !verdict.checks[2].passed);
}
END_TEST

START_TEST(a_step_left_out_or_doubled_is_seen)
{
    begin();
    done();
    run(ALL, 2, 7, 7, 200);
    fails("steps_in_order", "applied step 7 of epoch 2 after step 5");
    teardown();
    setup();
    begin();
    done();
    run(2, 2, 5, 5, 200);
    fails("steps_in_order", "a2 applied step 5 of epoch 2 after step 5");
    teardown();
    setup();
    begin();
    done();
    stage_epoch(&history, 3, 1, A1, "loss", 6, ALL, ALL, 190);
    run(ALL, 3, 7, 7, 200);
    fails("steps_in_order", "step 6 was applied by nobody");
}
END_TEST

START_TEST(nodes_that_disagree_about_a_step_are_seen)
{
    begin();
    done();
    stage_step(&history, ZONE_A, 2, 6, 200);
    stage_line(&history, B1,
               "{\"mono_ms\":201,\"event\":\"step\",\"epoch\":2,\"step\":6,"
               "\"loss\":4.9400000000000004,\"samples_hash\":\"bad\"}");
    fails("nodes_agree", "step 6");
}
END_TEST

START_TEST(progress_is_held_against_what_is_expected)
{
    begin();
    done();
    scenario.expect.steps = 5;
    scenario.expect.loss_below = 4.96;
    scenario.expect.stages = 1;
    scenario.expect.replicas = 4;
    holds("steps", "5 steps");
    holds("loss_below", "4.9500");
    holds("plan", "1 stages x 4 replicas");
    scenario.expect.steps = 6;
    scenario.expect.loss_below = 4.95;
    scenario.expect.replicas = 2;
    fails("steps", "6 are expected");
    fails("loss_below", "below 4.95");
    fails("plan", "4 replicas");
}
END_TEST

START_TEST(a_leaders_kill_needs_a_successor_and_steps_in_time)
{
    begin();
    scenario.expect.recovered_within_s = 1;
    scenario.expect.steps_lost_max = 0;
    scenario.expect.new_leader = true;
    fails("recovered", "no fault");
    fails("steps_lost", "0 faults");
    fails("new_leader", "no leader was hit");
    stage_fault(&history, ACTION_KILL, TARGET_LEADER, A1, 160);
    fails("recovered", "never went on after kill leader (a1)");
    fails("new_leader", "nobody followed");
    stage_epoch(&history, 3, 2, A2, "loss", 5, 14, 14, 900);
    run(14, 3, 6, 9, 950);
    done();
    holds("recovered", "0.80 s after kill leader (a1)");
    holds("steps_lost", "at most 0");
    holds("new_leader", "a2 leads epoch 3 in term 2");
    ck_assert(verdict.passed);
    scenario.expect.recovered_within_s = 0.5;
    fails("recovered", "0.5 s are allowed");
}
END_TEST

START_TEST(a_stopped_node_is_fenced_and_rejoins)
{
    begin();
    scenario.expect.fenced = true;
    scenario.expect.rejoined_within_s = 2;
    fails("fenced", "nobody was stopped");
    stage_fault(&history, ACTION_STOP, TARGET_NODE, B1, 160);
    stage_epoch(&history, 3, 1, A1, "loss", 5, 11, 11, 900);
    run(11, 3, 6, 9, 950);
    stage_fault(&history, ACTION_CONTINUE, TARGET_NODE, B1, 1000);
    done();
    fails("fenced", "was not told");
    fails("rejoined", "did not become a member");
    ck_assert(!expect_satisfied(&history));
    stage_line(&history, B1, "{\"mono_ms\":1100,\"event\":\"fenced\",\"epoch\":3}");
    stage_epoch(&history, 4, 1, A1, "return", 9, ALL, ALL, 1500);
    holds("fenced", "epoch 3 is without it");
    holds("rejoined", "0.50 s after it continued");
    ck_assert(expect_satisfied(&history));
    stage_step(&history, 1u << B1, 2, 6, 1050);
    fails("fenced", "applied step 6 of the old epoch 2");
}
END_TEST

START_TEST(a_cut_minority_pauses_and_comes_back)
{
    begin();
    scenario.expect.minority_paused = true;
    scenario.expect.healed_within_s = 3;
    fails("minority_paused", "no cut");
    stage_fault(&history, ACTION_CUT, TARGET_ZONE, 1, 160);
    fails("minority_paused", "no side made an epoch");
    stage_epoch(&history, 3, 1, A1, "loss", 5, ZONE_A, ZONE_A, 900);
    run(ZONE_A, 3, 6, 9, 950);
    fails("minority_paused", "did not say that it pauses");
    stage_line(&history, B1, "{\"mono_ms\":901,\"event\":\"paused\",\"reason\":\"r\"}");
    stage_line(&history, B2, "{\"mono_ms\":901,\"event\":\"paused\",\"reason\":\"r\"}");
    holds("minority_paused", "applied 8 steps, the other 0 and said");
    stage_fault(&history, ACTION_HEAL, TARGET_ZONE, 1, 1000);
    fails("healed", "never were all in one epoch");
    ck_assert(!expect_satisfied(&history));
    stage_epoch(&history, 4, 1, A1, "return", 9, ALL, ALL, 2500);
    done();
    holds("healed", "1.50 s after heal b");
    ck_assert(verdict.passed && expect_satisfied(&history));
    stage_step(&history, 1u << B1, 2, 6, 970);
    fails("minority_paused", "the other 1");
}
END_TEST

START_TEST(a_loss_is_seen_where_nobody_may_be_lost)
{
    begin();
    scenario.expect.nobody_lost = true;
    holds("nobody_lost", "none was made for a loss");
    stage_epoch(&history, 3, 1, A1, "return", 5, ALL, ALL, 900);
    holds("nobody_lost", "none was made for a loss");
    stage_epoch(&history, 4, 1, A1, "loss", 9, ZONE_A, ZONE_A, 1200);
    fails("nobody_lost", "epoch 4 was made for a loss");
}
END_TEST

START_TEST(joins_are_held_against_their_limits)
{
    begin();
    done();
    scenario.expect.joined_within_s = 1;
    scenario.expect.pause_below_s = 0.4;
    fails("joined", "nobody joined late");
    fails("pause", "for nobody");
    history_join(&history, B2, 145);
    fails("joined", "b2 never computed");
    stage_line(&history, B2, "{\"mono_ms\":645,\"event\":\"compute\",\"epoch\":3}");
    stage_epoch(&history, 3, 1, A1, "join", 5, ALL, ALL, 500);
    run(ALL, 3, 6, 9, 440);
    holds("joined", "b2 computed 0.50 s");
    holds("pause", "0.29 s");
    scenario.expect.joined_within_s = 0.4;
    scenario.expect.pause_below_s = 0.2;
    fails("joined", "0.4 s are allowed");
    fails("pause", "below 0.2 s");
}
END_TEST

static void
ends(int node, int ms)
{
    stage_line(&history, node,
               "{\"mono_ms\":%d,\"event\":\"stop\",\"reason\":\"this node was evicted\"}",
               ms);
}

START_TEST(who_is_evicted_has_to_end_in_time_and_may_not_come_back)
{
    scenario.expect.evicted_within_s = 5;
    begin();
    done();
    fails("evicted", "no node was evicted");
    stage_fault(&history, ACTION_EVICT, TARGET_NODE, B2, 1000);
    fails("evicted", "ended for it 0 of 1");
    stage_epoch(&history, 3, 1, A1, "policy", 5, 7, 7, 3000);
    fails("evicted", "ended for it 0 of 1");
    ends(B2, 3500);
    holds("evicted", "out 2.50 s");
    scenario.expect.evicted_within_s = 2;
    fails("evicted", "2 s are allowed");
    scenario.expect.evicted_within_s = 5;
    history_join(&history, B2, 6000);
    fails("evicted", "1 of 2 times");
    ends(B2, 6200);
    holds("evicted", "2 of 2 times");
    stage_epoch(&history, 4, 1, A1, "join", 5, ALL, 7, 7000);
    fails("evicted", "a member again");
}
END_TEST

START_TEST(losses_are_compared_with_another_runs)
{
    struct scenario other_scenario;
    struct history other;
    stage_set(&other_scenario, &other);
    begin();
    done();
    snprintf(scenario.expect.same_loss_as, sizeof(scenario.expect.same_loss_as), "o");
    struct outcome outcome = {
        .trouble = "", .deaths = "", .job = true, .reference_trouble = "it broke"};
    expect_judge(&history, &outcome, &verdict);
    ck_assert_ptr_nonnull(strstr(verdict.checks[verdict.count - 1].detail, "it broke"));
    outcome.reference = &other;
    outcome.reference_trouble = "";
    expect_judge(&history, &outcome, &verdict);
    ck_assert_ptr_nonnull(
        strstr(verdict.checks[verdict.count - 1].detail, "5 and 0 steps were applied"));
    stage_step(&other, 1, 1, 1, 10);
    stage_line(&other, A1,
               "{\"mono_ms\":20,\"event\":\"step\",\"epoch\":1,\"step\":2,"
               "\"loss\":4.9805,\"samples_hash\":\"000000000000000e\"}");
    expect_judge(&history, &outcome, &verdict);
    const struct check *loss = &verdict.checks[verdict.count - 2];
    ck_assert(verdict.passed && loss->passed);
    ck_assert_ptr_nonnull(strstr(loss->detail, "0.0005 at step 2"));
    scenario.expect.exact = true;
    expect_judge(&history, &outcome, &verdict);
    ck_assert(!loss->passed && verdict.checks[verdict.count - 1].passed);
    scenario.expect.exact = false;
    scenario.expect.within = 1e-4;
    expect_judge(&history, &outcome, &verdict);
    ck_assert(!loss->passed);
    history_release(&other);
}
END_TEST

Suite *
suite_expect(void)
{
    Suite *suite = suite_create("expect");
    TCase *tests = suite_case(suite, "expect", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_quiet_run_passes_with_what_is_always_checked);
    tcase_add_test(tests, how_a_run_may_end_badly);
    tcase_add_test(tests, a_step_left_out_or_doubled_is_seen);
    tcase_add_test(tests, nodes_that_disagree_about_a_step_are_seen);
    tcase_add_test(tests, progress_is_held_against_what_is_expected);
    tcase_add_test(tests, a_leaders_kill_needs_a_successor_and_steps_in_time);
    tcase_add_test(tests, a_stopped_node_is_fenced_and_rejoins);
    tcase_add_test(tests, a_cut_minority_pauses_and_comes_back);
    tcase_add_test(tests, a_loss_is_seen_where_nobody_may_be_lost);
    tcase_add_test(tests, joins_are_held_against_their_limits);
    tcase_add_test(tests, who_is_evicted_has_to_end_in_time_and_may_not_come_back);
    tcase_add_test(tests, losses_are_compared_with_another_runs);
    return suite;
}
