#include "transport/bulk_rate.h"

enum { RATE_BYTES_MIN = 256 << 10, RATE_CREDITS_MIN = 4 };

void
rate_begin(struct rate *rate, uint64_t credited_bytes, int64_t now_us)
{
    *rate =
        (struct rate){.active = true, .start_bytes = credited_bytes, .start_us = now_us};
}

void
rate_credit(struct rate *rate, uint64_t credited_bytes, int64_t now_us)
{
    if (!rate->credits++) {
        rate->base_bytes = credited_bytes;
        rate->base_us = now_us;
    }
    rate->last_bytes = credited_bytes;
    rate->last_us = now_us;
}

bool
rate_sample(const struct rate *rate, struct rate_sample *sample)
{
    if (!rate->credits)
        return false;
    *sample =
        (struct rate_sample){.bytes = (int64_t)(rate->last_bytes - rate->base_bytes),
                             .us = rate->last_us - rate->base_us,
                             .limited = rate->limited};
    bool enough = rate->credits >= RATE_CREDITS_MIN && sample->bytes > 0 &&
                  rate->last_bytes - rate->start_bytes >= RATE_BYTES_MIN;
    if (!enough && rate->probe) { /* the round trip is in it: a lower bound */
        sample->bytes = (int64_t)(rate->last_bytes - rate->start_bytes);
        sample->us = rate->last_us - rate->start_us;
        sample->limited = true;
        enough = true;
    }
    if (sample->us < 1)
        sample->us = 1;
    return enough;
}
