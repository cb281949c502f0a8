/*
 * plan.h - who trains which layers with which micro-batches: a plain value.
 *
 *             pipeline 0      pipeline 1
 *   stage 0   node a1         node a2        layers [0, 4)
 *   stage 1   node b1         node b2        layers [4, 6)
 *
 * Replica j of a stage feeds replica j of the next; pipeline j takes
 * micro_batches[j] micro-batches of a step. Sample order: global sample number
 * j of a step goes to pipelines in order, so that the step sees the same samples under
 * any plan.
 */
#ifndef PLANNER_PLAN_H
#define PLANNER_PLAN_H

#include "planner/cluster.h"

enum { MICRO_BATCH_TOKENS_MAX = 1 << 28 }; /* keeps all byte counts within 63 bits */

struct plan_stage {
    int first_layer;
    int layers;
    int nodes[REPLICAS_MAX]; /* cluster node number of each replica */
};

struct plan {
    int micro_batch; /* sequences */
    int stages_count;
    int pipelines_count;             /* replicas of every stage */
    int micro_batches[REPLICAS_MAX]; /* of each pipeline, in one step */
    struct plan_stage stages[STAGES_MAX];
    int64_t predicted_step_ns;
    bool loosened; /* something that the job fixed could not be kept */
};

/* What a job asks of a plan. */
struct plan_request {
    struct model_shape shape;
    int sequences; /* global batch; kept exactly */
    bool copies;   /* replicas keep a recovery copy of their state */
    /* Fixed by the job; 0 or none: free. */
    int pipeline;
    int replicas;
    int micro_batch;
    int zones_count;                            /* == pipeline when given with it */
    char zones[STAGES_MAX][NAME_BYTES_MAX + 1]; /* zone of each stage */
};

/* Checks every promise of a plan against the request and the cluster: layers covered
 * once, batch kept, a node used once, memory, and what the job fixes unless the plan is
 * loosened. ERR_PLAN with a sentence that names layer, node, need and room. Safe on any
 * bytes that are a plan. */
int plan_check(const struct plan *plan, const struct plan_request *request,
               const struct cluster *cluster, struct err *err);

/* The bytes of one replica of a stage under this plan: enough for the pipeline with the
 * most micro-batches. */
void plan_stage_bytes(const struct plan *plan, const struct plan_request *request,
                      int stage, struct stage_bytes *out);

/* Do two plans, of what is in use in them, say the same? */
bool plan_same(const struct plan *left, const struct plan *right);

/* First global sample number (within a step) of a pipeline; the samples follow without a
 * gap. */
int plan_first_sample(const struct plan *plan, int pipeline);

/* Why a run of layers has no room, as ERR_PLAN; always -1. The run starts at first_layer
 * and needs `need_bytes` once it holds `layer`; `node` is the roomiest that there is for
 * it. */
int plan_no_room(struct err *err, int first_layer, int layer, int64_t need_bytes,
                 const struct cluster_node *node, int micro_batch);

#endif
