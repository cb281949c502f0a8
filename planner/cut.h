/*
 * cut.h - where the layers of a model are cut into the stages of one pipeline, by dynamic
 * programming over all runs of layers at all stages.
 */
#ifndef PLANNER_CUT_H
#define PLANNER_CUT_H

#include "planner/draft.h"

/* Cut the layers over stages with these options so that (count - 1) times the slowest stage
 * and all stages once are least; `first` [stages + 1] is filled in. False if they have no
 * room. */
bool cut_layers(const struct board *board, int setting, int stages,
                const uint16_t *option, int count, int width, int16_t *first);

#endif
