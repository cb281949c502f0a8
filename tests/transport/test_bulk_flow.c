#include "tests/suite.h"
#include "tests/transport/bulk_world.h"

#include <string.h>

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
    return rng_below(rng, (uint64_t)3 * CHUNK_BYTES);
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
        struct world *world = world_new(seed);
        for (int i = 0; i < NODES; i++)
            world_enter(world, i, 5);
        write_letters(world, 5, LETTERS);
        int sends = 0, receives = 0;
        while (sends < LETTERS || receives < LETTERS) {
            uint64_t act = rng_below(&world->rng, 4);
            if (act == 0 && sends < LETTERS)
                letter_post(world, &world->letters[sends++], false);
            else if (act == 1 && receives < LETTERS)
                letter_post(world, &world->letters[receives++], true);
            else
                world_act(world);
        }
        unblock(world);
        world_quiesce(world);
        for (int i = 0; i < NODES; i++)
            world_settle(world, i);
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
        world_free(world);
    }
}
END_TEST

START_TEST(an_epoch_ends_all_of_the_older_and_loses_none_of_its_own)
{
    uint64_t first = suite_seed("an_epoch_ends_all_of_the_older", 1000);
    for (uint64_t seed = first; seed < first + 150; seed++) {
        struct world *world = world_new(seed);
        for (int i = 0; i < NODES; i++)
            world_enter(world, i, 1);
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
                    world_settle(world, node);
                }
                world_enter(world, node, 2);
                world_settle(world, node);
                next[node][0] = next[node][1] = LETTERS;
            }
            bool receive = rng_below(&world->rng, 2);
            int end = world->epochs[node] == 1 ? LETTERS : 2 * LETTERS;
            while (next[node][receive] < end) {
                struct letter *letter = &world->letters[next[node][receive]++];
                if ((receive ? letter->to : letter->from) != node)
                    continue;
                letter_post(world, letter, receive);
                world_settle(world, node);
                break;
            }
            for (int i = 0; i < 3; i++)
                world_act(world);
            for (int i = 0; i < NODES; i++)
                working |= world->epochs[i] == 1 || next[i][0] < 2 * LETTERS ||
                           next[i][1] < 2 * LETTERS;
        }
        unblock(world);
        world_quiesce(world);
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
        world_free(world);
    }
}
END_TEST

/* ---- single promises ---- */

START_TEST(a_sender_stops_at_the_window_until_the_receiver_takes)
{
    struct world *world = world_pair();
    struct letter *letter = letter_new(world, 1, 0, 1, BULK_FORWARD, 20 << 20);
    letter_post(world, letter, false);
    world_quiesce(world);
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_le(counts.parked_bytes, BULK_WINDOW_BYTES);
    ck_assert_uint_gt(counts.parked_bytes, BULK_WINDOW_BYTES - 2 * CHUNK_BYTES);
    ck_assert_int_eq(letter->send_done, 0);
    letter_post(world, letter, true);
    world_quiesce(world);
    ck_assert_int_eq(letter->receive_done, 1);
    ck_assert_int_eq(letter->send_done, 1);
    flow_count(world->flows[1], &counts);
    ck_assert_uint_le(counts.parked_bytes_most, BULK_WINDOW_BYTES);
    world_free(world);
}
END_TEST

START_TEST(empty_messages_are_matched_and_bounded)
{
    struct world *world = world_pair();
    struct flow_op op = {.port = -1, .epoch = 1, .peer = 1, .channel = BULK_COMMIT};
    for (int i = 0; i < 100000; i++)
        flow_post(world->flows[0], &op);
    int sent = 0;
    while (world_transmit(world, 0)) {
        world_deliver(world, 0, 1);
        sent++;
    }
    ck_assert_int_eq(sent, BULK_WINDOW_BYTES / FLOW_CHUNK_COST);
    struct letter *letter = letter_new(world, 1, 0, 1, BULK_COMMIT, 0);
    letter->tag = 0;
    letter_post(world, letter, true);
    world_settle(world, 1);
    ck_assert_int_eq(letter->receive_done, 1);
    ck_assert_int_eq(letter->receive_code, ERR_NONE);
    world_free(world);
}
END_TEST

START_TEST(another_tag_or_size_is_an_error_and_the_next_message_is_whole)
{
    struct world *world = world_pair();
    struct letter *wrong_tag = letter_new(world, 1, 0, 1, BULK_FORWARD, 3 << 20);
    struct letter *wrong_size = letter_new(world, 1, 0, 1, BULK_FORWARD, 100);
    struct letter *right = letter_new(world, 1, 0, 1, BULK_FORWARD, 2 << 20);
    for (int i = 0; i < 3; i++)
        letter_post(world, &world->letters[i], false);
    uint64_t tag = wrong_tag->tag;
    wrong_tag->tag++;
    wrong_size->bytes--;
    for (int i = 0; i < 3; i++)
        letter_post(world, &world->letters[i], true);
    world_quiesce(world);
    ck_assert_int_eq(wrong_tag->receive_code, ERR_WIRE);
    ck_assert_int_eq(wrong_size->receive_code, ERR_WIRE);
    ck_assert_int_eq(right->receive_done, 1);
    ck_assert_int_eq(right->receive_code, ERR_NONE);
    wrong_tag->tag = tag;
    world_free(world);
}
END_TEST

START_TEST(a_copy_keeps_two_chunks_on_the_way_and_yields_to_the_rest)
{
    struct world *world = world_pair();
    struct letter *copy = letter_new(world, 1, 0, 1, BULK_COPY, 8 << 20);
    struct letter *other = letter_new(world, 1, 0, 2, BULK_STATE, 1 << 20);
    struct letter *norm = letter_new(world, 1, 0, 1, BULK_COMMIT, 8);
    letter_post(world, copy, false);
    ck_assert(world_transmit(world, 0));
    ck_assert(world_transmit(world, 0));
    ck_assert(!world_transmit(world, 0));
    letter_post(world, other, false);
    letter_post(world, norm, false);
    struct flow_out out;
    ck_assert(flow_next(world->flows[0], &out, world->now_us));
    ck_assert_int_eq(out.header.channel, BULK_COMMIT);
    ck_assert(world_transmit(world, 0));
    ck_assert(flow_next(world->flows[0], &out, world->now_us));
    ck_assert_int_eq(out.header.channel, BULK_STATE);
    for (int i = 0; i < 3; i++)
        letter_post(world, &world->letters[i], true);
    world_quiesce(world);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world->letters[i].receive_done, 1);
    world_free(world);
}
END_TEST

START_TEST(stale_and_newer_senders_are_reported_once_in_a_while)
{
    struct world *world = world_pair();
    struct chunk_header header = {.type = CHUNK_DATA, .generation = 1, .epoch = 0};
    for (int i = 0; i < 100; i++)
        world_forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_STALE], 1);
    ck_assert_int_eq(world->last[1][BULK_STALE].peer, 2);
    world_forge(world, 0, header);
    ck_assert_int_eq(world->events[1][BULK_STALE], 2);
    header.epoch = 9;
    for (int i = 0; i < 100; i++)
        world_forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_NEWER], 1);
    world->now_us += FLOW_EVENT_GAP_US;
    header.number = 100;
    world_forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_NEWER], 2);
    header.generation = 0; /* an older generation is stale whatever its epoch */
    world_forge(world, 2, header);
    ck_assert_int_eq(world->events[1][BULK_STALE], 3);
    world_free(world);
}
END_TEST

START_TEST(newer_chunks_wait_at_most_a_window_per_channel)
{
    struct world *world = world_pair();
    struct chunk_header header = {.type = CHUNK_DATA,
                                  .generation = 1,
                                  .epoch = 9,
                                  .length = CHUNK_BYTES,
                                  .total = CHUNK_BYTES};
    for (int i = 0; i < 100; i++, header.number++)
        world_forge(world, 2, header);
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_le(counts.parked_bytes, BULK_WINDOW_BYTES);
    ck_assert_uint_gt(counts.parked_bytes, BULK_WINDOW_BYTES / 2);
    header.epoch = 10; /* the sender went on: what it said before is void */
    header.number = 0;
    world_forge(world, 2, header);
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.parked_bytes, CHUNK_BYTES);
    world_enter(world, 1, 11);
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.parked_bytes, 0);
    world_free(world);
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
        struct world *world = world_pair();
        struct chunk_header header = good;
        if (kind < 4)
            world_forge(world, 2, header);
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
                world_forge(world, 2, header);
        }
        world_forge(world, 2, header);
        world_forge(world, 2, good);
        ck_assert_msg(world->events[1][BULK_LOST] == 1, "kind %d", kind);
        ck_assert_int_eq(world->last[1][BULK_LOST].peer, 2);
        struct flow_counts counts;
        flow_count(world->flows[1], &counts);
        ck_assert_uint_ge(counts.bad, 1);
        ck_assert_uint_le(counts.parked_bytes, BULK_WINDOW_BYTES);
        world_free(world);
    }
}
END_TEST

START_TEST(chunks_of_strangers_and_of_another_plan_are_dropped)
{
    struct world *world = world_pair();
    struct chunk_header header = {.type = CHUNK_DATA, .generation = 1, .epoch = 1};
    world_forge(world, 2, header);
    header.plan_tag = 1000;
    world->ids[2].bytes[0] = 99;
    world_forge(world, 2, header);
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.bad, 2);
    ck_assert_int_eq(world->events[1][BULK_LOST], 0);
    world_free(world);
}
END_TEST

START_TEST(false_credits_change_nothing)
{
    struct world *world = world_pair();
    struct letter *letter = letter_new(world, 1, 0, 1, BULK_FORWARD, 20 << 20);
    letter_post(world, letter, false);
    while (world_transmit(world, 0))
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
    ck_assert(!world_transmit(world, 0));
    struct flow_counts counts;
    flow_count(world->flows[0], &counts);
    ck_assert_uint_eq(counts.bad, 2);
    world_free(world);
}
END_TEST

START_TEST(a_halt_ends_all_and_refuses_until_the_next_epoch)
{
    struct world *world = world_pair();
    struct letter *sent = letter_new(world, 1, 0, 1, BULK_FORWARD, 20 << 20);
    struct letter *awaited = letter_new(world, 1, 1, 0, BULK_FORWARD, 10);
    letter_post(world, sent, false);
    letter_post(world, awaited, true);
    world_quiesce(world);
    flow_halt(world->flows[0]);
    flow_halt(world->flows[1]);
    world_settle(world, 0);
    ck_assert_int_eq(sent->send_code, ERR_STOPPED);
    ck_assert_int_eq(awaited->receive_code, ERR_STOPPED);
    struct letter *late = letter_new(world, 1, 0, 1, BULK_FORWARD, 10);
    letter_post(world, late, false);
    world_settle(world, 0);
    ck_assert_int_eq(late->send_code, ERR_STOPPED);
    world_forge(world, 2,
                (struct chunk_header){.type = CHUNK_DATA, .generation = 1, .epoch = 1});
    struct flow_counts counts;
    flow_count(world->flows[1], &counts);
    ck_assert_uint_eq(counts.refused, 1);
    ck_assert_uint_eq(counts.parked_bytes, 0);
    world_free(world);
}
END_TEST

START_TEST(an_operation_with_a_peer_that_is_not_there_is_refused)
{
    struct world *world = world_pair();
    int peers[] = {-1, NODES, 0};
    for (int i = 0; i < 3; i++) {
        struct letter *letter = letter_new(world, 1, 0, peers[i], BULK_FORWARD, 10);
        letter_post(world, letter, false);
        world_settle(world, 0);
        ck_assert_int_eq(letter->send_code, ERR_USAGE);
    }
    world_free(world);
}
END_TEST

/* A link of `bytes_per_ms` and one way delay `delay_us`: the first rate that the receiver
 * finds; `epoch` counts how many. */
static struct bulk_event
rate_over_link(enum bulk_channel channel, size_t bytes, int64_t bytes_per_ms,
               int64_t delay_us, bool posted)
{
    struct world *world = world_pair();
    struct letter *letter = NULL;
    if (channel == BULK_PROBE) {
        flow_probe(world->flows[0], 1, bytes, 0, world->now_us);
    } else {
        letter = letter_new(world, 1, 0, 1, channel, bytes);
        letter_post(world, letter, false);
        if (posted)
            letter_post(world, letter, true);
    }
    struct wire *wire = &world->wires[0][1];
    int64_t free_at = 0;
    int64_t arrive_at[WIRE_MAX], credit_at[WIRE_MAX];
    int sent = 0, arrived = 0, credited = 0, owed = 0;
    for (int turn = 0; turn < 4000000; turn++) {
        world->now_us += 10;
        while (world_transmit(world, 0)) {
            int last = (wire->frames_first + wire->frames_count - 1) % WIRE_MAX;
            int64_t took =
                (int64_t)wire->frames[last]->chunk.header.length * 1000 / bytes_per_ms;
            free_at = (free_at > world->now_us ? free_at : world->now_us) + took;
            arrive_at[sent++] = free_at + delay_us;
        }
        if (arrived < sent && world->now_us >= arrive_at[arrived]) {
            world_deliver(world, 0, 1);
            arrived++;
        }
        if (!posted && arrived == sent && !letter->posted_receive && turn > 100000)
            letter_post(world, letter, true);
        world_owe(world, 1);
        while (owed < credited + wire->credits_count)
            credit_at[owed++] = world->now_us + delay_us;
        if (credited < owed && world->now_us >= credit_at[credited]) {
            world_credit(world, 0, 1);
            credited++;
        }
        if (world->events[1][BULK_RATE] ||
            (sent && arrived == sent && owed == credited && turn > 300000))
            break;
    }
    struct bulk_event event = world->last[1][BULK_RATE];
    event.epoch = (uint64_t)world->events[1][BULK_RATE];
    world_free(world);
    return event;
}

static double
bytes_per_us(const struct bulk_event *event)
{
    return (double)event->bytes / (double)event->us;
}

static void
check_rate(const struct bulk_event *event, double bytes_per_us_wanted)
{
    ck_assert_uint_eq(event->epoch, 1);
    ck_assert(!event->limited);
    ck_assert_double_gt(bytes_per_us(event), bytes_per_us_wanted * 0.97);
    ck_assert_double_lt(bytes_per_us(event), bytes_per_us_wanted * 1.03);
}

START_TEST(the_receiver_finds_the_rate_of_a_link)
{
    /* 100 Mbit/s and 20 ms each way: 12500 bytes a millisecond. */
    struct bulk_event event =
        rate_over_link(BULK_FORWARD, 1536 << 10, 12500, 20000, true);
    check_rate(&event, 12.5);
    ck_assert(!event.probe);
    /* However late its receive is. */
    event = rate_over_link(BULK_FORWARD, 12 << 20, 125000, 1000, false);
    check_rate(&event, 125);
}
END_TEST

START_TEST(a_probe_finds_rates_from_1_mbit_to_1_gbit_over_any_delay)
{
    static const struct {
        int64_t bytes_per_ms, delay_us;
    } links[] = {{125, 100},     {1250, 100},     {1250, 20000},  {12500, 20000},
                 {125000, 1000}, {125000, 20000}, {62500, 75000}, {125, 100000}};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct bulk_event event = rate_over_link(
            BULK_PROBE, 64 << 20, links[i].bytes_per_ms, links[i].delay_us, true);
        if (links[i].delay_us == 75000) {
            /* A window of 8 MiB does not fill 500 Mbit/s over 150 ms; this is what a
             * transfer would get, too. */
            ck_assert_double_gt(bytes_per_us(&event), 8.0 * 1048576 / 150000 * 0.8);
            continue;
        }
        check_rate(&event, (double)links[i].bytes_per_ms / 1000);
        ck_assert(event.probe);
    }
}
END_TEST

START_TEST(what_says_little_about_the_link_is_a_lower_bound_or_nothing)
{
    /* Too small. */
    struct bulk_event event = rate_over_link(BULK_FORWARD, 200 << 10, 12500, 20000, true);
    ck_assert_uint_eq(event.epoch, 0);
    /* A copy over a long fat link is held up by its own pace. */
    event = rate_over_link(BULK_COPY, 8 << 20, 125000, 50000, true);
    ck_assert_uint_eq(event.epoch, 1);
    ck_assert(event.limited);
    /* A probe that is over before the link is full. */
    event = rate_over_link(BULK_PROBE, 200 << 10, 125000, 20000, true);
    ck_assert_uint_eq(event.epoch, 1);
    ck_assert(event.limited);
    event = rate_over_link(BULK_PROBE, 1000, 12500, 20000, true);
    ck_assert_uint_eq(event.epoch, 0);
}
END_TEST

START_TEST(a_probe_waits_for_a_reduction_at_either_end)
{
    struct world *world = world_pair();
    struct letter *away = letter_new(world, 1, 0, 2, BULK_REDUCE, 100);
    letter_post(world, away, false);
    flow_probe(world->flows[0], 1, 1 << 20, 0, world->now_us);
    struct letter *reduced = letter_new(world, 1, 2, 0, BULK_REDUCE, 100);
    letter_post(world, reduced, true);
    world_quiesce(world);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 0);
    letter_post(world, reduced, false);
    letter_post(world, away, true);
    struct letter *far = letter_new(world, 1, 2, 1, BULK_REDUCE, 100);
    letter_post(world, far, true);
    world_quiesce(world);
    ck_assert_int_eq(reduced->receive_done, 1);
    /* The sender's is over, the receiver's has begun: no credit comes back. */
    ck_assert_int_eq(world->events[0][BULK_PROBED], 0);
    letter_post(world, far, false);
    world_quiesce(world);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 1);
    ck_assert_int_eq(world->last[0][BULK_PROBED].bytes, 1 << 20);
    world_free(world);
}
END_TEST

START_TEST(a_probe_of_a_peer_that_is_not_reached_ends_at_once)
{
    struct world *world = world_pair();
    flow_probe(world->flows[0], 1, 1 << 20, 0, world->now_us);
    ck_assert(world_transmit(world, 0));
    flow_down(world->flows[0], 1);
    world_settle(world, 0);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 1);
    ck_assert_int_gt(world->last[0][BULK_PROBED].bytes, 0);
    flow_probe(world->flows[0], 1, 1 << 20, 0, world->now_us);
    world_settle(world, 0);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 2);
    ck_assert_int_eq(world->last[0][BULK_PROBED].bytes, 0);
    /* An epoch's end is a probe's, once. */
    flow_probe(world->flows[0], 2, 1 << 20, 0, world->now_us);
    ck_assert(world_transmit(world, 0));
    flow_halt(world->flows[0]);
    world_settle(world, 0);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 3);
    world_enter(world, 0, 2);
    world_settle(world, 0);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 3);
    world_free(world);
}
END_TEST

START_TEST(a_halted_epoch_still_carries_probes)
{
    struct world *world = world_pair();
    flow_halt(world->flows[0]);
    flow_halt(world->flows[1]);
    flow_probe(world->flows[0], 1, 1 << 20, 0, world->now_us);
    world_quiesce(world);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 1);
    flow_probe(world->flows[0], 0, 1 << 20, 0, world->now_us);
    flow_probe(world->flows[0], -1, 1 << 20, 0, world->now_us);
    flow_probe(world->flows[0], NODES, 1 << 20, 0, world->now_us);
    world_quiesce(world);
    ck_assert_int_eq(world->events[0][BULK_PROBED], 1);
    world_free(world);
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
    tcase_add_test(rate, the_receiver_finds_the_rate_of_a_link);
    tcase_add_test(rate, a_probe_finds_rates_from_1_mbit_to_1_gbit_over_any_delay);
    tcase_add_test(rate, what_says_little_about_the_link_is_a_lower_bound_or_nothing);
    tcase_add_test(rate, a_probe_waits_for_a_reduction_at_either_end);
    tcase_add_test(rate, a_probe_of_a_peer_that_is_not_reached_ends_at_once);
    tcase_add_test(rate, a_halted_epoch_still_carries_probes);
    return suite;
}
