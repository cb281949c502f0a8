/*
 * document.h - a plan as JSON: what `flotilla plan --json` writes and `--evaluate`
 * reads (docs/planning.md, "Plans").
 */
#ifndef NODE_PLAN_DOCUMENT_H
#define NODE_PLAN_DOCUMENT_H

#include "node/plan/job.h"
#include "node/plan/timeline.h"
#include "planner/repair.h"
#include "transport/base/buf.h"

/* What one more machine of a pool's kind would bring. */
struct plan_gain {
    int pool;
    int devices; /* of that machine */
    bool found;
    struct estimate estimate;
};

/* All that is known of a plan, and of how it was found. */
struct plan_outcome {
    const struct plan_job *job;
    const struct plan_cluster *cluster;
    bool given;                 /* the plan was not searched but given */
    struct fleet_answer answer; /* of a given plan: plan and estimate alone */
    double seconds;             /* that the search took */
    struct plan_timeline timeline;
    bool repaired; /* it takes the place of another: `repair` has the prices, no plan */
    struct repair_answer repair;
    int gains_count;
    struct plan_gain *gains; /* owned */
};

void plan_outcome_release(struct plan_outcome *outcome);

/* Replicas of a stage that are alike. */
struct plan_group {
    int pool;
    int tp;
    int micro_batches; /* of each */
    int replicas;
    int first; /* the first of them */
};
enum { PLAN_GROUPS_MAX = 64 };
/* The groups of a stage, in the order of their first replicas; what is beyond the maximum
 * is counted in the last. Returns how many there are. */
int plan_groups(const struct fleet_plan *plan, int stage,
                struct plan_group groups[PLAN_GROUPS_MAX]);

/* One line that tells a plan from another: "16 pipelines of 2 stages, micro-batch 4: 7
 * layers V100-16 tp2, 19 layers A100-40 tp2". */
void plan_summary(const struct fleet_plan *plan, const struct fleet *fleet, char *text,
                  size_t size);

/* The document of a question that has no plan: what was asked, and `why` there is none. */
void plan_document_refuse(const struct plan_job *job, const struct err *why,
                          struct buf *out);
void plan_document_write(const struct plan_outcome *outcome, struct buf *out);

/* The plan of a document. ERR_USAGE: the member and its place, a device or zone that the
 * cluster has not. What it means is for fleet_plan_check(). */
int plan_document_read(const char *path, const struct fleet *fleet,
                       struct fleet_plan *out, struct err *err);
int plan_document_parse(const char *name, const char *text, size_t len,
                        const struct fleet *fleet, struct fleet_plan *out,
                        struct err *err);

/* Words of the document and of the page. */
const char *plan_bound_word(enum bound_kind kind);
const char *plan_way_word(enum repair_way way);

#endif
