/*
 * test_mesh_ways.c - the three ways to a peer, connections that are not kept, what becomes
 * of a peer that says too much, and the check of an address.
 */
#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/mesh.h"
#include "transport/score.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_mesh_ways(void);

enum { NODES = 3 };

/* All nodes of a test share a process, and so one ZAP handler. */
struct node {
    struct key *key;
    struct address base, nowhere; /* nobody listens there */
    struct mesh *mesh;
    int frames, up, down, refused;
    struct id from;
    char body[64];
};

static struct loop *loop;
static struct admit *admit;
static struct node nodes[NODES];

static void
heard(void *arg, const struct frame *frame)
{
    struct node *node = arg;
    node->frames++;
    node->from = frame->from;
    snprintf(node->body, sizeof(node->body), "%.*s", (int)frame->body_len,
             (const char *)frame->body);
}

static void
seen(void *arg, const struct id *peer, enum mesh_event event)
{
    (void)peer;
    struct node *node = arg;
    node->up += event == MESH_UP;
    node->down += event == MESH_DOWN;
    node->refused += event == MESH_REFUSED;
}

static void
node_open(int number, int64_t idle_ms)
{
    struct node *node = &nodes[number];
    struct err err = {0};
    *node = (struct node){.key = harness_key((unsigned)number + 1),
                          .base = harness_address()};
    node->nowhere = harness_address();
    struct mesh_options options = {.key = node->key,
                                   .swarm = {{1}},
                                   .listen = node->base,
                                   .boot = 1,
                                   .idle_ms = idle_ms,
                                   .frame = heard,
                                   .peer = seen,
                                   .arg = node};
    node->mesh = mesh_open(loop, admit, &options, &err);
    ck_assert_msg(node->mesh != NULL, "%s", err.msg);
    admit_allow(admit, key_id(node->key));
}

static void
open_idle(int64_t idle_ms)
{
    struct err err;
    loop = harness_open();
    admit = admit_open(loop, &err);
    for (int i = 0; i < NODES; i++)
        node_open(i, idle_ms);
}

static void
setup(void)
{
    open_idle(0);
}

static void
teardown(void)
{
    for (int i = 0; i < NODES; i++) {
        mesh_close(nodes[i].mesh);
        key_free(nodes[i].key);
    }
    admit_close(admit);
    harness_close(loop);
}

static const struct id *
id_of(int number)
{
    return key_id(nodes[number].key);
}

/* `from` knows `to`, at its address or at one that leads nowhere. */
static void
introduce(int from, int to, bool reachable)
{
    mesh_peer(nodes[from].mesh, id_of(to),
              reachable ? &nodes[to].base : &nodes[to].nowhere);
}

struct wanted {
    int node, peer;
    enum mesh_way way;
    int frames;
};

static bool
has_way(const void *arg)
{
    const struct wanted *wanted = arg;
    return mesh_way(nodes[wanted->node].mesh, id_of(wanted->peer), NULL) == wanted->way;
}

static bool
wait_way(int node, int peer, enum mesh_way way)
{
    struct wanted wanted = {.node = node, .peer = peer, .way = way};
    return harness_until(loop, has_way, &wanted, 8000);
}

static bool
has_frames(const void *arg)
{
    const struct wanted *wanted = arg;
    return nodes[wanted->node].frames >= wanted->frames;
}

static bool
wait_frames(int node, int frames)
{
    struct wanted wanted = {.node = node, .frames = frames};
    return harness_until(loop, has_frames, &wanted, 5000);
}

static void
say(int from, int to, const char *what)
{
    struct err err = {0};
    ck_assert_msg(
        mesh_send(nodes[from].mesh, id_of(to), FRAME_PING, what, strlen(what), &err) == 0,
        "%s", err.msg);
}

START_TEST(a_node_that_cannot_be_dialled_is_answered_on_its_own_connection)
{
    introduce(0, 1, true);
    introduce(1, 0, false);
    ck_assert(wait_way(0, 1, MESH_OUT));
    say(0, 1, "here I am");
    ck_assert(wait_way(1, 0, MESH_BACK));
    ck_assert_str_eq(nodes[1].body, "here I am");
    ck_assert(mesh_connected(nodes[1].mesh, id_of(0)));
    ck_assert_int_eq(nodes[1].up, 1);
    int refused = nodes[1].refused;
    for (int i = 1; i <= 20; i++)
        say(1, 0, "there you are");
    ck_assert(wait_frames(0, 20));
    ck_assert_str_eq(nodes[0].body, "there you are");
    ck_assert(id_equal(&nodes[0].from, id_of(1)));
    ck_assert_str_eq(mesh_host(nodes[1].mesh, id_of(0)), "127.0.0.1");
    /* Dials go on to fail, and mean nothing any more. */
    harness_run(loop, 700);
    ck_assert_int_eq(nodes[1].refused, refused);
    /* Its connection is all that there is: when it closes, it is gone. */
    mesh_forget(nodes[0].mesh, id_of(1));
    ck_assert(wait_way(1, 0, MESH_NO_WAY));
    ck_assert_int_eq(nodes[1].down, 1);
}
END_TEST

static void
around(void)
{
    for (int i = 0; i < 2; i++) {
        introduce(i, 2, true);
        introduce(2, i, true);
    }
    introduce(0, 1, false);
    introduce(1, 0, false);
    ck_assert(wait_way(0, 2, MESH_OUT) && wait_way(1, 2, MESH_OUT));
    ck_assert(wait_way(2, 0, MESH_OUT) && wait_way(2, 1, MESH_OUT));
}

START_TEST(where_neither_side_can_dial_a_third_node_carries)
{
    around();
    ck_assert(wait_way(0, 1, MESH_ROUND) && wait_way(1, 0, MESH_ROUND));
    struct id via;
    ck_assert_int_eq(mesh_way(nodes[0].mesh, id_of(1), &via), MESH_ROUND);
    ck_assert(id_equal(&via, id_of(2)));
    say(0, 1, "by a friend");
    ck_assert(wait_frames(1, 1));
    ck_assert_str_eq(nodes[1].body, "by a friend");
    ck_assert(id_equal(&nodes[1].from, id_of(0))); /* not the carrier */
    say(1, 0, "thank him");
    ck_assert(wait_frames(0, 1));
    ck_assert_int_eq(nodes[2].frames, 0); /* the carrier hears nothing of it */
    struct mesh_totals totals;
    mesh_total(nodes[2].mesh, &totals);
    ck_assert_uint_ge(totals.carried, 4); /* hellos, too */
    /* A large one: a proposal of three megabytes. */
    size_t len = 2 << 20;
    uint8_t *body = xcalloc(len, 1);
    struct err err = {0};
    ck_assert_int_eq(mesh_send(nodes[0].mesh, id_of(1), FRAME_PROPOSE, body, len, &err),
                     0);
    ck_assert(wait_frames(1, 2));
    free(body);
}
END_TEST

START_TEST(a_way_round_ends_with_its_carrier_and_yields_to_a_connection)
{
    around();
    ck_assert(wait_way(0, 1, MESH_ROUND) && wait_way(1, 0, MESH_ROUND));
    /* An address that works. */
    introduce(0, 1, true);
    ck_assert(wait_way(0, 1, MESH_OUT));
    say(0, 1, "directly");
    ck_assert(wait_way(1, 0, MESH_BACK));
    mesh_peer(nodes[0].mesh, id_of(1), &nodes[1].nowhere);
    ck_assert(wait_way(0, 1, MESH_ROUND) && wait_way(1, 0, MESH_ROUND));
    mesh_close(nodes[2].mesh);
    nodes[2].mesh = NULL;
    ck_assert(wait_way(0, 1, MESH_NO_WAY) && wait_way(1, 0, MESH_NO_WAY));
    ck_assert_int_ge(nodes[0].refused, 1); /* now it means something */
}
END_TEST

START_TEST(a_peer_that_is_not_kept_is_dialled_for_a_frame_and_hung_up_on)
{
    teardown();
    open_idle(600);
    struct id nobody = {{9}};
    mesh_keep(nodes[0].mesh, &nobody, 1);
    introduce(0, 1, true);
    introduce(0, 2, true);
    mesh_keep(nodes[0].mesh, id_of(2), 1);
    ck_assert(wait_way(0, 2, MESH_OUT));
    harness_run(loop, 200);
    ck_assert_int_eq(mesh_way(nodes[0].mesh, id_of(1), NULL), MESH_NO_WAY);
    say(0, 1, "first"); /* waits for the dial */
    say(0, 1, "second");
    ck_assert(wait_frames(1, 2));
    ck_assert_str_eq(nodes[1].body, "second");
    struct mesh_totals totals;
    mesh_total(nodes[0].mesh, &totals);
    ck_assert_int_eq(totals.out, 2);
    ck_assert_int_eq(totals.kept, 1);
    int down = nodes[0].down;
    ck_assert(wait_way(0, 1, MESH_NO_WAY)); /* idle */
    ck_assert_int_eq(nodes[0].down, down);  /* our own doing */
    ck_assert_int_eq(mesh_way(nodes[0].mesh, id_of(2), NULL), MESH_OUT);
    say(0, 1, "again");
    ck_assert(wait_frames(1, 3));
    mesh_keep(nodes[0].mesh, NULL, 0);
    harness_run(loop, 1200);
    ck_assert_int_eq(mesh_way(nodes[0].mesh, id_of(1), NULL), MESH_OUT);
}
END_TEST

START_TEST(a_peer_that_says_too_much_is_named_and_hung_up_on_for_a_while)
{
    introduce(0, 1, true);
    introduce(1, 0, true);
    introduce(1, 2, true);
    introduce(2, 1, true);
    ck_assert(wait_way(0, 1, MESH_OUT) && wait_way(2, 1, MESH_OUT));
    struct err err;
    harness_listen();
    for (int i = 0; i < 4000 && mesh_connected(nodes[0].mesh, id_of(1)); i++) {
        mesh_send(nodes[0].mesh, id_of(1), FRAME_PING, "flood", 5, &err);
        if (i % 100 == 99)
            harness_run(loop, 1);
    }
    harness_run(loop, 300);
    char said[8192], name[ID_SHORT_SIZE];
    harness_said(said, sizeof(said));
    ck_assert_int_le(nodes[1].frames, score_words.frames_burst + 400);
    ck_assert_ptr_nonnull(strstr(said, "hung up on for 60 s"));
    ck_assert_ptr_nonnull(strstr(said, id_short(id_of(0), name)));
    struct mesh_peer_stats stats;
    ck_assert(mesh_stats(nodes[1].mesh, id_of(0), &stats));
    ck_assert(stats.pruned);
    ck_assert_int_eq(mesh_way(nodes[1].mesh, id_of(0), NULL), MESH_NO_WAY);
    /* Others are heard all the while. */
    int before = nodes[1].frames;
    say(2, 1, "and I?");
    ck_assert(wait_frames(1, before + 1));
    ck_assert_str_eq(nodes[1].body, "and I?");
}
END_TEST

/* ---- checks ---- */

struct checked {
    bool done;
    enum mesh_port ports[3];
};

static void
on_checked(void *arg, const struct id *peer, const struct address *base,
           const enum mesh_port ports[3])
{
    (void)peer;
    (void)base;
    struct checked *checked = arg;
    checked->done = true;
    memcpy(checked->ports, ports, sizeof(checked->ports));
}

static bool
is_checked(const void *arg)
{
    return ((const struct checked *)arg)->done;
}

START_TEST(an_address_is_checked_port_by_port_and_by_its_key)
{
    struct checked checked = {0};
    struct err err;
    struct secret *secret = secret_make();
    ck_assert_int_eq(mesh_check(nodes[0].mesh, id_of(1), &nodes[1].base, NULL, on_checked,
                                &checked, &err),
                     0);
    ck_assert_int_eq(mesh_check(nodes[0].mesh, id_of(2), &nodes[2].base, NULL, on_checked,
                                &checked, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_LIMIT);
    ck_assert(harness_until(loop, is_checked, &checked, 8000));
    ck_assert_int_eq(checked.ports[ADDRESS_JOIN], MESH_PORT_UNTRIED);
    ck_assert_int_eq(checked.ports[ADDRESS_CONTROL], MESH_PORT_OPEN);
    ck_assert_int_eq(checked.ports[ADDRESS_BULK], MESH_PORT_SHUT); /* a mesh alone */
    /* Another node's address, and nobody's. */
    checked.done = false;
    ck_assert_int_eq(mesh_check(nodes[0].mesh, id_of(1), &nodes[2].base, secret,
                                on_checked, &checked, &err),
                     0);
    ck_assert(harness_until(loop, is_checked, &checked, 8000));
    ck_assert_int_eq(checked.ports[ADDRESS_CONTROL], MESH_PORT_OTHER);
    checked.done = false;
    ck_assert_int_eq(mesh_check(nodes[0].mesh, id_of(1), &nodes[1].nowhere, secret,
                                on_checked, &checked, &err),
                     0);
    ck_assert(harness_until(loop, is_checked, &checked, 8000));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(checked.ports[i], MESH_PORT_SHUT);
    secret_free(secret);
}
END_TEST

Suite *
suite_mesh_ways(void)
{
    Suite *suite = suite_create("mesh_ways");
    TCase *tests = suite_case(suite, "ways", 40);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests,
                   a_node_that_cannot_be_dialled_is_answered_on_its_own_connection);
    tcase_add_test(tests, where_neither_side_can_dial_a_third_node_carries);
    tcase_add_test(tests, a_way_round_ends_with_its_carrier_and_yields_to_a_connection);
    tcase_add_test(tests, a_peer_that_is_not_kept_is_dialled_for_a_frame_and_hung_up_on);
    tcase_add_test(tests, a_peer_that_says_too_much_is_named_and_hung_up_on_for_a_while);
    tcase_add_test(tests, an_address_is_checked_port_by_port_and_by_its_key);
    return suite;
}
