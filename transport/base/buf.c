#include "transport/base/buf.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
reserve(struct buf *buf, size_t more)
{
    must(more <= SIZE_MAX / 4 && buf->len <= SIZE_MAX / 4);
    size_t need = buf->len + more;
    if (need <= buf->capacity)
        return;
    size_t capacity = buf->capacity ? buf->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    buf->data = xrealloc(buf->data, capacity, 1);
    buf->capacity = capacity;
}

void
buf_add(struct buf *buf, const void *data, size_t len)
{
    if (len == 0)
        return;
    reserve(buf, len);
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
}

void
buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int need = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    must(need >= 0);
    reserve(buf, (size_t)need + 1);
    va_start(ap, fmt);
    vsnprintf((char *)buf->data + buf->len, (size_t)need + 1, fmt, ap);
    va_end(ap);
    buf->len += (size_t)need;
}

void
buf_clear(struct buf *buf)
{
    buf->len = 0;
}

void
buf_release(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){0};
}
