/*
 * process.h - a child process: the node that it runs, or a command.
 *
 * A child dies with the runner, even when that is killed (PR_SET_PDEATHSIG; so children
 * are started by the main thread, whose end is the process's).
 */
#ifndef TESTNET_PROCESS_H
#define TESTNET_PROCESS_H

#include "transport/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: none */
    int64_t started_ms;
    int64_t peak_rss_bytes; /* the largest seen by process_measure() */
    bool stopped;           /* by process_stop() */
    int status;             /* of waitpid(), once it has ended */
};

/* Run `argv` (NULL-terminated) in a process group of its own, standard output and error
 * appended to the file `log`. The program is argv[0]'s file. */
int process_start(struct process *process, char *const argv[], const char *log,
                  struct err *err);

/* Has it ended? Then pid is 0 and status is set. Never waits. */
bool process_ended(struct process *process);

/* Signals; nothing happens to a process that is none. */
void process_kill(struct process *process);
void process_stop(struct process *process);
void process_continue(struct process *process);
void process_ask_to_end(struct process *process); /* SIGTERM */

/* Wait up to `ms` for its end; true when it has ended. */
bool process_wait(struct process *process, int64_t ms);

/* Read its peak memory from /proc. */
void process_measure(struct process *process);

/* "exit code 1", "signal 9 (Killed)"; returns `text`. */
const char *process_how(const struct process *process, char text[64]);

#endif
