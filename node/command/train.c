#include "node/command/command.h"
#include "node/command/show.h"
#include "node/config.h"
#include "node/engine/checkpoint.h"
#include "node/engine/data.h"
#include "node/job.h"
#include "node/status.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/key.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train_options_given {
    char data[PATH_BYTES_MAX];
    const char *argument; /* the job's file; with `resume`, a checkpoint or NULL */
    bool resume, follow, detach, json;
};

enum { OPTION_RESUME = 256, OPTION_FOLLOW, OPTION_DETACH, OPTION_JSON };

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "Data folder of the local node", 0},
    {"resume", OPTION_RESUME, NULL, 0,
     "Go on from a checkpoint: of this folder, of a job's folder, or the one that this "
     "node wrote last",
     0},
    {"follow", OPTION_FOLLOW, NULL, 0, "Follow the run that is there", 0},
    {"detach", OPTION_DETACH, NULL, 0, "Do not follow the run", 0},
    {"json", OPTION_JSON, NULL, 0, "Print events as JSON lines", 0},
    {0}};

static const char arguments_doc[] = "JOB.yaml\n--resume [CHECKPOINT]\n--follow";
static const char doc[] =
    "Submit a job to the swarm of the local node and follow it: step, loss, tokens/s, "
    "epoch, nodes. Ctrl-C detaches; the run goes on.\v"
    "Examples:\n"
    "  flotilla train job.yaml\n"
    "  flotilla train --follow\n"
    "  flotilla train --resume\n"
    "  flotilla train --resume ~/.local/share/flotilla/checkpoints/first-sail\n";

static void
check_given(const struct train_options_given *given, struct argp_state *state)
{
    if (given->follow && (given->resume || given->detach || given->argument))
        argp_error(state, "--follow shows the run that is there; it goes with --data and "
                          "--json alone");
    if (!given->argument && !given->resume && !given->follow)
        argp_error(state, "name a job file, or give --resume or --follow");
}

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
    case OPTION_FOLLOW:
        given->follow = true;
        break;
    case OPTION_DETACH:
        given->detach = true;
        break;
    case OPTION_JSON:
        given->json = true;
        break;
    case ARGP_KEY_ARG:
        if (given->argument)
            argp_error(state, "\"%s\" is one argument too many", arg);
        given->argument = arg;
        break;
    case ARGP_KEY_END:
        check_given(given, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- following ---- */

struct follow {
    struct show show;
    FILE *nowhere; /* what --json does not print */
};

static bool
on_event(void *arg, const struct json *event)
{
    struct follow *follow = arg;
    if (follow->nowhere) {
        char *text = json_print(event);
        puts(text);
        fflush(stdout);
        free(text);
    }
    return show_event(&follow->show, clock_ms(), event);
}

static void
on_idle(void *arg)
{
    struct follow *follow = arg;
    show_tick(&follow->show, clock_ms());
}

/* The talk ended before the run did. */
static int
left_early(const struct show *show, const struct command_talk *talk, struct err *err)
{
    if (talk->interrupted) {
        fputs(show->accepted
                  ? "detached; the run goes on: flotilla train --follow shows it again, "
                    "flotilla stop ends it\n"
                  : "detached before the job was accepted; it may still start: flotilla "
                    "status shows it, flotilla stop ends it\n",
              stderr);
        return EXIT_DONE;
    }
    if (err->code == ERR_STOPPED && show->accepted && (show->nodes > 1 || show->left))
        err_set(err, ERR_STOPPED,
                "the node closed the connection; it stopped or left, and the run goes on "
                "at the others: flotilla train --follow at one of them shows it");
    return command_fail(err);
}

/* Ask, and follow what comes of it; the exit code. */
static int
ask(const struct train_options_given *given, const struct buf *request)
{
    struct follow follow = {.nowhere = given->json ? fopen("/dev/null", "w") : NULL};
    struct err err;
    if (given->json && !follow.nowhere) {
        err_set_errno(&err, "could not open /dev/null");
        return command_fail(&err);
    }
    show_begin(&follow.show, given->json ? follow.nowhere : stdout,
               !given->json && isatty(STDOUT_FILENO), clock_ms());
    struct command_talk talk = {
        .line = on_event, .idle = on_idle, .arg = &follow, .interruptible = true};
    struct json *answer =
        command_ask(given->data, (char *)request->data, request->len, &talk, &err);
    show_finish(&follow.show);
    int code = follow.show.failed ? EXIT_FAILED : EXIT_DONE;
    if (!answer)
        code = left_early(&follow.show, &talk, &err);
    else if (given->detach && !given->json)
        puts("accepted; flotilla train --follow shows the run");
    json_free(answer);
    if (follow.nowhere)
        fclose(follow.nowhere);
    return code;
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

/* What has room for no sample is refused here, by the name that its user knows. */
static int
check_room(const char *job_file, const struct job *job, int64_t bytes, struct err *err)
{
    if (bytes > job->shape.context)
        return 0;
    return err_set(err, ERR_USAGE,
                   "%s: the text \"%s\" has %s: a sample needs %d, one more than the "
                   "model's context; give more text, or a smaller context",
                   job_file, job->pattern, show_count(bytes, "byte"),
                   job->shape.context + 1);
}

/* The job's text, gathered into the node's data folder under its hash. */
static int
gather_text(const struct train_options_given *given, const struct job *job,
            struct id *data, int64_t *bytes, struct err *err)
{
    char folder[PATH_BYTES_MAX], from[PATH_BYTES_MAX], temporary[PATH_BYTES_MAX],
        name[ID_TEXT_SIZE + 8], path[PATH_BYTES_MAX], hash[ID_TEXT_SIZE];
    snprintf(from, sizeof(from), "%s", given->argument);
    char *slash = strrchr(from, '/');
    snprintf(slash ? slash : from, slash ? 1 : 2, "%s", slash ? "" : ".");
    if (slash == from)
        snprintf(from, sizeof(from), "/");
    path_join(folder, given->data, STATUS_DATA_FOLDER);
    snprintf(name, sizeof(name), "gather-%d", (int)getpid());
    path_join(temporary, folder, name);
    if (file_make_folder(folder, err))
        return -1;
    if (data_gather(from, job->pattern, temporary, data, bytes, err) ||
        check_room(given->argument, job, *bytes, err)) {
        unlink(temporary);
        return -1;
    }
    path_join(path, folder, id_text(data, hash));
    if (rename(temporary, path))
        return err_set_errno(err, "could not rename \"%s\"", temporary);
    return 0;
}

static int
prepare_job(const struct train_options_given *given, struct buf *request, struct err *err)
{
    struct buf text = {0};
    struct job job = {0};
    struct id data;
    int64_t bytes = 0;
    int result = file_read(given->argument, JOB_BYTES_MAX / 2, &text, err);
    if (result && err->code == ERR_SYSTEM)
        err->code = ERR_USAGE;
    if (result == 0)
        result = job_parse(given->argument, (char *)text.data, text.len, &job, err);
    if (result == 0) /* nothing is written for a node that is not there */
        result = command_node_runs(given->data, err);
    if (result == 0)
        result = gather_text(given, &job, &data, &bytes, err);
    if (result == 0)
        write_request(given, given->argument, job.text, &data, bytes, "", request);
    job_release(&job);
    buf_release(&text);
    return result;
}

static int
describe(const char *path, struct checkpoint_info *info, struct err *err)
{
    struct checkpoint *checkpoint = checkpoint_open(path, info, err);
    checkpoint_close(checkpoint);
    return checkpoint ? 0 : -1;
}

/* Members go on from the newest checkpoint of the run that they have in their folders: is
 * that this one? */
static int
check_newest(const char *root, const char *path, const struct checkpoint_info *info,
             struct err *err)
{
    char newest[PATH_BYTES_MAX];
    struct checkpoint_info other = {0};
    struct err ignored;
    int result = 0;
    if (checkpoint_newest(root, &info->job, newest, NULL, 0, &ignored))
        result =
            err_set(err, ERR_USAGE,
                    "\"%.80s\" is not in the node's folder; copy it to \"%.80s/%s/\" "
                    "first",
                    path, root, info->name);
    else if (describe(newest, &other, err))
        result = -1;
    else if (other.step != info->step)
        result = err_set(err, ERR_USAGE,
                         "the run would go on from \"%.80s\", step %lld; move that away "
                         "first, to go on from step %lld",
                         newest, (long long)other.step, (long long)info->step);
    checkpoint_info_release(&other);
    return result;
}

/* The checkpoint that is meant, opened for its description alone. */
static int
find_checkpoint(const struct train_options_given *given, char path[PATH_BYTES_MAX],
                struct checkpoint_info *info, struct err *err)
{
    char root[PATH_BYTES_MAX];
    path_join(root, given->data, STATUS_CHECKPOINTS_FOLDER);
    if (given->argument) {
        if (command_checkpoint(given->argument, path, err) || describe(path, info, err) ||
            check_newest(root, path, info, err))
            return err_wrap(err, "--resume");
        return 0;
    }
    if (!file_exists(root) || command_checkpoint(root, path, err))
        return err_set(
            err, ERR_PEER,
            "there is no whole checkpoint in \"%.80s\"; resume at the node that "
            "submitted the job, or at the one of another zone that gathers "
            "them",
            root);
    return describe(path, info, err);
}

/* 1 when there is nothing left to do. */
static int
prepare_resume(const struct train_options_given *given, struct buf *request,
               struct err *err)
{
    char path[PATH_BYTES_MAX], run[ID_TEXT_SIZE];
    struct checkpoint_info info = {0};
    struct job job = {0};
    int result = find_checkpoint(given, path, &info, err);
    if (result == 0 && !info.text)
        result = err_set(err, ERR_CORRUPT, "the checkpoint \"%s\" does not hold its job",
                         path);
    else if (result == 0)
        result =
            job_parse("the checkpoint's job", info.text, strlen(info.text), &job, err);
    if (result == 0 && info.step >= job.train.steps) {
        if (!given->json)
            printf("\"%s\" is already at its last step, %lld (%s)\n", info.name,
                   (long long)info.step, path);
        result = 1;
    } else if (result == 0) {
        write_request(given, "the checkpoint's job", info.text, &info.data,
                      info.data_bytes, id_text(&info.job, run), request);
        if (!given->json)
            printf("resuming \"%s\" from step %lld (%s)\n", info.name,
                   (long long)info.step, path);
    }
    fflush(stdout);
    job_release(&job);
    checkpoint_info_release(&info);
    return result;
}

static void
prepare_follow(struct buf *request)
{
    static const char text[] = "{\"command\": \"follow\"}";
    buf_add(request, text, sizeof(text) - 1);
}

int
cmd_train(int argc, char **argv)
{
    struct train_options_given given = {0};
    config_data_default(given.data);
    static const struct argp argp = {options, parse, arguments_doc, doc,
                                     NULL,    NULL,  NULL};
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    struct err err;
    struct buf request = {0};
    int prepared = key_setup(&err);
    if (prepared == 0 && given.follow)
        prepare_follow(&request);
    else if (prepared == 0)
        prepared = given.resume ? prepare_resume(&given, &request, &err)
                                : prepare_job(&given, &request, &err);
    int code = prepared < 0   ? command_fail(&err)
               : prepared > 0 ? EXIT_DONE
                              : ask(&given, &request);
    buf_release(&request);
    return code;
}
