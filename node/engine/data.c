#include "node/engine/data.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"
#include "transport/key.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

struct data {
    const uint8_t *text;
    int64_t bytes;
    int context;
    int64_t samples;
};

/* Opens a file of text for reading; says what is wrong with it. */
static int
text_open(const char *path, int64_t *bytes, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) < 0) {
        err_set_errno(err, "cannot read text \"%s\"", path);
        err->code = ERR_USAGE;
    } else if (!S_ISREG(about.st_mode)) {
        err_set(err, ERR_USAGE, "cannot read text \"%s\": not a file", path);
    } else if (about.st_size == 0) {
        err_set(err, ERR_USAGE, "text \"%s\" is empty", path);
    } else {
        *bytes = about.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

struct data *
data_open(const char *path, int context, struct err *err)
{
    must(context > 0);
    int64_t bytes;
    int fd = text_open(path, &bytes, err);
    if (fd < 0)
        return NULL;
    if (bytes < (int64_t)context + 1) {
        close(fd);
        err_set(
            err, ERR_USAGE,
            "text \"%s\" has %lld bytes: a sample needs %d, one more than the context",
            path, (long long)bytes, context + 1);
        return NULL;
    }
    void *text = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        err_set_errno(err, "could not map text \"%s\"", path);
    close(fd);
    if (text == MAP_FAILED)
        return NULL;
    struct data *data = xcalloc(1, sizeof(*data));
    data->text = text;
    data->bytes = bytes;
    data->context = context;
    data->samples = (bytes - 1) / context;
    return data;
}

void
data_close(struct data *data)
{
    if (!data)
        return;
    munmap((void *)(uintptr_t)data->text, (size_t)data->bytes);
    free(data);
}

int64_t
data_samples(const struct data *data)
{
    return data->samples;
}

int64_t
data_sample_id(const struct data *data, uint64_t seed, int64_t n)
{
    must(n >= 0);
    uint64_t samples = (uint64_t)data->samples, number = (uint64_t)n;
    return (int64_t)rng_permute(seed, number / samples, samples, number % samples);
}

void
data_tokens(const struct data *data, int64_t sample, int32_t *tokens)
{
    must(sample >= 0 && sample < data->samples);
    const uint8_t *text = data->text + sample * data->context;
    for (int i = 0; i <= data->context; i++)
        tokens[i] = text[i];
}

/* Reads a text through a hash and, unless `out` is -1, into a file at `*at`. */
static int
text_pass(const char *path, struct key_hash *state, int out, const char *out_path,
          int64_t *at, struct err *err)
{
    int64_t bytes;
    int fd = text_open(path, &bytes, err);
    if (fd < 0)
        return -1;
    uint8_t *buffer = xcalloc(1, READ_BYTES);
    int result = -1;
    for (;;) {
        ssize_t got = read(fd, buffer, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            err_set_errno(err, "cannot read text \"%s\"", path);
            break;
        }
        if (got == 0) {
            result = 0;
            break;
        }
        key_hash_add(state, buffer, (size_t)got);
        if (out >= 0 && file_write_at(out, buffer, (size_t)got, *at, out_path, err))
            break;
        *at += got;
    }
    free(buffer);
    close(fd);
    return result;
}

int
data_hash(const char *path, struct id *hash, int64_t *bytes, struct err *err)
{
    struct key_hash state;
    key_hash_init(&state);
    int64_t read_bytes = 0;
    if (text_pass(path, &state, -1, NULL, &read_bytes, err))
        return -1;
    key_hash_done(&state, hash);
    *bytes = read_bytes;
    return 0;
}

/* The pattern with the folder before it; what glob() would read in the folder's own name
 * is quoted. */
static int
pattern_join(const char *folder, const char *pattern, char out[2 * PATH_BYTES_MAX],
             struct err *err)
{
    size_t at = 0;
    if (strlen(folder) + strlen(pattern) + 2 > PATH_BYTES_MAX)
        return err_set(err, ERR_USAGE,
                       "data.train \"%.64s...\" is too long: a path has at most %d bytes",
                       pattern, PATH_BYTES_MAX);
    if (pattern[0] != '/') {
        for (const char *c = folder; *c; c++) {
            if (strchr("*?[\\", *c))
                out[at++] = '\\';
            out[at++] = *c;
        }
        out[at++] = '/';
    }
    memcpy(out + at, pattern, strlen(pattern) + 1);
    return 0;
}

static int
path_compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Writes all texts into a neighbour of `out_path`, then takes its name. */
static int
gather(char *const *paths, size_t count, const char *out_path, struct id *hash,
       int64_t *bytes, struct err *err)
{
    char part[PATH_BYTES_MAX];
    if (snprintf(part, sizeof(part), "%s.part", out_path) >= (int)sizeof(part))
        return err_set(err, ERR_USAGE, "path \"%.64s...\" is too long", out_path);
    int out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0)
        return err_set_errno(err, "cannot write \"%s\"", part);
    struct key_hash state;
    key_hash_init(&state);
    int64_t at = 0;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = text_pass(paths[i], &state, out, part, &at, err);
    if (result == 0 && fsync(out) < 0)
        result = err_set_errno(err, "could not write \"%s\"", part);
    close(out);
    if (result == 0 && rename(part, out_path) < 0)
        result = err_set_errno(err, "could not rename \"%s\" to \"%s\"", part, out_path);
    if (result) {
        unlink(part);
        return -1;
    }
    key_hash_done(&state, hash);
    *bytes = at;
    return 0;
}

int
data_gather(const char *folder, const char *pattern, const char *out_path,
            struct id *hash, int64_t *bytes, struct err *err)
{
    char full[2 * PATH_BYTES_MAX];
    if (pattern_join(folder, pattern, full, err))
        return -1;
    glob_t found = {0};
    int result = -1;
    switch (glob(full, GLOB_NOSORT, NULL, &found)) {
    case 0:
        qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), path_compare);
        result = gather(found.gl_pathv, found.gl_pathc, out_path, hash, bytes, err);
        break;
    case GLOB_NOMATCH:
        err_set(err, ERR_USAGE,
                "data.train \"%s\" matches no file in \"%s\"; paths are relative to the "
                "job's file",
                pattern, folder);
        break;
    default:
        err_set(err, ERR_USAGE, "could not look for data.train \"%s\" in \"%s\"", pattern,
                folder);
    }
    globfree(&found);
    return result;
}
