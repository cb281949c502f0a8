/*
 * bulk_probe.h - the sender's side of a bandwidth probe: how much may be on the way, and
 * when it has been enough. No sockets, no clocks.
 *
 * Begins with two small chunks and lets as much more out as is credited, so that it
 * doubles each round trip. When the chunks' own round trips say that a queue of 20 ms and
 * a quarter has built up (as HyStart does, Ha and Rhee, 2011) it grows by halves; when
 * two rounds then bring no more bytes a second than the best before (as BBR's start-up
 * does), the link is full, and not much more than full, since what is queued delays
 * others. Either sign alone would be fooled: by a machine that is slow to answer, or by
 * one lame round. From then on chunks are marked as following on one another, and the
 * receiver measures.
 */
#ifndef TRANSPORT_BULK_PROBE_H
#define TRANSPORT_BULK_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBE_FLIGHT = 128, PROBE_RECENT = 4 };

struct probe {
    bool active;
    bool full;   /* the link is */
    bool broken; /* the next chunk does not follow on the last */
    bool enough; /* the receiver knows */
    uint64_t bytes_max, sent_bytes;
    size_t window_bytes;
    int64_t began_us, full_us;
    int64_t least_us; /* the shortest round trip of a chunk; 0: none yet */
    int64_t recent_us[PROBE_RECENT];
    unsigned recent_count;
    uint64_t sent, round_ends; /* the channel's count: so far, and where the round ends */
    uint64_t round_bytes;
    int64_t round_us;      /* when it began */
    int64_t best_per_s;    /* what a round brought at best */
    unsigned rounds, flat; /* rounds in a row that brought no more */
    struct {
        uint64_t sent; /* what was sent with it, in the channel's count */
        int64_t us;
    } flight[PROBE_FLIGHT];
    unsigned flight_first, flight_count;
};

struct probe_chunk {
    size_t bytes;
    bool follows, last;
};

/* At most `bytes_max`; `bytes_per_s`: what the link is thought to carry, or 0. */
void probe_begin(struct probe *probe, uint64_t bytes_max, int64_t bytes_per_s,
                 int64_t now_us);

/* The next chunk with `flight_bytes` unacknowledged; false: none now. */
bool probe_next(const struct probe *probe, uint64_t flight_bytes, int64_t now_us,
                struct probe_chunk *chunk);

/* It went out; `sent` counts it. True: it was the last. */
bool probe_sent(struct probe *probe, const struct probe_chunk *chunk, uint64_t sent,
                int64_t now_us);

/* Something else came between. */
void probe_interrupted(struct probe *probe);

/* The receiver has taken the channel's bytes up to `acked`, `bytes` of them news. True:
 * the probe is over. */
bool probe_credited(struct probe *probe, uint64_t acked, uint64_t bytes, bool enough,
                    int64_t now_us);

#endif
