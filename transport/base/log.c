#include "transport/base/log.h"
#include "transport/base/clock.h"
#include "transport/base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum log_level level_max = LOG_INFO;
static bool as_json;

void
log_setup(enum log_level level, bool json)
{
    level_max = level;
    as_json = json;
}

/* Appends `text` as the inside of a JSON string; bytes that are no UTF-8 become "?". */
static size_t
escape(char *out, size_t room, const char *text)
{
    size_t used = 0;
    while (*text && used + 7 < room) {
        unsigned char c = (unsigned char)*text;
        size_t len = utf8_bytes(text);
        if (c == '"' || c == '\\')
            out[used++] = '\\';
        if (c < 0x20)
            used += (size_t)snprintf(out + used, 7, "\\u%04x", c);
        else if (len == 0)
            out[used++] = '?';
        else
            for (size_t i = 0; i < len; i++)
                out[used++] = text[i];
        text += len ? len : 1;
    }
    out[used] = '\0';
    return used;
}

void
log_write(enum log_level level, const char *subsystem, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if (level > level_max)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *at = text; *at && !as_json; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = ' ';

    int64_t now = clock_wall_ms();
    char line[2600];
    int len;
    if (as_json) {
        char escaped[2400];
        escape(escaped, sizeof(escaped), text);
        len = snprintf(
            line, sizeof(line),
            "{\"t_ms\":%lld,\"level\":\"%s\",\"subsystem\":\"%s\",\"text\":\"%s\"}\n",
            (long long)now, names[level], subsystem, escaped);
    } else {
        time_t seconds = (time_t)(now / 1000);
        struct tm utc;
        gmtime_r(&seconds, &utc);
        len = snprintf(line, sizeof(line), "%02d:%02d:%02d.%03d %s %s %s\n", utc.tm_hour,
                       utc.tm_min, utc.tm_sec, (int)(now % 1000), names[level], subsystem,
                       text);
    }
    size_t bytes = len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1;
    ssize_t written = write(STDERR_FILENO, line, bytes);
    (void)written;
}

bool
log_site_open(struct log_site *site, unsigned *left_out)
{
    int64_t now = clock_ms();
    int64_t next = atomic_load(&site->next_ms);
    if (now < next ||
        !atomic_compare_exchange_strong(&site->next_ms, &next, now + 1000)) {
        atomic_fetch_add(&site->left_out, 1);
        return false;
    }
    *left_out = atomic_exchange(&site->left_out, 0);
    return true;
}
