#include "transport/base/id.h"

#include <string.h>

int
id_compare(const void *left, const void *right)
{
    return memcmp(left, right, ID_BYTES);
}

bool
id_equal(const struct id *left, const struct id *right)
{
    return id_compare(left, right) == 0;
}

bool
id_empty(const struct id *id)
{
    static const struct id none;
    return id_equal(id, &none);
}

const char *
id_short(const struct id *id, char text[ID_SHORT_SIZE])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint64_t bits = id_prefix(id);
    for (int i = 0; i < ID_SHORT_SIZE - 1; i++)
        text[i] = digits[(bits >> (59 - 5 * i)) & 31];
    text[ID_SHORT_SIZE - 1] = '\0';
    return text;
}

const char *
id_text(const struct id *id, char text[ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < ID_BYTES; i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    text[ID_TEXT_SIZE - 1] = '\0';
    return text;
}

static int
nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

bool
id_parse(struct id *id, const char *text)
{
    if (strlen(text) != ID_TEXT_SIZE - 1)
        return false;
    struct id parsed;
    for (size_t i = 0; i < ID_BYTES; i++) {
        int high = nibble(text[2 * i]);
        int low = nibble(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *id = parsed;
    return true;
}

uint64_t
id_prefix(const struct id *id)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | id->bytes[i];
    return bits;
}
