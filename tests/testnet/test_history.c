#include "tests/suite.h"
#include "tests/testnet/stage.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_history(void);

enum { A1 = 0, A2 = 1, B1 = 2, ALL = 15 };

static struct scenario scenario;
static struct history history;

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

START_TEST(epochs_are_merged_over_the_nodes_that_tell_of_them)
{
    stage_epoch(&history, 2, 1, A1, "job", 0, ALL, 12, 200);
    stage_epoch(&history, 1, 1, A1, "founding", -1, 1, 0, 100);
    stage_line(&history, B1,
               "{\"mono_ms\": 90, \"event\": \"epoch\", \"epoch\": 3, \"term\": 2, "
               "\"leader_name\": \"\", \"cause\": \"loss\", \"hash\": \"x\", "
               "\"base_step\": 4, \"members\": [{\"name\": \"b1\"}, {\"name\": \"\"}]}");
    stage_line(
        &history, A2,
        "{\"mono_ms\": 80, \"event\": \"epoch\", \"epoch\": 3, \"term\": 2, "
        "\"leader_name\": \"a2\", \"cause\": \"loss\", \"hash\": \"x\", "
        "\"base_step\": 4, \"members\": [{\"name\": \"a2\"}, {\"name\": \"b1\"}]}");
    ck_assert_uint_eq(history.epochs_count, 3);
    ck_assert_int_eq(history.epochs[0].epoch, 1);
    ck_assert_int_eq(history.epochs[0].stages, 0);
    ck_assert_str_eq(history.epochs[0].plan, "{\"micro_batch\":0,\"stages\":[]}");
    ck_assert_int_eq(history.epochs[1].pipelines, 2);
    ck_assert_uint_eq(history.epochs[1].workers, 12);
    ck_assert_uint_eq(history.epochs[2].members, 6);
    ck_assert_int_eq(history.epochs[2].leader, A2);
    ck_assert_int_eq(history.epochs[2].first_ms, 80);
    ck_assert_int_eq(history.leader, A2);
    ck_assert_int_eq(history.term, 2);
    ck_assert_ptr_eq(history_newest(&history), &history.epochs[2]);
    ck_assert_str_eq(history.conflict, "");
}
END_TEST

START_TEST(two_epochs_of_one_number_are_a_conflict)
{
    stage_epoch(&history, 1, 1, A1, "founding", -1, 1, 0, 100);
    stage_line(&history, B1,
               "{\"mono_ms\": 101, \"event\": \"epoch\", \"epoch\": 1, \"term\": 1, "
               "\"hash\": \"other\"}");
    ck_assert_ptr_nonnull(strstr(history.conflict, "epoch 1 is h1"));
}
END_TEST

START_TEST(the_leader_is_of_the_highest_term)
{
    stage_line(&history, A1,
               "{\"mono_ms\":1,\"event\":\"leader\",\"term\":4,\"name\":\"a2\"}");
    stage_line(&history, A1,
               "{\"mono_ms\":2,\"event\":\"leader\",\"term\":3,\"name\":\"a1\"}");
    ck_assert_int_eq(history.leader, A2);
    stage_line(&history, A1,
               "{\"mono_ms\":3,\"event\":\"leader\",\"term\":4,\"name\":\"\"}");
    ck_assert_int_eq(history.leader, A2);
    stage_line(&history, A1,
               "{\"mono_ms\":4,\"event\":\"leader\",\"term\":5,\"name\":\"\"}");
    ck_assert_int_eq(history.leader, -1);
}
END_TEST

START_TEST(lines_that_are_no_events_are_passed_over)
{
    stage_line(&history, A1, "{\"mono_ms\":1,\"event\":\"st");
    stage_line(&history, A1, "[1, 2]");
    stage_line(&history, A1, "{\"event\": 7}");
    stage_line(&history, A1, "{\"mono_ms\":1,\"event\":\"step\",\"step\":-3}");
    stage_line(&history, A1, "{\"mono_ms\":1,\"event\":\"step\",\"step\":99999999999}");
    stage_line(&history, A1, "%s", "");
    ck_assert_uint_eq(history.steps_count, 0);
    ck_assert_uint_eq(history.epochs_count, 0);
}
END_TEST

START_TEST(steps_of_a_later_epoch_replace_what_was_rolled_back)
{
    size_t count;
    stage_epoch(&history, 1, 1, A1, "job", 0, ALL, ALL, 100);
    for (int step = 1; step <= 5; step++)
        stage_step(&history, ALL, 1, step, 100 + step * 10);
    stage_epoch(&history, 2, 1, A1, "loss", 3, 3, 3, 200);
    stage_step(&history, 3, 2, 4, 210);
    struct past_step *curve = history_curve(&history, &count);
    ck_assert_int_eq(history.applied, 4);
    ck_assert_int_eq(history.newest_step, 5);
    stage_step(&history, 4, 1, 6, 220); /* of an epoch that is over */
    ck_assert_int_eq(history.applied, 4);
    ck_assert_uint_eq(count, 4); /* 5 was given up and not done again */
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(curve[i].step, (int64_t)i + 1);
    ck_assert_int_eq(curve[2].epoch, 1);
    ck_assert_int_eq(curve[3].epoch, 2);
    ck_assert_int_eq(curve[3].mono_ms, 210);
    free(curve);
}
END_TEST

START_TEST(a_kill_costs_until_the_first_step_of_a_new_epoch)
{
    stage_epoch(&history, 1, 1, A1, "job", 0, ALL, ALL, 100);
    for (int step = 1; step <= 5; step++)
        stage_step(&history, ALL, 1, step, 100 + step * 10);
    const struct past_fault *fault =
        stage_fault(&history, ACTION_KILL, TARGET_LEADER, A1, 155);
    ck_assert(fault->leader && fault->working);
    ck_assert_int_eq(fault->at_step, 5);
    ck_assert_str_eq(fault->text, "kill leader (a1)");
    stage_step(&history, 14, 1, 6, 156); /* was on its way */
    stage_epoch(&history, 2, 2, A2, "loss", 6, 14, 14, 700);
    stage_step(&history, 14, 2, 7, 900);
    history_settle(&history);
    ck_assert(history.faults[0].seconds == 0.745);
    ck_assert_int_eq(history.faults[0].steps_lost, 0);
}
END_TEST

START_TEST(steps_lost_are_those_done_again)
{
    stage_epoch(&history, 1, 1, A1, "job", 0, ALL, ALL, 100);
    for (int step = 1; step <= 5; step++)
        stage_step(&history, ALL, 1, step, 100 + step * 10);
    stage_fault(&history, ACTION_CUT, TARGET_ZONE, 1, 155);
    stage_epoch(&history, 2, 1, A1, "loss", 2, 3, 3, 300);
    stage_step(&history, 3, 2, 3, 310);
    stage_fault(&history, ACTION_KILL, TARGET_NODE, A2, 320);
    stage_epoch(&history, 3, 1, A1, "loss", 3, 1, 1, 400);
    stage_fault(&history, ACTION_HEAL, TARGET_ZONE, 1, 500);
    history_settle(&history);
    ck_assert_int_eq(history.faults[0].steps_lost, 3);
    ck_assert(history.faults[0].seconds == 0.155);
    /* The second fault found 3 applied, not the 5 that were given up before. */
    ck_assert_int_eq(history.faults[1].steps_lost, 0);
    ck_assert(history.faults[1].seconds == -1);
    ck_assert(!fault_costs(&history.faults[2]));
}
END_TEST

START_TEST(who_has_no_part_in_the_plan_holds_nobody_up)
{
    stage_epoch(&history, 1, 1, A1, "job", 0, ALL, 6, 100);
    stage_step(&history, 6, 1, 1, 110);
    ck_assert(!stage_fault(&history, ACTION_KILL, TARGET_NODE, A1, 115)->working);
    stage_step(&history, 6, 1, 2, 120);
    history_settle(&history);
    ck_assert(history.faults[0].seconds == 0.005);
}
END_TEST

START_TEST(a_join_costs_the_others_their_longest_gap)
{
    stage_epoch(&history, 1, 1, A1, "job", 0, 7, 7, 100);
    for (int step = 1; step <= 10; step++)
        stage_step(&history, 7, 1, step, 1000 + step * 100);
    history_join(&history, 3, 1950);
    stage_epoch(&history, 2, 1, A1, "join", 10, ALL, ALL, 2500);
    stage_line(&history, 3,
               "{\"mono_ms\":2600,\"event\":\"compute\",\"epoch\":2,\"step\":11}");
    for (int step = 11; step <= 14; step++)
        stage_step(&history, ALL, 2, step, 2700 + (step - 11) * 100);
    history_join(&history, B1, 2900);
    history_settle(&history);
    ck_assert(history.joins[0].seconds == 0.65);
    ck_assert(history.joins[0].pause_s == 0.6); /* 700 ms, beyond the median 100 */
    ck_assert(history.joins[1].seconds == -1);
}
END_TEST

START_TEST(numbers_that_no_run_has_are_cut)
{
    stage_epoch(&history, 1, 1, A1, "job", 0, ALL, 15, 100);
    stage_line(&history, A1,
               "{\"event\":\"step\",\"mono_ms\":9223372036854775807,\"epoch\":1,"
               "\"step\":1,\"loss\":1e308,\"tokens\":9223372036854775807}");
    ck_assert_uint_eq(history.steps_count, 1);
    ck_assert_int_eq(history.steps[0].mono_ms, INT64_C(1) << 42);
    ck_assert_int_eq(history.steps[0].tokens, INT64_C(1) << 42);
    ck_assert_double_eq(history.steps[0].loss, 1e9);
    stage_line(&history, A1, "{\"event\":\"step\",\"epoch\":1,\"step\":1048577}");
    ck_assert_uint_eq(history.steps_count, 1); /* no run has so many: no room is made */
}
END_TEST

START_TEST(a_job_ends_once)
{
    ck_assert(!history_job_ended(&history));
    stage_line(&history, A1, "{\"event\":\"job\",\"name\":\"j\",\"state\":\"running\"}");
    ck_assert(!history_job_ended(&history));
    stage_line(&history, A1, "{\"event\":\"job\",\"name\":\"j\",\"state\":\"done\"}");
    ck_assert(history_job_ended(&history));
    /* A node that comes back late has it begin again. */
    stage_line(&history, A2, "{\"event\":\"job\",\"name\":\"j\",\"state\":\"running\"}");
    ck_assert(history_job_ended(&history));
    ck_assert_str_eq(history.job_state, "done");
}
END_TEST

Suite *
suite_history(void)
{
    Suite *suite = suite_create("history");
    TCase *tests = suite_case(suite, "history", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, epochs_are_merged_over_the_nodes_that_tell_of_them);
    tcase_add_test(tests, two_epochs_of_one_number_are_a_conflict);
    tcase_add_test(tests, the_leader_is_of_the_highest_term);
    tcase_add_test(tests, lines_that_are_no_events_are_passed_over);
    tcase_add_test(tests, steps_of_a_later_epoch_replace_what_was_rolled_back);
    tcase_add_test(tests, a_kill_costs_until_the_first_step_of_a_new_epoch);
    tcase_add_test(tests, steps_lost_are_those_done_again);
    tcase_add_test(tests, who_has_no_part_in_the_plan_holds_nobody_up);
    tcase_add_test(tests, a_join_costs_the_others_their_longest_gap);
    tcase_add_test(tests, numbers_that_no_run_has_are_cut);
    tcase_add_test(tests, a_job_ends_once);
    return suite;
}
