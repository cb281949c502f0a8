/*
 * A whole file, and a header of the right length before some data: checked without a read
 * past the end, refused with a sentence.
 */
#include "node/engine/safetensors.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const uint8_t *data, size_t size)
{
    struct err err = {0};
    if (safetensors_check(data, size, &err))
        must(err.code == ERR_CORRUPT && strlen(err.msg) > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    if (size == 0)
        return 0;
    /* The first byte says how many bytes of data follow the header. */
    size_t header = size - 1, room = (size_t)data[0] * 4;
    uint8_t *file = xcalloc(8 + header + room, 1);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)header >> (8 * i));
    memcpy(file + 8, data + 1, header);
    check(file, 8 + header + room);
    free(file);
    return 0;
}
