#include "node/command/command.h"
#include "node/command/workers.h"
#include "node/plan/document.h"
#include "node/plan/page.h"
#include "node/plan/svg.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    const char *cluster, *job, *evaluate, *svg, *current, *before;
    bool json, explain;
};

enum { PICTURE_BYTES_MAX = 64 << 20 };

enum {
    OPTION_CLUSTER = 256,
    OPTION_JOB,
    OPTION_EVALUATE,
    OPTION_SVG,
    OPTION_CURRENT,
    OPTION_BEFORE,
    OPTION_JSON,
    OPTION_EXPLAIN
};

static const struct argp_option options[] = {
    {"cluster", OPTION_CLUSTER, "FILE", 0, "The machines: cluster.yaml", 0},
    {"job", OPTION_JOB, "FILE", 0, "The job: job.yaml", 0},
    {"evaluate", OPTION_EVALUATE, "FILE", 0,
     "Predict this plan, in the form that --json prints, instead of searching one", 0},
    {"current", OPTION_CURRENT, "FILE", 0,
     "The plan in force: stay with it, mend it or plan afresh, whichever costs the least",
     0},
    {"before", OPTION_BEFORE, "FILE", 0,
     "With --current: the cluster that it was made for (default: that of --cluster)", 0},
    {"explain", OPTION_EXPLAIN, NULL, 0,
     "Print a page that says why: stages by zone, memory, the timeline of a step", 0},
    {"json", OPTION_JSON, NULL, 0, "Print the plan as one JSON document", 0},
    {"svg", OPTION_SVG, "FILE", 0, "Write the plan and its timeline as a picture", 0},
    {0}};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;
    if (key == OPTION_CLUSTER)
        given->cluster = arg;
    else if (key == OPTION_JOB)
        given->job = arg;
    else if (key == OPTION_EVALUATE)
        given->evaluate = arg;
    else if (key == OPTION_CURRENT)
        given->current = arg;
    else if (key == OPTION_BEFORE)
        given->before = arg;
    else if (key == OPTION_SVG)
        given->svg = arg;
    else if (key == OPTION_JSON)
        given->json = true;
    else if (key == OPTION_EXPLAIN)
        given->explain = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is one argument too many", arg);
    else if (key == ARGP_KEY_END && (!given->cluster || !given->job))
        argp_error(state, "name both files: --cluster FILE --job FILE");
    else if (key == ARGP_KEY_END && given->evaluate && given->current)
        argp_error(state, "--evaluate and --current are two questions; ask one");
    else if (key == ARGP_KEY_END && given->before && !given->current)
        argp_error(state, "--before goes with --current");
    else
        return key == ARGP_KEY_END || key == ARGP_KEY_NO_ARGS ? 0 : ARGP_ERR_UNKNOWN;
    return 0;
}

/* ---- the two ways to a plan ---- */

/* A plan that is none on this cluster for this job is wrong input. */
static int
wrong_plan(const char *path, struct err *err)
{
    err->code = ERR_USAGE;
    return err_wrap(err, "%s", path);
}

static int
take_given(const char *path, struct plan_outcome *outcome, struct err *err)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_request *request = &outcome->job->request;
    struct fleet_answer *answer = &outcome->answer;
    outcome->given = true;
    if (plan_document_read(path, fleet, &answer->plan, err))
        return -1;
    if (fleet_plan_check(&answer->plan, request, fleet, err))
        return wrong_plan(path, err);
    return evaluate(&answer->plan, request, fleet, NULL, NULL, &answer->estimate, err);
}

static int
find(struct plan_outcome *outcome, struct err *err)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_request *request = &outcome->job->request;
    int64_t began_us = clock_us();
    int result = fleet_search(request, fleet, &outcome->answer, err);
    if (result && request->quick) {
        /* What a leader does not find, or why there is none: by the long search. */
        struct fleet_request longer = *request;
        longer.quick = false;
        result = fleet_search(&longer, fleet, &outcome->answer, err);
    }
    if (result)
        return -1;
    outcome->seconds = (double)(clock_us() - began_us) / 1e6;
    return 0;
}

/* The next plan after the one in force, by what each way costs. `job` is bound to the
 * cluster that is there now when this returns. */
static int
repair(const struct given *given, struct plan_job *job, struct plan_cluster *now,
       const struct parallel *parallel, struct plan_outcome *outcome, struct err *err)
{
    struct plan_cluster before = {0};
    struct fleet_plan current = {0};
    const int64_t *copies = job->file->copy.every_steps;
    struct repair_terms terms = {.horizon = REPAIR_HORIZON, .rollback_steps = 20};
    if (copies)
        terms.rollback_steps = *copies > 0 && *copies < 1000000 ? (int)*copies : 1000000;
    const char *path = given->before ? given->before : given->cluster;
    int result = plan_cluster_read(path, job->model, &before, err);
    if (result == 0)
        result = plan_job_bind(job, &before, err);
    if (result == 0)
        result = plan_document_read(given->current, before.fleet, &current, err);
    if (result == 0 && fleet_plan_check(&current, &job->request, before.fleet, err))
        result = wrong_plan(given->current, err);
    if (result == 0)
        result = plan_job_bind(job, now, err);
    job->request.parallel = parallel;
    if (result == 0)
        result = fleet_repair(&job->request, before.fleet, &current, now->fleet, &terms,
                              &outcome->repair, err);
    if (result == 0) {
        outcome->repaired = true;
        outcome->answer.plan = outcome->repair.plan;
        outcome->answer.estimate = outcome->repair.estimate;
        outcome->repair.plan = (struct fleet_plan){0};
    }
    fleet_plan_release(&current);
    plan_cluster_release(&before);
    return result;
}

/* What one more machine of each kind would bring. */
static void
find_gains(struct plan_outcome *outcome)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    struct err err;
    outcome->gains = xcalloc((size_t)fleet->pools_count, sizeof(*outcome->gains));
    for (int p = 0; p < fleet->pools_count; p++) {
        struct plan_gain *gain = &outcome->gains[outcome->gains_count++];
        gain->pool = p;
        gain->devices = fleet->kinds[fleet->pools[p].kind].machine_devices;
        gain->found =
            fleet_gain(&outcome->job->request, fleet, p, &gain->estimate, &err) == 0;
    }
}

static void
show_notes(const struct plan_cluster *cluster)
{
    for (const char *line = cluster->notes; *line;) {
        int len = (int)strcspn(line, "\n");
        command_note("%.*s", len, line);
        line += len + (line[len] == '\n');
    }
}

static int
print(const struct buf *text, struct err *err)
{
    errno = 0;
    if (fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0)
        return 0;
    return err_set_errno(err, "could not write to standard output");
}

/* The document of a question without a plan: why there is none. */
static void
show_refusal(const struct plan_job *job, const struct err *why)
{
    struct buf out = {0};
    struct err err;
    plan_document_refuse(job, why, &out);
    buf_add(&out, "\n", 1);
    if (print(&out, &err))
        command_note("%s", err.msg);
    buf_release(&out);
}

static int
show(const struct given *given, const struct plan_outcome *outcome, struct err *err)
{
    struct buf out = {0};
    int result = 0;
    if (given->svg) {
        plan_svg_write(outcome, &out);
        result = file_write(given->svg, out.data, out.len, 0644, err);
        out.len = 0;
    }
    if (result == 0 && given->json)
        plan_document_write(outcome, &out);
    else if (result == 0)
        plan_page_write(outcome, given->explain, &out);
    if (result == 0) {
        if (given->json)
            buf_add(&out, "\n", 1);
        result = print(&out, err);
    }
    buf_release(&out);
    return result;
}

/* Is the picture's file one that may be written? */
static int
check_svg(const struct given *given, struct err *err)
{
    const char *const inputs[] = {given->cluster, given->job, given->evaluate,
                                  given->current, given->before};
    struct buf there = {0};
    struct err ignored;
    if (!given->svg)
        return 0;
    if (!*given->svg || strlen(given->svg) >= PATH_BYTES_MAX)
        return err_set(err, ERR_USAGE,
                       "--svg has a name of %zu bytes, it must be 1 to %d",
                       strlen(given->svg), PATH_BYTES_MAX - 1);
    if (file_check_replace(given->svg, err)) {
        err->code = ERR_USAGE;
        return err_wrap(err, "--svg");
    }
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        if (inputs[i] && file_same(given->svg, inputs[i]))
            return err_set(err, ERR_USAGE,
                           "--svg: \"%s\" is read as an input; name another file",
                           given->svg);
    /* Profiles are inputs, too; and whatever else is no picture is somebody's. */
    bool other =
        file_exists(given->svg) &&
        (file_read(given->svg, PICTURE_BYTES_MAX, &there, &ignored) != 0 ||
         (there.len > 0 && (there.len < 5 || memcmp(there.data, "<?xml", 5) != 0)));
    buf_release(&there);
    if (other)
        return err_set(err, ERR_USAGE,
                       "--svg: \"%s\" is there and is no picture that flotilla wrote; "
                       "name another file, or remove it",
                       given->svg);
    return 0;
}

static int
plan(const struct given *given, struct err *err)
{
    struct plan_job job;
    struct plan_cluster cluster = {0};
    struct plan_outcome outcome = {.job = &job, .cluster = &cluster};
    if (check_svg(given, err) || plan_job_read(given->job, &job, err))
        return -1;
    struct workers *workers = workers_new();
    const struct parallel *parallel = workers_parallel(workers);
    int result = 0;
    if (job.foreign && !given->evaluate)
        result = err_set(err, ERR_USAGE,
                         "the job's framework is for --evaluate: a plan is sought for "
                         "our own engine");
    if (result == 0)
        result = plan_cluster_read(given->cluster, job.model, &cluster, err);
    if (result == 0 && given->current)
        result = repair(given, &job, &cluster, parallel, &outcome, err);
    else if (result == 0)
        result = plan_job_bind(&job, &cluster, err);
    job.request.parallel = parallel;
    if (cluster.fleet) /* it was read */
        show_notes(&cluster);
    if (result == 0 && given->evaluate)
        result = take_given(given->evaluate, &outcome, err);
    else if (result == 0 && !given->current)
        result = find(&outcome, err);
    if (result == 0)
        result = plan_timeline_make(&outcome.answer.plan, &job.request, cluster.fleet,
                                    &outcome.answer.estimate, &outcome.timeline, err);
    if (result == 0 && given->explain && !given->evaluate && !given->current)
        find_gains(&outcome);
    if (result == 0)
        result = show(given, &outcome, err);
    else if (given->json && err->code == ERR_PLAN)
        show_refusal(&job, err);
    if (result == 0 && !outcome.answer.estimate.fits)
        result = err_set(err, ERR_PLAN,
                         "the plan does not fit the memory of its devices; --explain "
                         "shows where");
    if (result == 0 && given->evaluate &&
        !fleet_keeps_limits(&job.request, &outcome.answer.estimate))
        result = fleet_refuse_limits(&job.request, cluster.fleet,
                                     &outcome.answer.estimate, err);
    plan_outcome_release(&outcome);
    plan_cluster_release(&cluster);
    plan_job_release(&job);
    workers_free(workers);
    return result;
}

int
cmd_plan(int argc, char **argv)
{
    static const char doc[] =
        "Say what a cluster would do with a job, without running anything: who trains "
        "which layers, how fast, for how much, and why.\v"
        "Examples:\n"
        "  flotilla plan --cluster cluster.yaml --job job.yaml --explain\n"
        "  flotilla plan --cluster cluster.yaml --job job.yaml --json > plan.json\n"
        "  flotilla plan --cluster cluster.yaml --job job.yaml --evaluate plan.json\n"
        "  flotilla plan --before cluster.yaml --current plan.json --cluster now.yaml "
        "--job job.yaml\n\n"
        "Exit status: 0 a plan, 1 nothing fits, 2 the input is wrong. The files are in "
        "docs/planning.md; flotilla status --cluster FILE writes a running swarm as one.";
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct given given = {0};
    struct err err;
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    if (plan(&given, &err) == 0)
        return EXIT_DONE;
    /* Nothing fits, or what was given is wrong: a file that is not there or cannot be written, too. */
    if (err.code != ERR_PLAN)
        err.code = ERR_USAGE;
    return command_fail(&err);
}
