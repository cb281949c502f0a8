#include "testnet/process.h"
#include "testnet/tail.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *suite_process(void);

static struct err err;

static void
start_sleep(struct process *process, const char *log)
{
    char program[] = "/bin/sleep", seconds[] = "60";
    char *argv[] = {program, seconds, NULL};
    ck_assert_msg(process_start(process, argv, log, &err) == 0, "%s", err.msg);
}

static void
log_path(char path[4200])
{
    char folder[4096];
    suite_folder(folder);
    path_join(path, folder, "log");
}

START_TEST(a_process_ends_as_it_says)
{
    char log[4200], text[64], shell[] = "/bin/sh", option[] = "-c",
                              script[] = "echo out; echo err >&2; exit 3";
    char *argv[] = {shell, option, script, NULL};
    struct process process = {0};
    struct buf said = {0};
    log_path(log);
    ck_assert_int_eq(process_start(&process, argv, log, &err), 0);
    ck_assert(process_wait(&process, 5000));
    ck_assert_str_eq(process_how(&process, text), "exit code 3");
    ck_assert_int_eq(file_read(log, 100, &said, &err), 0);
    ck_assert_uint_eq(said.len, strlen("out\nerr\n"));
    buf_release(&said);
}
END_TEST

START_TEST(a_process_is_stopped_continued_and_killed)
{
    char log[4200], text[64];
    struct process process = {0};
    log_path(log);
    start_sleep(&process, log);
    /* A program that is only being loaded has next to nothing. */
    for (int i = 0; i < 300 && process.peak_rss_bytes <= 100000; i++) {
        process_measure(&process);
        clock_sleep_ms(10);
    }
    ck_assert_int_gt(process.peak_rss_bytes, 100000);
    process_stop(&process);
    ck_assert(process.stopped);
    clock_sleep_ms(100);          /* it has to be scheduled to stop */
    process_ask_to_end(&process); /* waits until it continues */
    ck_assert(!process_wait(&process, 200));
    process_continue(&process);
    ck_assert(process_wait(&process, 5000));
    ck_assert_ptr_nonnull(strstr(process_how(&process, text), "signal 15"));
    start_sleep(&process, log);
    process_kill(&process);
    ck_assert(process_wait(&process, 5000));
    ck_assert_ptr_nonnull(strstr(process_how(&process, text), "signal 9"));
    process_kill(&process); /* nobody: nothing happens */
}
END_TEST

START_TEST(a_program_that_is_not_there_says_so)
{
    char log[4200], none[] = "/nowhere/flotilla";
    char *argv[] = {none, NULL};
    struct process process = {0};
    struct buf said = {0};
    log_path(log);
    ck_assert_int_eq(process_start(&process, argv, log, &err), 0);
    ck_assert(process_wait(&process, 5000));
    ck_assert_int_ne(process.status, 0);
    ck_assert_int_eq(file_read(log, 1000, &said, &err), 0);
    ck_assert_uint_gt(said.len, 0);
    buf_release(&said);
}
END_TEST

START_TEST(a_child_dies_with_a_runner_that_is_killed)
{
    char log[4200];
    int channel[2];
    pid_t child = 0;
    log_path(log);
    ck_assert_int_eq(pipe(channel), 0);
    pid_t runner = fork();
    if (runner == 0) {
        struct process process = {0};
        start_sleep(&process, log);
        ssize_t written = write(channel[1], &process.pid, sizeof(process.pid));
        (void)written;
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(channel[0], &child, sizeof(child)), sizeof(child));
    clock_sleep_ms(50); /* until it has become the program */
    ck_assert_int_eq(kill(child, 0), 0);
    kill(runner, SIGKILL);
    ck_assert_int_eq(waitpid(runner, NULL, 0), runner);
    /* It is somebody else's child now: gone, or waiting to be reaped. */
    char path[64], state = ' ';
    for (int i = 0; i < 100 && state != 'Z' && state != '-'; i++) {
        struct buf text = {0};
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
        state = '-';
        if (file_read(path, 4096, &text, &err) == 0 && text.len) {
            buf_add(&text, "", 1);
            const char *close_bracket = strrchr((char *)text.data, ')');
            if (close_bracket)
                state = close_bracket[2];
        }
        buf_release(&text);
        clock_sleep_ms(20);
    }
    ck_assert_msg(state == 'Z' || state == '-', "it lives on: %c", state);
    close(channel[0]);
    close(channel[1]);
}
END_TEST

struct lines {
    int count;
    char last[64];
};

static void
on_line(void *arg, const char *text, size_t len)
{
    struct lines *lines = arg;
    lines->count++;
    snprintf(lines->last, sizeof(lines->last), "%.*s", (int)len, text);
}

START_TEST(a_tail_gives_whole_lines_once)
{
    char path[4200];
    struct tail tail;
    struct lines lines = {0};
    log_path(path);
    tail_init(&tail, path);
    tail_read(&tail, on_line, &lines); /* not there yet */
    ck_assert_int_eq(lines.count, 0);
    FILE *file = fopen(path, "w");
    fputs("one\ntw", file);
    fflush(file);
    tail_read(&tail, on_line, &lines);
    ck_assert_int_eq(lines.count, 1);
    ck_assert_str_eq(lines.last, "one");
    fputs("o\n\nthree\n", file);
    fflush(file);
    tail_read(&tail, on_line, &lines);
    tail_read(&tail, on_line, &lines);
    ck_assert_int_eq(lines.count, 4);
    ck_assert_str_eq(lines.last, "three");
    for (int i = 0; i < 50000; i++)
        fprintf(file, "%d\n", i);
    fclose(file);
    tail_read(&tail, on_line, &lines);
    ck_assert_int_eq(lines.count, 50004);
    ck_assert_str_eq(lines.last, "49999");
    tail_release(&tail);
}
END_TEST

Suite *
suite_process(void)
{
    Suite *suite = suite_create("process");
    TCase *tests = suite_case(suite, "process", 20);
    tcase_add_test(tests, a_process_ends_as_it_says);
    tcase_add_test(tests, a_process_is_stopped_continued_and_killed);
    tcase_add_test(tests, a_program_that_is_not_there_says_so);
    tcase_add_test(tests, a_child_dies_with_a_runner_that_is_killed);
    tcase_add_test(tests, a_tail_gives_whole_lines_once);
    return suite;
}
