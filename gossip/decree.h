/*
 * decree.h - what the voters decide once per epoch: who belongs, who votes next, and a
 * body (the plan) that agreement does not look into.
 *
 *     header: swarm, generation, epoch, hash of the previous header, cause, members,
 *             voters, hash of the body
 *     body:   bytes, at most DECREE_BYTES_MAX
 *
 * The decree's hash is the header's (BLAKE2b-256), so that a chain of headers and
 * certificates proves an epoch without the bodies. Term and proposer are not in it: a
 * later leader that finds it accepted proposes the same hash.
 */
#ifndef GOSSIP_DECREE_H
#define GOSSIP_DECREE_H

#include "transport/base/buf.h"
#include "transport/base/limits.h"
#include "transport/key.h"

#define DECREE_CAUSES(X)                                                                 \
    X(CAUSE_FOUNDING, "founding")                                                        \
    X(CAUSE_JOIN, "join")     /* a new member */                                         \
    X(CAUSE_LOSS, "loss")     /* a member is gone */                                     \
    X(CAUSE_LEAVE, "leave")   /* a member said that it goes */                           \
    X(CAUSE_RETURN, "return") /* a former member is back */                              \
    X(CAUSE_JOB, "job")       /* a job began or ended */                                 \
    X(CAUSE_LINK, "link") /* a connection between members broke, or a rate changed */    \
    X(CAUSE_SLOW, "slow") /* a better plan by measured speed */                          \
    X(CAUSE_RECOVERY, "recovery") /* by hand, for a lost majority: a new generation */   \
    X(CAUSE_POLICY, "policy")     /* members changed who may be here */

enum decree_cause {
#define CAUSE_ENUM(name, text) name,
    DECREE_CAUSES(CAUSE_ENUM)
#undef CAUSE_ENUM
        DECREE_CAUSES_COUNT
};
const char *decree_cause_name(enum decree_cause cause); /* "founding" */

/* An epoch is generation x 2^32 + number, so that the order of epochs is the order of
 * (generation, number): whatever a new generation decides is newer than all that an older
 * one ever will. */
enum { EPOCH_NUMBER_BITS = 32 };
uint32_t epoch_generation(uint64_t epoch);
uint32_t epoch_number(uint64_t epoch); /* what people are shown */

struct decree_member {
    struct id id;
    uint64_t incarnation;
};

struct decree {
    struct id swarm;     /* empty in the founding decree, whose hash is the swarm's id */
    uint32_t generation; /* number of recoveries so far: epoch_generation(epoch) */
    uint64_t epoch;      /* 1: founding */
    struct id previous;  /* hash of the previous header; in the founding decree a nonce
                           that makes the swarm's id unique */
    enum decree_cause cause;
    uint32_t members_count;
    struct decree_member *members; /* ascending id; owned */
    uint32_t voters_count;
    struct id voters[VOTERS_MAX]; /* [0] counts double when the number is even */
    struct id body_hash;
    uint8_t *body; /* owned; NULL when only the header is known */
    size_t body_len;
};

void decree_release(struct decree *decree);
void decree_copy(struct decree *to, const struct decree *from);
bool decree_member(const struct decree *decree, const struct id *id); /* is a member */
bool decree_voter(const struct decree *decree, const struct id *id);

/* Header and body; decode checks every bound, order, and the body's hash. */
void decree_encode(const struct decree *decree, struct buf *out);
int decree_decode(const void *bytes, size_t len, struct decree *out, struct err *err);
void decree_header_encode(const struct decree *decree, struct buf *out);
int decree_header_decode(const void *bytes, size_t len, struct decree *out,
                         struct err *err);
void decree_hash(const struct decree *decree, struct id *out);

/* How many of so many members vote at most: up to nine all, up to two hundred seven, else
 * nine. */
uint32_t decree_voters_most(uint32_t members);

/* Voters of the next epoch where nothing more is known of the members (ascending): those
 * who vote now keep their order and come first (so that the tie-break passes on), then
 * the others by id, as many as may. */
uint32_t decree_next_voters(const struct decree *current,
                            const struct decree_member *members, uint32_t count,
                            struct id voters[VOTERS_MAX]);

/* More than half of the voters' weight? `mask` bit i: voter i agrees. */
bool decree_quorum(const struct decree *decree, uint32_t mask);

#endif
