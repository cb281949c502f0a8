/*
 * admit.h - who may finish a CURVE handshake: the ZAP handler (RFC 27).
 *
 * libzmq admits every client key while no handler is bound, so this one is bound before
 * any socket, and a node whose handler cannot be bound does not start.
 * Domains: "join" admits the one key pair that follows from the swarm's secret, and those
 * of open invites; "control" and "bulk" admit known nodes. An admitted connection's
 * User-Id is the node's or the invite's id in hexadecimal.
 */
#ifndef TRANSPORT_ADMIT_H
#define TRANSPORT_ADMIT_H

#include "transport/key.h"
#include "transport/loop.h"

enum { ADMIT_INVITES_MAX = 32, ADMIT_EVICTED_MAX = 1024 };

struct admit;

/* Binds the handler and serves it on the loop. ERR_SYSTEM when another handler is bound
 * in this process. */
struct admit *admit_open(struct loop *loop, struct err *err);
void admit_close(struct admit *admit);

/* NULL: nobody. */
void admit_joiner(struct admit *admit, const uint8_t curve_public[KEY_CURVE_BYTES]);
/* The invites that are open, instead of those before; at most ADMIT_INVITES_MAX. */
void admit_invites(struct admit *admit, const struct id *invites, size_t count);
void admit_allow(struct admit *admit, const struct id *node);
void admit_deny(struct admit *admit, const struct id *node);
/* Denied, and not to be allowed again: its refusals name it. */
void admit_evict(struct admit *admit, const struct id *node);
/* Whoever comes with this key, our own, is a second process with our identity: it is
 * refused, and `fn` is told whence it came (an IP address). */
void admit_self(struct admit *admit, const struct id *self,
                void (*fn)(void *arg, const char *from), void *arg);
bool admit_allowed(const struct admit *admit, const struct id *node);

/* Refusals so far, for status. */
uint64_t admit_refused(const struct admit *admit);

#endif
