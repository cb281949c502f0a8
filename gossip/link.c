#include "gossip/link.h"
#include "gossip/logarithm.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_BYTES_MIN = 4096, /* less tells more of the round trip than of the rate */
    HALF_LIFE_MS = 30 * 60 * 1000, /* of confidence */
    FRESH_MS = 10 * 60 * 1000,     /* measured so lately that no probe is due */
    ROUND_TRIP_MS = 5 * 60 * 1000, /* one of the two windows of the smallest round trip */
    PROBE_GAP_MS = 400,
    HOUR_MS = 60 * 60 * 1000,
    PROBE_BYTES_MIN = 1 << 20,
    PROBE_BYTES_MAX = 8 << 20,
    BUDGET_BYTES_MIN = 16 << 20, /* an hour */
    BUDGET_BYTES_MAX = 80 << 20, /* 2 GB a day */
    WEIGHT_PROBE = 1000,         /* thousandths */
    WEIGHT_PASSIVE = 700,
    WEIGHT_LIMITED = 300,
    QUARTER = 21098, /* log2(1.25) */
    FAR = 66187      /* log2(e^0.7): a sample that is no noise */
};

struct link {
    struct id peer;
    bool measured;      /* `rate` holds */
    int32_t rate;       /* log2 of bytes a second */
    int32_t confidence; /* 0..100, at sampled_ms */
    int64_t sampled_ms;
    int run;           /* consecutive far samples: > 0 above the estimate, < 0 below */
    bool probing;      /* a probe is on its way: the next sample is its */
    int64_t probed_ms; /* last probe sent; 0: never */
    int64_t window_ms; /* begin of the current round-trip window */
    int64_t smallest_us[2]; /* of the current and the previous window; 0: none */
    bool told;              /* in a record already, as: */
    int32_t told_rate;
    int64_t told_us;
};

struct links {
    struct link *list[MEMBERS_MAX]; /* ascending peer */
    size_t count;
    int64_t probe_ms;    /* last probe to anybody; 0: never */
    int64_t refilled_ms; /* budget */
    int64_t budget_bytes;
    bool budgeted; /* the budget was set up */
};

struct links *
links_new(void)
{
    return xcalloc(1, sizeof(struct links));
}

void
links_free(struct links *links)
{
    if (!links)
        return;
    for (size_t i = 0; i < links->count; i++)
        free(links->list[i]);
    free(links);
}

static size_t
place(const struct links *links, const struct id *peer)
{
    size_t low = 0, high = links->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (id_compare(&links->list[middle]->peer, peer) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct link *
find(const struct links *links, const struct id *peer)
{
    size_t at = place(links, peer);
    if (at == links->count || !id_equal(&links->list[at]->peer, peer))
        return NULL;
    return links->list[at];
}

static void
take_out(struct links *links, size_t at)
{
    free(links->list[at]);
    links->count--;
    memmove(&links->list[at], &links->list[at + 1],
            (links->count - at) * sizeof(struct link *));
}

/* The link's entry, made if need be; the one unheard of for longest gives way. */
static struct link *
want(struct links *links, const struct id *peer)
{
    struct link *link = find(links, peer);
    if (link)
        return link;
    if (links->count == MEMBERS_MAX) {
        size_t oldest = 0;
        for (size_t i = 1; i < links->count; i++)
            if (links->list[i]->sampled_ms < links->list[oldest]->sampled_ms)
                oldest = i;
        take_out(links, oldest);
    }
    size_t at = place(links, peer);
    link = xcalloc(1, sizeof(*link));
    link->peer = *peer;
    memmove(&links->list[at + 1], &links->list[at],
            (links->count - at) * sizeof(struct link *));
    links->list[at] = link;
    links->count++;
    return link;
}

/* ---- estimating ---- */

static int32_t
confidence_at(const struct link *link, int64_t now_ms)
{
    if (!link->measured || now_ms <= link->sampled_ms)
        return link->measured ? link->confidence : 0;
    int64_t age = now_ms - link->sampled_ms;
    if (age / HALF_LIFE_MS >= 16)
        return 0;
    int64_t left =
        logarithm_power(16LL * LOGARITHM_ONE - age * LOGARITHM_ONE / HALF_LIFE_MS);
    return (int32_t)(link->confidence * left >> 16);
}

static int32_t
sample_rate(int64_t bytes, int64_t us)
{
    /* bytes x 10^6 / us, without the overflow of it */
    return logarithm_of((uint64_t)bytes) + logarithm_of(1000000) -
           logarithm_of((uint64_t)us);
}

void
links_sample(struct links *links, int64_t now_ms, const struct id *peer, int64_t bytes,
             int64_t us, bool limited)
{
    if (bytes < SAMPLE_BYTES_MIN || us <= 0)
        return;
    struct link *link = want(links, peer);
    int32_t sample = sample_rate(bytes, us);
    int32_t weight = link->probing ? WEIGHT_PROBE
                     : limited     ? WEIGHT_LIMITED
                                   : WEIGHT_PASSIVE;
    link->probing = false;
    if (link->measured && limited && weight != WEIGHT_PROBE && sample <= link->rate)
        return; /* the sender had no more to send: says nothing against the link */
    if (!link->measured) {
        link->measured = true;
        link->rate = sample;
        link->confidence = weight / 20; /* 50, 35, 15 */
        link->sampled_ms = now_ms;
        return;
    }
    int64_t distance = (int64_t)sample - link->rate;
    bool far = distance > FAR || distance < -FAR;
    if (!far)
        link->run = 0;
    else if (distance > 0)
        link->run = link->run > 0 ? link->run + 1 : 1;
    else
        link->run = link->run < 0 ? link->run - 1 : -1;
    bool shift = link->run >= 2 || link->run <= -2;
    link->rate += (int32_t)(distance * (shift ? 600 : 300) * weight / 1000000);
    int32_t confidence = confidence_at(link, now_ms);
    link->confidence = far ? confidence / 2 + weight / 50
                           : confidence + (95 - confidence) * weight / 2000;
    link->sampled_ms = now_ms;
}

static void
turn_window(struct link *link, int64_t now_ms)
{
    int64_t age = now_ms - link->window_ms;
    if (age < ROUND_TRIP_MS)
        return;
    link->smallest_us[1] = age < 2LL * ROUND_TRIP_MS ? link->smallest_us[0] : 0;
    link->smallest_us[0] = 0;
    link->window_ms = now_ms;
}

void
links_round_trip(struct links *links, int64_t now_ms, const struct id *peer, int64_t us)
{
    if (us <= 0)
        return;
    struct link *link = want(links, peer);
    turn_window(link, now_ms);
    if (link->smallest_us[0] == 0 || us < link->smallest_us[0])
        link->smallest_us[0] = us;
}

void
links_forget(struct links *links, const struct id *peer)
{
    size_t at = place(links, peer);
    if (at < links->count && id_equal(&links->list[at]->peer, peer))
        take_out(links, at);
}

static int64_t
round_trip_us(const struct link *link)
{
    int64_t now = link->smallest_us[0], before = link->smallest_us[1];
    int64_t us = now == 0 ? before : before == 0 || now < before ? now : before;
    return us > UINT32_MAX ? UINT32_MAX : us;
}

/* ---- probing ---- */

/* A hundredth of the fastest link that we know, averaged over an hour. */
static int64_t
budget_most(const struct links *links)
{
    int64_t best = 0;
    for (size_t i = 0; i < links->count; i++)
        if (links->list[i]->measured) {
            int64_t rate = logarithm_power(links->list[i]->rate);
            best = rate > best ? rate : best;
        }
    if (best > BUDGET_BYTES_MAX)
        best = BUDGET_BYTES_MAX; /* x 36 is above the limit anyway */
    int64_t hour = best * 36;
    return hour < BUDGET_BYTES_MIN   ? BUDGET_BYTES_MIN
           : hour > BUDGET_BYTES_MAX ? BUDGET_BYTES_MAX
                                     : hour;
}

static void
refill(struct links *links, int64_t now_ms)
{
    int64_t most = budget_most(links);
    int64_t passed = now_ms - links->refilled_ms;
    if (!links->budgeted || passed >= HOUR_MS)
        links->budget_bytes = most;
    else if (passed > 0)
        links->budget_bytes += most * passed / HOUR_MS;
    links->budgeted = true;
    links->refilled_ms = now_ms;
    if (links->budget_bytes > most)
        links->budget_bytes = most;
}

/* A quarter of a second of what the link is thought to carry. */
static int64_t
probe_bytes(const struct link *link)
{
    int64_t bytes = link && link->measured ? logarithm_power(link->rate) / 4 : 0;
    return bytes < PROBE_BYTES_MIN   ? PROBE_BYTES_MIN
           : bytes > PROBE_BYTES_MAX ? PROBE_BYTES_MAX
                                     : bytes;
}

const struct id *
links_probe_due(struct links *links, int64_t now_ms, const struct id *peers, size_t count,
                int64_t *bytes)
{
    if (links->probe_ms && now_ms - links->probe_ms < PROBE_GAP_MS)
        return NULL;
    refill(links, now_ms);
    const struct id *choice = NULL;
    int64_t oldest_ms = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct link *link = find(links, &peers[i]);
        /* A probe that brought no sample is not repeated at once either. */
        int64_t last_ms = INT64_MIN;
        if (link && link->measured)
            last_ms = link->sampled_ms;
        if (link && link->probed_ms > last_ms && link->probed_ms)
            last_ms = link->probed_ms;
        if (last_ms != INT64_MIN && now_ms - last_ms < FRESH_MS)
            continue;
        if (last_ms < oldest_ms) {
            oldest_ms = last_ms;
            choice = &peers[i];
        }
    }
    if (!choice)
        return NULL;
    *bytes = probe_bytes(find(links, choice));
    return *bytes <= links->budget_bytes ? choice : NULL;
}

void
links_probe_sent(struct links *links, int64_t now_ms, const struct id *peer,
                 int64_t bytes)
{
    must(bytes >= 0);
    refill(links, now_ms);
    struct link *link = want(links, peer);
    link->probing = true;
    link->probed_ms = links->probe_ms = now_ms;
    links->budget_bytes -= bytes;
}

/* ---- telling ---- */

/* When anything was last learned of it. */
static int64_t
freshness(const struct link *link)
{
    return link->sampled_ms > link->window_ms ? link->sampled_ms : link->window_ms;
}

static bool
tellable(const struct link *link)
{
    return link->measured || round_trip_us(link) > 0;
}

/* How many are fresher than this one, ties by order: its rank. */
static size_t
rank(const struct links *links, size_t at)
{
    size_t fresher = 0;
    int64_t mine = freshness(links->list[at]);
    for (size_t i = 0; i < links->count; i++) {
        int64_t other = freshness(links->list[i]);
        if (tellable(links->list[i]) && (other > mine || (other == mine && i < at)))
            fresher++;
    }
    return fresher;
}

static uint16_t
code_of(const struct link *link)
{
    return link->measured ? rate_encode(logarithm_power(link->rate)) : 0;
}

uint32_t
links_fill(struct links *links, int64_t now_ms, struct record_link *out)
{
    uint32_t count = 0;
    for (size_t i = 0; i < links->count; i++) {
        struct link *link = links->list[i];
        turn_window(link, now_ms);
        link->told = tellable(link);
        link->told_rate = link->rate;
        link->told_us = round_trip_us(link);
    }
    for (size_t i = 0; i < links->count; i++) {
        const struct link *link = links->list[i];
        if (!tellable(link) || rank(links, i) >= RECORD_LINKS_MAX)
            continue;
        out[count++] =
            (struct record_link){.peer = link->peer,
                                 .rate = code_of(link),
                                 .round_trip_us = (uint32_t)round_trip_us(link),
                                 .confidence = (uint8_t)confidence_at(link, now_ms)};
    }
    return count;
}

/* Round trips below a millisecond differ by chance alone. */
static bool
round_trip_moved(const struct link *link)
{
    int64_t now = round_trip_us(link), told = link->told_us;
    int64_t moved = now > told ? now - told : told - now;
    return (told == 0) != (now == 0) || (moved > 1000 && moved > told / 4);
}

bool
links_changed(const struct links *links)
{
    for (size_t i = 0; i < links->count; i++) {
        const struct link *link = links->list[i];
        if (!tellable(link))
            continue;
        int32_t moved = link->rate - link->told_rate;
        if (!link->told || moved > QUARTER || moved < -QUARTER || round_trip_moved(link))
            return true;
    }
    return false;
}
