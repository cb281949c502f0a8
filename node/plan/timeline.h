/*
 * timeline.h - one step of the pipeline that ends last, for pictures: what each of
 * its stages does in each small part of the iteration, and how long it does it all in all.
 */
#ifndef NODE_PLAN_TIMELINE_H
#define NODE_PLAN_TIMELINE_H

#include "planner/evaluate.h"

enum { TIMELINE_COLUMNS = 1200 };

/* Seconds of one stage. A send takes its link's time, and a reduction may lie behind the
 * backward pass; what a stage neither computes nor applies is idle. */
struct plan_stage_time {
    double forward_s, backward_s, send_s, reduce_s, update_s;
    double idle_s; /* the iteration less forward, backward and update */
};

struct plan_timeline {
    int pipeline;
    struct plan_stage_time stages[STAGES_MAX];
    /* Owned, [stages x TIMELINE_COLUMNS]: 'F' forward, 'B' backward, 'U' update, 'R'
     * reduction, 's' sending, '.' none of them: whatever takes the most of a column, of
     * equals the first. */
    char *columns;
};

/* Replays a plan that has this estimate. ERR_PLAN as evaluate(). */
int plan_timeline_make(const struct fleet_plan *plan, const struct fleet_request *request,
                       const struct fleet *fleet, const struct estimate *estimate,
                       struct plan_timeline *out, struct err *err);
void plan_timeline_release(struct plan_timeline *timeline);

/* One stage in `count` letters (a divisor of TIMELINE_COLUMNS) and a final NUL: what goes
 * on in the middle of each part. */
void plan_timeline_text(const struct plan_timeline *timeline, int stage, int count,
                        char *text);

#endif
