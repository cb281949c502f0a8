/*
 * story.h - what one seed tells: a swarm that forms, trains and meets with trouble
 * (safety: whatever goes wrong, nothing that must hold breaks), and then is healed, wholly
 * or in a core that can decide (liveness: it has to agree and train again).
 */
#ifndef TESTS_SIM_STORY_H
#define TESTS_SIM_STORY_H

#include <stdbool.h>
#include <stdint.h>

struct story_result {
    uint64_t seed, hash;
    char why[512]; /* empty: passed */
    uint64_t events, frames, epochs;
    int64_t steps, settled_ms;
    int crashes, starts, cuts, pauses, hosts;
};

void story_run(uint64_t seed, struct story_result *out);

/* In some seeds a step is done twice, and both outcomes meet; nothing else goes wrong. */
void story_redo(void);

#endif
