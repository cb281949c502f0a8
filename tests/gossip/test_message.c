#include "gossip/message.h"
#include "tests/gossip/talk.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_message(void);

/* Hand over the bytes, and see that an error left no trace. */
static void
damaged(enum frame_kind kind, const void *bytes, size_t len)
{
    uint64_t before = talk_fingerprint();
    uint8_t *copy = xmemdup(bytes, len); /* of this very size: reads past the end show */
    err = (struct err){0};
    if (talk_receive_bytes(1, kind, copy, len)) {
        ck_assert(err.code == ERR_WIRE || err.code == ERR_AUTH);
        ck_assert_uint_gt(strlen(err.msg), 10);
        ck_assert_uint_eq(effects.count, 0);
        ck_assert_uint_eq(talk_fingerprint(), before);
    }
    effects_clear(&effects);
    free(copy);
}

static void
damage_all(enum frame_kind kind, const struct buf *body)
{
    for (size_t len = 0; len < body->len; len++)
        damaged(kind, body->data, len);
    for (size_t at = 0; at < body->len; at++)
        for (unsigned step = 0; step < 3; step++) {
            static const uint8_t flips[3] = {0x01, 0x80, 0xff};
            body->data[at] ^= flips[step];
            damaged(kind, body->data, body->len);
            body->data[at] ^= flips[step];
        }
}

START_TEST(damaged_messages_leave_no_trace)
{
    static const enum frame_kind kinds[] = {FRAME_PING, FRAME_PING_REPLY,
                                            FRAME_PING_RELAY, FRAME_RUMORS};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        talk_begin(5, 4);
        struct draft draft = {
            .nonce = 7, .subject = net.nodes[2].id, .incarnation = 1ULL << 32};
        talk_state(&draft, 3, (1ULL << 32) + 1, 1, 2, ACCUSE_SUSPECT);
        talk_state(&draft, 4, 1ULL << 32, 0, 0, ACCUSE_NOTHING);
        talk_announce(&draft, 2, 1ULL << 32, 7, 1, 1, ACCUSE_DEAD);
        draft_ask(&draft, id_prefix(&net.nodes[2].id));
        struct buf body = {0};
        draft_encode(&draft, &body);
        draft_release(&draft);
        damage_all(kinds[i], &body);
        buf_release(&body);
        talk_end();
    }
}
END_TEST

static void
damage_digest(const struct digest *digest)
{
    struct buf body = {0};
    digest_encode(digest, &body);
    damage_all(FRAME_DIGEST, &body);
    buf_release(&body);
}

START_TEST(damaged_digests_leave_no_trace)
{
    talk_begin(4, 4);
    struct digest_entry entries[3] = {{4, 1ULL << 32, 0, MEMBER_ALIVE},
                                      {5, 1ULL << 32, 1, MEMBER_SUSPECT},
                                      {9, 7ULL << 32, 2, MEMBER_DEAD}};
    uint64_t words[4] = {0, 77, UINT64_MAX, 3};
    damage_digest(&(struct digest){.salt = 5,
                                   .lists = true,
                                   .words = words,
                                   .words_count = 1,
                                   .entries = entries,
                                   .count = 3});
    damage_digest(
        &(struct digest){.salt = 6, .bits = 2, .words = words, .words_count = 4});
    talk_end();
}
END_TEST

START_TEST(messages_survive_their_encoding)
{
    net_open(&net, 1, 6);
    struct rng rng = {.seed = suite_seed("messages_survive_their_encoding", 1)};
    for (int round = 0; round < 50; round++) {
        struct draft draft = {.nonce = rng_next(&rng),
                              .subject = net.nodes[rng_below(&rng, 6)].id,
                              .answered = rng_below(&rng, 2),
                              .incarnation = rng_next(&rng),
                              .version = rng_next(&rng)};
        struct buf body = {0};
        struct message message;
        struct record record;
        uint32_t accusers = (uint32_t)rng_below(&rng, 5);
        talk_state(&draft, 0, 77, 1, accusers, ACCUSE_DEAD);
        talk_announce(&draft, 5, 1ULL << 40, 9, 1, accusers, ACCUSE_SUSPECT);
        draft_ask(&draft, 5);
        draft_ask(&draft, UINT64_MAX);
        draft_encode(&draft, &body);
        ck_assert_int_eq(message_decode(body.data, body.len, &message, &err), 0);
        ck_assert_uint_eq(message.nonce, draft.nonce);
        ck_assert(id_equal(&message.subject, &draft.subject));
        ck_assert_int_eq(message.answered, draft.answered);
        ck_assert_uint_eq(message.incarnation, draft.incarnation);
        ck_assert_uint_eq(message.version, draft.version);
        ck_assert_uint_eq(message.count, 2);
        ck_assert_uint_eq(message.statements[0].accusations_count, accusers);
        ck_assert_ptr_nonnull(talk_said(&message, 0, &record));
        ck_assert_uint_eq(record.incarnation, 77);
        const struct statement *other = talk_announced(&message, 5);
        ck_assert_ptr_nonnull(other);
        ck_assert_uint_eq(other->incarnation, 1ULL << 40);
        ck_assert_uint_eq(other->version, 9);
        ck_assert_uint_eq(other->accusations_count, accusers);
        ck_assert_uint_eq(message.asks_count, 2);
        ck_assert_uint_eq(message.asks[1], UINT64_MAX);
        message_release(&message);
        draft_release(&draft);
        buf_release(&body);
    }
    net_close(&net);
}
END_TEST

Suite *
suite_message(void)
{
    Suite *suite = suite_create("message");
    TCase *tests = suite_case(suite, "damage", 120);
    tcase_add_test(tests, damaged_messages_leave_no_trace);
    tcase_add_test(tests, damaged_digests_leave_no_trace);
    tcase_add_test(tests, messages_survive_their_encoding);
    return suite;
}
