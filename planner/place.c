#include "planner/place.h"
#include "planner/schedule.h"
#include "planner/share.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* A node in a sorted list; a total order, since nodes differ in number. */
struct rank {
    int64_t first;
    int64_t second;
    int node;
};

struct placer {
    const struct plan_request *request;
    const struct cluster *cluster;
    int layers;
    int blocks;
    int usable_count;
    int zone_count[ZONES_MAX];
    bool *usable;
    /* For one micro-batch size: */
    int micro_batch;
    int64_t (*layer_ns)[LAYER_KINDS]; /* forward and backward of each node */
    int64_t *model_ns;
    double *power;
    int64_t best_ns;
    bool uniform;
    struct rank *strongest;
    struct rank *fastest;
    struct rank *roomiest;
    struct cutter *cutter;
    /* Scratch. */
    int *picked;
    struct rank *ranks;
    struct cut_stage rooms[STAGES_MAX];
};

struct placer *
placer_new(const struct plan_request *request, const struct cluster *cluster)
{
    must(cluster->nodes_count <= PLAN_NODES_MAX);
    struct placer *placer = xcalloc(1, sizeof(*placer));
    size_t nodes = (size_t)cluster->nodes_count + 1;
    placer->request = request;
    placer->cluster = cluster;
    placer->layers = workload_layers(&request->shape);
    placer->blocks = request->shape.blocks;
    placer->usable = xcalloc(nodes, sizeof(*placer->usable));
    placer->layer_ns = xcalloc(nodes, sizeof(*placer->layer_ns));
    placer->model_ns = xcalloc(nodes, sizeof(*placer->model_ns));
    placer->power = xcalloc(nodes, sizeof(*placer->power));
    placer->strongest = xcalloc(nodes, sizeof(*placer->strongest));
    placer->fastest = xcalloc(nodes, sizeof(*placer->fastest));
    placer->roomiest = xcalloc(nodes, sizeof(*placer->roomiest));
    placer->picked = xcalloc(nodes, sizeof(*placer->picked));
    placer->ranks = xcalloc(nodes, sizeof(*placer->ranks));
    placer->cutter = cutter_new(request);
    for (int n = 0; n < cluster->nodes_count; n++) {
        const struct cluster_node *node = &cluster->nodes[n];
        must(node->zone >= 0 && node->zone < cluster->zones_count);
        placer->usable[n] = node->profile.count > 0 && node->memory_bytes > 0;
        if (!placer->usable[n])
            continue;
        placer->usable_count++;
        placer->zone_count[node->zone]++;
    }
    return placer;
}

void
placer_free(struct placer *placer)
{
    if (!placer)
        return;
    free(placer->usable);
    free(placer->layer_ns);
    free(placer->model_ns);
    free(placer->fastest);
    free(placer->roomiest);
    free(placer->picked);
    free(placer->ranks);
    cutter_free(placer->cutter);
    free(placer->power);
    free(placer->strongest);
    free(placer);
}

int
placer_nodes(const struct placer *placer)
{
    return placer->usable_count;
}

int
placer_zone_nodes(const struct placer *placer, int zone)
{
    must(zone >= 0 && zone < placer->cluster->zones_count);
    return placer->zone_count[zone];
}

bool
placer_usable(const struct placer *placer, int node)
{
    must(node >= 0 && node < placer->cluster->nodes_count);
    return placer->usable[node];
}

bool
placer_uniform(const struct placer *placer)
{
    return placer->uniform;
}

int64_t
placer_best_ns(const struct placer *placer)
{
    return placer->best_ns;
}

double
placer_power(const struct placer *placer, int node)
{
    must(node >= 0 && node < placer->cluster->nodes_count);
    return placer->power[node];
}

int
placer_strongest(const struct placer *placer, uint64_t zones, int *nodes)
{
    int count = 0;
    for (int i = 0; i < placer->usable_count; i++) {
        int node = placer->strongest[i].node;
        if (zones >> placer->cluster->nodes[node].zone & 1)
            nodes[count++] = node;
    }
    return count;
}

static int
rank_compare(const void *left, const void *right)
{
    const struct rank *a = left;
    const struct rank *b = right;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static void
rank_sort(struct rank *ranks, int count)
{
    if (count > 1)
        qsort(ranks, (size_t)count, sizeof(*ranks), rank_compare);
}

static int64_t
model_ns(const struct placer *placer, const int64_t layer_ns[LAYER_KINDS])
{
    return layer_ns[LAYER_EMBEDDING] + placer->blocks * layer_ns[LAYER_BLOCK] +
           layer_ns[LAYER_HEAD];
}

static void
rank_nodes(struct placer *placer)
{
    int count = 0;
    for (int n = 0; n < placer->cluster->nodes_count; n++) {
        if (!placer->usable[n])
            continue;
        int64_t memory = placer->cluster->nodes[n].memory_bytes;
        /* In parts of a billion: enough to sort by. */
        int64_t power = (int64_t)(placer->power[n] * 1e9);
        placer->strongest[count] = (struct rank){-power, 0, n};
        placer->fastest[count] = (struct rank){placer->model_ns[n], 0, n};
        placer->roomiest[count] = (struct rank){-memory, placer->model_ns[n], n};
        count++;
    }
    rank_sort(placer->strongest, count);
    rank_sort(placer->fastest, count);
    rank_sort(placer->roomiest, count);
    placer->uniform = true;
    for (int i = 1; i < count; i++)
        if (placer->fastest[i].first != placer->fastest[0].first ||
            placer->roomiest[i].first != placer->roomiest[0].first)
            placer->uniform = false;
}

/* A node's power: the most that it makes of its time on any kind of layer, 1 for the best
 * of all. */
static double
node_power(const int64_t layer_ns[LAYER_KINDS], const int64_t best_ns[LAYER_KINDS])
{
    double power = 0.0;
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        if (layer_ns[kind] <= 0)
            return 1.0;
        double part = (double)best_ns[kind] / (double)layer_ns[kind];
        power = part > power ? part : power;
    }
    return power;
}

void
placer_micro_batch(struct placer *placer, int micro_batch)
{
    must(micro_batch > 0);
    if (placer->micro_batch == micro_batch)
        return;
    placer->micro_batch = micro_batch;
    cutter_micro_batch(placer->cutter, micro_batch);
    int64_t best[LAYER_KINDS] = {NS_NEVER, NS_NEVER, NS_NEVER};
    for (int n = 0; n < placer->cluster->nodes_count; n++) {
        for (int kind = 0; placer->usable[n] && kind < LAYER_KINDS; kind++) {
            int64_t forward = 0;
            int64_t backward = 0;
            int64_t update = 0;
            int rc = cluster_layer_ns(&placer->cluster->nodes[n], (enum layer_kind)kind,
                                      micro_batch, &forward, &backward, &update);
            must(rc == 0);
            placer->layer_ns[n][kind] = forward + backward;
            if (forward + backward < best[kind])
                best[kind] = forward + backward;
        }
    }
    for (int n = 0; n < placer->cluster->nodes_count; n++) {
        placer->model_ns[n] = model_ns(placer, placer->layer_ns[n]);
        placer->power[n] = node_power(placer->layer_ns[n], best);
    }
    placer->best_ns = placer->usable_count > 0 ? model_ns(placer, best) : 0;
    rank_nodes(placer);
}

void
placer_gradients(struct placer *placer, const struct plan *plan,
                 int64_t gradient_bytes[STAGES_MAX])
{
    for (int s = 0; s < plan->stages_count; s++)
        gradient_bytes[s] = cutter_gradient_bytes(
            placer->cutter, plan->stages[s].first_layer, plan->stages[s].layers);
}

/* Take `count` nodes of a zone (-1: of all) into picked, in the order of the list; those
 * that have room for `least_bytes` first. False when there are not as many. */
static bool
pick(struct placer *placer, const struct rank *list, int zone, int count,
     int64_t least_bytes)
{
    const struct cluster_node *nodes = placer->cluster->nodes;
    int found = 0;
    for (int small = 0; small < 2; small++) {
        for (int i = 0; i < placer->usable_count && found < count; i++) {
            const struct cluster_node *node = &nodes[list[i].node];
            if (zone >= 0 && node->zone != zone)
                continue;
            if ((node->memory_bytes < least_bytes) == (small == 1))
                placer->picked[found++] = list[i].node;
        }
    }
    return found == count;
}

/* Sort a run of picked nodes, the roomiest or the fastest first. */
static void
sort_picked(struct placer *placer, int first, int count, bool roomiest)
{
    for (int i = 0; i < count; i++) {
        int node = placer->picked[first + i];
        int64_t room = -placer->cluster->nodes[node].memory_bytes;
        int64_t speed = placer->model_ns[node];
        placer->ranks[i] = roomiest ? (struct rank){room, speed, node}
                                    : (struct rank){speed, room, node};
    }
    rank_sort(placer->ranks, count);
    for (int i = 0; i < count; i++)
        placer->picked[first + i] = placer->ranks[i].node;
}

/* Nodes of one zone for some stages of some pipelines; the stages are listed. */
static bool
place_zone(struct placer *placer, const struct place_outline *outline, int zone,
           const int *stages, int stages_count, int first_pipeline, int pipelines,
           struct plan *plan)
{
    enum place_order order = outline->order;
    bool by_room = order >= PLACE_ROOMY_STAGES;
    bool in_stages = by_room || order == PLACE_FAST_STAGES;
    int share = placer->layers / outline->stages;
    int64_t least = cutter_run_bytes(placer->cutter, share < placer->layers, share, 1);
    if (outline->stages == 2)
        least = cutter_run_bytes(placer->cutter, 0, share, 1);
    if (!pick(placer, by_room ? placer->roomiest : placer->fastest, zone,
              stages_count * pipelines, by_room ? 0 : least))
        return false;
    for (int j = 0; order == PLACE_ROOMY_PIPELINES && j < pipelines; j++)
        sort_picked(placer, j * stages_count, stages_count, true);
    for (int s = 0; by_room && s < stages_count; s++)
        sort_picked(placer, s * pipelines, pipelines, false);

    for (int s = 0; s < stages_count; s++) {
        int block = order == PLACE_ROOMY_LAST ? stages_count - 1 - s : s;
        for (int j = 0; j < pipelines; j++)
            plan->stages[stages[s]].nodes[first_pipeline + j] =
                placer->picked[in_stages ? block * pipelines + j : j * stages_count + s];
    }
    return true;
}

/* How many pipelines each zone gets: the fastest first, where a pipeline is as fast as
 * its slowest node. */
static bool
share_pipelines(struct placer *placer, const struct place_outline *outline,
                int shares[STAGES_MAX])
{
    /* The node that ends a zone's next pipeline, walking down the list of the fastest. */
    int64_t next_ns[ZONES_MAX];
    int cursor[ZONES_MAX];
    for (int i = 0; i < outline->zones_count; i++) {
        shares[i] = 0;
        cursor[i] = 0;
        next_ns[i] = -1;
    }
    for (int given = 0; given < outline->pipelines; given++) {
        int chosen = -1;
        for (int i = 0; i < outline->zones_count; i++) {
            int zone = outline->zones[i];
            if ((shares[i] + 1) * outline->stages > placer->zone_count[zone])
                continue;
            int found = 0;
            for (int at = cursor[i]; next_ns[i] < 0; at++) {
                int node = placer->fastest[at].node;
                if (placer->cluster->nodes[node].zone != zone)
                    continue;
                if (++found == outline->stages) {
                    next_ns[i] = placer->fastest[at].first;
                    cursor[i] = at + 1;
                }
            }
            if (chosen < 0 || next_ns[i] < next_ns[chosen])
                chosen = i;
        }
        if (chosen < 0)
            return false;
        shares[chosen]++;
        next_ns[chosen] = -1;
    }
    return true;
}

/* Micro-batches of the busiest pipeline when they are shared evenly. */
static int
most_if_even(const struct placer *placer, const struct place_outline *outline)
{
    int total = placer->request->sequences / outline->micro_batch;
    return (total + outline->pipelines - 1) / outline->pipelines;
}

/* The roomiest nodes, cut into blocks of one stage each; which stage a block is for is
 * found by trying. */
static bool
place_fitting(struct placer *placer, const struct place_outline *outline,
              struct plan *plan)
{
    int stages = outline->stages;
    int group[CUT_ASSIGN_MAX] = {0};
    int in_flight[CUT_ASSIGN_MAX] = {0};
    int64_t block_bytes[CUT_ASSIGN_MAX] = {0};
    int block_of_stage[CUT_ASSIGN_MAX];
    if (stages > CUT_ASSIGN_MAX ||
        (outline->spread == PLACE_PIPELINES && outline->zones_count > 1))
        return false;
    /* As already placed by room: a block is the nodes of a stage. */
    for (int s = 0; s < stages; s++) {
        group[s] = outline->spread == PLACE_STAGES ? outline->zones[s] : 0;
        in_flight[s] = schedule_in_flight(stages, s, most_if_even(placer, outline));
        block_bytes[s] = INT64_MAX;
        for (int j = 0; j < outline->pipelines; j++) {
            int node = plan->stages[s].nodes[j];
            int64_t memory = placer->cluster->nodes[node].memory_bytes;
            block_bytes[s] = memory < block_bytes[s] ? memory : block_bytes[s];
        }
    }
    if (!cut_assign(placer->cutter, stages, group, in_flight, block_bytes,
                    block_of_stage))
        return false;
    struct plan_stage placed[CUT_ASSIGN_MAX];
    memcpy(placed, plan->stages, (size_t)stages * sizeof(placed[0]));
    for (int s = 0; s < stages; s++)
        memcpy(plan->stages[s].nodes, placed[block_of_stage[s]].nodes,
               sizeof(placed[0].nodes));
    return true;
}

static bool
place_nodes(struct placer *placer, const struct place_outline *outline, struct plan *plan)
{
    int stages[STAGES_MAX];
    for (int s = 0; s < outline->stages; s++)
        stages[s] = s;
    switch (outline->spread) {
    case PLACE_NODE:
        plan->stages[0].nodes[0] = outline->zones[0];
        return placer->usable[outline->zones[0]];
    case PLACE_ANYWHERE:
        return place_zone(placer, outline, -1, stages, outline->stages, 0,
                          outline->pipelines, plan);
    case PLACE_PIPELINES: {
        int shares[STAGES_MAX];
        if (!share_pipelines(placer, outline, shares))
            return false;
        int first = 0;
        for (int i = 0; i < outline->zones_count; i++) {
            if (shares[i] > 0 && !place_zone(placer, outline, outline->zones[i], stages,
                                             outline->stages, first, shares[i], plan))
                return false;
            first += shares[i];
        }
        return true;
    }
    case PLACE_STAGES:
        for (int zone = 0; zone < placer->cluster->zones_count; zone++) {
            int count = 0;
            for (int s = 0; s < outline->stages; s++)
                if (outline->zones[s] == zone)
                    stages[count++] = s;
            if (count > 0 && !place_zone(placer, outline, zone, stages, count, 0,
                                         outline->pipelines, plan))
                return false;
        }
        return true;
    }
    return false;
}

/* What the cut goes by, when the busiest pipeline has `most` micro-batches. */
static void
rooms_prepare(struct placer *placer, const struct plan *plan, int most)
{
    for (int s = 0; s < plan->stages_count; s++) {
        struct cut_stage *room = &placer->rooms[s];
        memset(room, 0, sizeof(*room));
        room->memory_bytes = INT64_MAX;
        room->in_flight = schedule_in_flight(plan->stages_count, s, most);
        for (int j = 0; j < plan->pipelines_count; j++) {
            int node = plan->stages[s].nodes[j];
            int64_t memory = placer->cluster->nodes[node].memory_bytes;
            if (memory < room->memory_bytes)
                room->memory_bytes = memory;
            for (int kind = 0; kind < LAYER_KINDS; kind++)
                room->layer_ns[kind] += placer->layer_ns[node][kind];
        }
    }
}

/* Shares by the whole model's time before the cut, by the slowest stage's after it. */
static bool
share_by_speed(struct placer *placer, struct plan *plan, int total, bool cut)
{
    int64_t slowest_ns[REPLICAS_MAX];
    int64_t others_ns[REPLICAS_MAX];
    for (int j = 0; j < plan->pipelines_count; j++) {
        slowest_ns[j] = 0;
        others_ns[j] = 0;
        for (int s = 0; s < plan->stages_count; s++) {
            const struct plan_stage *stage = &plan->stages[s];
            int node = stage->nodes[j];
            int64_t ns = placer->model_ns[node];
            if (cut) {
                const int64_t *layer_ns = placer->layer_ns[node];
                bool embedding = s == 0;
                bool head = s == plan->stages_count - 1;
                ns = (stage->layers - embedding - head) * layer_ns[LAYER_BLOCK] +
                     embedding * layer_ns[LAYER_EMBEDDING] + head * layer_ns[LAYER_HEAD];
                others_ns[j] += ns;
            }
            if (ns > slowest_ns[j])
                slowest_ns[j] = ns;
        }
        if (cut)
            others_ns[j] -= slowest_ns[j];
    }
    return share_micro_batches(plan, total, slowest_ns, others_ns);
}

static int
most_micro_batches(const struct plan *plan)
{
    int most = 0;
    for (int j = 0; j < plan->pipelines_count; j++)
        if (plan->micro_batches[j] > most)
            most = plan->micro_batches[j];
    return most;
}

/* Cut with as many micro-batches in flight as `most` allows, then share them out;
 * CUT_NONE if the shares need more in flight. */
static enum cut_result
cut_and_share(struct placer *placer, struct plan *plan, int total, int most)
{
    rooms_prepare(placer, plan, most);
    enum cut_result cut = cut_layers(placer->cutter, placer->rooms, plan);
    if (cut == CUT_NONE || !share_by_speed(placer, plan, total, true))
        return CUT_NONE;
    bool within = most_micro_batches(plan) <= most || most >= plan->stages_count;
    return within ? cut : CUT_NONE;
}

enum cut_result
place(struct placer *placer, const struct place_outline *outline, struct plan *plan)
{
    must(outline->micro_batch == placer->micro_batch);
    must(outline->stages >= 1 && outline->stages <= STAGES_MAX);
    must(outline->pipelines >= 1 && outline->pipelines <= REPLICAS_MAX);
    int sequences = placer->request->sequences;
    if (outline->stages > placer->layers || sequences % outline->micro_batch != 0 ||
        outline->stages * outline->pipelines > placer->usable_count)
        return CUT_NONE;
    int total = sequences / outline->micro_batch;
    plan->micro_batch = outline->micro_batch;
    plan->stages_count = outline->stages;
    plan->pipelines_count = outline->pipelines;
    plan->predicted_step_ns = 0;
    plan->loosened = false;
    if (!place_nodes(placer, outline, plan) ||
        (outline->order == PLACE_FITTING && !place_fitting(placer, outline, plan)) ||
        !share_by_speed(placer, plan, total, false))
        return CUT_NONE;

    for (int attempt = 0; attempt < 2; attempt++) {
        enum cut_result cut =
            cut_and_share(placer, plan, total, most_micro_batches(plan));
        if (cut != CUT_NONE)
            return cut;
    }
    /* The least that can be in flight: the same number of micro-batches for all. */
    rooms_prepare(placer, plan, most_if_even(placer, outline));
    if (cut_layers(placer->cutter, placer->rooms, plan) == CUT_NONE)
        return CUT_NONE;
    share_evenly(plan, total);
    return CUT_TIGHT;
}

int
placer_room(struct placer *placer, struct err *err)
{
    int first = 0;
    const struct cluster_node *nodes = placer->cluster->nodes;
    for (int i = 0; i < placer->usable_count; i++) {
        const struct cluster_node *node = &nodes[placer->roomiest[i].node];
        int layers = 0;
        while (first + layers < placer->layers &&
               cutter_run_bytes(placer->cutter, first, layers + 1, 1) <=
                   node->memory_bytes)
            layers++;
        if (first + layers == placer->layers)
            return 0;
        if (layers == 0 || i == placer->usable_count - 1)
            return plan_no_room(err, first, first + layers,
                                cutter_run_bytes(placer->cutter, first, layers + 1, 1),
                                node, placer->micro_batch);
        first += layers;
    }
    return err_set(err, ERR_PLAN,
                   "cannot place layer 0: none of %d nodes has a measured profile; wait "
                   "until one is profiled or add a node",
                   placer->cluster->nodes_count);
}
