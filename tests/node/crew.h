/*
 * crew.h - several trainers in one process with a control thread that does as it is told:
 * the tests' thread. Nodes are sorted by id; node i of the crew is bulk peer and cluster
 * node i as long as all are members, else its place among the members.
 */
#ifndef TESTS_NODE_CREW_H
#define TESTS_NODE_CREW_H

#include "node/engine/train_parts.h"
#include "transport/key.h"
#include "transport/loop.h"

enum { CREW_MAX = 6, CREW_STEPS_MAX = 512 };

struct crew_node {
    struct key *key;
    struct bulk_peer peer;
    struct bulk *bulk;
    struct train *train; /* NULL: dead, or not yet there */
    char folder[PATH_BYTES_MAX];
    int zone;
    _Atomic int64_t fresh_at_ms;

    bool member;
    struct progress progress;
    bool halted;
    int64_t halt_ms;
    int64_t applied; /* by its reports */
    int computes, done, checkpoints, stalls, copies;
    bool failed;
    struct train_report failure;
    int64_t predicted_bytes;
    struct profile *profile;
    char checkpoint[PATH_BYTES_MAX];
    struct train_report step; /* last REPORT_STEP */
};

struct crew {
    struct loop *loop;
    struct admit *admit;
    int count;
    struct crew_node nodes[CREW_MAX];
    struct train_job job;
    struct plan_request request;
    uint64_t epoch;
    int submitter;
    struct plan plan;         /* in members' numbers */
    struct recovery recovery; /* of the epoch in force; arrays are not kept */
    struct duties duties;
    double loss[CREW_STEPS_MAX];
    int applied_by[CREW_STEPS_MAX]; /* how many reported it in the epochs that count */
    uint64_t hash[CREW_STEPS_MAX];
    int64_t copied[STAGES_MAX];
    int64_t copied_everywhere;
    bool mute_copied; /* train_copied() is not called */
};

/* A tiny model and its data, at `count` nodes in zones 0, 0, 1, 1, ...; node 0 has the
 * data. */
void crew_open(struct crew *crew, int count);
void crew_close(struct crew *crew);
void crew_kill(struct crew *crew, int node);
void crew_start(struct crew *crew, int node); /* on its folder, without state in memory */

/* A plan of `stages` x `pipelines` of the nodes listed, stage by stage. */
struct crew_plan {
    int stages, pipelines, micro_batch;
    int layers[4];
    int nodes[CREW_MAX];
};

/* The next epoch: its members are all that live, the plan's nodes are crew numbers. */
void crew_epoch(struct crew *crew, const struct crew_plan *plan);
/* ERR_... of recover() instead, for what cannot go on. */
int crew_try_epoch(struct crew *crew, const struct crew_plan *plan, struct err *err);
void crew_halt(struct crew *crew); /* and wait for everybody's word */

/* Run until all living workers applied the step; or until all gatherers and workers are
 * done. */
void crew_until_step(struct crew *crew, int64_t step);
void crew_until_done(struct crew *crew);
bool crew_until(struct crew *crew, bool (*so)(struct crew *crew, void *arg), void *arg,
                int64_t ms);

/* Halted: weights and moments of all layers as pipeline `pipeline` holds them; free it.
 * The two ends of a pipeline must have the same embedding. */
float *crew_state(const struct crew *crew, int pipeline, size_t *count);
/* Relative distance of the weights, in the worst tensor. */
double crew_distance(const struct crew *crew, const float *left, const float *right);

#endif
