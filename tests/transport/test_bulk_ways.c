/*
 * test_bulk_ways.c - data between nodes of whom one, or neither, can dial the other.
 */
#include "tests/suite.h"
#include "tests/transport/bulk_cast.h"
#include "tests/transport/harness.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_bulk_ways(void);

struct letter {
    int from, to;
    enum bulk_channel channel;
    uint64_t tag;
    size_t bytes;
    uint8_t *sent, *received;
    uint32_t send, receive;
};

static size_t
some_size(struct rng *rng)
{
    size_t sizes[] = {rng_below(rng, 100), rng_below(rng, 70000),
                      rng_below(rng, 2 << 20)};
    return sizes[rng_below(rng, 3)];
}

/* Letters between 0 and 1, both ways and on four channels; sends before or after their
 * receives. Each is compared. */
static void
correspond(struct cast *cast, int count, uint64_t seed)
{
    static const enum bulk_channel channels[] = {BULK_COMMIT, BULK_FORWARD, BULK_BACKWARD,
                                                 BULK_REDUCE};
    struct rng rng = {.seed = seed};
    struct letter *letters = xcalloc((size_t)count, sizeof(*letters));
    for (int i = 0; i < count; i++) {
        struct letter *letter = &letters[i];
        letter->from = (int)rng_below(&rng, 2);
        letter->to = 1 - letter->from;
        letter->channel = channels[rng_below(&rng, 4)];
        letter->tag = rng_next(&rng);
        letter->bytes = some_size(&rng);
        letter->sent = xcalloc(letter->bytes + 1, 1);
        letter->received = xcalloc(letter->bytes + 1, 1);
        cast_fill(letter->sent, letter->bytes, letter->tag);
    }
    int sent = 0, received = 0;
    while (sent < count || received < count) {
        bool send = received == count || (sent < count && rng_below(&rng, 2));
        struct letter *letter = &letters[send ? sent++ : received++];
        if (send)
            letter->send =
                bulk_send(cast_port(cast, letter->from, BULK_ENGINE), letter->to,
                          letter->channel, letter->tag, letter->sent, letter->bytes);
        else
            letter->receive = bulk_receive(cast_port(cast, letter->to, BULK_ENGINE),
                                           letter->from, letter->channel, letter->tag,
                                           letter->received, letter->bytes);
    }
    for (int i = 0; i < count; i++) {
        struct letter *letter = &letters[i];
        struct err err = {0};
        ck_assert_msg(bulk_wait(cast_port(cast, letter->to, BULK_ENGINE), letter->receive,
                                20000, &err) == 0,
                      "letter %d of %zu bytes from %d: %s", i, letter->bytes,
                      letter->from, err.msg);
        ck_assert_msg(bulk_wait(cast_port(cast, letter->from, BULK_ENGINE), letter->send,
                                20000, &err) == 0,
                      "%s", err.msg);
        ck_assert_msg(cast_filled(letter->received, letter->bytes, letter->tag),
                      "letter %d of %zu bytes differs", i, letter->bytes);
        free(letter->sent);
        free(letter->received);
    }
    free(letters);
}

/* By which way `self` reported `peer` last. */
static enum bulk_way
way_of(const struct cast *cast, int self, int peer)
{
    return cast->ways[self][peer];
}

START_TEST(both_directions_run_over_the_side_that_could_connect)
{
    struct cast cast;
    cast_open(&cast, 2);
    cast.blocked[1][0] = true;
    cast_enter_all(&cast, 1);
    ck_assert_int_eq(way_of(&cast, 0, 1), BULK_OUT);
    ck_assert_int_eq(way_of(&cast, 1, 0), BULK_BACK);
    correspond(&cast, 80,
               suite_seed("both_directions_run_over_the_side_that_could_connect", 3));
    /* And on: the connection outlives the epoch, the way is found again. */
    for (uint64_t epoch = 2; epoch < 5; epoch++) {
        cast_enter_all(&cast, epoch);
        correspond(&cast, 20, epoch);
    }
    ck_assert_int_eq(cast.events[0][BULK_LOST], 0);
    ck_assert_int_eq(cast.events[1][BULK_LOST], 0);
    cast_close(&cast);
}
END_TEST

START_TEST(when_the_only_connection_closes_both_sides_say_so)
{
    struct cast cast;
    cast_open(&cast, 2);
    cast.blocked[1][0] = true;
    cast_enter_all(&cast, 1);
    correspond(&cast, 4, 1);
    cast_kill(&cast, 0);
    ck_assert(cast_event(&cast, 1, BULK_LOST, 2000));
    ck_assert_int_eq(cast.last[1][BULK_LOST].peer, 0);
    cast_revive(&cast, 0);
    cast_enter_all(&cast, 2);
    correspond(&cast, 10, 2);
    cast_close(&cast);
}
END_TEST

START_TEST(a_third_member_carries_between_two_that_cannot_connect)
{
    struct cast cast;
    cast_open(&cast, 3);
    cast.blocked[0][1] = cast.blocked[1][0] = true;
    cast_enter_all(&cast, 1);
    ck_assert_int_eq(way_of(&cast, 0, 1), BULK_ROUND);
    ck_assert_int_eq(way_of(&cast, 1, 0), BULK_ROUND);
    ck_assert_int_eq(way_of(&cast, 0, 2), BULK_OUT);
    ck_assert(id_equal(&cast.last[0][BULK_UP].via, &cast.peers[2].id) ||
              cast.last[0][BULK_UP].peer == 2);
    correspond(&cast, 60,
               suite_seed("a_third_member_carries_between_two_that_cannot_connect", 5));
    uint64_t chunks, bytes;
    bulk_carried(cast.bulks[2], &chunks, &bytes);
    ck_assert_uint_gt(chunks, 60);
    ck_assert_uint_gt(bytes, 1 << 20);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(cast.events[i][BULK_LOST], 0);
    cast_enter_all(&cast, 2);
    correspond(&cast, 20, 9);
    cast_close(&cast);
}
END_TEST

START_TEST(a_carrier_may_itself_be_one_that_cannot_be_dialled)
{
    struct cast cast;
    cast_open(&cast, 3);
    cast.blocked[0][1] = cast.blocked[1][0] = true;
    cast.blocked[0][2] = cast.blocked[1][2] = true; /* 2 dials them */
    cast_enter_all(&cast, 1);
    ck_assert_int_eq(way_of(&cast, 0, 2), BULK_BACK);
    ck_assert_int_eq(way_of(&cast, 0, 1), BULK_ROUND);
    correspond(&cast, 30, 11);
    cast_close(&cast);
}
END_TEST

START_TEST(a_carrier_that_dies_is_a_loss_and_the_next_epoch_finds_another)
{
    struct cast cast;
    cast_open(&cast, 4);
    cast.blocked[0][1] = cast.blocked[1][0] = true;
    cast_enter_all(&cast, 1);
    correspond(&cast, 6, 13);
    int via = id_equal(&cast.vias[0][1], &cast.peers[2].id) ? 2 : 3;
    cast_kill(&cast, via);
    ck_assert(cast_event(&cast, 0, BULK_LOST, 3000));
    cast_run(&cast, 200);
    /* Both of its own loss and, behind it, of whom it carried for. */
    ck_assert_int_ge(cast.events[0][BULK_LOST], 2);
    cast_enter_all(&cast, 2);
    ck_assert_int_eq(way_of(&cast, 0, 1), BULK_ROUND);
    ck_assert(!id_equal(&cast.vias[0][1], &cast.peers[via].id));
    correspond(&cast, 10, 15);
    cast_close(&cast);
}
END_TEST

START_TEST(one_that_is_lazy_is_dialled_when_there_is_something_for_it)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    cast.peers[0].lazy = cast.peers[1].lazy = true;
    cast_enter(&cast, 0, 1);
    cast_enter(&cast, 1, 1);
    cast_run(&cast, 2500);
    ck_assert_int_eq(cast.events[0][BULK_UP] + cast.events[0][BULK_LOST], 0);
    uint8_t word = 5, got = 0;
    uint32_t receive =
        bulk_receive(cast_port(&cast, 1, BULK_STORE), 0, BULK_STATE, 1, &got, 1);
    uint32_t send =
        bulk_send(cast_port(&cast, 0, BULK_STORE), 1, BULK_STATE, 1, &word, 1);
    ck_assert(cast_event(&cast, 0, BULK_UP, 3000));
    ck_assert_int_eq(cast.events[1][BULK_UP], 0); /* it has nothing to say itself */
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 1, BULK_STORE), receive, 3000, &err), 0);
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 0, BULK_STORE), send, 3000, &err), 0);
    ck_assert_uint_eq(got, 5);
    cast_close(&cast);
}
END_TEST

Suite *
suite_bulk_ways(void)
{
    Suite *suite = suite_create("bulk_ways");
    TCase *tests = suite_case(suite, "ways", 60);
    tcase_add_test(tests, both_directions_run_over_the_side_that_could_connect);
    tcase_add_test(tests, when_the_only_connection_closes_both_sides_say_so);
    tcase_add_test(tests, a_third_member_carries_between_two_that_cannot_connect);
    tcase_add_test(tests, a_carrier_may_itself_be_one_that_cannot_be_dialled);
    tcase_add_test(tests, a_carrier_that_dies_is_a_loss_and_the_next_epoch_finds_another);
    tcase_add_test(tests, one_that_is_lazy_is_dialled_when_there_is_something_for_it);
    return suite;
}
