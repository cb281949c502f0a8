#include "node/command.h"
#include "node/config.h"
#include "node/show.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    char data[PATH_BYTES_MAX];
    bool json, all;
};

enum { OPTION_JSON = 256, OPTION_ALL };

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
    {"all", OPTION_ALL, NULL, 0, "List members that are gone for long, too", 0},
    {"json", OPTION_JSON, NULL, 0, "Print the status document", 0},
    {0}};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;
    if (key == 'd')
        command_take_data(state, arg, given->data);
    else if (key == OPTION_JSON)
        given->json = true;
    else if (key == OPTION_ALL)
        given->all = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is one argument too many", arg);
    else
        return key == ARGP_KEY_END || key == ARGP_KEY_NO_ARGS ? 0 : ARGP_ERR_UNKNOWN;
    return 0;
}

int
cmd_status(int argc, char **argv)
{
    static const char doc[] =
        "Show the swarm as the local node sees it: members, zones, links, leader and "
        "term, the plan, the progress.\v"
        "Example:\n  flotilla status --json\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct given given = {0};
    config_data_default(given.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    static const char request[] = "{\"command\": \"status\"}";
    struct err err;
    struct json *answer =
        command_ask(given.data, request, sizeof(request) - 1, NULL, &err);
    if (!answer)
        return command_fail(&err);
    const struct json *status = json_get(answer, "status");
    if (given.json) {
        char *document = json_print(status);
        puts(document);
        free(document);
    } else {
        show_status(stdout, status, given.all);
    }
    json_free(answer);
    return EXIT_DONE;
}
