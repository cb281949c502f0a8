/*
 * hunt.h - good drafts for a request on a fleet, best first: what a search answers with. Where
 * they begin, which of them go on and for how long; docs/planning.md, "The search".
 */
#ifndef PLANNER_HUNT_H
#define PLANNER_HUNT_H

#include "planner/lineup.h"
#include "planner/parts.h"

enum {
    HUNT_SHAPES_MAX = 256, /* seated */
    HUNT_PART_STARTS = 8,  /* begun from, of each part of a fleet */
    HUNT_DRAFTS_MAX = HUNT_SHAPES_MAX + PARTS_MAX * HUNT_PART_STARTS + LINEUPS_MAX,
};

enum effort {
    EFFORT_START,  /* where to begin in a part of a fleet, no more */
    EFFORT_GLANCE, /* a quick search and no more, whatever the fleet */
    EFFORT_WHOLE,
};

struct hunt {
    const struct fleet_request *request;
    const struct fleet *fleet;
    struct board *board;
    enum effort effort;
    int count;
    struct draft *drafts[HUNT_DRAFTS_MAX]; /* best first */
    int64_t weighed;
    int64_t replayed; /* operations */
};

/* Borrows both, which outlive it. `fleet` passes fleet_check(). */
void hunt_init(struct hunt *hunt, const struct fleet_request *request,
               const struct fleet *fleet, enum effort effort);
void hunt_release(struct hunt *hunt);

/* Finds the drafts. None: nothing fits. */
void hunt_drafts(struct hunt *hunt);

#endif
