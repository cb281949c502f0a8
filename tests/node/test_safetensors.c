#include "node/engine/safetensors.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *suite_safetensors(void);

static char folder[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
static struct err err;
static float left[6], right[4];

static void
setup(void)
{
    suite_folder(folder);
    path_join(path, folder, "model.safetensors");
    err = (struct err){0};
    for (int i = 0; i < 6; i++)
        left[i] = (float)i / 3;
    for (int i = 0; i < 4; i++)
        right[i] = -(float)i * 1e30f;
    right[3] = -0.0f;
}

static void
teardown(void)
{
    file_remove_tree(folder, &err);
}

static void
write_two(void)
{
    const struct safetensors_entry entries[] = {
        {.name = "left", .dims = 2, .shape = {2, 3}, .data = left},
        {.name = "right", .dims = 1, .shape = {4}, .data = right},
    };
    ck_assert_msg(safetensors_write(path, entries, 2, &err) == 0, "%s", err.msg);
}

START_TEST(what_was_written_is_found_bit_for_bit)
{
    write_two();
    struct safetensors *file = safetensors_open(path, &err);
    ck_assert_msg(file != NULL, "%s", err.msg);
    ck_assert_uint_eq(safetensors_count(file), 2);
    int dims;
    int64_t shape[2];
    const void *data = safetensors_find(file, "left", &dims, shape);
    ck_assert(data && dims == 2 && shape[0] == 2 && shape[1] == 3);
    ck_assert_mem_eq(data, left, sizeof(left));
    data = safetensors_find(file, "right", &dims, shape);
    ck_assert(data && dims == 1 && shape[0] == 4);
    ck_assert_mem_eq(data, right, sizeof(right));
    ck_assert_ptr_null(safetensors_find(file, "middle", &dims, shape));
    ck_assert_ptr_null(safetensors_find(file, "__metadata__", &dims, shape));
    safetensors_close(file);
    safetensors_close(NULL);
}
END_TEST

/* The format by hand, as another reader would see it. */
START_TEST(the_bytes_are_those_of_the_format)
{
    write_two();
    struct buf bytes = {0};
    ck_assert_int_eq(file_read(path, 1 << 20, &bytes, &err), 0);
    uint64_t header = 0;
    for (int i = 0; i < 8; i++)
        header |= (uint64_t)bytes.data[i] << (8 * i);
    ck_assert_uint_eq(header % 8, 0);
    ck_assert_uint_eq(bytes.len, 8 + header + sizeof(left) + sizeof(right));
    static const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"left\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"right\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[24,40]}}";
    char *text = xcalloc(header + 1, 1);
    size_t used = 0;
    for (uint64_t i = 0; i < header; i++)
        if (bytes.data[8 + i] != ' ')
            text[used++] = (char)bytes.data[8 + i];
    ck_assert_str_eq(text, expected);
    ck_assert_mem_eq(bytes.data + 8 + header, left, sizeof(left));
    ck_assert_mem_eq(bytes.data + 8 + header + sizeof(left), right, sizeof(right));
    free(text);
    buf_release(&bytes);
}
END_TEST

/* A whole file in memory: header text, then `data_bytes` of zeros. */
static int
check(const char *header, size_t data_bytes)
{
    size_t length = strlen(header);
    uint8_t *bytes = xcalloc(8 + length + data_bytes, 1);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    /* No string. NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(bytes + 8, header, length);
    err = (struct err){0};
    int result = safetensors_check(bytes, 8 + length + data_bytes, &err);
    free(bytes);
    return result;
}

static void
refused(const char *header, size_t data_bytes, const char *why)
{
    ck_assert_msg(check(header, data_bytes) == -1, "taken: %s", header);
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, why) != NULL, "\"%s\" does not say \"%s\"", err.msg,
                  why);
}

#define TENSOR(name, type, shape, from, to)                                              \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from   \
    "," to "]}"

START_TEST(tensors_follow_each_other_without_overlap_or_hole)
{
    ck_assert_int_eq(check("{" TENSOR("a", "F32", "[2]", "0", "8") "}", 8), 0);
    /* In any order of the header. */
    ck_assert_int_eq(check("{" TENSOR("b", "F32", "[2]", "8",
                                      "16") "," TENSOR("a", "F32", "[2,1]", "0", "8") "}",
                           16),
                     0);
    ck_assert_int_eq(check("{}", 0), 0);
    ck_assert_int_eq(check("{" TENSOR("a", "F32", "[0]", "0", "0") "}", 0), 0);
    refused("{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "4",
                                                               "12") "}",
            12, "overlaps");
    refused("{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "0",
                                                               "8") "}",
            8, "overlaps");
    refused("{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "12",
                                                               "20") "}",
            20, "hole");
    refused("{" TENSOR("a", "F32", "[2]", "4", "12") "}", 12, "hole");
    refused("{" TENSOR("a", "F32", "[2]", "0", "8") "}", 12,
            "8 bytes, but the file has "
            "12");
    refused("{" TENSOR("a", "F32", "[2]", "0", "8") "}", 4, "8 bytes");
    refused("{}", 4, "0 bytes, but the file has 4");
}
END_TEST

START_TEST(a_shape_is_held_against_its_bytes)
{
    refused("{" TENSOR("a", "F32", "[3]", "0", "8") "}", 8, "offsets that do not fit");
    refused("{" TENSOR("a", "F32", "[2]", "8", "0") "}", 8, "offsets");
    refused("{" TENSOR("a", "F32", "[2]", "-8", "0") "}", 8, "offsets");
    refused("{" TENSOR("a", "F32", "[-2]", "0", "8") "}", 8, "impossible shape");
    refused("{" TENSOR("a", "F32", "[1.5]", "0", "8") "}", 8, "impossible shape");
    refused("{" TENSOR("a", "F32", "[]", "0", "4") "}", 4, "one or two dimensions");
    refused("{" TENSOR("a", "F32", "[1,1,1]", "0", "4") "}", 4, "one or two dimensions");
    refused("{" TENSOR("a", "F32", "2", "0", "8") "}", 8, "one or two dimensions");
    /* 2^33 x 2^33 x 4 is 0 in 64 bits. */
    refused("{" TENSOR("a", "F32", "[8589934592,8589934592]", "0", "0") "}", 0,
            "impossible shape");
    refused("{" TENSOR("a", "F32", "[4611686018427387904]", "0", "0") "}", 0,
            "impossible shape");
    refused("{" TENSOR("a", "F32", "[9223372036854775807,0]", "0", "0") "}", 4, "a");
    refused(
        "{" TENSOR("a", "F32", "[1]", "9223372036854775804", "9223372036854775807") "}",
        4, "offsets");
}
END_TEST

START_TEST(other_types_and_other_headers_are_refused)
{
    refused("{" TENSOR("a", "BF16", "[2]", "0", "4") "}", 4,
            "tensor \"a\" has type \"BF16\", but F32 is read here");
    refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "type \"none\"");
    refused("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "offsets");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4,
            "offsets");
    refused("{\"a\":7}", 4, "type \"none\"");
    refused("[]", 0, "no list");
    refused("7", 0, "header");
    refused("{\"a\":", 0, "header: ");
    refused("", 0, "header");
    refused("{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("a", "F32", "[1]", "4",
                                                               "8") "}",
            8, "header: ");
}
END_TEST

START_TEST(a_header_length_is_not_believed)
{
    static const uint64_t lengths[] = {
        3, 100, 100u << 20, (100u << 20) + 1, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t *bytes = xcalloc(10, 1);
        for (int k = 0; k < 8; k++)
            bytes[k] = (uint8_t)(lengths[i] >> (8 * k));
        bytes[8] = '{';
        bytes[9] = '}';
        ck_assert_int_eq(safetensors_check(bytes, 10, &err), -1);
        ck_assert_int_eq(err.code, ERR_CORRUPT);
        ck_assert_msg(strstr(err.msg, "header claims"), "%s", err.msg);
        free(bytes);
    }
    for (size_t len = 0; len < 8; len++) {
        ck_assert_int_eq(safetensors_check("\0\0\0\0\0\0\0", len, &err), -1);
        ck_assert_str_eq(err.msg, "the file ends before its header");
    }
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    write_two();
    struct buf bytes = {0};
    ck_assert_int_eq(file_read(path, 1 << 20, &bytes, &err), 0);
    for (size_t len = 0; len < bytes.len; len++) {
        ck_assert_int_eq(truncate(path, (off_t)len), 0);
        struct safetensors *file = safetensors_open(path, &err);
        ck_assert_msg(file == NULL, "%zu bytes", len);
        ck_assert_int_eq(err.code, ERR_CORRUPT);
        ck_assert_msg(strstr(err.msg, path), "%s", err.msg);
        ck_assert_int_eq(file_write(path, bytes.data, bytes.len, 0600, &err), 0);
    }
    buf_release(&bytes);
}
END_TEST

START_TEST(flipped_bits_of_a_header_never_lead_out_of_the_file)
{
    write_two();
    struct buf bytes = {0};
    ck_assert_int_eq(file_read(path, 1 << 20, &bytes, &err), 0);
    for (size_t bit = 0; bit < (bytes.len - sizeof(left) - sizeof(right)) * 8; bit++) {
        uint8_t *bad = xmemdup(bytes.data, bytes.len);
        bad[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        err = (struct err){0};
        if (safetensors_check(bad, bytes.len, &err))
            ck_assert_msg(err.code == ERR_CORRUPT && strlen(err.msg) > 0, "bit %zu", bit);
        free(bad);
    }
    buf_release(&bytes);
}
END_TEST

START_TEST(a_file_that_is_not_there_says_so)
{
    ck_assert_ptr_null(safetensors_open(path, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert(strstr(err.msg, path) && strstr(err.msg, "No such file"));
    char below[PATH_BYTES_MAX];
    path_join(below, path, "x");
    const struct safetensors_entry entry = {
        .name = "left", .dims = 1, .shape = {6}, .data = left};
    ck_assert_int_eq(safetensors_write(below, &entry, 1, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_msg(strstr(err.msg, "could not create"), "%s", err.msg);
}
END_TEST

Suite *
suite_safetensors(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tests = suite_case(suite, "safetensors", 20);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_written_is_found_bit_for_bit);
    tcase_add_test(tests, the_bytes_are_those_of_the_format);
    tcase_add_test(tests, tensors_follow_each_other_without_overlap_or_hole);
    tcase_add_test(tests, a_shape_is_held_against_its_bytes);
    tcase_add_test(tests, other_types_and_other_headers_are_refused);
    tcase_add_test(tests, a_header_length_is_not_believed);
    tcase_add_test(tests, a_file_cut_anywhere_is_refused);
    tcase_add_test(tests, flipped_bits_of_a_header_never_lead_out_of_the_file);
    tcase_add_test(tests, a_file_that_is_not_there_says_so);
    return suite;
}
