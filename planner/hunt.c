#include "planner/hunt.h"
#include "planner/climb.h"
#include "planner/exhaust.h"
#include "planner/fill.h"
#include "planner/fit.h"
#include "planner/seat.h"
#include "planner/spread.h"
#include "planner/starts.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIMBS_MAX = 3,       /* from a draft where much is different and pools are few, */
    CLIMB_SEEDS = 100000, /* seeds from one to the other */
    START_DRAFTS = 8,     /* begun in each part of a fleet of few pools */
    FEW_SHAPES = 32,      /* seated, where few are */
    PAIRS_MAX = 96,       /* seated in pairs of zones too, of each sort */
    SEATINGS_MAX = 15000, /* of each sort; then no more pairs */
    REPLAYED = 48,        /* drafts that are replayed */
    REPLAY_CLIMBS = 6,    /* of which so many climb on, */
    REPLAYS_EACH = 160,   /* each with so many replays, */
    POLISH_REPLAYED = 24, /* the same where one draft goes on alone */
    POLISH_CLIMBS = 2,
    REPLAY_OPERATIONS_MAX = 80000000, /* all of no more than so many operations */
    ROUNDS = 4,
    QUICK_SHAPES = 16, /* the same of a quick search */
    QUICK_ROUNDS = 3,
    FITS_MAX = 4,
    QUICK_TIMES_MAX = 16,
    QUICK_REPLAYED = 6,
    QUICK_REPLAY_CLIMBS = 2,
    QUICK_REPLAYS_EACH = 6,
};

/* A round of climbing: so many of the best, of one setting and depth so many before all others,
 * each with so many tries; first they are filled. */
static const struct round {
    int drafts;
    int of_a_sort;
    int64_t tries;
    double threshold;
    bool fill;
} rounds[ROUNDS] = {{HUNT_DRAFTS_MAX, HUNT_DRAFTS_MAX, 300, 0.03, false},
                    {32, 4, 4000, 0.02, true},
                    {8, 2, 20000, 0.01, true},
                    {4, 1, 40000, 0.003, false}};
/* What is farther behind a rival than this, at a glance, seated, and before each further round, has
 * not come near it in the pools that this was measured on. */
static const double reach_at_a_glance = 1.25;
static const double reach_of_one_kind = 1.15;
static const double reach[ROUNDS] = {1.10, 1.07, 1.03, 1.015};
static const struct round quick_rounds[QUICK_ROUNDS] = {
    {12, 12, 150, 0.03, false}, {4, 4, 400, 0.015, false}, {1, 1, 800, 0.005, false}};

_Static_assert(
    STARTS_MAX *START_DRAFTS + 32 * (CLIMBS_MAX - 1) <= HUNT_OTHERS_MAX,
    "what is begun in parts, and the copies of the second round, have a place");

/* ---- drafts ---- */

static void
sort_drafts(struct hunt *hunt)
{
    for (int i = 1; i < hunt->count; i++) {
        struct draft *draft = hunt->drafts[i];
        int at = i;
        while (at > 0 && worth_before(&draft->worth, &hunt->drafts[at - 1]->worth)) {
            hunt->drafts[at] = hunt->drafts[at - 1];
            at--;
        }
        hunt->drafts[at] = draft;
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
drop_twins(struct hunt *hunt)
{
    int kept = 0;
    for (int i = 0; i < hunt->count; i++) {
        bool twin = false;
        for (int k = 0; k < kept && !twin; k++)
            twin = twins(hunt->drafts[k], hunt->drafts[i]);
        if (twin) {
            free(hunt->drafts[i]);
            continue;
        }
        hunt->drafts[kept++] = hunt->drafts[i];
    }
    hunt->count = kept;
}

/* Where all devices are different. */
static void
spread_out(struct hunt *hunt)
{
    struct draft *best = xcalloc(1, sizeof(*best));
    struct draft *draft = xcalloc(1, sizeof(*draft));
    bool found = false;
    for (int s = 0; s < hunt->board->settings_count; s++) {
        if (!spread_best(hunt->board, s, draft, &hunt->weighed) ||
            (found && !worth_before(&draft->worth, &best->worth)))
            continue;
        draft_copy(draft, best);
        found = true;
    }
    if (found && hunt->count < HUNT_SHAPES_MAX)
        hunt->drafts[hunt->count++] = best;
    else
        free(best);
    free(draft);
}

/* Where devices are not joined: the one that does best with the whole model. */
static void
go_alone(struct hunt *hunt)
{
    struct draft *draft = xcalloc(1, sizeof(*draft));
    if (hunt->request->replicas <= 1 && hunt->request->pipeline <= 1 &&
        spread_alone(hunt->board, draft, &hunt->weighed))
        hunt->drafts[hunt->count++] = draft;
    else
        free(draft);
}

/* Where memory is short, or a job fixes what no shape has: whatever fits. */
static void
fit_in(struct hunt *hunt)
{
    const struct fleet_request *request = hunt->request;
    const struct board *board = hunt->board;
    int width = request->replicas > 0 ? request->replicas : 1;
    int first = request->pipeline > 0 ? request->pipeline : 1;
    int last = request->pipeline > 0 ? request->pipeline : FIT_STAGES_MAX;
    struct draft *draft = xcalloc(1, sizeof(*draft));
    int found = 0;
    for (int stages = first; stages <= last && found < FITS_MAX; stages++) {
        for (int s = 0; s < board->settings_count; s++) {
            if (hunt->count == HUNT_SHAPES_MAX ||
                !fit_draft(board, s, stages, width, draft, &hunt->weighed))
                continue;
            hunt->drafts[hunt->count] = xcalloc(1, sizeof(*draft));
            draft_copy(draft, hunt->drafts[hunt->count++]);
            found++;
            break;
        }
    }
    free(draft);
    sort_drafts(hunt);
}

/* What there is anything of. */
struct variety {
    int pools;
    int kinds;
    int zones;
};

static struct variety
variety_of(const struct fleet *fleet)
{
    struct variety variety = {0, 0, 0};
    bool kind_seen[FLEET_KINDS_MAX] = {false};
    bool zone_seen[ZONES_MAX] = {false};
    for (int p = 0; p < fleet->pools_count; p++) {
        const struct fleet_pool *pool = &fleet->pools[p];
        if (pool->devices < 1)
            continue;
        variety.pools++;
        variety.kinds += !kind_seen[pool->kind];
        variety.zones += !zone_seen[pool->zone];
        kind_seen[pool->kind] = true;
        zone_seen[pool->zone] = true;
    }
    return variety;
}

static void
seat_shapes(struct hunt *hunt)
{
    struct shape *shapes = xcalloc(HUNT_SHAPES_MAX, sizeof(*shapes));
    bool quick = hunt->request->quick;
    bool few = hunt->effort == EFFORT_FEW;
    int most = quick ? QUICK_SHAPES : few ? FEW_SHAPES : HUNT_SHAPES_MAX;
    int count = shapes_list(hunt->board,
                            quick ? SHAPES_QUICK
                            : few ? SHAPES_FEW
                                  : SHAPES_ALL,
                            shapes, most, &hunt->weighed);
    int64_t began = 0;
    for (int i = 0; i < count; i++) {
        int rank = i % (most / 2);
        began = rank == 0 ? hunt->weighed : began;
        bool pairs = rank < PAIRS_MAX && hunt->weighed - began < SEATINGS_MAX &&
                     hunt->effort > EFFORT_GLANCE;
        struct draft *draft = xcalloc(1, sizeof(*draft));
        if (shape_seat(hunt->board, &shapes[i], pairs, draft, &hunt->weighed))
            hunt->drafts[hunt->count++] = draft;
        else
            free(draft);
    }
    free(shapes);
    bool mixed = !quick && variety_of(hunt->fleet).kinds > 1;
    for (int i = 0; i < hunt->count && mixed; i++)
        hunt->weighed += fill_draft(hunt->board, hunt->drafts[i]);
    if (quick)
        spread_out(hunt);
    sort_drafts(hunt);
    drop_twins(hunt);
}

/* Pipelines through pools in a row. */
static void
add_lineups(struct hunt *hunt)
{
    struct draft *lineups[LINEUPS_MAX];
    int count = lineup_list(hunt->board, lineups, &hunt->weighed);
    for (int i = 0; i < count; i++) {
        if (hunt->count < HUNT_DRAFTS_MAX)
            hunt->drafts[hunt->count++] = lineups[i];
        else
            free(lineups[i]);
    }
    sort_drafts(hunt);
    drop_twins(hunt);
}

/* Kinds in several zones each have more ways to go wrong: they are given more tries, in
 * quarters of the usual number; one kind, and one pool or two, have fewer. */
static int64_t
patience_quarters(struct variety variety)
{
    if (variety.kinds > 1 && variety.zones > 1)
        return 8;
    if (variety.pools < 3)
        return 1 + variety.pools;
    return variety.kinds > 1 ? 4 : 3;
}

/* A climb from the same draft by other chances ends elsewhere: with kinds in several zones
 * the best of three goes on. Under the cost objective, and under a limit to it, that is not
 * worth its time. */
static int
climbs_each(const struct hunt *hunt, struct variety variety)
{
    bool much = variety.kinds > 1 && variety.zones > 1 && variety.pools <= HUNT_POOLS_FEW;
    return much && !hunt->board->priced ? CLIMBS_MAX : 1;
}

/* A few thousand tries instead of hundreds of thousands; more where much is different. */
static void
climb_quickly(struct hunt *hunt)
{
    int kinds = variety_of(hunt->fleet).kinds;
    int64_t times = (int64_t)hunt->board->devices * kinds / 64;
    times = times < 1 ? 1 : times > QUICK_TIMES_MAX ? QUICK_TIMES_MAX : times;
    times = hunt->effort == EFFORT_GLANCE ? 1 : times;
    for (int r = 0; r < QUICK_ROUNDS; r++) {
        const struct round *round = &quick_rounds[r];
        int count = hunt->count < round->drafts ? hunt->count : round->drafts;
        for (int i = 0; i < count; i++)
            hunt->weighed +=
                climb(hunt->board, hunt->drafts[i], round->tries * times,
                      round->threshold, (uint64_t)(r * HUNT_SHAPES_MAX + i + 1));
        sort_drafts(hunt);
        drop_twins(hunt);
    }
}

/* The best first, but only so many of each setting and depth before all others: drafts of one
 * sort end alike, and the best sort may begin behind. */
static void
mix_sorts(struct hunt *hunt, int most)
{
    struct draft *late[HUNT_DRAFTS_MAX];
    int kept = 0;
    int lates = 0;
    for (int i = 0; i < hunt->count; i++) {
        struct draft *draft = hunt->drafts[i];
        int same = 0;
        for (int k = 0; k < kept; k++)
            same += hunt->drafts[k]->setting == draft->setting &&
                    hunt->drafts[k]->stages == draft->stages;
        if (same < most)
            hunt->drafts[kept++] = draft;
        else
            late[lates++] = draft;
    }
    for (int i = 0; i < lates; i++)
        hunt->drafts[kept + i] = late[i];
}

/* Another draft like one; NULL: there is no place. */
static struct draft *
add_copy(struct hunt *hunt, const struct draft *draft)
{
    if (hunt->count == HUNT_DRAFTS_MAX)
        return NULL;
    struct draft *copy = xcalloc(1, sizeof(*copy));
    draft_copy(draft, copy);
    hunt->drafts[hunt->count++] = copy;
    return copy;
}

static void
climb_from(struct hunt *hunt, struct draft *draft, const struct round *round,
           int64_t quarters, uint64_t seed)
{
    hunt->weighed +=
        climb(hunt->board, draft, round->tries * quarters / 4, round->threshold, seed);
}

/* Is the best so far more than so many times behind the rival? While nobody keeps the limits,
 * by how far it is from them. */
static bool
beaten(const struct hunt *hunt, double times)
{
    const struct worth *rival = hunt->rival;
    if (!rival)
        return false;
    if (hunt->count == 0)
        return true;
    const struct worth *best = &hunt->drafts[0]->worth;
    return best->breach > (1.0 + rival->breach) * times - 1.0 ||
           (rival->breach <= 0.0 && best->goal > rival->goal * times);
}

/* The same before any climb, which may mend it that nothing is seated, or not with as many
 * replicas as the job fixes. */
static bool
beaten_seated(const struct hunt *hunt, double times)
{
    return hunt->count > 0 &&
           (hunt->request->replicas == 0 || hunt->drafts[0]->worth.breach <= 0.0) &&
           beaten(hunt, times);
}

/* Round `r`; false if the rival is out of reach of the next one. */
static bool
climb_round(struct hunt *hunt, int r)
{
    const struct round *round = &rounds[r];
    struct variety variety = variety_of(hunt->fleet);
    int64_t quarters = patience_quarters(variety);
    /* What stands idle costs nothing. */
    bool fills = variety.kinds > 1 && hunt->request->objective == OBJECTIVE_THROUGHPUT;
    int climbs = r > 0 ? climbs_each(hunt, variety) : 1;
    if (variety.kinds > 1)
        mix_sorts(hunt, round->of_a_sort);
    int most = hunt->count < round->drafts ? hunt->count : round->drafts;
    for (int i = 0; i < most; i++) {
        struct draft *draft = hunt->drafts[i];
        if (fills && round->fill)
            hunt->weighed += fill_draft(hunt->board, draft);
        uint64_t seed = (uint64_t)(r * HUNT_SHAPES_MAX + i + 1);
        for (int k = 1; k < climbs; k++) {
            struct draft *other = add_copy(hunt, draft);
            if (other)
                climb_from(hunt, other, round, quarters,
                           seed + (uint64_t)(k * CLIMB_SEEDS));
        }
        climb_from(hunt, draft, round, quarters, seed);
    }
    sort_drafts(hunt);
    drop_twins(hunt);
    return !(r + 1 < ROUNDS && beaten(hunt, reach[r + 1]));
}

/* What a replay goes through: each micro-batch forward and backward, on every stage. */
static int64_t
operations(const struct draft *draft)
{
    int64_t micro_batches = 0;
    for (int c = 0; c < draft->crews_count; c++) {
        const struct crew *crew = &draft->crews[c];
        micro_batches += (int64_t)crew->count * crew->each + crew->more;
    }
    return 2 * micro_batches * draft->stages;
}

/* So many replays of a draft, or how many of them are left: a batch of a million
 * sequences that only 1 divides takes a second for one. */
static int
take_replays(struct hunt *hunt, const struct draft *draft, int wanted)
{
    int64_t each = operations(draft), left = REPLAY_OPERATIONS_MAX - hunt->replayed;
    if (each < 1)
        return wanted;
    int taken = left < each ? 0 : left / each < wanted ? (int)(left / each) : wanted;
    hunt->replayed += taken * each;
    return taken;
}

/* What draft_weigh() guesses of a replay is replayed: the first `most`; and the best `climbs`
 * made better by that. */
static void
replay_some(struct hunt *hunt, int most, int climbs)
{
    if (hunt->board->published)
        return;
    int kept = 0;
    int replays = hunt->request->quick ? QUICK_REPLAYS_EACH : REPLAYS_EACH;
    int count = hunt->count < most ? hunt->count : most;
    for (int i = 0; i < hunt->count; i++) {
        struct draft *draft = hunt->drafts[i];
        if (i < count && (take_replays(hunt, draft, 1) > 0 || kept == 0) &&
            draft_replay(hunt->board, draft))
            hunt->drafts[kept++] = draft;
        else
            free(draft);
    }
    hunt->count = kept;
    sort_drafts(hunt);
    for (int i = 0; i < kept && i < climbs; i++)
        hunt->weighed +=
            climb_replayed(hunt->board, hunt->drafts[i],
                           take_replays(hunt, hunt->drafts[i], replays), (uint64_t)i + 1);
    sort_drafts(hunt);
    drop_twins(hunt);
}

/* Of a small fleet all plans are looked at. */
static void
search_all(struct hunt *hunt)
{
    if (hunt->count == HUNT_DRAFTS_MAX)
        free(hunt->drafts[--hunt->count]);
    struct draft *draft = xcalloc(1, sizeof(*draft));
    bool found = hunt->count > 0;
    if (found)
        draft_copy(hunt->drafts[0], draft);
    if (exhaust(hunt->board, draft, found, &hunt->weighed))
        hunt->drafts[hunt->count++] = draft;
    else
        free(draft);
    sort_drafts(hunt);
    drop_twins(hunt);
}

/* ---- all of it ---- */

void
hunt_init(struct hunt *hunt, const struct fleet_request *request,
          const struct fleet *fleet, enum effort effort)
{
    *hunt = (struct hunt){.request = request, .fleet = fleet, .effort = effort};
    hunt->board = board_new(request, fleet);
}

static void
clear(struct hunt *hunt)
{
    for (int i = 0; i < hunt->count; i++)
        free(hunt->drafts[i]);
    hunt->count = 0;
}

void
hunt_release(struct hunt *hunt)
{
    clear(hunt);
    board_free(hunt->board);
}

/* Where to begin, among few: is even that too far behind the rival? */
static bool
beaten_at_a_glance(struct hunt *hunt)
{
    if (!hunt->rival)
        return false;
    hunt->effort = EFFORT_FEW;
    seat_shapes(hunt);
    add_lineups(hunt);
    bool mixed = variety_of(hunt->fleet).kinds > 1;
    bool behind = beaten_seated(hunt, mixed ? reach_at_a_glance : reach_of_one_kind);
    clear(hunt);
    hunt->effort = EFFORT_WHOLE;
    return behind;
}

/* The best beginnings of parts of the fleet, over the whole of it. */
static void
start_in_parts(struct hunt *hunt)
{
    struct start starts[STARTS_MAX];
    int count = starts_list(hunt->fleet, starts);
    struct draft *draft = xcalloc(1, sizeof(*draft));
    for (int i = 0; i < count; i++) {
        int16_t pool_from[FLEET_POOLS_MAX];
        struct fleet *fleet = fleet_part(hunt->fleet, starts[i].keep, pool_from);
        struct hunt part;
        hunt_init(&part, hunt->request, fleet, EFFORT_FEW);
        seat_shapes(&part);
        for (int k = 0; k < part.count && k < START_DRAFTS; k++)
            if (draft_move(part.board, part.drafts[k], pool_from, hunt->board, draft))
                add_copy(hunt, draft);
        hunt->weighed += part.weighed;
        hunt_release(&part);
        fleet_free(fleet);
    }
    free(draft);
    sort_drafts(hunt);
    drop_twins(hunt);
}

bool
hunt_begin(struct hunt *hunt)
{
    if (beaten_at_a_glance(hunt))
        return false;
    seat_shapes(hunt);
    if (hunt->count == 0)
        go_alone(hunt);
    int pools = variety_of(hunt->fleet).pools;
    if (!exhaust_feasible(hunt->board) && hunt->request->stage_zones_count == 0 &&
        pools > 1) {
        add_lineups(hunt);
        if (pools <= HUNT_POOLS_FEW)
            start_in_parts(hunt);
    }
    return !beaten_seated(hunt, reach[0]) && climb_round(hunt, 0);
}

bool
hunt_go_on(struct hunt *hunt)
{
    return climb_round(hunt, 1);
}

bool
hunt_finish(struct hunt *hunt)
{
    for (int r = 2; r < ROUNDS; r++)
        if (!climb_round(hunt, r))
            return false;
    if (exhaust_feasible(hunt->board))
        search_all(hunt);
    replay_some(hunt, REPLAYED, REPLAY_CLIMBS);
    return true;
}

void
hunt_add(struct hunt *hunt, const struct draft *draft)
{
    add_copy(hunt, draft);
    sort_drafts(hunt);
    drop_twins(hunt);
}

void
hunt_polish(struct hunt *hunt, const struct draft *draft)
{
    if (hunt->board->published) {
        hunt_add(hunt, draft);
        climb_from(hunt, hunt->drafts[0], &rounds[ROUNDS - 1],
                   patience_quarters(variety_of(hunt->fleet)), 1);
    } else if (add_copy(hunt, draft)) {
        /* First, for it was replayed, which tells more than others' weighings. */
        struct draft *copy = hunt->drafts[hunt->count - 1];
        memmove(&hunt->drafts[1], &hunt->drafts[0],
                (size_t)(hunt->count - 1) * sizeof(struct draft *));
        hunt->drafts[0] = copy;
    }
    replay_some(hunt, POLISH_REPLAYED, POLISH_CLIMBS);
    sort_drafts(hunt);
    drop_twins(hunt);
}

void
hunt_quickly(struct hunt *hunt)
{
    seat_shapes(hunt);
    if (!(hunt->count > 0 && hunt->drafts[0]->worth.breach <= 0.0))
        fit_in(hunt);
    climb_quickly(hunt);
    replay_some(hunt, QUICK_REPLAYED, QUICK_REPLAY_CLIMBS);
}
