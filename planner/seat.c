#include "planner/seat.h"
#include "transport/base/must.h"

#include <string.h>

enum { FEW_ZONES = 5, STARTS = 3 };

/* One lane: runs of stages, each in a zone; a run goes on until the next one begins. */
struct lane {
    int runs;
    int zones[FEW_ZONES];
    int begins[FEW_ZONES]; /* stages, ascending from 0 */
};

struct seater {
    const struct board *board;
    const struct shape *shape;
    bool pairs;
    int zones_count;
    int zones[ZONES_MAX]; /* that have any of the kinds */
    struct draft draft;
    struct draft *best;
    bool found;
    int64_t weighed;
};

static int
option_at(const struct seater *seater, int stage, int zone)
{
    const struct option *option = &seater->board->options[seater->shape->option[stage]];
    int pool = seater->board->pool_of[option->kind][zone];
    return pool < 0 ? -1 : seater->board->option_of[pool][option->slot];
}

static struct lane
lane_alone(int zone)
{
    return (struct lane){1, {zone}, {0}};
}

/* Stages below `turn` in one zone, the others in another. */
static struct lane
lane_pair(int zone, int other, int turn)
{
    return (struct lane){2, {zone, other}, {0, turn}};
}

static int
lane_zone(const struct lane *lane, int stage)
{
    int run = lane->runs - 1;
    while (lane->begins[run] > stage)
        run--;
    return lane->zones[run];
}

/* Put as many pipelines on a lane as there is room for, up to `most`. */
static void
lane_fill(struct seater *seater, const struct lane *lane, int *left, int most)
{
    const struct board *board = seater->board;
    const struct shape *shape = seater->shape;
    struct draft *draft = &seater->draft;
    if (most < 1 || draft->crews_count == CREWS_MAX)
        return;
    struct crew *crew = &draft->crews[draft->crews_count];
    int use[FLEET_POOLS_MAX];
    int pools[DEPTH_MAX];
    int pools_count = 0;
    for (int s = 0; s < shape->stages; s++) {
        int number = option_at(seater, s, lane_zone(lane, s));
        if (number < 0)
            return;
        const struct option *option = &board->options[number];
        crew->option[s] = (uint16_t)number;
        int p = 0;
        while (p < pools_count && pools[p] != option->pool)
            p++;
        if (p == pools_count) {
            pools[pools_count++] = option->pool;
            use[option->pool] = 0;
        }
        use[option->pool] += option->tp;
    }
    int count = most;
    for (int p = 0; p < pools_count; p++) {
        int fit = left[pools[p]] / use[pools[p]];
        count = fit < count ? fit : count;
    }
    if (count < 1)
        return;
    for (int p = 0; p < pools_count; p++)
        left[pools[p]] -= count * use[pools[p]];
    crew->count = count;
    crew->priced = false;
    draft->width += count;
    draft->crews_count++;
}

static void
begin(struct seater *seater, int *left)
{
    const struct board *board = seater->board;
    struct draft *draft = &seater->draft;
    draft->setting = seater->shape->setting;
    draft->stages = seater->shape->stages;
    draft->crews_count = 0;
    draft->width = 0;
    memcpy(draft->first, seater->shape->first, sizeof(draft->first));
    for (int p = 0; p < board->fleet->pools_count; p++)
        left[p] = board->fleet->pools[p].devices;
}

/* Weigh what is seated; keep it if it is the best. */
static bool
weigh(struct seater *seater, bool best_only, struct worth *worth)
{
    if (seater->draft.crews_count == 0)
        return false;
    seater->weighed++;
    /* Where only the best counts, what cannot win need not be weighed to its end. */
    bool below = best_only && seater->found && seater->best->worth.breach <= 0.0 &&
                 seater->board->request->objective == OBJECTIVE_THROUGHPUT;
    double most_s = below ? seater->best->iteration_s : FLEET_NEVER_S;
    if (!draft_fits(seater->board, &seater->draft) ||
        !draft_weigh_below(seater->board, &seater->draft, most_s, -1.0))
        return false;
    *worth = seater->draft.worth;
    if (!seater->found || worth_before(worth, &seater->best->worth)) {
        seater->found = true;
        draft_copy(&seater->draft, seater->best);
    }
    return true;
}

static bool
weigh_lanes(struct seater *seater, const struct lane *lanes, int count, bool best_only,
            struct worth *worth)
{
    int left[FLEET_POOLS_MAX];
    begin(seater, left);
    for (int i = 0; i < count; i++)
        lane_fill(seater, &lanes[i], left, seater->shape->width - seater->draft.width);
    return weigh(seater, best_only, worth);
}

/* May pipelines change zones before a stage? In the middle, and where the kind changes. */
static bool
turn_matters(const struct seater *seater, int turn)
{
    const struct board *board = seater->board;
    const struct shape *shape = seater->shape;
    return turn == 1 || turn == shape->stages / 2 || turn == (shape->stages + 1) / 2 ||
           board->options[shape->option[turn - 1]].kind !=
               board->options[shape->option[turn]].kind;
}

/* All ways to use each zone: not, by itself, or with a later one, this or the other way
 * round. An odometer over the zones' choices: 0 not, 1 alone, 2 + 2k and 3 + 2k with the k-th zone
 * after it. */
static void
try_all_lanes(struct seater *seater)
{
    int n = seater->zones_count;
    int turns = seater->pairs && n > 1 ? seater->shape->stages - 1 : 1;
    for (int turn = 1; turn <= turns; turn++) {
        if (turns > 1 && !turn_matters(seater, turn))
            continue;
        int choice[FEW_ZONES] = {0};
        for (;;) {
            struct lane lanes[FEW_ZONES];
            int count = 0;
            bool taken[FEW_ZONES] = {false};
            bool valid = true;
            bool pairs = false;
            for (int z = 0; z < n && valid; z++) {
                if (choice[z] == 0)
                    continue;
                int zone = seater->zones[z];
                if (taken[z]) {
                    valid = false;
                } else if (choice[z] == 1) {
                    lanes[count++] = lane_alone(zone);
                } else {
                    int other = z + 1 + (choice[z] - 2) / 2;
                    pairs = true;
                    valid =
                        choice[other] == 0 && !taken[other] && seater->shape->stages > 1;
                    if (!valid)
                        break;
                    taken[other] = true;
                    int there = seater->zones[other];
                    lanes[count++] = choice[z] % 2 == 0 ? lane_pair(zone, there, turn)
                                                        : lane_pair(there, zone, turn);
                }
            }
            struct worth worth;
            if (valid && count > 0 && (pairs || turn == 1))
                weigh_lanes(seater, lanes, count, true, &worth);
            int z = 0;
            while (z < n && ++choice[z] == 2 + (seater->pairs ? 2 * (n - 1 - z) : 0))
                choice[z++] = 0;
            if (z == n)
                break;
        }
    }
}

/* Pipelines that go through three zones or more, in every order of the zones, the stages
 * divided evenly; what other zones have goes on lanes of its own, or stays unused. */
static void
try_trains(struct seater *seater)
{
    int n = seater->zones_count < FEW_ZONES ? seater->zones_count : FEW_ZONES;
    int most = n < seater->shape->stages ? n : seater->shape->stages;
    for (int runs = 3; runs <= most; runs++) {
        int codes = 1;
        for (int r = 0; r < runs; r++)
            codes *= n;
        for (int code = 0; code < codes; code++) {
            struct lane lanes[FEW_ZONES] = {{.runs = runs}};
            bool taken[FEW_ZONES] = {false};
            bool valid = true;
            for (int r = 0, rest = code; r < runs && valid; r++, rest /= n) {
                int z = rest % n;
                valid = !taken[z];
                taken[z] = true;
                lanes[0].zones[r] = seater->zones[z];
                lanes[0].begins[r] = seater->shape->stages * r / runs;
            }
            int count = 1;
            for (int z = 0; z < n; z++)
                if (!taken[z])
                    lanes[count++] = lane_alone(seater->zones[z]);
            struct worth worth;
            if (!valid)
                continue;
            weigh_lanes(seater, lanes, 1, true, &worth);
            if (count > 1)
                weigh_lanes(seater, lanes, count, true, &worth);
        }
    }
}

/* Add lanes one by one, each time the one that helps most, until none does. */
static void
grow_lanes(struct seater *seater, int start)
{
    struct lane lanes[ZONES_MAX];
    bool used[ZONES_MAX] = {false};
    lanes[0] = lane_alone(seater->zones[start]);
    used[start] = true;
    struct worth worth;
    bool any = weigh_lanes(seater, lanes, 1, false, &worth);
    for (int count = 1; count < seater->zones_count; count++) {
        int next = -1;
        struct worth best = worth;
        for (int z = 0; z < seater->zones_count; z++) {
            if (used[z])
                continue;
            lanes[count] = lane_alone(seater->zones[z]);
            struct worth with;
            if (!weigh_lanes(seater, lanes, count + 1, false, &with) ||
                (any && !worth_before(&with, &best)))
                continue;
            best = with;
            any = true;
            next = z;
        }
        if (next < 0)
            return;
        worth = best;
        used[next] = true;
        lanes[count] = lane_alone(seater->zones[next]);
    }
}

/* The zone for a stage of the next pipeline: that of the stage before if it has room, else
 * the one with the most room that is joined to it. */
static int
roomiest(const struct seater *seater, const int *left, int stage, int before)
{
    const struct board *board = seater->board;
    const struct setting *setting = &board->settings[seater->shape->setting];
    int best = -1;
    for (int i = 0; i < seater->zones_count; i++) {
        int number = option_at(seater, stage, seater->zones[i]);
        if (number < 0)
            continue;
        const struct option *option = &board->options[number];
        if (left[option->pool] < option->tp)
            continue;
        if (before >= 0) {
            const struct option *last = &board->options[before];
            if (board_send_s(board, setting, last, option, 0) >= FLEET_NEVER_S ||
                board_send_s(board, setting, option, last, 0) >= FLEET_NEVER_S)
                continue;
            if (board->fleet->pools[last->pool].zone == seater->zones[i])
                return number;
        }
        if (best < 0 || left[option->pool] > left[board->options[best].pool])
            best = number;
    }
    return best;
}

static void
fill_stage_by_stage(struct seater *seater)
{
    int left[FLEET_POOLS_MAX];
    begin(seater, left);
    struct draft *draft = &seater->draft;
    while (draft->width < seater->shape->width) {
        struct crew crew = {.count = 1};
        bool whole = true;
        for (int s = 0; s < draft->stages && whole; s++) {
            int option = roomiest(seater, left, s, s > 0 ? crew.option[s - 1] : -1);
            whole = option >= 0;
            if (!whole)
                break;
            crew.option[s] = (uint16_t)option;
            left[seater->board->options[option].pool] -=
                seater->board->options[option].tp;
        }
        if (!whole)
            break;
        draft->width++;
        int c = 0;
        while (c < draft->crews_count &&
               memcmp(draft->crews[c].option, crew.option, sizeof(crew.option)) != 0)
            c++;
        if (c == CREWS_MAX) {
            draft->width--;
            break;
        }
        if (c == draft->crews_count) {
            draft->crews[draft->crews_count++] = crew;
            continue;
        }
        draft->crews[c].count++;
    }
    struct worth worth;
    weigh(seater, true, &worth);
}

bool
shape_seat(const struct board *board, const struct shape *shape, bool pairs,
           struct draft *out, int64_t *weighed)
{
    struct seater seater;
    seater.board = board;
    seater.shape = shape;
    seater.best = out;
    seater.found = false;
    seater.pairs = pairs && shape->stages > 1;
    seater.weighed = 0;
    seater.zones_count = 0;
    for (int z = 0; z < board->fleet->zones_count; z++) {
        bool any = false;
        for (int s = 0; s < shape->stages && !any; s++)
            any = option_at(&seater, s, z) >= 0;
        if (any)
            seater.zones[seater.zones_count++] = z;
    }
    if (seater.zones_count <= FEW_ZONES) {
        try_all_lanes(&seater);
    } else {
        for (int start = 0; start < STARTS; start++)
            grow_lanes(&seater, start);
    }
    if (seater.pairs)
        try_trains(&seater);
    fill_stage_by_stage(&seater);
    *weighed += seater.weighed;
    return seater.found;
}
