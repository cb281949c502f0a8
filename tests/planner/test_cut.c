#include "planner/cut.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_cut(void);

enum { STAGES = 4, LAYERS = 14, COUNT = 40 };

/* A pipeline over options by chance, and what its cuts are worth. */
struct pipeline {
    const struct board *board;
    int setting;
    int stages;
    uint16_t option[STAGES];
    int16_t first[STAGES + 1];
};

/* False where a stage has no room or no link. */
static bool
weigh(const struct pipeline *pipeline, double *slowest_s, double *sum_s)
{
    const struct board *board = pipeline->board;
    const struct setting *setting = &board->settings[pipeline->setting];
    *slowest_s = 0.0;
    *sum_s = 0.0;
    for (int s = 0; s < pipeline->stages; s++) {
        int first = pipeline->first[s], end = pipeline->first[s + 1];
        const struct option *option = &board->options[pipeline->option[s]];
        const struct option *before =
            s > 0 ? &board->options[pipeline->option[s - 1]] : NULL;
        const struct option *after =
            s + 1 < pipeline->stages ? &board->options[pipeline->option[s + 1]] : NULL;
        if (board_bytes(board, setting, option, pipeline->stages - s, 1, first, end) >
            board_room(board, option))
            return false;
        struct leg_cost leg = board_leg(board, setting, pipeline->stages, before, option,
                                        after, first, end);
        *slowest_s = leg.busy_s > *slowest_s ? leg.busy_s : *slowest_s;
        *sum_s += leg.path_s;
    }
    return *sum_s < FLEET_NEVER_S;
}

/* The next way to cut; false after the last. */
static bool
next_cut(struct pipeline *pipeline, int layers)
{
    for (int s = pipeline->stages - 1; s > 0; s--) {
        if (pipeline->first[s] + 1 > layers - (pipeline->stages - s))
            continue;
        pipeline->first[s]++;
        for (int t = s + 1; t < pipeline->stages; t++)
            pipeline->first[t] = (int16_t)(pipeline->first[t - 1] + 1);
        return true;
    }
    return false;
}

static void
first_cut(struct pipeline *pipeline, int layers)
{
    for (int s = 0; s < pipeline->stages; s++)
        pipeline->first[s] = (int16_t)s;
    pipeline->first[pipeline->stages] = (int16_t)layers;
}

/* The least of (COUNT - 1) times the slowest stage and all stages once, of all cuts; < 0: there
 * is none. */
static double
best_of_all(struct pipeline pipeline)
{
    double best = -1.0;
    double slowest_s, sum_s;
    first_cut(&pipeline, pipeline.board->layers);
    do {
        if (!weigh(&pipeline, &slowest_s, &sum_s))
            continue;
        double value = (COUNT - 1) * slowest_s + sum_s;
        best = best < 0.0 || value < best ? value : best;
    } while (next_cut(&pipeline, pipeline.board->layers));
    return best;
}

/* Caps on the slowest stage go up by 2 %, so that a cut is found that is worth so much at least. */
static int
cut_and_compare(uint64_t seed)
{
    struct rng rng = {.seed = seed};
    struct fleet_request request;
    struct fleet *fleet = fleets_small(&rng, 8, LAYERS, &request);
    if (rng_below(&rng, 2))
        fleet->cost_model = COST_MODEL_REPLAY;
    struct board *board = board_new(&request, fleet);
    int cuts = 0;
    for (int i = 0; i < 20 && board->settings_count > 0; i++) {
        struct pipeline pipeline = {.board = board};
        pipeline.setting = (int)rng_below(&rng, (uint64_t)board->settings_count);
        pipeline.stages = 1 + (int)rng_below(&rng, STAGES);
        bool measured = pipeline.stages <= board->layers;
        for (int s = 0; s < pipeline.stages; s++) {
            pipeline.option[s] =
                (uint16_t)rng_below(&rng, (uint64_t)board->options_count);
            measured = measured && board_measured(&board->settings[pipeline.setting],
                                                  &board->options[pipeline.option[s]]);
        }
        if (!measured)
            continue;
        double best = best_of_all(pipeline);
        bool found = cut_layers(board, pipeline.setting, pipeline.stages, pipeline.option,
                                COUNT, 1, pipeline.first);
        ck_assert_msg(found == (best >= 0.0), "seed %llu, pipeline %d",
                      (unsigned long long)seed, i);
        if (!found)
            continue;
        double slowest_s, sum_s;
        ck_assert(weigh(&pipeline, &slowest_s, &sum_s));
        double value = (COUNT - 1) * slowest_s + sum_s;
        ck_assert_msg(value >= best * (1.0 - 1e-12) && value <= best * 1.02,
                      "seed %llu, pipeline %d: %.9g, the best is %.9g",
                      (unsigned long long)seed, i, value, best);
        cuts++;
    }
    board_free(board);
    fleet_free(fleet);
    return cuts;
}

START_TEST(a_cut_is_as_good_as_the_best_of_all_within_a_step)
{
    uint64_t seed = suite_seed(__func__, 1);
    int cuts = 0;
    for (int i = 0; i < 300; i++)
        cuts += cut_and_compare(seed + (uint64_t)i);
    ck_assert_int_gt(cuts, 1000);
}
END_TEST

Suite *
suite_cut(void)
{
    Suite *suite = suite_create("cut");
    TCase *all = suite_case(suite, "cut", 60);
    tcase_add_test(all, a_cut_is_as_good_as_the_best_of_all_within_a_step);
    return suite;
}
