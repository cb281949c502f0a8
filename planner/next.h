/*
 * next.h - the leader's planning step: from what the members measured, what the job asks and the
 * plan in force to the plan of the next epoch.
 *
 * The members are mustered as a fleet (muster.h), searched by the same search as everybody's
 * (fleet_search.h), with the restriction to what this engine carries out; with a plan in force
 * by repair (repair.h), so that what moves and what is lost is weighed against the gain. A
 * pure function: every voter finds the same plan, bit for bit. The last answer is remembered, so that
 * asking twice for the same costs nothing.
 */
#ifndef PLANNER_NEXT_H
#define PLANNER_NEXT_H

#include "planner/plan.h"

/* `in_force` is NULL or the plan that the members carry out now, of the same model, with nodes by
 * their numbers in `cluster`, -1 where they are gone. It is kept while it keeps the job's word
 * and no other saves a twentieth of the next thousand steps, all that it costs to change over
 * included. What the request fixes is kept if any plan allows it; else it is loosened, least
 * first (replicas, then zones, then pipeline, then micro_batch), and out->loosened is set.
 * ERR_PLAN when nothing fits: the sentence names the layer, its need, the roomiest node and
 * what would help. ERR_USAGE when the request is out of range. */
int plan_next(const struct plan_request *request, const struct cluster *cluster,
              const struct plan *in_force, struct plan *out, struct err *err);

#endif
