/*
 * lineup.h - pipelines that go through pools one after the other, each stage in one pool: what
 * is reduced stays inside a pool, and only activations go from one to the next. Where rings
 * between zones are slow these are good beginnings, and unlike all that is filled zone by zone.
 */
#ifndef PLANNER_LINEUP_H
#define PLANNER_LINEUP_H

#include "planner/draft.h"
#include "planner/team.h"

enum { LINEUPS_MAX = 32 };

/* The best such drafts of two pools or more, at most LINEUPS_MAX, best first; the caller frees
 * each. Their number. */
int lineup_list(struct team *team, struct draft *out[LINEUPS_MAX], int64_t *weighed);

#endif
