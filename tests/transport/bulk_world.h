/*
 * bulk_world.h - flows on an invented network: a queue of frames for each directed pair,
 * delivered one by one whenever the test's generator says so.
 */
#ifndef TESTS_TRANSPORT_BULK_WORLD_H
#define TESTS_TRANSPORT_BULK_WORLD_H

#include "transport/base/rng.h"
#include "transport/bulk_flow.h"

enum { NODES = 3, LETTERS = 40, WIRE_MAX = 4096 };

struct frame {
    struct flow_chunk chunk;
    uint8_t payload[]; /* chunk.header.length */
};

struct wire { /* one direction: chunks one way, credits back the other */
    struct frame *frames[WIRE_MAX];
    int frames_first, frames_count;
    struct chunk_header credits[WIRE_MAX];
    int credits_first, credits_count;
};

struct letter {
    uint64_t epoch;
    int from, to;
    enum bulk_channel channel;
    uint64_t tag;
    size_t bytes;
    uint8_t *sent, *received;
    bool posted_send, posted_receive;
    int send_done, receive_done; /* how often */
    enum err_code send_code, receive_code;
};

struct world {
    struct rng rng;
    int64_t now_us;
    struct flow *flows[NODES];
    struct id ids[NODES];
    uint64_t epochs[NODES];
    struct wire wires[NODES][NODES];
    struct letter *letters;
    int letters_count;
    int events[NODES][BULK_RATE + 1];
    struct bulk_event last[NODES][BULK_RATE + 1];
};

/* In no epoch; world_pair() is all in epoch 1 and quiet. */
struct world *world_new(uint64_t seed);
struct world *world_pair(void);
void world_free(struct world *world);

void world_enter(struct world *world, int node, uint64_t epoch);

/* A message to be posted at its sender and at its receiver, in any order and at any
 * time. */
struct letter *letter_new(struct world *world, uint64_t epoch, int from, int to,
                          enum bulk_channel channel, size_t bytes);
void letter_post(struct world *world, struct letter *letter, bool receive);

/* Take what the flow has finished and reported, and check what always has to be so. */
void world_settle(struct world *world, int node);

/* One chunk from `node` onto its wire; one chunk, or one credit, off a wire; all credits
 * that `node` owes onto the way back. False: there was none. */
bool world_transmit(struct world *world, int node);
bool world_deliver(struct world *world, int from, int to);
bool world_credit(struct world *world, int from, int to);
void world_owe(struct world *world, int node);

/* One of these, by chance; all, until nothing is under way. */
void world_act(struct world *world);
void world_quiesce(struct world *world);

/* A chunk as node `from` could make it, with a payload of zeros, to node 1. */
void world_forge(struct world *world, int from, struct chunk_header header);

#endif
