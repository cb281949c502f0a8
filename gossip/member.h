/*
 * member.h - the table of members: facts that any node may learn in any order, and what
 * this node makes of them.
 *
 * The facts of a member are its record (incarnation, then version, then bytes) and the
 * signed accusations against it at that incarnation. Merging them is a join:
 * commutative, associative and idempotent, and the highest incarnation is never
 * forgotten (al8n/memberlist #197). That an accused member is dead is no fact but a
 * judgement: each node's own timer makes it (`expired`), nobody dies of hearsay.
 *
 * A swarm may have ten thousand members of which next to none is of interest at a time,
 * so that the table keeps sets of those that are: what happens ten times a second costs
 * as much as there is to do, not as much as there are members.
 */
#ifndef GOSSIP_MEMBER_H
#define GOSSIP_MEMBER_H

#include "gossip/message.h"

/* What is said against a member at the incarnation of its record. Kept apart: nearly all
 * members have none. */
struct charges {
    uint32_t count;
    struct accusation list[ACCUSERS_MAX]; /* ascending accuser */
    int64_t confirmed_ms;                 /* a second one says dead; 0: none */
};

enum entry_set {
    SET_ACTIVE,  /* alive or suspect */
    SET_SUSPECT, /* suspect */
    SET_GONE,    /* dead or left */
    SET_HOT,     /* transmissions of its news are left */
    SET_TELL,    /* it was heard and must learn what is said of it */
    SET_LISTED,  /* in the answer being made */
    SETS
};

struct entry {
    struct member member; /* what gossip.h shows; its bytes and record are owned here */
    struct charges *charges; /* NULL: none */
    int64_t suspected_ms;    /* the suspicion timer's start */
    int64_t refused_ms;      /* its redial was refused; 0: no */
    int64_t refusal_ms;      /* when a refusal was last acted upon */
    int64_t told_ms;         /* when we last told it of its accusation */
    int64_t digested_ms[2];  /* when we last answered its digest: hashes, lists */
    int64_t accuser_ms;      /* its accusations: allowance_take() */
    int32_t accuser_left;
    uint32_t place[SETS]; /* in each set, from 1; 0: not there */
    uint64_t stamp;       /* the last message that it was in */
    uint8_t spread;       /* transmissions left of its news */
    uint8_t misses;       /* failed watches in a row */
    bool expired;         /* our timer ran out at this incarnation */
    bool denied;          /* others told us that it answers them neither */
    uint8_t full;         /* of those, with the whole record */
    bool urgent;          /* its news is of life and death */
};

struct set {
    struct entry **list;
    size_t count, capacity;
};

struct table {
    struct entry **list; /* ascending id */
    uint64_t *prefixes;  /* of each, side by side: most of all searches is here */
    size_t count, capacity;
    struct set sets[SETS];
    uint64_t removals;         /* so far */
    const struct entry *keeps; /* never gives way: ourselves */
};

/* A zeroed struct is an empty table. */
void table_release(struct table *table);
struct entry *table_find(const struct table *table, const struct id *id);
/* The first member whose id starts so; NULL: none. */
struct entry *table_find_prefix(const struct table *table, uint64_t prefix);
/* A new entry with this record; the longest dead or left gives way when the table is
 * full. NULL: still full. */
struct entry *table_add(struct table *table, const struct record *record,
                        const void *bytes, size_t len);
void table_remove(struct table *table, struct entry *entry);
void table_state(struct table *table, struct entry *entry, enum member_state state);
size_t table_active(const struct table *table); /* alive and suspect, ourselves too */

void table_put(struct table *table, struct entry *entry, enum entry_set set);
void table_take(struct table *table, struct entry *entry, enum entry_set set);
bool entry_in(const struct entry *entry, enum entry_set set);

/* Does a statement hold up? Only what is news is verified. ERR_WIRE or ERR_AUTH. */
int table_judge(const struct table *table, const struct id *self,
                struct statement *statement, const struct id *swarm,
                const struct id *admit_id, struct err *err);

/* What a merge did, or found. */
enum {
    MERGE_ADDED = 1,     /* a new member */
    MERGE_RECORD = 2,    /* its record is newer than ours was */
    MERGE_RISEN = 4,     /* of a higher incarnation: old accusations are void */
    MERGE_ACCUSED = 8,   /* an accusation is news */
    MERGE_STALE = 16,    /* ours is newer */
    MERGE_UNAWARE = 32,  /* ours is accused, theirs is not */
    MERGE_TWIN = 64,     /* same incarnation and version, other bytes */
    MERGE_IGNORED = 128, /* not known, and dead or gone; or no room */
    MERGE_BEHIND = 256,  /* only announced: theirs is newer, or not known here */
    MERGE_MOVED = 512 /* the newer record is of another boot, or names another address */
};
/* Join a judged statement into the table. `*at` is its entry, NULL when there is none. */
unsigned table_merge(struct table *table, const struct statement *statement,
                     struct entry **at);

/* Add or aggravate one accusation; false when it is no news. */
bool entry_accuse(struct entry *entry, const struct accusation *accusation);
const struct accusation *entry_accused_by(const struct entry *entry, const struct id *id);
uint32_t entry_charges(const struct entry *entry); /* how many accuse it */
/* Drop what is said against it by who is admitted under neither key (`before`: empty when
 * there is none). True: nothing is left of it. */
bool entry_readmit(struct entry *entry, const struct id *swarm, const struct id *admit_id,
                   const struct id *before_id);
/* Accusers other than `id` whose word is at least `kind`. */
unsigned entry_accusers(const struct entry *entry, const struct id *id,
                        enum accusation_kind kind);
void entry_record(struct entry *entry, const struct record *record, const void *bytes,
                  size_t len);
/* What the facts and our timer say. */
enum member_state entry_state(const struct entry *entry);

/* A bucket that fills by one each `every_ms` up to `most`: is there one left? */
bool allowance_take(int64_t *filled_ms, int32_t *left, int64_t now_ms, int64_t every_ms,
                    int32_t most);

#endif
