#include "node/command.h"
#include "node/config.h"
#include "node/engine/checkpoint.h"
#include "node/engine/data.h"
#include "node/job.h"
#include "node/status.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/key.h"

#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train_options_given {
    char data[PATH_BYTES_MAX];
    const char *job;
    bool resume, detach, json;
};

enum { OPTION_RESUME = 256, OPTION_DETACH, OPTION_JSON };

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
    {"resume", OPTION_RESUME, NULL, 0, "Go on from the newest whole checkpoint", 0},
    {"detach", OPTION_DETACH, NULL, 0, "Do not follow the run", 0},
    {"json", OPTION_JSON, NULL, 0, "Print events as JSON lines", 0},
    {0}};

static const char doc[] = "Submit a job to the swarm of the local node and follow it: "
                          "step, loss, tokens/s, epoch, nodes. "
                          "Ctrl-C detaches; the run goes on.\v"
                          "Examples:\n"
                          "  flotilla train job.yaml\n"
                          "  flotilla train --resume\n";

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct train_options_given *given = state->input;
    switch (key) {
    case 'd':
        command_take_data(state, arg, given->data);
        break;
    case OPTION_RESUME:
        given->resume = true;
        break;
    case OPTION_DETACH:
        given->detach = true;
        break;
    case OPTION_JSON:
        given->json = true;
        break;
    case ARGP_KEY_ARG:
        if (given->job)
            argp_error(state, "\"%s\" is one argument too many", arg);
        given->job = arg;
        break;
    case ARGP_KEY_END:
        if (!given->job && !given->resume)
            argp_error(state, "name a job file, or give --resume");
        if (given->job && given->resume)
            argp_error(state,
                       "--resume takes the job from the checkpoint; leave \"%s\" out",
                       given->job);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- following ---- */

struct follow {
    bool json, live;
    double tokens_per_s;
    int64_t epoch, nodes, last_step;
    char ended[160]; /* how the run ended; empty: it goes on */
    bool failed;
};

static void
show_step(struct follow *follow, const struct json *event)
{
    int64_t step = json_int(json_get(event, "step"), 0);
    double step_s = json_double(json_get(event, "step_s"), 0);
    double tokens = (double)json_int(json_get(event, "tokens"), 0);
    if (step <= follow->last_step)
        return;
    follow->last_step = step;
    follow->epoch = json_int(json_get(event, "epoch"), follow->epoch);
    follow->nodes = json_int(json_get(event, "nodes"), follow->nodes);
    follow->tokens_per_s = step_s > 0 ? tokens / step_s : 0;
    printf("%sstep %lld  loss %.4f  %.0f tokens/s  epoch %lld  nodes %lld%s",
           follow->live ? "\r\033[K" : "", (long long)step,
           json_double(json_get(event, "loss"), 0), follow->tokens_per_s,
           (long long)follow->epoch, (long long)follow->nodes, follow->live ? "" : "\n");
}

static void
show_line(const struct follow *follow, const char *text)
{
    printf("%s%s\n", follow->live ? "\r\033[K" : "", text);
}

static void
show_epoch(struct follow *follow, const struct json *event)
{
    char text[256];
    follow->epoch = json_int(json_get(event, "epoch"), 0);
    follow->nodes = (int64_t)json_count(json_get(event, "members"));
    snprintf(text, sizeof(text), "epoch %lld (%s): %lld nodes, leader %s, %zu stages",
             (long long)follow->epoch, json_text(json_get(event, "cause"), ""),
             (long long)follow->nodes, json_text(json_get(event, "leader_name"), ""),
             json_count(json_get(json_get(event, "plan"), "stages")));
    show_line(follow, text);
}

static bool
on_event(void *arg, const struct json *event)
{
    struct follow *follow = arg;
    const char *kind = json_text(json_get(event, "event"), "");
    char text[512];
    if (strcmp(kind, "step") == 0 || strcmp(kind, "progress") == 0) {
        show_step(follow, event);
    } else if (strcmp(kind, "epoch") == 0) {
        show_epoch(follow, event);
    } else if (strcmp(kind, "checkpoint") == 0) {
        snprintf(text, sizeof(text), "checkpoint %s",
                 json_text(json_get(event, "path"), ""));
        show_line(follow, text);
    } else if (strcmp(kind, "paused") == 0 || strcmp(kind, "failed") == 0) {
        snprintf(text, sizeof(text), "%s: %s", kind,
                 json_text(json_get(event, "reason"), ""));
        show_line(follow, text);
    } else if (strcmp(kind, "rollback") == 0) {
        snprintf(text, sizeof(text), "steps %lld to %lld are done again",
                 (long long)json_int(json_get(event, "to_step"), 0) + 1,
                 (long long)json_int(json_get(event, "from_step"), 0));
        show_line(follow, text);
        follow->last_step = json_int(json_get(event, "to_step"), 0);
    } else if (strcmp(kind, "job") == 0) {
        const char *state = json_text(json_get(event, "state"), "");
        if (strcmp(state, "running") != 0 && strcmp(state, "stopping") != 0) {
            snprintf(follow->ended, sizeof(follow->ended), "%s", state);
            follow->failed = strncmp(state, "failed", 6) == 0;
            snprintf(text, sizeof(text), "the run ended: %s", state);
            show_line(follow, text);
        }
    }
    fflush(stdout);
    return follow->ended[0] == '\0';
}

static bool
on_event_json(void *arg, const struct json *event)
{
    struct follow *follow = arg;
    char *text = json_print(event);
    puts(text);
    fflush(stdout);
    free(text);
    if (strcmp(json_text(json_get(event, "event"), ""), "job") == 0) {
        const char *state = json_text(json_get(event, "state"), "");
        if (strcmp(state, "running") != 0 && strcmp(state, "stopping") != 0) {
            snprintf(follow->ended, sizeof(follow->ended), "%s", state);
            follow->failed = strncmp(state, "failed", 6) == 0;
        }
    }
    return follow->ended[0] == '\0';
}

/* ---- the request ---- */

static void
write_request(const struct train_options_given *given, const char *name, const char *text,
              const struct id *data, int64_t data_bytes, const char *run, struct buf *out)
{
    char hash[ID_TEXT_SIZE];
    struct json_writer writer;
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "command", "train");
    json_put_text(&writer, "job", text);
    json_put_text(&writer, "name", name);
    json_put_text(&writer, "data", id_text(data, hash));
    json_put_int(&writer, "data_bytes", data_bytes);
    json_put_text(&writer, "run", run);
    json_put_bool(&writer, "follow", !given->detach);
    json_object_close(&writer);
}

/* Read the job, gather its text into the node's data folder under its hash. */
static int
prepare_job(const struct train_options_given *given, struct buf *request, struct err *err)
{
    struct buf text = {0};
    struct job job = {0};
    int result = file_read(given->job, JOB_BYTES_MAX / 2, &text, err);
    if (result && err->code == ERR_SYSTEM)
        err->code = ERR_USAGE;
    if (result == 0)
        result = job_parse(given->job, (char *)text.data, text.len, &job, err);
    if (result == 0) /* nothing is written for a node that is not there */
        result = command_node_runs(given->data, err);
    if (result == 0) {
        char folder[PATH_BYTES_MAX], from[PATH_BYTES_MAX], temporary[PATH_BYTES_MAX],
            name[ID_TEXT_SIZE + 8], path[PATH_BYTES_MAX];
        snprintf(from, sizeof(from), "%s", given->job);
        char *slash = strrchr(from, '/');
        snprintf(slash ? slash : from, slash ? 1 : 2, "%s", slash ? "" : ".");
        if (slash == from)
            snprintf(from, sizeof(from), "/");
        struct id data;
        int64_t bytes = 0;
        path_join(folder, given->data, STATUS_DATA_FOLDER);
        snprintf(name, sizeof(name), "gather-%d", (int)getpid());
        path_join(temporary, folder, name);
        result = file_make_folder(folder, err) ||
                         data_gather(from, job.pattern, temporary, &data, &bytes, err)
                     ? -1
                     : 0;
        if (result == 0) {
            char hash[ID_TEXT_SIZE];
            path_join(path, folder, id_text(&data, hash));
            if (rename(temporary, path))
                result = err_set_errno(err, "could not rename \"%s\"", temporary);
            /* Enough text for one sample, before anybody plans. */
            struct data *set = result ? NULL : data_open(path, job.shape.context, err);
            if (!set)
                result = -1;
            data_close(set);
        } else {
            unlink(temporary);
        }
        if (result == 0)
            write_request(given, given->job, job.text, &data, bytes, "", request);
    }
    job_release(&job);
    buf_release(&text);
    return result;
}

static int
prepare_resume(const struct train_options_given *given, struct buf *request,
               struct err *err)
{
    char root[PATH_BYTES_MAX], path[PATH_BYTES_MAX], damaged[512] = "", run[ID_TEXT_SIZE];
    path_join(root, given->data, STATUS_CHECKPOINTS_FOLDER);
    struct id any = {{0}};
    int found = checkpoint_newest(root, &any, path, damaged, sizeof(damaged), err);
    if (damaged[0])
        fprintf(stderr, "flotilla: passed over: %s\n", damaged);
    if (found)
        return -1;
    struct checkpoint_info info = {0};
    struct checkpoint *checkpoint = checkpoint_open(path, &info, err);
    if (!checkpoint)
        return -1;
    checkpoint_close(checkpoint);
    int result = 0;
    if (!info.text)
        result = err_set(err, ERR_CORRUPT, "the checkpoint \"%s\" does not hold its job",
                         path);
    else
        write_request(given, "the checkpoint's job", info.text, &info.data,
                      info.data_bytes, id_text(&info.job, run), request);
    if (result == 0 && !given->json)
        printf("resuming \"%s\" from step %lld (%s)\n", info.name, (long long)info.step,
               path);
    fflush(stdout);
    checkpoint_info_release(&info);
    return result;
}

static void
on_interrupt(int signal_number)
{
    (void)signal_number;
    static const char text[] =
        "\ndetached; the run goes on: flotilla status shows it, flotilla stop ends it\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)written;
    _exit(EXIT_DONE);
}

int
cmd_train(int argc, char **argv)
{
    struct train_options_given given = {0};
    config_data_default(given.data);
    static const struct argp argp = {options, parse, "JOB.yaml", doc, NULL, NULL, NULL};
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    struct err err;
    struct buf request = {0};
    if (key_setup(&err) || (given.resume ? prepare_resume(&given, &request, &err)
                                         : prepare_job(&given, &request, &err))) {
        buf_release(&request);
        return command_fail(&err);
    }
    signal(SIGINT, on_interrupt);
    struct follow follow = {.json = given.json,
                            .live = !given.json && isatty(STDOUT_FILENO)};
    struct json *answer =
        command_ask(given.data, (char *)request.data, request.len,
                    given.json ? on_event_json : on_event, &follow, &err);
    buf_release(&request);
    if (!answer)
        return command_fail(&err);
    json_free(answer);
    if (given.detach && !given.json)
        puts("submitted; flotilla status shows the run");
    return follow.failed ? EXIT_FAILED : EXIT_DONE;
}
