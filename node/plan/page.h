/*
 * page.h - a plan as a page that a person reads: who trains what where, how fast and
 * for how much; in full also the stages by zone, the memory of each kind of device, one
 * step in time, what bounds it, what came second, what was ruled out, and what one more
 * machine would bring. Every number on it is in the document (document.h), rounded.
 */
#ifndef NODE_PLAN_PAGE_H
#define NODE_PLAN_PAGE_H

#include "node/plan/document.h"

void plan_page_write(const struct plan_outcome *outcome, bool full, struct buf *out);

/* What bounds a plan, in one sentence without a number. */
void plan_page_bound(const struct plan_outcome *outcome, char *text, size_t size);

#endif
