/*
 * bulk_chunk.h - the 64 bytes before each chunk of the data plane, and nothing else.
 *
 *      0 magic "FLCK"   4 version  5 type  6 channel  7 flags   8 generation  12 length
 *     16 epoch         24 plan tag        32 tag               40 total
 *     48 offset        56 number          64 payload: `length` bytes
 *
 * Little-endian. A data chunk carries bytes [offset, offset + length) of message `number`
 * (from 0) of its channel; a credit says in `number` how much the receiver has taken
 * since the epoch began; a hello says which epoch its sender is in. Fields that a type
 * does not use are zero.
 */
#ifndef TRANSPORT_BULK_CHUNK_H
#define TRANSPORT_BULK_CHUNK_H

#include "transport/bulk.h"

enum { CHUNK_HEADER_BYTES = 64, CHUNK_VERSION = 1 };

/* CARRY asks a third member to pass on, CARRIED is what it passes on: the payload is the
 * other end's id, then a nonce and a sealed chunk. LOST: the payload's node cannot be
 * reached from here. HERE, always carried, answers a carried hello. */
enum chunk_type {
    CHUNK_DATA = 1,
    CHUNK_CREDIT = 2,
    CHUNK_HELLO = 3,
    CHUNK_CARRY = 4,
    CHUNK_CARRIED = 5,
    CHUNK_LOST = 6,
    CHUNK_HERE = 7
};

/* The largest payload of a chunk that carries another. */
enum {
    CHUNK_CARRY_BYTES_MIN =
        ID_BYTES + KEY_NONCE_BYTES + KEY_SEAL_BYTES + CHUNK_HEADER_BYTES,
    CHUNK_CARRY_BYTES_MAX = CHUNK_CARRY_BYTES_MIN + CHUNK_BYTES
};

/* Flags of a data chunk: since the chunk before it, to the same peer, there was always one
 * more to send, so that the link never idled; the last of a probe. Of a credit: the probe
 * needs to send no more. */
enum { CHUNK_FOLLOWS = 2, CHUNK_LAST = 4, CHUNK_ENOUGH = 8 };

struct chunk_header {
    enum chunk_type type;
    enum bulk_channel channel;
    unsigned flags;
    uint32_t generation;
    uint32_t length;
    uint64_t epoch;
    uint64_t plan_tag;
    uint64_t tag;
    uint64_t total;
    uint64_t offset;
    uint64_t number;
};

void chunk_encode(const struct chunk_header *header, uint8_t out[CHUNK_HEADER_BYTES]);

/* Reads and checks the header of a frame of `bytes` bytes in all. ERR_WIRE; `*out` is
 * then not to be used. */
int chunk_decode(const uint8_t *frame, size_t bytes, struct chunk_header *out,
                 struct err *err);

#endif
