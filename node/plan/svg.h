/*
 * svg.h - a plan as a picture (SVG 1.1): stages by zone, memory, one step in time.
 */
#ifndef NODE_PLAN_SVG_H
#define NODE_PLAN_SVG_H

#include "node/plan/document.h"

void plan_svg_write(const struct plan_outcome *outcome, struct buf *out);

#endif
