#include "gossip/decree.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_decree(void);

static struct id
id_at(uint32_t at)
{
    struct id id = {{0}};
    id.bytes[0] = (uint8_t)(at >> 8);
    id.bytes[1] = (uint8_t)at;
    id.bytes[31] = 1;
    return id;
}

static struct decree
sample(uint32_t members, const char *body)
{
    struct decree decree = {.swarm = id_at(900),
                            .generation = 2,
                            .epoch = 2ull << EPOCH_NUMBER_BITS | 7,
                            .previous = id_at(901),
                            .cause = CAUSE_JOIN,
                            .members_count = members,
                            .members = xcalloc(members, sizeof(*decree.members)),
                            .body_len = strlen(body),
                            .body = xmemdup(body, strlen(body))};
    for (uint32_t i = 0; i < members; i++)
        decree.members[i] =
            (struct decree_member){.id = id_at(i), .incarnation = (uint64_t)i << 33};
    decree.voters_count =
        decree_next_voters(NULL, decree.members, members, decree.voters);
    key_hash(decree.body, decree.body_len, &decree.body_hash);
    return decree;
}

static int
decode_again(const struct decree *decree, struct decree *out, struct err *err)
{
    struct buf bytes = {0};
    decree_encode(decree, &bytes);
    int result = decree_decode(bytes.data, bytes.len, out, err);
    buf_release(&bytes);
    return result;
}

START_TEST(encode_then_decode_is_identity)
{
    static const uint32_t sizes[] = {1, 2, 9, 10, PLAN_NODES_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct decree decree = sample(sizes[i], i % 2 ? "" : "a plan"), back, copy;
        struct err err;
        ck_assert_int_eq(decode_again(&decree, &back, &err), 0);
        decree_copy(&copy, &back);
        struct buf first = {0}, second = {0};
        decree_encode(&decree, &first);
        decree_encode(&copy, &second);
        ck_assert_uint_eq(first.len, second.len);
        ck_assert_mem_eq(first.data, second.data, first.len);
        struct id hash, again;
        decree_hash(&decree, &hash);
        decree_hash(&back, &again);
        ck_assert(id_equal(&hash, &again));
        ck_assert_str_eq(decree_cause_name(back.cause), "join");
        buf_release(&first);
        buf_release(&second);
        decree_release(&decree);
        decree_release(&back);
        decree_release(&copy);
    }
}
END_TEST

START_TEST(header_alone_has_the_hash_and_no_body)
{
    struct decree decree = sample(4, "a plan"), header;
    struct buf bytes = {0};
    struct err err;
    struct id hash, again;
    decree_header_encode(&decree, &bytes);
    ck_assert_int_eq(decree_header_decode(bytes.data, bytes.len, &header, &err), 0);
    ck_assert_ptr_null(header.body);
    decree_hash(&decree, &hash);
    decree_hash(&header, &again);
    ck_assert(id_equal(&hash, &again));
    key_hash(bytes.data, bytes.len, &again);
    ck_assert(id_equal(&hash, &again));
    buf_release(&bytes);
    decree_release(&decree);
    decree_release(&header);
}
END_TEST

static void
refused(struct decree decree, const char *why)
{
    struct decree out;
    struct err err = {0};
    ck_assert_msg(decode_again(&decree, &out, &err) == -1, "%s", why);
    ck_assert_int_eq(err.code, ERR_WIRE);
    ck_assert_msg(strstr(err.msg, why), "\"%s\" does not say \"%s\"", err.msg, why);
    decree_release(&decree);
}

START_TEST(what_breaks_a_rule_is_refused_with_a_sentence)
{
    struct decree decree = sample(4, "a plan");
    decree.members[2].id = decree.members[1].id;
    refused(decree, "ascending");
    decree = sample(4, "a plan");
    decree.voters[3] = decree.voters[0];
    refused(decree, "named twice");
    decree = sample(4, "a plan");
    decree.voters[1] = id_at(77);
    refused(decree, "no member");
    decree = sample(4, "a plan");
    decree.body[0] ^= 1;
    refused(decree, "body");
    decree = sample(4, "a plan");
    decree.epoch = 0;
    refused(decree, "no epoch");
    decree = sample(4, "a plan");
    decree.generation = 0;
    decree.epoch = 1;
    refused(decree, "founding");
    decree = sample(4, "a plan");
    decree.generation = 1;
    refused(decree, "epoch of generation 2");
    decree = sample(4, "a plan");
    decree.generation = 0;
    decree.epoch = 7;
    decree.cause = CAUSE_RECOVERY;
    refused(decree, "generation of its own");
    decree = sample(4, "a plan");
    decree.cause = CAUSE_FOUNDING;
    refused(decree, "founding");
    decree = sample(4, "a plan");
    decree.swarm = (struct id){0};
    refused(decree, "founding");
    decree = sample(4, "a plan");
    decree.previous = (struct id){0};
    refused(decree, "follows nothing");
    decree = sample(4, "a plan");
    decree.voters_count = 0;
    refused(decree, "array of 0");
}
END_TEST

START_TEST(no_flipped_bit_and_no_cut_passes_for_the_same_decree)
{
    struct decree decree = sample(5, "a plan of some length"), out;
    struct buf bytes = {0};
    struct id hash, again;
    struct err err;
    decree_encode(&decree, &bytes);
    decree_hash(&decree, &hash);
    for (size_t len = 0; len < bytes.len; len++)
        ck_assert_int_eq(decree_decode(bytes.data, len, &out, &err), -1);
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (decree_decode(bytes.data, bytes.len, &out, &err) == 0) {
            decree_hash(&out, &again);
            ck_assert(!id_equal(&hash, &again));
            decree_release(&out);
        }
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buf_release(&bytes);
    decree_release(&decree);
}
END_TEST

START_TEST(up_to_nine_all_vote_then_seven)
{
    for (uint32_t count = 1; count <= 12; count++) {
        struct decree decree = sample(count, "");
        ck_assert_uint_eq(decree.voters_count, count <= 9 ? count : 7);
        for (uint32_t i = 0; i < decree.voters_count; i++)
            ck_assert(id_equal(&decree.voters[i], &decree.members[i].id));
        decree_release(&decree);
    }
}
END_TEST

START_TEST(those_who_vote_keep_their_order_and_come_first)
{
    struct decree now = sample(4, "");
    struct id third = id_at(2), first = id_at(0), fourth = id_at(3);
    now.voters[0] = third;
    now.voters[1] = fourth;
    now.voters[2] = first;
    now.voters_count = 3; /* member 1 does not vote yet */
    struct decree_member next[5];
    for (uint32_t i = 0; i < 5; i++)
        next[i].id = id_at(i + (i >= 3)); /* 0 1 2 4 5: member 3 is gone */
    struct id voters[VOTERS_MAX], second = id_at(1), fifth = id_at(4), sixth = id_at(5);
    ck_assert_uint_eq(decree_next_voters(&now, next, 5, voters), 5);
    ck_assert(id_equal(&voters[0], &third));
    ck_assert(id_equal(&voters[1], &first));
    ck_assert(id_equal(&voters[2], &second));
    ck_assert(id_equal(&voters[3], &fifth));
    ck_assert(id_equal(&voters[4], &sixth));
    decree_release(&now);
}
END_TEST

START_TEST(half_is_a_quorum_only_with_the_first_voter)
{
    for (uint32_t count = 1; count <= VOTERS_MAX; count++) {
        struct decree decree = sample(count, "");
        uint32_t all = (1u << count) - 1;
        for (uint32_t mask = 0; mask <= all; mask++) {
            uint32_t votes = (uint32_t)__builtin_popcount(mask);
            bool want = 2 * votes > count || (2 * votes == count && (mask & 1));
            ck_assert(decree_quorum(&decree, mask) == want);
            /* Two quorums share a voter. */
            ck_assert(
                !(decree_quorum(&decree, mask) && decree_quorum(&decree, all & ~mask)));
        }
        decree_release(&decree);
    }
}
END_TEST

START_TEST(members_and_voters_are_found)
{
    struct decree decree = sample(12, "");
    for (uint32_t i = 0; i < 14; i++) {
        struct id id = id_at(i);
        ck_assert(decree_member(&decree, &id) == (i < 12));
        ck_assert(decree_voter(&decree, &id) == (i < 7));
    }
    decree_release(&decree);
    ck_assert_ptr_null(decree.members);
}
END_TEST

Suite *
suite_decree(void)
{
    Suite *suite = suite_create("decree");
    TCase *t = suite_case(suite, "decree", 20);
    tcase_add_test(t, encode_then_decode_is_identity);
    tcase_add_test(t, header_alone_has_the_hash_and_no_body);
    tcase_add_test(t, what_breaks_a_rule_is_refused_with_a_sentence);
    tcase_add_test(t, no_flipped_bit_and_no_cut_passes_for_the_same_decree);
    tcase_add_test(t, up_to_nine_all_vote_then_seven);
    tcase_add_test(t, those_who_vote_keep_their_order_and_come_first);
    tcase_add_test(t, half_is_a_quorum_only_with_the_first_voter);
    tcase_add_test(t, members_and_voters_are_found);
    return suite;
}
