/*
 * link_fit.h - what the members of a swarm measured of a link, as the curve that plans rest on.
 */
#ifndef PLANNER_LINK_FIT_H
#define PLANNER_LINK_FIT_H

#include "planner/cluster.h"
#include "planner/fleet.h"

/* A quadratic through what messages of three sizes or more got, by least squares; the plain rate
 * where fewer were measured, or where the quadratic would leave what was measured between its
 * sizes. Not shared: that is the caller's to say. */
void link_fit(const struct cluster_link *link, struct fleet_curve *out);

#endif
