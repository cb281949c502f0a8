/*
 * repair.h - the next plan when the fleet has changed: the cheapest of staying (where that
 * is possible), mending the plan in force, and planning afresh.
 *
 * The price of a plan is: steps lost x the step time in force + the time to move what its
 * replicas lack + the next `horizon` steps.
 */
#ifndef PLANNER_REPAIR_H
#define PLANNER_REPAIR_H

#include "planner/fleet_search.h"

enum { REPAIR_HORIZON = 1000 };

enum repair_way { REPAIR_STAY, REPAIR_MEND, REPAIR_AFRESH };

struct repair_price {
    double lost_s;  /* work under way that is done again */
    double moved_s; /* until the last replica has its layers */
    int64_t moved_bytes;
    double steps_s; /* the horizon's steps */
    double total_s;
};

struct repair_answer {
    enum repair_way way;
    struct fleet_plan plan;
    struct estimate estimate;
    struct repair_price price;
    struct repair_price stay; /* of the alternatives; total_s below 0: not possible */
    struct repair_price afresh;
};

void repair_answer_release(struct repair_answer *answer);

/* The plan in force was made for `before`; pools of `after` with the same kind and zone
 * (by name) hold what survives of them: of a pool that shrank, the plan's last replicas
 * are gone. ERR_PLAN when nothing fits any more. */
int fleet_repair(const struct fleet_request *request, const struct fleet *before,
                 const struct fleet_plan *in_force, const struct fleet *after,
                 int horizon, struct repair_answer *out, struct err *err);

#endif
