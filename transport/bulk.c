#include "transport/bulk.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/must.h"
#include "transport/bulk_parts.h"

#include <stdlib.h>
#include <string.h>

enum { CONTROL_MESSAGES = 64, EVENTS_MAX = 4096 };

enum control_kind {
    CONTROL_ENTER,
    CONTROL_HALT,
    CONTROL_PROBE,
    CONTROL_CUT,
    CONTROL_CLOSE
};

struct control {
    enum control_kind kind;
    struct bulk_epoch *epoch; /* changes hands */
    int peer;
    size_t bytes;
    int64_t bytes_per_s;
    struct id node;
};

/* ---- events ---- */

static void
events_flush(struct bulk *bulk)
{
    struct bulk_event event;
    while (flow_take_event(bulk->flow, &event)) {
        bool may_be_lost = event.kind != BULK_LOST && event.kind != BULK_UP;
        if (!bulk->late_count && mailbox_put(bulk->events, &event))
            continue;
        if (may_be_lost)
            continue;
        if (bulk->late_count == bulk->late_capacity) {
            bulk->late_capacity = bulk->late_capacity ? 2 * bulk->late_capacity : 16;
            bulk->late = xrealloc(bulk->late, bulk->late_capacity, sizeof(*bulk->late));
        }
        bulk->late[bulk->late_count++] = event;
    }
    size_t put = 0;
    while (put < bulk->late_count && mailbox_put(bulk->events, &bulk->late[put]))
        put++;
    if (put)
        memmove(bulk->late, bulk->late + put,
                (bulk->late_count - put) * sizeof(*bulk->late));
    bulk->late_count -= put;
}

/* ---- what other threads ask ---- */

static void
serve_control(struct bulk *bulk)
{
    struct control control;
    while (mailbox_take(bulk->control, &control)) {
        switch (control.kind) {
        case CONTROL_ENTER:
            flow_enter(bulk->flow, control.epoch, clock_us());
            link_renew(bulk, control.epoch);
            free(control.epoch);
            break;
        case CONTROL_HALT:
            flow_halt(bulk->flow);
            break;
        case CONTROL_PROBE:
            flow_probe(bulk->flow, control.peer, control.bytes, control.bytes_per_s,
                       clock_us());
            break;
        case CONTROL_CUT:
            listener_cut(bulk->listener, &control.node);
            break;
        case CONTROL_CLOSE:
            flow_halt(bulk->flow);
            bulk->closing = true;
            break;
        }
    }
}

static void
serve_ports(struct bulk *bulk)
{
    struct flow_op op;
    for (int i = 0; i < BULK_PORTS; i++)
        while (port_take(bulk->ports[i], &op)) {
            /* Control said "enter" before the user's thread heard of the epoch, but into
             * another mailbox. */
            serve_control(bulk);
            flow_post(bulk->flow, &op);
        }
}

static void
dones_flush(struct bulk *bulk)
{
    struct flow_done done;
    while (flow_take_done(bulk->flow, &done))
        port_done(bulk->ports[done.port], &done);
}

/* ---- the thread ---- */

static void
turn(void *arg)
{
    struct bulk *bulk = arg;
    serve_control(bulk);
    serve_ports(bulk);
    dones_flush(bulk);
    if (bulk->closing) {
        loop_stop(bulk->loop);
        return;
    }
    bool more = wire_serve(bulk);
    wire_send_credits(bulk);
    more |= wire_send_chunks(bulk);
    carry_serve(bulk);
    dones_flush(bulk);
    events_flush(bulk);
    if (more || !wire_idle(bulk)) {
        char byte = 0;
        mailbox_put(bulk->again, &byte);
    }
}

static void
woken(void *arg, int fd)
{
    struct bulk *bulk = arg;
    (void)fd;
    mailbox_clear(bulk->control);
    for (int i = 0; i < BULK_PORTS; i++)
        port_clear(bulk->ports[i]);
    mailbox_clear(bulk->again);
    char byte;
    while (mailbox_take(bulk->again, &byte))
        continue;
}

static void
stirred(void *arg, int fd)
{
    (void)arg;
    (void)fd; /* all sockets are looked at in each turn */
}

static void *
run(void *arg)
{
    struct bulk *bulk = arg;
    loop_run(bulk->loop);
    link_close(bulk);
    listener_close(bulk->listener);
    return NULL;
}

struct bulk *
bulk_open(const struct bulk_options *options, struct err *err)
{
    struct loop *loop = loop_new();
    struct listener *listener =
        listener_open(loop, SOCKET_BULK, key_curve_secret(options->key), &options->listen,
                      NULL, NULL, err);
    if (!listener) {
        loop_free(loop);
        return NULL;
    }
    struct bulk *bulk = xcalloc(1, sizeof(*bulk));
    bulk->loop = loop;
    bulk->listener = listener;
    bulk->key = options->key;
    bulk->routes = options->routes;
    bulk->current = PORT_EPOCH_NONE;
    bulk->control = mailbox_new(sizeof(struct control), CONTROL_MESSAGES);
    bulk->events = mailbox_new(sizeof(struct bulk_event), EVENTS_MAX);
    bulk->again = mailbox_new(1, 1);
    bulk->flow = flow_new();
    bulk->inner = xcalloc(1, CHUNK_CARRY_BYTES_MAX);
    bulk->sealed = xcalloc(1, CHUNK_CARRY_BYTES_MAX);
    listener_watch(listener, link_back_closed, bulk);
    loop_fd(loop, mailbox_fd(bulk->control), woken, bulk);
    loop_fd(loop, mailbox_fd(bulk->again), woken, bulk);
    for (int i = 0; i < BULK_PORTS; i++) {
        bulk->ports[i] = port_new((enum bulk_port_kind)i, &bulk->current);
        loop_fd(loop, port_fd(bulk->ports[i]), woken, bulk);
    }
    bulk->router_fd = wire_fd(listener_socket(listener));
    loop_fd(loop, bulk->router_fd, stirred, bulk);
    loop_after(loop, turn, bulk);
    must(pthread_create(&bulk->thread, NULL, run, bulk) == 0);
    return bulk;
}

/* ---- the control thread ---- */

/* The bulk thread never waits for us, so a full mailbox empties soon. */
static void
tell(struct bulk *bulk, const struct control *control)
{
    while (!mailbox_put(bulk->control, control))
        clock_sleep_ms(1);
}

void
bulk_close(struct bulk *bulk)
{
    if (!bulk)
        return;
    bulk->current = PORT_EPOCH_NONE;
    tell(bulk, &(struct control){.kind = CONTROL_CLOSE});
    must(pthread_join(bulk->thread, NULL) == 0);
    loop_free(bulk->loop);
    flow_free(bulk->flow);
    for (int i = 0; i < BULK_PORTS; i++)
        port_free(bulk->ports[i]);
    mailbox_free(bulk->control);
    mailbox_free(bulk->events);
    mailbox_free(bulk->again);
    free(bulk->late);
    free(bulk->inner);
    free(bulk->sealed);
    free(bulk);
}

void
bulk_enter(struct bulk *bulk, const struct bulk_epoch *epoch)
{
    must(epoch->epoch != PORT_EPOCH_NONE && epoch->peers_count >= 0);
    size_t peers_bytes = (size_t)epoch->peers_count * sizeof(*epoch->peers);
    struct bulk_epoch *copy = xcalloc(1, sizeof(*copy) + peers_bytes);
    *copy = *epoch;
    memcpy(copy + 1, epoch->peers, peers_bytes);
    copy->peers = (const struct bulk_peer *)(copy + 1);
    uint64_t current = epoch->self < 0 ? PORT_EPOCH_NONE : epoch->epoch;
    /* In this order: who sees the new epoch in force finds it in the mailbox, too. */
    tell(bulk, &(struct control){.kind = CONTROL_ENTER, .epoch = copy});
    atomic_store_explicit(&bulk->current, current, memory_order_release);
}

void
bulk_halt(struct bulk *bulk)
{
    atomic_store_explicit(&bulk->current, PORT_EPOCH_NONE, memory_order_release);
    tell(bulk, &(struct control){.kind = CONTROL_HALT});
}

void
bulk_probe(struct bulk *bulk, int peer, size_t bytes, int64_t bytes_per_s)
{
    must(bytes > 0);
    tell(bulk, &(struct control){.kind = CONTROL_PROBE,
                                 .peer = peer,
                                 .bytes = bytes,
                                 .bytes_per_s = bytes_per_s});
}

void
bulk_cut(struct bulk *bulk, const struct id *node)
{
    tell(bulk, &(struct control){.kind = CONTROL_CUT, .node = *node});
}

void
bulk_carried(const struct bulk *bulk, uint64_t *chunks, uint64_t *bytes)
{
    *chunks = bulk->carried;
    *bytes = bulk->carried_bytes;
}

int
bulk_event_fd(const struct bulk *bulk)
{
    return mailbox_fd(bulk->events);
}

bool
bulk_event_take(struct bulk *bulk, struct bulk_event *event)
{
    if (mailbox_take(bulk->events, event))
        return true;
    mailbox_clear(bulk->events);
    return mailbox_take(bulk->events, event);
}

struct bulk_port *
bulk_port(struct bulk *bulk, enum bulk_port_kind kind)
{
    must(kind >= 0 && kind < BULK_PORTS);
    return bulk->ports[kind];
}
