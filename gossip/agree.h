/*
 * agree.h - terms, votes and one decree per epoch: the voters named by the decree of
 * epoch e decide the decree of epoch e + 1, by single-decree Paxos with Raft's terms,
 * pre-vote and check-quorum around it (docs/protocol.md, section 7).
 *
 *     FOLLOWER --silence--> PRECANDIDATE --pre-votes--> CANDIDATE --votes--> LEADER
 *
 * Safety rests on what EFFECT_PERSIST made durable (promised term, accepted decree,
 * committed decree and certificate), never on clocks or gossip. Non-voters follow: they
 * learn and verify decrees.
 */
#ifndef GOSSIP_AGREE_H
#define GOSSIP_AGREE_H

#include "gossip/decree.h"
#include "gossip/effect.h"

enum agree_role {
    AGREE_OBSERVER,
    AGREE_FOLLOWER,
    AGREE_PRECANDIDATE,
    AGREE_CANDIDATE,
    AGREE_LEADER
};
const char *agree_role_name(enum agree_role role);

struct agree;

struct agree_options {
    const struct key *key;
    uint64_t incarnation; /* of this boot, as gossip counts it: who comes without a saved
                           * state votes only when a decree lists it with this one or a
                           * later one; 0: any later than the imported decree's */
    uint64_t seed;        /* jitter */
    int64_t silence_ms; /* an election starts after this much silence, + 500 ms x rank; 0:
                           2000 */
    int64_t beat_ms;    /* 0: 400 */
};

/* From what was persisted last (ERR_CORRUPT when damaged: such a node must not vote and
 * has to join anew), or fresh with NULL. */
struct agree *agree_new(const struct agree_options *options, int64_t now_ms,
                        const void *saved, size_t saved_len, struct err *err);
void agree_free(struct agree *agree);

/* Found a swarm: epoch 1 with ourselves as only member and voter; `nonce` makes its id
 * unique. */
void agree_found(struct agree *agree, int64_t now_ms, uint64_t incarnation,
                 const uint8_t nonce[ID_BYTES], const void *body, size_t body_len,
                 struct effects *effects);

/* The newest committed decree with its certificate, for a joiner that has the swarm's
 * secret; and its use there: trusted, since the seed that gave it has the secret. Only a
 * node that has no epoch of this swarm, or an older one, takes it; for others nothing
 * changes. ERR_AUTH: another swarm's. */
void agree_export(const struct agree *agree, struct buf *out);
int agree_import(struct agree *agree, int64_t now_ms, const void *bytes, size_t len,
                 struct effects *effects, struct err *err);

/* Frames BEAT .. FETCH; without an epoch of our own they are passed over. ERR_WIRE and
 * ERR_AUTH leave all unchanged (but may give EFFECT_RIVAL); ERR_PEER: a decree that we cannot follow, since those
 * between are missing (see agree_behind). */
int agree_receive(struct agree *agree, int64_t now_ms, const struct frame *frame,
                  struct effects *effects, struct err *err);
/* At least every 50 ms. */
void agree_tick(struct agree *agree, int64_t now_ms, struct effects *effects);

/* Evidence that a node is gone: when it leads, its voters elect at once, without the
 * silence. */
void agree_gone(struct agree *agree, int64_t now_ms, const struct id *node,
                struct effects *effects);

/* Round trip to the slowest voter, for timers: silence is max(silence_ms, 10 of
 * these). */
void agree_round_trip(struct agree *agree, int64_t round_trip_ms);

/* We ran too late, by so much, for want of a processor: how long leader and voters were
 * silent counts without it, and we stand as much later. Promises and votes are untouched. */
void agree_late(struct agree *agree, int64_t now_ms, int64_t gap_ms);

/* Leader, after EFFECT_COLLECT and while nothing is pending: propose the next epoch.
 * Members sorted; voters among them, at most decree_voters_most(), the tie-breaker first
 * (NULL: from decree_next_voters()). ERR_STOPPED when we do not lead or a proposal is
 * under way. */
int agree_propose(struct agree *agree, int64_t now_ms, enum decree_cause cause,
                  const struct decree_member *members, uint32_t count,
                  const struct id *voters, uint32_t voters_count, const void *body,
                  size_t body_len, struct effects *effects, struct err *err);

/* Answer to EFFECT_JUDGE, at once or much later; too late, it is passed over. `reason`
 * when refused. The effect's `after` is 1 for a decree of an earlier leader that was
 * found accepted: judge whether it is sound, not whether it is still the best. */
void agree_judged(struct agree *agree, int64_t now_ms, const struct id *hash, bool right,
                  const char *reason, struct effects *effects);

/*
 * Recovery of a lost majority, by hand: a decree of the next generation, with the
 * survivors as members, that a signature with the swarm's secret makes valid instead of a
 * quorum of the old voters. Every node that sees it takes it, whatever epoch of an older
 * generation it is in, and nothing of an older generation counts there ever again.
 *
 * Two recoveries to one generation (by hand, at two places) never merge: who hears of the
 * other refuses it (ERR_AUTH) with EFFECT_RIVAL, and a further recovery on the side that
 * is to live ends it.
 */

/* The admission keys (public halves) whose signatures make recoveries: the one in force
 * first, then, while a secret is being replaced, the other. Until it is called nobody's
 * do. At most AUTHORITY_KEYS_MAX are used. */
void agree_authority(struct agree *agree, const struct id *admit_ids, size_t count);

/* Signs with the swarm's admission key. */
typedef void agree_sign_fn(void *arg, const void *bytes, size_t len,
                           uint8_t signature[KEY_SIGNATURE_BYTES]);

/* Found the next generation. Members sorted, we among them, all of them here as far as
 * the caller knows; voters follow from them. It is durable, committed here and sent to
 * all members, old and new, by the effects; its voters then elect a leader. ERR_USAGE: we
 * are not among the members, or have no epoch; ERR_AUTH: the signature is not by one of
 * agree_authority(); ERR_LIMIT: the body is too large. */
int agree_recover(struct agree *agree, int64_t now_ms,
                  const struct decree_member *members, uint32_t count, const void *body,
                  size_t body_len, agree_sign_fn *sign, void *arg,
                  struct effects *effects, struct err *err);

/* Step down if we lead: another voter should take over at once (we are leaving). */
void agree_resign(struct agree *agree, int64_t now_ms, struct effects *effects);

/* ---- what is ---- */

enum agree_role agree_role(const struct agree *agree);
uint64_t agree_term(const struct agree *agree);
const struct id *agree_leader(const struct agree *agree); /* empty: none known */
const struct decree *
agree_decree(const struct agree *agree); /* newest committed; NULL: none */
const struct id *agree_decree_hash(const struct agree *agree);
bool agree_quorum(const struct agree *agree); /* false: a minority, training pauses */
bool agree_idle(const struct agree *agree);   /* we lead and nothing is pending */

/* When a leader last said that our newest epoch is the swarm's newest, too; 0: never. */
int64_t agree_current_ms(const struct agree *agree);

int64_t agree_heard_ms(const struct agree *agree,
                       const struct id *voter); /* leader: last answer of this voter */

/* For seconds nobody had the links from our decree to a newer one that there is: import
 * it from a seed. */
bool agree_behind(const struct agree *agree, int64_t now_ms);
/* Ask one more node than those that the decree names for what it knows. */
void agree_ask(struct agree *agree, int64_t now_ms, const struct id *node,
               struct effects *effects);
/* A node that is known to be in this epoch, an older one than ours: tell it, once in a
 * while. */
void agree_tell(struct agree *agree, int64_t now_ms, const struct id *node,
                uint64_t epoch, struct effects *effects);

/* Verify a certified decree against the decree before it; used by tests and tools.
 * `admit_id`: whose signature makes a recovery, NULL: nobody's does. */
int agree_verify(const struct decree *previous, const struct id *admit_id,
                 const void *certified, size_t len, struct err *err);

#endif
