/*
 * stage.h - a history that tests tell: events as nodes write them, without nodes.
 */
#ifndef TESTS_TESTNET_STAGE_H
#define TESTS_TESTNET_STAGE_H

#include "testnet/expect.h"

/* Two zones (a: a1, a2; b: b1, b2), a scenario that expects nothing. */
void stage_set(struct scenario *scenario, struct history *history);

/* A line of a node's log. */
void stage_line(struct history *history, int node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* All of `members` (bits of nodes 0 to 3) know this epoch at `ms`; its plan has one stage
 * of replicas at `workers` (none: no job). */
void stage_epoch(struct history *history, int epoch, int term, int leader,
                 const char *cause, int base_step, unsigned members, unsigned workers,
                 int ms);

/* All of `nodes` apply a step at `ms`; the loss is 5 - step / 100. */
void stage_step(struct history *history, unsigned nodes, int epoch, int step, int ms);

/* The runner's fault at `ms`. */
struct past_fault *stage_fault(struct history *history, enum action action,
                               enum target target, int index, int ms);

/* Settle and judge a run that ended well; the check of this name (must be there). */
const struct check *stage_judge(struct history *history, struct verdict *verdict,
                                const char *name);

#endif
