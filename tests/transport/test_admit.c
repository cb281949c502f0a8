#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/admit.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/socket.h"
#include "transport/twin.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_admit(void);

/* One attempt to reach a listener, and how it ended. */
struct attempt {
    bool done;
    enum dial_event event;
};

static void
note(void *arg, enum dial_event event)
{
    struct attempt *attempt = arg;
    attempt->done = true;
    attempt->event = event;
}

static bool
done(const void *arg)
{
    const struct attempt *attempt = arg;
    return attempt->done;
}

static enum dial_event
reach_evicted(struct loop *loop, enum socket_plane plane, const struct address *base,
              const struct key *client, const struct key *server, bool *evicted)
{
    struct err err;
    struct dial_options options = {
        .plane = plane,
        .base = *base,
        .curve_public = key_curve_public(client),
        .curve_secret = key_curve_secret(client),
        .server_public = key_curve_public(server),
    };
    struct attempt attempt = {0};
    struct dial *dial = dial_open(loop, &options, note, &attempt, &err);
    ck_assert_ptr_nonnull(dial);
    ck_assert_msg(harness_until(loop, done, &attempt, 7000), "no end of the attempt");
    *evicted = dial_evicted(dial);
    dial_close(dial);
    return attempt.event;
}

static enum dial_event
reach(struct loop *loop, enum socket_plane plane, const struct address *base,
      const struct key *client, const struct key *server)
{
    bool evicted;
    enum dial_event event = reach_evicted(loop, plane, base, client, server, &evicted);
    ck_assert(!evicted);
    return event;
}

static struct listener *
listen_at(struct loop *loop, enum socket_plane plane, const struct key *server,
          const struct address *base)
{
    struct err err;
    struct listener *listener =
        listener_open(loop, plane, key_curve_secret(server), base, NULL, NULL, &err);
    ck_assert_msg(listener != NULL, "%s", err.msg);
    return listener;
}

START_TEST(a_random_key_is_refused_on_control_and_bulk_and_counted)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct key *member = harness_key(2);
    struct key *stranger = harness_key(3);
    admit_allow(admit, key_id(member));
    static const enum socket_plane planes[] = {SOCKET_CONTROL, SOCKET_BULK};
    for (int i = 0; i < 2; i++) {
        struct listener *listener = listen_at(loop, planes[i], server, &base);
        ck_assert_int_eq(reach(loop, planes[i], &base, stranger, server), DIAL_DENIED);
        ck_assert_uint_eq(admit_refused(admit), (unsigned)i + 1);
        ck_assert_int_eq(reach(loop, planes[i], &base, member, server), DIAL_UP);
        listener_close(listener);
    }
    key_free(server);
    key_free(member);
    key_free(stranger);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

START_TEST(who_is_denied_later_does_not_get_in_again)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct key *member = harness_key(2);
    struct listener *listener = listen_at(loop, SOCKET_CONTROL, server, &base);
    admit_allow(admit, key_id(member));
    ck_assert_int_eq(reach(loop, SOCKET_CONTROL, &base, member, server), DIAL_UP);
    admit_deny(admit, key_id(member));
    ck_assert_int_eq(reach(loop, SOCKET_CONTROL, &base, member, server), DIAL_DENIED);
    listener_close(listener);
    key_free(server);
    key_free(member);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

START_TEST(who_is_evicted_is_named_and_never_admitted_again)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct key *member = harness_key(2);
    struct listener *listener = listen_at(loop, SOCKET_CONTROL, server, &base);
    char name[ID_SHORT_SIZE], said[4096], wanted[32];
    admit_allow(admit, key_id(member));
    admit_evict(admit, key_id(member));
    admit_allow(admit, key_id(member));
    ck_assert(!admit_allowed(admit, key_id(member)));
    clock_sleep_ms(
        1100); /* the line is said once a second, and was said in other tests */
    harness_listen();
    bool evicted;
    enum dial_event event =
        reach_evicted(loop, SOCKET_CONTROL, &base, member, server, &evicted);
    harness_said(said, sizeof(said));
    ck_assert_int_eq(event, DIAL_DENIED);
    ck_assert(evicted);
    ck_assert_ptr_nonnull(strstr(said, "its node was evicted from this swarm"));
    snprintf(wanted, sizeof(wanted), "id=%s", id_short(key_id(member), name));
    ck_assert_ptr_nonnull(strstr(said, wanted));
    listener_close(listener);
    key_free(server);
    key_free(member);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

struct seen {
    int twins;
    char from[64];
    bool told, lives;
};

static void
on_twin(void *arg, const char *from)
{
    struct seen *seen = arg;
    seen->twins++;
    snprintf(seen->from, sizeof(seen->from), "%.63s", from);
}

static void
on_look(void *arg, const struct address *base, bool lives)
{
    (void)base;
    struct seen *seen = arg;
    seen->told = true;
    seen->lives = lives;
}

static bool
told(const void *arg)
{
    return ((const struct seen *)arg)->told;
}

START_TEST(two_processes_with_one_key_both_find_out)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *key = harness_key(1), *other = harness_key(2);
    struct seen seen = {0};
    admit_self(admit, key_id(key), on_twin, &seen);
    struct listener *listener = listen_at(loop, SOCKET_CONTROL, key, &base);
    struct twin *twin = twin_look(loop, key, &base, on_look, &seen, &err);
    ck_assert_ptr_nonnull(twin);
    ck_assert(harness_until(loop, told, &seen, 5000));
    ck_assert(seen.lives);
    ck_assert_int_eq(seen.twins, 1);
    ck_assert_str_eq(seen.from, "127.0.0.1");
    twin_close(twin);
    /* Somebody else lives there: no twin. */
    seen.told = false;
    twin = twin_look(loop, other, &base, on_look, &seen, &err);
    ck_assert(harness_until(loop, told, &seen, 7000));
    ck_assert(!seen.lives);
    twin_close(twin);
    listener_close(listener);
    key_free(key);
    key_free(other);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

START_TEST(each_door_has_its_own_keys)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct key *member = harness_key(2);
    struct key *joiner = harness_key(3);
    struct listener *join = listen_at(loop, SOCKET_JOIN, server, &base);
    struct listener *control = listen_at(loop, SOCKET_CONTROL, server, &base);
    admit_allow(admit, key_id(member));
    ck_assert_int_eq(reach(loop, SOCKET_JOIN, &base, joiner, server), DIAL_DENIED);
    admit_joiner(admit, key_curve_public(joiner));
    ck_assert_int_eq(reach(loop, SOCKET_JOIN, &base, joiner, server), DIAL_UP);
    ck_assert_int_eq(reach(loop, SOCKET_CONTROL, &base, joiner, server), DIAL_DENIED);
    ck_assert_int_eq(reach(loop, SOCKET_JOIN, &base, member, server), DIAL_DENIED);
    ck_assert_uint_eq(admit_refused(admit), 3);
    listener_close(join);
    listener_close(control);
    key_free(server);
    key_free(member);
    key_free(joiner);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

START_TEST(nobody_gets_in_while_there_is_no_handler)
{
    struct loop *loop = harness_open();
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct key *client = harness_key(2);
    struct listener *listener = listen_at(loop, SOCKET_CONTROL, server, &base);
    ck_assert_int_ne(reach(loop, SOCKET_CONTROL, &base, client, server), DIAL_UP);
    listener_close(listener);
    key_free(server);
    key_free(client);
    harness_close(loop);
}
END_TEST

START_TEST(a_process_has_one_handler)
{
    struct loop *loop = harness_open();
    struct err err = {0};
    struct admit *admit = admit_open(loop, &err);
    ck_assert_ptr_nonnull(admit);
    ck_assert_ptr_null(admit_open(loop, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "another ZAP handler"));
    admit_close(admit);
    harness_close(loop);
}
END_TEST

static int
open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static bool
as_few_files(const void *arg)
{
    return open_files() <= *(const int *)arg;
}

static void
count_event(void *arg, enum dial_event event)
{
    ++((int *)arg)[event];
}

START_TEST(dials_closed_at_any_moment_leave_nothing_behind)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct key *clients[3] = {harness_key(2), harness_key(3), harness_key(4)};
    struct listener *listener = listen_at(loop, SOCKET_CONTROL, server, &base);
    admit_allow(
        admit, key_id(clients[0])); /* the second one is denied, the third finds nobody */
    struct address nowhere = harness_address();
    ck_assert_int_eq(reach(loop, SOCKET_CONTROL, &base, clients[0], server), DIAL_UP);
    harness_run(loop, 50);
    int files = open_files();
    int events[DIAL_DENIED + 1] = {0};
    for (int i = 0; i < 300; i++) {
        struct key *client = clients[i % 3];
        struct dial_options options = {
            .plane = SOCKET_CONTROL,
            .base = i % 3 == 2 ? nowhere : base,
            .curve_public = key_curve_public(client),
            .curve_secret = key_curve_secret(client),
            .server_public = key_curve_public(server),
        };
        struct dial *dial = dial_open(loop, &options, count_event, events, &err);
        ck_assert_ptr_nonnull(dial);
        if (i % 7)
            harness_run(loop, i % 7);
        dial_close(dial);
    }
    ck_assert_int_gt(events[DIAL_UP], 0);
    ck_assert_int_gt(events[DIAL_NOBODY], 0);
    ck_assert_int_gt(events[DIAL_DENIED], 0);
    ck_assert_int_eq(events[DIAL_DOWN], 0);
    ck_assert(harness_until(loop, as_few_files, &files, 2000));
    listener_close(listener);
    key_free(server);
    for (int i = 0; i < 3; i++)
        key_free(clients[i]);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

/* ZMTP 3.1 greeting of a client without encryption, and the READY of its handshake. */
static const uint8_t plain_greeting[64] = {
    0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'N', 'U', 'L', 'L',
};
static const char plain_ready[] = "\x04\x1d\x05READY\x0bSocket-Type\0\0\0\x06"
                                  "DEALER";

static bool
closed(const void *arg)
{
    const int *fd = arg;
    char bytes[256];
    ssize_t got;
    while ((got = recv(*fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        continue;
    return got == 0;
}

START_TEST(a_client_without_encryption_is_hung_up_on)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct address base = harness_address();
    struct key *server = harness_key(1);
    struct listener *listener = listen_at(loop, SOCKET_CONTROL, server, &base);
    int fd = harness_tcp(&base, ADDRESS_CONTROL);
    ck_assert_int_eq(send(fd, plain_greeting, sizeof(plain_greeting), MSG_NOSIGNAL),
                     sizeof(plain_greeting));
    send(fd, plain_ready, sizeof(plain_ready) - 1, MSG_NOSIGNAL);
    ck_assert(harness_until(loop, closed, &fd, 6000));
    close(fd);
    listener_close(listener);
    key_free(server);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

START_TEST(the_list_holds_as_many_as_a_swarm_may_have)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct id *ids = xcalloc(MEMBERS_MAX + 1, sizeof(*ids));
    for (unsigned i = 0; i <= MEMBERS_MAX; i++) {
        struct key *key = harness_key(i);
        ids[i] = *key_id(key);
        key_free(key);
        admit_allow(admit, &ids[i]);
        admit_allow(admit, &ids[i]); /* twice is once */
    }
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        ck_assert(admit_allowed(admit, &ids[i]));
    ck_assert(!admit_allowed(admit, &ids[MEMBERS_MAX]));
    for (unsigned i = 0; i < MEMBERS_MAX; i += 2)
        admit_deny(admit, &ids[i]);
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        ck_assert_int_eq(admit_allowed(admit, &ids[i]), i % 2);
    admit_allow(admit, &ids[MEMBERS_MAX]);
    ck_assert(admit_allowed(admit, &ids[MEMBERS_MAX]));
    free(ids);
    admit_close(admit);
    harness_close(loop);
}
END_TEST

START_TEST(an_id_that_is_no_key_is_not_admitted)
{
    struct loop *loop = harness_open();
    struct err err;
    struct admit *admit = admit_open(loop, &err);
    struct id none;
    memset(&none, 0, sizeof(none));
    admit_allow(admit, &none);
    ck_assert(!admit_allowed(admit, &none));
    admit_close(admit);
    harness_close(loop);
}
END_TEST

Suite *
suite_admit(void)
{
    Suite *suite = suite_create("admit");
    TCase *tests = suite_case(suite, "admit", 30);
    tcase_add_test(tests, a_random_key_is_refused_on_control_and_bulk_and_counted);
    tcase_add_test(tests, who_is_denied_later_does_not_get_in_again);
    tcase_add_test(tests, who_is_evicted_is_named_and_never_admitted_again);
    tcase_add_test(tests, two_processes_with_one_key_both_find_out);
    tcase_add_test(tests, each_door_has_its_own_keys);
    tcase_add_test(tests, nobody_gets_in_while_there_is_no_handler);
    tcase_add_test(tests, a_process_has_one_handler);
    tcase_add_test(tests, dials_closed_at_any_moment_leave_nothing_behind);
    tcase_add_test(tests, a_client_without_encryption_is_hung_up_on);
    tcase_add_test(tests, the_list_holds_as_many_as_a_swarm_may_have);
    tcase_add_test(tests, an_id_that_is_no_key_is_not_admitted);
    return suite;
}
