/*
 * council.h - nodes that agree on an invented network and clock: delay, loss,
 * duplication, reordering, cuts, crashes between any two effects, restarts from the last
 * durable blob. Every effect passes the history. One seed replays a run.
 *
 * Stands in for node: views of who is gone, leaders that propose what the views say,
 * judgement after a while, joiners that import.
 */
#ifndef TESTS_GOSSIP_COUNCIL_H
#define TESTS_GOSSIP_COUNCIL_H

#include "gossip/agree.h"
#include "tests/gossip/agree_history.h"
#include "transport/base/rng.h"

enum { COUNCIL_MAX = 10 };

struct council_node {
    struct key *key;
    struct id id;
    struct agree *agree; /* NULL: down */
    uint8_t *disk;
    size_t disk_len;
    uint64_t boots;
    bool wanted;                    /* a member, if it were for us */
    bool stopped;                   /* hung: neither ticks nor receives */
    bool sees_gone[COUNCIL_MAX];    /* its view */
    int64_t silent_ms[COUNCIL_MAX]; /* how long it has heard nothing of that one */
    int64_t patience_ms;            /* until it takes a silent one for gone */
    int64_t back_at_ms;             /* down: starts again then; 0: not by itself */
    bool quorum;                    /* by its effects */
    struct id leader;
    int collects, judges;
};

struct council_event {
    int64_t at_ms;
    uint64_t sequence;
    int from, to;
    enum frame_kind kind; /* 0: a verdict */
    uint8_t *body;
    size_t len;
    struct id hash;
    bool right;
    uint64_t boot; /* of the node, for a verdict */
};

struct council {
    struct rng rng;
    int64_t now_ms;
    int count;
    struct council_node nodes[COUNCIL_MAX];
    bool cut[COUNCIL_MAX][COUNCIL_MAX]; /* from, to */
    struct council_event *events;
    size_t events_count, events_capacity;
    uint64_t sequence;
    struct history *history;
    struct key *admission; /* signs recoveries */
    uint64_t frames;       /* delivered */
    int rivals;            /* EFFECT_RIVAL, of all nodes */

    /* What goes wrong; all may be 0. */
    int64_t delay_ms, jitter_ms, judge_ms;
    int loss_percent, twice_percent, wrong_percent;
    unsigned contrary;  /* nodes to whom every decree is wrong */
    int crash_permille; /* per effect */
    bool evidence;      /* views reach agree_gone() */
    bool propose;       /* leaders follow their views */
    bool lawless;       /* frames may be refused: recovered twice */
    int job_permille;   /* per step: a leader proposes though its view is what is */
};

struct council *council_new(uint64_t seed, int count);
void council_free(struct council *net);

void council_found(struct council *net, int node);
void council_start(struct council *net, int node); /* from its disk, or to join */
void council_crash(struct council *net, int node);
void council_run(struct council *net, int64_t ms); /* in steps of 5 ms */
/* Cut (or heal) both directions between two sets of nodes. */
void council_split(struct council *net, unsigned left, unsigned right, bool cut);
/* Found at node 0 and bring the first `members` in, without faults. */
void council_grow(struct council *net, int members);
/* Run until all up nodes of the mask are in the same epoch with exactly these members and
 * follow one leader of them that is idle; how long it took, or -1. */
int64_t council_settle(struct council *net, unsigned members, int64_t limit_ms);
int council_leader(const struct council *net); /* leader with the newest epoch; -1 */
uint64_t council_epoch(const struct council *net, int node);
void council_print(const struct council *net,
                   int node); /* a line, to find out why a run failed */
/* Recover at this node, with the nodes of the mask as survivors. */
void council_recover(struct council *net, int node, unsigned survivors);
/* Hand over effects as if node had made them. */
void council_carry(struct council *net, int node, struct effects *effects);

#endif
