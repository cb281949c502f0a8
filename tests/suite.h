/*
 * suite.h - what every test program shares.
 *
 * Each tests/<folder>/test_<file>.c exports one `Suite *suite_<file>(void)`;
 * tests/<folder>/main.c lists them and calls suite_run(). Tests are functions whose names
 * are sentences.
 */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/* Run the suites (NULL-terminated list); returns the exit code. CK_FORK, CK_RUN_SUITE and
 * CK_RUN_CASE of the library work. */
int suite_run(Suite *(*const suites[])(void));

/* A test case with a time limit in seconds, added to the suite. */
TCase *suite_case(Suite *suite, const char *name, double seconds);

/* Count this test as skipped, with why; return from the test afterwards. */
void suite_skip(const char *test, const char *why);

/* A fresh folder under TMPDIR, removed at exit of the process that made it; its path is
 * written to `path` and returned. */
char *suite_folder(char path[4096]);

/* The seed of a test that uses chance: FLOTILLA_SEED or `fallback`; printed. */
uint64_t suite_seed(const char *test, uint64_t fallback);

/* How often such a test goes round: FLOTILLA_SEEDS, or `few`; under sanitizers, which take
 * several times as long, a third of it. */
int suite_rounds(int few);

#endif
