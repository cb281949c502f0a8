#include "planner/fill.h"

#include <string.h>

enum {
    FILLS_MAX = 6,    /* crews that are added to a draft */
    GONE_MAX = 12,    /* pipelines of another crew that one of them takes the place of */
    WORK_MAX = 12000, /* steps for one draft, */
    WORK_A_WEIGHING = 16
};

struct filler {
    const struct board *board;
    struct draft *draft; /* as it is */
    struct draft next;
    struct draft best;
    bool found; /* one that is worth more than `draft` */
    int left[FLEET_POOLS_MAX];
    int uses[CREWS_MAX][FLEET_POOLS_MAX]; /* of a pipeline of each crew */
    int64_t weighed;
    int64_t work;
};

static void
count_uses(const struct filler *filler, const uint16_t *option, int uses[FLEET_POOLS_MAX])
{
    const struct board *board = filler->board;
    memset(uses, 0, (size_t)board->fleet->pools_count * sizeof(*uses));
    for (int s = 0; s < filler->draft->stages; s++)
        uses[board->options[option[s]].pool] += board->options[option[s]].tp;
}

/* So many pipelines have room when `gone` of a crew (below 0: of none) are no more. */
static int
room_left(const struct filler *filler, const uint16_t *option, const int *uses, int crew,
          int gone)
{
    int most = filler->board->settings[filler->draft->setting].total -
               filler->draft->width + gone;
    for (int s = 0; s < filler->draft->stages && most > 0; s++) {
        int pool = filler->board->options[option[s]].pool;
        int left = filler->left[pool] + (crew >= 0 ? gone * filler->uses[crew][pool] : 0);
        int fit = left / uses[pool];
        most = fit < most ? fit : most;
    }
    return most;
}

/* Weigh `next`; keep it if it is the best. */
static void
weigh(struct filler *filler)
{
    const struct board *board = filler->board;
    struct draft *next = &filler->next;
    if (!draft_fits(board, next))
        return;
    filler->weighed++;
    filler->work += WORK_A_WEIGHING;
    const struct draft *than = filler->found ? &filler->best : filler->draft;
    bool timed =
        board->request->objective == OBJECTIVE_THROUGHPUT && than->worth.breach <= 0.0;
    double energy = worth_energy(&than->worth);
    if (!draft_weigh_below(board, next, timed ? than->iteration_s : FLEET_NEVER_S,
                           energy) ||
        worth_energy(&next->worth) >= energy * (1.0 - 1e-9))
        return;
    draft_copy(next, &filler->best);
    filler->found = true;
}

/* Do pipelines of a crew stand on pools that others use? */
static bool
shares(const struct filler *filler, int crew, const uint16_t *option)
{
    for (int s = 0; s < filler->draft->stages; s++)
        if (filler->uses[crew][filler->board->options[option[s]].pool] > 0)
            return true;
    return false;
}

/* In place of which crew's pipelines, and of how many, a crew adds the most micro-batches a
 * second; the best of each crew is weighed. */
static void
try_crew(struct filler *filler, const uint16_t *option)
{
    const struct board *board = filler->board;
    const struct draft *draft = filler->draft;
    struct draft *next = &filler->next;
    size_t bytes = (size_t)draft->stages * sizeof(*option);
    int same = 0;
    while (same < draft->crews_count &&
           memcmp(draft->crews[same].option, option, bytes) != 0)
        same++;
    if (same == CREWS_MAX || filler->work > WORK_MAX)
        return;
    struct crew added = {.priced = false};
    memcpy(added.option, option, bytes);
    for (int s = 0; s < draft->stages; s++)
        if (!board_measured(&board->settings[draft->setting], &board->options[option[s]]))
            return;
    draft_price(board, draft, &added);
    if (!(added.path_s < FLEET_NEVER_S) || !(added.pace_s > 1e-12))
        return;
    int uses[FLEET_POOLS_MAX];
    count_uses(filler, option, uses);
    for (int c = -1; c < draft->crews_count; c++) {
        filler->work++;
        if (c == same || (c >= 0 && !shares(filler, c, option)))
            continue;
        int most = c >= 0 ? draft->crews[c].count : 0;
        most = most < GONE_MAX ? most : GONE_MAX;
        filler->work += most;
        double gain = 0.0;
        int gone = -1;
        int room = 0;
        for (int n = c >= 0 ? 1 : 0; n <= most; n++) {
            int here = room_left(filler, option, uses, c, n);
            double more = (double)here / added.pace_s;
            if (c >= 0)
                more -= (double)n / draft->crews[c].pace_s;
            if (here < 1 || more <= gain * (1.0 + 1e-9))
                continue;
            gain = more;
            gone = n;
            room = here;
        }
        if (gone < 0)
            continue;
        draft_copy(draft, next);
        if (same == draft->crews_count) {
            next->crews_count++;
            next->crews[same] = added;
            next->crews[same].count = 0;
            next->crews[same].priced = false;
        }
        next->crews[same].count += room;
        next->width += room - gone;
        if (c >= 0) {
            next->crews[c].count -= gone;
            if (next->crews[c].count == 0)
                next->crews[c] = next->crews[--next->crews_count];
        }
        weigh(filler);
    }
}

/* Pipelines that have one option at all stages. */
static void
try_even_crews(struct filler *filler)
{
    const struct board *board = filler->board;
    uint16_t option[DEPTH_MAX];
    for (int o = 0; o < board->options_count; o++) {
        if (filler->left[board->options[o].pool] < 1)
            continue;
        for (int s = 0; s < filler->draft->stages; s++)
            option[s] = (uint16_t)o;
        try_crew(filler, option);
    }
}

/* Pipelines as the draft has them, but for the stages of one pool: these get another option. */
static void
try_crews_like(struct filler *filler, int crew)
{
    const struct board *board = filler->board;
    const struct draft *draft = filler->draft;
    uint16_t own[DEPTH_MAX];
    memcpy(own, draft->crews[crew].option, sizeof(own));
    for (int s = 0; s < draft->stages; s++) {
        int pool = board->options[own[s]].pool;
        bool before = false;
        for (int t = 0; t < s && !before; t++)
            before = board->options[own[t]].pool == pool;
        if (before)
            continue;
        for (int o = 0; o < board->options_count; o++) {
            if (filler->left[board->options[o].pool] < 1)
                continue;
            uint16_t option[DEPTH_MAX];
            for (int t = 0; t < draft->stages; t++)
                option[t] = board->options[own[t]].pool == pool ? (uint16_t)o : own[t];
            try_crew(filler, option);
        }
    }
}

int64_t
fill_draft(const struct board *board, struct draft *draft)
{
    struct filler filler;
    filler.board = board;
    filler.draft = draft;
    filler.weighed = 0;
    filler.work = 0;
    for (int i = 0; i < FILLS_MAX && filler.work <= WORK_MAX; i++) {
        int used[FLEET_POOLS_MAX];
        draft_used(board, draft, used);
        int left = 0;
        for (int p = 0; p < board->fleet->pools_count; p++) {
            filler.left[p] = board->fleet->pools[p].devices - used[p];
            left += filler.left[p];
        }
        if (left == 0)
            break;
        for (int c = 0; c < draft->crews_count; c++)
            count_uses(&filler, draft->crews[c].option, filler.uses[c]);
        filler.found = false;
        try_even_crews(&filler);
        for (int c = 0; c < draft->crews_count; c++)
            try_crews_like(&filler, c);
        if (!filler.found)
            break;
        draft_copy(&filler.best, draft);
    }
    return filler.weighed;
}
