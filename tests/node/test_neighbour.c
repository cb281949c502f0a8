#include "node/neighbour.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_neighbour(void);

enum { MEMBERS = 12 };

static struct decree decree;
static struct view *view;

static void
setup(void)
{
    decree = (struct decree){.members_count = MEMBERS};
    decree.members = xcalloc(MEMBERS, sizeof(*decree.members));
    view = xcalloc(1, sizeof(*view));
    view->reports_count = MEMBERS;
    view->reports = xcalloc(MEMBERS, sizeof(*view->reports));
    for (unsigned i = 0; i < MEMBERS; i++) {
        decree.members[i].id = (struct id){{(uint8_t)(i + 1)}};
        view->reports[i].id = decree.members[i].id;
    }
}

static void
teardown(void)
{
    free(decree.members);
    free(view->reports);
    free(view);
}

static bool
watches(int who, int whom)
{
    struct id near[NEIGHBOURS_MAX];
    size_t count = neighbours_of(view, &decree, &decree.members[who].id, near);
    bool found = false;
    ck_assert_uint_le(count, NEIGHBOURS_MAX);
    for (size_t i = 0; i < count; i++) {
        ck_assert(!id_equal(&near[i], &decree.members[who].id));
        for (size_t k = 0; k < i; k++)
            ck_assert(!id_equal(&near[i], &near[k]));
        found = found || id_equal(&near[i], &decree.members[whom].id);
    }
    return found;
}

START_TEST(each_member_is_watched_by_three_on_either_side)
{
    for (int whom = 0; whom < MEMBERS; whom++) {
        int watchers = 0;
        for (int who = 0; who < MEMBERS; who++)
            watchers += who != whom && watches(who, whom);
        ck_assert_int_eq(watchers, 2 * NEIGHBOURS_RING);
        ck_assert(watches((whom + 3) % MEMBERS, whom));
        ck_assert(!watches((whom + 4) % MEMBERS, whom));
    }
}
END_TEST

START_TEST(those_that_it_exchanges_data_with_are_watched_too)
{
    /* Three pipelines of two stages: 0 1 2 feed 6 7 8. */
    view->planned = true;
    view->plan.stages_count = 2;
    view->plan.pipelines_count = 3;
    for (int p = 0; p < 3; p++) {
        view->plan.stages[0].nodes[p] = p;
        view->plan.stages[1].nodes[p] = 6 + p;
    }
    ck_assert(watches(0, 6));
    ck_assert(watches(6, 0));
    ck_assert(!watches(0, 7));
    ck_assert(watches(0, 2) && watches(0, 1));
    ck_assert(!watches(5, 0)); /* no part: the ring alone */
}
END_TEST

START_TEST(small_swarms_watch_all_and_who_is_no_member_watches_nobody)
{
    struct id near[NEIGHBOURS_MAX], stranger = {{77}};
    ck_assert_uint_eq(neighbours_of(view, &decree, &stranger, near), 0);
    for (uint32_t count = 1; count <= 5; count++) {
        decree.members_count = count;
        ck_assert_uint_eq(neighbours_of(view, &decree, &decree.members[0].id, near),
                          count - 1);
    }
}
END_TEST

Suite *
suite_neighbour(void)
{
    Suite *suite = suite_create("neighbour");
    TCase *tests = suite_case(suite, "neighbours", 30);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_member_is_watched_by_three_on_either_side);
    tcase_add_test(tests, those_that_it_exchanges_data_with_are_watched_too);
    tcase_add_test(tests, small_swarms_watch_all_and_who_is_no_member_watches_nobody);
    return suite;
}
