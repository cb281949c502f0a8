#include "transport/base/log.h"
#include "transport/base/clock.h"

#include <stdarg.h>
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

/* Appends `text` as the inside of a JSON string. */
static size_t
escape(char *out, size_t room, const char *text)
{
    size_t used = 0;
    for (; *text && used + 7 < room; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            out[used++] = '\\';
            out[used++] = (char)c;
        } else if (c < 0x20) {
            used += (size_t)snprintf(out + used, 7, "\\u%04x", c);
        } else {
            out[used++] = (char)c;
        }
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
        if ((unsigned char)*at < 0x20)
            *at = ' ';

    int64_t now = clock_wall_ms();
    char line[2600];
    int len;
    if (as_json) {
        char escaped[2400];
        escape(escaped, sizeof(escaped), text);
        len = snprintf(line, sizeof(line),
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
    int64_t next = site->next_ms;
    if (now < next || !__atomic_compare_exchange_n((int64_t *)&site->next_ms, &next, now + 1000,
                                                   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        site->left_out++;
        return false;
    }
    *left_out = site->left_out;
    site->left_out = 0;
    return true;
}
