/*
 * mesh.h - control connections to peers: signed frames in both directions.
 *
 *     our DEALER ----> peer's ROUTER (its base port + 1)     what we send
 *     our ROUTER <---- peer's DEALER                         what it sends
 *
 * One DEALER per peer, torn down and made again on our own terms (libzmq's reconnection
 * is off): a fresh socket after every loss, with back-off from 100 ms to 1.5 s. Every frame
 * received is held against the connection's User-Id. Runs on the loop's thread.
 */
#ifndef TRANSPORT_MESH_H
#define TRANSPORT_MESH_H

#include "transport/address.h"
#include "transport/admit.h"
#include "transport/frame.h"

struct mesh;

enum mesh_event {
    MESH_UP,      /* handshake done on our connection: we can send */
    MESH_DOWN,    /* our established connection closed */
    MESH_REFUSED, /* a dial was refused, closed before its handshake, or led nowhere for 5
                     s: nobody is there, a relay's far end is gone, or another node
                     answers (a wrong key shows as a bare hang-up) */
    MESH_DENIED   /* the peer's ZAP handler does not know us (yet) */
};

struct mesh_options {
    const struct key *key;
    struct id swarm;
    struct address listen;               /* base address; control is + 1 */
    const struct address_routes *routes; /* borrowed, may be NULL */
    /* A frame from an admitted peer of this swarm, signature checked. */
    void (*frame)(void *arg, const struct frame *frame);
    /* Neither handler may close the mesh; both may forget the peer. */
    void (*peer)(void *arg, const struct id *peer, enum mesh_event event);
    void *arg;
};

struct mesh *mesh_open(struct loop *loop, struct admit *admit,
                       const struct mesh_options *options, struct err *err);
void mesh_close(struct mesh *mesh);

/* Keep a connection to this peer at this base address; a new address redials (without
 * MESH_DOWN for the old connection). Our own id is ignored. A failed dial is repeated
 * after 100 ms, doubling to 5 s; at once when the peer dials us. */
void mesh_peer(struct mesh *mesh, const struct id *peer, const struct address *base);
/* Close the connections in both directions and forget the peer. */
void mesh_forget(struct mesh *mesh, const struct id *peer);
/* Dial now, without waiting for the back-off to pass. */
void mesh_redial(struct mesh *mesh, const struct id *peer);

/* Sign and send; ERR_PEER when there is no open connection or its queue is full (nothing
 * is kept). */
int mesh_send(struct mesh *mesh, const struct id *to, enum frame_kind kind,
              const void *body, size_t len, struct err *err);
bool mesh_connected(const struct mesh *mesh, const struct id *peer);

struct mesh_peer_stats {
    uint64_t sent_bytes, received_bytes;
    uint64_t sent_frames, received_frames;
    uint64_t bad_frames; /* undecodable, unsigned, of another swarm, of somebody else */
    int64_t last_heard_ms;
};
bool mesh_stats(const struct mesh *mesh, const struct id *peer,
                struct mesh_peer_stats *out);

#endif
