#include "node/engine/safetensors.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/json.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LENGTH_BYTES = 8,
    ENTRIES_MAX = 4 * TENSORS_MAX,
    HEADER_BYTES_MAX = 512 * ENTRIES_MAX /* the format allows 100 MB */
};

struct entry {
    const char *name; /* in the header's tree */
    int dims;
    int64_t shape[2];
    int64_t begin, end; /* of the data, in bytes */
};

struct safetensors {
    void *map;
    size_t len;
    const uint8_t *data;
    struct json *header;
    struct entry *entries;
    size_t count;
};

/* ---- writing ---- */

static int64_t
entry_bytes(const struct safetensors_entry *entry)
{
    return entry->shape[0] * (entry->dims == 2 ? entry->shape[1] : 1) *
           (int64_t)sizeof(float);
}

static void
write_header(const struct safetensors_entry *entries, size_t count, struct buf *out)
{
    struct json_writer writer;
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_object_open(&writer, "__metadata__");
    json_put_text(&writer, "format", "pt");
    json_object_close(&writer);
    int64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        json_object_open(&writer, entries[i].name);
        json_put_text(&writer, "dtype", "F32");
        json_array_open(&writer, "shape");
        for (int d = 0; d < entries[i].dims; d++)
            json_put_int(&writer, NULL, entries[i].shape[d]);
        json_array_close(&writer);
        json_array_open(&writer, "data_offsets");
        json_put_int(&writer, NULL, at);
        at += entry_bytes(&entries[i]);
        json_put_int(&writer, NULL, at);
        json_array_close(&writer);
        json_object_close(&writer);
    }
    json_object_close(&writer);
    while (out->len % 8 != 0)
        buf_add(out, " ", 1);
}

int
safetensors_write(const char *path, const struct safetensors_entry *entries, size_t count,
                  struct err *err)
{
    struct buf header = {0};
    write_header(entries, count, &header);
    uint8_t length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (uint8_t)((uint64_t)header.len >> (8 * i));
    int result = -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_set_errno(err, "could not create \"%s\"", path);
        goto out;
    }
    off_t at = LENGTH_BYTES + (off_t)header.len;
    if (file_write_at(fd, length, LENGTH_BYTES, 0, path, err) ||
        file_write_at(fd, header.data, header.len, LENGTH_BYTES, path, err))
        goto out;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = (size_t)entry_bytes(&entries[i]);
        if (file_write_at(fd, entries[i].data, bytes, at, path, err))
            goto out;
        at += (off_t)bytes;
    }
    if (fsync(fd)) {
        err_set_errno(err, "could not sync \"%s\"", path);
        goto out;
    }
    result = 0;
out:
    if (fd >= 0 && close(fd) && result == 0)
        result = err_set_errno(err, "could not close \"%s\"", path);
    buf_release(&header);
    return result;
}

/* ---- reading ---- */

static int
read_entry(const char *name, const struct json *value, struct entry *out, struct err *err)
{
    const struct json *shape = json_get(value, "shape");
    const struct json *offsets = json_get(value, "data_offsets");
    if (strcmp(json_text(json_get(value, "dtype"), ""), "F32") != 0)
        return err_set(err, ERR_CORRUPT,
                       "tensor \"%s\" has type \"%s\", but F32 is read here", name,
                       json_text(json_get(value, "dtype"), "none"));
    if (!json_is_array(shape) || json_count(shape) < 1 || json_count(shape) > 2)
        return err_set(err, ERR_CORRUPT,
                       "tensor \"%s\" has no shape of one or two dimensions", name);
    *out = (struct entry){.name = name, .dims = (int)json_count(shape), .shape = {1, 1}};
    int64_t elements = 1;
    for (int d = 0; d < out->dims; d++) {
        int64_t size = json_int(json_at(shape, (size_t)d), -1);
        if (size < 0 || (size > 0 && elements > INT64_MAX / 8 / size))
            return err_set(err, ERR_CORRUPT, "tensor \"%s\" has an impossible shape",
                           name);
        out->shape[d] = size;
        elements *= size;
    }
    out->begin = json_int(json_at(offsets, 0), -1);
    out->end = json_int(json_at(offsets, 1), -1);
    if (json_count(offsets) != 2 || out->begin < 0 || out->end < out->begin ||
        out->end - out->begin != elements * (int64_t)sizeof(float))
        return err_set(err, ERR_CORRUPT,
                       "tensor \"%s\" has offsets that do not fit its shape", name);
    return 0;
}

static int
compare_begin(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* The tensors follow each other from the data's first byte to its last. */
static int
check_contiguous(struct safetensors *file, int64_t data_bytes, struct err *err)
{
    if (file->count > 0)
        qsort(file->entries, file->count, sizeof(file->entries[0]), compare_begin);
    int64_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        if (file->entries[i].begin != at)
            return err_set(err, ERR_CORRUPT,
                           "tensor \"%s\" overlaps another or leaves a hole",
                           file->entries[i].name);
        at = file->entries[i].end;
    }
    if (at != data_bytes)
        return err_set(err, ERR_CORRUPT,
                       "the tensors take %lld bytes, but the file has %lld",
                       (long long)at, (long long)data_bytes);
    return 0;
}

static int
read_header(struct safetensors *file, const uint8_t *bytes, size_t len, struct err *err)
{
    if (len < LENGTH_BYTES)
        return err_set(err, ERR_CORRUPT, "the file ends before its header");
    uint64_t header = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        header |= (uint64_t)bytes[i] << (8 * i);
    if (header > HEADER_BYTES_MAX || header > len - LENGTH_BYTES)
        return err_set(err, ERR_CORRUPT, "the header claims %llu bytes, the file has %zu",
                       (unsigned long long)header, len);
    file->header = json_parse((const char *)bytes + LENGTH_BYTES, (size_t)header,
                              HEADER_BYTES_MAX, err);
    if (!file->header)
        return err_wrap(err, "header");
    if (!json_is_object(file->header) || json_count(file->header) > ENTRIES_MAX)
        return err_set(err, ERR_CORRUPT, "the header is no list of at most %d tensors",
                       ENTRIES_MAX);
    size_t members = json_count(file->header);
    file->entries = xcalloc(members, sizeof(*file->entries));
    for (size_t i = 0; i < members; i++) {
        const struct json *value;
        const char *name = json_key_at(file->header, i, &value);
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (read_entry(name, value, &file->entries[file->count], err))
            return -1;
        file->count++;
    }
    file->data = bytes + LENGTH_BYTES + header;
    return check_contiguous(file, (int64_t)(len - LENGTH_BYTES - (size_t)header), err);
}

int
safetensors_check(const void *bytes, size_t len, struct err *err)
{
    struct safetensors file = {0};
    int result = read_header(&file, bytes, len, err);
    free(file.entries);
    json_free(file.header);
    return result;
}

struct safetensors *
safetensors_open(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status)) {
        err_set_errno(err, "could not open \"%s\"", path);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct safetensors *file = xcalloc(1, sizeof(*file));
    file->len = (size_t)status.st_size;
    file->map =
        file->len > 0 ? mmap(NULL, file->len, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (file->map == MAP_FAILED) {
        file->map = NULL;
        err_set(err, ERR_CORRUPT, "\"%s\" is empty or cannot be mapped", path);
    } else if (read_header(file, file->map, file->len, err) == 0) {
        return file;
    } else {
        err_wrap(err, "\"%s\"", path);
    }
    safetensors_close(file);
    return NULL;
}

void
safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    if (file->map)
        munmap(file->map, file->len);
    free(file->entries);
    json_free(file->header);
    free(file);
}

size_t
safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const void *
safetensors_find(const struct safetensors *file, const char *name, int *dims,
                 int64_t shape[2])
{
    for (size_t i = 0; i < file->count; i++) {
        const struct entry *entry = &file->entries[i];
        if (strcmp(entry->name, name) != 0)
            continue;
        *dims = entry->dims;
        shape[0] = entry->shape[0];
        shape[1] = entry->shape[1];
        return file->data + entry->begin;
    }
    return NULL;
}
