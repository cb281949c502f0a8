/*
 * muster.h - a swarm of single devices as a fleet, and its plans there and back: what the
 * leader hands to the search and takes from it.
 *
 *     cluster                         fleet
 *     node 0  zone a  fast   --->     pool 0: 2 of kind 0 in zone a
 *     node 1  zone a  fast
 *     node 2  zone b  slow            pool 1: 1 of kind 1 in zone b
 *
 * Members of the same speed and memory are one kind (within a fortieth of each other, and so on,
 * when there are too many kinds), which is as fast as the slowest and as roomy as the smallest of
 * them; who has measured nothing is in no pool. What the engine of this version
 * carries out is tp 1, fp32, every replica with its whole optimizer, nothing computed twice;
 * the fleet's model is the engine's own (layer_table.engine), so that a plan's bytes are
 * exact.
 */
#ifndef PLANNER_MUSTER_H
#define PLANNER_MUSTER_H

#include "planner/fleet_search.h"
#include "planner/plan.h"

/* One kind fewer than a fleet may have: for those who measured nothing, where they count. */
enum { MUSTER_KINDS_MAX = FLEET_KINDS_MAX - 1 };

struct muster {
    const struct plan_request *asked;
    const struct cluster *cluster;
    struct fleet *fleet;          /* owned */
    struct fleet_request request; /* with all that the job fixes; a zone that is not there
                                     is -1 in stage_zones */
    int *pool_of;                 /* owned, [nodes]: -1: in none */
    int slowest[FLEET_KINDS_MAX]; /* of each kind, the node whose times it has */
};

/* Borrows request and cluster, which outlive it; the request passes plan_request_check() and at
 * least one node has a profile. */
void muster_init(struct muster *muster, const struct plan_request *request,
                 const struct cluster *cluster);
void muster_release(struct muster *muster);

/* Who takes which place: of a pool's nodes those stay that hold the most layers of the place
 * already (`current`, may be NULL), the others by number. predicted_step_ns and loosened are the
 * caller's. False when the plan is beyond the limits of a decree's. */
bool muster_plan(const struct muster *muster, const struct fleet_plan *plan,
                 const struct plan *current, struct plan *out);

/* A plan over the nodes as one over the pools; the caller releases it. The pool of a node that
 * is gone (-1) or has measured nothing is -1. */
void muster_fleet_plan(const struct muster *muster, const struct plan *plan,
                       struct fleet_plan *out);

#endif
