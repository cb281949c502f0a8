/*
 * test_talk.c - the commands against a node that the test plays: what they do with its
 * words, and when it goes away.
 */
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

Suite *suite_talk(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
        return;                                                                          \
    play()

static int listener = -1, talk = -1;
static pid_t command;
static char heard[64 << 10];

static void
teardown(void)
{
    if (talk >= 0)
        close(talk);
    if (listener >= 0)
        close(listener);
    talk = listener = -1;
    swarm_end();
}

/* The node's socket in the folder "node". */
static void
play(void)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    struct err err;
    ck_assert_int_eq(file_make_folder(swarm_path("node"), &err), 0);
    snprintf(where.sun_path, sizeof(where.sun_path), "%.80s/node/control.sock",
             swarm_folder());
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&where, sizeof(where)), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
}

static void
hear(void)
{
    size_t len = 0;
    struct pollfd poller = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&poller, 1, 5000), 1);
    if (talk >= 0)
        close(talk);
    talk = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    poller.fd = talk;
    memset(heard, 0, sizeof(heard));
    while (!strchr(heard, '\n')) {
        ck_assert_int_eq(poll(&poller, 1, 5000), 1);
        ssize_t got = recv(talk, heard + len, sizeof(heard) - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
}

/* Start a command and hear what it asks. */
static void
start(const char *name, const char *second, const char *third)
{
    const char *arguments[] = {name, "--data", swarm_path("node"), second, third, NULL};
    command = swarm_spawn(swarm_path("log"), arguments);
    hear();
    if (heard[0] == '\0') /* `train` first looks whether a node is there */
        hear();
}

static void
tell(const char *line)
{
    ck_assert_int_eq(send(talk, line, strlen(line), MSG_NOSIGNAL), (int)strlen(line));
}

/* The node goes away. */
static int
hang_up(void)
{
    close(talk);
    talk = -1;
    return swarm_wait(command, 5000);
}

static void
said(const char *what)
{
    swarm_line(swarm_path("log"), 3000, NULL, what, NULL);
}

static void
said_not(const char *what)
{
    struct buf text = {0};
    struct err err;
    ck_assert_int_eq(file_read(swarm_path("log"), 1 << 20, &text, &err), 0);
    buf_add(&text, "", 1);
    ck_assert_msg(!strstr((char *)text.data, what), "%s", (char *)text.data);
    buf_release(&text);
}

#define RUN                                                                              \
    "{\"event\":\"run\",\"epoch\":4,\"nodes\":2,\"job\":\"x\",\"leader_name\":\"b\","    \
    "\"plan\":{\"stages\":[{}],\"nodes\":2}}\n"
#define STEP                                                                             \
    "{\"event\":\"step\",\"epoch\":4,\"step\":%s,\"loss\":3.5,\"tokens\":200,"           \
    "\"nodes\":2,\"step_s\":0.1}\n"

static void
tell_step(const char *step)
{
    char line[256];
    snprintf(line, sizeof(line), STEP, step);
    tell(line);
}

/* ---- leave ---- */

/* It first looks whether the node is in its swarm. */
static void
start_leave(bool entered)
{
    start("leave", NULL, NULL);
    ck_assert_msg(strstr(heard, "\"status\"") != NULL, "%s", heard);
    tell(entered ? "{\"done\":true,\"status\":{\"entered\":true}}\n"
                 : "{\"done\":true,\"status\":{\"entered\":false}}\n");
    hear();
    ck_assert_msg(strstr(heard, "\"leave\"") != NULL, "%s", heard);
}

START_TEST(leaving_in_order_is_done)
{
    BEGIN();
    static const char *const good[] = {"left", "the last member goes", "asked to leave"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char line[128];
        start_leave(true);
        tell("{\"event\":\"leader\",\"term\":3}\n");
        snprintf(line, sizeof(line), "{\"event\":\"stop\",\"reason\":\"%s\"}\n", good[i]);
        tell(line);
        ck_assert_int_eq(hang_up(), 0);
        said("left");
    }
}
END_TEST

START_TEST(a_node_that_ends_before_it_is_planned_out_has_not_left)
{
    BEGIN();
    start_leave(true);
    tell("{\"event\":\"stop\",\"reason\":\"left without a new epoch\"}\n");
    ck_assert_int_eq(hang_up(), 1);
    said(
        "flotilla leave: the node ended, but no plan without it was made (left without a "
        "new epoch)");
    start_leave(true);
    ck_assert_int_eq(hang_up(), 1);
    said("(it did not say why)");
    start_leave(false);
    ck_assert_int_eq(hang_up(), 0);
    said("it had not joined its swarm yet");
}
END_TEST

/* ---- train ---- */

START_TEST(a_run_can_be_followed_again)
{
    BEGIN();
    start("train", "--follow", NULL);
    ck_assert_msg(strstr(heard, "\"follow\"") && !strstr(heard, "train"), "%s", heard);
    tell(RUN);
    tell_step("7");
    said("epoch 4: 2 nodes, leader b, 1 stage");
    said("step 7  loss 3.5000");
    tell("{\"event\":\"job\",\"state\":\"done\"}\n");
    ck_assert_int_eq(swarm_wait(command, 5000), 0);
    said("the run ended: done");
}
END_TEST

START_TEST(an_interrupt_before_the_job_is_accepted_says_that_it_may_start)
{
    BEGIN();
    start("train", swarm_path("tiny.yaml"), NULL);
    tell("{\"event\":\"submitted\"}\n");
    said("submitted; the members measure themselves on this model");
    kill(command, SIGINT);
    ck_assert_int_eq(swarm_wait(command, 5000), 0);
    said("detached before the job was accepted; it may still start");
}
END_TEST

START_TEST(an_interrupt_detaches_and_loses_no_step_line)
{
    BEGIN();
    start("train", swarm_path("tiny.yaml"), NULL);
    tell(RUN);
    tell_step("1");
    tell_step("2");
    said("step 1 ");
    clock_sleep_ms(100);
    said_not("step 2 ");
    kill(command, SIGINT);
    ck_assert_int_eq(swarm_wait(command, 5000), 0);
    said("step 2 ");
    said("flotilla train --follow shows it again");
}
END_TEST

START_TEST(a_step_line_is_shown_while_the_node_is_silent)
{
    BEGIN();
    start("train", "--follow", NULL);
    tell(RUN);
    tell_step("1");
    tell_step("2");
    said("step 2 ");
    ck_assert_int_eq(hang_up(), 1);
}
END_TEST

START_TEST(when_the_node_goes_away_the_others_are_named)
{
    BEGIN();
    start("train", "--follow", NULL);
    tell(RUN);
    ck_assert_int_eq(hang_up(), 1);
    said(
        "flotilla train: the node closed the connection; it stopped or left, and the run "
        "goes on at the others");
    unlink(swarm_path("log"));
    start("train", "--follow", NULL); /* it is the only one */
    tell("{\"event\":\"run\",\"epoch\":4,\"nodes\":1,\"job\":\"x\",\"plan\":{}}\n");
    ck_assert_int_eq(hang_up(), 1);
    said("the node closed the connection; it stopped or left");
    said_not("at the others");
    start("train", "--follow", NULL); /* it was planned out */
    tell("{\"event\":\"run\",\"epoch\":4,\"nodes\":1,\"job\":\"x\",\"plan\":{}}\n");
    tell("{\"event\":\"stop\",\"reason\":\"left\"}\n");
    ck_assert_int_eq(hang_up(), 1);
    said("and the run goes on at the others");
}
END_TEST

START_TEST(json_prints_the_events_alone)
{
    BEGIN();
    start("train", "--follow", "--json");
    tell(RUN);
    tell_step("1");
    tell("{\"event\":\"job\",\"state\":\"failed: it is nan\"}\n");
    ck_assert_int_eq(swarm_wait(command, 5000), 1);
    said("\"state\":\"failed: it is nan\"");
    said("\"step\":1");
    said_not("loss 3.5");
    said_not("the run ended");
}
END_TEST

/* ---- status ---- */

START_TEST(an_answer_without_a_status_is_an_error)
{
    static const char *const answers[] = {"{\"done\":true}\n",
                                          "{\"done\":true,\"status\":[1]}\n"};
    BEGIN();
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        unlink(swarm_path("log"));
        start("status", "--json", NULL);
        tell(answers[i]);
        ck_assert_int_eq(swarm_wait(command, 5000), 1);
        said("flotilla status: the node's answer has no status");
    }
}
END_TEST

/* ---- the node itself ---- */

/* What the node of the folder "one" answers to a request that no command makes. */
static void
ask_raw(const char *request)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    snprintf(where.sun_path, sizeof(where.sun_path), "%.80s/one/control.sock",
             swarm_folder());
    talk = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(talk, (struct sockaddr *)&where, sizeof(where)), 0);
    tell(request);
    size_t len = 0;
    struct pollfd poller = {.fd = talk, .events = POLLIN};
    memset(heard, 0, sizeof(heard));
    while (!strchr(heard, '\n')) {
        ck_assert_int_eq(poll(&poller, 1, 5000), 1);
        ssize_t got = recv(talk, heard + len, sizeof(heard) - 1 - len, 0);
        ck_assert_int_gt(got, 0);
        len += (size_t)got;
    }
    close(talk);
    talk = -1;
}

START_TEST(a_job_that_no_leader_would_take_is_refused_where_it_is_asked_for)
{
    static const char *const sizes[] = {"-5", "0", "1125899906842625",
                                        "9223372036854775807"};
    if (!swarm_begin(__func__))
        return;
    struct peer one;
    peer_start(&one, "one", "--engine", "off", NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char request[1024];
        snprintf(
            request, sizeof(request),
            "{\"command\":\"train\",\"job\":\"name: a\\nmodel: {layers: 2, heads: 2, "
            "hidden: 8, context: 8}\\ndata: {train: a.txt}\\nbatch: {sequences: "
            "4}\\nsteps: 10\\n\",\"data\":\"%064d\",\"data_bytes\":%s}\n",
            7, sizes[i]);
        ask_raw(request);
        ck_assert_msg(strstr(heard, "\"error\":") && strstr(heard, "\"usage\":true"),
                      "%s: %s", sizes[i], heard);
    }
}
END_TEST

Suite *
suite_talk(void)
{
    Suite *suite = suite_create("talk");
    TCase *tests = suite_case(suite, "talk", 30);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, leaving_in_order_is_done);
    tcase_add_test(tests, a_node_that_ends_before_it_is_planned_out_has_not_left);
    tcase_add_test(tests, a_run_can_be_followed_again);
    tcase_add_test(tests, an_interrupt_before_the_job_is_accepted_says_that_it_may_start);
    tcase_add_test(tests, an_interrupt_detaches_and_loses_no_step_line);
    tcase_add_test(tests, a_step_line_is_shown_while_the_node_is_silent);
    tcase_add_test(tests, when_the_node_goes_away_the_others_are_named);
    tcase_add_test(tests, json_prints_the_events_alone);
    tcase_add_test(tests, an_answer_without_a_status_is_an_error);
    tcase_add_test(tests,
                   a_job_that_no_leader_would_take_is_refused_where_it_is_asked_for);
    return suite;
}
