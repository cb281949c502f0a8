/*
 * gossip_world.h - thousands of real gossip cores on an invented network and clock: frames
 * take 10 to 60 ms each way and are lost as often as told. One seed, one run.
 *
 * Where not all can be real (ten thousand full tables fit nowhere), a sample is, each with
 * the full table, and the others are modelled: they answer pings as a well node does,
 * and each ping and digest that a real one sends to one of them comes back to another real
 * one in the name of a third, so that the real ones hear as much as they say, as all nodes
 * at rest do.
 *
 * Signatures of records and accusations are verified for real, but once for all cores.
 */
#ifndef TESTS_BENCH_GOSSIP_WORLD_H
#define TESTS_BENCH_GOSSIP_WORLD_H

#include "gossip/message.h"
#include "transport/base/rng.h"

enum { WORLD_NODES_MAX = MEMBERS_MAX, WORLD_SLOTS = 128 };

struct world_frame {
    uint32_t from, to;
    enum frame_kind kind;
    uint8_t *bytes;
    size_t len;
};

struct world_slot {
    struct world_frame *list;
    size_t count, capacity;
};

struct world_node {
    struct key *key;
    struct id id;
    struct record record;  /* as the glue would give it */
    struct gossip *gossip; /* NULL: dead, or modelled */
    bool dead;
};

struct world {
    struct world_node *nodes;
    uint32_t count, real; /* the first `real` have a core */
    unsigned loss_percent;
    int64_t now_ms, begun_ms;
    struct secret *secret;
    struct id swarm;
    struct rng rng;
    struct world_slot slots[WORLD_SLOTS]; /* of a millisecond each */
    struct {
        uint64_t prefix;
        uint32_t at;
    } * index;
    size_t index_mask;
    /* Since the last world_count(). */
    uint64_t frames, bytes; /* sent by real nodes; bytes with the frame's envelope */
    uint64_t suspicions, deaths, false_deaths, conflicts;
};

/* `links` estimates in each record. Everybody knows everybody. */
struct world *world_new(uint64_t seed, uint32_t count, uint32_t real, uint32_t links);
void world_free(struct world *world);
void world_run(struct world *world, int64_t ms);
void world_count(struct world *world);

void world_kill(struct world *world, uint32_t node);
/* Each is watched by the three on either side in the order of ids, or by nobody. */
void world_watch(struct world *world, bool watched);
/* So many links in the node's next record. */
void world_links(struct world *world, uint32_t node, uint32_t links);
/* Give a node's record a new epoch, and how many of the living know of it. */
void world_update(struct world *world, uint32_t node, uint64_t epoch);
uint32_t world_updated(const struct world *world, uint32_t node, uint64_t epoch);
/* How many of the living hold it for dead. */
uint32_t world_mourned(const struct world *world, uint32_t node);
uint32_t world_living(const struct world *world);

#endif
