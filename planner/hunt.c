#include "planner/hunt.h"
#include "planner/begin.h"
#include "planner/climb.h"
#include "planner/exhaust.h"
#include "planner/fill.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIMBS_MAX = 3,       /* from a draft where much is different and pools are few, */
    CLIMB_SEEDS = 100000, /* seeds from one to the other */
    CHANCES_MAX = 3,      /* how often all climbs are made where much is different */
    CHANCE_SEEDS = 10000000,
    CHANCE_DRAFTS = 8,   /* that are kept of a further chance */
    FURTHER_DRAFTS = 96, /* that such a one, or a part with a machine less, begins with */
    REPLAYED = 48,       /* drafts that are replayed */
    REPLAY_CLIMBS = 6,   /* of which so many climb on, */
    REPLAYS_EACH = 160,  /* each with so many replays, */
    POLISH_REPLAYED = 24, /* the same where one draft goes on alone */
    POLISH_CLIMBS = 2,
    REPLAY_OPERATIONS_MAX = 80000000, /* all of no more than so many operations */
    ROUNDS = 4,
    QUICK_ROUNDS = 3,
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
/* Before its long rounds a further chance is no worse than what is known, or never will be: ten of
 * 400 ended ahead, and eight of these were as good by then. */
static const double reach_further = 1.0005;
static const struct round quick_rounds[QUICK_ROUNDS] = {
    {12, 12, 150, 0.03, false}, {4, 4, 400, 0.015, false}, {1, 1, 800, 0.005, false}};

_Static_assert(
    STARTS_MAX *START_DRAFTS + 32 * (CLIMBS_MAX - 1) <= HUNT_OTHERS_MAX,
    "what is begun in parts, and the copies of the second round, have a place");

/* ---- side by side ---- */

/* A draft that is filled, climbed from or replayed. */
struct task {
    struct hunt *hunt;
    struct draft *draft;
    int64_t tries;
    double threshold;
    int replays; /* that it may take */
    uint64_t seed;
    int64_t weighed;
    bool valid; /* it could be replayed */
};

static void
fill_one(void *arg, int item, int worker)
{
    struct task *task = (struct task *)arg + item;
    task->weighed = fill_draft(team_board(&task->hunt->team, worker), task->draft);
}

static void
climb_one(void *arg, int item, int worker)
{
    struct task *task = (struct task *)arg + item;
    task->weighed = climb(team_board(&task->hunt->team, worker), task->draft, task->tries,
                          task->threshold, task->seed);
}

static void
run_tasks(struct hunt *hunt, struct task *tasks, int count, parallel_fn fn)
{
    team_run(&hunt->team, count, fn, tasks);
    for (int i = 0; i < count; i++)
        hunt->weighed += tasks[i].weighed;
}

void
hunt_fill(struct hunt *hunt, int count)
{
    struct task *tasks = xcalloc((size_t)count + 1, sizeof(*tasks));
    for (int i = 0; i < count; i++)
        tasks[i] = (struct task){.hunt = hunt, .draft = hunt->drafts[i]};
    run_tasks(hunt, tasks, count, fill_one);
    free(tasks);
}

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

void
hunt_settle(struct hunt *hunt)
{
    sort_drafts(hunt);
    drop_twins(hunt);
}

struct variety
hunt_variety(const struct fleet *fleet)
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
    int kinds = hunt_variety(hunt->fleet).kinds;
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

static struct task
climb_task(struct hunt *hunt, struct draft *draft, const struct round *round,
           int64_t quarters, uint64_t seed)
{
    return (struct task){.hunt = hunt,
                         .draft = draft,
                         .tries = round->tries * quarters / 4,
                         .threshold = round->threshold,
                         .seed = seed};
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
    struct variety variety = hunt_variety(hunt->fleet);
    int64_t quarters = patience_quarters(variety);
    /* What stands idle costs nothing. */
    bool fills = variety.kinds > 1 && hunt->request->objective == OBJECTIVE_THROUGHPUT;
    int climbs = r > 0 ? climbs_each(hunt, variety) : 1;
    if (variety.kinds > 1)
        mix_sorts(hunt, round->of_a_sort);
    int most = r == 0 && hunt->further ? FURTHER_DRAFTS : round->drafts;
    most = hunt->count < most ? hunt->count : most;
    if (fills && round->fill)
        hunt_fill(hunt, most);
    struct task *tasks = xcalloc(HUNT_DRAFTS_MAX, sizeof(*tasks));
    int count = 0;
    for (int i = 0; i < most; i++) {
        for (int k = 0; k < climbs; k++) {
            struct draft *draft = hunt->drafts[i];
            if (k > 0)
                draft = add_copy(hunt, draft);
            if (draft)
                tasks[count++] =
                    climb_task(hunt, draft, round, quarters,
                               (uint64_t)(r * HUNT_SHAPES_MAX + i + 1 + k * CLIMB_SEEDS +
                                          hunt->chance * CHANCE_SEEDS));
        }
    }
    run_tasks(hunt, tasks, count, climb_one);
    free(tasks);
    hunt_settle(hunt);
    if (r == 1 && hunt->further && beaten(hunt, reach_further))
        return false;
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

static void
replay_one(void *arg, int item, int worker)
{
    struct task *task = (struct task *)arg + item;
    task->valid = task->replays > 0 &&
                  draft_replay(team_board(&task->hunt->team, worker), task->draft);
}

static void
climb_replayed_one(void *arg, int item, int worker)
{
    struct task *task = (struct task *)arg + item;
    task->weighed = climb_replayed(team_board(&task->hunt->team, worker), task->draft,
                                   task->replays, task->seed);
}

/* What draft_weigh() guesses of a replay is replayed: the first `most`, of which at least one is kept;
 * and the best `climbs` made better by that. */
static void
replay_some(struct hunt *hunt, int most, int climbs)
{
    if (hunt->board->published)
        return;
    int count = hunt->count < most ? hunt->count : most;
    struct task *tasks = xcalloc((size_t)most + 1, sizeof(*tasks));
    for (int i = 0; i < count; i++)
        tasks[i] = (struct task){
            .hunt = hunt,
            .draft = hunt->drafts[i],
            .replays = take_replays(hunt, hunt->drafts[i], 1),
        };
    team_run(&hunt->team, count, replay_one, tasks);
    int kept = 0;
    for (int i = 0; i < hunt->count; i++) {
        struct draft *draft = hunt->drafts[i];
        bool valid = i < count && tasks[i].valid;
        if (i < count && tasks[i].replays == 0 && kept == 0)
            valid = draft_replay(hunt->board, draft);
        if (valid)
            hunt->drafts[kept++] = draft;
        else
            free(draft);
    }
    hunt->count = kept;
    sort_drafts(hunt);
    int each = hunt->request->quick ? QUICK_REPLAYS_EACH : REPLAYS_EACH;
    climbs = climbs < kept ? climbs : kept;
    for (int i = 0; i < climbs; i++)
        tasks[i] = (struct task){
            .hunt = hunt,
            .draft = hunt->drafts[i],
            .replays = take_replays(hunt, hunt->drafts[i], each),
            .seed = (uint64_t)i + 1,
        };
    run_tasks(hunt, tasks, climbs, climb_replayed_one);
    free(tasks);
    hunt_settle(hunt);
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
    hunt_settle(hunt);
}

/* ---- all of it ---- */

void
hunt_init(struct hunt *hunt, const struct fleet_request *request,
          const struct fleet *fleet, enum effort effort)
{
    *hunt = (struct hunt){.request = request, .fleet = fleet, .effort = effort};
    hunt->board = board_new(request, fleet);
    bool whole = effort == EFFORT_WHOLE && !request->quick;
    team_init(&hunt->team, hunt->board, whole ? request->parallel : NULL);
}

static void
clear(struct hunt *hunt)
{
    for (int i = 0; i < hunt->count; i++)
        free(hunt->drafts[i]);
    for (int i = 0; i < hunt->begun_count; i++)
        free(hunt->begun[i]);
    hunt->count = 0;
    hunt->begun_count = 0;
}

void
hunt_release(struct hunt *hunt)
{
    clear(hunt);
    team_release(&hunt->team);
    board_free(hunt->board);
}

/* Where to begin, among few: is even that too far behind the rival? */
static bool
beaten_at_a_glance(struct hunt *hunt)
{
    if (!hunt->rival)
        return false;
    hunt->effort = EFFORT_FEW;
    begin_shapes(hunt);
    begin_lineups(hunt);
    bool mixed = hunt_variety(hunt->fleet).kinds > 1;
    bool behind = beaten_seated(hunt, mixed ? reach_at_a_glance : reach_of_one_kind);
    clear(hunt);
    hunt->effort = EFFORT_WHOLE;
    return behind;
}

/* How often all climbs are made, each time by other chances: more than once with kinds in several
 * zones, where money does not count. Replays take what time there is. */
static int
chances_of(const struct hunt *hunt)
{
    struct variety variety = hunt_variety(hunt->fleet);
    if (hunt->further || !hunt->board->published || hunt->board->priced ||
        variety.pools > HUNT_POOLS_FEW || exhaust_feasible(hunt->board))
        return 1;
    return variety.kinds > 1 && variety.zones > 1 ? CHANCES_MAX : 1;
}

/* All climbs once more, from where the first began; the best of both are kept. */
static void
climb_again(struct hunt *hunt, int chance)
{
    int count = hunt->count;
    struct draft **drafts = xcalloc((size_t)count + 1, sizeof(struct draft *));
    memcpy(drafts, hunt->drafts, (size_t)count * sizeof(struct draft *));
    const struct worth *rival = hunt->rival;
    hunt->rival = count > 0 ? &drafts[0]->worth : NULL;
    hunt->count = 0;
    for (int i = 0; i < hunt->begun_count; i++)
        add_copy(hunt, hunt->begun[i]);
    hunt->chance = chance;
    bool further = hunt->further;
    hunt->further = true;
    bool near = true;
    for (int r = 0; r < ROUNDS && near; r++)
        near = climb_round(hunt, r);
    hunt->chance = 0;
    hunt->further = further;
    hunt->rival = rival;
    int kept = near ? hunt->count < CHANCE_DRAFTS ? hunt->count : CHANCE_DRAFTS : 0;
    for (int i = kept; i < hunt->count; i++)
        free(hunt->drafts[i]);
    hunt->count = kept;
    for (int i = 0; i < count; i++) {
        if (hunt->count < HUNT_DRAFTS_MAX)
            hunt->drafts[hunt->count++] = drafts[i];
        else
            free(drafts[i]);
    }
    free(drafts);
    hunt_settle(hunt);
}

bool
hunt_begin(struct hunt *hunt)
{
    if (beaten_at_a_glance(hunt))
        return false;
    begin_shapes(hunt);
    if (hunt->count == 0)
        begin_alone(hunt);
    int pools = hunt_variety(hunt->fleet).pools;
    if (!exhaust_feasible(hunt->board) && hunt->request->stage_zones_count == 0 &&
        pools > 1) {
        begin_lineups(hunt);
        if (pools <= HUNT_POOLS_FEW)
            begin_parts(hunt);
    }
    if (beaten_seated(hunt, reach[0]))
        return false;
    if (chances_of(hunt) > 1) {
        for (int i = 0; i < hunt->count; i++) {
            hunt->begun[i] = xcalloc(1, sizeof(struct draft));
            draft_copy(hunt->drafts[i], hunt->begun[i]);
        }
        hunt->begun_count = hunt->count;
    }
    return climb_round(hunt, 0);
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
    for (int c = 1; c < chances_of(hunt); c++)
        climb_again(hunt, c);
    if (exhaust_feasible(hunt->board))
        search_all(hunt);
    replay_some(hunt, REPLAYED, REPLAY_CLIMBS);
    return true;
}

void
hunt_add(struct hunt *hunt, const struct draft *draft)
{
    add_copy(hunt, draft);
    hunt_settle(hunt);
}

void
hunt_polish(struct hunt *hunt, const struct draft *draft)
{
    if (hunt->board->published) {
        hunt_add(hunt, draft);
        struct task task = climb_task(hunt, hunt->drafts[0], &rounds[ROUNDS - 1],
                                      patience_quarters(hunt_variety(hunt->fleet)), 1);
        run_tasks(hunt, &task, 1, climb_one);
    } else if (add_copy(hunt, draft)) {
        /* First, for it was replayed, which tells more than others' weighings. */
        struct draft *copy = hunt->drafts[hunt->count - 1];
        memmove(&hunt->drafts[1], &hunt->drafts[0],
                (size_t)(hunt->count - 1) * sizeof(struct draft *));
        hunt->drafts[0] = copy;
    }
    replay_some(hunt, POLISH_REPLAYED, POLISH_CLIMBS);
    hunt_settle(hunt);
}

void
hunt_quickly(struct hunt *hunt)
{
    begin_shapes(hunt);
    if (!(hunt->count > 0 && hunt->drafts[0]->worth.breach <= 0.0))
        begin_wherever(hunt);
    climb_quickly(hunt);
    replay_some(hunt, QUICK_REPLAYED, QUICK_REPLAY_CLIMBS);
}
