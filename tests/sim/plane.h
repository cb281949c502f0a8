/*
 * plane.h - the invented data plane (transport/bulk.h, its control side) and what the
 * invented engine sends over it: small messages that stand for weights, gradients and
 * norms by their hashes.
 */
#ifndef TESTS_SIM_PLANE_H
#define TESTS_SIM_PLANE_H

#include "node/engine/lineage.h"
#include "transport/bulk.h"

enum plane_kind {
    PLANE_STATE,  /* a layer: step, chain; tag: the layer */
    PLANE_DATA,   /* the data set */
    PLANE_WORK,   /* activations, gradients and their reduction, of a step */
    PLANE_COMMIT, /* the commit message of a step */
    PLANE_COPY /* a stage's state for who keeps it or gathers checkpoints; tag: stage */
};

struct plane_message {
    enum plane_kind kind;
    struct id sender;
    int from; /* its number in the epoch */
    uint64_t epoch, plan_tag;
    int64_t step;
    int tag;
    int first_layer, layers;
    bool keeps, gathers;
    uint64_t chain;         /* hash of all steps applied to this state */
    uint64_t norm;          /* this worker's part */
    uint64_t samples;       /* of the step, or the running hash */
    struct lineage lineage; /* of a copy */
};

/* To a peer of the epoch at hand. Lost with the connection. */
void plane_send(struct bulk *bulk, int peer, const struct plane_message *message);

bool plane_halted(const struct bulk *bulk);
uint64_t plane_epoch(const struct bulk *bulk);

/* The first message that is so, NULL: none yet. It stays until plane_drop(). */
const struct plane_message *plane_find(const struct bulk *bulk, enum plane_kind kind,
                                       int from, int64_t step, int tag);
/* The first of a kind, which is gone then; false: none. */
bool plane_take(struct bulk *bulk, enum plane_kind kind, struct plane_message *out);
void plane_drop(struct bulk *bulk, enum plane_kind kind, int64_t below_step);

/* engine.c: something came, or the plane was halted. */
void engine_look(void);

#endif
