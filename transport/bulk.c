#include "transport/bulk.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/mailbox.h"
#include "transport/base/must.h"
#include "transport/bulk_port.h"
#include "transport/socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    CONTROL_MESSAGES = 64,
    EVENTS_MAX = 4096,
    FRAMES_PER_TURN =
        32, /* received or sent per socket before other work gets its turn */
    BYTES_PER_TURN = 1 << 20,
    TICK_MS = 20,
    REDIAL_FAST_MS = 20, /* a peer's admission may not know us for a moment */
    REDIAL_SLOW_MS = 100,
    REDIAL_FAST_FOR_MS = 1000,
    LOST_AFTER_MS = 2000
};

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

/* Our connection to a peer of the epoch. */
struct conn {
    struct bulk *bulk;
    struct bulk_peer peer;
    int number;
    struct dial *dial;
    int fd; /* where the dial's socket says that it wants to be looked at */
    bool up;
    bool lost; /* was up, closed: not mended in this epoch */
    int64_t dial_at_ms;
    int64_t began_ms;   /* dialling since */
    int64_t lost_at_ms; /* when to report that it still fails */
};

struct bulk {
    const struct key *key;
    const struct address_routes *routes;
    _Atomic uint64_t
        current; /* epoch in force for the ports; written by the control thread */
    struct mailbox *control, *events;
    struct bulk_port *ports[BULK_PORTS];
    pthread_t thread;

    /* The bulk thread's own. */
    struct loop *loop;
    struct listener *listener;
    int router_fd;
    struct mailbox *again; /* to itself: another turn, there is more to do */
    struct flow *flow;
    struct conn **conns; /* by peer number; NULL for ourselves */
    int conns_count;
    int tick;                /* timer while a connection is missing, or 0 */
    struct bulk_event *late; /* events that found their mailbox full */
    size_t late_count, late_capacity;
    bool closing;
};

/* A chunk that came, in the message that it came in. */
struct frame {
    struct flow_chunk chunk;
    zmq_msg_t msg;
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

static void
report(struct conn *conn, enum bulk_event_kind kind)
{
    flow_report(conn->bulk->flow, kind, conn->number);
}

/* ---- connections ---- */

static void
conn_hang_up(struct conn *conn)
{
    if (!conn->dial)
        return;
    loop_fd_cancel(conn->bulk->loop, conn->fd);
    dial_close(conn->dial);
    conn->dial = NULL;
    conn->up = false;
}

static void
conn_event(void *arg, enum dial_event event)
{
    struct conn *conn = arg;
    if (event == DIAL_UP) {
        conn->up = true;
        flow_up(conn->bulk->flow, conn->number);
        report(conn, BULK_UP);
        return;
    }
    conn_hang_up(conn);
    if (event == DIAL_DOWN) {
        conn->lost = true;
        flow_down(conn->bulk->flow, conn->number);
        report(conn, BULK_LOST);
        return;
    }
    int64_t now = loop_now_ms(conn->bulk->loop);
    bool fast = now - conn->began_ms < REDIAL_FAST_FOR_MS;
    conn->dial_at_ms = now + (fast ? REDIAL_FAST_MS : REDIAL_SLOW_MS);
}

static int
socket_fd(void *socket)
{
    int fd = -1;
    size_t size = sizeof(fd);
    int rc = zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    must(rc == 0);
    return fd;
}

/* What the socket is ready for; also takes in libzmq's news for it, so that its
 * descriptor speaks again. */
static int
socket_events(void *socket)
{
    int events = 0;
    size_t size = sizeof(events);
    int rc = zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size);
    return rc == 0 ? events : 0;
}

static void
stirred(void *arg, int fd)
{
    (void)arg;
    (void)fd; /* all sockets are looked at in each turn */
}

static void
conn_dial(struct conn *conn)
{
    struct bulk *bulk = conn->bulk;
    uint8_t server[KEY_CURVE_BYTES];
    conn->dial_at_ms = loop_now_ms(bulk->loop) + REDIAL_SLOW_MS;
    if (!key_curve_of(&conn->peer.id, server))
        return; /* nobody can have this id; reported as lost after a while */
    struct dial_options options = {
        .plane = SOCKET_BULK,
        .base = bulk->routes ? *address_route(bulk->routes, &conn->peer.base)
                             : conn->peer.base,
        .curve_public = key_curve_public(bulk->key),
        .curve_secret = key_curve_secret(bulk->key),
        .server_public = server,
    };
    struct err err;
    conn->dial = dial_open(bulk->loop, &options, conn_event, conn, &err);
    if (!conn->dial) {
        log_limited(LOG_WARN, "transport", "no bulk connection: %s", err.msg);
        return;
    }
    conn->fd = socket_fd(dial_socket(conn->dial));
    loop_fd(bulk->loop, conn->fd, stirred, conn);
}

/* Dial what is due; report what fails for long. Runs while a connection is missing. */
static void
tick(void *arg)
{
    struct bulk *bulk = arg;
    int64_t now = loop_now_ms(bulk->loop);
    bool missing = false;
    for (int p = 0; p < bulk->conns_count; p++) {
        struct conn *conn = bulk->conns[p];
        if (!conn || conn->up || conn->lost)
            continue;
        missing = true;
        if (!conn->dial && now >= conn->dial_at_ms)
            conn_dial(conn);
        if (now >= conn->lost_at_ms) {
            conn->lost_at_ms = now + LOST_AFTER_MS;
            report(conn, BULK_LOST);
        }
    }
    if (!missing && bulk->tick) {
        loop_timer_cancel(bulk->loop, bulk->tick);
        bulk->tick = 0;
    }
}

static void
conn_free(struct conn *conn)
{
    if (!conn)
        return;
    conn_hang_up(conn);
    free(conn);
}

/* The connection to this peer, if one from the last epoch is healthy: it is kept, since a
 * new one costs round trips. */
static struct conn *
conn_keep(struct conn **old, int old_count, const struct bulk_peer *peer)
{
    for (int i = 0; i < old_count; i++) {
        struct conn *conn = old[i];
        if (!conn || !id_equal(&conn->peer.id, &peer->id) || !conn->up ||
            strcmp(conn->peer.base.host, peer->base.host) != 0 ||
            conn->peer.base.port != peer->base.port)
            continue;
        old[i] = NULL;
        return conn;
    }
    return NULL;
}

static void
conns_renew(struct bulk *bulk, const struct bulk_epoch *epoch)
{
    struct conn **old = bulk->conns;
    int old_count = bulk->conns_count;
    bool member = epoch->self >= 0;
    bulk->conns_count = member ? epoch->peers_count : 0;
    bulk->conns = xcalloc((size_t)bulk->conns_count + 1, sizeof(struct conn *));
    int64_t now = loop_now_ms(bulk->loop);
    for (int p = 0; p < bulk->conns_count; p++) {
        if (p == epoch->self)
            continue;
        struct conn *conn = conn_keep(old, old_count, &epoch->peers[p]);
        if (!conn) {
            conn = xcalloc(1, sizeof(*conn));
            conn->bulk = bulk;
            conn->peer = epoch->peers[p];
        }
        conn->number = p;
        conn->began_ms = conn->dial_at_ms = now;
        conn->lost_at_ms = now + LOST_AFTER_MS;
        bulk->conns[p] = conn;
        if (conn->up)
            conn_event(conn, DIAL_UP);
    }
    for (int i = 0; i < old_count; i++)
        conn_free(old[i]);
    free(old);
    if (!bulk->tick)
        bulk->tick = loop_timer(bulk->loop, TICK_MS, tick, bulk);
    tick(bulk);
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
            conns_renew(bulk, control.epoch);
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

/* ---- what comes in ---- */

static void
frame_release(struct flow_chunk *chunk)
{
    struct frame *frame = (struct frame *)chunk;
    zmq_msg_close(&frame->msg);
    free(frame);
}

static void
refuse(const struct id *from, const char *why)
{
    char text[ID_SHORT_SIZE];
    log_limited(LOG_WARN, "transport", "bulk frame dropped: %s from=%s", why,
                id_short(from, text));
}

/* A message of the ROUTER: its sender's routing id, then a chunk. Takes the second
 * part. */
static void
arrived(struct bulk *bulk, zmq_msg_t *route, zmq_msg_t *msg)
{
    struct id from = {0};
    const char *user = zmq_msg_gets(msg, "User-Id");
    struct frame *frame = xcalloc(1, sizeof(*frame));
    zmq_msg_init(&frame->msg);
    zmq_msg_move(&frame->msg, msg);
    frame->chunk.release = frame_release;
    struct flow_chunk *chunk = &frame->chunk;
    struct err err;
    const uint8_t *data = zmq_msg_data(&frame->msg);
    bool named = user && id_parse(&from, user);
    if (named)
        listener_heard(bulk->listener, &frame->msg, &from);
    if (!named) {
        refuse(&from, "the connection has no user");
    } else if (zmq_msg_size(route) > FLOW_ROUTE_BYTES) {
        refuse(&from, "its routing id is too long");
    } else if (chunk_decode(data, zmq_msg_size(&frame->msg), &chunk->header, &err) != 0) {
        refuse(&from, err.msg);
    } else if (chunk->header.type == CHUNK_CREDIT) {
        refuse(&from, "a credit came the wrong way");
    } else {
        chunk->payload = data + CHUNK_HEADER_BYTES;
        chunk->route.len = (uint8_t)zmq_msg_size(route);
        memcpy(chunk->route.bytes, zmq_msg_data(route), zmq_msg_size(route));
        flow_arrive(bulk->flow, &from, &chunk, clock_us());
        return;
    }
    frame_release(chunk);
}

/* One whole message: the first two parts of it and how many there were; 0 when there is
 * none. */
static int
receive(void *socket, zmq_msg_t parts[2])
{
    int count = 0;
    bool more = true;
    while (more) {
        zmq_msg_t spare;
        zmq_msg_t *part = count < 2 ? &parts[count] : &spare;
        zmq_msg_init(part);
        if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(part);
            break;
        }
        more = zmq_msg_more(part);
        if (part == &spare)
            zmq_msg_close(part);
        count++;
    }
    return count;
}

static void
parts_close(zmq_msg_t parts[2], int count)
{
    for (int i = 0; i < count && i < 2; i++)
        zmq_msg_close(&parts[i]);
}

static bool
serve_router(struct bulk *bulk)
{
    void *router = listener_socket(bulk->listener);
    size_t bytes = 0;
    for (int i = 0; i < FRAMES_PER_TURN && bytes < BYTES_PER_TURN; i++) {
        zmq_msg_t parts[2];
        int count = receive(router, parts);
        if (!count)
            return false;
        if (count == 2)
            bytes += zmq_msg_size(&parts[1]);
        if (count == 2)
            arrived(bulk, &parts[0], &parts[1]);
        else
            log_limited(LOG_WARN, "transport", "bulk message dropped: %d parts", count);
        parts_close(parts, count);
    }
    return true;
}

/* Credits that came back on our connection to a peer. */
static bool
serve_credits(struct bulk *bulk, const struct conn *conn)
{
    for (int i = 0; i < FRAMES_PER_TURN; i++) {
        zmq_msg_t parts[2];
        struct chunk_header header;
        struct err err = {0};
        int count = receive(dial_socket(conn->dial), parts);
        if (!count)
            return false;
        if (count == 1 && chunk_decode(zmq_msg_data(&parts[0]), zmq_msg_size(&parts[0]),
                                       &header, &err) == 0)
            flow_credit(bulk->flow, conn->number, &header, clock_us());
        else
            refuse(&conn->peer.id, count == 1 ? err.msg : "a credit has several parts");
        parts_close(parts, count);
    }
    return true;
}

/* ---- what goes out ---- */

static bool
send_out(struct conn *conn, const struct flow_out *out)
{
    void *socket = dial_socket(conn->dial);
    if (!(socket_events(socket) & ZMQ_POLLOUT))
        return false;
    zmq_msg_t msg;
    must(zmq_msg_init_size(&msg, CHUNK_HEADER_BYTES + (size_t)out->header.length) == 0);
    uint8_t *data = zmq_msg_data(&msg);
    chunk_encode(&out->header, data);
    if (out->payload)
        memcpy(data + CHUNK_HEADER_BYTES, out->payload, out->header.length);
    else
        memset(data + CHUNK_HEADER_BYTES, 0, out->header.length);
    if (zmq_msg_send(&msg, socket, ZMQ_DONTWAIT) >= 0)
        return true;
    zmq_msg_close(&msg);
    return false;
}

static bool
send_chunks(struct bulk *bulk)
{
    struct flow_out out;
    size_t bytes = 0;
    for (int i = 0; i < FRAMES_PER_TURN && bytes < BYTES_PER_TURN;) {
        if (!flow_next(bulk->flow, &out, clock_us()))
            return false;
        if (send_out(bulk->conns[out.peer], &out)) {
            flow_sent(bulk->flow, &out, clock_us());
            bytes += out.header.length;
            i++;
        } else {
            flow_blocked(bulk->flow, out.peer, true);
        }
    }
    return true;
}

/* Credits go back by the connection that the chunks came on. When it is gone, its chunks'
 * sender knows. */
static void
send_credits(struct bulk *bulk)
{
    void *router = listener_socket(bulk->listener);
    struct flow_out out;
    while (flow_next_credit(bulk->flow, &out)) {
        uint8_t header[CHUNK_HEADER_BYTES];
        chunk_encode(&out.header, header);
        if (zmq_send(router, out.route.bytes, out.route.len,
                     ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0) {
            int rc = zmq_send(router, header, sizeof(header), ZMQ_DONTWAIT);
            must(rc >= 0 || errno != EFSM);
        } else if (errno == EAGAIN) {
            flow_credit_unsent(bulk->flow, &out);
            return; /* the socket stirs when there is room */
        }
    }
}

/* ---- the thread ---- */

/* Look at every socket until none has news that its descriptor has already told: libzmq's
 * descriptors tell once. */
static bool
serve_sockets(struct bulk *bulk)
{
    bool more = false;
    if (socket_events(listener_socket(bulk->listener)) & ZMQ_POLLIN)
        more = serve_router(bulk);
    for (int p = 0; p < bulk->conns_count; p++) {
        struct conn *conn = bulk->conns[p];
        if (!conn || !conn->up)
            continue;
        int events = socket_events(dial_socket(conn->dial));
        if (events & ZMQ_POLLIN)
            more |= serve_credits(bulk, conn);
        if (events & ZMQ_POLLOUT)
            flow_blocked(bulk->flow, p, false);
    }
    return more;
}

/* Sending takes in a socket's news, too: is there any that nobody has acted on? */
static bool
sockets_idle(const struct bulk *bulk)
{
    if (socket_events(listener_socket(bulk->listener)) & ZMQ_POLLIN)
        return false;
    for (int p = 0; p < bulk->conns_count; p++) {
        const struct conn *conn = bulk->conns[p];
        if (!conn || !conn->up)
            continue;
        int wanted = ZMQ_POLLIN | (flow_is_blocked(bulk->flow, p) ? ZMQ_POLLOUT : 0);
        if (socket_events(dial_socket(conn->dial)) & wanted)
            return false;
    }
    return true;
}

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
    bool more = serve_sockets(bulk);
    send_credits(bulk);
    more |= send_chunks(bulk);
    dones_flush(bulk);
    events_flush(bulk);
    if (more || !sockets_idle(bulk)) {
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

static void *
run(void *arg)
{
    struct bulk *bulk = arg;
    loop_run(bulk->loop);
    for (int p = 0; p < bulk->conns_count; p++)
        conn_free(bulk->conns[p]);
    free(bulk->conns);
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
    loop_fd(loop, mailbox_fd(bulk->control), woken, bulk);
    loop_fd(loop, mailbox_fd(bulk->again), woken, bulk);
    for (int i = 0; i < BULK_PORTS; i++) {
        bulk->ports[i] = port_new((enum bulk_port_kind)i, &bulk->current);
        loop_fd(loop, port_fd(bulk->ports[i]), woken, bulk);
    }
    bulk->router_fd = socket_fd(listener_socket(listener));
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
