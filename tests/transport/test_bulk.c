#include "tests/suite.h"
#include "tests/transport/bulk_cast.h"
#include "tests/transport/harness.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static enum bulk_port_kind
port_kind(enum bulk_channel channel)
{
    return channel <= BULK_REDUCE ? BULK_ENGINE : BULK_STORE;
}

/* ---- bytes ---- */

struct letter {
    int from, to;
    enum bulk_channel channel;
    uint64_t tag;
    size_t bytes;
    uint8_t *sent, *received;
    uint32_t send, receive;
};

static size_t
random_size(struct rng *rng)
{
    switch (rng_below(rng, 4)) {
    case 0:
        return rng_below(rng, 3);
    case 1:
        return rng_below(rng, 5000);
    case 2:
        return CHUNK_BYTES - 2 + rng_below(rng, 5);
    default:
        return rng_below(rng, 3 << 20);
    }
}

START_TEST(messages_arrive_byte_for_byte_on_all_channels)
{
    enum { NODES = 3, LETTERS = 120 };
    struct cast cast;
    cast_open(&cast, NODES);
    cast_enter_all(&cast, 1);
    struct rng rng = {.seed =
                          suite_seed("messages_arrive_byte_for_byte_on_all_channels", 7)};
    struct letter *letters = xcalloc(LETTERS, sizeof(*letters));
    for (int i = 0; i < LETTERS; i++) {
        struct letter *letter = &letters[i];
        letter->from = (int)rng_below(&rng, NODES);
        letter->to = (letter->from + 1 + (int)rng_below(&rng, NODES - 1)) % NODES;
        letter->channel = (enum bulk_channel)rng_below(&rng, BULK_PROBE);
        letter->tag = rng_next(&rng);
        letter->bytes = random_size(&rng);
        letter->sent = xcalloc(letter->bytes + 1, 1);
        letter->received = xcalloc(letter->bytes + 1, 1);
        cast_fill(letter->sent, letter->bytes, letter->tag);
    }
    /* Sends and receives each in order, and otherwise in any: some chunks come before
     * their receive. */
    int sent = 0, received = 0;
    while (sent < LETTERS || received < LETTERS) {
        bool send = received == LETTERS || (sent < LETTERS && rng_below(&rng, 2));
        struct letter *letter = &letters[send ? sent++ : received++];
        enum bulk_port_kind kind = port_kind(letter->channel);
        if (send)
            letter->send =
                bulk_send(cast_port(&cast, letter->from, kind), letter->to,
                          letter->channel, letter->tag, letter->sent, letter->bytes);
        else
            letter->receive = bulk_receive(cast_port(&cast, letter->to, kind),
                                           letter->from, letter->channel, letter->tag,
                                           letter->received, letter->bytes);
    }
    for (int i = 0; i < LETTERS; i++) {
        struct letter *letter = &letters[i];
        struct err err = {0};
        enum bulk_port_kind kind = port_kind(letter->channel);
        ck_assert_msg(bulk_wait(cast_port(&cast, letter->to, kind), letter->receive,
                                20000, &err) == 0,
                      "%s", err.msg);
        ck_assert_msg(bulk_wait(cast_port(&cast, letter->from, kind), letter->send, 20000,
                                &err) == 0,
                      "%s", err.msg);
        ck_assert_msg(cast_filled(letter->received, letter->bytes, letter->tag),
                      "letter %d of %zu bytes differs", i, letter->bytes);
        free(letter->sent);
        free(letter->received);
    }
    free(letters);
    cast_close(&cast);
}
END_TEST

/* ---- epochs ---- */

static void
exchange(struct cast *cast, int from, int to, size_t bytes)
{
    uint8_t *out = xcalloc(bytes, 1), *in = xcalloc(bytes, 1);
    struct err err = {0};
    cast_fill(out, bytes, bytes);
    uint32_t receive =
        bulk_receive(cast_port(cast, to, BULK_ENGINE), from, BULK_FORWARD, 1, in, bytes);
    uint32_t send =
        bulk_send(cast_port(cast, from, BULK_ENGINE), to, BULK_FORWARD, 1, out, bytes);
    ck_assert_msg(bulk_wait(cast_port(cast, to, BULK_ENGINE), receive, 10000, &err) == 0,
                  "%s", err.msg);
    ck_assert_msg(bulk_wait(cast_port(cast, from, BULK_ENGINE), send, 10000, &err) == 0,
                  "%s", err.msg);
    ck_assert(cast_filled(in, bytes, bytes));
    free(out);
    free(in);
}

/* How long a halt takes to end everything that node 0 waits for. */
static int64_t
halt_ms(struct cast *cast, uint8_t *data, size_t bytes)
{
    struct err err = {0};
    struct bulk_port *engine = cast_port(cast, 0, BULK_ENGINE);
    struct bulk_port *store = cast_port(cast, 0, BULK_STORE);
    uint32_t send = bulk_send(engine, 1, BULK_FORWARD, 1, data, bytes);
    uint32_t receive = bulk_receive(engine, 1, BULK_BACKWARD, 1, data, 100);
    for (int i = 0; i < 100; i++)
        bulk_receive(store, 1, BULK_STATE, 1, data, 100);
    ck_assert_int_eq(bulk_wait(engine, receive, 50, &err), -1);
    ck_assert_int_eq(err.code, ERR_PEER);
    ck_assert(!bulk_test(engine, receive));
    ck_assert(!bulk_port_stopped(engine));

    int64_t began_ms = clock_ms();
    bulk_halt(cast->bulks[0]);
    ck_assert(bulk_port_stopped(engine));
    ck_assert_int_eq(bulk_wait(engine, send, -1, &err), -1);
    ck_assert_int_eq(err.code, ERR_STOPPED);
    ck_assert_int_eq(bulk_wait(engine, receive, -1, &err), -1);
    bulk_port_drain(store);
    int64_t took_ms = clock_ms() - began_ms;
    memset(data, 1, bytes); /* ours again: the sanitizers would object otherwise */
    return took_ms;
}

START_TEST(a_halt_ends_every_wait_at_once)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    size_t bytes = 40 << 20; /* more than a window: cannot be sent */
    uint8_t *data = xcalloc(bytes, 1);
    int64_t best_ms =
        INT64_MAX; /* of three, since other programs want the processors, too */
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        cast_enter_all(&cast, epoch);
        int64_t took_ms = halt_ms(&cast, data, bytes);
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    ck_assert_int_lt(best_ms, 100);
    free(data);

    struct bulk_port *engine = cast_port(&cast, 0, BULK_ENGINE);
    uint32_t late = bulk_send(engine, 1, BULK_COMMIT, 1, NULL, 0);
    ck_assert_int_eq(bulk_wait(engine, late, 1000, &err), -1);
    ck_assert_int_eq(err.code, ERR_STOPPED);
    cast_close(&cast);
}
END_TEST

START_TEST(a_new_epoch_takes_milliseconds_and_keeps_its_connections)
{
    struct cast cast;
    cast_open(&cast, 3);
    cast_enter_all(&cast, 1);
    for (uint64_t epoch = 2; epoch < 30; epoch++) {
        cast_enter_all(&cast, epoch);
        exchange(&cast, (int)(epoch % 3), (int)((epoch + 1) % 3), 600000);
    }
    int64_t best_ms = INT64_MAX;
    for (uint64_t epoch = 30; epoch < 35; epoch++) {
        int64_t began_ms = clock_ms();
        cast_enter_all(&cast, epoch);
        int64_t took_ms = clock_ms() - began_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    ck_assert_int_lt(best_ms, 50);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(cast.events[i][BULK_LOST], 0);
    cast_close(&cast);
}
END_TEST

START_TEST(chunks_of_an_older_epoch_are_refused_and_reported)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    cast_enter_all(&cast, 1);
    cast_enter(&cast, 1, 2);
    struct bulk_port *port = cast_port(&cast, 0, BULK_ENGINE);
    uint64_t word = 7, got = 0;
    uint32_t receive =
        bulk_receive(cast_port(&cast, 1, BULK_ENGINE), 0, BULK_COMMIT, 1, &got, 8);
    uint32_t send = bulk_send(port, 1, BULK_COMMIT, 1, &word, 8);
    ck_assert_int_eq(bulk_wait(port, send, 2000, &err), 0);
    ck_assert(cast_event(&cast, 1, BULK_STALE, 2000));
    ck_assert_int_eq(cast.last[1][BULK_STALE].peer, 0);
    ck_assert(id_equal(&cast.last[1][BULK_STALE].id, &cast.peers[0].id));
    ck_assert(!bulk_test(cast_port(&cast, 1, BULK_ENGINE), receive));
    /* The same name in the new epoch is another message. */
    cast_enter(&cast, 0, 2);
    word = 8;
    bulk_send(port, 1, BULK_COMMIT, 1, &word, 8);
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 1, BULK_ENGINE), receive, 2000, &err), 0);
    ck_assert_uint_eq(got, 8);
    bulk_port_drain(port);
    cast_close(&cast);
}
END_TEST

START_TEST(chunks_of_a_newer_epoch_wait_for_it)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    cast_enter_all(&cast, 1);
    cast_enter(&cast, 0, 2);
    size_t bytes = 3 << 20;
    uint8_t *out = xcalloc(bytes, 1), *in = xcalloc(bytes, 1);
    cast_fill(out, bytes, 1);
    struct bulk_port *sender = cast_port(&cast, 0, BULK_ENGINE);
    struct bulk_port *receiver = cast_port(&cast, 1, BULK_ENGINE);
    uint32_t send = bulk_send(sender, 1, BULK_FORWARD, 1, out, bytes);
    ck_assert_int_eq(bulk_wait(sender, send, 5000, &err), 0);
    ck_assert(cast_event(&cast, 1, BULK_NEWER, 2000));
    ck_assert(id_equal(&cast.last[1][BULK_NEWER].id, &cast.peers[0].id));
    cast_run(&cast, 50);
    cast_enter(&cast, 1, 2);
    uint32_t receive = bulk_receive(receiver, 0, BULK_FORWARD, 1, in, bytes);
    ck_assert_int_eq(bulk_wait(receiver, receive, 5000, &err), 0);
    ck_assert(cast_filled(in, bytes, 1));
    free(out);
    free(in);
    cast_close(&cast);
}
END_TEST

START_TEST(an_operation_may_follow_its_epoch_at_once)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    for (uint64_t epoch = 0; epoch < 300; epoch++) {
        cast_enter(&cast, 0, epoch);
        uint32_t receive =
            bulk_receive(cast_port(&cast, 0, BULK_ENGINE), 1, BULK_COMMIT, 1, NULL, 0);
        ck_assert_int_eq(bulk_wait(cast_port(&cast, 0, BULK_ENGINE), receive, 0, &err),
                         -1);
        ck_assert_msg(err.code == ERR_PEER, "%s", err.msg);
        bulk_port_enter(cast_port(&cast, 0, BULK_STORE), epoch + 1); /* not there yet */
        uint32_t early =
            bulk_receive(cast_port(&cast, 0, BULK_STORE), 1, BULK_STATE, 1, NULL, 0);
        ck_assert_int_eq(bulk_wait(cast_port(&cast, 0, BULK_STORE), early, 2000, &err),
                         -1);
        ck_assert_int_eq(err.code, ERR_STOPPED);
        bulk_halt(cast.bulks[0]);
        bulk_port_drain(cast_port(&cast, 0, BULK_ENGINE));
    }
    cast_close(&cast);
}
END_TEST

/* ---- loss ---- */

START_TEST(a_peer_that_dies_is_reported_and_comes_back_in_a_later_epoch)
{
    struct cast cast;
    cast_open(&cast, 3);
    cast_enter_all(&cast, 1);
    exchange(&cast, 0, 1, 1 << 20);
    cast_kill(&cast, 1);
    int64_t began_ms = clock_ms();
    ck_assert(cast_event(&cast, 0, BULK_LOST, 2000));
    ck_assert(cast_event(&cast, 2, BULK_LOST, 2000));
    ck_assert_int_lt(clock_ms() - began_ms,
                     1500); /* not the two seconds of a failing dial */
    ck_assert_int_eq(cast.last[0][BULK_LOST].peer, 1);
    ck_assert_uint_eq(cast.last[0][BULK_LOST].epoch, 1);
    exchange(&cast, 0, 2, 1 << 20); /* the others go on */
    cast_revive(&cast, 1);
    cast_enter_all(&cast, 2);
    exchange(&cast, 0, 1, 1 << 20);
    exchange(&cast, 1, 2, 1 << 20);
    cast_close(&cast);
}
END_TEST

START_TEST(a_peer_that_is_not_there_is_reported_after_two_seconds)
{
    struct cast cast;
    cast_open(&cast, 2);
    cast_kill(&cast, 1);
    cast.peers[1].base =
        harness_address(); /* the old one is closed only in the background */
    cast_enter(&cast, 0, 1);
    int64_t began_ms = clock_ms();
    ck_assert(cast_event(&cast, 0, BULK_LOST, 5000));
    ck_assert_int_ge(clock_ms() - began_ms, 1500);
    /* It is dialled on, and what was posted meanwhile arrives. */
    struct err err = {0};
    uint64_t word = 5, got = 0;
    uint32_t send =
        bulk_send(cast_port(&cast, 0, BULK_ENGINE), 1, BULK_COMMIT, 1, &word, 8);
    cast_revive(&cast, 1);
    cast_enter(&cast, 1, 1);
    ck_assert(cast_event(&cast, 0, BULK_UP, 5000));
    uint32_t receive =
        bulk_receive(cast_port(&cast, 1, BULK_ENGINE), 0, BULK_COMMIT, 1, &got, 8);
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 1, BULK_ENGINE), receive, 5000, &err), 0);
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 0, BULK_ENGINE), send, 5000, &err), 0);
    ck_assert_uint_eq(got, 5);
    cast_close(&cast);
}
END_TEST

START_TEST(a_port_in_use_has_a_sentence)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 1);
    struct bulk_options options = {.key = cast.keys[0], .listen = cast.peers[0].base};
    ck_assert_ptr_null(bulk_open(&options, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "port"));
    cast_close(&cast);
}
END_TEST

/* ---- pressure ---- */

START_TEST(a_copy_at_full_speed_does_not_delay_a_norm)
{
    enum { ROUNDS = 60 };
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    cast_enter_all(&cast, 1);
    size_t bytes = 512 << 20;
    uint8_t *data = alloc_arena(bytes), *copy = alloc_arena(bytes);
    ck_assert(data && copy);
    /* How long 16 MiB take on this machine as it is now: were the norm behind a full
     * window, it would wait for half of it. */
    size_t some = 16 << 20;
    int64_t some_us = clock_us();
    uint32_t get_some =
        bulk_receive(cast_port(&cast, 1, BULK_STORE), 0, BULK_COPY, 0, copy, some);
    bulk_send(cast_port(&cast, 0, BULK_STORE), 1, BULK_COPY, 0, data, some);
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 1, BULK_STORE), get_some, 20000, &err),
                     0);
    some_us = clock_us() - some_us;
    uint32_t receive =
        bulk_receive(cast_port(&cast, 1, BULK_STORE), 0, BULK_COPY, 1, copy, bytes);
    bulk_send(cast_port(&cast, 0, BULK_STORE), 1, BULK_COPY, 1, data, bytes);
    int64_t took_us[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t word = (uint64_t)i, got = 0;
        int64_t began_us = clock_us();
        uint32_t get =
            bulk_receive(cast_port(&cast, 1, BULK_ENGINE), 0, BULK_COMMIT, 1, &got, 8);
        uint32_t put =
            bulk_send(cast_port(&cast, 0, BULK_ENGINE), 1, BULK_COMMIT, 1, &word, 8);
        ck_assert_int_eq(bulk_wait(cast_port(&cast, 1, BULK_ENGINE), get, 5000, &err), 0);
        ck_assert_int_eq(bulk_wait(cast_port(&cast, 0, BULK_ENGINE), put, 5000, &err), 0);
        took_us[i] = clock_us() - began_us;
        ck_assert_uint_eq(got, word);
    }
    for (int i = 0; i < ROUNDS; i++) /* the median, by insertion */
        for (int j = i; j > 0 && took_us[j] < took_us[j - 1]; j--) {
            int64_t swap = took_us[j];
            took_us[j] = took_us[j - 1];
            took_us[j - 1] = swap;
        }
    ck_assert_msg(!bulk_test(cast_port(&cast, 1, BULK_STORE), receive),
                  "the copy was over before it could disturb");
    ck_assert_int_lt(took_us[ROUNDS / 2], some_us / 4);
    bulk_halt(cast.bulks[0]);
    bulk_halt(cast.bulks[1]);
    bulk_port_drain(cast_port(&cast, 0, BULK_STORE));
    bulk_port_drain(cast_port(&cast, 1, BULK_STORE));
    arena_release(data, bytes);
    arena_release(copy, bytes);
    cast_close(&cast);
}
END_TEST

START_TEST(a_probe_tells_the_receiver_a_rate_and_the_sender_its_end)
{
    struct cast cast;
    cast_open(&cast, 2);
    cast_enter_all(&cast, 1);
    bulk_probe(cast.bulks[0], 1, 16 << 20, 0);
    ck_assert(cast_event(&cast, 1, BULK_RATE, 5000));
    ck_assert_int_gt(cast.last[1][BULK_RATE].bytes, 1 << 20);
    ck_assert_int_gt(cast.last[1][BULK_RATE].us, 0);
    ck_assert_int_eq(cast.last[1][BULK_RATE].peer, 0);
    ck_assert(cast.last[1][BULK_RATE].probe);
    ck_assert(cast_event(&cast, 0, BULK_PROBED, 5000));
    ck_assert_int_gt(cast.last[0][BULK_PROBED].bytes, 1 << 20);
    ck_assert_int_le(cast.last[0][BULK_PROBED].bytes, 16 << 20);
    ck_assert_int_eq(cast.last[0][BULK_PROBED].peer, 1);
    cast_close(&cast);
}
END_TEST

/* ---- strangers ---- */

START_TEST(a_key_that_is_not_admitted_gets_nowhere)
{
    struct cast cast;
    struct err err = {0};
    cast_open(&cast, 2);
    admit_deny(cast.admit, &cast.peers[1].id);
    cast.blocked[0][1] = true; /* or it would be let in by the side that admits */
    uint64_t refused = admit_refused(cast.admit);
    cast_enter(&cast, 0, 1);
    cast_enter(&cast, 1, 1);
    uint64_t word = 1, got = 0;
    uint32_t receive =
        bulk_receive(cast_port(&cast, 0, BULK_ENGINE), 1, BULK_COMMIT, 1, &got, 8);
    bulk_send(cast_port(&cast, 1, BULK_ENGINE), 0, BULK_COMMIT, 1, &word, 8);
    ck_assert(cast_event(&cast, 1, BULK_LOST, 4000));
    ck_assert_int_eq(cast.events[1][BULK_UP], 0);
    ck_assert(!bulk_test(cast_port(&cast, 0, BULK_ENGINE), receive));
    ck_assert_uint_gt(admit_refused(cast.admit), refused);
    /* A neighbour who is admitted a little late is no loss. */
    admit_allow(cast.admit, &cast.peers[1].id);
    ck_assert(cast_event(&cast, 1, BULK_UP, 3000));
    ck_assert_int_eq(bulk_wait(cast_port(&cast, 0, BULK_ENGINE), receive, 2000, &err), 0);
    bulk_port_drain(cast_port(&cast, 1, BULK_ENGINE));
    cast_close(&cast);
}
END_TEST

START_TEST(noise_and_silent_connections_disturb_nothing)
{
    enum { SILENT = 200 };
    struct cast cast;
    cast_open(&cast, 2);
    int silent[SILENT];
    for (int i = 0; i < SILENT; i++)
        silent[i] = harness_tcp(&cast.peers[0].base, ADDRESS_BULK);
    cast_enter_all(&cast, 1);
    struct rng rng = {.seed = 5};
    uint8_t noise[65536];
    for (int sent = 0, fd = -1; sent < 10 << 20; sent += (int)sizeof(noise)) {
        for (size_t i = 0; i < sizeof(noise); i += 8) {
            uint64_t word = rng_next(&rng);
            memcpy(noise + i, &word, 8);
        }
        if (fd < 0)
            fd = harness_tcp(&cast.peers[0].base, ADDRESS_BULK);
        if (send(fd, noise, sizeof(noise), MSG_NOSIGNAL) < (ssize_t)sizeof(noise) ||
            sent + (int)sizeof(noise) >= 10 << 20) {
            close(fd); /* it hung up on us */
            fd = -1;
        }
    }
    exchange(&cast, 0, 1, 5 << 20);
    exchange(&cast, 1, 0, 5 << 20);
    ck_assert_int_eq(cast.events[0][BULK_LOST], 0);
    ck_assert_int_eq(cast.events[1][BULK_LOST], 0);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    cast_close(&cast);
}
END_TEST

Suite *suite_bulk(void);

Suite *
suite_bulk(void)
{
    Suite *suite = suite_create("bulk");
    TCase *bytes = suite_case(suite, "bytes", 60);
    tcase_add_test(bytes, messages_arrive_byte_for_byte_on_all_channels);
    TCase *epochs = suite_case(suite, "epochs", 60);
    tcase_add_test(epochs, a_halt_ends_every_wait_at_once);
    tcase_add_test(epochs, a_new_epoch_takes_milliseconds_and_keeps_its_connections);
    tcase_add_test(epochs, chunks_of_an_older_epoch_are_refused_and_reported);
    tcase_add_test(epochs, chunks_of_a_newer_epoch_wait_for_it);
    tcase_add_test(epochs, an_operation_may_follow_its_epoch_at_once);
    TCase *loss = suite_case(suite, "loss", 60);
    tcase_add_test(loss, a_peer_that_dies_is_reported_and_comes_back_in_a_later_epoch);
    tcase_add_test(loss, a_peer_that_is_not_there_is_reported_after_two_seconds);
    tcase_add_test(loss, a_port_in_use_has_a_sentence);
    TCase *pressure = suite_case(suite, "pressure", 60);
    tcase_add_test(pressure, a_copy_at_full_speed_does_not_delay_a_norm);
    tcase_add_test(pressure, a_probe_tells_the_receiver_a_rate_and_the_sender_its_end);
    TCase *strangers = suite_case(suite, "strangers", 60);
    tcase_add_test(strangers, a_key_that_is_not_admitted_gets_nowhere);
    tcase_add_test(strangers, noise_and_silent_connections_disturb_nothing);
    return suite;
}
