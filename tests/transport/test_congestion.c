/*
 * test_congestion.c - which congestion control the connections have, on a kernel that has
 * bbr for this process and on one that has not.
 */
#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/admit.h"
#include "transport/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_congestion(void);

enum { NAME_SIZE = 16, DESCRIPTORS_MAX = 4096 };

static struct {
    struct loop *loop;
    struct admit *admit;
    struct key *server, *client;
    struct address base;
} here;

static void
setup(void)
{
    struct err err;
    here.loop = harness_open();
    here.admit = admit_open(here.loop, &err);
    ck_assert_ptr_nonnull(here.admit);
    here.server = harness_key(1);
    here.client = harness_key(2);
    here.base = harness_address();
    admit_allow(here.admit, key_id(here.client));
}

static void
teardown(void)
{
    key_free(here.server);
    key_free(here.client);
    admit_close(here.admit);
    harness_close(here.loop);
}

static void
control_of(int fd, char name[NAME_SIZE])
{
    socklen_t len = NAME_SIZE - 1;
    memset(name, 0, NAME_SIZE);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
}

/* What the system gives; and can this process have another one? */
static bool
on_this_kernel(char usual[NAME_SIZE], const char *wanted)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    control_of(fd, usual);
    bool can = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted,
                          (socklen_t)strlen(wanted)) == 0;
    close(fd);
    return can;
}

static int
port_of(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    return address->ss_family == AF_INET ? ntohs(in->sin_port) : 0;
}

/* Both ends of the connection to this port are this process's: each has that one. Of the
 * listening socket nothing is asked. */
static int
ends_with(int port, const char *name)
{
    int found = 0;
    for (int fd = 3; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_storage own = {0}, far = {0};
        socklen_t own_len = sizeof(own), far_len = sizeof(far);
        char used[NAME_SIZE];
        if (getsockname(fd, (struct sockaddr *)&own, &own_len) ||
            getpeername(fd, (struct sockaddr *)&far, &far_len) ||
            (port_of(&own) != port && port_of(&far) != port))
            continue;
        control_of(fd, used);
        ck_assert_msg(strcmp(used, name) == 0, "port %d: %s, not %s", port, used, name);
        found++;
    }
    return found;
}

static void
note(void *arg, enum dial_event event)
{
    bool *up = arg;
    *up = event == DIAL_UP;
}

static bool
is_up(const void *arg)
{
    const bool *up = arg;
    return *up;
}

/* A connection of this plane has that congestion control at both ends. */
static void
connect_and_look(enum socket_plane plane, const char *name)
{
    struct err err;
    bool up = false;
    struct listener *listener = listener_open(
        here.loop, plane, key_curve_secret(here.server), &here.base, NULL, NULL, &err);
    ck_assert_msg(listener != NULL, "%s", err.msg);
    struct dial_options options = {.plane = plane,
                                   .base = here.base,
                                   .curve_public = key_curve_public(here.client),
                                   .curve_secret = key_curve_secret(here.client),
                                   .server_public = key_curve_public(here.server)};
    struct dial *dial = dial_open(here.loop, &options, note, &up, &err);
    ck_assert_ptr_nonnull(dial);
    ck_assert_msg(harness_until(here.loop, is_up, &up, 7000), "it does not connect");
    harness_run(here.loop, 50); /* the listener has seen it, too */
    ck_assert_int_eq(ends_with(here.base.port + (int)plane, name), 2);
    dial_close(dial);
    listener_close(listener);
}

START_TEST(
    data_goes_by_bbr_where_the_kernel_lets_this_process_and_else_as_the_system_has_it)
{
    char usual[NAME_SIZE];
    bool can = on_this_kernel(usual, "bbr");
    printf("congestion: the system's is %s, bbr %s\n", usual,
           can ? "can be chosen" : "cannot be chosen: what is left is tested");
    connect_and_look(SOCKET_BULK, can ? "bbr" : usual);
}
END_TEST

/* A network of this test's own, whose usual control is reno; the one that was there, to go
 * back to. -1: that is not allowed here. */
static int
other_network(void)
{
    int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (before < 0 || unshare(CLONE_NEWNET)) {
        close(before);
        return -1;
    }
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    FILE *usual = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "w");
    bool ready = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0 && usual &&
                 fprintf(usual, "reno\n") > 0;
    ready = usual && fclose(usual) == 0 && ready;
    close(fd);
    if (ready)
        return before;
    setns(before, CLONE_NEWNET);
    close(before);
    return -1;
}

/* libzmq's threads are made after the network is another one. */
START_TEST(where_reno_is_usual_data_alone_goes_by_bbr_and_by_reno_where_there_is_no_bbr)
{
    char usual[NAME_SIZE];
    int before = other_network();
    if (before < 0) {
        suite_skip(__func__, "a network of one's own is not allowed here");
        return;
    }
    bool can = on_this_kernel(usual, "bbr");
    ck_assert_str_eq(usual, "reno");
    setup();
    connect_and_look(SOCKET_BULK, can ? "bbr" : "reno");
    connect_and_look(SOCKET_CONTROL, "reno");
    teardown();
    ck_assert_int_eq(setns(before, CLONE_NEWNET), 0);
    close(before);
}
END_TEST

START_TEST(the_control_plane_keeps_what_the_system_has)
{
    char usual[NAME_SIZE];
    on_this_kernel(usual, "bbr");
    connect_and_look(SOCKET_CONTROL, usual);
}
END_TEST

Suite *
suite_congestion(void)
{
    Suite *suite = suite_create("congestion");
    TCase *tests = suite_case(suite, "congestion", 30);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(
        tests,
        data_goes_by_bbr_where_the_kernel_lets_this_process_and_else_as_the_system_has_it);
    tcase_add_test(tests, the_control_plane_keeps_what_the_system_has);
    TCase *alone = suite_case(suite, "congestion_alone", 30);
    tcase_add_test(
        alone,
        where_reno_is_usual_data_alone_goes_by_bbr_and_by_reno_where_there_is_no_bbr);
    return suite;
}
