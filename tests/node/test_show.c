#include "node/command/show.h"
#include "tests/suite.h"
#include "transport/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_show(void);

static struct show show;
static FILE *out;
static char *text;
static size_t len;

static void
setup(void)
{
    out = open_memstream(&text, &len);
    show_begin(&show, out, false, 1000);
}

static void
teardown(void)
{
    fclose(out);
    free(text);
}

static bool __attribute__((format(printf, 2, 3)))
tell(int64_t now_ms, const char *fmt, ...)
{
    char line[2048];
    struct err err;
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    struct json *event = json_parse(line, (size_t)size, sizeof(line), &err);
    ck_assert_msg(event != NULL, "%s: %s", err.msg, line);
    bool goes_on = show_event(&show, now_ms, event);
    json_free(event);
    return goes_on;
}

static void
tell_step(int64_t now_ms, int step)
{
    ck_assert(tell(now_ms,
                   "{\"event\":\"step\",\"mono_ms\":%lld,\"epoch\":2,\"step\":%d,"
                   "\"loss\":3.5,\"tokens\":200,\"nodes\":3,\"step_s\":0.1}",
                   (long long)now_ms, step));
}

static void
tell_epoch(int epoch, const char *job, const char *plan)
{
    ck_assert(tell(1000,
                   "{\"event\":\"epoch\",\"epoch\":%d,\"cause\":\"submitted\","
                   "\"leader_name\":\"a1\",\"job\":\"%s\",\"members\":[{},{},{}],"
                   "\"plan\":{%s}}",
                   epoch, job, plan));
}

static int
lines(const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        count++;
    return count;
}

static void
says(const char *what)
{
    ck_assert_msg(strstr(text, what) != NULL, "\"%s\" is not in:\n%s", what, text);
}

static void
says_not(const char *what)
{
    ck_assert_msg(strstr(text, what) == NULL, "\"%s\" is in:\n%s", what, text);
}

/* ---- a run ---- */

START_TEST(a_file_gets_at_most_one_step_line_a_second_and_the_last_one)
{
    for (int step = 1; step <= 305; step++)
        tell_step(1000 + step * 10, step);
    ck_assert_int_eq(lines("loss"), 4);
    says("step 1  ");
    says("step 101  ");
    says("step 301  ");
    says_not("step 305 ");
    ck_assert(!tell(4055, "{\"event\":\"job\",\"state\":\"done\"}"));
    says("step 305  loss 3.5000  2000 tokens/s  epoch 2  3 nodes\nthe run ended: done\n");
    ck_assert_int_eq(lines("\r"), 0);
}
END_TEST

START_TEST(a_step_line_that_waits_is_shown_when_it_is_due)
{
    tell_step(1000, 1);
    tell_step(1500, 2);
    show_tick(&show, 1999);
    fflush(out);
    says_not("step 2 ");
    show_tick(&show, 2000);
    says("step 2 ");
    show_tick(&show, 4000);
    ck_assert_int_eq(lines("step 2 "), 1);
    /* And at once when the talk ends. */
    tell_step(2500, 3);
    says_not("step 3 ");
    show_finish(&show);
    show_finish(&show);
    ck_assert_int_eq(lines("step 3 "), 1);
}
END_TEST

START_TEST(a_step_that_is_told_twice_is_shown_once)
{
    tell_step(1000, 5);
    tell_step(3000, 5);
    tell_step(5000, 4);
    ck_assert_int_eq(lines("step "), 1);
    ck_assert(tell(6000, "{\"event\":\"rollback\",\"from_step\":5,\"to_step\":3}"));
    says("steps 4 to 5 are done again");
    tell_step(7000, 4);
    says("step 4 ");
}
END_TEST

START_TEST(what_came_before_a_change_is_shown_before_it)
{
    tell_step(1000, 1);
    tell_step(1010, 2);
    ck_assert(tell(1020, "{\"event\":\"paused\",\"reason\":\"no majority\"}"));
    const char *step = strstr(text, "step 2 "), *paused = strstr(text, "paused: no majo");
    ck_assert_msg(step && paused && step < paused, "%s", text);
}
END_TEST

START_TEST(on_a_terminal_the_last_step_line_stays)
{
    show_begin(&show, out, true, 1000);
    tell_step(1000, 1);
    tell_step(1010, 2);
    ck_assert(tell(1020, "{\"event\":\"checkpoint\",\"path\":\"/c/step-2\"}"));
    says("\r\033[Kcheckpoint /c/step-2\nstep 2  ");
    ck_assert(!tell(1030, "{\"event\":\"job\",\"state\":\"done\"}"));
    says("\nstep 2  loss 3.5000  2000 tokens/s  epoch 2  3 nodes\nthe run ended: done\n");
}
END_TEST

START_TEST(the_end_has_a_summary)
{
    for (int step = 11; step <= 20; step++)
        tell_step(1100 + (step - 11) * 100, step);
    ck_assert(tell(2000, "{\"event\":\"checkpoint\",\"path\":\"/c/step-20\"}"));
    ck_assert(!tell(8200, "{\"event\":\"job\",\"state\":\"stopped at step 20\"}"));
    says("the run ended: stopped at step 20\n"
         "steps 11 to 20, loss 3.5000, 7.2 s, 2000 tokens/s, checkpoint /c/step-20\n");
    ck_assert(!show.failed);
}
END_TEST

START_TEST(a_node_without_a_part_counts_the_steps_that_it_is_not_told)
{
    for (int step = 10; step <= 40; step += 10)
        ck_assert(tell(1000 + step * 100,
                       "{\"event\":\"progress\",\"mono_ms\":%d,\"epoch\":2,\"step\":%d,"
                       "\"loss\":3,\"tokens\":200,\"nodes\":3,\"step_s\":0.1}",
                       1000 + step * 100, step));
    ck_assert(!tell(70000, "{\"event\":\"job\",\"state\":\"failed: it is nan\"}"));
    says("steps 10 to 40, loss 3.0000, 1 min 9 s, 2000 tokens/s\n");
    ck_assert(show.failed);
    ck_assert_str_eq(show.ended, "failed: it is nan");
}
END_TEST

START_TEST(numbers_that_no_run_has_are_cut)
{
    tell(1000, "{\"event\":\"step\",\"mono_ms\":-9223372036854775808,"
               "\"step\":9223372036854775807,\"tokens\":200,\"step_s\":1e300}");
    tell(2000, "{\"event\":\"rollback\",\"from_step\":9223372036854775807,"
               "\"to_step\":-9223372036854775808}");
    says("steps -9007199254740991 to 9007199254740992 are done again\n");
    tell_step(3000, 5);
    says("step 5 ");
    ck_assert(!tell(4000, "{\"event\":\"job\",\"state\":\"done\"}"));
    says("the run ended: done\n");
}
END_TEST

START_TEST(an_epoch_without_a_job_is_not_shown)
{
    tell_epoch(2, "x", "\"stages\":[{},{}],\"nodes\":3");
    says("epoch 2 (submitted): 3 nodes, leader a1, 2 stages\n");
    tell_epoch(3, "x", "\"stages\":[]");
    says("epoch 3 (submitted): 3 nodes, leader a1, the job waits for members that can "
         "carry it\n");
    tell_epoch(4, "", "\"stages\":[]");
    fflush(out);
    says_not("epoch 4");
    says_not("planned on");
}
END_TEST

START_TEST(a_plan_that_leaves_nodes_out_says_so_and_steps_name_those_who_take_part)
{
    tell_epoch(2, "x", "\"stages\":[{}],\"nodes\":1");
    says("3 nodes, leader a1, 1 stage\n"
         "planned on 1 of 3 nodes: for this model more would be slower (plan: in the job "
         "fixes it)\n");
    tell_step(1000, 1);
    says("epoch 2  1 node\n");
    tell_epoch(3, "x", "\"stages\":[{},{}],\"nodes\":2,\"fixed\":{\"pipeline\":2}");
    says("planned on 2 of 3 nodes, as the job fixes it\n");
    says_not("could not be kept");
}
END_TEST

START_TEST(what_is_loosened_is_named)
{
    tell_epoch(2, "x",
               "\"loosened\":true,\"pipelines\":1,\"micro_batch\":4,\"nodes\":3,"
               "\"fixed\":{\"pipeline\":2,\"replicas\":2,\"micro_batch\":4,"
               "\"zones\":[\"a\",\"b\"]},"
               "\"stages\":[{\"replicas\":[{\"zone\":\"a\"}]}]");
    says("the job's fixed plan could not be kept: pipeline 1, not 2; replicas 1, not 2; "
         "zones a, not a, b\n");
    tell_epoch(3, "x", "\"loosened\":true,\"nodes\":3,\"stages\":[{}]");
    says("the job's fixed plan could not be kept\n");
}
END_TEST

START_TEST(a_follower_that_comes_later_is_told_where_the_run_stands)
{
    ck_assert(!show.accepted);
    ck_assert(tell(1000, "{\"event\":\"submitted\"}"));
    says("submitted; the members measure themselves on this model\n");
    ck_assert(!show.accepted);
    ck_assert(tell(1000,
                   "{\"event\":\"run\",\"epoch\":7,\"nodes\":2,\"job\":\"x\","
                   "\"leader_name\":\"b\",\"plan\":{\"stages\":[{}],\"nodes\":2}}"));
    ck_assert(show.accepted && show.nodes == 2);
    says("epoch 7: 2 nodes, leader b, 1 stage\n");
    tell_epoch(7, "x", "\"stages\":[{}],\"nodes\":3"); /* the same one */
    ck_assert_int_eq(lines("epoch 7"), 1);
}
END_TEST

/* ---- the swarm ---- */

static void
status_of(const char *document, bool all)
{
    struct err err;
    struct json *status = json_parse(document, strlen(document), 1 << 20, &err);
    ck_assert_msg(status != NULL, "%s", err.msg);
    show_status(out, status, all);
    fflush(out);
    json_free(status);
}

static const char swarm[] =
    "{\"name\":\"a1\",\"version\":\"1\",\"entered\":true,\"role\":\"leader\",\"members\":"
    "["
    "{\"name\":\"a-node-with-a-long-name\",\"zone\":\"a\",\"address\":\"10.0.0.1:7700\","
    "\"state\":\"alive\",\"since_s\":9000,\"member\":true,\"self\":true},"
    "{\"name\":\"b1\",\"zone\":\"a-zone-with-a-long-name\",\"address\":\"b:7700\","
    "\"state\":\"suspect\",\"since_s\":3,\"member\":true,\"memory_bytes\":1073741824},"
    "{\"name\":\"c1\",\"zone\":\"c\",\"state\":\"left\",\"since_s\":90},"
    "{\"name\":\"d1\",\"zone\":\"d\",\"state\":\"dead\",\"since_s\":700}],"
    "\"links\":["
    "{\"from\":\"a-node-with-a-long-name\",\"to\":\"b1\",\"mbit_per_s\":123.456,\"round_"
    "trip_ms\":1.5},"
    "{\"from\":\"b1\",\"to\":\"a-node-with-a-long-name\",\"mbit_per_s\":9.87},"
    "{\"from\":\"b1\",\"to\":\"b1\",\"mbit_per_s\":48123.5},"
    "{\"from\":\"b1\",\"to\":\"c1\",\"mbit_per_s\":77},"
    "{\"from\":\"d1\",\"to\":\"b1\",\"mbit_per_s\":78}],"
    "\"job\":{\"name\":\"x\",\"state\":\"running\",\"step\":3,\"steps\":9,\"step_s\":0.2,"
    "\"predicted_step_s\":0.1,\"participating\":1},"
    "\"plan\":{\"micro_batch\":1,\"pipelines\":2,\"blocks\":4,\"loosened\":true,"
    "\"fixed\":{\"replicas\":3},\"stages\":["
    "{\"first_layer\":0,\"layers\":3,\"replicas\":[{\"node\":\"b1\",\"zone\":\"b\","
    "\"micro_batches\":2},{\"node\":\"b2\",\"zone\":\"b\",\"micro_batches\":1}]},"
    "{\"first_layer\":3,\"layers\":1,\"replicas\":[]},"
    "{\"first_layer\":4,\"layers\":2,\"replicas\":[]}]}}";

/* Where a word begins in the line that has another. */
static long
column(const char *line_with, const char *word)
{
    const char *at = strstr(text, line_with);
    ck_assert_msg(at != NULL, "\"%s\" is not in:\n%s", line_with, text);
    while (at > text && at[-1] != '\n')
        at--;
    const char *found = strstr(at, word);
    ck_assert_msg(found && !memchr(at, '\n', (size_t)(found - at)), "no \"%s\" in:\n%s",
                  word, at);
    return found - at;
}

START_TEST(columns_are_as_wide_as_what_is_in_them)
{
    status_of(swarm, false);
    ck_assert_int_eq(column("node  ", "zone"), 25);
    ck_assert_int_eq(column("b:7700", "a-zone"), 25);
    ck_assert_int_eq(column("node  ", "address"), column("b:7700", "b:7700"));
    ck_assert_int_eq(column("node  ", "state"), column("10.0.0.1", "alive"));
    says_not(" \n");
}
END_TEST

START_TEST(who_is_gone_for_long_is_listed_when_asked)
{
    status_of(swarm, false);
    says("left 1 min ago");
    says_not("d1");
    says("1 node gone for more than 10 minutes; --all lists it\n");
    status_of(swarm, true);
    says("dead 11 min ago");
}
END_TEST

START_TEST(links_are_those_between_members_that_are_here)
{
    status_of(swarm, false);
    says(" 123  ");
    says(" 9.9  ");
    says(" >10000  ");
    says_not("48123");
    says(" 1.5 ms  ");
    says(" unknown  ");
    says_not(" 77");
    says_not(" 78");
}
END_TEST

START_TEST(a_plan_names_blocks_and_counts_micro_batches)
{
    status_of(swarm, false);
    says("plan: 3 stages, 2 replicas each, micro-batches of 1 sequence\n");
    says("could not be kept: replicas 2, not 3\n");
    says(
        "stage 0  embedding, blocks 1-2: b/b1 (2 micro-batches), b/b2 (1 micro-batch)\n");
    says("stage 1  block 3:\n");
    says("stage 2  block 4, head:\n");
}
END_TEST

START_TEST(a_step_far_from_its_prediction_is_remarked)
{
    status_of(swarm, false);
    says("1 node computes; a step takes 0.200 s, predicted were 0.100 s\n");
    says("these differ by more than half");
    says("no recovery copy yet, no checkpoint written here since this node started\n");
    fclose(out);
    free(text);
    out = open_memstream(&text, &len);
    status_of("{\"entered\":true,\"job\":{\"name\":\"x\",\"step\":3,\"step_s\":0.14,"
              "\"predicted_step_s\":0.1,\"participating\":2,\"copy_step\":2,"
              "\"checkpoint_step\":1}}",
              false);
    says("2 nodes compute;");
    says_not("differ");
    says("recovery copy of step 2, checkpoint of step 1 here\n");
}
END_TEST

Suite *
suite_show(void)
{
    Suite *suite = suite_create("show");
    TCase *tests = suite_case(suite, "show", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_file_gets_at_most_one_step_line_a_second_and_the_last_one);
    tcase_add_test(tests, a_step_line_that_waits_is_shown_when_it_is_due);
    tcase_add_test(tests, a_step_that_is_told_twice_is_shown_once);
    tcase_add_test(tests, what_came_before_a_change_is_shown_before_it);
    tcase_add_test(tests, on_a_terminal_the_last_step_line_stays);
    tcase_add_test(tests, the_end_has_a_summary);
    tcase_add_test(tests, a_node_without_a_part_counts_the_steps_that_it_is_not_told);
    tcase_add_test(tests, numbers_that_no_run_has_are_cut);
    tcase_add_test(tests, an_epoch_without_a_job_is_not_shown);
    tcase_add_test(
        tests, a_plan_that_leaves_nodes_out_says_so_and_steps_name_those_who_take_part);
    tcase_add_test(tests, what_is_loosened_is_named);
    tcase_add_test(tests, a_follower_that_comes_later_is_told_where_the_run_stands);
    tcase_add_test(tests, columns_are_as_wide_as_what_is_in_them);
    tcase_add_test(tests, who_is_gone_for_long_is_listed_when_asked);
    tcase_add_test(tests, links_are_those_between_members_that_are_here);
    tcase_add_test(tests, a_plan_names_blocks_and_counts_micro_batches);
    tcase_add_test(tests, a_step_far_from_its_prediction_is_remarked);
    return suite;
}
