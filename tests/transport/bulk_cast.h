/*
 * bulk_cast.h - several nodes' data planes in one process, for the tests of bulk and of
 * the ring.
 *
 * The test's thread is everybody's control thread; the ZAP handler runs while it waits
 * for something.
 */
#ifndef TESTS_TRANSPORT_BULK_CAST_H
#define TESTS_TRANSPORT_BULK_CAST_H

#include "transport/bulk.h"

enum { CAST_MAX = 6 };

struct cast {
    struct loop *loop;
    struct admit *admit;
    int count;
    uint64_t epoch;
    struct key *keys[CAST_MAX];
    struct bulk *bulks[CAST_MAX];
    struct bulk_peer peers[CAST_MAX];
    bool blocked[CAST_MAX][CAST_MAX]; /* the first cannot dial the second */
    struct address nowhere;
    enum bulk_way ways[CAST_MAX][CAST_MAX]; /* as reported last, and who carries */
    struct id vias[CAST_MAX][CAST_MAX];
    bool up[CAST_MAX][CAST_MAX];         /* who reported whom in this epoch */
    int events[CAST_MAX][BULK_RATE + 1]; /* how many of each kind */
    struct bulk_event last[CAST_MAX][BULK_RATE + 1];
};

/* `count` nodes, all admitted, in no epoch. */
void cast_open(struct cast *cast, int count);
void cast_close(struct cast *cast);

/* Node `self` closes its sockets, or comes back in the same place as a new process
 * would. */
void cast_kill(struct cast *cast, int self);
void cast_revive(struct cast *cast, int self);

/* One node, or all that live, enter the epoch with all as peers; the second waits until
 * all are connected. */
void cast_enter(struct cast *cast, int self, uint64_t epoch);
void cast_enter_all(struct cast *cast, uint64_t epoch);

/* Take in events for at most `ms`, until `self` has seen an event of this kind (true). */
bool cast_event(struct cast *cast, int self, enum bulk_event_kind kind, int64_t ms);
void cast_run(struct cast *cast, int64_t ms);

/* Its port, in the epoch that it entered last. */
struct bulk_port *cast_port(struct cast *cast, int self, enum bulk_port_kind kind);

/* Bytes that are a function of (seed, place). */
void cast_fill(uint8_t *data, size_t bytes, uint64_t seed);
bool cast_filled(const uint8_t *data, size_t bytes, uint64_t seed);

#endif
