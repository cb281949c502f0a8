/*
 * bench_planner.c - how good plans are and how long they take, the whole process from its
 * start to its answer: the rows of Sailor's evaluation, scored by the referee, and clusters
 * that are larger than anybody's.
 *
 *     bench_planner [FLOTILLA]     from the root of the repository; needs python3
 *
 * One line a row: what the published planner reaches, the best that was known, ours; wall
 * and CPU seconds, peak memory. Exit status 1 when a plan is not valid, is worse than both
 * of the others, or took more memory or CPU time than it may.
 */
#include "transport/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define A "A100-40:us-central1-"
#define V "V100-16:us-central1-"
#define FIVE(n) A "a:" n "," A "b:" n "," A "c:" n "," A "f:" n ",A100-40:us-west1-b:" n

enum { FILE_BYTES_MAX = 64 << 20, PEAK_KIB_MAX = 200 * 1024 };

struct row {
    const char *name;
    const char *pools; /* NULL: an invented cloud */
    double published;  /* iterations per s; 0: not known. Of cost rows USD */
    double known;
    double cpu_s_max;
    const char *more[6]; /* arguments */
};

static const struct row rows[] = {
    {"32 A", A "a:32", 0.1251, 0.1297, 0.5, {NULL}},
    {"80 A", A "a:80", 0.2722, 0.0, 0.5, {NULL}},
    {"128 A", A "a:128", 0.4175, 0.0, 0.5, {NULL}},
    {"32 A + 32 V", A "a:32," V "a:32", 0.1351, 0.1505, 0.5, {NULL}},
    {"80 A + 80 V", A "a:80," V "a:80", 0.2437, 0.3207, 0.5, {NULL}},
    {"32 A + 96 V", A "a:32," V "a:96", 0.1700, 0.2035, 0.5, {NULL}},
    {"128 A + 384 V", A "a:128," V "a:384", 0.5229, 0.5862, 0.5, {NULL}},
    {"5 zones x 32 A", FIVE("32"), 0.4149, 0.4153, 0.5, {NULL}},
    {"5 zones x 128 A", FIVE("128"), 1.0198, 1.0208, 0.5, {NULL}},
    {"cost, 2 zones x (128 A + 128 V)",
     A "a:128," A "b:128," V "a:128," V "b:128",
     0.278,
     0.2774,
     0.5,
     {"--objective", "cost", "--min-iterations-per-s", "0.2", NULL}},
    {"3 types x 256", A "a:256," V "a:256,GH-96:us-central1-a:256", 0, 0, 2.0, {NULL}},
    {"5 zones x 256 A", FIVE("256"), 0, 0, 2.0, {NULL}},
    {"4096 of 8 types, 10 zones", NULL, 0, 0, 10.0, {NULL}},
    {"4096, published model", NULL, 0, 0, 10.0, {"--published", NULL}},
};

/* A machine is lost: from these pools to those. */
static const struct repair {
    const char *name;
    struct row before, after;
} repairs[] = {
    {"repair: 256 A lose a machine", {.pools = A "a:256"}, {.pools = A "a:252"}},
    {"repair: 128 A + 128 V lose one",
     {.pools = A "a:128," V "a:128"},
     {.pools = A "a:124," V "a:128"}},
};
static const double repair_cpu_s_max = 0.2;

struct took {
    double wall_s;
    double cpu_s;
    long peak_kib;
    int status;
};

static double
now_s(void)
{
    struct timespec at;
    if (timespec_get(&at, TIME_UTC) != TIME_UTC)
        return 0.0;
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Run a command to its end with its output in a file. */
static struct took
run(char *const argv[], const char *output)
{
    struct took took = {.status = -1};
    double start = now_s();
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen(output, "w", stdout))
            _exit(127);
        execvp(argv[0], argv);
        _exit(127);
    }
    struct rusage usage;
    int status;
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
        return took;
    took.wall_s = now_s() - start;
    took.cpu_s = (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec +
                 (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec;
    took.peak_kib = usage.ru_maxrss;
    took.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return took;
}

/* The files of a row's scenario; false with a word on what failed. */
static bool
write_scenario(const struct row *row, const char *folder, const char *log)
{
    char *argv[24] = {"python3",
                      row->pools ? "tests/sailor/scenario.py" : "tests/sailor/cloud.py",
                      "--data", "tests/sailor/data"};
    int n = 4;
    const char *fixed_row[] = {"--model",  "OPT-350", "--global-batch", "1024", "--pools",
                               row->pools, NULL};
    const char *fixed_cloud[] = {"--seed",         "1",    "--types",   "8",
                                 "--zones",        "10",   "--devices", "4096",
                                 "--global-batch", "2048", NULL};
    const char *const *fixed = row->pools ? fixed_row : fixed_cloud;
    for (int i = 0; fixed[i]; i++)
        argv[n++] = (char *)(uintptr_t)fixed[i];
    for (int i = 0; row->more[i]; i++)
        argv[n++] = (char *)(uintptr_t)row->more[i];
    argv[n++] = "-o";
    argv[n++] = (char *)(uintptr_t)folder;
    return run(argv, log).status == 0;
}

static bool
referee_agrees(const struct row *row, const char *plan, const char *verdict)
{
    char *argv[] = {"python3",
                    "tests/sailor/referee.py",
                    "--data",
                    "tests/sailor/data",
                    "--model",
                    "OPT-350",
                    "--global-batch",
                    "1024",
                    "--pools",
                    (char *)(uintptr_t)row->pools,
                    (char *)(uintptr_t)plan,
                    NULL};
    return run(argv, verdict).status == 0;
}

static bool
bench_row(const struct row *row, const char *flotilla, const char *folder)
{
    char cluster[300], job[300], plan[300], verdict[300];
    snprintf(cluster, sizeof(cluster), "%s/cluster.yaml", folder);
    snprintf(job, sizeof(job), "%s/job.yaml", folder);
    snprintf(plan, sizeof(plan), "%s/plan.json", folder);
    snprintf(verdict, sizeof(verdict), "%s/verdict.json", folder);
    if (!write_scenario(row, folder, verdict)) {
        printf("%-32s the scenario could not be written\n", row->name);
        return false;
    }
    char *argv[] = {(char *)(uintptr_t)flotilla,
                    "plan",
                    "--cluster",
                    cluster,
                    "--job",
                    job,
                    "--json",
                    NULL};
    struct took took = run(argv, plan);
    struct err err;
    struct json *root = json_read(plan, FILE_BYTES_MAX, &err);
    if (took.status != 0 || !root) {
        printf("%-32s no plan (exit status %d)\n", row->name, took.status);
        json_free(root);
        return false;
    }
    const struct json *predicted = json_get(root, "predicted");
    double rate = 1.0 / json_double(json_get(predicted, "iteration_s"), 1e15);
    double usd = json_double(json_get(predicted, "usd_per_iteration"), -1.0);
    json_free(root);
    bool cost = row->more[0] && strcmp(row->more[0], "--objective") == 0;
    bool valid = !row->pools || referee_agrees(row, plan, verdict);
    double bar = row->known > 0.0 ? row->known : row->published;
    /* The table's figures have four places. */
    bool good = cost ? usd <= bar + 5e-5 : rate >= bar - 5e-5;
    bool fast = took.cpu_s <= row->cpu_s_max && took.peak_kib <= PEAK_KIB_MAX;
    printf("%-32s %9.4f %9.4f %9.4f it/s %8.4f USD %7.2f s %7.2f s of %4.1f %6.1f "
           "MiB%s%s%s\n",
           row->name, row->published, row->known, rate, usd, took.wall_s, took.cpu_s,
           row->cpu_s_max, (double)took.peak_kib / 1024.0,
           valid ? "" : "  the referee objects", good ? "" : "  worse than known",
           fast ? "" : "  too slow or too large");
    fflush(stdout);
    return valid && good && fast;
}

/* The next plan after a loss; the price of the way taken is not above those of the others. */
static bool
bench_repair(const struct repair *repair, const char *flotilla, const char *folder)
{
    char before[300], after[300], cluster[400], now[400], job[400], plan[300], next[300];
    snprintf(before, sizeof(before), "%s/before", folder);
    snprintf(after, sizeof(after), "%s/after", folder);
    snprintf(cluster, sizeof(cluster), "%s/cluster.yaml", before);
    snprintf(now, sizeof(now), "%s/cluster.yaml", after);
    snprintf(job, sizeof(job), "%s/job.yaml", after);
    snprintf(plan, sizeof(plan), "%s/plan.json", folder);
    snprintf(next, sizeof(next), "%s/next.json", folder);
    char *binary = (char *)(uintptr_t)flotilla;
    char *first[] = {binary, "plan", "--cluster", cluster, "--job", job, "--json", NULL};
    char *second[] = {binary,      "plan", "--before", cluster, "--current", plan,
                      "--cluster", now,    "--job",    job,     "--json",    NULL};
    if (!write_scenario(&repair->before, before, next) ||
        !write_scenario(&repair->after, after, next) || run(first, plan).status != 0) {
        printf("%-32s there is no plan to repair\n", repair->name);
        return false;
    }
    struct took took = run(second, next);
    struct err err;
    struct json *root = json_read(next, FILE_BYTES_MAX, &err);
    const struct json *found = root ? json_get(root, "repair") : NULL;
    double taken_s = 1e15;
    double least_s = 1e15;
    static const char *const ways[] = {"stay", "mend", "afresh"};
    for (int i = 0; found && i < 3; i++) {
        double total_s = json_double(json_get(json_get(found, ways[i]), "total_s"), 1e15);
        const char *way = json_text(json_get(found, "way"), "");
        if (strcmp(way, ways[i]) == 0)
            taken_s = total_s;
        least_s = total_s < least_s ? total_s : least_s;
    }
    json_free(root);
    bool good = took.status == 0 && taken_s < 1e15 && taken_s <= least_s;
    bool fast = took.cpu_s <= repair_cpu_s_max && took.peak_kib <= PEAK_KIB_MAX;
    printf("%-32s %57.2f s %7.2f s of %4.1f %6.1f MiB%s%s\n", repair->name, took.wall_s,
           took.cpu_s, repair_cpu_s_max, (double)took.peak_kib / 1024.0,
           good ? "" : "  not the cheapest way", fast ? "" : "  too slow or too large");
    fflush(stdout);
    return good && fast;
}

int
main(int argc, char **argv)
{
    const char *flotilla = argc > 1 ? argv[1] : "build/flotilla";
    const char *parent = getenv("TMPDIR");
    char folder[200];
    snprintf(folder, sizeof(folder), "%s/bench-planner-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
        fprintf(stderr, "bench_planner: could not make a folder %s\n", folder);
        return 2;
    }
    printf("%-32s %9s %9s %14s %12s %9s %17s %10s\n", "pool (A: A100-40, V: V100-16)",
           "published", "known", "ours", "", "wall", "CPU", "peak");
    fflush(stdout);
    bool all = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        all = bench_row(&rows[i], flotilla, folder) && all;
    for (size_t i = 0; i < sizeof(repairs) / sizeof(repairs[0]); i++)
        all = bench_repair(&repairs[i], flotilla, folder) && all;
    char *rm[] = {"rm", "-r", folder, NULL};
    run(rm, "/dev/null");
    return all ? 0 : 1;
}
