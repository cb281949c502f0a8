#include "planner/lineup.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 30 };

/* A stage lies in pools of one kind, and no kind comes back after another was there. */
static void
check_in_a_row(const struct board *board, const struct draft *draft)
{
    for (int s = 0; s < draft->stages; s++)
        for (int c = 1; c < draft->crews_count; c++)
            ck_assert_int_eq(board->options[draft->crews[c].option[s]].kind,
                             board->options[draft->crews[0].option[s]].kind);
}

static void
check_lineup(const struct board *board, const struct draft *draft)
{
    static struct draft kept;
    struct draft *again = &kept;
    int used[FLEET_POOLS_MAX];
    draft_used(board, draft, used);
    for (int p = 0; p < board->fleet->pools_count; p++)
        ck_assert_int_le(used[p], board->fleet->pools[p].devices);
    int width = 0;
    for (int c = 0; c < draft->crews_count; c++)
        width += draft->crews[c].count;
    ck_assert_int_eq(draft->width, width);
    ck_assert_int_eq(draft->first[0], 0);
    ck_assert_int_eq(draft->first[draft->stages], board->layers);
    for (int s = 0; s < draft->stages; s++)
        ck_assert_int_lt(draft->first[s], draft->first[s + 1]);
    draft_copy(draft, again);
    draft_stale(again);
    ck_assert(draft_fits(board, again) && draft_weigh(board, again));
    /* Crews that the last weighing took apart may be ordered better yet. */
    ck_assert_double_le(again->iteration_s, draft->iteration_s);
}

static int
list_lineups(struct board *board, struct draft *drafts[LINEUPS_MAX], int64_t *weighed)
{
    struct team team;
    team_init(&team, board, NULL);
    int count = lineup_list(&team, drafts, weighed);
    team_release(&team);
    return count;
}

START_TEST(lineups_can_be_carried_out_and_the_best_come_first)
{
    struct rng rng = {.seed = suite_seed(__func__, 1)};
    int through_kinds = 0;
    int all = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int devices[9];
        for (int p = 0; p < 9; p++)
            devices[p] = rng_below(&rng, 3) == 0 ? 0 : (int)rng_below(&rng, 60);
        devices[0] += 8;
        struct fleet *fleet = fleets_cloud(
            &rng, 3, 3, devices, i % 2 ? COST_MODEL_REPLAY : COST_MODEL_PUBLISHED);
        struct fleet_request request;
        fleet_request_init(&request, 512);
        request.replicas = i % 5 == 4 ? 4 : 0;
        request.pipeline = i % 7 == 6 ? 3 : 0;
        struct board *board = board_new(&request, fleet);
        struct draft *drafts[LINEUPS_MAX];
        int64_t weighed = 0;
        int count = list_lineups(board, drafts, &weighed);
        ck_assert_int_le(count, LINEUPS_MAX);
        ck_assert_int_ge(weighed, count);
        for (int k = 0; k < count; k++) {
            check_in_a_row(board, drafts[k]);
            check_lineup(board, drafts[k]);
            ck_assert(k == 0 || !worth_before(&drafts[k]->worth, &drafts[k - 1]->worth));
            ck_assert(request.pipeline == 0 || drafts[k]->stages == request.pipeline);
            ck_assert(request.replicas == 0 || drafts[k]->width <= request.replicas);
            const uint16_t *option = drafts[k]->crews[0].option;
            through_kinds += board->options[option[0]].kind !=
                             board->options[option[drafts[k]->stages - 1]].kind;
        }
        all += count;
        for (int k = 0; k < count; k++)
            free(drafts[k]);
        board_free(board);
        fleet_free(fleet);
    }
    ck_assert_int_gt(all, ROUNDS * 4);
    ck_assert_int_gt(through_kinds, all / 8);
}
END_TEST

/* Zones with slow links between them: a reduction across them would take longest of all. */
START_TEST(where_rings_between_zones_are_slow_stages_keep_to_their_zone)
{
    struct rng rng = {.seed = 11};
    int devices[] = {24, 24, 24};
    struct fleet *fleet = fleets_cloud(&rng, 1, 3, devices, COST_MODEL_PUBLISHED);
    struct fleet_request request;
    fleet_request_init(&request, 512);
    struct board *board = board_new(&request, fleet);
    struct draft *drafts[LINEUPS_MAX];
    int64_t weighed = 0;
    int count = list_lineups(board, drafts, &weighed);
    int apart = 0; /* all three zones, and no ring between them */
    for (int k = 0; k < count; k++) {
        bool seen[3] = {false};
        bool kept = true;
        for (int s = 0; s < drafts[k]->stages; s++) {
            int pool = board->options[drafts[k]->crews[0].option[s]].pool;
            seen[pool] = true;
            for (int c = 1; c < drafts[k]->crews_count; c++)
                kept = kept && board->options[drafts[k]->crews[c].option[s]].pool == pool;
        }
        apart += kept && seen[0] && seen[1] && seen[2];
        free(drafts[k]);
    }
    ck_assert_int_gt(apart, 0);
    board_free(board);
    fleet_free(fleet);
}
END_TEST

START_TEST(a_fleet_with_nothing_that_was_measured_has_no_lineups)
{
    struct rng rng = {.seed = 13};
    int devices[] = {8, 8};
    struct fleet *fleet = fleets_cloud(&rng, 2, 1, devices, COST_MODEL_PUBLISHED);
    struct fleet_request request;
    fleet_request_init(&request, 512);
    request.micro_batch = 3; /* nobody measured it */
    struct board *board = board_new(&request, fleet);
    struct draft *drafts[LINEUPS_MAX];
    int64_t weighed = 0;
    ck_assert_int_eq(list_lineups(board, drafts, &weighed), 0);
    ck_assert_int_eq(weighed, 0);
    board_free(board);
    fleet_free(fleet);
}
END_TEST

Suite *suite_lineup(void);

Suite *
suite_lineup(void)
{
    Suite *suite = suite_create("lineup");
    TCase *tests = suite_case(suite, "lineup", 120);
    tcase_add_test(tests, lineups_can_be_carried_out_and_the_best_come_first);
    tcase_add_test(tests, where_rings_between_zones_are_slow_stages_keep_to_their_zone);
    tcase_add_test(tests, a_fleet_with_nothing_that_was_measured_has_no_lineups);
    return suite;
}
