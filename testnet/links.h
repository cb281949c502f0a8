/*
 * links.h - do the nodes' estimates of their links fit the links that the scenario shapes,
 * and did they keep to their budget for finding out?
 */
#ifndef TESTNET_LINKS_H
#define TESTNET_LINKS_H

#include "testnet/scenario.h"
#include "transport/json.h"

enum {
    LINKS_LOOK_MS = 500,
    LINKS_LOOKS = 3,          /* in a row that have to be good */
    LINKS_PATIENCE_MS = 20000 /* for a machine under load */
};

struct links_seen {
    int looks, good;     /* good ones in a row up to now */
    int64_t first_ms;    /* of the first look, since the swarm was formed */
    int64_t passed_ms;   /* when enough were good; 0: not yet */
    double worst;        /* of the last look: largest error, as a share of the rate */
    char what[160];      /* where */
    int64_t probe_bytes; /* of all nodes that were asked */
    char spent[160];     /* who sent more than it may; empty: nobody */
};

/* Is it time to look? Not before links_by_s, and only where it is expected. */
bool links_due(const struct scenario *scenario, const struct links_seen *seen,
               int64_t since_formed_ms);

/* Nothing more is to be seen: all was good, or there was time enough. */
bool links_over(const struct scenario *scenario, const struct links_seen *seen,
                int64_t since_formed_ms);

/* One node's status document: its view of all links. */
void links_look(const struct scenario *scenario, const struct json *status,
                int64_t since_formed_ms, struct links_seen *seen);

/* Another one's: what it spent. */
void links_spent(const struct json *status, struct links_seen *seen);

#endif
