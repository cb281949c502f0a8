#include "transport/loop.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/must.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <zmq.h>

/*
 * libzmq's own calls rather than czmq's: zloop has no place to act after a turn, stops
 * when a signal arrives, and catches up on every period that a stopped process has
 * missed; zsys does not start cleanly a second time in a process, and its exit handler
 * waits for sockets that an error left open.
 */

enum { SOCKETS_MAX = 16384 };

struct timer {
    int number;
    int64_t every_ms;
    int64_t at_ms;
    loop_timer_fn fn; /* NULL: cancelled */
    void *arg;
};

struct watch {
    void *socket; /* or NULL: a descriptor */
    int fd;
    bool cancelled;
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
    struct watch *watches;
    size_t watches_count, watches_capacity;
    zmq_pollitem_t *items; /* one per watch, in its place */
    size_t items_count, items_capacity;
    bool changed; /* watches no longer agree with items */
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
    return xcalloc(1, sizeof(struct loop));
}

void
loop_free(struct loop *loop)
{
    if (!loop)
        return;
    must(!loop->running);
    free(loop->timers);
    free(loop->watches);
    free(loop->items);
    free(loop->after);
    free(loop);
}

/* Drop what was cancelled, and give libzmq the list as it is now. */
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

    kept = 0;
    for (size_t i = 0; i < loop->watches_count; i++)
        if (!loop->watches[i].cancelled)
            loop->watches[kept++] = loop->watches[i];
    loop->watches_count = kept;
    if (loop->items_capacity < kept) {
        loop->items_capacity = loop->watches_capacity;
        loop->items = xrealloc(loop->items, loop->items_capacity, sizeof(*loop->items));
    }
    for (size_t i = 0; i < kept; i++)
        loop->items[i] = (zmq_pollitem_t){
            .socket = loop->watches[i].socket,
            .fd = loop->watches[i].fd,
            .events = ZMQ_POLLIN,
        };
    loop->items_count = kept;
    loop->changed = false;
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

static void
serve_watches(struct loop *loop)
{
    for (size_t i = 0; i < loop->items_count && !loop->stopped; i++) {
        const struct watch *watch = &loop->watches[i];
        if (!loop->items[i].revents || watch->cancelled)
            continue;
        if (watch->socket)
            watch->socket_fn(watch->arg);
        else
            watch->fd_fn(watch->arg, watch->fd);
    }
}

static void
turn(struct loop *loop)
{
    settle(loop);
    int rc = zmq_poll(loop->items, (int)loop->items_count, patience_ms(loop));
    if (rc < 0 && errno == ETERM) {
        loop->stopped = true;
        return;
    }
    must(rc >= 0 ||
         errno == EINTR); /* else a socket was closed before it was cancelled */
    loop->now_ms = clock_ms();
    fire_timers(loop);
    if (rc > 0)
        serve_watches(loop);
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

static void
watch_add(struct loop *loop, struct watch watch)
{
    loop->watches = grow(loop->watches, loop->watches_count, &loop->watches_capacity,
                         sizeof(*loop->watches));
    loop->watches[loop->watches_count++] = watch;
    loop->changed = true;
}

static void
watch_cancel(struct loop *loop, const void *socket, int fd)
{
    for (size_t i = 0; i < loop->watches_count; i++) {
        struct watch *watch = &loop->watches[i];
        if (watch->socket == socket && watch->fd == fd)
            watch->cancelled = loop->changed = true;
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
    watch_add(loop,
              (struct watch){.socket = socket, .fd = -1, .socket_fn = fn, .arg = arg});
}

void
loop_socket_cancel(struct loop *loop, const void *socket)
{
    watch_cancel(loop, socket, -1);
}
