/*
 * group_ring.h - all-reduce over a ring of peers on the data plane (Patarasuk and Yuan,
 * 2009: reduce-scatter, then all-gather).
 *
 * The order of additions is fixed by rank, and in the second half the owner's bytes are
 * forwarded verbatim, so every member ends with the same bits.
 */
#ifndef TRANSPORT_GROUP_RING_H
#define TRANSPORT_GROUP_RING_H

#include "transport/bulk.h"

struct group_ring {
    struct bulk_port *port;
    int members[REPLICAS_MAX]; /* bulk peer numbers in ring order */
    int count;
    int rank; /* our place in members */
};

/* Floats of scratch that a sum of `count` floats over `members` needs. */
size_t group_ring_scratch(size_t count, int members);

/* Sum `data` in place over all members. `tag` distinguishes operations (same on all).
 * `stall`, called about every `stall_ms` of waiting with the peer waited for, may be
 * NULL. ERR_STOPPED when the epoch ends. */
int group_ring_sum(struct group_ring *group, uint64_t tag, float *data, size_t count,
                   float *scratch, int64_t stall_ms,
                   void (*stall)(void *arg, int peer, int64_t waited_ms), void *arg,
                   struct err *err);

#endif
