/*
 * test_ways.c - nodes that cannot be dialled, as processes: they join, are told so, and
 * train as if they could.
 */
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <string.h>

Suite *suite_ways(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
    return

static struct buf out;
static struct peer one, two, three;
static int nowhere; /* the base port that the last hidden one advertises */

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
}

/* A member joins; hidden: it advertises ports at which nobody listens, so that nobody can
 * dial it. */
static void
join(struct peer *peer, const char *name, const char *zone, bool hidden)
{
    char advertised[32];
    nowhere = swarm_ports();
    snprintf(advertised, sizeof(advertised), "127.0.0.1:%d", nowhere);
    peer_start(peer, name, "--zone", zone, "--join", one.address, "--secret-file",
               swarm_path("one/swarm.secret"), hidden ? "--advertise" : NULL, advertised,
               NULL);
    char named[64];
    snprintf(named, sizeof(named), "\"name\":\"%s\"", name);
    peer_logs(peer, 10000, "joined swarm");
    peer_event(&one, 30000, NULL, "\"event\":\"epoch\"", named, NULL);
}

static void
found(const char *name)
{
    peer_start(&one, name, "--zone", "a", NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", NULL);
}

static void
train(const char *job, int steps)
{
    int code = swarm_run(&out, 40000, "train", "--detach", job, "--data", one.data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    char step[32];
    snprintf(step, sizeof(step), "\"step\":%d,", steps);
    peer_event(&one, 60000, NULL, "\"event\":\"step\"", step, NULL);
}

/* What `at` says of how it speaks to `name`. */
static void
expect_ways(const struct peer *at, const char *name, const char *reach, const char *way,
            const char *data_way)
{
    char seen[128] = "";
    for (int64_t until = clock_ms() + 20000; clock_ms() < until; clock_sleep_ms(200)) {
        struct json *status = peer_status(at);
        const struct json *members = json_get(status, "members");
        bool right = false;
        for (size_t i = 0; i < json_count(members); i++) {
            const struct json *member = json_at(members, i);
            if (strcmp(json_text(json_get(member, "name"), ""), name) != 0)
                continue;
            const char *is[] = {json_text(json_get(member, "reach"), "-"),
                                json_text(json_get(member, "way"), "-"),
                                json_text(json_get(member, "data_way"), "-")};
            snprintf(seen, sizeof(seen), "%s, %s, %s", is[0], is[1], is[2]);
            right = strcmp(is[0], reach) == 0 && strcmp(is[1], way) == 0 &&
                    strcmp(is[2], data_way) == 0;
        }
        json_free(status);
        if (right)
            return;
    }
    ck_abort_msg("%s says of %s: %s", at->name, name, seen);
}

START_TEST(a_node_that_nobody_can_dial_trains_with_the_same_losses)
{
    BEGIN();
    enum { COMPARED = 12 };
    char wanted[COMPARED + 1][64], got[64];
    const char *job = swarm_job("pair", 1000000,
                                "plan: {pipeline: 2, replicas: 1, micro_batch: 4}\n"
                                "checkpoint: {every_steps: 0}\nseed: 3\n");
    found("one");
    join(&two, "two", "b", false);
    expect_ways(&one, "two", "reachable", "out", "out");
    train(job, COMPARED);
    for (int step = 1; step <= COMPARED; step++)
        ck_assert(peer_loss(&one, step, wanted[step]));
    swarm_end();

    BEGIN();
    job = swarm_job("pair", 1000000,
                    "plan: {pipeline: 2, replicas: 1, micro_batch: 4}\n"
                    "checkpoint: {every_steps: 0}\nseed: 3\n");
    found("one");
    join(&two, "two", "b", true);
    peer_logs(&two, 20000, "cannot reach this node at 127.0.0.1, port");
    expect_ways(&one, "two", "unreachable", "back", "back");
    train(job, COMPARED);
    /* It is told what to open; who is reachable is told so, too. */
    char control[64];
    snprintf(control, sizeof(control), "%d (control, shut)", nowhere + 1);
    ck_assert_int_eq(swarm_run(&out, 20000, "doctor", "--data", two.data, NULL), 1);
    ck_assert_msg(strstr((char *)out.data, control), "%s", (char *)out.data);
    ck_assert_int_eq(swarm_run(&out, 20000, "doctor", "--data", one.data, NULL), 0);
    ck_assert_msg(strstr((char *)out.data, "two reaches all ports"), "%s",
                  (char *)out.data);
    for (int step = 1; step <= COMPARED; step++) {
        ck_assert(peer_loss(&one, step, got));
        ck_assert_str_eq(got, wanted[step]);
    }
    /* And the other way round: what the hidden one is given to do comes to it. */
    int code = swarm_run(&out, 30000, "stop", "--data", two.data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    ck_assert_int_eq(peer_leave(&two, 15000), 0);
}
END_TEST

START_TEST(two_nodes_that_nobody_can_dial_train_by_a_third)
{
    BEGIN();
    const char *job = swarm_job("three", 1000000,
                                "plan: {pipeline: 3, replicas: 1, micro_batch: 4, "
                                "zones: [a, b, c]}\n"
                                "checkpoint: {every_steps: 0}\n");
    found("one");
    join(&two, "two", "b", true);
    join(&three, "three", "c", true);
    expect_ways(&one, "two", "unreachable", "back", "back");
    expect_ways(&two, "three", "unreachable", "round", "round");
    train(job, 12);
    peer_advances(&two, 5, 30000);
    struct json *status = peer_status(&one);
    const struct json *carried = json_get(status, "carried");
    ck_assert_int_gt(json_int(json_get(carried, "chunks"), 0), 12);
    ck_assert_int_gt(json_int(json_get(carried, "frames"), 0), 1);
    json_free(status);
    expect_ways(&three, "two", "unreachable", "round", "round");
    ck_assert_int_eq(swarm_run(&out, 10000, "status", "--data", three.data, NULL), 0);
    ck_assert_msg(strstr((char *)out.data,
                         "two and this node cannot connect; one carries between them"),
                  "%s", (char *)out.data);
    ck_assert(strstr((char *)out.data, "this node is unreachable; flotilla doctor"));
    ck_assert_int_eq(swarm_run(&out, 10000, "status", "--data", one.data, NULL), 0);
    ck_assert(strstr((char *)out.data, "two cannot be dialled from here"));
    ck_assert(strstr((char *)out.data, "for others"));
}
END_TEST

Suite *
suite_ways(void)
{
    Suite *suite = suite_create("ways");
    TCase *tests = suite_case(suite, "ways", 180);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_node_that_nobody_can_dial_trains_with_the_same_losses);
    tcase_add_test(tests, two_nodes_that_nobody_can_dial_train_by_a_third);
    return suite;
}
