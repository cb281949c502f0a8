/*
 * published.h - Sailor's cost model (SOSP'25, section 4.3 and the artifact's simulator) as it
 * was published; evaluate.h has it behind the common interface. docs/planning.md names its
 * oddities.
 */
#ifndef PLANNER_PUBLISHED_H
#define PLANNER_PUBLISHED_H

#include "planner/evaluate.h"

/* Its constants. */
#define PUBLISHED_BUCKET_BYTES 500e6
#define PUBLISHED_BYTES_PER_PARAMETER 24
#define PUBLISHED_OVERHEAD_BYTES INT64_C(2000000000)    /* tp 1 */
#define PUBLISHED_OVERHEAD_TP_BYTES INT64_C(3000000000) /* above */

int published_evaluate(const struct fleet_plan *plan, const struct fleet *fleet,
                       step_event_fn *on_event, void *context, struct estimate *out,
                       struct err *err);

void published_memory(const struct fleet_plan *plan, const struct fleet *fleet, int stage,
                      int pipeline, struct memory_parts *out);

/* The ring all-reduce of `bytes` over `peers` whose slowest neighbours have this curve. */
double published_reduce_s(const struct fleet_curve *curve, double bytes, int peers);

#endif
