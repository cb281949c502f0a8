#include "tests/suite.h"
#include "tests/transport/bulk_cast.h"
#include "tests/transport/harness.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

static enum bulk_port_kind
port_kind(int channel)
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

Suite *suite_bulk(void);

Suite *
suite_bulk(void)
{
    Suite *suite = suite_create("bulk");
    TCase *bytes = suite_case(suite, "bytes", 60);
    tcase_add_test(bytes, messages_arrive_byte_for_byte_on_all_channels);
    return suite;
}
