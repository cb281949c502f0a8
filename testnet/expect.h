/*
 * expect.h - is what happened what the scenario expects, and what must hold in any run?
 */
#ifndef TESTNET_EXPECT_H
#define TESTNET_EXPECT_H

#include "testnet/history.h"
#include "testnet/links.h"

enum { CHECKS_MAX = 32 };

struct check {
    char name[32];
    bool passed;
    char detail[232];
};

/* What the runner knows besides the history. */
struct outcome {
    const char *trouble; /* why the run was given up, or "" */
    bool timed_out, interrupted;
    int events_left;                 /* that did not take place */
    const char *deaths;              /* nodes that died unasked, or "" */
    bool job;                        /* there was one */
    const struct history *reference; /* of same_loss_as; NULL without */
    const char *reference_trouble;   /* it did not do: why; or "" */
    const struct links_seen *links;  /* what was seen of the nodes' estimates */
};

struct verdict {
    bool passed;
    int count;
    struct check checks[CHECKS_MAX];
};

/* The history is settled. */
void expect_judge(const struct history *history, const struct outcome *outcome,
                  struct verdict *verdict);

/* May the run end now, as far as what is expected after the last event goes: the healed
 * are in the newest epoch, the continued are members again? */
bool expect_satisfied(const struct history *history);

#endif
