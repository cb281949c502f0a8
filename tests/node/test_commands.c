#include "node/engine/checkpoint.h"
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/key.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *suite_commands(void);

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

/* ---- the command line ---- */

START_TEST(every_command_prints_help_with_an_example)
{
    BEGIN();
    static const char *const commands[] = {"node",  "train",    "status", "stop",
                                           "leave", "generate", "testnet"};
    ck_assert_int_eq(swarm_run(&out, 5000, "--help", NULL), 0);
    says("Example");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "flotilla %s", commands[i]);
        ck_assert_int_eq(swarm_run(&out, 5000, "--help", NULL), 0);
        says(commands[i]);
        ck_assert_int_eq(swarm_run(&out, 5000, commands[i], "--help", NULL), 0);
        says("xample");
        says(name);
    }
    ck_assert_int_eq(swarm_run(&out, 5000, "--version", NULL), 0);
    ck_assert_int_eq(strncmp(said(), "flotilla 0.", 11), 0);
}
END_TEST

START_TEST(asked_wrongly_a_command_exits_with_2)
{
    BEGIN();
    static const char *const commands[] = {"node", "train", "status",
                                           "stop", "leave", "generate"};
    ck_assert_int_eq(swarm_run(&out, 5000, NULL, NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "sail", NULL), 2);
    says("there is no command \"sail\"");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        ck_assert_int_eq(swarm_run(&out, 5000, commands[i], "--no-such-option", NULL), 2);
        says("no-such-option");
        ck_assert_int_eq(swarm_run(&out, 5000, commands[i], "one", "two", NULL), 2);
        says("argument too many");
    }
    char longest[5000];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    static const char *const reach[] = {"node", "status", "stop", "leave"};
    for (size_t i = 0; i < sizeof(reach) / sizeof(reach[0]); i++) {
        ck_assert_int_eq(swarm_run(&out, 5000, reach[i], "--data", longest, NULL), 2);
        says("--data is a path of more than");
        ck_assert_int_eq(swarm_run(&out, 5000, reach[i], "--data", "", NULL), 2);
    }
    ck_assert_int_eq(swarm_run(&out, 5000, "train", NULL), 2);
    says("name a job file");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--resume", "job.yaml", NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "generate", NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "generate", "/nonexistent", NULL), 2);
    says("there is no folder \"/nonexistent\"");
    ck_assert_int_eq(swarm_run(&out, 5000, "generate", "x", "-n", "", NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "generate", "x", "--seed", "-1", NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--threads", "0", NULL), 2);
    says("--threads is \"0\"");
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--zone", "a b", NULL), 2);
    says("--zone is \"a b\"");
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--memory", "lots", NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--listen", "nowhere:x", NULL), 2);
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--log-level", "loud", NULL), 2);
}
END_TEST

START_TEST(a_misspelt_key_is_named_with_its_line)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    swarm_write("bad.yaml", "name: x\nmodel: {layers: 2, heads: 2, hidden: 32, context: "
                            "32}\ndata: {train: a}\nbatchs: {sequences: 8}\nsteps: 1\n");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", swarm_path("bad.yaml"), "--data", one.data, NULL),
        2);
    says("bad.yaml: line 4: unknown key \"batchs\"; did you mean \"batch\"?");
    swarm_write("node.yaml", "name: n\nzoen: b\n");
    const char *file = swarm_path("node.yaml");
    char joined[PATH_BYTES_MAX], spelt[PATH_BYTES_MAX + 16];
    snprintf(joined, sizeof(joined), "-c%.4000s", file);
    snprintf(spelt, sizeof(spelt), "--conf=%.4000s", file);
    const char *const ways[][2] = {{"-c", file},
                                   {"--config", file},
                                   {joined, "--threads=1"},
                                   {spelt, "--threads=1"}};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(swarm_run(&out, 5000, "node", "--data", swarm_path("two"),
                                   "--listen", "127.0.0.1", ways[i][0], ways[i][1], NULL),
                         2);
        says("node.yaml: line 2: unknown key \"zoen\"; did you mean \"zone\"?");
    }
    ck_assert(!file_exists(swarm_path("two")));
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "-c", "/nonexistent.yaml", NULL), 2);
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", "/nonexistent.yaml", "--data", one.data, NULL), 2);
    says("/nonexistent.yaml");
}
END_TEST

/* What is to be pasted stands on one line, and a line is no longer than a screen. */
START_TEST(an_example_can_be_pasted)
{
    BEGIN();
    static const char *const commands[] = {"node",  "train",    "status", "stop",
                                           "leave", "generate", "testnet"};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        ck_assert_int_eq(swarm_run(&out, 5000, commands[i], "--help", NULL), 0);
        ck_assert_msg(strncmp(said(), "Usage: flotilla ", 16) == 0, "%s", said());
        ck_assert_msg(!strstr(said(), "for any corresponding short"), "%s", said());
        for (const char *at = said(); *at; at += strcspn(at, "\n") + 1) {
            size_t len = strcspn(at, "\n"), quotes = 0;
            for (size_t k = 0; k < len; k++)
                quotes += at[k] == '"';
            ck_assert_msg(len < 80 && quotes % 2 == 0, "%.*s", (int)len, at);
            if (at[len] == '\0')
                break;
        }
    }
    ck_assert_int_eq(swarm_run(&out, 5000, "--help", NULL), 0);
    ck_assert_msg(strncmp(said(), "Usage: flotilla ", 16) == 0, "%s", said());
}
END_TEST

START_TEST(every_sentence_begins_with_its_command)
{
    BEGIN();
    const char *none = swarm_path("none");
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--memory", "10B", NULL), 2);
    says("flotilla node: --memory is \"10B\", but must be at least 64 MiB");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "node", "--data", none, "--secret-file", none, NULL), 2);
    says("flotilla node: there is no file \"");
    says("copy swarm.secret from the data folder of a node");
    ck_assert(!file_exists(none));
    ck_assert_int_eq(swarm_run(&out, 5000, "status", "--data", none, NULL), 1);
    says("flotilla status: no node runs on");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--follow", "--resume", NULL), 2);
    says("flotilla train: --follow shows the run that is there");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--follow", "job.yaml", NULL), 2);
    swarm_write("empty.yaml", "");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", swarm_path("empty.yaml"), NULL), 2);
    says("empty.yaml: the file is empty");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "testnet", "run", swarm_path("empty.yaml"), NULL), 2);
    says("empty.yaml: the file is empty");
}
END_TEST

START_TEST(a_picture_replaces_no_input_and_nothing_but_a_picture)
{
    BEGIN();
    static const char text[] = "name: x\n";
    char job[PATH_BYTES_MAX], other[PATH_BYTES_MAX];
    swarm_write("a.yaml", text);
    swarm_write("b.json", "{}");
    snprintf(job, sizeof(job), "%s", swarm_path("a.yaml"));
    snprintf(other, sizeof(other), "%s", swarm_path("b.json"));
    const char *const files[] = {job, other, "/dev/null", "/tmp"};
    const char *const why[] = {"is read as an input", "is no picture that flotilla wrote",
                               "is a device, which is not replaced",
                               "is a folder, which is not replaced"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        ck_assert_int_eq(swarm_run(&out, 5000, "plan", "--cluster", job, "--job", job,
                                   "--svg", files[i], NULL),
                         2);
        says(why[i]);
    }
    ck_assert_int_eq(swarm_run(&out, 5000, "profile", job, "-o", "/dev/null", NULL), 2);
}
END_TEST

/* ---- starting ---- */

static int
listener(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

START_TEST(a_port_in_use_is_named_and_the_founding_can_be_tried_again)
{
    BEGIN();
    for (int which = 0; which < 3; which++) {
        int port = swarm_ports(), taken = listener(port + which);
        char address[32], number[16], name[16];
        snprintf(address, sizeof(address), "127.0.0.1:%d", port);
        snprintf(number, sizeof(number), "%d", port + which);
        snprintf(name, sizeof(name), "n%d", which);
        const char *data = swarm_path(name);
        ck_assert_int_eq(
            swarm_run(&out, 5000, "node", "--data", data, "--listen", address, NULL), 1);
        says(number);
        says("listens there; choose another address with --listen");
        close(taken);
        struct peer again = {.port = port};
        snprintf(again.name, sizeof(again.name), "%s", name);
        snprintf(again.data, sizeof(again.data), "%s", data);
        snprintf(again.log, sizeof(again.log), "%s/log", data);
        snprintf(again.address, sizeof(again.address), "%s", address);
        peer_again(&again, NULL);
        peer_event(&again, 5000, NULL, "\"event\":\"epoch\"", NULL);
        peer_kill(&again);
    }
}
END_TEST

START_TEST(a_folder_of_a_running_node_is_not_shared)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    ck_assert_int_eq(
        swarm_run(&out, 5000, "node", "--data", one.data, "--listen", "127.0.0.1", NULL),
        2);
    says("belongs to a node that is running");
    says("--data");
    struct json *status = peer_status(&one);
    ck_assert_str_eq(json_text(json_get(status, "name"), ""), "one");
    json_free(status);
}
END_TEST

START_TEST(a_swarm_is_founded_only_in_an_empty_folder)
{
    BEGIN();
    struct err err;
    ck_assert_int_eq(file_make_folder(swarm_path("full"), &err), 0);
    swarm_write("full/letters.txt", "dear");
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", swarm_ports());
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--data", swarm_path("full"),
                               "--listen", address, NULL),
                     2);
    says("full");
    says("empty");
    DIR *dir = opendir(swarm_path("full"));
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    ck_assert_msg(count == 3, "%d entries", count);
}
END_TEST

/* A member whose state was lost must not found a swarm of its own under its old name. */
START_TEST(a_folder_that_lost_its_state_founds_nothing)
{
    BEGIN();
    struct peer one;
    found_one(&one, "one");
    ck_assert_int_eq(peer_leave(&one, 10000), 0);
    ck_assert_int_eq(unlink(swarm_path("one/agree.state")), 0);
    ck_assert_int_eq(unlink(swarm_path("one/swarm.id")), 0);
    ck_assert_int_eq(
        swarm_run(&out, 5000, "node", "--data", one.data, "--listen", one.address, NULL),
        2);
    says("--join");
}
END_TEST

START_TEST(a_first_signal_leaves_and_a_second_stops_at_once)
{
    BEGIN();
    struct peer one, two;
    char line[8192], id[64] = "";
    found_one(&one, "one");
    peer_event(&one, 1000, line, "\"event\":\"start\"", NULL);
    snprintf(id, sizeof(id), "%.20s", strstr(line, "\"id\""));
    ck_assert_int_eq(peer_leave(&one, 10000), 0);
    peer_event(&one, 1000, NULL, "\"event\":\"stop\"", NULL);
    ck_assert(!file_exists(swarm_path("one/control.sock")));
    /* It comes back as the member that it was. */
    peer_again(&one, NULL);
    peer_event(&one, 5000, line, "\"event\":\"start\"", id, "\"founded\":false", NULL);
    struct json *status = peer_status(&one);
    ck_assert_uint_eq(json_count(json_get(status, "members")), 1);
    json_free(status);
    found_one(&two, "two");
    kill(two.pid, SIGTERM);
    kill(two.pid, SIGINT);
    int64_t began = clock_ms();
    ck_assert_int_ge(swarm_wait(two.pid, 5000), 0);
    ck_assert_int_lt(clock_ms() - began, 2000);
    ck_assert_int_eq(swarm_run(&out, 8000, "leave", "--data", one.data, NULL), 0);
    says("left");
    ck_assert_int_eq(swarm_wait(one.pid, 5000), 0);
}
END_TEST

/* ---- jobs ---- */

START_TEST(without_a_node_a_command_says_how_to_start_one)
{
    BEGIN();
    static const char *const commands[] = {"status", "stop", "leave"};
    const char *none = swarm_path("none");
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(swarm_run(&out, 5000, commands[i], "--data", none, NULL), 1);
        says("no node runs on the data folder");
        says("flotilla node");
    }
    ck_assert_int_eq(
        swarm_run(&out, 5000, "train", swarm_path("tiny.yaml"), "--data", none, NULL), 1);
    says("no node runs on the data folder");
    ck_assert_msg(!file_exists(none), "nothing is made for a node that is not there");
    ck_assert_int_eq(swarm_run(&out, 5000, "train", "--resume", "--data", none, NULL), 1);
    says("there is no whole checkpoint");
    says("resume at the node that submitted the job");
}
END_TEST

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

START_TEST(a_full_disk_under_a_checkpoint_costs_the_checkpoint_alone)
{
    BEGIN();
    struct err err;
    ck_assert_int_eq(file_make_folder(swarm_path("one/checkpoints"), &err), 0);
    if (geteuid() != 0 || unshare(CLONE_NEWNS) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", swarm_path("one/checkpoints"), "tmpfs", 0, "size=1200k")) {
        suite_skip(__func__, "mounting a small disk needs root");
        return;
    }
    struct peer one;
    char line[8192];
    found_one(&one, "one");
    const char *job = swarm_job("full", 60, "checkpoint: {every_steps: 10, keep: 0}\n");
    int code = swarm_run(&out, 20000, "train", job, "--data", one.data, NULL);
    peer_event(&one, 2000, line, "\"event\":\"failed\"", "\"what\":\"checkpoint\"", NULL);
    ck_assert_msg(strstr(line, "No space left on device"), "%s", line);
    ck_assert_int_eq(peer_step(&one), 60);
    ck_assert_msg(code == 0 || code == 1, "%s", said());
    says("No space left on device");
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

Suite *
suite_commands(void)
{
    Suite *suite = suite_create("commands");
    TCase *tests = suite_case(suite, "commands", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, every_command_prints_help_with_an_example);
    tcase_add_test(tests, asked_wrongly_a_command_exits_with_2);
    tcase_add_test(tests, a_picture_replaces_no_input_and_nothing_but_a_picture);
    tcase_add_test(tests, a_misspelt_key_is_named_with_its_line);
    tcase_add_test(tests, an_example_can_be_pasted);
    tcase_add_test(tests, every_sentence_begins_with_its_command);
    tcase_add_test(tests, a_port_in_use_is_named_and_the_founding_can_be_tried_again);
    tcase_add_test(tests, a_folder_of_a_running_node_is_not_shared);
    tcase_add_test(tests, a_swarm_is_founded_only_in_an_empty_folder);
    tcase_add_test(tests, a_folder_that_lost_its_state_founds_nothing);
    tcase_add_test(tests, a_first_signal_leaves_and_a_second_stops_at_once);
    tcase_add_test(tests, without_a_node_a_command_says_how_to_start_one);
    tcase_add_test(tests, a_missing_corpus_is_named_and_nothing_runs);
    tcase_add_test(tests, a_job_that_fits_no_node_is_refused_and_the_next_one_trains);
    tcase_add_test(tests, a_run_that_was_stopped_goes_on_as_if_it_never_was);
    tcase_add_test(tests, a_run_that_is_stopped_at_once_ends);
    tcase_add_test(tests, of_two_jobs_at_once_one_is_taken);
    tcase_add_test(tests, what_was_trained_writes_text_the_same_for_a_seed);
    tcase_add_test(tests, a_run_is_resumed_from_the_checkpoint_that_is_named);
    tcase_add_test(tests, a_damaged_checkpoint_is_passed_over_when_a_run_is_resumed);
    tcase_add_test(tests, a_full_disk_under_a_checkpoint_costs_the_checkpoint_alone);
    return suite;
}
