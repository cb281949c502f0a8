#include "node/engine/checkpoint.h"
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/key.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *suite_runs(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
    return

static struct buf out;

static void
setup(void)
{
    out = (struct buf){0};
}

static void
teardown(void)
{
    swarm_end();
    buf_release(&out);
    unsetenv("FLOTILLA_CHECKPOINT_PATIENCE");
}

static const char *
said(void)
{
    return (const char *)out.data;
}

static void
says(const char *what)
{
    ck_assert_msg(strstr(said(), what) != NULL, "\"%s\" is not in:\n%s", what, said());
}

static void
found_one(struct peer *peer, const char *name)
{
    peer_start(peer, name, "--zone", "a", NULL);
    peer_event(peer, 5000, NULL, "\"event\":\"epoch\"", NULL);
}

START_TEST(a_missing_corpus_is_named_and_nothing_runs)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    swarm_write("lost.yaml", "name: x\nmodel: {layers: 2, heads: 2, hidden: 32, context: "
                             "32}\ndata: {train: \"corpse/*.txt\"}\nbatch: {sequences: "
                             "8}\nsteps: 1\n");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", swarm_path("lost.yaml"), "--data", one.data, NULL),
        2);
    says("corpse/*.txt");
    swarm_write("corpus/one.txt", "short");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", swarm_path("tiny.yaml"), "--data", one.data, NULL),
        2);
    says("tiny.yaml: the text \"corpus/*.txt\" has 5 bytes: a sample needs 33, one more "
         "than the model's context");
    DIR *dir = opendir(swarm_path("one/data"));
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        ck_assert_msg(entry->d_name[0] == '.', "%s is left", entry->d_name);
    if (dir)
        closedir(dir);
    swarm_write("corpus/one.txt", "");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", swarm_path("tiny.yaml"), "--data", one.data, NULL),
        2);
    says("empty");
    struct json *status = peer_status(&one);
    ck_assert(!json_is_object(json_get(status, "job")));
    json_free(status);
    ck_assert_int_eq(swarm_run(&out, 5000, "stop", "--data", one.data, NULL), 1);
    says("no job is running");
}
END_TEST

START_TEST(a_job_that_fits_no_node_is_refused_and_the_next_one_trains)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    swarm_write("big.yaml",
                "name: big\nmodel: {layers: 80, heads: 2, hidden: 256, context: 32}\n"
                "data: {train: \"corpus/*.txt\"}\nbatch: {sequences: 2}\nsteps: 10\n");
    ck_assert_int_eq(
        swarm_run(&out, 40000, "train", swarm_path("big.yaml"), "--data", one.data, NULL),
        1);
    says("cannot place layer ");
    says(" need ");
    says("has 256.0 MiB free; ");
    says("add a node");
    ck_assert_int_eq(swarm_run(&out, 20000, "train", swarm_path("tiny.yaml"), "--data",
                               one.data, NULL),
                     0);
    says("the run ended: done");
    says("step 30 ");
}
END_TEST

/* Of one layer a pass takes seconds. */
START_TEST(a_job_that_is_withdrawn_while_it_is_measured_is_measured_no_more)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    swarm_write("slow.yaml",
                "name: slow\nmodel: {layers: 2, heads: 2, hidden: 256, context: 4096}\n"
                "data: {train: \"corpus/*.txt\"}\nbatch: {sequences: 4}\nsteps: 10\n");
    const char *const arguments[] = {"train",  "--detach", swarm_path("slow.yaml"),
                                     "--data", one.data,   NULL};
    pid_t asks = swarm_spawn(swarm_path("slow.log"), arguments);
    struct json *status = peer_status(&one);
    for (int64_t until = clock_ms() + 20000;
         clock_ms() < until &&
         strcmp(json_text(json_get(status, "submitted"), ""), "slow") != 0;
         status = peer_status(&one)) {
        json_free(status);
        clock_sleep_ms(20);
    }
    ck_assert_str_eq(json_text(json_get(status, "submitted"), ""), "slow");
    json_free(status);
    kill(asks, SIGKILL); /* one command of a node waits for the leader at a time */
    swarm_wait(asks, 5000);
    ck_assert_int_eq(swarm_run(&out, 20000, "stop", "--data", one.data, NULL), 0);
    says("withdrawn before it began");
    ck_assert_int_eq(swarm_run(&out, 40000, "train", swarm_path("tiny.yaml"), "--data",
                               one.data, NULL),
                     0);
    says("the run ended: done");
}
END_TEST

static void
same_losses(const struct peer *left, const struct peer *right, int64_t from, int64_t to)
{
    for (int64_t step = from; step <= to; step++) {
        char a[64], b[64];
        ck_assert_msg(peer_loss(left, step, a), "%s has no step %d", left->name,
                      (int)step);
        ck_assert_msg(peer_loss(right, step, b), "%s has no step %d", right->name,
                      (int)step);
        ck_assert_msg(strcmp(a, b) == 0, "step %d: %s, %s", (int)step, a, b);
    }
}

START_TEST(a_run_that_was_stopped_goes_on_as_if_it_never_was)
{
    BEGIN();
    struct peer one, never;
    found_one(&one, "one");
    const char *job =
        swarm_job("long", 400, "checkpoint: {every_steps: 50}\nplan: {micro_batch: 4}\n");
    const char *const follow[] = {"train", job, "--data", one.data, NULL};
    pid_t train = swarm_spawn(swarm_path("train.log"), follow);
    peer_event(&one, 10000, NULL, "\"event\":\"step\"", "\"step\":20,", NULL);
    /* A second job is refused meanwhile, and a plain status works. */
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", swarm_path("tiny.yaml"), "--data", one.data, NULL),
        1);
    says("the job \"long\" is running; end it with \"flotilla stop\"");
    struct json *status = peer_status(&one);
    ck_assert_str_eq(json_text(json_get(json_get(status, "job"), "name"), ""), "long");
    ck_assert_int_eq(json_int(json_get(json_get(status, "job"), "steps"), 0), 400);
    ck_assert_uint_eq(json_count(json_get(json_get(status, "plan"), "stages")), 1);
    json_free(status);
    ck_assert_int_eq(swarm_run(&out, 5000, "status", "--data", one.data, NULL), 0);
    says("job: long, running");
    ck_assert_int_eq(swarm_run(&out, 10000, "stop", "--data", one.data, NULL), 0);
    says("the run ended: stopped at step ");
    long stopped = strtol(strstr(said(), "stopped at step ") + 16, NULL, 10);
    ck_assert_msg(stopped >= 20 && stopped < 400, "stopped at step %ld", stopped);
    ck_assert_int_eq(swarm_wait(train, 5000), 0);
    ck_assert_int_eq(peer_step(&one), stopped);
    ck_assert_int_eq(
        swarm_run(&out, 30000, "train", "--resume", "--data", one.data, NULL), 0);
    char from[64];
    snprintf(from, sizeof(from), "resuming \"long\" from step %ld", stopped);
    says(from);
    says("the run ended: done");
    ck_assert_int_eq(peer_step(&one), 400);

    found_one(&never, "never");
    ck_assert_int_eq(swarm_run(&out, 30000, "train", job, "--data", never.data, NULL), 0);
    same_losses(&one, &never, 1, 400);
    /* The same samples, too. */
    char left[8192], right[8192];
    peer_event(&one, 100, left, "\"event\":\"step\"", "\"step\":400,", NULL);
    peer_event(&never, 100, right, "\"event\":\"step\"", "\"step\":400,", NULL);
    ck_assert_str_eq(strstr(left, "\"samples_hash\""), strstr(right, "\"samples_hash\""));
}
END_TEST

/* Before its first step, too. */
START_TEST(a_run_that_is_stopped_at_once_ends)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    const char *job = swarm_job("brief", 1000000, "");
    for (int round = 0; round < 3; round++) {
        int code =
            swarm_run(&out, 10000, "train", "--detach", job, "--data", one.data, NULL);
        ck_assert_msg(code == 0, "%s", said());
        says("submitted");
        clock_sleep_ms(30 * (int64_t)round);
        code = swarm_run(&out, 10000, "stop", "--data", one.data, NULL);
        ck_assert_msg(code == 0, "%s", said());
        says("the run ended: stopped at step ");
    }
    struct json *status = peer_status(&one);
    ck_assert(!json_is_object(json_get(status, "job")));
    ck_assert(strncmp(json_text(json_get(status, "ended"), ""), "stopped at step ", 16) ==
              0);
    json_free(status);
}
END_TEST

START_TEST(of_two_jobs_at_once_one_is_taken)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    const char *jobs[] = {swarm_job("first", 20, ""), swarm_job("second", 20, "")};
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        char log[16];
        snprintf(log, sizeof(log), "%d.log", i);
        const char *const arguments[] = {"train", jobs[i], "--data", one.data, NULL};
        pids[i] = swarm_spawn(swarm_path(log), arguments);
    }
    int codes[2] = {swarm_wait(pids[0], 10000), swarm_wait(pids[1], 10000)};
    /* The second may also come when the first has ended. */
    ck_assert_msg((codes[0] == 0 || codes[1] == 0) && codes[0] >= 0 && codes[1] >= 0,
                  "%d %d", codes[0], codes[1]);
    for (int i = 0; i < 2; i++) {
        swarm_line(swarm_path(i ? "1.log" : "0.log"), 100, NULL,
                   codes[i] == 0 ? "the run ended: done" : "flotilla train: ", NULL);
    }
}
END_TEST

static long
train_and_find(struct peer *one, const char *name)
{
    struct err err;
    struct id any = {{0}};
    char path[PATH_BYTES_MAX];
    found_one(one, "one");
    const char *job = swarm_job(name, 40, "checkpoint: {every_steps: 15}\n");
    ck_assert_int_eq(swarm_run(&out, 20000, "train", job, "--data", one->data, NULL), 0);
    ck_assert_int_eq(key_setup(&err), 0);
    ck_assert_msg(
        checkpoint_newest(swarm_path("one/checkpoints"), &any, path, NULL, 0, &err) == 0,
        "%s", err.msg);
    return strtol(strstr(path, "step-") + 5, NULL, 10);
}

static void
set_time(const char *file, int64_t seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    ck_assert_int_eq(utimensat(AT_FDCWD, swarm_path(file), times, 0), 0);
}

/* What an earlier job wrote does not keep the next one from being lost. */
START_TEST(a_job_has_no_checkpoint_before_its_first_is_written)
{
    BEGIN();
    struct peer one;
    ck_assert_int_eq(train_and_find(&one, "done"), 40);
    const char *job = swarm_job("long", 1000000, "checkpoint: {every_steps: 1000000}\n");
    ck_assert_int_eq(
        swarm_run(&out, 10000, "train", "--detach", job, "--data", one.data, NULL), 0);
    peer_event(&one, 20000, NULL, "\"event\":\"step\"", "\"step\":45,", NULL);
    struct json *status = peer_status(&one);
    const struct json *run = json_get(status, "job");
    ck_assert(json_int(json_get(run, "step"), 0) > 0);
    ck_assert_int_eq(json_int(json_get(run, "checkpoint_step"), -1), 0);
    json_free(status);
    ck_assert_int_eq(swarm_run(&out, 10000, "stop", "--data", one.data, NULL), 0);
}
END_TEST

START_TEST(what_was_trained_writes_text_the_same_for_a_seed)
{
    BEGIN();
    struct peer one;
    struct buf again = {0};
    ck_assert_int_eq(train_and_find(&one, "pen"), 40);
    const char *folder = swarm_path("one/checkpoints/pen");
    ck_assert_int_eq(swarm_run(&out, 10000, "generate", folder, "--prompt", "the light ",
                               "-n", "60", "--seed", "3", NULL),
                     0);
    says("using ");
    says("the light ");
    ck_assert_int_eq(swarm_run(&again, 10000, "generate", folder, "--prompt",
                               "the light ", "-n", "60", "--seed", "3", NULL),
                     0);
    ck_assert_uint_eq(out.len, again.len);
    ck_assert_mem_eq(out.data, again.data, out.len);
    ck_assert_int_eq(swarm_run(&again, 10000, "generate", folder, "--prompt",
                               "the light ", "-n", "60", "--seed", "4", NULL),
                     0);
    ck_assert(out.len != again.len || memcmp(out.data, again.data, out.len) != 0);
    ck_assert_int_eq(swarm_run(&out, 10000, "generate",
                               swarm_path("one/checkpoints/pen/step-000040"), "-T", "0",
                               NULL),
                     0);
    says("using ");
    says("step-000040: job \"pen\", step 40");
    /* Of several, the one that was written last, whatever its step. */
    set_time("one/checkpoints/pen/step-000030/manifest.json", INT64_C(4102444800));
    ck_assert_int_eq(swarm_run(&out, 10000, "generate", folder, "-n", "5", NULL), 0);
    says("step-000030: job \"pen\", step 30");
    set_time("one/checkpoints/pen/step-000030/manifest.json", 2000);
    set_time("one/checkpoints/pen/step-000015/manifest.json", 1000);
    /* A damaged one by name is refused, in a folder it is passed over. */
    ck_assert_int_eq(
        truncate(swarm_path("one/checkpoints/pen/step-000040/model.safetensors"), 99), 0);
    ck_assert_int_eq(swarm_run(&out, 10000, "generate",
                               swarm_path("one/checkpoints/pen/step-000040"), NULL),
                     1);
    says("model.safetensors");
    ck_assert_int_eq(swarm_run(&out, 10000, "generate", folder, "-n", "5", NULL), 0);
    says("passed over: ");
    says("step-000030");
    buf_release(&again);
}
END_TEST

START_TEST(a_run_is_resumed_from_the_checkpoint_that_is_named)
{
    BEGIN();
    struct peer one;
    ck_assert_int_eq(train_and_find(&one, "named"), 40);
    ck_assert_int_eq(
        swarm_run(&out, 20000, "train", "--resume", "--data", one.data, NULL), 0);
    says("\"named\" is already at its last step, 40 (");
    ck_assert(!strstr(said(), "the run ended"));
    /* Members would go on from what is newer, or have not got it. */
    const char *older = swarm_path("one/checkpoints/named/step-000030");
    const char *newer = swarm_path("one/checkpoints/named/step-000040");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", "--resume", older, "--data", one.data, NULL), 2);
    says("the run would go on from \"");
    says("step 40; move that away first, to go on from step 30");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--resume", older, "--data",
                               swarm_path("none"), NULL),
                     2);
    says("is not in the node's folder; copy it to \"");
    ck_assert_int_eq(rename(newer, swarm_path("moved")), 0);
    ck_assert_int_eq(
        swarm_run(&out, 20000, "train", "--resume", older, "--data", one.data, NULL), 0);
    says("resuming \"named\" from step 30");
    says("the run ended: done\nsteps 31 to 40, loss ");
    says("step-000040\n");
    ck_assert_int_eq(truncate(swarm_path("one/checkpoints/named/step-000040/"
                                         "model.safetensors"),
                              99),
                     0);
    ck_assert_int_eq(swarm_run(&out, 20000, "train", "--resume",
                               swarm_path("one/checkpoints/named"), "--data", one.data,
                               NULL),
                     0);
    says("flotilla train: passed over: ");
    says("resuming \"named\" from step 30");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--resume", swarm_path("corpus"),
                               "--data", one.data, NULL),
                     2);
    says("there is no whole checkpoint in");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--follow", "--data", one.data, NULL),
                     1);
    says("no job is running");
}
END_TEST

START_TEST(a_damaged_checkpoint_is_passed_over_when_a_run_is_resumed)
{
    BEGIN();
    struct peer one;
    ck_assert_int_eq(train_and_find(&one, "worn"), 40);
    ck_assert_int_eq(
        truncate(swarm_path("one/checkpoints/worn/step-000040/optimizer.safetensors"),
                 1000),
        0);
    ck_assert_int_eq(
        swarm_run(&out, 20000, "train", "--resume", "--data", one.data, NULL), 0);
    says("passed over: ");
    says("step-000040/optimizer.safetensors");
    says("resuming \"worn\" from step 30");
    says("step 40 ");
    says("the run ended: done");
}
END_TEST

/* A disk of 1200 KiB under the node's checkpoints, in a mount namespace of this process. */
static bool
small_disk(void)
{
    struct err err;
    ck_assert_int_eq(file_make_folder(swarm_path("one/checkpoints"), &err), 0);
    return geteuid() == 0 && !unshare(CLONE_NEWNS) &&
           !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", swarm_path("one/checkpoints"), "tmpfs", 0, "size=1200k");
}

START_TEST(a_full_disk_under_a_checkpoint_costs_the_checkpoint_alone)
{
    BEGIN();
    struct err err;
    if (!small_disk()) {
        suite_skip(__func__, "mounting a small disk needs root");
        return;
    }
    setenv("FLOTILLA_CHECKPOINT_PATIENCE", "0", 1);
    struct peer one;
    char line[8192];
    found_one(&one, "one");
    const char *job = swarm_job("full", 60, "checkpoint: {every_steps: 10, keep: 0}\n");
    int code = swarm_run(&out, 20000, "train", job, "--data", one.data, NULL);
    peer_event(&one, 2000, line, "\"event\":\"failed\"", "\"what\":\"checkpoint\"", NULL);
    ck_assert_msg(strstr(line, "No space left on device"), "%s", line);
    ck_assert_int_eq(peer_step(&one), 60);
    ck_assert_msg(code == 1, "%s", said());
    says("No space left on device");
    says("no checkpoint of the last step could be written");
    /* The first ones are whole, and nothing else is there. */
    struct id any = {{0}};
    char path[PATH_BYTES_MAX], damaged[1024];
    ck_assert_int_eq(key_setup(&err), 0);
    ck_assert_msg(checkpoint_newest(swarm_path("one/checkpoints"), &any, path, damaged,
                                    sizeof(damaged), &err) == 0,
                  "%s", err.msg);
    ck_assert_str_eq(damaged, "");
    ck_assert_msg(strstr(path, "step-000010") || strstr(path, "step-000020") ||
                      strstr(path, "step-000030"),
                  "%s", path);
    kill(one.pid, SIGKILL);
    swarm_wait(one.pid, 2000);
    umount(swarm_path("one/checkpoints"));
}
END_TEST

/* The weights that a run left after its last step. */
static void
read_weights(const char *checkpoint, struct buf *weights)
{
    char path[PATH_BYTES_MAX];
    struct err err;
    path_join(path, swarm_path(checkpoint), "model.safetensors");
    ck_assert_msg(file_read(path, 4 << 20, weights, &err) == 0, "%s", err.msg);
}

/* Nothing fits any more beside it. */
static void
fill_disk(void)
{
    static const uint8_t fill[1000 << 10] = {1};
    struct err err;
    ck_assert_msg(file_write(swarm_path("one/checkpoints/fill"), fill, sizeof(fill), 0600,
                             &err) == 0,
                  "%s", err.msg);
}

static void
make_room(void)
{
    ck_assert_int_eq(unlink(swarm_path("one/checkpoints/fill")), 0);
}

START_TEST(a_full_disk_at_the_last_step_waits_for_room_and_loses_nothing)
{
    BEGIN();
    if (!small_disk()) {
        suite_skip(__func__, "mounting a small disk needs root");
        return;
    }
    struct peer one, never;
    struct buf left = {0}, right = {0};
    fill_disk();
    found_one(&one, "one");
    const char *job = swarm_job("full", 40, "plan: {micro_batch: 4}\n");
    const char *const follow[] = {"train", job, "--data", one.data, NULL};
    pid_t train = swarm_spawn(swarm_path("train.log"), follow);
    peer_event(&one, 20000, NULL, "\"what\":\"checkpoint\"", "No space left on device",
               NULL);
    peer_event(&one, 1000, NULL, "\"what\":\"checkpoint\"",
               "step 40, the run's last, stays in memory", "make room for it", NULL);
    struct json *status = peer_status(&one);
    ck_assert_int_eq(json_int(json_get(json_get(status, "job"), "step"), 0), 40);
    json_free(status);
    swarm_line(swarm_path("train.log"), 1000, NULL, "stays in memory", NULL);
    make_room();
    ck_assert_int_eq(swarm_wait(train, 30000), 0);
    swarm_line(swarm_path("train.log"), 100, NULL, "the run ended: done", NULL);

    found_one(&never, "never");
    ck_assert_int_eq(swarm_run(&out, 30000, "train", job, "--data", never.data, NULL), 0);
    same_losses(&one, &never, 1, 40);
    read_weights("one/checkpoints/full/step-000040", &left);
    read_weights("never/checkpoints/full/step-000040", &right);
    ck_assert_uint_eq(left.len, right.len);
    ck_assert(memcmp(left.data, right.data, left.len) == 0);
    buf_release(&left);
    buf_release(&right);
    kill(one.pid, SIGKILL);
    swarm_wait(one.pid, 2000);
    umount(swarm_path("one/checkpoints"));
}
END_TEST

START_TEST(a_stop_on_a_full_disk_says_so_and_ends_when_there_is_room)
{
    BEGIN();
    if (!small_disk()) {
        suite_skip(__func__, "mounting a small disk needs root");
        return;
    }
    struct peer one;
    fill_disk();
    found_one(&one, "one");
    const char *job = swarm_job("full", 1000000, "checkpoint: {every_steps: 0}\n");
    ck_assert_int_eq(
        swarm_run(&out, 10000, "train", "--detach", job, "--data", one.data, NULL), 0);
    peer_advances(&one, 5, 20000);
    const char *const stop[] = {"stop", "--data", one.data, NULL};
    pid_t stopping = swarm_spawn(swarm_path("stop.log"), stop);
    swarm_line(swarm_path("stop.log"), 20000, NULL, "No space left on device", NULL);
    swarm_line(swarm_path("stop.log"), 1000, NULL, "stays in memory", NULL);
    make_room();
    ck_assert_int_eq(swarm_wait(stopping, 30000), 0);
    swarm_line(swarm_path("stop.log"), 100, NULL, "the run ended: stopped at step ",
               NULL);
    ck_assert_int_eq(
        swarm_run(&out, 10000, "train", "--detach", "--resume", "--data", one.data, NULL),
        0);
    says("resuming \"full\" from step ");
    kill(one.pid, SIGKILL);
    swarm_wait(one.pid, 2000);
    umount(swarm_path("one/checkpoints"));
}
END_TEST

Suite *
suite_runs(void)
{
    Suite *suite = suite_create("runs");
    TCase *tests = suite_case(suite, "runs", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_missing_corpus_is_named_and_nothing_runs);
    tcase_add_test(tests, a_job_that_fits_no_node_is_refused_and_the_next_one_trains);
    tcase_add_test(tests,
                   a_job_that_is_withdrawn_while_it_is_measured_is_measured_no_more);
    tcase_add_test(tests, a_run_that_was_stopped_goes_on_as_if_it_never_was);
    tcase_add_test(tests, a_run_that_is_stopped_at_once_ends);
    tcase_add_test(tests, of_two_jobs_at_once_one_is_taken);
    tcase_add_test(tests, a_job_has_no_checkpoint_before_its_first_is_written);
    tcase_add_test(tests, what_was_trained_writes_text_the_same_for_a_seed);
    tcase_add_test(tests, a_run_is_resumed_from_the_checkpoint_that_is_named);
    tcase_add_test(tests, a_damaged_checkpoint_is_passed_over_when_a_run_is_resumed);
    tcase_add_test(tests, a_full_disk_under_a_checkpoint_costs_the_checkpoint_alone);
    tcase_add_test(tests, a_full_disk_at_the_last_step_waits_for_room_and_loses_nothing);
    tcase_add_test(tests, a_stop_on_a_full_disk_says_so_and_ends_when_there_is_room);
    return suite;
}
