/*
 * log.h - one line per event on standard error.
 *
 *     12:00:03.412 warn gossip member suspected id=kx4f silent_ms=3100
 *
 * The subsystem is the folder's name; the tail is key=value and greps. A site
 * that a peer can trigger uses log_limited(): at most one line a second per
 * site, with the number that was left out. Cores do not log.
 */
#ifndef TRANSPORT_BASE_LOG_H
#define TRANSPORT_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Before threads start: the least urgent level that is printed, and JSON lines instead of
 * text. */
void log_setup(enum log_level level, bool json);

void log_write(enum log_level level, const char *subsystem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct log_site {
    _Atomic int64_t next_ms;
    _Atomic unsigned left_out;
};

bool log_site_open(struct log_site *site, unsigned *left_out);

#define log_error(subsystem, ...) log_write(LOG_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...) log_write(LOG_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...) log_write(LOG_INFO, subsystem, __VA_ARGS__)
#define log_debug(subsystem, ...) log_write(LOG_DEBUG, subsystem, __VA_ARGS__)

#define log_limited(level, subsystem, ...)                                               \
    do {                                                                                 \
        static struct log_site site_;                                                    \
        unsigned left_out_ = 0;                                                          \
        if (log_site_open(&site_, &left_out_)) {                                         \
            log_write(level, subsystem, __VA_ARGS__);                                    \
            if (left_out_)                                                               \
                log_write(level, subsystem, "lines like the last one left out count=%u", \
                          left_out_);                                                    \
        }                                                                                \
    } while (0)

#endif
