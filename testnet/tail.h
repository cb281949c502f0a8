/*
 * tail.h - the new lines of a file that another process appends to.
 */
#ifndef TESTNET_TAIL_H
#define TESTNET_TAIL_H

#include "transport/base/buf.h"

#include <sys/types.h>

struct tail {
    char *path;
    off_t offset;
    struct buf rest; /* a line that is not whole yet */
};

void tail_init(struct tail *tail, const char *path);
void tail_release(struct tail *tail);

/* Call `line` for each whole line that was added, without its newline. A file that is not
 * there yet has none. */
void tail_read(struct tail *tail, void (*line)(void *arg, const char *text, size_t len),
               void *arg);

#endif
