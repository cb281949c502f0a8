#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"
#include "transport/key.h"
#include "transport/loop.h"
#include "transport/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_join_swarm(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
    return

static struct buf out;
static struct peer one, two;

static void
setup(void)
{
    out = (struct buf){0};
}

static void
teardown(void)
{
    swarm_end();
    buf_release(&out);
}

static void
found_one(void)
{
    peer_start(&one, "one", "--zone", "a", NULL);
    peer_event(&one, 5000, NULL, "\"event\":\"epoch\"", NULL);
}

static void
join_two(const char *secret)
{
    peer_start(&two, "two", "--zone", "b", "--join", one.address, "--secret-file", secret,
               NULL);
}

/* Both are members of the newest epoch. */
static void
both_in(int64_t timeout_ms)
{
    peer_event(&one, timeout_ms, NULL, "\"event\":\"epoch\"", "\"name\":\"one\"",
               "\"name\":\"two\"", NULL);
    peer_event(&two, timeout_ms, NULL, "\"event\":\"epoch\"", "\"name\":\"one\"",
               "\"name\":\"two\"", NULL);
}

static void
found_two(void)
{
    found_one();
    join_two(swarm_path("one/swarm.secret"));
    both_in(10000);
}

/* A job for both nodes that takes longer than its test; submitted at `at`. */
static void
train_on_both(const struct peer *at)
{
    const char *job = swarm_job("both", 1000000,
                                "plan: {pipeline: 2, replicas: 1, micro_batch: 4}\n"
                                "checkpoint: {every_steps: 0}\n");
    int code = swarm_run(&out, 20000, "train", "--detach", job, "--data", at->data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    peer_event(&one, 10000, NULL, "\"event\":\"step\"", "\"step\":10,", NULL);
    peer_event(&two, 10000, NULL, "\"event\":\"step\"", "\"step\":10,", NULL);
}

START_TEST(two_nodes_train_one_job_and_refuse_a_second)
{
    BEGIN();
    found_two();
    train_on_both(&two);
    const struct peer *const peers[] = {&one, &two};
    for (int i = 0; i < 2; i++) {
        int code = swarm_run(&out, 10000, "train", swarm_path("tiny.yaml"), "--data",
                             peers[i]->data, NULL);
        ck_assert_int_eq(code, 1);
        ck_assert_msg(strstr((char *)out.data, "the job \"both\" is running"), "%s",
                      (char *)out.data);
        struct json *status = peer_status(peers[i]);
        ck_assert_uint_eq(json_count(json_get(status, "members")), 2);
        ck_assert_uint_eq(json_count(json_get(json_get(status, "plan"), "stages")), 2);
        ck_assert(json_bool(json_get(status, "quorum"), false));
        json_free(status);
    }
    peer_advances(&one, 10, 10000);
    /* Both say the same of a step. */
    char left[64], right[64];
    ck_assert(peer_loss(&one, 10, left) && peer_loss(&two, 10, right));
    ck_assert_str_eq(left, right);
    ck_assert_int_eq(swarm_run(&out, 15000, "stop", "--data", one.data, NULL), 0);
    ck_assert(strstr((char *)out.data, "stopped at step "));
    ck_assert_int_eq(peer_leave(&two, 10000), 0);
    peer_event(&one, 5000, NULL, "\"event\":\"epoch\"", "\"cause\":\"leave\"", NULL);
}
END_TEST

START_TEST(a_node_that_comes_back_is_the_same_member)
{
    BEGIN();
    char line[8192], id[32] = "";
    found_two();
    peer_event(&two, 1000, line, "\"event\":\"start\"", NULL);
    snprintf(id, sizeof(id), "%.15s", strstr(line, "\"id\""));
    peer_kill(&two);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", "\"cause\":\"loss\"", NULL);
    /* No --join: it knows its swarm. */
    peer_again(&two, NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", "\"cause\":\"return\"", id,
               NULL);
    peer_event(&two, 10000, line, "\"event\":\"epoch\"", "\"cause\":\"return\"", NULL);
    struct json *status = peer_status(&two);
    ck_assert_uint_eq(json_count(json_get(status, "members")), 2);
    json_free(status);
    ck_assert(!strstr(line, "\"cause\":\"founding\""));
}
END_TEST

/* A leaver whose swarm does not answer waits for it, until it is told again. */
START_TEST(a_second_signal_stops_a_node_that_waits_to_leave)
{
    BEGIN();
    found_two();
    kill(one.pid, SIGSTOP);
    kill(two.pid, SIGTERM);
    peer_logs(&two, 2000, "a second signal stops at once");
    clock_sleep_ms(300);
    ck_assert_int_eq(kill(two.pid, 0), 0);
    int64_t began = clock_ms();
    ck_assert_int_eq(peer_leave(&two, 5000), 1);
    ck_assert_int_lt(clock_ms() - began, 1500);
    peer_event(&two, 100, NULL, "\"event\":\"stop\"", "a second signal", NULL);
    kill(one.pid, SIGCONT);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", "\"cause\":\"l", NULL);
}
END_TEST

START_TEST(joining_nobody_says_so_and_goes_on_trying)
{
    BEGIN();
    found_one();
    swarm_write("secret", "");
    struct buf secret = {0};
    struct err err;
    ck_assert_int_eq(file_read(swarm_path("one/swarm.secret"), 1000, &secret, &err), 0);
    ck_assert_int_eq(
        file_write(swarm_path("secret"), secret.data, secret.len, 0600, &err), 0);
    buf_release(&secret);
    peer_kill(&one);
    join_two(swarm_path("secret"));
    peer_logs(&two, 5000, "nobody answers at the seed");
    peer_logs(&two, 1000, one.address);
    int code = swarm_run(&out, 5000, "status", "--data", two.data, NULL);
    ck_assert_msg(code == 0 && strstr((char *)out.data, "still joining"), "%s",
                  (char *)out.data);
    code =
        swarm_run(&out, 5000, "train", swarm_path("tiny.yaml"), "--data", two.data, NULL);
    ck_assert_msg(code == 1 && strstr((char *)out.data, "still joining"), "%s",
                  (char *)out.data);
    peer_again(&one, NULL);
    both_in(15000);
}
END_TEST

START_TEST(a_wrong_secret_is_named_by_both_sides)
{
    BEGIN();
    found_one();
    swarm_write("wrong",
                "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    join_two(swarm_path("wrong"));
    peer_logs(&two, 20000, "the secret is probably another swarm's");
    peer_logs(&one, 2000, "secret");
    ck_assert(!file_exists(swarm_path("two/swarm.id")));
    struct json *status = peer_status(&one);
    ck_assert_uint_eq(json_count(json_get(status, "members")), 1);
    json_free(status);
    swarm_write("noise", "no secret at all");
    int code = swarm_run(&out, 5000, "node", "--data", swarm_path("three"), "--listen",
                         "127.0.0.1", "--join", one.address, "--secret-file",
                         swarm_path("noise"), NULL);
    ck_assert_msg(code == 1 || code == 2, "%d", code);
    ck_assert_msg(strstr((char *)out.data, "hexadecimal"), "%s", (char *)out.data);
    ck_assert(!strstr((char *)out.data, "no secret at all"));
    code = swarm_run(&out, 5000, "node", "--data", swarm_path("four"), "--listen",
                     "127.0.0.1", "--join", one.address, NULL);
    ck_assert_int_eq(code, 2);
    ck_assert_msg(strstr((char *)out.data, "--secret-file"), "%s", (char *)out.data);
}
END_TEST

START_TEST(a_member_of_another_swarm_is_told_so_by_both_sides)
{
    BEGIN();
    found_one();
    peer_start(&two, "two", "--zone", "b", NULL);
    peer_event(&two, 5000, NULL, "\"event\":\"epoch\"", NULL);
    ck_assert_int_eq(peer_leave(&two, 8000), 0);
    int code = swarm_run(&out, 15000, "node", "--data", two.data, "--listen", two.address,
                         "--join", one.address, "--secret-file",
                         swarm_path("one/swarm.secret"), NULL);
    ck_assert_msg(code == 1, "%d: %s", code, (char *)out.data);
    ck_assert_msg(strstr((char *)out.data, "data folder belongs to swarm"), "%s",
                  (char *)out.data);
    ck_assert_msg(strstr((char *)out.data, "--data"), "%s", (char *)out.data);
    peer_logs(&one, 2000, "data folder belongs to swarm");
    struct json *status = peer_status(&one);
    ck_assert_uint_eq(json_count(json_get(status, "members")), 1);
    json_free(status);
}
END_TEST

/* ---- strangers ---- */

struct attempt {
    struct loop *loop;
    bool done;
    enum dial_event event;
};

static void
on_dial(void *arg, enum dial_event event)
{
    struct attempt *attempt = arg;
    attempt->done = true;
    attempt->event = event;
    loop_stop(attempt->loop);
}

static enum dial_event
dial_with(struct loop *loop, enum socket_plane plane, const struct key *client,
          const struct key *server)
{
    struct err err;
    struct attempt attempt = {.loop = loop};
    struct dial_options options = {.plane = plane,
                                   .curve_public = key_curve_public(client),
                                   .curve_secret = key_curve_secret(client),
                                   .server_public = key_curve_public(server)};
    ck_assert_int_eq(address_parse(one.address, &options.base, &err), 0);
    struct dial *dial = dial_open(loop, &options, on_dial, &attempt, &err);
    ck_assert_ptr_nonnull(dial);
    loop_run(loop);
    dial_close(dial);
    return attempt.event;
}

START_TEST(a_key_that_nobody_knows_is_refused_and_counted)
{
    BEGIN();
    struct err err;
    found_one();
    struct json *status = peer_status(&one);
    int64_t before = json_int(json_get(status, "refused"), -1);
    ck_assert_int_ge(before, 0);
    json_free(status);
    ck_assert_int_eq(key_setup(&err) || loop_setup(1, &err), 0);
    struct loop *loop = loop_new();
    struct key *server = key_open(swarm_path("one/identity.key"), NULL, &err);
    struct key *stranger = key_from_seed((const uint8_t[32]){200, 1, 2});
    ck_assert_ptr_nonnull(server);
    /* The right server key, but its own is no member's; and no server key at all. */
    ck_assert_int_eq(dial_with(loop, SOCKET_CONTROL, stranger, server), DIAL_DENIED);
    ck_assert_int_eq(dial_with(loop, SOCKET_BULK, stranger, server), DIAL_DENIED);
    ck_assert_int_eq(dial_with(loop, SOCKET_CONTROL, stranger, stranger), DIAL_HUNG_UP);
    ck_assert_int_eq(dial_with(loop, SOCKET_JOIN, stranger, server), DIAL_HUNG_UP);
    /* Even the node's own key does not open its door twice. */
    peer_logs(&one, 2000, "its key is not a member's");
    status = peer_status(&one);
    ck_assert_int_ge(json_int(json_get(status, "refused"), -1), before + 2);
    ck_assert_uint_eq(json_count(json_get(status, "members")), 1);
    json_free(status);
    key_free(server);
    key_free(stranger);
    loop_free(loop);
    loop_teardown();
}
END_TEST

static int
connect_raw(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Random bytes to a port until `total` are gone; the other side hangs up again and
 * again. */
static void
pour(int port, size_t total, struct rng *rng)
{
    static uint64_t block[8192];
    for (size_t i = 0; i < sizeof(block) / sizeof(block[0]); i++)
        block[i] = rng_next(rng);
    size_t poured = 0;
    int64_t until = clock_ms() + 15000;
    while (poured < total) {
        int fd = connect_raw(port);
        ck_assert_msg(fd >= 0 && clock_ms() < until, "port %d takes no connections",
                      port);
        struct timeval wait = {.tv_usec = 200000};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
        /* Sometimes behind a greeting that is right. */
        static const uint8_t greeting[64] = {0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                             0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
        ssize_t sent =
            rng_below(rng, 2) ? send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL) : 0;
        while (sent >= 0 && poured < total) {
            sent = send(fd, block, sizeof(block), MSG_NOSIGNAL);
            poured += sent > 0 ? (size_t)sent : 0;
        }
        close(fd);
    }
}

START_TEST(silent_connections_and_random_bytes_disturb_no_training)
{
    BEGIN();
    enum { SILENT = 200, POURED = 10 << 20 };
    static int silent[3 * SILENT];
    struct rng rng = {
        .seed = suite_seed("silent_connections_and_random_bytes_disturb_no_training", 1)};
    found_two();
    train_on_both(&one);
    for (int i = 0; i < 3 * SILENT; i++) {
        silent[i] = connect_raw(one.port + i % 3);
        ck_assert_int_ge(silent[i], 0);
    }
    peer_advances(&one, 20, 10000);
    for (int which = 0; which < 3; which++) {
        pour(one.port + which, POURED, &rng);
        peer_advances(&one, 5, 10000);
    }
    for (int i = 0; i < 3 * SILENT; i++)
        close(silent[i]);
    peer_advances(&two, 20, 10000);
    /* Nobody was lost, and the door still opens. */
    char line[8192];
    peer_event(&one, 100, line, "\"event\":\"epoch\"", NULL);
    swarm_nobody_lost(line);
    struct json *status = peer_status(&one);
    ck_assert_str_eq(json_text(json_get(status, "paused"), "-"), "");
    json_free(status);
    struct peer three;
    peer_start(&three, "three", "--zone", "a", "--join", one.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    peer_event(&three, 10000, NULL, "\"event\":\"epoch\"", "\"name\":\"three\"", NULL);
}
END_TEST

static void
is_in(const struct peer *peer, int64_t ms)
{
    bool in = false;
    for (int64_t until = clock_ms() + ms; !in && clock_ms() < until;
         clock_sleep_ms(100)) {
        struct json *status = peer_status(peer);
        in = json_bool(json_get(status, "member"), false);
        json_free(status);
    }
    ck_assert_msg(in, "%s is no member", peer->name);
}

/* It knows no address but where it joined, and nobody is there. */
START_TEST(who_comes_back_alone_lets_nobody_in_and_finds_its_swarm_where_it_joined)
{
    BEGIN();
    struct peer three;
    char path[PATH_BYTES_MAX];
    found_one();
    peer_start(&two, "two", "--zone", "a", "--join", one.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    peer_event(&two, 30000, NULL, "\"event\":\"joined\"", NULL);
    peer_kill(&two);
    peer_kill(&one);
    ck_assert(file_exists(path_join(path, two.data, "seeds.state")));
    unlink(path_join(path, two.data, "members.state"));
    peer_again(&two, NULL);
    peer_start(&three, "three", "--zone", "a", "--join", two.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    peer_logs(&three, 20000, "has not found its swarm yet; name another seed");
    ck_assert_int_eq(swarm_wait(three.pid, 5000), 1);
    peer_logs(&two, 20000, "this node has not found its swarm again; asking");
    peer_again(&one, NULL);
    is_in(&two, 40000);
    peer_start(&three, "three", "--zone", "a", "--join", two.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    peer_event(&three, 30000, NULL, "\"event\":\"epoch\"", "\"name\":\"one\"",
               "\"name\":\"two\"", "\"name\":\"three\"", NULL);
}
END_TEST

Suite *
suite_join_swarm(void)
{
    Suite *suite = suite_create("join_swarm");
    TCase *tests = suite_case(suite, "join_swarm", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, two_nodes_train_one_job_and_refuse_a_second);
    tcase_add_test(tests, a_node_that_comes_back_is_the_same_member);
    tcase_add_test(tests, a_second_signal_stops_a_node_that_waits_to_leave);
    tcase_add_test(tests, joining_nobody_says_so_and_goes_on_trying);
    tcase_add_test(tests, a_wrong_secret_is_named_by_both_sides);
    tcase_add_test(tests, a_member_of_another_swarm_is_told_so_by_both_sides);
    tcase_add_test(tests, a_key_that_nobody_knows_is_refused_and_counted);
    tcase_add_test(tests, silent_connections_and_random_bytes_disturb_no_training);
    tcase_add_test(
        tests, who_comes_back_alone_lets_nobody_in_and_finds_its_swarm_where_it_joined);
    return suite;
}
