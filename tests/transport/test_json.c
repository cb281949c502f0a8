#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/rng.h"
#include "transport/json.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_json(void);

static struct err err;
static struct buf out;
static struct json_writer writer;

static void
setup(void)
{
    err = (struct err){0};
    out = (struct buf){0};
    json_begin(&writer, &out);
}

static void
teardown(void)
{
    buf_release(&out);
}

static struct json *
taken(const char *text, size_t len)
{
    char *copy = xmemdup(text, len);
    struct json *root = json_parse(copy, len, 1 << 20, &err);
    ck_assert_msg(root != NULL, "%s: %.*s", err.msg, (int)len, text);
    free(copy);
    return root;
}

static void
refused(const char *text, const char *why)
{
    err = (struct err){0};
    char *copy = xmemdup(text, strlen(text));
    ck_assert_msg(json_parse(copy, strlen(text), 1 << 20, &err) == NULL, "taken: %s",
                  text);
    free(copy);
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, why) != NULL, "\"%s\" does not say \"%s\"", err.msg,
                  why);
}

START_TEST(values_are_found_in_the_tree)
{
    static const char text[] = "{\"name\": \"h\\u00e9\", \"n\": -7, \"x\": 2.5, \"t\": "
                               "true, \"f\": false, \"z\": null,\n"
                               " \"a\": [1, [2], {}]}   \n";
    struct json *root = taken(text, strlen(text));
    ck_assert(json_is_object(root) && !json_is_array(root));
    ck_assert_uint_eq(json_count(root), 7);
    ck_assert_str_eq(json_text(json_get(root, "name"), "-"), "h\xc3\xa9");
    ck_assert_int_eq(json_int(json_get(root, "n"), 0), -7);
    ck_assert(json_double(json_get(root, "x"), 0) == 2.5);
    ck_assert(json_double(json_get(root, "n"), 0) == -7);
    ck_assert(json_bool(json_get(root, "t"), false));
    ck_assert(!json_bool(json_get(root, "f"), true));
    const struct json *array = json_get(root, "a");
    ck_assert(json_is_array(array) && !json_is_object(array));
    ck_assert_uint_eq(json_count(array), 3);
    ck_assert_int_eq(json_int(json_at(array, 0), 0), 1);
    ck_assert_int_eq(json_int(json_at(json_at(array, 1), 0), 0), 2);
    ck_assert_uint_eq(json_count(json_at(array, 2)), 0);
    ck_assert(json_is_text(json_get(root, "name")) && !json_is_text(array));
    ck_assert(json_is_int(json_get(root, "n")) && !json_is_int(json_get(root, "x")));
    json_free(root);
    json_free(NULL);
}
END_TEST

START_TEST(a_value_is_printed_compactly_in_its_order)
{
    static const char text[] =
        "{\"z\": [1, -0.5, true, null],\n \"a\": {\"k\": \"\\u00e9\\n\"}}";
    struct json *root = taken(text, strlen(text));
    char *printed = json_print(root);
    ck_assert_str_eq(printed, "{\"z\":[1,-0.5,true,null],\"a\":{\"k\":\"\xc3\xa9\\n\"}}");
    free(printed);
    printed = json_print(json_at(json_get(root, "z"), 0));
    ck_assert_str_eq(printed, "1");
    free(printed);
    json_free(root);
}
END_TEST

START_TEST(what_is_absent_or_of_another_kind_is_the_default)
{
    static const char text[] = "{\"n\": 5, \"s\": \"5\", \"z\": null, \"x\": 1.5}";
    struct json *root = taken(text, strlen(text));
    ck_assert_ptr_null(json_get(root, "absent"));
    ck_assert_ptr_null(json_get(json_get(root, "n"), "x"));
    ck_assert_ptr_null(json_get(NULL, "x"));
    ck_assert_ptr_null(json_at(root, 0));
    ck_assert_ptr_null(json_at(NULL, 0));
    ck_assert_uint_eq(json_count(NULL), 0);
    ck_assert_uint_eq(json_count(json_get(root, "n")), 0);
    ck_assert_int_eq(json_int(json_get(root, "s"), 3), 3);
    ck_assert_int_eq(json_int(json_get(root, "x"), 3), 3);
    ck_assert_int_eq(json_int(NULL, 3), 3);
    ck_assert(json_double(json_get(root, "s"), 3) == 3);
    ck_assert(json_double(NULL, 3) == 3);
    ck_assert(json_bool(json_get(root, "n"), true));
    ck_assert(json_bool(json_get(root, "z"), true));
    ck_assert(json_bool(NULL, true));
    ck_assert_str_eq(json_text(json_get(root, "n"), "-"), "-");
    ck_assert_ptr_null(json_text(NULL, NULL));
    ck_assert(!json_is_object(NULL) && !json_is_array(NULL) && !json_is_text(NULL) &&
              !json_is_int(NULL));
    json_free(root);
}
END_TEST

START_TEST(keys_come_in_the_order_of_the_file)
{
    struct buf text = {0};
    buf_printf(&text, "{");
    for (int i = 0; i < 300; i++)
        buf_printf(&text, "%s\"k%d\":%d", i ? "," : "", i * 7919 % 300, i);
    buf_printf(&text, "}");
    struct json *root = taken((const char *)text.data, text.len);
    for (int i = 0; i < 300; i++) {
        char key[16];
        const struct json *value = NULL;
        snprintf(key, sizeof(key), "k%d", i * 7919 % 300);
        ck_assert_str_eq(json_key_at(root, (size_t)i, &value), key);
        ck_assert_int_eq(json_int(value, -1), i);
    }
    ck_assert_ptr_null(json_key_at(root, 300, NULL));
    ck_assert_ptr_nonnull(json_key_at(root, 0, NULL));
    ck_assert_ptr_null(json_key_at(json_get(root, "k0"), 0, NULL));
    ck_assert_ptr_null(json_key_at(NULL, 0, NULL));
    json_free(root);
    buf_release(&text);
}
END_TEST

START_TEST(what_is_not_json_is_refused_with_its_line)
{
    refused("", "line 1: not valid JSON");
    refused("{\n\"a\": 1,\n}", "line 3: not valid JSON");
    refused("{\"a\": 1}\n{}", "line 2");
    refused("[1, 2", "line 1");
    refused("{\"a\" 1}", "line 1");
    refused("[01]", "line 1");
    refused("[NaN]", "line 1");
    refused("[Infinity]", "line 1");
    refused("[1e999]", "line 1");
    refused("[99999999999999999999]", "line 1");
    refused("['a']", "line 1");
    refused("[\"a\nb\"]", "line");
    refused("[\"\xff\"]", "line");
    refused("[\"\\u0000\"]", "line 1");
    refused("[\"\\ud800\"]", "line 1");
    refused("5", "line 1");
    refused("{}}", "line 1");
}
END_TEST

START_TEST(a_key_given_twice_is_refused)
{
    refused("{\"a\": 1,\n \"a\": 2}", "line 2: not valid JSON: duplicate object key");
    refused("{\"b\": {\"a\": 1, \"\\u0061\": 2}}", "duplicate object key");
}
END_TEST

START_TEST(depth_is_bounded_before_the_library_recurses)
{
    char deep[400] = "";
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    json_free(taken(deep, 128));
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    refused(deep, "line 1: nested deeper than 64");
    size_t len = 1 << 20;
    char *all = xcalloc(len, 1);
    memset(all, '[', len);
    ck_assert_ptr_null(json_parse(all, len, len, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "nested deeper than 64"));
    free(all);
    /* Brackets inside texts are no nesting, and an escaped quote does not end a text. */
    char text[300] = "[\"\\\"";
    memset(text + 4, '[', 100);
    memcpy(text + 104, "\\\\\", [1]]", 10);
    json_free(taken(text, strlen(text)));
}
END_TEST

START_TEST(size_is_bounded)
{
    ck_assert_ptr_null(json_parse("[1]", 3, 2, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, "3 bytes, the limit is 2"));
}
END_TEST

START_TEST(a_file_is_read_and_named)
{
    char folder[4096], path[PATH_BYTES_MAX];
    path_join(path, suite_folder(folder), "config.json");
    ck_assert_ptr_null(json_read(path, 100, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    ck_assert_int_eq(file_write(path, "{\"a\": [1]}", 10, 0600, &err), 0);
    struct json *root = json_read(path, 100, &err);
    ck_assert_ptr_nonnull(root);
    ck_assert_int_eq(json_int(json_at(json_get(root, "a"), 0), 0), 1);
    json_free(root);
    ck_assert_ptr_null(json_read(path, 9, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    ck_assert_int_eq(file_write(path, "{\n\"a\": [1}", 10, 0600, &err), 0);
    ck_assert_ptr_null(json_read(path, 100, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    ck_assert_ptr_nonnull(strstr(err.msg, "line 2"));
    ck_assert_int_eq(file_write(path, "", 0, 0600, &err), 0);
    ck_assert_ptr_null(json_read(path, 100, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
}
END_TEST

/* ---- writing ---- */

static void
ck_text(const char *text)
{
    ck_assert_uint_eq(out.len, strlen(text));
    ck_assert_mem_eq(out.data, text, out.len);
    ck_assert_int_eq(writer.depth, 0);
}

START_TEST(commas_and_keys_stand_where_they_belong)
{
    json_object_open(&writer, NULL);
    json_put_text(&writer, "name", "smoke");
    json_put_bool(&writer, "passed", true);
    json_array_open(&writer, "loss");
    json_object_open(&writer, NULL);
    json_put_int(&writer, "step", 1);
    json_object_close(&writer);
    json_object_open(&writer, NULL);
    json_object_close(&writer);
    json_put_int(&writer, NULL, INT64_MIN);
    json_put_bool(&writer, NULL, false);
    json_array_close(&writer);
    json_array_open(&writer, "none");
    json_array_close(&writer);
    json_put_raw(&writer, "raw", "[1,2]", 5);
    json_put_double(&writer, "x", 0.5);
    json_object_close(&writer);
    ck_text("{\"name\":\"smoke\",\"passed\":true,\"loss\":[{\"step\":1},{},"
            "-9223372036854775808,false],\"none\":[],\"raw\":[1,2],\"x\":0.5}");
    json_free(taken((const char *)out.data, out.len));
}
END_TEST

START_TEST(texts_and_keys_are_escaped)
{
    json_object_open(&writer, NULL);
    json_put_text(&writer, "a\"b\\c",
                  "\"\\/\n\t\x01\x1f\x7f h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xa2");
    json_object_close(&writer);
    ck_text("{\"a\\\"b\\\\c\":\"\\\"\\\\/\\n\\u0009\\u0001\\u001f\\u007f h\xc3\xa9 "
            "\xe2\x82\xac "
            "\xf0\x9f\x9a\xa2\"}");
    struct json *root = taken((const char *)out.data, out.len);
    ck_assert_str_eq(json_text(json_get(root, "a\"b\\c"), ""),
                     "\"\\/\n\t\x01\x1f\x7f h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xa2");
    json_free(root);
}
END_TEST

START_TEST(bytes_that_are_no_utf_8_become_the_replacement_character)
{
    static const char *const bad[] = {"\x80",
                                      "\xc0\xaf",
                                      "\xc3",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xe2\x82",
                                      "\xff\xfe",
                                      "\xf0\x9f\x9a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[40];
        snprintf(text, sizeof(text), "a%sz", bad[i]);
        buf_clear(&out);
        json_array_open(&writer, NULL);
        json_put_text(&writer, NULL, text);
        json_array_close(&writer);
        struct json *root = taken((const char *)out.data, out.len);
        const char *got = json_text(json_at(root, 0), "");
        ck_assert_int_eq(strncmp(got, "a\xef\xbf\xbd", 4), 0);
        ck_assert_int_eq(got[strlen(got) - 1], 'z');
        json_free(root);
        json_begin(&writer, &out);
    }
}
END_TEST

static void
round_trip(double value)
{
    buf_clear(&out);
    json_begin(&writer, &out);
    json_array_open(&writer, NULL);
    json_put_double(&writer, NULL, value);
    json_array_close(&writer);
    struct json *root = taken((const char *)out.data, out.len);
    double got = json_double(json_at(root, 0), NAN);
    ck_assert_msg(got == value && signbit(got) == signbit(value),
                  "%a came back as %a from %.*s", value, got, (int)out.len,
                  (const char *)out.data);
    ck_assert(!json_is_int(json_at(root, 0)));
    json_free(root);
}

START_TEST(doubles_come_back_bit_for_bit)
{
    static const double list[] = {0,       -0.0,     1,        -1,
                                  0.1,     1e16,     1e17,     1.23456789012345678e17,
                                  DBL_MAX, -DBL_MAX, DBL_MIN,  1.0 / 3,
                                  5e300,   6e-4,     2.6e-300, 9007199254740994.0};
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        round_trip(list[i]);
    struct rng rng = {.seed = suite_seed("doubles_come_back", 40), .stream = 6};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_next(&rng);
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (isnormal(value))
            round_trip(value);
    }
}
END_TEST

START_TEST(what_is_not_finite_is_written_as_zero)
{
    json_array_open(&writer, NULL);
    json_put_double(&writer, NULL, NAN);
    json_put_double(&writer, NULL, INFINITY);
    json_put_double(&writer, NULL, -INFINITY);
    json_array_close(&writer);
    ck_text("[0.0,0.0,0.0]");
}
END_TEST

START_TEST(closing_what_is_not_open_is_our_own_mistake)
{
    json_object_close(&writer);
}
END_TEST

Suite *
suite_json(void)
{
    Suite *suite = suite_create("json");
    TCase *tests = suite_case(suite, "json", 20);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, values_are_found_in_the_tree);
    tcase_add_test(tests, a_value_is_printed_compactly_in_its_order);
    tcase_add_test(tests, what_is_absent_or_of_another_kind_is_the_default);
    tcase_add_test(tests, keys_come_in_the_order_of_the_file);
    tcase_add_test(tests, what_is_not_json_is_refused_with_its_line);
    tcase_add_test(tests, a_key_given_twice_is_refused);
    tcase_add_test(tests, depth_is_bounded_before_the_library_recurses);
    tcase_add_test(tests, size_is_bounded);
    tcase_add_test(tests, a_file_is_read_and_named);
    tcase_add_test(tests, commas_and_keys_stand_where_they_belong);
    tcase_add_test(tests, texts_and_keys_are_escaped);
    tcase_add_test(tests, bytes_that_are_no_utf_8_become_the_replacement_character);
    tcase_add_test(tests, doubles_come_back_bit_for_bit);
    tcase_add_test(tests, what_is_not_finite_is_written_as_zero);
    const char *fork = getenv("CK_FORK");
    if (!fork || strcmp(fork, "no") != 0)
        tcase_add_test_raise_signal(tests, closing_what_is_not_open_is_our_own_mistake,
                                    SIGABRT);
    return suite;
}
