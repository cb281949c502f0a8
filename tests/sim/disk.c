#include "tests/sim/disk.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FD_FIRST = 1 << 20, FDS_MAX = 64, NAME_SIZE = 160, OPS_MAX = 256 };

static const char root[] = "/sim/";

/* A file's bytes, as the process sees them and as the platter has them. */
struct inode {
    int links; /* names in either view, and open descriptors */
    uint8_t *data;
    size_t len, room;
    uint8_t *synced;
    size_t synced_len;
};

struct name {
    char text[NAME_SIZE]; /* below the host's folder; "" is that folder */
    struct inode *inode;  /* NULL: a folder */
};

/* The names of a disk, ascending. */
struct names {
    struct name *list;
    size_t count, room;
};

/* A change to the names that no sync has made durable: from == "" is a new name, to == ""
 * a removal. */
struct change {
    char from[NAME_SIZE], to[NAME_SIZE];
    struct inode *inode;
};

struct disk {
    int index;
    struct names now, durable;
    struct change changes[OPS_MAX];
    size_t changes_count;
};

static struct {
    struct disk *disk;   /* NULL: free */
    struct inode *inode; /* NULL: a folder */
    size_t at;
} fds[FDS_MAX];

/* ---- inodes and names ---- */

static void
inode_drop(struct inode *inode)
{
    if (!inode || --inode->links > 0)
        return;
    free(inode->data);
    free(inode->synced);
    free(inode);
}

static size_t
place(const struct names *names, const char *text)
{
    size_t at = 0;
    while (at < names->count && strcmp(names->list[at].text, text) < 0)
        at++;
    return at;
}

static struct name *
find(const struct names *names, const char *text)
{
    size_t at = place(names, text);
    return at < names->count && strcmp(names->list[at].text, text) == 0 ? &names->list[at]
                                                                        : NULL;
}

static void
put(struct names *names, const char *text, struct inode *inode)
{
    struct name *old = find(names, text);
    if (inode)
        inode->links++;
    if (old) {
        inode_drop(old->inode);
        old->inode = inode;
        return;
    }
    if (names->count == names->room) {
        names->room = names->room ? names->room * 2 : 16;
        names->list = xrealloc(names->list, names->room, sizeof(*names->list));
    }
    size_t at = place(names, text);
    memmove(&names->list[at + 1], &names->list[at],
            (names->count - at) * sizeof(*names->list));
    names->count++;
    snprintf(names->list[at].text, NAME_SIZE, "%s", text);
    names->list[at].inode = inode;
}

static void
take(struct names *names, const char *text)
{
    struct name *name = find(names, text);
    if (!name)
        return;
    inode_drop(name->inode);
    size_t at = (size_t)(name - names->list);
    names->count--;
    memmove(name, name + 1, (names->count - at) * sizeof(*name));
}

static void
names_free(struct names *names)
{
    while (names->count > 0)
        take(names, names->list[names->count - 1].text);
    free(names->list);
    *names = (struct names){0};
}

/* ---- changes that a sync makes durable ---- */

static void
carry(struct disk *disk, struct change *change)
{
    if (change->from[0])
        take(&disk->durable, change->from);
    if (change->to[0])
        put(&disk->durable, change->to, change->inode);
    inode_drop(change->inode);
}

/* The first `count` become durable; the others are forgotten. */
static void
settle(struct disk *disk, size_t count)
{
    for (size_t i = 0; i < disk->changes_count; i++) {
        if (i < count)
            carry(disk, &disk->changes[i]);
        else
            inode_drop(disk->changes[i].inode);
    }
    disk->changes_count = 0;
}

static void
note(struct disk *disk, const char *from, const char *to, struct inode *inode)
{
    if (disk->changes_count == OPS_MAX)
        settle(disk, OPS_MAX / 2 < disk->changes_count ? disk->changes_count : 0);
    struct change *change = &disk->changes[disk->changes_count++];
    snprintf(change->from, NAME_SIZE, "%s", from);
    snprintf(change->to, NAME_SIZE, "%s", to);
    change->inode = inode;
    if (inode)
        inode->links++;
}

/* ---- faults ---- */

/* The machine stops in the middle of this call: errno is for nobody. */
static bool
stops(const struct disk *disk)
{
    struct host *host = &world.hosts[disk->index];
    if (host->dying) {
        errno = EIO;
        return true;
    }
    if (!world_chance(world.faults.crash_disk_ppm))
        return false;
    host->dying = true;
    errno = EIO;
    return true;
}

/* ---- the calls ---- */

bool
disk_is(const char *path)
{
    return strncmp(path, root, sizeof(root) - 1) == 0;
}

bool
disk_fd(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + FDS_MAX;
}

const char *
disk_folder(const struct host *host)
{
    static char paths[4][32];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s%d", root, host->index);
    return path;
}

/* The disk of a path, and the name on it. */
static struct disk *
resolve(const char *path, char name[NAME_SIZE])
{
    char *end;
    long index = strtol(path + sizeof(root) - 1, &end, 10);
    must(index >= 0 && index < world.hosts_count && (*end == '/' || !*end));
    must(snprintf(name, NAME_SIZE, "%s", *end ? end + 1 : "") < NAME_SIZE);
    return world.hosts[index].disk;
}

int
disk_open(const char *path, int flags)
{
    char name[NAME_SIZE];
    struct disk *disk = resolve(path, name);
    struct name *found = find(&disk->now, name);
    if (!found && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (found && (flags & O_EXCL) && (flags & O_CREAT)) {
        errno = EEXIST;
        return -1;
    }
    if (!found) {
        if (stops(disk))
            return -1;
        struct inode *inode = xcalloc(1, sizeof(*inode));
        put(&disk->now, name, inode);
        note(disk, "", name, inode);
        found = find(&disk->now, name);
    }
    for (int i = 0; i < FDS_MAX; i++) {
        if (fds[i].disk)
            continue;
        fds[i].disk = disk;
        fds[i].inode = found->inode;
        fds[i].at = 0;
        if (found->inode)
            found->inode->links++;
        return FD_FIRST + i;
    }
    errno = EMFILE;
    return -1;
}

int
disk_close(int fd)
{
    inode_drop(fds[fd - FD_FIRST].inode);
    fds[fd - FD_FIRST].inode = NULL;
    fds[fd - FD_FIRST].disk = NULL;
    return 0;
}

long
disk_read(int fd, void *out, size_t len)
{
    const struct inode *inode = fds[fd - FD_FIRST].inode;
    size_t at = fds[fd - FD_FIRST].at;
    if (!inode) {
        errno = EISDIR;
        return -1;
    }
    size_t got = at < inode->len ? inode->len - at : 0;
    got = got < len ? got : len;
    if (got > 0)
        memcpy(out, inode->data + at, got);
    fds[fd - FD_FIRST].at += got;
    return (long)got;
}

long
disk_write(int fd, const void *data, size_t len, long offset)
{
    struct inode *inode = fds[fd - FD_FIRST].inode;
    if (!inode || stops(fds[fd - FD_FIRST].disk))
        return -1;
    if (world_chance(world.faults.full_disk_ppm)) {
        errno = ENOSPC;
        return -1;
    }
    size_t at = offset < 0 ? inode->len : (size_t)offset;
    if (at + len > inode->room) {
        inode->room = at + len;
        inode->data = xrealloc(inode->data, inode->room, 1);
    }
    if (at > inode->len)
        memset(inode->data + inode->len, 0, at - inode->len);
    if (len > 0)
        memcpy(inode->data + at, data, len);
    if (at + len > inode->len)
        inode->len = at + len;
    return (long)len;
}

static void
inode_sync(struct inode *inode)
{
    free(inode->synced);
    inode->synced = xmemdup(inode->data, inode->len);
    inode->synced_len = inode->len;
}

int
disk_sync(int fd)
{
    struct disk *disk = fds[fd - FD_FIRST].disk;
    struct inode *inode = fds[fd - FD_FIRST].inode;
    if (stops(disk))
        return -1;
    if (inode)
        inode_sync(inode);
    else
        settle(disk, disk->changes_count);
    /* Or right after it. */
    return stops(disk) ? -1 : 0;
}

int
disk_rename(const char *from, const char *to)
{
    char old[NAME_SIZE], new[NAME_SIZE];
    struct disk *disk = resolve(from, old);
    must(resolve(to, new) == disk);
    struct name *found = find(&disk->now, old);
    if (!found) {
        errno = ENOENT;
        return -1;
    }
    if (stops(disk))
        return -1;
    struct inode *inode = found->inode;
    inode->links++;
    note(disk, old, new, inode);
    take(&disk->now, old);
    put(&disk->now, new, inode);
    inode_drop(inode);
    return stops(disk) ? -1 : 0;
}

int
disk_unlink(const char *path)
{
    char name[NAME_SIZE];
    struct disk *disk = resolve(path, name);
    if (!find(&disk->now, name)) {
        errno = ENOENT;
        return -1;
    }
    if (stops(disk))
        return -1;
    note(disk, name, "", NULL);
    take(&disk->now, name);
    return 0;
}

int
disk_mkdir(const char *path)
{
    char name[NAME_SIZE];
    if (!disk_is(path) || strcmp(path, "/sim") == 0) {
        errno = EEXIST;
        return -1;
    }
    struct disk *disk = resolve(path, name);
    if (!name[0] || find(&disk->now, name)) {
        errno = EEXIST;
        return -1;
    }
    put(&disk->now, name, NULL);
    put(&disk->durable, name, NULL); /* an empty folder that is there or not: no matter */
    return 0;
}

bool
disk_exists(const char *path)
{
    char name[NAME_SIZE];
    const struct disk *disk = resolve(path, name);
    return !name[0] || find(&disk->now, name);
}

bool
disk_is_folder(const char *path)
{
    char name[NAME_SIZE];
    const struct disk *disk = resolve(path, name);
    const struct name *found = find(&disk->now, name);
    return !name[0] || (found && !found->inode);
}

long
disk_size(int fd)
{
    const struct inode *inode = fds[fd - FD_FIRST].inode;
    return inode ? (long)inode->len : -1;
}

const char *
disk_name(const char *folder, size_t at)
{
    char name[NAME_SIZE];
    const struct disk *disk = resolve(folder, name);
    size_t len = strlen(name);
    for (size_t i = 0; i < disk->now.count; i++) {
        const char *text = disk->now.list[i].text;
        if (strncmp(text, name, len) != 0 || (len > 0 && text[len] != '/'))
            continue;
        text += len > 0 ? len + 1 : 0;
        if (!*text || strchr(text, '/'))
            continue;
        if (at-- == 0)
            return text;
    }
    return NULL;
}

/* ---- what befalls it ---- */

void
disk_close_all(struct host *host)
{
    for (int i = 0; i < FDS_MAX; i++)
        if (fds[i].disk == host->disk)
            disk_close(FD_FIRST + i);
}

/* What of the bytes that were not synced is there afterwards. */
static void
tear(struct inode *inode)
{
    bool same = inode->synced_len == inode->len &&
                (inode->len == 0 || memcmp(inode->synced, inode->data, inode->len) == 0);
    if (same)
        return;
    switch (world_below(3)) {
    case 0: /* nothing of it */
        free(inode->data);
        inode->data = xmemdup(inode->synced, inode->synced_len);
        inode->len = inode->room = inode->synced_len;
        break;
    case 1: /* the first part, then rubbish */
        for (size_t i = (size_t)world_below(inode->len + 1); i < inode->len; i++)
            inode->data[i] = 0;
        break;
    default: /* all */
        break;
    }
    inode_sync(inode);
}

void
disk_crash(struct host *host)
{
    struct disk *disk = host->disk;
    if (disk->changes_count > 0)
        settle(disk, (size_t)world_below(disk->changes_count + 1));
    names_free(&disk->now);
    for (size_t i = 0; i < disk->durable.count; i++) {
        struct name *name = &disk->durable.list[i];
        if (name->inode)
            tear(name->inode);
        put(&disk->now, name->text, name->inode);
    }
}

void
disk_wipe(struct host *host, const char *only)
{
    struct disk *disk = host->disk;
    settle(disk, disk->changes_count);
    if (only) {
        take(&disk->now, only);
        take(&disk->durable, only);
        return;
    }
    names_free(&disk->now);
    names_free(&disk->durable);
    put(&disk->now, "", NULL);
    put(&disk->durable, "", NULL);
}

void
disk_put(struct host *host, const char *name, const void *data, size_t len)
{
    struct disk *disk = host->disk;
    struct inode *inode = xcalloc(1, sizeof(*inode));
    inode->data = xmemdup(data, len);
    inode->len = inode->room = len;
    inode_sync(inode);
    settle(disk, disk->changes_count);
    put(&disk->now, name, inode);
    put(&disk->durable, name, inode);
}

bool
disk_get(struct host *host, const char *name, struct buf *out)
{
    const struct name *found = find(&host->disk->now, name);
    if (!found || !found->inode)
        return false;
    buf_add(out, found->inode->data, found->inode->len);
    return true;
}

bool
disk_durable(const struct host *host, const char *name, struct buf *out)
{
    const struct disk *disk = host->disk;
    const struct name *found = find(&disk->durable, name);
    if (!found || !found->inode)
        return false;
    const struct inode *inode = found->inode;
    bool same = inode->synced_len == inode->len &&
                (inode->len == 0 || memcmp(inode->synced, inode->data, inode->len) == 0);
    if (!same)
        return false;
    buf_add(out, inode->synced, inode->synced_len);
    return true;
}

struct disk *
disk_new(int index)
{
    struct disk *disk = xcalloc(1, sizeof(*disk));
    disk->index = index;
    put(&disk->now, "", NULL);
    put(&disk->durable, "", NULL);
    return disk;
}

void
disk_free(struct disk *disk)
{
    if (!disk)
        return;
    settle(disk, 0);
    names_free(&disk->now);
    names_free(&disk->durable);
    free(disk);
}
