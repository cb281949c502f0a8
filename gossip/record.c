#include "gossip/record.h"
#include "gossip/logarithm.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <stddef.h>
#include <string.h>

/* What the signature covers starts with this, so that it is good for nothing else. */
static const char purpose[4] = {'r', 'e', 'c', '1'};

enum {
    RECORD_FIELDS = 16,
    LINK_FIELDS = 7 + LINK_CURVE_POINTS,
    RECORD_THREADS_MAX = 1 << 16
};

/* ---- rates ---- */

uint16_t
rate_encode(int64_t bytes_per_s)
{
    if (bytes_per_s <= 0)
        return 0;
    /* A kbit/s is 125 bytes a second; a step is a sixteenth of a doubling. */
    int32_t kbit = logarithm_of((uint64_t)bytes_per_s) - logarithm_of(125);
    int32_t code = (kbit + LOGARITHM_ONE / 32) >> 12;
    return (uint16_t)(code < 1 ? 1 : code);
}

int64_t
rate_decode(uint16_t code)
{
    return code == 0 ? 0 : logarithm_power(((int64_t)code << 12) + logarithm_of(125));
}

/* ---- signing ---- */

static void
body_encode(const struct record *record, struct buf *out)
{
    must(record->links_count <= RECORD_LINKS_MAX);
    writer_array(out, RECORD_FIELDS);
    writer_id(out, &record->id);
    writer_uint(out, record->incarnation);
    writer_uint(out, record->version);
    writer_bool(out, record->leaving);
    writer_text(out, record->name);
    writer_text(out, record->zone);
    writer_text(out, record->address);
    writer_text(out, record->device);
    writer_uint(out, record->threads);
    writer_uint(out, record->memory_bytes);
    writer_uint(out, record->epoch);
    writer_uint(out, record->job);
    writer_uint(out, record->reach);
    writer_uint(out, record->twin);
    writer_bytes(out, record->admission, KEY_SIGNATURE_BYTES);
    writer_array(out, record->links_count);
    for (uint32_t i = 0; i < record->links_count; i++) {
        const struct record_link *link = &record->links[i];
        must(i == 0 || id_compare(&link[-1].peer, &link->peer) < 0);
        writer_array(out, LINK_FIELDS);
        writer_id(out, &link->peer);
        writer_uint(out, link->rate);
        writer_uint(out, link->low);
        writer_uint(out, link->round_trip_us);
        writer_uint(out, link->confidence);
        writer_uint(out, link->method);
        writer_uint(out, link->age_s);
        for (int k = 0; k < LINK_CURVE_POINTS; k++)
            writer_uint(out, link->curve[k]);
    }
}

/* What is signed: purpose, swarm, body. */
static void
signed_bytes(const struct id *swarm, const void *body, size_t len, struct buf *out)
{
    buf_add(out, purpose, sizeof(purpose));
    buf_add(out, swarm->bytes, ID_BYTES);
    buf_add(out, body, len);
}

void
record_sign(const struct record *record, const struct key *key, const struct id *swarm,
            struct buf *out)
{
    must(id_equal(&record->id, key_id(key)));
    struct buf body = {0}, covered = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    size_t before = out->len;
    body_encode(record, &body);
    signed_bytes(swarm, body.data, body.len, &covered);
    key_sign(key, covered.data, covered.len, signature);
    writer_array(out, 2);
    writer_bytes(out, body.data, body.len);
    writer_bytes(out, signature, sizeof(signature));
    must(out->len - before <= RECORD_BYTES_MAX);
    buf_release(&covered);
    buf_release(&body);
}

/* ---- opening ---- */

static void
links_decode(struct reader *reader, struct record *out)
{
    out->links_count = (uint32_t)reader_enter(reader, 0, RECORD_LINKS_MAX);
    for (uint32_t i = 0; i < out->links_count; i++) {
        struct record_link *link = &out->links[i];
        reader_enter(reader, LINK_FIELDS, LINK_FIELDS);
        reader_id(reader, &link->peer);
        link->rate = (uint16_t)reader_uint(reader, UINT16_MAX);
        link->low = (uint16_t)reader_uint(reader, UINT16_MAX);
        link->round_trip_us = (uint32_t)reader_uint(reader, UINT32_MAX);
        link->confidence = (uint8_t)reader_uint(reader, 100);
        link->method = (enum link_method)reader_uint(reader, LINK_PROBE);
        link->age_s = (uint32_t)reader_uint(reader, UINT32_MAX);
        for (int k = 0; k < LINK_CURVE_POINTS; k++)
            link->curve[k] = (uint16_t)reader_uint(reader, UINT16_MAX);
        reader_leave(reader);
        if (i > 0 && reader_ok(reader) && id_compare(&link[-1].peer, &link->peer) >= 0)
            reader_fail(reader, "links of a record are not in ascending order");
    }
    reader_leave(reader);
}

static int
body_decode(const uint8_t *bytes, size_t len, struct record *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    reader_enter(reader, RECORD_FIELDS, RECORD_FIELDS);
    reader_id(reader, &out->id);
    out->incarnation = reader_uint(reader, UINT64_MAX);
    out->version = reader_uint(reader, UINT64_MAX);
    out->leaving = reader_bool(reader);
    reader_text(reader, out->name, sizeof(out->name));
    reader_text(reader, out->zone, sizeof(out->zone));
    reader_text(reader, out->address, sizeof(out->address));
    reader_text(reader, out->device, sizeof(out->device));
    out->threads = (uint32_t)reader_uint(reader, RECORD_THREADS_MAX);
    out->memory_bytes = reader_uint(reader, INT64_MAX);
    out->epoch = reader_uint(reader, UINT64_MAX);
    out->job = reader_uint(reader, UINT64_MAX);
    out->reach = (enum record_reach)reader_uint(reader, REACH_NONE);
    out->twin = reader_uint(reader, UINT64_MAX);
    reader_fixed(reader, out->admission, KEY_SIGNATURE_BYTES);
    links_decode(reader, out);
    reader_leave(reader);
    if (reader_ok(reader) && id_empty(&out->id))
        reader_fail(reader, "record without an id");
    return reader_close(&reader, err);
}

/* The two halves of a signed record; the body points into `bytes`. */
static int
halves(const void *bytes, size_t len, const uint8_t **body, size_t *body_len,
       uint8_t signature[KEY_SIGNATURE_BYTES], struct err *err)
{
    if (len > RECORD_BYTES_MAX)
        return err_set(err, ERR_WIRE, "record of %zu bytes, the limit is %d", len,
                       RECORD_BYTES_MAX);
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 2, 2);
    *body = reader_bytes(reader, RECORD_BYTES_MAX, body_len);
    reader_fixed(reader, signature, KEY_SIGNATURE_BYTES);
    reader_leave(reader);
    return reader_close(&reader, err);
}

bool
record_hint(const void *bytes, size_t len, struct id *id)
{
    /* An array of two; the body, bytes with a length of one or two; an array of
     * RECORD_FIELDS; bytes, as many as an id has. */
    static const uint8_t fields[] = {0xdc, 0, RECORD_FIELDS, 0xc4, ID_BYTES};
    const uint8_t *at = bytes;
    if (len < 4 || at[0] != 0x92 || (at[1] != 0xc4 && at[1] != 0xc5))
        return false;
    size_t start = at[1] == 0xc4 ? 3 : 4;
    if (len < start + sizeof(fields) + ID_BYTES ||
        memcmp(at + start, fields, sizeof(fields)) != 0)
        return false;
    memcpy(id->bytes, at + start + sizeof(fields), ID_BYTES);
    return true;
}

int
record_peek(const void *bytes, size_t len, struct record *out, struct err *err)
{
    const uint8_t *body = NULL;
    size_t body_len = 0;
    uint8_t signature[KEY_SIGNATURE_BYTES];
    struct record record = {0};
    if (halves(bytes, len, &body, &body_len, signature, err) ||
        body_decode(body, body_len, &record, err))
        return -1;
    *out = record;
    return 0;
}

int
record_verify(const struct record *record, const void *bytes, size_t len,
              const struct id *swarm, const struct id *admit_id, struct err *err)
{
    char name[ID_SHORT_SIZE];
    const uint8_t *body = NULL;
    size_t body_len = 0;
    uint8_t signature[KEY_SIGNATURE_BYTES];
    if (halves(bytes, len, &body, &body_len, signature, err))
        return -1;
    if (admit_id && !secret_admitted(admit_id, swarm, &record->id, record->admission))
        return err_set(err, ERR_AUTH,
                       "record of node %s is not admitted to this swarm; its secret is "
                       "another one",
                       id_short(&record->id, name));
    struct buf covered = {0};
    signed_bytes(swarm, body, body_len, &covered);
    bool good = key_verify(&record->id, covered.data, covered.len, signature);
    buf_release(&covered);
    if (!good)
        return err_set(err, ERR_AUTH, "record of node %s is not signed by it",
                       id_short(&record->id, name));
    return 0;
}

int
record_open(const void *bytes, size_t len, const struct id *swarm,
            const struct id *admit_id, struct record *out, struct err *err)
{
    struct record record;
    if (record_peek(bytes, len, &record, err) ||
        record_verify(&record, bytes, len, swarm, admit_id, err))
        return -1;
    *out = record;
    return 0;
}

/* Without the links that there is room for beyond those it has. */
static size_t
compact_bytes(const struct record *record)
{
    must(record->links_count <= RECORD_LINKS_MAX);
    return offsetof(struct record, links) + record->links_count * sizeof(*record->links);
}

struct record *
record_dup(const struct record *record)
{
    return xmemdup(record, compact_bytes(record));
}

void
record_copy(struct record *to, const struct record *from)
{
    memset(to, 0, sizeof(*to));
    memcpy(to, from, compact_bytes(from));
}

bool
record_same(const struct record *left, const struct record *right, bool links)
{
    struct record pair[2];
    struct buf bytes[2] = {{0}, {0}};
    record_copy(&pair[0], left);
    record_copy(&pair[1], right);
    for (int i = 0; i < 2; i++) {
        pair[i].incarnation = pair[i].version = 0;
        if (!links)
            pair[i].links_count = 0;
        body_encode(&pair[i], &bytes[i]);
    }
    bool same = bytes[0].len == bytes[1].len &&
                memcmp(bytes[0].data, bytes[1].data, bytes[0].len) == 0;
    buf_release(&bytes[0]);
    buf_release(&bytes[1]);
    return same;
}

int
record_compare(const struct record *left, const struct record *right)
{
    if (left->incarnation != right->incarnation)
        return left->incarnation > right->incarnation ? 1 : -1;
    if (left->version != right->version)
        return left->version > right->version ? 1 : -1;
    return 0;
}
