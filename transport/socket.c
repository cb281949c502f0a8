#include "transport/socket.h"
#include "transport/base/alloc.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/handshakes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

enum {
    ZAP_ENFORCE_DOMAIN =
        93, /* hidden by zmq.h, known to the library: no handler, no admission */
    DIAL_MS = 5000,
    SILENT_MS = 1000, /* a connection without a word for so long may be anybody's */
    FDS_MAX = 8192,   /* connections whose address a listener remembers */
    PEER_TEXT_SIZE = INET6_ADDRSTRLEN + 8
};

static const char *const domains[] = {"join", "control", "bulk"};

void *
socket_new(int type, struct err *err)
{
    void *socket = zmq_socket(loop_context(), type);
    if (!socket)
        err_set(err, ERR_LIMIT,
                "cannot open a socket: %s; the limit of open files may be low",
                zmq_strerror(errno));
    return socket;
}

void
socket_free(void *socket)
{
    if (socket)
        zmq_close(socket);
}

static void
set_int(void *socket, int option, int value)
{
    int rc = zmq_setsockopt(socket, option, &value, sizeof(value));
    must(rc == 0);
}

static void
set_bytes(void *socket, int option, const void *value, size_t len)
{
    int rc = zmq_setsockopt(socket, option, value, len);
    must(rc == 0);
}

/* docs/protocol.md, section 2. */
static void
set_common(void *socket, enum socket_plane plane, const char *endpoint)
{
    bool control = plane == SOCKET_CONTROL;
    uint64_t io_threads = control || plane == SOCKET_JOIN ? 1 : 0;
    if (!io_threads) {
        int count = zmq_ctx_get(loop_context(), ZMQ_IO_THREADS);
        io_threads = count > 1
                         ? ((UINT64_C(1) << (count < 64 ? count : 63)) - 1) & ~UINT64_C(1)
                         : 1;
    }
    static const int64_t bytes_max[] = {JOIN_BYTES_MAX + 512, FRAME_BYTES_MAX,
                                        CHUNK_BYTES + (64 << 10)};
    set_bytes(socket, ZMQ_AFFINITY, &io_threads, sizeof(io_threads));
    set_bytes(socket, ZMQ_MAXMSGSIZE, &bytes_max[plane], sizeof(bytes_max[plane]));
    set_int(socket, ZMQ_SNDHWM, plane == SOCKET_BULK ? 8 : 256);
    set_int(socket, ZMQ_RCVHWM, plane == SOCKET_BULK ? 8 : 64);
    set_int(socket, ZMQ_LINGER, 0);
    set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 10);
    set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5);
    set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, 2);
    set_int(socket, ZMQ_TCP_MAXRT, control ? 15000 : 20000);
    set_int(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL);
    /* No ZMTP heartbeats: libzmq 4.3.4 aborts when their timer runs out on a connection whose
     * input is stopped and whose peer has hung up. A path that is dead is found by TCP. */
}

/* Data goes by BBR where this process may choose it: a path that loses one packet in a
 * thousand carries many times more with it. Where it may not, the system's stays. */
static void
choose_congestion(enum socket_plane plane, uint32_t fd)
{
    static const char wanted[] = "bbr";
    if (plane == SOCKET_BULK)
        setsockopt((int)fd, IPPROTO_TCP, TCP_CONGESTION, wanted, sizeof(wanted) - 1);
}

/* ---- monitors ---- */

/* The socket first stops to speak: libzmq's I/O thread would wait for ever for a listener
 * that is gone. */
static void
monitor_close(void *socket, void *monitor)
{
    if (!monitor)
        return;
    zmq_socket_monitor(socket, NULL, 0);
    socket_free(monitor);
}

/* The receiving end of a socket's events. Its queue has no limit: libzmq's I/O thread
 * would block on a full one. */
static void *
monitor_open(void *socket, int events, struct err *err)
{
    static _Atomic unsigned last;
    char name[64];
    snprintf(name, sizeof(name), "inproc://monitor-%u", ++last);
    void *monitor = socket_new(ZMQ_PAIR, err);
    if (!monitor)
        return NULL;
    set_int(monitor, ZMQ_RCVHWM, 0);
    set_int(monitor, ZMQ_LINGER, 0);
    if (zmq_socket_monitor(socket, name, events) != 0 ||
        zmq_connect(monitor, name) != 0) {
        err_set(err, ERR_LIMIT, "cannot watch a socket: %s", zmq_strerror(errno));
        monitor_close(socket, monitor);
        return NULL;
    }
    return monitor;
}

/* The next event and its value; false when there is none. */
static bool
monitor_read(void *monitor, unsigned *event, uint32_t *value)
{
    bool got = false;
    bool more = true;
    for (int part = 0; more; part++) {
        zmq_msg_t msg;
        zmq_msg_init(&msg);
        if (zmq_msg_recv(&msg, monitor, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&msg);
            return false;
        }
        if (part == 0 && zmq_msg_size(&msg) == 6) {
            const uint8_t *data = zmq_msg_data(&msg);
            uint16_t number;
            memcpy(&number, data, sizeof(number));
            memcpy(value, data + 2, sizeof(*value));
            *event = number;
            got = true;
        }
        more = zmq_msg_more(&msg);
        zmq_msg_close(&msg);
    }
    return got;
}

/* ---- listening ---- */

struct listener {
    struct loop *loop;
    void *socket;
    void *monitor;
    listener_stranger_fn stranger;
    void *arg;
    bool failed; /* the next connection that closes is the one whose handshake failed */
    struct accepted *accepted; /* by descriptor */
    enum socket_plane plane;
    struct handshakes *handshakes;
    void (*closed)(void *arg, int fd);
    void *closed_arg;
};

/* A connection that is open. */
struct accepted {
    char peer[PEER_TEXT_SIZE]; /* whence it came; empty: none is open */
    struct id from;            /* whose it is; empty: nothing came yet */
    int64_t since_ms;
};

/* The other end of a connection, "host:port", or an empty text. */
static void
peer_text(int fd, char text[PEER_TEXT_SIZE])
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);
    char host[INET6_ADDRSTRLEN] = "";
    text[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&from, &len) != 0)
        return;
    uint16_t port = 0;
    if (from.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&from;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        port = ntohs(v4->sin_port);
    } else if (from.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&from;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        port = ntohs(v6->sin6_port);
    }
    snprintf(text, PEER_TEXT_SIZE, "%s:%u", host, port);
}

void
listener_cut_fd(struct listener *listener, int fd)
{
    char peer[PEER_TEXT_SIZE];
    if (fd < 0 || fd >= FDS_MAX || !listener->accepted[fd].peer[0])
        return;
    /* The descriptor may be another's by now: it has to lead to the same place. */
    peer_text(fd, peer);
    if (strcmp(peer, listener->accepted[fd].peer) == 0)
        shutdown(fd, SHUT_RDWR);
}

static void
remember_peer(struct listener *listener, uint32_t fd)
{
    if (fd >= FDS_MAX)
        return;
    struct accepted *accepted = &listener->accepted[fd];
    int64_t now = loop_now_ms(listener->loop);
    choose_congestion(listener->plane, fd);
    *accepted = (struct accepted){.since_ms = now};
    peer_text((int)fd, accepted->peer);
    const char *colon = strrchr(accepted->peer, ':');
    char host[PEER_TEXT_SIZE];
    snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - accepted->peer) : 0,
             accepted->peer);
    int held;
    int gone = handshakes_begin(listener->handshakes, now, (int)fd, host, &held);
    if (gone < 0)
        return;
    log_limited(LOG_WARN, "transport",
                "connection closed before it said who it is: %d wait in all, %d of them "
                "from %s domain=%s",
                HANDSHAKES_MAX, held, host, domains[listener->plane]);
    listener_cut_fd(listener, gone);
}

/* A handshake's failure is followed at once by the end of its connection, which names the
 * descriptor. */
static void
listener_events(void *arg)
{
    struct listener *listener = arg;
    unsigned event;
    uint32_t value;
    for (int i = 0; i < 256 && monitor_read(listener->monitor, &event, &value); i++) {
        if (event == ZMQ_EVENT_ACCEPTED) {
            remember_peer(listener, value);
        } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
            listener->failed = value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC ||
                               value == ZMQ_PROTOCOL_ERROR_ZMTP_KEY_EXCHANGE;
        } else if (event == ZMQ_EVENT_DISCONNECTED) {
            char *from = value < FDS_MAX ? listener->accepted[value].peer : NULL;
            if (listener->failed && listener->stranger)
                listener->stranger(listener->arg, from && from[0] ? from : "unknown");
            listener->failed = false;
            if (from)
                from[0] = '\0';
            handshakes_end(listener->handshakes, (int)value);
            if (listener->closed)
                listener->closed(listener->closed_arg, (int)value);
        }
    }
}

static int
bind_failed(const struct address *base, enum socket_plane plane, struct err *err)
{
    char text[ADDRESS_BYTES_MAX + 8];
    address_text(base, text);
    unsigned port = base->port + (unsigned)plane;
    if (errno == EADDRINUSE)
        return err_set(
            err, ERR_SYSTEM,
            "cannot listen at port %u (%s): another program, perhaps another node, "
            "listens there; choose another address with --listen",
            port, domains[plane]);
    return err_set(err, ERR_SYSTEM,
                   "cannot listen at \"%s\", port %u (%s): %s; check --listen", text,
                   port, domains[plane], zmq_strerror(errno));
}

struct listener *
listener_open(struct loop *loop, enum socket_plane plane,
              const uint8_t curve_secret[KEY_CURVE_BYTES], const struct address *base,
              listener_stranger_fn stranger, void *arg, struct err *err)
{
    char endpoint[ADDRESS_BYTES_MAX + 16];
    address_endpoint(base, (int)plane, endpoint);
    struct listener *listener = xcalloc(1, sizeof(*listener));
    listener->loop = loop;
    listener->stranger = stranger;
    listener->arg = arg;
    listener->plane = plane;
    listener->accepted = xcalloc(FDS_MAX, sizeof(*listener->accepted));
    listener->handshakes = handshakes_new();
    listener->socket = socket_new(ZMQ_ROUTER, err);
    if (!listener->socket)
        goto failed;

    void *socket = listener->socket;
    set_common(socket, plane, endpoint);
    set_int(socket, ZMQ_BACKLOG, 256);
    set_int(socket, ZMQ_ROUTER_MANDATORY, 1);
    set_int(socket, ZMQ_CURVE_SERVER, 1);
    set_bytes(socket, ZMQ_CURVE_SECRETKEY, curve_secret, KEY_CURVE_BYTES);
    set_bytes(socket, ZMQ_ZAP_DOMAIN, domains[plane], strlen(domains[plane]));
    set_int(socket, ZAP_ENFORCE_DOMAIN, 1);
    listener->monitor = monitor_open(socket,
                                     ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL,
                                     err);
    if (!listener->monitor)
        goto failed;
    if (zmq_bind(socket, endpoint) != 0) {
        bind_failed(base, plane, err);
        goto failed;
    }
    loop_socket(loop, listener->monitor, listener_events, listener);
    return listener;

failed:
    listener_close(listener);
    return NULL;
}

void
listener_close(struct listener *listener)
{
    if (!listener)
        return;
    if (listener->monitor)
        loop_socket_cancel(listener->loop, listener->monitor);
    monitor_close(listener->socket, listener->monitor);
    socket_free(listener->socket);
    free(listener->accepted);
    handshakes_free(listener->handshakes);
    free(listener);
}

void *
listener_socket(const struct listener *listener)
{
    return listener->socket;
}

int
listener_heard(struct listener *listener, void *message, const struct id *from)
{
    int fd = zmq_msg_get(message, ZMQ_SRCFD);
    if (fd >= 0)
        handshakes_end(listener->handshakes, fd);
    if (fd >= 0 && fd < FDS_MAX && listener->accepted[fd].peer[0])
        listener->accepted[fd].from = *from;
    return fd;
}

void
listener_watch(struct listener *listener, void (*closed)(void *arg, int fd), void *arg)
{
    listener->closed = closed;
    listener->closed_arg = arg;
}

const char *
listener_host(void *message)
{
    const char *host = zmq_msg_gets(message, "Peer-Address");
    return host ? host : "";
}

void
listener_cut(struct listener *listener, const struct id *node)
{
    int64_t now = loop_now_ms(listener->loop);
    listener_events(listener); /* which are open now? */
    loop_socket_used(listener->loop, listener->monitor);
    for (int fd = 0; fd < FDS_MAX; fd++) {
        const struct accepted *accepted = &listener->accepted[fd];
        bool silent = id_empty(&accepted->from) && now - accepted->since_ms >= SILENT_MS;
        if (accepted->peer[0] && (silent || id_equal(&accepted->from, node)))
            listener_cut_fd(listener, fd);
    }
}

/* ---- dialling ---- */

struct dial {
    struct loop *loop;
    void *socket;
    void *monitor;
    enum socket_plane plane;
    int timer; /* 0: none */
    dial_fn fn;
    void *arg;
    bool connected, up, denied, evicted, over;
};

/* Report; the handler may close the dial, so nothing is touched afterwards. */
static void
dial_end(struct dial *dial, enum dial_event event)
{
    dial->over = true;
    dial->up = false;
    if (dial->timer)
        loop_timer_cancel(dial->loop, dial->timer);
    dial->timer = 0;
    loop_socket_cancel(dial->loop, dial->monitor);
    dial->fn(dial->arg, event);
}

static void
dial_too_slow(void *arg)
{
    struct dial *dial = arg;
    dial_end(dial, dial->connected ? DIAL_HUNG_UP : DIAL_NOBODY);
}

/* The status that admit.c answers with. */
enum { ZAP_EVICTED = 500 };

static void
dial_events(void *arg)
{
    struct dial *dial = arg;
    unsigned event;
    uint32_t value;
    while (monitor_read(dial->monitor, &event, &value)) {
        switch (event) {
        case ZMQ_EVENT_CONNECTED:
            choose_congestion(dial->plane, value);
            dial->connected = true;
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            dial->denied = true;
            dial->evicted = value == ZAP_EVICTED;
            break;
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            dial->up = true;
            loop_timer_cancel(dial->loop, dial->timer);
            dial->timer = 0;
            dial->fn(dial->arg, DIAL_UP);
            return; /* the handler may have closed the dial; what follows is read in the
                       next turn */
        case ZMQ_EVENT_CLOSED:
        case ZMQ_EVENT_DISCONNECTED:
            dial_end(dial, dial->up          ? DIAL_DOWN
                           : dial->denied    ? DIAL_DENIED
                           : dial->connected ? DIAL_HUNG_UP
                                             : DIAL_NOBODY);
            return;
        default:
            break;
        }
    }
}

struct dial *
dial_open(struct loop *loop, const struct dial_options *options, dial_fn fn, void *arg,
          struct err *err)
{
    char endpoint[ADDRESS_BYTES_MAX + 16];
    address_endpoint(&options->base, (int)options->plane, endpoint);
    struct dial *dial = xcalloc(1, sizeof(*dial));
    dial->loop = loop;
    dial->plane = options->plane;
    dial->fn = fn;
    dial->arg = arg;
    dial->socket = socket_new(ZMQ_DEALER, err);
    if (!dial->socket)
        goto failed;
    set_common(dial->socket, options->plane, endpoint);
    set_int(dial->socket, ZMQ_IMMEDIATE, 1);
    set_int(dial->socket, ZMQ_RECONNECT_IVL, -1);
    set_int(dial->socket, ZMQ_CONNECT_TIMEOUT, DIAL_MS);
    set_bytes(dial->socket, ZMQ_CURVE_PUBLICKEY, options->curve_public, KEY_CURVE_BYTES);
    set_bytes(dial->socket, ZMQ_CURVE_SECRETKEY, options->curve_secret, KEY_CURVE_BYTES);
    set_bytes(dial->socket, ZMQ_CURVE_SERVERKEY, options->server_public, KEY_CURVE_BYTES);
    if (options->plane == SOCKET_JOIN) { /* the answer is larger than the question */
        int64_t bytes_max = FRAME_BYTES_MAX;
        set_bytes(dial->socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof(bytes_max));
    }
    dial->monitor =
        monitor_open(dial->socket,
                     ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
                     err);
    if (!dial->monitor)
        goto failed;
    if (zmq_connect(dial->socket, endpoint) != 0) {
        err_set(err, ERR_USAGE, "cannot connect to \"%s\": %s", endpoint,
                zmq_strerror(errno));
        goto failed;
    }
    loop_socket(loop, dial->monitor, dial_events, dial);
    dial->timer = loop_timer(loop, DIAL_MS, dial_too_slow, dial);
    return dial;

failed:
    dial_close(dial);
    return NULL;
}

void
dial_close(struct dial *dial)
{
    if (!dial)
        return;
    if (dial->timer)
        loop_timer_cancel(dial->loop, dial->timer);
    if (dial->monitor)
        loop_socket_cancel(dial->loop, dial->monitor);
    monitor_close(dial->socket, dial->monitor);
    socket_free(dial->socket);
    free(dial);
}

void *
dial_socket(const struct dial *dial)
{
    return dial->socket;
}

bool
dial_evicted(const struct dial *dial)
{
    return dial->evicted;
}

bool
dial_up(const struct dial *dial)
{
    return dial->up;
}

bool
dial_send(struct dial *dial, const void *data, size_t len)
{
    if (!dial->up)
        return false;
    loop_socket_used(dial->loop, dial->socket);
    if (zmq_send(dial->socket, data, len, ZMQ_DONTWAIT) >= 0)
        return true;
    /* libzmq looks at most once a millisecond whether a connection has appeared or
     * drained; asking for the events makes it look now. */
    int events = 0;
    size_t size = sizeof(events);
    zmq_getsockopt(dial->socket, ZMQ_EVENTS, &events, &size);
    return (events & ZMQ_POLLOUT) && zmq_send(dial->socket, data, len, ZMQ_DONTWAIT) >= 0;
}
