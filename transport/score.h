/*
 * score.h - how much one peer may say, and what happens to one who says more or says
 * nonsense: two token buckets and a score that decays. A pure step machine.
 *
 *     words --> [ frames/s ] [ bytes/s ] --over--> dropped, 1 point each
 *     nonsense ----------------------------------> dropped, 10 points each
 *     SCORE_POINTS_MAX points --> pruned: nothing is heard from it for SCORE_PRUNED_MS
 *
 * Points fade by one in SCORE_FADE_MS. The rates are far above what a node of a sound
 * swarm says to one peer: a burst takes in a decree of the largest size a dozen times.
 * (Limits per peer and back-off after a prune as in gossipsub v1.1.)
 */
#ifndef TRANSPORT_SCORE_H
#define TRANSPORT_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SCORE_POINTS_MAX = 100,
    SCORE_NONSENSE = 10, /* points */
    SCORE_FADE_MS = 1000,
    SCORE_PRUNED_MS = 60000
};

/* What a bucket holds when full, and what flows in each second. */
struct score_limits {
    int64_t frames_burst, frames_per_s;
    int64_t bytes_burst, bytes_per_s;
};

/* Of a peer's own words; of what it gives us to carry to others. */
extern const struct score_limits score_words, score_carried;

struct score {
    const struct score_limits *limits;
    int64_t frames, bytes; /* left, in thousandths */
    int64_t at_ms;         /* of the last look */
    int64_t points, faded_ms;
    int64_t pruned_until_ms; /* 0: never was */
    uint64_t over, nonsense; /* so far */
};

void score_init(struct score *score, const struct score_limits *limits, int64_t now_ms);

/* May it say these bytes now? False: it is over its rate, and blamed for it. */
bool score_take(struct score *score, int64_t now_ms, size_t bytes);
/* It said what makes no sense. */
void score_blame(struct score *score, int64_t now_ms, int64_t points);

/* True once, when the points are too many: it is pruned from here on. */
bool score_prune(struct score *score, int64_t now_ms);
bool score_pruned(const struct score *score, int64_t now_ms);

#endif
