/*
 * agree_history.h - what a run of agreement must never show, checked as it happens.
 *
 * Nodes are small numbers. Each call tells of something that left a node (after it was
 * durable there); the first breach is kept as a sentence in `wrong`, which is empty as
 * long as all is well.
 */
#ifndef TESTS_GOSSIP_AGREE_HISTORY_H
#define TESTS_GOSSIP_AGREE_HISTORY_H

#include "gossip/decree.h"

enum {
    HISTORY_NODES_MAX = 256,
    HISTORY_EPOCHS_MAX = 512,
    HISTORY_GENERATIONS_MAX = 4,
    HISTORY_ITEMS_MAX = 16384
};

struct history_item {
    char kind; /* 'v' vote, 'p' proposal, 'l' leader, 'a' acceptance */
    int node;
    uint64_t term;
    uint64_t epoch;
    struct id hash; /* of a proposal or acceptance; votes: `epoch` is the candidate */
};

/* What was decided in one generation, by the epoch's number. */
struct history_chain {
    struct decree decided[HISTORY_EPOCHS_MAX];
    struct id hash[HISTORY_EPOCHS_MAX];
    uint64_t term[HISTORY_EPOCHS_MAX];
    uint32_t newest; /* 0: nothing */
};

struct history {
    uint64_t promised[HISTORY_NODES_MAX];
    struct history_chain chains[HISTORY_GENERATIONS_MAX];
    struct id admit_id; /* whose signature makes a recovery */
    uint64_t epoch[HISTORY_NODES_MAX];
    size_t count;
    struct history_item items[HISTORY_ITEMS_MAX];
    char wrong[256];
};

struct history *history_new(void);
void history_free(struct history *history);

/* A vote was granted. (I3: promises only rise, one vote per term.) */
void history_vote(struct history *history, int node, uint64_t term, int candidate);
/* An acceptance was sent. (I3; one acceptance per epoch and term.) */
void history_accept(struct history *history, int node, uint64_t epoch, uint64_t term,
                    const struct id *hash);
/* A proposal was sent. (One per epoch and term; I4: what was decided in an earlier term
 * is proposed, nothing else.) */
void history_propose(struct history *history, int node, uint64_t epoch, uint64_t term,
                     const struct id *hash);
/* A node leads. (One per epoch and term: those of one term that different voters elected
 * lead at different epochs.) */
void history_leads(struct history *history, int node, uint64_t epoch, uint64_t term);
/* A node committed a decree; `certified`: agree_export() there, NULL when it has gone
 * further meanwhile. (I1: one per epoch; I2: an unbroken chain; epochs only rise; I7:
 * certified by a quorum of the previous voters.) */
void history_commit(struct history *history, int node, const struct decree *decree,
                    const struct id *hash, uint64_t term, const struct buf *certified);

#endif
