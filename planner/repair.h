/*
 * repair.h - the next plan when the fleet has changed: the cheapest of staying (where that
 * is possible), mending the plan in force, and planning afresh.
 *
 * The price of a plan is what is lost (the step under way; where no replica of a stage is
 * left also the steps since the last copies) + the time to move the layers that its replicas
 * lack + the next `horizon` steps; in seconds, or in USD where the objective is cost.
 */
#ifndef PLANNER_REPAIR_H
#define PLANNER_REPAIR_H

#include "planner/fleet_search.h"

enum { REPAIR_HORIZON = 1000 };

struct repair_terms {
    int horizon;        /* steps that the next plan is for */
    int rollback_steps; /* since the copies that a lost stage comes back from */
};

enum repair_way { REPAIR_STAY, REPAIR_MEND, REPAIR_AFRESH };

struct repair_price {
    bool possible;
    double lost_s;  /* work that is done again */
    double moved_s; /* until the last replica has its layers */
    int64_t moved_bytes;
    double steps_s; /* the horizon's steps */
    double total_s;
    double total_usd; /* below 0: a price is not known */
};

struct repair_answer {
    enum repair_way way;
    struct fleet_plan plan; /* over the pools of the changed fleet */
    struct estimate estimate;
    struct repair_price price;
    struct repair_price stay; /* the alternatives */
    struct repair_price mend;
    struct repair_price afresh;
};

void repair_answer_release(struct repair_answer *answer);

/* The plan in force was made for `before`; pools of `after` with the same kind and zone
 * (by name) hold what survives of them: of a pool that has less than the plan uses, the
 * plan's last replicas are gone. ERR_PLAN when nothing fits any more; then `out` needs no
 * release. */
int fleet_repair(const struct fleet_request *request, const struct fleet *before,
                 const struct fleet_plan *in_force, const struct fleet *after,
                 const struct repair_terms *terms, struct repair_answer *out,
                 struct err *err);

/* The same of what is left of a plan: its replicas are on pools of `after`, or gone (pool -1);
 * a step of it took `step_s`. The plan need not be kept as it is for anything else. */
int fleet_repair_what_is_left(const struct fleet_request *request,
                              const struct fleet *after, const struct fleet_plan *left,
                              double step_s, const struct repair_terms *terms,
                              struct repair_answer *out, struct err *err);

/* What it would cost to go from the plan in force to another over the pools of `after`. */
int fleet_repair_price(const struct fleet_request *request, const struct fleet *before,
                       const struct fleet_plan *in_force, const struct fleet *after,
                       const struct fleet_plan *next, const struct repair_terms *terms,
                       struct repair_price *out, struct err *err);

#endif
