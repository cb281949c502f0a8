/*
 * command.h - the subcommands: one file each, cmd_NAME.c, and what they share.
 *
 * Exit code 0: done; 1: it failed; 2: asked wrongly. A command that reaches the running
 * node does so through DIR/control.sock.
 */
#ifndef NODE_COMMAND_H
#define NODE_COMMAND_H

#include "transport/base/err.h"
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
int cmd_status(int argc, char **argv);
int cmd_generate(int argc, char **argv);

/* Print "flotilla: sentence" on standard error and return the exit code that fits
 * err->code (ERR_USAGE: 2, else 1). */
int command_fail(const struct err *err);

/* The value of --data, from an argp parser: `path` (PATH_BYTES_MAX), or argp's usage
 * error. */
struct argp_state;
void command_take_data(const struct argp_state *state, const char *given, char *path);

/* Is there a node to ask? ERR_PEER as command_ask(). */
int command_node_runs(const char *data, struct err *err);

/* Ask the node of a data folder: sends one line, calls `line` for each that comes back
 * until the final one, which is returned parsed (free it). NULL with ERR_PEER "no node is
 * running on ..." or the node's own error; `line` may be NULL and ends the talk by
 * returning false. */
struct json *command_ask(const char *data, const char *request, size_t len,
                         bool (*line)(void *arg, const struct json *event), void *arg,
                         struct err *err);

#endif
