#include "testnet/testnet.h"
#include "testnet/runner.h"
#include "testnet/verdict.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TESTNET_PASSED = 0, TESTNET_FAILED = 1, TESTNET_USAGE = 2 };
enum { OPTION_JSON = 256, OPTION_KEEP };

struct testnet_options {
    const char *command, *scenario, *json, *keep;
};

static const struct argp_option options[] = {
    {"json", OPTION_JSON, "FILE", 0, "Write the verdict as JSON", 0},
    {"keep", OPTION_KEEP, "DIR", 0,
     "Keep the nodes' folders and logs: DIR/SCENARIO/NODE/node.log, events.jsonl", 0},
    {0}};

static const char doc[] =
    "Run a scenario: a network of real nodes on this machine, zones joined by shaped "
    "links, a job, faults, and expectations.\v"
    "Examples:\n"
    "  flotilla testnet run testnet/scenarios/smoke.yaml\n"
    "  flotilla testnet run four.yaml --json four.json --keep /tmp/four\n\n"
    "Exit status: 0 when all checks hold, 1 when one does not, 2 when asked wrongly.";

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct testnet_options *given = state->input;
    switch (key) {
    case OPTION_JSON:
        given->json = arg;
        break;
    case OPTION_KEEP:
        given->keep = arg;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            given->command = arg;
        else if (state->arg_num == 1)
            given->scenario = arg;
        else
            argp_error(state, "\"%s\" is one argument too many", arg);
        break;
    case ARGP_KEY_END:
        if (!given->command || strcmp(given->command, "run") != 0)
            argp_error(state, "say what to do: run SCENARIO.yaml");
        if (!given->scenario)
            argp_error(state, "name a scenario, such as testnet/scenarios/smoke.yaml");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static volatile sig_atomic_t interrupted;

static void
on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- folders ---- */

/* Where the runs' folders are: DIR of --keep, or a fresh one. */
static int
make_root(const char *keep, char root[PATH_BYTES_MAX], struct err *err)
{
    const char *base = getenv("TMPDIR");
    if (keep) {
        char real[PATH_BYTES_MAX];
        if (file_make_folder(keep, err))
            return -1;
        if (!realpath(keep, real))
            return err_set_errno(err, "could not find \"%s\"", keep);
        snprintf(root, PATH_BYTES_MAX, "%s", real);
        return 0;
    }
    if (!base || strlen(base) > 26)
        base = "/tmp"; /* sockets are named in it, and their names are short */
    snprintf(root, PATH_BYTES_MAX, "%s/testnet-XXXXXX", base);
    return mkdtemp(root) ? 0 : err_set_errno(err, "could not make a folder in %s", base);
}

static int
make_folder(const char *root, const struct scenario *scenario, const char *prefix,
            char folder[PATH_BYTES_MAX], struct err *err)
{
    char name[NAME_BYTES_MAX + 16];
    snprintf(name, sizeof(name), "%s%s", prefix, scenario->name);
    path_join(folder, root, name);
    if (strlen(folder) > RUNNER_FOLDER_MAX)
        return err_set(err, ERR_USAGE,
                       "the folder \"%s\" has %zu characters, sockets can be named in "
                       "up to %d; keep it nearer to the root",
                       folder, strlen(folder), (int)RUNNER_FOLDER_MAX);
    if (mkdir(folder, 0700) == 0)
        return 0;
    return errno == EEXIST ? err_set(err, ERR_USAGE,
                                     "\"%s\" is there already; remove it, or keep this "
                                     "run elsewhere",
                                     folder)
                           : err_set_errno(err, "could not make \"%s\"", folder);
}

/* ---- runs ---- */

static void
print_page(const struct report *report)
{
    struct buf page = {0};
    verdict_page(&report->history, &report->verdict, report->seconds, &page);
    fwrite(page.data, 1, page.len, stdout);
    fflush(stdout);
    buf_release(&page);
}

static int
write_json(const struct report *report, const char *path, struct err *err)
{
    struct buf text = {0};
    verdict_json(&report->history, &report->verdict, report->peak_rss_bytes, &text);
    int result = file_write(path, text.data, text.len, 0644, err);
    buf_release(&text);
    return result;
}

static void
first_failure(const struct verdict *verdict, char text[232])
{
    text[0] = '\0';
    for (int i = verdict->count - 1; i >= 0; i--)
        if (!verdict->checks[i].passed)
            snprintf(text, 232, "%s", verdict->checks[i].detail);
}

/* Run the scenario, after the one that it is compared with. */
static int
run_both(const struct scenario *scenario, const struct scenario *other, const char *root,
         const struct testnet_options *given, bool *passed, struct err *err)
{
    char program[PATH_BYTES_MAX], folder[PATH_BYTES_MAX], other_folder[PATH_BYTES_MAX],
        failure[232] = "";
    struct report *report = xcalloc(2, sizeof(*report)), *reference = &report[1];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    int result = -1;
    if (length < 0) {
        err_set_errno(err, "could not find this program's file");
        goto out;
    }
    program[length] = '\0';
    if (make_folder(root, scenario, "", folder, err) ||
        (other && make_folder(root, other, "as-", other_folder, err)))
        goto out;
    struct runner_options how = {.program = program,
                                 .folder = other_folder,
                                 .out = stdout,
                                 .interrupted = &interrupted,
                                 .reference_trouble = ""};
    if (other) {
        printf("first %s, to compare with\n", other->name);
        runner_run(other, &how, reference);
        print_page(reference);
        first_failure(&reference->verdict, failure);
        how.reference = &reference->history;
        how.reference_trouble = failure;
    }
    how.folder = folder;
    runner_run(scenario, &how, report);
    print_page(report);
    *passed = report->verdict.passed;
    if (given->keep)
        printf("the nodes' folders and logs are in %s\n", folder);
    else if (!*passed)
        printf("with --keep DIR, the nodes' folders and logs are kept\n");
    fflush(stdout);
    result = given->json ? write_json(report, given->json, err) : 0;
out:
    if (report->history.scenario)
        history_release(&report->history);
    if (reference->history.scenario)
        history_release(&reference->history);
    free(report);
    return result;
}

static int
run(const struct testnet_options *given, bool *passed, struct err *err)
{
    char root[PATH_BYTES_MAX] = "";
    struct err ignored;
    struct scenario *other = NULL, *scenario = scenario_read(given->scenario, err);
    int result = scenario ? 0 : -1;
    if (scenario && scenario->expect.same_loss_as[0]) {
        other = scenario_read(scenario->expect.same_loss_as, err);
        result = other ? 0 : err_wrap(err, "same_loss_as");
    }
    if (result == 0)
        result = make_root(given->keep, root, err);
    if (result == 0)
        result = run_both(scenario, other, root, given, passed, err);
    if (root[0] && !given->keep)
        file_remove_tree(root, &ignored);
    scenario_free(scenario);
    scenario_free(other);
    return result;
}

int
testnet_main(int argc, char **argv)
{
    struct testnet_options given = {0};
    static const struct argp argp = {options, parse, "run SCENARIO.yaml", doc, NULL,
                                     NULL,    NULL};
    argp_err_exit_status = TESTNET_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return TESTNET_USAGE;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct err err;
    bool passed = false;
    if (run(&given, &passed, &err)) {
        fprintf(stderr, "flotilla testnet: %s\n", err.msg);
        return err.code == ERR_USAGE ? TESTNET_USAGE : TESTNET_FAILED;
    }
    return passed ? TESTNET_PASSED : TESTNET_FAILED;
}
