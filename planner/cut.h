/*
 * cut.h - where a model's layers are cut into stages: the slowest stage as fast as it can
 * be, every stage within the memory of its nodes.
 */
#ifndef PLANNER_CUT_H
#define PLANNER_CUT_H

#include "planner/plan.h"

/* What is known of a stage before it has layers. */
struct cut_stage {
    int64_t layer_ns[LAYER_KINDS]; /* forward and backward, summed over the replicas */
    int64_t memory_bytes;          /* of the smallest node */
    int in_flight;
};

/* What came of it. CUT_TIGHT: more memory might have given faster stages. */
enum cut_result { CUT_NONE, CUT_TIGHT, CUT_GOOD };

/* Remembers the sizes of runs of layers. */
struct cutter;

/* Borrows the request, which outlives it. */
struct cutter *cutter_new(const struct plan_request *request);
void cutter_free(struct cutter *cutter);

/* From here on sizes are for this micro-batch. */
void cutter_micro_batch(struct cutter *cutter, int micro_batch);

/* Bytes of a replica that holds this run of layers, all in all and of gradients alone. */
int64_t cutter_run_bytes(struct cutter *cutter, int first_layer, int layers,
                         int in_flight);
int64_t cutter_gradient_bytes(struct cutter *cutter, int first_layer, int layers);

/* Fills in first_layer and layers of the plan's stages; `stages` has an entry for
 * each. */
enum cut_result cut_layers(struct cutter *cutter, const struct cut_stage *stages,
                           struct plan *plan);

enum { CUT_ASSIGN_MAX = 10 }; /* stages */

/* Nodes come in as many blocks as there are stages, each with the memory of its smallest
 * node; block and stage of one number are of one group, and a block can serve any stage
 * of its group. Finds a block for each stage so that all layers fit, if there is a way.
 */
bool cut_assign(struct cutter *cutter, int stages_count, const int *group,
                const int *in_flight, const int64_t *block_bytes, int *block_of_stage);

#endif
