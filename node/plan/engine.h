/*
 * engine.h - a job whose model our own engine has, planned for that engine: what the leader of
 * a swarm would do with it (docs/planning.md, "Our engine").
 */
#ifndef NODE_PLAN_ENGINE_H
#define NODE_PLAN_ENGINE_H

#include "node/plan/job.h"

/* Gives the fleet the engine's own description: bytes as it lays them out, times at every
 * micro-batch size that the batch can be cut into, and to the request what it carries out
 * (planner/layer_table.h). Left alone is a job of a profiled model, one that tells of another
 * framework or asks for what the engine has not (bf16, recompute, zero, tp), a cluster under the
 * published model, and one whose profiles have other layers than the engine's: a line in
 * cluster->notes says so. The fleet borrows job->shape. The job is bound; doing it twice is doing
 * it once. */
void plan_engine_bind(struct plan_job *job, struct plan_cluster *cluster);

#endif
