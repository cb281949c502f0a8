#include "transport/base/word.h"
#include "transport/base/limits.h"

#include <stdio.h>
#include <string.h>

enum { WORD_SIZE = 48 }; /* longer ones are compared up to here */

/* Insertions, deletions, replacements and swaps of neighbours that make one word of the
 * other. */
static int
distance_between(const char *left, const char *right)
{
    int rows[3][WORD_SIZE + 1];
    int left_len = (int)strnlen(left, WORD_SIZE),
        right_len = (int)strnlen(right, WORD_SIZE);
    for (int j = 0; j <= right_len; j++)
        rows[0][j] = j;
    for (int i = 1; i <= left_len; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= right_len; j++) {
            bool differ = left[i - 1] != right[j - 1];
            int best = above[j - 1] + differ;
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (differ && i > 1 && j > 1 && left[i - 1] == right[j - 2] &&
                left[i - 2] == right[j - 1] && second[j - 2] + 1 < best)
                best = second[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[left_len % 3][right_len];
}

/* One word is how the other begins: "warmup" for "warmup_steps". */
static bool
beginning(const char *left, const char *right)
{
    size_t left_len = strlen(left), right_len = strlen(right);
    size_t len = left_len < right_len ? left_len : right_len;
    return len >= 3 && strncmp(left, right, len) == 0;
}

bool
word_names(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    return len >= 1 && len <= NAME_BYTES_MAX && strspn(name, allowed) == len &&
           name[0] != '.';
}

const char *
word_hint(const char *word, const char *const *known, size_t count,
          char text[ERR_MSG_SIZE])
{
    const char *nearest = NULL;
    int least = strlen(word) <= 4 ? 2 : 3; /* one above what still counts as near */
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        int distance = distance_between(word, known[i]);
        /* A word of which no letter is left is another one. */
        if (distance < least && distance < (int)strlen(known[i])) {
            least = distance;
            nearest = known[i];
        }
    }
    for (size_t i = 0; i < count && !nearest; i++)
        if (beginning(word, known[i]))
            nearest = known[i];
    if (nearest) {
        snprintf(text, ERR_MSG_SIZE, "; did you mean \"%s\"?", nearest);
        return text;
    }
    int used = 0;
    for (size_t i = 0; i < count && used < ERR_MSG_SIZE; i++)
        used += snprintf(text + used, (size_t)(ERR_MSG_SIZE - used), "%s %s",
                         i ? "," : "; known here:", known[i]);
    return text;
}
