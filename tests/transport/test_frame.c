#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/limits.h"
#include "transport/codec.h"
#include "transport/frame.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_frame(void);

static const struct id swarm = {{1, 2, 3}};
static const struct id to = {{4, 5, 6}};
static struct key *key;
static struct buf out;
static struct err err;

static void
setup(void)
{
    static const uint8_t seed[32] = {7};
    err = (struct err){0};
    ck_assert_int_eq(key_setup(&err), 0);
    key = key_from_seed(seed);
    out = (struct buf){0};
}

static void
teardown(void)
{
    key_free(key);
    buf_release(&out);
}

static void
refused(const void *bytes, size_t len, enum err_code code, const char *why)
{
    struct frame frame = {.sequence = 99}, before = frame;
    err = (struct err){0};
    ck_assert_int_eq(frame_unpack(bytes, len, &frame, &err), -1);
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, why) != NULL, "\"%s\" does not say \"%s\"", err.msg,
                  why);
    ck_assert_mem_eq(&frame, &before, sizeof(frame));
}

START_TEST(what_was_packed_is_unpacked)
{
    buf_add(&out, "before", 6); /* appends */
    frame_pack(key, &swarm, FRAME_BEAT, &to, UINT64_MAX, "term 7", 6, &out);
    struct frame frame;
    ck_assert_msg(frame_unpack(out.data + 6, out.len - 6, &frame, &err) == 0, "%s",
                  err.msg);
    ck_assert_int_eq(frame.kind, FRAME_BEAT);
    ck_assert(id_equal(&frame.swarm, &swarm));
    ck_assert(id_equal(&frame.from, key_id(key)));
    ck_assert(id_equal(&frame.to, &to));
    ck_assert_uint_eq(frame.sequence, UINT64_MAX);
    ck_assert_uint_eq(frame.body_len, 6);
    ck_assert_mem_eq(frame.body, "term 7", 6);
    ck_assert(frame.body > out.data && frame.body < out.data + out.len); /* borrowed */
}
END_TEST

START_TEST(a_body_may_be_empty_or_as_large_as_its_kind_allows)
{
    struct frame frame;
    frame_pack(key, &swarm, FRAME_LEAVE, &to, 0, NULL, 0, &out);
    ck_assert_int_eq(frame_unpack(out.data, out.len, &frame, &err), 0);
    ck_assert_uint_eq(frame.body_len, 0);
    ck_assert_ptr_nonnull(frame.body);

    size_t most = frame_kind_bytes_max(FRAME_COMMIT);
    uint8_t *body = xcalloc(most, 1);
    buf_clear(&out);
    frame_pack(key, &swarm, FRAME_COMMIT, &to, 0, body, most, &out);
    ck_assert_uint_le(out.len, FRAME_BYTES_MAX);
    ck_assert_msg(frame_unpack(out.data, out.len, &frame, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(frame.body_len, most);
    free(body);
}
END_TEST

START_TEST(every_kind_has_a_name_and_a_limit_and_no_other_number_has)
{
    int known = 0;
    for (int number = 0; number < 300; number++) {
        size_t most = frame_kind_bytes_max((enum frame_kind)number);
        const char *name = frame_kind_name((enum frame_kind)number);
        ck_assert_int_eq(most > 0, strcmp(name, "FRAME_?") != 0);
        ck_assert_uint_lt(most + 300, FRAME_BYTES_MAX);
        known += most > 0;
    }
    int listed = 0;
#define COUNT(name, number, bytes_max) listed++;
    FRAME_KINDS(COUNT)
#undef COUNT
    ck_assert_int_eq(known, listed);
    ck_assert_str_eq(frame_kind_name(FRAME_PING), "FRAME_PING");
    ck_assert_uint_eq(frame_kind_bytes_max(FRAME_PROPOSE), 3 << 20);
}
END_TEST

/* A frame of any parts, signed truly. */
static void
pack_parts(uint64_t version, uint64_t kind, size_t body_len, size_t fields)
{
    uint8_t *body = xcalloc(body_len + 1, 1);
    uint8_t signature[KEY_SIGNATURE_BYTES];
    buf_clear(&out);
    writer_array(&out, fields);
    writer_uint(&out, version);
    writer_id(&out, &swarm);
    writer_uint(&out, kind);
    writer_id(&out, key_id(key));
    writer_id(&out, &to);
    writer_uint(&out, 1);
    writer_bytes(&out, body, body_len);
    for (size_t extra = 8; extra < fields; extra++)
        writer_uint(&out, 0);
    key_sign(key, out.data, out.len, signature);
    writer_bytes(&out, signature, sizeof(signature));
    free(body);
}

START_TEST(a_well_signed_frame_that_breaks_the_protocol_is_refused)
{
    struct frame frame;
    pack_parts(FRAME_VERSION, FRAME_PING, 10, 8);
    ck_assert_msg(frame_unpack(out.data, out.len, &frame, &err) == 0, "%s", err.msg);
    pack_parts(1, FRAME_PING, 10, 8);
    refused(out.data, out.len, ERR_WIRE, "frame: version 1, this node speaks version 2");
    pack_parts(FRAME_VERSION, 0, 10, 8);
    refused(out.data, out.len, ERR_WIRE, "frame: kind 0 is not known");
    pack_parts(FRAME_VERSION, 15, 10, 8);
    refused(out.data, out.len, ERR_WIRE, "frame: kind 15 is not known");
    pack_parts(FRAME_VERSION, UINT64_MAX, 10, 8);
    refused(out.data, out.len, ERR_WIRE, "frame: integer");
    pack_parts(FRAME_VERSION, ((uint64_t)1 << 32) + FRAME_PING, 10, 8);
    refused(out.data, out.len, ERR_WIRE, "frame: integer");
    pack_parts(FRAME_VERSION, FRAME_VOTE, (4 << 10) + 1, 8);
    refused(out.data, out.len, ERR_WIRE, "4097 bytes, the limit is 4096");
    pack_parts(FRAME_VERSION, FRAME_PING, 10, 9);
    refused(out.data, out.len, ERR_WIRE, "array of 9 elements");
    pack_parts(FRAME_VERSION, FRAME_PING, 10, 8);
    buf_add(&out, "\0", 1);
    refused(out.data, out.len, ERR_WIRE, "goes on");
    refused("", 0, ERR_WIRE, "frame");
    uint8_t *huge = xcalloc(FRAME_BYTES_MAX + 1, 1);
    refused(huge, FRAME_BYTES_MAX + 1, ERR_WIRE, "the limit is");
    free(huge);
}
END_TEST

START_TEST(a_frame_that_another_signed_is_refused)
{
    static const uint8_t seed[32] = {8};
    struct key *other = key_from_seed(seed);
    uint8_t signature[KEY_SIGNATURE_BYTES];
    frame_pack(key, &swarm, FRAME_BEAT, &to, 1, "x", 1, &out);
    key_sign(other, out.data, out.len - 66, signature);
    memcpy(out.data + out.len - 64, signature, 64);
    refused(out.data, out.len, ERR_AUTH,
            "frame FRAME_BEAT: the signature is not that of node ");
    key_sign(key, out.data, out.len - 66, signature);
    memcpy(out.data + out.len - 64, signature, 64);
    struct frame frame;
    ck_assert_int_eq(frame_unpack(out.data, out.len, &frame, &err), 0);
    key_free(other);
}
END_TEST

START_TEST(no_bit_of_a_frame_can_be_changed)
{
    frame_pack(key, &swarm, FRAME_PING, &to, 300, "rumors", 6, &out);
    for (size_t bit = 0; bit < 8 * out.len; bit++) {
        uint8_t *flipped = xmemdup(out.data, out.len);
        flipped[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct frame frame;
        err = (struct err){0};
        ck_assert_int_eq(frame_unpack(flipped, out.len, &frame, &err), -1);
        ck_assert(err.code == ERR_WIRE || err.code == ERR_AUTH);
        free(flipped);
    }
    for (size_t len = 0; len < out.len; len++) {
        uint8_t *cut = xmemdup(out.data, len);
        refused(cut, len, ERR_WIRE, "frame: ");
        free(cut);
    }
}
END_TEST

START_TEST(a_frame_without_a_signature_is_decoded_and_says_so)
{
    struct frame frame;
    frame_pack(key, &swarm, FRAME_BEAT, &to, 7, "x", 1, &out);
    ck_assert_int_eq(frame_unpack(out.data, out.len, &frame, &err), 0);
    ck_assert(frame.proven);
    buf_clear(&out);
    frame_pack_plain(key_id(key), &swarm, FRAME_BEAT, &to, 7, "x", 1, &out);
    ck_assert_msg(frame_unpack(out.data, out.len, &frame, &err) == 0, "%s", err.msg);
    ck_assert(!frame.proven);
    ck_assert_int_eq(frame.kind, FRAME_BEAT);
    ck_assert(id_equal(&frame.from, key_id(key)) && id_equal(&frame.to, &to));
    ck_assert_uint_eq(frame.sequence, 7);
    ck_assert_mem_eq(frame.body, "x", 1);
    out.len -= 2; /* the empty field */
    writer_bytes(&out, "half of a signature", 19);
    refused(out.data, out.len, ERR_WIRE, "a signature of 19 bytes, it has 64 or none");
}
END_TEST

START_TEST(a_body_that_is_too_large_is_our_own_mistake)
{
    static const uint8_t body[(4 << 10) + 1];
    frame_pack(key, &swarm, FRAME_VOTE, &to, 0, body, sizeof(body), &out);
}
END_TEST

START_TEST(a_kind_that_is_none_is_our_own_mistake)
{
    frame_pack(key, &swarm, (enum frame_kind)0, &to, 0, NULL, 0, &out);
}
END_TEST

Suite *
suite_frame(void)
{
    Suite *suite = suite_create("frame");
    TCase *tests = suite_case(suite, "frame", 20);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_packed_is_unpacked);
    tcase_add_test(tests, a_body_may_be_empty_or_as_large_as_its_kind_allows);
    tcase_add_test(tests, a_frame_without_a_signature_is_decoded_and_says_so);
    tcase_add_test(tests, every_kind_has_a_name_and_a_limit_and_no_other_number_has);
    tcase_add_test(tests, a_well_signed_frame_that_breaks_the_protocol_is_refused);
    tcase_add_test(tests, a_frame_that_another_signed_is_refused);
    tcase_add_test(tests, no_bit_of_a_frame_can_be_changed);
    const char *fork = getenv("CK_FORK");
    if (!fork || strcmp(fork, "no") != 0) {
        tcase_add_test_raise_signal(tests, a_body_that_is_too_large_is_our_own_mistake,
                                    SIGABRT);
        tcase_add_test_raise_signal(tests, a_kind_that_is_none_is_our_own_mistake,
                                    SIGABRT);
    }
    return suite;
}
