/*
 * buf.h - bytes that grow, up to a limit that the owner names.
 */
#ifndef TRANSPORT_BASE_BUF_H
#define TRANSPORT_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

/* A zeroed struct is an empty buffer. */
void buf_add(struct buf *buf, const void *data, size_t len);
void buf_printf(struct buf *buf, const char *fmt, ...)
    __attribute__((format(printf, 2,
                          3)));  /* text without the final NUL in len, but one is there */
void buf_clear(struct buf *buf); /* empty, memory kept */
void buf_release(struct buf *buf); /* empty, memory given back */

#endif
