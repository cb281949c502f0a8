#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/limits.h"
#include "transport/base/rng.h"
#include "transport/codec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_codec(void);

static struct err err;
static struct buf out;

static void
setup(void)
{
    err = (struct err){0};
    out = (struct buf){0};
}

static void
teardown(void)
{
    buf_release(&out);
}

static void
ck_bytes(const char *hex)
{
    char got[4096] = "";
    ck_assert_uint_lt(2 * out.len, sizeof(got));
    for (size_t i = 0; i < out.len; i++)
        snprintf(got + 2 * i, 3, "%02x", out.data[i]);
    ck_assert_str_eq(got, hex);
    buf_clear(&out);
}

START_TEST(integers_have_their_shortest_form)
{
    static const struct {
        uint64_t value;
        const char *hex;
    } list[] = {
        {0, "00"},
        {127, "7f"},
        {128, "cc80"},
        {255, "ccff"},
        {256, "cd0100"},
        {65535, "cdffff"},
        {65536, "ce00010000"},
        {UINT32_MAX, "ceffffffff"},
        {(uint64_t)UINT32_MAX + 1, "cf0000000100000000"},
        {UINT64_MAX, "cfffffffffffffffff"},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        writer_uint(&out, list[i].value);
        ck_bytes(list[i].hex);
        if (list[i].value <= INT64_MAX) {
            writer_int(&out, (int64_t)list[i].value);
            ck_bytes(list[i].hex);
        }
    }
    static const struct {
        int64_t value;
        const char *hex;
    } below[] = {
        {-1, "ff"},
        {-32, "e0"},
        {-33, "d0df"},
        {-128, "d080"},
        {-129, "d1ff7f"},
        {-32768, "d18000"},
        {-32769, "d2ffff7fff"},
        {INT32_MIN, "d280000000"},
        {(int64_t)INT32_MIN - 1, "d3ffffffff7fffffff"},
        {INT64_MIN, "d38000000000000000"},
    };
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
        writer_int(&out, below[i].value);
        ck_bytes(below[i].hex);
    }
}
END_TEST

START_TEST(every_kind_has_its_bytes)
{
    writer_array(&out, 5);
    writer_bool(&out, true);
    writer_bool(&out, false);
    writer_bytes(&out, "\x01\x02", 2);
    writer_text(&out, "zone a");
    writer_array(&out, 0);
    ck_bytes("95c3c2c4020102a67a6f6e65206190");
    struct id id;
    memset(id.bytes, 0xee, ID_BYTES);
    writer_id(&out, &id);
    ck_bytes("c420eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
    writer_bytes(&out, NULL, 0);
    ck_bytes("c400");
}
END_TEST

START_TEST(what_was_written_is_read)
{
    struct id id = {{9, 8, 7}}, got;
    writer_array(&out, 8);
    writer_uint(&out, UINT64_MAX);
    writer_int(&out, -5);
    writer_int(&out, 5);
    writer_bool(&out, true);
    writer_bytes(&out, "abc", 3);
    writer_text(&out, "h\xc3\xa9llo");
    writer_id(&out, &id);
    writer_array(&out, 1);
    writer_text(&out, "");

    struct reader *r = reader_open(out.data, out.len, &err);
    ck_assert_msg(r != NULL, "%s", err.msg);
    ck_assert_uint_eq(reader_enter(r, 8, 8), 8);
    ck_assert_uint_eq(reader_uint(r, UINT64_MAX), UINT64_MAX);
    ck_assert_int_eq(reader_int(r, -5, 5), -5);
    ck_assert_int_eq(reader_int(r, -5, 5), 5);
    ck_assert(reader_bool(r));
    size_t len;
    const uint8_t *data = reader_bytes(r, 3, &len);
    ck_assert_uint_eq(len, 3);
    ck_assert_mem_eq(data, "abc", 3);
    ck_assert(data > out.data && data < out.data + out.len); /* borrowed, not copied */
    char text[7];
    reader_text(r, text, sizeof(text));
    ck_assert_str_eq(text, "h\xc3\xa9llo");
    reader_id(r, &got);
    ck_assert(id_equal(&id, &got));
    ck_assert_uint_eq(reader_enter(r, 0, 1), 1);
    reader_text(r, text, 1);
    ck_assert_str_eq(text, "");
    reader_leave(r);
    reader_leave(r);
    ck_assert(reader_ok(r));
    ck_assert_int_eq(reader_close(&r, &err), 0);
    ck_assert_ptr_null(r);
    ck_assert_int_eq(err.code, ERR_NONE);
}
END_TEST

/* ---- refused by the scan ---- */

static void
refused(const char *hex, const char *why)
{
    uint8_t *bytes = xcalloc(strlen(hex) / 2 + 1,
                             1); /* exact, so that the sanitizer sees a step beyond */
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++) {
        unsigned value;
        ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
        bytes[i] = (uint8_t)value;
    }
    err = (struct err){0};
    alloc_forbid(); /* a refusal by the scan allocates nothing */
    struct reader *r = reader_open(bytes, len, &err);
    alloc_allow();
    ck_assert_msg(r == NULL, "%s was taken", hex);
    ck_assert_int_eq(err.code, ERR_WIRE);
    ck_assert_msg(strstr(err.msg, why) != NULL, "%s: \"%s\" does not say \"%s\"", hex,
                  err.msg, why);
    free(bytes);
}

START_TEST(five_bytes_cannot_ask_for_gigabytes)
{
    refused("dd0fffffff", "268435455 elements");
    refused("dd10000000", "268435456 elements");
    refused("dd7fffffff", "elements");
    refused("ddffffffff", "elements");
    refused("dd00100000dd00100000dd00100000", "elements");
    refused("c6ffffffff", "ends in the middle");
    refused("dbffffffff", "ends in the middle");
    refused("dc1000", "ends in the middle"); /* 4096 elements, but no bytes */
    refused("dc1001", "4097 elements");
}
END_TEST

START_TEST(kinds_that_are_not_used_are_refused)
{
    refused("c0", "not used");                 /* nil */
    refused("c1", "not used");                 /* never used */
    refused("ca3f800000", "not used");         /* float */
    refused("cb3ff0000000000000", "not used"); /* double */
    refused("80", "not used");                 /* maps */
    refused("810102", "not used");
    refused("de0000", "not used");
    refused("df00000000", "not used");
    refused("c70000", "not used"); /* extensions */
    refused("c8000000", "not used");
    refused("c90000000000", "not used");
    refused("d40100", "not used");
    refused("d5010000", "not used");
    refused("d60100000000", "not used");
    refused("d7010000000000000000", "not used");
    refused("d80100000000000000000000000000000000", "not used");
    refused("91c0", "not used");
}
END_TEST

START_TEST(a_longer_form_than_needed_is_refused)
{
    refused("cc7f", "integer is not in its shortest form");
    refused("cd00ff", "integer is not in its shortest form");
    refused("ce0000ffff", "integer is not in its shortest form");
    refused("cf00000000ffffffff", "integer is not in its shortest form");
    refused("d0e0", "integer is not in its shortest form");
    refused("d000", "integer is not in its shortest form"); /* a signed form of what has
                                                               an unsigned one */
    refused("d07f", "integer is not in its shortest form");
    refused("d1ff80", "integer is not in its shortest form");
    refused("d17fff", "integer is not in its shortest form");
    refused("d2ffff8000", "integer is not in its shortest form");
    refused("d3ffffffff80000000", "integer is not in its shortest form");
    refused("d37fffffffffffffff", "integer is not in its shortest form");
    refused("c5000161", "byte string is not in its shortest form");
    refused("c60000000161", "byte string is not in its shortest form");
    refused("d90161", "text is not in its shortest form");
    refused("da000161", "text is not in its shortest form");
    refused("db0000000161", "text is not in its shortest form");
    refused("dc0001c3", "array is not in its shortest form");
    refused("dd00000001c3", "array is not in its shortest form");
}
END_TEST

START_TEST(a_message_is_one_value_and_no_more)
{
    refused("", "ends in the middle");
    refused("9101c3", "goes on for 1 bytes");
    refused("0000", "goes on for 1 bytes");
}
END_TEST

START_TEST(nothing_at_all_is_no_message)
{
    err = (struct err){0};
    ck_assert_ptr_null(reader_open(NULL, 0, &err)); /* an empty file; seen by UBSan */
    ck_assert_int_eq(err.code, ERR_WIRE);
    ck_assert_str_ne(err.msg, "");
}
END_TEST

START_TEST(depth_is_bounded)
{
    for (int i = 0; i < CODEC_DEPTH_MAX; i++)
        writer_array(&out, 1);
    writer_uint(&out, 7);
    struct reader *r = reader_open(out.data, out.len, &err);
    ck_assert_msg(r != NULL, "%s", err.msg);
    for (int i = 0; i < CODEC_DEPTH_MAX; i++)
        ck_assert_uint_eq(reader_enter(r, 1, 1), 1);
    ck_assert_uint_eq(reader_uint(r, 7), 7);
    for (int i = 0; i < CODEC_DEPTH_MAX; i++)
        reader_leave(r);
    ck_assert_int_eq(reader_close(&r, &err), 0);

    char deep[2 * (CODEC_DEPTH_MAX + 1) + 1] = "";
    for (size_t i = 0; i <= CODEC_DEPTH_MAX; i++)
        memcpy(deep + 2 * i, "91", 3);
    refused(deep, "nested deeper");
    memcpy(deep + (size_t)2 * CODEC_DEPTH_MAX, "90", 3);
    refused(deep, "nested deeper");
}
END_TEST

START_TEST(the_number_of_values_is_bounded)
{
    size_t rows = CODEC_ITEMS_MAX / CODEC_COUNT_MAX;
    writer_array(&out, rows);
    for (size_t row = 0; row < rows; row++) {
        writer_array(&out, CODEC_COUNT_MAX);
        for (size_t i = 0; i < CODEC_COUNT_MAX; i++)
            writer_uint(&out, 1);
    }
    ck_assert_ptr_null(reader_open(out.data, out.len, &err));
    ck_assert_int_eq(err.code, ERR_WIRE);
    ck_assert_ptr_nonnull(strstr(err.msg, "more than 65536 values"));
}
END_TEST

START_TEST(a_message_above_the_largest_frame_is_refused)
{
    uint8_t *huge = xcalloc(FRAME_BYTES_MAX + 1, 1);
    ck_assert_ptr_null(reader_open(huge, FRAME_BYTES_MAX + 1, &err));
    ck_assert_int_eq(err.code, ERR_WIRE);
    free(huge);
}
END_TEST

/* ---- refused by the reader ---- */

static struct reader *
opened(void)
{
    struct reader *r = reader_open(out.data, out.len, &err);
    ck_assert_msg(r != NULL, "%s", err.msg);
    return r;
}

static void
fails(struct reader **r, const char *why)
{
    ck_assert(!reader_ok(*r));
    err = (struct err){0};
    ck_assert_int_eq(reader_close(r, &err), -1);
    ck_assert_ptr_null(*r);
    ck_assert_int_eq(err.code, ERR_WIRE);
    ck_assert_msg(strstr(err.msg, why) != NULL, "\"%s\" does not say \"%s\"", err.msg,
                  why);
}

START_TEST(numbers_outside_their_range_are_errors)
{
    writer_uint(&out, 100);
    struct reader *r = opened();
    ck_assert_uint_eq(reader_uint(r, 99), 0);
    fails(&r, "100 is above 99");
    r = opened();
    ck_assert_int_eq(reader_int(r, -5, 99), 0);
    fails(&r, "not within -5 to 99");
    r = opened();
    ck_assert_int_eq(reader_int(r, 101, 200), 0);
    fails(&r, "not within 101 to 200");
    buf_clear(&out);
    writer_int(&out, -1);
    r = opened();
    ck_assert_uint_eq(reader_uint(r, UINT64_MAX), 0);
    fails(&r, "not an unsigned integer");
    buf_clear(&out);
    writer_uint(&out, (uint64_t)INT64_MAX + 1);
    r = opened();
    ck_assert_int_eq(reader_int(r, INT64_MIN, INT64_MAX), 0);
    fails(&r, "not within");
}
END_TEST

START_TEST(a_value_of_another_kind_is_an_error)
{
    writer_text(&out, "x");
    struct reader *r = opened();
    size_t len = 5;
    ck_assert_ptr_nonnull(reader_bytes(r, 10, &len));
    ck_assert_uint_eq(len, 0);
    fails(&r, "not a byte string");
    r = opened();
    ck_assert(!reader_bool(r));
    fails(&r, "not true or false");
    r = opened();
    ck_assert_uint_eq(reader_enter(r, 0, 9), 0);
    fails(&r, "not an array");
    buf_clear(&out);
    writer_bytes(&out, "x", 1);
    r = opened();
    char text[4] = "old";
    reader_text(r, text, sizeof(text));
    ck_assert_str_eq(text, "");
    fails(&r, "not a text");
}
END_TEST

START_TEST(lengths_are_checked)
{
    writer_bytes(&out, "abcd", 4);
    struct reader *r = opened();
    size_t len;
    reader_bytes(r, 3, &len);
    ck_assert_uint_eq(len, 0);
    fails(&r, "4 bytes, the limit is 3");
    for (size_t want = 3; want <= 5; want += 2) {
        char fixed[8] = "zzzzzzz";
        r = opened();
        reader_fixed(r, fixed, want);
        for (size_t i = 0; i < want; i++)
            ck_assert_int_eq(fixed[i], 0);
        fails(&r, "4 bytes");
    }
    r = opened();
    struct id id = {{1}};
    reader_id(r, &id);
    ck_assert(id_empty(&id));
    fails(&r, "32 expected");
    buf_clear(&out);
    writer_text(&out, "abcd");
    char text[4];
    r = opened();
    reader_text(r, text, sizeof(text));
    ck_assert_str_eq(text, "");
    fails(&r, "4 bytes, the limit is 3");
}
END_TEST

START_TEST(a_text_with_control_characters_is_an_error)
{
    static const char bad[] = {0, '\n', 27, 31, 127};
    for (size_t i = 0; i < sizeof(bad); i++) {
        const char bytes[] = {(char)0xa3, 'a', bad[i], 'b'};
        struct reader *r = reader_open(bytes, sizeof(bytes), &err);
        ck_assert_ptr_nonnull(r);
        char text[10];
        reader_text(r, text, sizeof(text));
        ck_assert_str_eq(text, "");
        fails(&r, "control character");
    }
}
END_TEST

START_TEST(arrays_have_the_length_that_is_expected)
{
    writer_array(&out, 2);
    writer_uint(&out, 1);
    writer_uint(&out, 2);
    struct reader *r = opened();
    ck_assert_uint_eq(reader_enter(r, 3, 5), 0);
    fails(&r, "2 elements, 3 to 5 expected");
    r = opened();
    ck_assert_uint_eq(reader_enter(r, 0, 1), 0);
    fails(&r, "2 elements");
    r = opened();
    reader_enter(r, 1, 2);
    reader_uint(r, 9);
    reader_leave(r);
    fails(&r, "1 elements more");
    r = opened();
    reader_enter(r, 2, 2);
    reader_uint(r, 9);
    reader_uint(r, 9);
    ck_assert_uint_eq(reader_uint(r, 9), 0);
    fails(&r, "only 2 values");
    r = opened();
    ck_assert_int_eq(reader_close(&r, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "not read to its end"));
}
END_TEST

START_TEST(the_first_error_sticks_and_the_rest_reads_zeros)
{
    writer_array(&out, 3);
    for (unsigned i = 7; i < 10; i++)
        writer_uint(&out, i);
    struct reader *r = opened();
    reader_enter(r, 3, 3);
    ck_assert_uint_eq(reader_uint(r, 7), 7);
    reader_fail(r, "stage %d has no replica", 4);
    reader_fail(r, "another");
    size_t len = 1;
    char text[3] = "x";
    uint8_t fixed[2] = {1, 1};
    ck_assert_uint_eq(reader_uint(r, 99), 0);
    ck_assert_int_eq(reader_int(r, 0, 99), 0);
    ck_assert(!reader_bool(r));
    ck_assert_ptr_nonnull(reader_bytes(r, 9, &len));
    ck_assert_uint_eq(len, 0);
    reader_text(r, text, sizeof(text));
    ck_assert_str_eq(text, "");
    reader_fixed(r, fixed, 2);
    ck_assert_uint_eq(fixed[0] + fixed[1], 0);
    ck_assert_uint_eq(reader_enter(r, 0, 9), 0);
    reader_leave(r);
    reader_leave(r);
    reader_leave(r);
    fails(&r, "stage 4 has no replica");
}
END_TEST

/* ---- chance ---- */

enum { MADE_MAX = 200 };

enum made_kind {
    MADE_ARRAY,
    MADE_END,
    MADE_UINT,
    MADE_INT,
    MADE_BOOL,
    MADE_BYTES,
    MADE_TEXT
};

/* What a random message is made of, in order. */
struct made {
    enum made_kind kind;
    uint64_t number;
    char data[300];
};

static uint64_t
any_width(struct rng *rng)
{
    return rng_next(rng) >> rng_below(rng, 64);
}

/* Fill in one leaf and write it. */
static void
make_leaf(struct rng *rng, struct made *made, struct buf *to)
{
    static const enum made_kind leaves[] = {MADE_UINT, MADE_INT, MADE_BOOL, MADE_BYTES,
                                            MADE_TEXT};
    made->kind = leaves[rng_below(rng, 5)];
    made->number = any_width(rng);
    size_t len = rng_below(rng, rng_below(rng, 2) ? 40 : 290);
    switch (made->kind) {
    case MADE_UINT:
        writer_uint(to, made->number);
        break;
    case MADE_INT:
        made->number = rng_below(rng, 2) ? ~(made->number >> 1) : made->number >> 1;
        writer_int(to, (int64_t)made->number);
        break;
    case MADE_BOOL:
        made->number &= 1;
        writer_bool(to, made->number != 0);
        break;
    case MADE_BYTES:
        for (size_t i = 0; i < len; i++)
            made->data[i] = (char)rng_next(rng);
        made->number = len;
        writer_bytes(to, made->data, len);
        break;
    default:
        for (size_t i = 0; i < len; i++)
            made->data[i] = (char)(' ' + rng_below(rng, 95));
        made->data[len] = '\0';
        writer_text(to, made->data);
    }
}

/* A random message: an array of values and arrays, written as it is made. An element
 * takes two places of the list at most (an empty array and its end), which bounds what
 * may still be promised. */
static size_t
make_message(struct rng *rng, struct made list[MADE_MAX], struct buf *to)
{
    size_t open[CODEC_DEPTH_MAX], used = 0, promised = 0;
    int depth = 0;
    do {
        ck_assert_uint_lt(used, MADE_MAX);
        struct made *made = &list[used++];
        if (depth > 0 && open[depth - 1] == 0) {
            made->kind = MADE_END;
            depth--;
            continue;
        }
        if (depth > 0) {
            open[depth - 1]--;
            promised--;
        }
        if (depth > 0 && (depth == CODEC_DEPTH_MAX || rng_below(rng, 3) > 0)) {
            make_leaf(rng, made, to);
            continue;
        }
        size_t room = (MADE_MAX - used - (size_t)depth - 1 - 2 * promised) / 2;
        made->kind = MADE_ARRAY;
        made->number = rng_below(rng, room < 24 ? room + 1 : 25);
        promised += made->number;
        writer_array(to, made->number);
        open[depth++] = made->number;
    } while (depth > 0);
    return used;
}

/* Read what was made and compare; writes the values read to `again`. */
static void
read_message(struct reader *r, const struct made *list, size_t used, struct buf *again)
{
    for (size_t i = 0; i < used; i++) {
        const struct made *made = &list[i];
        size_t len;
        char text[300];
        switch (made->kind) {
        case MADE_ARRAY:
            len = reader_enter(r, 0, CODEC_COUNT_MAX);
            ck_assert_uint_eq(len, made->number);
            writer_array(again, len);
            break;
        case MADE_END:
            reader_leave(r);
            break;
        case MADE_UINT: {
            uint64_t value = reader_uint(r, UINT64_MAX);
            ck_assert_uint_eq(value, made->number);
            writer_uint(again, value);
            break;
        }
        case MADE_INT: {
            int64_t value = reader_int(r, INT64_MIN, INT64_MAX);
            ck_assert_int_eq(value, (int64_t)made->number);
            writer_int(again, value);
            break;
        }
        case MADE_BOOL: {
            bool value = reader_bool(r);
            ck_assert_int_eq(value, made->number != 0);
            writer_bool(again, value);
            break;
        }
        case MADE_BYTES: {
            const uint8_t *data = reader_bytes(r, sizeof(made->data), &len);
            ck_assert_uint_eq(len, made->number);
            ck_assert(len == 0 || memcmp(data, made->data, len) == 0);
            writer_bytes(again, data, len);
            break;
        }
        default:
            reader_text(r, text, sizeof(text));
            ck_assert_str_eq(text, made->data);
            writer_text(again, text);
        }
    }
}

START_TEST(random_messages_come_back_and_have_one_encoding)
{
    struct rng rng = {.seed = suite_seed("random_messages", 20), .stream = 1};
    struct made *list = xcalloc(MADE_MAX, sizeof(*list));
    for (int round = 0; round < 500; round++) {
        struct buf again = {0};
        buf_clear(&out);
        size_t used = make_message(&rng, list, &out);
        struct reader *r = opened();
        read_message(r, list, used, &again);
        ck_assert_msg(reader_close(&r, &err) == 0, "%s", err.msg);
        ck_assert_uint_eq(again.len, out.len);
        ck_assert_mem_eq(again.data, out.data, out.len);
        buf_release(&again);
    }
    free(list);
}
END_TEST

START_TEST(every_truncation_fails)
{
    struct rng rng = {.seed = suite_seed("every_truncation", 21), .stream = 2};
    struct made *list = xcalloc(MADE_MAX, sizeof(*list));
    for (int round = 0; round < 20; round++) {
        buf_clear(&out);
        make_message(&rng, list, &out);
        for (size_t len = 0; len < out.len; len++) {
            uint8_t *cut = xmemdup(out.data, len);
            struct reader *r = reader_open(cut, len, &err);
            ck_assert_msg(r == NULL, "round %d: %zu of %zu bytes were taken", round, len,
                          out.len);
            free(cut);
        }
    }
    free(list);
}
END_TEST

/* Walks whatever is there by its own tags and writes it again: a message that is taken
 * has one encoding. */
static void
walk_again(const uint8_t *bytes, size_t len, struct buf *again)
{
    struct reader *r = reader_open(bytes, len, &err);
    if (!r) {
        ck_assert_int_eq(err.code, ERR_WIRE);
        ck_assert_uint_gt(strlen(err.msg), 0);
        return;
    }
    size_t left[CODEC_DEPTH_MAX + 1] = {1}, at = 0, before = again->len;
    int depth = 0;
    while (depth > 0 || left[0] > 0) {
        if (left[depth] == 0) {
            reader_leave(r);
            depth--;
            continue;
        }
        left[depth]--;
        uint8_t tag = bytes[at];
        size_t got;
        static char text[65536];
        if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) {
            left[++depth] = reader_enter(r, 0, CODEC_COUNT_MAX);
            writer_array(again, left[depth]);
        } else if (tag <= 0x7f || (tag >= 0xcc && tag <= 0xcf)) {
            writer_uint(again, reader_uint(r, UINT64_MAX));
        } else if (tag >= 0xe0 || (tag >= 0xd0 && tag <= 0xd3)) {
            writer_int(again, reader_int(r, INT64_MIN, -1));
        } else if (tag == 0xc2 || tag == 0xc3) {
            writer_bool(again, reader_bool(r));
        } else if (tag >= 0xc4 && tag <= 0xc6) {
            const uint8_t *data = reader_bytes(r, len, &got);
            writer_bytes(again, data, got);
        } else {
            reader_text(r, text, sizeof(text));
            if (!reader_ok(r))
                break; /* a control character */
            writer_text(again, text);
        }
        at = again->len - before;
    }
    if (reader_ok(r)) {
        ck_assert_uint_eq(again->len - before, len);
        ck_assert_mem_eq(again->data + before, bytes, len);
        ck_assert_int_eq(reader_close(&r, &err), 0);
    } else {
        ck_assert_int_eq(reader_close(&r, &err), -1);
    }
}

START_TEST(damaged_messages_fail_or_have_one_encoding)
{
    struct rng rng = {.seed = suite_seed("damaged_messages", 22), .stream = 3};
    struct made *list = xcalloc(MADE_MAX, sizeof(*list));
    struct buf again = {0};
    for (int round = 0; round < 6; round++) {
        buf_clear(&out);
        make_message(&rng, list, &out);
        walk_again(out.data, out.len, &again);
        for (size_t bit = 0; bit < 8 * out.len; bit++) {
            uint8_t *flipped = xmemdup(out.data, out.len);
            flipped[bit / 8] ^= (uint8_t)(1 << bit % 8);
            buf_clear(&again);
            walk_again(flipped, out.len, &again);
            free(flipped);
        }
    }
    buf_release(&again);
    free(list);
}
END_TEST

START_TEST(random_bytes_never_crash)
{
    struct rng rng = {.seed = suite_seed("random_bytes", 23), .stream = 4};
    struct buf again = {0};
    for (int round = 0; round < 50000; round++) {
        size_t len = rng_below(&rng, 40);
        uint8_t *bytes = xcalloc(len + 1, 1);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (uint8_t)(rng_below(&rng, 3) ? 0x90 + rng_below(&rng, 0x60)
                                                    : rng_below(&rng, 256));
        buf_clear(&again);
        walk_again(bytes, len, &again);
        free(bytes);
    }
    buf_release(&again);
}
END_TEST

START_TEST(an_array_that_nobody_could_read_is_not_written)
{
    writer_array(&out, CODEC_COUNT_MAX + 1);
}
END_TEST

START_TEST(a_control_character_is_written_as_a_question_mark)
{
    writer_text(&out, "two\nlines\x7f");
    ck_bytes("aa74776f3f6c696e65733f");
}
END_TEST

Suite *
suite_codec(void)
{
    Suite *suite = suite_create("codec");
    TCase *tests = suite_case(suite, "codec", 30);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, integers_have_their_shortest_form);
    tcase_add_test(tests, every_kind_has_its_bytes);
    tcase_add_test(tests, what_was_written_is_read);
    tcase_add_test(tests, five_bytes_cannot_ask_for_gigabytes);
    tcase_add_test(tests, kinds_that_are_not_used_are_refused);
    tcase_add_test(tests, a_longer_form_than_needed_is_refused);
    tcase_add_test(tests, a_message_is_one_value_and_no_more);
    tcase_add_test(tests, nothing_at_all_is_no_message);
    tcase_add_test(tests, depth_is_bounded);
    tcase_add_test(tests, the_number_of_values_is_bounded);
    tcase_add_test(tests, a_message_above_the_largest_frame_is_refused);
    tcase_add_test(tests, numbers_outside_their_range_are_errors);
    tcase_add_test(tests, a_value_of_another_kind_is_an_error);
    tcase_add_test(tests, lengths_are_checked);
    tcase_add_test(tests, a_text_with_control_characters_is_an_error);
    tcase_add_test(tests, arrays_have_the_length_that_is_expected);
    tcase_add_test(tests, the_first_error_sticks_and_the_rest_reads_zeros);
    tcase_add_test(tests, random_messages_come_back_and_have_one_encoding);
    tcase_add_test(tests, every_truncation_fails);
    tcase_add_test(tests, damaged_messages_fail_or_have_one_encoding);
    tcase_add_test(tests, random_bytes_never_crash);
    tcase_add_test(tests, a_control_character_is_written_as_a_question_mark);
    const char *fork = getenv("CK_FORK");
    if (!fork || strcmp(fork, "no") != 0)
        tcase_add_test_raise_signal(tests, an_array_that_nobody_could_read_is_not_written,
                                    SIGABRT);
    return suite;
}
