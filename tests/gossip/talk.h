/*
 * talk.h - one core under test, node 0, and frames made by hand in the name of others.
 */
#ifndef TESTS_GOSSIP_TALK_H
#define TESTS_GOSSIP_TALK_H

#include "gossip/digest.h"
#include "tests/gossip/net.h"
#include "tests/suite.h"

extern struct net net;
extern struct effects effects; /* of the last calls, until a test clears them */
extern struct gossip *us;      /* node 0 */
extern struct err err;

/* Node 0 runs and knows nodes 1..known-1, of boot 1, as they would be if they ran. */
void talk_begin(size_t count, size_t known);
void talk_end(void);

/* A record of node `who`, signed by it. */
struct buf talk_record_of(size_t who, uint64_t incarnation, uint64_t version,
                          bool leaving);
struct accusation talk_accusation_by(size_t accuser, size_t target, uint64_t incarnation,
                                     enum accusation_kind kind);
/* Add what is said of `target`: a record of this incarnation, accused by the `count`
 * nodes from `first` on. */
void talk_state(struct draft *draft, size_t target, uint64_t incarnation, size_t first,
                uint32_t count, enum accusation_kind kind);

/* The same, but the record (of this version) is only announced. */
void talk_announce(struct draft *draft, size_t target, uint64_t incarnation,
                   uint64_t version, size_t first, uint32_t count,
                   enum accusation_kind kind);

/* Hand a body, or the message (then released), to node 0 as a frame from `from`, whose
 * record is (boot 1, version 0) unless said. */
int talk_receive_bytes(size_t from, enum frame_kind kind, const void *body, size_t len);
int talk_receive(size_t from, enum frame_kind kind, struct draft *draft);

/* The first frame of this kind to this node among the effects, decoded, until the next
 * call; NULL when there is none. */
struct message *talk_sent(size_t to, enum frame_kind kind);
/* What the message says of a node with its record; NULL: nothing. */
const struct statement *talk_said(const struct message *message, size_t of,
                                  struct record *record);
/* What it says of a node whose record it only announces; NULL: nothing. */
const struct statement *talk_announced(const struct message *message, size_t of);
const struct effect *talk_first_effect(enum effect_kind kind);
const struct record *talk_mine(void);
uint64_t talk_fingerprint(void); /* of all that can be seen of a core */
/* A list of these, ordered by it, from a node to node 0. */
void talk_digest(size_t from, struct digest_entry *entries, size_t count);

#endif
