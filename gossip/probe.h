/*
 * probe.h - who is probed next, which probes are under way, and how well we are
 * ourselves.
 *
 *     ping --patience--> ping, ask k others --patience--> again, k more ... --> failed
 *       `------------------- answered, by it or through another: over
 *
 * Where a fifth of all frames is lost, a ping, its answer, or one of the four frames of
 * each way around is lost a third of the time or more: so there are several rounds, and
 * all of them fail once in a million probes.
 *
 * The order is a shuffled list gone through from front to back, so that the time to the
 * next probe of a member is bounded (SWIM 4.3). Health is Lifeguard's: who misses answers
 * that others would get is slower to accuse.
 */
#ifndef GOSSIP_PROBE_H
#define GOSSIP_PROBE_H

#include "gossip/member.h"
#include "transport/base/rng.h"

enum {
    HELPERS_MAX = 3,                      /* of each round */
    ROUNDS_MAX = 5,                       /* in which others are asked */
    ASKED_MAX = HELPERS_MAX * ROUNDS_MAX, /* of a probe */
    PROBES_MAX = 512,
    HEALTH_MAX = 7
};

enum probe_kind {
    PROBE_ROUND,     /* its turn */
    PROBE_WATCH,     /* it is a neighbour in the plan, and was silent for a while */
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
    int64_t patience_ms;
    int64_t ask_ms;  /* when (more) others are asked, or (PROBE_RELAYED) the asker is told
                        that there is no answer */
    int64_t fail_ms; /* when it has failed */
    unsigned rounds;
    unsigned helpers_count, refusals; /* asked, and of those, who got no answer either */
    struct id helpers[ASKED_MAX];
    uint32_t refused; /* by whom, a bit for each */
    struct id asker;  /* PROBE_RELAYED */
    uint64_t asker_nonce;
};

struct prober {
    struct probe *list;
    size_t count, capacity;
    struct id *order;
    size_t order_count, order_next, order_capacity;
    unsigned health; /* 0: well .. HEALTH_MAX */
    struct rng rng;
};

void prober_release(struct prober *prober);

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
 * `self`, `except` (NULL: nobody) and the `nor_count` of `nor`; returns how many. */
size_t prober_choose(struct prober *prober, const struct table *table, bool suspects,
                     const struct id *self, const struct id *except, const struct id *nor,
                     size_t nor_count, size_t most, struct entry **out);

#endif
