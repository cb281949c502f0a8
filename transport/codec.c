#include "transport/codec.h"
#include "transport/base/alloc.h"
#include "transport/base/limits.h"
#include "transport/base/must.h"

/* The library's inline code is not written for -Wconversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <msgpack.h>
#pragma GCC diagnostic pop

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static int
append(void *out, const char *data, size_t len)
{
    buf_add(out, data, len);
    return 0;
}

static msgpack_packer
packer(struct buf *out)
{
    return (msgpack_packer){.data = out, .callback = append};
}

void
writer_array(struct buf *out, size_t count)
{
    must(count <= CODEC_COUNT_MAX);
    msgpack_packer to = packer(out);
    msgpack_pack_array(&to, count);
}

void
writer_uint(struct buf *out, uint64_t value)
{
    msgpack_packer to = packer(out);
    msgpack_pack_uint64(&to, value);
}

void
writer_int(struct buf *out, int64_t value)
{
    msgpack_packer to = packer(out);
    msgpack_pack_int64(&to, value);
}

void
writer_bool(struct buf *out, bool value)
{
    msgpack_packer to = packer(out);
    if (value)
        msgpack_pack_true(&to);
    else
        msgpack_pack_false(&to);
}

void
writer_bytes(struct buf *out, const void *data, size_t len)
{
    must(len <= UINT32_MAX);
    msgpack_packer to = packer(out);
    msgpack_pack_bin(&to, len);
    buf_add(out, data, len);
}

/* What no text may have, on either side. */
static bool
control(uint8_t c)
{
    return c < 0x20 || c == 0x7f;
}

void
writer_text(struct buf *out, const char *text)
{
    size_t len = strlen(text);
    must(len <= UINT32_MAX);
    msgpack_packer to = packer(out);
    msgpack_pack_str(&to, len);
    buf_add(out, text, len);
    for (uint8_t *at = out->data + out->len - len; at < out->data + out->len; at++)
        if (control(*at))
            *at = '?';
}

void
writer_id(struct buf *out, const struct id *id)
{
    writer_bytes(out, id->bytes, ID_BYTES);
}

/* ---- the scan ---- */

struct scan {
    const uint8_t *at;
    const uint8_t *end;
    size_t items;                 /* values seen */
    size_t left[CODEC_DEPTH_MAX]; /* elements to come, per open array */
    int depth;
};

/* The header's big-endian number of `width` bytes; false when the message ends before
 * it. */
static bool
scan_number(struct scan *scan, size_t width, uint64_t *value)
{
    if ((size_t)(scan->end - scan->at) < width)
        return false;
    *value = 0;
    for (size_t i = 0; i < width; i++)
        *value = *value << 8 | *scan->at++;
    return true;
}

static int
scan_end(struct err *err)
{
    return err_set(err, ERR_WIRE, "message ends in the middle of a value");
}

static int
scan_longer(struct err *err, const char *what)
{
    return err_set(err, ERR_WIRE, "%s is not in its shortest form", what);
}

static int
scan_array(struct scan *scan, uint64_t count, struct err *err)
{
    if (scan->depth == CODEC_DEPTH_MAX)
        return err_set(err, ERR_WIRE, "arrays are nested deeper than %d",
                       CODEC_DEPTH_MAX);
    if (count > CODEC_COUNT_MAX)
        return err_set(err, ERR_WIRE, "array of %llu elements, the limit is %d",
                       (unsigned long long)count, CODEC_COUNT_MAX);
    if (count > (uint64_t)(scan->end - scan->at))
        return scan_end(err);
    scan->left[scan->depth++] = (size_t)count;
    return 0;
}

static int
scan_skip(struct scan *scan, uint64_t bytes, struct err *err)
{
    if (bytes > (uint64_t)(scan->end - scan->at))
        return scan_end(err);
    scan->at += bytes;
    return 0;
}

/* Unsigned of 1, 2, 4, 8 bytes: first tags 0xcc..0xcf; each must need its width. */
static int
scan_unsigned(struct scan *scan, unsigned log_width, struct err *err)
{
    static const uint64_t least[4] = {0x80, 0x100, 0x10000, 0x100000000};
    uint64_t value;
    if (!scan_number(scan, (size_t)1 << log_width, &value))
        return scan_end(err);
    return value < least[log_width] ? scan_longer(err, "integer") : 0;
}

/* Signed of 1, 2, 4, 8 bytes: tags 0xd0..0xd3; canonical for negative numbers alone. */
static int
scan_signed(struct scan *scan, unsigned log_width, struct err *err)
{
    static const int64_t most[4] = {-33, INT8_MIN - 1, INT16_MIN - 1,
                                    (int64_t)INT32_MIN - 1};
    uint64_t raw;
    if (!scan_number(scan, (size_t)1 << log_width, &raw))
        return scan_end(err);
    int64_t value = log_width == 0   ? (int8_t)raw
                    : log_width == 1 ? (int16_t)raw
                    : log_width == 2 ? (int32_t)raw
                                     : (int64_t)raw;
    return value > most[log_width] ? scan_longer(err, "integer") : 0;
}

/* The length of bytes, a text or an array, of 1, 2 or 4 bytes. It must need its width:
 * the next shorter form holds up to `below`. */
static int
scan_length(struct scan *scan, size_t width, int64_t below, const char *what,
            uint64_t *value, struct err *err)
{
    if (!scan_number(scan, width, value))
        return scan_end(err);
    return (int64_t)*value <= below ? scan_longer(err, what) : 0;
}

static int
scan_bytes(struct scan *scan, unsigned log_width, struct err *err)
{
    static const int64_t below[3] = {-1, UINT8_MAX, UINT16_MAX};
    uint64_t bytes;
    if (scan_length(scan, (size_t)1 << log_width, below[log_width], "byte string", &bytes,
                    err))
        return -1;
    return scan_skip(scan, bytes, err);
}

static int
scan_text(struct scan *scan, unsigned log_width, struct err *err)
{
    static const int64_t below[3] = {31, UINT8_MAX, UINT16_MAX};
    uint64_t bytes;
    if (scan_length(scan, (size_t)1 << log_width, below[log_width], "text", &bytes, err))
        return -1;
    return scan_skip(scan, bytes, err);
}

static int
scan_long_array(struct scan *scan, unsigned wide, struct err *err)
{
    uint64_t count;
    if (scan_length(scan, wide ? 4 : 2, wide ? UINT16_MAX : 15, "array", &count, err))
        return -1;
    return scan_array(scan, count, err);
}

/* One value's header, and its contents unless it is an array. */
static int
scan_value(struct scan *scan, struct err *err)
{
    uint8_t tag = *scan->at++;
    if (++scan->items > CODEC_ITEMS_MAX)
        return err_set(err, ERR_WIRE, "message of more than %d values", CODEC_ITEMS_MAX);
    if (tag <= 0x7f || tag >= 0xe0 || tag == 0xc2 || tag == 0xc3)
        return 0;
    if ((tag & 0xf0) == 0x90)
        return scan_array(scan, tag & 15, err);
    if ((tag & 0xe0) == 0xa0)
        return scan_skip(scan, tag & 31, err);
    if (tag >= 0xcc && tag <= 0xcf)
        return scan_unsigned(scan, tag - 0xccu, err);
    if (tag >= 0xd0 && tag <= 0xd3)
        return scan_signed(scan, tag - 0xd0u, err);
    if (tag >= 0xc4 && tag <= 0xc6)
        return scan_bytes(scan, tag - 0xc4u, err);
    if (tag >= 0xd9 && tag <= 0xdb)
        return scan_text(scan, tag - 0xd9u, err);
    if (tag == 0xdc || tag == 0xdd)
        return scan_long_array(scan, tag - 0xdcu, err);
    return err_set(err, ERR_WIRE, "value of a kind that is not used (tag 0x%02x)", tag);
}

/* Exactly one value, within all limits; nothing is allocated. */
static int
scan_message(const uint8_t *bytes, size_t len, struct err *err)
{
    if (len == 0)
        return scan_end(err); /* an empty file has no bytes to point at */
    struct scan scan = {.at = bytes, .end = bytes + len};
    do {
        if (scan.at == scan.end)
            return scan_end(err);
        if (scan.depth > 0)
            scan.left[scan.depth - 1]--;
        if (scan_value(&scan, err))
            return -1;
        while (scan.depth > 0 && scan.left[scan.depth - 1] == 0)
            scan.depth--;
    } while (scan.depth > 0);
    if (scan.at != scan.end)
        return err_set(err, ERR_WIRE, "message goes on for %zu bytes after its end",
                       (size_t)(scan.end - scan.at));
    return 0;
}

/* ---- reading ---- */

struct level {
    const msgpack_object *list;
    size_t count;
    size_t next;
};

struct reader {
    msgpack_unpacked unpacked;
    struct level levels[CODEC_DEPTH_MAX + 1]; /* the first holds the message itself */
    int depth;
    bool failed;
    struct err err;
};

struct reader *
reader_open(const void *bytes, size_t len, struct err *err)
{
    if (len > FRAME_BYTES_MAX) {
        err_set(err, ERR_WIRE, "message of %zu bytes, the limit is %d", len,
                FRAME_BYTES_MAX);
        return NULL;
    }
    if (scan_message(bytes, len, err))
        return NULL;
    struct reader *reader = xcalloc(1, sizeof(*reader));
    msgpack_unpacked_init(&reader->unpacked);
    size_t offset = 0;
    if (msgpack_unpack_next(&reader->unpacked, bytes, len, &offset) !=
            MSGPACK_UNPACK_SUCCESS ||
        offset != len) {
        err_set(err, ERR_WIRE, "message is not MessagePack");
        msgpack_unpacked_destroy(&reader->unpacked);
        free(reader);
        return NULL;
    }
    reader->levels[0] = (struct level){.list = &reader->unpacked.data, .count = 1};
    return reader;
}

/* The next value if it has this type (or, for integers, the other one); NULL after an
 * error. */
static const msgpack_object *
take(struct reader *reader, msgpack_object_type type, const char *what)
{
    if (reader->failed)
        return NULL;
    struct level *level = &reader->levels[reader->depth];
    if (level->next == level->count) {
        reader_fail(reader, "%s expected, but there are only %zu values", what,
                    level->count);
        return NULL;
    }
    const msgpack_object *value = &level->list[level->next];
    bool fits = value->type == type || (type == MSGPACK_OBJECT_NEGATIVE_INTEGER &&
                                        value->type == MSGPACK_OBJECT_POSITIVE_INTEGER);
    if (!fits) {
        reader_fail(reader, "value %zu at depth %d is not %s", level->next + 1,
                    reader->depth, what);
        return NULL;
    }
    level->next++;
    return value;
}

size_t
reader_enter(struct reader *reader, size_t least, size_t most)
{
    const msgpack_object *value = take(reader, MSGPACK_OBJECT_ARRAY, "an array");
    if (!value)
        return 0;
    size_t count = value->via.array.size;
    if (count < least || count > most) {
        reader_fail(reader, "array of %zu elements, %zu to %zu expected", count, least,
                    most);
        return 0;
    }
    must(reader->depth < CODEC_DEPTH_MAX); /* the scan saw to it */
    reader->levels[++reader->depth] =
        (struct level){.list = value->via.array.ptr, .count = count};
    return count;
}

void
reader_leave(struct reader *reader)
{
    if (reader->failed)
        return;
    must(reader->depth > 0);
    struct level *level = &reader->levels[reader->depth];
    if (level->next < level->count)
        reader_fail(reader, "array has %zu elements more than are known",
                    level->count - level->next);
    else
        reader->depth--;
}

uint64_t
reader_uint(struct reader *reader, uint64_t most)
{
    const msgpack_object *value =
        take(reader, MSGPACK_OBJECT_POSITIVE_INTEGER, "an unsigned integer");
    if (!value)
        return 0;
    if (value->via.u64 > most) {
        reader_fail(reader, "integer %llu is above %llu",
                    (unsigned long long)value->via.u64, (unsigned long long)most);
        return 0;
    }
    return value->via.u64;
}

int64_t
reader_int(struct reader *reader, int64_t least, int64_t most)
{
    const msgpack_object *value =
        take(reader, MSGPACK_OBJECT_NEGATIVE_INTEGER, "an integer");
    if (!value)
        return 0;
    bool huge =
        value->type == MSGPACK_OBJECT_POSITIVE_INTEGER && value->via.u64 > INT64_MAX;
    if (huge || value->via.i64 < least || value->via.i64 > most) {
        reader_fail(reader, "integer is not within %lld to %lld", (long long)least,
                    (long long)most);
        return 0;
    }
    return value->via.i64;
}

bool
reader_bool(struct reader *reader)
{
    const msgpack_object *value = take(reader, MSGPACK_OBJECT_BOOLEAN, "true or false");
    return value && value->via.boolean;
}

const uint8_t *
reader_bytes(struct reader *reader, size_t most, size_t *len)
{
    static const uint8_t nothing[1];
    *len = 0;
    const msgpack_object *value = take(reader, MSGPACK_OBJECT_BIN, "a byte string");
    if (!value)
        return nothing;
    if (value->via.bin.size > most) {
        reader_fail(reader, "byte string of %u bytes, the limit is %zu",
                    value->via.bin.size, most);
        return nothing;
    }
    *len = value->via.bin.size;
    return *len > 0 ? (const uint8_t *)value->via.bin.ptr : nothing;
}

void
reader_fixed(struct reader *reader, void *out, size_t len)
{
    size_t got;
    const uint8_t *data = reader_bytes(reader, len, &got);
    if (!reader->failed && got != len)
        reader_fail(reader, "byte string of %zu bytes, %zu expected", got, len);
    if (reader->failed)
        memset(out, 0, len);
    else if (len > 0)
        memcpy(out, data, len);
}

void
reader_text(struct reader *reader, char *out, size_t size)
{
    must(size > 0);
    *out = '\0';
    const msgpack_object *value = take(reader, MSGPACK_OBJECT_STR, "a text");
    if (!value)
        return;
    size_t len = value->via.str.size;
    if (len >= size) {
        reader_fail(reader, "text of %zu bytes, the limit is %zu", len, size - 1);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (control((uint8_t)value->via.str.ptr[i])) {
            reader_fail(reader, "text has a control character");
            return;
        }
    }
    if (len > 0)
        memcpy(out, value->via.str.ptr, len);
    out[len] = '\0';
}

void
reader_id(struct reader *reader, struct id *out)
{
    reader_fixed(reader, out->bytes, ID_BYTES);
}

void
reader_fail(struct reader *reader, const char *fmt, ...)
{
    if (reader->failed)
        return;
    char text[ERR_MSG_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    reader->failed = true;
    err_set(&reader->err, ERR_WIRE, "%s", text);
}

bool
reader_ok(const struct reader *reader)
{
    return !reader->failed;
}

int
reader_close(struct reader **reader, struct err *err)
{
    struct reader *closed = *reader;
    *reader = NULL;
    const struct level *level = &closed->levels[closed->depth];
    must(closed->failed || closed->depth == 0); /* every array was left */
    if (!closed->failed && level->next < level->count)
        reader_fail(closed, "message was not read to its end");
    int result = closed->failed ? -1 : 0;
    if (closed->failed)
        *err = closed->err;
    msgpack_unpacked_destroy(&closed->unpacked);
    free(closed);
    return result;
}
