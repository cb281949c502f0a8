/* Real nodes: flotilla's binary, which make puts beside this program. */
#include "testnet/process.h"
#include "testnet/testnet.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/json.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *suite_runner(void);

static char folder[4096], program[PATH_BYTES_MAX], log_file[PATH_BYTES_MAX];
static struct err err;

static const char small[] =
    "nodes: [{name: a1, zone: a}, {name: b1, zone: b}]\n"
    "links: [{from: a, to: b, mbit_per_s: 200, delay_ms: 2}, {from: b, to: a, "
    "mbit_per_s: 200, delay_ms: 2}]\n"
    "job:\n"
    "  name: small\n"
    "  model: {layers: 2, heads: 2, hidden: 32, context: 32}\n"
    "  data: {train: text.txt, tokenizer: bytes}\n"
    "  batch: {sequences: 8}\n"
    "  steps: %d\n"
    "  plan: {pipeline: 2, replicas: 1, micro_batch: 4, zones: [a, b]}\n"
    "time_limit_s: 60\n"
    "expect: {steps: %d, stages: 2, loss_below: 5.6}\n";

/* False (and counted as skipped) without the binary. */
static bool
ready(const char *test, int steps)
{
    char scenario[2048], path[PATH_BYTES_MAX], text[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 16);
    ck_assert_int_gt(length, 0);
    program[length] = '\0';
    snprintf(strrchr(program, '/'), 16, "/flotilla");
    if (access(program, X_OK)) {
        suite_skip(test, "flotilla is not built beside this program");
        return false;
    }
    suite_folder(folder);
    path_join(log_file, folder, "log");
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = "in the beginning was the word\n"[i * i % 30];
    snprintf(scenario, sizeof(scenario), small, steps, steps);
    ck_assert_int_eq(
        file_write(path_join(path, folder, "text.txt"), text, sizeof(text), 0600, &err),
        0);
    ck_assert_int_eq(file_write(path_join(path, folder, "s.yaml"), scenario,
                                strlen(scenario), 0600, &err),
                     0);
    return true;
}

static void
start(struct process *process, const char *file)
{
    char command[] = "testnet", verb[] = "run", option[] = "--json", path[PATH_BYTES_MAX],
         json[PATH_BYTES_MAX];
    path_join(path, folder, file);
    path_join(json, folder, "verdict.json");
    char *argv[] = {program, command, verb, path, option, json, NULL};
    ck_assert_int_eq(process_start(process, argv, log_file, &err), 0);
}

static void
ends(struct process *process, int code)
{
    char how[64], wanted[64];
    ck_assert_msg(process_wait(process, 90000), "it does not end");
    snprintf(wanted, sizeof(wanted), "exit code %d", code);
    process_how(process, how);
    if (strcmp(how, wanted) == 0)
        return;
    struct buf text = {0};
    file_read(log_file, 1 << 20, &text, &err);
    buf_add(&text, "", 1);
    ck_abort_msg("%s, not %s:\n%s", how, wanted, (char *)text.data);
}

static struct json *
verdict(void)
{
    char path[PATH_BYTES_MAX];
    struct json *json = json_read(path_join(path, folder, "verdict.json"), 1 << 20, &err);
    ck_assert_msg(json != NULL, "%s", err.msg);
    return json;
}

/* The processes of a group of one child: those whose parent is `pid`. */
static int
children(pid_t pid, pid_t *list, int most)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    ck_assert_ptr_nonnull(proc);
    for (struct dirent *entry; (entry = readdir(proc)) && count < most;) {
        char path[300];
        struct buf text = {0};
        pid_t each = (pid_t)strtol(entry->d_name, NULL, 10);
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)each);
        if (each > 0 && file_read(path, 4096, &text, &err) == 0) {
            buf_add(&text, "", 1);
            const char *after = strrchr((char *)text.data, ')');
            if (after && after[2] != 'Z' && strtol(after + 4, NULL, 10) == pid)
                list[count++] = each;
        }
        buf_release(&text);
    }
    closedir(proc);
    return count;
}

static bool
alive(pid_t pid)
{
    char path[64], state = 'Z';
    struct buf text = {0};
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (file_read(path, 4096, &text, &err) == 0) {
        buf_add(&text, "", 1);
        const char *after = strrchr((char *)text.data, ')');
        if (after)
            state = after[2];
    }
    buf_release(&text);
    return state != 'Z';
}

START_TEST(two_nodes_train_and_the_verdict_is_written)
{
    struct process process = {0};
    if (!ready("two_nodes_train_and_the_verdict_is_written", 12))
        return;
    start(&process, "s.yaml");
    ends(&process, 0);
    struct json *json = verdict();
    ck_assert(json_bool(json_get(json, "passed"), false));
    ck_assert_uint_eq(json_count(json_get(json, "loss")), 12);
    ck_assert_int_eq(json_int(json_get(json, "tokens"), 0), INT64_C(12) * 8 * 32);
    const struct json *node = json_at(json_get(json, "nodes"), 1);
    ck_assert_int_gt(json_int(json_get(node, "peak_rss_bytes"), 0), 1 << 20);
    ck_assert_int_gt(json_int(json_get(node, "predicted_bytes"), 0), 0);
    json_free(json);
}
END_TEST

START_TEST(a_job_that_is_refused_fails_with_its_sentence)
{
    char path[PATH_BYTES_MAX];
    static const char text[] = "nodes: [{name: a1, zone: a}]\n"
                               "job:\n"
                               "  name: j\n"
                               "  modell: {layers: 2}\n";
    struct process process = {0};
    if (!ready("a_job_that_is_refused_fails_with_its_sentence", 5))
        return;
    ck_assert_int_eq(file_write(path_join(path, folder, "bad.yaml"), text,
                                sizeof(text) - 1, 0600, &err),
                     0);
    start(&process, "bad.yaml");
    ends(&process, 1);
    struct json *json = verdict();
    ck_assert(!json_bool(json_get(json, "passed"), true));
    const struct json *check = json_at(json_get(json, "checks"), 0);
    const char *detail = json_text(json_get(check, "detail"), "");
    ck_assert_msg(strstr(detail, "line 4") && strstr(detail, "\"model\"?"), "%s", detail);
    json_free(json);
}
END_TEST

START_TEST(an_interrupted_run_stops_its_nodes_and_says_so)
{
    struct process process = {0};
    pid_t nodes[8];
    int count = 0;
    if (!ready("an_interrupted_run_stops_its_nodes_and_says_so", 100000))
        return;
    start(&process, "s.yaml");
    for (int i = 0; i < 500 && count < 2; i++) {
        count = children(process.pid, nodes, 8);
        clock_sleep_ms(20);
    }
    ck_assert_int_eq(count, 2);
    kill(process.pid, SIGINT);
    ends(&process, 1);
    ck_assert(!alive(nodes[0]) && !alive(nodes[1]));
    struct json *json = verdict();
    const struct json *check = json_at(json_get(json, "checks"), 0);
    ck_assert_str_eq(json_text(json_get(check, "detail"), ""), "interrupted");
    json_free(json);
}
END_TEST

START_TEST(no_node_outlives_a_runner_that_is_killed)
{
    struct process process = {0};
    pid_t nodes[8];
    int count = 0;
    if (!ready("no_node_outlives_a_runner_that_is_killed", 100000))
        return;
    const char *before = getenv("TMPDIR");
    setenv("TMPDIR", folder, 1); /* what it leaves goes with our folder */
    start(&process, "s.yaml");
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    for (int i = 0; i < 500 && count < 2; i++) {
        count = children(process.pid, nodes, 8);
        clock_sleep_ms(20);
    }
    ck_assert_int_eq(count, 2);
    process_kill(&process);
    ck_assert(process_wait(&process, 5000));
    for (int i = 0; i < 250 && (alive(nodes[0]) || alive(nodes[1])); i++)
        clock_sleep_ms(20);
    ck_assert(!alive(nodes[0]) && !alive(nodes[1]));
}
END_TEST

START_TEST(who_asks_wrongly_gets_2)
{
    static const char *const wrong[][4] = {{"run", NULL},
                                           {"walk", "s.yaml", NULL},
                                           {"run", "a.yaml", "b.yaml", NULL},
                                           {"run", "/nowhere/s.yaml", NULL}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct process process = {0};
        char words[4][32] = {""}, command[] = "testnet";
        char *argv[8] = {program, command};
        if (!ready("who_asks_wrongly_gets_2", 1))
            return;
        for (int k = 0; k < 4 && wrong[i][k]; k++) {
            snprintf(words[k], sizeof(words[k]), "%s", wrong[i][k]);
            argv[2 + k] = words[k];
        }
        ck_assert_int_eq(process_start(&process, argv, log_file, &err), 0);
        ends(&process, 2);
    }
}
END_TEST

Suite *
suite_runner(void)
{
    Suite *suite = suite_create("runner");
    TCase *tests = suite_case(suite, "runner", 120);
    tcase_add_test(tests, two_nodes_train_and_the_verdict_is_written);
    tcase_add_test(tests, a_job_that_is_refused_fails_with_its_sentence);
    tcase_add_test(tests, an_interrupted_run_stops_its_nodes_and_says_so);
    tcase_add_test(tests, no_node_outlives_a_runner_that_is_killed);
    tcase_add_test(tests, who_asks_wrongly_gets_2);
    return suite;
}
