/*
 * reporters.h - members with keys of their own who sign reports, for the tests of reports
 * and views. Their ids ascend with their numbers; zones "a", "b", ... in turn.
 */
#ifndef TESTS_NODE_REPORTERS_H
#define TESTS_NODE_REPORTERS_H

#include "node/view.h"

struct reporter {
    struct key *key;
    struct report report; /* change it, then sign again */
    struct buf record;    /* signed */
    struct buf bytes;     /* the signed report */
};

struct reporters {
    struct secret *secret;
    struct id swarm;
    struct id admit_id;
    int count;
    struct reporter *list;
};

/* A model of `blocks` blocks, hidden 64, context 64, batch 32; bound to a data set. */
void reporters_job(int blocks, struct job *out);

/* `count` members with 1 GiB each and equal profiles, who hold the job's data set and
 * nothing else of it; links of 1 GB/s in a zone and 100 MB/s between. `job` NULL: none.
 */
void reporters_open(struct reporters *reporters, int count, int zones,
                    const struct job *job);
void reporters_close(struct reporters *reporters);

/* Sign a member's record and report as they are now. */
void reporter_sign(struct reporters *reporters, int number);

/* All compute times, in percent of what reporters_open() gave. */
void reporter_speed(struct reporters *reporters, int number, int percent);

#endif
