/*
 * trouble.h - what goes wrong in a run, and its end.
 */
#ifndef TESTS_SIM_TROUBLE_H
#define TESTS_SIM_TROUBLE_H

#include "tests/sim/world.h"

void trouble_open(void);
/* Draw this seed's faults: which there are, how often. */
void trouble_choose(void);
/* One of them, now. */
void trouble_strike(void);
/* All of them end: links, clocks, speeds, planners are well again. */
void trouble_heal(void);

/* Looks after processes that ended: starts them again when their time has come, as
 * somebody would who reads what their logs say. */
void trouble_mend(void);
void trouble_join(struct host *host); /* a new node, by the address of any that runs */

/* A job of this many steps is submitted there. */
void trouble_submit(struct host *host, int steps);

void trouble_mend_links(void); /* all that are cut */
/* Nothing comes through between these hosts (a mask) and all others. */
void trouble_part(uint64_t some_hosts, int64_t us);

struct host *trouble_any(void); /* a process that runs; NULL: none */

#endif
