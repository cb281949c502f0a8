/*
 * member.h - the table of members: facts (records and accusations) and how two views of
 * them merge.
 *
 *     fact of a member = (incarnation, then (version, bytes), then the gravest accusation
 *                         by each accuser)
 *
 * The merge is a join: larger incarnation first, larger record within it, accusations
 * united within it. So it is commutative, associative and idempotent, and nothing that
 * arrives late or twice can undo what is known. Whether a member that is accused is dead
 * is no fact but a judgement: each node's own timer makes it (`expired`), nobody dies of
 * hearsay.
 */
#ifndef GOSSIP_MEMBER_H
#define GOSSIP_MEMBER_H

#include "gossip/message.h"

struct entry {
    struct member member; /* what gossip.h shows; its bytes are owned here */
    uint32_t accusations_count;
    /* Ascending accuser, of the record's incarnation. */
    struct accusation accusations[ACCUSERS_MAX];
    bool expired;         /* our timer ran out at this incarnation */
    int64_t suspected_ms; /* the timer's start */
    int64_t confirmed_ms; /* a second one says dead; 0: none */
    int64_t refused_ms;   /* its redial was refused; 0: no */
    int64_t refusal_ms;   /* when a refusal was last acted upon */
    int64_t told_ms;      /* when we last told it of its accusation */
    int64_t digested_ms;  /* when we last answered its digest */
    unsigned spread;      /* transmissions left of this fact */
    bool fresh;           /* changed in this step: to be spread at once */
    bool tell;            /* it was heard and must learn what is said of it */
    bool listed;          /* in the answer being made */
    uint64_t stamp;       /* the last message that it was in */
};

struct table {
    struct entry *list[MEMBERS_MAX]; /* ascending id */
    size_t count;
    uint64_t removals;         /* so far */
    const struct entry *keeps; /* never gives way: ourselves */
};

void table_release(struct table *table);
struct entry *table_find(const struct table *table, const struct id *id);
/* The first member whose id starts so; NULL: none. */
struct entry *table_find_prefix(const struct table *table, uint64_t prefix);
/* A new entry with this record; the longest dead or left gives way when the table is
 * full. NULL: still full. */
struct entry *table_add(struct table *table, const struct record *record,
                        const void *bytes, size_t len);
void table_remove(struct table *table, struct entry *entry);
size_t
table_active(const struct table *table); /* alive and suspect, ourselves included */

/* Does a statement hold up? Only what is news is verified. ERR_WIRE or ERR_AUTH. */
int table_judge(const struct table *table, const struct id *self,
                struct statement *statement, const struct id *swarm,
                const struct id *admit_id, struct err *err);

/* What a merge did, or found. */
enum {
    MERGE_ADDED = 1,    /* a new member */
    MERGE_RECORD = 2,   /* its record is newer than ours was */
    MERGE_RISEN = 4,    /* of a higher incarnation: old accusations are void */
    MERGE_ACCUSED = 8,  /* an accusation is news */
    MERGE_STALE = 16,   /* ours has a higher incarnation */
    MERGE_UNAWARE = 32, /* ours is accused, theirs is not */
    MERGE_TWIN = 64,    /* same incarnation and version, other bytes */
    MERGE_IGNORED = 128 /* not known, and dead or gone; or no room */
};
/* Join a judged statement into the table. `*at` is its entry, NULL when ignored. */
unsigned table_merge(struct table *table, const struct statement *statement,
                     struct entry **at);

/* Add or aggravate one accusation; false when it is no news. */
bool entry_accuse(struct entry *entry, const struct accusation *accusation);
const struct accusation *entry_accused_by(const struct entry *entry, const struct id *id);
/* Accusers other than `id` whose word is at least `kind`. */
unsigned entry_accusers(const struct entry *entry, const struct id *id,
                        enum accusation_kind kind);
void entry_record(struct entry *entry, const struct record *record, const void *bytes,
                  size_t len);
/* What the facts and our timer say. */
enum member_state entry_state(const struct entry *entry);

#endif
