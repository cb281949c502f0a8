#include "planner/search.h"
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

/* What this attempt keeps of the request; 0: free. */
struct wish {
    int pipeline;
    int replicas;
    int micro_batch;
    bool zones;
};

struct hunt {
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
    double power[MEMBERS_MAX + 1];
    int strongest[MEMBERS_MAX];
    int group_nodes;
    int64_t path_ns;  /* of one micro-batch between the zones at hand, there and back */
    bool coarse;      /* skip some depths of long pipelines */
    int64_t ops_left; /* schedule entries that may yet be replayed */
    bool found;
    struct plan best;
    struct prediction best_prediction;
    struct plan draft;
};

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
use_micro_batch(struct hunt *hunt, int micro_batch, uint64_t zones)
{
    placer_micro_batch(hunt->placer, micro_batch);
    int count = placer_strongest(hunt->placer, zones, hunt->strongest);
    hunt->group_nodes = count;
    hunt->power[0] = 0.0;
    for (int i = 0; i < count; i++)
        hunt->power[i + 1] =
            hunt->power[i] + placer_power(hunt->placer, hunt->strongest[i]);
}

/* Could any placing of so many nodes be as fast as the best so far? Not if they lack the
 * power; nor if a stage's activation slots are too few for a model and its way through
 * the zones to go by in them as often as the longest pipeline has to. */
static bool
worth_placing(const struct hunt *hunt, int micro_batch, int stages, int pipelines)
{
    int total = hunt->request->sequences / micro_batch;
    if (pipelines > total)
        return false;
    if (!hunt->found)
        return true;
    int64_t best_ns = placer_best_ns(hunt->placer);
    double power_ns = (double)total * (double)best_ns / hunt->power[stages * pipelines];
    if (power_ns * 0.999999 > (double)hunt->best.predicted_step_ns)
        return false;
    int longest = (total + pipelines - 1) / pipelines;
    int slots = least(stages, longest);
    int64_t slots_ns =
        ns_times((longest + slots - 1) / slots, ns_plus(best_ns, hunt->path_ns));
    return slots_ns <= hunt->best.predicted_step_ns;
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
try_candidate(struct hunt *hunt, const struct candidate *candidate)
{
    placer_micro_batch(hunt->placer, candidate->outline.micro_batch);
    enum cut_result placed = place(hunt->placer, &candidate->outline, &hunt->draft);
    must(placed != CUT_NONE);
    struct prediction prediction;
    struct err err;
    int rc = simulate(&hunt->draft, hunt->request, hunt->cluster, &prediction, &err);
    must(rc == 0);
    hunt->draft.predicted_step_ns = prediction.step_ns;
    hunt->ops_left -= (int64_t)2 * candidate->outline.stages *
                      (hunt->request->sequences / hunt->draft.micro_batch);
    if (!hunt->found || plan_before(&hunt->draft, &hunt->best)) {
        hunt->found = true;
        hunt->best = hunt->draft;
        hunt->best_prediction = prediction;
    }
}

/* Simulate up to `most` candidates, the most promising first, until none can win or
 * enough work is done. Those left that may yet win are kept for later. */
static void
settle(struct hunt *hunt, int most)
{
    if (hunt->count > 1)
        qsort(hunt->candidates, (size_t)hunt->count, sizeof(*hunt->candidates),
              candidate_compare);
    int next = 0;
    for (; next < hunt->count && next < most && hunt->ops_left > 0; next++) {
        const struct candidate *candidate = &hunt->candidates[next];
        if (hunt->found && candidate->bound_ns > hunt->best.predicted_step_ns)
            break;
        try_candidate(hunt, candidate);
    }
    int kept = 0;
    for (; next < hunt->count && most < CANDIDATES_MAX; next++) {
        if (hunt->candidates[next].bound_ns > hunt->best.predicted_step_ns)
            break;
        hunt->candidates[kept++] = hunt->candidates[next];
    }
    hunt->count = kept;
}

/* Keep an outline for simulation if it can be placed and may win. Twins of the one before
 * are dropped. */
static enum cut_result
offer(struct hunt *hunt, const struct place_outline *outline, uint64_t *twin)
{
    enum cut_result placed = place(hunt->placer, outline, &hunt->draft);
    if (placed == CUT_NONE)
        return placed;
    const struct plan *plan = &hunt->draft;
    uint64_t nodes = 1;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            nodes = rng_mix(nodes, (uint64_t)plan->stages[s].nodes[j]);
    if (nodes == *twin)
        return placed;
    *twin = nodes;
    int64_t gradient_bytes[STAGES_MAX];
    placer_gradients(hunt->placer, plan, gradient_bytes);
    int64_t bound_ns = simulate_bound(plan, hunt->request, hunt->cluster, gradient_bytes);
    if (hunt->found && bound_ns > hunt->best.predicted_step_ns)
        return placed;
    hunt->candidates[hunt->count] =
        (struct candidate){bound_ns, hunt->number++, *outline};
    if (++hunt->count == CANDIDATES_MAX) {
        settle(hunt, CANDIDATES_MAX);
        placer_micro_batch(hunt->placer, outline->micro_batch);
    }
    return placed;
}

/* The same outline with the nodes in every order that may matter: by speed; by memory too
 * where the fast ones lack it. */
static void
offer_orders(struct hunt *hunt, struct place_outline *outline)
{
    if (!worth_placing(hunt, outline->micro_batch, outline->stages, outline->pipelines))
        return;
    uint64_t twin = 0;
    bool roomy = hunt->group_nodes <= FEW_NODES;
    bool placed = false;
    for (int order = 0; order < PLACE_ORDERS; order++) {
        outline->order = (enum place_order)order;
        bool by_speed = order <= PLACE_FAST_STAGES;
        if (!by_speed && (!roomy || (order == PLACE_FITTING && placed)))
            break;
        enum cut_result cut = offer(hunt, outline, &twin);
        placed = placed || cut != CUT_NONE;
        roomy = roomy || cut != CUT_GOOD;
        if (placer_uniform(hunt->placer) ||
            (!roomy && (outline->stages == 1 || outline->pipelines == 1)))
            break;
    }
}

/* Add a divisor of the batch to the sizes to try if the wish and the limits allow it. */
static void
list_micro_batch(struct hunt *hunt, int size)
{
    const struct plan_request *request = hunt->request;
    int pipelines = least(placer_nodes(hunt->placer), REPLICAS_MAX);
    if (hunt->options_count == MICRO_BATCH_OPTIONS_MAX ||
        (hunt->wish.micro_batch > 0 && size != hunt->wish.micro_batch) ||
        (int64_t)size * request->shape.context > MICRO_BATCH_TOKENS_MAX ||
        request->sequences / size > MICRO_BATCHES_MAX * pipelines)
        return;
    hunt->options[hunt->options_count++] = size;
}

/* Micro-batch sizes to try: the one wished for, or all divisors of the batch, ascending.
 */
static void
list_micro_batches(struct hunt *hunt)
{
    int sequences = hunt->request->sequences;
    hunt->options_count = 0;
    int root = 1;
    for (; root <= sequences / root; root++)
        if (sequences % root == 0)
            list_micro_batch(hunt, root);
    for (root--; root >= 1; root--)
        if (sequences % root == 0 && root != sequences / root)
            list_micro_batch(hunt, sequences / root);
}

/* Replica counts to try up to `most`: all if they are few; else the most, those at which
 * the longest pipeline gets a micro-batch more, and halves. */
static int
list_replicas(const struct hunt *hunt, int most, int total,
              int options[REPLICA_OPTIONS_MAX])
{
    most = least(most, least(total, REPLICAS_MAX));
    if (hunt->wish.replicas > 0) {
        options[0] = hunt->wish.replicas;
        return hunt->wish.replicas <= most ? 1 : 0;
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
next_depth(const struct hunt *hunt, int stages)
{
    if (hunt->wish.pipeline > 0)
        return stages < hunt->wish.pipeline ? hunt->wish.pipeline : STAGES_MAX + 1;
    int fine = hunt->coarse ? 8 : 16;
    return stages + (stages < fine ? 1 : stages < 2 * fine ? 2 : 4);
}

static int
depth_max(const struct hunt *hunt, int nodes)
{
    int layers = workload_layers(&hunt->request->shape);
    return least(STAGES_MAX, least(nodes, layers));
}

/* Every usable node by itself. */
static void
try_nodes(struct hunt *hunt)
{
    if (hunt->wish.pipeline > 1 || hunt->wish.replicas > 1)
        return;
    for (int i = 0; i < hunt->options_count; i++) {
        placer_micro_batch(hunt->placer, hunt->options[i]);
        for (int n = 0; n < hunt->cluster->nodes_count; n++) {
            if (!placer_usable(hunt->placer, n))
                continue;
            struct place_outline outline = {
                .spread = PLACE_NODE,
                .micro_batch = hunt->options[i],
                .stages = 1,
                .pipelines = 1,
                .zones_count = 1,
                .zones = {n},
            };
            uint64_t twin = 0;
            offer(hunt, &outline, &twin);
        }
    }
    settle(hunt, CANDIDATES_MAX);
}

/* Pipelines that lie each within one of the zones, or anywhere. */
static void
try_pipelines(struct hunt *hunt, enum place_spread spread, const int *zones,
              int zones_count)
{
    struct place_outline outline = {.spread = spread, .zones_count = zones_count};
    uint64_t group = 0;
    hunt->path_ns = 0;
    int nodes = 0;
    int largest = 0;
    for (int i = 0; i < zones_count; i++) {
        outline.zones[i] = zones[i];
        group |= UINT64_C(1) << zones[i];
        int here = placer_zone_nodes(hunt->placer, zones[i]);
        nodes += here;
        largest = here > largest ? here : largest;
    }
    if (spread == PLACE_ANYWHERE) {
        nodes = placer_nodes(hunt->placer);
        largest = nodes;
        group = UINT64_MAX;
    }
    for (int i = 0; i < hunt->options_count; i++) {
        outline.micro_batch = hunt->options[i];
        use_micro_batch(hunt, outline.micro_batch, group);
        int total = hunt->request->sequences / outline.micro_batch;
        for (int stages = next_depth(hunt, 0); stages <= depth_max(hunt, largest);
             stages = next_depth(hunt, stages)) {
            int most = nodes / stages;
            if (spread == PLACE_PIPELINES) {
                most = 0;
                for (int z = 0; z < zones_count; z++)
                    most += placer_zone_nodes(hunt->placer, zones[z]) / stages;
            }
            int replicas[REPLICA_OPTIONS_MAX];
            int count = list_replicas(hunt, most, total, replicas);
            for (int r = 0; r < count; r++) {
                outline.stages = stages;
                outline.pipelines = replicas[r];
                offer_orders(hunt, &outline);
            }
        }
    }
}

/* Share the stages of a chain among its zones by how many each can hold. False if they
 * hold too few. */
static bool
share_stages(const struct hunt *hunt, const int *chain, int chain_count, int replicas,
             struct place_outline *outline)
{
    int room[ZONES_MAX];
    int given[ZONES_MAX];
    for (int i = 0; i < chain_count; i++) {
        room[i] = placer_zone_nodes(hunt->placer, chain[i]) / replicas;
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
links_may_win(struct hunt *hunt, const int *chain, int chain_count, int micro_batch)
{
    const struct cluster *cluster = hunt->cluster;
    int64_t bytes = workload_boundary_bytes(&hunt->request->shape, micro_batch);
    int total = hunt->request->sequences / micro_batch;
    hunt->path_ns = 0;
    for (int i = 0; i + 1 < chain_count; i++) {
        int64_t there_ns = cluster_send_ns(cluster, chain[i], chain[i + 1], bytes);
        int64_t back_ns = cluster_send_ns(cluster, chain[i + 1], chain[i], bytes);
        int64_t delay_ns = cluster_send_ns(cluster, chain[i], chain[i + 1], 0);
        hunt->path_ns = ns_plus(hunt->path_ns, ns_plus(there_ns, back_ns));
        if (hunt->found &&
            ns_times(total, there_ns - delay_ns) > hunt->best.predicted_step_ns)
            return false;
    }
    return true;
}

/* Pipelines whose stages run through a chain of zones. */
static void
try_chain(struct hunt *hunt, const int *chain, int chain_count)
{
    uint64_t group = 0;
    int nodes = 0;
    int fewest = MEMBERS_MAX;
    for (int i = 0; i < chain_count; i++) {
        group |= UINT64_C(1) << chain[i];
        nodes += placer_zone_nodes(hunt->placer, chain[i]);
        fewest = least(fewest, placer_zone_nodes(hunt->placer, chain[i]));
    }
    for (int i = 0; i < hunt->options_count; i++) {
        struct place_outline outline = {
            .spread = PLACE_STAGES,
            .micro_batch = hunt->options[i],
        };
        if (!links_may_win(hunt, chain, chain_count, outline.micro_batch))
            continue;
        use_micro_batch(hunt, outline.micro_batch, group);
        int total = hunt->request->sequences / outline.micro_batch;
        for (int stages = next_depth(hunt, 0); stages <= depth_max(hunt, nodes);
             stages = next_depth(hunt, stages)) {
            if (stages < chain_count)
                continue;
            int replicas[REPLICA_OPTIONS_MAX];
            int count =
                list_replicas(hunt, least(fewest, nodes / stages), total, replicas);
            outline.stages = stages;
            for (int r = 0; r < count; r++)
                if (share_stages(hunt, chain, chain_count, replicas[r], &outline))
                    offer_orders(hunt, &outline);
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
try_group(struct hunt *hunt, const int *zones, int zones_count)
{
    int heads = zones_count <= 4 ? zones_count : 1;
    for (int head = 0; head < heads; head++) {
        int chain[ZONES_MAX];
        chain[0] = zones[head];
        int count = 1;
        for (int i = 0; i < zones_count; i++)
            if (i != head)
                chain[count++] = zones[i];
        order_chain(hunt->cluster, chain, count);
        try_chain(hunt, chain, count);
    }
    try_pipelines(hunt, PLACE_PIPELINES, zones, zones_count);
    settle(hunt, GROUP_TRIES);
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
try_group_set(struct hunt *hunt, const int *zones, int zones_count, uint64_t group)
{
    int members[ZONES_MAX];
    int count = 0;
    for (int i = 0; i < zones_count; i++)
        if (group >> zones[i] & 1)
            members[count++] = zones[i];
    try_group(hunt, members, count);
}

/* Sets of zones: all of them if the zones are few; else, from each zone, grown along the
 * widest links. */
static void
try_groups(struct hunt *hunt, const int *zones, int zones_count)
{
    if (zones_count <= 5) {
        for (uint64_t some = (UINT64_C(1) << zones_count) - 1; some > 0; some--) {
            uint64_t group = 0;
            for (int i = 0; i < zones_count; i++)
                if (some >> i & 1)
                    group |= UINT64_C(1) << zones[i];
            if ((some & (some - 1)) != 0)
                try_group_set(hunt, zones, zones_count, group);
        }
        return;
    }
    uint64_t tried[GROUPS_MAX];
    int tried_count = 0;
    for (int size = 2; size <= zones_count; size += size < 4 ? 1 : size / 2) {
        for (int i = 0; i < zones_count && tried_count < GROUPS_MAX; i++) {
            uint64_t group = UINT64_C(1) << zones[i];
            for (int n = 1; n < size; n++)
                group |= UINT64_C(1)
                         << widest_neighbour(hunt->cluster, zones, zones_count, group);
            bool known = false;
            for (int t = 0; t < tried_count; t++)
                known = known || tried[t] == group;
            if (known)
                continue;
            tried[tried_count++] = group;
            try_group_set(hunt, zones, zones_count, group);
        }
    }
}

/* The zones that the job names, one for each stage. */
static void
try_fixed_zones(struct hunt *hunt)
{
    const struct plan_request *request = hunt->request;
    struct place_outline outline = {
        .spread = PLACE_STAGES,
        .stages = request->zones_count,
        .zones_count = request->zones_count,
    };
    int most = REPLICAS_MAX;
    uint64_t zones = 0;
    hunt->path_ns = 0;
    for (int s = 0; s < request->zones_count; s++) {
        int zone = 0;
        while (zone < hunt->cluster->zones_count &&
               strcmp(hunt->cluster->zones[zone], request->zones[s]) != 0)
            zone++;
        if (zone == hunt->cluster->zones_count)
            return;
        outline.zones[s] = zone;
        zones |= UINT64_C(1) << zone;
        most = least(most, placer_zone_nodes(hunt->placer, zone));
    }
    if (outline.stages > workload_layers(&request->shape))
        return;
    for (int i = 0; i < hunt->options_count; i++) {
        outline.micro_batch = hunt->options[i];
        use_micro_batch(hunt, outline.micro_batch, zones);
        int replicas[REPLICA_OPTIONS_MAX];
        int count =
            list_replicas(hunt, most, request->sequences / outline.micro_batch, replicas);
        for (int r = 0; r < count; r++) {
            outline.pipelines = replicas[r];
            offer_orders(hunt, &outline);
        }
    }
    settle(hunt, CANDIDATES_MAX);
}

/* The best plan that keeps what this wish keeps; false if there is none. */
static bool
explore(struct hunt *hunt, const struct wish *wish)
{
    hunt->wish = *wish;
    hunt->count = 0;
    hunt->number = 0;
    list_micro_batches(hunt);
    hunt->coarse = false;
    hunt->ops_left = ZONE_OPS;
    if (wish->zones) {
        try_fixed_zones(hunt);
        return hunt->found;
    }
    if ((int64_t)wish->pipeline * wish->replicas > placer_nodes(hunt->placer))
        return false;
    try_nodes(hunt);
    int zones[ZONES_MAX];
    int zones_count = 0;
    for (int zone = 0; zone < hunt->cluster->zones_count; zone++)
        if (placer_zone_nodes(hunt->placer, zone) > 0)
            zones[zones_count++] = zone;
    for (int i = 0; i < zones_count; i++) {
        hunt->ops_left = ZONE_OPS;
        try_pipelines(hunt, PLACE_PIPELINES, &zones[i], 1);
        settle(hunt, CANDIDATES_MAX);
    }
    hunt->ops_left = GROUP_OPS;
    hunt->coarse = placer_nodes(hunt->placer) > FEW_NODES;
    try_groups(hunt, zones, zones_count);
    hunt->coarse = hunt->coarse && hunt->found;
    try_pipelines(hunt, PLACE_ANYWHERE, zones, 0);
    settle(hunt, CANDIDATES_MAX);
    return hunt->found;
}

/* Give way from the least important on: fewer replicas, then other zones. */
static bool
explore_zones_and_replicas(struct hunt *hunt, struct wish wish, bool *whole)
{
    int replicas = hunt->request->replicas;
    bool named = hunt->request->zones_count > 0;
    for (int free_zones = 0; free_zones < 2; free_zones++) {
        wish.zones = named && free_zones == 0;
        if (named && free_zones == 0 && wish.pipeline != hunt->request->zones_count)
            continue;
        if (!named && free_zones == 1)
            continue;
        wish.replicas = replicas;
        do {
            if (explore(hunt, &wish))
                return true;
            *whole = false;
        } while (--wish.replicas > 0);
        *whole = false;
    }
    return false;
}

/* Then a shorter pipeline, then any, then another micro-batch. Sets `whole` if nothing
 * had to give. */
static bool
explore_all(struct hunt *hunt, bool *whole)
{
    const struct plan_request *request = hunt->request;
    int fixed = request->pipeline > 0 ? request->pipeline : request->zones_count;
    *whole = fixed == request->zones_count || request->zones_count == 0;
    for (int free_size = 0; free_size < 2; free_size++) {
        if (free_size == 1 && request->micro_batch == 0)
            break;
        struct wish wish = {
            .micro_batch = free_size ? 0 : request->micro_batch,
            .pipeline = fixed,
        };
        do {
            if (explore_zones_and_replicas(hunt, wish, whole))
                return true;
            *whole = false;
        } while (wish.pipeline-- > 0);
        *whole = false;
    }
    return false;
}

static int
request_check(const struct plan_request *request, struct err *err)
{
    if (model_shape_check(&request->shape, err) != 0)
        return -1;
    if (request->sequences < 1)
        return err_set(err, ERR_USAGE, "batch of %d sequences: must be at least 1",
                       request->sequences);
    if (request->zones_count < 0 || request->zones_count > STAGES_MAX)
        return err_set(err, ERR_USAGE, "plan names %d zones, the limit is %d",
                       request->zones_count, STAGES_MAX);
    return 0;
}

int
search(const struct plan_request *request, const struct cluster *cluster,
       struct plan *plan, struct prediction *prediction, struct err *err)
{
    if (request_check(request, err) != 0)
        return -1;
    struct hunt *hunt = xcalloc(1, sizeof(*hunt));
    hunt->request = request;
    hunt->cluster = cluster;
    hunt->placer = placer_new(request, cluster);
    hunt->candidates = xcalloc(CANDIDATES_MAX, sizeof(*hunt->candidates));

    int rc = 0;
    bool whole = true;
    if (placer_nodes(hunt->placer) > 0 && explore_all(hunt, &whole)) {
        hunt->best.loosened = !whole;
        *plan = hunt->best;
        *prediction = hunt->best_prediction;
    } else {
        placer_micro_batch(hunt->placer, 1);
        rc = placer_room(hunt->placer, err);
        if (rc == 0)
            rc = err_set(err, ERR_PLAN,
                         "cannot place the model: found no way to cut %d layers over %d "
                         "nodes; add a node or one with more memory",
                         workload_layers(&request->shape), placer_nodes(hunt->placer));
    }
    free(hunt->candidates);
    placer_free(hunt->placer);
    free(hunt);
    return rc;
}

bool
search_worth_it(const struct plan *current, const struct plan *better,
                const struct plan_request *request, const struct cluster *cluster)
{
    struct prediction now;
    struct prediction then;
    struct err err;
    if (plan_check(better, request, cluster, &err) != 0 ||
        simulate(better, request, cluster, &then, &err) != 0)
        return false;
    if (plan_check(current, request, cluster, &err) != 0 ||
        simulate(current, request, cluster, &now, &err) != 0)
        return true;
    int64_t gain_ns = now.step_ns - then.step_ns;
    return gain_ns > 0 && gain_ns >= now.step_ns / 20 + (now.step_ns % 20 != 0);
}
