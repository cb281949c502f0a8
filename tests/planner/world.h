/*
 * world.h - clusters and requests for the planner's tests.
 *
 * Zones are called "a", "b", ...; nodes are numbered zone by zone, and their ids ascend
 * with the number.
 */
#ifndef TESTS_PLANNER_WORLD_H
#define TESTS_PLANNER_WORLD_H

#include "planner/plan.h"
#include "transport/base/rng.h"

/* Nodes of one speed with 1 GiB each: 1 ms forward and 2 ms backward a block and
 * sequence. Within a zone 1 GB/s and 0.2 ms, between zones 12.5 MB/s and 40 ms. */
void world_cluster(struct cluster *cluster, int zones_count, const int *nodes_of_zone);

/* All times of one node, `percent` of world_cluster's. */
void world_speed(struct cluster *cluster, int node, int percent);

/* A GPT-2 of `blocks` blocks, hidden 64, context 64, vocabulary 256, a batch of 32. */
void world_request(struct plan_request *request, int blocks);

/* Up to `nodes_max` nodes in up to `zones_max` zones: speeds, memory, links and a
 * request, all by chance. Some nodes have no profile. */
void world_random(struct rng *rng, int nodes_max, int zones_max, struct cluster *cluster,
                  struct plan_request *request);

/* A copy of the cluster without some nodes; zones stay. */
void world_without(const struct cluster *cluster, const bool *gone, struct cluster *out);

#endif
