#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/clock.h"

#include <string.h>

Suite *suite_measure(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
    return

static struct buf out;
static struct peer one, two;

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

static void
found_two(void)
{
    peer_start(&one, "one", "--zone", "a", NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", NULL);
    peer_start(&two, "two", "--zone", "b", "--join", one.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    peer_event(&two, 20000, NULL, "\"event\":\"epoch\"", "\"name\":\"one\"",
               "\"name\":\"two\"", NULL);
}

/* What this node's status says of a link. */
static bool
measured(const struct peer *at, const char *from, const char *to)
{
    struct json *status = peer_status(at);
    const struct json *links = json_get(status, "links");
    bool found = false;
    for (size_t i = 0; i < json_count(links); i++) {
        const struct json *link = json_at(links, i);
        const char *method = json_text(json_get(link, "method"), "");
        if (strcmp(json_text(json_get(link, "from"), ""), from) == 0 &&
            strcmp(json_text(json_get(link, "to"), ""), to) == 0)
            found = (strcmp(method, "probe") == 0 || strcmp(method, "passive") == 0) &&
                    json_double(json_get(link, "mbit_per_s"), 0) > 0 &&
                    json_int(json_get(link, "confidence"), 0) > 0;
    }
    json_free(status);
    return found;
}

static void
wait_measured(const struct peer *at, const char *from, const char *to)
{
    int64_t end_ms = clock_ms() + 30000;
    while (!measured(at, from, to)) {
        ck_assert_msg(clock_ms() < end_ms, "%s does not know the link from %s to %s",
                      at->name, from, to);
        clock_sleep_ms(100);
    }
}

START_TEST(idle_nodes_measure_their_links_and_tell_what_it_cost)
{
    BEGIN();
    found_two();
    wait_measured(&one, "two", "one");
    wait_measured(&one, "one", "two");
    wait_measured(&two, "two", "one");
    wait_measured(&two, "one", "two");
    struct json *status = peer_status(&one);
    const struct json *probes = json_get(status, "probes");
    ck_assert_int_ge(json_int(json_get(probes, "count"), 0), 1);
    ck_assert_int_gt(json_int(json_get(probes, "sent_bytes"), 0), 0);
    ck_assert_int_le(json_int(json_get(probes, "sent_bytes"), 0),
                     json_int(json_get(probes, "hour_bytes"), 0));
    json_free(status);
    ck_assert_int_eq(swarm_run(&out, 10000, "status", "--data", one.data, NULL), 0);
    ck_assert_ptr_nonnull(strstr((char *)out.data, "by this node sent "));
    ck_assert_ptr_nonnull(strstr((char *)out.data, "  probe  "));
}
END_TEST

START_TEST(a_job_that_is_submitted_at_once_finds_its_links_measured)
{
    BEGIN();
    found_two();
    const char *job = swarm_job("both", 1000000,
                                "plan: {pipeline: 2, replicas: 1, micro_batch: 4}\n"
                                "checkpoint: {every_steps: 0}\n");
    int code = swarm_run(&out, 60000, "train", "--detach", job, "--data", two.data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    peer_event(&one, 30000, NULL, "\"event\":\"step\"", "\"step\":1,", NULL);
    wait_measured(&one, "two", "one");
    wait_measured(&one, "one", "two");
    peer_advances(&one, 5, 30000); /* and it trains while they are measured */
}
END_TEST

Suite *
suite_measure(void)
{
    Suite *suite = suite_create("measure");
    TCase *tests = suite_case(suite, "measure", 180);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, idle_nodes_measure_their_links_and_tell_what_it_cost);
    tcase_add_test(tests, a_job_that_is_submitted_at_once_finds_its_links_measured);
    return suite;
}
