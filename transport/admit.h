/*
 * admit.h - who may finish a CURVE handshake: the ZAP handler (RFC 27).
 *
 * libzmq admits every client key while no handler is bound, so this one is bound before
 * any socket, and a node whose handler cannot be bound does not start.
 * Domains: "join" admits the one key pair that follows from the swarm's secret, "control"
 * and "bulk" admit known nodes. An admitted connection's User-Id is the node's id in
 * hexadecimal.
 */
#ifndef TRANSPORT_ADMIT_H
#define TRANSPORT_ADMIT_H

#include "transport/key.h"
#include "transport/loop.h"

struct admit;

/* Binds the handler and serves it on the loop. ERR_SYSTEM when another handler is bound
 * in this process. */
struct admit *admit_open(struct loop *loop, struct err *err);
void admit_close(struct admit *admit);

void admit_joiner(struct admit *admit, const uint8_t curve_public[KEY_CURVE_BYTES]);
void admit_allow(struct admit *admit, const struct id *node);
void admit_deny(struct admit *admit, const struct id *node);
bool admit_allowed(const struct admit *admit, const struct id *node);

/* Refusals so far, for status. */
uint64_t admit_refused(const struct admit *admit);

#endif
