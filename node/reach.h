/*
 * reach.h - can others dial this node, and at which address? Peers dial it back one after
 * another and say what came of it; the address that they see it come from is tried where
 * its own guess is no good. A step machine.
 *
 *     UNCHECKED --answers--> ALL | SOME | NONE of those who tried got through
 *
 * An address that was given by hand stays, whatever comes of it. Whom a node keeps
 * connections to in a large swarm is chosen here, too.
 */
#ifndef NODE_REACH_H
#define NODE_REACH_H

#include "gossip/record.h"
#include "transport/address.h"
#include "transport/mesh.h"

enum {
    REACH_ANSWERS_MAX = 8,   /* kept of an address; the newest */
    REACH_ENOUGH = 3,        /* answers, from as many peers, make a verdict firm */
    REACH_WAIT_MS = 15000,   /* for one answer */
    REACH_NEXT_MS = 400,     /* to the next question while there are too few answers */
    REACH_AGAIN_MS = 300000, /* ... when all is well */
    REACH_DOUBT_MS = 30000,  /* ... when it is not */
    REACH_KEEP_ALL_MAX = 24, /* members; a larger swarm is no full mesh */
    REACH_NEIGHBOURS = 8
};

/* What one peer found. */
struct reach_answer {
    struct id peer;
    int64_t at_ms;
    enum mesh_port ports[3];
};

struct reach;

/* `fixed`: the address was given, or nothing else is listened at. */
struct reach *reach_new(const struct address *advertise, bool fixed);
void reach_free(struct reach *reach);

/* Whom to ask now about which address; false: nobody. `peers`: those that we are connected
 * to. `nonce` comes back with the answer. */
bool reach_ask(struct reach *reach, int64_t now_ms, const struct id *peers, size_t count,
               struct id *peer, struct address *base, uint64_t *nonce);
/* A peer's answer, if it is the one that was asked for. `host`: where it sees us come
 * from, "" if it does not say. All ports MESH_PORT_UNTRIED: it could not try now. True
 * when verdict or address changed. */
bool reach_answered(struct reach *reach, int64_t now_ms, const struct id *peer,
                    uint64_t nonce, const char *host, const enum mesh_port ports[3]);
/* Ask again soon: something changed, or somebody wants to know. */
void reach_again(struct reach *reach);

/* The address to advertise, and what is known of it. */
const struct address *reach_address(const struct reach *reach);
enum record_reach reach_verdict(const struct reach *reach);
const char *reach_verdict_name(enum record_reach reach); /* "reachable" */
const char *reach_host(const struct reach *reach); /* last seen by a peer; "": never */
/* Answers about that address, at most REACH_ANSWERS_MAX. */
int reach_answers(const struct reach *reach, const struct reach_answer **answers);

/* The gossip neighbours of `self` among the others: the same choice from both ends'
 * hashes, so that the graph of everybody's choices is connected. Up to `most` into `out`;
 * how many. */
size_t reach_neighbours(const struct id *self, const struct id *others, size_t count,
                        struct id *out, size_t most);

#endif
