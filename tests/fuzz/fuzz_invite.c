/*
 * Any text as an invite: refused with a sentence, or taken and written again as the same
 * text. An even first byte: the rest is the text. An odd one: the rest is what an invite's
 * letters stand for, made whole by its check, so that the bytes behind it are met.
 */
#include "node/invite.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHECK_BYTES = 4 };

static void
as_letters(const uint8_t *data, size_t size, char text[INVITE_TEXT_SIZE])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    size_t at = strlen(INVITE_PREFIX);
    uint32_t bits = 0;
    int held = 0;
    memcpy(text, INVITE_PREFIX, at);
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | data[i];
        for (held += 8; held >= 5; held -= 5)
            text[at++] = digits[bits >> (held - 5) & 31];
    }
    if (held > 0)
        text[at++] = digits[bits << (5 - held) & 31];
    text[at] = '\0';
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    struct err err = {0};
    if (!ready)
        must(key_setup(&err) == 0);
    ready = true;
    if (size == 0 || size > 600)
        return 0;

    char text[INVITE_TEXT_SIZE], again[INVITE_TEXT_SIZE];
    uint8_t bytes[600 + CHECK_BYTES];
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 2 == 0) {
        snprintf(text, sizeof(text), "%.*s", (int)(size - 1), (const char *)bytes);
    } else {
        struct id check;
        key_hash(bytes, size - 1, &check);
        memcpy(bytes + size - 1, check.bytes, CHECK_BYTES);
        as_letters(bytes, size - 1 + CHECK_BYTES, text);
    }
    struct invite invite, second;
    if (invite_parse(text, &invite, &err)) {
        must(err.code == ERR_USAGE && err.msg[0]);
        return 0;
    }
    invite_text(&invite, again);
    must(invite_parse(again, &second, &err) == 0);
    must(memcmp(second.token, invite.token, sizeof(invite.token)) == 0 &&
         memcmp(second.door, invite.door, sizeof(invite.door)) == 0 &&
         id_equal(&second.swarm, &invite.swarm) &&
         second.seeds_count == invite.seeds_count);
    return 0;
}
