#include "node/reached.h"
#include "tests/suite.h"
#include "transport/base/file.h"

#include <string.h>

Suite *suite_reached(void);

static char folder[PATH_BYTES_MAX];
static const struct id job = {{7}}, other = {{8}};

static void
setup(void)
{
    suite_folder(folder);
}

static void
teardown(void)
{
    struct err err;
    file_remove_tree(folder, &err);
}

START_TEST(a_node_that_begins_anew_remembers_how_far_the_run_was)
{
    struct reached reached, again;
    struct err err;
    struct progress progress = {.applied = -1};
    reached_load(&reached, folder);
    ck_assert_int_eq(reached.step, 0);
    reached_fill(&reached, &job, &progress);
    ck_assert_int_eq(progress.applied, -1);
    ck_assert_int_eq(reached_note(&reached, 10000, folder, &job, 41, 9, &err), 0);
    ck_assert_int_eq(reached_note(&reached, 11000, folder, &job, 42, 10, &err), 0);
    reached_load(&again, folder);
    ck_assert_int_eq(again.step, 41); /* the file is written now and then */
    ck_assert_int_eq(
        reached_note(&reached, 10000 + REACHED_KEEP_MS, folder, &job, 60, 11, &err), 0);
    reached_load(&again, folder);
    reached_fill(&again, &other, &progress);
    ck_assert_int_eq(progress.applied, -1);
    reached_fill(&again, &job, &progress);
    ck_assert_int_eq(progress.applied, 60);
    ck_assert_uint_eq(progress.samples_hash, 11);
    ck_assert_int_eq(progress.holdings_count, 0);
    progress = (struct progress){.applied = 12}; /* it has state: that counts */
    reached_fill(&again, &job, &progress);
    ck_assert_int_eq(progress.applied, 12);
}
END_TEST

START_TEST(a_damaged_file_is_nothing_known)
{
    struct reached reached, again;
    struct err err;
    struct buf bytes = {0};
    char path[PATH_BYTES_MAX];
    reached_load(&reached, folder);
    ck_assert_int_eq(reached_note(&reached, 0, folder, &job, 300, 9, &err), 0);
    ck_assert_int_eq(file_read(path_join(path, folder, "run.state"), 256, &bytes, &err),
                     0);
    for (size_t len = 0; len < bytes.len; len++) {
        ck_assert_int_eq(file_write(path, bytes.data, len, 0600, &err), 0);
        reached_load(&again, folder);
        ck_assert_int_eq(again.step, 0);
    }
    buf_release(&bytes);
}
END_TEST

Suite *
suite_reached(void)
{
    Suite *suite = suite_create("reached");
    TCase *t = suite_case(suite, "reached", 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_node_that_begins_anew_remembers_how_far_the_run_was);
    tcase_add_test(t, a_damaged_file_is_nothing_known);
    return suite;
}
