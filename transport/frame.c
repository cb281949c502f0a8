#include "transport/frame.h"
#include "transport/base/limits.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <string.h>

/* The signature is the last field: two bytes of MessagePack before the 64. */
enum { FIELDS = 8, SIGNATURE_FIELD_BYTES = 2 + KEY_SIGNATURE_BYTES };

struct kind {
    enum frame_kind kind;
    const char *name;
    size_t bytes_max;
};

static const struct kind *
kind_find(enum frame_kind kind)
{
    static const struct kind kinds[] = {
#define FRAME_ROW(name, number, bytes_max) {name, #name, bytes_max},
        FRAME_KINDS(FRAME_ROW)
#undef FRAME_ROW
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].kind == kind)
            return &kinds[i];
    return NULL;
}

const char *
frame_kind_name(enum frame_kind kind)
{
    const struct kind *known = kind_find(kind);
    return known ? known->name : "FRAME_?";
}

size_t
frame_kind_bytes_max(enum frame_kind kind)
{
    const struct kind *known = kind_find(kind);
    return known ? known->bytes_max : 0;
}

/* All fields but the last. */
static void
pack_fields(const struct id *from, const struct id *swarm, enum frame_kind kind,
            const struct id *to, uint64_t sequence, const void *body, size_t body_len,
            struct buf *out)
{
    must(frame_kind_bytes_max(kind) > 0 && body_len <= frame_kind_bytes_max(kind));
    writer_array(out, FIELDS);
    writer_uint(out, FRAME_VERSION);
    writer_id(out, swarm);
    writer_uint(out, kind);
    writer_id(out, from);
    writer_id(out, to);
    writer_uint(out, sequence);
    writer_bytes(out, body, body_len);
}

void
frame_pack(const struct key *key, const struct id *swarm, enum frame_kind kind,
           const struct id *to, uint64_t sequence, const void *body, size_t body_len,
           struct buf *out)
{
    size_t start = out->len;
    uint8_t signature[KEY_SIGNATURE_BYTES];
    pack_fields(key_id(key), swarm, kind, to, sequence, body, body_len, out);
    key_sign(key, out->data + start, out->len - start, signature);
    writer_bytes(out, signature, sizeof(signature));
}

void
frame_pack_plain(const struct id *from, const struct id *swarm, enum frame_kind kind,
                 const struct id *to, uint64_t sequence, const void *body,
                 size_t body_len, struct buf *out)
{
    pack_fields(from, swarm, kind, to, sequence, body, body_len, out);
    writer_bytes(out, "", 0);
}

int
frame_unpack(const void *bytes, size_t len, struct frame *out, struct err *err)
{
    struct frame frame = {0};
    size_t signature_len;
    struct reader *r = reader_open(bytes, len, err);
    if (!r)
        return err_wrap(err, "frame");
    reader_enter(r, FIELDS, FIELDS);
    uint64_t version = reader_uint(r, UINT64_MAX);
    if (reader_ok(r) && version != FRAME_VERSION)
        reader_fail(r, "version %llu, this node speaks version %d",
                    (unsigned long long)version, FRAME_VERSION);
    reader_id(r, &frame.swarm);
    uint64_t kind = reader_uint(r, UINT16_MAX);
    frame.kind = (enum frame_kind)kind;
    size_t body_max = frame_kind_bytes_max(frame.kind);
    if (reader_ok(r) && body_max == 0)
        reader_fail(r, "kind %llu is not known", (unsigned long long)kind);
    reader_id(r, &frame.from);
    reader_id(r, &frame.to);
    frame.sequence = reader_uint(r, UINT64_MAX);
    frame.body = reader_bytes(r, body_max, &frame.body_len);
    const uint8_t *signature = reader_bytes(r, KEY_SIGNATURE_BYTES, &signature_len);
    if (reader_ok(r) && signature_len != 0 && signature_len != KEY_SIGNATURE_BYTES)
        reader_fail(r, "a signature of %zu bytes, it has %d or none", signature_len,
                    KEY_SIGNATURE_BYTES);
    reader_leave(r);
    if (reader_close(&r, err))
        return err_wrap(err, "frame");
    frame.proven = signature_len != 0;
    if (frame.proven &&
        !key_verify(&frame.from, bytes, len - SIGNATURE_FIELD_BYTES, signature)) {
        char from[ID_SHORT_SIZE];
        return err_set(err, ERR_AUTH, "frame %s: the signature is not that of node %s",
                       frame_kind_name(frame.kind), id_short(&frame.from, from));
    }
    *out = frame;
    return 0;
}
