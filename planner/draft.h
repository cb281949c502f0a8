/*
 * draft.h - a plan while it is searched for: pipelines that are alike are one crew.
 *
 *     crew 0   8 pipelines   A tp4            17 micro-batches each
 *     crew 1   24 pipelines  V tp4            5 micro-batches each
 *
 * draft_weigh() says what a draft is worth in a microsecond or so: exactly what the
 * published evaluator says, and close to what the replay says. Micro-batches are dealt out
 * so that the pipeline that ends last ends as early as it can, and rings are ordered so that
 * their slowest neighbours are as fast as they can be.
 */
#ifndef PLANNER_DRAFT_H
#define PLANNER_DRAFT_H

#include "planner/board.h"

enum { CREWS_MAX = 64, DEPTH_MAX = 32 };

struct crew {
    int count;       /* pipelines */
    int each;        /* micro-batches of every one */
    int more;        /* pipelines that take one more */
    bool priced;     /* what follows is up to date, and its stages have room */
    double pace_s;   /* of each further micro-batch */
    double path_s;   /* of the first one */
    double update_s; /* slowest stage */
    uint16_t option[DEPTH_MAX];
};

/* What a draft is worth: less is better, the first that differs decides. */
struct worth {
    double breach; /* by how much, relatively, limits are not kept; 0: they are */
    double goal;   /* seconds of an iteration, or USD */
    double smooth; /* the goal if micro-batches could be cut at will: tells a step in the
                      right direction from one that leads nowhere */
    int devices;
};

struct draft {
    int setting;
    int stages;
    int crews_count;
    int width;     /* pipelines of all crews */
    int ring_work; /* pairs of neighbours that the last weighing looked at */
    int16_t first[DEPTH_MAX + 1]; /* first layer of a stage; [stages]: all layers */
    struct worth worth;           /* from the last draft_weigh() */
    double iteration_s;
    double usd;
    struct crew crews[CREWS_MAX]; /* in the order of the rings */
};

/* Copies what is in use. */
void draft_copy(const struct draft *from, struct draft *to);

/* A draft over one board as one over another that has its pools: `pool_to`[p] is the other's
 * pool for pool p. False: the other lacks its setting. */
bool draft_move(const struct board *board, const struct draft *draft,
                const int16_t *pool_to, const struct board *other, struct draft *to);

/* Pace, path and update of a crew over the draft's cut and setting, in which its options were
 * measured. */
void draft_price(const struct board *board, const struct draft *draft, struct crew *crew);

/* Does everything have room, links and measured times? Pools are not looked at. */
bool draft_fits(const struct board *board, const struct draft *draft);
bool draft_stage_fits(const struct board *board, const struct draft *draft, int crew,
                      int stage);

/* Fill in micro-batches, the order of crews, and the worth. False when there are more
 * pipelines than micro-batches or neighbours without a link. */
bool draft_weigh(const struct board *board, struct draft *draft);

/* What a draft is worth by the evaluator itself; a plan's replay takes a hundred times as
 * long as draft_weigh(), which comes first. False when it cannot be carried out. */
bool draft_replay(const struct board *board, struct draft *draft);

/* What is compared while climbing: mostly the goal, a little the way there. */
double worth_energy(const struct worth *worth);

/* The same, but false too, sooner, if an iteration cannot take less than `goal_s` nor have
 * less than `energy_s` for its worth_energy(). */
bool draft_weigh_below(const struct board *board, struct draft *draft, double goal_s,
                       double energy_s);

/* Is one worth more? A relative difference below 1e-12 is none. */
bool worth_before(const struct worth *left, const struct worth *right);

/* Devices that a draft takes from each pool. */
void draft_used(const struct board *board, const struct draft *draft,
                int used[FLEET_POOLS_MAX]);

/* The plan that a draft stands for; the caller releases it. */
void draft_plan(const struct board *board, const struct draft *draft,
                struct fleet_plan *plan);

/* All crews' prices are out of date: the cut or the setting changed. */
void draft_stale(struct draft *draft);

#endif
