/*
 * A whole node's control socket: any bytes as requests of local commands, one a line, in
 * pieces. Each is done, waited for, or refused with a sentence; what comes back is lines of
 * JSON, of which the last before the node hangs up says "done" or "error". Only "leave" and
 * "recover" move the swarm.
 *
 * The first byte says how large the pieces are. The loop is invented: the fuzzer calls what
 * it would have called.
 */
#include "node/node.h"
#include "node/status.h"
#include "tests/fuzz/leader.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/json.h"
#include "transport/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __wrap_loop_fd(struct loop *loop, int fd, loop_fd_fn fn, void *arg);
void __wrap_loop_fd_cancel(struct loop *loop, int fd);
int __wrap_loop_timer(struct loop *loop, int64_t every_ms, loop_timer_fn fn, void *arg);

enum { WATCHES_MAX = 64, LINE_BYTES_MAX = 16 << 20 };

/* ---- the loop ---- */

static struct watch_on {
    int fd;
    loop_fd_fn fn;
    void *arg;
} watches[WATCHES_MAX];
static int watches_count, last_fd = -1;
static loop_timer_fn flush; /* the control socket's: registered right behind it */

static bool
listens(int fd)
{
    int so = 0;
    socklen_t len = sizeof(so);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &so, &len) == 0 && so;
}

void
__wrap_loop_fd(struct loop *loop, int fd, loop_fd_fn fn, void *arg)
{
    (void)loop;
    must(watches_count < WATCHES_MAX);
    watches[watches_count++] = (struct watch_on){fd, fn, arg};
    last_fd = fd;
}

void
__wrap_loop_fd_cancel(struct loop *loop, int fd)
{
    (void)loop;
    for (int i = 0; i < watches_count; i++)
        if (watches[i].fd == fd)
            watches[i--] = watches[--watches_count];
}

int
__wrap_loop_timer(struct loop *loop, int64_t every_ms, loop_timer_fn fn, void *arg)
{
    static int number;
    (void)loop, (void)every_ms, (void)arg;
    if (last_fd >= 0 && listens(last_fd))
        flush = fn;
    last_fd = -1;
    return ++number;
}

static bool
watched(int fd)
{
    for (int i = 0; i < watches_count; i++)
        if (watches[i].fd == fd)
            return true;
    return false;
}

static void
turn(int fd)
{
    for (int i = 0; i < watches_count; i++)
        if (watches[i].fd == fd) {
            watches[i].fn(watches[i].arg, fd);
            return;
        }
}

/* ---- the node ---- */

static struct leader leader;
static int listener;

static void
setup(void)
{
    watches_count = 0;
    leader_open(&leader);
    listener = -1;
    for (int i = 0; i < watches_count; i++)
        if (listens(watches[i].fd))
            listener = watches[i].fd;
    must(listener >= 0 && flush);
}

/* ---- the command ---- */

static int
dial(void)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(where.sun_path, sizeof(where.sun_path), "%s/one/" STATUS_SOCKET_FILE,
             leader.folder);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&where, sizeof(where)) == 0);
    return fd;
}

/* What the node said so far. */
static void
hear(int fd, struct buf *said)
{
    uint8_t block[4096];
    ssize_t got;
    while ((got = recv(fd, block, sizeof(block), MSG_DONTWAIT)) > 0)
        buf_add(said, block, (size_t)got);
}

static void
check_said(const struct buf *said, bool closed)
{
    size_t at = 0;
    bool ended = false;
    while (at < said->len) {
        const uint8_t *end = memchr(said->data + at, '\n', said->len - at);
        struct err err = {0};
        must(end);
        size_t len = (size_t)(end - said->data) - at;
        struct json *line =
            json_parse((const char *)said->data + at, len, LINE_BYTES_MAX, &err);
        must(line && json_is_object(line));
        const char *error = json_text(json_get(line, "error"), NULL);
        bool done = json_bool(json_get(line, "done"), false);
        must(!error || (error[0] && strlen(error) < ERR_MSG_SIZE));
        must(done + (error != NULL) + (json_get(line, "event") != NULL) == 1);
        ended = done || error;
        json_free(line);
        at += len + 1;
    }
    must(!closed || ended || said->len == 0);
}

static void
talk(const uint8_t *data, size_t size, size_t piece)
{
    struct buf said = {0};
    int fd = dial();
    turn(listener);
    int theirs = last_fd;
    must(theirs != listener && watched(theirs));
    for (size_t at = 0; at < size && watched(theirs); at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        must(send(fd, data + at, len, MSG_NOSIGNAL) == (ssize_t)len);
        for (size_t i = 0; i < len && watched(theirs); i += 16384)
            turn(theirs);
        hear(fd, &said);
    }
    flush(leader.node);
    hear(fd, &said);
    check_said(&said, !watched(theirs));
    close(fd);
    if (watched(theirs))
        turn(theirs);
    must(!watched(theirs));
    buf_release(&said);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!leader.node)
        setup();
    if (size < 1)
        return 0;
    struct node *node = leader.node;
    uint64_t epoch = node->decree.epoch;
    uint32_t generation = node->decree.generation;
    talk(data + 1, size - 1, data[0] % 8 == 0 ? 1 + data[0] / 8 : 65536);
    must(node->decree.epoch == epoch || node->decree.generation > generation);
    /* The next input meets the node as this one did. */
    lead_reset(node);
    if (node->leaving_ms || node->decree.epoch != epoch) {
        leader_close(&leader);
        setup();
    }
    return 0;
}
