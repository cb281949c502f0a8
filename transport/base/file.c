#include "transport/base/file.h"
#include "transport/base/limits.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITER_MS = 2000 }; /* how long a pipe's writer may be late */

static bool
is_fifo(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

/* Is there something to read, within so many milliseconds (-1: for ever)? The end of a pipe is
 * not. */
static bool
readable(int fd, int wait_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int found;
    do
        found = poll(&one, 1, wait_ms);
    while (found < 0 && errno == EINTR);
    return found > 0 && (one.revents & POLLIN);
}

int
file_read(const char *path, size_t bytes_max, struct buf *buf, struct err *err)
{
    /* A FIFO that nobody writes to must not hold us up: whose writer is there says EAGAIN. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set_errno(err, "could not open \"%s\"", path);
    int result = -1;
    size_t start = buf->len;
    char block[65536];
    for (;;) {
        ssize_t got = read(fd, block, sizeof(block));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN) {
            readable(fd, -1);
            continue;
        }
        if (got < 0) {
            err_set_errno(err, "could not read \"%s\"", path);
            goto out;
        }
        if (got == 0 && buf->len == start && is_fifo(fd)) {
            if (readable(fd, WRITER_MS))
                continue;
            err_set(err, ERR_SYSTEM, "could not read \"%s\": nobody writes to this pipe",
                    path);
            goto out;
        }
        if (got == 0)
            break;
        if (buf->len - start + (size_t)got > bytes_max) {
            err_set(err, ERR_LIMIT, "file \"%s\" is larger than %zu bytes", path,
                    bytes_max);
            goto out;
        }
        buf_add(buf, block, (size_t)got);
    }
    result = 0;
out:
    close(fd);
    return result;
}

int
file_write_at(int fd, const void *data, size_t bytes, off_t offset, const char *path,
              struct err *err)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t done = pwrite(fd, at, bytes, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_set_errno(err, "could not write \"%s\"", path);
        at += done;
        bytes -= (size_t)done;
        offset += done;
    }
    return 0;
}

int
file_check_replace(const char *path, struct err *err)
{
    struct stat status;
    if (lstat(path, &status))
        return errno == ENOENT ? 0 : err_set_errno(err, "could not look at \"%s\"", path);
    if (S_ISREG(status.st_mode))
        return 0;
    return err_set(err, ERR_SYSTEM, "\"%s\" is %s, which is not replaced; name a file",
                   path,
                   S_ISDIR(status.st_mode)    ? "a folder"
                   : S_ISLNK(status.st_mode)  ? "a symbolic link"
                   : S_ISFIFO(status.st_mode) ? "a FIFO"
                   : S_ISSOCK(status.st_mode) ? "a socket"
                                              : "a device");
}

bool
file_same(const char *left, const char *right)
{
    struct stat one, other;
    return stat(left, &one) == 0 && stat(right, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int
file_write(const char *path, const void *data, size_t bytes, mode_t mode, struct err *err)
{
    char temporary[PATH_BYTES_MAX + 8], folder[PATH_BYTES_MAX];
    must(strlen(path) < PATH_BYTES_MAX);
    if (file_check_replace(path, err))
        return -1;
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    /* What a crash left there has its own mode, and may be a link: it goes first. */
    if (unlink(temporary) && errno != ENOENT)
        return err_set_errno(err, "could not remove \"%s\"", temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return err_set_errno(err, "could not create \"%s\"", temporary);
    if (file_write_at(fd, data, bytes, 0, temporary, err))
        goto fail;
    if (!MUTANT(unsynced) && fsync(fd)) {
        err_set_errno(err, "could not sync \"%s\"", temporary);
        goto fail;
    }
    close(fd);
    fd = -1;
    if (rename(temporary, path)) {
        err_set_errno(err, "could not rename \"%s\" to \"%s\"", temporary, path);
        goto fail;
    }
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash)
        return file_sync_folder(".", err);
    slash[slash == folder] = '\0';
    return file_sync_folder(folder, err);
fail:
    if (fd >= 0)
        close(fd);
    unlink(temporary);
    return -1;
}

int
file_make_folder(const char *path, struct err *err)
{
    char part[PATH_BYTES_MAX];
    must(*path && strlen(path) < sizeof(part));
    snprintf(part, sizeof(part), "%s", path);
    for (char *at = part + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char kept = *at;
        *at = '\0';
        if (mkdir(part, 0700) && errno != EEXIST)
            return err_set_errno(err, "could not make the folder \"%s\"", part);
        *at = kept;
        if (kept == '\0')
            break;
    }
    struct stat status;
    if (stat(path, &status) || !S_ISDIR(status.st_mode))
        return err_set(err, ERR_SYSTEM, "\"%s\" is not a folder", path);
    return 0;
}

int
file_sync_folder(const char *folder, struct err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, "could not open the folder \"%s\"", folder);
    int failed = fsync(fd);
    close(fd);
    if (failed)
        return err_set_errno(err, "could not sync the folder \"%s\"", folder);
    return 0;
}

bool
file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int
remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

int
file_remove_tree(const char *path, struct err *err)
{
    struct stat status;
    if (lstat(path, &status) && errno == ENOENT)
        return 0;
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS))
        return err_set_errno(err, "could not remove \"%s\"", path);
    return 0;
}

int
file_lock(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, "could not open \"%s\"", path);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            err_set(err, ERR_LIMIT, "\"%s\" is locked by another process", path);
        else
            err_set_errno(err, "could not lock \"%s\"", path);
        close(fd);
        return -1;
    }
    return fd;
}

char *
path_join(char out[], const char *folder, const char *name)
{
    size_t len = strlen(folder);
    const char *between = len > 0 && folder[len - 1] == '/' ? "" : "/";
    int used = snprintf(out, PATH_BYTES_MAX, "%s%s%s", folder, between, name);
    must(used > 0 && used < PATH_BYTES_MAX);
    return out;
}
