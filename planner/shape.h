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
#include "planner/team.h"

struct shape {
    struct worth worth; /* of as many as there are devices for, in one zone's links */
    double hope;        /* its goal, if what is left over did as well */
    int setting;
    int stages;
    int width;
    uint16_t option[DEPTH_MAX]; /* of the pool that stands for all of its kind */
    int16_t first[DEPTH_MAX + 1];
};

/* How much is looked at. */
enum shapes_extent {
    SHAPES_ALL,
    SHAPES_FEW,  /* a few of each micro-batch and depth */
    SHAPES_QUICK /* a few of all */
};

/* The shapes worth trying, best first; at most `most`. `weighed` counts those that were
 * looked at. */
int shapes_list(struct team *team, enum shapes_extent extent, struct shape *shapes,
                int most, int64_t *weighed);

#endif
