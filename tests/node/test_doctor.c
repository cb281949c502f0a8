#include "node/doctor.h"
#include "tests/suite.h"

#include <string.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

Suite *suite_doctor(void);

static struct findings findings;

static void
setup(void)
{
    memset(&findings, 0, sizeof(findings));
}

static const struct finding *
about(const char *topic, enum finding_level level)
{
    for (int i = 0; i < findings.count; i++)
        if (strcmp(findings.list[i].topic, topic) == 0 && findings.list[i].level == level)
            return &findings.list[i];
    return NULL;
}

static struct json *
parsed(const char *text)
{
    struct err err = {0};
    struct json *json = json_parse(text, strlen(text), 1 << 16, &err);
    ck_assert_msg(json != NULL, "%s", err.msg);
    return json;
}

START_TEST(the_cost_of_loss_is_mathis)
{
    /* 0.1 % and 50 ms: 8.9 Mbit/s, as was measured with cubic. */
    ck_assert_double_eq_tol(doctor_mathis(50, 1e-3) * 8 / 1e6, 8.97, 0.02);
    ck_assert_double_eq_tol(doctor_mathis(100, 1e-3), doctor_mathis(50, 1e-3) / 2, 1e-3);
    ck_assert_double_eq_tol(doctor_mathis(50, 4e-3), doctor_mathis(50, 1e-3) / 2, 1e-3);
}
END_TEST

START_TEST(a_shut_port_is_named_with_who_found_it_and_what_to_do)
{
    struct json *status = parsed(
        "{\"reach\": {\"address\": \"10.0.0.5:7700\", \"verdict\": \"reachable by "
        "some\", "
        "\"seen\": \"203.0.113.9\", \"answers\": ["
        "{\"peer\": \"b1\", \"age_ms\": 5, \"join\": \"open\", \"control\": \"shut\", "
        "\"data\": \"of another\"},"
        "{\"peer\": \"a2\", \"age_ms\": 5, \"join\": \"untried\", \"control\": \"open\", "
        "\"data\": \"open\"}]}}");
    doctor_reach(&findings, status);
    const struct finding *bad = about("reach", FINDING_BAD);
    ck_assert_ptr_nonnull(bad);
    ck_assert(strstr(bad->text, "b1 cannot reach this node at 10.0.0.5:7700"));
    ck_assert(strstr(bad->text, "7701 (control, shut), 7702 (data, of another)"));
    ck_assert(strstr(bad->text, "203.0.113.9"));
    ck_assert(strstr(bad->text, "--advertise"));
    const struct finding *good = about("reach", FINDING_OK);
    ck_assert_ptr_nonnull(good);
    ck_assert(strstr(good->text, "a2 reaches"));
    ck_assert_int_eq(findings_worst(&findings), FINDING_BAD);
    json_free(status);
}
END_TEST

START_TEST(a_port_that_is_taken_is_named)
{
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(where);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&where, len), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&where, &len), 0);
    unsigned port = ntohs(where.sin_port);
    struct address base = {.host = "127.0.0.1", .port = (uint16_t)(port - 1)};
    char named[32];
    snprintf(named, sizeof(named), "port %u (control)", port);
    doctor_ports(&findings, &base);
    const struct finding *bad = about("ports", FINDING_BAD);
    ck_assert_ptr_nonnull(bad);
    ck_assert(strstr(bad->text, "--listen"));
    bool found = false;
    for (int i = 0; i < findings.count; i++)
        found = found || strstr(findings.list[i].text, named);
    ck_assert(found);
    close(fd);
}
END_TEST

START_TEST(a_swarm_larger_than_the_file_limit_is_bad)
{
    doctor_files(&findings, 3);
    ck_assert_ptr_null(about("files", FINDING_BAD));
    doctor_files(&findings, INT32_MAX);
    const struct finding *bad = about("files", FINDING_BAD);
    ck_assert_ptr_nonnull(bad);
    ck_assert(strstr(bad->text, "LimitNOFILE"));
    ck_assert_int_gt(doctor_files_needed(64), 600);
}
END_TEST

START_TEST(a_node_that_waits_for_its_seed_or_its_voters_is_not_well)
{
    struct json *status = parsed("{\"entered\": false}");
    doctor_swarm(&findings, status, 3);
    ck_assert_ptr_nonnull(about("node", FINDING_BAD));
    ck_assert_ptr_nonnull(about("node", FINDING_OK)); /* it answered */
    json_free(status);
    setup();
    status =
        parsed("{\"entered\": true, \"quorum\": false, \"paused\": \"\", \"members\": "
               "[{\"name\": \"b\", \"state\": \"alive\", \"self\": false, \"way\": "
               "\"round\", \"round_trip_ms\": 80.5}]}");
    doctor_swarm(&findings, status, 3000);
    ck_assert(strstr(about("node", FINDING_BAD)->text, "majority"));
    ck_assert(strstr(about("node", FINDING_WARN)->text, "3000 ms"));
    ck_assert(
        strstr(about("swarm", FINDING_OK)->text, "1 of them reached by a third node"));
    doctor_network(&findings, status); /* reads this machine's settings */
    ck_assert(about("congestion", FINDING_OK) || about("congestion", FINDING_WARN));
    json_free(status);
}
END_TEST

/* Can this process choose bbr for a connection? */
static bool
bbr_here(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3) == 0;
    if (fd >= 0)
        close(fd);
    return can;
}

START_TEST(what_is_said_of_congestion_control_is_so_on_this_kernel)
{
    struct json *near = parsed("{\"members\": []}");
    doctor_network(&findings, near);
    const struct finding *ok = about("congestion", FINDING_OK);
    const struct finding *warn = about("congestion", FINDING_WARN);
    ck_assert((ok != NULL) != (warn != NULL));
    if (ok) {
        ck_assert_msg(bbr_here(), "%s", ok->text);
        ck_assert(strstr(ok->text, "data connections use bbr"));
    } else {
        /* Root may choose what is not on the list of allowed ones. */
        ck_assert_msg(!bbr_here() || geteuid() == 0, "%s", warn->text);
        ck_assert(strstr(warn->text, "bbr is not allowed"));
        ck_assert(strstr(warn->text, "connection of 50 ms"));
        ck_assert(strstr(warn->text, "tcp_allowed_congestion_control"));
    }
    json_free(near);
}
END_TEST

START_TEST(this_machine_is_looked_at_and_a_folder_that_cannot_be_written_is_bad)
{
    char folder[4096], blocked[4200];
    suite_folder(folder);
    doctor_folder(&findings, folder);
    ck_assert_ptr_null(about("disk", FINDING_BAD));
    doctor_memory(&findings);
    ck_assert(about("memory", FINDING_OK) || about("memory", FINDING_WARN));
    snprintf(blocked, sizeof(blocked), "%s/file", folder);
    FILE *file = fopen(blocked, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    doctor_folder(&findings, blocked);
    ck_assert_ptr_nonnull(about("disk", FINDING_BAD));
    ck_assert(strstr(about("disk", FINDING_BAD)->text, "--data"));
}
END_TEST

Suite *
suite_doctor(void)
{
    Suite *suite = suite_create("doctor");
    TCase *tests = suite_case(suite, "doctor", 20);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, the_cost_of_loss_is_mathis);
    tcase_add_test(tests, a_shut_port_is_named_with_who_found_it_and_what_to_do);
    tcase_add_test(tests, a_port_that_is_taken_is_named);
    tcase_add_test(tests, a_swarm_larger_than_the_file_limit_is_bad);
    tcase_add_test(tests, a_node_that_waits_for_its_seed_or_its_voters_is_not_well);
    tcase_add_test(tests, what_is_said_of_congestion_control_is_so_on_this_kernel);
    tcase_add_test(tests,
                   this_machine_is_looked_at_and_a_folder_that_cannot_be_written_is_bad);
    return suite;
}
