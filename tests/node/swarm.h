/*
 * swarm.h - the real binary as processes of a test: nodes on loopback and the commands
 * that speak to them. Whatever is started dies with the test.
 */
#ifndef TESTS_NODE_SWARM_H
#define TESTS_NODE_SWARM_H

#include "transport/base/buf.h"
#include "transport/base/limits.h"
#include "transport/json.h"

#include <stdbool.h>
#include <sys/types.h>

struct peer {
    pid_t pid;
    int port;
    char name[16];
    char data[PATH_BYTES_MAX];
    char log[PATH_BYTES_MAX];
    char address[32];
};

/* Is the binary there (FLOTILLA, or next to this program)? Counts the test as skipped if
 * not. Makes `folder`, with a corpus and tiny.yaml (2 blocks, hidden 32, context 32). */
bool swarm_begin(const char *test);
/* Kills what is left and removes the folder. */
void swarm_end(void);
const char *swarm_folder(void);
/* "folder/name", static storage of 64 calls. */
const char *swarm_path(const char *name);
void swarm_write(const char *name, const char *text);
/* job `name`.yaml: tiny's model with these steps and more lines. */
const char *swarm_job(const char *name, int steps, const char *more);

/* Three free ports in a row on loopback. */
int swarm_ports(void);

/* Start a command with its output going to `log`; arguments end with NULL. */
pid_t swarm_spawn(const char *log, const char *const *arguments);
/* Its exit code; -1 when it does not end in time (it is killed) or dies of a signal. */
int swarm_wait(pid_t pid, int64_t timeout_ms);
/* Run a command to its end; out: both its outputs, with a final NUL. */
int swarm_run(struct buf *out, int64_t timeout_ms, const char *first, ...)
    __attribute__((sentinel));

/* A node on a folder `name`, which exists or not; more arguments end with NULL. */
void peer_start(struct peer *peer, const char *name, const char *first, ...)
    __attribute__((sentinel));
/* Again, on the same folder and port; `join` an address or NULL. */
void peer_again(struct peer *peer, const char *join);
void peer_kill(struct peer *peer);
/* SIGTERM; its exit code. */
int peer_leave(struct peer *peer, int64_t timeout_ms);

/* Wait for a line of a file that has all of these; it is copied to `line` (or NULL).
 * Fails the test with the file's end when it does not come. */
void swarm_line(const char *path, int64_t timeout_ms, char line[8192], const char *first,
                ...) __attribute__((sentinel));
void peer_event(const struct peer *peer, int64_t timeout_ms, char line[8192],
                const char *first, ...) __attribute__((sentinel));
/* This line is of the newest epoch: it began with the job, or is a better plan by measured
 * speed. */
void swarm_nobody_lost(const char *line);
void peer_logs(const struct peer *peer, int64_t timeout_ms, const char *text);

/* The largest step that a node has applied, 0: none. */
int64_t peer_step(const struct peer *peer);
/* Loss of a step by the event log, as its 17 digits; false: not there. */
bool peer_loss(const struct peer *peer, int64_t step, char loss[64]);
/* Wait for that many steps more. */
void peer_advances(const struct peer *peer, int64_t steps, int64_t timeout_ms);
/* The status document. */
struct json *peer_status(const struct peer *peer);

#endif
