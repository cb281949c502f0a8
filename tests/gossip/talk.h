/*
 * talk.h - speak to one node of a council by hand: the council has agreed on its members,
 * its clock stands still.
 */
#ifndef TESTS_GOSSIP_TALK_H
#define TESTS_GOSSIP_TALK_H

#include "gossip/agree_state.h"
#include "tests/gossip/council.h"

/* Grown councils are led by their founder. */
enum { LEADER = 0, VOTER = 1, OTHER = 2 };

struct talk {
    struct council *net;
    struct effects effects; /* of the last call */
    struct err err;
    struct buf body; /* what is said next */
};

struct talk talk_new(int members);
void talk_end(struct talk *talk);
struct agree *talk_agree(const struct talk *talk, int node);

/* A node hears talk->body from another; the body is empty afterwards. */
int talk_hear(struct talk *talk, int to, int from, enum frame_kind kind);
/* The first such effect, or frame, of the last call; NULL. */
const struct effect *talk_effect(const struct talk *talk, enum effect_kind kind);
const struct effect *talk_frame(const struct talk *talk, enum frame_kind kind);
/* The state was durable before this frame left. */
void talk_persisted(const struct talk *talk, enum frame_kind kind);

/* PREVOTE or VOTE at the node's own epoch, and its answer. */
struct vote_reply talk_vote(struct talk *talk, int to, int from, enum frame_kind kind,
                            uint64_t term);
/* A decree that follows the node's newest, with the same members. */
struct decree talk_next(const struct agree *agree, const char *body);
/* PROPOSE; takes the decree, gives its hash. */
int talk_propose(struct talk *talk, int to, int from, uint64_t term,
                 struct decree *decree, struct id *hash);
struct reject talk_rejected(struct talk *talk);
void talk_judge(struct talk *talk, int node, const struct id *hash, bool right);

#endif
