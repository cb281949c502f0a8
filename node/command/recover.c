/*
 * recover.c - a lost majority, by hand: recover.
 */
#include "node/command/command.h"
#include "node/config.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum { OPTION_SURVIVORS = 256, OPTION_YES };

static const struct argp_option options[] = {
    {"survivors", OPTION_SURVIVORS, "A,B...", 0,
     "Names or ids of the nodes that go on, this one among them (default: all that this "
     "node reaches)",
     0},
    {"yes", OPTION_YES, NULL, 0, "Do it; without it this command says what would be", 0},
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
    {0}};

struct asked {
    char data[PATH_BYTES_MAX];
    const char *survivors;
    bool yes;
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct asked *asked = state->input;
    if (key == 'd')
        command_take_data(state, arg, asked->data);
    else if (key == OPTION_SURVIVORS)
        asked->survivors = arg;
    else if (key == OPTION_YES)
        asked->yes = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is one argument too many", arg);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static void
write_request(const struct asked *asked, struct buf *out)
{
    struct json_writer writer;
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "command", "recover");
    json_put_bool(&writer, "yes", asked->yes);
    json_array_open(&writer, "survivors");
    for (const char *at = asked->survivors; at && *at;) {
        size_t len = strcspn(at, ",");
        char name[80];
        snprintf(name, sizeof(name), "%.*s", (int)(len < 79 ? len : 79), at);
        json_put_text(&writer, NULL, name);
        at += len + (at[len] == ',');
    }
    json_array_close(&writer);
    json_object_close(&writer);
}

int
cmd_recover(int argc, char **argv)
{
    static const char doc[] =
        "Go on without a majority that is lost for good: the nodes that are left become "
        "the members and voters of a new generation. What the lost ones knew alone is "
        "given up; if one of them comes back it is told, drops what it had, and joins "
        "again. Do it at one place only: two recoveries at two places are two swarms, "
        "each of which names and refuses the other, until one of them recovers again.\v"
        "Examples:\n"
        "  flotilla recover             (says what would be)\n"
        "  flotilla recover --yes\n"
        "  flotilla recover --survivors a1,a2 --yes\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct asked asked = {.yes = false};
    struct err err;
    struct buf request = {0};
    config_data_default(asked.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &asked))
        return EXIT_USAGE;
    write_request(&asked, &request);
    struct json *answer =
        command_ask(asked.data, (char *)request.data, request.len, NULL, &err);
    buf_release(&request);
    if (!answer)
        return command_fail(&err);
    puts(json_text(json_get(answer, "text"), "done"));
    json_free(answer);
    return EXIT_DONE;
}
