/*
 * Loopback rates of the encrypted data plane: one stream, the round trip of a small
 * message, and an all-reduce (bus bandwidth = 2 (n - 1) / n x bytes / time, as nccl-tests
 * define it).
 */
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/must.h"
#include "transport/group_ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 4, PORT = 27700, ROUND_TRIPS = 500 };

static struct loop *loop;
static struct bulk *bulks[NODES_MAX];
static int nodes;
static atomic_int ups;

static void
enter(uint64_t epoch, int count, struct bulk_peer *peers)
{
    nodes = count;
    for (int i = 0; i < count; i++) {
        struct bulk_epoch entered = {
            .epoch = epoch, .self = i, .peers_count = count, .peers = peers};
        bulk_enter(bulks[i], &entered);
        bulk_port_enter(bulk_port(bulks[i], BULK_ENGINE), epoch);
    }
}

static void
look(void *arg)
{
    (void)arg;
    struct bulk_event event;
    for (int i = 0; i < nodes; i++)
        while (bulk_event_take(bulks[i], &event))
            if (event.kind == BULK_UP)
                ups++;
    if (ups == nodes * (nodes - 1))
        loop_stop(loop);
}

static void
stream(size_t bytes, int count)
{
    struct bulk_port *from = bulk_port(bulks[0], BULK_ENGINE);
    struct bulk_port *to = bulk_port(bulks[1], BULK_ENGINE);
    uint8_t *out = alloc_arena(bytes), *in = alloc_arena(bytes);
    must(out && in);
    struct err err;
    int64_t began_us = 0;
    for (int i = -1; i < count; i++) { /* the first is to warm up */
        if (i == 0)
            began_us = clock_us();
        uint32_t receive = bulk_receive(to, 0, BULK_FORWARD, 1, in, bytes);
        uint32_t send = bulk_send(from, 1, BULK_FORWARD, 1, out, bytes);
        must(bulk_wait(to, receive, -1, &err) == 0 &&
             bulk_wait(from, send, -1, &err) == 0);
    }
    double seconds = (double)(clock_us() - began_us) / 1e6;
    printf("bulk stream of %zu KiB messages: %.3f GB/s\n", bytes >> 10,
           (double)bytes * count / seconds / 1e9);
    arena_release(out, bytes);
    arena_release(in, bytes);
}

static void
round_trip(void)
{
    struct bulk_port *a = bulk_port(bulks[0], BULK_ENGINE);
    struct bulk_port *b = bulk_port(bulks[1], BULK_ENGINE);
    uint64_t word = 1;
    struct err err;
    int64_t began_us = clock_us();
    for (int i = 0; i < ROUND_TRIPS; i++) {
        uint32_t at_b = bulk_receive(b, 0, BULK_COMMIT, 1, &word, 8);
        uint32_t out = bulk_send(a, 1, BULK_COMMIT, 1, &word, 8);
        must(bulk_wait(a, out, -1, &err) == 0 && bulk_wait(b, at_b, -1, &err) == 0);
        uint32_t at_a = bulk_receive(a, 1, BULK_COMMIT, 1, &word, 8);
        uint32_t back = bulk_send(b, 0, BULK_COMMIT, 1, &word, 8);
        must(bulk_wait(b, back, -1, &err) == 0 && bulk_wait(a, at_a, -1, &err) == 0);
    }
    printf("bulk round trip of 8 bytes: %.0f us\n",
           (double)(clock_us() - began_us) / ROUND_TRIPS);
}

struct member {
    int rank, rounds;
    size_t floats;
};

static void *
sum(void *arg)
{
    const struct member *member = arg;
    struct group_ring group = {.port = bulk_port(bulks[member->rank], BULK_ENGINE),
                               .count = nodes,
                               .rank = member->rank};
    for (int i = 0; i < nodes; i++)
        group.members[i] = i;
    float *data = xcalloc(member->floats, sizeof(*data));
    float *scratch = xcalloc(group_ring_scratch(member->floats, nodes), sizeof(*scratch));
    struct err err;
    for (int i = 0; i < member->rounds; i++)
        must(group_ring_sum(&group, 1, data, member->floats, scratch, 0, NULL, NULL,
                            &err) == 0);
    free(data);
    free(scratch);
    return NULL;
}

static void
all_reduce(size_t bytes, int rounds)
{
    pthread_t threads[NODES_MAX];
    struct member members[NODES_MAX];
    int64_t began_us = clock_us();
    for (int i = 0; i < nodes; i++) {
        members[i] = (struct member){i, rounds, bytes / sizeof(float)};
        must(pthread_create(&threads[i], NULL, sum, &members[i]) == 0);
    }
    for (int i = 0; i < nodes; i++)
        pthread_join(threads[i], NULL);
    double seconds = (double)(clock_us() - began_us) / 1e6 / rounds;
    printf("all-reduce over %d nodes, %zu KiB: %.2f ms, bus bandwidth %.3f GB/s\n", nodes,
           bytes >> 10, seconds * 1e3,
           2.0 * (nodes - 1) / nodes * (double)bytes / seconds / 1e9);
}

int
main(void)
{
    struct err err = {0};
    struct key *keys[NODES_MAX];
    struct bulk_peer peers[NODES_MAX];
    memset(peers, 0, sizeof(peers));
    must(key_setup(&err) == 0 && loop_setup(3, &err) == 0);
    loop = loop_new();
    struct admit *admit = admit_open(loop, &err);
    must(admit);
    for (int i = 0; i < NODES_MAX; i++) {
        uint8_t seed[32] = {(uint8_t)(i + 1)};
        keys[i] = key_from_seed(seed);
        peers[i].id = *key_id(keys[i]);
        snprintf(peers[i].base.host, sizeof(peers[i].base.host), "127.0.0.1");
        peers[i].base.port = (uint16_t)(PORT + 10 * i);
        admit_allow(admit, &peers[i].id);
        struct bulk_options options = {.key = keys[i], .listen = peers[i].base};
        bulks[i] = bulk_open(&options, &err);
        if (!bulks[i]) {
            printf("%s\n", err.msg);
            return 1;
        }
    }
    int timer = loop_timer(loop, 1, look, NULL);
    enter(1, 2, peers);
    loop_run(loop);
    round_trip();
    stream(1536 << 10, 100);
    stream(16 << 20, 20);
    all_reduce(1 << 20, 50);
    all_reduce(16 << 20, 10);
    ups = 0;
    enter(2, 4, peers);
    loop_run(loop);
    all_reduce(1 << 20, 30);
    all_reduce(16 << 20, 5);
    loop_timer_cancel(loop, timer);
    for (int i = 0; i < NODES_MAX; i++) {
        bulk_close(bulks[i]);
        key_free(keys[i]);
    }
    admit_close(admit);
    loop_free(loop);
    loop_teardown();
    return 0;
}
