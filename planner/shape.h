/*
 * shape.h - pipelines as they might look, whatever their zone: which kind of device with
 * which degree at each stage, and where the layers are cut. As many as fit of one such
 * pipeline are a first guess, from which the search climbs.
 *
 * All choices of kinds and degrees are looked at while they are few, up to a depth; deeper
 * ones have at most two kinds or degrees. Those that cannot win by their devices' power are
 * passed over.
 */
#ifndef PLANNER_SHAPE_H
#define PLANNER_SHAPE_H

#include "planner/draft.h"

struct shape {
    struct worth worth; /* of as many as there are devices for, in one zone's links */
    double hope;        /* its goal, if what is left over did as well */
    int setting;
    int stages;
    int width;
    uint16_t option[DEPTH_MAX]; /* of the pool that stands for all of its kind */
    int16_t first[DEPTH_MAX + 1];
};

/* The shapes worth trying, best first; at most `most`. `weighed` counts those that were
 * looked at. */
int shapes_list(const struct board *board, struct shape *shapes, int most,
                int64_t *weighed);

/* Cut the layers over the stages of a draft's crew so that (count - 1) times the slowest
 * stage and all stages once are least. False if they have no room. */
bool shape_cut(const struct board *board, int setting, int stages, const uint16_t *option,
               int count, int width, int16_t *first);

#endif
