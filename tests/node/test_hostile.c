/*
 * test_hostile.c - a node of real processes under fire: strangers who hold handshakes open,
 * and a peer that was let in and says nonsense. It serves its valid peer throughout, its
 * memory stays bounded, and its log says who.
 */
#include "gossip/message.h"
#include "node/node.h"
#include "tests/node/swarm.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"
#include "transport/codec.h"
#include "transport/frame.h"
#include "transport/loop.h"
#include "transport/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *suite_hostile(void);

#define BEGIN()                                                                          \
    if (!swarm_begin(__func__))                                                          \
    return

static struct buf out;
static struct peer one, two, evil;
static struct key *key; /* evil's own */
static struct id swarm, target;
static struct loop *loop;

static void
setup(void)
{
    out = (struct buf){0};
    /* Of nodes with AddressSanitizer: what they freed is no memory that they hold. */
    setenv("ASAN_OPTIONS", "quarantine_size_mb=8", 1);
}

static void
teardown(void)
{
    swarm_end();
    buf_release(&out);
}

static int64_t
resident_mib(const struct peer *peer)
{
    char path[64];
    struct buf text = {0};
    struct err err;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)peer->pid);
    ck_assert_int_eq(file_read(path, 64 << 10, &text, &err), 0);
    buf_add(&text, "", 1);
    const char *at = strstr((char *)text.data, "VmRSS:");
    ck_assert_ptr_nonnull(at);
    int64_t kib = strtoll(at + strlen("VmRSS:"), NULL, 10);
    buf_release(&text);
    return kib >> 10;
}

static void
join(struct peer *peer, const char *name)
{
    char named[64];
    peer_start(peer, name, "--zone", "b", "--join", one.address, "--secret-file",
               swarm_path("one/swarm.secret"), NULL);
    snprintf(named, sizeof(named), "\"name\":\"%s\"", name);
    peer_event(&one, 30000, NULL, "\"event\":\"epoch\"", named, NULL);
}

/* Two nodes that train, so that it shows whether they are served. */
static void
open_swarm(void)
{
    peer_start(&one, "one", "--zone", "a", NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", NULL);
    join(&two, "two");
}

static void
train(void)
{
    const char *job = swarm_job("both", 1000000,
                                "plan: {pipeline: 2, replicas: 1, micro_batch: 4}\n"
                                "checkpoint: {every_steps: 0}\n");
    int code = swarm_run(&out, 40000, "train", "--detach", job, "--data", two.data, NULL);
    ck_assert_msg(code == 0, "%s", (char *)out.data);
    peer_event(&two, 30000, NULL, "\"event\":\"step\"", "\"step\":10,", NULL);
}

static void
read_id(const char *path, struct id *id)
{
    struct buf bytes = {0};
    struct err err;
    ck_assert_int_eq(file_read(swarm_path(path), 64, &bytes, &err), 0);
    ck_assert_uint_eq(bytes.len, ID_BYTES);
    memcpy(id->bytes, bytes.data, ID_BYTES);
    buf_release(&bytes);
}

/* ---- strangers ---- */

struct tally {
    int over, denied;
};

struct caller {
    struct tally *tally;
    struct dial *dial;
};

static void
called(void *arg, enum dial_event event)
{
    struct caller *caller = arg;
    caller->tally->over++;
    caller->tally->denied += event == DIAL_DENIED;
    dial_close(caller->dial);
    caller->dial = NULL;
}

static void
stop_loop(void *arg)
{
    loop_stop(arg);
}

static void
run_ms(int64_t ms)
{
    int timer = loop_timer(loop, ms, stop_loop, loop);
    loop_run(loop);
    loop_timer_cancel(loop, timer);
}

/* So many clients with keys of their own, fifty at a time, at the control port. */
static int
random_keys(int count)
{
    enum { AT_ONCE = 50 };
    uint8_t server[KEY_CURVE_BYTES];
    struct tally tally = {0};
    ck_assert(key_curve_of(&target, server));
    for (int done = 0; done < count; done += AT_ONCE) {
        struct caller callers[AT_ONCE];
        struct key *keys[AT_ONCE];
        tally.over = 0;
        for (int i = 0; i < AT_ONCE; i++) {
            uint8_t seed[32] = {77, (uint8_t)i, (uint8_t)done, (uint8_t)(done >> 8)};
            struct err err;
            keys[i] = key_from_seed(seed);
            struct dial_options options = {
                .plane = SOCKET_CONTROL,
                .base = {.host = "127.0.0.1", .port = (uint16_t)one.port},
                .curve_public = key_curve_public(keys[i]),
                .curve_secret = key_curve_secret(keys[i]),
                .server_public = server};
            callers[i] = (struct caller){.tally = &tally};
            callers[i].dial = dial_open(loop, &options, called, &callers[i], &err);
            ck_assert_msg(callers[i].dial != NULL, "%s", err.msg);
        }
        for (int64_t until = clock_ms() + 8000;
             tally.over < AT_ONCE && clock_ms() < until;)
            run_ms(20);
        for (int i = 0; i < AT_ONCE; i++) {
            dial_close(callers[i].dial);
            key_free(keys[i]);
        }
    }
    return tally.denied;
}

static int
connect_raw(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Closed by the other side within this time, though it is given a byte now and then. */
static bool
hung_up_on(int fd, int64_t ms)
{
    static const uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1};
    size_t sent = 0;
    for (int64_t until = clock_ms() + ms; clock_ms() < until; clock_sleep_ms(100)) {
        char byte;
        ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
        while (got > 0)
            got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 0)
            return true;
        if (sent < sizeof(greeting))
            sent += send(fd, greeting + sent, 1, MSG_NOSIGNAL) == 1;
    }
    return false;
}

START_TEST(strangers_who_hold_handshakes_open_or_have_no_key_take_nothing_away)
{
    BEGIN();
    enum { HELD = 200, STRANGERS = 1000 };
    int held[HELD];
    struct err err;
    open_swarm();
    train();
    ck_assert_int_eq(key_setup(&err) || loop_setup(1, &err), 0);
    loop = loop_new();
    struct key *ones = key_open(swarm_path("one/identity.key"), NULL, &err);
    ck_assert_ptr_nonnull(ones);
    target = *key_id(ones);
    key_free(ones);
    int64_t before = resident_mib(&one);
    int64_t steps = peer_step(&two);
    int slow = connect_raw(one.port + 1);
    for (int i = 0; i < HELD; i++)
        held[i] = connect_raw(one.port + 1);
    int denied = random_keys(STRANGERS);
    ck_assert_int_ge(denied, STRANGERS / 2); /* the others were hung up on before */
    ck_assert(hung_up_on(slow, 15000));
    peer_logs(&one, 5000, "connection closed before it said who it is: 128 wait in all");
    peer_logs(&one, 5000, "its key is not a member's domain=control address=127.0.0.1");
    peer_advances(&two, 10, 60000);
    ck_assert_int_gt(peer_step(&two), steps);
    /* Nobody was lost for it, and the door still opens. */
    char line[8192];
    peer_event(&two, 1000, line, "\"event\":\"epoch\"", NULL);
    swarm_nobody_lost(line);
    int64_t after = resident_mib(&one);
    ck_assert_msg(after - before < 64, "%lld MiB before, %lld MiB after",
                  (long long)before, (long long)after);
    close(slow);
    for (int i = 0; i < HELD; i++)
        close(held[i]);
    join(&evil, "late");
    loop_free(loop);
    loop_teardown();
}
END_TEST

/* ---- a peer that was let in ---- */

static void
seen(void *arg, enum dial_event event)
{
    *(bool *)arg = event == DIAL_UP;
}

/* evil's connection to one's control port; NULL: it is not let in (any more). */
static struct dial *
dial_as_evil(bool *up)
{
    uint8_t server[KEY_CURVE_BYTES];
    struct err err;
    ck_assert(key_curve_of(&target, server));
    struct dial_options options = {
        .plane = SOCKET_CONTROL,
        .base = {.host = "127.0.0.1", .port = (uint16_t)one.port},
        .curve_public = key_curve_public(key),
        .curve_secret = key_curve_secret(key),
        .server_public = server};
    *up = false;
    struct dial *dial = dial_open(loop, &options, seen, up, &err);
    ck_assert_msg(dial != NULL, "%s", err.msg);
    for (int64_t until = clock_ms() + 5000; !*up && clock_ms() < until;)
        run_ms(10);
    return dial;
}

static void
say(struct dial *dial, const void *bytes, size_t len)
{
    for (int tries = 0; tries < 50 && !dial_send(dial, bytes, len); tries++)
        run_ms(2);
}

/* Signed by evil as it should be, with this body. */
static void
say_frame(struct dial *dial, enum frame_kind kind, uint64_t sequence, const void *body,
          size_t len)
{
    struct buf frame = {0};
    frame_pack(key, &swarm, kind, &target, sequence, body, len, &frame);
    say(dial, frame.data, frame.len);
    buf_release(&frame);
}

static void
become_evil(void)
{
    struct err err;
    ck_assert_int_eq(key_setup(&err) || loop_setup(1, &err), 0);
    loop = loop_new();
    key = key_open(swarm_path("evil/identity.key"), NULL, &err);
    struct key *ones = key_open(swarm_path("one/identity.key"), NULL, &err);
    ck_assert(key && ones);
    target = *key_id(ones);
    key_free(ones);
    read_id("one/swarm.id", &swarm);
}

START_TEST(a_peer_that_says_nonsense_or_too_much_is_named_and_hung_up_on)
{
    BEGIN();
    open_swarm();
    join(&evil, "evil");
    peer_kill(&evil); /* the test goes on in its place */
    peer_event(&one, 20000, NULL, "\"event\":\"epoch\"", "\"cause\":\"loss\"", NULL);
    become_evil();
    train();
    int64_t before = resident_mib(&one);
    bool up;
    struct dial *dial = dial_as_evil(&up);
    ck_assert(up);
    /* Five bytes that declare 2^28 elements, alone and as a signed frame's body; noise. */
    static const uint8_t huge[5] = {0xdd, 0x10, 0, 0, 0};
    struct rng rng = {.seed = suite_seed("a_peer_that_says_nonsense", 1)};
    uint64_t sequence = 0;
    say(dial, huge, sizeof(huge));
    say_frame(dial, FRAME_RUMORS, ++sequence, huge, sizeof(huge));
    for (int i = 0; i < 30; i++) {
        uint64_t noise[64];
        for (size_t w = 0; w < 64; w++)
            noise[w] = rng_next(&rng);
        say(dial, noise, 8 + rng_below(&rng, sizeof(noise) - 8));
        say_frame(dial, FRAME_DIGEST, ++sequence, noise, sizeof(noise));
    }
    char name[ID_SHORT_SIZE], named[96];
    snprintf(named, sizeof(named), "it says too much, or what makes no sense id=%s",
             id_short(key_id(key), name));
    peer_logs(&one, 10000, named);
    snprintf(named, sizeof(named), "from=%s address=127.0.0.1", name);
    peer_logs(&one, 1000, named);
    dial_close(dial);
    peer_advances(&two, 5, 60000);
    /* A flood on new connections, of the largest frames: cut as it comes. */
    uint8_t *body = xcalloc(1, 256 << 10);
    for (int round = 0; round < 20; round++) {
        dial = dial_as_evil(&up);
        for (int i = 0; up && i < 40; i++)
            say_frame(dial, FRAME_RUMORS, ++sequence, body, 256 << 10);
        dial_close(dial);
    }
    free(body);
    peer_advances(&two, 5, 60000);
    int64_t after = resident_mib(&one);
    ck_assert_msg(after - before < 128, "%lld MiB before, %lld MiB after",
                  (long long)before, (long long)after);
    char line[8192];
    peer_event(&two, 1000, line, "\"event\":\"epoch\"", NULL);
    swarm_nobody_lost(line);
    key_free(key);
    loop_free(loop);
    loop_teardown();
}
END_TEST

START_TEST(orders_that_make_no_sense_are_named_and_hung_up_on)
{
    BEGIN();
    open_swarm();
    join(&evil, "evil");
    peer_kill(&evil);
    peer_event(&one, 20000, NULL, "\"event\":\"epoch\"", "\"cause\":\"loss\"", NULL);
    become_evil();
    static const uint8_t huge[5] = {0xdd, 0x10, 0, 0, 0};
    char name[ID_SHORT_SIZE], named[96];
    uint64_t sequence = 0;
    bool up;
    struct dial *dial = dial_as_evil(&up);
    ck_assert(up);
    for (int i = 0; i < 20; i++)
        say_frame(dial, FRAME_FREEZE, ++sequence, huge, sizeof(huge));
    swarm_line(one.log, 10000, NULL, "frame refused kind=FRAME_FREEZE from=evil ", NULL);
    snprintf(named, sizeof(named), "it says too much, or what makes no sense id=%s",
             id_short(key_id(key), name));
    peer_logs(&one, 10000, named);
    dial_close(dial);
    key_free(key);
    loop_free(loop);
    loop_teardown();
}
END_TEST

/* The record that one keeps of two, as two signed it. */
static void
record_of_two(struct buf *out_record, struct record *record)
{
    struct err err;
    bool found = false;
    for (int64_t until = clock_ms() + 10000; !found && clock_ms() < until;
         clock_sleep_ms(100)) {
        struct buf bytes = {0};
        if (file_read(swarm_path("one/members.state"), 1 << 20, &bytes, &err))
            continue;
        struct reader *reader = reader_open(bytes.data, bytes.len, &err);
        size_t count = reader ? reader_enter(reader, 0, 16) : 0, len;
        for (size_t i = 0; i < count; i++) {
            const uint8_t *at = reader_bytes(reader, RECORD_BYTES_MAX, &len);
            if (found || !at || record_peek(at, len, record, &err) ||
                strcmp(record->name, "two") != 0)
                continue;
            found = true;
            buf_add(out_record, at, len);
        }
        if (reader) {
            reader_leave(reader);
            reader_close(&reader, &err);
        }
        buf_release(&bytes);
    }
    ck_assert_msg(found, "one has no record of two");
}

static void
say_record(struct dial *dial, uint64_t sequence, const struct buf *record)
{
    struct draft draft = {.incarnation = UINT64_C(1) << 32, .version = 1};
    struct buf body = {0};
    draft_state(&draft, record->data, record->len, NULL, 0);
    draft_encode(&draft, &body);
    say_frame(dial, FRAME_RUMORS, sequence, body.data, body.len);
    buf_release(&body);
    draft_release(&draft);
}

/* What one shows of two's address. */
static void
address_of_two(char text[ADDRESS_BYTES_MAX + 8])
{
    struct json *status = peer_status(&one);
    const struct json *members = json_get(status, "members");
    text[0] = '\0';
    for (size_t i = 0; i < json_count(members); i++)
        if (strcmp(json_text(json_get(json_at(members, i), "name"), ""), "two") == 0)
            snprintf(text, ADDRESS_BYTES_MAX + 8, "%s",
                     json_text(json_get(json_at(members, i), "address"), ""));
    json_free(status);
}

START_TEST(what_a_peer_forges_or_repeats_of_another_changes_nothing_and_is_named)
{
    BEGIN();
    open_swarm();
    join(&evil, "evil");
    struct buf old = {0}, forged = {0}, inner = {0}, body = {0};
    struct record record;
    record_of_two(&old, &record);
    peer_kill(&evil);
    peer_event(&one, 20000, NULL, "\"event\":\"epoch\"", "\"cause\":\"loss\"", NULL);
    become_evil();
    train(); /* two has a newer record by now */
    int64_t had = resident_mib(&one);
    bool up;
    struct dial *dial = dial_as_evil(&up);
    ck_assert(up);
    char before[ADDRESS_BYTES_MAX + 8], after[ADDRESS_BYTES_MAX + 8], text[160], name[16];
    address_of_two(before);
    ck_assert_str_eq(before, two.address);
    /* Its record of before, as it was, again and again, as fast as a peer may speak; and one
     * that two never made, with another address. */
    uint64_t sequence = 0;
    for (int i = 0; i < 500; i++)
        say_record(dial, ++sequence, &old);
    record.version += 1000;
    snprintf(record.address, sizeof(record.address), "127.0.0.1:9");
    struct id theirs = record.id;
    record.id = *key_id(key);
    record_sign(&record, key, &swarm, &forged);
    uint8_t *at = memmem(forged.data, forged.len, record.id.bytes, ID_BYTES);
    ck_assert_ptr_nonnull(at);
    memcpy(at, theirs.bytes, ID_BYTES);
    record.id = theirs;
    say_record(dial, ++sequence, &forged);
    snprintf(text, sizeof(text), "record of node %s is not signed by it",
             id_short(&record.id, name));
    swarm_line(one.log, 10000, NULL, "frame refused", "from=evil ", text, NULL);
    /* In two's name, by evil as the carrier. */
    frame_pack_plain(&record.id, &swarm, FRAME_LEAVE, &target, 1, "\xa1x", 2, &inner);
    writer_array(&body, 1);
    writer_bytes(&body, inner.data, inner.len);
    say_frame(dial, FRAME_CARRIED, ++sequence, body.data, body.len);
    snprintf(text, sizeof(text), "it carries a frame that its maker did not sign from=%s",
             id_short(key_id(key), name));
    peer_logs(&one, 10000, text);
    peer_advances(&two, 5, 60000);
    address_of_two(after);
    ck_assert_str_eq(after, two.address);
    int64_t has = resident_mib(&one);
    ck_assert_msg(has - had < 64, "%lld MiB before, %lld MiB after", (long long)had,
                  (long long)has);
    char line[8192];
    peer_event(&two, 1000, line, "\"event\":\"epoch\"", NULL);
    swarm_nobody_lost(line);
    dial_close(dial);
    buf_release(&old);
    buf_release(&forged);
    buf_release(&inner);
    buf_release(&body);
    key_free(key);
    loop_free(loop);
    loop_teardown();
}
END_TEST

/* ---- joiners who never speak ---- */

static int joined;

static void
on_joined(void *arg, enum join_result result, const void *body, size_t len)
{
    (void)arg;
    (void)body;
    (void)len;
    joined += result == JOIN_ANSWERED;
}

/* The holder of the secret asks in the name of an identity of its own. */
static void
ask_as(const struct key *asker, const struct secret *secret)
{
    struct buf words = {0}, request = {0};
    uint8_t signature[KEY_SIGNATURE_BYTES];
    struct id none = {{0}};
    struct err err;
    seed_join_words(&none, key_id(asker), "127.0.0.1:9", &words);
    key_sign(asker, words.data, words.len, signature);
    writer_array(&request, 5);
    writer_uint(&request, JOIN_VERSION);
    writer_id(&request, &none);
    writer_id(&request, key_id(asker));
    writer_text(&request, "127.0.0.1:9");
    writer_bytes(&request, signature, sizeof(signature));
    struct join_keys keys = {.client_public = secret_joiner_public(secret),
                             .client_secret = secret_joiner_secret(secret),
                             .server_public = secret_join_public(secret)};
    struct address seed = {.host = "127.0.0.1", .port = (uint16_t)one.port};
    int before = joined;
    struct join_client *client =
        join_dial(loop, &keys, &seed, request.data, request.len, on_joined, NULL, &err);
    ck_assert_ptr_nonnull(client);
    for (int64_t until = clock_ms() + 8000; joined == before && clock_ms() < until;)
        run_ms(5);
    ck_assert_int_eq(joined, before + 1);
    join_client_close(client);
    buf_release(&words);
    buf_release(&request);
}

START_TEST(any_number_of_joiners_who_never_speak_are_forgotten)
{
    BEGIN();
    enum { JOINERS = 40 };
    struct key *keys[JOINERS];
    struct err err;
    peer_start(&one, "one", "--zone", "a", NULL);
    peer_event(&one, 10000, NULL, "\"event\":\"epoch\"", NULL);
    ck_assert_int_eq(key_setup(&err) || loop_setup(1, &err), 0);
    loop = loop_new();
    for (int64_t until = clock_ms() + 10000;
         !file_exists(swarm_path("one/swarm.id")) && clock_ms() < until;)
        clock_sleep_ms(20); /* written right after the first epoch is told */
    struct secret *secret = secret_read(swarm_path("one/swarm.secret"), &err);
    struct key *ones = key_open(swarm_path("one/identity.key"), NULL, &err);
    ck_assert(secret && ones);
    target = *key_id(ones);
    for (int i = 0; i < JOINERS; i++) {
        uint8_t seed[32] = {77, (uint8_t)i}; /* as random_keys() */
        keys[i] = key_from_seed(seed);
        ask_as(keys[i], secret);
    }
    clock_sleep_ms(33000);        /* each has half a minute to speak */
    int denied = random_keys(50); /* these, and ten more */
    ck_assert_msg(denied == 50, "%d of them are let in still", 50 - denied);
    for (int i = 0; i < JOINERS; i++)
        key_free(keys[i]);
    secret_free(secret);
    key_free(ones);
    loop_free(loop);
    loop_teardown();
}
END_TEST

Suite *
suite_hostile(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tests = suite_case(suite, "hostile", 180);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests,
                   strangers_who_hold_handshakes_open_or_have_no_key_take_nothing_away);
    tcase_add_test(tests, a_peer_that_says_nonsense_or_too_much_is_named_and_hung_up_on);
    tcase_add_test(tests, orders_that_make_no_sense_are_named_and_hung_up_on);
    tcase_add_test(tests, any_number_of_joiners_who_never_speak_are_forgotten);
    tcase_add_test(tests,
                   what_a_peer_forges_or_repeats_of_another_changes_nothing_and_is_named);
    return suite;
}
