/*
 * probe.h - who is probed next, which probes are under way, and how well we are
 * ourselves.
 *
 *     ping --patience--> ask k others --deadline--> failed
 *       `------------------- answered, by it or through another: over
 *
 * The order is a shuffled list gone through from front to back, so that the time to the
 * next probe of a member is bounded (SWIM 4.3). Health is Lifeguard's: who misses answers
 * that others would get is slower to accuse.
 */
#ifndef GOSSIP_PROBE_H
#define GOSSIP_PROBE_H

#include "gossip/member.h"
#include "transport/base/rng.h"

enum { HELPERS_MAX = 3, PROBES_MAX = 128, HEALTH_MAX = 7 };

enum probe_kind {
    PROBE_ROUND,     /* its turn */
    PROBE_REFUSED,   /* its connection closed and is refused */
    PROBE_CONFIRM,   /* others say that it is dead */
    PROBE_RECONNECT, /* dead for long: is it back? */
    PROBE_RELAYED    /* for somebody else */
};

struct probe {
    enum probe_kind kind;
    struct id target;
    uint64_t nonce;
    int64_t sent_ms;
    int64_t ask_ms;  /* when others are asked, or (PROBE_RELAYED) the asker is told that
                        there is no answer */
    int64_t fail_ms; /* when it has failed */
    bool asked;
    unsigned helpers_count, refusals; /* asked, and of those, who got no answer either */
    struct id helpers[HELPERS_MAX];
    struct id asker; /* PROBE_RELAYED */
    uint64_t asker_nonce;
};

struct prober {
    struct probe list[PROBES_MAX];
    size_t count;
    struct id order[MEMBERS_MAX];
    size_t order_count, order_next;
    unsigned health; /* 0: well .. HEALTH_MAX */
    struct rng rng;
};

/* NULL: PROBES_MAX are under way. The result is good until the next start or end. */
struct probe *prober_start(struct prober *prober, enum probe_kind kind,
                           const struct id *target, int64_t now_ms, int64_t patience_ms,
                           int64_t deadline_ms);
struct probe *prober_find(struct prober *prober, uint64_t nonce);
bool prober_busy(const struct prober *prober, enum probe_kind kind,
                 const struct id *target);
void prober_end(struct prober *prober,
                struct probe *probe);                     /* the last takes its place */
void prober_shift(struct prober *prober, int64_t gap_ms); /* time that we slept through */

/* Whose turn it is among alive and suspect members other than `self`; NULL: nobody's. */
const struct id *prober_next(struct prober *prober, const struct table *table,
                             const struct id *self);
/* A new member gets a random place among those to come. */
void prober_insert(struct prober *prober, const struct id *id);

void prober_health(struct prober *prober, int change);

/* Up to `most` distinct random members that are alive (or suspect, if so wanted), but for
 * `self`, `except` and `nor` (NULL: nobody); returns how many. */
size_t prober_choose(struct prober *prober, const struct table *table, bool suspects,
                     const struct id *self, const struct id *except, const struct id *nor,
                     size_t most, struct entry **out);

#endif
