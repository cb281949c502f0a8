/*
 * main.c - run seeds of the simulator.
 *
 *     build/sim --seeds 2000              seeds 1 .. 2000
 *     build/sim --seed 17 --trace         one, with its story
 *     build/sim --recorded FILE           the seeds that once broke something, first
 *     build/sim --known FILE              those that fail for a cause not mended yet
 *     build/sim --soak FILE --seeds N     a long run that can be stopped; FILE: its place
 *     build/sim_mutants --mutants N       each mistake has to be found within N seeds
 *
 * Each seed runs in a process of its own, so that nothing is left of the one before.
 */
#include "tests/sim/mutant.h"
#include "tests/sim/story.h"
#include "tests/sim/system.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 64, SEED_MS_MAX = 120000, SOAK_PART = 100 };

enum mutant mutant_chosen;

static const struct {
    const char *name, *text;
} mutants[] = {
#define MUTANT_NAME(name, text) {#name, text},
    MUTANTS(MUTANT_NAME)
#undef MUTANT_NAME
};

struct run {
    pid_t pid; /* 0: free */
    int fd;
    uint64_t seed;
    int64_t began_ms;
};

struct totals {
    uint64_t passed, failed, known, trace;
    uint64_t events, frames, epochs;
    int64_t steps, settled_ms_max, crashes, starts, cuts, pauses;
    uint64_t first_failed;
    char first_why[WHY_SIZE];
};

static void
child(uint64_t seed, int fd)
{
    struct story_result result;
    story_run(seed, &result);
    ssize_t written = write(fd, &result, sizeof(result));
    _exit(written == (ssize_t)sizeof(result) ? 0 : 1);
}

static void
start(struct run *run, uint64_t seed)
{
    int ends[2];
    must(pipe(ends) == 0);
    fflush(stdout);
    run->began_ms = system_real_ms();
    run->seed = seed;
    run->pid = fork();
    must(run->pid >= 0);
    if (run->pid == 0) {
        close(ends[0]);
        alarm(SEED_MS_MAX / 1000);
        child(seed, ends[1]);
    }
    close(ends[1]);
    run->fd = ends[0];
}

/* The seed's result; what became of a process that ended without one is a failure. */
static void
collect(struct run *run, struct story_result *result)
{
    ssize_t got = read(run->fd, result, sizeof(*result));
    int status;
    waitpid(run->pid, &status, 0);
    close(run->fd);
    if (got != (ssize_t)sizeof(*result)) {
        memset(result, 0, sizeof(*result));
        result->seed = run->seed;
        snprintf(result->why, sizeof(result->why),
                 "its process ended without a result, signal %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    run->pid = 0;
}

static void
tell_failure(const struct story_result *result)
{
    printf("seed %llu: %s\n    replay: build/sim --seed %llu --trace\n",
           (unsigned long long)result->seed, result->why,
           (unsigned long long)result->seed);
    fflush(stdout);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        struct story_result again;
        world.trace = true;
        story_run(result->seed, &again);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* Seeds whose failure is known and not mended yet. */
static struct {
    uint64_t seeds[64];
    size_t count;
} known;

static bool
is_known(uint64_t seed)
{
    for (size_t i = 0; i < known.count; i++)
        if (known.seeds[i] == seed)
            return true;
    return false;
}

static void
add(struct totals *totals, const struct story_result *result)
{
    if (is_known(result->seed) && result->why[0]) {
        totals->known++;
        return;
    }
    if (is_known(result->seed)) {
        printf("seed %llu is listed as known to fail and passes: take it off the list\n",
               (unsigned long long)result->seed);
        totals->failed++;
        return;
    }
    totals->trace += rng_mix(result->seed, result->hash);
    totals->events += result->events;
    totals->frames += result->frames;
    totals->epochs += result->epochs;
    totals->steps += result->steps;
    totals->crashes += result->crashes;
    totals->starts += result->starts;
    totals->cuts += result->cuts;
    totals->pauses += result->pauses;
    if (result->settled_ms > totals->settled_ms_max)
        totals->settled_ms_max = result->settled_ms;
    if (result->why[0]) {
        totals->failed++;
        if (!totals->first_failed) {
            totals->first_failed = result->seed;
            memcpy(totals->first_why, result->why, sizeof(totals->first_why));
        }
    } else {
        totals->passed++;
    }
}

/* ---- the command ---- */

struct options {
    uint64_t from, seeds, twice;
    const char *recorded, *soak;
    int jobs;
    bool trace, quiet, stop;
};

static void
run_seeds(const struct options *options, struct totals *totals)
{
    struct run runs[JOBS_MAX] = {{0}};
    uint64_t next = options->from, end = options->from + options->seeds;
    int running = 0;
    while (next < end || running > 0) {
        if (options->stop && totals->failed > 0)
            next = end;
        for (int i = 0; i < options->jobs && next < end; i++)
            if (runs[i].pid == 0) {
                start(&runs[i], next++);
                running++;
            }
        if (running == 0)
            break;
        struct pollfd waits[JOBS_MAX];
        for (int i = 0; i < options->jobs; i++)
            waits[i] = (struct pollfd){.fd = runs[i].pid ? runs[i].fd : -1,
                                       .events = POLLIN | POLLHUP};
        if (poll(waits, (nfds_t)options->jobs, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < options->jobs; i++) {
            struct story_result result;
            if (!runs[i].pid || !waits[i].revents)
                continue;
            collect(&runs[i], &result);
            running--;
            add(totals, &result);
            if (result.why[0] && !options->quiet)
                tell_failure(&result);
        }
    }
}

/* The same seed again must tell the same story. */
static void
run_twice(uint64_t seed, struct totals *totals)
{
    struct run runs[2] = {{0}};
    struct story_result results[2];
    for (int i = 0; i < 2; i++)
        start(&runs[i], seed);
    for (int i = 0; i < 2; i++)
        collect(&runs[i], &results[i]);
    if (results[0].hash == results[1].hash && results[0].events == results[1].events)
        return;
    printf("seed %llu: two runs of it differ, %016llx and %016llx\n",
           (unsigned long long)seed, (unsigned long long)results[0].hash,
           (unsigned long long)results[1].hash);
    totals->failed++;
}

/* Lines "SEED what fails"; "#" begins a remark. -1: the file is not there. */
static int
read_known(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "could not open \"%s\"\n", path);
        return -1;
    }
    while (fgets(line, sizeof(line), file)) {
        uint64_t seed = strtoull(line, NULL, 10);
        if (seed && known.count < sizeof(known.seeds) / sizeof(*known.seeds))
            known.seeds[known.count++] = seed;
    }
    fclose(file);
    return 0;
}

/* Lines "SEED what it once broke"; "#" begins a remark. -1: the file is not there. */
static int
run_recorded(const char *path, const struct options *options, struct totals *totals)
{
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "could not open \"%s\"\n", path);
        return -1;
    }
    while (fgets(line, sizeof(line), file)) {
        struct options one = *options;
        one.from = strtoull(line, NULL, 10);
        one.seeds = 1;
        if (one.from)
            run_seeds(&one, totals);
    }
    fclose(file);
    return 0;
}

/* ---- a long run in parts ---- */

/* What is written down between two parts of it. */
struct place {
    char program[ID_TEXT_SIZE]; /* another program begins anew */
    unsigned long long next, passed, failed, seconds;
};

static void
program_hash(char text[ID_TEXT_SIZE])
{
    struct buf bytes = {0};
    struct err err;
    struct id hash;
    must(file_read("/proc/self/exe", 256 << 20, &bytes, &err) == 0);
    key_hash(bytes.data, bytes.len, &hash);
    buf_release(&bytes);
    id_text(&hash, text);
}

static void
place_read(const char *path, struct place *place)
{
    struct place found = {.next = 1}, fresh = {.next = 1};
    program_hash(fresh.program);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%64s %llu %llu %llu %llu", found.program, &found.next,
                       &found.passed, &found.failed, &found.seconds) != 5)
        found.program[0] = '\0';
    if (file)
        fclose(file);
    *place = file && strcmp(found.program, fresh.program) == 0 ? found : fresh;
}

static int
place_write(const char *path, const struct place *place)
{
    char text[256];
    struct err err;
    int len = snprintf(text, sizeof(text), "%s %llu %llu %llu %llu\n", place->program,
                       place->next, place->passed, place->failed, place->seconds);
    if (file_write(path, text, (size_t)len, 0644, &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.msg);
    return -1;
}

/* Goes on where the last one stopped. */
static int
soak(const struct options *options)
{
    struct place place;
    place_read(options->soak, &place);
    unsigned long long from = place.next, before = place.seconds;
    int64_t began = system_real_ms(), said = began;
    printf("soak: %llu of %llu seeds done before\n", place.next - 1,
           (unsigned long long)options->seeds);
    while (place.next <= options->seeds) {
        struct totals totals = {0};
        struct options some = *options;
        uint64_t left = options->seeds + 1 - place.next;
        some.from = place.next;
        some.seeds = left < SOAK_PART ? left : SOAK_PART;
        run_seeds(&some, &totals);
        int64_t now = system_real_ms();
        place.next += some.seeds;
        place.passed += totals.passed;
        place.failed += totals.failed;
        place.seconds = before + (unsigned long long)(now - began) / 1000;
        if (place_write(options->soak, &place))
            return 2;
        if (now - said < 60000)
            continue;
        said = now;
        printf("soak: %llu of %llu seeds, %llu failed, %llu s, %.1f seeds/s\n",
               place.next - 1, (unsigned long long)options->seeds, place.failed,
               place.seconds, (double)(place.next - from) * 1000 / (double)(now - began));
        fflush(stdout);
    }
    printf("soak: %llu seeds passed, %llu failed, %llu s in all\n", place.passed,
           place.failed, place.seconds);
    return place.failed ? 1 : 0;
}

static int
run_one(uint64_t seed)
{
    struct story_result result;
    story_run(seed, &result);
    printf("seed %llu: %s\n    %d hosts, %llu events, %llu frames, %llu epochs, %lld "
           "steps, settled after %lld ms, trace %016llx\n",
           (unsigned long long)seed, result.why[0] ? result.why : "passed", result.hosts,
           (unsigned long long)result.events, (unsigned long long)result.frames,
           (unsigned long long)result.epochs, (long long)result.steps,
           (long long)result.settled_ms, (unsigned long long)result.hash);
    return result.why[0] ? 1 : 0;
}

/* Each mistake must break something that has to hold within so many seeds. */
static int
run_mutants(const struct options *options)
{
    int survived = 0, count = (int)(sizeof(mutants) / sizeof(*mutants)) - 1;
    int64_t began = system_real_ms();
    for (int m = mutant_chosen ? (int)mutant_chosen : 1; m <= count; m++) {
        struct totals totals = {0};
        struct options until = *options;
        until.stop = until.quiet = true;
        mutant_chosen = (enum mutant)m;
        run_seeds(&until, &totals);
        survived += totals.failed == 0;
        printf("mutant %s (%s): ", mutants[m].name, mutants[m].text);
        if (totals.failed)
            printf("seed %llu: %s\n", (unsigned long long)totals.first_failed,
                   totals.first_why);
        else
            printf("SURVIVED %llu seeds\n", (unsigned long long)totals.passed);
        fflush(stdout);
    }
    printf("sim: %d of %d mutants caught, %lld s\n", count - survived, count,
           (long long)(system_real_ms() - began) / 1000);
    return survived ? 1 : 0;
}

static bool
choose_mutant(const char *name)
{
    for (size_t m = 0; m < sizeof(mutants) / sizeof(*mutants); m++)
        if (strcmp(mutants[m].name, name) == 0) {
            mutant_chosen = (enum mutant)m;
            return true;
        }
    return false;
}

static int
usage(void)
{
    fprintf(stderr, "usage: sim [--seed N [--trace]] [--from N] [--seeds N] [--jobs N]\n"
                    "           [--recorded FILE] [--known FILE] [--twice N]\n");
    return 2;
}

int
main(int argc, char **argv)
{
    struct options options = {.from = 1, .seeds = 2000, .jobs = 2};
    uint64_t one = 0, all_mutants = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0) {
            world.trace = true;
            continue;
        }
        if (i + 1 == argc)
            return usage();
        unsigned long long number = strtoull(value, NULL, 10);
        if (strcmp(argv[i], "--mutant") == 0 && choose_mutant(value)) {
            i++;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0)
            one = number;
        else if (strcmp(argv[i], "--from") == 0)
            options.from = number;
        else if (strcmp(argv[i], "--seeds") == 0)
            options.seeds = number;
        else if (strcmp(argv[i], "--twice") == 0)
            options.twice = number;
        else if (strcmp(argv[i], "--mutants") == 0)
            all_mutants = number;
        else if (strcmp(argv[i], "--soak") == 0)
            options.soak = value;
        else if (strcmp(argv[i], "--recorded") == 0)
            options.recorded = value;
        else if (strcmp(argv[i], "--known") == 0 && read_known(value) == 0)
            ;
        else if (strcmp(argv[i], "--jobs") == 0 && number >= 1 && number <= JOBS_MAX)
            options.jobs = (int)number;
        else
            return usage();
        i++;
    }
    if (one)
        return run_one(one);
    if (options.soak)
        return soak(&options);
    if (all_mutants) {
        options.seeds = all_mutants;
        return run_mutants(&options);
    }
    struct totals totals = {0};
    int64_t began = system_real_ms();
    if (options.recorded && run_recorded(options.recorded, &options, &totals))
        return 2;
    run_seeds(&options, &totals);
    for (uint64_t i = 0; i < options.twice && i < options.seeds; i++)
        run_twice(options.from + i * (options.seeds / options.twice), &totals);
    int64_t ms = system_real_ms() - began;
    printf("sim: %llu seeds passed, %llu failed, %llu known to fail, %lld.%lld s; "
           "trace %016llx\n",
           (unsigned long long)totals.passed, (unsigned long long)totals.failed,
           (unsigned long long)totals.known, (long long)ms / 1000,
           (long long)ms % 1000 / 100, (unsigned long long)totals.trace);
    return totals.failed ? 1 : 0;
}
