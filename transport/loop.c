#include "transport/loop.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/must.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

/*
 * libzmq's own calls rather than czmq's: zloop has no place to act after a turn, stops
 * when a signal arrives, and catches up on every period that a stopped process has
 * missed; zsys does not start cleanly a second time in a process, and its exit handler
 * waits for sockets that an error left open.
 *
 * And the kernel's epoll rather than zmq_poll(), which looks at every socket twice each
 * time that one of them has something: with a hundred connections that is nearly all
 * that an idle node does. A socket's descriptor is readable while libzmq has something
 * to tell its socket; any call on the socket may take that in, and after one (`stirred`)
 * the socket itself is asked before the loop sleeps.
 */

enum {
    SOCKETS_MAX = 16384,
    EVENTS_MAX = 128, /* descriptors served in one turn */
    LOOK_ALL_MS =
        250, /* all sockets are asked: should one be stirred and nobody say so */
    PLACES_MIN = 64
};

struct timer {
    int number;
    int64_t every_ms;
    int64_t at_ms;
    loop_timer_fn fn; /* NULL: cancelled */
    void *arg;
};

struct watch {
    void *socket; /* or NULL: a descriptor */
    int fd;       /* the socket's own, then */
    bool cancelled;
    bool stirred; /* in the list */
    bool ready;   /* it can be read from */
    loop_timer_fn socket_fn;
    loop_fd_fn fd_fn;
    void *arg;
};

struct after {
    loop_timer_fn fn;
    void *arg;
};

struct loop {
    int64_t now_ms;
    bool running;
    bool stopped;
    int timer_last;

    struct timer *timers;
    size_t timers_count, timers_capacity;
    int epoll;
    struct watch **watches;
    size_t watches_count, watches_capacity;
    bool changed;          /* some are cancelled, or are not in their place yet */
    struct watch **places; /* of sockets, by their address; a power of two of them */
    size_t places_count;
    struct watch **stirred; /* sockets to be asked before the loop sleeps */
    size_t stirred_count, stirred_capacity;
    int64_t look_all_ms;
    struct after *after;
    size_t after_count, after_capacity;
};

static void *context; /* of the process; set before threads start */

/* Room for one more element in a list that doubles. */
static void *
grow(void *list, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    *capacity = *capacity ? *capacity * 2 : 16;
    return xrealloc(list, *capacity, size);
}

int
loop_setup(int io_threads, struct err *err)
{
    must(io_threads > 0);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (context)
        return err_set(err, ERR_SYSTEM, "cannot start libzmq: it is running already");
    context = zmq_ctx_new();
    if (!context)
        return err_set_errno(err, "cannot start libzmq");
    zmq_ctx_set(context, ZMQ_IO_THREADS, io_threads);
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    return 0;
}

void
loop_teardown(void)
{
    while (context && zmq_ctx_term(context) != 0)
        must(errno == EINTR);
    context = NULL;
}

struct loop *
loop_new(void)
{
    struct loop *loop = xcalloc(1, sizeof(*loop));
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    must(loop->epoll >= 0); /* a process that has no descriptor left for its first loop */
    return loop;
}

void
loop_free(struct loop *loop)
{
    if (!loop)
        return;
    must(!loop->running);
    for (size_t i = 0; i < loop->watches_count; i++)
        free(loop->watches[i]);
    close(loop->epoll);
    free(loop->timers);
    free(loop->watches);
    free(loop->places);
    free(loop->stirred);
    free(loop->after);
    free(loop);
}

/* Where a socket's watch is among the places, or the free place where it should be. */
static size_t
place_of(const struct loop *loop, const void *socket)
{
    size_t at = (size_t)((uintptr_t)socket >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        at &= loop->places_count - 1;
        if (!loop->places[at] || loop->places[at]->socket == socket)
            return at;
    }
}

static void
place_all(struct loop *loop)
{
    size_t wanted = PLACES_MIN;
    while (wanted < 2 * loop->watches_count)
        wanted *= 2;
    free(loop->places);
    loop->places = xcalloc(wanted, sizeof(struct watch *));
    loop->places_count = wanted;
    for (size_t i = 0; i < loop->watches_count; i++)
        if (loop->watches[i]->socket)
            loop->places[place_of(loop, loop->watches[i]->socket)] = loop->watches[i];
}

static void
drop_cancelled(struct loop *loop)
{
    size_t kept = 0;
    for (size_t i = 0; i < loop->stirred_count; i++)
        if (!loop->stirred[i]->cancelled)
            loop->stirred[kept++] = loop->stirred[i];
    loop->stirred_count = kept;
    kept = 0;
    for (size_t i = 0; i < loop->watches_count; i++) {
        if (loop->watches[i]->cancelled)
            free(loop->watches[i]);
        else
            loop->watches[kept++] = loop->watches[i];
    }
    loop->watches_count = kept;
}

static void
settle(struct loop *loop)
{
    size_t kept = 0;
    for (size_t i = 0; i < loop->timers_count; i++)
        if (loop->timers[i].fn)
            loop->timers[kept++] = loop->timers[i];
    loop->timers_count = kept;
    if (!loop->changed)
        return;
    drop_cancelled(loop);
    place_all(loop);
    loop->changed = false;
}

static void
stir(struct loop *loop, struct watch *watch)
{
    if (watch->stirred)
        return;
    watch->stirred = true;
    loop->stirred = grow(loop->stirred, loop->stirred_count, &loop->stirred_capacity,
                         sizeof(struct watch *));
    loop->stirred[loop->stirred_count++] = watch;
}

/* Asks the socket, which takes in what its descriptor tells of. */
static void
ask(struct loop *loop, struct watch *watch)
{
    int events = 0;
    size_t size = sizeof(events);
    int rc = zmq_getsockopt(watch->socket, ZMQ_EVENTS, &events, &size);
    if (rc < 0 && errno == ETERM)
        loop->stopped = true;
    must(rc == 0 || errno == ETERM ||
         errno == EINTR); /* else a socket was closed before it was cancelled */
    watch->ready = rc == 0 && (events & ZMQ_POLLIN);
}

/* Asks the stirred ones, and keeps those that can be read from. */
static bool
ask_stirred(struct loop *loop)
{
    size_t kept = 0;
    if (loop->now_ms - loop->look_all_ms >= LOOK_ALL_MS) {
        loop->look_all_ms = loop->now_ms;
        for (size_t i = 0; i < loop->watches_count; i++)
            if (loop->watches[i]->socket)
                stir(loop, loop->watches[i]);
    }
    for (size_t i = 0; i < loop->stirred_count; i++) {
        struct watch *watch = loop->stirred[i];
        ask(loop, watch);
        watch->stirred = watch->ready;
        if (watch->ready)
            loop->stirred[kept++] = watch;
    }
    loop->stirred_count = kept;
    return kept > 0;
}

/* How long the loop may sleep; -1: until something happens. */
static int64_t
patience_ms(const struct loop *loop)
{
    int64_t first = -1;
    for (size_t i = 0; i < loop->timers_count; i++)
        if (first < 0 || loop->timers[i].at_ms < first)
            first = loop->timers[i].at_ms;
    if (first < 0)
        return -1;
    int64_t now = clock_ms();
    return first > now ? first - now : 0;
}

static void
fire_timers(struct loop *loop)
{
    size_t count = loop->timers_count; /* those made meanwhile wait for the next turn */
    for (size_t i = 0; i < count && !loop->stopped; i++) {
        struct timer *timer = &loop->timers[i];
        if (!timer->fn || timer->at_ms > loop->now_ms)
            continue;
        timer->at_ms += timer->every_ms;
        if (timer->at_ms <= loop->now_ms)
            timer->at_ms = loop->now_ms + timer->every_ms;
        timer->fn(timer->arg); /* may move the list */
    }
}

/* Whoever is read from is asked again: its handler may have left something. */
static void
serve_sockets(struct loop *loop)
{
    size_t count =
        loop->stirred_count; /* those stirred meanwhile wait for the next turn */
    for (size_t i = 0; i < count && !loop->stopped; i++) {
        struct watch *watch = loop->stirred[i];
        if (!watch->ready || watch->cancelled)
            continue;
        watch->ready = false;
        watch->socket_fn(watch->arg);
    }
}

static void
serve_descriptors(struct loop *loop, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count && !loop->stopped; i++) {
        const struct watch *watch = events[i].data.ptr;
        if (!watch->socket && !watch->cancelled)
            watch->fd_fn(watch->arg, watch->fd);
    }
}

static void
turn(struct loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    settle(loop);
    bool some = ask_stirred(loop);
    int64_t patience = some ? 0 : patience_ms(loop);
    if (patience < 0 || patience > LOOK_ALL_MS)
        patience = LOOK_ALL_MS;
    int count = epoll_wait(loop->epoll, events, EVENTS_MAX, (int)patience);
    must(count >= 0 || errno == EINTR);
    loop->now_ms = clock_ms();
    for (int i = 0; i < count; i++) {
        struct watch *watch = events[i].data.ptr;
        if (!watch->socket)
            continue;
        stir(loop, watch);
        ask(loop, watch);
    }
    if (loop->stopped)
        return;
    fire_timers(loop);
    serve_sockets(loop);
    serve_descriptors(loop, events, count);
    for (size_t i = 0; i < loop->after_count; i++)
        loop->after[i].fn(loop->after[i].arg);
}

void
loop_run(struct loop *loop)
{
    must(!loop->running);
    loop->running = true;
    loop->now_ms = clock_ms();
    while (!loop->stopped)
        turn(loop);
    loop->stopped = false;
    loop->running = false;
}

void
loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

int64_t
loop_now_ms(const struct loop *loop)
{
    return loop->running ? loop->now_ms : clock_ms();
}

int
loop_timer(struct loop *loop, int64_t every_ms, loop_timer_fn fn, void *arg)
{
    must(fn && every_ms > 0 && loop->timer_last < INT32_MAX);
    loop->timers = grow(loop->timers, loop->timers_count, &loop->timers_capacity,
                        sizeof(*loop->timers));
    loop->timers[loop->timers_count++] = (struct timer){
        .number = ++loop->timer_last,
        .every_ms = every_ms,
        .at_ms = loop_now_ms(loop) + every_ms,
        .fn = fn,
        .arg = arg,
    };
    return loop->timer_last;
}

void
loop_timer_cancel(struct loop *loop, int timer)
{
    for (size_t i = 0; i < loop->timers_count; i++)
        if (loop->timers[i].number == timer)
            loop->timers[i].fn = NULL;
}

static struct watch *
watch_add(struct loop *loop, struct watch watch)
{
    loop->watches = grow(loop->watches, loop->watches_count, &loop->watches_capacity,
                         sizeof(struct watch *));
    struct watch *added = xmemdup(&watch, sizeof(watch));
    loop->watches[loop->watches_count++] = added;
    loop->changed = true;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = added};
    int rc = epoll_ctl(loop->epoll, EPOLL_CTL_ADD, added->fd, &event);
    must(rc == 0); /* else it is not open, or watched already */
    return added;
}

static void
watch_cancel(struct loop *loop, const void *socket, int fd)
{
    for (size_t i = 0; i < loop->watches_count; i++) {
        struct watch *watch = loop->watches[i];
        if (watch->cancelled || watch->socket != socket || (!socket && watch->fd != fd))
            continue;
        watch->cancelled = loop->changed = true;
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    }
}

void
loop_fd(struct loop *loop, int fd, loop_fd_fn fn, void *arg)
{
    must(fd >= 0 && fn);
    watch_add(loop, (struct watch){.fd = fd, .fd_fn = fn, .arg = arg});
}

void
loop_fd_cancel(struct loop *loop, int fd)
{
    watch_cancel(loop, NULL, fd);
}

void
loop_after(struct loop *loop, loop_timer_fn fn, void *arg)
{
    must(fn);
    loop->after =
        grow(loop->after, loop->after_count, &loop->after_capacity, sizeof(*loop->after));
    loop->after[loop->after_count++] = (struct after){fn, arg};
}

void *
loop_context(void)
{
    must(context);
    return context;
}

void
loop_socket(struct loop *loop, void *socket, loop_timer_fn fn, void *arg)
{
    must(socket && fn);
    int fd = -1;
    size_t size = sizeof(fd);
    int rc = zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    must(rc == 0);
    stir(loop,
         watch_add(loop, (struct watch){
                             .socket = socket, .fd = fd, .socket_fn = fn, .arg = arg}));
}

void
loop_socket_cancel(struct loop *loop, const void *socket)
{
    must(socket);
    watch_cancel(loop, socket, -1);
}

void
loop_socket_used(struct loop *loop, const void *socket)
{
    if (loop->places_count == 0)
        return; /* none has a place yet: all are asked first */
    struct watch *watch = loop->places[place_of(loop, socket)];
    if (watch && !watch->cancelled)
        stir(loop, watch);
}
