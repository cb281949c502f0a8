#include "gossip/last_mile.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_last_mile(void);

enum { NODES = 5 };

/* a0, a1 in zone a; b2, b3 in zone b; c4 alone in c. */
static struct record records[NODES];
static const struct record *pointers[NODES];

static void
nobody_measured(void)
{
    static const char zones[] = "aabbc";
    memset(records, 0, sizeof(records));
    for (int i = 0; i < NODES; i++) {
        records[i].id.bytes[0] = (uint8_t)(i + 1);
        records[i].zone[0] = zones[i];
        pointers[i] = &records[i];
    }
}

static void
measured(int from, int to, uint16_t rate)
{
    records[to].links[records[to].links_count++] =
        (struct record_link){.peer = records[from].id, .rate = rate, .confidence = 70};
}

static uint16_t
rate(size_t from, size_t to)
{
    struct last_mile *model = last_mile_new(pointers, NODES);
    uint16_t found = last_mile_rate(model, from, to);
    last_mile_free(model);
    return found;
}

START_TEST(a_link_is_no_faster_than_its_ends_and_what_lies_between)
{
    nobody_measured();
    ck_assert_uint_eq(rate(0, 2), 0);
    measured(0, 4, 200); /* a0 sends */
    measured(4, 2, 150); /* b2 takes */
    ck_assert_uint_eq(rate(0, 2), 150);
    ck_assert_uint_eq(rate(0, 3), 200); /* of b3 nothing is known */
    measured(1, 3, 120);                /* between the zones */
    ck_assert_uint_eq(rate(0, 2), 120);
    measured(1, 2, 180);
    ck_assert_uint_eq(rate(0, 2), 180);
    ck_assert_uint_eq(rate(2, 0), 0); /* the other way is another link */
}
END_TEST

START_TEST(what_is_within_a_zone_says_nothing_of_what_lies_outside)
{
    nobody_measured();
    measured(0, 1, 300);
    ck_assert_uint_eq(rate(0, 2), 0);
    ck_assert_uint_eq(rate(0, 4), 0);
    measured(2, 4, 100);
    ck_assert_uint_eq(rate(2, 3), 0);
    ck_assert_uint_eq(rate(2, 0), 100);
}
END_TEST

START_TEST(links_of_no_confidence_and_strangers_are_passed_over)
{
    nobody_measured();
    measured(0, 4, 100);
    records[4].links[0].confidence = 0;
    records[4].links[1] =
        (struct record_link){.peer = {{99}}, .rate = 100, .confidence = 50};
    records[4].links_count = 2;
    ck_assert_uint_eq(rate(0, 2), 0);
    last_mile_free(NULL);
}
END_TEST

Suite *
suite_last_mile(void)
{
    Suite *suite = suite_create("last_mile");
    TCase *tests = suite_case(suite, "last_mile", 30);
    tcase_add_test(tests, a_link_is_no_faster_than_its_ends_and_what_lies_between);
    tcase_add_test(tests, what_is_within_a_zone_says_nothing_of_what_lies_outside);
    tcase_add_test(tests, links_of_no_confidence_and_strangers_are_passed_over);
    return suite;
}
