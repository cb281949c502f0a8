/*
 * fleets.h - invented fleets for tests: small ones of all sorts, and large ones that look
 * like a cloud.
 */
#ifndef TESTS_PLANNER_FLEETS_H
#define TESTS_PLANNER_FLEETS_H

#include "planner/fleet_search.h"
#include "transport/base/rng.h"

/* A small fleet of up to `devices` devices of at most two kinds in at most two zones, and a
 * model of 2 to `layers` layers; the published cost model. Memory is short now and then. */
struct fleet *fleets_small(struct rng *rng, int devices, int layers,
                           struct fleet_request *request);

/* A fleet as clouds have it: `kinds` kinds of GPUs (fast to slow), `zones` zones in regions of
 * three, so many devices of each kind in each zone, a model of 26 layers of which the last
 * is heavy. Times follow a profile of an A100, scaled. */
struct fleet *fleets_cloud(struct rng *rng, int kinds, int zones,
                           const int *devices /* [kinds x zones] */,
                           enum cost_model cost_model);

#endif
