/*
 * team.h - who works at a search: one board for each worker, because of the caches that a board
 * has. What an item computes follows from its number alone, whoever does it.
 */
#ifndef PLANNER_TEAM_H
#define PLANNER_TEAM_H

#include "planner/board.h"
#include "planner/parallel.h"

struct team {
    const struct parallel *parallel; /* borrowed; NULL: the caller alone */
    struct board *board;             /* the caller's, borrowed */
    /* The others', made when they are needed; [0] is not used. */
    struct board *twins[PARALLEL_WORKERS_MAX];
};

void team_init(struct team *team, struct board *board, const struct parallel *parallel);
/* Before the board is freed. */
void team_release(struct team *team);

/* fn(arg, item, worker) for each item in [0, count), side by side; not from within an item. */
void team_run(struct team *team, int count, parallel_fn fn, void *arg);

/* What an item reads and weighs with. */
static inline const struct board *
team_board(const struct team *team, int worker)
{
    return worker > 0 ? team->twins[worker] : team->board;
}

#endif
