#include "testnet/links.h"
#include "tests/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

Suite *suite_links(void);

static struct scenario scenario;
static struct links_seen seen;

static void
begin(void)
{
    scenario = (struct scenario){.zones_count = 2,
                                 .zones = {"a", "b"},
                                 .expect = {.links_within = 0.15, .links_by_s = 10}};
    scenario.links[0][1].mbit_per_s = 10;
    scenario.links[1][0].mbit_per_s = 100;
    seen = (struct links_seen){0};
}

/* A look at 11 s; `there` and `back` are the estimates of a to b and of b to a. */
static void
look(double there, double back, const char *method, const char *state)
{
    char text[1024];
    struct err err;
    int len = snprintf(
        text, sizeof(text),
        "{\"members\": [{\"name\": \"a1\", \"state\": \"alive\"},"
        " {\"name\": \"b1\", \"state\": \"alive\"}, {\"name\": \"b2\", \"state\": "
        "\"%s\"}],"
        " \"links\": [{\"from\": \"a1\", \"to\": \"b1\", \"from_zone\": \"a\", "
        "\"to_zone\": \"b\", \"mbit_per_s\": %g, \"method\": \"%s\"},"
        " {\"from\": \"b1\", \"to\": \"a1\", \"from_zone\": \"b\", \"to_zone\": \"a\", "
        "\"mbit_per_s\": %g, \"method\": \"%s\"},"
        " {\"from\": \"b2\", \"to\": \"a1\", \"from_zone\": \"b\", \"to_zone\": \"a\", "
        "\"mbit_per_s\": 5, \"method\": \"probe\"},"
        " {\"from\": \"a1\", \"to\": \"b2\", \"from_zone\": \"a\", \"to_zone\": \"b\", "
        "\"mbit_per_s\": 77, \"method\": \"model\"}]}",
        state, there, method, back, method);
    struct json *status = json_parse(text, (size_t)len, sizeof(text), &err);
    ck_assert_ptr_nonnull(status);
    links_look(&scenario, status, 11000, &seen);
    json_free(status);
}

START_TEST(three_good_looks_in_a_row_are_enough)
{
    begin();
    ck_assert(!links_due(&scenario, &seen, 9999));
    ck_assert(links_due(&scenario, &seen, 10000));
    ck_assert(!links_over(&scenario, &seen, 10000));
    look(9, 105, "probe", "dead");
    ck_assert_double_lt(fabs(seen.worst - 0.1), 1e-9);
    look(11.4, 100, "probe", "dead");
    look(12, 100, "probe", "dead"); /* 20 % */
    look(10, 100, "probe", "dead");
    look(10, 100, "probe", "dead");
    ck_assert(!links_over(&scenario, &seen, 11000));
    look(10, 114, "passive", "dead");
    ck_assert(links_over(&scenario, &seen, 11000));
    ck_assert(!links_due(&scenario, &seen, 11000));
    ck_assert_ptr_nonnull(strstr(seen.what, "b1 to a1: 114.0 Mbit/s (passive)"));
}
END_TEST

START_TEST(every_estimate_between_the_zones_has_to_fit)
{
    begin();
    for (int i = 0; i < 5; i++)
        look(10, 100, "probe", "alive");
    ck_assert_int_eq(seen.good, 0);
    ck_assert_ptr_nonnull(strstr(seen.what, "b2 to a1: 5.0 Mbit/s (probe)"));
    ck_assert(links_over(&scenario, &seen, 10000 + LINKS_PATIENCE_MS));
}
END_TEST

START_TEST(what_nobody_measured_does_not_fit)
{
    begin();
    look(10, 100, "model", "dead");
    ck_assert(isinf(seen.worst));
    ck_assert_ptr_nonnull(strstr(seen.what, "nobody has measured"));
    look(10, 100, "unknown", "dead");
    ck_assert_int_eq(seen.good, 0);
    links_look(&scenario, NULL, 11000, &seen);
    ck_assert_int_eq(seen.good, 0);
    scenario.expect.links_passive = true;
    look(10, 100, "probe", "dead");
    ck_assert_int_eq(seen.good, 0);
    look(10, 100, "passive", "dead");
    ck_assert_int_eq(seen.good, 1);
    scenario.expect.links_within = -1;
    ck_assert(links_over(&scenario, &seen, 0) && !links_due(&scenario, &seen, 90000));
}
END_TEST

START_TEST(who_spends_more_than_an_hour_may_see_is_named)
{
    struct err err;
    static const char well[] = "{\"name\": \"a1\", \"probes\": {\"sent_bytes\": 5000000, "
                               "\"hour_bytes\": 5000000}}";
    static const char wasteful[] = "{\"name\": \"b1\", \"probes\": {\"sent_bytes\": "
                                   "5000001, \"hour_bytes\": 5000000}}";
    begin();
    struct json *status = json_parse(well, strlen(well), 4096, &err);
    links_spent(status, &seen);
    json_free(status);
    ck_assert_str_eq(seen.spent, "");
    status = json_parse(wasteful, strlen(wasteful), 4096, &err);
    links_spent(status, &seen);
    json_free(status);
    ck_assert_str_eq(seen.spent, "b1 sent 5.0 MB, an hour may see 5.0 MB");
    ck_assert_int_eq(seen.probe_bytes, 10000001);
    links_spent(NULL, &seen);
    ck_assert_int_eq(seen.probe_bytes, 10000001);
}
END_TEST

Suite *
suite_links(void)
{
    Suite *suite = suite_create("links");
    TCase *tests = suite_case(suite, "links", 10);
    tcase_add_test(tests, three_good_looks_in_a_row_are_enough);
    tcase_add_test(tests, every_estimate_between_the_zones_has_to_fit);
    tcase_add_test(tests, what_nobody_measured_does_not_fit);
    tcase_add_test(tests, who_spends_more_than_an_hour_may_see_is_named);
    return suite;
}
