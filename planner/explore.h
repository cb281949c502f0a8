/*
 * explore.h - the fastest plan that keeps certain parts of a request.
 *
 * Looks at every node by itself, every zone by itself, then zones together: pipelines
 * through chains of zones and pipelines within each of several zones; and at the roomiest
 * nodes wherever they are. Since a pool's zones and nodes are looked at as they would be
 * alone, no pool is planned worse than a zone or a node of it. Candidates are sorted by a
 * time that they cannot beat and simulated in that order.
 */
#ifndef PLANNER_EXPLORE_H
#define PLANNER_EXPLORE_H

#include "planner/simulate.h"

/* What an attempt keeps of the request; 0: free. */
struct wish {
    int pipeline;
    int replicas;
    int micro_batch;
    bool zones; /* the request's, one for each stage of the pipeline */
};

struct explorer;

/* Borrows request and cluster, which outlive it. */
struct explorer *explorer_new(const struct plan_request *request,
                              const struct cluster *cluster);
void explorer_free(struct explorer *explorer);

/* The best plan found for a wish; false if there is none, then the outputs are
 * untouched. */
bool explore(struct explorer *explorer, const struct wish *wish, struct plan *plan,
             struct prediction *prediction);

/* Why there is no plan for any wish, as ERR_PLAN; always -1. */
int explorer_room(struct explorer *explorer, struct err *err);

#endif
