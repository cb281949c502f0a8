#include "tests/planner/world.h"

#include <string.h>

static void
profile_fill(struct profile *profile, int percent)
{
    static const int sizes[] = {1, 4, 16};
    profile->count = 3;
    profile->correction_ppm = 1000000;
    for (int i = 0; i < 3; i++) {
        struct profile_entry *entry = &profile->entries[i];
        int64_t unit = (int64_t)10000 * percent * sizes[i];
        entry->micro_batch = sizes[i];
        entry->forward_ns[LAYER_EMBEDDING] = unit / 10;
        entry->forward_ns[LAYER_BLOCK] = unit;
        entry->forward_ns[LAYER_HEAD] = unit / 2;
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            entry->backward_ns[kind] = 2 * entry->forward_ns[kind];
            entry->update_ns[kind] = (int64_t)1000 * percent;
        }
    }
}

void
world_cluster(struct cluster *cluster, int zones_count, const int *nodes_of_zone)
{
    int nodes_count = 0;
    for (int zone = 0; zone < zones_count; zone++)
        nodes_count += nodes_of_zone[zone];
    cluster_init(cluster, nodes_count, zones_count);
    int number = 0;
    for (int zone = 0; zone < zones_count; zone++) {
        cluster->zones[zone][0] = (char)('a' + zone);
        for (int i = 0; i < nodes_of_zone[zone]; i++) {
            struct cluster_node *node = &cluster->nodes[number++];
            node->id.bytes[0] = (uint8_t)(number >> 8);
            node->id.bytes[1] = (uint8_t)number;
            node->zone = zone;
            node->memory_bytes = INT64_C(1) << 30;
            profile_fill(&node->profile, 100);
        }
    }
    for (int from = 0; from < zones_count; from++)
        for (int to = 0; to < zones_count; to++)
            cluster->links[from * zones_count + to] =
                from == to ? (struct cluster_link){.bytes_per_s = 1000000000,
                                                   .round_trip_us = 200}
                           : (struct cluster_link){.bytes_per_s = 12500000,
                                                   .round_trip_us = 40000};
}

void
world_speed(struct cluster *cluster, int node, int percent)
{
    profile_fill(&cluster->nodes[node].profile, percent);
}

void
world_request(struct plan_request *request, int blocks)
{
    *request = (struct plan_request){
        .shape = {.blocks = blocks,
                  .heads = 4,
                  .hidden = 64,
                  .context = 64,
                  .vocabulary = 256},
        .sequences = 32,
    };
}

static int
pick(struct rng *rng, int low, int high)
{
    return low + (int)rng_below(rng, (uint64_t)(high - low) + 1);
}

void
world_random(struct rng *rng, int nodes_max, int zones_max, struct cluster *cluster,
             struct plan_request *request)
{
    static const int batches[] = {1, 2, 6, 8, 12, 16, 30, 32, 64};
    int zones_count = pick(rng, 1, zones_max);
    int nodes_of_zone[ZONES_MAX] = {0};
    int nodes_count = pick(rng, 1, nodes_max);
    for (int i = 0; i < nodes_count; i++)
        nodes_of_zone[pick(rng, 0, zones_count - 1)]++;
    world_cluster(cluster, zones_count, nodes_of_zone);
    world_request(request, pick(rng, 1, 8));
    request->sequences = batches[pick(rng, 0, 8)];
    request->copies = pick(rng, 0, 1) == 1;

    /* Memory around what the whole model needs, so that some clusters have to cut it. */
    struct stage_spec all = {0, workload_layers(&request->shape), 1, 1, request->copies};
    struct stage_bytes bytes;
    workload_stage_bytes(&request->shape, &all, &bytes);
    bool alike = pick(rng, 0, 2) == 0;
    for (int n = 0; n < nodes_count; n++) {
        struct cluster_node *node = &cluster->nodes[n];
        world_speed(cluster, n, alike ? 100 : pick(rng, 20, 400));
        node->memory_bytes = bytes.total * pick(rng, 20, 300) / 100;
        if (alike)
            node->memory_bytes = bytes.total * 2;
        if (pick(rng, 0, 3) == 0)
            node->profile.correction_ppm = pick(rng, 500000, 2000000);
        if (pick(rng, 0, 9) == 0)
            node->profile.count = 0;
    }
    for (int link = 0; link < zones_count * zones_count; link++) {
        bool inside = link % (zones_count + 1) == 0;
        cluster->links[link].bytes_per_s =
            (inside ? 10 : 1) * INT64_C(1000) * pick(rng, 1000, 100000);
        cluster->links[link].round_trip_us = pick(rng, 50, inside ? 1000 : 50000);
    }
}

void
world_without(const struct cluster *cluster, const bool *gone, struct cluster *out)
{
    int left = 0;
    for (int n = 0; n < cluster->nodes_count; n++)
        left += !gone[n];
    cluster_init(out, left, cluster->zones_count);
    memcpy(out->zones, cluster->zones, sizeof(out->zones));
    int zones = cluster->zones_count;
    for (int link = 0; link < zones * zones; link++)
        out->links[link] = cluster->links[link];
    int next = 0;
    for (int n = 0; n < cluster->nodes_count; n++)
        if (!gone[n])
            out->nodes[next++] = cluster->nodes[n];
}
