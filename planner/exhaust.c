#include "planner/exhaust.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum { CHAINS_MAX = 65536, WEIGHED_MAX = 4000000 };

/* One pipeline that a cut allows. */
struct chain {
    uint16_t option[EXHAUST_DEVICES];
    int devices;
    double pace_s;
    double usd_per_s;
};

struct exhaust {
    const struct board *board;
    struct draft draft; /* the setting, depth and cut at hand */
    struct draft next;
    struct draft *best;
    bool found;
    int left[FLEET_POOLS_MAX];
    int left_devices;
    int chains_count;
    struct chain *chains;
    double rate_per_device; /* the best of the chains */
    double usd_each;        /* the least that a micro-batch costs on any of them */
    int64_t weighed;
};

bool
exhaust_feasible(const struct board *board)
{
    return board->devices <= EXHAUST_DEVICES && board->layers <= EXHAUST_LAYERS;
}

/* ---- chains ---- */

static void
chain_add(struct exhaust *exhaust, const uint16_t *option)
{
    const struct board *board = exhaust->board;
    struct draft *draft = &exhaust->draft;
    const struct setting *setting = &board->settings[draft->setting];
    if (exhaust->chains_count == CHAINS_MAX)
        return;
    struct chain *chain = &exhaust->chains[exhaust->chains_count];
    memset(chain, 0, sizeof(*chain));
    for (int s = 0; s < draft->stages; s++) {
        const struct option *here = &board->options[option[s]];
        struct leg_cost leg = board_leg(
            board, setting, draft->stages, s > 0 ? &board->options[option[s - 1]] : NULL,
            here, s + 1 < draft->stages ? &board->options[option[s + 1]] : NULL,
            draft->first[s], draft->first[s + 1]);
        if (leg.path_s >= FLEET_NEVER_S)
            return;
        chain->option[s] = option[s];
        chain->devices += here->tp;
        if (leg.busy_s > chain->pace_s)
            chain->pace_s = leg.busy_s;
        double price = board->fleet->pools[here->pool].usd_per_hour;
        chain->usd_per_s += price > 0.0 ? (double)here->tp * price / 3600.0 : 0.0;
    }
    if (!(chain->pace_s > 1e-12))
        chain->pace_s = 1e-12;
    double rate = 1.0 / chain->pace_s / (double)chain->devices;
    if (exhaust->chains_count == 0 || rate > exhaust->rate_per_device)
        exhaust->rate_per_device = rate;
    double usd = chain->usd_per_s * chain->pace_s;
    if (exhaust->chains_count == 0 || usd < exhaust->usd_each)
        exhaust->usd_each = usd;
    exhaust->chains_count++;
}

/* All pipelines that fit the cut at hand: an odometer over the stages' options. */
static void
list_chains(struct exhaust *exhaust)
{
    const struct board *board = exhaust->board;
    struct draft *draft = &exhaust->draft;
    uint16_t option[EXHAUST_DEVICES] = {0};
    int stage = 0;
    exhaust->chains_count = 0;
    int next[EXHAUST_DEVICES] = {0};
    draft->crews_count = 1;
    draft->width = 1;
    draft->crews[0].count = 1;
    while (stage >= 0) {
        if (next[stage] == board->options_count) {
            next[stage] = 0;
            if (--stage >= 0) {
                const struct option *gone = &board->options[option[stage]];
                exhaust->left[gone->pool] += gone->tp;
            }
            continue;
        }
        int number = next[stage]++;
        const struct option *here = &board->options[number];
        draft->crews[0].option[stage] = (uint16_t)number;
        if (exhaust->left[here->pool] < here->tp ||
            !draft_stage_fits(board, draft, 0, stage))
            continue;
        option[stage] = (uint16_t)number;
        if (stage + 1 == draft->stages) {
            chain_add(exhaust, option);
            continue;
        }
        exhaust->left[here->pool] -= here->tp;
        stage++;
    }
}

/* ---- sets of chains ---- */

/* Can nothing with this rate win? No plan ends before all micro-batches at the pace of all
 * its pipelines together. */
static bool
hopeless(const struct exhaust *exhaust, double rate)
{
    if (!exhaust->found || exhaust->best->worth.breach > 0.0)
        return false;
    const struct board *board = exhaust->board;
    double total = (double)board->settings[exhaust->draft.setting].total;
    double least = board->request->objective == OBJECTIVE_COST ? total * exhaust->usd_each
                                                               : total / rate;
    return least > exhaust->best->worth.goal * (1.0 + 1e-9);
}

static void
weigh_set(struct exhaust *exhaust, const int *count)
{
    struct draft *next = &exhaust->next;
    memcpy(next, &exhaust->draft, offsetof(struct draft, crews));
    next->crews_count = 0;
    next->width = 0;
    for (int c = 0; c < exhaust->chains_count; c++) {
        if (count[c] == 0)
            continue;
        struct crew *crew = &next->crews[next->crews_count++];
        memcpy(crew->option, exhaust->chains[c].option,
               sizeof(exhaust->chains[c].option));
        crew->count = count[c];
        crew->priced = false;
        next->width += count[c];
    }
    exhaust->weighed++;
    if (!draft_fits(exhaust->board, next) || !draft_weigh(exhaust->board, next) ||
        (exhaust->found && !worth_before(&next->worth, &exhaust->best->worth)))
        return;
    exhaust->found = true;
    draft_copy(next, exhaust->best);
}

static bool
chain_take(struct exhaust *exhaust, const struct chain *chain, int sign)
{
    const struct board *board = exhaust->board;
    bool room = true;
    for (int s = 0; s < exhaust->draft.stages; s++) {
        const struct option *option = &board->options[chain->option[s]];
        exhaust->left[option->pool] -= sign * option->tp;
        room = room && exhaust->left[option->pool] >= 0;
    }
    exhaust->left_devices -= sign * chain->devices;
    return room;
}

/* All multisets of chains that the pools have room for, ascending; each is weighed. */
static void
try_sets(struct exhaust *exhaust)
{
    int *count = xcalloc((size_t)exhaust->chains_count, sizeof(*count));
    int picked[EXHAUST_DEVICES + 1];
    double rate[EXHAUST_DEVICES + 1] = {0.0};
    int depth = 0;
    int next = 0; /* chain to try at this depth */
    for (;;) {
        bool full = depth == EXHAUST_DEVICES || exhaust->weighed >= WEIGHED_MAX;
        if (full || next >= exhaust->chains_count) {
            if (depth == 0)
                break;
            next = picked[--depth];
            chain_take(exhaust, &exhaust->chains[next], -1);
            count[next]--;
            next++;
            continue;
        }
        const struct chain *chain = &exhaust->chains[next];
        double with = rate[depth] + 1.0 / chain->pace_s;
        double most = with + (double)(exhaust->left_devices - chain->devices) *
                                 exhaust->rate_per_device;
        if (!chain_take(exhaust, chain, 1) || hopeless(exhaust, most)) {
            chain_take(exhaust, chain, -1);
            next++;
            continue;
        }
        count[next]++;
        picked[depth++] = next;
        rate[depth] = with;
        weigh_set(exhaust, count);
    }
    free(count);
}

/* ---- cuts ---- */

/* The next cut of the layers into as many stages; false after the last. */
static bool
next_cut(struct draft *draft, int layers)
{
    for (int s = draft->stages - 1; s > 0; s--) {
        if (draft->first[s] >= layers - (draft->stages - s))
            continue;
        draft->first[s]++;
        for (int t = s + 1; t < draft->stages; t++)
            draft->first[t] = (int16_t)(draft->first[t - 1] + 1);
        return true;
    }
    return false;
}

bool
exhaust(const struct board *board, struct draft *best, bool found, int64_t *weighed)
{
    must(exhaust_feasible(board));
    struct exhaust *all = xcalloc(1, sizeof(*all));
    all->board = board;
    all->best = best;
    all->found = found;
    all->chains = xcalloc(CHAINS_MAX, sizeof(*all->chains));
    for (int p = 0; p < board->fleet->pools_count; p++)
        all->left[p] = board->fleet->pools[p].devices;
    all->left_devices = board->devices;
    int deepest = board->layers < board->devices ? board->layers : board->devices;
    for (int setting = 0; setting < board->settings_count; setting++) {
        for (int stages = 1; stages <= deepest; stages++) {
            if (board->request->pipeline > 0 && stages != board->request->pipeline)
                continue;
            all->draft.setting = setting;
            all->draft.stages = stages;
            for (int s = 0; s < stages; s++)
                all->draft.first[s] = (int16_t)s;
            all->draft.first[stages] = (int16_t)board->layers;
            do {
                list_chains(all);
                if (all->chains_count > 0)
                    try_sets(all);
            } while (next_cut(&all->draft, board->layers));
        }
    }
    *weighed += all->weighed;
    found = all->found;
    free(all->chains);
    free(all);
    return found;
}
