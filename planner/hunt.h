/*
 * hunt.h - good drafts for a request on a fleet, best first: what a search answers with. Where
 * they begin, which of them go on and for how long; docs/planning.md, "The search". In steps,
 * so that what is too far behind a rival is given up, and what is better looked for elsewhere
 * is (parts.h):
 *
 *     hunt_begin -> hunt_go_on -> hunt_finish
 *                \__________\__ hunt_polish
 *
 * What a step finds follows from the request and the fleet (and the draft that is polished); a
 * rival only ends it sooner.
 */
#ifndef PLANNER_HUNT_H
#define PLANNER_HUNT_H

#include "planner/lineup.h"
#include "planner/team.h"

enum {
    HUNT_POOLS_FEW = 12,   /* so many at most are few: there is time for more of each */
    HUNT_SHAPES_MAX = 256, /* seated */
    HUNT_OTHERS_MAX = 256, /* begun in parts; copies that climb by other chances */
    HUNT_DRAFTS_MAX = HUNT_SHAPES_MAX + LINEUPS_MAX + HUNT_OTHERS_MAX,
};

enum effort {
    EFFORT_FEW,    /* where to begin, among few; or the quick search of a zone */
    EFFORT_GLANCE, /* a quick search and no more, whatever the fleet */
    EFFORT_WHOLE,
};

struct hunt {
    const struct fleet_request *request;
    const struct fleet *fleet;
    struct board *board;
    struct team team; /* of what is quick or only a beginning, the caller alone */
    enum effort effort;
    const struct worth *rival; /* borrowed; NULL: there is none */
    int count;
    struct draft *drafts[HUNT_DRAFTS_MAX]; /* owned; best first */
    bool
        further; /* a rival was searched the same way: long rounds are for what is ahead of it */
    int chance; /* the first is 0; from each all climbs go another way */
    int begun_count;
    struct draft *begun[HUNT_DRAFTS_MAX]; /* owned; what every chance begins with */
    int64_t weighed;
    int64_t replayed; /* operations */
};

/* Borrows both, which outlive it. `fleet` passes fleet_check(). */
void hunt_init(struct hunt *hunt, const struct fleet_request *request,
               const struct fleet *fleet, enum effort effort);
void hunt_release(struct hunt *hunt);

/* All beginnings, each climbed from a little; then the best of them further; then the very best
 * as far as it goes, and replayed. False: the rival is out of reach, and the drafts are not worth
 * looking at. No drafts: nothing fits. */
bool hunt_begin(struct hunt *hunt);
bool hunt_go_on(struct hunt *hunt);
bool hunt_finish(struct hunt *hunt);

/* In place of hunt_finish(): one more draft; the best alone goes on. */
void hunt_polish(struct hunt *hunt, const struct draft *draft);

/* In place of all: some drafts in a few thousand tries. */
void hunt_quickly(struct hunt *hunt);

/* One more draft, weighed. */
void hunt_add(struct hunt *hunt, const struct draft *draft);

/* For where a hunt begins (begin.h): the first `count` drafts put to work what they leave over; the best come first and each
 * but once; what there is anything of in a fleet. */
struct variety {
    int pools;
    int kinds;
    int zones;
};

void hunt_fill(struct hunt *hunt, int count);
void hunt_settle(struct hunt *hunt);
struct variety hunt_variety(const struct fleet *fleet);

#endif
