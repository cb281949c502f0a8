#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local int forbidden;

static void *
checked(void *memory, size_t bytes)
{
    if (!memory) {
        fprintf(stderr, "out of memory: %zu bytes asked for\n", bytes);
        abort();
    }
    return memory;
}

void *
xcalloc(size_t count, size_t size)
{
    must(!forbidden);
    must(size > 0 && count <= SIZE_MAX / size);
    return checked(calloc(count ? count : 1, size), count * size);
}

void *
xrealloc(void *old, size_t count, size_t size)
{
    must(!forbidden);
    must(size > 0 && count <= SIZE_MAX / size);
    size_t bytes = count * size;
    return checked(realloc(old, bytes ? bytes : 1), bytes);
}

char *
xstrdup(const char *text)
{
    return xmemdup(text, strlen(text) + 1);
}

void *
xmemdup(const void *data, size_t bytes)
{
    void *copy = xcalloc(bytes ? bytes : 1, 1);
    if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

void *
alloc_arena(size_t bytes)
{
    must(!forbidden);
    if (bytes == 0)
        bytes = 1;
    void *arena =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return arena == MAP_FAILED ? NULL : arena;
}

void
arena_release(void *arena, size_t bytes)
{
    if (arena)
        munmap(arena, bytes ? bytes : 1);
}

void
alloc_forbid(void)
{
    forbidden++;
}

void
alloc_allow(void)
{
    must(forbidden > 0);
    forbidden--;
}
