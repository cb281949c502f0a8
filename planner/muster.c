#include "planner/muster.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 12 /* micro-batch sizes to choose from */ };

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
fill_table(struct muster *muster)
{
    const struct model_shape *shape = &muster->asked->shape;
    struct layer_table *table = &muster->fleet->table;
    table->layers_count = workload_layers(shape);
    table->sequence_tokens = shape->context;
    table->sizes[0] = xcalloc((size_t)table->layers_count, sizeof(struct layer_size));
    table->engine = shape;
    table->engine_copies = muster->asked->copies;
    for (int l = 0; l < table->layers_count; l++) {
        struct stage_spec spec = {
            .first_layer = l, .layers = 1, .micro_batch = 1, .in_flight = 1};
        struct stage_layout layout;
        workload_stage_layout(shape, &spec, &layout);
        table->sizes[0][l] = (struct layer_size){
            .parameters = workload_layer_parameters(shape, l),
            .output_bytes =
                l + 1 < table->layers_count ? workload_boundary_bytes(shape, 1) : 0,
            .kept_bytes = layout.slot * 4,
        };
    }
}

/* Divisors of the batch, ascending: those that pipelines and limits allow; the one that the job
 * fixes in any case. */
static int
list_sizes(const struct muster *muster, int nodes, int sizes[SIZES_MAX])
{
    const struct plan_request *asked = muster->asked;
    int pipelines = nodes < REPLICAS_MAX ? nodes : REPLICAS_MAX;
    int count = 0;
    for (int size = 1; size <= asked->sequences; size++) {
        bool fixed = size == asked->micro_batch;
        if (asked->sequences % size != 0 || (count == SIZES_MAX && !fixed) ||
            (int64_t)size * asked->shape.context > MICRO_BATCH_TOKENS_MAX ||
            asked->sequences / size > MICRO_BATCHES_MAX * pipelines)
            continue;
        count -= count == SIZES_MAX;
        sizes[count++] = size;
    }
    return count;
}

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
    for (int l = 0; l < layers; l++) {
        int64_t forward_ns, backward_ns, update_ns;
        must(cluster_layer_ns(node, workload_layer_kind(shape, l), size, &forward_ns,
                              &backward_ns, &update_ns) == 0);
        out->layers[l] = (struct layer_time){.forward_s = (double)forward_ns / 1e9,
                                             .backward_s = (double)backward_ns / 1e9,
                                             .update_s = (double)update_ns / 1e9};
    }
}

static void
fill_kinds(struct muster *muster, const struct alike *kinds, int count, int nodes)
{
    struct fleet *fleet = muster->fleet;
    int sizes[SIZES_MAX];
    int sizes_count = list_sizes(muster, nodes, sizes);
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

/* A quadratic through what messages of three sizes or more got, by least squares; the plain rate
 * where fewer were measured, or where the quadratic would leave what was measured between its
 * sizes. */
static void
fit_curve(const struct cluster_link *link, struct fleet_curve *curve)
{
    double sums[5] = {0.0}; /* of powers of x */
    double by[3] = {0.0};   /* of powers of x times y */
    double low = 0.0, high = 0.0, least = 0.0, most = 0.0;
    int count = 0;
    for (int i = 0; i < CLUSTER_LINK_POINTS; i++) {
        double bytes = (double)link->message_bytes[i];
        double y = (double)link->message_bytes_per_s[i] / 1e9;
        if (link->message_bytes[i] < 1 || !(y > 0.0) || bytes <= high)
            continue;
        double x = fleet_log2(bytes / 1e6);
        double power = 1.0;
        for (int k = 0; k < 5; k++) {
            sums[k] += power;
            if (k < 3)
                by[k] += power * y;
            power *= x;
        }
        low = count == 0 ? bytes : low;
        high = bytes;
        least = count == 0 || y < least ? y : least;
        most = count == 0 || y > most ? y : most;
        count++;
    }
    if (count < 3 || !(curve->c0 > 0.0))
        return;
    /* The normal equations, by Cramer's rule. */
    double a = sums[0], b = sums[1], c = sums[2], d = sums[3], e = sums[4];
    double whole = a * (c * e - d * d) - b * (b * e - c * d) + c * (b * d - c * c);
    if (!(whole > 1e-9))
        return;
    struct fleet_curve fitted = *curve;
    fitted.c0 = (by[0] * (c * e - d * d) - b * (by[1] * e - by[2] * d) +
                 c * (by[1] * d - by[2] * c)) /
                whole;
    fitted.c1 = (a * (by[1] * e - by[2] * d) - by[0] * (b * e - c * d) +
                 c * (b * by[2] - c * by[1])) /
                whole;
    fitted.c2 = (a * (c * by[2] - d * by[1]) - b * (b * by[2] - c * by[1]) +
                 by[0] * (b * d - c * c)) /
                whole;
    fitted.low_bytes = low;
    fitted.high_bytes = high;
    for (double bytes = low; bytes <= high; bytes *= 2.0) {
        double x = fleet_log2(bytes / 1e6);
        double rate = (fitted.c2 * x + fitted.c1) * x + fitted.c0;
        if (!(rate >= least * 0.5 && rate <= most * 2.0))
            return;
    }
    *curve = fitted;
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
            const struct cluster_link *link = cluster_link(cluster, from, to);
            int64_t trip_us = link->round_trip_us > 0 ? link->round_trip_us : 0;
            fleet->curves[from * zones + to] = (struct fleet_curve){
                .c0 = (double)link->bytes_per_s / 1e9,
                .low_bytes = 1.0,
                .high_bytes = 1e18,
                .delay_s = (double)trip_us / 2e6,
                .shared = from != to,
            };
            fit_curve(link, &fleet->curves[from * zones + to]);
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
    /* Sends do not hold up who sends; all is reduced after the last backward, at once. */
    request->framework = (struct framework){.overlap = true, .bucket_bytes = 1e18};
    request->quick = true;
    request->tp = 1;
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
    fill_table(muster);
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
