#include "planner/climb.h"
#include "planner/cut.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"

#include <string.h>

enum { BALANCE_STEPS = 12, RING_WORK_A_TRY = 12 };

struct climber {
    const struct board *board;
    uint64_t random;
    struct draft here;
    struct draft next;
    struct draft best;
    int used[FLEET_POOLS_MAX];
    int64_t weighed;
};

/* A number below `bound`. xorshift64* (Vigna, 2016): chance here needs speed, not
 * quality. */
static int
below(struct climber *climber, int bound)
{
    climber->random ^= climber->random >> 12;
    climber->random ^= climber->random << 25;
    climber->random ^= climber->random >> 27;
    uint64_t word = (climber->random * UINT64_C(2685821657736338717)) >> 32;
    return (int)((word * (uint64_t)bound) >> 32);
}

/* ---- parts of changes ---- */

static void
crew_drop(struct draft *draft, int crew)
{
    draft->width -= draft->crews[crew].count;
    for (int c = crew; c + 1 < draft->crews_count; c++)
        draft->crews[c] = draft->crews[c + 1];
    draft->crews_count--;
}

/* One like `crew` with `count` pipelines, taken from it; its number, -1: no room. */
static int
crew_split(struct draft *draft, int crew, int count)
{
    if (count >= draft->crews[crew].count)
        return crew;
    if (draft->crews_count == CREWS_MAX)
        return -1;
    int number = draft->crews_count++;
    draft->crews[number] = draft->crews[crew];
    draft->crews[number].count = count;
    draft->crews[crew].count -= count;
    return number;
}

/* Crews that became alike are one again. */
static void
crews_merge(struct draft *draft)
{
    size_t bytes = (size_t)draft->stages * sizeof(draft->crews[0].option[0]);
    for (int a = 0; a < draft->crews_count; a++) {
        const uint16_t *option = draft->crews[a].option;
        for (int b = draft->crews_count - 1; b > a; b--) {
            if (option[0] != draft->crews[b].option[0] ||
                memcmp(option, draft->crews[b].option, bytes) != 0)
                continue;
            draft->crews[a].count += draft->crews[b].count;
            draft->width += draft->crews[b].count;
            crew_drop(draft, b);
        }
    }
}

/* Pipelines are dropped, of crews by chance, until no pool is overdrawn. */
static bool
fit_pools(struct climber *climber)
{
    struct draft *draft = &climber->next;
    const struct board *board = climber->board;
    draft_used(board, draft, climber->used);
    for (int p = 0; p < board->fleet->pools_count; p++) {
        while (climber->used[p] > board->fleet->pools[p].devices) {
            int start = below(climber, draft->crews_count);
            int crew = -1;
            int use = 0;
            for (int i = 0; i < draft->crews_count && crew < 0; i++) {
                int c = (start + i) % draft->crews_count;
                use = 0;
                for (int s = 0; s < draft->stages; s++) {
                    const struct option *option =
                        &board->options[draft->crews[c].option[s]];
                    use += option->pool == p ? option->tp : 0;
                }
                if (use > 0)
                    crew = c;
            }
            must(crew >= 0);
            int over = climber->used[p] - board->fleet->pools[p].devices;
            int drop = (over + use - 1) / use;
            if (drop > draft->crews[crew].count)
                drop = draft->crews[crew].count;
            for (int s = 0; s < draft->stages; s++) {
                const struct option *option =
                    &board->options[draft->crews[crew].option[s]];
                climber->used[option->pool] -= drop * option->tp;
            }
            draft->crews[crew].count -= drop;
            draft->width -= drop;
            if (draft->crews[crew].count == 0)
                crew_drop(draft, crew);
            if (draft->width == 0)
                return false;
        }
    }
    return true;
}

/* How many more pipelines like `crew` the pools have room for; climber->used is up to
 * date. */
static int
room_for(const struct climber *climber, const struct crew *crew, int stages)
{
    const struct board *board = climber->board;
    int most = FLEET_DEVICES_MAX;
    for (int s = 0; s < stages && most > 0; s++) {
        int pool = board->options[crew->option[s]].pool;
        int left = board->fleet->pools[pool].devices - climber->used[pool];
        if (left < 1)
            return 0;
        int use = 0;
        for (int t = 0; t < stages; t++) {
            const struct option *other = &board->options[crew->option[t]];
            use += other->pool == pool ? other->tp : 0;
        }
        if (left < most * use)
            most = left / use;
    }
    return most;
}

/* What the pools have left goes to crews that are there, from one by chance on;
 * climber->used is up to date. */
static void
refill(struct climber *climber)
{
    struct draft *draft = &climber->next;
    const struct board *board = climber->board;
    int most = board->settings[draft->setting].total - draft->width;
    int start = below(climber, draft->crews_count);
    for (int i = 0; i < draft->crews_count && most > 0; i++) {
        int c =
            start + i < draft->crews_count ? start + i : start + i - draft->crews_count;
        struct crew *crew = &draft->crews[c];
        int room = room_for(climber, crew, draft->stages);
        room = room < most ? room : most;
        if (room < 1)
            continue;
        crew->count += room;
        draft->width += room;
        most -= room;
        for (int s = 0; s < draft->stages; s++) {
            const struct option *option = &board->options[crew->option[s]];
            climber->used[option->pool] += room * option->tp;
        }
    }
}

/* Some option near another: the same pool with another degree, the same kind elsewhere, or
 * any. */
static int
some_option(struct climber *climber, int near)
{
    const struct board *board = climber->board;
    const struct option *option = &board->options[near];
    int way = below(climber, 4);
    if (way == 0) {
        int number = board->option_of[option->pool][below(climber, TP_SLOTS)];
        if (number >= 0)
            return number;
    }
    if (way == 1) {
        int pool = below(climber, board->fleet->pools_count);
        int number = board->option_of[pool][option->slot];
        if (number >= 0)
            return number;
    }
    return below(climber, board->options_count);
}

static int
some_crew(struct climber *climber)
{
    return below(climber, climber->next.crews_count);
}

static int
some_stage(struct climber *climber)
{
    return below(climber, climber->next.stages);
}

/* One of a crew's pipelines, or some, or all. */
static int
some_count(struct climber *climber, int crew)
{
    int count = climber->next.crews[crew].count;
    int way = below(climber, 3);
    return way == 0 ? count : way == 1 ? 1 : 1 + below(climber, count);
}

/* ---- changes: each false if there is nothing to change ---- */

static bool
move_cut(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->stages < 2)
        return false;
    int stage = 1 + below(climber, draft->stages - 1);
    int by = 1 + (below(climber, 4) == 0 ? below(climber, 3) : 0);
    int to = draft->first[stage] + (below(climber, 2) ? by : -by);
    if (to <= draft->first[stage - 1] || to >= draft->first[stage + 1])
        return false;
    draft->first[stage] = (int16_t)to;
    draft_stale(draft);
    return true;
}

/* Two cuts at once: a stage's layers move by one. */
static bool
move_two_cuts(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->stages < 3)
        return false;
    int a = 1 + below(climber, draft->stages - 1);
    int b = 1 + below(climber, draft->stages - 1);
    draft->first[a] = (int16_t)(draft->first[a] + (below(climber, 2) ? 1 : -1));
    draft->first[b] = (int16_t)(draft->first[b] + (below(climber, 2) ? 1 : -1));
    for (int s = 0; s < draft->stages; s++)
        if (draft->first[s + 1] <= draft->first[s])
            return false;
    draft_stale(draft);
    return true;
}

static bool
add_pipelines(struct climber *climber)
{
    struct draft *draft = &climber->next;
    int crew = some_crew(climber);
    draft_used(climber->board, draft, climber->used);
    int room = room_for(climber, &draft->crews[crew], draft->stages);
    if (room < 1)
        return false;
    int count = below(climber, 3) == 0 ? room : 1;
    draft->crews[crew].count += count;
    draft->width += count;
    return true;
}

static bool
drop_pipelines(struct climber *climber)
{
    struct draft *draft = &climber->next;
    int crew = some_crew(climber);
    int count = draft->crews[crew].count;
    int drop = below(climber, 4) == 0 ? 1 + below(climber, count) : 1;
    if (drop >= draft->width)
        return false;
    if (drop >= count) {
        crew_drop(draft, crew);
        return true;
    }
    draft->crews[crew].count -= drop;
    draft->width -= drop;
    return true;
}

/* Some of a crew's pipelines get another option at one stage. */
static bool
change_option(struct climber *climber)
{
    struct draft *draft = &climber->next;
    int crew = some_crew(climber);
    int count = draft->crews[crew].count;
    int way = below(climber, 3);
    int take = way == 0 ? count : way == 1 ? 1 : 1 + below(climber, count);
    int stage = some_stage(climber);
    int option = some_option(climber, draft->crews[crew].option[stage]);
    if (option == draft->crews[crew].option[stage])
        return false;
    int number = crew_split(draft, crew, take);
    if (number < 0)
        return false;
    draft->crews[number].option[stage] = (uint16_t)option;
    draft->crews[number].priced = false;
    return true;
}

/* All stages of some pipelines that are on one pool go to another. */
static bool
change_pool(struct climber *climber)
{
    struct draft *draft = &climber->next;
    const struct board *board = climber->board;
    int crew = some_crew(climber);
    int count = draft->crews[crew].count;
    int take = below(climber, 2) ? count : 1 + below(climber, count);
    int from = board->options[draft->crews[crew].option[some_stage(climber)]].pool;
    int to = below(climber, board->fleet->pools_count);
    if (to == from)
        return false;
    int number = crew_split(draft, crew, take);
    if (number < 0)
        return false;
    for (int s = 0; s < draft->stages; s++) {
        const struct option *option = &board->options[draft->crews[number].option[s]];
        if (option->pool != from)
            continue;
        int other = board->option_of[to][option->slot];
        if (other < 0)
            return false;
        draft->crews[number].option[s] = (uint16_t)other;
    }
    draft->crews[number].priced = false;
    return true;
}

/* One stage gets another degree in all crews with a kind. */
static bool
change_degree(struct climber *climber)
{
    struct draft *draft = &climber->next;
    const struct board *board = climber->board;
    int stage = some_stage(climber);
    int kind = board->options[draft->crews[some_crew(climber)].option[stage]].kind;
    int slot = below(climber, TP_SLOTS);
    bool changed = false;
    bool all = below(climber, 2) == 0; /* at all stages */
    for (int c = 0; c < draft->crews_count; c++) {
        for (int s = 0; s < draft->stages; s++) {
            const struct option *option = &board->options[draft->crews[c].option[s]];
            if (option->kind != kind || option->slot == slot || (!all && s != stage))
                continue;
            int other = board->option_of[option->pool][slot];
            if (other < 0)
                return false;
            draft->crews[c].option[s] = (uint16_t)other;
            draft->crews[c].priced = false;
            changed = true;
        }
    }
    return changed;
}

/* A new crew from what is left. */
static bool
add_crew(struct climber *climber)
{
    struct draft *draft = &climber->next;
    const struct board *board = climber->board;
    if (draft->crews_count == CREWS_MAX)
        return false;
    draft_used(board, draft, climber->used);
    struct crew *crew = &draft->crews[draft->crews_count];
    crew->priced = false;
    int last = below(climber, board->options_count);
    for (int s = 0; s < draft->stages; s++) {
        if (below(climber, 3) == 0)
            last = some_option(climber, last);
        crew->option[s] = (uint16_t)last;
    }
    int room = room_for(climber, crew, draft->stages);
    if (room < 1)
        return false;
    crew->count = below(climber, 2) ? room : 1 + below(climber, room);
    draft->width += crew->count;
    draft->crews_count++;
    return true;
}

/* Pipelines of one crew become pipelines of another. */
static bool
trade_pipelines(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->crews_count < 2)
        return false;
    int from = some_crew(climber);
    int to = some_crew(climber);
    if (from == to)
        return false;
    int count = 1 + below(climber, draft->crews[from].count);
    draft->crews[from].count -= count;
    draft->width -= count;
    draft_used(climber->board, draft, climber->used);
    int room = room_for(climber, &draft->crews[to], draft->stages);
    draft->crews[to].count += room;
    draft->width += room;
    if (draft->crews[from].count == 0)
        crew_drop(draft, from);
    return room > 0;
}

/* Two stages exchange their options: in all crews, in one, or in some of its pipelines. */
static bool
swap_stages(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->stages < 2)
        return false;
    int a = some_stage(climber);
    int b = some_stage(climber);
    if (a == b)
        return false;
    int only = below(climber, 2) ? -1 : some_crew(climber);
    if (only >= 0 && below(climber, 2)) {
        only = crew_split(draft, only, some_count(climber, only));
        if (only < 0)
            return false;
    }
    for (int c = 0; c < draft->crews_count; c++) {
        if (only >= 0 && c != only)
            continue;
        struct crew *crew = &draft->crews[c];
        uint16_t kept = crew->option[a];
        crew->option[a] = crew->option[b];
        crew->option[b] = kept;
        crew->priced = false;
    }
    return true;
}

/* Pipelines of two crews go on with each other's options from some stage on, or exchange
 * those of one stage. */
static bool
cross_crews(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->crews_count < 2)
        return false;
    int a = some_crew(climber);
    int b = some_crew(climber);
    if (a == b)
        return false;
    int count =
        some_count(climber, draft->crews[a].count < draft->crews[b].count ? a : b);
    int from = some_stage(climber);
    int end = below(climber, 2) ? from + 1 : draft->stages;
    int one = crew_split(draft, a, count);
    int other = crew_split(draft, b, count);
    if (one < 0 || other < 0)
        return false;
    bool changed = false;
    for (int s = from; s < end; s++) {
        uint16_t kept = draft->crews[one].option[s];
        draft->crews[one].option[s] = draft->crews[other].option[s];
        draft->crews[other].option[s] = kept;
        changed = changed || draft->crews[one].option[s] != kept;
    }
    draft->crews[one].priced = false;
    draft->crews[other].priced = false;
    return changed;
}

static bool
change_setting(struct climber *climber)
{
    struct draft *draft = &climber->next;
    int setting = below(climber, climber->board->settings_count);
    if (setting == draft->setting)
        return false;
    draft->setting = setting;
    draft_stale(draft);
    int total = climber->board->settings[setting].total;
    while (draft->width > total) {
        int crew = some_crew(climber);
        int drop = draft->width - total;
        if (drop >= draft->crews[crew].count && draft->crews_count == 1)
            return false;
        if (drop >= draft->crews[crew].count) {
            crew_drop(draft, crew);
            continue;
        }
        draft->crews[crew].count -= drop;
        draft->width -= drop;
    }
    return true;
}

/* A stage becomes two, or two become one. */
static bool
change_depth(struct climber *climber)
{
    struct draft *draft = &climber->next;
    int stage = some_stage(climber);
    if (below(climber, 2)) {
        int layers = draft->first[stage + 1] - draft->first[stage];
        if (draft->stages == DEPTH_MAX || layers < 2)
            return false;
        for (int s = draft->stages; s >= stage; s--)
            draft->first[s + 1] = draft->first[s];
        draft->first[stage + 1] =
            (int16_t)(draft->first[stage] + 1 + below(climber, layers - 1));
        int option =
            below(climber, 2) ? -1 : below(climber, climber->board->options_count);
        for (int c = 0; c < draft->crews_count; c++) {
            uint16_t *options = draft->crews[c].option;
            for (int s = draft->stages; s > stage; s--)
                options[s] = options[s - 1];
            if (option >= 0)
                options[stage + below(climber, 2)] = (uint16_t)option;
        }
        draft->stages++;
    } else {
        if (draft->stages < 2)
            return false;
        int gone = stage > 0 && below(climber, 2) ? stage : stage + 1;
        if (gone >= draft->stages)
            return false;
        for (int s = gone; s < draft->stages; s++)
            draft->first[s] = draft->first[s + 1];
        int option = below(climber, 2) ? gone : gone - 1;
        for (int c = 0; c < draft->crews_count; c++)
            for (int s = option; s + 1 < draft->stages; s++)
                draft->crews[c].option[s] = draft->crews[c].option[s + 1];
        draft->stages--;
    }
    draft_stale(draft);
    return true;
}

/* Cut the layers anew for one crew. */
static bool
cut_anew(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->stages < 2)
        return false;
    const struct crew *crew = &draft->crews[some_crew(climber)];
    if (!cut_layers(climber->board, draft->setting, draft->stages, crew->option,
                    crew->each > 0 ? crew->each : 1, draft->width, draft->first))
        return false;
    draft_stale(draft);
    return true;
}

static double
stage_busy_s(const struct climber *climber, const struct crew *crew, int stage)
{
    const struct board *board = climber->board;
    const struct draft *draft = &climber->next;
    return board_leg(board, &board->settings[draft->setting], draft->stages,
                     stage > 0 ? &board->options[crew->option[stage - 1]] : NULL,
                     &board->options[crew->option[stage]],
                     stage + 1 < draft->stages ? &board->options[crew->option[stage + 1]]
                                               : NULL,
                     draft->first[stage], draft->first[stage + 1])
        .busy_s;
}

/* Layers move from the slowest stage of a crew towards its fastest, as long as that helps. */
static void
balance(struct climber *climber)
{
    struct draft *draft = &climber->next;
    if (draft->stages < 2)
        return;
    const struct crew *crew = &draft->crews[some_crew(climber)];
    for (int s = 0; s < draft->stages; s++)
        if (!board_measured(&climber->board->settings[draft->setting],
                            &climber->board->options[crew->option[s]]))
            return;
    double before_s = FLEET_NEVER_S;
    int16_t kept[DEPTH_MAX + 1];
    memcpy(kept, draft->first, sizeof(kept));
    for (int i = 0; i < BALANCE_STEPS; i++) {
        int slowest = 0;
        int fastest = 0;
        double most_s = -1.0;
        double least_s = FLEET_NEVER_S;
        for (int s = 0; s < draft->stages; s++) {
            double busy_s = stage_busy_s(climber, crew, s);
            if (busy_s > most_s) {
                most_s = busy_s;
                slowest = s;
            }
            if (busy_s < least_s) {
                least_s = busy_s;
                fastest = s;
            }
        }
        if (!(most_s < before_s)) {
            memcpy(draft->first, kept, sizeof(kept));
            break;
        }
        before_s = most_s;
        memcpy(kept, draft->first, sizeof(kept));
        if (draft->first[slowest + 1] - draft->first[slowest] < 2 || slowest == fastest)
            break;
        for (int s = slowest + 1; s <= fastest; s++)
            draft->first[s]--;
        for (int s = fastest + 1; s <= slowest; s++)
            draft->first[s]++;
    }
    draft_stale(draft);
}

static bool
change(struct climber *climber)
{
    static bool (*const changes[])(struct climber *) = {
        move_cut,        move_cut,       move_cut,       move_two_cuts, add_pipelines,
        add_pipelines,   drop_pipelines, change_option,  change_option, change_option,
        change_pool,     change_degree,  add_crew,       add_crew,      trade_pipelines,
        trade_pipelines, swap_stages,    change_setting, change_depth,  cross_crews,
    };
    enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };
    int rounds = below(climber, 4) == 0 ? 2 : 1;
    bool changed = false;
    for (int i = 0; i < rounds; i++) {
        bool (*next)(struct climber *) = changes[below(climber, CHANGES)];
        if (below(climber, 512) == 0)
            next = cut_anew;
        if (!next(climber))
            return false;
        changed = true;
    }
    if (below(climber, 4) == 0)
        balance(climber);
    return changed;
}

/* ---- the climb ---- */

int64_t
climb(const struct board *board, struct draft *draft, int64_t tries, double threshold,
      uint64_t seed)
{
    struct climber climber;
    climber.board = board;
    climber.random = rng_mix(seed, UINT64_C(0x9e3779b97f4a7c15)) | 1;
    climber.weighed = 0;
    draft_copy(draft, &climber.here);
    draft_copy(draft, &climber.best);
    /* Money is better left, and a quick search has too few tries for both ways. */
    bool refills = !board->priced && !board->request->quick;
    double energy_here = worth_energy(&climber.here.worth);
    for (int64_t i = 0; i < tries; i += 1 + climber.next.ring_work / RING_WORK_A_TRY) {
        draft_copy(&climber.here, &climber.next);
        climber.next.ring_work = 0;
        if (!change(&climber))
            continue;
        crews_merge(&climber.next);
        if (!fit_pools(&climber))
            continue;
        if (refills && below(&climber, 3) > 0)
            refill(&climber);
        if (!draft_fits(board, &climber.next))
            continue;
        climber.weighed++;
        double slack = threshold * (double)(tries - i) / (double)tries;
        bool timed = board->request->objective == OBJECTIVE_THROUGHPUT;
        double most_s = timed ? climber.here.iteration_s * (1.0 + 1e-9) : FLEET_NEVER_S;
        if (!draft_weigh_below(board, &climber.next, most_s, energy_here * (1.0 + slack)))
            continue;
        double energy_next = worth_energy(&climber.next.worth);
        if (energy_next > energy_here * (1.0 + slack) &&
            !worth_before(&climber.next.worth, &climber.here.worth))
            continue;
        draft_copy(&climber.next, &climber.here);
        energy_here = energy_next;
        if (worth_before(&climber.here.worth, &climber.best.worth))
            draft_copy(&climber.here, &climber.best);
    }
    draft_copy(&climber.best, draft);
    return climber.weighed;
}

enum { TRIES_A_REPLAY = 8 };

int64_t
climb_replayed(const struct board *board, struct draft *draft, int replays, uint64_t seed)
{
    struct climber climber;
    climber.board = board;
    climber.random = rng_mix(seed, UINT64_C(0x9e3779b97f4a7c15)) | 1;
    climber.weighed = 0;
    draft_copy(draft, &climber.here);
    draft_copy(draft, &climber.next);
    int done = 0;
    if (!draft_weigh(board, &climber.next))
        return 0;
    double guess_here = worth_energy(&climber.next.worth);
    for (int i = 0; i < replays * TRIES_A_REPLAY && done < replays; i++) {
        draft_copy(&climber.here, &climber.next);
        if (!change(&climber))
            continue;
        crews_merge(&climber.next);
        if (!fit_pools(&climber) || !draft_fits(board, &climber.next))
            continue;
        climber.weighed++;
        if (!draft_weigh(board, &climber.next))
            continue;
        double guess = worth_energy(&climber.next.worth);
        if (guess > guess_here * (1.0 + CLIMB_DOUBT))
            continue;
        done++;
        if (!draft_replay(board, &climber.next) ||
            !worth_before(&climber.next.worth, &climber.here.worth))
            continue;
        draft_copy(&climber.next, &climber.here);
        guess_here = guess;
    }
    draft_copy(&climber.here, draft);
    return climber.weighed;
}
