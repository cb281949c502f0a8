#include "planner/explore.h"
#include "planner/place.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_MAX = 16384, /* outlines kept before they are simulated */
    FEW_NODES = 16,         /* in a group: so few that every order is tried */
    GROUP_TRIES = 4,        /* candidates simulated before the next group is looked at */
    GROUPS_MAX = 48,        /* sets of several zones looked at */
    ZONE_OPS = 400000,      /* schedule entries replayed for one zone by itself */
    GROUP_OPS = 1500000,    /* for all groups of zones together */
    MICRO_BATCH_OPTIONS_MAX = 64,
    REPLICA_OPTIONS_MAX = 24
};

struct candidate {
    int64_t bound_ns;
    int number; /* in the order of enumeration */
    struct place_outline outline;
};

struct explorer {
    const struct plan_request *request;
    const struct cluster *cluster;
    struct placer *placer;
    struct wish wish;
    int options[MICRO_BATCH_OPTIONS_MAX]; /* micro-batch sizes, ascending */
    int options_count;
    struct candidate *candidates; /* of the group at hand */
    int count;
    int number; /* of the next candidate */
    /* Power of the strongest nodes of the group together, [count of nodes]. */
    double power[PLAN_NODES_MAX + 1];
    int strongest[PLAN_NODES_MAX];
    int group_nodes;
    int64_t path_ns; /* of one micro-batch between the zones at hand, there and back */
    bool probing;    /* is there any plan at all? */
    bool feasible;
    bool coarse;      /* skip some depths of long pipelines */
    int64_t ops_left; /* schedule entries that may yet be replayed */
    bool found;
    struct plan best;
    struct prediction best_prediction;
    struct plan draft;
};

struct explorer *
explorer_new(const struct plan_request *request, const struct cluster *cluster)
{
    struct explorer *explorer = xcalloc(1, sizeof(*explorer));
    explorer->request = request;
    explorer->cluster = cluster;
    explorer->placer = placer_new(request, cluster);
    explorer->candidates = xcalloc(CANDIDATES_MAX, sizeof(*explorer->candidates));
    return explorer;
}

void
explorer_free(struct explorer *explorer)
{
    if (!explorer)
        return;
    placer_free(explorer->placer);
    free(explorer->candidates);
    free(explorer);
}

static int
least(int left, int right)
{
    return left < right ? left : right;
}

/* Which plan wins: the faster; then fewer stages, fewer nodes, lower node ids. */
static bool
plan_before(const struct plan *left, const struct plan *right)
{
    if (left->predicted_step_ns != right->predicted_step_ns)
        return left->predicted_step_ns < right->predicted_step_ns;
    if (left->stages_count != right->stages_count)
        return left->stages_count < right->stages_count;
    if (left->pipelines_count != right->pipelines_count)
        return left->pipelines_count < right->pipelines_count;
    for (int s = 0; s < left->stages_count; s++)
        for (int j = 0; j < left->pipelines_count; j++)
            if (left->stages[s].nodes[j] != right->stages[s].nodes[j])
                return left->stages[s].nodes[j] < right->stages[s].nodes[j];
    return left->micro_batch < right->micro_batch;
}

/* Go to a micro-batch size, and sum up the power of the zones at hand (a bit each). */
static void
use_micro_batch(struct explorer *explorer, int micro_batch, uint64_t zones)
{
    placer_micro_batch(explorer->placer, micro_batch);
    int count = placer_strongest(explorer->placer, zones, explorer->strongest);
    explorer->group_nodes = count;
    explorer->power[0] = 0.0;
    for (int i = 0; i < count; i++)
        explorer->power[i + 1] =
            explorer->power[i] + placer_power(explorer->placer, explorer->strongest[i]);
}

/* Could any placing of so many nodes be as fast as the best so far? Not if they lack the
 * power; nor if a stage's activation slots are too few for a model and its way through
 * the zones to go by in them as often as the longest pipeline has to. */
static bool
worth_placing(const struct explorer *explorer, int micro_batch, int stages, int pipelines)
{
    int total = explorer->request->sequences / micro_batch;
    if (pipelines > total)
        return false;
    if (!explorer->found)
        return true;
    int64_t best_ns = placer_best_ns(explorer->placer);
    double power_ns = (double)total * (double)best_ns /
                      explorer->power[(size_t)stages * (size_t)pipelines];
    if (power_ns * 0.999999 > (double)explorer->best.predicted_step_ns)
        return false;
    int longest = (total + pipelines - 1) / pipelines;
    int slots = least(stages, longest);
    int64_t slots_ns =
        ns_times((longest + slots - 1) / slots, ns_plus(best_ns, explorer->path_ns));
    return slots_ns <= explorer->best.predicted_step_ns;
}

static int
candidate_compare(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;
    if (a->bound_ns != b->bound_ns)
        return a->bound_ns < b->bound_ns ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Simulate one candidate, and keep it if it is the best so far. */
static void
try_candidate(struct explorer *explorer, const struct candidate *candidate)
{
    placer_micro_batch(explorer->placer, candidate->outline.micro_batch);
    enum cut_result placed =
        place(explorer->placer, &candidate->outline, &explorer->draft);
    must(placed != CUT_NONE);
    struct prediction prediction;
    struct err err;
    int rc = simulate(&explorer->draft, explorer->request, explorer->cluster, &prediction,
                      &err);
    must(rc == 0);
    explorer->draft.predicted_step_ns = prediction.step_ns;
    explorer->ops_left -= (int64_t)2 * candidate->outline.stages *
                          (explorer->request->sequences / explorer->draft.micro_batch);
    if (!explorer->found || plan_before(&explorer->draft, &explorer->best)) {
        explorer->found = true;
        explorer->best = explorer->draft;
        explorer->best_prediction = prediction;
    }
}

/* Simulate up to `most` candidates, the most promising first, until none can win or
 * enough work is done. Those left that may yet win are kept for later. */
static void
settle(struct explorer *explorer, int most)
{
    if (explorer->count > 1)
        qsort(explorer->candidates, (size_t)explorer->count,
              sizeof(*explorer->candidates), candidate_compare);
    int next = 0;
    for (; next < explorer->count && next < most && explorer->ops_left > 0; next++) {
        const struct candidate *candidate = &explorer->candidates[next];
        if (explorer->found && candidate->bound_ns > explorer->best.predicted_step_ns)
            break;
        try_candidate(explorer, candidate);
    }
    int kept = 0;
    for (; next < explorer->count && most < CANDIDATES_MAX; next++) {
        if (explorer->candidates[next].bound_ns > explorer->best.predicted_step_ns)
            break;
        explorer->candidates[kept++] = explorer->candidates[next];
    }
    explorer->count = kept;
}

/* Keep an outline for simulation if it can be placed and may win. Twins of the one before
 * are dropped. */
static enum cut_result
offer(struct explorer *explorer, const struct place_outline *outline, uint64_t *twin)
{
    enum cut_result placed = place(explorer->placer, outline, &explorer->draft);
    if (placed == CUT_NONE || explorer->probing) {
        explorer->feasible = explorer->feasible || placed != CUT_NONE;
        return placed;
    }
    const struct plan *plan = &explorer->draft;
    uint64_t nodes = 1;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            nodes = rng_mix(nodes, (uint64_t)plan->stages[s].nodes[j]);
    if (nodes == *twin)
        return placed;
    *twin = nodes;
    int64_t gradient_bytes[STAGES_MAX];
    placer_gradients(explorer->placer, plan, gradient_bytes);
    int64_t bound_ns =
        simulate_bound(plan, explorer->request, explorer->cluster, gradient_bytes);
    if (explorer->found && bound_ns > explorer->best.predicted_step_ns)
        return placed;
    explorer->candidates[explorer->count] =
        (struct candidate){bound_ns, explorer->number++, *outline};
    if (++explorer->count == CANDIDATES_MAX) {
        settle(explorer, CANDIDATES_MAX);
        placer_micro_batch(explorer->placer, outline->micro_batch);
    }
    return placed;
}

/* The same outline with the nodes in every order that may matter: by speed; by memory too
 * where the fast ones lack it. */
static void
offer_orders(struct explorer *explorer, struct place_outline *outline)
{
    if (!worth_placing(explorer, outline->micro_batch, outline->stages,
                       outline->pipelines))
        return;
    uint64_t twin = 0;
    bool roomy = explorer->group_nodes <= FEW_NODES;
    bool placed = false;
    for (int order = 0; order < PLACE_ORDERS; order++) {
        outline->order = (enum place_order)order;
        bool by_speed = order <= PLACE_FAST_STAGES;
        if (!by_speed && (!roomy || (order == PLACE_FITTING && placed)))
            break;
        enum cut_result cut = offer(explorer, outline, &twin);
        placed = placed || cut != CUT_NONE;
        roomy = roomy || cut != CUT_GOOD;
        if (placer_uniform(explorer->placer) ||
            (!roomy && (outline->stages == 1 || outline->pipelines == 1)))
            break;
    }
}

/* Add a divisor of the batch to the sizes to try if the wish and the limits allow it. */
static void
list_micro_batch(struct explorer *explorer, int size)
{
    const struct plan_request *request = explorer->request;
    int pipelines = least(placer_nodes(explorer->placer), REPLICAS_MAX);
    if (explorer->options_count == MICRO_BATCH_OPTIONS_MAX ||
        (explorer->wish.micro_batch > 0 && size != explorer->wish.micro_batch) ||
        (int64_t)size * request->shape.context > MICRO_BATCH_TOKENS_MAX ||
        request->sequences / size > MICRO_BATCHES_MAX * pipelines)
        return;
    explorer->options[explorer->options_count++] = size;
}

/* Micro-batch sizes to try: the one wished for, or all divisors of the batch,
 * ascending. */
static void
list_micro_batches(struct explorer *explorer)
{
    int sequences = explorer->request->sequences;
    explorer->options_count = 0;
    int root = 1;
    for (; root <= sequences / root; root++)
        if (sequences % root == 0)
            list_micro_batch(explorer, root);
    for (root--; root >= 1; root--)
        if (sequences % root == 0 && root != sequences / root)
            list_micro_batch(explorer, sequences / root);
}

/* Replica counts to try up to `most`: all if they are few; else the most, those at which
 * the longest pipeline gets a micro-batch more, and halves. */
static int
list_replicas(const struct explorer *explorer, int most, int total,
              int options[REPLICA_OPTIONS_MAX])
{
    most = least(most, least(total, REPLICAS_MAX));
    if (explorer->wish.replicas > 0) {
        options[0] = explorer->wish.replicas;
        return explorer->wish.replicas <= most ? 1 : 0;
    }
    int count = 0;
    int next = most;
    while (next >= 1 && count < REPLICA_OPTIONS_MAX) {
        options[count++] = next;
        int each = (total + next - 1) / next;
        int fewer = next - 1;
        if (next > 8)
            fewer = least(fewer, count < 8 ? (total + each) / (each + 1) : next / 2);
        next = fewer;
    }
    return count;
}

/* The next pipeline depth to try, past `stages`. */
static int
next_depth(const struct explorer *explorer, int stages)
{
    if (explorer->wish.pipeline > 0)
        return stages < explorer->wish.pipeline ? explorer->wish.pipeline
                                                : STAGES_MAX + 1;
    int fine = explorer->coarse ? 8 : 16;
    return stages + (stages < fine ? 1 : stages < 2 * fine ? 2 : 4);
}

static int
depth_max(const struct explorer *explorer, int nodes)
{
    int layers = workload_layers(&explorer->request->shape);
    return least(STAGES_MAX, least(nodes, layers));
}

/* Every usable node by itself. */
static void
try_nodes(struct explorer *explorer)
{
    if (explorer->wish.pipeline > 1 || explorer->wish.replicas > 1)
        return;
    for (int i = 0; i < explorer->options_count; i++) {
        placer_micro_batch(explorer->placer, explorer->options[i]);
        for (int n = 0; n < explorer->cluster->nodes_count; n++) {
            if (!placer_usable(explorer->placer, n))
                continue;
            struct place_outline outline = {
                .spread = PLACE_NODE,
                .micro_batch = explorer->options[i],
                .stages = 1,
                .pipelines = 1,
                .zones_count = 1,
                .zones = {n},
            };
            uint64_t twin = 0;
            offer(explorer, &outline, &twin);
        }
    }
    settle(explorer, CANDIDATES_MAX);
}

/* Pipelines that lie each within one of the zones, or anywhere. */
static void
try_pipelines(struct explorer *explorer, enum place_spread spread, const int *zones,
              int zones_count)
{
    struct place_outline outline = {.spread = spread, .zones_count = zones_count};
    uint64_t group = 0;
    explorer->path_ns = 0;
    int nodes = 0;
    int largest = 0;
    for (int i = 0; i < zones_count; i++) {
        outline.zones[i] = zones[i];
        group |= UINT64_C(1) << zones[i];
        int here = placer_zone_nodes(explorer->placer, zones[i]);
        nodes += here;
        largest = here > largest ? here : largest;
    }
    if (spread == PLACE_ANYWHERE) {
        nodes = placer_nodes(explorer->placer);
        largest = nodes;
        group = UINT64_MAX;
    }
    for (int i = 0; i < explorer->options_count; i++) {
        outline.micro_batch = explorer->options[i];
        use_micro_batch(explorer, outline.micro_batch, group);
        int total = explorer->request->sequences / outline.micro_batch;
        for (int stages = next_depth(explorer, 0); stages <= depth_max(explorer, largest);
             stages = next_depth(explorer, stages)) {
            int most = nodes / stages;
            if (spread == PLACE_PIPELINES) {
                most = 0;
                for (int z = 0; z < zones_count; z++)
                    most += placer_zone_nodes(explorer->placer, zones[z]) / stages;
            }
            int replicas[REPLICA_OPTIONS_MAX];
            int count = list_replicas(explorer, most, total, replicas);
            for (int r = 0; r < count; r++) {
                outline.stages = stages;
                outline.pipelines = replicas[r];
                offer_orders(explorer, &outline);
                if (explorer->probing && explorer->feasible)
                    return;
            }
        }
    }
}

/* Share the stages of a chain among its zones by how many each can hold. False if they
 * hold too few. */
static bool
share_stages(const struct explorer *explorer, const int *chain, int chain_count,
             int replicas, struct place_outline *outline)
{
    int room[ZONES_MAX];
    int given[ZONES_MAX];
    for (int i = 0; i < chain_count; i++) {
        room[i] = placer_zone_nodes(explorer->placer, chain[i]) / replicas;
        given[i] = 1;
        if (room[i] < 1)
            return false;
    }
    for (int left = outline->stages - chain_count; left > 0; left--) {
        int chosen = -1;
        for (int i = 0; i < chain_count; i++)
            if (given[i] < room[i] && (chosen < 0 || room[i] * (given[chosen] + 1) >
                                                         room[chosen] * (given[i] + 1)))
                chosen = i;
        if (chosen < 0)
            return false;
        given[chosen]++;
    }
    int stage = 0;
    for (int i = 0; i < chain_count; i++)
        for (int g = 0; g < given[i]; g++)
            outline->zones[stage++] = chain[i];
    outline->zones_count = outline->stages;
    outline->pipelines = replicas;
    return true;
}

/* Can the links between the zones of a chain carry a step's micro-batches in the time to
 * beat? Notes how long one of them is on its way there and back. */
static bool
links_may_win(struct explorer *explorer, const int *chain, int chain_count,
              int micro_batch)
{
    const struct cluster *cluster = explorer->cluster;
    int64_t bytes = workload_boundary_bytes(&explorer->request->shape, micro_batch);
    int total = explorer->request->sequences / micro_batch;
    explorer->path_ns = 0;
    for (int i = 0; i + 1 < chain_count; i++) {
        int64_t there_ns = cluster_send_ns(cluster, chain[i], chain[i + 1], bytes);
        int64_t back_ns = cluster_send_ns(cluster, chain[i + 1], chain[i], bytes);
        int64_t delay_ns = cluster_send_ns(cluster, chain[i], chain[i + 1], 0);
        explorer->path_ns = ns_plus(explorer->path_ns, ns_plus(there_ns, back_ns));
        if (explorer->found &&
            ns_times(total, there_ns - delay_ns) > explorer->best.predicted_step_ns)
            return false;
    }
    return true;
}

/* Pipelines whose stages run through a chain of zones. */
static void
try_chain(struct explorer *explorer, const int *chain, int chain_count)
{
    uint64_t group = 0;
    int nodes = 0;
    int fewest = PLAN_NODES_MAX;
    for (int i = 0; i < chain_count; i++) {
        group |= UINT64_C(1) << chain[i];
        nodes += placer_zone_nodes(explorer->placer, chain[i]);
        fewest = least(fewest, placer_zone_nodes(explorer->placer, chain[i]));
    }
    for (int i = 0; i < explorer->options_count; i++) {
        struct place_outline outline = {
            .spread = PLACE_STAGES,
            .micro_batch = explorer->options[i],
        };
        if (!links_may_win(explorer, chain, chain_count, outline.micro_batch))
            continue;
        use_micro_batch(explorer, outline.micro_batch, group);
        int total = explorer->request->sequences / outline.micro_batch;
        for (int stages = next_depth(explorer, 0); stages <= depth_max(explorer, nodes);
             stages = next_depth(explorer, stages)) {
            if (stages < chain_count)
                continue;
            int replicas[REPLICA_OPTIONS_MAX];
            int count =
                list_replicas(explorer, least(fewest, nodes / stages), total, replicas);
            outline.stages = stages;
            for (int r = 0; r < count; r++)
                if (share_stages(explorer, chain, chain_count, replicas[r], &outline))
                    offer_orders(explorer, &outline);
        }
    }
}

/* Bytes a second over the slower direction between two zones. */
static int64_t
width(const struct cluster *cluster, int a, int b)
{
    int64_t there = cluster_link(cluster, a, b)->bytes_per_s;
    int64_t back = cluster_link(cluster, b, a)->bytes_per_s;
    return there < back ? there : back;
}

/* From a first zone on, always the unused member that the last one has the widest link
 * to. */
static void
order_chain(const struct cluster *cluster, int *chain, int chain_count)
{
    for (int i = 1; i < chain_count; i++) {
        int widest = i;
        for (int k = i + 1; k < chain_count; k++)
            if (width(cluster, chain[i - 1], chain[k]) >
                width(cluster, chain[i - 1], chain[widest]))
                widest = k;
        int zone = chain[widest];
        chain[widest] = chain[i];
        chain[i] = zone;
    }
}

/* Several zones together: pipelines through them, and pipelines within each of them. */
static void
try_group(struct explorer *explorer, const int *zones, int zones_count)
{
    int heads = zones_count <= 4 ? zones_count : 1;
    for (int head = 0; head < heads; head++) {
        int chain[ZONES_MAX];
        chain[0] = zones[head];
        int count = 1;
        for (int i = 0; i < zones_count; i++)
            if (i != head)
                chain[count++] = zones[i];
        order_chain(explorer->cluster, chain, count);
        try_chain(explorer, chain, count);
    }
    try_pipelines(explorer, PLACE_PIPELINES, zones, zones_count);
    settle(explorer, GROUP_TRIES);
}

/* The zone that joins a group next: the one whose narrowest link to it is the widest. -1:
 * none left. */
static int
widest_neighbour(const struct cluster *cluster, const int *zones, int zones_count,
                 uint64_t group)
{
    int chosen = -1;
    int64_t chosen_width = 0;
    for (int i = 0; i < zones_count; i++) {
        if (group >> zones[i] & 1)
            continue;
        int64_t narrowest = INT64_MAX;
        for (int k = 0; k < zones_count; k++) {
            if (!(group >> zones[k] & 1))
                continue;
            int64_t bytes_per_s = width(cluster, zones[i], zones[k]);
            narrowest = bytes_per_s < narrowest ? bytes_per_s : narrowest;
        }
        if (chosen < 0 || narrowest > chosen_width) {
            chosen = zones[i];
            chosen_width = narrowest;
        }
    }
    return chosen;
}

static void
try_group_set(struct explorer *explorer, const int *zones, int zones_count,
              uint64_t group)
{
    int members[ZONES_MAX];
    int count = 0;
    for (int i = 0; i < zones_count; i++)
        if (group >> zones[i] & 1)
            members[count++] = zones[i];
    try_group(explorer, members, count);
}

/* Sets of zones: all of them if the zones are few; else, from each zone, grown along the
 * widest links. */
static void
try_groups(struct explorer *explorer, const int *zones, int zones_count)
{
    if (zones_count <= 5) {
        for (uint64_t some = (UINT64_C(1) << zones_count) - 1; some > 0; some--) {
            uint64_t group = 0;
            for (int i = 0; i < zones_count; i++)
                if (some >> i & 1)
                    group |= UINT64_C(1) << zones[i];
            if ((some & (some - 1)) != 0)
                try_group_set(explorer, zones, zones_count, group);
        }
        return;
    }
    uint64_t tried[GROUPS_MAX];
    int tried_count = 0;
    for (int size = 2; size <= zones_count; size += size < 4 ? 1 : size / 2) {
        for (int i = 0; i < zones_count && tried_count < GROUPS_MAX; i++) {
            uint64_t group = UINT64_C(1) << zones[i];
            for (int n = 1; n < size; n++)
                group |= UINT64_C(1) << widest_neighbour(explorer->cluster, zones,
                                                         zones_count, group);
            bool known = false;
            for (int t = 0; t < tried_count; t++)
                known = known || tried[t] == group;
            if (known)
                continue;
            tried[tried_count++] = group;
            try_group_set(explorer, zones, zones_count, group);
        }
    }
}

/* The zones that the job names, one for each stage. */
static void
try_fixed_zones(struct explorer *explorer)
{
    const struct plan_request *request = explorer->request;
    struct place_outline outline = {
        .spread = PLACE_STAGES,
        .stages = request->zones_count,
        .zones_count = request->zones_count,
    };
    int most = REPLICAS_MAX;
    uint64_t zones = 0;
    explorer->path_ns = 0;
    for (int s = 0; s < request->zones_count; s++) {
        int zone = 0;
        while (zone < explorer->cluster->zones_count &&
               strcmp(explorer->cluster->zones[zone], request->zones[s]) != 0)
            zone++;
        if (zone == explorer->cluster->zones_count)
            return;
        outline.zones[s] = zone;
        zones |= UINT64_C(1) << zone;
        most = least(most, placer_zone_nodes(explorer->placer, zone));
    }
    if (outline.stages > workload_layers(&request->shape))
        return;
    for (int i = 0; i < explorer->options_count; i++) {
        outline.micro_batch = explorer->options[i];
        use_micro_batch(explorer, outline.micro_batch, zones);
        int replicas[REPLICA_OPTIONS_MAX];
        int count = list_replicas(explorer, most,
                                  request->sequences / outline.micro_batch, replicas);
        for (int r = 0; r < count; r++) {
            outline.pipelines = replicas[r];
            offer_orders(explorer, &outline);
        }
    }
    settle(explorer, CANDIDATES_MAX);
}

/* Is there any plan for the wish? If the roomiest nodes of all are too small, all others
 * are. */
static bool
probe(struct explorer *explorer)
{
    explorer->probing = true;
    explorer->feasible = false;
    try_pipelines(explorer, PLACE_ANYWHERE, NULL, 0);
    explorer->probing = false;
    return explorer->feasible;
}

/* Hand out the best plan; what it does not use is zero, whatever was tried before it. */
static bool
explorer_answer(const struct explorer *explorer, struct plan *plan,
                struct prediction *prediction)
{
    if (!explorer->found)
        return false;
    const struct plan *best = &explorer->best;
    memset(plan, 0, sizeof(*plan));
    plan->micro_batch = best->micro_batch;
    plan->stages_count = best->stages_count;
    plan->pipelines_count = best->pipelines_count;
    plan->predicted_step_ns = best->predicted_step_ns;
    for (int j = 0; j < best->pipelines_count; j++)
        plan->micro_batches[j] = best->micro_batches[j];
    for (int s = 0; s < best->stages_count; s++) {
        plan->stages[s].first_layer = best->stages[s].first_layer;
        plan->stages[s].layers = best->stages[s].layers;
        for (int j = 0; j < best->pipelines_count; j++)
            plan->stages[s].nodes[j] = best->stages[s].nodes[j];
    }
    *prediction = explorer->best_prediction;
    return true;
}

bool
explore(struct explorer *explorer, const struct wish *wish, struct plan *plan,
        struct prediction *prediction)
{
    explorer->found = false;
    explorer->wish = *wish;
    explorer->count = 0;
    explorer->number = 0;
    list_micro_batches(explorer);
    explorer->coarse = false;
    explorer->ops_left = ZONE_OPS;
    if (wish->zones) {
        try_fixed_zones(explorer);
        return explorer_answer(explorer, plan, prediction);
    }
    if ((int64_t)wish->pipeline * wish->replicas > placer_nodes(explorer->placer) ||
        !probe(explorer))
        return false;
    try_nodes(explorer);
    int zones[ZONES_MAX];
    int zones_count = 0;
    for (int zone = 0; zone < explorer->cluster->zones_count; zone++)
        if (placer_zone_nodes(explorer->placer, zone) > 0)
            zones[zones_count++] = zone;
    for (int i = 0; i < zones_count; i++) {
        explorer->ops_left = ZONE_OPS;
        try_pipelines(explorer, PLACE_PIPELINES, &zones[i], 1);
        settle(explorer, CANDIDATES_MAX);
    }
    explorer->ops_left = GROUP_OPS;
    explorer->coarse = placer_nodes(explorer->placer) > FEW_NODES;
    try_groups(explorer, zones, zones_count);
    explorer->coarse = explorer->coarse && explorer->found;
    try_pipelines(explorer, PLACE_ANYWHERE, NULL, 0);
    settle(explorer, CANDIDATES_MAX);
    return explorer_answer(explorer, plan, prediction);
}

int
explorer_room(struct explorer *explorer, struct err *err)
{
    placer_micro_batch(explorer->placer, 1);
    if (placer_room(explorer->placer, err) != 0)
        return -1;
    return err_set(err, ERR_PLAN,
                   "cannot place the model: found no way to cut %d layers over %d nodes; "
                   "add a node or one with more memory",
                   workload_layers(&explorer->request->shape),
                   placer_nodes(explorer->placer));
}
