/*
 * layer_table.h - what a plan has to know of our own engine: what the layers of a model that it
 * has weigh, into which micro-batches a batch may be cut, what a layer takes at each of them,
 * and what the engine does with gradients and messages.
 *
 * The leader (muster.h) and `flotilla plan` (node/plan/engine.h) both ask here, so that both
 * reckon with the same numbers.
 */
#ifndef PLANNER_LAYER_TABLE_H
#define PLANNER_LAYER_TABLE_H

#include "planner/cluster.h"
#include "planner/fleet_plan.h"

enum { LAYER_TABLE_SIZES_MAX = 12 }; /* micro-batch sizes to choose from */

/* Fills an empty table: tp 1, bytes of fp32. `shape` is borrowed; `copies`: replicas keep one of
 * their state, for recovery. */
void layer_table_engine(const struct model_shape *shape, bool copies,
                        struct layer_table *table);

/* Micro-batch sizes, ascending: divisors of the batch that so many devices and the limits allow;
 * the one that is fixed (0: none is) in any case. Their number is returned. */
int layer_table_sizes(const struct model_shape *shape, int sequences, int fixed,
                      int devices, int sizes[LAYER_TABLE_SIZES_MAX]);

/* What a node that has a profile takes for one layer, its correction included
 * (cluster_layer_ns()). */
void layer_table_time(const struct cluster_node *node, enum layer_kind kind,
                      int micro_batch, struct layer_time *out);

/* What the engine carries out: tp 1; sends do not hold up who sends; a stage's gradients are
 * reduced at once, after its last backward pass. And the search is the leader's. */
void layer_table_request(struct fleet_request *request);

#endif
