/*
 * gossip.h - who is here and what they offer: SWIM probing with indirect probes and
 * suspicion, rumors, digest anti-entropy, signed records. A step machine: time and events
 * in, effects out.
 *
 *     ALIVE --no answer--> SUSPECT --timer--> DEAD       (a refutation brings back ALIVE)
 *       `------------------leaving--------------> LEFT
 *
 * It is evidence only: who trains and who votes is the business of agree and its decrees.
 * (Das, Gupta, Motivala: SWIM, DSN'02; Dadgar et al.: Lifeguard, DSN-W'18.)
 */
#ifndef GOSSIP_GOSSIP_H
#define GOSSIP_GOSSIP_H

#include "gossip/effect.h"
#include "gossip/record.h"

enum member_state {
    MEMBER_UNKNOWN,
    MEMBER_ALIVE,
    MEMBER_SUSPECT,
    MEMBER_DEAD,
    MEMBER_LEFT
};
const char *member_state_name(enum member_state state); /* "alive" */

struct member {
    const struct record *record; /* compact: record_copy(), never *record */
    enum member_state state;
    int64_t since_ms;      /* in this state */
    int64_t heard_ms;      /* last direct word from it, 0: never */
    int64_t round_trip_us; /* of our probes; 0: none yet */
    const uint8_t
        *bytes; /* the signed record; with `record` borrowed until the next call */
    size_t len;
};

struct gossip;

struct gossip_options {
    const struct key *key;
    struct id swarm;
    struct id admit_id;
    uint64_t seed;             /* for choices of targets */
    int64_t probe_interval_ms; /* 0: 1000 */
    int64_t
        tick_ms; /* between two gossip_tick(), if time allows; 0: the caller has no beat */
    int64_t suspicion_ms; /* least time from suspicion to death; 0: from the size of the
                             swarm */
};

/* A member that has been dead or gone for a day is forgotten (EFFECT_MEMBER to
 * MEMBER_UNKNOWN), but for dead seeds: gossip_keep(). */
struct gossip *gossip_new(const struct gossip_options *options, int64_t now_ms);
void gossip_free(struct gossip *gossip);

/* The swarm's secret was replaced: from here on records that `admit_id` admits are good, and
 * for as long as members change over those of `before_id` (empty: no longer). A statement
 * that neither admits is passed over; the rest of its message is used. `replaced`: so it was
 * already before this process. */
void gossip_admissions(struct gossip *gossip, const struct id *admit_id,
                       const struct id *before_id, bool replaced);

/* Our own record as it should be: `id`, `incarnation` lower half, `version` and `twin` are
 * gossip's business; incarnation's upper half is the boot counter. Signed and spread if
 * anything changed; in a large swarm changes of links alone wait for their turn, which
 * gossip_flush() does not. */
void gossip_self(struct gossip *gossip, const struct record *record,
                 struct effects *effects);
void gossip_flush(struct gossip *gossip, struct effects *effects);
const struct member *gossip_member_self(const struct gossip *gossip);

/* Whoever advertises this address (a seed's) is never forgotten, and called on for ever
 * while dead. Eight at most; more are not kept. */
void gossip_keep(struct gossip *gossip, const char *address);

/* Exactly these (neighbours in the plan, at most 32, ourselves ignored) are watched
 * closely: one that is silent for a second is probed, and by others too. Dead, they are
 * known so everywhere within 15 s; others within 45 s. */
void gossip_watch(struct gossip *gossip, const struct id *ids, size_t count);

/* A signed record from elsewhere (the answer to a join, a joiner's request): merged like
 * gossip. */
int gossip_merge(struct gossip *gossip, int64_t now_ms, const void *record, size_t len,
                 struct effects *effects, struct err *err);

/* A frame of kinds PING .. DIGEST. ERR_WIRE leaves the state unchanged. */
int gossip_receive(struct gossip *gossip, int64_t now_ms, const struct frame *frame,
                   struct effects *effects, struct err *err);

/* At least every 100 ms. */
void gossip_tick(struct gossip *gossip, int64_t now_ms, struct effects *effects);

/* A control connection to a peer is up (the peer may be unknown yet): send our record and
 * compare digests at once. */
void gossip_met(struct gossip *gossip, int64_t now_ms, const struct id *peer,
                struct effects *effects);

/* Any other frame from a peer is a sign of life. */
void gossip_heard(struct gossip *gossip, int64_t now_ms, const struct id *peer);

/* The connection to a peer closed and its redial is refused: suspicion at once, and a
 * probe through others. */
void gossip_refused(struct gossip *gossip, int64_t now_ms, const struct id *peer,
                    struct effects *effects);

/* Members by ascending id, ourselves included; borrowed until the next call. */
size_t gossip_count(const struct gossip *gossip);
const struct member *gossip_at(const struct gossip *gossip, size_t index);
const struct member *gossip_find(const struct gossip *gossip, const struct id *id);

/* 0: well. Up to 7: we miss answers that others get, or are accused ourselves, and so are
 * that many times slower to accuse. */
unsigned gossip_health(const struct gossip *gossip);

#endif
