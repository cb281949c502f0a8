/*
 * record.h - what a node says of itself, signed by it: the unit of gossip.
 *
 * Merged by (incarnation, version): the larger wins. The incarnation is
 * boot counter << 32 | refutations, so it grows over restarts.
 */
#ifndef GOSSIP_RECORD_H
#define GOSSIP_RECORD_H

#include "transport/base/buf.h"
#include "transport/base/limits.h"
#include "transport/key.h"

/* Logarithmic rate: round(16 log2(kbit/s)), 4.4 % a step; 0: unknown. Integer arithmetic:
 * the same bits everywhere. */
uint16_t rate_encode(int64_t bytes_per_s);
int64_t rate_decode(uint16_t code);

enum link_method {
    LINK_UNKNOWN, /* only the round trip is */
    LINK_PASSIVE, /* from what was sent anyway */
    LINK_PROBE,
    LINK_MODEL /* derived from others: in no record */
};

/* What messages of 64 KiB, 1, 16 and 64 MiB get. */
enum { LINK_CURVE_POINTS = 4 };

struct record_link {
    struct id peer;         /* from it to us: a rate is what its receiver measured */
    uint32_t round_trip_us; /* smallest seen lately; 0: unknown */
    uint16_t rate;          /* rate_encode() */
    uint16_t low;           /* a fifth of the samples were below this */
    uint8_t confidence;     /* 0..100 */
    enum link_method method;
    uint32_t age_s;                    /* of the last sample when this was signed */
    uint16_t curve[LINK_CURVE_POINTS]; /* rate_encode(); 0: not seen */
};

/* What peers found who dialled a node's address back. */
enum record_reach {
    REACH_UNCHECKED, /* nobody has tried yet */
    REACH_ALL,       /* all who tried got through */
    REACH_SOME,      /* some did */
    REACH_NONE       /* nobody: it takes part by the connections that it opens itself */
};

struct record {
    struct id id;
    uint64_t incarnation;
    uint64_t version;
    bool leaving;
    char name[NAME_BYTES_MAX + 1];
    char zone[NAME_BYTES_MAX + 1];
    char address[ADDRESS_BYTES_MAX + 8]; /* base address to dial */
    char device[NAME_BYTES_MAX + 1];     /* "cpu" */
    uint32_t threads;
    uint64_t memory_bytes; /* what a plan may fill */
    uint64_t epoch;        /* newest epoch that it knows */
    uint64_t job; /* id_prefix() of the job that it has measured itself on; 0: none */
    enum record_reach reach;                /* of `address` */
    uint8_t admission[KEY_SIGNATURE_BYTES]; /* secret_admit() over (swarm, id) */
    uint64_t
        twin; /* incarnation of a record with our key that we did not make; 0: none */
    uint32_t links_count;
    struct record_link links[RECORD_LINKS_MAX]; /* ascending peer */
};

/* Encode and sign; appended to `out`. */
void record_sign(const struct record *record, const struct key *key,
                 const struct id *swarm, struct buf *out);

/* Whose record the bytes seem to be, if record_sign() wrote them: where to look for what is
 * held already, and no more than that. */
bool record_hint(const void *bytes, size_t len, struct id *id);

/* Decode, check every bound, the admission and the signature. ERR_WIRE or ERR_AUTH. */
int record_open(const void *bytes, size_t len, const struct id *swarm,
                const struct id *admit_id, struct record *out, struct err *err);

/* The two halves of record_open(): decode and check bounds, so that an old record can be
 * told from news before a signature is computed; then check what was decoded. Nothing may
 * rest on a record that was only peeked at. `admit_id` NULL: the admission is known to be
 * good. */
int record_peek(const void *bytes, size_t len, struct record *out, struct err *err);
int record_verify(const struct record *record, const void *bytes, size_t len,
                  const struct id *swarm, const struct id *admit_id, struct err *err);

/* Records that are kept take the room of the links that they have: a heap copy, cut off
 * after the last of them, for the caller to free(). Such a one is read through its
 * pointer, and never copied but by record_copy(): the rest of it is not there. */
struct record *record_dup(const struct record *record);
void record_copy(struct record *to, const struct record *from);

/* Do they say the same, incarnation, version and (so wanted) links apart? */
bool record_same(const struct record *left, const struct record *right, bool links);

/* > 0 when left is newer than right. */
int record_compare(const struct record *left, const struct record *right);

#endif
