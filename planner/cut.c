#include "planner/cut.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum {
    CUTS_MAX = 16, /* sums that are looked for */
    GREEDY_MAX = 12
};
static const double cut_step = 1.02;       /* from one cap to the next */
static const double cut_steps_few = 1.045; /* a little more than two of them, */
static const double cut_steps_all = 1.36;  /* and than CUTS_MAX - 1 */
static const double greedy_step = 1.05;

/* A stage, as pricing needs it again and again. */
struct place {
    const struct option *option;
    const struct option *before; /* the stage before it; NULL: there is none */
    const struct option *after;
    const double *forward_s; /* of the layers before one */
    const double *backward_s;
    double *activation_s; /* [layers + 1]: of a stage that ends before the layer */
    double *gradient_s;   /* [layers + 1]: of one that begins at it */
};

/* Stage s begins at a layer from s to s + room - 1 and ends before one from s + 1 to
 * s + room. Cuts that leave some stage busier than the least by more than is ever asked for
 * are left out: it begins at a layer from low[s] to high[s], and ends before one up to
 * `reach`. */
struct cut {
    const struct board *board;
    const struct setting *setting;
    int stages;
    int width;
    int layers;
    int room;
    double bound_s; /* no stage is busier */
    struct place places[DEPTH_MAX];
    int low[DEPTH_MAX + 1];
    int high[DEPTH_MAX + 1];
    int16_t *limit; /* [stages x room]: what begins there has room up to it */
    int16_t *reach; /* [stages x room] */
    double *busy_s; /* [stages x room x room]; only what is in reach is filled in */
    double *path_s; /* under the published model the same */
    double *best;   /* [stages + 1 x layers + 1] */
    int16_t *from;
    double *sums;   /* [2 x layers + 1] */
    int16_t *queue; /* [2 x layers + 1] */
};

static inline double
place_compute_s(const struct place *place, int first, int end)
{
    return place->forward_s[end] - place->forward_s[first] +
           (place->backward_s[end] - place->backward_s[first]);
}

/* What a stage with the layers [first, end) costs. */
static inline struct leg_cost
place_leg(const struct cut *cut, const struct place *place, int first, int end)
{
    return board_leg_cost(cut->board, cut->stages, place->before, place->after,
                          place_compute_s(place, first, end), place->activation_s[end],
                          place->gradient_s[first]);
}

static int64_t
cut_at(const struct cut *cut, int stage, int first, int end)
{
    return ((int64_t)stage * cut->room + (first - stage)) * cut->room + (end - stage - 1);
}

/* A stage's options and times, and what it sends from and to each cut. */
static void
cut_place(struct cut *cut, const uint16_t *option, int stage)
{
    const struct board *board = cut->board;
    struct place *place = &cut->places[stage];
    place->option = &board->options[option[stage]];
    place->before = stage > 0 ? &board->options[option[stage - 1]] : NULL;
    place->after = stage + 1 < cut->stages ? &board->options[option[stage + 1]] : NULL;
    place->forward_s = cut->setting->forward_s[place->option->kind][place->option->slot];
    place->backward_s =
        cut->setting->backward_s[place->option->kind][place->option->slot];
    for (int a = stage; a < stage + cut->room; a++) {
        place->gradient_s[a] =
            board_gradient_s(board, cut->setting, place->before, place->option, a);
        place->activation_s[a + 1] =
            board_activation_s(board, cut->setting, place->option, place->after, a + 1);
    }
}

/* How far a stage reaches from each beginning: to the first end that has no room. */
static void
cut_limit(struct cut *cut, int stage)
{
    const struct board *board = cut->board;
    const struct option *option = cut->places[stage].option;
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

/* ---- what cannot be part of an answer ---- */

/* The slowest stage when one after the other takes what keeps it within so many seconds;
 * FLEET_NEVER_S where that leads nowhere. */
static double
cut_greedily(const struct cut *cut, double aim_s)
{
    double slowest_s = 0.0;
    int a = 0;
    for (int s = 0; s < cut->stages; s++) {
        const struct place *place = &cut->places[s];
        int limit = cut->limit[s * cut->room + a - s];
        int b = place->after ? a + 1 : cut->layers;
        if (b > limit)
            return FLEET_NEVER_S;
        double busy_s = place_leg(cut, place, a, b).busy_s;
        while (b < limit) {
            double more_s = place_leg(cut, place, a, b + 1).busy_s;
            if (more_s > aim_s)
                break;
            busy_s = more_s;
            b++;
        }
        slowest_s = busy_s > slowest_s ? busy_s : slowest_s;
        a = b;
    }
    return slowest_s;
}

/* No less than what the slowest stage has to take. */
static double
cut_bound(const struct cut *cut)
{
    double rate = 0.0;
    for (int s = 0; s < cut->stages; s++) {
        double all_s = place_compute_s(&cut->places[s], 0, cut->layers);
        rate += all_s > 1e-12 ? 1.0 / all_s : 1e12;
    }
    double bound_s = FLEET_NEVER_S;
    double aim_s = 1.0 / rate;
    for (int i = 0; i < GREEDY_MAX && bound_s > aim_s; i++) {
        aim_s *= greedy_step;
        double slowest_s = cut_greedily(cut, aim_s);
        bound_s = slowest_s < bound_s ? slowest_s : bound_s;
    }
    return bound_s;
}

/* How far a stage reaches: no run that computes for longer than the bound can be part of an
 * answer, nor what no such run leads to or on from. False: nothing is left. */
static bool
cut_narrow(struct cut *cut)
{
    cut->low[0] = cut->high[0] = 0;
    for (int s = 0; s < cut->stages; s++) {
        const struct place *place = &cut->places[s];
        int end = s;
        cut->high[s + 1] = s;
        for (int a = s; a <= cut->high[s]; a++) {
            int limit = cut->limit[s * cut->room + a - s];
            end = end < a ? a : end;
            while (end < s + cut->room &&
                   place_compute_s(place, a, end + 1) <= cut->bound_s)
                end++;
            int reach = end < limit ? end : limit;
            cut->reach[s * cut->room + a - s] = (int16_t)reach;
            cut->high[s + 1] = reach > cut->high[s + 1] ? reach : cut->high[s + 1];
        }
        if (cut->high[s + 1] <= s)
            return false;
    }
    cut->low[cut->stages] = cut->layers;
    for (int s = cut->stages - 1; s >= 0; s--) {
        int a = s;
        while (a <= cut->high[s] && cut->reach[s * cut->room + a - s] < cut->low[s + 1])
            a++;
        if (a > cut->high[s])
            return false;
        cut->low[s] = a;
    }
    return true;
}

/* ---- the best cut ---- */

/* Price the runs of layers that a stage may have. */
static void
cut_price(struct cut *cut, int stage)
{
    const struct place *place = &cut->places[stage];
    int low = cut->low[stage + 1];
    for (int a = cut->low[stage]; a <= cut->high[stage]; a++) {
        int reach = cut->reach[stage * cut->room + a - stage];
        double *busy_s = &cut->busy_s[cut_at(cut, stage, a, stage + 1)];
        double *path_s = &cut->path_s[cut_at(cut, stage, a, stage + 1)];
        for (int b = low > a ? low : a + 1; b <= reach; b++) {
            struct leg_cost leg = place_leg(cut, place, a, b);
            busy_s[b - stage - 1] = leg.busy_s;
            path_s[b - stage - 1] = leg.path_s;
        }
    }
}

/* Look at cuts that leave no stage busier than this. False: there are none. */
static bool
cut_within(struct cut *cut, double bound_s)
{
    cut->bound_s = bound_s;
    if (!cut_narrow(cut))
        return false;
    for (int s = 0; s < cut->stages; s++)
        cut_price(cut, s);
    return true;
}

/* The least of the largest busy time (cap_s < 0), or of the sum of paths with no busy time
 * above cap_s. < 0: there is none. Fills in the cuts and the largest busy time. */
static double
cut_best(const struct cut *cut, double cap_s, int16_t *first, double *slowest_s)
{
    int n = cut->layers;
    int side = n + 1;
    cut->best[0] = 0.0;
    for (int s = 0; s < cut->stages; s++) {
        const double *before = &cut->best[(int64_t)s * side];
        double *here = &cut->best[(int64_t)(s + 1) * side];
        int16_t *from = &cut->from[(int64_t)(s + 1) * side];
        int low = cut->low[s + 1];
        for (int b = low; b <= cut->high[s + 1]; b++)
            here[b] = FLEET_NEVER_S;
        for (int a = cut->low[s]; a <= cut->high[s]; a++) {
            double sum_s = before[a];
            if (sum_s >= FLEET_NEVER_S)
                continue;
            const double *busy_s = &cut->busy_s[cut_at(cut, s, a, s + 1)];
            const double *path_s = &cut->path_s[cut_at(cut, s, a, s + 1)];
            int reach = cut->reach[s * cut->room + a - s];
            for (int b = low > a ? low : a + 1; b <= reach; b++) {
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

/* The least sum of paths, whatever the slowest stage takes: a path is what leads up to its end less
 * what leads up to its beginning, so that for each end the best beginning of those that have room
 * up to it is looked for in passing. */
static double
cut_least_sum(const struct cut *cut)
{
    int side = cut->layers + 1;
    double *before_s = cut->sums;
    double *here_s = cut->sums + side;
    int16_t *queue = cut->queue;
    int16_t *limit = cut->queue + side; /* of a beginning or one before it */
    before_s[0] = 0.0;
    for (int s = 0; s < cut->stages; s++) {
        const struct place *place = &cut->places[s];
        const double *forward_s = place->forward_s;
        const double *backward_s = place->backward_s;
        int first = 0; /* of the queue, in which a later beginning is a better one */
        int count = 0;
        for (int b = s + 1; b <= s + cut->room; b++) {
            int a = b - 1;
            if (s > 0 || a == 0) {
                limit[a] = cut->limit[s * cut->room + a - s];
                if (a > s && limit[a - 1] > limit[a])
                    limit[a] = limit[a - 1];
                before_s[a] +=
                    board_leg_cost(cut->board, cut->stages, place->before, place->after,
                                   0.0, 0.0, place->gradient_s[a])
                        .path_s -
                    (forward_s[a] + backward_s[a]);
                while (count > first && before_s[queue[count - 1]] >= before_s[a])
                    count--;
                queue[count++] = (int16_t)a;
            }
            while (count > first && limit[queue[first]] < b)
                first++;
            here_s[b] =
                count == first
                    ? FLEET_NEVER_S
                    : before_s[queue[first]] + forward_s[b] + backward_s[b] +
                          board_leg_cost(cut->board, cut->stages, place->before,
                                         place->after, 0.0, place->activation_s[b], 0.0)
                              .path_s;
        }
        double *swap = before_s;
        before_s = here_s;
        here_s = swap;
    }
    return before_s[cut->layers];
}

/* The least of `count` - 1 times the slowest stage plus all of them once. */
static bool
cut_search(struct cut *cut, int count, int16_t *first)
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
        if (cap_s * step > cut->bound_s)
            must(cut_within(cut, cap_s * cut_steps_all));
        double sum = cut_best(cut, cap_s * step, draft, &slowest_s);
        must(sum >= 0.0);
        double value = further * slowest_s + sum;
        if (!found || value < least) {
            least = value;
            memcpy(first, draft, ((size_t)cut->stages + 1) * sizeof(*first));
        }
        if (!found)
            least_sum = cut_least_sum(cut);
        found = true;
        step *= cut_step;
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
    size_t ends = ((size_t)stages + 1) * side;
    size_t begins = (size_t)stages * room;
    struct cut cut = {
        .board = board,
        .setting = &board->settings[setting],
        .stages = stages,
        .width = width,
        .layers = n,
        .room = (int)room,
        .busy_s = xrealloc(NULL, runs * tables + 3 * ends, sizeof(double)),
        .from = xrealloc(NULL, ends + 2 * begins + 2 * side, sizeof(int16_t)),
    };
    cut.path_s = cut.busy_s + runs * (tables - 1);
    cut.best = cut.busy_s + runs * tables;
    cut.sums = cut.best + ends;
    cut.limit = cut.from + ends;
    cut.reach = cut.limit + begins;
    cut.queue = cut.reach + begins;
    for (int s = 0; s < stages; s++) {
        cut.places[s].gradient_s = cut.sums + (size_t)(2 + s) * side;
        cut.places[s].activation_s = cut.sums + (size_t)(2 + stages + s) * side;
        cut_place(&cut, option, s);
        cut_limit(&cut, s);
    }
    bool found = cut_within(&cut, cut_bound(&cut) * cut_steps_few) &&
                 cut_search(&cut, count, first);
    free(cut.busy_s);
    free(cut.from);
    return found;
}
