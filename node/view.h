/*
 * view.h - the body of a decree: the words that the members gave (reports), the job, and
 * the plan that follows from them. Turns records into the planner's cluster; everything
 * here is a pure function, so that each voter finds the leader's bytes again.
 */
#ifndef NODE_VIEW_H
#define NODE_VIEW_H

#include "gossip/decree.h"
#include "node/job.h"
#include "node/policy.h"
#include "node/report.h"
#include "planner/next.h"

enum { VIEW_FORMER_MAX = 64 };

enum job_state { JOB_NONE, JOB_RUNNING, JOB_STOPPING };

struct view {
    enum job_state state;
    struct job job; /* when state is not JOB_NONE */
    struct id submitter;
    int64_t stop_after;     /* STOPPING: the run ends at this step */
    char ended[128];        /* NONE: how the last run ended; empty: there was none */
    uint32_t reports_count; /* one per member, ascending id; [i] belongs to cluster node i
                               and bulk peer i */
    struct report *reports;
    uint8_t **report_bytes;
    size_t *report_lens;
    uint32_t former_count; /* nodes that were members once and are not: newest last, at
                              most VIEW_FORMER_MAX */
    struct id former[VIEW_FORMER_MAX];
    struct policy policy; /* who may be here */
    bool planned;         /* false: no job */
    struct plan plan;
    /* Derived, not in the bytes. */
    struct cluster cluster;
    struct plan_request request;
    struct recovery recovery;
    struct duties duties;
};

void view_release(struct view *view);
void view_forget_reports(struct view *view); /* and what followed from them */

/* report_open(), where the record may be admitted by either secret of the view's policy; by
 * `admit_id` when there is no policy. */
int view_report_open(const struct view *view, const void *bytes, size_t len,
                     const struct id *swarm, const struct id *admit_id,
                     struct report *report, struct err *err);
/* Take it in (kept sorted; a later one of the same member replaces it). */
int view_report(struct view *view, const void *bytes, size_t len, const struct id *swarm,
                const struct id *admit_id, struct err *err);

/* A cluster's links, from the members' records (`records` by number; NULL, or NULL for one: that in
 * the report): of what the receivers measured between two zones the median, else what the
 * last-mile model says. Part of view_derive(). */
void view_fill_links(const struct view *view, const struct record *const *records,
                     struct cluster *cluster);

/* From state, job, reports, former: fill in cluster, request, plan, recovery and duties.
 * `current` is the view of the epoch in force (or NULL): what is left of its plan is kept,
 * mended or given up for another, whichever is the cheapest (planner/next.h). ERR_PLAN with
 * a sentence when nothing fits. */
int view_derive(struct view *view, const struct view *current, struct err *err);

/* Would what the members have measured since they reported give another plan than the one in
 * force? By member number: their newest records (NULL: that in the report) and corrections in
 * ppm (0: as reported). For the leader, between epochs; what it finds binds nobody. */
bool view_outdated(const struct view *view, const struct record *const *records,
                   const int64_t *correction_ppm);

/* A view with the job's state brought forward from `current`, without reports: where a
 * leader begins. */
void view_begin(struct view *view, const struct view *current);

void view_encode(const struct view *view, struct buf *out);
/* Decode and check; reports are verified as in view_report(); derived parts are filled in (from the bytes'
 * plan). */
int view_decode(const void *bytes, size_t len, const struct id *swarm,
                const struct id *admit_id, struct view *out, struct err *err);

/* A voter's judgement: are the decree's members exactly those who reported, may they be
 * members, did only requested changes reach the policy, do its voters follow from them
 * and from the decree before it (voters.h), and the plan's bytes from the rest? ERR_PLAN
 * or ERR_AUTH with the reason. */
int view_judge(const struct decree *decree, const struct view *view,
               const struct decree *before, const struct view *current, struct err *err);

/* A voter who is here and stays is not left out of a decree that it is asked to accept:
 * its leader does not hear it. So nobody accepts its own removal, and whatever is accepted
 * has a quorum of the present voters among its members, but for those who leave. ERR_PLAN
 * with the reason. */
int view_keeps(const struct decree *decree, const struct id *self, bool leaving,
               struct err *err);

/* A node's number in the view, or -1. */
int view_node(const struct view *view, const struct id *id);
/* Has this node a part in the plan? */
bool view_worker(const struct view *view, int node);

#endif
