/*
 * stop.c - the two short commands: stop (the job) and leave (the swarm).
 */
#include "node/command/command.h"
#include "node/config.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0}, {0}};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    if (key == 'd')
        command_take_data(state, arg, state->input);
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is one argument too many", arg);
    else if (key != ARGP_KEY_END && key != ARGP_KEY_INIT && key != ARGP_KEY_SUCCESS &&
             key != ARGP_KEY_FINI && key != ARGP_KEY_NO_ARGS)
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static bool
until_ended(void *arg, const struct json *event)
{
    bool *ended = arg;
    const char *kind = json_text(json_get(event, "event"), "");
    const char *state = json_text(json_get(event, "state"), "");
    if (strcmp(kind, "checkpoint") == 0)
        printf("checkpoint %s\n", json_text(json_get(event, "path"), ""));
    if (strcmp(kind, "failed") == 0) /* why it takes so long */
        printf("failed: %.400s\n", json_text(json_get(event, "reason"), ""));
    if (strcmp(kind, "job") == 0 && strcmp(state, "stopping") != 0 &&
        strcmp(state, "running") != 0) {
        printf("the run ended: %s\n", state);
        *ended = true;
    }
    fflush(stdout);
    return !*ended;
}

int
cmd_stop(int argc, char **argv)
{
    static const char doc[] = "End the swarm's job after a checkpoint; afterwards "
                              "another one may be submitted, "
                              "or this one resumed.\v"
                              "Example:\n  flotilla stop && flotilla train --resume\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    char data[PATH_BYTES_MAX];
    config_data_default(data);
    if (argp_parse(&argp, argc, argv, 0, NULL, data))
        return EXIT_USAGE;
    static const char request[] = "{\"command\": \"stop\", \"follow\": true}";
    struct err err;
    bool ended = false;
    struct command_talk talk = {.line = until_ended, .arg = &ended};
    struct json *answer = command_ask(data, request, sizeof(request) - 1, &talk, &err);
    if (!answer)
        return command_fail(&err);
    json_free(answer);
    if (!ended)
        puts("the job was withdrawn before it began");
    return EXIT_DONE;
}

/* Why the node says that it ended. */
static bool
until_stopped(void *arg, const struct json *event)
{
    char *reason = arg;
    if (strcmp(json_text(json_get(event, "event"), ""), "stop") == 0)
        snprintf(reason, ERR_MSG_SIZE, "%.200s",
                 json_text(json_get(event, "reason"), ""));
    return true;
}

/* It left in order: planned out, the last of its swarm, or not in one yet. */
static bool
left(const char *reason)
{
    static const char *const good[] = {"left", "the last member goes", "asked to leave"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (strcmp(reason, good[i]) == 0)
            return true;
    return false;
}

/* Has it joined its swarm? One that has not has nobody to be planned without. */
static bool
entered(const char *data)
{
    static const char request[] = "{\"command\": \"status\"}";
    struct err err;
    struct command_talk talk = {.at_once = true};
    struct json *answer = command_ask(data, request, sizeof(request) - 1, &talk, &err);
    bool has =
        !answer || json_bool(json_get(json_get(answer, "status"), "entered"), true);
    json_free(answer);
    return has;
}

int
cmd_leave(int argc, char **argv)
{
    static const char doc[] =
        "Let this machine's node leave: the swarm plans without it, its state is handed "
        "over, and the process ends. SIGTERM does the same.\v"
        "Example:\n  flotilla leave --data /srv/flotilla\n\n"
        "Exit status: 1 when the node ended without being planned out.\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    char data[PATH_BYTES_MAX], reason[ERR_MSG_SIZE] = "";
    config_data_default(data);
    if (argp_parse(&argp, argc, argv, 0, NULL, data))
        return EXIT_USAGE;
    static const char request[] = "{\"command\": \"leave\"}";
    struct err err;
    bool was_in = entered(data);
    struct command_talk talk = {.line = until_stopped, .arg = reason};
    struct json *answer = command_ask(data, request, sizeof(request) - 1, &talk, &err);
    /* The node closes when it is gone: that is the answer. */
    if (!answer && err.code != ERR_STOPPED)
        return command_fail(&err);
    json_free(answer);
    if (left(reason)) {
        puts("left");
        return EXIT_DONE;
    }
    if (!was_in && !reason[0]) {
        puts("the node ended; it had not joined its swarm yet");
        return EXIT_DONE;
    }
    err_set(&err, ERR_STOPPED,
            "the node ended, but no plan without it was made (%s); the others will take "
            "it for lost",
            reason[0] ? reason : "it did not say why");
    return command_fail(&err);
}
