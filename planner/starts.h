/*
 * starts.h - parts of a fleet in which a search of the whole begins, too: what does well in a
 * zone or with a kind alone, or without one, may be like nothing that is begun with all, and
 * still do best once the others stand beside it.
 */
#ifndef PLANNER_STARTS_H
#define PLANNER_STARTS_H

#include "planner/fleet.h"

enum { STARTS_MAX = 24 };

struct start {
    int devices[FLEET_POOLS_MAX]; /* of each pool */
};

/* The pools without each zone; where kinds differ also without each kind and each pool, and those
 * of each zone and each kind alone. None twice, none without a device, not the whole; at
 * most STARTS_MAX, in this order. Their number. */
int starts_list(const struct fleet *fleet, struct start starts[STARTS_MAX]);

#endif
