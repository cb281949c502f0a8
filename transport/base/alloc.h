/*
 * alloc.h - memory that is there or the process is not.
 *
 * Small and bounded requests only: a size that a peer, a file or a plan decides
 * is held against limits.h first, or asked for with alloc_try(). An engine
 * forbids allocation while it is inside a training step (alloc_forbid), so that
 * a step that allocates aborts in tests instead of slowing down in the field.
 */
#ifndef TRANSPORT_BASE_ALLOC_H
#define TRANSPORT_BASE_ALLOC_H

#include <stddef.h>

/* Zeroed memory for `count` elements of `size` bytes; aborts when there is none. */
void *xcalloc(size_t count, size_t size);

/* Resize `old` (or NULL) to `count` elements of `size` bytes; aborts when there
 * is no memory. New bytes are not zeroed. */
void *xrealloc(void *old, size_t count, size_t size);

/* A copy of a string, or of `bytes` bytes. */
char *xstrdup(const char *text);
void *xmemdup(const void *data, size_t bytes);

/* Page-aligned zeroed memory for large arenas, or NULL when there is none. Free with
 * arena_release(pointer, bytes). */
void *alloc_arena(size_t bytes);
void arena_release(void *arena, size_t bytes);

/* From here on, or no longer, an allocation by this thread aborts. They nest. */
void alloc_forbid(void);
void alloc_allow(void);

#endif
