/*
 * message.h - the bodies of gossip's frames.
 *
 *     PING, PING_REPLY, PING_RELAY, RUMORS:
 *         [nonce, subject, answered, incarnation, version, [statement ...], [ask ...]]
 *     statement:
 *         [[signed record] or [prefix, incarnation, version],
 *          [[accuser, kind, admission, signature] ...]]        ascending accuser
 *
 * A statement is all that is known of a member: its record, and who accuses it at that
 * record's incarnation. The record proves that the incarnation is the member's own, so an
 * accuser cannot invent one. One that only announces a record says which there is:
 * whoever lacks it asks for it, whoever has it takes in what is said against it. So a
 * large record goes once to each, and a small change is not kept waiting by it. An ask is the id prefix of a member whose statement is
 * wanted. Incarnation and version are those of the sender's record, so that a receiver
 * knows at once whether it is behind, or the sender is.
 */
#ifndef GOSSIP_MESSAGE_H
#define GOSSIP_MESSAGE_H

#include "gossip/gossip.h"

enum {
    ACCUSERS_MAX = 8,      /* kept per member, the gravest */
    STATEMENTS_MAX = 1024, /* in one message */
    ASKS_MAX = 1024,       /* likewise */
    STATEMENT_BYTES_MAX = RECORD_BYTES_MAX + ACCUSERS_MAX * 192 + 16
};

enum accusation_kind { ACCUSE_NOTHING, ACCUSE_SUSPECT, ACCUSE_DEAD };

/* "This one does not answer", signed by the accuser over (swarm, target, incarnation,
 * kind). */
struct accusation {
    struct id accuser;
    enum accusation_kind kind;
    uint8_t admission[KEY_SIGNATURE_BYTES]; /* the accuser's */
    uint8_t signature[KEY_SIGNATURE_BYTES];
};

void accusation_sign(struct accusation *accusation, const struct key *key,
                     const struct id *swarm, const struct id *target,
                     uint64_t incarnation);
/* The signature, and the admission unless `admit_id` is NULL. ERR_AUTH. */
int accusation_verify(const struct accusation *accusation, const struct id *swarm,
                      const struct id *admit_id, const struct id *target,
                      uint64_t incarnation, struct err *err);

struct statement {
    const uint8_t *bytes; /* the signed record, borrowed from the message; NULL: only
                             announced */
    size_t len;
    struct record *record; /* owned; once statement_read() has read it, else NULL */
    uint64_t prefix, incarnation, version; /* when only announced */
    uint32_t accusations_count;
    struct accusation accusations[ACCUSERS_MAX]; /* ascending accuser */
    bool leans; /* table_judge(): parts went unverified, being no news to the table */
    uint64_t removals; /* as it was then */
};

struct message {
    uint64_t nonce;
    struct id subject; /* who is probed; empty in rumors */
    bool answered;     /* a reply: the subject did */
    uint64_t incarnation;
    uint64_t version;
    struct statement *statements; /* owned */
    size_t count;
    uint64_t *asks; /* owned */
    size_t asks_count;
};

/* Bounds and order, no signatures. ERR_WIRE. */
int message_decode(const void *bytes, size_t len, struct message *out, struct err *err);
void message_release(struct message *message);

/* Reads a statement's record, once; it does not say whether its signature is right. ERR_WIRE. */
int statement_read(struct statement *statement, struct err *err);
/* The record that was read, or else the well-formed one that is read into `room`. */
const struct record *statement_record(const struct statement *statement,
                                      struct record *room);
void statement_release(struct statement *statement);

/* A message being written; zeroed but for its plain fields it is an empty one. */
struct draft {
    uint64_t nonce;
    struct id subject;
    bool answered;
    uint64_t incarnation;
    uint64_t version;
    struct buf statements;
    size_t count;
    struct buf asks;
    size_t asks_count;
};

void draft_state(struct draft *draft, const void *record, size_t len,
                 const struct accusation *accusations, uint32_t count);
/* Only announce the record. */
void draft_announce(struct draft *draft, const struct record *record,
                    const struct accusation *accusations, uint32_t count);
void draft_ask(struct draft *draft, uint64_t prefix);
void draft_encode(const struct draft *draft, struct buf *out);
void draft_release(struct draft *draft);

#endif
