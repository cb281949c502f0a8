#include "planner/draft.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum {
    RING_EXACT = 4,  /* kinds of neighbours up to which every order is tried */
    RING_NODES = 16, /* beyond which they stay in the order that they have */
    RING_SINGLES = 8 /* pipelines up to which crews are taken apart if that helps */
};

void
draft_copy(const struct draft *from, struct draft *to)
{
    memcpy(to, from, offsetof(struct draft, crews));
    memcpy(to->crews, from->crews, (size_t)from->crews_count * sizeof(from->crews[0]));
}

static bool
settings_alike(const struct setting *left, const struct setting *right)
{
    return left->micro_batch == right->micro_batch &&
           left->precision == right->precision && left->recompute == right->recompute &&
           left->shard_optimizer == right->shard_optimizer;
}

bool
draft_move(const struct board *board, const struct draft *draft, const int16_t *pool_to,
           const struct board *other, struct draft *to)
{
    const struct setting *setting = &board->settings[draft->setting];
    int number = 0;
    while (number < other->settings_count &&
           !settings_alike(&other->settings[number], setting))
        number++;
    if (number == other->settings_count)
        return false;
    draft_copy(draft, to);
    to->setting = number;
    for (int c = 0; c < to->crews_count; c++) {
        for (int s = 0; s < to->stages; s++) {
            const struct option *option = &board->options[draft->crews[c].option[s]];
            to->crews[c].option[s] =
                (uint16_t)other->option_of[pool_to[option->pool]][option->slot];
        }
    }
    return true;
}

void
draft_stale(struct draft *draft)
{
    for (int c = 0; c < draft->crews_count; c++)
        draft->crews[c].priced = false;
}

void
draft_used(const struct board *board, const struct draft *draft,
           int used[FLEET_POOLS_MAX])
{
    memset(used, 0, (size_t)board->fleet->pools_count * sizeof(*used));
    for (int c = 0; c < draft->crews_count; c++) {
        const struct crew *crew = &draft->crews[c];
        for (int s = 0; s < draft->stages; s++) {
            const struct option *option = &board->options[crew->option[s]];
            used[option->pool] += crew->count * option->tp;
        }
    }
}

bool
draft_stage_fits(const struct board *board, const struct draft *draft, int crew,
                 int stage)
{
    const struct setting *setting = &board->settings[draft->setting];
    const struct option *option = &board->options[draft->crews[crew].option[stage]];
    return board_measured(setting, option) &&
           board_bytes(board, setting, option, draft->stages - stage, draft->width,
                       draft->first[stage],
                       draft->first[stage + 1]) <= board_room(board, option);
}

bool
draft_fits(const struct board *board, const struct draft *draft)
{
    for (int c = 0; c < draft->crews_count; c++) {
        /* Under the published model nothing else of a draft matters to a crew's memory. */
        if (board->published && draft->crews[c].priced)
            continue;
        for (int s = 0; s < draft->stages; s++)
            if (!draft_stage_fits(board, draft, c, s))
                return false;
    }
    return true;
}

bool
worth_before(const struct worth *left, const struct worth *right)
{
    const double parts[][2] = {{left->breach, right->breach},
                               {left->goal, right->goal},
                               {left->smooth, right->smooth}};
    for (int i = 0; i < 3; i++) {
        double least = (parts[i][0] + parts[i][1]) * 0.5e-12;
        if (parts[i][0] < parts[i][1] - least)
            return true;
        if (parts[i][0] > parts[i][1] + least)
            return false;
    }
    return left->devices < right->devices;
}

/* ---- pipelines ---- */

void
draft_price(const struct board *board, const struct draft *draft, struct crew *crew)
{
    const struct setting *setting = &board->settings[draft->setting];
    int stages = draft->stages;
    double pace_s = 0.0;
    double path_s = 0.0; /* of the stages so far: from the stage to the end and back */
    double update_s = 0.0;
    const struct option *after = NULL;
    const struct option *option = &board->options[crew->option[stages - 1]];
    for (int s = stages - 1; s >= 0; s--) {
        const struct option *before = s > 0 ? &board->options[crew->option[s - 1]] : NULL;
        struct leg_cost leg = board_leg(board, setting, stages, before, option, after,
                                        draft->first[s], draft->first[s + 1]);
        double here_s = board_update_s(board, setting, option, draft->width,
                                       draft->first[s], draft->first[s + 1]);
        path_s += leg.path_s;
        pace_s = leg.busy_s > pace_s ? leg.busy_s : pace_s;
        update_s = here_s > update_s ? here_s : update_s;
        after = option;
        option = before;
        if (board->published)
            continue;
        /* A stage has slots for as many micro-batches as there are stages from it on. */
        double slots = (double)(stages - s);
        if (path_s > pace_s * slots)
            pace_s = path_s / slots;
    }
    crew->pace_s = pace_s;
    crew->path_s = path_s;
    crew->update_s = update_s;
    crew->priced = true;
}

/* When the last pipeline ends if micro-batches could be cut at will. */
static double
share_smoothly(const struct draft *draft, int total)
{
    bool single[CREWS_MAX] = {false}; /* too slow for more than one */
    for (;;) {
        double left = (double)total;
        double rate = 0.0;
        for (int c = 0; c < draft->crews_count; c++) {
            const struct crew *crew = &draft->crews[c];
            double count = (double)crew->count;
            if (single[c]) {
                left -= count;
                continue;
            }
            left += count * (crew->path_s / crew->pace_s - 1.0);
            rate += count / crew->pace_s;
        }
        double end_s = rate > 0.0 ? left / rate : 0.0;
        bool again = false;
        for (int c = 0; c < draft->crews_count; c++) {
            if (single[c] || !(end_s < draft->crews[c].path_s))
                continue;
            single[c] = true;
            again = true;
        }
        if (again)
            continue;
        for (int c = 0; c < draft->crews_count; c++)
            if (single[c] && draft->crews[c].path_s > end_s)
                end_s = draft->crews[c].path_s;
        return end_s;
    }
}

/* Deal the micro-batches out; when the last pipeline ends. */
static double
share_out(struct draft *draft, int total, double smooth_s)
{
    int left = total;
    for (int c = 0; c < draft->crews_count; c++) {
        struct crew *crew = &draft->crews[c];
        double count = (smooth_s - crew->path_s) / crew->pace_s + 1.0;
        crew->more = 0;
        crew->each = count >= 1.0 ? (int)count : 1;
        left -= crew->each * crew->count;
    }
    /* A path that is longer than the smooth end may have taken too many already. */
    while (left < 0) {
        int last = -1;
        for (int c = 0; c < draft->crews_count; c++)
            if (draft->crews[c].each > 1 &&
                (last < 0 || draft->crews[c].each * draft->crews[c].pace_s >
                                 draft->crews[last].each * draft->crews[last].pace_s))
                last = c;
        must(last >= 0);
        draft->crews[last].each--;
        left += draft->crews[last].count;
    }
    while (left > 0) {
        int next = -1;
        double next_s = 0.0;
        for (int c = 0; c < draft->crews_count; c++) {
            const struct crew *crew = &draft->crews[c];
            double end_s = crew->path_s + (double)crew->each * crew->pace_s;
            if (crew->more < crew->count && (next < 0 || end_s < next_s)) {
                next = c;
                next_s = end_s;
            }
        }
        struct crew *crew = &draft->crews[next];
        int take = crew->count - crew->more;
        take = take < left ? take : left;
        crew->more += take;
        left -= take;
        if (crew->more == crew->count) {
            crew->each++;
            crew->more = 0;
        }
    }
    double last_s = 0.0;
    for (int c = 0; c < draft->crews_count; c++) {
        const struct crew *crew = &draft->crews[c];
        int most = crew->each + (crew->more > 0);
        double end_s = crew->path_s + (double)(most - 1) * crew->pace_s;
        last_s = end_s > last_s ? end_s : last_s;
    }
    return last_s;
}

/* ---- rings ---- */

/* Crews on the same pools are the same to a ring. */
struct ring {
    const struct board *board;
    const struct draft *draft;
    double bytes[DEPTH_MAX]; /* that each stage reduces */
    double hidden_s[DEPTH_MAX];
    int nodes;
    int node_of_crew[CREWS_MAX];
    int crew_of_node[RING_NODES];
    bool alone[RING_NODES]; /* one pipeline */
    double cost[RING_NODES][RING_NODES];
    int order[RING_NODES];
    double worst_s;
};

/* What the slowest stage's reduction takes if these two are its slowest neighbours. */
static double
neighbours_s(const struct ring *ring, int left, int right)
{
    const struct draft *draft = ring->draft;
    const struct board *board = ring->board;
    double worst_s = 0.0;
    for (int s = 0; s < draft->stages; s++) {
        const struct option *from = &board->options[draft->crews[left].option[s]];
        const struct option *to = &board->options[draft->crews[right].option[s]];
        int32_t curve = *fleet_link(board->fleet, from->pool, 0, to->pool, 0);
        if (curve < 0)
            return FLEET_NEVER_S;
        int parts = 1;
        if (!board->published) {
            int32_t own =
                *fleet_link(board->fleet, from->pool, from->slot, to->pool, to->slot);
            curve = own >= 0 ? own : curve;
            parts = from->tp < to->tp ? from->tp : to->tp;
        }
        double seconds = board_ring_s(board, curve, ring->bytes[s], draft->width, parts);
        if (ring->hidden_s[s] > 0.0) {
            /* All but the last bucket may be done before the last backward is. */
            double bucket = board->request->framework.bucket_bytes;
            double share = ring->bytes[s] > bucket ? bucket / ring->bytes[s] : 1.0;
            double last_s = seconds * share;
            seconds -= ring->hidden_s[s];
            seconds = seconds > last_s ? seconds : last_s;
        }
        worst_s = seconds > worst_s ? seconds : worst_s;
    }
    return worst_s;
}

static bool
same_pools(const struct board *board, const struct draft *draft, int left, int right)
{
    if (!board->published) /* degrees matter to it */
        return memcmp(draft->crews[left].option, draft->crews[right].option,
                      (size_t)draft->stages * sizeof(draft->crews[left].option[0])) == 0;
    for (int s = 0; s < draft->stages; s++)
        if (board->options[draft->crews[left].option[s]].pool !=
            board->options[draft->crews[right].option[s]].pool)
            return false;
    return true;
}

/* What each stage reduces: by the smallest degree in it. */
static void
ring_bytes(struct ring *ring)
{
    const struct draft *draft = ring->draft;
    const struct board *board = ring->board;
    const struct setting *setting = &board->settings[draft->setting];
    double share = setting->precision == PRECISION_BF16 && !board->published ? 0.5 : 1.0;
    for (int s = 0; s < draft->stages; s++) {
        int least = board->published ? 4 : 1;
        double backward_s = FLEET_NEVER_S;
        for (int c = 0; c < draft->crews_count; c++) {
            const struct option *option = &board->options[draft->crews[c].option[s]];
            if (option->tp < least)
                least = option->tp;
            if (board->published)
                continue;
            const double *sums = setting->backward_s[option->kind][option->slot];
            double here_s = sums[draft->first[s + 1]] - sums[draft->first[s]];
            backward_s = here_s < backward_s ? here_s : backward_s;
        }
        ring->bytes[s] = (board->weight_bytes[draft->first[s + 1]] -
                          board->weight_bytes[draft->first[s]]) *
                         share / (double)least;
        ring->hidden_s[s] =
            board->request->framework.overlap && !board->published ? backward_s : 0.0;
    }
}

static void
ring_nodes(struct ring *ring)
{
    const struct draft *draft = ring->draft;
    for (int c = 0; c < draft->crews_count; c++) {
        int node = 0;
        while (node < ring->nodes &&
               !same_pools(ring->board, draft, ring->crew_of_node[node], c))
            node++;
        ring->node_of_crew[c] = node;
        if (node < ring->nodes) {
            ring->alone[node] = false;
            continue;
        }
        if (ring->nodes == RING_NODES) {
            ring->nodes++;
            return;
        }
        ring->crew_of_node[node] = c;
        ring->alone[node] = draft->crews[c].count == 1;
        ring->nodes++;
    }
    for (int a = 0; a < ring->nodes; a++)
        for (int b = 0; b < ring->nodes; b++)
            if (a != b || !ring->alone[a])
                ring->cost[a][b] =
                    neighbours_s(ring, ring->crew_of_node[a], ring->crew_of_node[b]);
}

/* Extends a chain of nodes from each start by the nearest one; with few nodes by each in
 * turn, which finds the best. */
static void
ring_extend(struct ring *ring, int *chain, int length, uint32_t used, double worst_s)
{
    int n = ring->nodes;
    if (length == n) {
        if (!ring->board->published && n > 1 &&
            ring->cost[chain[n - 1]][chain[0]] > worst_s)
            worst_s = ring->cost[chain[n - 1]][chain[0]];
        if (worst_s < ring->worst_s) {
            ring->worst_s = worst_s;
            memcpy(ring->order, chain, (size_t)n * sizeof(*chain));
        }
        return;
    }
    int nearest = -1;
    for (int b = 0; b < n; b++) {
        if (used >> b & 1)
            continue;
        double cost = length == 0 ? 0.0 : ring->cost[chain[length - 1]][b];
        if (length == 0 || n <= RING_EXACT) {
            double worst = cost > worst_s ? cost : worst_s;
            if (worst >= ring->worst_s)
                continue;
            chain[length] = b;
            ring_extend(ring, chain, length + 1, used | 1u << b, worst);
            continue;
        }
        if (nearest < 0 || cost < ring->cost[chain[length - 1]][nearest])
            nearest = b;
    }
    if (nearest < 0)
        return;
    double cost = ring->cost[chain[length - 1]][nearest];
    chain[length] = nearest;
    ring_extend(ring, chain, length + 1, used | 1u << nearest,
                cost > worst_s ? cost : worst_s);
}

/* More kinds of neighbours than are ordered: as they stand. */
static double
ring_as_it_stands(const struct ring *ring)
{
    const struct draft *draft = ring->draft;
    double worst_s = 0.0;
    for (int c = 0; c < draft->crews_count; c++) {
        double next_s = 0.0;
        if (draft->crews[c].count > 1)
            next_s = neighbours_s(ring, c, c);
        worst_s = next_s > worst_s ? next_s : worst_s;
        if (c + 1 < draft->crews_count) {
            next_s = neighbours_s(ring, c, c + 1);
            worst_s = next_s > worst_s ? next_s : worst_s;
        }
    }
    if (!ring->board->published && draft->crews_count > 1) {
        double next_s = neighbours_s(ring, draft->crews_count - 1, 0);
        worst_s = next_s > worst_s ? next_s : worst_s;
    }
    return worst_s;
}

static void
ring_apply(const struct ring *ring, struct draft *draft)
{
    bool in_order = true;
    int at = 0;
    struct crew crews[CREWS_MAX];
    for (int i = 0; i < ring->nodes; i++) {
        for (int c = 0; c < draft->crews_count; c++) {
            if (ring->node_of_crew[c] != ring->order[i])
                continue;
            in_order = in_order && at == c;
            crews[at++] = draft->crews[c];
        }
    }
    if (!in_order)
        memcpy(draft->crews, crews, (size_t)at * sizeof(*crews));
}

/* A few pipelines, in any order: crews whose own neighbours are slower than others' need not
 * stand together. */
struct singles {
    const struct ring *ring;
    int width;
    int left[RING_NODES]; /* pipelines of a node that have no place yet */
    int chain[RING_SINGLES];
    int order[RING_SINGLES];
    double worst_s;
};

static void
singles_extend(struct singles *singles, int length, double worst_s)
{
    const struct ring *ring = singles->ring;
    const int *chain = singles->chain;
    if (length == singles->width) {
        if (!ring->board->published && ring->cost[chain[length - 1]][chain[0]] > worst_s)
            worst_s = ring->cost[chain[length - 1]][chain[0]];
        if (worst_s < singles->worst_s) {
            singles->worst_s = worst_s;
            memcpy(singles->order, chain, sizeof(singles->order));
        }
        return;
    }
    for (int b = 0; b < ring->nodes; b++) {
        if (singles->left[b] == 0)
            continue;
        double cost = length == 0 ? 0.0 : ring->cost[chain[length - 1]][b];
        double worst = cost > worst_s ? cost : worst_s;
        if (worst >= singles->worst_s)
            continue;
        singles->left[b]--;
        singles->chain[length] = b;
        singles_extend(singles, length + 1, worst);
        singles->left[b]++;
    }
}

/* Take the crews apart if that makes the slowest neighbours faster. */
static double
order_singles(const struct ring *ring, struct draft *draft)
{
    struct singles singles = {.ring = ring, .width = draft->width};
    singles.worst_s = ring->worst_s;
    for (int c = 0; c < draft->crews_count; c++)
        singles.left[ring->node_of_crew[c]] += draft->crews[c].count;
    singles_extend(&singles, 0, 0.0);
    if (!(singles.worst_s < ring->worst_s))
        return ring->worst_s;
    struct crew crews[RING_SINGLES];
    for (int i = 0; i < draft->width; i++) {
        int c = 0;
        while (ring->node_of_crew[c] != singles.order[i] || draft->crews[c].count == 0)
            c++;
        crews[i] = draft->crews[c];
        crews[i].count = 1;
        draft->crews[c].count--;
    }
    draft->crews_count = draft->width;
    memcpy(draft->crews, crews, (size_t)draft->width * sizeof(*crews));
    return singles.worst_s;
}

/* About the least that the reductions take: over the fastest of all links. */
static double
ring_least_s(const struct ring *ring)
{
    double least_s = 0.0;
    const struct draft *draft = ring->draft;
    for (int s = 0; ring->board->published && ring->board->fastest >= 0 &&
                    draft->width > 1 && s < draft->stages;
         s++) {
        double here_s = board_ring_s(ring->board, ring->board->fastest, ring->bytes[s],
                                     draft->width, 1);
        least_s = here_s > least_s ? here_s : least_s;
    }
    return least_s;
}

/* Put the crews into the best order found; what the slowest reduction takes. The ring has
 * its bytes. */
static double
order_rings(struct ring *ring, struct draft *draft)
{
    if (draft->width == 1)
        return 0.0;
    ring->nodes = 0;
    ring->worst_s = 2.0 * FLEET_NEVER_S;
    ring_nodes(ring);
    draft->ring_work = ring->nodes * ring->nodes * draft->stages;
    if (ring->nodes > RING_NODES)
        return ring_as_it_stands(ring);
    double inside_s = 0.0;
    for (int a = 0; a < ring->nodes; a++)
        if (!ring->alone[a] && ring->cost[a][a] > inside_s)
            inside_s = ring->cost[a][a];
    if (ring->nodes == 1)
        return inside_s;
    int chain[RING_NODES];
    ring_extend(ring, chain, 0, 0, inside_s);
    ring_apply(ring, draft);
    if (draft->width > RING_SINGLES || !(inside_s >= ring->worst_s))
        return ring->worst_s;
    ring->nodes = 0;
    ring_nodes(ring);
    return order_singles(ring, draft);
}

/* ---- money ---- */

static double
egress_price(const struct board *board, int from_pool, int to_pool)
{
    const struct fleet *fleet = board->fleet;
    double price = fleet->egress_usd_per_gb[fleet->pools[from_pool].zone * ZONES_MAX +
                                            fleet->pools[to_pool].zone];
    return price > 0.0 ? price : 0.0;
}

static double
egress_usd(const struct board *board, const struct draft *draft)
{
    const struct setting *setting = &board->settings[draft->setting];
    double weighed = 0.0;
    double width = (double)draft->width;
    for (int s = 0; s < draft->stages; s++) {
        double ring = (board->weight_bytes[draft->first[s + 1]] -
                       board->weight_bytes[draft->first[s]]) /
                      width * 2.0 * (width - 1.0);
        for (int c = 0; c < draft->crews_count; c++) {
            const struct crew *crew = &draft->crews[c];
            const struct crew *next = &draft->crews[(c + 1) % draft->crews_count];
            int here = board->options[crew->option[s]].pool;
            weighed +=
                ring * (egress_price(board, here, board->options[next->option[s]].pool) +
                        egress_price(board, here, here) * (crew->count - 1));
            if (s + 1 == draft->stages)
                continue;
            int to = board->options[crew->option[s + 1]].pool;
            double price = egress_price(board, here, to) + egress_price(board, to, here);
            if (!(price > 0.0))
                continue;
            int last = draft->first[s + 1] - 1;
            double micro_batches =
                (double)crew->each * (double)crew->count + (double)crew->more;
            weighed += price * (double)board->sizes[board->size_of_layer[last]] *
                       (double)setting->micro_batch * micro_batches;
        }
    }
    return weighed / 1e9;
}

/* ---- worth ---- */

/* What the job fixes and a draft does not keep. */
static double
fixed_breach(const struct board *board, const struct draft *draft)
{
    const struct fleet_request *request = board->request;
    double breach = 0.0;
    if (request->replicas > 0)
        breach +=
            (double)abs(draft->width - request->replicas) / (double)request->replicas;
    if (request->pipeline > 0)
        breach += (double)abs(draft->stages - request->pipeline);
    for (int s = 0; request->stage_zones_count > 0 && s < draft->stages; s++) {
        int zone = s < request->stage_zones_count ? request->stage_zones[s] : -1;
        for (int c = 0; c < draft->crews_count; c++) {
            int pool = board->options[draft->crews[c].option[s]].pool;
            if (board->fleet->pools[pool].zone != zone)
                breach += (double)draft->crews[c].count / (double)draft->width;
        }
    }
    return breach;
}

static void
judge(const struct board *board, struct draft *draft, double smooth_s)
{
    const struct fleet_request *request = board->request;
    const struct fleet *fleet = board->fleet;
    /* The evaluator sums in another order; it has the last word on a limit. */
    const double rounding = 1.0 + 1e-12;
    double usd_per_s = 0.0;
    int devices = 0;
    for (int c = 0; c < draft->crews_count; c++) {
        for (int s = 0; s < draft->stages; s++) {
            const struct option *option = &board->options[draft->crews[c].option[s]];
            int count = draft->crews[c].count * option->tp;
            double price = fleet->pools[option->pool].usd_per_hour;
            devices += count;
            if (price > 0.0)
                usd_per_s += (double)count * price / 3600.0;
        }
    }
    double egress = board->priced ? egress_usd(board, draft) : 0.0;
    draft->usd = draft->iteration_s * usd_per_s + egress;
    struct worth *worth = &draft->worth;
    worth->devices = devices;
    worth->breach = 0.0;
    if (request->usd_per_iteration_max >= 0.0 &&
        draft->usd > request->usd_per_iteration_max * rounding)
        worth->breach +=
            (draft->usd - request->usd_per_iteration_max) /
            (request->usd_per_iteration_max > 0.0 ? request->usd_per_iteration_max
                                                  : 1e-9);
    double usd_per_hour = usd_per_s * 3600.0;
    if (request->usd_per_hour_max >= 0.0 &&
        usd_per_hour > request->usd_per_hour_max * rounding)
        worth->breach +=
            (usd_per_hour - request->usd_per_hour_max) /
            (request->usd_per_hour_max > 0.0 ? request->usd_per_hour_max : 1e-9);
    if (request->iterations_per_s_min > 0.0 &&
        draft->iteration_s * request->iterations_per_s_min > rounding)
        worth->breach += draft->iteration_s * request->iterations_per_s_min - 1.0;
    worth->breach += fixed_breach(board, draft);
    if (request->objective == OBJECTIVE_COST) {
        worth->goal = draft->usd;
        worth->smooth = smooth_s * usd_per_s + egress;
    } else {
        worth->goal = draft->iteration_s;
        worth->smooth = smooth_s;
    }
}

double
worth_energy(const struct worth *worth)
{
    return (0.7 * worth->goal + 0.3 * worth->smooth) * (1.0 + 4.0 * worth->breach);
}

/* Is what a draft takes at least too much? */
static bool
hopeless(double least_s, double least_smooth_s, double goal_s, double energy_s)
{
    struct worth least = {.goal = least_s, .smooth = least_smooth_s};
    return least_s > goal_s && worth_energy(&least) > energy_s;
}

bool
draft_weigh_below(const struct board *board, struct draft *draft, double goal_s,
                  double energy_s)
{
    int total = board->settings[draft->setting].total;
    draft->ring_work = 0;
    if (draft->width > total || draft->width < 1)
        return false;
    double update_s = 0.0;
    for (int c = 0; c < draft->crews_count; c++) {
        struct crew *crew = &draft->crews[c];
        if (!crew->priced)
            draft_price(board, draft, crew);
        if (crew->path_s >= FLEET_NEVER_S)
            return false;
        if (!(crew->pace_s > 1e-12))
            crew->pace_s = 1e-12;
        if (crew->update_s > update_s)
            update_s = crew->update_s;
    }
    double smooth_s = share_smoothly(draft, total);
    double least_s = update_s;
    if (hopeless(smooth_s + least_s, smooth_s + least_s, goal_s, energy_s))
        return false;
    struct ring ring;
    ring.board = board;
    ring.draft = draft;
    ring_bytes(&ring);
    if (goal_s < FLEET_NEVER_S)
        least_s += ring_least_s(&ring);
    if (hopeless(smooth_s + least_s, smooth_s + least_s, goal_s, energy_s))
        return false;
    double pipelines_s = share_out(draft, total, smooth_s);
    if (hopeless(pipelines_s + least_s, smooth_s + least_s, goal_s, energy_s))
        return false;
    pipelines_s += update_s;
    double reduce_s = order_rings(&ring, draft);
    if (reduce_s >= FLEET_NEVER_S)
        return false;
    draft->iteration_s = pipelines_s + reduce_s;
    judge(board, draft, smooth_s + update_s + reduce_s);
    return true;
}

bool
draft_weigh(const struct board *board, struct draft *draft)
{
    return draft_weigh_below(board, draft, FLEET_NEVER_S, FLEET_NEVER_S);
}

void
draft_plan(const struct board *board, const struct draft *draft, struct fleet_plan *plan)
{
    const struct setting *setting = &board->settings[draft->setting];
    fleet_plan_init(plan, draft->stages, draft->width);
    plan->micro_batch = setting->micro_batch;
    plan->precision = setting->precision;
    plan->recompute = setting->recompute;
    plan->shard_optimizer = setting->shard_optimizer;
    for (int s = 0; s < draft->stages; s++) {
        plan->first_layer[s] = draft->first[s];
        plan->layers[s] = draft->first[s + 1] - draft->first[s];
    }
    int j = 0;
    for (int c = 0; c < draft->crews_count; c++) {
        const struct crew *crew = &draft->crews[c];
        for (int i = 0; i < crew->count; i++, j++) {
            plan->micro_batches[j] = crew->each + (i < crew->more);
            for (int s = 0; s < draft->stages; s++) {
                const struct option *option = &board->options[crew->option[s]];
                plan->replicas[(int64_t)s * plan->width + j] =
                    (struct replica){option->pool, option->tp};
            }
        }
    }
    must(j == draft->width);
}

bool
draft_replay(const struct board *board, struct draft *draft)
{
    struct fleet_plan plan;
    struct estimate estimate;
    struct err ignored;
    draft_plan(board, draft, &plan);
    bool valid = evaluate(&plan, board->request, board->fleet, NULL, NULL, &estimate,
                          &ignored) == 0 &&
                 estimate.fits;
    fleet_plan_release(&plan);
    if (!valid)
        return false;
    draft->iteration_s = estimate.iteration_s;
    judge(board, draft, estimate.iteration_s);
    return true;
}
