/*
 * loop.c - the reactor of a node (transport/loop.h), its event log (node/events.h) and
 * its log (transport/base/log.h) in the invented world.
 */
#include "transport/loop.h"
#include "node/events.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMERS_MAX = 64, WATCHES_MAX = 64 };

struct loop {
    struct host *host;
    bool stopped;
    int timers_count; /* ever */
    struct {
        int64_t every_ms; /* 0: cancelled */
        loop_timer_fn fn;
        void *arg;
    } timers[TIMERS_MAX];
    struct {
        int fd; /* 0: free */
        loop_fd_fn fn;
        void *arg;
    } watches[WATCHES_MAX];
};

int
loop_setup(int io_threads, struct err *err)
{
    (void)io_threads;
    (void)err;
    return 0;
}

void
loop_teardown(void)
{
}

struct loop *
loop_new(void)
{
    struct loop *loop = xcalloc(1, sizeof(*loop));
    loop->host = here;
    here->loop = loop;
    return loop;
}

void
loop_free(struct loop *loop)
{
    free(loop);
}

void
loop_run(struct loop *loop)
{
    (void)loop; /* the world runs it */
}

void
loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

bool
loop_stopped(const struct loop *loop)
{
    return loop->stopped;
}

int64_t
loop_now_ms(const struct loop *loop)
{
    (void)loop;
    return clock_ms();
}

/* ---- timers ---- */

static void fire(struct event *event);

static void
arm(struct loop *loop, int at)
{
    const struct host *host = loop->host;
    int64_t us = loop->timers[at].every_ms * 1000 * 1000000 / host->rate_ppm;
    struct event *event = world_in(us, host, fire);
    event->urgent = true;
    event->a = at;
}

static void
fire(struct event *event)
{
    struct loop *loop = here->loop;
    int at = (int)event->a;
    if (loop->stopped || loop->timers[at].every_ms == 0)
        return;
    arm(loop, at);
    loop->timers[at].fn(loop->timers[at].arg);
}

int
loop_timer(struct loop *loop, int64_t every_ms, loop_timer_fn fn, void *arg)
{
    must(loop->timers_count < TIMERS_MAX && every_ms > 0);
    int at = loop->timers_count++;
    loop->timers[at].every_ms = every_ms;
    loop->timers[at].fn = fn;
    loop->timers[at].arg = arg;
    arm(loop, at);
    return at + 1;
}

void
loop_timer_cancel(struct loop *loop, int timer)
{
    loop->timers[timer - 1].every_ms = 0;
}

/* ---- descriptors ---- */

void
loop_fd(struct loop *loop, int fd, loop_fd_fn fn, void *arg)
{
    for (int i = 0; i < WATCHES_MAX; i++) {
        if (loop->watches[i].fd)
            continue;
        loop->watches[i].fd = fd;
        loop->watches[i].fn = fn;
        loop->watches[i].arg = arg;
        return;
    }
    must(false);
}

void
loop_fd_cancel(struct loop *loop, int fd)
{
    for (int i = 0; i < WATCHES_MAX; i++)
        if (loop->watches[i].fd == fd)
            loop->watches[i].fd = 0;
}

static void
ready(struct event *event)
{
    struct loop *loop = here->loop;
    int fd = (int)event->a;
    for (int i = 0; i < WATCHES_MAX && !loop->stopped; i++)
        if (loop->watches[i].fd == fd) {
            loop->watches[i].fn(loop->watches[i].arg, fd);
            return;
        }
}

void
loop_ready(struct host *host, int fd)
{
    world_in(20, host, ready)->a = fd;
}

void
loop_after(struct loop *loop, loop_timer_fn fn, void *arg)
{
    (void)loop;
    (void)fn;
    (void)arg;
    must(false); /* no node uses it */
}

/* ---- the event log: nothing is written; who follows gets the lines ---- */

struct events {
    struct buf line;
    struct json_writer writer;
    void (*follow)(void *arg, const char *text, size_t len);
    void *arg;
};

struct events *
events_open(const char *folder, struct err *err)
{
    (void)folder;
    (void)err;
    return xcalloc(1, sizeof(struct events));
}

void
events_close(struct events *events)
{
    if (events)
        buf_release(&events->line);
    free(events);
}

struct json_writer *
events_begin(struct events *events, const char *event)
{
    buf_clear(&events->line);
    here->fenced += strcmp(event, "fenced") == 0;
    json_begin(&events->writer, &events->line);
    json_object_open(&events->writer, NULL);
    json_put_int(&events->writer, "mono_ms", clock_ms());
    json_put_text(&events->writer, "event", event);
    return &events->writer;
}

void
events_end(struct events *events)
{
    json_object_close(&events->writer);
    buf_add(&events->line, "\n", 1);
    if (events->follow)
        events->follow(events->arg, (const char *)events->line.data, events->line.len);
}

void
events_follow(struct events *events,
              void (*line)(void *arg, const char *text, size_t len), void *arg)
{
    events->follow = line;
    events->arg = arg;
}

/* ---- the log: part of the story when it is told ---- */

void
log_setup(enum log_level level, bool json)
{
    (void)level;
    (void)json;
}

bool
log_site_open(struct log_site *site, unsigned *left_out)
{
    (void)site; /* one for all nodes and seeds: it must remember nothing */
    *left_out = 0;
    return world.trace;
}

void
log_write(enum log_level level, const char *subsystem, const char *fmt, ...)
{
    if (!world.trace || level == LOG_DEBUG)
        return;
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    world_say("%s: %s", subsystem, text);
}
