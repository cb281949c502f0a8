/*
 * voters.h - who votes in the next epoch: a pure function of the present voters and of
 * what the members reported, so that each voter finds the leader's list again.
 *
 * Up to nine members all vote. Above nine a committee of seven does, above two hundred of
 * nine: it has only to outlive the loss of a few at one time, since those who are gone
 * are replaced in the epoch that leaves them out.
 *
 *   - Who votes stays, in the same order, so that the tie-break passes on; not who
 *     leaves, nor whom nobody can reach. Who came by an invite "--voter no" never votes
 *     while anybody else can.
 *   - Seats are given in turns: to the zone that has the fewest, there to the lowest id,
 *     of those who can be reached and have been members for long (`steady` in their
 *     report). Fewer than five seats are filled with others, too.
 *   - When a zone has two seats more than one with such a candidate, its last voter gives
 *     way, one in an epoch: a committee from the first days follows where the swarm went.
 */
#ifndef NODE_VOTERS_H
#define NODE_VOTERS_H

#include "node/view.h"

/* `current`: the decree in force; NULL: there are no voters yet. Members are those of the
 * view's reports, at least one. Returns how many. */
uint32_t voters_choose(const struct decree *current, const struct view *view,
                       struct id voters[VOTERS_MAX]);

#endif
