/*
 * frame.h - one message of the control plane.
 *
 *     array [version, swarm (32), kind, from (32), to (32), sequence,
 *            body (bytes), signature (64 or none)]
 *
 * The signature is over everything before it: a frame says who made it and for whom,
 * whatever carried it. On a connection between the two nodes themselves CURVE has proved
 * both ends' keys, and the frame goes without one. The table of kinds is the protocol's
 * list of contents; node dispatches on it.
 */
#ifndef TRANSPORT_FRAME_H
#define TRANSPORT_FRAME_H

#include "transport/base/buf.h"
#include "transport/key.h"

#include <stdbool.h>

enum { FRAME_VERSION = 2 };

/*        kind               number  largest body      meaning */
#define FRAME_KINDS(X)                                                                   \
    X(FRAME_PING, 1, 64 << 10) /* probe; rumors ride along */                            \
    X(FRAME_PING_REPLY, 2, 64 << 10)                                                     \
    X(FRAME_PING_RELAY, 3, 64 << 10) /* please probe that one for me */                  \
    X(FRAME_RUMORS, 4, 256 << 10)    /* records and accusations */                       \
    X(FRAME_DIGEST, 5, 256 << 10)    /* what I know: (id, incarnation, version) */       \
    X(FRAME_BEAT, 16, 64 << 10)      /* agree: leader's heartbeat, and its answer */     \
    X(FRAME_BEAT_REPLY, 17, 64 << 10)                                                    \
    X(FRAME_PREVOTE, 18, 4 << 10)                                                        \
    X(FRAME_PREVOTE_REPLY, 19, 4 << 10)                                                  \
    X(FRAME_VOTE, 20, 4 << 10)                                                           \
    X(FRAME_VOTE_REPLY, 21, 3 << 20)                                                     \
    X(FRAME_PROPOSE, 22, 3 << 20)                                                        \
    X(FRAME_ACCEPT, 23, 4 << 10)                                                         \
    X(FRAME_REJECT, 24, 4 << 10)                                                         \
    X(FRAME_COMMIT, 25, 3 << 20)   /* a decree with its certificate */                   \
    X(FRAME_FETCH, 26, 4 << 10)    /* send me the decree of epoch e, or the newest */    \
    X(FRAME_FREEZE, 32, 64 << 10)  /* leader: halt and report, a plan follows */         \
    X(FRAME_REPORT, 33, 64 << 10)  /* what I hold and how far I am */                    \
    X(FRAME_EVIDENCE, 34, 4 << 10) /* a neighbour is gone, or waits */                   \
    X(FRAME_SUBMIT, 35, 128 << 10) /* a job, or its end, to the leader */                \
    X(FRAME_SUBMIT_REPLY, 36, 4 << 10)                                                   \
    X(FRAME_PROGRESS, 37, 64 << 10) /* steps applied, for those outside the plan */      \
    X(FRAME_LEAVE, 38, 4 << 10)     /* I am going */                                     \
    X(FRAME_EPOCH_ASK, 39, 4 << 10) /* I may have slept: is my epoch the newest? */      \
    X(FRAME_EPOCH_REPLY, 40, 4 << 10)                                                    \
    X(FRAME_PROBE_ASK, 48, 4 << 10) /* may I probe this link now? */                     \
    X(FRAME_PROBE_ANSWER, 49, 4 << 10)                                                   \
    X(FRAME_PROBE_DONE, 50, 4 << 10)                                                     \
    X(FRAME_MEASURE, 51, 64 << 10) /* leader: a plan rests on these links of yours */    \
    X(FRAME_POLICY, 52, 64 << 10)  /* a change of who may be here, to the leader */      \
    X(FRAME_POLICY_REPLY, 53, 4 << 10) /* why it is not made */                          \
    X(FRAME_SECRET, 54, 4 << 10)       /* the swarm's secret, sealed to the receiver */  \
    X(FRAME_SECRET_ASK, 55, 4 << 10)   /* I was away when it changed */                  \
    X(FRAME_REACH_ASK, 60, 4 << 10)    /* dial me back: is my address any good? */       \
    X(FRAME_REACH_REPLY, 61, 4 << 10)  /* what came of it */                             \
    X(FRAME_CARRY, 62, FRAME_BYTES_MAX - 512)   /* take this frame to another node */    \
    X(FRAME_CARRIED, 63, FRAME_BYTES_MAX - 512) /* a frame of another node for you */    \
    X(FRAME_CARRY_LOST, 64, 4 << 10)            /* I have no way to it */                \
    X(FRAME_HELLO, 65, 4 << 10)                 /* are you there? by a carrier */

enum frame_kind {
#define FRAME_ENUM(name, number, bytes_max) name = (number),
    FRAME_KINDS(FRAME_ENUM)
#undef FRAME_ENUM
};

struct frame {
    enum frame_kind kind;
    struct id swarm;
    struct id from;
    struct id to;
    uint64_t sequence;
    const uint8_t *body; /* borrowed from the message */
    size_t body_len;
    bool proven; /* it has its maker's signature; else the connection has to prove it */
};

const char *frame_kind_name(enum frame_kind kind); /* "FRAME_PING" */
size_t frame_kind_bytes_max(enum frame_kind kind); /* 0: no such kind */

/* Appends the encoded frame, signed by its maker. Aborts when the body is larger than its
 * kind allows (our own mistake). */
void frame_pack(const struct key *key, const struct id *swarm, enum frame_kind kind,
                const struct id *to, uint64_t sequence, const void *body, size_t body_len,
                struct buf *out);

/* The same without a signature, for a connection that proves who speaks. */
void frame_pack_plain(const struct id *from, const struct id *swarm, enum frame_kind kind,
                      const struct id *to, uint64_t sequence, const void *body,
                      size_t body_len, struct buf *out);

/* Decode, and verify the signature if there is one: who takes a frame from somebody else
 * than its maker looks at `proven`. ERR_WIRE: not a frame, unknown kind, too large;
 * ERR_AUTH: the signature is not `from`'s. The swarm is returned, not judged. */
int frame_unpack(const void *bytes, size_t len, struct frame *out, struct err *err);

#endif
