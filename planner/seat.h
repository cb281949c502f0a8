/*
 * seat.h - a shape finds its seats: which zones its pipelines lie in.
 *
 * A lane is a zone that holds whole pipelines, or a pair of zones of which one holds the
 * first stages and the other the rest, or a train of more zones, one after the other. With
 * few zones all sets of lanes are tried, with many they are added one by one, the best first. Where kinds lie in zones apart, pipelines are
 * filled stage by stage.
 */
#ifndef PLANNER_SEAT_H
#define PLANNER_SEAT_H

#include "planner/shape.h"

/* The best draft found; false if there is none. Pairs and trains of zones only with
 * `pairs`. */
bool shape_seat(const struct board *board, const struct shape *shape, bool pairs,
                struct draft *out, int64_t *weighed);

#endif
