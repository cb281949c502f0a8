/*
 * evict.c - shut out and let in, by name: evict NODE, allow NODE...
 */
#include "node/command/command.h"
#include "node/config.h"
#include "transport/base/file.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_FILE = 256,
    OPTION_MODE,
    OPTION_LIST,
    OPTION_REMOVE,
    OPTION_JSON,
    NODES_MAX = 1024
};

struct asked {
    char data[PATH_BYTES_MAX];
    const char *file, *mode;
    bool list, remove, json;
    int nodes_count;
    const char *nodes[NODES_MAX];
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct asked *asked = state->input;
    switch (key) {
    case 'd':
        command_take_data(state, arg, asked->data);
        return 0;
    case OPTION_FILE:
        asked->file = arg;
        return 0;
    case OPTION_MODE:
        asked->mode = arg;
        return 0;
    case OPTION_LIST:
        asked->list = true;
        return 0;
    case OPTION_REMOVE:
        asked->remove = true;
        return 0;
    case OPTION_JSON:
        asked->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (asked->nodes_count == NODES_MAX)
            argp_error(state, "more than %d nodes at once", NODES_MAX);
        else
            asked->nodes[asked->nodes_count++] = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Ask, and say in one word that it is done. */
static int
ask(const struct asked *asked, const struct buf *request, const char *done)
{
    struct err err;
    struct json *answer =
        command_ask(asked->data, (char *)request->data, request->len, NULL, &err);
    if (!answer)
        return command_fail(&err);
    json_free(answer);
    if (asked->json)
        puts("{\"done\": true}");
    else
        puts(done);
    return EXIT_DONE;
}

/* {"command": name, ...}; what is `key` is written by the caller and closed here. */
static void
begin(struct json_writer *writer, struct buf *request, const char *name)
{
    json_begin(writer, request);
    json_object_open(writer, NULL);
    json_put_text(writer, "command", name);
}

static struct asked asked; /* large: not on the stack */

int
cmd_evict(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
        {"json", OPTION_JSON, NULL, 0, "Print JSON", 0},
        {0}};
    static const char doc[] =
        "Shut a node out for good: the swarm plans without it, all members close their "
        "connections with it within seconds, its key cannot return, and the swarm's "
        "secret is replaced, since it knows the old one. Open invites end.\v"
        "NODE is a name, a short id or a whole id, as \"flotilla status\" shows them.\n\n"
        "Example:\n  flotilla evict b2\n";
    static const struct argp argp = {options, parse, "NODE", doc, NULL, NULL, NULL};
    memset(&asked, 0, sizeof(asked));
    config_data_default(asked.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &asked))
        return EXIT_USAGE;
    struct buf request = {0};
    struct json_writer writer;
    struct err err;
    if (asked.nodes_count != 1) {
        err_set(&err, ERR_USAGE, "name one node: flotilla evict NODE");
        return command_fail(&err);
    }
    begin(&writer, &request, "evict");
    json_put_text(&writer, "node", asked.nodes[0]);
    json_object_close(&writer);
    int code = ask(&asked, &request, "evicted; the swarm has a new secret");
    buf_release(&request);
    return code;
}

/* ---- allow ---- */

static int
list_allowed(void)
{
    static const char request[] = "{\"command\": \"status\"}";
    struct err err;
    struct json *answer =
        command_ask(asked.data, request, sizeof(request) - 1, NULL, &err);
    if (!answer)
        return command_fail(&err);
    const struct json *policy = json_get(json_get(answer, "status"), "policy");
    static const char *const lists[] = {"allowed", "evicted", "never_voters"};
    if (asked.json) {
        char *text = policy ? json_print(policy) : NULL;
        puts(text ? text : "{}");
        free(text);
    } else {
        printf("mode %s\n", json_text(json_get(policy, "mode"), "unknown"));
        for (size_t k = 0; k < 3; k++) {
            const struct json *list = json_get(policy, lists[k]);
            for (size_t i = 0; i < json_count(list); i++) {
                const struct json *node = json_at(list, i);
                printf("%-12s %s  %s\n", lists[k], json_text(json_get(node, "id"), ""),
                       json_text(json_get(node, "name"), ""));
            }
        }
    }
    json_free(answer);
    return EXIT_DONE;
}

/* One node a line; what follows it, and lines that begin with #, are for people. */
static int
put_file(struct json_writer *writer, size_t *count, struct err *err)
{
    struct buf text = {0};
    if (file_read(asked.file, 1 << 20, &text, err))
        return -1;
    buf_add(&text, "\n", 2);
    const char *at = (const char *)text.data;
    while (*at) {
        at += strspn(at, " \t\r\n");
        size_t len = strcspn(at, " \t\r\n");
        if (len > 0 && *at != '#') {
            char word[80];
            snprintf(word, sizeof(word), "%.*s", (int)(len < 79 ? len : 79), at);
            json_put_text(writer, NULL, word);
            ++*count;
        }
        at += strcspn(at, "\n");
    }
    buf_release(&text);
    return 0;
}

static int
change_list(void)
{
    struct buf request = {0};
    struct json_writer writer;
    struct err err = {0};
    size_t count = (size_t)asked.nodes_count;
    begin(&writer, &request, asked.remove ? "disallow" : "allow");
    json_array_open(&writer, "nodes");
    for (int i = 0; i < asked.nodes_count; i++)
        json_put_text(&writer, NULL, asked.nodes[i]);
    int failed = asked.file ? put_file(&writer, &count, &err) : 0;
    json_array_close(&writer);
    json_object_close(&writer);
    if (!failed && (count == 0 || count > NODES_MAX))
        failed = err_set(&err, ERR_USAGE,
                         "name 1 to %d nodes by their ids, or give --mode or --list",
                         NODES_MAX);
    int code = failed
                   ? command_fail(&err)
                   : ask(&asked, &request,
                         asked.remove ? "removed; one that is a member stays it until it "
                                        "goes or is lost (\"flotilla evict\" puts it out)"
                                      : "allowed");
    buf_release(&request);
    return code;
}

int
cmd_allow(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"file", OPTION_FILE, "FILE", 0, "Ids from a file, one a line", 0},
        {"remove", OPTION_REMOVE, NULL, 0, "Take nodes off the list again", 0},
        {"mode", OPTION_MODE, "MODE", 0,
         "allow-list: only nodes on the list join, whoever has the secret; secret: "
         "whoever has the secret joins",
         0},
        {"list", OPTION_LIST, NULL, 0, "Show the mode and the lists", 0},
        {"json", OPTION_JSON, NULL, 0, "Print JSON", 0},
        {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
        {0}};
    static const char doc[] =
        "The list of nodes that may join. It counts in the mode allow-list; those who "
        "are members when that is set are put on it. A node that is refused is told its "
        "id. Invites put who comes by them on the list.\v"
        "Examples:\n"
        "  flotilla allow --mode allow-list\n"
        "  flotilla allow 6f0c...e1        (64 hexadecimal digits)\n"
        "  flotilla allow --file ids.txt\n"
        "  flotilla allow --list\n";
    static const struct argp argp = {options, parse, "[ID...]", doc, NULL, NULL, NULL};
    memset(&asked, 0, sizeof(asked));
    config_data_default(asked.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &asked))
        return EXIT_USAGE;
    if (asked.list)
        return list_allowed();
    if (!asked.mode)
        return change_list();
    struct buf request = {0};
    struct json_writer writer;
    begin(&writer, &request, "mode");
    json_put_text(&writer, "mode", asked.mode);
    json_object_close(&writer);
    int code = ask(&asked, &request, "done");
    buf_release(&request);
    return code;
}
