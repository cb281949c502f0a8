/*
 * invite.c - let others in: invites (invite), the secret itself (secret rotate).
 */
#include "node/command/command.h"
#include "node/config.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_USES = 256,
    OPTION_FOR,
    OPTION_VOTER,
    OPTION_LIST,
    OPTION_REVOKE,
    OPTION_JSON
};

static const struct argp_option options[] = {
    {"uses", OPTION_USES, "N", 0, "How many nodes it lets in, 1 to 100 (default 1)", 0},
    {"for", OPTION_FOR, "TIME", 0, "How long, such as 30m, 24h or 7d (default 24h)", 0},
    {"voter", OPTION_VOTER, "yes|no", 0,
     "Whether those who come by it may become voters (default yes)", 0},
    {"list", OPTION_LIST, NULL, 0, "Show the invites that are open", 0},
    {"revoke", OPTION_REVOKE, "INVITE", 0, "End one: its short name, or the string", 0},
    {"json", OPTION_JSON, NULL, 0, "Print JSON", 0},
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
    {0}};

struct asked {
    char data[PATH_BYTES_MAX];
    const char *revoke;
    int64_t uses, seconds;
    bool votes, list, json;
};

/* "90s", "30m", "24h", "7d"; 0: no such time. */
static int64_t
take_time(const char *text)
{
    char *end;
    long long count = strtoll(text, &end, 10);
    int64_t unit = strcmp(end, "s") == 0   ? 1
                   : strcmp(end, "m") == 0 ? 60
                   : strcmp(end, "h") == 0 ? 3600
                   : strcmp(end, "d") == 0 ? 86400
                                           : 0;
    return end != text && count > 0 && count <= 366 * 86400 / (unit ? unit : 1)
               ? count * unit
               : 0;
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct asked *asked = state->input;
    char *end;
    switch (key) {
    case 'd':
        command_take_data(state, arg, asked->data);
        return 0;
    case OPTION_USES:
        asked->uses = strtol(arg, &end, 10);
        if (*end || asked->uses < 1 || asked->uses > 100)
            argp_error(state, "--uses is \"%s\", but must be from 1 to 100", arg);
        return 0;
    case OPTION_FOR:
        asked->seconds = take_time(arg);
        if (asked->seconds == 0)
            argp_error(state, "--for is \"%s\"; use 30m, 24h, 7d, up to 366d", arg);
        return 0;
    case OPTION_VOTER:
        asked->votes = strcmp(arg, "yes") == 0;
        if (!asked->votes && strcmp(arg, "no") != 0)
            argp_error(state, "--voter is \"%s\"; use yes or no", arg);
        return 0;
    case OPTION_LIST:
        asked->list = true;
        return 0;
    case OPTION_REVOKE:
        asked->revoke = arg;
        return 0;
    case OPTION_JSON:
        asked->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is one argument too many", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void
print_time(int64_t seconds)
{
    if (seconds <= 0)
        printf("its time is over");
    else if (seconds >= 7200)
        printf("%lld h", (long long)(seconds / 3600));
    else
        printf("%lld min", (long long)((seconds + 59) / 60));
}

static int
list_invites(const struct asked *asked)
{
    static const char request[] = "{\"command\": \"status\"}";
    struct err err;
    struct json *answer =
        command_ask(asked->data, request, sizeof(request) - 1, NULL, &err);
    if (!answer)
        return command_fail(&err);
    const struct json *invites =
        json_get(json_get(json_get(answer, "status"), "policy"), "invites");
    if (asked->json) {
        char *text = invites ? json_print(invites) : NULL;
        puts(text ? text : "[]");
        free(text);
    } else if (json_count(invites) == 0) {
        puts("no invite is open");
    }
    for (size_t i = 0; !asked->json && i < json_count(invites); i++) {
        const struct json *invite = json_at(invites, i);
        printf("%s  %lld of %lld uses left, ", json_text(json_get(invite, "id"), ""),
               (long long)json_int(json_get(invite, "uses_left"), 0),
               (long long)json_int(json_get(invite, "uses"), 0));
        print_time(json_int(json_get(invite, "seconds_left"), 0));
        puts(json_bool(json_get(invite, "votes"), true) ? "" : ", never a voter");
    }
    json_free(answer);
    return EXIT_DONE;
}

static void
write_request(const struct asked *asked, struct buf *out)
{
    struct json_writer writer;
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "command", asked->revoke ? "revoke" : "invite");
    if (asked->revoke) {
        json_put_text(&writer, "invite", asked->revoke);
    } else {
        json_put_int(&writer, "uses", asked->uses);
        json_put_int(&writer, "seconds", asked->seconds);
        json_put_bool(&writer, "votes", asked->votes);
    }
    json_object_close(&writer);
}

static void
print_invite(const struct asked *asked, const struct json *answer)
{
    const char *text = json_text(json_get(answer, "invite"), "");
    if (asked->json) {
        printf("{\"invite\": \"%s\", \"uses\": %lld, \"seconds\": %lld}\n", text,
               (long long)asked->uses, (long long)asked->seconds);
        return;
    }
    fprintf(stderr, "let in %lld node%s, within ", (long long)asked->uses,
            asked->uses == 1 ? "" : "s");
    fflush(stderr);
    fprintf(stderr,
            "%lld s; whoever has this string has the way in:\n"
            "    flotilla node --join INVITE\n",
            (long long)asked->seconds);
    puts(text);
}

int
cmd_invite(int argc, char **argv)
{
    static const char doc[] =
        "Print one string that lets other machines into the swarm: addresses, the key of "
        "the door, and a token that is good for so many nodes and so long. Who comes by "
        "it is a full member, with the swarm's secret. Replacing the secret (secret "
        "rotate, evict) ends all invites.\v"
        "Examples:\n"
        "  flotilla invite --uses 3 --for 24h\n"
        "  flotilla node --join swarm1:...      (on the other machine)\n"
        "  flotilla invite --list\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct asked asked = {.uses = 1, .seconds = 86400, .votes = true};
    config_data_default(asked.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &asked))
        return EXIT_USAGE;
    if (asked.list)
        return list_invites(&asked);
    struct buf request = {0};
    struct err err;
    write_request(&asked, &request);
    struct json *answer =
        command_ask(asked.data, (char *)request.data, request.len, NULL, &err);
    buf_release(&request);
    if (!answer)
        return command_fail(&err);
    if (asked.revoke)
        puts("revoked");
    else
        print_invite(&asked, answer);
    json_free(answer);
    return EXIT_DONE;
}
