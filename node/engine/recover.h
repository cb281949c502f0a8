/*
 * recover.h - which step a new epoch starts from, and who gives which layer to whom: a
 * pure function of what the members reported after they had halted, so that every voter
 * finds the same answer.
 *
 * If any survivor applied step s, everybody who is still in the swarm had prepared it
 * (the exchange of norms is the commit point), so those apply it too; else it is done
 * again (docs/architecture.md, "The commit point"; docs/protocol.md, section 12).
 */
#ifndef NODE_ENGINE_RECOVER_H
#define NODE_ENGINE_RECOVER_H

#include "node/engine/lineage.h"
#include "planner/plan.h"

/* Where a node has a layer's weights and moments. */
enum state_source {
    SOURCE_NONE,
    SOURCE_LIVE, /* the engine's own, of the last applied step */
    SOURCE_COPY, /* a snapshot in memory: of its own stage, or kept for another */
    SOURCE_DISK, /* the newest whole checkpoint */
    SOURCE_SEED  /* step 0: anybody makes it from the job's seed */
};

struct holding {
    enum state_source source; /* LIVE, COPY or DISK */
    struct state_name name;
    int first_layer;
    int layers;
    uint64_t samples_hash; /* running hash after its step */
};

enum { HOLDINGS_MAX = 12 };

/* What a halted node says. */
struct progress {
    bool reported;   /* false: this member did not answer, holds nothing */
    int64_t applied; /* last applied step of the job, -1: none; its state is live here
                        only if a holding says so: a process that began anew remembers
                        the step alone (node/reached.h) */
    struct lineage lineage; /* of that step's state; zeros: remembered alone, or step 0 */
    bool normed;            /* norm_bits and samples_hash are known to be that step's */
    bool prepared; /* gradients of applied + 1 are reduced and kept, our norm was sent */
    struct lineage prepared_in; /* the epoch in which they were computed */
    uint64_t norm_bits;    /* IEEE bits of the global gradient norm of step `applied` (for
                           those who only prepared it) */
    uint64_t samples_hash; /* running hash after `applied` */
    bool has_data;         /* holds the job's data set */
    int holdings_count;
    struct holding holdings[HOLDINGS_MAX];
};

/* One layer's way. from == to: it is there already, in this source. */
struct transfer {
    int layer;
    int from, to; /* cluster node numbers */
    enum state_source source;
};

struct recovery {
    int64_t base_step;      /* training goes on with base_step + 1 */
    struct lineage lineage; /* of the base step's state: base_step alone names none */
    bool apply_prepared;    /* members with applied == base_step - 1 who prepared it in
                               that lineage's epoch apply it, with this norm */
    bool normed;            /* norm_bits is the base step's */
    uint64_t norm_bits;
    uint64_t samples_hash;
    int64_t steps_lost; /* applied by somebody who reported, and given up; when nobody
                            has live state, by what they remember */
    struct state_name copied; /* the newest of which two members have a copy of every
                                 layer, else one; step -1: none */
    bool copy_soon; /* one more loss might cost more than the steps since then: copy at
                       base_step + 1, not only when it is due */
    int transfers_count;
    /* Owned; every (stage replica, layer) once, by `to`, then layer. */
    struct transfer *transfers;
    int *data_from; /* owned, [nodes]: whom a node gets the data set from; itself: has it;
                       -1: needs none */
};

/* `progress`: one per cluster node. The largest step wins of which every layer is held by
 * somebody who reported, all in one lineage, and of two lineages the later one;
 * SOURCE_SEED covers step 0. Who holds the step in another lineage holds nothing of it:
 * one who was away while the others did the step again gets state instead. Prepared
 * gradients count where a member applied what was computed in the same epoch. Sources are
 * spread: same zone first,
 * then the holder with the fewest layers to give, then the lowest number. ERR_PLAN when
 * no reporting member has the data set. */
int recover(const struct plan *plan, const struct plan_request *request,
            const struct cluster *cluster, const struct progress *progress,
            struct recovery *out, struct err *err);
void recovery_release(struct recovery *recovery);

/* Who keeps recovery copies and who gathers checkpoints: functions of the plan. */
struct duties {
    int keeper[STAGES_MAX]; /* node that keeps the copy of a stage, never one of its
                               replicas: of a zone without a replica if there is one,
                               else another node, -1: there is none */
    int source[STAGES_MAX]; /* the replica that sends it: replica 0's node */
    int gatherers_count;
    int gatherers[2]; /* the submitting node if it is a member, else the lowest; and one
                         of another zone if there is one, else another node */
};

/* `submitter`: cluster node number or -1. Keepers are spread: workers of another zone
 * first, fewest duties, lowest number. */
void recover_duties(const struct plan *plan, const struct cluster *cluster, int submitter,
                    struct duties *out);

#endif
