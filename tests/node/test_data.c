#include "node/engine/data.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *suite_data(void);

static char folder[4096];

static void
setup(void)
{
    struct err err;
    ck_assert_int_eq(key_setup(&err), 0);
    suite_folder(folder);
}

static const char *
in_folder(const char *name)
{
    static char paths[4][PATH_BYTES_MAX];
    static int next;
    return path_join(paths[next++ % 4], folder, name);
}

static void
text_write(const char *name, const char *text, size_t bytes)
{
    struct err err = {0};
    ck_assert_msg(file_write(in_folder(name), text, bytes, 0600, &err) == 0, "%s",
                  err.msg);
}

START_TEST(a_sample_is_the_tokens_at_its_place)
{
    struct err err;
    char text[41];
    for (int i = 0; i < 41; i++)
        text[i] = (char)(200 + i);
    text_write("text", text, 41);
    struct data *data = data_open(in_folder("text"), 10, &err);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(data_samples(data), 4);
    int32_t tokens[11];
    for (int sample = 0; sample < 4; sample++) {
        data_tokens(data, sample, tokens);
        for (int i = 0; i < 11; i++)
            ck_assert_int_eq(tokens[i], (uint8_t)(200 + sample * 10 + i));
    }
    data_close(data);
    text_write("text", text, 40); /* the last one's target is missing */
    data = data_open(in_folder("text"), 10, &err);
    ck_assert_int_eq(data_samples(data), 3);
    data_close(data);
}
END_TEST

START_TEST(every_pass_is_a_permutation_of_its_own)
{
    struct err err;
    enum { SAMPLES = 137 };
    char *text = xcalloc(SAMPLES * 4 + 1, 1);
    text_write("text", text, SAMPLES * 4 + 1);
    free(text);
    struct data *data = data_open(in_folder("text"), 4, &err);
    ck_assert_int_eq(data_samples(data), SAMPLES);
    int same_as_before = 0, in_place = 0, same_seed = 0;
    for (int pass = 0; pass < 3; pass++) {
        bool seen[SAMPLES] = {false};
        for (int i = 0; i < SAMPLES; i++) {
            int64_t n = (int64_t)pass * SAMPLES + i, id = data_sample_id(data, 7, n);
            ck_assert(id >= 0 && id < SAMPLES && !seen[id]);
            seen[id] = true;
            in_place += id == i;
            same_as_before += pass > 0 && id == data_sample_id(data, 7, n - SAMPLES);
            same_seed += id == data_sample_id(data, 8, n);
        }
    }
    ck_assert_int_lt(in_place, 20);
    ck_assert_int_lt(same_as_before, 20);
    ck_assert_int_lt(same_seed, 20);
    data_close(data);
}
END_TEST

START_TEST(the_order_is_a_function_of_seed_and_number_alone)
{
    /* The first samples of the permutation, kept: an order that changes would make a
     * resumed run see other text. */
    struct err err;
    char *text = xcalloc(1001, 1);
    text_write("text", text, 1001);
    free(text);
    struct data *data = data_open(in_folder("text"), 1, &err);
    struct data *other = data_open(in_folder("text"), 1, &err);
    ck_assert_int_eq(data_samples(data), 1000);
    for (int64_t n = 4999; n >= 0; n -= 7)
        ck_assert_int_eq(data_sample_id(data, 1, n), data_sample_id(other, 1, n));
    ck_assert_int_eq(data_sample_id(data, 1, 0), 539);
    ck_assert_int_eq(data_sample_id(data, 1, 1), 110);
    ck_assert_int_eq(data_sample_id(data, 1, 2), 291);
    data_close(data);
    data_close(other);
}
END_TEST

START_TEST(a_text_shorter_than_a_sample_is_refused)
{
    struct err err = {0};
    text_write("text", "0123456789", 10);
    ck_assert_ptr_null(data_open(in_folder("text"), 10, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "has 10 bytes: a sample needs 11"));
    ck_assert_ptr_null(data_open(in_folder("absent"), 10, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "No such file"));
}
END_TEST

START_TEST(gathered_files_come_in_sorted_order_under_their_hash)
{
    struct err err = {0};
    struct id hash, again, right;
    int64_t bytes;
    text_write("b.txt", "second", 6);
    text_write("a.txt", "first ", 6);
    text_write("c.text", "not this", 8);
    ck_assert_msg(data_gather(folder, "*.txt", in_folder("out"), &hash, &bytes, &err) ==
                      0,
                  "%s", err.msg);
    ck_assert_int_eq(bytes, 12);
    key_hash("first second", 12, &right);
    ck_assert(id_equal(&hash, &right));
    ck_assert_int_eq(data_hash(in_folder("out"), &again, &bytes, &err), 0);
    ck_assert(id_equal(&hash, &again));
    ck_assert_int_eq(bytes, 12);
    ck_assert(!file_exists(in_folder("out.part")));

    char absolute[PATH_BYTES_MAX];
    path_join(absolute, folder, "b.txt");
    ck_assert_int_eq(
        data_gather("/nowhere", absolute, in_folder("out"), &hash, &bytes, &err), 0);
    ck_assert_int_eq(bytes, 6);
}
END_TEST

START_TEST(a_folder_with_a_pattern_in_its_name_is_taken_as_it_is)
{
    struct err err = {0};
    struct id hash;
    int64_t bytes;
    ck_assert_int_eq(file_make_folder(in_folder("odd [a]*"), &err), 0);
    text_write("odd [a]*/x.txt", "abc", 3);
    ck_assert_msg(data_gather(in_folder("odd [a]*"), "x.t?t", in_folder("out"), &hash,
                              &bytes, &err) == 0,
                  "%s", err.msg);
    ck_assert_int_eq(bytes, 3);
}
END_TEST

START_TEST(what_cannot_be_gathered_is_named)
{
    struct err err = {0};
    struct id hash;
    int64_t bytes;
    ck_assert_int_eq(
        data_gather(folder, "corpus/*.txt", in_folder("out"), &hash, &bytes, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "corpus/*.txt"));
    ck_assert_ptr_nonnull(strstr(err.msg, "matches no file"));

    text_write("a.txt", "full", 4);
    text_write("b.txt", "", 0);
    ck_assert_int_eq(data_gather(folder, "*.txt", in_folder("out"), &hash, &bytes, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "b.txt"));
    ck_assert_ptr_nonnull(strstr(err.msg, "empty"));

    ck_assert_int_eq(file_make_folder(in_folder("c.dir"), &err), 0);
    ck_assert_int_eq(data_gather(folder, "c.dir", in_folder("out"), &hash, &bytes, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "not a file"));
    ck_assert(!file_exists(in_folder("out")));
    ck_assert(!file_exists(in_folder("out.part")));

    ck_assert_int_eq(
        data_gather(folder, "a.txt", in_folder("no/out"), &hash, &bytes, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
}
END_TEST

Suite *
suite_data(void)
{
    Suite *suite = suite_create("data");
    TCase *tests = suite_case(suite, "data", 20);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_sample_is_the_tokens_at_its_place);
    tcase_add_test(tests, every_pass_is_a_permutation_of_its_own);
    tcase_add_test(tests, the_order_is_a_function_of_seed_and_number_alone);
    tcase_add_test(tests, a_text_shorter_than_a_sample_is_refused);
    tcase_add_test(tests, gathered_files_come_in_sorted_order_under_their_hash);
    tcase_add_test(tests, a_folder_with_a_pattern_in_its_name_is_taken_as_it_is);
    tcase_add_test(tests, what_cannot_be_gathered_is_named);
    return suite;
}
