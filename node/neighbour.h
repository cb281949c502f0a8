/*
 * neighbour.h - whom a node watches closely in an epoch: those that it exchanges data with
 * in the plan, and three on either side in the ring of all members, so that each member,
 * with or without a part, is watched by several.
 */
#ifndef NODE_NEIGHBOUR_H
#define NODE_NEIGHBOUR_H

#include "gossip/decree.h"
#include "node/view.h"

enum { NEIGHBOURS_RING = 3, NEIGHBOURS_MAX = 2 * NEIGHBOURS_RING + 4 };

/* Each once, never `self`; returns how many. None for who is no member. */
size_t neighbours_of(const struct view *view, const struct decree *decree,
                     const struct id *self, struct id out[NEIGHBOURS_MAX]);

#endif
