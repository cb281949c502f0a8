/*
 * search.h - the plan for a request on a cluster: pipeline depth x replicas x
 * micro-batch, layers split evenly by predicted time, memory checked, time simulated.
 *
 * Deterministic: the same input gives the same plan, bit for bit, on every node and
 * compiler. Ties go to fewer stages, then fewer nodes, then lower node ids. Bounded by
 * counted work.
 */
#ifndef PLANNER_SEARCH_H
#define PLANNER_SEARCH_H

#include "planner/simulate.h"

/* ERR_PLAN when nothing fits: the sentence names the layer, its need, the roomiest node
 * and what would help. What the request fixes is kept if any plan allows it; else it is
 * loosened, least first (replicas, then zones, then pipeline, then micro_batch), and
 * plan->loosened is set. */
int search(const struct plan_request *request, const struct cluster *cluster,
           struct plan *plan, struct prediction *prediction, struct err *err);

/* Is `better` worth leaving `current` for, on speed alone? True from a gain of 5 % of
 * predicted step time. */
bool search_worth_it(const struct plan *current, const struct plan *better,
                     const struct plan_request *request, const struct cluster *cluster);

#endif
