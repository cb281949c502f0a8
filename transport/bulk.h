/*
 * bulk.h - the data plane: large messages between the members of an epoch.
 *
 * One thread owns the bulk sockets (a ROUTER bound at base port + 2 and one DEALER per
 * peer, on I/O threads of their own). Other threads reach it through ports. A message is
 * named by (peer, channel, tag) and is matched with a receive that was posted under the
 * same name, before or after it arrives:
 *
 *     engine --port--> [ bulk thread ] --chunks--> [ bulk thread ] --port--> engine
 *     store  --port-->                 <--credit--                 --port--> store
 *
 * Messages travel in chunks of at most CHUNK_BYTES behind a fixed 64-byte header that
 * names (generation, epoch, plan hash): chunks of an older epoch are refused and
 * reported, chunks of a newer one wait (at most a window) until this node is there. Each
 * (peer, channel) has a credit window of BULK_WINDOW_BYTES; credit returns when the
 * receiver's buffer has taken the bytes, so what arrives early is bounded. Within a
 * channel, messages are delivered in the order they were sent; a receiver posts in that
 * order. Channels are served by priority, so that a state copy never delays an activation
 * by more than a chunk.
 *
 * A peer is sent to over our connection to it, over its connection to us where it cannot be
 * dialled, or by a third member where neither side can connect; then chunks are sealed for
 * the peer, so that who carries them can drop them and nothing else. Within an epoch a peer
 * is sent to by one way, so that order holds.
 *
 * A lost connection is not mended inside an epoch: it is reported (BULK_LOST) and the
 * swarm makes a new epoch. A healthy one goes on from epoch to epoch.
 */
#ifndef TRANSPORT_BULK_H
#define TRANSPORT_BULK_H

#include "transport/address.h"
#include "transport/admit.h"
#include "transport/bulk_rate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bulk;

/* In order of priority. */
enum bulk_channel {
    BULK_COMMIT,   /* norms and losses: the commit point */
    BULK_FORWARD,  /* activations */
    BULK_BACKWARD, /* their gradients */
    BULK_REDUCE,   /* all-reduce, tied gradient */
    BULK_STATE,    /* weights and optimizer state at the start of an epoch; data sets */
    BULK_COPY,     /* state copies and checkpoints in the background */
    BULK_PROBE,    /* bandwidth probes: discarded by the receiver */
    BULK_CHANNELS
};

enum bulk_port_kind {
    BULK_ENGINE, /* COMMIT, FORWARD, BACKWARD, REDUCE */
    BULK_STORE,  /* STATE, COPY */
    BULK_PORTS
};

struct bulk_options {
    const struct key *key;
    struct address listen;               /* base; bulk is + 2 */
    const struct address_routes *routes; /* borrowed, may be NULL */
};

struct bulk *bulk_open(const struct bulk_options *options, struct err *err);
void bulk_close(struct bulk *bulk);

/* ---- control thread ---- */

struct bulk_peer {
    struct id id;
    struct address base;
    bool hidden; /* its address is known to be of no use: it is waited for */
    bool lazy;   /* connected when there is something for it, not before */
};

/* How a peer is sent to: over our connection to it, over its connection to us, by a third
 * member. */
enum bulk_way { BULK_NO_WAY, BULK_OUT, BULK_BACK, BULK_ROUND };

struct bulk_epoch {
    uint32_t generation;
    uint64_t epoch;
    uint64_t plan_tag; /* id_prefix() of the decree's hash */
    int self;          /* our place in peers, or -1: not a member of the plan */
    int peers_count;
    const struct bulk_peer *peers; /* copied; a peer's number is its place */
};

/* Enter an epoch: everything of older ones ends (pending operations complete with
 * ERR_STOPPED), chunks that waited for this one are delivered. Epochs never go back. */
void bulk_enter(struct bulk *bulk, const struct bulk_epoch *epoch);

/* End all pending operations of the current epoch with ERR_STOPPED, and refuse new ones
 * and arriving chunks until the next bulk_enter(). */
void bulk_halt(struct bulk *bulk);

/* Close this node's connections to us; ours to it end with the epoch that it was in. */
void bulk_cut(struct bulk *bulk, const struct id *node);

/* Find out what the link to a peer carries by up to `bytes` of zeros on BULK_PROBE: they
 * end when the peer has seen enough, after one second at the link's full rate, or after
 * three. `bytes_per_s`: what it is thought to carry, 0: unknown. Waits while this node or
 * the peer is in a reduction (a message on BULK_REDUCE is posted). Ends in BULK_PROBED here,
 * with the epoch at the latest; the peer gets BULK_RATE. */
void bulk_probe(struct bulk *bulk, int peer, size_t bytes, int64_t bytes_per_s);

enum bulk_event_kind {
    BULK_UP,     /* connection to the peer is open */
    BULK_LOST,   /* a connection of this epoch closed, or could not be opened for 2 s (and
                   for each 2 s more), or carried what breaks the protocol */
    BULK_STALE,  /* `id` sent a chunk of an older epoch: it should be told */
    BULK_NEWER,  /* `id` sent a chunk of a newer epoch: we should catch up */
    BULK_PROBED, /* a probe of ours has ended: `bytes` were sent */
    BULK_RATE    /* how fast data of `id` came here: `bytes` in `us`, see bulk_rate.h */
};

struct bulk_event {
    enum bulk_event_kind kind;
    int peer; /* number in `epoch`, or -1 */
    struct id id;
    uint64_t epoch;
    enum bulk_way way; /* BULK_UP */
    struct id via;     /* where it is BULK_ROUND */
    int64_t bytes, us;
    bool limited; /* sample was limited by the sender, not by the link: a lower bound */
    bool probe;   /* by a probe; else by what went over the link anyway */
    int64_t curve[RATE_CURVE_POINTS]; /* see struct rate_sample */
};

/* What this node has carried for others so far. */
void bulk_carried(const struct bulk *bulk, uint64_t *chunks, uint64_t *bytes);

int bulk_event_fd(const struct bulk *bulk); /* readable when there may be events */
/* False when there is none; then it clears the descriptor first. */
bool bulk_event_take(struct bulk *bulk, struct bulk_event *event);

/* ---- a port's own thread ---- */

struct bulk_port;

struct bulk_port *bulk_port(struct bulk *bulk, enum bulk_port_kind kind);

/* From here on operations belong to this epoch. They complete with ERR_STOPPED at once if
 * it is not the current one. */
void bulk_port_enter(struct bulk_port *port, uint64_t epoch);

/* True once the port's epoch was halted or left: time to return to the mailbox. Cheap: an
 * atomic load. */
bool bulk_port_stopped(const struct bulk_port *port);

/* Start an operation; returns its handle (> 0). Its memory is bulk's until the operation
 * is done or ended, and is not touched by bulk afterwards. Zero bytes are allowed. */
uint32_t bulk_send(struct bulk_port *port, int peer, enum bulk_channel channel,
                   uint64_t tag, const void *data, size_t bytes);
uint32_t bulk_receive(struct bulk_port *port, int peer, enum bulk_channel channel,
                      uint64_t tag, void *data, size_t bytes);

/* Wait for one operation and release its handle. 0: done (a send: all bytes were accepted
 * by the peer's window and copied out). ERR_STOPPED: the epoch ended. ERR_WIRE: the
 * message that came has another size or tag than the posted one. ERR_USAGE: the epoch has
 * no such peer (or it is ourselves). ERR_PEER: not done within `timeout_ms` (-1: for
 * ever); the operation stays, wait again. */
int bulk_wait(struct bulk_port *port, uint32_t handle, int64_t timeout_ms,
              struct err *err);

/* Is it done (or ended)? Does not block, does not release. */
bool bulk_test(struct bulk_port *port, uint32_t handle);

/* Readable when an operation of this port may have completed: for a thread that polls
 * several things; bulk_test() takes it in. */
int bulk_port_fd(const struct bulk_port *port);

/* Wait until every operation is done or ended, and release all handles. */
void bulk_port_drain(struct bulk_port *port);

#endif
