#include "node/command/workers.h"
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* The loader lists what it would load, and runs nothing. */
START_TEST(no_command_loads_openblas_and_its_threads_before_its_main)
{
    BEGIN();
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    int status = swarm_run(&out, 5000, "--help", NULL);
    unsetenv("LD_TRACE_LOADED_OBJECTS");
    ck_assert_int_eq(status, 0);
    says("libzmq");
    ck_assert_ptr_null(strstr(said(), "openblas"));
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
    ck_assert_int_eq(swarm_run(&out, 5000, "node", "--listen", "--data", "x", NULL), 2);
    says("--listen needs a value, but \"--data\" follows it");
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

START_TEST(who_leaves_while_it_joins_has_no_others_to_be_lost_to)
{
    BEGIN();
    struct peer one;
    char secret[66], seed[32];
    memset(secret, 'a', 64);
    memcpy(secret + 64, "\n", 2);
    swarm_write("a.secret", secret);
    snprintf(seed, sizeof(seed), "127.0.0.1:%d", swarm_ports()); /* nobody is there */
    peer_start(&one, "one", "--join", seed, "--secret-file", swarm_path("a.secret"),
               NULL);
    peer_event(&one, 5000, NULL, "\"event\":\"start\"", NULL);
    ck_assert_int_eq(swarm_run(&out, 8000, "leave", "--data", one.data, NULL), 0);
    says("it had not joined its swarm yet");
    ck_assert_int_eq(swarm_wait(one.pid, 5000), 0);
}
END_TEST

/* ---- nodes to speak to ---- */

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

START_TEST(a_node_that_cannot_be_spoken_to_is_named)
{
    BEGIN();
    struct peer one;
    char named[64];
    found_one(&one, "one");
    snprintf(named, sizeof(named), "process %d", (int)one.pid);
    kill(one.pid, SIGSTOP);
    int64_t began = clock_ms();
    ck_assert_int_eq(swarm_run(&out, 20000, "status", "--data", one.data, NULL), 1);
    ck_assert_int_ge(clock_ms() - began, 9000);
    says(named);
    says("has not answered for 10 s");
    kill(one.pid, SIGCONT);
    ck_assert_int_eq(swarm_run(&out, 20000, "status", "--data", one.data, NULL), 0);
    ck_assert_int_eq(unlink(swarm_path("one/control.sock")), 0);
    ck_assert_int_eq(swarm_run(&out, 5000, "status", "--data", one.data, NULL), 1);
    says("control.sock is gone");
    says("SIGTERM");
    swarm_run(&out, 20000, "doctor", "--data", one.data, NULL);
    says("bad   node        a node runs on the data folder");
    kill(one.pid, SIGTERM);
    ck_assert_int_eq(swarm_wait(one.pid, 10000), 0);
}
END_TEST

enum { ITEMS = 1000 };

struct items {
    atomic_int done[ITEMS];
    atomic_int at_work[PARALLEL_WORKERS_MAX];
    atomic_int wrong;
};

static void
do_item(void *arg, int item, int worker)
{
    struct items *items = arg;
    atomic_fetch_add(&items->wrong, atomic_fetch_add(&items->at_work[worker], 1) != 0);
    atomic_fetch_add(&items->done[item], 1);
    atomic_fetch_sub(&items->at_work[worker], 1);
}

START_TEST(workers_do_each_item_once_and_one_at_a_time)
{
    struct workers *workers = workers_new();
    const struct parallel *parallel = workers_parallel(workers);
    struct items *items = xcalloc(1, sizeof(*items));
    ck_assert_int_ge(parallel_workers(parallel), 1);
    for (int round = 1; round <= 100; round++) {
        parallel_run(parallel, ITEMS, do_item, items);
        for (int i = 0; i < ITEMS; i++)
            ck_assert_int_eq(items->done[i], round);
    }
    parallel_run(parallel, 0, do_item, items);
    parallel_run(parallel, 1, do_item, items);
    ck_assert_int_eq(items->done[0], 101);
    ck_assert_int_eq(items->wrong, 0);
    free(items);
    workers_free(workers);
}
END_TEST

Suite *
suite_commands(void)
{
    Suite *suite = suite_create("commands");
    TCase *tests = suite_case(suite, "commands", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, every_command_prints_help_with_an_example);
    tcase_add_test(tests, no_command_loads_openblas_and_its_threads_before_its_main);
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
    tcase_add_test(tests, who_leaves_while_it_joins_has_no_others_to_be_lost_to);
    tcase_add_test(tests, without_a_node_a_command_says_how_to_start_one);
    tcase_add_test(tests, a_node_that_cannot_be_spoken_to_is_named);
    tcase_add_test(tests, workers_do_each_item_once_and_one_at_a_time);
    return suite;
}
