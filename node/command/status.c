#include "node/command/command.h"
#include "node/command/show.h"
#include "node/config.h"
#include "transport/base/file.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    char data[PATH_BYTES_MAX];
    const char *cluster;
    bool json, all;
};

enum { OPTION_JSON = 256, OPTION_ALL, OPTION_CLUSTER };

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
    {"all", OPTION_ALL, NULL, 0, "List members that are gone for long, too", 0},
    {"json", OPTION_JSON, NULL, 0, "Print the status document", 0},
    {"cluster", OPTION_CLUSTER, "FILE", 0,
     "Write the swarm as a cluster.yaml, and its profiles beside it, for flotilla plan",
     0},
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
    else if (key == OPTION_CLUSTER)
        given->cluster = arg;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is one argument too many", arg);
    else
        return key == ARGP_KEY_END || key == ARGP_KEY_NO_ARGS ? 0 : ARGP_ERR_UNKNOWN;
    return 0;
}

static const char no_status[] =
    "the node's answer has no status; is it of another version than this program?";

/* Write a text of the answer's to a file. */
static int
put(const char *path, const struct json *text, struct err *err)
{
    const char *bytes = json_text(text, "");
    return file_write(path, bytes, strlen(bytes), 0644, err);
}

/* The swarm as FILE and FILE's name without its end, a type's name and ".json". */
static int
write_cluster(const struct given *given, struct err *err)
{
    const char *slash = strrchr(given->cluster, '/');
    const char *name = slash ? slash + 1 : given->cluster;
    const char *dot = strrchr(name, '.');
    int folder = (int)(name - given->cluster),
        len = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    char prefix[NAME_BYTES_MAX + 2], path[PATH_BYTES_MAX];
    snprintf(prefix, sizeof(prefix), "%.*s", len, name);
    if (len > NAME_BYTES_MAX ||
        config_name_check("the name of --cluster's file", prefix, err))
        return len > NAME_BYTES_MAX ? err_set(err, ERR_USAGE,
                                              "the name of --cluster's file is longer "
                                              "than %d bytes",
                                              NAME_BYTES_MAX)
                                    : -1;
    struct buf request = {0};
    struct json_writer writer;
    json_begin(&writer, &request);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "command", "cluster");
    json_put_text(&writer, "prefix", prefix);
    json_object_close(&writer);
    struct command_talk talk = {.at_once = true};
    struct json *answer =
        command_ask(given->data, (const char *)request.data, request.len, &talk, err);
    buf_release(&request);
    if (!answer)
        return -1;
    const struct json *profiles = json_get(answer, "profiles");
    int result = put(given->cluster, json_get(answer, "cluster"), err);
    for (size_t i = 0; i < json_count(profiles) && result == 0; i++) {
        const struct json *profile = json_at(profiles, i);
        const char *file = json_text(json_get(profile, "file"), "");
        if (strchr(file, '/') || snprintf(path, sizeof(path), "%.*s%s", folder,
                                          given->cluster, file) >= PATH_BYTES_MAX)
            result = err_set(err, ERR_WIRE, "the node named a profile \"%.64s\"", file);
        else
            result = put(path, json_get(profile, "text"), err);
    }
    if (result == 0 && json_count(profiles) == 0)
        command_note("no member has measured a job yet; \"flotilla profile\" does, and "
                     "\"profiles\" in %s names the files",
                     given->cluster);
    json_free(answer);
    return result;
}

int
cmd_status(int argc, char **argv)
{
    static const char doc[] =
        "Show the swarm as the local node sees it: members, zones, links, leader and "
        "term, the plan, the progress.\v"
        "Examples:\n"
        "  flotilla status --json\n"
        "  flotilla status --cluster swarm.yaml; flotilla plan --cluster swarm.yaml "
        "--job job.yaml\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct given given = {0};
    config_data_default(given.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    static const char request[] = "{\"command\": \"status\"}";
    struct err err;
    if (given.cluster)
        return write_cluster(&given, &err) ? command_fail(&err) : EXIT_DONE;
    struct command_talk talk = {.at_once = true};
    struct json *answer =
        command_ask(given.data, request, sizeof(request) - 1, &talk, &err);
    if (!answer)
        return command_fail(&err);
    const struct json *status = json_get(answer, "status");
    if (!json_is_object(status)) {
        err_set(&err, ERR_WIRE, "%s", no_status);
        json_free(answer);
        return command_fail(&err);
    }
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
