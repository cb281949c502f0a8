#include "tests/planner/fleets.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <string.h>

static int
pick(struct rng *rng, int low, int high)
{
    return low + (int)rng_below(rng, (uint64_t)(high - low) + 1);
}

static void
add_curve(struct fleet *fleet, struct fleet_curve curve)
{
    fleet->curves =
        xrealloc(fleet->curves, (size_t)fleet->curves_count + 1, sizeof(*fleet->curves));
    fleet->curves[fleet->curves_count++] = curve;
}

static struct fleet_curve
curve_of(double gb_per_s)
{
    return (struct fleet_curve){.c2 = -0.002 * gb_per_s,
                                .c1 = 0.09 * gb_per_s,
                                .c0 = 0.7 * gb_per_s,
                                .low_bytes = 65536.0,
                                .high_bytes = 1073741824.0};
}

/* Times of a kind: `unit_s` is a block's forward pass of one sequence on one device. */
static void
fill_times(struct fleet *fleet, int kind, double unit_s, const int *sizes,
           int sizes_count, int slots)
{
    struct fleet_kind *into = &fleet->kinds[kind];
    int layers = fleet->table.layers_count;
    into->times = xcalloc((size_t)(sizes_count * slots), sizeof(*into->times));
    for (int i = 0; i < sizes_count; i++) {
        for (int slot = 0; slot < slots; slot++) {
            struct fleet_times *times = &into->times[into->times_count++];
            times->micro_batch = sizes[i];
            times->tp = 1 << slot;
            times->layers = xcalloc((size_t)layers, sizeof(*times->layers));
            double speedup = slot == 0 ? 1.0 : slot == 1 ? 1.75 : slot == 2 ? 2.9 : 4.2;
            double all_s = unit_s * ((double)sizes[i] / speedup + 0.25 * (slot + 1));
            for (int l = 0; l < layers; l++) {
                double share = l == 0 ? 0.1 : l + 1 == layers ? 1.8 : 1.0;
                times->layers[l] = (struct layer_time){
                    all_s * share, 2.3 * all_s * (l == 0 ? 0.02 : share),
                    unit_s / (double)times->tp};
            }
        }
    }
}

static void
join_all(struct fleet *fleet, struct rng *rng, double inside, double between)
{
    fleet_pools_done(fleet);
    for (int a = 0; a < fleet->pools_count; a++) {
        for (int b = 0; b < fleet->pools_count; b++) {
            bool same = fleet->pools[a].zone == fleet->pools[b].zone;
            bool near = fleet->zones[fleet->pools[a].zone].region ==
                        fleet->zones[fleet->pools[b].zone].region;
            double rate = (same || near ? inside : between) *
                          (0.8 + 0.4 * rng_unit(rng)) * (same ? 1.1 : 1.0);
            for (int from = 0; from < TP_SLOTS; from++) {
                for (int to = 0; to < TP_SLOTS; to++) {
                    int least = from < to ? from : to;
                    *fleet_link(fleet, a, from, b, to) = fleet->curves_count;
                    if (to == 0 || from == 0 || least == to)
                        add_curve(fleet, curve_of(rate * (double)(1 << least) * 0.9));
                    else
                        *fleet_link(fleet, a, from, b, to) =
                            *fleet_link(fleet, a, from, b, from);
                }
            }
        }
    }
    for (int a = 0; a < fleet->zones_count; a++)
        for (int b = 0; b < fleet->zones_count; b++)
            fleet->egress_usd_per_gb[a * ZONES_MAX + b] =
                a == b                                             ? 0.0
                : fleet->zones[a].region == fleet->zones[b].region ? 0.01
                                                                   : 0.02;
}

static void
fill_table(struct fleet *fleet, int layers, int64_t parameters, int64_t kept, int slots)
{
    fleet->table.layers_count = layers;
    fleet->table.sequence_tokens = 2048;
    for (int slot = 0; slot < slots; slot++) {
        fleet->table.sizes[slot] =
            xcalloc((size_t)layers, sizeof(*fleet->table.sizes[slot]));
        for (int l = 0; l < layers; l++) {
            int64_t share = l == 0 ? 3 : l + 1 == layers ? 4 : 1;
            fleet->table.sizes[slot][l] = (struct layer_size){
                .parameters = parameters * share >> slot,
                .output_bytes = INT64_C(8388608) * (l + 1 == layers ? 40 : 1),
                .kept_bytes = kept * (l == 0 ? 1 : 8) / 8 >> slot,
            };
        }
    }
}

struct fleet *
fleets_small(struct rng *rng, int devices, int layers, struct fleet_request *request)
{
    static const int batches[] = {4, 6, 8, 12, 16, 24};
    static const int sizes[] = {1, 2, 4};
    struct fleet *fleet = fleet_new();
    fleet->cost_model = COST_MODEL_PUBLISHED;
    int count = pick(rng, 2, layers);
    int slots = pick(rng, 1, 3);
    fill_table(fleet, count, INT64_C(1000000) * pick(rng, 5, 120),
               INT64_C(1000000) * pick(rng, 50, 900), slots);
    fleet->kinds_count = pick(rng, 1, 2);
    fleet->zones_count = pick(rng, 1, 2);
    for (int k = 0; k < fleet->kinds_count; k++) {
        struct fleet_kind *kind = &fleet->kinds[k];
        kind->name[0] = (char)('A' + k);
        kind->memory_bytes = INT64_C(1000000000) * pick(rng, 4, 24);
        kind->machine_devices = 4;
        kind->correction = 1.0;
        fill_times(fleet, k, 1e-3 * pick(rng, 1, 12), sizes, pick(rng, 1, 3), slots);
    }
    for (int z = 0; z < fleet->zones_count; z++) {
        fleet->zones[z].name[0] = (char)('a' + z);
        fleet->zones[z].region = z;
    }
    for (int k = 0; k < fleet->kinds_count; k++)
        for (int z = 0; z < fleet->zones_count; z++)
            fleet->pools[fleet->pools_count++] =
                (struct fleet_pool){k, z, 0, 0.5 * pick(rng, 1, 9), 0};
    int left = pick(rng, 1, devices);
    while (left > 0) {
        int some = pick(rng, 1, left);
        fleet->pools[pick(rng, 0, fleet->pools_count - 1)].devices += some;
        left -= some;
    }
    join_all(fleet, rng, 1.0, 0.3);
    fleet_request_init(request, batches[pick(rng, 0, 5)]);
    return fleet;
}

struct fleet *
fleets_cloud(struct rng *rng, int kinds, int zones, const int *devices,
             enum cost_model cost_model)
{
    static const int sizes[] = {1, 2, 4, 8};
    struct fleet *fleet = fleet_new();
    fleet->cost_model = cost_model;
    fill_table(fleet, 26, INT64_C(12600000), INT64_C(360000000), 3);
    fleet->kinds_count = kinds;
    fleet->zones_count = zones;
    for (int k = 0; k < kinds; k++) {
        struct fleet_kind *kind = &fleet->kinds[k];
        snprintf(kind->name, sizeof(kind->name), "gpu-%d", k);
        kind->memory_bytes = INT64_C(1) << (k % 3 == 0 ? 35 : k % 3 == 1 ? 34 : 36);
        kind->machine_devices = 4;
        kind->correction = 1.0;
        fill_times(fleet, k, 2.2e-3 * (0.6 + 0.5 * k), sizes, 4, 3);
    }
    for (int z = 0; z < zones; z++) {
        snprintf(fleet->zones[z].name, sizeof(fleet->zones[z].name), "zone-%d", z);
        fleet->zones[z].region = z / 3;
    }
    for (int k = 0; k < kinds; k++)
        for (int z = 0; z < zones; z++)
            fleet->pools[fleet->pools_count++] = (struct fleet_pool){
                k, z, devices[k * zones + z], 4.0 / (0.6 + 0.5 * k), 0};
    join_all(fleet, rng, 1.6, 0.4);
    return fleet;
}
