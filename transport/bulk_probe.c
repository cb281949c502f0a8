#include "transport/bulk_probe.h"
#include "transport/base/limits.h"

enum {
    WINDOW_FIRST = 32 << 10,
    CHUNKS_IN_WINDOW = 8,
    PROBE_CHUNK_MIN = 16 << 10,
    HINT_MS = 60,         /* begin with so much of what the link is thought to carry */
    QUEUE_US = 20 * 1000, /* and a quarter of the round trip: the link is full */
    FULL_US_MAX = 1000 * 1000,
    PROBE_US_MAX = 3 * 1000 * 1000
};

void
probe_begin(struct probe *probe, uint64_t bytes_max, int64_t bytes_per_s, int64_t now_us)
{
    int64_t window = bytes_per_s / 1000 * HINT_MS;
    if (window > BULK_WINDOW_BYTES)
        window = BULK_WINDOW_BYTES;
    if (window < WINDOW_FIRST)
        window = WINDOW_FIRST;
    *probe = (struct probe){.active = true,
                            .broken = true,
                            .bytes_max = bytes_max,
                            .window_bytes = (size_t)window,
                            .began_us = now_us};
}

static bool
time_is_up(const struct probe *probe, int64_t now_us)
{
    return now_us - probe->began_us >= PROBE_US_MAX ||
           (probe->full_us && now_us - probe->full_us >= FULL_US_MAX);
}

bool
probe_next(const struct probe *probe, uint64_t flight_bytes, int64_t now_us,
           struct probe_chunk *chunk)
{
    size_t bytes = probe->window_bytes / CHUNKS_IN_WINDOW;
    uint64_t left = probe->bytes_max - probe->sent_bytes;
    if (!probe->active)
        return false;
    bytes = bytes < PROBE_CHUNK_MIN ? PROBE_CHUNK_MIN : bytes;
    bytes = bytes > CHUNK_BYTES ? CHUNK_BYTES : bytes;
    bytes = left < bytes ? (size_t)left : bytes;
    if (flight_bytes > 0 && flight_bytes + bytes > probe->window_bytes)
        return false;
    *chunk = (struct probe_chunk){.bytes = bytes,
                                  .follows = probe->full && !probe->broken,
                                  .last = bytes == left || time_is_up(probe, now_us)};
    return true;
}

bool
probe_sent(struct probe *probe, const struct probe_chunk *chunk, uint64_t sent,
           int64_t now_us)
{
    probe->sent_bytes += chunk->bytes;
    probe->sent = sent;
    if (!probe->round_ends) {
        probe->round_ends = sent;
        probe->round_us = now_us;
    }
    probe->broken = false;
    if (probe->flight_count < PROBE_FLIGHT) {
        unsigned at = (probe->flight_first + probe->flight_count++) % PROBE_FLIGHT;
        probe->flight[at].sent = sent;
        probe->flight[at].us = now_us;
    }
    if (chunk->last)
        probe->active = false;
    return chunk->last;
}

void
probe_interrupted(struct probe *probe)
{
    probe->broken = true;
}

/* The round trip of the newest chunk that is credited; -1: not known. */
static int64_t
round_trip(struct probe *probe, uint64_t acked, int64_t now_us)
{
    int64_t us = -1;
    while (probe->flight_count > 0 && probe->flight[probe->flight_first].sent <= acked) {
        us = now_us - probe->flight[probe->flight_first].us;
        probe->flight_first = (probe->flight_first + 1) % PROBE_FLIGHT;
        probe->flight_count--;
    }
    return us;
}

/* Have all the last ones waited in a queue? Half of it is enough to go on saying so. */
static bool
queued(const struct probe *probe)
{
    int64_t queue_us = probe->full ? QUEUE_US / 2 : QUEUE_US;
    int64_t least = INT64_MAX;
    for (unsigned i = 0; i < PROBE_RECENT; i++)
        least = probe->recent_us[i] < least ? probe->recent_us[i] : least;
    return probe->recent_count >= PROBE_RECENT &&
           least > probe->least_us + probe->least_us / 4 + queue_us;
}

/* A round is over when what was on the way at its begin is credited. */
static void
count_round(struct probe *probe, uint64_t acked, uint64_t bytes, int64_t now_us)
{
    probe->round_bytes += bytes;
    if (acked < probe->round_ends || !probe->round_ends || now_us <= probe->round_us)
        return;
    int64_t per_s = (int64_t)probe->round_bytes * 1000000 / (now_us - probe->round_us);
    bool grew = per_s > probe->best_per_s / 8 * 9;
    probe->flat = grew ? 0 : probe->flat + 1;
    if (per_s > probe->best_per_s)
        probe->best_per_s = per_s;
    probe->rounds++;
    probe->round_ends = probe->sent;
    probe->round_bytes = 0;
    probe->round_us = now_us;
}

bool
probe_credited(struct probe *probe, uint64_t acked, uint64_t bytes, bool enough,
               int64_t now_us)
{
    if (!probe->active)
        return false;
    int64_t us = round_trip(probe, acked, now_us);
    if (us >= 0) {
        probe->recent_us[probe->recent_count++ % PROBE_RECENT] = us;
        if (probe->least_us == 0 || us < probe->least_us)
            probe->least_us = us;
    }
    count_round(probe, acked, bytes, now_us);
    bool slow = queued(probe), flat = probe->full ? probe->flat > 0 : probe->flat > 1;
    bool full = (slow && flat) || probe->window_bytes >= BULK_WINDOW_BYTES;
    if (!full) {
        probe->window_bytes += (size_t)(slow ? bytes / 2 : bytes);
        if (probe->window_bytes > BULK_WINDOW_BYTES)
            probe->window_bytes = BULK_WINDOW_BYTES;
    }
    if (full != probe->full)
        probe->broken = true;
    probe->full = full;
    if (full && !probe->full_us)
        probe->full_us = now_us;
    probe->enough = enough;
    if (enough)
        probe->active = false;
    return enough;
}
