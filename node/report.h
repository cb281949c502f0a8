/*
 * report.h - what a halted member tells the leader before a plan: its record, how far it
 * is, what it holds, how fast it is. Signed by the member and carried whole in the
 * decree, so that every voter plans from the same words and the leader cannot change
 * them.
 */
#ifndef NODE_REPORT_H
#define NODE_REPORT_H

#include "gossip/record.h"
#include "node/engine/recover.h"

struct report {
    struct id id;
    uint64_t term;  /* of the leader who asked */
    uint64_t epoch; /* the newest that the member knows: the one it halted */
    struct id job;  /* what progress and profile are about; empty: no job */
    struct record record;
    struct progress progress;
    struct profile profile; /* count 0: cannot compute */
    bool steady; /* a member for long without a restart (its voter_age): may be a voter */
    bool before; /* its record is admitted by the secret before; not in the bytes */
};

/* Encode and sign; appended. The record is embedded as its own signed bytes. */
void report_sign(const struct report *report, const void *record, size_t record_len,
                 const struct key *key, const struct id *swarm, struct buf *out);

/* Decode, check every bound, both signatures and that they are of one node. */
int report_open(const void *bytes, size_t len, const struct id *swarm,
                const struct id *admit_id, struct report *out, struct err *err);

#endif
