/*
 * lineage.h - which history a state is of. A run that lost its newest steps does them
 * again in a later epoch, with other numbers; so (job, step) names no state, but (job,
 * step, lineage) does: the epoch in which the state's last step was computed, whenever it
 * was applied. Why that is enough is in docs/protocol.md, section 12.
 */
#ifndef NODE_ENGINE_LINEAGE_H
#define NODE_ENGINE_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>

struct lineage {
    uint64_t epoch; /* generation and number; 0: from the seed, nothing was computed */
    uint64_t tag;   /* prefix of the hash of that epoch's decree (the data plane's plan
                       tag): two swarms, and two recoveries of one generation, count alike */
};

/* A state of a job. */
struct state_name {
    int64_t step; /* -1: none */
    struct lineage lineage;
};

bool lineage_same(const struct lineage *left, const struct lineage *right);
bool state_same(const struct state_name *left, const struct state_name *right);
/* Below, equal, above 0: by step, then epoch, then tag. */
int state_compare(const struct state_name *left, const struct state_name *right);

#endif
