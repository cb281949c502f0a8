/*
 * loop.h - a thread's reactor: timers, descriptors, sockets.
 *
 *     turn:  wait -> read the clock -> timers -> sockets and descriptors -> after
 *
 * One thread owns a loop and everything registered with it. The time is read once per
 * turn. Handlers may register and cancel anything, themselves included; what is cancelled
 * is not called again, not even in this turn. A loop that was held up (a stopped process,
 * a long handler) fires each timer once, not once per period missed.
 */
#ifndef TRANSPORT_LOOP_H
#define TRANSPORT_LOOP_H

#include "transport/base/err.h"

#include <stdint.h>

struct loop;

typedef void (*loop_timer_fn)(void *arg);
typedef void (*loop_fd_fn)(void *arg, int fd);

/* Before the first loop of a process: libzmq's context with `io_threads` I/O threads, no
 * signal handling of its own. */
int loop_setup(int io_threads, struct err *err);
void loop_teardown(void); /* after the last socket is closed */

struct loop *loop_new(void);
void loop_free(struct loop *loop);

/* Run until loop_stop(). */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

int64_t loop_now_ms(const struct loop *loop);

/* Every `every_ms`, until cancelled; returns a number > 0. */
int loop_timer(struct loop *loop, int64_t every_ms, loop_timer_fn fn, void *arg);
void loop_timer_cancel(struct loop *loop, int timer);

/* When `fd` is readable. A handler that cancels its own descriptor is fine. Cancel before
 * the descriptor is closed; one descriptor has one watch at a time. */
void loop_fd(struct loop *loop, int fd, loop_fd_fn fn, void *arg);
void loop_fd_cancel(struct loop *loop, int fd);

/* Called after each turn's events: the place where effects gathered in this turn are
 * carried out. */
void loop_after(struct loop *loop, loop_timer_fn fn, void *arg);

/* ---- for the other files of transport: a libzmq socket, when it can be read from ----
 */

void *loop_context(void); /* of loop_setup(); all sockets share it with the ZAP handler */

/* Cancel before the socket is closed. */
void loop_socket(struct loop *loop, void *socket, loop_timer_fn fn, void *arg);
void loop_socket_cancel(struct loop *loop, const void *socket);
/* To be said after each call on a watched socket that is not made by its own handler, for
 * the call may have taken in the news that the loop waits for. A socket that is not
 * watched is passed over. */
void loop_socket_used(struct loop *loop, const void *socket);

#endif
