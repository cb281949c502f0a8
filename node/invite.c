#include "node/invite.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <string.h>

enum { CHECK_BYTES = 4, BYTES_MAX = 600 };

static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";

static void
base32_write(const uint8_t *bytes, size_t len, char *text)
{
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | bytes[i];
        for (held += 8; held >= 5; held -= 5)
            *text++ = digits[bits >> (held - 5) & 31];
    }
    if (held > 0)
        *text++ = digits[bits << (5 - held) & 31];
    *text = '\0';
}

/* The bytes of a text, or -1. */
static int
base32_read(const char *text, uint8_t *bytes, size_t most, size_t *len)
{
    uint32_t bits = 0;
    int held = 0;
    *len = 0;
    for (; *text; text++) {
        const char *digit = strchr(digits, *text);
        if (!digit)
            return -1;
        bits = bits << 5 | (uint32_t)(digit - digits);
        held += 5;
        if (held < 8)
            continue;
        if (*len == most)
            return -1;
        held -= 8;
        bytes[(*len)++] = (uint8_t)(bits >> held);
    }
    /* One way to write it: what is left over is less than a letter, and zero. */
    return held < 5 && (bits & ((1U << held) - 1)) == 0 ? 0 : -1;
}

void
invite_text(const struct invite *invite, char text[INVITE_TEXT_SIZE])
{
    struct buf bytes = {0};
    struct id check;
    must(invite->seeds_count > 0 && invite->seeds_count <= INVITE_SEEDS_MAX);
    writer_array(&bytes, 4);
    writer_array(&bytes, (size_t)invite->seeds_count);
    for (int i = 0; i < invite->seeds_count; i++) {
        char address[ADDRESS_BYTES_MAX + 8];
        address_text(&invite->seeds[i], address);
        writer_text(&bytes, address);
    }
    writer_bytes(&bytes, invite->door, sizeof(invite->door));
    writer_id(&bytes, &invite->swarm);
    writer_bytes(&bytes, invite->token, sizeof(invite->token));
    key_hash(bytes.data, bytes.len, &check);
    buf_add(&bytes, check.bytes, CHECK_BYTES);
    must(bytes.len <= BYTES_MAX);
    memcpy(text, INVITE_PREFIX, sizeof(INVITE_PREFIX));
    base32_write(bytes.data, bytes.len, text + strlen(INVITE_PREFIX));
    key_wipe(bytes.data, bytes.len);
    buf_release(&bytes);
}

static int
read_bytes(const uint8_t *bytes, size_t len, struct invite *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    char addresses[INVITE_SEEDS_MAX][ADDRESS_BYTES_MAX + 8];
    reader_enter(reader, 4, 4);
    out->seeds_count = (int)reader_enter(reader, 1, INVITE_SEEDS_MAX);
    for (int i = 0; i < out->seeds_count; i++)
        reader_text(reader, addresses[i], sizeof(addresses[i]));
    reader_leave(reader);
    reader_fixed(reader, out->door, sizeof(out->door));
    reader_id(reader, &out->swarm);
    reader_fixed(reader, out->token, sizeof(out->token));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    for (int i = 0; i < out->seeds_count; i++)
        if (address_parse(addresses[i], &out->seeds[i], err))
            return -1;
    return 0;
}

int
invite_parse(const char *text, struct invite *out, struct err *err)
{
    uint8_t bytes[BYTES_MAX];
    struct invite invite = {0};
    struct id check;
    struct err inner;
    size_t len = 0;
    if (strncmp(text, INVITE_PREFIX, strlen(INVITE_PREFIX)) != 0)
        return err_set(err, ERR_USAGE, "an invite begins with \"" INVITE_PREFIX "\"");
    bool whole =
        base32_read(text + strlen(INVITE_PREFIX), bytes, sizeof(bytes), &len) == 0 &&
        len > CHECK_BYTES;
    if (whole) {
        len -= CHECK_BYTES;
        key_hash(bytes, len, &check);
        whole = memcmp(check.bytes, bytes + len, CHECK_BYTES) == 0;
    }
    int result = 0;
    if (!whole)
        result = err_set(err, ERR_USAGE,
                         "the invite is damaged: a character is missing, one too many "
                         "or another one; copy it again as \"flotilla invite\" printed "
                         "it");
    else if (read_bytes(bytes, len, &invite, &inner))
        result =
            err_set(err, ERR_USAGE, "the invite is of another version: %s", inner.msg);
    else
        *out = invite;
    key_wipe(bytes, sizeof(bytes));
    key_wipe(&invite, sizeof(invite));
    return result;
}
