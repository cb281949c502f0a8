/* The checkpoint of a run's last step, where it cannot be written. */
#include "node/engine/checkpoint.h"
#include "tests/node/crew.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *suite_last_write(void);

enum { LAST_STEP = 6, SHORT_MS = 700, LONG_MS = 40000 };

static const struct crew_plan one_node = {
    .stages = 1, .pipelines = 1, .micro_batch = 2, .layers = {4}, .nodes = {0}};
static const struct crew_plan two_by_two = {.stages = 2,
                                            .pipelines = 2,
                                            .micro_batch = 2,
                                            .layers = {2, 2},
                                            .nodes = {0, 1, 2, 3}};

static void
begin(struct crew *crew, int nodes, const char *patience_s)
{
    setenv("FLOTILLA_CHECKPOINT_PATIENCE", patience_s, 1);
    crew_open(crew, nodes);
    crew->job.steps = LAST_STEP;
    crew->job.copy_every = nodes > 1 ? 2 : 0;
}

/* A file where the folder should be: as good as a full disk, and sooner made. */
static const char *
in_the_way(const struct crew *crew, int node)
{
    static char path[PATH_BYTES_MAX];
    path_join(path, crew->nodes[node].folder, "checkpoints");
    return path;
}

static void
obstruct(const struct crew *crew, int node)
{
    struct err err;
    ck_assert_int_eq(file_write(in_the_way(crew, node), "no room", 7, 0600, &err), 0);
}

static void
make_room(const struct crew *crew, int node)
{
    ck_assert_int_eq(unlink(in_the_way(crew, node)), 0);
}

static bool
says_what_to_do(struct crew *crew, void *arg)
{
    return strstr(crew->nodes[*(int *)arg].failure.err.msg, "make room for it") != NULL;
}

static bool
is_done(struct crew *crew, void *arg)
{
    return crew->nodes[*(int *)arg].done > 0;
}

static bool
all_done(struct crew *crew, void *arg)
{
    (void)arg;
    for (int i = 0; i < crew->count; i++)
        if (!crew->nodes[i].done)
            return false;
    return true;
}

/* It waits, and says for what. */
static void
waits(struct crew *crew, int node)
{
    ck_assert(crew_until(crew, says_what_to_do, &node, LONG_MS));
    ck_assert_str_eq(crew->nodes[node].failure.what, "checkpoint");
    ck_assert(!crew_until(crew, is_done, &node, SHORT_MS));
    ck_assert_int_eq(crew->nodes[node].checkpoints, 0);
}

/* The checkpoint holds what the stages hold, to the bit. */
static void
is_the_state(struct crew *crew, const char *path)
{
    struct err err = {0};
    struct checkpoint_info info = {0};
    struct checkpoint *checkpoint = checkpoint_open(path, &info, &err);
    ck_assert_msg(checkpoint, "%s", err.msg);
    ck_assert_int_eq(info.step, LAST_STEP);
    ck_assert(info.samples_hash == crew->hash[LAST_STEP]);
    crew_halt(crew);
    size_t count, at = 0;
    float *state = crew_state(crew, 0, &count);
    float *read = xcalloc(count, sizeof(float));
    for (int kind = 0; kind < STATE_KINDS; kind++) {
        for (int t = 0; t < workload_tensor_count(&info.shape); t++) {
            struct tensor_spec spec;
            workload_tensor(&info.shape, t, &spec);
            ck_assert_msg(checkpoint_tensor(checkpoint, t, kind, read, &err) == 0, "%s",
                          err.msg);
            ck_assert(memcmp(read, state + at, (size_t)spec.elements * sizeof(float)) ==
                      0);
            at += (size_t)spec.elements;
        }
    }
    ck_assert_uint_eq(at, count);
    free(read);
    free(state);
    checkpoint_info_release(&info);
    checkpoint_close(checkpoint);
}

START_TEST(the_last_step_is_kept_until_its_checkpoint_can_be_written)
{
    struct crew crew;
    int node = 0;
    begin(&crew, 1, "600");
    obstruct(&crew, 0);
    crew_epoch(&crew, &one_node);
    waits(&crew, 0);
    ck_assert_ptr_nonnull(strstr(crew.nodes[0].failure.err.msg, "stop the node"));
    make_room(&crew, 0);
    ck_assert(crew_until(&crew, is_done, &node, LONG_MS));
    ck_assert_int_eq(crew.nodes[0].checkpoints, 1);
    ck_assert_int_eq(crew.nodes[0].computes, 1);
    is_the_state(&crew, crew.nodes[0].checkpoint);
    crew_close(&crew);
}
END_TEST

START_TEST(the_same_failure_is_not_said_at_every_try)
{
    struct crew crew;
    begin(&crew, 1, "600");
    obstruct(&crew, 0);
    crew_epoch(&crew, &one_node);
    waits(&crew, 0);
    crew.nodes[0].failed = false;
    int64_t next_ms = crew.nodes[0].train->last_write.next_ms;
    /* The next try has failed, too, and the one after it is twice as far. */
    int node = 0;
    ck_assert(!crew_until(&crew, is_done, &node, next_ms + 2000 - clock_ms()));
    ck_assert(!crew.nodes[0].failed);
    crew_halt(&crew);
    ck_assert_int_ge(crew.nodes[0].train->last_write.next_ms - next_ms, 10000);
    crew_close(&crew);
}
END_TEST

START_TEST(an_epoch_that_begins_meanwhile_has_the_last_step_from_memory)
{
    struct crew crew;
    begin(&crew, 4, "600");
    obstruct(&crew, 0);
    obstruct(&crew, 2);
    crew_epoch(&crew, &two_by_two);
    waits(&crew, 0);
    ck_assert_ptr_nonnull(strstr(crew.nodes[0].failure.err.msg, "let this node leave"));
    crew_halt(&crew);
    int64_t since_ms = crew.nodes[0].train->last_write.since_ms;
    for (int i = 0; i < 4; i++) {
        crew.nodes[i].failed = false;
        crew.nodes[i].failure.err.msg[0] = '\0';
        crew.nodes[i].computes = 0;
    }
    /* Still no room: the patience is what is left of it. */
    crew_epoch(&crew, &two_by_two);
    ck_assert_int_eq(crew.recovery.base_step, LAST_STEP);
    waits(&crew, 0);
    crew_halt(&crew);
    ck_assert_int_eq(crew.nodes[0].train->last_write.since_ms, since_ms);
    make_room(&crew, 0);
    make_room(&crew, 2);
    crew_epoch(&crew, &two_by_two);
    ck_assert(crew_until(&crew, all_done, NULL, LONG_MS));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(crew.nodes[i].computes, 0);
    ck_assert_int_eq(crew.nodes[0].checkpoints, 1);
    ck_assert_int_eq(crew.nodes[2].checkpoints, 1);
    is_the_state(&crew, crew.nodes[2].checkpoint);
    crew_close(&crew);
}
END_TEST

START_TEST(one_gatherer_that_has_written_is_enough)
{
    struct crew crew;
    begin(&crew, 4, "600");
    obstruct(&crew, 2);
    int64_t began_ms = clock_ms();
    crew_epoch(&crew, &two_by_two);
    ck_assert(crew_until(&crew, all_done, NULL, LONG_MS));
    ck_assert_int_lt(clock_ms() - began_ms, 30000);
    ck_assert_int_eq(crew.nodes[0].checkpoints, 1);
    ck_assert_int_eq(crew.nodes[2].checkpoints, 0);
    ck_assert(crew.nodes[2].failed);
    is_the_state(&crew, crew.nodes[0].checkpoint);
    crew_close(&crew);
}
END_TEST

START_TEST(of_two_gatherers_without_room_the_first_that_gets_it_ends_the_run)
{
    struct crew crew;
    begin(&crew, 4, "600");
    obstruct(&crew, 0);
    obstruct(&crew, 2);
    crew_epoch(&crew, &two_by_two);
    waits(&crew, 0);
    waits(&crew, 2);
    make_room(&crew, 2);
    ck_assert(crew_until(&crew, all_done, NULL, LONG_MS));
    ck_assert_int_eq(crew.nodes[0].checkpoints, 0);
    ck_assert_int_eq(crew.nodes[2].checkpoints, 1);
    is_the_state(&crew, crew.nodes[2].checkpoint);
    crew_close(&crew);
}
END_TEST

START_TEST(patience_with_a_disk_ends)
{
    struct crew crew;
    int node = 0;
    begin(&crew, 1, "1");
    obstruct(&crew, 0);
    crew_epoch(&crew, &one_node);
    ck_assert(crew_until(&crew, is_done, &node, LONG_MS));
    ck_assert_int_eq(crew.nodes[0].checkpoints, 0);
    ck_assert(crew.nodes[0].failed);
    crew_close(&crew);
}
END_TEST

START_TEST(a_node_that_waits_for_room_stops_at_once)
{
    struct crew crew;
    begin(&crew, 1, "600");
    obstruct(&crew, 0);
    crew_epoch(&crew, &one_node);
    waits(&crew, 0);
    int64_t began_ms = clock_ms();
    crew_close(&crew);
    ck_assert_int_lt(clock_ms() - began_ms, 4000);
}
END_TEST

START_TEST(a_patience_that_is_no_number_of_seconds_is_refused)
{
    static const char *const wrong[] = {"soon", "-1", "604801", "1h",
                                        "99999999999999999999"};
    struct last_write last;
    struct err err;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("FLOTILLA_CHECKPOINT_PATIENCE", wrong[i], 1);
        ck_assert_int_eq(last_write_setup(&last, &err), -1);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_msg(strstr(err.msg, wrong[i]) && strstr(err.msg, "seconds from 0"),
                      "%s", err.msg);
    }
    setenv("FLOTILLA_CHECKPOINT_PATIENCE", "90", 1);
    ck_assert_int_eq(last_write_setup(&last, &err), 0);
    ck_assert_int_eq(last.patience_ms, 90000);
    unsetenv("FLOTILLA_CHECKPOINT_PATIENCE");
    ck_assert_int_eq(last_write_setup(&last, &err), 0);
    ck_assert_int_eq(last.patience_ms, 3600000);
}
END_TEST

static void
unset(void)
{
    unsetenv("FLOTILLA_CHECKPOINT_PATIENCE");
}

Suite *
suite_last_write(void)
{
    Suite *suite = suite_create("last_write");
    TCase *tests = suite_case(suite, "last_write", 120);
    tcase_add_checked_fixture(tests, NULL, unset);
    tcase_add_test(tests, the_last_step_is_kept_until_its_checkpoint_can_be_written);
    tcase_add_test(tests, the_same_failure_is_not_said_at_every_try);
    tcase_add_test(tests, an_epoch_that_begins_meanwhile_has_the_last_step_from_memory);
    tcase_add_test(tests, one_gatherer_that_has_written_is_enough);
    tcase_add_test(tests,
                   of_two_gatherers_without_room_the_first_that_gets_it_ends_the_run);
    tcase_add_test(tests, patience_with_a_disk_ends);
    tcase_add_test(tests, a_node_that_waits_for_room_stops_at_once);
    tcase_add_test(tests, a_patience_that_is_no_number_of_seconds_is_refused);
    return suite;
}
