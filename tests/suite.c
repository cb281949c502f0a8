#include "tests/suite.h"
#include "transport/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
suite_run(Suite *(*const suites[])(void))
{
    SRunner *runner = srunner_create(NULL);
    for (int i = 0; suites[i]; i++)
        srunner_add_suite(runner, suites[i]());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

TCase *
suite_case(Suite *suite, const char *name, double seconds)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, seconds);
    suite_add_tcase(suite, tests);
    return tests;
}

void
suite_skip(const char *test, const char *why)
{
    printf("skipped: %s: %s\n", test, why);
    fflush(stdout);
}

static char made[256][4096];
static int made_count;
static pid_t made_by;

static void
remove_made(void)
{
    if (getpid() != made_by)
        return;
    struct err err;
    for (int i = 0; i < made_count; i++)
        file_remove_tree(made[i], &err);
}

char *
suite_folder(char path[4096])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 4096, "%s/flotilla-test-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
    if (made_by != getpid()) {
        made_by = getpid();
        made_count = 0;
        atexit(remove_made);
    }
    ck_assert_int_lt(made_count, 256);
    memcpy(made[made_count++], path, 4096);
    return path;
}

uint64_t
suite_seed(const char *test, uint64_t fallback)
{
    const char *text = getenv("FLOTILLA_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : fallback;
    printf("seed: %s: %llu\n", test, (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

int
suite_rounds(int few)
{
    const char *text = getenv("FLOTILLA_SEEDS");
    int many = text ? (int)strtol(text, NULL, 10) : 0;
#ifdef __SANITIZE_ADDRESS__
    few = (few + 2) / 3;
#endif
    return many > 0 ? many : few;
}
