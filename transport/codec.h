/*
 * codec.h - canonical MessagePack: one value, one encoding (msgpack-c's home).
 *
 * Messages are arrays of fields in a fixed order. Integers have their shortest form;
 * there are no floats, maps or extensions. codec bounds depth, counts and sizes in a scan
 * of the raw bytes before the library sees them, so that five bytes cannot ask for
 * gigabytes (docs/protocol.md, section 3).
 *
 *     writer_array(&w, 2); writer_uint(&w, term); writer_id(&w, &leader);
 *
 *     struct reader *r = reader_open(bytes, len, &err);
 *     if (!r) return -1;
 *     reader_enter(r, 2, 2); term = reader_uint(r, UINT64_MAX); reader_id(r, &leader);
 *     reader_leave(r);
 *     return reader_close(&r, &err);
 *
 * A reader's errors stick: after the first, every call returns zeros and does nothing,
 * and reader_close() reports it. So a decoder reads straight down and checks once; values
 * read before the check must not be acted upon.
 */
#ifndef TRANSPORT_CODEC_H
#define TRANSPORT_CODEC_H

#include "transport/base/buf.h"
#include "transport/base/err.h"
#include "transport/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writing: appends to a buf ---- */

void writer_array(struct buf *out, size_t count);
void writer_uint(struct buf *out, uint64_t value);
void writer_int(struct buf *out, int64_t value);
void writer_bool(struct buf *out, bool value);
void writer_bytes(struct buf *out, const void *data, size_t len);
/* Readers refuse control characters, so each is written as "?": a sentence from anywhere
 * can be sent. What must come back as it is goes through writer_bytes(). */
void writer_text(struct buf *out, const char *text);
void writer_id(struct buf *out, const struct id *id);

/* ---- reading ---- */

struct reader;

/* Scan and decode; the bytes must stay. Must hold exactly one value. NULL with
 * ERR_WIRE. */
struct reader *reader_open(const void *bytes, size_t len, struct err *err);

/* Next value is an array of `least`..`most` elements: go inside; returns the count (0
 * after an error). */
size_t reader_enter(struct reader *reader, size_t least, size_t most);
/* All elements of the array were read: go outside. Elements left over are an error. */
void reader_leave(struct reader *reader);

uint64_t reader_uint(struct reader *reader, uint64_t most);
int64_t reader_int(struct reader *reader, int64_t least, int64_t most);
bool reader_bool(struct reader *reader);
/* Borrowed from the message; `*len` is 0 and the result non-NULL for an empty one and
 * after an error. */
const uint8_t *reader_bytes(struct reader *reader, size_t most, size_t *len);
/* Exactly `len` bytes copied to `out`. */
void reader_fixed(struct reader *reader, void *out, size_t len);
/* UTF-8 is not checked, control characters and NUL are refused; copied with a final NUL.
 * `size` includes it. */
void reader_text(struct reader *reader, char *out, size_t size);
void reader_id(struct reader *reader, struct id *out);

/* A decoder's own check failed: record ERR_WIRE with this sentence (only the first
 * sticks). */
void reader_fail(struct reader *reader, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
bool reader_ok(const struct reader *reader);

/* Ends and frees; 0 when all was read and nothing failed. */
int reader_close(struct reader **reader, struct err *err);

#endif
