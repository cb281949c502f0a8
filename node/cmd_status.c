#include "node/command.h"
#include "node/config.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    char data[PATH_BYTES_MAX];
    bool json;
};

enum { OPTION_JSON = 256 };

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
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
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is one argument too many", arg);
    else
        return key == ARGP_KEY_END || key == ARGP_KEY_NO_ARGS ? 0 : ARGP_ERR_UNKNOWN;
    return 0;
}

static const char *
text(const struct json *object, const char *key)
{
    return json_text(json_get(object, key), "");
}

static void
print_members(const struct json *members)
{
    printf("\n%-16s %-12s %-22s %-8s %-18s %-10s %s\n", "node", "zone", "address",
           "state", "part", "memory", "round trip");
    for (size_t i = 0; i < json_count(members); i++) {
        const struct json *member = json_at(members, i);
        char part[32];
        snprintf(part, sizeof(part), "%s%s%s",
                 json_bool(json_get(member, "member"), false) ? "member" : "outside",
                 json_bool(json_get(member, "voter"), false) ? ", voter" : "",
                 json_bool(json_get(member, "worker"), false) ? ", works" : "");
        char memory[32];
        snprintf(memory, sizeof(memory), "%.1f GiB",
                 (double)json_int(json_get(member, "memory_bytes"), 0) / (1 << 30));
        printf("%-16s %-12s %-22s %-8s %-18s %-10s ", text(member, "name"),
               text(member, "zone"), text(member, "address"), text(member, "state"), part,
               memory);
        if (json_bool(json_get(member, "self"), false))
            printf("this node\n");
        else
            printf("%.1f ms\n", json_double(json_get(member, "round_trip_ms"), 0));
    }
}

static void
print_links(const struct json *links)
{
    if (json_count(links) == 0)
        return;
    printf("\n%-16s %-16s %12s %12s %11s\n", "from", "to", "Mbit/s", "round trip",
           "confidence");
    for (size_t i = 0; i < json_count(links); i++) {
        const struct json *link = json_at(links, i);
        double rate = json_double(json_get(link, "mbit_per_s"), 0);
        printf("%-16s %-16s ", text(link, "from"), text(link, "to"));
        if (rate > 0)
            printf("%12.1f", rate);
        else
            printf("%12s", "unknown");
        printf(" %9.1f ms %9lld %%\n", json_double(json_get(link, "round_trip_ms"), 0),
               (long long)json_int(json_get(link, "confidence"), 0));
    }
}

static void
print_plan(const struct json *plan)
{
    const struct json *stages = json_get(plan, "stages");
    if (json_count(stages) == 0)
        return;
    printf("\nplan: micro-batch %lld%s\n",
           (long long)json_int(json_get(plan, "micro_batch"), 0),
           json_bool(json_get(plan, "loosened"), false)
               ? " (what the job fixed was loosened: its members are not all here)"
               : "");
    for (size_t s = 0; s < json_count(stages); s++) {
        const struct json *stage = json_at(stages, s);
        const struct json *replicas = json_get(stage, "replicas");
        int64_t first = json_int(json_get(stage, "first_layer"), 0);
        printf("  stage %zu  layers %lld to %lld ", s, (long long)first,
               (long long)(first + json_int(json_get(stage, "layers"), 0) - 1));
        for (size_t r = 0; r < json_count(replicas); r++) {
            const struct json *replica = json_at(replicas, r);
            printf("  %s/%s x%lld", text(replica, "zone"), text(replica, "node"),
                   (long long)json_int(json_get(replica, "micro_batches"), 0));
        }
        printf("\n");
    }
}

static void
print_job(const struct json *status)
{
    const struct json *job = json_get(status, "job");
    if (!json_is_object(job)) {
        printf("job: none%s%s\n",
               text(status, "ended")[0] ? "; the last one ended: " : "",
               text(status, "ended"));
        return;
    }
    printf("job: %s, %s, step %lld of %lld, loss %.4f, %.0f tokens/s\n",
           text(job, "name"), text(job, "state"),
           (long long)json_int(json_get(job, "step"), 0),
           (long long)json_int(json_get(job, "steps"), 0),
           json_double(json_get(job, "loss"), 0),
           json_double(json_get(job, "tokens_per_s"), 0));
    printf("     step %.3f s measured, %.3f s predicted; %lld nodes compute; recovery "
           "copy of step "
           "%lld, checkpoint of step %lld\n",
           json_double(json_get(job, "step_s"), 0),
           json_double(json_get(job, "predicted_step_s"), 0),
           (long long)json_int(json_get(job, "participating"), 0),
           (long long)json_int(json_get(job, "copy_step"), 0),
           (long long)json_int(json_get(job, "checkpoint_step"), 0));
}

static void
print_status(const struct json *status)
{
    printf("node %s (%s), zone %s, %s, flotilla %s\n", text(status, "name"),
           text(status, "id"), text(status, "zone"), text(status, "address"),
           text(status, "version"));
    if (!json_bool(json_get(status, "entered"), false)) {
        printf("still joining; the node's log says what it waits for\n");
        return;
    }
    const char *leader = text(status, "leader_name");
    printf("swarm %s, epoch %lld, term %lld, leader %s, this node is %s\n",
           text(status, "swarm"), (long long)json_int(json_get(status, "epoch"), 0),
           (long long)json_int(json_get(status, "term"), 0), leader[0] ? leader : "none",
           text(status, "role"));
    if (text(status, "paused")[0])
        printf("PAUSED: %s\n", text(status, "paused"));
    print_job(status);
    print_plan(json_get(status, "plan"));
    print_members(json_get(status, "members"));
    print_links(json_get(status, "links"));
}

int
cmd_status(int argc, char **argv)
{
    static const char doc[] =
        "Show the swarm as the local node sees it: members, zones, links, leader "
        "and term, the plan, the progress.\v"
        "Example:\n  flotilla status --json\n";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct given given = {0};
    config_data_default(given.data);
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    static const char request[] = "{\"command\": \"status\"}";
    struct err err;
    struct json *answer =
        command_ask(given.data, request, sizeof(request) - 1, NULL, NULL, &err);
    if (!answer)
        return command_fail(&err);
    const struct json *status = json_get(answer, "status");
    if (given.json) {
        char *document = json_print(status);
        puts(document);
        free(document);
    } else {
        print_status(status);
    }
    json_free(answer);
    return EXIT_DONE;
}
