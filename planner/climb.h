/*
 * climb.h - make a draft better by small changes: move a cut, a pipeline, a stage to
 * another kind, zone or degree, add and drop pipelines and stages.
 *
 * Threshold accepting (Dueck and Scheuer, 1990): a change is kept unless it makes the draft
 * worse by more than a threshold, which falls to zero. Random numbers are from a seed, so
 * that a climb goes the same way everywhere.
 */
#ifndef PLANNER_CLIMB_H
#define PLANNER_CLIMB_H

#include "planner/draft.h"

/* Improve a weighed draft by up to `tries` changes; one that needs long rings to be weighed
 * counts as several. The result fits and is never worse.
 * Returns the number of drafts that were weighed. */
int64_t climb(const struct board *board, struct draft *draft, int64_t tries,
              double threshold, uint64_t seed);

/* What draft_weigh() says under the replay may be wrong by so much: what is worse by more is not
 * replayed. */
#define CLIMB_DOUBT 0.05

/* The same by the evaluator's own worth (draft_replay()), for a draft that has it; takes up
 * to `replays` of them. */
int64_t climb_replayed(const struct board *board, struct draft *draft, int replays,
                       uint64_t seed);

#endif
