#include "planner/cut.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum { CUTS_MAX = 16 }; /* sums that are looked for */

/* Stage s begins at a layer from s to s + room - 1 and ends before one from s + 1 to
 * s + room. */
struct cut {
    const struct board *board;
    const struct setting *setting;
    int stages;
    int width;
    const uint16_t *option;
    int layers;
    int room;
    double *busy_s; /* [stages x room x room]; only what fits is filled in */
    double *path_s; /* under the published model the same */
    int16_t *limit; /* [stages x room]: a stage that begins there ends before or at it */
    double *activation_s; /* [room] */
    double *best;         /* [stages + 1 x layers + 1] */
    int16_t *from;
};

static int64_t
cut_at(const struct cut *cut, int stage, int first, int end)
{
    return ((int64_t)stage * cut->room + (first - stage)) * cut->room + (end - stage - 1);
}

/* How far a stage reaches from each beginning: to the first end that has no room. */
static void
cut_limit(struct cut *cut, int stage)
{
    const struct board *board = cut->board;
    const struct option *option = &board->options[cut->option[stage]];
    int64_t room = board_room(board, option);
    int last = stage + 1 < cut->stages ? stage + cut->room : cut->layers;
    int end = stage;
    for (int a = stage; a < stage + (stage > 0 ? cut->room : 1); a++) {
        /* What has room has room without its first layer, too; with boundaries of its own,
         * as the replay has them, not always. */
        if (!board->published || end < a)
            end = a;
        while (end < last && board_bytes(board, cut->setting, option, cut->stages - stage,
                                         cut->width, a, end + 1) <= room)
            end++;
        cut->limit[stage * cut->room + a - stage] = (int16_t)end;
    }
}

/* Price the runs of layers that a stage may have. */
static void
cut_price(struct cut *cut, int stage)
{
    const struct board *board = cut->board;
    const struct setting *setting = cut->setting;
    const struct option *option = &board->options[cut->option[stage]];
    const struct option *before =
        stage > 0 ? &board->options[cut->option[stage - 1]] : NULL;
    const struct option *after =
        stage + 1 < cut->stages ? &board->options[cut->option[stage + 1]] : NULL;
    for (int i = 0; i < cut->room; i++)
        cut->activation_s[i] =
            board_activation_s(board, setting, option, after, stage + 1 + i);
    for (int a = stage; a < stage + (stage > 0 ? cut->room : 1); a++) {
        int limit = cut->limit[stage * cut->room + a - stage];
        int first_end = after ? a + 1 : cut->layers;
        double gradient_s = board_gradient_s(board, setting, before, option, a);
        double *busy_s = &cut->busy_s[cut_at(cut, stage, a, stage + 1)];
        double *path_s = &cut->path_s[cut_at(cut, stage, a, stage + 1)];
        for (int b = first_end; b <= limit; b++) {
            int at = b - stage - 1;
            struct leg_cost leg = board_leg_cost(board, cut->stages, before, after,
                                                 board_compute_s(setting, option, a, b),
                                                 cut->activation_s[at], gradient_s);
            busy_s[at] = leg.busy_s;
            path_s[at] = leg.path_s;
        }
    }
}

/* The least of the largest busy time (cap_s < 0), or of the sum of paths with no busy time
 * above cap_s. < 0: there is none. Fills in the cuts and the largest busy time. */
static double
cut_best(const struct cut *cut, double cap_s, int16_t *first, double *slowest_s)
{
    int n = cut->layers;
    int side = n + 1;
    for (int b = 0; b <= n; b++)
        cut->best[b] = b == 0 ? 0.0 : FLEET_NEVER_S;
    for (int s = 0; s < cut->stages; s++) {
        const double *before = &cut->best[(int64_t)s * side];
        double *here = &cut->best[(int64_t)(s + 1) * side];
        int16_t *from = &cut->from[(int64_t)(s + 1) * side];
        for (int b = 0; b <= n; b++)
            here[b] = FLEET_NEVER_S;
        for (int a = s; a < s + cut->room; a++) {
            double sum_s = before[a];
            if (sum_s >= FLEET_NEVER_S)
                continue;
            const double *busy_s = &cut->busy_s[cut_at(cut, s, a, s + 1)];
            const double *path_s = &cut->path_s[cut_at(cut, s, a, s + 1)];
            int limit = cut->limit[s * cut->room + a - s];
            for (int b = s + 1 < cut->stages ? a + 1 : n; b <= limit; b++) {
                int at = b - s - 1;
                /* No way through here is shorter than what leads to it. */
                if (sum_s >= here[b])
                    continue;
                double value;
                if (cap_s < 0.0) {
                    value = sum_s > busy_s[at] ? sum_s : busy_s[at];
                } else {
                    if (busy_s[at] > cap_s)
                        continue;
                    value = sum_s + path_s[at];
                }
                if (value < here[b]) {
                    here[b] = value;
                    from[b] = (int16_t)a;
                }
            }
        }
    }
    double best = cut->best[(int64_t)cut->stages * side + n];
    if (best >= FLEET_NEVER_S)
        return -1.0;
    first[cut->stages] = (int16_t)n;
    *slowest_s = 0.0;
    for (int s = cut->stages; s > 0; s--) {
        first[s - 1] = cut->from[(int64_t)s * side + first[s]];
        double busy_s = cut->busy_s[cut_at(cut, s - 1, first[s - 1], first[s])];
        *slowest_s = busy_s > *slowest_s ? busy_s : *slowest_s;
    }
    return best;
}

/* The least of `count` - 1 times the slowest stage plus all of them once. */
static bool
cut_search(const struct cut *cut, int count, int16_t *first)
{
    double further = (double)(count - 1);
    int16_t draft[DEPTH_MAX + 1];
    double slowest_s;
    bool found = false;
    double cap_s = cut_best(cut, -1.0, draft, &slowest_s);
    double least = 0.0;
    double step = 1.0;
    /* From the lowest slowest stage upwards, as long as a lower sum may make up for it. */
    double least_sum = 0.0;
    for (int i = 0; cap_s >= 0.0 && i < CUTS_MAX; i++) {
        double sum = cut_best(cut, cap_s * step, draft, &slowest_s);
        must(sum >= 0.0);
        double value = further * slowest_s + sum;
        if (!found || value < least) {
            least = value;
            memcpy(first, draft, ((size_t)cut->stages + 1) * sizeof(*first));
        }
        if (!found)
            least_sum = cut_best(cut, FLEET_NEVER_S, draft, &slowest_s);
        found = true;
        step *= 1.02;
        if (further * cap_s * step + least_sum >= least)
            break;
    }
    return found;
}

bool
cut_layers(const struct board *board, int setting, int stages, const uint16_t *option,
           int count, int width, int16_t *first)
{
    int n = board->layers;
    if (stages > n)
        return false;
    for (int s = 0; s < stages; s++)
        if (!board_measured(&board->settings[setting], &board->options[option[s]]))
            return false;
    size_t side = (size_t)n + 1;
    size_t room = (size_t)(n - stages + 1);
    size_t runs = (size_t)stages * room * room;
    size_t tables = board->published ? 1 : 2;
    struct cut cut = {
        .board = board,
        .setting = &board->settings[setting],
        .stages = stages,
        .width = width,
        .option = option,
        .layers = n,
        .room = (int)room,
        .busy_s =
            xcalloc(runs * tables + room + ((size_t)stages + 1) * side, sizeof(double)),
        .from =
            xcalloc(((size_t)stages + 1) * side + (size_t)stages * room, sizeof(int16_t)),
    };
    cut.path_s = cut.busy_s + runs * (tables - 1);
    cut.activation_s = cut.busy_s + runs * tables;
    cut.best = cut.activation_s + room;
    cut.limit = cut.from + ((size_t)stages + 1) * side;
    for (int s = 0; s < stages; s++) {
        cut_limit(&cut, s);
        cut_price(&cut, s);
    }
    bool found = cut_search(&cut, count, first);
    free(cut.busy_s);
    free(cut.from);
    return found;
}
