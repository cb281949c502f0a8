/*
 * runner.h - runs a scenario: starts the nodes and the relay, submits the job, does the
 * events, follows the event logs, stops everything, judges.
 */
#ifndef TESTNET_RUNNER_H
#define TESTNET_RUNNER_H

#include "testnet/expect.h"

#include <signal.h>
#include <stdio.h>

struct runner_options {
    const char *program; /* flotilla's file: runs the nodes */
    const char *folder;  /* absolute, empty; short: sockets are named in it */
    FILE *out;           /* the table or the lines */
    const volatile sig_atomic_t *interrupted;
    const struct history *reference; /* of same_loss_as */
    const char *reference_trouble;   /* or "" */
};

struct report {
    struct history history; /* borrows the scenario; release it */
    struct verdict verdict;
    int64_t peak_rss_bytes[TESTNET_NODES_MAX];
    double seconds;
};

/* The longest folder that can be used, in bytes. */
enum { RUNNER_FOLDER_MAX = 60 };

/* Fills in `report` whatever happens: what keeps a run from going is a failed check. */
void runner_run(const struct scenario *scenario, const struct runner_options *options,
                struct report *report);

#endif
