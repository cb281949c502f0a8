/*
 * file.h - files that are whole or not there.
 */
#ifndef TRANSPORT_BASE_FILE_H
#define TRANSPORT_BASE_FILE_H

#include "transport/base/buf.h"
#include "transport/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Read a whole file of at most `bytes_max` bytes; appended to `buf`. A pipe is read to its end; one
 * that nobody writes to is given up after two seconds. */
int file_read(const char *path, size_t bytes_max, struct buf *buf, struct err *err);

/* Whether `path` may be replaced: it is not there, or is a regular file. ERR_SYSTEM with a
 * sentence for a folder, a device, a FIFO, a socket or a symbolic link, which is not followed. */
int file_check_replace(const char *path, struct err *err);

/* Are both there, and the same file by whatever names? */
bool file_same(const char *left, const char *right);

/* Replace `path`, if file_check_replace() lets it: write a neighbour, fsync it, rename it, fsync the folder. After a
 * crash at any point the old or the new content is there. */
int file_write(const char *path, const void *data, size_t bytes, mode_t mode,
               struct err *err);

/* Write all bytes at an offset of an open file, or say why not ("no space left on
 * device"). */
int file_write_at(int fd, const void *data, size_t bytes, off_t offset, const char *path,
                  struct err *err);

/* Make a folder and its parents (0700). An existing folder is no error. */
int file_make_folder(const char *path, struct err *err);

/* Make a rename in `folder` durable. */
int file_sync_folder(const char *folder, struct err *err);

bool file_exists(const char *path);

/* Remove a folder and all that is in it; what is not there is no error. Does not follow
 * links. */
int file_remove_tree(const char *path, struct err *err);

/* Take an exclusive lock on `path` (made if absent) for the life of the process;
 * ERR_LIMIT when another process holds it. Returns the descriptor. */
int file_lock(const char *path, struct err *err);

/* Join with one "/"; returns `out`. Aborts if it does not fit in PATH_BYTES_MAX. */
char *path_join(char out[], const char *folder, const char *name);

#endif
