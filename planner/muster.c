#include "planner/muster.h"
#include "planner/layer_table.h"
#include "planner/link_fit.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes that are one kind. */
struct alike {
    int slowest;
    int64_t memory_bytes;
};

/* ---- kinds ---- */

/* Nanoseconds of the whole model, one sequence, forward and backward; 0: not measured. */
static int64_t
pace_ns(const struct plan_request *request, const struct cluster_node *node)
{
    int64_t sum = 0;
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        int64_t forward_ns, backward_ns, update_ns;
        if (cluster_layer_ns(node, (enum layer_kind)kind, 1, &forward_ns, &backward_ns,
                             &update_ns) != 0)
            return 0;
        int64_t count = kind == LAYER_BLOCK ? request->shape.blocks : 1;
        sum = ns_plus(sum, ns_times(count, ns_plus(forward_ns, backward_ns)));
    }
    return sum + 1;
}

static bool
within(int64_t left, int64_t right, double tolerance)
{
    int64_t low = left < right ? left : right;
    int64_t high = left < right ? right : left;
    return (double)high <= (double)low * tolerance;
}

/* Sort the nodes into kinds; false when there are too many kinds or pools. */
static bool
sort_nodes(const struct cluster *cluster, const int64_t *pace, double tolerance,
           struct alike *kinds, int *count, int *kind_of)
{
    bool pool[FLEET_KINDS_MAX][ZONES_MAX] = {{false}};
    int pools = 0;
    *count = 0;
    for (int n = 0; n < cluster->nodes_count; n++) {
        kind_of[n] = -1;
        if (pace[n] == 0)
            continue;
        int64_t memory = cluster->nodes[n].memory_bytes;
        int k = 0;
        while (k < *count && !(within(pace[kinds[k].slowest], pace[n], tolerance) &&
                               within(kinds[k].memory_bytes, memory, tolerance)))
            k++;
        if (k == MUSTER_KINDS_MAX)
            return false;
        if (k == *count)
            kinds[(*count)++] = (struct alike){n, memory};
        if (pace[n] > pace[kinds[k].slowest])
            kinds[k].slowest = n;
        if (memory < kinds[k].memory_bytes)
            kinds[k].memory_bytes = memory;
        kind_of[n] = k;
        bool *seen = &pool[k][cluster->nodes[n].zone];
        if (!*seen && ++pools > FLEET_POOLS_MAX)
            return false;
        *seen = true;
    }
    return true;
}

/* ---- the model and its times ---- */

static void
fill_times(struct muster *muster, const struct cluster_node *node, int size,
           struct fleet_times *out)
{
    const struct model_shape *shape = &muster->asked->shape;
    int layers = muster->fleet->table.layers_count;
    *out = (struct fleet_times){
        .precision = PRECISION_FP32,
        .micro_batch = size,
        .tp = 1,
        .layers = xcalloc((size_t)layers, sizeof(*out->layers)),
    };
    for (int l = 0; l < layers; l++)
        layer_table_time(node, workload_layer_kind(shape, l), size, &out->layers[l]);
}

static void
fill_kinds(struct muster *muster, const struct alike *kinds, int count, int nodes)
{
    struct fleet *fleet = muster->fleet;
    const struct plan_request *asked = muster->asked;
    int sizes[LAYER_TABLE_SIZES_MAX];
    int sizes_count = layer_table_sizes(&asked->shape, asked->sequences,
                                        asked->micro_batch, nodes, sizes);
    fleet->kinds_count = count;
    for (int k = 0; k < count; k++) {
        struct fleet_kind *kind = &fleet->kinds[k];
        snprintf(kind->name, sizeof(kind->name), "kind %d", k);
        kind->memory_bytes = kinds[k].memory_bytes;
        muster->slowest[k] = kinds[k].slowest;
        kind->machine_devices = 1;
        kind->correction = 1.0; /* in the times */
        kind->times_count = sizes_count;
        kind->times = xcalloc((size_t)sizes_count + 1, sizeof(*kind->times));
        for (int i = 0; i < sizes_count; i++)
            fill_times(muster, &muster->cluster->nodes[kinds[k].slowest], sizes[i],
                       &kind->times[i]);
    }
}

/* ---- pools and links ---- */

static void
fill_pools(struct muster *muster, const int *kind_of)
{
    const struct cluster *cluster = muster->cluster;
    struct fleet *fleet = muster->fleet;
    fleet->zones_count = cluster->zones_count;
    for (int z = 0; z < cluster->zones_count; z++) {
        memcpy(fleet->zones[z].name, cluster->zones[z], sizeof(fleet->zones[z].name));
        fleet->zones[z].region = z;
    }
    for (int n = 0; n < cluster->nodes_count; n++) {
        muster->pool_of[n] = -1;
        if (kind_of[n] < 0)
            continue;
        int p = 0;
        while (p < fleet->pools_count && (fleet->pools[p].kind != kind_of[n] ||
                                          fleet->pools[p].zone != cluster->nodes[n].zone))
            p++;
        if (p == fleet->pools_count)
            fleet->pools[fleet->pools_count++] = (struct fleet_pool){
                .kind = kind_of[n], .zone = cluster->nodes[n].zone, .usd_per_hour = -1.0};
        fleet->pools[p].devices++;
        muster->pool_of[n] = p;
    }
}

static void
fill_links(struct muster *muster)
{
    const struct cluster *cluster = muster->cluster;
    struct fleet *fleet = muster->fleet;
    int zones = cluster->zones_count;
    fleet->curves_count = zones * zones;
    fleet->curves = xcalloc((size_t)fleet->curves_count + 1, sizeof(*fleet->curves));
    for (int from = 0; from < zones; from++) {
        for (int to = 0; to < zones; to++) {
            struct fleet_curve *curve = &fleet->curves[from * zones + to];
            link_fit(cluster_link(cluster, from, to), curve);
            curve->shared = from != to;
        }
    }
    fleet_pools_done(fleet);
    for (int a = 0; a < fleet->pools_count; a++) {
        for (int b = 0; b < fleet->pools_count; b++) {
            int number = fleet->pools[a].zone * zones + fleet->pools[b].zone;
            if (fleet->curves[number].c0 > 0.0)
                *fleet_link(fleet, a, 0, b, 0) = number;
        }
    }
}

static void
fill_request(struct muster *muster)
{
    const struct plan_request *asked = muster->asked;
    struct fleet_request *request = &muster->request;
    fleet_request_init(request, asked->sequences);
    layer_table_request(request);
    request->pipeline = asked->pipeline;
    request->replicas = asked->replicas;
    request->micro_batch = asked->micro_batch;
    request->stage_zones_count = asked->zones_count;
    for (int s = 0; s < asked->zones_count; s++) {
        request->stage_zones[s] = -1;
        for (int z = 0; z < muster->cluster->zones_count; z++)
            if (strcmp(asked->zones[s], muster->cluster->zones[z]) == 0)
                request->stage_zones[s] = z;
    }
}

void
muster_init(struct muster *muster, const struct plan_request *request,
            const struct cluster *cluster)
{
    size_t nodes = (size_t)cluster->nodes_count;
    *muster = (struct muster){.asked = request,
                              .cluster = cluster,
                              .fleet = fleet_new(),
                              .pool_of = xcalloc(nodes, sizeof(int))};
    int64_t *pace = xcalloc(nodes, sizeof(*pace));
    int *kind_of = xcalloc(nodes, sizeof(*kind_of));
    int usable = 0;
    for (int n = 0; n < cluster->nodes_count; n++) {
        pace[n] = pace_ns(request, &cluster->nodes[n]);
        usable += pace[n] > 0;
    }
    must(usable > 0);
    struct alike kinds[FLEET_KINDS_MAX];
    int count = 0;
    double spread = 0.0;
    while (!sort_nodes(cluster, pace, 1.0 + spread, kinds, &count, kind_of))
        spread = spread > 0.0 ? spread * 2.0 : 0.025;
    layer_table_engine(&request->shape, request->copies, &muster->fleet->table);
    fill_kinds(muster, kinds, count, usable);
    fill_pools(muster, kind_of);
    fill_links(muster);
    fill_request(muster);
    free(pace);
    free(kind_of);
}

void
muster_release(struct muster *muster)
{
    fleet_free(muster->fleet);
    free(muster->pool_of);
    *muster = (struct muster){0};
}

/* ---- plans ---- */

/* Layers of a run that a node holds by a plan. */
static int
holds(const struct plan *plan, int node, int first, int layers)
{
    for (int s = 0; plan && s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (int j = 0; j < plan->pipelines_count; j++) {
            if (stage->nodes[j] != node)
                continue;
            int from = stage->first_layer > first ? stage->first_layer : first;
            int end = stage->first_layer + stage->layers;
            end = end < first + layers ? end : first + layers;
            return end > from ? end - from : 0;
        }
    }
    return 0;
}

/* Was it this very place? Who stays where it is needs no other connections either. */
static bool
was_there(const struct plan *plan, int node, int stage, int pipeline)
{
    return plan && stage < plan->stages_count && pipeline < plan->pipelines_count &&
           plan->stages[stage].nodes[pipeline] == node;
}

bool
muster_plan(const struct muster *muster, const struct fleet_plan *plan,
            const struct plan *current, struct plan *out)
{
    if (plan->width > REPLICAS_MAX)
        return false;
    *out = (struct plan){.micro_batch = plan->micro_batch,
                         .stages_count = plan->stages_count,
                         .pipelines_count = plan->width};
    bool taken[PLAN_NODES_MAX] = {false};
    for (int j = 0; j < plan->width; j++) {
        if (plan->micro_batches[j] > MICRO_BATCHES_MAX)
            return false;
        out->micro_batches[j] = plan->micro_batches[j];
    }
    for (int s = 0; s < plan->stages_count; s++) {
        struct plan_stage *stage = &out->stages[s];
        stage->first_layer = plan->first_layer[s];
        stage->layers = plan->layers[s];
        for (int j = 0; j < plan->width; j++)
            stage->nodes[j] = -1;
    }
    /* First who holds all of a place, then who holds some, then anybody: a place that is
     * looked at early must not take what a later one needs more. */
    for (int round = 0; round < 3; round++) {
        for (int s = 0; s < plan->stages_count; s++) {
            struct plan_stage *stage = &out->stages[s];
            for (int j = 0; j < plan->width; j++) {
                int pool = fleet_plan_replica(plan, s, j)->pool;
                int best = -1;
                int most = -1;
                int least = round == 0 ? stage->layers : round == 1 ? 1 : 0;
                if (stage->nodes[j] >= 0)
                    continue;
                for (int n = 0; n < muster->cluster->nodes_count; n++) {
                    if (taken[n] || muster->pool_of[n] != pool)
                        continue;
                    int held = holds(current, n, stage->first_layer, stage->layers);
                    int value = 2 * held + was_there(current, n, s, j);
                    if (held >= least && value > most) {
                        best = n;
                        most = value;
                    }
                }
                if (best < 0)
                    continue;
                stage->nodes[j] = best;
                taken[best] = true;
            }
        }
    }
    return true;
}

void
muster_fleet_plan(const struct muster *muster, const struct plan *plan,
                  struct fleet_plan *out)
{
    fleet_plan_init(out, plan->stages_count, plan->pipelines_count);
    out->micro_batch = plan->micro_batch;
    out->precision = PRECISION_FP32;
    for (int j = 0; j < plan->pipelines_count; j++)
        out->micro_batches[j] = plan->micro_batches[j];
    for (int s = 0; s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        out->first_layer[s] = stage->first_layer;
        out->layers[s] = stage->layers;
        for (int j = 0; j < plan->pipelines_count; j++) {
            int pool = stage->nodes[j] < 0 ? -1 : muster->pool_of[stage->nodes[j]];
            out->replicas[(int64_t)s * out->width + j] =
                (struct replica){.pool = (int16_t)pool, .tp = 1};
        }
    }
}
