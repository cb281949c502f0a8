#include "tests/transport/harness.h"
#include "tests/suite.h"
#include "transport/base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct loop *
harness_open(void)
{
    struct err err;
    ck_assert_int_eq(key_setup(&err), 0);
    ck_assert_int_eq(loop_setup(2, &err), 0);
    return loop_new();
}

void
harness_close(struct loop *loop)
{
    loop_free(loop);
    loop_teardown();
}

static struct sockaddr_in
loopback(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

/* A socket bound to the port, or -1. */
static int
bound(unsigned port)
{
    struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool
port_free(unsigned port)
{
    int fd = bound(port);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

struct address
harness_address(void)
{
    static unsigned last;
    struct address address = {.host = "127.0.0.1"};
    for (int tries = 0; tries < 1000;
         tries++) { /* below the ports that the system hands out */
        unsigned slot = ((unsigned)getpid() * 7 + last++) % 3000;
        address.port = (uint16_t)(20000 + slot * 4);
        if (port_free(address.port) && port_free(address.port + 1U) &&
            port_free(address.port + 2U))
            return address;
    }
    ck_abort_msg("no three free ports in a row");
    return address;
}

struct key *
harness_key(unsigned number)
{
    uint8_t seed[32] = {0};
    memcpy(seed, &number, sizeof(number));
    return key_from_seed(seed);
}

struct wait {
    struct loop *loop;
    bool (*so)(const void *arg);
    const void *arg;
    int64_t until_ms;
    bool was_so;
};

static void
look(void *arg)
{
    struct wait *wait = arg;
    wait->was_so = wait->so && wait->so(wait->arg);
    if (wait->was_so || clock_ms() >= wait->until_ms)
        loop_stop(wait->loop);
}

bool
harness_until(struct loop *loop, bool (*so)(const void *arg), const void *arg, int64_t ms)
{
    struct wait wait = {loop, so, arg, clock_ms() + ms, false};
    int timer = loop_timer(loop, 2, look, &wait);
    loop_run(loop);
    loop_timer_cancel(loop, timer);
    return wait.was_so;
}

void
harness_run(struct loop *loop, int64_t ms)
{
    harness_until(loop, NULL, NULL, ms);
}

int
harness_tcp(const struct address *base, int which)
{
    struct sockaddr_in to = loopback(base->port + (unsigned)which);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

int
harness_hung(const struct address *base, int which)
{
    int fd = bound(base->port + (unsigned)which);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

static int stderr_was = -1;
static FILE *heard;

void
harness_listen(void)
{
    heard = tmpfile();
    ck_assert_ptr_nonnull(heard);
    stderr_was = dup(STDERR_FILENO);
    dup2(fileno(heard), STDERR_FILENO);
}

void
harness_said(char *out, size_t size)
{
    dup2(stderr_was, STDERR_FILENO);
    close(stderr_was);
    rewind(heard);
    size_t len = fread(out, 1, size - 1, heard);
    out[len] = '\0';
    fclose(heard);
    fputs(out, stderr);
}
