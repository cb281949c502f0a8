/*
 * mesh_parts.h - what the files of the mesh share: mesh.c has the peers and their dials,
 * mesh_receive.c what comes in, mesh_carry.c the ways round, mesh_check.c the check of an
 * address.
 */
#ifndef TRANSPORT_MESH_PARTS_H
#define TRANSPORT_MESH_PARTS_H

#include "transport/base/limits.h"
#include "transport/detour.h"
#include "transport/mesh.h"
#include "transport/score.h"
#include "transport/socket.h"

enum {
    MESH_ROUTE_BYTES_MAX = 255,
    MESH_WAITING_MAX = 16, /* frames that wait for a dial */
    MESH_WAITING_BYTES_MAX = 256 << 10,
    MESH_SOUGHT_MS =
        10000 /* a way round to a peer that is not kept stays so long unused */
};

/* A frame that waits for the connection that was dialled for it. */
struct mesh_waiting {
    enum frame_kind kind;
    uint8_t *body;
    size_t len;
};

struct mesh_peer {
    struct mesh *mesh;
    struct id id;
    bool wanted; /* by mesh_peer(); otherwise it was only heard from */
    bool kept;   /* connected all the time */
    bool hidden; /* its address is of no use */
    bool told_up;
    bool denied; /* and it was said */
    bool evicts; /* it says that it has evicted us */
    struct address base;

    /* Our connection to it. */
    struct dial *dial;
    int timer;                                         /* of the next dial; 0: none */
    int64_t backoff_ms, up_at_ms, used_ms, failing_ms; /* failing since; 0: it does not */
    uint64_t out_sent, out_heard;                      /* sequence numbers */
    struct mesh_waiting waiting[MESH_WAITING_MAX];
    int waiting_count;
    size_t waiting_bytes;

    /* Its connection to us: the newest of which a frame came. */
    bool back;
    int back_fd; /* -1: not known */
    uint8_t route[MESH_ROUTE_BYTES_MAX];
    size_t route_len;
    uint64_t back_sent, back_heard;
    char host[MESH_HOST_BYTES_MAX];
    int64_t asked_ms; /* it asked for what is long to tell; 0: never */

    struct detour detour;
    int64_t sought_ms; /* there was last something to say to it; 0: never */
    uint64_t round_sent, round_heard;

    struct score words;        /* what it says */
    struct score gives, takes; /* what we carry from it and to it */
    struct mesh_peer_stats stats;
};

struct mesh_check;

struct mesh {
    struct loop *loop;
    struct admit *admit;
    struct mesh_options options;
    struct id self;
    struct listener *listener;
    int tick;
    bool keep_all, told; /* told: by mesh_keep() */
    int count;
    struct mesh_peer *peers[MEMBERS_MAX]; /* sorted by id */
    struct buf out, inner, carry;
    uint64_t carried, carried_bytes;
    struct mesh_check *check;
};

/* ---- mesh.c ---- */
struct mesh_peer *mesh_find(const struct mesh *mesh, const struct id *id);
/* Made if need be; NULL when the table is full. */
struct mesh_peer *mesh_find_or_add(struct mesh *mesh, const struct id *id);
enum mesh_way mesh_direct(const struct mesh_peer *peer); /* OUT, BACK or NO_WAY */
/* By the direct way that there is; false: none, or its queue is full. */
bool mesh_send_direct(struct mesh_peer *peer, enum frame_kind kind, const void *body,
                      size_t len);
/* Tell the owner if the peer has become connected or has ceased to be. It may forget the
 * peer: false then. */
bool mesh_settle(struct mesh_peer *peer);
/* A word on a connection of its that we did not know: dial it, if it is our turn. */
void mesh_came_back(struct mesh_peer *peer);
/* Is it too much? Then it is hung up on for a while; may tell the owner, so the peer may
 * be gone afterwards. */
void mesh_judge(struct mesh_peer *peer);

/* ---- mesh_receive.c ---- */
void mesh_receive(void *arg);        /* the ROUTER; arg: the mesh */
void mesh_receive_out(void *arg);    /* our connection; arg: the peer */
void mesh_closed(void *arg, int fd); /* a connection to us; arg: the mesh */

/* ---- mesh_carry.c ---- */
/* A frame of one of the kinds CARRY to HELLO. NULL, or what is wrong with it. */
const char *mesh_carry_take(struct mesh_peer *from, const struct frame *frame,
                            struct err *err);
bool mesh_send_round(struct mesh_peer *peer, enum frame_kind kind, const void *body,
                     size_t len);
/* Look for ways round to peers that have none, look after those that are up. */
void mesh_carry_tick(struct mesh *mesh, int64_t now_ms);

/* ---- mesh_check.c ---- */
void mesh_check_close(struct mesh *mesh);

#endif
