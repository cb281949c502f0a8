#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"
#include "transport/bulk_flow.h"

#include <stdlib.h>
#include <string.h>

/*
 * Flows on an invented network: a queue of frames for each directed pair, delivered one
 * by one whenever the test's generator says so.
 */

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

static void
world_open(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->rng = (struct rng){.seed = seed};
    world->now_us = 1;
    world->letters = xcalloc(LETTERS * 2, sizeof(*world->letters));
    for (int i = 0; i < NODES; i++) {
        world->flows[i] = flow_new();
        world->ids[i].bytes[0] = (uint8_t)(i + 1);
    }
}

static void
world_close(struct world *world)
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
    ck_assert_int_eq(frames_alive, 0);
}

static void
enter(struct world *world, int node, uint64_t epoch)
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
            flow_up(world->flows[node], i);
}

static void
fill(struct letter *letter)
{
    for (size_t i = 0; i < letter->bytes; i++)
        letter->sent[i] = (uint8_t)(letter->tag * 31 + i * 7 + (i >> 8) + (i >> 16));
}

static struct letter *
letter_new(struct world *world, uint64_t epoch, int from, int to,
           enum bulk_channel channel, size_t bytes)
{
    ck_assert_int_lt(world->letters_count, LETTERS * 2);
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

static void
post(struct world *world, struct letter *letter, bool receive)
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
static void
settle(struct world *world, int node)
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
static bool
transmit(struct world *world, int node)
{
    struct flow_out out;
    if (!flow_next(world->flows[node], &out))
        return false;
    struct wire *wire = &world->wires[node][out.peer];
    ck_assert_int_lt(wire->frames_count, WIRE_MAX);
    wire->frames[(wire->frames_first + wire->frames_count++) % WIRE_MAX] =
        frame_new(&out.header, out.payload);
    flow_sent(world->flows[node], &out, world->now_us);
    settle(world, node);
    return true;
}

static bool
deliver(struct world *world, int from, int to)
{
    struct wire *wire = &world->wires[from][to];
    if (!wire->frames_count)
        return false;
    struct flow_chunk *chunk = &wire->frames[wire->frames_first]->chunk;
    wire->frames_first = (wire->frames_first + 1) % WIRE_MAX;
    wire->frames_count--;
    flow_arrive(world->flows[to], &world->ids[from], &chunk, world->now_us);
    ck_assert_ptr_null(chunk);
    settle(world, to);
    return true;
}

/* Credits that `node` owes go onto the way back of the wires they came by. */
static void
owe(struct world *world, int node)
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

static bool
credit(struct world *world, int from, int to)
{
    struct wire *wire = &world->wires[from][to];
    if (!wire->credits_count)
        return false;
    struct chunk_header header = wire->credits[wire->credits_first];
    wire->credits_first = (wire->credits_first + 1) % WIRE_MAX;
    wire->credits_count--;
    flow_credit(world->flows[from], to, &header, world->now_us);
    settle(world, from);
    return true;
}

/* Everything that is under way arrives. */
static void
quiesce(struct world *world)
{
    bool busy = true;
    while (busy) {
        busy = false;
        world->now_us += 100;
        for (int i = 0; i < NODES; i++) {
            busy |= transmit(world, i);
            owe(world, i);
            for (int j = 0; j < NODES; j++) {
                busy |= deliver(world, i, j);
                owe(world, j);
                busy |= credit(world, i, j);
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

static void
random_act(struct world *world)
{
    struct rng *rng = &world->rng;
    int a = (int)rng_below(rng, NODES), b = (int)rng_below(rng, NODES);
    world->now_us += (int64_t)rng_below(rng, 3000);
    switch (rng_below(rng, 5)) {
    case 0:
        transmit(world, a);
        break;
    case 1:
        deliver(world, a, b);
        break;
    case 2:
        credit(world, a, b);
        break;
    case 3:
        owe(world, a);
        break;
    default:
        flow_blocked(world->flows[a], b, rng_below(rng, 4) == 0);
        break;
    }
}

static void
unblock(struct world *world)
{
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++)
            flow_blocked(world->flows[i], j, false);
}

static size_t
random_size(struct rng *rng)
{
    uint64_t kind = rng_below(rng, 8);
    if (kind < 2)
        return rng_below(rng, 2);
    if (kind < 7)
        return rng_below(rng, 20000);
    return rng_below(rng, 3 * CHUNK_BYTES);
}

static void
write_letters(struct world *world, uint64_t epoch, int count)
{
    for (int i = 0; i < count; i++) {
        int from = (int)rng_below(&world->rng, NODES);
        int to = (from + 1 + (int)rng_below(&world->rng, NODES - 1)) % NODES;
        letter_new(world, epoch, from, to,
                   (enum bulk_channel)rng_below(&world->rng, BULK_PROBE),
                   random_size(&world->rng));
    }
}

START_TEST(messages_arrive_whole_and_in_order_under_any_interleaving)
{
    uint64_t first = suite_seed("messages_arrive_whole_and_in_order", 1);
    for (uint64_t seed = first; seed < first + 150; seed++) {
        struct world *world = xcalloc(1, sizeof(*world));
        world_open(world, seed);
        for (int i = 0; i < NODES; i++)
            enter(world, i, 5);
        write_letters(world, 5, LETTERS);
        int sends = 0, receives = 0;
        while (sends < LETTERS || receives < LETTERS) {
            uint64_t act = rng_below(&world->rng, 4);
            if (act == 0 && sends < LETTERS)
                post(world, &world->letters[sends++], false);
            else if (act == 1 && receives < LETTERS)
                post(world, &world->letters[receives++], true);
            else
                random_act(world);
        }
        unblock(world);
        quiesce(world);
        for (int i = 0; i < NODES; i++)
            settle(world, i);
        for (int i = 0; i < LETTERS; i++) {
            ck_assert_msg(world->letters[i].send_done && world->letters[i].receive_done,
                          "seed %llu: letter %d is not done", (unsigned long long)seed,
                          i);
            ck_assert_int_eq(world->letters[i].send_code, ERR_NONE);
            ck_assert_int_eq(world->letters[i].receive_code, ERR_NONE);
        }
        for (int i = 0; i < NODES; i++) {
            struct flow_counts counts;
            flow_count(world->flows[i], &counts);
            ck_assert_uint_eq(counts.bad, 0);
            ck_assert_uint_eq(counts.parked_bytes, 0);
            ck_assert_int_eq(world->events[i][BULK_LOST], 0);
        }
        world_close(world);
        free(world);
    }
}
END_TEST

START_TEST(an_epoch_ends_all_of_the_older_and_loses_none_of_its_own)
{
    uint64_t first = suite_seed("an_epoch_ends_all_of_the_older", 1000);
    for (uint64_t seed = first; seed < first + 150; seed++) {
        struct world *world = xcalloc(1, sizeof(*world));
        world_open(world, seed);
        for (int i = 0; i < NODES; i++)
            enter(world, i, 1);
        write_letters(world, 1, LETTERS);
        write_letters(world, 2, LETTERS);
        int next[NODES][2] = {
            {0}}; /* letters looked at by each node, for sends and receives */
        bool working = true;
        while (working) {
            working = false;
            int node = (int)rng_below(&world->rng, NODES);
            if (world->epochs[node] == 1 && rng_below(&world->rng, 150) == 0) {
                if (rng_below(&world->rng, 2)) {
                    flow_halt(world->flows[node]);
                    settle(world, node);
                }
                enter(world, node, 2);
                settle(world, node);
                next[node][0] = next[node][1] = LETTERS;
            }
            bool receive = rng_below(&world->rng, 2);
            int end = world->epochs[node] == 1 ? LETTERS : 2 * LETTERS;
            while (next[node][receive] < end) {
                struct letter *letter = &world->letters[next[node][receive]++];
                if ((receive ? letter->to : letter->from) != node)
                    continue;
                post(world, letter, receive);
                settle(world, node);
                break;
            }
            for (int i = 0; i < 3; i++)
                random_act(world);
            for (int i = 0; i < NODES; i++)
                working |= world->epochs[i] == 1 || next[i][0] < 2 * LETTERS ||
                           next[i][1] < 2 * LETTERS;
        }
        unblock(world);
        quiesce(world);
        for (int i = 0; i < 2 * LETTERS; i++) {
            const struct letter *letter = &world->letters[i];
            ck_assert_int_eq(letter->send_done, letter->posted_send);
            ck_assert_int_eq(letter->receive_done, letter->posted_receive);
            if (letter->epoch == 2) {
                ck_assert_msg(
                    letter->receive_done == 1 && letter->receive_code == ERR_NONE,
                    "seed %llu: letter %d of the new epoch: %s", (unsigned long long)seed,
                    i, err_name(letter->receive_code));
                ck_assert_int_eq(letter->send_code, ERR_NONE);
            }
        }
        for (int i = 0; i < NODES; i++)
            ck_assert_int_eq(world->events[i][BULK_LOST], 0);
        world_close(world);
        free(world);
    }
}
END_TEST

/* ---- single promises ---- */

static struct world *
pair_open(void)
{
    struct world *world = xcalloc(1, sizeof(*world));
    world_open(world, 3);
    for (int i = 0; i < NODES; i++)
        enter(world, i, 1);
    quiesce(world);
    return world;
}

static void
pair_close(struct world *world)
{
    world_close(world);
    free(world);
}

START_TEST(a_sender_stops_at_the_window_until_the_receiver_takes)
{
    struct world *world = pair_open();
    struct letter *letter = letter_new(world, 1, 0, 1, BULK_FORWARD, 20 << 20);
    post(world, letter, false);
    quiesce(world);
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_le(counts.parked_bytes, BULK_WINDOW_BYTES);
    ck_assert_uint_gt(counts.parked_bytes, BULK_WINDOW_BYTES - 2 * CHUNK_BYTES);
    ck_assert_int_eq(letter->send_done, 0);
    post(world, letter, true);
    quiesce(world);
    ck_assert_int_eq(letter->receive_done, 1);
    ck_assert_int_eq(letter->send_done, 1);
    flow_count(world->flows[1], &counts);
    ck_assert_uint_le(counts.parked_bytes_most, BULK_WINDOW_BYTES);
    pair_close(world);
}
END_TEST

START_TEST(empty_messages_are_matched_and_bounded)
{
    struct world *world = pair_open();
    struct flow_op op = {.port = -1, .epoch = 1, .peer = 1, .channel = BULK_COMMIT};
    for (int i = 0; i < 100000; i++)
        flow_post(world->flows[0], &op);
    int sent = 0;
    while (transmit(world, 0)) {
        deliver(world, 0, 1);
        sent++;
    }
    ck_assert_int_eq(sent, BULK_WINDOW_BYTES / FLOW_CHUNK_COST);
    struct letter *letter = letter_new(world, 1, 0, 1, BULK_COMMIT, 0);
    letter->tag = 0;
    post(world, letter, true);
    settle(world, 1);
    ck_assert_int_eq(letter->receive_done, 1);
    ck_assert_int_eq(letter->receive_code, ERR_NONE);
    pair_close(world);
}
END_TEST

START_TEST(another_tag_or_size_is_an_error_and_the_next_message_is_whole)
{
    struct world *world = pair_open();
    struct letter *wrong_tag = letter_new(world, 1, 0, 1, BULK_FORWARD, 3 << 20);
    struct letter *wrong_size = letter_new(world, 1, 0, 1, BULK_FORWARD, 100);
    struct letter *right = letter_new(world, 1, 0, 1, BULK_FORWARD, 2 << 20);
    for (int i = 0; i < 3; i++)
        post(world, &world->letters[i], false);
    uint64_t tag = wrong_tag->tag;
    wrong_tag->tag++;
    wrong_size->bytes--;
    for (int i = 0; i < 3; i++)
        post(world, &world->letters[i], true);
    quiesce(world);
    ck_assert_int_eq(wrong_tag->receive_code, ERR_WIRE);
    ck_assert_int_eq(wrong_size->receive_code, ERR_WIRE);
    ck_assert_int_eq(right->receive_done, 1);
    ck_assert_int_eq(right->receive_code, ERR_NONE);
    wrong_tag->tag = tag;
    pair_close(world);
}
END_TEST

START_TEST(a_copy_keeps_two_chunks_on_the_way_and_yields_to_the_rest)
{
    struct world *world = pair_open();
    struct letter *copy = letter_new(world, 1, 0, 1, BULK_COPY, 8 << 20);
    struct letter *other = letter_new(world, 1, 0, 2, BULK_STATE, 1 << 20);
    struct letter *norm = letter_new(world, 1, 0, 1, BULK_COMMIT, 8);
    post(world, copy, false);
    ck_assert(transmit(world, 0));
    ck_assert(transmit(world, 0));
    ck_assert(!transmit(world, 0));
    post(world, other, false);
    post(world, norm, false);
    struct flow_out out;
    ck_assert(flow_next(world->flows[0], &out));
    ck_assert_int_eq(out.header.channel, BULK_COMMIT);
    ck_assert(transmit(world, 0));
    ck_assert(flow_next(world->flows[0], &out));
    ck_assert_int_eq(out.header.channel, BULK_STATE);
    for (int i = 0; i < 3; i++)
        post(world, &world->letters[i], true);
    quiesce(world);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world->letters[i].receive_done, 1);
    pair_close(world);
}
END_TEST

/* A chunk as node `from` could make it, to node 1. */
static void
forge(struct world *world, int from, struct chunk_header header)
{
    static const uint8_t zeros[CHUNK_BYTES];
    struct flow_chunk *chunk = &frame_new(&header, zeros)->chunk;
    flow_arrive(world->flows[1], &world->ids[from], &chunk, world->now_us);
    settle(world, 1);
}

START_TEST(stale_and_newer_senders_are_reported_once_in_a_while)
{
    struct world *world = pair_open();
    struct chunk_header header = {.type = CHUNK_DATA, .generation = 1, .epoch = 0};
    for (int i = 0; i < 100; i++)
        forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_STALE], 1);
    ck_assert_int_eq(world->last[1][BULK_STALE].peer, 2);
    forge(world, 0, header);
    ck_assert_int_eq(world->events[1][BULK_STALE], 2);
    header.epoch = 9;
    for (int i = 0; i < 100; i++)
        forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_NEWER], 1);
    world->now_us += FLOW_EVENT_GAP_US;
    header.number = 100;
    forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_NEWER], 2);
    header.generation = 0; /* an older generation is stale whatever its epoch */
    forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_STALE], 3);
    pair_close(world);
}
END_TEST

START_TEST(newer_chunks_wait_at_most_a_window_per_channel)
{
    struct world *world = pair_open();
    struct chunk_header header = {.type = CHUNK_DATA,
                                  .generation = 1,
                                  .epoch = 9,
                                  .length = CHUNK_BYTES,
                                  .total = CHUNK_BYTES};
    for (int i = 0; i < 100; i++, header.number++)
        forge(world, 2, header);
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_le(counts.parked_bytes, BULK_WINDOW_BYTES);
    ck_assert_uint_gt(counts.parked_bytes, BULK_WINDOW_BYTES / 2);
    header.epoch = 10; /* the sender went on: what it said before is void */
    header.number = 0;
    forge(world, 2, header);
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.parked_bytes, CHUNK_BYTES);
    enter(world, 1, 11);
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.parked_bytes, 0);
    pair_close(world);
}
END_TEST

START_TEST(a_peer_that_breaks_the_stream_is_lost_and_nothing_aborts)
{
    static const struct chunk_header good = {.type = CHUNK_DATA,
                                             .channel = BULK_REDUCE,
                                             .generation = 1,
                                             .epoch = 1,
                                             .plan_tag = 1000,
                                             .length = 10,
                                             .total = 30};
    for (int kind = 0; kind < 5; kind++) {
        struct world *world = pair_open();
        struct chunk_header header = good;
        if (kind < 4)
            forge(world, 2, header);
        header.offset = 10;
        if (kind == 0)
            header.offset = 20; /* a gap */
        if (kind == 1)
            header.tag = 4; /* another message */
        if (kind == 2)
            header.number = 1;
        if (kind == 3)
            header.total = 40;
        if (kind == 4) { /* more than the window */
            header.offset = 0;
            header.length = CHUNK_BYTES;
            header.total = (uint64_t)1 << 40;
            for (int i = 0; i < 40; i++, header.offset += header.length)
                forge(world, 2, header);
        }
        forge(world, 2, header);
        forge(world, 2, good);
        ck_assert_msg(world->events[1][BULK_LOST] == 1, "kind %d", kind);
        ck_assert_int_eq(world->last[1][BULK_LOST].peer, 2);
        struct flow_counts counts;
        flow_count(world->flows[1], &counts);
        ck_assert_uint_ge(counts.bad, 1);
        ck_assert_uint_le(counts.parked_bytes, BULK_WINDOW_BYTES);
        pair_close(world);
    }
}
END_TEST

START_TEST(chunks_of_strangers_and_of_another_plan_are_dropped)
{
    struct world *world = pair_open();
    struct chunk_header header = {.type = CHUNK_DATA, .generation = 1, .epoch = 1};
    forge(world, 2, header);
    header.plan_tag = 1000;
    world->ids[2].bytes[0] = 99;
    forge(world, 2, header);
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.bad, 2);
    ck_assert_int_eq(world->events[1][BULK_LOST], 0);
    pair_close(world);
}
END_TEST

START_TEST(false_credits_change_nothing)
{
    struct world *world = pair_open();
    struct letter *letter = letter_new(world, 1, 0, 1, BULK_FORWARD, 20 << 20);
    post(world, letter, false);
    while (transmit(world, 0))
        continue;
    struct chunk_header header = {.type = CHUNK_CREDIT,
                                  .channel = BULK_FORWARD,
                                  .generation = 1,
                                  .epoch = 1,
                                  .plan_tag = 1000,
                                  .number = UINT64_MAX};
    flow_credit(world->flows[0], 1, &header, 5);
    header.number = (uint64_t)1 << 40;
    flow_credit(world->flows[0], 1, &header, 5);
    header.number = 1000;
    header.epoch = 2;
    flow_credit(world->flows[0], 1, &header, 5);
    ck_assert(!transmit(world, 0));
    struct flow_counts counts;
    flow_count(world->flows[0], &counts);
    ck_assert_uint_eq(counts.bad, 2);
    pair_close(world);
}
END_TEST

START_TEST(a_halt_ends_all_and_refuses_until_the_next_epoch)
{
    struct world *world = pair_open();
    struct letter *sent = letter_new(world, 1, 0, 1, BULK_FORWARD, 20 << 20);
    struct letter *awaited = letter_new(world, 1, 1, 0, BULK_FORWARD, 10);
    post(world, sent, false);
    post(world, awaited, true);
    quiesce(world);
    flow_halt(world->flows[0]);
    flow_halt(world->flows[1]);
    settle(world, 0);
    ck_assert_int_eq(sent->send_code, ERR_STOPPED);
    ck_assert_int_eq(awaited->receive_code, ERR_STOPPED);
    struct letter *late = letter_new(world, 1, 0, 1, BULK_FORWARD, 10);
    post(world, late, false);
    settle(world, 0);
    ck_assert_int_eq(late->send_code, ERR_STOPPED);
    forge(world, 2,
          (struct chunk_header){.type = CHUNK_DATA, .generation = 1, .epoch = 1});
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.refused, 1);
    ck_assert_uint_eq(counts.parked_bytes, 0);
    pair_close(world);
}
END_TEST

START_TEST(an_operation_with_a_peer_that_is_not_there_is_refused)
{
    struct world *world = pair_open();
    int peers[] = {-1, NODES, 0};
    for (int i = 0; i < 3; i++) {
        struct letter *letter = letter_new(world, 1, 0, peers[i], BULK_FORWARD, 10);
        post(world, letter, false);
        settle(world, 0);
        ck_assert_int_eq(letter->send_code, ERR_USAGE);
    }
    pair_close(world);
}
END_TEST

/* A link of `bytes_per_ms` and one way delay `delay_us`: the rate that the sender finds.
 */
static struct bulk_event
rate_over_link(enum bulk_channel channel, size_t bytes, int64_t bytes_per_ms,
               int64_t delay_us, bool posted)
{
    struct world *world = pair_open();
    struct letter *letter = letter_new(world, 1, 0, 1, channel, bytes);
    if (channel == BULK_PROBE) {
        struct flow_op op = {
            .port = -1, .epoch = 1, .peer = 1, .channel = channel, .bytes = bytes};
        flow_post(world->flows[0], &op);
    } else {
        post(world, letter, false);
        if (posted)
            post(world, letter, true);
    }
    struct wire *wire = &world->wires[0][1];
    int64_t free_at = 0;
    int64_t arrive_at[WIRE_MAX], credit_at[WIRE_MAX];
    int sent = 0, arrived = 0, credited = 0, owed = 0;
    for (int turn = 0; turn < 4000000; turn++) {
        world->now_us += 10;
        while (transmit(world, 0)) {
            int last = (wire->frames_first + wire->frames_count - 1) % WIRE_MAX;
            int64_t took =
                (int64_t)wire->frames[last]->chunk.header.length * 1000 / bytes_per_ms;
            free_at = (free_at > world->now_us ? free_at : world->now_us) + took;
            arrive_at[sent++] = free_at + delay_us;
        }
        if (arrived < sent && world->now_us >= arrive_at[arrived]) {
            deliver(world, 0, 1);
            arrived++;
        }
        if (!posted && arrived == sent && !letter->posted_receive && turn > 100000)
            post(world, letter, true);
        owe(world, 1);
        while (owed < credited + wire->credits_count)
            credit_at[owed++] = world->now_us + delay_us;
        if (credited < owed && world->now_us >= credit_at[credited]) {
            credit(world, 0, 1);
            credited++;
        }
        if (world->events[0][BULK_RATE] ||
            (sent && arrived == sent && owed == credited && turn > 300000))
            break;
    }
    struct bulk_event event = world->last[0][BULK_RATE];
    event.epoch = (uint64_t)world->events[0][BULK_RATE];
    pair_close(world);
    return event;
}

static double
bytes_per_us(const struct bulk_event *event)
{
    return (double)event->bytes / (double)event->us;
}

START_TEST(the_rate_of_a_link_is_measured_from_credit)
{
    /* 100 Mbit/s and 20 ms each way: 12500 bytes a millisecond. */
    struct bulk_event event =
        rate_over_link(BULK_FORWARD, 1536 << 10, 12500, 20000, true);
    ck_assert_uint_eq(event.epoch, 1);
    ck_assert(!event.limited);
    ck_assert_double_gt(bytes_per_us(&event), 12.5 * 0.97);
    ck_assert_double_lt(bytes_per_us(&event), 12.5 * 1.03);
    event = rate_over_link(BULK_PROBE, 2 << 20, 12500, 20000, true);
    ck_assert_uint_eq(event.epoch, 1);
    ck_assert(!event.limited);
    ck_assert_double_gt(bytes_per_us(&event), 12.5 * 0.97);
    ck_assert_double_lt(bytes_per_us(&event), 12.5 * 1.03);
}
END_TEST

START_TEST(what_says_little_about_the_link_is_a_lower_bound_or_nothing)
{
    /* Too small. */
    struct bulk_event event = rate_over_link(BULK_FORWARD, 200 << 10, 12500, 20000, true);
    ck_assert_uint_eq(event.epoch, 0);
    /* The receiver came late. */
    event = rate_over_link(BULK_FORWARD, 4 << 20, 125000, 1000, false);
    ck_assert(event.epoch == 0 || event.limited);
    /* A copy over a long fat link is held up by its own pace. */
    event = rate_over_link(BULK_COPY, 8 << 20, 125000, 50000, true);
    ck_assert_uint_eq(event.epoch, 1);
    ck_assert(event.limited);
    /* A small probe is answered in any case. */
    event = rate_over_link(BULK_PROBE, 1000, 12500, 20000, true);
    ck_assert_uint_eq(event.epoch, 1);
    ck_assert(event.limited);
}
END_TEST

/* ---- the header ---- */

START_TEST(a_header_survives_the_wire_and_a_changed_one_does_not_pass)
{
    struct chunk_header header = {.type = CHUNK_DATA,
                                  .channel = BULK_REDUCE,
                                  .generation = 0xfedcba98,
                                  .length = 5,
                                  .epoch = 0x0102030405060708,
                                  .plan_tag = 0x1112131415161718,
                                  .tag = 0x2122232425262728,
                                  .total = 100,
                                  .offset = 95,
                                  .number = 0x3132333435363738};
    uint8_t frame[CHUNK_HEADER_BYTES + 5] = {0};
    struct chunk_header back;
    struct err err = {0};
    chunk_encode(&header, frame);
    ck_assert_int_eq(chunk_decode(frame, sizeof(frame), &back, &err), 0);
    uint8_t again[CHUNK_HEADER_BYTES];
    chunk_encode(&back, again);
    ck_assert_mem_eq(frame, again, sizeof(again));
    ck_assert_uint_eq(frame[16], 8); /* little-endian */
    for (size_t bytes = 0; bytes < sizeof(frame); bytes++)
        ck_assert_int_eq(chunk_decode(frame, bytes, &back, &err), -1);
    ck_assert_int_eq(err.code, ERR_WIRE);
    static const int checked[] = {0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 48, 55};
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
        frame[checked[i]] ^= 0x80;
        ck_assert_msg(chunk_decode(frame, sizeof(frame), &back, &err) == -1, "byte %d",
                      checked[i]);
        frame[checked[i]] ^= 0x80;
    }
}
END_TEST

Suite *suite_bulk_flow(void);

Suite *
suite_bulk_flow(void)
{
    Suite *suite = suite_create("bulk_flow");
    TCase *any = suite_case(suite, "any", 120);
    tcase_add_test(any, messages_arrive_whole_and_in_order_under_any_interleaving);
    tcase_add_test(any, an_epoch_ends_all_of_the_older_and_loses_none_of_its_own);
    TCase *one = suite_case(suite, "one", 30);
    tcase_add_test(one, a_sender_stops_at_the_window_until_the_receiver_takes);
    tcase_add_test(one, empty_messages_are_matched_and_bounded);
    tcase_add_test(one, another_tag_or_size_is_an_error_and_the_next_message_is_whole);
    tcase_add_test(one, a_copy_keeps_two_chunks_on_the_way_and_yields_to_the_rest);
    tcase_add_test(one, stale_and_newer_senders_are_reported_once_in_a_while);
    tcase_add_test(one, newer_chunks_wait_at_most_a_window_per_channel);
    tcase_add_test(one, a_peer_that_breaks_the_stream_is_lost_and_nothing_aborts);
    tcase_add_test(one, chunks_of_strangers_and_of_another_plan_are_dropped);
    tcase_add_test(one, false_credits_change_nothing);
    tcase_add_test(one, a_halt_ends_all_and_refuses_until_the_next_epoch);
    tcase_add_test(one, an_operation_with_a_peer_that_is_not_there_is_refused);
    TCase *rate = suite_case(suite, "rate", 60);
    tcase_add_test(rate, the_rate_of_a_link_is_measured_from_credit);
    tcase_add_test(rate, what_says_little_about_the_link_is_a_lower_bound_or_nothing);
    TCase *header = suite_case(suite, "header", 10);
    tcase_add_test(header, a_header_survives_the_wire_and_a_changed_one_does_not_pass);
    return suite;
}
