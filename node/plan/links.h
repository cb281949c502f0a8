/*
 * links.h - the links of a cluster.yaml as the planner's table of curves.
 */
#ifndef NODE_PLAN_LINKS_H
#define NODE_PLAN_LINKS_H

#include "node/plan/cluster_file.h"
#include "planner/fleet.h"

/* Links between the pools, which are there. Of the entries that fit a pair of endpoints
 * the one that names the most of devices and degrees holds; of equals the later. ERR_USAGE:
 * entry, zones, value. */
int plan_links_take(const struct cluster_file *file, struct fleet *fleet,
                    struct err *err);

/* The links inside a machine of one device type. */
int plan_links_inside(const struct cluster_file *file, const struct device_file *device,
                      struct fleet_kind *kind, struct err *err);

#endif
