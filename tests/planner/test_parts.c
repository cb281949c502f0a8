#include "planner/parts.h"
#include "planner/starts.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

enum { POOLS_MAX = 4 };

/* What is asked. */
enum question {
    PLAIN,
    PLAIN_TOO,
    REPLAYED,
    FIXED, /* two replicas */
    CHEAPEST,
    QUESTIONS
};

/* Up to four pools of up to three kinds or in up to four zones; up to three where cost
 * counts. */
static struct fleet *
random_cloud(struct rng *rng, enum question question)
{
    static const int extents[][2] = {{2, 1}, {3, 1}, {1, 2}, {1, 4}, {2, 2}};
    const int *extent = extents[rng_below(rng, question == CHEAPEST ? 3 : 5)];
    int devices[POOLS_MAX] = {0};
    for (int i = 0; i < extent[0] * extent[1]; i++)
        devices[i] = rng_below(rng, 4) == 0 ? 0 : 1 + (int)rng_below(rng, 48);
    devices[0] += 8;
    return fleets_cloud(rng, extent[0], extent[1], devices,
                        question == REPLAYED ? COST_MODEL_REPLAY : COST_MODEL_PUBLISHED);
}

static void
keep_pools(const struct fleet *fleet, int set, int devices[FLEET_POOLS_MAX])
{
    memset(devices, 0, FLEET_POOLS_MAX * sizeof(*devices));
    for (int p = 0; p < fleet->pools_count; p++)
        devices[p] = set >> p & 1 ? fleet->pools[p].devices : 0;
}

static bool
ask(const struct fleet_request *request, const struct fleet *fleet,
    struct fleet_answer *answer)
{
    struct err err;
    if (fleet_search_plan(request, fleet, answer, &err) == 0)
        return true;
    ck_assert_msg(err.code == ERR_PLAN, "%s", err.msg);
    return false;
}

/* A part of a fleet, asked about by itself, is no better than `all`; NULL: nothing was found. */
static void
no_better(const struct fleet_request *request, const struct fleet *fleet,
          const int devices[FLEET_POOLS_MAX], const struct fleet_answer *all,
          uint64_t seed)
{
    struct fleet *part = fleet_copy(fleet);
    int left = 0;
    for (int p = 0; p < fleet->pools_count; p++) {
        part->pools[p].devices = devices[p];
        left += devices[p];
    }
    struct fleet_answer some;
    if (left > 0 && ask(request, part, &some)) {
        ck_assert(all);
        bool cost = request->objective == OBJECTIVE_COST;
        double ours = cost ? all->estimate.usd_per_iteration : all->estimate.iteration_s;
        double theirs =
            cost ? some.estimate.usd_per_iteration : some.estimate.iteration_s;
        char text[256] = "";
        for (int p = 0; p < fleet->pools_count; p++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), " %d of %d",
                     devices[p], fleet->pools[p].devices);
        ck_assert_msg(ours <= theirs * (1.0 + 1e-12),
                      "seed %llu: %.9f with all, %.9f with%s", (unsigned long long)seed,
                      ours, theirs, text);
        fleet_answer_release(&some);
    }
    fleet_free(part);
}

/* Every set of a fleet's pools is asked about by itself. */
static void
no_set_is_better(uint64_t seed, enum question question)
{
    struct rng rng = {.seed = seed};
    struct fleet *fleet = random_cloud(&rng, question);
    struct fleet_request request;
    fleet_request_init(&request, 512);
    request.objective = question == CHEAPEST ? OBJECTIVE_COST : OBJECTIVE_THROUGHPUT;
    request.replicas = question == FIXED ? 2 : 0;
    struct fleet_answer all;
    bool found = ask(&request, fleet, &all);
    for (int set = 1; set < (1 << fleet->pools_count) - 1; set++) {
        int devices[FLEET_POOLS_MAX];
        keep_pools(fleet, set, devices);
        no_better(&request, fleet, devices, found ? &all : NULL, seed);
    }
    if (found)
        fleet_answer_release(&all);
    fleet_free(fleet);
}

START_TEST(no_set_of_pools_is_better_than_all_of_them)
{
    uint64_t seed = suite_seed(__func__, 1);
    int count = suite_rounds(QUESTIONS);
    for (int i = 0; i < count; i++)
        no_set_is_better(seed + (uint64_t)i,
                         (enum question)((seed + (uint64_t)i) % QUESTIONS));
}
END_TEST

/* What is named but has no devices, and kinds and zones of it, are as if never named. */
START_TEST(a_part_is_planned_as_if_the_other_pools_had_never_been_named)
{
    uint64_t seed = suite_seed(__func__, 1);
    int count = suite_rounds(4);
    for (int i = 0; i < count; i++) {
        struct rng rng = {.seed = seed + (uint64_t)i};
        struct fleet *fleet = random_cloud(&rng, PLAIN);
        int devices[FLEET_POOLS_MAX];
        keep_pools(fleet, 0x5, devices);
        int16_t pool_from[FLEET_POOLS_MAX];
        struct fleet *part = fleet_part(fleet, devices, pool_from);
        for (int p = 0; p < fleet->pools_count; p++)
            fleet->pools[p].devices = devices[p];
        struct fleet_request request;
        fleet_request_init(&request, 256);
        struct fleet_answer left;
        struct fleet_answer right;
        bool found = ask(&request, fleet, &left);
        ck_assert(found == ask(&request, part, &right));
        if (found) {
            ck_assert(left.estimate.iteration_s == right.estimate.iteration_s);
            ck_assert_int_eq(left.candidates, right.candidates);
            ck_assert_int_eq(left.plan.width, right.plan.width);
            for (int s = 0; s < left.plan.stages_count; s++)
                for (int j = 0; j < left.plan.width; j++)
                    ck_assert_int_eq(
                        fleet_plan_replica(&left.plan, s, j)->pool,
                        pool_from[fleet_plan_replica(&right.plan, s, j)->pool]);
            fleet_answer_release(&left);
            fleet_answer_release(&right);
        }
        fleet_free(part);
        fleet_free(fleet);
    }
}
END_TEST

START_TEST(a_part_of_a_fleet_has_its_pools_kinds_zones_links_and_prices)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct rng rng = {.seed = seed};
        struct fleet *fleet = random_cloud(&rng, PLAIN);
        int devices[FLEET_POOLS_MAX];
        keep_pools(fleet, 1 | (int)rng_below(&rng, 16), devices);
        devices[0] -= 3;
        int16_t from[FLEET_POOLS_MAX];
        struct fleet *part = fleet_part(fleet, devices, from);
        struct err err;
        ck_assert_msg(fleet_check(part, &err) == 0, "%s", err.msg);
        int kept = 0;
        for (int p = 0; p < fleet->pools_count; p++)
            kept += devices[p] > 0;
        ck_assert_int_eq(part->pools_count, kept);
        for (int a = 0; a < part->pools_count; a++) {
            const struct fleet_pool *pool = &part->pools[a];
            const struct fleet_pool *same = &fleet->pools[from[a]];
            ck_assert(a == 0 || from[a - 1] < from[a]);
            ck_assert_int_eq(pool->devices, devices[from[a]]);
            ck_assert_str_eq(part->kinds[pool->kind].name, fleet->kinds[same->kind].name);
            ck_assert_str_eq(part->zones[pool->zone].name, fleet->zones[same->zone].name);
            for (int b = 0; b < part->pools_count; b++) {
                ck_assert(part->egress_usd_per_gb[pool->zone * ZONES_MAX +
                                                  part->pools[b].zone] ==
                          fleet->egress_usd_per_gb[same->zone * ZONES_MAX +
                                                   fleet->pools[from[b]].zone]);
                for (int s = 0; s < TP_SLOTS; s++)
                    for (int t = 0; t < TP_SLOTS; t++)
                        ck_assert_int_eq(*fleet_link(part, a, s, b, t),
                                         *fleet_link(fleet, from[a], s, from[b], t));
            }
        }
        fleet_free(part);
        fleet_free(fleet);
    }
}
END_TEST

START_TEST(starts_are_parts_and_none_comes_twice)
{
    struct rng rng = {.seed = 5};
    int devices[] = {64, 4, 8, 48, 0, 4};
    struct fleet *fleet = fleets_cloud(&rng, 2, 3, devices, COST_MODEL_PUBLISHED);
    struct start starts[STARTS_MAX];
    int count = starts_list(fleet, starts);
    /* Without a zone 3, a kind 2, a pool 5, but one zone has one pool; and each alone. */
    ck_assert_int_eq(count, 3 + 2 + 4 + 3);
    for (int i = 0; i < count; i++) {
        int left = 0;
        for (int p = 0; p < FLEET_POOLS_MAX; p++) {
            int devices_here = p < fleet->pools_count ? fleet->pools[p].devices : 0;
            left += starts[i].devices[p] > 0;
            ck_assert(starts[i].devices[p] == 0 || starts[i].devices[p] == devices_here);
        }
        ck_assert(left > 0 && left < 5);
        for (int k = 0; k < i; k++)
            ck_assert(memcmp(&starts[k], &starts[i], sizeof(starts[i])) != 0);
    }
    fleet_free(fleet);
}
END_TEST

Suite *suite_parts(void);

Suite *
suite_parts(void)
{
    Suite *suite = suite_create("parts");
    TCase *tests = suite_case(suite, "parts", 60);
    tcase_add_test(tests, a_part_of_a_fleet_has_its_pools_kinds_zones_links_and_prices);
    tcase_add_test(tests, starts_are_parts_and_none_comes_twice);
    TCase *sets = suite_case(suite, "sets", 1200);
    tcase_add_test(sets, no_set_of_pools_is_better_than_all_of_them);
    tcase_add_test(sets, a_part_is_planned_as_if_the_other_pools_had_never_been_named);
    return suite;
}
