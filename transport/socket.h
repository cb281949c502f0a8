/*
 * socket.h - libzmq sockets as this program uses them; for mesh, join and bulk only.
 *
 * Every socket is a CURVE socket with the limits and timeouts of docs/protocol.md,
 * section 2, set before it is bound or connected. A listener is a ROUTER with a ZAP
 * domain. A dial is one attempt to connect a DEALER: it ends once, is never mended, and
 * the next attempt is another dial.
 *
 *     dial:  NOBODY | HUNG_UP | DENIED            the attempt failed
 *            UP ... DOWN                          it held, then it closed
 */
#ifndef TRANSPORT_SOCKET_H
#define TRANSPORT_SOCKET_H

#include "transport/address.h"
#include "transport/key.h"
#include "transport/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum socket_plane { SOCKET_JOIN = ADDRESS_JOIN, SOCKET_CONTROL, SOCKET_BULK };

/* A bare socket of this type (ZMQ_PAIR ...), closed at exit at the latest; ERR_LIMIT when
 * there are too many. */
void *socket_new(int type, struct err *err);
void socket_free(void *socket); /* NULL is fine; cancel it in its loop first */

/* ---- listening ---- */

struct listener;

/* A handshake failed because the other side does not have our key: `from` is its address,
 * or "somewhere". */
typedef void (*listener_stranger_fn)(void *arg, const char *from);

/* A bound ROUTER. `stranger` may be NULL. ERR_SYSTEM names a port in use and what to
 * do. */
struct listener *listener_open(struct loop *loop, enum socket_plane plane,
                               const uint8_t curve_secret[KEY_CURVE_BYTES],
                               const struct address *base, listener_stranger_fn stranger,
                               void *arg, struct err *err);
void listener_close(struct listener *listener);
void *listener_socket(const struct listener *listener); /* borrowed */

/* `message` (a zmq_msg_t that the socket gave) came from this node: remembers which
 * connection is its, and that its handshake is over. Returns the connection's descriptor,
 * -1 when it is not known. */
int listener_heard(struct listener *listener, void *message, const struct id *from);
/* Closes the connections of this node, and those from which nothing was heard for a
 * second after they opened: they may be its, too. libzmq cannot name a connection, so its
 * descriptor is shut down. */
void listener_cut(struct listener *listener, const struct id *node);
/* Ends one connection, if it is still the one that had this descriptor. */
void listener_cut_fd(struct listener *listener, int fd);
/* Called with the descriptor of each connection that closed. */
void listener_watch(struct listener *listener, void (*closed)(void *arg, int fd),
                    void *arg);
/* The address that a message came from, without its port; "" when it is not known. */
const char *listener_host(void *message);

/* ---- dialling ---- */

enum dial_event {
    DIAL_UP,      /* handshake done: the socket can send */
    DIAL_DOWN,    /* closed after it was up */
    DIAL_NOBODY,  /* refused, unreachable, not resolved, or not connected within 5 s */
    DIAL_HUNG_UP, /* connected, then closed (or silent for 5 s) during the handshake */
    DIAL_DENIED   /* the ZAP handler of the other side refused us */
};

struct dial;

/* Called on the loop. After any event but DIAL_UP the dial is over; the handler may close
 * it. */
typedef void (*dial_fn)(void *arg, enum dial_event event);

struct dial_options {
    enum socket_plane plane;
    struct address base; /* already routed; the plane's port is added */
    const uint8_t *curve_public, *curve_secret, *server_public;
};

/* ERR_LIMIT when there are too many sockets, ERR_USAGE for an endpoint that cannot be
 * one. */
struct dial *dial_open(struct loop *loop, const struct dial_options *options, dial_fn fn,
                       void *arg, struct err *err);
void dial_close(struct dial *dial);
void *dial_socket(const struct dial *dial); /* borrowed */
bool dial_up(const struct dial *dial);
/* After DIAL_DENIED: the other side says that it has evicted us. */
bool dial_evicted(const struct dial *dial);

/* Give the message to the socket, all parts or nothing; false when its queue is full or
 * it has no connection. */
bool dial_send(struct dial *dial, const void *data, size_t len);

#endif
