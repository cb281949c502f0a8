/*
 * secret.c - the swarm's secret: secret rotate.
 */
#include "node/command/command.h"
#include "node/config.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0}, {0}};

struct asked {
    char data[PATH_BYTES_MAX];
    bool rotate;
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct asked *asked = state->input;
    if (key == 'd')
        command_take_data(state, arg, asked->data);
    else if (key == ARGP_KEY_ARG && strcmp(arg, "rotate") == 0 && !asked->rotate)
        asked->rotate = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is nothing to do with the secret; use rotate", arg);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int
cmd_secret(int argc, char **argv)
{
    static const char doc[] =
        "Replace the swarm's secret: all members get the new one over their encrypted "
        "connections, also those that come back later; whoever has the old one alone can "
        "no longer join. Training goes on. Open invites end.\v"
        "Example:\n  flotilla secret rotate\n";
    static const struct argp argp = {options, parse, "rotate", doc, NULL, NULL, NULL};
    struct asked asked = {.rotate = false};
    struct err err;
    config_data_default(asked.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &asked))
        return EXIT_USAGE;
    if (!asked.rotate) {
        err_set(&err, ERR_USAGE, "say what to do with it: flotilla secret rotate");
        return command_fail(&err);
    }
    static const char request[] = "{\"command\": \"rotate\"}";
    struct json *answer =
        command_ask(asked.data, request, sizeof(request) - 1, NULL, &err);
    if (!answer)
        return command_fail(&err);
    json_free(answer);
    puts(
        "the swarm has a new secret; it is in swarm.secret of each member's data folder");
    return EXIT_DONE;
}
