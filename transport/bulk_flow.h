/*
 * bulk_flow.h - the data plane's decisions: chunks, credit, matching, epochs. No sockets,
 * clocks or threads.
 *
 *     posted operations --+                        +--> chunks, credits to send (pulled)
 *     chunks that came ---+--> [ flow: one epoch ] +--> operations done
 *     links up or down ---+                        +--> events for the control thread
 *
 * The owner feeds it, then pulls until nothing is left. One thread.
 */
#ifndef TRANSPORT_BULK_FLOW_H
#define TRANSPORT_BULK_FLOW_H

#include "transport/bulk_chunk.h"

enum {
    FLOW_CHUNK_COST = 512,           /* credit that a chunk costs besides its bytes */
    FLOW_CHUNK_BYTES_MIN = 64 << 10, /* a message is not cut into smaller chunks */
    FLOW_COPY_CHUNKS_MAX =
        2, /* chunks of a copy on the way: an activation waits behind no more */
    FLOW_EVENT_GAP_US = 100 * 1000, /* between two stale or newer events about one node */
    FLOW_ROUTE_BYTES = 15
};

/* The way back to whoever sent a chunk: its name on our socket; or our own connection to
 * it, by which the chunk came; or the member who carried it, by its number. */
enum flow_by { FLOW_BY_ROUTER, FLOW_BY_DIAL, FLOW_BY_CARRIER };
struct flow_route {
    uint8_t by; /* enum flow_by */
    uint8_t len;
    uint8_t bytes[FLOW_ROUTE_BYTES];
    uint16_t carrier;
};

/* A chunk that came. Flow owns it from flow_arrive() on and ends it with its
 * release(). */
struct flow_chunk {
    struct chunk_header header;
    const uint8_t *payload;
    struct flow_route route;
    void (*release)(struct flow_chunk *chunk);
    struct flow_chunk *next; /* flow's own */
};

struct flow_op {
    int port;
    uint32_t handle;
    uint64_t epoch;
    bool receive;
    int peer;
    enum bulk_channel channel;
    uint64_t tag;
    const void *source; /* of a send */
    void *target;       /* of a receive */
    size_t bytes;
};

struct flow_done {
    int port;
    uint32_t handle;
    enum err_code code; /* ERR_NONE, ERR_STOPPED, ERR_WIRE, ERR_USAGE (no such peer) */
    uint64_t tag;       /* ERR_WIRE: of the message that came, and its size */
    uint64_t bytes;
};

struct flow_out {
    int peer;
    struct chunk_header header;
    const uint8_t *payload;  /* NULL: zeros */
    struct flow_route route; /* of a credit */
};

struct flow_counts {
    uint64_t bad; /* chunks that break the order, the window or the epoch's plan, or come
                     from nobody we know */
    uint64_t stale;   /* of an older epoch */
    uint64_t refused; /* of the current epoch after its halt */
    uint64_t parked_bytes,
        parked_bytes_most; /* bytes that wait for a receive or for an epoch */
};

struct flow;

struct flow *flow_new(void);
void flow_free(struct flow *flow);

/* The epoch is copied. Must be newer than the last one. */
void flow_enter(struct flow *flow, const struct bulk_epoch *epoch, int64_t now_us);
void flow_halt(struct flow *flow);
uint64_t flow_epoch(const struct flow *flow); /* 0 before the first */

/* The link to a peer of the epoch can be written to, by this way (BULK_UP); cannot (never to be again in this
 * epoch); takes no more at present. */
void flow_up(struct flow *flow, int peer, enum bulk_way way, const struct id *via);
void flow_down(struct flow *flow, int peer);
void flow_blocked(struct flow *flow, int peer, bool blocked);
bool flow_is_blocked(const struct flow *flow, int peer);
/* Is there something for this peer? */
bool flow_wanted(const struct flow *flow, int peer);

void flow_post(struct flow *flow, const struct flow_op *op);

/* See bulk_probe(). Passed over for a peer that is none. */
void flow_probe(struct flow *flow, int peer, size_t bytes, int64_t bytes_per_s,
                int64_t now_us);

/* A data chunk or hello that came from the node `from`. Takes the chunk. */
void flow_arrive(struct flow *flow, const struct id *from, struct flow_chunk **chunk,
                 int64_t now_us);
/* A credit that came back from a peer of the epoch. */
void flow_credit(struct flow *flow, int peer, const struct chunk_header *header,
                 int64_t now_us);

/* The next chunk (or hello) to send, by priority, then round robin among peers; false:
 * none. It is the next again until flow_sent() or flow_blocked() is called. */
bool flow_next(struct flow *flow, struct flow_out *out, int64_t now_us);
void flow_sent(struct flow *flow, const struct flow_out *out, int64_t now_us);

/* The next credit to send back; once taken it counts as sent, flow_credit_unsent() says
 * that it was not. */
bool flow_next_credit(struct flow *flow, struct flow_out *out);
void flow_credit_unsent(struct flow *flow, const struct flow_out *out);

/* An event of the owner's, about a peer of the epoch, among the others. */
void flow_report(struct flow *flow, enum bulk_event_kind kind, int peer);

bool flow_take_done(struct flow *flow, struct flow_done *done);
bool flow_take_event(struct flow *flow, struct bulk_event *event);
void flow_count(const struct flow *flow, struct flow_counts *counts);

#endif
