/*
 * system.c - the operating system and libsodium as nodes see them: calls that the linker
 * leads here instead (--wrap, see the Makefile). Whatever does not belong to an invented
 * host goes on to the real call.
 */
#include "tests/sim/system.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKETS_MAX = 256, SOCKET_FIRST = 1 << 21 };

/* ---- sockets and signals: descriptors of the control loop ---- */

enum socket_kind { SOCKET_FREE, SOCKET_LISTENS, SOCKET_TALKS, SOCKET_OTHER };

static struct {
    enum socket_kind kind;
    int host;
    uint64_t life;
    bool accepted;
    void (*answer)(struct host *host, const char *text, size_t len);
    uint8_t *in; /* what the command says, owned */
    size_t in_len;
} sockets[SOCKETS_MAX];

static int
socket_new(enum socket_kind kind, const struct host *host)
{
    for (int i = 0; i < SOCKETS_MAX; i++) {
        if (sockets[i].kind != SOCKET_FREE)
            continue;
        sockets[i].kind = kind;
        sockets[i].host = host->index;
        sockets[i].life = host->life;
        sockets[i].accepted = false;
        sockets[i].answer = NULL;
        return SOCKET_FIRST + i;
    }
    errno = EMFILE;
    return -1;
}

static bool
socket_fd(int fd)
{
    return fd >= SOCKET_FIRST && fd < SOCKET_FIRST + SOCKETS_MAX;
}

static void
socket_close(int fd)
{
    int i = fd - SOCKET_FIRST;
    free(sockets[i].in);
    memset(&sockets[i], 0, sizeof(sockets[i]));
}

void
system_ask(struct host *host, const char *request,
           void (*fn)(struct host *host, const char *text, size_t len))
{
    if (!host->node)
        return;
    int fd = socket_new(SOCKET_TALKS, host);
    if (fd < 0)
        return;
    sockets[fd - SOCKET_FIRST].in = xmemdup(request, strlen(request));
    sockets[fd - SOCKET_FIRST].in_len = strlen(request);
    sockets[fd - SOCKET_FIRST].answer = fn;
    for (int i = 0; i < SOCKETS_MAX; i++)
        if (sockets[i].kind == SOCKET_LISTENS && sockets[i].host == host->index &&
            sockets[i].life == host->life)
            loop_ready(host, SOCKET_FIRST + i);
}

void
system_say(struct host *host, const char *request)
{
    system_ask(host, request, NULL);
}

void
system_open(void)
{
    memset(sockets, 0, sizeof(sockets));
}

void
system_close(void)
{
    for (int i = 0; i < SOCKETS_MAX; i++)
        socket_close(SOCKET_FIRST + i);
}

int
__wrap_socket(int family, int type, int protocol)
{
    return here ? socket_new(SOCKET_LISTENS, here)
                : __real_socket(family, type, protocol);
}

int
__wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    return socket_fd(fd) ? 0 : __real_bind(fd, address, len);
}

int
__wrap_listen(int fd, int count)
{
    return socket_fd(fd) ? 0 : __real_listen(fd, count);
}

int
__wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    if (!socket_fd(fd))
        return __real_accept4(fd, address, len, flags);
    for (int i = 0; i < SOCKETS_MAX; i++) {
        if (sockets[i].kind != SOCKET_TALKS || sockets[i].accepted ||
            sockets[i].host != here->index || sockets[i].life != here->life)
            continue;
        sockets[i].accepted = true;
        loop_ready(here, SOCKET_FIRST + i);
        return SOCKET_FIRST + i;
    }
    errno = EAGAIN;
    return -1;
}

ssize_t
__wrap_recv(int fd, void *out, size_t len, int flags)
{
    if (!socket_fd(fd))
        return __real_recv(fd, out, len, flags);
    int i = fd - SOCKET_FIRST;
    if (sockets[i].in_len == 0) {
        errno = EAGAIN;
        return -1;
    }
    size_t got = sockets[i].in_len < len ? sockets[i].in_len : len;
    memcpy(out, sockets[i].in, got);
    memmove(sockets[i].in, sockets[i].in + got, sockets[i].in_len - got);
    sockets[i].in_len -= got;
    if (sockets[i].in_len > 0)
        loop_ready(here, fd);
    return (ssize_t)got;
}

ssize_t
__wrap_send(int fd, const void *data, size_t len, int flags)
{
    if (!socket_fd(fd))
        return __real_send(fd, data, len, flags);
    world_say("answers %.*s", (int)(len < 160 ? len : 160), (const char *)data);
    if (sockets[fd - SOCKET_FIRST].answer)
        sockets[fd - SOCKET_FIRST].answer(here, data, len);
    return (ssize_t)len;
}

int
__wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    return here ? socket_new(SOCKET_OTHER, here) : __real_signalfd(fd, set, flags);
}

int
__wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return here ? 0 : __real_sigprocmask(how, set, old);
}

/* ---- files ---- */

int
__wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return disk_is(path) ? disk_open(path, flags) : __real_open(path, flags, mode);
}

int
__wrap_close(int fd)
{
    if (disk_fd(fd))
        return disk_close(fd);
    if (!socket_fd(fd))
        return __real_close(fd);
    socket_close(fd);
    return 0;
}

ssize_t
__wrap_read(int fd, void *out, size_t len)
{
    return disk_fd(fd) ? disk_read(fd, out, len) : __real_read(fd, out, len);
}

ssize_t
__wrap_write(int fd, const void *data, size_t len)
{
    return disk_fd(fd) ? disk_write(fd, data, len, -1) : __real_write(fd, data, len);
}

ssize_t
__wrap_pwrite(int fd, const void *data, size_t len, off_t offset)
{
    return disk_fd(fd) ? disk_write(fd, data, len, offset)
                       : __real_pwrite(fd, data, len, offset);
}

int
__wrap_fsync(int fd)
{
    return disk_fd(fd) ? disk_sync(fd) : __real_fsync(fd);
}

int
__wrap_rename(const char *from, const char *to)
{
    return disk_is(from) ? disk_rename(from, to) : __real_rename(from, to);
}

int
__wrap_unlink(const char *path)
{
    return disk_is(path) ? disk_unlink(path) : __real_unlink(path);
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    return disk_is(path) || strcmp(path, "/sim") == 0 ? disk_mkdir(path)
                                                      : __real_mkdir(path, mode);
}

int
__wrap_access(const char *path, int mode)
{
    if (!disk_is(path))
        return __real_access(path, mode);
    errno = ENOENT;
    return disk_exists(path) ? 0 : -1;
}

static int
status_of(bool there, bool folder, long size, struct stat *status)
{
    memset(status, 0, sizeof(*status));
    if (!there) {
        errno = ENOENT;
        return -1;
    }
    status->st_mode = folder ? S_IFDIR | 0700 : S_IFREG | 0600;
    status->st_size = size < 0 ? 0 : size;
    return 0;
}

int
__wrap_stat(const char *path, struct stat *status)
{
    return disk_is(path) ? status_of(disk_exists(path), disk_is_folder(path), 0, status)
                         : __real_stat(path, status);
}

int
__wrap_lstat(const char *path, struct stat *status)
{
    return disk_is(path) ? status_of(disk_exists(path), disk_is_folder(path), 0, status)
                         : __real_lstat(path, status);
}

int
__wrap_fstat(int fd, struct stat *status)
{
    return disk_fd(fd) ? status_of(true, disk_size(fd) < 0, disk_size(fd), status)
                       : __real_fstat(fd, status);
}

int
__wrap_flock(int fd, int operation)
{
    return disk_fd(fd) ? 0 : __real_flock(fd, operation);
}

/* ---- folders: an invented DIR is told by its place in this table ---- */

static struct folder {
    char path[256]; /* empty: free */
    size_t at;
    struct dirent entry;
} folders[4];

static struct folder *
folder_of(DIR *dir)
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        if ((void *)dir == (void *)&folders[i])
            return &folders[i];
    return NULL;
}

DIR *
__wrap_opendir(const char *path)
{
    if (!disk_is(path))
        return __real_opendir(path);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        if (folders[i].path[0])
            continue;
        snprintf(folders[i].path, sizeof(folders[i].path), "%s", path);
        folders[i].at = 0;
        return (DIR *)(void *)&folders[i];
    }
    errno = EMFILE;
    return NULL;
}

struct dirent *
__wrap_readdir(DIR *dir)
{
    struct folder *folder = folder_of(dir);
    if (!folder)
        return __real_readdir(dir);
    const char *name = disk_name(folder->path, folder->at++);
    if (!name)
        return NULL;
    snprintf(folder->entry.d_name, sizeof(folder->entry.d_name), "%s", name);
    return &folder->entry;
}

int
__wrap_closedir(DIR *dir)
{
    struct folder *folder = folder_of(dir);
    if (!folder)
        return __real_closedir(dir);
    folder->path[0] = '\0';
    return 0;
}

/* ---- time ---- */

int
__wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!world.hosts_count)
        return __real_clock_gettime(clock, now);
    int64_t us = here ? host_clock_us(here) : world.now_us;
    if (clock == CLOCK_REALTIME)
        us = INT64_C(1700000000) * SECOND + world.now_us;
    now->tv_sec = us / SECOND;
    now->tv_nsec = us % SECOND * 1000;
    return 0;
}

int64_t
system_real_ms(void)
{
    struct timespec now;
    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A founder's line for its user. */
int
__wrap_printf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int written = here ? 0 : vprintf(fmt, ap);
    va_end(ap);
    return written;
}

/* ---- libsodium ---- */

void
__wrap_randombytes_buf(void *out, size_t bytes)
{
    struct rng *rng = here ? &here->rng : &world.rng;
    for (uint8_t *at = out; bytes > 0;) {
        uint64_t word = rng_next(rng);
        size_t some = bytes < sizeof(word) ? bytes : sizeof(word);
        memcpy(at, &word, some);
        at += some;
        bytes -= some;
    }
}

/* Pages of their own are slow to make. */
void *
__wrap_sodium_malloc(size_t bytes)
{
    return xcalloc(1, bytes);
}

void
__wrap_sodium_free(void *memory)
{
    free(memory);
}

/*
 * Nobody forges anything here, so that a keyed hash does for a signature, and a hash for
 * a public key; SipHash, since most messages are short and are signed and checked often.
 * Some seeds run with the real ones.
 */
static void
invented_signature(unsigned char *out, const unsigned char *data,
                   unsigned long long bytes, const unsigned char *id)
{
    crypto_shorthash_siphashx24(out, data, bytes, id);
    for (size_t at = crypto_shorthash_siphashx24_BYTES; at < 64; at++)
        out[at] =
            (unsigned char)(out[at - crypto_shorthash_siphashx24_BYTES] ^ id[at % 32]);
}

int
__wrap_crypto_sign_seed_keypair(unsigned char *id, unsigned char *secret,
                                const unsigned char *seed)
{
    if (world.real_keys)
        return __real_crypto_sign_seed_keypair(id, secret, seed);
    crypto_generichash(id, 32, seed, 32, NULL, 0);
    memcpy(secret, seed, 32);
    memcpy(secret + 32, id, 32);
    return 0;
}

int
__wrap_crypto_sign_detached(unsigned char *signature, unsigned long long *len,
                            const unsigned char *data, unsigned long long bytes,
                            const unsigned char *secret)
{
    if (world.real_keys)
        return __real_crypto_sign_detached(signature, len, data, bytes, secret);
    invented_signature(signature, data, bytes, secret + 32);
    return 0;
}

int
__wrap_crypto_sign_verify_detached(const unsigned char *signature,
                                   const unsigned char *data, unsigned long long bytes,
                                   const unsigned char *id)
{
    unsigned char again[64];
    if (world.real_keys)
        return __real_crypto_sign_verify_detached(signature, data, bytes, id);
    invented_signature(again, data, bytes, id);
    return memcmp(again, signature, 64) == 0 ? 0 : -1;
}

int
__wrap_crypto_sign_ed25519_sk_to_curve25519(unsigned char *curve,
                                            const unsigned char *secret)
{
    if (world.real_keys)
        return __real_crypto_sign_ed25519_sk_to_curve25519(curve, secret);
    memcpy(curve, secret, 32);
    return 0;
}

int
__wrap_crypto_sign_ed25519_pk_to_curve25519(unsigned char *curve, const unsigned char *id)
{
    if (world.real_keys)
        return __real_crypto_sign_ed25519_pk_to_curve25519(curve, id);
    memcpy(curve, id, 32);
    return 0;
}

/* The real one draws random numbers of its own. */
int
__wrap_crypto_box_seal(unsigned char *sealed, const unsigned char *data,
                       unsigned long long bytes, const unsigned char *id)
{
    memcpy(sealed, data, bytes);
    return crypto_generichash(sealed + bytes, crypto_box_SEALBYTES, data, bytes, id, 32);
}

int
__wrap_crypto_box_seal_open(unsigned char *data, const unsigned char *sealed,
                            unsigned long long len, const unsigned char *id,
                            const unsigned char *secret)
{
    unsigned char again[crypto_box_SEALBYTES];
    (void)secret;
    if (len < sizeof(again))
        return -1;
    crypto_generichash(again, sizeof(again), sealed, len - sizeof(again), id, 32);
    if (memcmp(again, sealed + len - sizeof(again), sizeof(again)) != 0)
        return -1;
    memcpy(data, sealed, len - sizeof(again));
    return 0;
}

int
__wrap_sodium_mlock(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return 0;
}

/* ---- what is watched on its way ---- */

int
__wrap_view_judge(const struct decree *decree, const struct view *view,
                  const struct decree *before, const struct view *current,
                  struct err *err)
{
    int result = __real_view_judge(decree, view, before, current, err);
    struct id hash;
    decree_hash(decree, &hash);
    if (result == 0)
        check_judged(here, &hash);
    return result;
}

/* Another version of the planner: what it finds differs. */
int
__wrap_plan_next(const struct plan_request *request, const struct cluster *cluster,
                 const struct plan *in_force, struct plan *plan, struct err *err)
{
    int result = __real_plan_next(request, cluster, in_force, plan, err);
    if (result == 0 && here && here->contrary)
        plan->predicted_step_ns++;
    return result;
}
