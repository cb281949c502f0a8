#include "planner/lineup.h"
#include "planner/cut.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    POOLS_MAX = 64, /* that are looked at; of more, the first */
    ITEMS_MAX = 12, /* pools and groups of pools; of more, the strongest */
    BLOCKS_MAX = 5, /* items that a pipeline goes through */
    EACH_MAX = 12,  /* devices of an item in one pipeline, where widths are listed */
    WIDTHS_MAX = ITEMS_MAX * EACH_MAX,
    GUESSES_MAX = 96,
    ALIKE_MAX = 6,    /* guesses of one setting and depth */
    KEPT_ALIKE = 4,   /* drafts of one setting and depth */
    PACE_STEPS = 14,  /* of bisection */
    WORK_MAX = 300000 /* guesses in all */
};

/* A pool, or pools of one kind that are near to each other. */
struct item {
    int kind;
    int devices;
    uint64_t pools;
    double rate;        /* whole models that all devices compute in a second */
    int32_t curve;      /* the slowest between its devices; -1: they are not all joined */
    bool has[TP_SLOTS]; /* degrees that all of it has in the setting */
};

/* Consecutive stages in an item: some of a degree, then some of half of it or less. */
struct block {
    int item;
    int stages[2];
    int slot[2];
};

struct guess {
    double seconds;
    int setting;
    int width;
    int stages;
    int count;
    struct block blocks[BLOCKS_MAX];
};

/* What there is to say of a kind and degree in a setting. */
struct power {
    double all_s; /* the whole model, forward and backward; 0: not measured */
    double most;  /* share of the layers that one stage has room for */
};

struct lineup {
    const struct board *board;
    int setting;
    int width;
    int items_count;
    struct item items[ITEMS_MAX];
    struct power power[FLEET_KINDS_MAX][TP_SLOTS];
    double within_s[ITEMS_MAX]; /* an activation and a gradient between devices */
    double between_s[ITEMS_MAX][ITEMS_MAX]; /* the same between items */
    struct guess now;
    int work;
    int count;
    struct guess guesses[GUESSES_MAX]; /* best first */
};

/* ---- items ---- */

/* The first option that a pool has; NULL: it has none. */
static const struct option *
some_option(const struct board *board, int pool)
{
    for (int slot = 0; slot < TP_SLOTS; slot++)
        if (board->option_of[pool][slot] >= 0)
            return &board->options[board->option_of[pool][slot]];
    return NULL;
}

/* The slowest pair of neighbours that pools of two sets can be, for a ring of a few; -1: they are
 * not all joined. */
static int32_t
slowest_curve(const struct board *board, uint64_t from, uint64_t to)
{
    int32_t slowest = -1;
    double worst_s = 0.0;
    double bytes = board->weight_bytes[board->layers] / 8.0;
    int count =
        board->fleet->pools_count < POOLS_MAX ? board->fleet->pools_count : POOLS_MAX;
    for (int a = 0; a < count; a++) {
        for (int b = 0; b < count; b++) {
            if (!(from >> a & 1) || !(to >> b & 1))
                continue;
            int32_t curve = *fleet_link(board->fleet, a, 0, b, 0);
            if (curve < 0)
                return -1;
            double here_s = board_ring_s(board, curve, bytes, 8, 1);
            if (slowest < 0 || here_s > worst_s) {
                slowest = curve;
                worst_s = here_s;
            }
        }
    }
    return slowest;
}

static void
add_item(struct lineup *lineup, const struct item *item)
{
    int at = lineup->items_count;
    while (at > 0 && item->rate > lineup->items[at - 1].rate)
        at--;
    if (at == ITEMS_MAX)
        return;
    lineup->items_count += lineup->items_count < ITEMS_MAX;
    for (int i = lineup->items_count - 1; i > at; i--)
        lineup->items[i] = lineup->items[i - 1];
    lineup->items[at] = *item;
}

/* Pools of a kind, whose devices have this rate, by themselves; then the two groups that are nearest to each other become one,
 * until there is but one. */
static void
group_kind(struct lineup *lineup, int kind, double rate)
{
    const struct board *board = lineup->board;
    struct item groups[POOLS_MAX];
    int count = 0;
    for (int p = 0; p < board->fleet->pools_count && p < POOLS_MAX; p++) {
        const struct fleet_pool *pool = &board->fleet->pools[p];
        if (pool->kind != kind || pool->devices < 1 || !(rate > 0.0))
            continue;
        struct item *item = &groups[count++];
        item->kind = kind;
        item->devices = pool->devices;
        item->pools = UINT64_C(1) << p;
        item->rate = rate * (double)pool->devices;
        item->curve = slowest_curve(board, item->pools, item->pools);
        add_item(lineup, item);
    }
    while (count > 1) {
        int left = -1;
        int right = -1;
        double nearest_s = FLEET_NEVER_S;
        double bytes = board->weight_bytes[board->layers] / 8.0;
        for (int a = 0; a < count; a++) {
            for (int b = 0; b < a; b++) {
                uint64_t both = groups[a].pools | groups[b].pools;
                int32_t curve = slowest_curve(board, both, both);
                double here_s =
                    curve < 0 ? FLEET_NEVER_S : board_ring_s(board, curve, bytes, 8, 1);
                if (!(here_s < nearest_s))
                    continue;
                nearest_s = here_s;
                left = b;
                right = a;
            }
        }
        if (left < 0)
            break;
        struct item *item = &groups[left];
        item->devices += groups[right].devices;
        item->pools |= groups[right].pools;
        item->rate += groups[right].rate;
        item->curve = slowest_curve(board, item->pools, item->pools);
        groups[right] = groups[--count];
        add_item(lineup, item);
    }
}

static void
measure_kinds(struct lineup *lineup)
{
    const struct board *board = lineup->board;
    const struct setting *setting = &board->settings[lineup->setting];
    int layers = board->layers;
    memset(lineup->power, 0, sizeof(lineup->power));
    for (int p = 0; p < board->fleet->pools_count && p < POOLS_MAX; p++) {
        for (int slot = 0; slot < TP_SLOTS; slot++) {
            int number = board->option_of[p][slot];
            if (number < 0 || !board_measured(setting, &board->options[number]))
                continue;
            const struct option *option = &board->options[number];
            struct power *power = &lineup->power[option->kind][slot];
            if (power->all_s > 0.0)
                continue;
            int first = layers > 2;
            int fit = 0;
            while (first + fit < layers &&
                   board_bytes(board, setting, option, 2, 2, first, first + fit + 1) <=
                       board_room(board, option))
                fit++;
            power->most = (double)fit / (double)layers;
            power->all_s = board_compute_s(setting, option, 0, layers);
            if (fit == 0 || !(power->all_s > 1e-12))
                power->all_s = 0.0;
        }
    }
}

static double
passed_s(const struct lineup *lineup, int from, int to)
{
    const struct board *board = lineup->board;
    const struct setting *setting = &board->settings[lineup->setting];
    double least_s = FLEET_NEVER_S;
    for (int a = 0; a < board->fleet->pools_count && a < POOLS_MAX; a++) {
        for (int b = 0; b < board->fleet->pools_count && b < POOLS_MAX; b++) {
            if (!(lineup->items[from].pools >> a & 1) ||
                !(lineup->items[to].pools >> b & 1))
                continue;
            const struct option *here = some_option(board, a);
            const struct option *there = some_option(board, b);
            if (!here || !there)
                continue;
            double seconds =
                board_activation_s(board, setting, here, there, board->layers / 2) +
                board_gradient_s(board, setting, here, there, board->layers / 2);
            least_s = seconds < least_s ? seconds : least_s;
        }
    }
    return least_s;
}

/* What a device of a kind computes at best, in micro-batches a second. */
static double
device_rate(const struct lineup *lineup, int kind)
{
    double rate = 0.0;
    for (int slot = 0; slot < TP_SLOTS; slot++) {
        double all_s = lineup->power[kind][slot].all_s;
        double here = all_s > 0.0 ? 1.0 / (all_s * (double)(1 << slot)) : 0.0;
        rate = here > rate ? here : rate;
    }
    return rate;
}

/* The items, strongest first by what they can do in their best setting. */
static void
list_items(struct lineup *lineup)
{
    const struct board *board = lineup->board;
    double best[FLEET_KINDS_MAX] = {0.0};
    for (int s = 0; s < board->settings_count; s++) {
        lineup->setting = s;
        measure_kinds(lineup);
        for (int kind = 0; kind < board->fleet->kinds_count; kind++) {
            double rate =
                device_rate(lineup, kind) * (double)board->settings[s].micro_batch;
            best[kind] = rate > best[kind] ? rate : best[kind];
        }
    }
    for (int kind = 0; kind < board->fleet->kinds_count; kind++)
        group_kind(lineup, kind, best[kind]);
}

/* What items can do in the setting. */
static void
measure_items(struct lineup *lineup)
{
    const struct board *board = lineup->board;
    measure_kinds(lineup);
    for (int a = 0; a < lineup->items_count; a++) {
        struct item *item = &lineup->items[a];
        item->rate = device_rate(lineup, item->kind) * (double)item->devices;
        for (int slot = 0; slot < TP_SLOTS; slot++) {
            item->has[slot] = lineup->power[item->kind][slot].all_s > 0.0;
            for (int p = 0; p < POOLS_MAX; p++)
                if ((item->pools >> p & 1) && board->option_of[p][slot] < 0)
                    item->has[slot] = false;
        }
        for (int b = 0; b < lineup->items_count; b++)
            lineup->between_s[a][b] = passed_s(lineup, a, b);
        lineup->within_s[a] = lineup->between_s[a][a];
    }
}

/* ---- guesses ---- */

static void
keep_guess(struct lineup *lineup, double seconds)
{
    struct guess *list = lineup->guesses;
    const struct guess *now = &lineup->now;
    int alike = 0;
    int last = -1;
    for (int i = 0; i < lineup->count; i++) {
        if (list[i].setting != lineup->setting || list[i].stages != now->stages)
            continue;
        alike++;
        last = i;
    }
    if (alike == ALIKE_MAX) { /* in the place of the worst of its sort */
        if (seconds >= list[last].seconds)
            return;
        for (int i = last; i + 1 < lineup->count; i++)
            list[i] = list[i + 1];
        lineup->count--;
    }
    int at = lineup->count;
    while (at > 0 && seconds < list[at - 1].seconds)
        at--;
    if (at == GUESSES_MAX)
        return;
    lineup->count += lineup->count < GUESSES_MAX;
    for (int i = lineup->count - 1; i > at; i--)
        list[i] = list[i - 1];
    list[at] = *now;
    list[at].seconds = seconds;
    list[at].setting = lineup->setting;
    list[at].width = lineup->width;
}

/* What a block can do: layers' share of a second of its pace, share that has room, and seconds
 * of a micro-batch that its stages pass on. */
struct ability {
    double rate;
    double most;
    double passes; /* share that is lost to passing on, whatever the pace */
    int degree;    /* least */
};

static struct ability
block_ability(const struct lineup *lineup, const struct block *block, double next_s)
{
    int kind = lineup->items[block->item].kind;
    struct ability able = {0.0, 0.0, 0.0, 8};
    for (int i = 0; i < 2; i++) {
        const struct power *power = &lineup->power[kind][block->slot[i]];
        double stages = (double)block->stages[i];
        if (block->stages[i] == 0)
            continue;
        able.rate += stages / power->all_s;
        able.most += stages * power->most;
        able.passes += (stages - (i == 0)) * lineup->within_s[block->item] / power->all_s;
        if (1 << block->slot[i] < able.degree)
            able.degree = 1 << block->slot[i];
    }
    able.passes += next_s / lineup->power[kind][block->slot[0]].all_s;
    return able;
}

/* What an iteration takes, about: a pace at which the blocks hold all layers, each in
 * proportion to what it computes, the filling of the pipeline, and the slowest reduction. */
static void
guess(struct lineup *lineup)
{
    const struct board *board = lineup->board;
    const struct guess *now = &lineup->now;
    struct ability able[BLOCKS_MAX];
    bool full[BLOCKS_MAX] = {false};
    for (int b = 0; b < now->count; b++) {
        double next_s = now->count > 1 ? FLEET_NEVER_S : 0.0;
        for (int k = 0; k < now->count; k++) {
            double here_s = lineup->between_s[now->blocks[b].item][now->blocks[k].item];
            next_s = k != b && here_s < next_s ? here_s : next_s;
        }
        if (next_s >= FLEET_NEVER_S)
            return;
        able[b] = block_ability(lineup, &now->blocks[b], next_s);
    }
    double pace_s = 0.0;
    double share[BLOCKS_MAX];
    bool again = true;
    while (again) {
        double rate = 0.0;
        double load = 1.0;
        again = false;
        for (int b = 0; b < now->count; b++) {
            rate += full[b] ? 0.0 : able[b].rate;
            load += full[b] ? -able[b].most : able[b].passes;
        }
        if (!(rate > 0.0) || !(load > 0.0))
            return;
        pace_s = load / rate;
        for (int b = 0; b < now->count; b++) {
            share[b] = full[b] ? able[b].most : pace_s * able[b].rate - able[b].passes;
            if (!(share[b] > 0.0))
                return;
            if (full[b] || share[b] <= able[b].most)
                continue;
            full[b] = true;
            again = true;
        }
    }
    double total = (double)board->settings[lineup->setting].total;
    double seconds = (total / (double)lineup->width - 1.0 + (double)now->stages) * pace_s;
    if (lineup->count == GUESSES_MAX &&
        seconds >= lineup->guesses[GUESSES_MAX - 1].seconds)
        return;
    double reduce_s = 0.0;
    for (int b = 0; b < now->count && lineup->width > 1; b++) {
        const struct block *block = &now->blocks[b];
        double parts =
            board->published && able[b].degree > 4 ? 4.0 : (double)able[b].degree;
        double bytes = board->weight_bytes[board->layers] * share[b] /
                       ((double)(block->stages[0] + block->stages[1]) * parts);
        double here_s =
            board_ring_s(board, lineup->items[block->item].curve, bytes, lineup->width,
                         board->published ? 1 : able[b].degree);
        reduce_s = here_s > reduce_s ? here_s : reduce_s;
    }
    keep_guess(lineup, seconds + reduce_s);
}

static void choose_blocks(struct lineup *lineup, int at, uint64_t taken, double rate);

/* With a block of an item: all its devices in groups of a degree, and what is left over in
 * smaller ones. */
static void
with_block(struct lineup *lineup, int at, int slot, int rest, uint64_t taken, double rate)
{
    struct guess *now = &lineup->now;
    const struct item *item = &lineup->items[at];
    int devices = item->devices / lineup->width;
    struct block block = {
        .item = at, .stages = {devices >> slot, 0}, .slot = {slot, slot}};
    if (rest >= 0) {
        block.slot[1] = rest;
        block.stages[1] = (devices - (block.stages[0] << slot)) >> rest;
        if (block.stages[1] < 1)
            return;
    }
    int stages = block.stages[0] + block.stages[1];
    if (block.stages[0] < 1 || now->stages + stages > lineup->board->layers ||
        now->stages + stages > DEPTH_MAX)
        return;
    now->blocks[now->count++] = block;
    now->stages += stages;
    choose_blocks(lineup, at + 1, taken | item->pools, rate + item->rate);
    now->count--;
    now->stages -= stages;
}

/* Each item from `at` on has no block, or one of some degrees. */
static void
choose_blocks(struct lineup *lineup, int at, uint64_t taken, double rate)
{
    struct guess *now = &lineup->now;
    if (lineup->work >= WORK_MAX / lineup->board->settings_count)
        return;
    if (at == lineup->items_count || now->count == BLOCKS_MAX) {
        int depth = lineup->board->request->pipeline;
        lineup->work++;
        if (now->count > 0 && (depth < 1 || depth == now->stages))
            guess(lineup);
        return;
    }
    /* What the rest could add at most. */
    double more = 0.0;
    uint64_t seen = taken;
    for (int i = at; i < lineup->items_count; i++) {
        if (lineup->items[i].pools & seen)
            continue;
        more += lineup->items[i].rate;
        seen |= lineup->items[i].pools;
    }
    double total = (double)lineup->board->settings[lineup->setting].total;
    if (lineup->count == GUESSES_MAX &&
        total >= (rate + more) * lineup->guesses[GUESSES_MAX - 1].seconds)
        return;
    const struct item *item = &lineup->items[at];
    if (!(item->pools & taken) && item->curve >= 0 && item->devices >= lineup->width) {
        for (int slot = 0; slot < TP_SLOTS; slot++) {
            if (!item->has[slot])
                continue;
            with_block(lineup, at, slot, -1, taken, rate);
            for (int rest = slot - 1; rest >= 0; rest--) {
                if (!item->has[rest])
                    continue;
                with_block(lineup, at, slot, rest, taken, rate);
                break;
            }
        }
    }
    choose_blocks(lineup, at + 1, taken, rate);
}

/* All widths at which some item has a whole number of devices for each pipeline. */
static void
guess_widths(struct lineup *lineup)
{
    int total = lineup->board->settings[lineup->setting].total;
    int fixed = lineup->board->request->replicas;
    int widths[WIDTHS_MAX];
    int count = 0;
    measure_items(lineup);
    lineup->work = 0;
    for (int each = 1; each <= EACH_MAX; each++) {
        for (int i = 0; i < lineup->items_count; i++) {
            int width = fixed > 0 ? fixed : lineup->items[i].devices / each;
            bool again = width > total || width < 1;
            for (int k = 0; k < count && !again; k++)
                again = widths[k] == width;
            if (!again)
                widths[count++] = width;
        }
    }
    for (int i = 0; i < count; i++) {
        lineup->width = widths[i];
        lineup->now.count = 0;
        lineup->now.stages = 0;
        choose_blocks(lineup, 0, 0, 0.0);
    }
}

/* ---- drafts ---- */

/* Layers are given out from the first stage on, to each as many as it has room and time for. */
static bool
cut_at_pace(const struct board *board, struct draft *draft, double pace_s)
{
    const struct setting *setting = &board->settings[draft->setting];
    const uint16_t *options = draft->crews[0].option;
    int at = 0;
    for (int s = 0; s < draft->stages; s++) {
        const struct option *option = &board->options[options[s]];
        const struct option *before = s > 0 ? &board->options[options[s - 1]] : NULL;
        const struct option *after =
            s + 1 < draft->stages ? &board->options[options[s + 1]] : NULL;
        int last = board->layers - (draft->stages - 1 - s);
        int end = at + 1;
        draft->first[s] = (int16_t)at;
        while (
            end < last &&
            board_leg(board, setting, draft->stages, before, option, after, at, end + 1)
                    .busy_s <= pace_s &&
            board_bytes(board, setting, option, draft->stages - s, draft->width, at,
                        end + 1) <= board_room(board, option))
            end++;
        if (board_leg(board, setting, draft->stages, before, option, after, at, end)
                .busy_s > pace_s)
            return false;
        at = end;
    }
    draft->first[draft->stages] = (int16_t)board->layers;
    return at == board->layers;
}

/* The cut with the least pace, about. */
static bool
cut_evenly(const struct board *board, struct draft *draft)
{
    const struct setting *setting = &board->settings[draft->setting];
    double high_s = 0.0;
    for (int s = 0; s < draft->stages; s++) {
        const struct option *option = &board->options[draft->crews[0].option[s]];
        high_s += board_compute_s(setting, option, 0, board->layers);
    }
    double low_s = 0.0;
    if (!cut_at_pace(board, draft, high_s))
        return false;
    for (int i = 0; i < PACE_STEPS; i++) {
        double middle_s = 0.5 * (low_s + high_s);
        if (cut_at_pace(board, draft, middle_s))
            high_s = middle_s;
        else
            low_s = middle_s;
    }
    return cut_at_pace(board, draft, high_s);
}

/* Options for the stages of one more pipeline: a block stays in one pool where one has devices
 * for all of it. False: there are too few. */
static bool
seat_pipeline(const struct lineup *lineup, const struct guess *guess, int left[POOLS_MAX],
              uint16_t option[DEPTH_MAX])
{
    const struct board *board = lineup->board;
    int s = 0;
    for (int b = 0; b < guess->count; b++) {
        const struct block *block = &guess->blocks[b];
        uint64_t pools = lineup->items[block->item].pools;
        int all =
            (block->stages[0] << block->slot[0]) + (block->stages[1] << block->slot[1]);
        int whole = -1;
        for (int p = 0; p < POOLS_MAX && whole < 0; p++)
            if ((pools >> p & 1) && left[p] >= all)
                whole = p;
        for (int i = 0; i < block->stages[0] + block->stages[1]; i++) {
            int slot = block->slot[i >= block->stages[0]];
            int at = whole;
            for (int p = 0; p < POOLS_MAX && whole < 0; p++)
                if ((pools >> p & 1) && left[p] >= 1 << slot &&
                    (at < 0 || left[p] > left[at]))
                    at = p;
            if (at < 0)
                return false;
            left[at] -= 1 << slot;
            option[s++] = (uint16_t)board->option_of[at][slot];
        }
    }
    return true;
}

/* The draft with the blocks in this order; false: it has no room or no links. */
static bool
draft_of(const struct board *board, const struct lineup *lineup,
         const struct guess *guess, struct draft *draft, int64_t *weighed)
{
    int left[POOLS_MAX];
    for (int p = 0; p < POOLS_MAX && p < board->fleet->pools_count; p++)
        left[p] = board->fleet->pools[p].devices;
    draft->setting = guess->setting;
    draft->stages = guess->stages;
    draft->width = 0;
    draft->crews_count = 0;
    size_t bytes = (size_t)guess->stages * sizeof(uint16_t);
    struct crew crew = {.count = 0};
    for (int j = 0; j < guess->width && seat_pipeline(lineup, guess, left, crew.option);
         j++) {
        int c = draft->crews_count - 1;
        if (c < 0 || memcmp(draft->crews[c].option, crew.option, bytes) != 0) {
            if (draft->crews_count == CREWS_MAX)
                break;
            c = draft->crews_count++;
            draft->crews[c] = crew;
        }
        draft->crews[c].count++;
        draft->width++;
    }
    if (draft->width == 0 || !cut_evenly(board, draft) || !draft_fits(board, draft))
        return false;
    *weighed += 1;
    return draft_weigh(board, draft);
}

/* Blocks change places as long as that helps. */
static bool
order_blocks(const struct board *board, const struct lineup *lineup, struct guess *guess,
             struct draft *best, int64_t *weighed)
{
    struct draft draft;
    bool found = draft_of(board, lineup, guess, best, weighed);
    bool better = true;
    while (better) {
        better = false;
        for (int a = 0; a < guess->count; a++) {
            for (int b = 0; b < a; b++) {
                struct block kept = guess->blocks[a];
                guess->blocks[a] = guess->blocks[b];
                guess->blocks[b] = kept;
                if (draft_of(board, lineup, guess, &draft, weighed) &&
                    (!found || worth_before(&draft.worth, &best->worth))) {
                    draft_copy(&draft, best);
                    found = true;
                    better = true;
                    continue;
                }
                guess->blocks[b] = guess->blocks[a];
                guess->blocks[a] = kept;
            }
        }
    }
    if (!found)
        return false;
    draft_copy(best, &draft);
    if (cut_layers(board, draft.setting, draft.stages, draft.crews[0].option,
                   draft.crews[0].each + 1, draft.width, draft.first)) {
        draft_stale(&draft);
        *weighed += 1;
        if (draft_fits(board, &draft) && draft_weigh(board, &draft) &&
            worth_before(&draft.worth, &best->worth))
            draft_copy(&draft, best);
    }
    return true;
}

/* The draft goes among the best, few of one setting and depth. */
static int
place(const struct draft *draft, struct draft *out[LINEUPS_MAX], int count)
{
    int alike = 0;
    int last = -1;
    for (int i = 0; i < count; i++) {
        if (out[i]->setting != draft->setting || out[i]->stages != draft->stages)
            continue;
        alike++;
        last = i;
    }
    if (alike == KEPT_ALIKE) {
        if (!worth_before(&draft->worth, &out[last]->worth))
            return count;
        free(out[last]);
        count--;
        for (int i = last; i < count; i++)
            out[i] = out[i + 1];
    }
    int at = count;
    while (at > 0 && worth_before(&draft->worth, &out[at - 1]->worth))
        at--;
    if (at == LINEUPS_MAX)
        return count;
    if (count == LINEUPS_MAX)
        free(out[--count]);
    for (int i = count; i > at; i--)
        out[i] = out[i - 1];
    out[at] = xcalloc(1, sizeof(*out[at]));
    draft_copy(draft, out[at]);
    return count + 1;
}

/* A guess that becomes a draft. */
struct drafting {
    struct team *team;
    const struct lineup *lineup;
    struct guess *guess;
    int64_t weighed;
    bool found;
    struct draft draft;
};

static void
draft_one(void *arg, int item, int worker)
{
    struct drafting *drafting = (struct drafting *)arg + item;
    drafting->found = order_blocks(team_board(drafting->team, worker), drafting->lineup,
                                   drafting->guess, &drafting->draft, &drafting->weighed);
}

int
lineup_list(struct team *team, struct draft *out[LINEUPS_MAX], int64_t *weighed)
{
    const struct board *board = team->board;
    struct lineup *lineup = xcalloc(1, sizeof(*lineup));
    lineup->board = board;
    list_items(lineup);
    for (int s = 0; s < board->settings_count; s++) {
        lineup->setting = s;
        guess_widths(lineup);
    }
    int count = 0;
    struct drafting *draftings = xcalloc(GUESSES_MAX, sizeof(*draftings));
    for (int i = 0; i < lineup->count; i++) {
        draftings[i].team = team;
        draftings[i].lineup = lineup;
        draftings[i].guess = &lineup->guesses[i];
    }
    team_run(team, lineup->count, draft_one, draftings);
    for (int i = 0; i < lineup->count; i++) {
        *weighed += draftings[i].weighed;
        if (draftings[i].found)
            count = place(&draftings[i].draft, out, count);
    }
    free(draftings);
    free(lineup);
    return count;
}
