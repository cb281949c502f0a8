/*
 * disk.h - the invented disk of a host, behind the C library's calls: the real
 * transport/base/file.c runs on it unchanged (system.c).
 *
 * It tells apart what was written, what was synced, what was renamed, and which renames
 * the folder's sync made durable. A crash keeps, of the changes to the folder that were
 * not synced, any first ones; of a file's bytes that were not synced, all, none, or a torn
 * part.
 */
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "transport/base/buf.h"

#include <stdbool.h>

struct disk;
struct host;

struct disk *disk_new(int index);
void disk_free(struct disk *disk);

const char *disk_folder(const struct host *host); /* "/sim/3"; static storage */
bool disk_is(const char *path);                   /* of some invented disk */
bool disk_fd(int fd);

/* Each may be the last thing that the machine does. */
int disk_open(const char *path, int flags);
int disk_close(int fd);
long disk_read(int fd, void *out, size_t len);
long disk_write(int fd, const void *data, size_t len, long offset); /* -1: at its end */
int disk_sync(int fd);
int disk_rename(const char *from, const char *to);
int disk_unlink(const char *path);
int disk_mkdir(const char *path);
bool disk_exists(const char *path);
long disk_size(int fd);
bool disk_is_folder(const char *path);
/* The names in a folder, one after the other. */
const char *disk_name(const char *folder, size_t at);

void disk_close_all(struct host *host);
void disk_crash(struct host *host);
/* An operator's hand: everything, or one file, is gone; a file is put there. */
void disk_wipe(struct host *host, const char *name);
void disk_put(struct host *host, const char *name, const void *data, size_t len);
bool disk_get(struct host *host, const char *name, struct buf *out);
/* What is there even after the worst crash. */
bool disk_durable(const struct host *host, const char *name, struct buf *out);

#endif
