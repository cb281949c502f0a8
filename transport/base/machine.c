#include "transport/base/machine.h"
#include "transport/base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MARK_BYTES_MAX = 256, CARDS_MAX = 64 };

/* A short file's text without white space around it; false when there is none. */
static bool
short_text(const char *path, char text[MARK_BYTES_MAX])
{
    struct buf bytes = {0};
    struct err err;
    bool got =
        file_exists(path) && file_read(path, MARK_BYTES_MAX - 1, &bytes, &err) == 0;
    size_t len = got ? bytes.len : 0;
    while (len > 0 && strchr(" \t\r\n", bytes.data[len - 1]))
        len--;
    memcpy(text, len > 0 ? (char *)bytes.data : "", len);
    text[len] = '\0';
    buf_release(&bytes);
    return len > 0;
}

static int
compare_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Hardware addresses of cards that are no loop-back, in order. */
static void
add_cards(struct buf *out)
{
    char cards[CARDS_MAX][MARK_BYTES_MAX];
    size_t count = 0;
    DIR *dir = opendir("/sys/class/net");
    const struct dirent *entry;
    while (dir && count < CARDS_MAX && (entry = readdir(dir))) {
        char path[512];
        snprintf(path, sizeof(path), "/sys/class/net/%.200s/address", entry->d_name);
        if (entry->d_name[0] != '.' && short_text(path, cards[count]) &&
            strcmp(cards[count], "00:00:00:00:00:00") != 0)
            count++;
    }
    if (dir)
        closedir(dir);
    qsort(cards, count, sizeof(cards[0]), compare_text);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s ", cards[i]);
}

void
machine_marks(struct buf *out)
{
    char text[MARK_BYTES_MAX] = "";
    if (short_text("/etc/machine-id", text)) {
        buf_printf(out, "id %s", text);
        return;
    }
    size_t before = out->len;
    add_cards(out);
    if (out->len > before && gethostname(text, sizeof(text) - 1) == 0)
        buf_printf(out, "%s", text);
}
