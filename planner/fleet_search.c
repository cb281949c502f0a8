#include "planner/fleet_search.h"
#include "planner/climb.h"
#include "planner/exhaust.h"
#include "planner/fit.h"
#include "planner/parts.h"
#include "planner/refuse.h"
#include "planner/reject.h"
#include "planner/seat.h"
#include "planner/spread.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHAPES_MAX = 256, /* seated */
    PART_SHAPES = 32, /* of each so many shapes are seated, */
    PART_STARTS = 8,  /* of which so many are begun from */
    DRAFTS_MAX = SHAPES_MAX + PARTS_MAX * PART_STARTS,
    PAIRS_MAX = 96,       /* seated in pairs of zones too, of each sort */
    SEATINGS_MAX = 15000, /* of each sort; then no more pairs */
    FINALISTS = 24,       /* evaluated */
    REPLAYED = 48,        /* drafts that are replayed */
    REPLAY_CLIMBS = 6,    /* of which so many climb on, */
    REPLAYS_EACH = 160,   /* each with so many replays */
    ROUNDS = 4,
    QUICK_SHAPES = 16, /* the same of a quick search */
    QUICK_ROUNDS = 3,
    QUICK_ZONES = 6, /* up to which each is looked at by itself, too */
    FITS_MAX = 4,
    QUICK_TIMES_MAX = 16,
    QUICK_REPLAYED = 6,
    QUICK_REPLAYS_EACH = 6,
};

/* A round of climbing: so many of the best, each with so many tries. */
static const struct round {
    int drafts;
    int64_t tries;
    double threshold;
} rounds[ROUNDS] = {
    {SHAPES_MAX, 300, 0.03}, {32, 4000, 0.02}, {8, 20000, 0.01}, {4, 40000, 0.003}};
static const struct round part_rounds[ROUNDS] = {{PARTS_MAX * PART_STARTS, 150, 0.03},
                                                 {6, 3000, 0.02},
                                                 {2, 12000, 0.01},
                                                 {1, 20000, 0.003}};
static const struct round quick_rounds[QUICK_ROUNDS] = {
    {12, 150, 0.03}, {4, 400, 0.015}, {1, 800, 0.005}};

enum effort {
    EFFORT_PART,   /* of a part of a fleet: where to begin, no more */
    EFFORT_GLANCE, /* a quick search and no more, whatever the fleet */
    EFFORT_PLAN,
    EFFORT_REASONS, /* and what was ruled out */
};

struct searcher {
    const struct fleet_request *request;
    const struct fleet *fleet;
    struct board *board;
    enum effort effort;
    int count;
    struct draft *drafts[DRAFTS_MAX]; /* best first */
    int64_t weighed;
};

void
fleet_answer_release(struct fleet_answer *answer)
{
    fleet_plan_release(&answer->plan);
    fleet_plan_release(&answer->runner_up);
}

bool
fleet_better(const struct fleet_request *request, const struct estimate *left,
             const struct estimate *right)
{
    if (left->fits != right->fits)
        return left->fits;
    if (request->objective == OBJECTIVE_COST &&
        left->usd_per_iteration != right->usd_per_iteration)
        return left->usd_per_iteration < right->usd_per_iteration;
    if (left->iteration_s != right->iteration_s)
        return left->iteration_s < right->iteration_s;
    if (left->usd_per_iteration != right->usd_per_iteration)
        return left->usd_per_iteration < right->usd_per_iteration;
    return left->stages_count < right->stages_count;
}

/* ---- what an answer has to keep ---- */

bool
fleet_keeps_limits(const struct fleet_request *request, const struct estimate *estimate)
{
    if (!estimate->fits)
        return false;
    if (request->usd_per_iteration_max >= 0.0 &&
        !(estimate->usd_per_iteration >= 0.0 &&
          estimate->usd_per_iteration <= request->usd_per_iteration_max))
        return false;
    if (request->usd_per_hour_max >= 0.0 &&
        !(estimate->devices_usd >= 0.0 &&
          estimate->devices_usd / estimate->iteration_s * 3600.0 <=
              request->usd_per_hour_max * (1.0 + 1e-12)))
        return false;
    return !(request->iterations_per_s_min > 0.0) ||
           estimate->iteration_s * request->iterations_per_s_min <= 1.0;
}

static int
check_prices(const struct fleet_request *request, const struct fleet *fleet,
             struct err *err)
{
    if (request->objective != OBJECTIVE_COST && request->usd_per_iteration_max < 0.0 &&
        request->usd_per_hour_max < 0.0)
        return 0;
    for (int a = 0; a < fleet->pools_count; a++) {
        const struct fleet_pool *pool = &fleet->pools[a];
        if (pool->devices < 1)
            continue;
        if (pool->usd_per_hour < 0.0)
            return err_set(err, ERR_USAGE,
                           "\"%s\" in zone \"%s\" has no price, which the objective or a "
                           "limit needs; give usd_per_hour",
                           fleet->kinds[pool->kind].name, fleet->zones[pool->zone].name);
        for (int b = 0; b < fleet->pools_count; b++) {
            int to = fleet->pools[b].zone;
            if (fleet->pools[b].devices > 0 &&
                fleet->egress_usd_per_gb[pool->zone * ZONES_MAX + to] < 0.0)
                return err_set(
                    err, ERR_USAGE,
                    "egress from zone \"%s\" to zone \"%s\" has no price, which "
                    "the objective or a limit needs; give usd_per_gb%s",
                    fleet->zones[pool->zone].name, fleet->zones[to].name,
                    fleet->zones[pool->zone].region == fleet->zones[to].region
                        ? ", 0 where a region's zones send for nothing"
                        : "");
        }
    }
    return 0;
}

/* ---- drafts ---- */

static void
sort_drafts(struct searcher *searcher)
{
    for (int i = 1; i < searcher->count; i++) {
        struct draft *draft = searcher->drafts[i];
        int at = i;
        while (at > 0 && worth_before(&draft->worth, &searcher->drafts[at - 1]->worth)) {
            searcher->drafts[at] = searcher->drafts[at - 1];
            at--;
        }
        searcher->drafts[at] = draft;
    }
}

static bool
twins(const struct draft *left, const struct draft *right)
{
    if (left->setting != right->setting || left->stages != right->stages ||
        left->crews_count != right->crews_count || left->width != right->width ||
        memcmp(left->first, right->first,
               (size_t)left->stages * sizeof(left->first[0])) != 0)
        return false;
    for (int c = 0; c < left->crews_count; c++)
        if (left->crews[c].count != right->crews[c].count ||
            memcmp(left->crews[c].option, right->crews[c].option,
                   (size_t)left->stages * sizeof(left->crews[c].option[0])) != 0)
            return false;
    return true;
}

/* Of drafts that have become the same, one goes on. */
static void
drop_twins(struct searcher *searcher)
{
    int kept = 0;
    for (int i = 0; i < searcher->count; i++) {
        bool twin = false;
        for (int k = 0; k < kept && !twin; k++)
            twin = twins(searcher->drafts[k], searcher->drafts[i]);
        if (twin) {
            free(searcher->drafts[i]);
            continue;
        }
        searcher->drafts[kept++] = searcher->drafts[i];
    }
    searcher->count = kept;
}

/* Where all devices are different. */
static void
spread_out(struct searcher *searcher)
{
    struct draft *best = xcalloc(1, sizeof(*best));
    struct draft *draft = xcalloc(1, sizeof(*draft));
    bool found = false;
    for (int s = 0; s < searcher->board->settings_count; s++) {
        if (!spread_best(searcher->board, s, draft, &searcher->weighed) ||
            (found && !worth_before(&draft->worth, &best->worth)))
            continue;
        draft_copy(draft, best);
        found = true;
    }
    if (found && searcher->count < SHAPES_MAX)
        searcher->drafts[searcher->count++] = best;
    else
        free(best);
    free(draft);
}

/* Where devices are not joined: the one that does best with the whole model. */
static void
go_alone(struct searcher *searcher)
{
    struct draft *draft = xcalloc(1, sizeof(*draft));
    if (searcher->request->replicas <= 1 && searcher->request->pipeline <= 1 &&
        spread_alone(searcher->board, draft, &searcher->weighed))
        searcher->drafts[searcher->count++] = draft;
    else
        free(draft);
}

/* Where memory is short, or a job fixes what no shape has: whatever fits. */
static void
fit_in(struct searcher *searcher)
{
    const struct fleet_request *request = searcher->request;
    const struct board *board = searcher->board;
    int width = request->replicas > 0 ? request->replicas : 1;
    int first = request->pipeline > 0 ? request->pipeline : 1;
    int last = request->pipeline > 0 ? request->pipeline : FIT_STAGES_MAX;
    struct draft *draft = xcalloc(1, sizeof(*draft));
    int found = 0;
    for (int stages = first; stages <= last && found < FITS_MAX; stages++) {
        for (int s = 0; s < board->settings_count; s++) {
            if (searcher->count == SHAPES_MAX ||
                !fit_draft(board, s, stages, width, draft, &searcher->weighed))
                continue;
            searcher->drafts[searcher->count] = xcalloc(1, sizeof(*draft));
            draft_copy(draft, searcher->drafts[searcher->count++]);
            found++;
            break;
        }
    }
    free(draft);
    sort_drafts(searcher);
}

static void
seat_shapes(struct searcher *searcher)
{
    struct shape *shapes = xcalloc(SHAPES_MAX, sizeof(*shapes));
    bool quick = searcher->request->quick;
    bool part = searcher->effort == EFFORT_PART;
    int most = quick ? QUICK_SHAPES : part ? PART_SHAPES : SHAPES_MAX;
    int count = shapes_list(searcher->board,
                            quick  ? SHAPES_QUICK
                            : part ? SHAPES_PART
                                   : SHAPES_ALL,
                            shapes, most, &searcher->weighed);
    int64_t began = 0;
    for (int i = 0; i < count; i++) {
        int rank = i % (most / 2);
        began = rank == 0 ? searcher->weighed : began;
        bool pairs = rank < PAIRS_MAX && searcher->weighed - began < SEATINGS_MAX &&
                     searcher->effort > EFFORT_GLANCE;
        struct draft *draft = xcalloc(1, sizeof(*draft));
        if (shape_seat(searcher->board, &shapes[i], pairs, draft, &searcher->weighed))
            searcher->drafts[searcher->count++] = draft;
        else
            free(draft);
    }
    free(shapes);
    if (quick)
        spread_out(searcher);
    sort_drafts(searcher);
    drop_twins(searcher);
}

/* Kinds in several zones each have more ways to go wrong: they are given more tries, in
 * quarters of the usual number; one pool or two have fewer. */
static int64_t
patience_quarters(const struct board *board)
{
    int pools = 0;
    int kinds = 0;
    int zones = 0;
    bool kind_seen[FLEET_KINDS_MAX] = {false};
    bool zone_seen[ZONES_MAX] = {false};
    for (int p = 0; p < board->fleet->pools_count; p++) {
        const struct fleet_pool *pool = &board->fleet->pools[p];
        if (pool->devices < 1)
            continue;
        pools++;
        kinds += !kind_seen[pool->kind];
        zones += !zone_seen[pool->zone];
        kind_seen[pool->kind] = true;
        zone_seen[pool->zone] = true;
    }
    if (kinds > 1 && zones > 1)
        return 8;
    return pools < 3 ? 1 + pools : 4;
}

/* A few thousand tries instead of hundreds of thousands; more where much is different. */
static void
climb_quickly(struct searcher *searcher)
{
    const struct fleet *fleet = searcher->fleet;
    bool seen[FLEET_KINDS_MAX] = {false};
    int kinds = 0;
    for (int p = 0; p < fleet->pools_count; p++) {
        bool *there = &seen[fleet->pools[p].kind];
        kinds += fleet->pools[p].devices > 0 && !*there;
        *there = *there || fleet->pools[p].devices > 0;
    }
    int64_t times = (int64_t)searcher->board->devices * kinds / 64;
    times = times < 1 ? 1 : times > QUICK_TIMES_MAX ? QUICK_TIMES_MAX : times;
    times = searcher->effort == EFFORT_GLANCE ? 1 : times;
    for (int r = 0; r < QUICK_ROUNDS; r++) {
        const struct round *round = &quick_rounds[r];
        int count = searcher->count < round->drafts ? searcher->count : round->drafts;
        for (int i = 0; i < count; i++)
            searcher->weighed +=
                climb(searcher->board, searcher->drafts[i], round->tries * times,
                      round->threshold, (uint64_t)(r * SHAPES_MAX + i + 1));
        sort_drafts(searcher);
        drop_twins(searcher);
    }
}

static void
climb_rounds(struct searcher *searcher, const struct round *list)
{
    int64_t quarters = patience_quarters(searcher->board);
    for (int r = 0; r < ROUNDS; r++) {
        int most = searcher->count < list[r].drafts ? searcher->count : list[r].drafts;
        for (int i = 0; i < most; i++)
            searcher->weighed +=
                climb(searcher->board, searcher->drafts[i], list[r].tries * quarters / 4,
                      list[r].threshold, (uint64_t)(r * SHAPES_MAX + i + 1));
        sort_drafts(searcher);
        drop_twins(searcher);
    }
}

/* What draft_weigh() guesses of a replay is replayed, and the best made better by that. */
static void
replay_rounds(struct searcher *searcher)
{
    if (searcher->board->published)
        return;
    int kept = 0;
    bool quick = searcher->request->quick;
    int most = quick ? QUICK_REPLAYED : REPLAYED;
    int climbs = quick ? 2 : REPLAY_CLIMBS;
    int replays = quick ? QUICK_REPLAYS_EACH : REPLAYS_EACH;
    int count = searcher->count < most ? searcher->count : most;
    for (int i = 0; i < searcher->count; i++) {
        struct draft *draft = searcher->drafts[i];
        if (i < count && draft_replay(searcher->board, draft))
            searcher->drafts[kept++] = draft;
        else
            free(draft);
    }
    searcher->count = kept;
    sort_drafts(searcher);
    for (int i = 0; i < kept && i < climbs; i++)
        searcher->weighed += climb_replayed(searcher->board, searcher->drafts[i], replays,
                                            (uint64_t)i + 1);
    sort_drafts(searcher);
    drop_twins(searcher);
}

/* Of a small fleet all plans are looked at. */
static void
search_all(struct searcher *searcher)
{
    if (searcher->count == DRAFTS_MAX)
        free(searcher->drafts[--searcher->count]);
    struct draft *draft = xcalloc(1, sizeof(*draft));
    bool found = searcher->count > 0;
    if (found)
        draft_copy(searcher->drafts[0], draft);
    if (exhaust(searcher->board, draft, found, &searcher->weighed))
        searcher->drafts[searcher->count++] = draft;
    else
        free(draft);
    sort_drafts(searcher);
    drop_twins(searcher);
}

/* ---- the answer ---- */

/* Are two drafts of another shape: depth, micro-batch, kinds or degrees of stages? */
static bool
other_shape(const struct fleet *fleet, const struct fleet_plan *left,
            const struct fleet_plan *right)
{
    if (left->stages_count != right->stages_count ||
        left->micro_batch != right->micro_batch)
        return true;
    for (int s = 0; s < left->stages_count; s++) {
        bool seen[2][FLEET_KINDS_MAX][TP_SLOTS] = {{{false}}};
        for (int side = 0; side < 2; side++) {
            const struct fleet_plan *plan = side ? right : left;
            for (int j = 0; j < plan->width; j++) {
                const struct replica *replica = fleet_plan_replica(plan, s, j);
                seen[side][fleet->pools[replica->pool].kind][tp_slot(replica->tp)] = true;
            }
        }
        if (memcmp(seen[0], seen[1], sizeof(seen[0])) != 0)
            return true;
    }
    return false;
}

/* Evaluate the best drafts; the best plan and the best of another shape are the answer. */
static bool
choose(struct searcher *searcher, struct fleet_answer *out)
{
    int count = searcher->count < FINALISTS ? searcher->count : FINALISTS;
    struct fleet_plan plans[FINALISTS];
    struct estimate *estimates = xcalloc(FINALISTS, sizeof(*estimates));
    bool valid[FINALISTS] = {false};
    int best = -1;
    for (int i = 0; i < count; i++) {
        struct err ignored;
        draft_plan(searcher->board, searcher->drafts[i], &plans[i]);
        valid[i] = fleet_plan_check(&plans[i], searcher->request, searcher->fleet,
                                    &ignored) == 0 &&
                   evaluate(&plans[i], searcher->request, searcher->fleet, NULL, NULL,
                            &estimates[i], &ignored) == 0 &&
                   fleet_keeps_limits(searcher->request, &estimates[i]);
        if (valid[i] && (best < 0 || fleet_better(searcher->request, &estimates[i],
                                                  &estimates[best])))
            best = i;
    }
    int second = -1;
    for (int i = 0; best >= 0 && i < count; i++)
        if (valid[i] && i != best &&
            other_shape(searcher->fleet, &plans[i], &plans[best]) &&
            (second < 0 ||
             fleet_better(searcher->request, &estimates[i], &estimates[second])))
            second = i;
    if (best >= 0) {
        out->plan = plans[best];
        out->estimate = estimates[best];
    }
    if (second >= 0) {
        out->has_runner_up = true;
        out->runner_up = plans[second];
        out->runner_up_estimate = estimates[second];
    }
    for (int i = 0; i < count; i++)
        if (i != best && i != second)
            fleet_plan_release(&plans[i]);
    free(estimates);
    return best >= 0;
}

/* ---- why there is none ---- */

static int
no_plan(const struct searcher *searcher, struct err *err)
{
    const struct board *board = searcher->board;
    const struct fleet_request *request = searcher->request;
    bool engine = searcher->fleet->table.engine; /* whose tp no job fixes */
    if (board->devices < 1)
        return err_set(err, ERR_PLAN, "there are no devices to plan with");
    if (board->settings_count == 0)
        return err_set(
            err, ERR_PLAN,
            "no device was measured%s with a micro-batch that divides the batch of "
            "%d sequences%s",
            request->bf16 == CHOICE_ON    ? " in bf16"
            : request->bf16 == CHOICE_OFF ? " in fp32"
                                          : "",
            request->sequences,
            request->micro_batch > 0 || (request->tp > 0 && !engine)
                ? " and keeps what the job fixes"
                : "");
    if (searcher->count > 0)
        return refuse_nearest(board, searcher->drafts[0], err);
    /* Of one layer, the roomiest device that lacks the least. */
    int64_t least = INT64_MAX;
    int at = 0;
    const struct option *roomiest = NULL;
    int64_t need = 0;
    int size = 0;
    for (int s = 0; s < board->settings_count; s++) {
        const struct setting *setting = &board->settings[s];
        for (int o = 0; o < board->options_count; o++) {
            const struct option *option = &board->options[o];
            if (!board_measured(setting, option))
                continue;
            int64_t worst = INT64_MIN;
            int64_t worst_need = 0;
            int worst_layer = 0;
            for (int l = 0; l < board->layers; l++) {
                int64_t bytes = board_bytes(board, setting, option, 1, 1, l, l + 1);
                if (bytes - board_room(board, option) > worst) {
                    worst = bytes - board_room(board, option);
                    worst_need = bytes;
                    worst_layer = l;
                }
            }
            if (worst < least) {
                least = worst;
                roomiest = option;
                need = worst_need;
                at = worst_layer;
                size = setting->micro_batch;
            }
        }
    }
    must(roomiest);
    const char *name = searcher->fleet->kinds[roomiest->kind].name;
    if (least > 0)
        return err_set(
            err, ERR_PLAN,
            "cannot place layer %d: needs %.4g GiB at micro-batch %d and tp %d, "
            "\"%s\" has %.4g GiB; use devices with more memory%s",
            at, (double)need / 1073741824.0, size, roomiest->tp, name,
            (double)board_room(board, roomiest) / 1073741824.0,
            engine ? "" : " or a higher tp");
    if (refuse_apart(board, err) != 0)
        return -1;
    return err_set(
        err, ERR_PLAN,
        "the %d devices that can be used have no room for the model together%s; "
        "layer %d alone needs %.4g GiB of the %.4g GiB of \"%s\"; add devices",
        refuse_usable(board),
        request->pipeline > 0 || request->replicas > 0 || (request->tp > 0 && !engine)
            ? " with what the job fixes"
            : "",
        at, (double)need / 1073741824.0,
        (double)board_room(board, roomiest) / 1073741824.0, name);
}

/* ---- parts of a fleet ---- */

/* A draft over a part of the fleet as one over all of it. */
static bool
adopt(const struct board *board, const struct board *part, const struct draft *from,
      struct draft *to)
{
    const struct setting *setting = &part->settings[from->setting];
    draft_copy(from, to);
    for (to->setting = 0; to->setting < board->settings_count; to->setting++)
        if (board->settings[to->setting].micro_batch == setting->micro_batch &&
            board->settings[to->setting].precision == setting->precision &&
            board->settings[to->setting].recompute == setting->recompute &&
            board->settings[to->setting].shard_optimizer == setting->shard_optimizer)
            break;
    if (to->setting == board->settings_count)
        return false;
    for (int c = 0; c < to->crews_count; c++) {
        for (int s = 0; s < to->stages; s++) {
            const struct option *option = &part->options[from->crews[c].option[s]];
            to->crews[c].option[s] =
                (uint16_t)board->option_of[option->pool][option->slot];
        }
    }
    return true;
}

/* What does well in a part of the fleet. The best of the whole may leave a zone or a kind
 * alone, and be like nothing that does well with all of it. */
static void
start_in_part(struct searcher *searcher, const struct fleet *part)
{
    struct searcher one = {
        .request = searcher->request, .fleet = part, .effort = EFFORT_PART};
    one.board = board_new(one.request, part);
    seat_shapes(&one);
    int starts = one.count < PART_STARTS ? one.count : PART_STARTS;
    for (int i = 0; i < starts && searcher->count < DRAFTS_MAX; i++) {
        struct draft *draft = xcalloc(1, sizeof(*draft));
        if (adopt(searcher->board, one.board, one.drafts[i], draft))
            searcher->drafts[searcher->count++] = draft;
        else
            free(draft);
    }
    searcher->weighed += one.weighed;
    for (int i = 0; i < one.count; i++)
        free(one.drafts[i]);
    board_free(one.board);
}

static void
start_in_parts(struct searcher *searcher)
{
    const struct fleet *fleet = searcher->fleet;
    if (searcher->request->stage_zones_count > 0)
        return;
    struct part parts[PARTS_MAX];
    int count = parts_list(searcher->board, parts);
    struct fleet *part = fleet_copy(fleet);
    for (int i = 0; i < count; i++) {
        for (int p = 0; p < fleet->pools_count; p++)
            part->pools[p].devices = parts[i].lacks[p] ? 0 : fleet->pools[p].devices;
        start_in_part(searcher, part);
    }
    fleet_free(part);
}

/* They climb among themselves, so that they take no place from what begins with all. */
static void
look_at_parts(struct searcher *searcher)
{
    struct searcher others = {
        .request = searcher->request, .fleet = searcher->fleet, .board = searcher->board};
    start_in_parts(&others);
    climb_rounds(&others, part_rounds);
    for (int i = 0; i < others.count; i++) {
        if (searcher->count < DRAFTS_MAX)
            searcher->drafts[searcher->count++] = others.drafts[i];
        else
            free(others.drafts[i]);
    }
    searcher->weighed += others.weighed;
    sort_drafts(searcher);
    drop_twins(searcher);
}

/* Everything but the answer: drafts, best first. */
static void
find_drafts(struct searcher *searcher)
{
    const struct fleet_request *request = searcher->request;
    seat_shapes(searcher);
    if (!request->quick && searcher->count == 0)
        go_alone(searcher);
    if (request->quick &&
        !(searcher->count > 0 && searcher->drafts[0]->worth.breach <= 0.0))
        fit_in(searcher);
    if (request->quick)
        climb_quickly(searcher);
    else
        climb_rounds(searcher, rounds);
    if (!request->quick && !exhaust_feasible(searcher->board))
        look_at_parts(searcher);
    if (!request->quick && exhaust_feasible(searcher->board))
        search_all(searcher);
    replay_rounds(searcher);
}

/* Each zone by itself, as if there were no other: so no fleet is planned worse than a zone of
 * it, however little is tried. */
static void
look_at_zones(struct searcher *searcher)
{
    const struct fleet *fleet = searcher->fleet;
    if (fleet->zones_count < 2 || fleet->zones_count > QUICK_ZONES ||
        searcher->request->stage_zones_count > 0)
        return;
    struct fleet *part = fleet_copy(fleet);
    for (int z = 0; z < fleet->zones_count; z++) {
        int devices = 0;
        for (int p = 0; p < fleet->pools_count; p++) {
            bool here = fleet->pools[p].zone == z;
            part->pools[p].devices = here ? fleet->pools[p].devices : 0;
            devices += part->pools[p].devices;
        }
        if (devices < 2 || devices == searcher->board->devices)
            continue;
        struct searcher one = {.request = searcher->request, .fleet = part};
        one.board = board_new(one.request, part);
        find_drafts(&one);
        struct draft *draft = xcalloc(1, sizeof(*draft));
        if (one.count > 0 && searcher->count < SHAPES_MAX &&
            adopt(searcher->board, one.board, one.drafts[0], draft))
            searcher->drafts[searcher->count++] = draft;
        else
            free(draft);
        searcher->weighed += one.weighed;
        for (int i = 0; i < one.count; i++)
            free(one.drafts[i]);
        board_free(one.board);
    }
    fleet_free(part);
    sort_drafts(searcher);
    drop_twins(searcher);
}

static int
search(const struct fleet_request *request, const struct fleet *fleet, enum effort effort,
       struct fleet_answer *out, struct err *err)
{
    if (request->sequences < 1 || request->sequences > FLEET_SEQUENCES_MAX)
        return err_set(err, ERR_USAGE, "a batch of %d sequences, the limit is 1 to %d",
                       request->sequences, FLEET_SEQUENCES_MAX);
    if (fleet_check(fleet, err) != 0 || check_prices(request, fleet, err) != 0)
        return -1;
    struct searcher searcher = {.request = request, .fleet = fleet, .effort = effort};
    searcher.board = board_new(request, fleet);
    memset(out, 0, sizeof(*out));
    find_drafts(&searcher);
    if (request->quick && effort != EFFORT_GLANCE)
        look_at_zones(&searcher);
    int rc = 0;
    if (!choose(&searcher, out))
        rc = no_plan(&searcher, err);
    else if (effort == EFFORT_REASONS)
        out->rejections_count =
            reject_list(searcher.board, &out->estimate, out->rejections);
    out->candidates = searcher.weighed;
    for (int i = 0; i < searcher.count; i++)
        free(searcher.drafts[i]);
    board_free(searcher.board);
    return rc;
}

int
fleet_search(const struct fleet_request *request, const struct fleet *fleet,
             struct fleet_answer *out, struct err *err)
{
    return search(request, fleet, EFFORT_REASONS, out, err);
}

int
fleet_search_plan(const struct fleet_request *request, const struct fleet *fleet,
                  struct fleet_answer *out, struct err *err)
{
    return search(request, fleet, EFFORT_PLAN, out, err);
}

int
fleet_search_glance(const struct fleet_request *request, const struct fleet *fleet,
                    struct fleet_answer *out, struct err *err)
{
    struct fleet_request quick = *request;
    quick.quick = true;
    return search(&quick, fleet, EFFORT_GLANCE, out, err);
}

int
fleet_gain(const struct fleet_request *request, const struct fleet *fleet, int pool,
           struct estimate *out, struct err *err)
{
    must(pool >= 0 && pool < fleet->pools_count);
    struct fleet *more = fleet_copy(fleet);
    more->pools[pool].devices += more->kinds[more->pools[pool].kind].machine_devices;
    struct fleet_answer answer;
    int rc = fleet_search_plan(request, more, &answer, err);
    if (rc == 0) {
        *out = answer.estimate;
        fleet_answer_release(&answer);
    }
    fleet_free(more);
    return rc;
}
