#include "planner/shape.h"
#include "planner/cut.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHOICES_MAX = FLEET_KINDS_MAX * TP_SLOTS,
    GUESSES_EACH = 24, /* of one setting and depth */
    GUESSES_CUT = 90,  /* as below, the most */
    GUESSES_SURE = 5,
    SURE_DEPTH = 8, /* depths that are sure of some */
    KEPT_EACH = 8,  /* of one setting and depth */
    QUICK_CHOICES = 8
};

static const struct extent {
    int free; /* shapes of one setting and depth that are looked at in full */
    int cut; /* guesses that are cut: by their guess, and as many by their hope, of all */
    int sure;   /* of one setting and depth, however the others are */
    int orders; /* of the stages of one guess */
} extents[] = {
    [SHAPES_ALL] = {8000, GUESSES_CUT, GUESSES_SURE, 16},
    [SHAPES_FEW] = {1000, 0, 3, 6},
    [SHAPES_QUICK] = {100, 12, 0, 16},
};

/* A kind of device with a degree, as one setting has it. */
struct choice_of {
    uint16_t option;
    int kind;
    int tp;
    double rate;    /* models a second */
    double ends_s;  /* sending and receiving at both ends of a stage */
    int layers_max; /* that it has room for, with one micro-batch kept */
};

/* Choices for the stages of a pipeline, before they have an order and layers. */
struct guess {
    double goal_s; /* an iteration's pipelines, if layers could be cut at will */
    double hope_s; /* if what is left over did as well */
    int setting;
    int stages;
    int width; /* as many as there are devices for */
    double leftover;
    uint8_t picked[DEPTH_MAX]; /* choices, ascending */
};

/* The best guesses of one sort, best first. */
struct guesses {
    int count;
    struct guess list[GUESSES_EACH];
};

struct shaper {
    const struct board *board;
    const struct extent *extent;
    bool quick;
    struct guesses *guesses; /* [2]: by goal, by hope; of the setting and depth at hand */
    struct shape *kept;      /* [settings x depths x 2 x KEPT_EACH], all settings' */
    int *kept_counts;
    int devices[FLEET_KINDS_MAX];
    int choices_count;
    struct choice_of choices[CHOICES_MAX];
    double speed[FLEET_KINDS_MAX]; /* best rate of a device */
    int setting;
    int stages;
    uint8_t picked[DEPTH_MAX];
    int64_t weighed;
};

/* ---- choices of one setting ---- */

/* The pool that stands for a kind: in the zone with the most devices if it has the kind, else
 * the largest. */
static int
standing_pool(const struct board *board, int kind)
{
    const struct fleet *fleet = board->fleet;
    int in_zone[ZONES_MAX] = {0};
    for (int p = 0; p < fleet->pools_count; p++)
        in_zone[fleet->pools[p].zone] += fleet->pools[p].devices;
    int home = 0;
    for (int z = 1; z < fleet->zones_count; z++)
        if (in_zone[z] > in_zone[home])
            home = z;
    int best = -1;
    for (int p = 0; p < fleet->pools_count; p++) {
        const struct fleet_pool *pool = &fleet->pools[p];
        if (pool->kind != kind)
            continue;
        if (pool->zone == home && pool->devices > 0)
            return p;
        if (best < 0 || pool->devices > fleet->pools[best].devices)
            best = p;
    }
    return best;
}

/* How fast each choice is, and how much it holds. */
static void
measure_choices(struct shaper *shaper)
{
    const struct board *board = shaper->board;
    const struct setting *setting = &board->settings[shaper->setting];
    memset(shaper->speed, 0, sizeof(shaper->speed));
    for (int c = 0; c < shaper->choices_count; c++) {
        struct choice_of *choice = &shaper->choices[c];
        const struct option *option = &board->options[choice->option];
        double all_s = board_compute_s(setting, option, 0, board->layers);
        choice->rate = all_s > 1e-12 ? 1.0 / all_s : 1e12;
        choice->ends_s =
            2.0 * board_send_s(board, setting, option, option, board->layers / 2);
        double speed = choice->rate / (double)choice->tp;
        if (speed > shaper->speed[choice->kind])
            shaper->speed[choice->kind] = speed;
        /* The longest run anywhere. */
        choice->layers_max = 0;
        /* The optimizer's state is the less the more replicas divide it. */
        int width =
            setting->shard_optimizer ? shaper->devices[choice->kind] / choice->tp : 1;
        width = width > 1 ? width : 1;
        int first = 0;
        for (int end = 1; end <= board->layers; end++) {
            while (first < end && board_bytes(board, setting, option, 1, width, first,
                                              end) > board_room(board, option))
                first++;
            if (end - first > choice->layers_max)
                choice->layers_max = end - first;
        }
    }
}

static void
list_choices(struct shaper *shaper)
{
    const struct board *board = shaper->board;
    const struct setting *setting = &board->settings[shaper->setting];
    shaper->choices_count = 0;
    for (int kind = 0; kind < board->fleet->kinds_count; kind++) {
        int pool = standing_pool(board, kind);
        for (int o = 0; o < board->options_count; o++) {
            const struct option *option = &board->options[o];
            if (option->pool == pool && board_measured(setting, option))
                shaper->choices[shaper->choices_count++] = (struct choice_of){
                    .option = (uint16_t)o, .kind = kind, .tp = option->tp};
        }
    }
    measure_choices(shaper);
}

/* ---- weighing a shape ---- */

static bool
shape_before(const struct shape *left, const struct shape *right, bool by_hope)
{
    if (by_hope && left->worth.breach <= 0.0 && right->worth.breach <= 0.0 &&
        left->hope != right->hope)
        return left->hope < right->hope;
    return worth_before(&left->worth, &right->worth);
}

static void
keep(struct shaper *shaper, const struct shape *shape, bool by_hope)
{
    int place = (shape->setting * DEPTH_MAX + shape->stages - 1) * 2 + by_hope;
    struct shape *list = &shaper->kept[place * KEPT_EACH];
    int *count = &shaper->kept_counts[place];
    int at = *count;
    while (at > 0 && shape_before(shape, &list[at - 1], by_hope))
        at--;
    if (at == KEPT_EACH)
        return;
    if (*count < KEPT_EACH)
        (*count)++;
    for (int i = *count - 1; i > at; i--)
        list[i] = list[i - 1];
    list[at] = *shape;
}

/* Weigh a cut shape with the numbers of pipelines that may matter. */
static void
weigh_shape(struct shaper *shaper, struct shape *shape, int most, double leftover)
{
    const struct board *board = shaper->board;
    const struct setting *setting = &board->settings[shape->setting];
    struct draft draft;
    draft.setting = shape->setting;
    draft.stages = shape->stages;
    draft.crews_count = 1;
    memcpy(draft.first, shape->first, sizeof(draft.first));
    memcpy(draft.crews[0].option, shape->option, sizeof(shape->option));
    bool all = board->request->objective == OBJECTIVE_COST ||
               board->request->usd_per_iteration_max >= 0.0 ||
               board->request->usd_per_hour_max >= 0.0;
    bool found = false;
    for (int width = most; width >= 1;) {
        draft.crews[0].priced = false;
        draft.crews[0].count = width;
        draft.width = width;
        shaper->weighed++;
        if (draft_weigh(board, &draft) &&
            (!found || worth_before(&draft.worth, &shape->worth))) {
            found = true;
            shape->worth = draft.worth;
            shape->width = width;
            shape->hope = draft.worth.goal;
        }
        int each = (setting->total + width - 1) / width;
        int fewest = (setting->total + each - 1) / each; /* as many micro-batches */
        if (fewest < width)
            width = fewest;
        else if (all)
            width--;
        else
            break;
    }
    if (!found)
        return;
    if (board->request->objective == OBJECTIVE_THROUGHPUT)
        shape->hope *= leftover;
    keep(shaper, shape, false);
    keep(shaper, shape, true);
}

/* The picked choices in one order: kinds in the order `kinds`, degrees down or up, all turned
 * round by `turn` stages. */
static void
order_stages(const struct shaper *shaper, const int *kinds, int kinds_count, bool up,
             int turn, struct shape *shape)
{
    int at = turn;
    for (int k = 0; k < kinds_count; k++) {
        for (int i = 0; i < shape->stages; i++) {
            int pick = up ? i : shape->stages - 1 - i;
            const struct choice_of *choice = &shaper->choices[shaper->picked[pick]];
            if (choice->kind == kinds[k])
                shape->option[at++ % shape->stages] = choice->option;
        }
    }
    must(at == turn + shape->stages);
}

static bool
next_permutation(int *items, int count)
{
    int i = count - 2;
    while (i >= 0 && items[i] >= items[i + 1])
        i--;
    if (i < 0)
        return false;
    int j = count - 1;
    while (items[j] <= items[i])
        j--;
    int swap = items[i];
    items[i] = items[j];
    items[j] = swap;
    for (int a = i + 1, b = count - 1; a < b; a++, b--) {
        swap = items[a];
        items[a] = items[b];
        items[b] = swap;
    }
    return true;
}

static bool
same_guess(const struct guess *left, const struct guess *right)
{
    return left->setting == right->setting && left->stages == right->stages &&
           memcmp(left->picked, right->picked, (size_t)left->stages) == 0;
}

/* Cut and weigh a guess in the orders that may matter. */
static void
try_guess(struct shaper *shaper, const struct guess *guess)
{
    const struct board *board = shaper->board;
    memcpy(shaper->picked, guess->picked, sizeof(guess->picked));
    int kinds[FLEET_KINDS_MAX];
    int kinds_count = 0;
    bool mixed = false;
    for (int s = 0; s < guess->stages; s++) {
        int kind = shaper->choices[guess->picked[s]].kind;
        if (s == 0 || kind != kinds[kinds_count - 1])
            kinds[kinds_count++] = kind;
        mixed = mixed || guess->picked[s] != guess->picked[0];
    }
    struct shape shape = {.setting = guess->setting, .stages = guess->stages};
    int total = board->settings[guess->setting].total;
    int count = (total + guess->width - 1) / guess->width;
    int orders = 0;
    do {
        for (int turn = 0; turn < (kinds_count > 1 ? guess->stages : 1); turn++) {
            for (int up = 0; up < (mixed ? 2 : 1) && orders < shaper->extent->orders;
                 up++) {
                uint16_t before[DEPTH_MAX];
                memcpy(before, shape.option, sizeof(before));
                order_stages(shaper, kinds, kinds_count, up == 1, turn, &shape);
                if (up == 1 && memcmp(before, shape.option, sizeof(before)) == 0)
                    continue;
                orders++;
                if (cut_layers(board, shape.setting, shape.stages, shape.option, count,
                               guess->width, shape.first))
                    weigh_shape(shaper, &shape, guess->width, guess->leftover);
            }
        }
    } while (orders < shaper->extent->orders && kinds_count > 2 &&
             next_permutation(kinds, kinds_count));
}

/* ---- enumeration ---- */

static void
guess_keep(struct guess *list, int *count, int most, const struct guess *guess,
           bool by_hope)
{
    double value = by_hope ? guess->hope_s : guess->goal_s;
    int at = *count;
    while (at > 0 && value < (by_hope ? list[at - 1].hope_s : list[at - 1].goal_s))
        at--;
    if (at == most)
        return;
    if (*count < most)
        (*count)++;
    for (int i = *count - 1; i > at; i--)
        list[i] = list[i - 1];
    list[at] = *guess;
}

/* What the picked choices' reductions take if layers are cut by their rates. */
static double
guess_reduce(const struct shaper *shaper, int width, double rate)
{
    const struct board *board = shaper->board;
    double worst_s = 0.0;
    for (int s = 0; s < shaper->stages; s++) {
        const struct choice_of *choice = &shaper->choices[shaper->picked[s]];
        if (s > 0 && shaper->picked[s] == shaper->picked[s - 1])
            continue;
        const struct option *option = &board->options[choice->option];
        int32_t curve = *fleet_link(board->fleet, option->pool, 0, option->pool, 0);
        int tp = choice->tp < 4 ? choice->tp : 4;
        double bytes =
            board->weight_bytes[board->layers] * choice->rate / rate / (double)tp;
        if (curve < 0)
            continue;
        double seconds = board_ring_s(board, curve, bytes, width, 1);
        worst_s = seconds > worst_s ? seconds : worst_s;
    }
    return worst_s;
}

/* Guess what the picked choices are good for: layers cut at will, all links alike. */
static void
guess_picked(struct shaper *shaper)
{
    const struct board *board = shaper->board;
    const struct setting *setting = &board->settings[shaper->setting];
    int use[FLEET_KINDS_MAX] = {0};
    double rate = 0.0;
    double sending = 0.0;
    int layers = 0;
    int width = setting->total;
    for (int s = 0; s < shaper->stages; s++) {
        const struct choice_of *choice = &shaper->choices[shaper->picked[s]];
        rate += choice->rate;
        sending += choice->rate * choice->ends_s;
        layers += choice->layers_max;
        use[choice->kind] += choice->tp;
        int fit = shaper->devices[choice->kind] / use[choice->kind];
        width = fit < width ? fit : width;
    }
    if (width < 1 || layers < board->layers)
        return;
    shaper->weighed++;
    double left = 0.0;
    for (int k = 0; k < board->fleet->kinds_count; k++)
        left += (double)(shaper->devices[k] - width * use[k]) * shaper->speed[k];
    struct guess guess;
    guess.leftover = rate * (double)width / (rate * (double)width + left);
    double stages = (double)shaper->stages;
    double count = (double)setting->total / (double)width;
    double each = (double)((setting->total + width - 1) / width);
    double pace_s = (1.0 + (shaper->stages > 1 ? sending : 0.0)) / rate;
    double reduce_s = -1.0;
    for (int by_hope = 0; by_hope < 2; by_hope++) {
        struct guesses *guesses = &shaper->guesses[by_hope];
        double value = by_hope ? (count - 1.0 + stages) * pace_s * guess.leftover
                               : (each - 1.0 + stages) * pace_s;
        const struct guess *last = &guesses->list[GUESSES_EACH - 1];
        if (guesses->count == GUESSES_EACH &&
            value >= (by_hope ? last->hope_s : last->goal_s))
            continue;
        if (reduce_s < 0.0)
            reduce_s = guess_reduce(shaper, width, rate);
        guess.goal_s = (each - 1.0 + stages) * pace_s + reduce_s;
        guess.hope_s = (count - 1.0 + stages) * pace_s * guess.leftover + reduce_s;
        guess.setting = shaper->setting;
        guess.stages = shaper->stages;
        guess.width = width;
        memcpy(guess.picked, shaper->picked, sizeof(guess.picked));
        guess_keep(guesses->list, &guesses->count, GUESSES_EACH, &guess, by_hope == 1);
    }
}

/* Is the number of multisets of `picks` out of `choices` within the limit? */
static bool
few(const struct shaper *shaper, int choices, int picks)
{
    double count = 1.0;
    for (int i = 1; i <= picks; i++)
        count = count * (double)(choices + i - 1) / (double)i;
    return count <= (double)shaper->extent->free;
}

static void
pick_freely(struct shaper *shaper)
{
    int n = shaper->stages;
    for (int s = 0; s < n; s++)
        shaper->picked[s] = 0;
    for (;;) {
        guess_picked(shaper);
        int s = n - 1;
        while (s >= 0 && shaper->picked[s] == shaper->choices_count - 1)
            s--;
        if (s < 0)
            return;
        uint8_t next = (uint8_t)(shaper->picked[s] + 1);
        for (; s < n; s++)
            shaper->picked[s] = next;
    }
}

/* In a quick search with many choices half the stages each, else any number of them. */
static void
pick_two(struct shaper *shaper)
{
    int n = shaper->stages;
    bool halves = shaper->quick && shaper->choices_count > QUICK_CHOICES;
    int least = halves && n > 1 ? n / 2 : 1;
    for (int a = 0; a < shaper->choices_count; a++) {
        for (int b = a; b < shaper->choices_count; b++) {
            int end = a == b || halves ? least + 1 : n;
            for (int count = least; count < end; count++) {
                for (int s = 0; s < n; s++)
                    shaper->picked[s] = (uint8_t)(s < count ? a : b);
                guess_picked(shaper);
            }
        }
    }
}

/* Put a shape in its place among the best of its sort; twins once. */
static int
collect_one(const struct shape *shape, bool by_hope, struct shape *shapes, int count,
            int most)
{
    for (int t = 0; t < count; t++)
        if (shapes[t].setting == shape->setting && shapes[t].stages == shape->stages &&
            memcmp(shapes[t].option, shape->option,
                   (size_t)shape->stages * sizeof(shape->option[0])) == 0 &&
            memcmp(shapes[t].first, shape->first,
                   (size_t)shape->stages * sizeof(shape->first[0])) == 0)
            return count;
    int at = count;
    while (at > 0 && shape_before(shape, &shapes[at - 1], by_hope))
        at--;
    if (at == most)
        return count;
    if (count < most)
        count++;
    for (int j = count - 1; j > at; j--)
        shapes[j] = shapes[j - 1];
    shapes[at] = *shape;
    return count;
}

/* The best by worth, then the best by hope. */
static int
collect(const struct shape *kept, const int *kept_counts, int settings,
        struct shape *shapes, int most)
{
    int lists = settings * DEPTH_MAX * 2;
    int count = 0;
    for (int half = 0; half < 2; half++) {
        int start = count;
        int room = half == 0 ? most / 2 : most - start;
        int got = 0;
        for (int list = half; list < lists; list += 2) {
            for (int i = 0; i < kept_counts[list]; i++) {
                const struct shape *shape = &kept[list * KEPT_EACH + i];
                got = collect_one(shape, half == 1, &shapes[start], got, room);
            }
        }
        count += got;
    }
    return count;
}

/* ---- settings side by side ---- */

/* What was guessed of one setting. */
struct noted {
    bool by_hope;
    bool sure;
    struct guess guess;
};

enum { NOTED_MAX = DEPTH_MAX * 2 * GUESSES_EACH };

/* The search of one setting: what it keeps, no other does. */
struct setting_search {
    struct team *team;
    struct shaper shaper;
    int noted_count;
    struct noted *noted; /* [NOTED_MAX], in the order of depths */
    int tried_count;
    struct guess *tried; /* [GUESSES_TRIED], in the order in which they are cut */
};

enum { GUESSES_TRIED = SURE_DEPTH * 2 * GUESSES_SURE + 2 * GUESSES_CUT };

/* The best guesses of all depths. */
static void
guess_setting(void *arg, int item, int worker)
{
    struct setting_search *search = (struct setting_search *)arg + item;
    struct shaper *shaper = &search->shaper;
    const struct board *board = team_board(search->team, worker);
    int deepest = shaper->extent->cut > 0 ? DEPTH_MAX : SURE_DEPTH;
    deepest = board->layers < deepest ? board->layers : deepest;
    shaper->board = board;
    shaper->guesses = xcalloc(2, sizeof(*shaper->guesses));
    list_choices(shaper);
    for (int stages = 1; stages <= deepest; stages++) {
        if (board->request->pipeline > 0 && stages != board->request->pipeline)
            continue;
        shaper->stages = stages;
        shaper->guesses[0].count = 0;
        shaper->guesses[1].count = 0;
        if (few(shaper, shaper->choices_count, stages))
            pick_freely(shaper);
        else
            pick_two(shaper);
        for (int by_hope = 0; by_hope < 2; by_hope++) {
            for (int i = 0; i < shaper->guesses[by_hope].count; i++) {
                const struct guess *guess = &shaper->guesses[by_hope].list[i];
                bool again = false;
                for (int k = 0; by_hope && k < shaper->guesses[0].count && !again; k++)
                    again = same_guess(guess, &shaper->guesses[0].list[k]);
                bool sure = i < shaper->extent->sure && stages <= SURE_DEPTH;
                if (!again)
                    search->noted[search->noted_count++] =
                        (struct noted){by_hope == 1, sure, *guess};
            }
        }
    }
    free(shaper->guesses);
}

static void
try_setting(void *arg, int item, int worker)
{
    struct setting_search *search = (struct setting_search *)arg + item;
    search->shaper.board = team_board(search->team, worker);
    for (int i = 0; i < search->tried_count; i++)
        try_guess(&search->shaper, &search->tried[i]);
}

/* Which guesses are cut: those that are sure to be, and the best of all settings. */
static void
choose_guesses(struct setting_search *searches, int count, const struct extent *extent)
{
    struct guess *cut = xcalloc(2 * GUESSES_CUT, sizeof(*cut));
    int counts[2] = {0, 0};
    for (int s = 0; s < count; s++) {
        struct setting_search *search = &searches[s];
        for (int i = 0; i < search->noted_count; i++) {
            const struct noted *noted = &search->noted[i];
            if (noted->sure)
                search->tried[search->tried_count++] = noted->guess;
            else
                guess_keep(&cut[noted->by_hope ? GUESSES_CUT : 0],
                           &counts[noted->by_hope], extent->cut, &noted->guess,
                           noted->by_hope);
        }
    }
    for (int by_hope = 0; by_hope < 2; by_hope++) {
        for (int i = 0; i < counts[by_hope]; i++) {
            const struct guess *guess = &cut[by_hope * GUESSES_CUT + i];
            struct setting_search *search = &searches[guess->setting];
            search->tried[search->tried_count++] = *guess;
        }
    }
    free(cut);
}

int
shapes_list(struct team *team, enum shapes_extent extent, struct shape *shapes, int most,
            int64_t *weighed)
{
    const struct board *board = team->board;
    int settings = board->settings_count;
    size_t lists = (size_t)settings * DEPTH_MAX * 2;
    struct shape *kept = xcalloc(lists * KEPT_EACH + 1, sizeof(*kept));
    int *kept_counts = xcalloc(lists + 1, sizeof(*kept_counts));
    struct setting_search *searches = xcalloc((size_t)settings + 1, sizeof(*searches));
    for (int s = 0; s < settings; s++) {
        struct setting_search *search = &searches[s];
        search->team = team;
        search->noted = xcalloc(NOTED_MAX, sizeof(*search->noted));
        search->tried = xcalloc(GUESSES_TRIED, sizeof(*search->tried));
        search->shaper.extent = &extents[extent];
        search->shaper.quick = extent == SHAPES_QUICK;
        search->shaper.kept = kept;
        search->shaper.kept_counts = kept_counts;
        search->shaper.setting = s;
        for (int p = 0; p < board->fleet->pools_count; p++)
            search->shaper.devices[board->fleet->pools[p].kind] +=
                board->fleet->pools[p].devices;
    }
    team_run(team, settings, guess_setting, searches);
    choose_guesses(searches, settings, &extents[extent]);
    team_run(team, settings, try_setting, searches);
    int count = collect(kept, kept_counts, settings, shapes, most);
    for (int s = 0; s < settings; s++) {
        *weighed += searches[s].shaper.weighed;
        free(searches[s].noted);
        free(searches[s].tried);
    }
    free(searches);
    free(kept);
    free(kept_counts);
    return count;
}
