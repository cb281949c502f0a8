/*
 * net.h - an invented network and clock for tests of gossip: real cores, virtual time,
 * loss, delay, one-way cuts, kills and restarts.
 */
#ifndef TESTS_GOSSIP_NET_H
#define TESTS_GOSSIP_NET_H

#include "gossip/gossip.h"
#include "transport/base/rng.h"

enum { NET_NODES_MAX = 128 };

struct net_event; /* a frame under way */

struct net_node {
    struct key *key;
    struct id id;
    uint64_t boot;
    struct gossip *gossip; /* NULL: not running */
    bool hung;             /* runs nothing, keeps its state */
    unsigned conflicts;    /* EFFECT_CONFLICT seen */
    unsigned deaths;       /* transitions to dead that it reported */
    unsigned suspicions;   /* and to suspect */
    char why[160];         /* of the last death or conflict */
};

struct net {
    struct secret *secret;
    struct id swarm;
    struct net_node nodes[NET_NODES_MAX];
    size_t count;
    bool cut[NET_NODES_MAX][NET_NODES_MAX]; /* [from][to] */
    unsigned loss_percent;
    int64_t delay_ms, jitter_ms;
    int64_t now_ms;
    uint64_t sent; /* frames */
    uint64_t bytes;
    bool refusals; /* who sends to a process that is gone learns it: gossip_refused() */
    struct rng rng;
    uint64_t seed;
    struct net_event *events; /* binary heap */
    size_t events_count, events_capacity;
    uint64_t sequence;
};

void net_open(struct net *net, uint64_t seed, size_t count); /* nobody runs yet */
void net_close(struct net *net);

void net_start(struct net *net, size_t node); /* its boot counter goes up */
void net_kill(struct net *net, size_t node);
void net_meet(struct net *net, size_t node,
              size_t seed_node);     /* join: both get the other's record */
void net_start_all(struct net *net); /* all join node 0 */
void net_cut(struct net *net, size_t from, size_t to, bool cut);
void net_leave(struct net *net, size_t node);

/* The record that a node says of itself: what the glue would give to gossip_self(). */
void net_record(const struct net *net, size_t node, struct record *out);

void net_run(struct net *net, int64_t ms);
/* Run until every running node sees `of` so (in steps of 100 ms), at most `ms`: how long
 * it took, or -1. */
int64_t net_until(struct net *net, size_t of, enum member_state state, int64_t ms);
/* Until every running node sees exactly the running ones alive. */
int64_t net_until_whole(struct net *net, int64_t ms);
enum member_state net_view(const struct net *net, size_t node, size_t of);
void net_deliver(struct net *net, size_t from, struct effects *effects);

#endif
