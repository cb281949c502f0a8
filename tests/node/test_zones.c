#include "node/zones.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_zones(void);

enum { NODES = 4 };

/* a1, a2 in zone a; b1, b2 in zone b. */
static struct record records[NODES];
static const struct record *pointers[NODES];
static struct zone_warning warnings[8];

static void
open_records(void)
{
    static const char *const names[NODES] = {"a1", "a2", "b1", "b2"};
    memset(records, 0, sizeof(records));
    for (int i = 0; i < NODES; i++) {
        records[i].id.bytes[0] = (uint8_t)(i + 1);
        strncat(records[i].name, names[i], NAME_BYTES_MAX);
        records[i].zone[0] = names[i][0];
        pointers[i] = &records[i];
    }
}

static void
apart(int a, int b, uint32_t us)
{
    records[a].links[records[a].links_count++] =
        (struct record_link){.peer = records[b].id, .round_trip_us = us};
}

START_TEST(zones_that_fit_their_round_trips_are_not_remarked)
{
    open_records();
    apart(0, 1, 19000);
    apart(2, 3, 200);
    apart(0, 2, 1500);
    apart(0, 3, 0); /* unknown */
    ck_assert_int_eq(zones_check(pointers, NODES, warnings, 8), 0);
    ck_assert_int_eq(zones_check(pointers, 0, warnings, 8), 0);
}
END_TEST

START_TEST(members_of_a_zone_that_are_far_apart_are_named_once)
{
    open_records();
    apart(0, 1, 31000);
    apart(1, 0, 32000);
    ck_assert_int_eq(zones_check(pointers, NODES, warnings, 8), 1);
    ck_assert_ptr_nonnull(
        strstr(warnings[0].text, "zone a: a1 and a2 are 31.0 ms apart"));
}
END_TEST

START_TEST(two_zones_in_one_place_are_named_once)
{
    open_records();
    apart(2, 0, 300);
    apart(0, 3, 250);
    ck_assert_int_eq(zones_check(pointers, NODES, warnings, 8), 1);
    ck_assert_ptr_nonnull(strstr(warnings[0].text, "zones a and b: "));
    ck_assert_ptr_nonnull(strstr(warnings[0].text, "0.25 ms apart"));
    apart(0, 1, 50000);
    ck_assert_int_eq(zones_check(pointers, NODES, warnings, 8), 2);
    ck_assert_int_eq(zones_check(pointers, NODES, warnings, 1), 1);
}
END_TEST

Suite *
suite_zones(void)
{
    Suite *suite = suite_create("zones");
    TCase *tests = suite_case(suite, "zones", 30);
    tcase_add_test(tests, zones_that_fit_their_round_trips_are_not_remarked);
    tcase_add_test(tests, members_of_a_zone_that_are_far_apart_are_named_once);
    tcase_add_test(tests, two_zones_in_one_place_are_named_once);
    return suite;
}
