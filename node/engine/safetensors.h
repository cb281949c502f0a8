/*
 * safetensors.h - the safetensors container (github.com/huggingface/safetensors, format):
 * 8 bytes of little-endian header length, a JSON header (name -> dtype, shape,
 * data_offsets), the data. Files are hostile: every bound is checked before use.
 */
#ifndef NODE_ENGINE_SAFETENSORS_H
#define NODE_ENGINE_SAFETENSORS_H

#include "transport/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct safetensors_entry {
    char name[128];
    int dims; /* 1 or 2 */
    int64_t shape[2];
    const float *data; /* writing: borrowed */
};

/* Write F32 tensors in the given order, header padded with spaces to 8 bytes,
 * {"format":"pt"} in __metadata__; synced. */
int safetensors_write(const char *path, const struct safetensors_entry *entries,
                      size_t count, struct err *err);

struct safetensors;

/* Map and check: header within bounds, known dtype, offsets contiguous without overlap or
 * hole, dtype x shape = bytes. */
struct safetensors *safetensors_open(const char *path, struct err *err);
void safetensors_close(struct safetensors *file);
size_t safetensors_count(const struct safetensors *file);
/* F32 data of a tensor and its shape; NULL when there is none of this name. Not
 * necessarily aligned: copy with memcpy. */
const void *safetensors_find(const struct safetensors *file, const char *name, int *dims,
                             int64_t shape[2]);
/* The parser by itself, for the fuzzer: checks a whole file in memory. */
int safetensors_check(const void *bytes, size_t len, struct err *err);

#endif
