#include "transport/bulk_rate.h"

#include <string.h>

enum {
    LARGE_BYTES = 16 << 10,
    SAMPLE_US = 50 * 1000, /* a scheduler's delays have to be small against it */
    SAMPLE_BYTES_MIN = 64 << 10,
    SAMPLE_CHUNKS_MIN = 3,
    SAMPLE_BYTES_ENOUGH = 32 << 20, /* ... or so much, on a very fast link */
    LOOSE_US = 200 * 1000,
    LOOSE_BYTES_MIN = 256 << 10,
    IDLE_US =
        1000 * 1000, /* a gap that says nothing but that there was nothing to send */
    WINDOW_US = 25 * 1000,
    WINDOW_CHUNKS_MIN = 2,
    WINDOW_BYTES_ENOUGH = 4 << 20,
    SETTLED_PERCENT = 5
};

const int64_t rate_curve_bytes[RATE_CURVE_POINTS] = {64 << 10, 1 << 20, 16 << 20,
                                                     64 << 20};

static int64_t
per_second(int64_t bytes, int64_t us)
{
    if (us < 1)
        us = 1;
    if (bytes > INT64_MAX / 1000000)
        bytes = INT64_MAX / 1000000;
    return bytes * 1000000 / us;
}

static void
give(struct rate *rate, int64_t bytes, int64_t us, bool limited, bool probe,
     struct rate_sample *sample)
{
    *sample = (struct rate_sample){
        .bytes = bytes, .us = us < 1 ? 1 : us, .limited = limited, .probe = probe};
    memcpy(sample->curve, rate->curve, sizeof(sample->curve));
    memset(rate->curve, 0, sizeof(rate->curve));
    rate->loose_bytes = rate->loose_us = 0;
    if (limited)
        return; /* the marked ones go on adding up */
    rate->bytes = rate->us = 0;
    rate->count = 0;
}

/* The first marked chunks may have lain in our sockets while we were late: what is read
 * then comes faster than the link. */
static bool
settled(struct rate_probe *probe, int64_t passed)
{
    if (probe->settle_us >= WINDOW_US && probe->settle_count >= WINDOW_CHUNKS_MIN)
        return true;
    probe->settle_us += passed;
    probe->settle_count++;
    return false;
}

bool
rate_arrived(struct rate *rate, int64_t bytes, bool follows, int64_t now_us,
             struct rate_sample *sample)
{
    int64_t passed = rate->last_us ? now_us - rate->last_us : IDLE_US;
    rate->last_us = now_us;
    if (rate->probe.active && !rate->probe.told && passed < IDLE_US) {
        /* Other traffic on the way is the link's work, too. */
        if (follows && settled(&rate->probe, passed)) {
            rate->probe.window_bytes += bytes;
            rate->probe.window_us += passed;
        }
        return false;
    }
    /* Small ones take the time that a machine needs for each, not the link's; between
     * large ones they count. */
    if (!follows) {
        rate->small_bytes = rate->small_us = 0;
    } else if (bytes < LARGE_BYTES) {
        rate->small_bytes += bytes;
        rate->small_us += passed;
    } else {
        rate->bytes += bytes + rate->small_bytes;
        rate->us += passed + rate->small_us;
        rate->small_bytes = rate->small_us = 0;
        rate->count++;
    }
    if (passed < IDLE_US) {
        rate->loose_bytes += bytes;
        rate->loose_us += passed;
    } else {
        rate->loose_bytes = rate->loose_us = 0;
    }
    if (rate->count >= SAMPLE_CHUNKS_MIN && rate->bytes >= SAMPLE_BYTES_MIN &&
        (rate->us >= SAMPLE_US || rate->bytes >= SAMPLE_BYTES_ENOUGH)) {
        give(rate, rate->bytes, rate->us, false, false, sample);
        return true;
    }
    if (rate->loose_us >= LOOSE_US && rate->loose_bytes >= LOOSE_BYTES_MIN) {
        give(rate, rate->loose_bytes, rate->loose_us, true, false, sample);
        return true;
    }
    return false;
}

/* The window is full: did the estimate stay where it was? */
static bool
window_closed(struct rate_probe *probe)
{
    probe->bytes += probe->window_bytes;
    probe->us += probe->window_us;
    probe->window_bytes = probe->window_us = 0;
    probe->window_count = 0;
    memmove(probe->estimates, probe->estimates + 1,
            (RATE_PROBE_WINDOWS - 1) * sizeof(probe->estimates[0]));
    probe->estimates[RATE_PROBE_WINDOWS - 1] = per_second(probe->bytes, probe->us);
    if (++probe->windows < RATE_PROBE_WINDOWS)
        return false;
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < RATE_PROBE_WINDOWS; i++) {
        least = probe->estimates[i] < least ? probe->estimates[i] : least;
        most = probe->estimates[i] > most ? probe->estimates[i] : most;
    }
    return most - least < most / 100 * SETTLED_PERCENT;
}

static bool
probe_over(struct rate *rate, struct rate_sample *sample)
{
    struct rate_probe *probe = &rate->probe;
    int64_t bytes = probe->bytes + probe->window_bytes, us = probe->us + probe->window_us;
    probe->told = true;
    if (bytes > 0) {
        give(rate, bytes, us, false, true, sample);
        return true;
    }
    /* It never filled the link: all that it says is a lower bound. */
    bytes = probe->sum_bytes - probe->first_bytes;
    if (bytes <= 0)
        return false;
    give(rate, bytes, rate->last_us - probe->first_us, true, true, sample);
    return true;
}

bool
rate_probed(struct rate *rate, const struct rate_probe_chunk *chunk, int64_t now_us,
            bool *enough, struct rate_sample *sample)
{
    struct rate_probe *probe = &rate->probe;
    int64_t passed = now_us - rate->last_us;
    if (!probe->active || probe->tag != chunk->tag)
        *probe = (struct rate_probe){.active = true,
                                     .tag = chunk->tag,
                                     .first_us = now_us,
                                     .first_bytes = chunk->bytes};
    else if (chunk->tag & 1)
        rate_message(rate, probe->first_bytes, probe->sum_bytes,
                     probe->sum_bytes + chunk->bytes, now_us - probe->first_us);
    bool first = probe->sum_bytes == 0, over = chunk->last;
    probe->sum_bytes += chunk->bytes;
    rate->last_us = now_us;
    if (chunk->follows && !first && !probe->told && settled(probe, passed)) {
        probe->window_bytes += chunk->bytes;
        probe->window_us += passed;
        probe->window_count++;
        if (probe->window_count >= WINDOW_CHUNKS_MIN &&
            (probe->window_us >= WINDOW_US || probe->window_bytes >= WINDOW_BYTES_ENOUGH))
            over = window_closed(probe) || over;
    }
    bool told = !probe->told && over && probe_over(rate, sample);
    *enough = probe->told;
    return told;
}

void
rate_message(struct rate *rate, int64_t first, int64_t before, int64_t after, int64_t us)
{
    for (int i = 0; i < RATE_CURVE_POINTS; i++)
        if (before < rate_curve_bytes[i] && after >= rate_curve_bytes[i] && after > first)
            rate->curve[i] = per_second(after - first, us);
}
