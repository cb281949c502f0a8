#include "planner/place.h"
#include "planner/schedule.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* A run of layers with or without the embedding, with or without the head. */
enum { RUN_EMBEDDING = 1, RUN_HEAD = 2, RUN_ENDS = 4 };

/* A node in a sorted list; a total order, since nodes differ in number. */
struct rank {
    int64_t first;
    int64_t second;
    int node;
};

/* What a layout of one stage has to go by while layers are cut. */
struct stage_room {
    int64_t layer_ns[LAYER_KINDS]; /* summed over the replicas */
    int64_t memory_bytes;          /* of the smallest node */
    int in_flight;
};

/* Total bytes of runs at one micro-batch size, once asked for:
 * rows[in_flight - 1][ends * (blocks + 1) + blocks of the run]; 0: not yet. */
struct size_book {
    int micro_batch;
    int64_t *rows[STAGES_MAX];
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
    bool tight; /* memory has shaped the last cut */
    struct size_book *book;
    /* Sizes of runs at every micro-batch size seen so far. */
    struct size_book *books;
    int books_count;
    int64_t *gradients; /* [RUN_ENDS * (blocks + 1)]; 0: not yet asked for */
    /* Scratch. */
    int *picked;
    struct rank *ranks;
    struct stage_room rooms[STAGES_MAX];
};

struct placer *
placer_new(const struct plan_request *request, const struct cluster *cluster)
{
    must(cluster->nodes_count <= MEMBERS_MAX);
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
    placer->gradients =
        xcalloc((size_t)(RUN_ENDS * (placer->blocks + 1)), sizeof(*placer->gradients));
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
    for (int book = 0; book < placer->books_count; book++)
        for (int row = 0; row < STAGES_MAX; row++)
            free(placer->books[book].rows[row]);
    free(placer->books);
    free(placer->gradients);
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

static struct size_book *
open_book(struct placer *placer, int micro_batch)
{
    int number = 0;
    while (number < placer->books_count &&
           placer->books[number].micro_batch != micro_batch)
        number++;
    if (number == placer->books_count) {
        placer->books = xrealloc(placer->books, (size_t)++placer->books_count,
                                 sizeof(*placer->books));
        placer->books[number] = (struct size_book){.micro_batch = micro_batch};
    }
    return &placer->books[number];
}

void
placer_micro_batch(struct placer *placer, int micro_batch)
{
    must(micro_batch > 0);
    if (placer->micro_batch == micro_batch)
        return;
    placer->micro_batch = micro_batch;
    placer->book = open_book(placer, micro_batch);
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

/* Where the numbers of a run lie in a row of a book. */
static int
run_entry(const struct placer *placer, int first, int layers)
{
    int embedding = first == 0;
    int head = first + layers == placer->layers;
    int ends = (embedding ? RUN_EMBEDDING : 0) + (head ? RUN_HEAD : 0);
    return ends * (placer->blocks + 1) + layers - embedding - head;
}

static void
run_sizes(const struct placer *placer, int first, int layers, int in_flight,
          struct stage_bytes *out)
{
    struct stage_spec spec = {
        .first_layer = first,
        .layers = layers,
        .micro_batch = placer->micro_batch,
        .in_flight = in_flight,
        .copies = placer->request->copies,
    };
    workload_stage_bytes(&placer->request->shape, &spec, out);
}

static int64_t
run_bytes(struct placer *placer, int first, int layers, int in_flight)
{
    int64_t **row = &placer->book->rows[in_flight - 1];
    if (!*row)
        *row = xcalloc((size_t)(RUN_ENDS * (placer->blocks + 1)), sizeof(**row));
    int64_t *bytes = &(*row)[run_entry(placer, first, layers)];
    if (*bytes == 0) {
        struct stage_bytes sizes;
        run_sizes(placer, first, layers, in_flight, &sizes);
        *bytes = sizes.total;
    }
    return *bytes;
}

void
placer_gradients(struct placer *placer, const struct plan *plan,
                 int64_t gradient_bytes[STAGES_MAX])
{
    for (int s = 0; s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        int64_t *bytes =
            &placer->gradients[run_entry(placer, stage->first_layer, stage->layers)];
        if (*bytes == 0) {
            struct stage_bytes sizes;
            run_sizes(placer, stage->first_layer, stage->layers, 1, &sizes);
            *bytes = sizes.gradients;
        }
        gradient_bytes[s] = *bytes;
    }
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
    bool by_room = order == PLACE_ROOMY_STAGES || order == PLACE_ROOMY_LAST;
    bool in_stages = by_room || order == PLACE_FAST_STAGES;
    int share = placer->layers / outline->stages;
    int64_t least = run_bytes(placer, share < placer->layers, share, 1);
    if (outline->stages == 2)
        least = run_bytes(placer, 0, share, 1);
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

/* Time of a run of layers on a stage, all replicas together. */
static int64_t
run_ns(const struct placer *placer, int stage, int first, int layers)
{
    const int64_t *layer_ns = placer->rooms[stage].layer_ns;
    bool embedding = first == 0;
    bool head = first + layers == placer->layers;
    int64_t ns = (layers - embedding - head) * layer_ns[LAYER_BLOCK];
    if (embedding)
        ns += layer_ns[LAYER_EMBEDDING];
    if (head)
        ns += layer_ns[LAYER_HEAD];
    return ns;
}

static bool
run_fits(struct placer *placer, int stage, int first, int layers)
{
    const struct stage_room *room = &placer->rooms[stage];
    if (run_bytes(placer, first, layers, room->in_flight) <= room->memory_bytes)
        return true;
    placer->tight = true;
    return false;
}

/* Give each stage in turn as many layers as it can do within `limit_ns` and hold. A run
 * that starts later is never larger or slower, so this finds a cut if there is one. */
static bool
cut_within(struct placer *placer, struct plan *plan, int64_t limit_ns)
{
    int first = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        int low = 0;
        int high = placer->layers - first - (plan->stages_count - 1 - s);
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (run_ns(placer, s, first, middle) <= limit_ns &&
                run_fits(placer, s, first, middle))
                low = middle;
            else
                high = middle - 1;
        }
        if (low == 0)
            return false;
        plan->stages[s].first_layer = first;
        plan->stages[s].layers = low;
        first += low;
    }
    return first == placer->layers;
}

/* Move the border behind a stage by one layer if the slower of its two sides gets faster.
 */
static bool
cut_shift(struct placer *placer, struct plan *plan, int s, int by)
{
    struct plan_stage *left = &plan->stages[s];
    struct plan_stage *right = &plan->stages[s + 1];
    int left_layers = left->layers + by;
    int right_layers = right->layers - by;
    int border = right->first_layer + by;
    if (left_layers < 1 || right_layers < 1)
        return false;
    int64_t left_ns = run_ns(placer, s, left->first_layer, left->layers);
    int64_t right_ns = run_ns(placer, s + 1, right->first_layer, right->layers);
    int64_t left_new = run_ns(placer, s, left->first_layer, left_layers);
    int64_t right_new = run_ns(placer, s + 1, border, right_layers);
    int64_t was = left_ns > right_ns ? left_ns : right_ns;
    int64_t is = left_new > right_new ? left_new : right_new;
    if (is >= was || !run_fits(placer, s, left->first_layer, left_layers) ||
        !run_fits(placer, s + 1, border, right_layers))
        return false;
    left->layers = left_layers;
    right->layers = right_layers;
    right->first_layer = border;
    return true;
}

/* Cut the layers into stages: the slowest stage as fast as memory allows, then neighbours
 * evened out. */
static bool
cut_layers(struct placer *placer, struct plan *plan)
{
    if (!cut_within(placer, plan, NS_NEVER))
        return false;
    int64_t high = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        int64_t ns = run_ns(placer, s, stage->first_layer, stage->layers);
        high = ns > high ? ns : high;
    }
    int64_t low = 0;
    while (high - low > high / 4096) {
        int64_t middle = low + (high - low) / 2;
        if (cut_within(placer, plan, middle))
            high = middle;
        else
            low = middle + 1;
    }
    placer->tight = false;
    bool cut = cut_within(placer, plan, high);
    must(cut);
    bool moved = true;
    for (int pass = 0; moved && pass < placer->layers; pass++) {
        moved = false;
        for (int s = plan->stages_count - 2; s >= 0; s--)
            while (cut_shift(placer, plan, s, -1) || cut_shift(placer, plan, s, 1))
                moved = true;
    }
    return true;
}

/* What the cut goes by, when the busiest pipeline has `most` micro-batches. */
static void
rooms_prepare(struct placer *placer, const struct plan *plan, int most)
{
    for (int s = 0; s < plan->stages_count; s++) {
        struct stage_room *room = &placer->rooms[s];
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

/* Micro-batches that a pipeline finishes by `limit_ns`, at least one. */
static int
count_within(int64_t limit_ns, int64_t slowest_ns, int64_t others_ns)
{
    if (limit_ns <= others_ns + slowest_ns)
        return 1;
    if (slowest_ns == 0)
        return MICRO_BATCHES_MAX;
    int64_t count = (limit_ns - others_ns) / slowest_ns;
    return count < MICRO_BATCHES_MAX ? (int)count : MICRO_BATCHES_MAX;
}

static void
share_evenly(struct plan *plan, int total)
{
    int n = plan->pipelines_count;
    for (int j = 0; j < n; j++)
        plan->micro_batches[j] = total / n + (j < total % n);
}

/* Share `total` micro-batches so that the pipeline that ends last ends as early as it
 * can. */
static bool
share_micro_batches(struct plan *plan, int total, const int64_t slowest_ns[REPLICAS_MAX],
                    const int64_t others_ns[REPLICAS_MAX])
{
    int n = plan->pipelines_count;
    if (total < n || total > n * MICRO_BATCHES_MAX)
        return false;
    bool same = true;
    for (int j = 1; j < n; j++)
        if (slowest_ns[j] != slowest_ns[0] || others_ns[j] != others_ns[0])
            same = false;
    if (same) {
        share_evenly(plan, total);
        return true;
    }
    int64_t low = 0;
    int64_t high = 0;
    for (int j = 0; j < n; j++) {
        int64_t all = ns_plus(others_ns[j], ns_times(MICRO_BATCHES_MAX, slowest_ns[j]));
        high = all > high ? all : high;
    }
    while (high - low > high / 4096) {
        int64_t middle = low + (high - low) / 2;
        int64_t sum = 0;
        for (int j = 0; j < n; j++)
            sum += count_within(middle, slowest_ns[j], others_ns[j]);
        if (sum >= total)
            high = middle;
        else
            low = middle + 1;
    }
    int sum = 0;
    for (int j = 0; j < n; j++) {
        plan->micro_batches[j] = count_within(high, slowest_ns[j], others_ns[j]);
        sum += plan->micro_batches[j];
    }
    if (sum < total)
        return false;
    /* What is too much comes off the pipelines that end last, the later ones first. */
    while (sum > total) {
        int last = -1;
        int64_t last_ns = -1;
        for (int j = 0; j < n; j++) {
            int64_t end = others_ns[j] + plan->micro_batches[j] * slowest_ns[j];
            if (plan->micro_batches[j] > 1 && end >= last_ns) {
                last = j;
                last_ns = end;
            }
        }
        plan->micro_batches[last]--;
        sum--;
    }
    return true;
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

/* As many micro-batches in flight as `most` allows; true if the shares that follow keep
 * within it. */
static bool
cut_and_share(struct placer *placer, struct plan *plan, int total, int most)
{
    rooms_prepare(placer, plan, most);
    if (!cut_layers(placer, plan) || !share_by_speed(placer, plan, total, true))
        return false;
    int now = most_micro_batches(plan);
    return now <= most || most >= plan->stages_count;
}

enum place_result
place(struct placer *placer, const struct place_outline *outline, struct plan *plan)
{
    must(outline->micro_batch == placer->micro_batch);
    must(outline->stages >= 1 && outline->stages <= STAGES_MAX);
    must(outline->pipelines >= 1 && outline->pipelines <= REPLICAS_MAX);
    int sequences = placer->request->sequences;
    if (outline->stages > placer->layers || sequences % outline->micro_batch != 0 ||
        outline->stages * outline->pipelines > placer->usable_count)
        return PLACE_NONE;
    int total = sequences / outline->micro_batch;
    plan->micro_batch = outline->micro_batch;
    plan->stages_count = outline->stages;
    plan->pipelines_count = outline->pipelines;
    plan->predicted_step_ns = 0;
    plan->loosened = false;
    if (!place_nodes(placer, outline, plan) ||
        !share_by_speed(placer, plan, total, false))
        return PLACE_NONE;

    for (int attempt = 0; attempt < 2; attempt++)
        if (cut_and_share(placer, plan, total, most_micro_batches(plan)))
            return placer->tight ? PLACE_TIGHT : PLACE_GOOD;
    /* The least that can be in flight: the same number of micro-batches for all. */
    int even = (total + outline->pipelines - 1) / outline->pipelines;
    rooms_prepare(placer, plan, even);
    if (!cut_layers(placer, plan))
        return PLACE_NONE;
    share_evenly(plan, total);
    return PLACE_TIGHT;
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
               run_bytes(placer, first, layers + 1, 1) <= node->memory_bytes)
            layers++;
        if (first + layers == placer->layers)
            return 0;
        if (layers == 0 || i == placer->usable_count - 1)
            return plan_no_room(err, first, first + layers,
                                run_bytes(placer, first, layers + 1, 1), node,
                                placer->micro_batch);
        first += layers;
    }
    return err_set(err, ERR_PLAN,
                   "cannot place layer 0: none of %d nodes has a measured profile; wait "
                   "until one is profiled or add a node",
                   placer->cluster->nodes_count);
}
