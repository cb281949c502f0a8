/*
 * net.h - the inside of the invented control plane, shared by net.c and net_figures.c.
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "tests/sim/world.h"
#include "transport/mesh.h"

enum { PEERS_MAX = HOSTS_MAX * 4 }; /* ids that hosts had before count, too */

struct conn {
    int from, to;
    uint64_t from_life, to_life;
    bool open;
    bool lossy; /* it closed, and what was under way is lost */
    bool shut;  /* who was dialled has closed it: nothing comes by it */
    bool heard; /* something came by it: who was dialled can answer on it */
    int via;    /* host that carries; -1: nobody has to */
    uint64_t via_life;
    int64_t last_us;      /* of the delivery of its last frame */
    int64_t back_us;      /* of the last answer on it */
    int64_t blocked_us;   /* since then a direction does not come through; 0: both do */
    struct event **waits; /* frames that do not come through, in order */
    size_t waits_count, waits_room;
};

struct peer {
    struct id id;
    struct address base;
    int target;       /* host, -1: none has this address */
    size_t conn;      /* of the dial or connection at hand */
    size_t back;      /* the peer's connection to us, by which we can answer, + 1 */
    bool told;        /* that there is a way to it */
    bool evicts;      /* it says that it has evicted us */
    uint64_t dial;    /* the dial's number: others are void */
    bool up, waits;   /* connected; between two dials */
    bool hidden;      /* its address is of no use: nothing follows from refusals */
    int64_t began_us; /* of the dial */
    int64_t up_us;
    int64_t backoff_ms;
    struct mesh_peer_stats stats;
    uint64_t sequence;
};

struct mesh {
    struct host *host;
    struct admit *admit;
    struct mesh_options options;
    struct peer peers[PEERS_MAX];
    int count;
    uint64_t dials;
    mesh_checked_fn check_fn; /* NULL: no check is under way */
    void *check_arg;
    struct id check_id;
    struct address check_base;
    int check_target;
};

extern struct conn *conns;

struct peer *net_find(struct mesh *mesh, const struct id *id);
bool net_both_ways(int a, int b); /* of two hosts: does it come through both ways? */

#endif
