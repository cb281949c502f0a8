#include "gossip/agree_state.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <string.h>

/*
 * The blob: magic (8), BLAKE2b-256 of all that follows (32), then sections, each a length
 * (8 bytes, little-endian) and that many bytes: the numbers; one link per epoch kept; the
 * newest decree; what was accepted (empty: nothing); the link of the recovery that began
 * the generation (empty: generation 0). Sections and not one message, since two decrees
 * of the largest size are more than one message may hold.
 */
static const char magic[8] = {'f', 'l', 'a', 'g', 'r', 'e', 'e', '2'};
enum { BLOB_HEAD = 8 + ID_BYTES, STATE_FIELDS = 7 };

/* ---- saving ---- */

static void
section_add(struct buf *blob, const void *bytes, size_t len)
{
    uint8_t head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)((uint64_t)len >> (8 * i));
    buf_add(blob, head, sizeof(head));
    buf_add(blob, bytes, len);
}

static void
decree_section(struct buf *blob, const struct decree *decree, bool there)
{
    struct buf part = {0};
    if (there)
        decree_encode(decree, &part);
    section_add(blob, part.data, part.len);
    buf_release(&part);
}

void
agree_persist(const struct agree *agree, struct effects *effects)
{
    must(agree->founded);
    struct buf blob = {0}, part = {0};
    buf_add(&blob, magic, sizeof(magic));
    buf_add(&blob, (struct id){0}.bytes, ID_BYTES); /* the hash's place */
    writer_array(&part, STATE_FIELDS);
    writer_id(&part, &agree->self);
    writer_id(&part, &agree->swarm);
    writer_uint(&part, agree->promised);
    writer_id(&part, &agree->voted);
    writer_uint(&part, agree->amnesia);
    writer_uint(&part, agree->accepted_term);
    writer_uint(&part, agree->chain.count);
    section_add(&blob, part.data, part.len);
    buf_release(&part);
    for (size_t i = 0; i < agree->chain.count; i++)
        section_add(&blob, agree->chain.links[i].bytes, agree->chain.links[i].len);
    decree_section(&blob, &agree->decree, true);
    decree_section(&blob, &agree->accepted, agree->accepted_term > 0);
    section_add(&blob, agree->root.bytes, agree->root.len);
    struct id hash;
    key_hash(blob.data + BLOB_HEAD, blob.len - BLOB_HEAD, &hash);
    memcpy(blob.data + sizeof(magic), hash.bytes, ID_BYTES);
    effects_add(effects, EFFECT_PERSIST, blob.data, blob.len);
    buf_release(&blob);
}

/* ---- loading ---- */

struct blob {
    const uint8_t *at;
    size_t left;
};

static int
section_take(struct blob *blob, const uint8_t **bytes, size_t *len, struct err *err)
{
    uint64_t want = 0;
    *bytes = NULL;
    *len = 0;
    for (int i = 0; i < 8 && blob->left >= 8; i++)
        want |= (uint64_t)blob->at[i] << (8 * i);
    if (blob->left < 8 || want > blob->left - 8)
        return err_set(err, ERR_CORRUPT, "it ends too early");
    *bytes = blob->at + 8;
    *len = (size_t)want;
    blob->at += 8 + want;
    blob->left -= 8 + (size_t)want;
    return 0;
}

static int
numbers_load(struct agree *agree, struct blob *blob, uint64_t *links, struct err *err)
{
    const uint8_t *bytes;
    size_t len;
    if (section_take(blob, &bytes, &len, err))
        return -1;
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    struct id self;
    reader_enter(reader, STATE_FIELDS, STATE_FIELDS);
    reader_id(reader, &self);
    reader_id(reader, &agree->swarm);
    agree->promised = reader_uint(reader, INT64_MAX);
    reader_id(reader, &agree->voted);
    agree->amnesia = reader_uint(reader, UINT64_MAX);
    agree->accepted_term = reader_uint(reader, INT64_MAX);
    *links = reader_uint(reader, AGREE_LINKS_MAX);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (!id_equal(&self, &agree->self))
        return err_set(err, ERR_CORRUPT, "it belongs to a node with another key");
    return 0;
}

/* Links in order, each the previous one's follower; the last is the decree's. */
static int
links_load(struct agree *agree, struct blob *blob, uint64_t count, struct id *last,
           struct err *err)
{
    uint64_t epoch = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *bytes;
        size_t len;
        struct decree header;
        struct id hash;
        if (section_take(blob, &bytes, &len, err) ||
            link_decode(bytes, len, &header, &hash, &agree->certificate, err))
            return -1;
        bool follows =
            i == 0 || (header.epoch == epoch + 1 && id_equal(&header.previous, last));
        epoch = header.epoch;
        *last = hash;
        decree_release(&header);
        if (!follows || agree->chain.bytes + len > AGREE_LINKS_BYTES_MAX)
            return err_set(err, ERR_CORRUPT, "its chain of decrees is broken");
        chain_push(&agree->chain, epoch, bytes, len);
    }
    return 0;
}

static int
accepted_load(struct agree *agree, const uint8_t *bytes, size_t len, struct err *err)
{
    if ((len > 0) != (agree->accepted_term > 0))
        return err_set(err, ERR_CORRUPT, "its parts do not fit each other");
    if (len == 0)
        return 0;
    if (decree_decode(bytes, len, &agree->accepted, err)) {
        agree->accepted_term = 0;
        return -1;
    }
    decree_hash(&agree->accepted, &agree->accepted_hash);
    if (agree->accepted.epoch != agree->decree.epoch + 1)
        return err_set(err, ERR_CORRUPT, "it accepted a decree of another epoch");
    return 0;
}

/* The signature was verified when it came, by a key that may have been replaced since. */
static int
root_load(struct agree *agree, const uint8_t *bytes, size_t len, struct err *err)
{
    struct decree root;
    struct id hash;
    struct certificate certificate;
    uint32_t generation = agree->decree.generation;
    if (len == 0 && generation == 0)
        return 0;
    if (len == 0 || len > AGREE_ROOT_BYTES_MAX)
        return err_set(err, ERR_CORRUPT, "it lacks the recovery to its generation %u",
                       generation);
    if (link_decode(bytes, len, &root, &hash, &certificate, err))
        return -1;
    bool fits = root.cause == CAUSE_RECOVERY && root.generation == generation &&
                root.epoch <= agree->decree.epoch &&
                id_equal(&root.swarm, &agree->decree.swarm) &&
                (root.epoch < agree->decree.epoch || id_equal(&hash, &agree->hash));
    decree_release(&root);
    if (!fits)
        return err_set(err, ERR_CORRUPT, "it has the recovery to another generation");
    root_set(&agree->root, &hash, bytes, len);
    return 0;
}

static int
decrees_load(struct agree *agree, struct blob *blob, const struct id *last,
             struct err *err)
{
    const uint8_t *bytes;
    size_t len;
    if (section_take(blob, &bytes, &len, err) ||
        decree_decode(bytes, len, &agree->decree, err))
        return -1;
    agree->founded = true;
    decree_hash(&agree->decree, &agree->hash);
    if (!id_equal(&agree->hash, last))
        return err_set(err, ERR_CORRUPT, "its newest decree has no certificate");
    if (section_take(blob, &bytes, &len, err) || accepted_load(agree, bytes, len, err) ||
        section_take(blob, &bytes, &len, err) || root_load(agree, bytes, len, err))
        return -1;
    if (blob->left > 0)
        return err_set(err, ERR_CORRUPT, "its parts do not fit each other");
    return 0;
}

static int
sections_load(struct agree *agree, struct blob *blob, struct err *err)
{
    uint64_t links;
    struct id last = {0};
    if (numbers_load(agree, blob, &links, err) ||
        links_load(agree, blob, links, &last, err))
        return -1;
    return decrees_load(agree, blob, &last, err);
}

int
agree_load(struct agree *agree, const void *saved, size_t len, struct err *err)
{
    static const char what[] = "cannot use the saved state of agreement";
    const uint8_t *bytes = saved;
    if (len < BLOB_HEAD || memcmp(bytes, magic, sizeof(magic)) != 0)
        return err_set(err, ERR_CORRUPT, "%s: it is of another version or cut short",
                       what);
    struct id hash;
    key_hash(bytes + BLOB_HEAD, len - BLOB_HEAD, &hash);
    if (memcmp(hash.bytes, bytes + sizeof(magic), ID_BYTES) != 0)
        return err_set(err, ERR_CORRUPT, "%s: its checksum is wrong", what);
    struct blob blob = {.at = bytes + BLOB_HEAD, .left = len - BLOB_HEAD};
    if (sections_load(agree, &blob, err)) {
        err->code = ERR_CORRUPT;
        return err_wrap(err, "%s", what);
    }
    return 0;
}
