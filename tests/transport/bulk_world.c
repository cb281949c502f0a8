#include "tests/transport/bulk_world.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

static int frames_alive;

static void
frame_free(struct flow_chunk *chunk)
{
    frames_alive--;
    free(chunk);
}

static struct frame *
frame_new(const struct chunk_header *header, const uint8_t *payload)
{
    struct frame *frame = xcalloc(1, sizeof(*frame) + header->length);
    uint8_t bytes[CHUNK_HEADER_BYTES];
    struct err err;
    chunk_encode(header, bytes);
    uint8_t *whole = xcalloc(1, CHUNK_HEADER_BYTES + (size_t)header->length);
    memcpy(whole, bytes, sizeof(bytes));
    ck_assert_int_eq(chunk_decode(whole, CHUNK_HEADER_BYTES + header->length,
                                  &frame->chunk.header, &err),
                     0);
    free(whole);
    if (payload)
        memcpy(frame->payload, payload, header->length);
    frame->chunk.payload = frame->payload;
    frame->chunk.release = frame_free;
    frames_alive++;
    return frame;
}

struct world *
world_new(uint64_t seed)
{
    struct world *world = xcalloc(1, sizeof(*world));
    world->rng = (struct rng){.seed = seed};
    world->now_us = 1;
    world->letters = xcalloc((size_t)LETTERS * 2, sizeof(*world->letters));
    for (int i = 0; i < NODES; i++) {
        world->flows[i] = flow_new();
        world->ids[i].bytes[0] = (uint8_t)(i + 1);
    }
    return world;
}

void
world_free(struct world *world)
{
    for (int i = 0; i < NODES; i++) {
        flow_free(world->flows[i]);
        for (int j = 0; j < NODES; j++) {
            struct wire *wire = &world->wires[i][j];
            for (int k = 0; k < wire->frames_count; k++)
                frame_free(&wire->frames[(wire->frames_first + k) % WIRE_MAX]->chunk);
        }
    }
    for (int i = 0; i < world->letters_count; i++) {
        free(world->letters[i].sent);
        free(world->letters[i].received);
    }
    free(world->letters);
    free(world);
    ck_assert_int_eq(frames_alive, 0);
}

void
world_enter(struct world *world, int node, uint64_t epoch)
{
    struct bulk_peer peers[NODES];
    memset(peers, 0, sizeof(peers));
    for (int i = 0; i < NODES; i++)
        peers[i].id = world->ids[i];
    struct bulk_epoch entered = {.generation = 1,
                                 .epoch = epoch,
                                 .plan_tag = epoch * 1000,
                                 .self = node,
                                 .peers_count = NODES,
                                 .peers = peers};
    world->epochs[node] = epoch;
    flow_enter(world->flows[node], &entered, world->now_us);
    for (int i = 0; i < NODES; i++)
        if (i != node)
            flow_up(world->flows[node], i, BULK_OUT, NULL);
}

static void
fill(struct letter *letter)
{
    for (size_t i = 0; i < letter->bytes; i++)
        letter->sent[i] = (uint8_t)(letter->tag * 31 + i * 7 + (i >> 8) + (i >> 16));
}

struct letter *
letter_new(struct world *world, uint64_t epoch, int from, int to,
           enum bulk_channel channel, size_t bytes)
{
    ck_assert_int_lt(world->letters_count, 2L * LETTERS);
    struct letter *letter = &world->letters[world->letters_count++];
    *letter = (struct letter){.epoch = epoch,
                              .from = from,
                              .to = to,
                              .channel = channel,
                              .tag = rng_next(&world->rng),
                              .bytes = bytes,
                              .sent = xcalloc(bytes + 1, 1),
                              .received = xcalloc(bytes + 1, 1)};
    fill(letter);
    return letter;
}

void
letter_post(struct world *world, struct letter *letter, bool receive)
{
    struct flow_op op = {.port = receive,
                         .handle = (uint32_t)(letter - world->letters) + 1,
                         .epoch = letter->epoch,
                         .receive = receive,
                         .peer = receive ? letter->from : letter->to,
                         .channel = letter->channel,
                         .tag = letter->tag,
                         .source = receive ? NULL : letter->sent,
                         .target = receive ? letter->received : NULL,
                         .bytes = letter->bytes};
    *(receive ? &letter->posted_receive : &letter->posted_send) = true;
    flow_post(world->flows[receive ? letter->to : letter->from], &op);
}

/* What the flow has finished and reported, and what always has to be so. */
void
world_settle(struct world *world, int node)
{
    struct flow_done done;
    while (flow_take_done(world->flows[node], &done)) {
        struct letter *letter = &world->letters[done.handle - 1];
        *(done.port ? &letter->receive_code : &letter->send_code) = done.code;
        (*(done.port ? &letter->receive_done : &letter->send_done))++;
        ck_assert_int_eq(done.port ? letter->receive_done : letter->send_done, 1);
        if (done.port && done.code == ERR_NONE)
            ck_assert(memcmp(letter->sent, letter->received, letter->bytes) == 0);
    }
    struct bulk_event event;
    while (flow_take_event(world->flows[node], &event)) {
        world->events[node][event.kind]++;
        world->last[node][event.kind] = event;
    }
    struct flow_counts counts;
    flow_count(world->flows[node], &counts);
    ck_assert_uint_le(counts.parked_bytes,
                      (uint64_t)BULK_WINDOW_BYTES * BULK_CHANNELS * (NODES - 1));
}

/* One chunk from `node` onto its wire; false when there is none. */
bool
world_transmit(struct world *world, int node)
{
    struct flow_out out;
    if (!flow_next(world->flows[node], &out, world->now_us))
        return false;
    struct wire *wire = &world->wires[node][out.peer];
    ck_assert_int_lt(wire->frames_count, WIRE_MAX);
    wire->frames[(wire->frames_first + wire->frames_count++) % WIRE_MAX] =
        frame_new(&out.header, out.payload);
    flow_sent(world->flows[node], &out, world->now_us);
    world_settle(world, node);
    return true;
}

bool
world_deliver(struct world *world, int from, int to)
{
    struct wire *wire = &world->wires[from][to];
    if (!wire->frames_count)
        return false;
    struct flow_chunk *chunk = &wire->frames[wire->frames_first]->chunk;
    wire->frames_first = (wire->frames_first + 1) % WIRE_MAX;
    wire->frames_count--;
    flow_arrive(world->flows[to], &world->ids[from], &chunk, world->now_us);
    ck_assert_ptr_null(chunk);
    world_settle(world, to);
    return true;
}

/* Credits that `node` owes go onto the way back of the wires they came by. */
void
world_owe(struct world *world, int node)
{
    struct flow_out out;
    while (flow_next_credit(world->flows[node], &out)) {
        if (rng_below(&world->rng, 8) == 0) { /* no room now */
            flow_credit_unsent(world->flows[node], &out);
            return;
        }
        struct wire *wire = &world->wires[out.peer][node];
        ck_assert_int_lt(wire->credits_count, WIRE_MAX);
        wire->credits[(wire->credits_first + wire->credits_count++) % WIRE_MAX] =
            out.header;
    }
}

bool
world_credit(struct world *world, int from, int to)
{
    struct wire *wire = &world->wires[from][to];
    if (!wire->credits_count)
        return false;
    struct chunk_header header = wire->credits[wire->credits_first];
    wire->credits_first = (wire->credits_first + 1) % WIRE_MAX;
    wire->credits_count--;
    flow_credit(world->flows[from], to, &header, world->now_us);
    world_settle(world, from);
    return true;
}

/* Everything that is under way arrives. */
void
world_quiesce(struct world *world)
{
    bool busy = true;
    while (busy) {
        busy = false;
        world->now_us += 100;
        for (int i = 0; i < NODES; i++) {
            busy |= world_transmit(world, i);
            world_owe(world, i);
            for (int j = 0; j < NODES; j++) {
                busy |= world_deliver(world, i, j);
                world_owe(world, j);
                busy |= world_credit(world, i, j);
            }
        }
        for (int i = 0; i < NODES; i++) {
            struct flow_out out;
            if (flow_next_credit(world->flows[i], &out)) {
                flow_credit_unsent(world->flows[i], &out);
                busy = true;
            }
        }
    }
}

void
world_act(struct world *world)
{
    struct rng *rng = &world->rng;
    int a = (int)rng_below(rng, NODES), b = (int)rng_below(rng, NODES);
    world->now_us += (int64_t)rng_below(rng, 3000);
    switch (rng_below(rng, 5)) {
    case 0:
        world_transmit(world, a);
        break;
    case 1:
        world_deliver(world, a, b);
        break;
    case 2:
        world_credit(world, a, b);
        break;
    case 3:
        world_owe(world, a);
        break;
    default:
        flow_blocked(world->flows[a], b, rng_below(rng, 4) == 0);
        break;
    }
}

struct world *
world_pair(void)
{
    struct world *world = world_new(3);
    for (int i = 0; i < NODES; i++)
        world_enter(world, i, 1);
    world_quiesce(world);
    return world;
}

/* A chunk as node `from` could make it, to node 1. */
void
world_forge(struct world *world, int from, struct chunk_header header)
{
    static const uint8_t zeros[CHUNK_BYTES];
    struct flow_chunk *chunk = &frame_new(&header, zeros)->chunk;
    flow_arrive(world->flows[1], &world->ids[from], &chunk, world->now_us);
    world_settle(world, 1);
}
