#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/join.h"
#include "transport/socket.h"

#include <stdio.h>
#include <string.h>

Suite *suite_join(void);

static const char secret_a[] =
    "aa11223344556677889900aabbccddeeff00112233445566778899aabbccddee";
static const char secret_b[] =
    "bb11223344556677889900aabbccddeeff00112233445566778899aabbccddee";

static struct secret *
secret_of(const char *text)
{
    struct err err;
    struct secret *secret = secret_parse(text, &err);
    ck_assert_ptr_nonnull(secret);
    return secret;
}

/* A seed: its loop, its handler, and what it was asked. */
struct seed {
    struct loop *loop;
    struct secret *secret;
    struct admit *admit;
    struct address base;
    struct join_server *server;
    int requests;
    bool mute, later;
    struct join_caller caller; /* the last one */
};

static bool
reply(void *arg, const struct join_caller *caller, const void *body, size_t len,
      struct buf *answer)
{
    struct seed *seed = arg;
    seed->requests++;
    seed->caller = *caller;
    if (seed->mute || seed->later)
        return seed->later;
    buf_add(answer, "to ", 3);
    buf_add(answer, body, len);
    return false;
}

static void
seed_listen(struct seed *seed)
{
    struct err err;
    seed->server = join_listen(seed->loop, seed->secret, &seed->base, reply, seed, &err);
    ck_assert_msg(seed->server != NULL, "%s", err.msg);
}

static void
seed_open(struct seed *seed)
{
    struct err err;
    memset(seed, 0, sizeof(*seed));
    seed->loop = harness_open();
    seed->base = harness_address();
    seed->secret = secret_of(secret_a);
    seed->admit = admit_open(seed->loop, &err);
    admit_joiner(seed->admit, secret_joiner_public(seed->secret));
}

static void
seed_close(struct seed *seed)
{
    join_server_close(seed->server);
    admit_close(seed->admit);
    secret_free(seed->secret);
    harness_close(seed->loop);
}

/* A joiner: what it was told, in order. */
struct joiner {
    struct join_client *client;
    enum join_result results[16];
    int count;
    int wanted; /* results that a test waits for */
    char answer[64];
    bool close_when_answered;
};

static void
told(void *arg, enum join_result result, const void *body, size_t len)
{
    struct joiner *joiner = arg;
    ck_assert_int_lt(joiner->count, 16);
    joiner->results[joiner->count++] = result;
    if (result != JOIN_ANSWERED)
        return;
    ck_assert_uint_lt(len, sizeof(joiner->answer));
    memcpy(joiner->answer, body, len);
    if (joiner->close_when_answered) {
        join_client_close(joiner->client);
        joiner->client = NULL;
    }
}

static bool
enough(const void *arg)
{
    const struct joiner *joiner = arg;
    return joiner->count >= joiner->wanted;
}

static void
joiner_dial(struct joiner *joiner, struct seed *seed, const struct secret *secret,
            const char *request)
{
    struct err err;
    joiner->wanted = joiner->wanted ? joiner->wanted : 1;
    struct join_keys keys = {.client_public = secret_joiner_public(secret),
                             .client_secret = secret_joiner_secret(secret),
                             .server_public = secret_join_public(secret)};
    joiner->client = join_dial(seed->loop, &keys, &seed->base, request, strlen(request),
                               told, joiner, &err);
    ck_assert_ptr_nonnull(joiner->client);
}

START_TEST(who_has_the_secret_is_answered)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct joiner joiner = {0};
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_int_eq(joiner.results[0], JOIN_ANSWERED);
    ck_assert_str_eq(joiner.answer, "to sea");
    harness_run(seed.loop, 300);
    ck_assert_int_eq(joiner.count, 1); /* one question, one answer */
    ck_assert_int_eq(seed.requests, 1);
    join_client_close(joiner.client);
    seed_close(&seed);
}
END_TEST

START_TEST(a_client_may_be_closed_by_its_own_handler)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct joiner joiner = {.close_when_answered = true};
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_ptr_null(joiner.client);
    ck_assert_str_eq(joiner.answer, "to sea");
    seed_close(&seed);
}
END_TEST

START_TEST(a_wrong_secret_is_hung_up_on_and_both_sides_can_say_why)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct secret *wrong = secret_of(secret_b);
    struct joiner joiner = {0};
    harness_listen();
    joiner_dial(&joiner, &seed, wrong, "let me in");
    bool was_told = harness_until(seed.loop, enough, &joiner, 4000);
    char said[4096];
    harness_said(said, sizeof(said));
    ck_assert(was_told);
    ck_assert_int_eq(joiner.results[0], JOIN_HUNG_UP);
    ck_assert_ptr_nonnull(
        strstr(said, "somebody with another secret tried to join address="));
    ck_assert_int_eq(seed.requests, 0);
    join_client_close(joiner.client);
    secret_free(wrong);
    seed_close(&seed);
}
END_TEST

START_TEST(nobody_is_said_once_and_the_seed_is_found_when_it_comes)
{
    struct seed seed;
    seed_open(&seed);
    struct joiner joiner = {0};
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_int_eq(joiner.results[0], JOIN_NOBODY);
    harness_run(seed.loop, 1000); /* more attempts, the same result */
    ck_assert_int_eq(joiner.count, 1);
    seed_listen(&seed);
    joiner.wanted = 2;
    ck_assert(harness_until(seed.loop, enough, &joiner, 4000));
    ck_assert_int_eq(joiner.results[1], JOIN_ANSWERED);
    join_client_close(joiner.client);
    seed_close(&seed);
}
END_TEST

START_TEST(a_seed_that_says_nothing_is_asked_again)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    seed.mute = true;
    struct joiner joiner = {0};
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, enough, &joiner, 7000));
    ck_assert_int_eq(joiner.results[0], JOIN_SILENT);
    ck_assert_uint_eq(join_server_refused(seed.server), 1);
    seed.mute = false;
    joiner.wanted = 2;
    ck_assert(harness_until(seed.loop, enough, &joiner, 2000));
    ck_assert_int_eq(joiner.results[1], JOIN_ANSWERED);
    join_client_close(joiner.client);
    seed_close(&seed);
}
END_TEST

static bool
asked(const void *arg)
{
    return ((const struct seed *)arg)->requests > 0;
}

START_TEST(an_answer_may_come_later_than_its_request)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    seed.later = true;
    struct joiner joiner = {0};
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, asked, &seed, 3000));
    harness_run(seed.loop, 200);
    ck_assert_int_eq(joiner.count, 0);
    ck_assert_uint_eq(join_server_refused(seed.server), 0);
    join_server_answer(seed.server, seed.caller.ticket + 1, "nobody", 6);
    join_server_answer(seed.server, seed.caller.ticket, "at last", 7);
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_int_eq(joiner.results[0], JOIN_ANSWERED);
    ck_assert_str_eq(joiner.answer, "at last");
    join_client_close(joiner.client);
    seed_close(&seed);
}
END_TEST

static void
dial_invited(struct joiner *joiner, struct seed *seed, const struct key *invite)
{
    struct err err;
    struct join_keys keys = {.client_public = key_curve_public(invite),
                             .client_secret = key_curve_secret(invite),
                             .server_public = secret_join_public(seed->secret)};
    joiner->wanted = joiner->wanted ? joiner->wanted : 1;
    joiner->client =
        join_dial(seed->loop, &keys, &seed->base, "sea", 3, told, joiner, &err);
    ck_assert_ptr_nonnull(joiner->client);
}

START_TEST(an_invite_opens_the_door_and_is_named_until_it_is_over)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct key *invite = harness_key(7), *other = harness_key(8);
    admit_invites(seed.admit, key_id(invite), 1);
    struct joiner joiner = {0}, stranger = {0};
    dial_invited(&joiner, &seed, invite);
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_int_eq(joiner.results[0], JOIN_ANSWERED);
    ck_assert(id_equal(&seed.caller.invite, key_id(invite)));
    join_client_close(joiner.client);
    dial_invited(&stranger, &seed, other);
    ck_assert(harness_until(seed.loop, enough, &stranger, 3000));
    ck_assert_int_eq(stranger.results[0], JOIN_DENIED);
    join_client_close(stranger.client);
    admit_invites(seed.admit, NULL, 0);
    memset(&joiner, 0, sizeof(joiner));
    dial_invited(&joiner, &seed, invite);
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_int_eq(joiner.results[0], JOIN_DENIED);
    join_client_close(joiner.client);
    ck_assert_int_eq(seed.requests, 1);
    /* Who has the secret has no invite. */
    memset(&joiner, 0, sizeof(joiner));
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert(id_empty(&seed.caller.invite));
    join_client_close(joiner.client);
    key_free(invite);
    key_free(other);
    seed_close(&seed);
}
END_TEST

enum { CROWD = 24 };
struct crowd {
    struct joiner joiners[CROWD];
};

static bool
all_answered(const void *arg)
{
    const struct crowd *crowd = arg;
    for (int i = 0; i < CROWD; i++)
        if (crowd->joiners[i].count == 0)
            return false;
    return true;
}

START_TEST(a_crowd_is_answered_sixteen_at_once_and_then_twenty_a_second)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct crowd crowd;
    memset(&crowd, 0, sizeof(crowd));
    int64_t start = clock_ms();
    for (int i = 0; i < CROWD; i++)
        joiner_dial(&crowd.joiners[i], &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, all_answered, &crowd, 5000));
    int64_t took = clock_ms() - start;
    ck_assert_int_ge(took, 300); /* sixteen at once, eight more at 50 ms each */
    for (int i = 0; i < CROWD; i++) {
        ck_assert_int_eq(crowd.joiners[i].results[0], JOIN_ANSWERED);
        join_client_close(crowd.joiners[i].client);
    }
    seed_close(&seed);
}
END_TEST

static void
note_up(void *arg, enum dial_event event)
{
    bool *up = arg;
    *up = event == DIAL_UP;
}

static bool
is_up(const void *arg)
{
    return *(const bool *)arg;
}

static bool
refused_one(const void *arg)
{
    const struct seed *seed = arg;
    return join_server_refused(seed->server) == 1;
}

START_TEST(a_request_that_is_too_long_is_counted_and_closes_nothing)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct err err;
    struct dial_options options = {
        .plane = SOCKET_JOIN,
        .base = seed.base,
        .curve_public = secret_joiner_public(seed.secret),
        .curve_secret = secret_joiner_secret(seed.secret),
        .server_public = secret_join_public(seed.secret),
    };
    bool up = false;
    struct dial *dial = dial_open(seed.loop, &options, note_up, &up, &err);
    ck_assert_ptr_nonnull(dial);
    ck_assert(harness_until(seed.loop, is_up, &up, 3000));
    static const char big[JOIN_BYTES_MAX + 1];
    ck_assert(dial_send(dial, big, sizeof(big)));
    ck_assert(harness_until(seed.loop, refused_one, &seed, 3000));
    ck_assert_int_eq(seed.requests, 0);
    ck_assert(dial_up(dial));

    static const char
        huge[64 << 10]; /* beyond what the socket takes at all: libzmq hangs up */
    ck_assert(dial_send(dial, huge, sizeof(huge)));
    struct joiner joiner = {0};
    joiner_dial(&joiner, &seed, seed.secret, "sea");
    ck_assert(harness_until(seed.loop, enough, &joiner, 3000));
    ck_assert_int_eq(joiner.results[0], JOIN_ANSWERED);
    ck_assert(!dial_up(dial));
    join_client_close(joiner.client);
    dial_close(dial);
    seed_close(&seed);
}
END_TEST

START_TEST(a_port_in_use_has_a_sentence)
{
    struct seed seed;
    seed_open(&seed);
    seed_listen(&seed);
    struct err err = {0};
    ck_assert_ptr_null(
        join_listen(seed.loop, seed.secret, &seed.base, reply, &seed, &err));
    char port[16];
    snprintf(port, sizeof(port), "port %u", (unsigned)seed.base.port);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, port));
    ck_assert_ptr_nonnull(strstr(err.msg, "another node"));
    ck_assert_ptr_nonnull(strstr(err.msg, "--listen"));
    seed_close(&seed);
}
END_TEST

START_TEST(an_address_that_is_not_ours_has_a_sentence)
{
    struct seed seed;
    seed_open(&seed);
    struct err err = {0};
    struct address elsewhere = seed.base;
    snprintf(elsewhere.host, sizeof(elsewhere.host), "192.0.2.1");
    ck_assert_ptr_null(
        join_listen(seed.loop, seed.secret, &elsewhere, reply, &seed, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "192.0.2.1"));
    seed_close(&seed);
}
END_TEST

Suite *
suite_join(void)
{
    Suite *suite = suite_create("join");
    TCase *tests = suite_case(suite, "join", 10);
    tcase_add_test(tests, who_has_the_secret_is_answered);
    tcase_add_test(tests, a_client_may_be_closed_by_its_own_handler);
    tcase_add_test(tests, a_wrong_secret_is_hung_up_on_and_both_sides_can_say_why);
    tcase_add_test(tests, nobody_is_said_once_and_the_seed_is_found_when_it_comes);
    tcase_add_test(tests, a_seed_that_says_nothing_is_asked_again);
    tcase_add_test(tests, an_answer_may_come_later_than_its_request);
    tcase_add_test(tests, an_invite_opens_the_door_and_is_named_until_it_is_over);
    tcase_add_test(tests, a_crowd_is_answered_sixteen_at_once_and_then_twenty_a_second);
    tcase_add_test(tests, a_request_that_is_too_long_is_counted_and_closes_nothing);
    tcase_add_test(tests, a_port_in_use_has_a_sentence);
    tcase_add_test(tests, an_address_that_is_not_ours_has_a_sentence);
    return suite;
}
