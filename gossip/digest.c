#include "gossip/digest.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

void
digest_release(struct digest *digest)
{
    free(digest->words);
    free(digest->entries);
    *digest = (struct digest){0};
}

/* ---- what a view is ---- */

static bool
gone(enum member_state state)
{
    return state == MEMBER_DEAD || state == MEMBER_LEFT;
}

static size_t
bucket_of(uint64_t prefix, unsigned bits)
{
    return bits == 0 ? 0 : (size_t)(prefix >> (64 - bits));
}

static struct digest_entry
entry_of(const struct entry *entry)
{
    const struct record *record = entry->member.record;
    return (struct digest_entry){.prefix = id_prefix(&record->id),
                                 .incarnation = record->incarnation,
                                 .version = record->version,
                                 .state = entry->member.state};
}

/* The sum over its members; of each, all that may differ. */
void
digest_hash(const struct table *table, uint64_t salt, unsigned bits, struct digest *out)
{
    must(bits <= DIGEST_BITS_MAX);
    *out = (struct digest){.salt = salt, .bits = bits};
    out->words_count = (size_t)1 << bits;
    out->words = xcalloc(out->words_count, sizeof(*out->words));
    for (size_t i = 0; i < table->count; i++) {
        struct digest_entry it = entry_of(table->list[i]);
        if (gone(it.state))
            continue;
        uint64_t hash = rng_mix(rng_mix(salt, it.prefix), it.incarnation);
        hash = rng_mix(rng_mix(hash, it.version), (uint64_t)it.state);
        out->words[bucket_of(it.prefix, bits)] += hash;
    }
}

unsigned
digest_bits(size_t members)
{
    unsigned bits = 0;
    if (members <= DIGEST_LISTED)
        return 0;
    while (bits < DIGEST_BITS_MAX && members >> bits > DIGEST_BUCKET)
        bits++;
    return bits;
}

/* The first member of a bucket, or where it would be. */
static size_t
begin_of(const struct table *table, uint64_t bucket, unsigned bits)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        uint64_t prefix = id_prefix(&table->list[middle]->member.record->id);
        if (bucket_of(prefix, bits) < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
digest_list(const struct table *table, uint64_t salt, unsigned bits,
            const uint64_t *buckets, size_t count, struct digest *out)
{
    *out = (struct digest){.salt = salt, .bits = bits, .lists = true};
    out->words = xcalloc(count, sizeof(*out->words));
    out->entries = xcalloc(DIGEST_ENTRIES_MAX, sizeof(*out->entries));
    for (size_t b = 0; b < count; b++) {
        size_t before = out->count;
        uint64_t last = 0;
        bool fits = true;
        for (size_t i = begin_of(table, buckets[b], bits); i < table->count && fits;
             i++) {
            struct digest_entry it = entry_of(table->list[i]);
            if (bucket_of(it.prefix, bits) != buckets[b])
                break;
            if (out->count > before && it.prefix == last)
                continue; /* whoever made an id to match another's half is not compared */
            fits = out->count < DIGEST_ENTRIES_MAX;
            if (fits)
                out->entries[out->count++] = it;
            last = it.prefix;
        }
        /* What does not fit comes with another exchange; one bucket alone is cut off. */
        if (!fits && b > 0) {
            out->count = before;
            return;
        }
        out->words[out->words_count++] = buckets[b];
    }
}

bool
digest_answer(const struct table *table, const struct digest *theirs, struct digest *out)
{
    struct digest ours;
    uint64_t buckets[DIGEST_WORDS_MAX];
    size_t count = 0;
    digest_hash(table, theirs->salt, theirs->bits, &ours);
    must(ours.words_count == theirs->words_count);
    for (size_t i = 0; i < ours.words_count; i++)
        if (ours.words[i] != theirs->words[i])
            buckets[count++] = i;
    digest_release(&ours);
    if (count == 0)
        return false;
    unsigned bits = digest_bits(table->count);
    if (theirs->bits == 0 && bits > 0)
        digest_hash(table, theirs->salt, bits, out);
    else
        digest_list(table, theirs->salt, theirs->bits, buckets, count, out);
    return true;
}

/* ---- on the wire ---- */

void
digest_encode(const struct digest *digest, struct buf *out)
{
    writer_array(out, 5);
    writer_uint(out, digest->salt);
    writer_uint(out, digest->bits);
    writer_bool(out, digest->lists);
    writer_array(out, digest->words_count);
    for (size_t i = 0; i < digest->words_count; i++)
        writer_uint(out, digest->words[i]);
    writer_array(out, digest->count);
    for (size_t i = 0; i < digest->count; i++) {
        const struct digest_entry *entry = &digest->entries[i];
        must(i == 0 || entry[-1].prefix < entry->prefix);
        writer_array(out, 4);
        writer_uint(out, entry->prefix);
        writer_uint(out, entry->incarnation);
        writer_uint(out, entry->version);
        writer_uint(out, entry->state);
    }
}

static void
words_decode(struct reader *reader, struct digest *out)
{
    size_t buckets = (size_t)1 << out->bits;
    size_t least = out->lists ? 1 : buckets;
    out->words_count = reader_enter(reader, least, buckets);
    out->words = xcalloc(out->words_count, sizeof(*out->words));
    for (size_t i = 0; i < out->words_count; i++) {
        uint64_t *word = &out->words[i];
        *word = reader_uint(reader, out->lists ? buckets - 1 : UINT64_MAX);
        if (out->lists && i > 0 && reader_ok(reader) && word[-1] >= *word)
            reader_fail(reader, "buckets of a digest are not in ascending order");
    }
    reader_leave(reader);
}

static void
entries_decode(struct reader *reader, struct digest *out)
{
    out->count = reader_enter(reader, 0, out->lists ? DIGEST_ENTRIES_MAX : 0);
    out->entries = xcalloc(out->count, sizeof(*out->entries));
    for (size_t i = 0, at = 0; i < out->count && reader_ok(reader); i++) {
        struct digest_entry *entry = &out->entries[i];
        reader_enter(reader, 4, 4);
        entry->prefix = reader_uint(reader, UINT64_MAX);
        entry->incarnation = reader_uint(reader, UINT64_MAX);
        entry->version = reader_uint(reader, UINT64_MAX);
        entry->state = (enum member_state)reader_uint(reader, MEMBER_LEFT);
        reader_leave(reader);
        if (!reader_ok(reader))
            break;
        if (i > 0 && entry[-1].prefix >= entry->prefix)
            reader_fail(reader, "digest is not in ascending order");
        while (at < out->words_count &&
               out->words[at] < bucket_of(entry->prefix, out->bits))
            at++;
        if (at == out->words_count ||
            out->words[at] != bucket_of(entry->prefix, out->bits))
            reader_fail(reader, "digest lists a member of another bucket");
    }
    reader_leave(reader);
}

int
digest_decode(const void *bytes, size_t len, struct digest *out, struct err *err)
{
    struct digest digest = {0};
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 5, 5);
    digest.salt = reader_uint(reader, UINT64_MAX);
    digest.bits = (unsigned)reader_uint(reader, DIGEST_BITS_MAX);
    digest.lists = reader_bool(reader);
    words_decode(reader, &digest);
    entries_decode(reader, &digest);
    reader_leave(reader);
    if (reader_close(&reader, err)) {
        digest_release(&digest);
        return -1;
    }
    *out = digest;
    return 0;
}
