#include "node/doctor.h"
#include "node/command/command.h"
#include "node/config.h"
#include "node/node.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/log.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum { CHECK_MS = 8000, LOOK_MS = 250 };

struct given {
    char data[PATH_BYTES_MAX];
    struct address listen; /* no host: not given */
    bool json;
};

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder (default ~/.local/share/flotilla)", 0},
    {"listen", 'l', "HOST:PORT", 0,
     "Join socket that a node is to have here (default: as at its last start, or "
     "0.0.0.0:7700)",
     0},
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {0}};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;
    struct err err;
    switch (key) {
    case 'd':
        command_take_data(state, arg, given->data);
        return 0;
    case 'l':
        if (address_parse(arg, &given->listen, &err))
            argp_error(state, "%s", err.msg);
        return 0;
    case 'j':
        given->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is one argument too many", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The status document; `*took_ms` to answer. The root is to be freed. */
static struct json *
ask_status(const char *data, int64_t *took_ms, struct err *err)
{
    static const char request[] = "{\"command\": \"status\"}";
    int64_t began = clock_ms();
    struct command_talk talk = {.at_once = true};
    struct json *answer = command_ask(data, request, sizeof(request) - 1, &talk, err);
    *took_ms = clock_ms() - began;
    return answer;
}

/* The age of the newest answer of a peer that dialled back; -1: there is none. */
static int64_t
newest_answer_ms(const struct json *root)
{
    const struct json *answers =
        json_get(json_get(json_get(root, "status"), "reach"), "answers");
    int64_t newest = -1;
    for (size_t i = 0; i < json_count(answers); i++) {
        int64_t age = json_int(json_get(json_at(answers, i), "age_ms"), INT64_MAX);
        if (newest < 0 || age < newest)
            newest = age;
    }
    return newest;
}

static bool
has_others(const struct json *root)
{
    return json_count(json_get(json_get(root, "status"), "members")) > 1;
}

/* Have the node dialled back anew, and wait for what comes of it. */
static struct json *
check(const char *data, struct json *root)
{
    static const char request[] = "{\"command\": \"check\"}";
    struct err err;
    int64_t began = clock_ms(), took;
    if (!has_others(root))
        return root;
    struct command_talk talk = {.at_once = true};
    json_free(command_ask(data, request, sizeof(request) - 1, &talk, &err));
    while (clock_ms() - began < CHECK_MS) {
        clock_sleep_ms(LOOK_MS);
        struct json *again = ask_status(data, &took, &err);
        if (!again)
            break;
        json_free(root);
        root = again;
        int64_t age = newest_answer_ms(root);
        if (age >= 0 && age < clock_ms() - began)
            break;
    }
    return root;
}

static void
print_json(const struct findings *findings, bool running)
{
    struct buf out = {0};
    struct json_writer writer;
    json_begin(&writer, &out);
    json_object_open(&writer, NULL);
    json_put_bool(&writer, "ok", findings_worst(findings) != FINDING_BAD);
    json_put_bool(&writer, "node", running);
    json_array_open(&writer, "findings");
    for (int i = 0; i < findings->count; i++) {
        json_object_open(&writer, NULL);
        json_put_text(&writer, "level", finding_level_name(findings->list[i].level));
        json_put_text(&writer, "topic", findings->list[i].topic);
        json_put_text(&writer, "text", findings->list[i].text);
        json_object_close(&writer);
    }
    json_array_close(&writer);
    json_object_close(&writer);
    buf_add(&out, "\n", 1);
    fwrite(out.data, 1, out.len, stdout);
    buf_release(&out);
}

int
cmd_doctor(int argc, char **argv)
{
    static const char doc[] =
        "Say what keeps this machine from being a good member, and what to do: ports and "
        "reachability, congestion control, disk, memory, file limits, matrix products. "
        "With "
        "a node running here it is dialled back by others for this.\v"
        "Examples:\n  flotilla doctor\n  flotilla doctor --data /srv/flotilla --json\n\n"
        "Exit status: 1 when something is bad.\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct node_config defaults;
    struct given given = {.json = false};
    config_init(&defaults);
    memcpy(given.data, defaults.data, sizeof(given.data));
    struct address usual = defaults.listen;
    config_release(&defaults);
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    if (!given.listen.host[0] && !local_listen(given.data, &given.listen))
        given.listen = usual;
    log_setup(LOG_ERROR, false);

    struct findings findings = {0};
    struct err err;
    int64_t took_ms = 0;
    struct json *root = ask_status(given.data, &took_ms, &err);
    if (root)
        root = check(given.data, root);
    const struct json *status = json_get(root, "status");
    if (root) {
        doctor_swarm(&findings, status, took_ms);
        doctor_reach(&findings, status);
    } else if (command_folder_taken(given.data)) {
        findings_add(&findings, FINDING_BAD, "node", "%s", err.msg);
    } else {
        findings_add(&findings, FINDING_OK, "node", "no node runs on %s", given.data);
        doctor_ports(&findings, &given.listen);
    }
    doctor_network(&findings, status);
    doctor_folder(&findings, given.data);
    doctor_memory(&findings);
    doctor_files(&findings, (int64_t)json_count(json_get(status, "members")));
    doctor_products(&findings);
    bool running = root != NULL;
    json_free(root);
    if (given.json)
        print_json(&findings, running);
    for (int i = 0; !given.json && i < findings.count; i++)
        printf("%-4s  %-10s  %s\n", finding_level_name(findings.list[i].level),
               findings.list[i].topic, findings.list[i].text);
    return findings_worst(&findings) == FINDING_BAD ? EXIT_FAILED : EXIT_DONE;
}
