#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/base/rng.h"
#include "transport/codec.h"
#include "transport/join.h"
#include "transport/mesh.h"
#include "transport/socket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_mesh(void);

enum { EVENTS_MAX = 64 };

/* One node of a test: what it heard and what happened to its connections. All nodes of a
 * test share a process, and so one ZAP handler. */
struct node {
    struct loop *loop;
    struct key *key;
    struct id swarm;
    struct address base;
    const struct address_routes *routes;
    struct mesh *mesh;
    int frames;
    struct frame last;
    char body[64];
    int count;
    enum mesh_event events[EVENTS_MAX];
    int64_t at_ms[EVENTS_MAX];
    bool echo;   /* answer a ping */
    bool forget; /* forget a peer as soon as it is heard or seen */
};

static const struct id swarm_a = {{1}};
static const struct id swarm_b = {{2}};

static void
heard(void *arg, const struct frame *frame)
{
    struct node *node = arg;
    struct err err;
    struct id from = frame->from;
    node->frames++;
    node->last = *frame;
    size_t len = frame->body_len < sizeof(node->body) - 1 ? frame->body_len
                                                          : sizeof(node->body) - 1;
    memcpy(node->body, frame->body, len);
    node->body[len] = '\0';
    if (node->echo && frame->kind == FRAME_PING)
        mesh_send(node->mesh, &from, FRAME_PING_REPLY, frame->body, frame->body_len,
                  &err);
    if (node->forget)
        mesh_forget(node->mesh, &from);
}

static void
seen(void *arg, const struct id *peer, enum mesh_event event)
{
    struct node *node = arg;
    if (node->count < EVENTS_MAX) {
        node->at_ms[node->count] = clock_ms();
        node->events[node->count++] = event;
    }
    if (node->forget) {
        struct id id = *peer;
        mesh_forget(node->mesh, &id);
    }
}

static void
node_listen(struct node *node, struct admit *admit)
{
    struct err err;
    struct mesh_options options = {
        .key = node->key,
        .swarm = node->swarm,
        .listen = node->base,
        .routes = node->routes,
        .frame = heard,
        .peer = seen,
        .arg = node,
    };
    /* libzmq gives a port back in the background: a test that listens again may have to
     * wait. */
    for (int64_t start = clock_ms(); !node->mesh && clock_ms() - start < 500;) {
        node->mesh = mesh_open(node->loop, admit, &options, &err);
        if (!node->mesh)
            clock_sleep_ms(1);
    }
    ck_assert_msg(node->mesh != NULL, "%s", err.msg);
}

static void
node_silence(struct node *node)
{
    mesh_close(node->mesh);
    node->mesh = NULL;
}

static void
node_open(struct node *node, struct loop *loop, struct admit *admit, unsigned number)
{
    memset(node, 0, sizeof(*node));
    node->loop = loop;
    node->key = harness_key(number);
    node->swarm = swarm_a;
    node->base = harness_address();
    node_listen(node, admit);
    admit_allow(admit, key_id(node->key));
}

static void
node_close(struct node *node)
{
    mesh_close(node->mesh);
    key_free(node->key);
}

/* Waits until the newest event is this one. */
struct expected {
    const struct node *node;
    enum mesh_event event;
    int from; /* events before this one do not count */
};

static bool
happened(const void *arg)
{
    const struct expected *expected = arg;
    for (int i = expected->from; i < expected->node->count; i++)
        if (expected->node->events[i] == expected->event)
            return true;
    return false;
}

static bool
wait_for(const struct node *node, int from, enum mesh_event event, int64_t ms)
{
    struct expected expected = {node, event, from};
    return harness_until(node->loop, happened, &expected, ms);
}

struct frames {
    const struct node *node;
    int least;
};

static bool
came(const void *arg)
{
    const struct frames *frames = arg;
    return frames->node->frames >= frames->least;
}

static bool
wait_frames(const struct node *node, int least, int64_t ms)
{
    struct frames frames = {node, least};
    return harness_until(node->loop, came, &frames, ms);
}

static void
connect_both(struct node *a, struct node *b)
{
    mesh_peer(a->mesh, key_id(b->key), &b->base);
    mesh_peer(b->mesh, key_id(a->key), &a->base);
    ck_assert(wait_for(a, 0, MESH_UP, 3000));
    ck_assert(wait_for(b, 0, MESH_UP, 3000));
}

/* Two nodes, open. */
struct pair {
    struct loop *loop;
    struct admit *admit;
    struct node a, b;
};

static void
pair_open(struct pair *pair)
{
    struct err err;
    pair->loop = harness_open();
    pair->admit = admit_open(pair->loop, &err);
    node_open(&pair->a, pair->loop, pair->admit, 1);
    node_open(&pair->b, pair->loop, pair->admit, 2);
}

static void
pair_close(struct pair *pair)
{
    node_close(&pair->a);
    node_close(&pair->b);
    admit_close(pair->admit);
    harness_close(pair->loop);
}

START_TEST(two_nodes_exchange_frames_both_ways)
{
    struct pair pair;
    struct err err = {0};
    pair_open(&pair);
    ck_assert_int_eq(mesh_send(pair.a.mesh, key_id(pair.b.key), FRAME_PING, "x", 1, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_PEER);
    connect_both(&pair.a, &pair.b);
    ck_assert(mesh_connected(pair.a.mesh, key_id(pair.b.key)));
    ck_assert_int_eq(
        mesh_send(pair.a.mesh, key_id(pair.b.key), FRAME_PING, "hello", 5, &err), 0);
    ck_assert(wait_frames(&pair.b, 1, 1000));
    ck_assert_str_eq(pair.b.body, "hello");
    ck_assert_int_eq(pair.b.last.kind, FRAME_PING);
    ck_assert(id_equal(&pair.b.last.from, key_id(pair.a.key)));
    ck_assert(id_equal(&pair.b.last.to, key_id(pair.b.key)));
    ck_assert(id_equal(&pair.b.last.swarm, &swarm_a));
    ck_assert_int_eq(
        mesh_send(pair.b.mesh, key_id(pair.a.key), FRAME_BEAT, NULL, 0, &err), 0);
    ck_assert(wait_frames(&pair.a, 1, 1000));

    struct mesh_peer_stats stats;
    ck_assert(mesh_stats(pair.a.mesh, key_id(pair.b.key), &stats));
    ck_assert_uint_eq(stats.sent_frames, 1);
    ck_assert_uint_eq(stats.received_frames, 1);
    ck_assert_uint_eq(stats.bad_frames, 0);
    ck_assert_uint_gt(stats.sent_bytes, stats.received_bytes);
    ck_assert_int_gt(stats.last_heard_ms, clock_ms() - 2000);
    ck_assert(!mesh_stats(pair.a.mesh, key_id(pair.a.key), &stats));
    pair_close(&pair);
}
END_TEST

START_TEST(a_large_frame_arrives_whole)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    size_t len = frame_kind_bytes_max(FRAME_COMMIT);
    uint8_t *body = xcalloc(len, 1);
    memcpy(body, "large", sizeof("large"));
    ck_assert_int_eq(
        mesh_send(pair.a.mesh, key_id(pair.b.key), FRAME_COMMIT, body, len, &err), 0);
    free(body);
    ck_assert(wait_frames(&pair.b, 1, 5000));
    ck_assert_uint_eq(pair.b.last.body_len, len);
    ck_assert_str_eq(pair.b.body, "large");
    pair_close(&pair);
}
END_TEST

START_TEST(a_peer_that_restarts_on_its_port_is_reached_again_within_a_second)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    harness_run(pair.loop, 1100);
    for (int round = 0; round < 2; round++) {
        int from = pair.a.count;
        node_silence(&pair.b);
        ck_assert(wait_for(&pair.a, from, MESH_REFUSED, 500));
        ck_assert(!mesh_connected(pair.a.mesh, key_id(pair.b.key)));
        int64_t start = clock_ms();
        from = pair.a.count;
        node_listen(&pair.b, pair.admit);
        ck_assert(wait_for(&pair.a, from, MESH_UP, 1000));
        ck_assert_int_le(clock_ms() - start, 1000);
        pair.b.frames = 0;
        ck_assert_int_eq(
            mesh_send(pair.a.mesh, key_id(pair.b.key), FRAME_PING, "again", 5, &err), 0);
        ck_assert(wait_frames(&pair.b, 1, 1000));
    }
    pair_close(&pair);
}
END_TEST

START_TEST(a_peer_that_vanishes_is_down_and_refused_within_200_ms)
{
    struct pair pair;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    harness_run(pair.loop,
                1100); /* a connection that held a while is redialled at once */
    int from = pair.a.count;
    int64_t gone = clock_ms();
    node_silence(&pair.b);
    ck_assert(wait_for(&pair.a, from, MESH_REFUSED, 2000));
    ck_assert_int_eq(pair.a.events[from], MESH_DOWN);
    ck_assert_int_eq(pair.a.events[from + 1], MESH_REFUSED);
    ck_assert_int_le(pair.a.at_ms[from + 1] - gone, 200);
    ck_assert_int_le(pair.a.at_ms[from + 1] - pair.a.at_ms[from], 100);
    /* Every failed dial is reported, later and later. */
    harness_run(pair.loop, 1000);
    int64_t first = pair.a.at_ms[from + 2] - pair.a.at_ms[from + 1];
    int64_t second = pair.a.at_ms[from + 3] - pair.a.at_ms[from + 2];
    ck_assert_int_ge(pair.a.count, from + 4);
    ck_assert_int_le(pair.a.count, from + 6);
    ck_assert_int_ge(first, 95);
    ck_assert_int_ge(second, 190);
    from = pair.a.count;
    mesh_redial(pair.a.mesh, key_id(pair.b.key));
    ck_assert(wait_for(&pair.a, from, MESH_REFUSED, 300));
    pair_close(&pair);
}
END_TEST

START_TEST(a_peer_that_comes_back_and_speaks_is_dialled_at_once)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    node_silence(&pair.b);
    harness_run(pair.loop, 1700); /* now the back-off is 1.6 s */
    int from = pair.a.count;
    node_listen(&pair.b, pair.admit);
    pair.b.count = 0;
    mesh_peer(pair.b.mesh, key_id(pair.a.key), &pair.a.base);
    ck_assert(wait_for(&pair.b, 0, MESH_UP, 1000));
    mesh_send(pair.b.mesh, key_id(pair.a.key), FRAME_PING, "back", 4, &err);
    ck_assert(wait_for(&pair.a, from, MESH_UP, 500));
    pair_close(&pair);
}
END_TEST

START_TEST(a_listener_that_says_nothing_is_refused_after_five_seconds)
{
    struct pair pair;
    pair_open(&pair);
    struct address base = harness_address();
    int fd = harness_hung(&base, ADDRESS_CONTROL);
    int64_t start = clock_ms();
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &base);
    ck_assert(wait_for(&pair.a, 0, MESH_REFUSED, 7000));
    ck_assert_int_ge(clock_ms() - start, 4500);
    close(fd);
    pair_close(&pair);
}
END_TEST

START_TEST(a_key_that_is_not_admitted_is_denied_and_said)
{
    struct pair pair;
    pair_open(&pair);
    admit_deny(pair.admit, key_id(pair.a.key));
    harness_listen();
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &pair.b.base);
    bool denied = wait_for(&pair.a, 0, MESH_DENIED, 3000);
    char said[4096];
    harness_said(said, sizeof(said));
    ck_assert(denied);
    ck_assert_ptr_nonnull(strstr(said, "peer does not admit us"));
    ck_assert_ptr_nonnull(strstr(said, "its key is not a member's"));
    admit_allow(pair.admit, key_id(pair.a.key)); /* and gets in as soon as it is known */
    ck_assert(wait_for(&pair.a, 0, MESH_UP, 1000));
    pair_close(&pair);
}
END_TEST

START_TEST(a_node_with_another_key_at_the_address_is_refused_and_said)
{
    struct pair pair;
    pair_open(&pair);
    struct key *other = harness_key(3);
    harness_listen();
    mesh_peer(pair.a.mesh, key_id(other), &pair.b.base);
    bool refused = wait_for(&pair.a, 0, MESH_REFUSED, 3000);
    harness_run(pair.loop, 50);
    char said[4096];
    harness_said(said, sizeof(said));
    ck_assert(refused);
    ck_assert_ptr_nonnull(strstr(said, "it was meant for a node with another key"));
    key_free(other);
    pair_close(&pair);
}
END_TEST

START_TEST(frames_of_another_swarm_are_dropped_counted_and_said)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    node_silence(&pair.b);
    pair.b.swarm = swarm_b;
    node_listen(&pair.b, pair.admit);
    connect_both(&pair.a, &pair.b);
    harness_listen();
    mesh_send(pair.b.mesh, key_id(pair.a.key), FRAME_PING, "b", 1, &err);
    mesh_send(pair.a.mesh, key_id(pair.b.key), FRAME_PING, "a", 1, &err);
    harness_run(pair.loop, 300);
    char said[4096];
    harness_said(said, sizeof(said));
    ck_assert_int_eq(pair.a.frames, 0);
    ck_assert_int_eq(pair.b.frames, 0);
    struct mesh_peer_stats stats;
    ck_assert(mesh_stats(pair.a.mesh, key_id(pair.b.key), &stats));
    ck_assert_uint_eq(stats.bad_frames, 1);
    ck_assert_ptr_nonnull(strstr(said, "it belongs to another swarm"));
    pair_close(&pair);
}
END_TEST

static void
note_up(void *arg, enum dial_event event)
{
    bool *up = arg;
    *up = event == DIAL_UP;
}

static bool
is_up(const void *arg)
{
    return *(const bool *)arg;
}

/* A frame by hand, on a connection of node 2's. */
static void
send_by_hand(struct dial *dial, const struct key *signer, const struct id *to,
             uint64_t sequence)
{
    struct buf bytes = {0};
    frame_pack(signer, &swarm_a, FRAME_PING, to, sequence, "by hand", 7, &bytes);
    ck_assert(dial_send(dial, bytes.data, bytes.len));
    buf_release(&bytes);
}

/* Node `maker`'s frame, as if node 2 carried it. */
static void
carry_by_hand(struct dial *dial, const struct key *carrier, const struct key *maker,
              bool proven, const struct id *to, uint64_t sequence)
{
    struct buf inner = {0}, body = {0}, bytes = {0};
    if (proven)
        frame_pack(maker, &swarm_a, FRAME_PING, to, 1, "by hand", 7, &inner);
    else
        frame_pack_plain(key_id(maker), &swarm_a, FRAME_PING, to, 1, "by hand", 7,
                         &inner);
    writer_array(&body, 1);
    writer_bytes(&body, inner.data, inner.len);
    frame_pack_plain(key_id(carrier), &swarm_a, FRAME_CARRIED, to, sequence, body.data,
                     body.len, &bytes);
    ck_assert(dial_send(dial, bytes.data, bytes.len));
    buf_release(&inner);
    buf_release(&body);
    buf_release(&bytes);
}

static uint64_t
bad_frames(const struct pair *pair)
{
    struct mesh_peer_stats stats = {0};
    mesh_stats(pair->a.mesh, key_id(pair->b.key), &stats);
    return stats.bad_frames;
}

START_TEST(forged_replayed_and_misdirected_frames_are_dropped)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    struct key *third = harness_key(3);
    admit_allow(pair.admit, key_id(third));
    struct dial_options options = {
        .plane = SOCKET_CONTROL,
        .base = pair.a.base,
        .curve_public = key_curve_public(pair.b.key),
        .curve_secret = key_curve_secret(pair.b.key),
        .server_public = key_curve_public(pair.a.key),
    };
    bool up = false;
    struct dial *dial = dial_open(pair.loop, &options, note_up, &up, &err);
    ck_assert(harness_until(pair.loop, is_up, &up, 3000));
    const struct id *a = key_id(pair.a.key);

    send_by_hand(dial, pair.b.key, a, 1); /* as it should be */
    ck_assert(wait_frames(&pair.a, 1, 1000));
    send_by_hand(dial, third, a,
                 2); /* signed by an admitted node that is not the one connected */
    send_by_hand(dial, pair.b.key, key_id(third), 3); /* meant for somebody else */
    send_by_hand(dial, pair.b.key, a, 1);             /* said before */
    ck_assert(dial_send(dial, "garbage", 7));
    ck_assert(dial_send(dial, "", 0));
    struct buf damaged = {0};
    frame_pack(pair.b.key, &swarm_a, FRAME_PING, a, 4, "x", 1, &damaged);
    damaged.data[damaged.len - 1] ^= 1; /* the signature's last byte */
    ck_assert(dial_send(dial, damaged.data, damaged.len));
    buf_release(&damaged);
    harness_run(pair.loop, 200);
    ck_assert_int_eq(pair.a.frames, 1);
    ck_assert_uint_eq(bad_frames(&pair), 6);

    send_by_hand(dial, pair.b.key, a, 9); /* gaps are fine */
    ck_assert(wait_frames(&pair.a, 2, 1000));
    carry_by_hand(dial, pair.b.key, third, false, a, 10); /* only a signature tells */
    harness_run(pair.loop, 100);
    ck_assert_int_eq(pair.a.frames, 2);
    ck_assert_uint_eq(bad_frames(&pair), 7);
    carry_by_hand(dial, pair.b.key, third, true, a, 11);
    ck_assert(wait_frames(&pair.a, 3, 1000));
    dial_close(dial);
    up = false;
    dial = dial_open(pair.loop, &options, note_up, &up,
                     &err); /* counts from the start again */
    ck_assert(harness_until(pair.loop, is_up, &up, 3000));
    send_by_hand(dial, pair.b.key, a, 1);
    ck_assert(wait_frames(&pair.a, 4, 1000));

    admit_deny(pair.admit, key_id(pair.b.key)); /* evicted, but still connected */
    send_by_hand(dial, pair.b.key, a, 2);
    harness_run(pair.loop, 100);
    ck_assert_int_eq(pair.a.frames, 4);
    dial_close(dial);
    key_free(third);
    pair_close(&pair);
}
END_TEST

START_TEST(handlers_may_forget_the_peer)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    pair.a.forget = true;
    mesh_send(pair.b.mesh, key_id(pair.a.key), FRAME_PING, "1", 1, &err);
    ck_assert(wait_frames(&pair.a, 1, 1000));
    ck_assert(!mesh_connected(pair.a.mesh, key_id(pair.b.key)));
    int from =
        pair.a.count; /* and again from the handler of events, for each way a dial ends */
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &pair.b.base);
    ck_assert(wait_for(&pair.a, from, MESH_UP, 1000));
    from = pair.a.count;
    struct address nowhere = harness_address();
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &nowhere);
    ck_assert(wait_for(&pair.a, from, MESH_REFUSED, 1000));
    harness_run(pair.loop, 300);
    ck_assert_int_eq(pair.a.count, from + 1); /* forgotten: no more dials */
    pair_close(&pair);
}
END_TEST

START_TEST(who_is_forgotten_is_cut_off_in_both_directions)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    ck_assert_int_eq(
        mesh_send(pair.b.mesh, key_id(pair.a.key), FRAME_PING, "one", 3, &err), 0);
    ck_assert(wait_frames(&pair.a, 1, 1000));
    int from = pair.b.count;
    admit_deny(pair.admit, key_id(pair.b.key));
    mesh_forget(pair.a.mesh, key_id(pair.b.key));
    /* Its own connection to us ends, and it does not get another one. */
    ck_assert(wait_for(&pair.b, from, MESH_DOWN, 1000));
    ck_assert(wait_for(&pair.b, from, MESH_DENIED, 3000));
    ck_assert(!mesh_connected(pair.b.mesh, key_id(pair.a.key)));
    ck_assert(!mesh_connected(pair.a.mesh, key_id(pair.b.key)));
    ck_assert_int_eq(pair.a.frames, 1);
    pair_close(&pair);
}
END_TEST

/* It sent nothing before: its connection is nobody's, and is cut for that. */
START_TEST(who_is_forgotten_before_it_spoke_is_cut_off_too)
{
    struct pair pair;
    pair_open(&pair);
    connect_both(&pair.a, &pair.b);
    harness_run(pair.loop, 1200);
    int from = pair.b.count;
    admit_deny(pair.admit, key_id(pair.b.key));
    mesh_forget(pair.a.mesh, key_id(pair.b.key));
    ck_assert(wait_for(&pair.b, from, MESH_DOWN, 1000));
    ck_assert(wait_for(&pair.b, from, MESH_DENIED, 3000));
    pair_close(&pair);
}
END_TEST

START_TEST(a_new_address_is_dialled)
{
    struct pair pair;
    pair_open(&pair);
    struct address nowhere = harness_address();
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &nowhere);
    ck_assert(wait_for(&pair.a, 0, MESH_REFUSED, 1000));
    int from = pair.a.count;
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &pair.b.base);
    ck_assert(wait_for(&pair.a, from, MESH_UP, 1000));
    from = pair.a.count;
    mesh_peer(pair.a.mesh, key_id(pair.b.key),
              &pair.b.base); /* the same: nothing happens */
    mesh_peer(pair.a.mesh, key_id(pair.a.key), &pair.a.base); /* ourselves: nor here */
    harness_run(pair.loop, 200);
    ck_assert_int_eq(pair.a.count, from);
    pair_close(&pair);
}
END_TEST

START_TEST(a_route_is_dialled_in_place_of_the_address)
{
    struct pair pair;
    pair_open(&pair);
    struct address nowhere = harness_address();
    struct address_route route = {.to = nowhere, .via = pair.b.base};
    struct address_routes routes = {1, &route};
    node_silence(&pair.a);
    pair.a.routes = &routes;
    node_listen(&pair.a, pair.admit);
    mesh_peer(pair.a.mesh, key_id(pair.b.key), &nowhere);
    ck_assert(wait_for(&pair.a, 0, MESH_UP, 1000));
    pair_close(&pair);
}
END_TEST

START_TEST(a_control_port_in_use_has_a_sentence)
{
    struct pair pair;
    struct err err = {0};
    pair_open(&pair);
    struct mesh_options options = {
        .key = pair.b.key,
        .listen = pair.a.base,
        .frame = heard,
        .peer = seen,
    };
    ck_assert_ptr_null(mesh_open(pair.loop, pair.admit, &options, &err));
    char port[16];
    snprintf(port, sizeof(port), "port %u", pair.a.base.port + 1U);
    ck_assert_ptr_nonnull(strstr(err.msg, port));
    ck_assert_ptr_nonnull(strstr(err.msg, "--listen"));
    pair_close(&pair);
}
END_TEST

enum { SILENT_SOCKETS = 200, FLOOD_BYTES = 10 << 20 };

struct flood {
    struct address base;
    int which;
    uint64_t seed;
    _Atomic bool over;
    size_t sent;
};

/* 10 MB of random bytes, over as many connections as the other side closes. */
static void *
flood(void *arg)
{
    struct flood *self = arg;
    struct rng rng = {.seed = self->seed};
    static _Thread_local uint8_t bytes[16 << 10];
    while (self->sent < FLOOD_BYTES) {
        int fd = harness_tcp(&self->base, self->which);
        while (self->sent < FLOOD_BYTES) {
            for (size_t i = 0; i < sizeof(bytes); i += 8) {
                uint64_t word = rng_next(&rng);
                memcpy(bytes + i, &word, 8);
            }
            ssize_t n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
            if (n <= 0)
                break;
            self->sent += (size_t)n;
        }
        close(fd);
    }
    atomic_store(&self->over, true);
    return NULL;
}

static bool
floods_over(const void *arg)
{
    const struct flood *floods = arg;
    return atomic_load(&floods[0].over) && atomic_load(&floods[1].over);
}

static bool
say_nothing(void *arg, const struct join_caller *caller, const void *body, size_t len,
            struct buf *answer)
{
    (void)caller;
    (void)body;
    (void)len;
    ++*(int *)arg;
    buf_add(answer, "yes", 3);
    return false;
}

static void
ping_on(void *arg)
{
    struct pair *pair = arg;
    struct err err;
    mesh_send(pair->a.mesh, key_id(pair->b.key), FRAME_PING, "more", 4, &err);
}

START_TEST(silent_connections_and_random_bytes_disturb_nothing)
{
    struct pair pair;
    struct err err;
    pair_open(&pair);
    struct secret *secret = secret_make();
    admit_joiner(pair.admit, secret_joiner_public(secret));
    int requests = 0;
    struct join_server *join =
        join_listen(pair.loop, secret, &pair.a.base, say_nothing, &requests, &err);
    ck_assert_ptr_nonnull(join);
    int silent[SILENT_SOCKETS];
    for (int i = 0; i < SILENT_SOCKETS; i++)
        silent[i] = harness_tcp(&pair.a.base, i % 2 ? ADDRESS_JOIN : ADDRESS_CONTROL);

    pair.b.echo = true;
    connect_both(&pair.a, &pair.b); /* a new peer still gets in */
    int pinging = loop_timer(pair.loop, 10, ping_on, &pair);
    ck_assert(wait_frames(&pair.a, 20, 2000));
    int events = pair.a.count + pair.b.count;
    uint64_t seed = suite_seed("silent_connections_and_random_bytes_disturb_nothing", 7);
    struct flood floods[2] = {
        {.base = pair.a.base, .which = ADDRESS_JOIN, .seed = seed},
        {.base = pair.a.base, .which = ADDRESS_CONTROL, .seed = seed + 1},
    };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, flood, &floods[i]), 0);
    int frames = pair.a.frames;
    bool over = harness_until(pair.loop, floods_over, floods, 8000);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert(over);
    ck_assert_uint_ge(floods[0].sent, FLOOD_BYTES);
    ck_assert_uint_ge(floods[1].sent, FLOOD_BYTES);
    ck_assert_int_gt(pair.a.frames, frames); /* they never stopped talking */
    frames = pair.a.frames;
    ck_assert(wait_frames(&pair.a, frames + 20, 5000));
    loop_timer_cancel(pair.loop, pinging);
    ck_assert_int_eq(pair.a.count + pair.b.count,
                     events); /* and no connection was lost */
    ck_assert_int_eq(requests, 0);
    for (int i = 0; i < SILENT_SOCKETS; i++)
        close(silent[i]);
    join_server_close(join);
    secret_free(secret);
    pair_close(&pair);
}
END_TEST

Suite *
suite_mesh(void)
{
    Suite *suite = suite_create("mesh");
    TCase *tests = suite_case(suite, "mesh", 15);
    tcase_add_test(tests, two_nodes_exchange_frames_both_ways);
    tcase_add_test(tests, a_large_frame_arrives_whole);
    tcase_add_test(tests,
                   a_peer_that_restarts_on_its_port_is_reached_again_within_a_second);
    tcase_add_test(tests, a_peer_that_vanishes_is_down_and_refused_within_200_ms);
    tcase_add_test(tests, a_peer_that_comes_back_and_speaks_is_dialled_at_once);
    tcase_add_test(tests, a_listener_that_says_nothing_is_refused_after_five_seconds);
    tcase_add_test(tests, a_key_that_is_not_admitted_is_denied_and_said);
    tcase_add_test(tests, a_node_with_another_key_at_the_address_is_refused_and_said);
    tcase_add_test(tests, frames_of_another_swarm_are_dropped_counted_and_said);
    tcase_add_test(tests, forged_replayed_and_misdirected_frames_are_dropped);
    tcase_add_test(tests, handlers_may_forget_the_peer);
    tcase_add_test(tests, who_is_forgotten_is_cut_off_in_both_directions);
    tcase_add_test(tests, who_is_forgotten_before_it_spoke_is_cut_off_too);
    tcase_add_test(tests, a_new_address_is_dialled);
    tcase_add_test(tests, a_route_is_dialled_in_place_of_the_address);
    tcase_add_test(tests, a_control_port_in_use_has_a_sentence);
    tcase_add_test(tests, silent_connections_and_random_bytes_disturb_nothing);
    return suite;
}
