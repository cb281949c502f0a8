/*
 * bulk_rate.h - how fast a peer's chunks come in, from the times at which they arrived.
 *
 * Measured by the receiver: what a sender hands over says how much room there is in the
 * sockets between, not what the link carries. A chunk that is marked as following on the
 * one before it (CHUNK_FOLLOWS) kept the link busy since then, so that its bytes over the
 * time between the two are the link's rate (delivery rate as in BBR, Cardwell et al.,
 * draft-cheng-iccrg-delivery-rate-estimation; the unmarked ones are "application
 * limited"). Bytes and times of marked chunks are added up until they are worth a sample;
 * of the others there is a sample that is only a lower bound, of longer stretches.
 *
 * A probe is one sample: of its marked chunks, in windows, until the estimate stays
 * within 5 % over five of them.
 */
#ifndef TRANSPORT_BULK_RATE_H
#define TRANSPORT_BULK_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RATE_CURVE_POINTS = 4, /* message sizes: 64 KiB, 1, 16 and 64 MiB */
    RATE_PROBE_WINDOWS = 6
};

extern const int64_t rate_curve_bytes[RATE_CURVE_POINTS];

struct rate_sample {
    int64_t bytes, us;
    bool limited; /* a lower bound: the sender had nothing to send, or no credit */
    bool probe;
    /* What messages of rate_curve_bytes got, in bytes a second; 0: nothing new. */
    int64_t curve[RATE_CURVE_POINTS];
};

struct rate_probe {
    bool active, told; /* told: its sample was given */
    uint64_t tag;
    int64_t bytes, us; /* of marked chunks */
    unsigned windows;
    int64_t settle_us; /* of marked chunks that were passed over at the begin */
    unsigned settle_count;
    int64_t window_bytes, window_us;
    unsigned window_count;
    int64_t estimates[RATE_PROBE_WINDOWS];    /* bytes a second, after each of the last */
    int64_t first_us, first_bytes, sum_bytes; /* of all its chunks */
};

struct rate {
    int64_t last_us; /* the last chunk came; 0: none yet */
    int64_t bytes, us;
    unsigned count;
    int64_t small_bytes, small_us; /* of marked small ones since the last large one */
    int64_t loose_bytes, loose_us; /* marked or not, since... */
    struct rate_probe probe;
    int64_t curve[RATE_CURVE_POINTS];
};

/* A data chunk of `bytes` came now. True when that makes a sample. */
bool rate_arrived(struct rate *rate, int64_t bytes, bool follows, int64_t now_us,
                  struct rate_sample *sample);

struct rate_probe_chunk {
    uint64_t tag; /* the probe's; odd: it began at the link's pace, as a message does */
    int64_t bytes;
    bool follows, last;
};

/* A chunk of a probe. `*enough`: it needs to send no more. */
bool rate_probed(struct rate *rate, const struct rate_probe_chunk *chunk, int64_t now_us,
                 bool *enough, struct rate_sample *sample);

/* A message's bytes so far went from `before` to `after` in `us` since its first chunk,
 * which had `first` of them: is that a point of the curve? */
void rate_message(struct rate *rate, int64_t first, int64_t before, int64_t after,
                  int64_t us);

#endif
