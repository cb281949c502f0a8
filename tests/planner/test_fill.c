#include "planner/cut.h"
#include "planner/fill.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <string.h>

enum { ROUNDS = 40 };

/* One pipeline on one option, cut as it should be; false if that has no room. */
static bool
one_pipeline(const struct board *board, int setting, int stages, int option,
             struct draft *draft)
{
    memset(draft, 0, sizeof(*draft));
    draft->setting = setting;
    draft->stages = stages;
    draft->crews_count = 1;
    draft->width = 1;
    draft->crews[0].count = 1;
    for (int s = 0; s < stages; s++)
        draft->crews[0].option[s] = (uint16_t)option;
    if (stages * board->options[option].tp >
        board->fleet->pools[board->options[option].pool].devices)
        return false;
    return cut_layers(board, setting, stages, draft->crews[0].option, 8, 1,
                      draft->first) &&
           draft_fits(board, draft) && draft_weigh(board, draft);
}

static void
check_filled(const struct board *board, const struct draft *before, struct draft *after)
{
    int used[FLEET_POOLS_MAX];
    draft_used(board, after, used);
    for (int p = 0; p < board->fleet->pools_count; p++)
        ck_assert_int_le(used[p], board->fleet->pools[p].devices);
    ck_assert_int_eq(after->setting, before->setting);
    ck_assert_int_eq(after->stages, before->stages);
    ck_assert_mem_eq(after->first, before->first, sizeof(before->first));
    ck_assert(draft_fits(board, after));
    double said = after->iteration_s;
    ck_assert(worth_energy(&after->worth) <= worth_energy(&before->worth));
    draft_stale(after);
    ck_assert(draft_weigh(board, after));
    ck_assert_double_eq(after->iteration_s, said);
}

START_TEST(a_filled_draft_keeps_its_pools_and_is_worth_no_less)
{
    struct rng rng = {.seed = suite_seed(__func__, 1)};
    static struct draft before, after;
    int better = 0;
    int tried = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int devices[6];
        for (int p = 0; p < 6; p++)
            devices[p] = (int)rng_below(&rng, 40);
        devices[0] += 8;
        struct fleet *fleet = fleets_cloud(
            &rng, 3, 2, devices, i % 2 ? COST_MODEL_REPLAY : COST_MODEL_PUBLISHED);
        struct fleet_request request;
        fleet_request_init(&request, 512);
        struct board *board = board_new(&request, fleet);
        int setting = (int)rng_below(&rng, (uint64_t)board->settings_count);
        int option = (int)rng_below(&rng, (uint64_t)board->options_count);
        if (one_pipeline(board, setting, 1 + (int)rng_below(&rng, 6), option, &before)) {
            draft_copy(&before, &after);
            fill_draft(board, &after);
            check_filled(board, &before, &after);
            better += after.iteration_s < before.iteration_s * 0.5;
            tried++;
        }
        board_free(board);
        fleet_free(fleet);
    }
    ck_assert_int_gt(tried, ROUNDS / 4);
    ck_assert_int_gt(better, tried / 2);
}
END_TEST

START_TEST(pools_of_another_kind_that_lie_idle_are_put_to_work)
{
    struct rng rng = {.seed = 3};
    int devices[] = {16, 0, 0, 24};
    static struct draft draft;
    struct fleet *fleet = fleets_cloud(&rng, 2, 2, devices, COST_MODEL_PUBLISHED);
    struct fleet_request request;
    fleet_request_init(&request, 512);
    struct board *board = board_new(&request, fleet);
    int option = board->option_of[0][2];
    ck_assert_int_ge(option, 0);
    int both = 0;
    for (int s = 0; s < board->settings_count; s++) {
        if (!one_pipeline(board, s, 2, option, &draft))
            continue;
        fill_draft(board, &draft);
        int used[FLEET_POOLS_MAX];
        draft_used(board, &draft, used);
        ck_assert_int_gt(used[0], 8);
        both += used[3] > 8; /* with micro-batches for which it has the memory */
    }
    ck_assert_int_gt(both, 0);
    board_free(board);
    fleet_free(fleet);
}
END_TEST

Suite *suite_fill(void);

Suite *
suite_fill(void)
{
    Suite *suite = suite_create("fill");
    TCase *tests = suite_case(suite, "fill", 120);
    tcase_add_test(tests, a_filled_draft_keeps_its_pools_and_is_worth_no_less);
    tcase_add_test(tests, pools_of_another_kind_that_lie_idle_are_put_to_work);
    return suite;
}
