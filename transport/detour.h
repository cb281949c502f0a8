/*
 * detour.h - a way round: which third node carries between us and a peer that neither
 * side can connect to. A pure step machine, one for each such peer; the control plane and
 * the data plane have each their own.
 *
 *     NONE --ask a carrier--> ASKING --an answer came by it--> UP
 *      ^                        | no answer: the next carrier     |
 *      `------------------------'<---- the carrier lost it, ------'
 *                                      or silence
 *
 * Carriers are tried in the order of a hash of (both ends, carrier) that both ends compute
 * alike (rendezvous hashing; Thaler, Ravishankar 1998): so the two use one carrier where
 * they can, and the work spreads over the members. For a peer that nobody reaches, which is
 * dead most likely, the asking gets rare.
 */
#ifndef TRANSPORT_DETOUR_H
#define TRANSPORT_DETOUR_H

#include "transport/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DETOUR_ASK_MS = 500,    /* an answer is waited for, then the next is asked */
    DETOUR_AGAIN_MS = 3000, /* a detour that is up is looked after */
    DETOUR_SILENT_MS = 10000,
    DETOUR_ROUND = 8,      /* carriers that are asked in a row */
    DETOUR_REST_MS = 1000, /* then there is a rest, twice as long each time */
    DETOUR_REST_MS_MAX = 30000
};

enum detour_state { DETOUR_NONE, DETOUR_ASKING, DETOUR_UP };

struct detour {
    enum detour_state state;
    struct id via;
    unsigned turn;   /* carriers that were tried in vain */
    unsigned in_row; /* asked since the last rest */
    unsigned rests;  /* since the last word of the peer */
    int64_t asked_ms, heard_ms, rest_until_ms;
};

/* `carriers`: those that we are directly connected to, without self and peer. The carrier
 * by whom the peer is to be asked for a sign of life now; NULL: nobody. */
const struct id *detour_tick(struct detour *detour, int64_t now_ms, const struct id *self,
                             const struct id *peer, const struct id *carriers,
                             size_t count);

/* A word of the peer came by this carrier. */
void detour_heard(struct detour *detour, int64_t now_ms, const struct id *via);
/* This carrier has no way to the peer, or is gone itself. */
void detour_lost(struct detour *detour, const struct id *via);

/* The weight of one of the carriers for a pair; the same for (a, b) and (b, a). */
uint64_t detour_weight(const struct id *a, const struct id *b, const struct id *carrier);

#endif
