/*
 * parts.h - a fleet is searched with its parts: sets of its pools, each as if the others had
 * never been named.
 *
 *     all pools      begun; if the best drafts leave pools alone, these are left to the part that
 *      |    \        is without them, whose best then goes on with all
 *     without one    given up as soon as it is too far behind the best that is known; else
 *      |    \        finished, and its own parts are looked at
 *     without two
 *
 * and, under the published model, where kinds differ or pools are two at most, each set that was searched to its end with a
 * machine less of each of its pools, for as long as that is no worse than what is known: with
 * a few devices less a search may end in another cut or depth by chance.
 *
 * A set finds here what it finds when it is asked about by itself. So no fleet of up to five
 * pools is planned worse than any set of its pools, but for what was given up; under the cost
 * objective that holds for three. Of more pools only the part that the best drafts use is looked
 * at.
 */
#ifndef PLANNER_PARTS_H
#define PLANNER_PARTS_H

#include "planner/hunt.h"

/* Fills an initialized hunt with the best drafts of the fleet and its parts. None: nothing
 * fits. */
void parts_search(struct hunt *whole);

#endif
