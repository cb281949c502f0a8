/*
 * system.h - the calls that the linker leads to system.c, and the real ones behind them.
 */
#ifndef TESTS_SIM_SYSTEM_H
#define TESTS_SIM_SYSTEM_H

#include "node/view.h"
#include "planner/next.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

int64_t system_real_ms(void); /* the clock on the wall of whoever runs the simulator */

#define WRAPPED(type, name, ...)                                                         \
    type __wrap_##name(__VA_ARGS__);                                                     \
    type __real_##name(__VA_ARGS__);

WRAPPED(int, socket, int, int, int)
WRAPPED(int, bind, int, const struct sockaddr *, socklen_t)
WRAPPED(int, listen, int, int)
WRAPPED(int, accept4, int, struct sockaddr *, socklen_t *, int)
WRAPPED(ssize_t, recv, int, void *, size_t, int)
WRAPPED(ssize_t, send, int, const void *, size_t, int)
WRAPPED(int, signalfd, int, const sigset_t *, int)
WRAPPED(int, sigprocmask, int, const sigset_t *, sigset_t *)
WRAPPED(int, open, const char *, int, ...)
WRAPPED(int, close, int)
WRAPPED(ssize_t, read, int, void *, size_t)
WRAPPED(ssize_t, write, int, const void *, size_t)
WRAPPED(ssize_t, pwrite, int, const void *, size_t, off_t)
WRAPPED(int, fsync, int)
WRAPPED(int, rename, const char *, const char *)
WRAPPED(int, unlink, const char *)
WRAPPED(int, mkdir, const char *, mode_t)
WRAPPED(int, access, const char *, int)
WRAPPED(int, stat, const char *, struct stat *)
WRAPPED(int, lstat, const char *, struct stat *)
WRAPPED(int, fstat, int, struct stat *)
WRAPPED(int, flock, int, int)
WRAPPED(DIR *, opendir, const char *)
WRAPPED(struct dirent *, readdir, DIR *)
WRAPPED(int, closedir, DIR *)
WRAPPED(int, clock_gettime, clockid_t, struct timespec *)
int __wrap_printf(const char *, ...) __attribute__((format(printf, 1, 2)));
WRAPPED(void, randombytes_buf, void *, size_t)
WRAPPED(void *, sodium_malloc, size_t)
WRAPPED(void, sodium_free, void *)
WRAPPED(int, crypto_sign_seed_keypair, unsigned char *, unsigned char *,
        const unsigned char *)
WRAPPED(int, crypto_sign_detached, unsigned char *, unsigned long long *,
        const unsigned char *, unsigned long long, const unsigned char *)
WRAPPED(int, crypto_sign_verify_detached, const unsigned char *, const unsigned char *,
        unsigned long long, const unsigned char *)
WRAPPED(int, crypto_sign_ed25519_sk_to_curve25519, unsigned char *, const unsigned char *)
WRAPPED(int, crypto_sign_ed25519_pk_to_curve25519, unsigned char *, const unsigned char *)
WRAPPED(int, crypto_box_seal, unsigned char *, const unsigned char *, unsigned long long,
        const unsigned char *)
WRAPPED(int, crypto_box_seal_open, unsigned char *, const unsigned char *,
        unsigned long long, const unsigned char *, const unsigned char *)
WRAPPED(int, sodium_mlock, void *, size_t)
WRAPPED(int, view_judge, const struct decree *, const struct view *,
        const struct decree *, const struct view *, struct err *)
WRAPPED(int, plan_next, const struct plan_request *, const struct cluster *,
        const struct plan *, struct plan *, struct err *)

#endif
