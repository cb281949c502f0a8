#include "tests/suite.h"
#include "transport/address.h"

#include <stdio.h>
#include <string.h>

Suite *suite_address(void);

static struct err err;

static void
setup(void)
{
    err = (struct err){0};
}

START_TEST(good_addresses_are_taken_and_written_in_one_form)
{
    static const struct {
        const char *text, *host, *again;
        uint16_t port;
    } list[] = {
        {"203.0.113.7:7700", "203.0.113.7", "203.0.113.7:7700", 7700},
        {"203.0.113.7", "203.0.113.7", "203.0.113.7:7700", 7700},
        {"node-1.example.org:1", "node-1.example.org", "node-1.example.org:1", 1},
        {"Node_A.Example:65533", "node_a.example", "node_a.example:65533", 65533},
        {"localhost", "localhost", "localhost:7700", 7700},
        {"7up.example:80", "7up.example", "7up.example:80", 80},
        {"[::1]:7800", "::1", "[::1]:7800", 7800},
        {"[::1]", "::1", "[::1]:7700", 7700},
        {"[2001:DB8:0:0::7]:99", "2001:db8::7", "[2001:db8::7]:99", 99},
        {"0.0.0.0:7700", "0.0.0.0", "0.0.0.0:7700", 7700},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        struct address address;
        char text[ADDRESS_BYTES_MAX + 8];
        ck_assert_msg(address_parse(list[i].text, &address, &err) == 0, "%s", err.msg);
        ck_assert_str_eq(address.host, list[i].host);
        ck_assert_uint_eq(address.port, list[i].port);
        address_text(&address, text);
        ck_assert_str_eq(text, list[i].again);
        struct address second;
        ck_assert_int_eq(address_parse(text, &second, &err), 0);
        ck_assert_str_eq(second.host, address.host);
        ck_assert_uint_eq(second.port, address.port);
    }
}
END_TEST

START_TEST(anything_else_is_refused_with_the_reason)
{
    static const struct {
        const char *text, *why;
    } list[] = {
        {"", "has no host"},
        {":7700", "has no host"},
        {"[]:1", "has no host"},
        {"a:", "from 1 to 65533"},
        {"a:0", "from 1 to 65533"},
        {"a:07700", "from 1 to 65533"},
        {"a:+7", "from 1 to 65533"},
        {"a:-7", "from 1 to 65533"},
        {"a: 7", "from 1 to 65533"},
        {"a:7 ", "from 1 to 65533"},
        {"a:7x", "from 1 to 65533"},
        {"a:http", "from 1 to 65533"},
        {"a:123456", "from 1 to 65533"},
        {"a:99999", "port 99999 is above 65533"},
        {"a:65534", "the two ports after it"},
        {"a:65535", "the two ports after it"},
        {"::1", "more than one colon"},
        {"::1:7700", "more than one colon"},
        {"a:1:2", "more than one colon"},
        {"tcp://a:1", "more than one colon"},
        {"[::1", "bracket is not closed"},
        {"[::1]7700", "must follow the bracket"},
        {"[::1] ", "must follow the bracket"},
        {"[::1]:", "from 1 to 65533"},
        {"[host]:1", "not a host name or IP address"},
        {"[1.2.3.4]:1", "not a host name or IP address"},
        {"[::1%lo]:1", "not a host name or IP address"},
        {"[1::2::3]:1", "not a host name or IP address"},
        {"256.1.1.1:1", "not a host name or IP address"},
        {"1.2.3:1", "not a host name or IP address"},
        {"1.2.3.4.5", "not a host name or IP address"},
        {"7700", "not a host name or IP address"},
        {"a..b:1", "not a host name or IP address"},
        {".a:1", "not a host name or IP address"},
        {"a.:1", "not a host name or IP address"},
        {"-a:1", "not a host name or IP address"},
        {"a-:1", "not a host name or IP address"},
        {"a-.b:1", "not a host name or IP address"},
        {"a b:1", "not a host name or IP address"},
        {" a:1", "not a host name or IP address"},
        {"a/b:1", "not a host name or IP address"},
        {"a;b:1", "not a host name or IP address"},
        {"*:1", "not a host name or IP address"},
        {"h\xc3\xa9:1", "not a host name or IP address"},
        {"a\n:1", "not a host name or IP address"},
        {"a123456789a123456789a123456789a123456789a123456789a12345.example:1",
         "longer than 63"},
        {"a123456789a123456789a123456789a123456789a123456789a123456.ab:65000",
         "longer than 63"},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        struct address address = {.port = 42};
        err = (struct err){0};
        ck_assert_msg(address_parse(list[i].text, &address, &err) == -1, "taken: %s",
                      list[i].text);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_msg(strstr(err.msg, list[i].why) != NULL, "\"%s\" does not say \"%s\"",
                      err.msg, list[i].why);
        ck_assert_uint_eq(address.port, 42); /* untouched */
    }
}
END_TEST

START_TEST(an_address_in_text_fits_its_limit)
{
    char text[100] = "";
    struct address address;
    for (size_t i = 0; i < 28; i++)
        memcpy(text + 2 * i, "a.", 3);
    memcpy(text + 56, "a:12345", 8); /* 63 characters */
    ck_assert_msg(address_parse(text, &address, &err) == 0, "%s", err.msg);
    char again[ADDRESS_BYTES_MAX + 8];
    address_text(&address, again);
    ck_assert_uint_lt(strlen(again), ADDRESS_BYTES_MAX);
    memcpy(text + 56, "aa:12345", 9);
    ck_assert_int_eq(address_parse(text, &address, &err), -1);
}
END_TEST

START_TEST(the_three_sockets_have_three_ports)
{
    struct address address;
    char text[ADDRESS_BYTES_MAX + 16];
    ck_assert_int_eq(address_parse("203.0.113.7:7700", &address, &err), 0);
    address_endpoint(&address, ADDRESS_JOIN, text);
    ck_assert_str_eq(text, "tcp://203.0.113.7:7700");
    address_endpoint(&address, ADDRESS_CONTROL, text);
    ck_assert_str_eq(text, "tcp://203.0.113.7:7701");
    address_endpoint(&address, ADDRESS_BULK, text);
    ck_assert_str_eq(text, "tcp://203.0.113.7:7702");
    ck_assert_int_eq(address_parse("[::1]:65533", &address, &err), 0);
    address_endpoint(&address, ADDRESS_BULK, text);
    ck_assert_str_eq(text, "tcp://[::1]:65535");
}
END_TEST

START_TEST(a_route_leads_to_its_address_alone)
{
    struct address a, a_elsewhere, b, relay;
    ck_assert_int_eq(address_parse("10.0.0.1:7700", &a, &err), 0);
    ck_assert_int_eq(address_parse("10.0.0.1:7703", &a_elsewhere, &err), 0);
    ck_assert_int_eq(address_parse("10.0.0.2:7700", &b, &err), 0);
    ck_assert_int_eq(address_parse("127.0.0.1:9000", &relay, &err), 0);
    struct address_route list[] = {{.to = b, .via = a}, {.to = a, .via = relay}};
    struct address_routes routes = {.count = 2, .list = list};
    ck_assert_str_eq(address_route(&routes, &a)->host, "127.0.0.1");
    ck_assert_uint_eq(address_route(&routes, &a)->port, 9000);
    ck_assert_ptr_eq(address_route(&routes, &a_elsewhere), &a_elsewhere);
    ck_assert_str_eq(address_route(&routes, &b)->host,
                     "10.0.0.1"); /* one hop, no further */
    struct address_routes none = {0};
    ck_assert_ptr_eq(address_route(&none, &a), &a);
}
END_TEST

Suite *
suite_address(void)
{
    Suite *suite = suite_create("address");
    TCase *tests = suite_case(suite, "address", 10);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, good_addresses_are_taken_and_written_in_one_form);
    tcase_add_test(tests, anything_else_is_refused_with_the_reason);
    tcase_add_test(tests, an_address_in_text_fits_its_limit);
    tcase_add_test(tests, the_three_sockets_have_three_ports);
    tcase_add_test(tests, a_route_leads_to_its_address_alone);
    return suite;
}
