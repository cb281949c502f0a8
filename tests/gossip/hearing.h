/*
 * hearing.h - speak to one node of a council by hand: the council has agreed on its
 * members, its clock stands still.
 */
#ifndef TESTS_GOSSIP_HEARING_H
#define TESTS_GOSSIP_HEARING_H

#include "gossip/agree_state.h"
#include "tests/gossip/council.h"

/* Grown councils are led by their founder. */
enum { LEADER = 0, VOTER = 1, OTHER = 2 };

struct hearing {
    struct council *net;
    struct effects effects; /* of the last call */
    struct err err;
    struct buf body; /* what is said next */
};

struct hearing hearing_new(int members);
void hearing_end(struct hearing *hearing);
struct agree *hearing_agree(const struct hearing *hearing, int node);

/* A node hears hearing->body from another; the body is empty afterwards. */
int hearing_hear(struct hearing *hearing, int to, int from, enum frame_kind kind);
/* The first such effect, or frame, of the last call; NULL. */
const struct effect *hearing_effect(const struct hearing *hearing, enum effect_kind kind);
const struct effect *hearing_frame(const struct hearing *hearing, enum frame_kind kind);
/* The state was durable before this frame left. */
void hearing_persisted(const struct hearing *hearing, enum frame_kind kind);

/* PREVOTE or VOTE at the node's own epoch, and its answer. */
struct vote_reply hearing_vote(struct hearing *hearing, int to, int from,
                               enum frame_kind kind, uint64_t term);
/* A decree that follows the node's newest, with the same members. */
struct decree hearing_next(const struct agree *agree, const char *body);
/* PROPOSE; takes the decree, gives its hash. */
int hearing_propose(struct hearing *hearing, int to, int from, uint64_t term,
                    struct decree *decree, struct id *hash);
struct reject hearing_rejected(struct hearing *hearing);
void hearing_judge(struct hearing *hearing, int node, const struct id *hash, bool right);

#endif
