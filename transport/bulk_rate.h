/*
 * bulk_rate.h - delivery rate of a burst, from the times at which its credit came back.
 *
 * A burst begins with the first chunk of a large message and ends when nothing is left to
 * send. Its rate is what was credited after the first credit over the time since: one
 * chunk is discarded, and with it the round trip. Credits of all channels to the peer
 * count, since they share the link.
 */
#ifndef TRANSPORT_BULK_RATE_H
#define TRANSPORT_BULK_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct rate {
    bool active;
    bool ended;   /* nothing was left to send: later chunks are no part of it */
    bool limited; /* the sender or the receiver held it up */
    bool probe;
    unsigned credits;
    uint64_t start_bytes, base_bytes,
        last_bytes; /* credited so far: at the start, first and last credit */
    int64_t start_us, base_us, last_us;
};

struct rate_sample {
    int64_t bytes, us;
    bool limited;
};

void rate_begin(struct rate *rate, uint64_t credited_bytes, int64_t now_us);
void rate_credit(struct rate *rate, uint64_t credited_bytes, int64_t now_us);

/* The burst so far; false when it is too short to say anything (a probe always says
 * something). */
bool rate_sample(const struct rate *rate, struct rate_sample *sample);

#endif
