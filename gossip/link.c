#include "gossip/link.h"
#include "gossip/logarithm.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_BYTES_MIN = 4096, /* less tells more of the round trip than of the rate */
    SAMPLES = 8,
    LINKS_MAX = 256, /* that are kept; a record tells of fewer */
    PROBE_COUNTS = 3,
    PASSIVE_HALF_LIFE_MS = 30 * 60 * 1000,
    PROBE_HALF_LIFE_MS = 6 * 60 * 60 * 1000,
    BETTER_MS = 10 * 60 * 1000,    /* for so long a lower bound adds nothing */
    ROUND_TRIP_MS = 5 * 60 * 1000, /* one of the two windows of the smallest round trip */
    TELL_AGAIN_MS = 5 * 1000,
    OLD_MS = 10 * 60 * 1000, /* what was told as fresh is told again */
    LIMITED_CONFIDENCE = 20,
    NEAR = 21098,  /* log2(1.25) */
    FAR = 66187,   /* log2(e^0.7): a sample that is no noise */
    STEPS_TOLD = 2 /* of rate_encode(): 9 % */
};

struct link {
    struct id peer;
    int32_t samples[SAMPLES]; /* log2 of bytes a second, the oldest first */
    int samples_count;
    bool limited; /* they are lower bounds */
    bool probed;  /* the last was a probe's */
    int run;      /* consecutive far samples: > 0 above the estimate, < 0 below */
    int64_t sampled_ms;
    int32_t curve[LINK_CURVE_POINTS]; /* log2; 0: not seen */
    int64_t window_ms;                /* begin of the current round-trip window */
    int64_t smallest_us[2]; /* of the current and the previous window; 0: none */
    bool told;              /* in a record already, as: */
    uint16_t told_rate;
    uint8_t told_confidence;
    enum link_method told_method;
    bool told_fresh;
    int64_t told_us;
};

struct links {
    struct link *list[LINKS_MAX]; /* ascending peer */
    size_t count;
    int64_t told_ms;
};

const int64_t link_curve_bytes[LINK_CURVE_POINTS] = {64 << 10, 1 << 20, 16 << 20,
                                                     64 << 20};

const char *
link_method_name(enum link_method method)
{
    static const char *const names[] = {"unknown", "passive", "probe", "model"};
    return names[method];
}

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

/* When anything was last learned of it. */
static int64_t
freshness(const struct link *link)
{
    return link->sampled_ms > link->window_ms ? link->sampled_ms : link->window_ms;
}

/* Which gives way first: one whose rate is not known, then the one unheard of for
 * longest. */
static bool
goes_before(const struct link *one, const struct link *other)
{
    if ((one->samples_count > 0) != (other->samples_count > 0))
        return one->samples_count == 0;
    return freshness(one) < freshness(other);
}

/* The link's entry, made if need be. */
static struct link *
want(struct links *links, const struct id *peer)
{
    struct link *link = find(links, peer);
    if (link)
        return link;
    if (links->count == LINKS_MAX) {
        size_t first = 0;
        for (size_t i = 1; i < links->count; i++)
            if (goes_before(links->list[i], links->list[first]))
                first = i;
        take_out(links, first);
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

struct estimate {
    int32_t rate, low,
        spread; /* log2 of bytes a second; between the fifths, in octaves */
};

static bool
estimate(const struct link *link, struct estimate *out)
{
    int32_t sorted[SAMPLES];
    int count = link->samples_count;
    if (count == 0)
        return false;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > link->samples[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = link->samples[i];
    }
    out->rate = sorted[(count - 1) * 7 / 10];
    out->low = sorted[(count - 1) / 5];
    out->spread = sorted[(count - 1) * 4 / 5] - out->low;
    return true;
}

static int32_t
confidence(const struct link *link, int64_t now_ms)
{
    /* By the number of samples: 95 - 60 x 2^(-n / 2). */
    static const uint8_t by_count[SAMPLES + 1] = {0, 53, 65, 74, 80, 84, 87, 90, 91};
    struct estimate found;
    if (!estimate(link, &found))
        return 0;
    int64_t half_life = link->probed ? PROBE_HALF_LIFE_MS : PASSIVE_HALF_LIFE_MS;
    int64_t age = now_ms > link->sampled_ms ? now_ms - link->sampled_ms : 0;
    if (age / half_life >= 16)
        return 0;
    int64_t doubt =
        found.spread / 2 < LOGARITHM_ONE / 2 ? found.spread / 2 : LOGARITHM_ONE / 2;
    int64_t sure = link->limited ? LIMITED_CONFIDENCE : by_count[link->samples_count];
    sure = sure * (LOGARITHM_ONE - doubt) >> 16;
    return (int32_t)(sure * logarithm_power(16LL * LOGARITHM_ONE -
                                            age * LOGARITHM_ONE / half_life) >>
                     16);
}

static int32_t
sample_rate(int64_t bytes, int64_t us)
{
    /* bytes x 10^6 / us, without the overflow of it */
    return logarithm_of((uint64_t)bytes) + logarithm_of(1000000) -
           logarithm_of((uint64_t)us);
}

static void
push(struct link *link, int32_t sample)
{
    if (link->samples_count == SAMPLES) {
        memmove(link->samples, link->samples + 1,
                (SAMPLES - 1) * sizeof(link->samples[0]));
        link->samples_count--;
    }
    link->samples[link->samples_count++] = sample;
}

/* Two in a row that are off by as much are the link's, not chance's: what was before is
 * forgotten. */
static void
note_run(struct link *link, int64_t distance)
{
    if (distance <= FAR && distance >= -FAR)
        link->run = 0;
    else if (distance > 0)
        link->run = link->run > 0 ? link->run + 1 : 1;
    else
        link->run = link->run < 0 ? link->run - 1 : -1;
    if ((link->run == 2 || link->run == -2) && link->samples_count > 0) {
        link->samples[0] = link->samples[link->samples_count - 1];
        link->samples_count = 1;
    }
}

static void
note_curve(struct link *link, const struct link_sample *sample)
{
    for (int k = 0; k < LINK_CURVE_POINTS; k++) {
        if (sample->curve[k] <= 0)
            continue;
        int32_t point = logarithm_of((uint64_t)sample->curve[k]);
        link->curve[k] += link->curve[k] ? (point - link->curve[k]) * 3 / 10 : point;
    }
}

void
links_sample(struct links *links, int64_t now_ms, const struct id *peer,
             const struct link_sample *sample)
{
    if (sample->bytes < SAMPLE_BYTES_MIN || sample->us <= 0)
        return;
    struct link *link = want(links, peer);
    int32_t rate = sample_rate(sample->bytes, sample->us);
    struct estimate before;
    bool measured = estimate(link, &before);
    note_curve(link, sample);
    if (sample->limited && measured && !link->limited &&
        now_ms - link->sampled_ms < BETTER_MS) {
        if (rate > before.rate - NEAR)
            link->sampled_ms = now_ms;
        return;
    }
    if (sample->limited && measured && rate <= before.rate)
        return; /* the sender had no more to send: says nothing against the link */
    if (measured && link->limited != sample->limited)
        link->samples_count = link->run = 0;
    else if (measured)
        note_run(link, (int64_t)rate - before.rate);
    link->limited = sample->limited;
    link->probed = sample->probe;
    link->sampled_ms = now_ms;
    for (int i = 0; i < (sample->probe && !sample->limited ? PROBE_COUNTS : 1); i++)
        push(link, rate);
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

/* ---- telling ---- */

static bool
tellable(const struct link *link)
{
    return link->samples_count > 0 || round_trip_us(link) > 0;
}

/* How many are better known than this one, ties by order: its rank. */
static size_t
rank(const struct links *links, size_t at)
{
    size_t better = 0;
    const struct link *mine = links->list[at];
    for (size_t i = 0; i < links->count; i++) {
        const struct link *other = links->list[i];
        if (tellable(other) &&
            (goes_before(mine, other) || (!goes_before(other, mine) && i < at)))
            better++;
    }
    return better;
}

static uint16_t
code_of(int32_t log2_rate)
{
    return rate_encode(logarithm_power(log2_rate));
}

static void
describe(const struct link *link, int64_t now_ms, struct record_link *out)
{
    struct estimate found;
    *out = (struct record_link){.peer = link->peer,
                                .round_trip_us = (uint32_t)round_trip_us(link)};
    if (!estimate(link, &found))
        return;
    int64_t age_s = now_ms > link->sampled_ms ? (now_ms - link->sampled_ms) / 1000 : 0;
    out->rate = code_of(found.rate);
    out->low = code_of(found.low);
    out->confidence = (uint8_t)confidence(link, now_ms);
    out->method = link->probed ? LINK_PROBE : LINK_PASSIVE;
    out->age_s = (uint32_t)(age_s > UINT32_MAX ? UINT32_MAX : age_s);
    for (int k = 0; k < LINK_CURVE_POINTS; k++)
        out->curve[k] = link->curve[k] ? code_of(link->curve[k]) : 0;
}

bool
links_find(const struct links *links, int64_t now_ms, const struct id *peer,
           struct record_link *out)
{
    const struct link *link = find(links, peer);
    if (!link || !tellable(link))
        return false;
    describe(link, now_ms, out);
    return true;
}

uint32_t
links_fill(struct links *links, int64_t now_ms, struct record_link *out)
{
    uint32_t count = 0;
    for (size_t i = 0; i < links->count; i++) {
        struct record_link told;
        struct link *link = links->list[i];
        turn_window(link, now_ms);
        describe(link, now_ms, &told);
        link->told = tellable(link);
        link->told_rate = told.rate;
        link->told_us = told.round_trip_us;
        link->told_confidence = told.confidence;
        link->told_method = told.method;
        link->told_fresh = told.age_s < LINK_FRESH_S;
    }
    for (size_t i = 0; i < links->count; i++)
        if (tellable(links->list[i]) && rank(links, i) < RECORD_LINKS_MAX)
            describe(links->list[i], now_ms, &out[count++]);
    links->told_ms = now_ms;
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
links_changed(const struct links *links, int64_t now_ms)
{
    bool again = now_ms - links->told_ms >= TELL_AGAIN_MS;
    for (size_t i = 0; i < links->count; i++) {
        const struct link *link = links->list[i];
        if (!tellable(link))
            continue;
        if (!link->told || round_trip_moved(link))
            return true;
        struct estimate now;
        if (!estimate(link, &now))
            continue;
        int moved = code_of(now.rate) - link->told_rate;
        moved = moved < 0 ? -moved : moved;
        if (!link->told_rate || moved > NEAR >> 12 || (again && moved >= STEPS_TOLD))
            return true;
        bool sure = confidence(link, now_ms) >= LINK_CONFIDENT,
             old = now_ms - link->sampled_ms >= OLD_MS,
             told_sure = link->told_confidence >= LINK_CONFIDENT;
        enum link_method method = link->probed ? LINK_PROBE : LINK_PASSIVE;
        if (again && (sure != told_sure || method != link->told_method ||
                      (old && link->told_fresh)))
            return true;
    }
    return false;
}
