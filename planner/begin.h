/*
 * begin.h - where a search begins: drafts over the whole fleet and over parts of it, before any
 * climb. docs/planning.md, "The search", steps 1 to 3.
 */
#ifndef PLANNER_BEGIN_H
#define PLANNER_BEGIN_H

#include "planner/hunt.h"
#include "planner/starts.h"

enum { START_DRAFTS = 8 /* begun in each part of a fleet of few pools */ };

/* Each adds drafts to those that a hunt has, weighed, best first. */

/* Shapes that have found their seats; few of them where the hunt's effort is small. */
void begin_shapes(struct hunt *hunt);
/* Pipelines through pools in a row. */
void begin_lineups(struct hunt *hunt);
/* The best beginnings of each part (starts.h). */
void begin_parts(struct hunt *hunt);
/* Where devices are not joined: the one that does best with the whole model. */
void begin_alone(struct hunt *hunt);
/* Where memory is short, or a job fixes what no shape has: whatever fits. */
void begin_wherever(struct hunt *hunt);

#endif
