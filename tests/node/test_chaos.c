/* What broke a swarm once, as processes. */
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/file.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_chaos(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
    return

static struct buf out;
static struct peer one, two, three;

static void
setup(void)
{
    out = (struct buf){0};
}

static void
teardown(void)
{
    swarm_end();
    buf_release(&out);
    unsetenv("FLOTILLA_CHECKPOINT_PATIENCE");
}

static void
found(void)
{
    peer_start(&one, "one", "--zone", "a", NULL);
    peer_event(&one, 5000, NULL, "\"event\":\"epoch\"", NULL);
}

static void
join(struct peer *peer, const char *name, const char *zone)
{
    peer_start(peer, name, "--zone", zone, "--join", one.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"name\":\"%s\"", name);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", quoted, NULL);
    peer_event(peer, 10000, NULL, "\"event\":\"epoch\"", quoted, NULL);
}

static void
train(const struct peer *at, const char *more)
{
    const char *job = swarm_job("long", 1000000, more);
    int code = swarm_run(&out, 20000, "train", "--detach", job, "--data", at->data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
}

START_TEST(a_run_that_waits_for_its_data_says_so_and_can_be_stopped)
{
    BEGIN();
    struct err err;
    found();
    train(&one, "");
    peer_advances(&one, 5, 10000);
    peer_kill(&one);
    ck_assert_int_eq(file_remove_tree(swarm_path("one/data"), &err), 0);
    peer_again(&one, NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"paused\"", "has the job's data set", NULL);
    ck_assert_int_eq(swarm_run(&out, 10000, "status", "--data", one.data, NULL), 0);
    ck_assert_msg(strstr((char *)out.data, "data set"), "%s", (char *)out.data);
    ck_assert_int_eq(swarm_run(&out, 10000, "stop", "--data", one.data, NULL), 0);
    ck_assert_msg(strstr((char *)out.data, "stopped while it waited"), "%s",
                  (char *)out.data);
    /* And the next one runs. */
    int code = swarm_run(&out, 20000, "train", swarm_path("tiny.yaml"), "--data",
                         one.data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
}
END_TEST

START_TEST(who_lost_the_list_of_members_dials_those_of_its_epoch)
{
    BEGIN();
    found();
    join(&two, "two", "b");
    peer_kill(&one);
    peer_kill(&two);
    swarm_write("two/members.state", "no records");
    peer_again(&one, NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", "\"cause\":\"loss\"", NULL);
    peer_again(&two, NULL);
    peer_logs(&two, 5000, "members.state is damaged");
    peer_event(&two, 15000, NULL, "\"event\":\"epoch\"", "\"cause\":\"return\"",
               "\"name\":\"two\"", NULL);
}
END_TEST

START_TEST(a_leader_that_hangs_takes_no_command_with_it)
{
    BEGIN();
    found();
    join(&two, "two", "b");
    join(&three, "three", "c");
    /* The founder leads, and hears nothing of what is asked. */
    ck_assert_int_eq(kill(one.pid, SIGSTOP), 0);
    train(&two, "checkpoint: {every_steps: 0}\n"
                "plan: {pipeline: 1, replicas: 3, micro_batch: 2}\n");
    peer_advances(&two, 10, 20000);
    ck_assert_int_eq(kill(one.pid, SIGCONT), 0);
    peer_event(&one, 15000, NULL, "\"event\":\"epoch\"", "\"job\":\"long\"",
               "\"name\":\"one\"", NULL);
    peer_advances(&two, 10, 20000);
    struct json *status = peer_status(&three);
    char leader[64];
    snprintf(leader, sizeof(leader), "%s",
             json_text(json_get(status, "leader_name"), ""));
    json_free(status);
    struct peer *hung = strcmp(leader, "two") == 0 ? &two : &three;
    ck_assert_int_eq(kill(hung->pid, SIGSTOP), 0);
    int code = swarm_run(&out, 20000, "stop", "--data", one.data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    ck_assert_msg(strstr((char *)out.data, "stopped at step "), "%s", (char *)out.data);
    ck_assert_int_eq(kill(hung->pid, SIGCONT), 0);
}
END_TEST

START_TEST(a_run_without_its_last_checkpoint_is_not_done)
{
    BEGIN();
    setenv("FLOTILLA_CHECKPOINT_PATIENCE", "2", 1);
    found();
    swarm_write("one/checkpoints", "a file where the folder should be");
    int code = swarm_run(&out, 20000, "train", swarm_path("tiny.yaml"), "--data",
                         one.data, NULL);
    ck_assert_msg(code == 1, "%d: %s", code, (char *)out.data);
    ck_assert_msg(strstr((char *)out.data, "no checkpoint of the last step"), "%s",
                  (char *)out.data);
    ck_assert_msg(strstr((char *)out.data, "make room for it or mend what is in the way"),
                  "%s", (char *)out.data);
}
END_TEST

Suite *
suite_chaos(void)
{
    Suite *suite = suite_create("chaos");
    TCase *tests = suite_case(suite, "chaos", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_run_that_waits_for_its_data_says_so_and_can_be_stopped);
    tcase_add_test(tests, who_lost_the_list_of_members_dials_those_of_its_epoch);
    tcase_add_test(tests, a_leader_that_hangs_takes_no_command_with_it);
    tcase_add_test(tests, a_run_without_its_last_checkpoint_is_not_done);
    return suite;
}
