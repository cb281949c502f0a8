/*
 * view_links.c - the planner's links between zones, from what the members measured: a
 * pure function of their signed records, as all of view.c.
 */
#include "gossip/link.h"
#include "node/view.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)CLUSTER_LINK_POINTS == (int)LINK_CURVE_POINTS, "sizes of messages");

enum {
    /* Links that nobody has measured yet, and nothing else tells of. */
    UNKNOWN_NEAR_BYTES_PER_S = 500000000,
    UNKNOWN_FAR_BYTES_PER_S = 10000000,
    UNKNOWN_NEAR_US = 200,
    UNKNOWN_FAR_US = 50000
};

/* A list of numbers of which a percentile is wanted. */
struct numbers {
    int64_t *list;
    size_t count, capacity;
};

static void
add(struct numbers *numbers, int64_t number)
{
    if (numbers->count == numbers->capacity) {
        numbers->capacity = numbers->capacity ? 2 * numbers->capacity : 64;
        numbers->list =
            xrealloc(numbers->list, numbers->capacity, sizeof(numbers->list[0]));
    }
    numbers->list[numbers->count++] = number;
}

static int
compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* -1 when there are none. */
static int64_t
percentile(struct numbers *numbers, size_t percent)
{
    if (numbers->count == 0)
        return -1;
    qsort(numbers->list, numbers->count, sizeof(numbers->list[0]), compare);
    size_t at = numbers->count * percent / 100;
    return numbers->list[at < numbers->count ? at : numbers->count - 1];
}

/* Of one pair of zones, and of each zone's ways out and in. */
struct gathered {
    int zones;
    struct numbers *rates, *trips; /* [from * zones + to] */
    struct numbers *up, *down;     /* to and from other zones */
    struct numbers *points;        /* [(from * zones + to) * LINK_CURVE_POINTS + point] */
};

static void
gather(const struct view *view, const struct record *const *records,
       const struct cluster *cluster, struct gathered *all)
{
    for (uint32_t i = 0; i < view->reports_count; i++) {
        const struct record *record =
            records && records[i] ? records[i] : &view->reports[i].record;
        int to = cluster->nodes[i].zone;
        for (uint32_t k = 0; k < record->links_count; k++) {
            const struct record_link *link = &record->links[k];
            int peer = view_node(view, &link->peer);
            if (peer < 0 || (uint32_t)peer == i)
                continue;
            int from = cluster->nodes[peer].zone;
            if (link->round_trip_us > 0) {
                add(&all->trips[from * all->zones + to], link->round_trip_us);
                if (from != to)
                    add(&all->trips[to * all->zones + from], link->round_trip_us);
            }
            if (link->rate == 0 || link->confidence == 0)
                continue;
            /* A plan rests on what the link carries four times out of five. */
            int64_t rate = rate_decode(link->low ? link->low : link->rate);
            add(&all->rates[from * all->zones + to], rate);
            /* Of a size what it gets of the rate, as low. */
            for (int point = 0; point < LINK_CURVE_POINTS; point++)
                if (link->curve[point])
                    add(&all->points[(from * all->zones + to) * LINK_CURVE_POINTS +
                                     point],
                        (int64_t)((double)rate_decode(link->curve[point]) *
                                  ((double)rate / (double)rate_decode(link->rate))));
            if (from != to) {
                add(&all->up[from], rate);
                add(&all->down[to], rate);
            }
        }
    }
}

/* Nobody measured it: no more than one end sends elsewhere, or the other takes from
 * elsewhere (the last-mile model: Beaumont, Eyraud-Dubois, Won, Euro-Par 2011). The 80th
 * percentile of each, since the most of many drifts upwards. */
static int64_t
last_mile(struct gathered *all, int from, int to)
{
    int64_t up = percentile(&all->up[from], 80), down = percentile(&all->down[to], 80);
    if (up < 0 || down < 0)
        return up < 0 ? down : up;
    return up < down ? up : down;
}

static void
fill_points(struct gathered *all, int pair, struct cluster_link *link)
{
    for (int point = 0; point < LINK_CURVE_POINTS; point++) {
        int64_t rate = percentile(&all->points[pair * LINK_CURVE_POINTS + point], 50);
        link->message_bytes[point] = link_curve_bytes[point];
        link->message_bytes_per_s[point] = rate > 0 ? rate : 0;
    }
}

void
view_fill_links(const struct view *view, const struct record *const *records,
                struct cluster *cluster)
{
    int zones = cluster->zones_count;
    size_t pairs = (size_t)zones * (size_t)zones;
    size_t lists = (2 + LINK_CURVE_POINTS) * pairs + 2 * (size_t)zones;
    struct numbers *numbers = xcalloc(lists, sizeof(*numbers));
    struct gathered all = {.zones = zones,
                           .rates = numbers,
                           .trips = numbers + pairs,
                           .up = numbers + 2 * pairs,
                           .down = numbers + 2 * pairs + zones,
                           .points = numbers + 2 * pairs + 2 * (size_t)zones};
    gather(view, records, cluster, &all);
    for (int from = 0; from < zones; from++)
        for (int to = 0; to < zones; to++) {
            bool near = from == to;
            struct cluster_link *link = &cluster->links[from * zones + to];
            int64_t rate = percentile(&all.rates[from * zones + to], 50);
            int64_t trip = percentile(&all.trips[from * zones + to], 50);
            if (rate < 0 && !near)
                rate = last_mile(&all, from, to);
            link->bytes_per_s = rate >= 0 ? rate
                                : near    ? UNKNOWN_NEAR_BYTES_PER_S
                                          : UNKNOWN_FAR_BYTES_PER_S;
            link->round_trip_us = trip >= 0 ? trip
                                  : near    ? UNKNOWN_NEAR_US
                                            : UNKNOWN_FAR_US;
            fill_points(&all, from * zones + to, link);
        }
    for (size_t i = 0; i < lists; i++)
        free(numbers[i].list);
    free(numbers);
}
