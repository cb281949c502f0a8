#include "node/voters.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_voters(void);

/* A view with nothing but what voters follow from. */
static struct view *
swarm_of(int members, int zones)
{
    struct view *view = xcalloc(1, sizeof(*view));
    view->reports_count = (uint32_t)members;
    view->reports = xcalloc((size_t)members, sizeof(*view->reports));
    for (int i = 0; i < members; i++) {
        struct report *report = &view->reports[i];
        report->id.bytes[0] = (uint8_t)(i >> 8);
        report->id.bytes[1] = (uint8_t)i;
        report->id.bytes[31] = 1;
        report->record.zone[0] = (char)('a' + i % zones);
        report->steady = true;
    }
    return view;
}

static void
swarm_free(struct view *view)
{
    free(view->reports);
    free(view);
}

/* Without the members that the predicate drops. */
static void
lose(struct view *view, const struct id *id)
{
    int at = view_node(view, id);
    ck_assert_int_ge(at, 0);
    view->reports_count--;
    memmove(&view->reports[at], &view->reports[at + 1],
            (view->reports_count - (uint32_t)at) * sizeof(view->reports[0]));
}

static void
elect(struct decree *decree, const struct view *view)
{
    struct id voters[VOTERS_MAX];
    uint32_t count = voters_choose(decree, view, voters);
    memcpy(decree->voters, voters, sizeof(voters));
    decree->voters_count = count;
    ck_assert_uint_ge(count, 1);
    ck_assert_uint_le(count, decree_voters_most(view->reports_count));
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_ge(view_node(view, &voters[i]), 0);
        for (uint32_t k = 0; k < i; k++)
            ck_assert(!id_equal(&voters[i], &voters[k]));
    }
}

static int
seats_of(const struct decree *decree, const struct view *view, char zone)
{
    int count = 0;
    for (uint32_t i = 0; i < decree->voters_count; i++)
        count +=
            view->reports[view_node(view, &decree->voters[i])].record.zone[0] == zone;
    return count;
}

START_TEST(up_to_nine_all_vote_and_above_a_committee_does)
{
    static const struct {
        int members;
        uint32_t voters;
    } sizes[] = {{1, 1},   {2, 2},   {9, 9},   {10, 7},  {64, 7},
                 {200, 7}, {201, 9}, {300, 9}, {1024, 9}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct view *view = swarm_of(sizes[i].members, 3);
        struct decree decree = {0};
        elect(&decree, view);
        ck_assert_uint_eq(decree.voters_count, sizes[i].voters);
        swarm_free(view);
    }
}
END_TEST

START_TEST(a_committee_is_spread_over_the_zones)
{
    struct view *view = swarm_of(60, 3);
    struct decree decree = {0};
    elect(&decree, view);
    for (char zone = 'a'; zone <= 'c'; zone++) {
        ck_assert_int_ge(seats_of(&decree, view, zone), 2);
        ck_assert_int_le(seats_of(&decree, view, zone), 3);
    }
    swarm_free(view);
}
END_TEST

START_TEST(who_votes_stays_in_order_and_the_dead_are_replaced_in_one_epoch)
{
    struct view *view = swarm_of(40, 2);
    struct decree decree = {0};
    elect(&decree, view);
    struct decree before = decree;
    lose(view, &before.voters[0]);
    lose(view, &before.voters[3]);
    lose(view, &before.voters[4]);
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 7);
    static const int stay[] = {1, 2, 5, 6};
    for (uint32_t i = 0; i < 4; i++)
        ck_assert(id_equal(&decree.voters[i], &before.voters[stay[i]]));
    swarm_free(view);
}
END_TEST

START_TEST(who_leaves_or_cannot_be_reached_or_is_new_has_no_seat)
{
    struct view *view = swarm_of(40, 2);
    struct decree decree = {0};
    elect(&decree, view);
    struct id leaves = decree.voters[2], hidden = decree.voters[5];
    view->reports[view_node(view, &leaves)].record.leaving = true;
    view->reports[view_node(view, &hidden)].record.reach = REACH_NONE;
    int allowed = 33;
    for (int i = 0; i < 40; i++)
        view->reports[i].steady = i == allowed;
    elect(&decree, view);
    ck_assert(!decree_voter(&decree, &leaves) && !decree_voter(&decree, &hidden));
    ck_assert(decree_voter(&decree, &view->reports[allowed].id));
    ck_assert_uint_eq(decree.voters_count, 6); /* a seat waits for who is steady */
    swarm_free(view);
}
END_TEST

START_TEST(a_committee_of_fewer_than_five_takes_whom_it_finds)
{
    struct view *view = swarm_of(20, 2);
    struct decree decree = {0};
    for (int i = 0; i < 20; i++)
        view->reports[i].steady = false;
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 5);
    for (int i = 0; i < 20; i++)
        view->reports[i].record.reach = REACH_NONE;
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 5);
    for (int i = 0; i < 20; i++)
        view->reports[i].record.leaving = true;
    elect(&decree, view); /* the last to go still decide */
    ck_assert_uint_eq(decree.voters_count, 7);
    swarm_free(view);
}
END_TEST

START_TEST(of_few_members_one_who_leaves_does_not_vote_on)
{
    struct view *view = swarm_of(2, 1);
    struct decree decree = {0};
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 2);
    view->reports[0].record.leaving = true;
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 1);
    ck_assert(id_equal(&decree.voters[0], &view->reports[1].id));
    swarm_free(view);
}
END_TEST

START_TEST(a_committee_follows_where_the_swarm_went_one_seat_in_an_epoch)
{
    struct view *view = swarm_of(60, 3);
    struct decree decree = {0};
    for (int i = 0; i < 60; i++) /* it began in one zone */
        view->reports[i].record.zone[0] = i < 20 ? 'a' : i < 40 ? 'b' : 'c';
    for (uint32_t i = 0; i < 7; i++)
        decree.voters[i] = view->reports[i].id;
    decree.voters_count = 7;
    struct id first = decree.voters[0];
    for (int epoch = 0; epoch < 10; epoch++) {
        struct decree before = decree;
        elect(&decree, view);
        int stayed = 0;
        for (uint32_t i = 0; i < 7; i++)
            stayed += decree_voter(&decree, &before.voters[i]);
        ck_assert_int_ge(stayed, 6);
        ck_assert_uint_eq(decree.voters_count, 7);
        ck_assert(id_equal(&decree.voters[0], &first));
    }
    for (char zone = 'a'; zone <= 'c'; zone++)
        ck_assert_int_ge(seats_of(&decree, view, zone), 2);
    swarm_free(view);
}
END_TEST

START_TEST(nine_voters_become_seven_when_the_tenth_member_comes)
{
    struct view *view = swarm_of(9, 3);
    struct decree decree = {0};
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 9);
    swarm_free(view);
    struct decree before = decree;
    view = swarm_of(10, 3);
    elect(&decree, view);
    ck_assert_uint_eq(decree.voters_count, 7);
    for (uint32_t i = 0; i < 7; i++)
        ck_assert(decree_voter(&before, &decree.voters[i]));
    for (char zone = 'a'; zone <= 'c'; zone++)
        ck_assert_int_ge(seats_of(&decree, view, zone), 2);
    swarm_free(view);
}
END_TEST

START_TEST(whatever_comes_and_goes_no_third_zone_is_forgotten)
{
    uint64_t seed = suite_seed("whatever_comes_and_goes_no_third_zone_is_forgotten", 1);
    for (uint64_t round = 0; round < 50; round++) {
        struct rng rng = {.seed = seed, .stream = round};
        struct view *view = swarm_of(80, 3);
        struct decree decree = {0};
        elect(&decree, view);
        while (view->reports_count > 30) {
            int losses = 1 + (int)rng_below(&rng, 3);
            for (int i = 0; i < losses; i++) {
                struct id id = view->reports[rng_below(&rng, view->reports_count)].id;
                lose(view, &id);
            }
            elect(&decree, view);
            ck_assert_uint_eq(decree.voters_count, 7);
            for (char zone = 'a'; zone <= 'c'; zone++)
                ck_assert_int_le(seats_of(&decree, view, zone), 3);
        }
        swarm_free(view);
    }
}
END_TEST

Suite *
suite_voters(void)
{
    Suite *suite = suite_create("voters");
    TCase *t = suite_case(suite, "voters", 30);
    tcase_add_test(t, up_to_nine_all_vote_and_above_a_committee_does);
    tcase_add_test(t, a_committee_is_spread_over_the_zones);
    tcase_add_test(t, who_votes_stays_in_order_and_the_dead_are_replaced_in_one_epoch);
    tcase_add_test(t, who_leaves_or_cannot_be_reached_or_is_new_has_no_seat);
    tcase_add_test(t, a_committee_of_fewer_than_five_takes_whom_it_finds);
    tcase_add_test(t, of_few_members_one_who_leaves_does_not_vote_on);
    tcase_add_test(t, a_committee_follows_where_the_swarm_went_one_seat_in_an_epoch);
    tcase_add_test(t, nine_voters_become_seven_when_the_tenth_member_comes);
    tcase_add_test(t, whatever_comes_and_goes_no_third_zone_is_forgotten);
    return suite;
}
