/*
 * command.h - the subcommands: one file each, cmd_NAME.c, and what they share.
 *
 * Exit code 0: done; 1: it failed; 2: asked wrongly. A command that reaches the running
 * node does so through DIR/control.sock.
 */
#ifndef NODE_COMMAND_COMMAND_H
#define NODE_COMMAND_COMMAND_H

#include "transport/base/err.h"
#include "transport/base/limits.h"
#include "transport/json.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    int (*run)(int argc,
               char **argv); /* argv[0] is "flotilla NAME"; returns the exit code */
    const char *summary;     /* one line for `flotilla --help` */
};

int cmd_node(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_leave(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_invite(int argc, char **argv);
int cmd_evict(int argc, char **argv);
int cmd_allow(int argc, char **argv);
int cmd_secret(int argc, char **argv);
int cmd_recover(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_generate(int argc, char **argv);

/* Print "flotilla NAME: sentence" on standard error and return the exit code that fits
 * err->code (ERR_USAGE: 2, else 1). NAME is the command that main() runs. */
int command_fail(const struct err *err);
/* The same prefix for what is no failure. */
void command_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The value of --data, from an argp parser: `path` (PATH_BYTES_MAX), or argp's usage
 * error. */
struct argp_state;
void command_take_data(const struct argp_state *state, const char *given, char *path);

/* The checkpoint that a user means: `given` itself when it is one, else the newest whole
 * one in it (a job's folder) or below it (several jobs'). What is damaged and passed over
 * is noted on standard error. ERR_USAGE when there is none. */
int command_checkpoint(const char *given, char path[PATH_BYTES_MAX], struct err *err);

/* Is there a node to ask? ERR_PEER as command_ask(). */
int command_node_runs(const char *data, struct err *err);
/* Does a process hold this folder, whether it can be spoken to or not? */
bool command_folder_taken(const char *data);

/* How a command listens. */
struct command_talk {
    /* The node answers this of itself: its silence for 10 s is an error (ERR_PEER). Of
     * what may wait for others a note on standard error says so, once. */
    bool at_once;
    /* Each line but the final one; false ends the talk. May be NULL. */
    bool (*line)(void *arg, const struct json *event);
    void (*idle)(void *arg); /* the node has been silent for a moment; may be NULL */
    void *arg;
    bool interruptible; /* SIGINT ends the talk: ERR_STOPPED, and */
    bool interrupted;   /* is set */
};

/* Ask the node of a data folder: sends one line, passes on each that comes back until the
 * final one, which is returned parsed (free it). NULL with ERR_PEER "no node runs on ...",
 * the node's own error, or ERR_STOPPED when the node goes away; `talk` may be NULL. */
struct json *command_ask(const char *data, const char *request, size_t len,
                         struct command_talk *talk, struct err *err);

#endif
