/*
 * Any bytes as a message. What is taken is walked by its own tags and written again: it
 * must have the same bytes, since a value has one encoding.
 */
#include "transport/base/limits.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads one value, known by its tag, and writes it; the count of an array, else 0. */
static size_t
copy_value(struct reader *r, uint8_t tag, size_t most, struct buf *again)
{
    static char text[FRAME_BYTES_MAX + 1];
    size_t len;
    if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) {
        len = reader_enter(r, 0, CODEC_COUNT_MAX);
        writer_array(again, len);
        return len;
    }
    if (tag <= 0x7f || (tag >= 0xcc && tag <= 0xcf)) {
        writer_uint(again, reader_uint(r, UINT64_MAX));
    } else if (tag >= 0xe0 || (tag >= 0xd0 && tag <= 0xd3)) {
        writer_int(again, reader_int(r, INT64_MIN, -1));
    } else if (tag == 0xc2 || tag == 0xc3) {
        writer_bool(again, reader_bool(r));
    } else if (tag >= 0xc4 && tag <= 0xc6) {
        const uint8_t *bytes = reader_bytes(r, most, &len);
        writer_bytes(again, bytes, len);
    } else {
        reader_text(r, text, most + 1);
        writer_text(again, text);
    }
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct reader *r = reader_open(data, size, &err);
    if (!r) {
        must(err.code == ERR_WIRE && err.msg[0]);
        return 0;
    }
    struct buf again = {0};
    size_t left[CODEC_DEPTH_MAX + 1] = {1};
    int depth = 0;
    while (reader_ok(r) && (depth > 0 || left[0] > 0)) {
        if (left[depth] == 0) {
            reader_leave(r);
            depth--;
            continue;
        }
        left[depth]--;
        uint8_t tag = data[again.len];
        size_t count = copy_value(r, tag, size, &again);
        if (reader_ok(r) && ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd))
            left[++depth] = count;
    }
    /* The one thing that the scan does not know: a control character in a text. */
    if (reader_ok(r))
        must(again.data && again.len == size && memcmp(again.data, data, size) == 0);
    else
        must(reader_close(&r, &err) == -1 && strstr(err.msg, "control character"));
    if (r)
        must(reader_close(&r, &err) == 0);
    buf_release(&again);
    return 0;
}
