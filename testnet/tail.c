#include "testnet/tail.h"
#include "transport/base/alloc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICE_BYTES = 64 << 10, LINE_BYTES_MAX = 4 << 20 };

void
tail_init(struct tail *tail, const char *path)
{
    *tail = (struct tail){.path = xstrdup(path)};
}

void
tail_release(struct tail *tail)
{
    free(tail->path);
    buf_release(&tail->rest);
    *tail = (struct tail){0};
}

void
tail_read(struct tail *tail, void (*line)(void *arg, const char *text, size_t len),
          void *arg)
{
    int fd = open(tail->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    char slice[SLICE_BYTES];
    ssize_t got;
    while ((got = pread(fd, slice, sizeof(slice), tail->offset)) > 0) {
        tail->offset += got;
        const char *at = slice, *end = slice + got, *newline;
        while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
            buf_add(&tail->rest, at, (size_t)(newline - at));
            line(arg, (const char *)tail->rest.data, tail->rest.len);
            buf_clear(&tail->rest);
            at = newline + 1;
        }
        if (tail->rest.len + (size_t)(end - at) > LINE_BYTES_MAX)
            buf_clear(&tail->rest);
        buf_add(&tail->rest, at, (size_t)(end - at));
    }
    close(fd);
}
