/*
 * agree_message.h - what agreement says: the bodies of frames BEAT .. FETCH,
 * certificates, and links of the chain.
 *
 * Encoders append to a buf. Decoders check all that can be checked without knowing who
 * asks: ERR_WIRE, `*out` untouched. Byte pointers in decoded messages are borrowed from
 * the bytes.
 */
#ifndef GOSSIP_AGREE_MESSAGE_H
#define GOSSIP_AGREE_MESSAGE_H

#include "gossip/decree.h"

enum {
    AGREE_LINKS_MAX = 64, /* links of the chain that a node keeps */
    AGREE_LINKS_BYTES_MAX =
        768 << 10, /* their bytes: with the largest body they still fit in one frame */
    AGREE_ROOT_BYTES_MAX = 64 << 10, /* a recovery's link, which has all members */
    AUTHORITY_KEYS_MAX = 4,
    AGREE_TEXT_SIZE = 128
};

/* Why not. */
enum agree_reason {
    REASON_NONE,
    REASON_LEADER_ALIVE, /* I hear a leader */
    REASON_STALE_EPOCH,  /* I have a newer decree */
    REASON_STALE_TERM,   /* I promised a newer term */
    REASON_BEHIND,       /* I lack the decree that this one follows */
    REASON_NOT_VOTER,    /* I do not vote, or you do not */
    REASON_WRONG,        /* I judged the decree and it is not right */
    AGREE_REASONS_COUNT
};

/* ---- certificates and links ---- */

/* Signatures of voters of the previous decree, over ("accept", swarm, generation, epoch,
 * term, hash); the founder's own over the founding decree. Bit i of the mask: voter i
 * signed. A recovery has one signature (mask 1), by the swarm's admission key over
 * ("recover", ...) of the same. */
struct certificate {
    uint64_t term;
    uint32_t mask;
    uint8_t signatures[VOTERS_MAX][KEY_SIGNATURE_BYTES];
};

/* The bytes that an acceptance (of a recovery: its certificate) signs; the swarm of a
 * founding decree is its hash. */
void accept_encode(const struct decree *decree, const struct id *hash, uint64_t term,
                   struct buf *out);
void accept_sign(const struct key *key, const struct decree *decree,
                 const struct id *hash, uint64_t term,
                 uint8_t signature[KEY_SIGNATURE_BYTES]);
bool accept_verify(const struct id *voter, const struct decree *decree,
                   const struct id *hash, uint64_t term,
                   const uint8_t signature[KEY_SIGNATURE_BYTES]);

/* Does `decree` (with this hash) follow `previous` (NULL: it is the founding) and did a
 * quorum sign it? ERR_WIRE when it cannot follow, ERR_AUTH for signatures. */
int certificate_verify(const struct decree *previous, const struct id *previous_hash,
                       const struct decree *decree, const struct id *hash,
                       const struct certificate *certificate, struct err *err);

/* Whose signature makes a recovery: the admission keys that a node knows. */
struct authority {
    struct id keys[AUTHORITY_KEYS_MAX];
    size_t count;
};
/* Did one of them sign this recovery of the swarm? ERR_WIRE: it is no recovery of it,
 * ERR_AUTH: nobody did. */
int recovery_verify(const struct authority *authority, const struct id *swarm,
                    const struct decree *decree, const struct id *hash,
                    const struct certificate *certificate, struct err *err);

/* A header with its certificate. */
void link_encode(const struct decree *decree, const struct certificate *certificate,
                 struct buf *out);
int link_decode(const void *bytes, size_t len, struct decree *header, struct id *hash,
                struct certificate *certificate, struct err *err);

/* ---- messages ---- */

struct beat {
    uint64_t term;
    uint64_t epoch; /* of the newest decree, and its hash */
    struct id hash;
    /* Not empty: the sender resigns, this voter elects itself at once. */
    struct id successor;
};

/* BEAT_REPLY. */
struct beat_reply {
    uint64_t term; /* the highest that the sender knows */
    uint64_t epoch;
};

/* PREVOTE and VOTE. */
struct vote_ask {
    uint64_t term;
    uint64_t epoch;
    struct id hash;
};

/* PREVOTE_REPLY and VOTE_REPLY. */
struct vote_reply {
    uint64_t term;            /* that was asked for */
    enum agree_reason reason; /* REASON_NONE: granted */
    uint64_t my_term;
    uint64_t my_epoch;
    uint64_t accepted_term;  /* 0: nothing accepted for the next epoch */
    const uint8_t *accepted; /* decree_encode() of it */
    size_t accepted_len;
};

struct propose {
    uint64_t term;
    bool adopted; /* an earlier leader's proposal, found accepted */
    const uint8_t *decree;
    size_t decree_len;
};

struct accept {
    uint64_t term;
    uint64_t epoch;
    struct id hash;
    uint8_t signature[KEY_SIGNATURE_BYTES];
};

struct reject {
    uint64_t term;
    uint64_t epoch;
    struct id hash;
    enum agree_reason reason;
    uint64_t my_term;
    uint64_t my_epoch;
    char text[AGREE_TEXT_SIZE];
};

/* A run of links in ascending order, and the body of the last. */
struct commit {
    bool all; /* the sender has no older links */
    size_t count;
    struct {
        const uint8_t *bytes;
        size_t len;
    } links[AGREE_LINKS_MAX];
    const uint8_t *body;
    size_t body_len;
    const uint8_t *root; /* link of the recovery that began the generation; none: 0 */
    size_t root_len;
};

struct fetch {
    uint64_t epoch; /* of the asker's newest decree */
};

void beat_encode(const struct beat *message, struct buf *out);
int beat_decode(const void *bytes, size_t len, struct beat *out, struct err *err);
void beat_reply_encode(const struct beat_reply *message, struct buf *out);
int beat_reply_decode(const void *bytes, size_t len, struct beat_reply *out,
                      struct err *err);
void vote_ask_encode(const struct vote_ask *message, struct buf *out);
int vote_ask_decode(const void *bytes, size_t len, struct vote_ask *out, struct err *err);
void vote_reply_encode(const struct vote_reply *message, struct buf *out);
int vote_reply_decode(const void *bytes, size_t len, struct vote_reply *out,
                      struct err *err);
void propose_encode(const struct propose *message, struct buf *out);
int propose_decode(const void *bytes, size_t len, struct propose *out, struct err *err);
void accept_message_encode(const struct accept *message, struct buf *out);
int accept_message_decode(const void *bytes, size_t len, struct accept *out,
                          struct err *err);
void reject_encode(const struct reject *message, struct buf *out);
int reject_decode(const void *bytes, size_t len, struct reject *out, struct err *err);
void commit_encode(const struct commit *message, struct buf *out);
int commit_decode(const void *bytes, size_t len, struct commit *out, struct err *err);
void fetch_encode(const struct fetch *message, struct buf *out);
int fetch_decode(const void *bytes, size_t len, struct fetch *out, struct err *err);

#endif
