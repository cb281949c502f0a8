/*
 * mesh.h - control connections to peers: signed frames in both directions.
 *
 *     our DEALER ----> peer's ROUTER (its base port + 1)     OUT: what we send
 *     our ROUTER <---- peer's DEALER                         what it sends
 *                ----> the same connection backwards         BACK: where we cannot dial it
 *     our frame  ----> a third node ----> the peer           ROUND: where neither can
 *
 * Each peer has one way at a time, the first of these that there is. One DEALER per peer,
 * torn down and made again on our own terms (libzmq's reconnection is off): a fresh
 * socket after every loss, with back-off from 100 ms to 1.5 s. Every frame received is
 * held against the connection's User-Id, its signature and its peer's rates (score.h).
 *
 * Peers are kept connected, or dialled when there is something to say and hung up on when
 * there was nothing for a minute: mesh_keep(). Runs on the loop's thread.
 */
#ifndef TRANSPORT_MESH_H
#define TRANSPORT_MESH_H

#include "transport/address.h"
#include "transport/admit.h"
#include "transport/frame.h"

struct mesh;

enum { MESH_HOST_BYTES_MAX = 48 }; /* a numeric address, with its NUL */

enum mesh_event {
    MESH_UP,      /* there is a way to it now: we can send */
    MESH_DOWN,    /* there was, and it closed */
    MESH_REFUSED, /* a dial was refused, closed before its handshake, or led nowhere for 5
                     s, and there is no other way: nobody is there, a relay's far end is
                     gone, or another node answers (a wrong key shows as a bare hang-up) */
    MESH_DENIED   /* the peer's ZAP handler does not know us (yet) */
};

struct mesh_options {
    const struct key *key;
    struct id swarm;
    struct address listen;               /* base address; control is + 1 */
    const struct address_routes *routes; /* borrowed, may be NULL */
    /* Above that of all earlier processes with this key: carried frames are told from
     * their repetitions by it. Below 2^31. */
    uint64_t boot;
    int64_t idle_ms; /* before a connection that is not kept is closed; 0: a minute */
    /* A frame from an admitted peer of this swarm, signature checked. */
    void (*frame)(void *arg, const struct frame *frame);
    /* Neither handler may close the mesh; both may forget the peer. */
    void (*peer)(void *arg, const struct id *peer, enum mesh_event event);
    void *arg;
};

struct mesh *mesh_open(struct loop *loop, struct admit *admit,
                       const struct mesh_options *options, struct err *err);
void mesh_close(struct mesh *mesh);

/* Know this peer at this base address; a new address redials (without MESH_DOWN for the
 * old connection). Our own id is ignored. A failed dial is repeated after 100 ms, doubling
 * to 1.5 s; at once when the peer dials us. */
void mesh_peer(struct mesh *mesh, const struct id *peer, const struct address *base);
/* Close the connections to and from it and forget the peer. */
void mesh_forget(struct mesh *mesh, const struct id *peer);
/* Dial now, without waiting for the back-off to pass. */
void mesh_redial(struct mesh *mesh, const struct id *peer);
/* Keep connections to these peers, and dial all others when there is something for them;
 * NULL: keep them to everybody, as at the start. */
void mesh_keep(struct mesh *mesh, const struct id *peers, size_t count);
/* The peer's address is known to be of no use: it is dialled every half a minute, no more,
 * and nothing follows from its refusals. */
void mesh_hidden(struct mesh *mesh, const struct id *peer, bool hidden);

/* Sign and send; ERR_PEER when there is no way or its queue is full (nothing is kept). To
 * a peer whose connection is not kept, a few frames wait while it is dialled. */
int mesh_send(struct mesh *mesh, const struct id *to, enum frame_kind kind,
              const void *body, size_t len, struct err *err);
bool mesh_connected(const struct mesh *mesh, const struct id *peer); /* any way */
/* Did the peer refuse us with the word that it has evicted us? It proves nothing. */
bool mesh_evicts(const struct mesh *mesh, const struct id *peer);

enum mesh_way { MESH_NO_WAY, MESH_OUT, MESH_BACK, MESH_ROUND };
/* `via` (may be NULL): who carries, where it is MESH_ROUND. */
enum mesh_way mesh_way(const struct mesh *mesh, const struct id *peer, struct id *via);
const char *mesh_way_name(enum mesh_way way); /* "out" */

/* The address that the peer's connection to us comes from, without a port; "": none. */
const char *mesh_host(const struct mesh *mesh, const struct id *peer);

/* What a frame of it said made no sense to whoever handles it. */
void mesh_blame(struct mesh *mesh, const struct id *peer);

/* ---- is an address any good? ---- */

enum mesh_port {
    MESH_PORT_OPEN,  /* the node answers there, by its key (or refuses us by ours) */
    MESH_PORT_SHUT,  /* refused, unreachable, or silent for 5 s */
    MESH_PORT_OTHER, /* somebody answers there, without the node's key */
    MESH_PORT_UNTRIED
};
typedef void (*mesh_checked_fn)(void *arg, const struct id *peer,
                                const struct address *base,
                                const enum mesh_port ports[3]);
/* Dial the three ports of a peer at an address anew, besides all other connections, and
 * say what came of it; one check at a time. ERR_LIMIT while another is under way. The join
 * port is tried if `secret` is not NULL. */
int mesh_check(struct mesh *mesh, const struct id *peer, const struct address *base,
               const struct secret *secret, mesh_checked_fn fn, void *arg,
               struct err *err);

/* ---- figures ---- */

struct mesh_peer_stats {
    uint64_t sent_bytes, received_bytes;
    uint64_t sent_frames, received_frames;
    uint64_t bad_frames;  /* undecodable, unsigned, of another swarm, of somebody else */
    uint64_t over_frames; /* dropped: more than its rate allows */
    int64_t last_heard_ms;
    bool pruned; /* for so many of these that nothing is heard from it for a while */
};
bool mesh_stats(const struct mesh *mesh, const struct id *peer,
                struct mesh_peer_stats *out);

struct mesh_totals {
    int peers, kept;
    int out, back, round;            /* peers by their way */
    uint64_t carried, carried_bytes; /* frames taken to others for others */
};
void mesh_total(const struct mesh *mesh, struct mesh_totals *out);

#endif
