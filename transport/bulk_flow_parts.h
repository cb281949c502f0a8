/*
 * bulk_flow_parts.h - what the two files of the data plane's decisions share: bulk_flow.c
 * has epochs and what comes in, bulk_flow_send.c what goes out.
 */
#ifndef TRANSPORT_BULK_FLOW_PARTS_H
#define TRANSPORT_BULK_FLOW_PARTS_H

#include "transport/bulk_early.h"
#include "transport/bulk_flow.h"
#include "transport/bulk_probe.h"
#include "transport/queue.h"

struct outlet { /* what we send to one peer on one channel */
    struct queue sends;
    uint64_t offset;      /* into the first of them */
    uint64_t number;      /* messages sent whole */
    uint64_t sent, acked; /* cost */
};

struct inlet { /* what one peer sends us on one channel */
    struct queue receives;
    struct flow_chunk *first, *last; /* parked */
    uint64_t arrived, taken, told; /* cost: came, left for a buffer, said to the sender */
    uint64_t number, offset;       /* the next chunk that may come */
    uint64_t tag, total;           /* of the message that is on its way, if offset > 0 */
    int64_t began_us, began_bytes; /* its first chunk: when it came, how long it is */
    bool skipping;                 /* the rest of a message that nobody wants */
    bool due;                      /* credit to be told */
};

struct peer {
    struct id id;
    bool up, blocked, hello, broken, narrow;
    struct flow_route route;
    struct outlet out[BULK_CHANNELS];
    struct inlet in[BULK_CHANNELS];
    int queued;       /* outlets with something to send */
    bool starved;     /* there was nothing to send, or no credit, after the last chunk */
    struct rate rate; /* at which its chunks come */
    bool probing;     /* to be ended by flow_probe_over() */
    struct probe probe;
    uint64_t probes;     /* begun in this epoch */
    uint64_t probe_base; /* sent before the last one */
    bool enough;         /* its probe has told us what it can */
    bool held;           /* a probe's credit waits for the end of our reduction */
};

struct flow {
    bool entered, halted;
    uint32_t generation;
    uint64_t epoch;
    uint64_t plan_tag;
    int self;
    int peers_count;
    struct peer *peers;
    int queued[BULK_CHANNELS]; /* peers with something to send */
    int turn[BULK_CHANNELS];   /* whose turn it is */
    int hellos;
    int awaited; /* receives posted on BULK_REDUCE */
    int held;    /* peers whose credit is */
    int dues;
    int due_turn;
    struct early *early;
    struct queue done;
    struct queue events;
    struct flow_counts counts;
};

/* The operation is over; a probe's is nobody's. */
void flow_finish(struct flow *flow, const struct flow_op *op, enum err_code code,
                 uint64_t tag, uint64_t bytes);
/* One more, or one less, outlet of the peer has something to send. */
void flow_queued(struct flow *flow, int peer, enum bulk_channel channel, int change);
void flow_probe_over(struct flow *flow, int peer);
bool flow_reducing(const struct flow *flow); /* we are in a reduction */
void flow_release_held(struct flow *flow);   /* credits that waited for its end */

#endif
