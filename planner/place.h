/*
 * place.h - from the outline of a plan to the plan: which node holds which stage of which
 * pipeline, where the layers are cut, how many micro-batches each pipeline takes. The
 * search tries many outlines.
 *
 * Layers are cut so that the slowest stage is as fast as it can be within the memory of
 * the nodes chosen; a pipeline takes micro-batches in proportion to its slowest stage.
 */
#ifndef PLANNER_PLACE_H
#define PLANNER_PLACE_H

#include "planner/cut.h"

/* Where pipelines may lie. */
enum place_spread {
    PLACE_NODE,      /* one stage, one pipeline, on node zones[0] of the cluster */
    PLACE_STAGES,    /* stage s in zone zones[s], of every pipeline */
    PLACE_PIPELINES, /* each pipeline within one of the zones */
    PLACE_ANYWHERE   /* the roomiest nodes of all zones */
};

/* Which nodes of a zone, and in which order. */
enum place_order {
    /* The fastest nodes; the fastest of them form the first pipeline, or the first
     * stage. */
    PLACE_FAST_PIPELINES,
    PLACE_FAST_STAGES,
    /* The fastest nodes in pipelines; within a pipeline the roomiest first. */
    PLACE_ROOMY_PIPELINES,
    /* The roomiest nodes; the roomiest of them form the first stage, or the last. */
    PLACE_ROOMY_STAGES,
    PLACE_ROOMY_LAST,
    /* The roomiest nodes; a stage gets nodes that its layers fit on, if there is a way.
     * Up to CUT_ASSIGN_MAX stages; not for pipelines in more than one zone. */
    PLACE_FITTING,
    PLACE_ORDERS
};

struct place_outline {
    enum place_spread spread;
    enum place_order order;
    int micro_batch;
    int stages;
    int pipelines;
    int zones_count; /* PLACE_STAGES: == stages */
    int zones[STAGES_MAX];
};

struct placer;

/* Borrows request and cluster, which outlive it. */
struct placer *placer_new(const struct plan_request *request,
                          const struct cluster *cluster);
void placer_free(struct placer *placer);

/* From here on outlines have this micro-batch. */
void placer_micro_batch(struct placer *placer, int micro_batch);

/* Nodes with a measured profile, in the cluster or in one zone of it. */
int placer_nodes(const struct placer *placer);
int placer_zone_nodes(const struct placer *placer, int zone);
bool placer_usable(const struct placer *placer, int node);

/* Are all usable nodes as fast and as roomy as each other? Then all orders are the
 * same. */
bool placer_uniform(const struct placer *placer);

/* Forward and backward of the whole model for one micro-batch, each kind of layer on the
 * node that is the fastest at it; and a node's power beside that: no node does a kind of
 * layer in less than the best time / power. So `count` micro-batches on nodes of power P
 * together take at least count * best / P. */
int64_t placer_best_ns(const struct placer *placer);
double placer_power(const struct placer *placer, int node);

/* Usable nodes, the most powerful first, as far as they lie in a zone of the set (bit per
 * zone). */
int placer_strongest(const struct placer *placer, uint64_t zones, int *nodes);

/* The plan of an outline; CUT_NONE if there are too few nodes or they are too small. */
enum cut_result place(struct placer *placer, const struct place_outline *outline,
                      struct plan *plan);

/* Gradient bytes of each stage of a plan just placed. */
void placer_gradients(struct placer *placer, const struct plan *plan,
                      int64_t gradient_bytes[STAGES_MAX]);

/* ERR_PLAN that says which layer has no room, as the roomiest nodes are filled one after
 * the other with the placer's micro-batch; 0 if all have room. */
int placer_room(struct placer *placer, struct err *err);

#endif
