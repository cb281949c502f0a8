#include "tests/suite.h"
#include "transport/handshakes.h"

#include <stdio.h>

Suite *suite_handshakes(void);

START_TEST(a_flood_from_one_address_loses_its_own_oldest)
{
    struct handshakes *handshakes = handshakes_new();
    int held;
    for (int fd = 0; fd < 5; fd++)
        ck_assert_int_eq(handshakes_begin(handshakes, 0, fd, "10.0.0.1", &held), -1);
    for (int fd = 5; fd < HANDSHAKES_MAX; fd++)
        ck_assert_int_eq(handshakes_begin(handshakes, 1, fd, "10.0.0.66", &held), -1);
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(handshakes_begin(handshakes, 2, 1000 + i, "10.0.0.66", &held),
                         i < HANDSHAKES_MAX - 5 ? 5 + i
                                                : 1000 + i - (HANDSHAKES_MAX - 5));
    ck_assert_int_eq(held, HANDSHAKES_MAX - 5);
    /* A sound one, of the same address, has as long as it takes 123 others to come. */
    handshakes_begin(handshakes, 3, 7777, "10.0.0.66", &held);
    handshakes_end(handshakes, 7777);
    ck_assert_int_eq(handshakes_count(handshakes), HANDSHAKES_MAX - 1);
    handshakes_free(handshakes);
}
END_TEST

START_TEST(who_waited_longer_than_a_handshake_takes_has_finished_it)
{
    struct handshakes *handshakes = handshakes_new();
    int held;
    for (int fd = 0; fd < HANDSHAKES_MAX; fd++)
        handshakes_begin(handshakes, 0, fd, "10.0.0.1", &held);
    ck_assert_int_eq(handshakes_begin(handshakes, 10000, 500, "10.0.0.1", &held), -1);
    ck_assert_int_eq(handshakes_count(handshakes), 1);
    ck_assert_int_eq(held, 1);
    handshakes_free(handshakes);
}
END_TEST

START_TEST(many_addresses_with_few_each_lose_the_oldest_of_all)
{
    struct handshakes *handshakes = handshakes_new();
    char host[32];
    int held;
    for (int fd = 0; fd < HANDSHAKES_MAX; fd++) {
        snprintf(host, sizeof(host), "10.0.0.%d", fd / 2);
        handshakes_begin(handshakes, fd, fd, host, &held);
    }
    ck_assert_int_eq(handshakes_begin(handshakes, 200, 200, "10.0.1.1", &held), 0);
    handshakes_free(handshakes);
}
END_TEST

Suite *
suite_handshakes(void)
{
    Suite *suite = suite_create("handshakes");
    TCase *tests = suite_case(suite, "handshakes", 10);
    tcase_add_test(tests, a_flood_from_one_address_loses_its_own_oldest);
    tcase_add_test(tests, who_waited_longer_than_a_handshake_takes_has_finished_it);
    tcase_add_test(tests, many_addresses_with_few_each_lose_the_oldest_of_all);
    return suite;
}
