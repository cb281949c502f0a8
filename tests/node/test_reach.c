#include "node/reach.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_reach(void);

static const struct address own = {.host = "10.0.0.5", .port = 7700};
static const enum mesh_port open_ports[3] = {MESH_PORT_OPEN, MESH_PORT_OPEN,
                                             MESH_PORT_OPEN};
static const enum mesh_port shut_ports[3] = {MESH_PORT_OPEN, MESH_PORT_OPEN,
                                             MESH_PORT_SHUT};
static const enum mesh_port busy_ports[3] = {MESH_PORT_UNTRIED, MESH_PORT_UNTRIED,
                                             MESH_PORT_UNTRIED};
static const struct id peers[] = {{{1}}, {{2}}, {{3}}, {{4}}};

static struct reach *reach;
static int64_t now;

static void
setup(void)
{
    reach = reach_new(&own, false);
    now = 1000;
}

static void
teardown(void)
{
    reach_free(reach);
}

/* Ask as soon as it may be asked; the host asked about. */
static const char *
ask(size_t count, struct id *peer, uint64_t *nonce)
{
    static struct address base;
    for (int64_t until = now + 400000; now < until; now += 50)
        if (reach_ask(reach, now, peers, count, peer, &base, nonce)) {
            ck_assert_uint_eq(base.port, own.port);
            return base.host;
        }
    return "";
}

static bool
round_of(size_t count, const char *seen, const enum mesh_port ports[3],
         const char *expected)
{
    struct id peer;
    uint64_t nonce;
    ck_assert_str_eq(ask(count, &peer, &nonce), expected);
    return reach_answered(reach, now + 10, &peer, nonce, seen, ports);
}

START_TEST(an_address_is_unchecked_until_a_peer_got_through)
{
    struct id peer;
    struct address base;
    uint64_t nonce;
    ck_assert_int_eq(reach_verdict(reach), REACH_UNCHECKED);
    ck_assert(!reach_ask(reach, now, peers, 0, &peer, &base, &nonce));
    ck_assert(round_of(4, "10.0.0.5", open_ports, "10.0.0.5"));
    ck_assert_int_eq(reach_verdict(reach), REACH_ALL);
    ck_assert(!round_of(4, "10.0.0.5", open_ports, "10.0.0.5"));
    ck_assert(round_of(4, "10.0.0.5", shut_ports, "10.0.0.5"));
    ck_assert_int_eq(reach_verdict(reach), REACH_SOME);
    const struct reach_answer *answers;
    ck_assert_int_eq(reach_answers(reach, &answers), 3); /* three peers */
    ck_assert_str_eq(reach_host(reach), "10.0.0.5");
}
END_TEST

START_TEST(the_address_that_peers_see_is_taken_where_the_own_one_is_no_good)
{
    for (int i = 0; i < 2; i++)
        round_of(2, "203.0.113.9", shut_ports, i ? "203.0.113.9" : "10.0.0.5");
    ck_assert_int_eq(reach_verdict(reach), REACH_NONE);
    ck_assert_str_eq(reach_address(reach)->host,
                     "10.0.0.5"); /* checked before it is said */
    ck_assert(round_of(2, "203.0.113.9", open_ports, "203.0.113.9"));
    ck_assert_str_eq(reach_address(reach)->host, "203.0.113.9");
    ck_assert_uint_eq(reach_address(reach)->port, 7700);
    ck_assert_int_ne(reach_verdict(reach), REACH_NONE);
}
END_TEST

START_TEST(an_address_given_by_hand_stays)
{
    reach_free(reach);
    reach = reach_new(&own, true);
    for (int i = 0; i < 5; i++)
        round_of(4, "203.0.113.9", shut_ports, "10.0.0.5");
    ck_assert_int_eq(reach_verdict(reach), REACH_NONE);
    ck_assert_str_eq(reach_address(reach)->host, "10.0.0.5");
    ck_assert_str_eq(reach_host(reach), "203.0.113.9");
}
END_TEST

START_TEST(one_question_at_a_time_and_only_its_answer_counts)
{
    struct id peer, other;
    struct address base;
    uint64_t nonce, later;
    ask(4, &peer, &nonce);
    ck_assert(!reach_ask(reach, now, peers, 4, &other, &base, &later));
    other = peers[id_equal(&peer, &peers[0]) ? 1 : 0];
    ck_assert(!reach_answered(reach, now, &other, nonce, "", open_ports));
    ck_assert(!reach_answered(reach, now, &peer, nonce + 1, "", open_ports));
    ck_assert_int_eq(reach_verdict(reach), REACH_UNCHECKED);
    /* Nobody answers: another one is asked. */
    now += REACH_WAIT_MS;
    ck_assert(reach_ask(reach, now, peers, 4, &other, &base, &later));
    ck_assert(!id_equal(&peer, &other));
    ck_assert(!reach_answered(reach, now, &peer, nonce, "", open_ports));
    /* One that is busy says so; it is no answer. */
    ck_assert(!reach_answered(reach, now, &other, later, "", busy_ports));
    ck_assert_int_eq(reach_verdict(reach), REACH_UNCHECKED);
    ck_assert(!id_empty(&other));
}
END_TEST

START_TEST(a_firm_verdict_is_looked_at_again_now_and_then)
{
    for (int i = 0; i < REACH_ENOUGH; i++)
        round_of(4, "", open_ports, "10.0.0.5");
    int64_t before = now;
    round_of(4, "", shut_ports, "10.0.0.5");
    ck_assert_int_ge(now - before, REACH_AGAIN_MS);
    before = now;
    round_of(4, "", shut_ports, "10.0.0.5");
    ck_assert_int_ge(now - before, REACH_DOUBT_MS);
    ck_assert_int_lt(now - before, REACH_AGAIN_MS);
    reach_again(reach);
    before = now;
    round_of(4, "", shut_ports, "10.0.0.5");
    ck_assert_int_lt(now - before, 100);
}
END_TEST

/* Mark all that can be reached from the first. */
static void
flood(size_t count, bool links[][200], bool *seen)
{
    static size_t queue[200];
    size_t head = 0, tail = 0;
    queue[tail++] = 0;
    seen[0] = true;
    while (head < tail) {
        size_t at = queue[head++];
        for (size_t i = 0; i < count; i++)
            if (!seen[i] && (links[at][i] || links[i][at])) {
                seen[i] = true;
                queue[tail++] = i;
            }
    }
}

START_TEST(neighbours_of_all_make_one_connected_graph)
{
    enum { COUNT = 200 };
    static struct id ids[COUNT];
    static bool links[COUNT][COUNT], seen[COUNT];
    uint32_t state = 12345;
    for (size_t i = 0; i < COUNT; i++)
        for (int b = 0; b < 8; b++) {
            state = state * 1664525 + 1013904223;
            ids[i].bytes[b] = (uint8_t)(state >> 24);
        }
    for (size_t i = 0; i < COUNT; i++) {
        struct id others[COUNT], out[REACH_NEIGHBOURS];
        size_t count = 0;
        for (size_t k = 0; k < COUNT; k++)
            if (k != i)
                others[count++] = ids[k];
        size_t got = reach_neighbours(&ids[i], others, count, out, REACH_NEIGHBOURS);
        ck_assert_uint_eq(got, REACH_NEIGHBOURS);
        for (size_t n = 0; n < got; n++)
            for (size_t k = 0; k < COUNT; k++)
                links[i][k] = links[i][k] || id_equal(&ids[k], &out[n]);
        ck_assert(!links[i][i]);
    }
    flood(COUNT, links, seen);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(seen[i]);
    struct id few[2];
    ck_assert_uint_eq(reach_neighbours(&ids[0], ids + 1, 2, few, REACH_NEIGHBOURS), 2);
}
END_TEST

Suite *
suite_reach(void)
{
    Suite *suite = suite_create("reach");
    TCase *tests = suite_case(suite, "reach", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_address_is_unchecked_until_a_peer_got_through);
    tcase_add_test(tests,
                   the_address_that_peers_see_is_taken_where_the_own_one_is_no_good);
    tcase_add_test(tests, an_address_given_by_hand_stays);
    tcase_add_test(tests, one_question_at_a_time_and_only_its_answer_counts);
    tcase_add_test(tests, a_firm_verdict_is_looked_at_again_now_and_then);
    tcase_add_test(tests, neighbours_of_all_make_one_connected_graph);
    return suite;
}
