/*
 * digest.h - anti-entropy: two nodes find out where their views differ, for next to
 * nothing when they do not.
 *
 *     A  hashes of one bucket: all members      -> B   the same: silence
 *     A  <- hashes of many buckets, by prefix      B   (small views: the list at once)
 *     A  lists of the buckets that differ       -> B
 *     A  <- rumors: what is newer here, asks for what is newer there
 *
 *     DIGEST: [salt, bits, lists, [word ...], [[prefix, incarnation, version, state] ...]]
 *
 * There are 2^bits buckets, by the first bits of the prefix. Without lists the words are
 * the hashes of all buckets in order; with, they are the numbers of the buckets whose
 * members follow, ascending. A hash covers those who are alive or suspect, so that who is
 * dead here and forgotten there makes no difference. Each exchange has a salt, so that
 * what hashes alike by chance does so once.
 */
#ifndef GOSSIP_DIGEST_H
#define GOSSIP_DIGEST_H

#include "gossip/member.h"

enum {
    DIGEST_BITS_MAX = 10,
    DIGEST_BUCKET = 16,        /* members of a bucket, about */
    DIGEST_SMALL = 16,         /* a view of so many is listed without asking */
    DIGEST_LISTED = 64,        /* a view of so many is listed instead of hashed again */
    DIGEST_ENTRIES_MAX = 2048, /* members in one list */
    DIGEST_WORDS_MAX = 1 << DIGEST_BITS_MAX
};

struct digest_entry {
    uint64_t prefix; /* id_prefix() */
    uint64_t incarnation;
    uint64_t version;
    enum member_state state;
};

struct digest {
    uint64_t salt;
    unsigned bits;
    bool lists;
    uint64_t *words; /* owned */
    size_t words_count;
    struct digest_entry *entries; /* owned, ascending prefix */
    size_t count;
};

/* A zeroed digest is an empty one. */
void digest_release(struct digest *digest);
void digest_encode(const struct digest *digest, struct buf *out);
/* ERR_WIRE. */
int digest_decode(const void *bytes, size_t len, struct digest *out, struct err *err);

/* The hashes of this view. */
void digest_hash(const struct table *table, uint64_t salt, unsigned bits,
                 struct digest *out);
/* How finely a view is hashed when the whole differs; 0: it is listed. */
unsigned digest_bits(size_t members);
/* The lists of some buckets (ascending numbers): as many of them as fit. */
void digest_list(const struct table *table, uint64_t salt, unsigned bits,
                 const uint64_t *buckets, size_t count, struct digest *out);
/* What to answer to hashes; false: nothing, the views are the same. */
bool digest_answer(const struct table *table, const struct digest *theirs,
                   struct digest *out);

#endif
