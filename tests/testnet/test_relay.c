#include "testnet/port.h"
#include "testnet/relay.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_relay(void);

enum { A = 0, B = 1, ZONES = 2, WAIT_MS = 3000 };

static struct relay *relay;
static int servers[PORT_TRIPLE]; /* a node of zone b */
static struct address base, via;
static struct err err;

static void
start(double mbit_per_s, double delay_ms)
{
    struct relay_link links[ZONES * ZONES] = {{0}};
    links[A * ZONES + B] = links[B * ZONES + A] =
        (struct relay_link){.mbit_per_s = mbit_per_s, .delay_ms = delay_ms};
    signal(SIGPIPE, SIG_IGN);
    relay = relay_start(ZONES, links, &err);
    ck_assert_msg(relay != NULL, "%s", err.msg);
    ck_assert_int_eq(port_triple(servers, &base, &err), 0);
    for (int i = 0; i < PORT_TRIPLE; i++)
        ck_assert_int_eq(listen(servers[i], 16), 0);
    ck_assert_int_eq(relay_open(relay, &base, B, A, &via, &err), 0);
}

static void
stop(void)
{
    relay_stop(relay);
    for (int i = 0; i < PORT_TRIPLE; i++)
        if (servers[i] >= 0)
            close(servers[i]);
}

static int
dial(int which)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)(via.port + which)),
                                  .sin_addr.s_addr = port_host()};
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static bool
readable(int fd, int ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, ms) > 0;
}

static int
take(int which)
{
    ck_assert(readable(servers[which], WAIT_MS));
    int fd = accept4(servers[which], NULL, NULL, SOCK_CLOEXEC), one = 1;
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Closed by the other side within a while; what comes before the end is passed over. */
static bool
ends(int fd, int ms)
{
    char bytes[4096];
    int64_t until = clock_ms() + ms;
    while (readable(fd, (int)(until - clock_ms() > 0 ? until - clock_ms() : 0)))
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
            return true;
    return false;
}

static void
say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void
hear(int fd, const char *text)
{
    char bytes[64] = "";
    ck_assert(readable(fd, WAIT_MS));
    ck_assert_int_eq(recv(fd, bytes, strlen(text), MSG_WAITALL), (ssize_t)strlen(text));
    ck_assert_str_eq(bytes, text);
}

/* Push as fast as it goes for a while from each of `from`; returns the bytes that came
 * to each of `to` between the first 200 ms and the end, and how long that was. */
static double
push(const int *from, const int *to, int count, int ms, int64_t *got)
{
    static char bytes[64 << 10];
    int64_t begin = clock_us(), warm = begin + 200000, end = begin + INT64_C(1000) * ms,
            last = 0;
    memset(got, 0, sizeof(*got) * (size_t)count);
    for (int64_t now = begin; now < end; now = clock_us()) {
        struct pollfd out[4], in[4];
        for (int i = 0; i < count; i++) {
            out[i] = (struct pollfd){.fd = from[i], .events = POLLOUT};
            in[i] = (struct pollfd){.fd = to[i], .events = POLLIN};
        }
        poll(in, (nfds_t)count, 1);
        poll(out, (nfds_t)count, 0);
        for (int i = 0; i < count; i++) {
            if (out[i].revents & POLLOUT &&
                send(from[i], bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                ck_assert(errno == EAGAIN);
            if (!(in[i].revents & POLLIN))
                continue;
            ssize_t count_got = recv(to[i], bytes, sizeof(bytes), MSG_DONTWAIT);
            last = clock_us();
            if (count_got > 0 && last > warm)
                got[i] += count_got;
        }
    }
    return (double)(last - warm) / 1e6;
}

START_TEST(a_link_has_its_rate_within_five_percent)
{
    start(40, 5);
    int client = dial(ADDRESS_BULK), server = take(ADDRESS_BULK);
    int64_t got;
    double seconds = push(&client, &server, 1, 1500, &got);
    double rate = (double)got * 8 / 1e6 / seconds;
    ck_assert_msg(rate > 38 && rate < 42, "%.2f Mbit/s", rate);
    seconds = push(&server, &client, 1, 1500, &got); /* and the other way */
    rate = (double)got * 8 / 1e6 / seconds;
    ck_assert_msg(rate > 38 && rate < 42, "%.2f Mbit/s back", rate);
    close(client);
    close(server);
    stop();
}
END_TEST

START_TEST(connections_of_a_link_share_its_rate)
{
    start(40, 1);
    int clients[3], targets[3];
    int64_t got[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = dial(i);
        targets[i] = take(i);
    }
    double seconds = push(clients, targets, 3, 2000, got);
    double sum = (double)(got[0] + got[1] + got[2]) * 8 / 1e6 / seconds;
    ck_assert_msg(sum > 38 && sum < 42, "%.2f Mbit/s together", sum);
    for (int i = 0; i < 3; i++) {
        double share = (double)got[i] * 8 / 1e6 / seconds;
        ck_assert_msg(share > 9 && share < 18, "%.2f Mbit/s for connection %d", share, i);
        close(clients[i]);
        close(targets[i]);
    }
    stop();
}
END_TEST

static int
compare_times(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

START_TEST(a_message_takes_the_links_delay_within_three_ms)
{
    enum { ROUNDS = 21 };
    start(100, 20);
    int client = dial(ADDRESS_CONTROL), server = take(ADDRESS_CONTROL);
    int64_t took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin = clock_us();
        say(client, "ping");
        hear(server, "ping");
        int64_t there = clock_us() - begin;
        ck_assert_msg(there >= 20000, "%lld us one way", (long long)there);
        say(server, "pong");
        hear(client, "pong");
        took[i] = clock_us() - begin;
    }
    qsort(took, ROUNDS, sizeof(took[0]), compare_times);
    ck_assert_msg(took[ROUNDS / 2] >= 40000 && took[ROUNDS / 2] < 46000,
                  "%lld us both ways", (long long)took[ROUNDS / 2]);
    close(client);
    close(server);
    stop();
}
END_TEST

START_TEST(bytes_arrive_whole_and_in_order_under_back_pressure)
{
    enum { BYTES = 3 << 20 };
    start(0, 2);
    int client = dial(ADDRESS_BULK), server = take(ADDRESS_BULK);
    uint8_t *sent = xcalloc(BYTES, 1), *got = xcalloc(BYTES, 1);
    for (int i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)((unsigned)i * 2654435761u >> 24);
    size_t out = 0, in = 0;
    int64_t stuck_until = clock_ms() + 300; /* the receiver does not read at first */
    while (in < BYTES) {
        if (out < BYTES) {
            ssize_t count = send(client, sent + out, BYTES - out, MSG_DONTWAIT);
            out += count > 0 ? (size_t)count : 0;
        }
        if (clock_ms() < stuck_until) {
            clock_sleep_ms(1);
            continue;
        }
        ck_assert(readable(server, WAIT_MS));
        ssize_t count = recv(server, got + in, BYTES - in, 0);
        ck_assert_int_gt(count, 0);
        in += (size_t)count;
    }
    ck_assert_int_eq(memcmp(sent, got, BYTES), 0);
    free(sent);
    free(got);
    close(client);
    close(server);
    stop();
}
END_TEST

START_TEST(a_half_close_passes_on_behind_the_bytes)
{
    start(100, 20);
    int client = dial(ADDRESS_CONTROL), server = take(ADDRESS_CONTROL);
    say(client, "last words");
    shutdown(client, SHUT_WR);
    hear(server, "last words");
    ck_assert(ends(server, 200));
    say(server, "answer"); /* the other half still works */
    hear(client, "answer");
    close(server);
    ck_assert(ends(client, 200));
    close(client);
    stop();
}
END_TEST

START_TEST(a_peer_that_dies_is_gone_at_once_for_the_other)
{
    start(100, 20);
    int client = dial(ADDRESS_CONTROL), server = take(ADDRESS_CONTROL);
    say(client, "hello");
    hear(server, "hello");
    struct linger hard = {.l_onoff = 1}; /* as a kill with unread bytes: a reset */
    setsockopt(server, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(server);
    ck_assert(ends(client, 100));
    close(client);
    client = dial(ADDRESS_CONTROL);
    server = take(ADDRESS_CONTROL);
    close(server); /* with nothing unread: an end */
    ck_assert(ends(client, 100));
    close(client);
    stop();
}
END_TEST

START_TEST(a_target_that_refuses_is_refused_at_once)
{
    start(100, 20);
    close(servers[ADDRESS_CONTROL]);
    servers[ADDRESS_CONTROL] = -1;
    int client = dial(ADDRESS_CONTROL);
    ck_assert(ends(client, 100));
    close(client);
    stop();
}
END_TEST

START_TEST(a_cut_closes_and_refuses_until_it_heals)
{
    start(100, 5);
    int client = dial(ADDRESS_CONTROL), server = take(ADDRESS_CONTROL);
    relay_cut(relay, B, true);
    ck_assert(ends(client, 100));
    ck_assert(ends(server, 100));
    close(client);
    close(server);
    client = dial(ADDRESS_CONTROL);
    ck_assert(ends(client, 100));
    ck_assert(!readable(servers[ADDRESS_CONTROL], 50));
    close(client);
    relay_cut(relay, B, false);
    client = dial(ADDRESS_CONTROL);
    server = take(ADDRESS_CONTROL);
    say(client, "again");
    hear(server, "again");
    close(client);
    close(server);
    stop();
}
END_TEST

START_TEST(a_stall_holds_bytes_and_keeps_connections)
{
    start(100, 5);
    int client = dial(ADDRESS_CONTROL), server = take(ADDRESS_CONTROL);
    relay_stall(relay, A, true);
    say(client, "held");
    ck_assert(!readable(server, 150));
    int second = dial(ADDRESS_BULK); /* who dies meanwhile is not heard of, either */
    close(second);
    relay_stall(relay, A, false);
    hear(server, "held");
    close(server);
    ck_assert(ends(client, 100));
    close(client);
    stop();
}
END_TEST

START_TEST(a_relay_at_rest_takes_no_time)
{
    start(100, 20);
    int client = dial(ADDRESS_CONTROL), server = take(ADDRESS_CONTROL);
    int half = dial(ADDRESS_BULK), other = take(ADDRESS_BULK);
    shutdown(half, SHUT_WR); /* a half-closed one must not wake it for ever */
    ck_assert(ends(other, 200));
    relay_stall(relay, B, true);
    say(client, "held"); /* nor bytes that wait */
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    clock_sleep_ms(500);
    getrusage(RUSAGE_SELF, &after);
    int64_t used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec +
                    after.ru_stime.tv_sec - before.ru_stime.tv_sec) *
                       1000000 +
                   (after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                    after.ru_stime.tv_usec - before.ru_stime.tv_usec);
    ck_assert_msg(used < 50000, "%lld us of 500000", (long long)used);
    close(half);
    close(other);
    close(client);
    close(server);
    stop();
}
END_TEST

Suite *
suite_relay(void)
{
    Suite *suite = suite_create("relay");
    TCase *tests = suite_case(suite, "relay", 30);
    tcase_add_test(tests, a_link_has_its_rate_within_five_percent);
    tcase_add_test(tests, connections_of_a_link_share_its_rate);
    tcase_add_test(tests, a_message_takes_the_links_delay_within_three_ms);
    tcase_add_test(tests, bytes_arrive_whole_and_in_order_under_back_pressure);
    tcase_add_test(tests, a_half_close_passes_on_behind_the_bytes);
    tcase_add_test(tests, a_peer_that_dies_is_gone_at_once_for_the_other);
    tcase_add_test(tests, a_target_that_refuses_is_refused_at_once);
    tcase_add_test(tests, a_cut_closes_and_refuses_until_it_heals);
    tcase_add_test(tests, a_stall_holds_bytes_and_keeps_connections);
    tcase_add_test(tests, a_relay_at_rest_takes_no_time);
    return suite;
}
