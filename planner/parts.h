/*
 * parts.h - parts of a fleet that a search looks at besides the whole: the best plan may leave
 * a zone, a kind or a pool alone, and be like nothing that does well with all of it.
 */
#ifndef PLANNER_PARTS_H
#define PLANNER_PARTS_H

#include "planner/board.h"

enum { PARTS_MAX = 8 };

struct part {
    bool lacks[FLEET_POOLS_MAX];
};

/* Parts that have at least half of what the fleet could compute: those that lack a zone, then
 * those that lack a kind, then a pool; none twice. Their number. */
int parts_list(const struct board *board, struct part parts[PARTS_MAX]);

/* `into`, a copy of the fleet, has the part's devices and no others. */
void parts_take(const struct part *part, const struct fleet *fleet, struct fleet *into);

#endif
