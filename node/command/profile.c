#include "node/engine/profile.h"
#include "node/command/command.h"
#include "node/config.h"
#include "node/engine/matmul.h"
#include "node/plan/job.h"
#include "node/plan/measured.h"
#include "transport/base/file.h"
#include "transport/base/log.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct given {
    const char *job, *out;
    char device[NAME_BYTES_MAX + 1];
    int threads;
    int64_t memory_bytes;
};

enum { OPTION_DEVICE = 256, OPTION_MEMORY };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write here instead of to standard output", 0},
    {"device", OPTION_DEVICE, "NAME", 0,
     "What a cluster.yaml calls this machine (default: cpu- and the threads)", 0},
    {"threads", 't', "N", 0, "Compute threads (default: one per core)", 0},
    {"memory", OPTION_MEMORY, "SIZE", 0,
     "Memory that measuring may use, such as 4GiB (default: 4GiB)", 0},
    {0}};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;
    struct err err;
    char *end;
    switch (key) {
    case 'o':
        given->out = arg;
        return 0;
    case 't':
        given->threads = (int)strtol(arg, &end, 10);
        if (*end || given->threads < 1 || given->threads > 1024)
            argp_error(state, "--threads is \"%s\", but must be from 1 to 1024", arg);
        return 0;
    case OPTION_DEVICE:
        if (config_name_check("--device", arg, &err))
            argp_error(state, "%s", err.msg);
        snprintf(given->device, sizeof(given->device), "%s", arg);
        return 0;
    case OPTION_MEMORY:
        if (config_memory_take("--memory", arg, &given->memory_bytes, &err))
            argp_error(state, "%s", err.msg);
        return 0;
    case ARGP_KEY_ARG:
        if (given->job)
            argp_error(state, "\"%s\" is one argument too many", arg);
        given->job = arg;
        return 0;
    case ARGP_KEY_END:
        if (!given->job)
            argp_error(state, "name the job: flotilla profile job.yaml");
        return 0;
    default:
        return key == ARGP_KEY_NO_ARGS ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static int
measure(const struct given *given, const struct plan_job *job, struct err *err)
{
    if (!job->engine_model)
        return err_set(err, ERR_USAGE,
                       "%s: the model \"%s\" is known by its profiles alone; the engine "
                       "cannot run it",
                       given->job, job->model);
    if (given->out && (!*given->out || strlen(given->out) >= PATH_BYTES_MAX))
        return err_set(err, ERR_USAGE, "-o has a name of %zu bytes, it must be 1 to %d",
                       strlen(given->out), PATH_BYTES_MAX - 1);
    if (given->out && file_check_replace(given->out, err)) {
        err->code = ERR_USAGE;
        return err_wrap(err, "-o");
    }
    if (given->out && file_same(given->out, given->job))
        return err_set(err, ERR_USAGE, "-o: \"%s\" is the job; name another file",
                       given->out);
    struct profile *measured =
        profile_measure(&job->shape, job->request.sequences, given->memory_bytes,
                        given->threads, NULL, NULL, err);
    if (!measured)
        return -1;
    struct profile_file profile;
    struct buf out = {0};
    int result = 0;
    plan_measured_profile(&job->shape, measured, given->device, &profile);
    profile_file_write(&profile, &out);
    buf_add(&out, "\n", 1);
    if (given->out)
        result = file_write(given->out, out.data, out.len, 0644, err);
    else
        fwrite(out.data, 1, out.len, stdout);
    buf_release(&out);
    profile_file_release(&profile);
    free(measured);
    return result;
}

int
cmd_profile(int argc, char **argv)
{
    static const char doc[] =
        "Measure this machine on a job's layers and print the profile that flotilla plan "
        "reads.\v"
        "Example:\n"
        "  flotilla profile job.yaml --device desk -o desk.json\n";
    static const struct argp argp = {options, parse, "JOB", doc, NULL, NULL, NULL};
    struct given given = {.memory_bytes = INT64_C(4) << 30};
    struct plan_job job;
    struct err err;
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (given.threads == 0)
        given.threads = cores > 0 ? (int)cores : 1;
    if (!given.device[0])
        snprintf(given.device, sizeof(given.device), "cpu-%d", given.threads);
    log_setup(LOG_WARN, false);
    if (plan_job_read(given.job, &job, &err))
        return command_fail(&err);
    matmul_setup();
    int result = measure(&given, &job, &err);
    plan_job_release(&job);
    return result ? command_fail(&err) : EXIT_DONE;
}
