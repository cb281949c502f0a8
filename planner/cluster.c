#include "planner/cluster.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* No layer takes longer for one micro-batch: keeps every sum of a plan within 63 bits. */
#define LAYER_NS_MAX INT64_C(1000000000000)

int64_t
ns_plus(int64_t left_ns, int64_t right_ns)
{
    must(left_ns >= 0 && right_ns >= 0);
    if (left_ns >= NS_NEVER || right_ns >= NS_NEVER - left_ns)
        return NS_NEVER;
    return left_ns + right_ns;
}

int64_t
ns_times(int64_t count, int64_t ns)
{
    must(count >= 0 && ns >= 0);
    if (count > 0 && ns >= NS_NEVER / count)
        return NS_NEVER;
    return count * ns;
}

void
cluster_init(struct cluster *cluster, int nodes_count, int zones_count)
{
    must(nodes_count >= 0 && nodes_count <= PLAN_NODES_MAX);
    must(zones_count >= 0 && zones_count <= ZONES_MAX);
    memset(cluster, 0, sizeof(*cluster));
    cluster->nodes_count = nodes_count;
    cluster->zones_count = zones_count;
    if (nodes_count > 0)
        cluster->nodes = xcalloc((size_t)nodes_count, sizeof(*cluster->nodes));
    size_t links = (size_t)zones_count * (size_t)zones_count;
    if (links > 0)
        cluster->links = xcalloc(links, sizeof(*cluster->links));
}

void
cluster_release(struct cluster *cluster)
{
    free(cluster->nodes);
    free(cluster->links);
    memset(cluster, 0, sizeof(*cluster));
}

const struct cluster_link *
cluster_link(const struct cluster *cluster, int from_zone, int to_zone)
{
    must(from_zone >= 0 && from_zone < cluster->zones_count);
    must(to_zone >= 0 && to_zone < cluster->zones_count);
    return &cluster->links[from_zone * cluster->zones_count + to_zone];
}

/* A time computed in double, back in whole nanoseconds. */
static int64_t
whole_ns(double ns, int64_t most)
{
    if (!(ns > 0.0))
        return 0;
    return ns >= (double)most ? most : (int64_t)ns;
}

int64_t
cluster_send_ns(const struct cluster *cluster, int from_zone, int to_zone, int64_t bytes)
{
    must(bytes >= 0);
    const struct cluster_link *link = cluster_link(cluster, from_zone, to_zone);
    if (link->bytes_per_s <= 0)
        return NS_NEVER;
    double ns = (double)bytes * 1e9 / (double)link->bytes_per_s;
    double delay_ns = (double)link->round_trip_us * 500.0;
    return ns_plus(whole_ns(ns, NS_NEVER), whole_ns(delay_ns, NS_NEVER));
}

/* The entries around a micro-batch size, and how far it lies between them. */
struct bracket {
    const struct profile_entry *low;
    const struct profile_entry *high;
    double part;  /* of the way from low to high */
    double scale; /* beyond the entries: times the nearest one */
};

static struct bracket
profile_bracket(const struct profile *profile, int micro_batch)
{
    int above = 0;
    while (above < profile->count && profile->entries[above].micro_batch < micro_batch)
        above++;
    struct bracket found = {.part = 0.0, .scale = 1.0};
    if (above == 0 || above == profile->count) {
        found.low = &profile->entries[above == 0 ? 0 : above - 1];
        found.high = found.low;
        if (found.low->micro_batch > 0)
            found.scale = (double)micro_batch / (double)found.low->micro_batch;
        return found;
    }
    found.low = &profile->entries[above - 1];
    found.high = &profile->entries[above];
    found.part = (double)(micro_batch - found.low->micro_batch) /
                 (double)(found.high->micro_batch - found.low->micro_batch);
    return found;
}

static double
between(int64_t low, int64_t high, double part)
{
    return (double)low + ((double)high - (double)low) * part;
}

int
cluster_layer_ns(const struct cluster_node *node, enum layer_kind kind, int micro_batch,
                 int64_t *forward_ns, int64_t *backward_ns, int64_t *update_ns)
{
    must(kind >= 0 && kind < LAYER_KINDS && micro_batch > 0);
    const struct profile *profile = &node->profile;
    if (profile->count <= 0)
        return -1;
    must(profile->count <= PROFILE_ENTRIES_MAX);

    struct bracket at = profile_bracket(profile, micro_batch);
    double forward =
        between(at.low->forward_ns[kind], at.high->forward_ns[kind], at.part);
    double backward =
        between(at.low->backward_ns[kind], at.high->backward_ns[kind], at.part);
    double update = between(at.low->update_ns[kind], at.high->update_ns[kind], at.part);
    double correction = 1.0;
    if (profile->correction_ppm > 0)
        correction = (double)profile->correction_ppm / 1e6;
    *forward_ns = whole_ns(forward * at.scale * correction, LAYER_NS_MAX);
    *backward_ns = whole_ns(backward * at.scale * correction, LAYER_NS_MAX);
    *update_ns = whole_ns(update * correction, LAYER_NS_MAX);
    return 0;
}
