/*
 * leader.h - for the fuzzers that need a whole node: one that leads a swarm of three, of
 * which the other two are keys alone, in a data folder of its own. Its engine is off, its
 * loop never runs, and nobody reads its log.
 */
#ifndef TESTS_FUZZ_LEADER_H
#define TESTS_FUZZ_LEADER_H

#include "node/node.h"

struct leader {
    char folder[64]; /* the node's data folder is in it */
    struct node *node;
    struct key *maker, *other; /* members */
    struct key *invite;        /* open, for three */
};

/* Aborts when it cannot. One is open at a time; its folder goes at the program's end, too. */
void leader_open(struct leader *leader);
void leader_close(struct leader *leader);

#endif
