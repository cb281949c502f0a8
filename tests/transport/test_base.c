#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/buf.h"
#include "transport/base/clock.h"
#include "transport/base/err.h"
#include "transport/base/id.h"
#include "transport/base/log.h"
#include "transport/base/mailbox.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"
#include "transport/base/word.h"
#include "transport/json.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *suite_base(void);

static struct err err;

static void
setup(void)
{
    err = (struct err){0};
}

/* ---- err ---- */

START_TEST(an_error_is_a_code_and_a_sentence)
{
    ck_assert_int_eq(err_set(&err, ERR_PEER, "node %s is gone", "kx4f"), -1);
    ck_assert_int_eq(err.code, ERR_PEER);
    ck_assert_str_eq(err.msg, "node kx4f is gone");
    ck_assert_int_eq(err_wrap(&err, "could not join \"%s\"", "a:1"), -1);
    ck_assert_int_eq(err.code, ERR_PEER);
    ck_assert_str_eq(err.msg, "could not join \"a:1\": node kx4f is gone");
    errno = ENOENT;
    ck_assert_int_eq(err_set_errno(&err, "could not open \"%s\"", "x"), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.msg, "could not open \"x\": No such file or directory");
}
END_TEST

START_TEST(an_error_may_quote_the_one_that_it_replaces)
{
    err_set(&err, ERR_WIRE, "the inner reason");
    err_set(&err, ERR_PEER, "the node left (%s)", err.msg);
    ck_assert_str_eq(err.msg, "the node left (the inner reason)");
}
END_TEST

START_TEST(a_long_error_is_cut_not_overrun)
{
    char text[1000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    struct {
        struct err err;
        char guard[8];
    } guarded = {.guard = "guard"};
    err_set(&guarded.err, ERR_WIRE, "%s", text);
    ck_assert_uint_eq(strlen(guarded.err.msg), ERR_MSG_SIZE - 1);
    err_wrap(&guarded.err, "%s", text);
    ck_assert_uint_eq(strlen(guarded.err.msg), ERR_MSG_SIZE - 1);
    errno = EIO;
    err_set_errno(&guarded.err, "%s", text);
    ck_assert_uint_eq(strlen(guarded.err.msg), ERR_MSG_SIZE - 1);
    ck_assert_str_eq(guarded.guard, "guard");
}
END_TEST

START_TEST(every_code_has_its_name)
{
    ck_assert_str_eq(err_name(ERR_NONE), "ERR_NONE");
    ck_assert_str_eq(err_name(ERR_STOPPED), "ERR_STOPPED");
    ck_assert_str_eq(err_name((enum err_code)99), "ERR_?");
    ck_assert_str_eq(err_name((enum err_code) - 1), "ERR_?");
    ck_assert_uint_eq(sizeof(struct err), 256);
}
END_TEST

/* ---- id ---- */

START_TEST(an_id_survives_its_text)
{
    struct id id, again;
    char text[ID_TEXT_SIZE], tag[ID_SHORT_SIZE];
    for (int i = 0; i < ID_BYTES; i++)
        id.bytes[i] = (uint8_t)(i * 37 + 200);
    ck_assert(id_parse(&again, id_text(&id, text)));
    ck_assert(id_equal(&id, &again));
    for (char *at = text; *at; at++)
        if (*at >= 'a')
            *at = (char)(*at - 'a' + 'A');
    ck_assert(id_parse(&again, text));
    ck_assert(id_equal(&id, &again));
    /* RFC 4648: "foobar" is MZXW6YTBOI. */
    struct id foobar = {{'f', 'o', 'o', 'b', 'a', 'r'}};
    ck_assert_str_eq(id_short(&foobar, tag), "mzxw6ytb");
    ck_assert_uint_eq(id_prefix(&foobar), 0x666f6f6261720000u);
}
END_TEST

START_TEST(a_text_that_is_no_id_is_refused_and_changes_nothing)
{
    static const char *const bad[] = {
        "",
        "12",
        "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
        " 123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct id id = {{5}}, before = id;
        ck_assert(!id_parse(&id, bad[i]));
        ck_assert(id_equal(&id, &before));
    }
}
END_TEST

START_TEST(ids_are_ordered_by_their_bytes)
{
    struct id low = {{0, 255}}, high = {{1, 0}}, top = {{0x80}}, none = {{0}};
    ck_assert_int_lt(id_compare(&low, &high), 0);
    ck_assert_int_gt(id_compare(&high, &low), 0);
    ck_assert_int_gt(id_compare(&top, &high), 0); /* unsigned */
    ck_assert_int_eq(id_compare(&low, &low), 0);
    ck_assert(id_empty(&none) && !id_empty(&low));
}
END_TEST

/* ---- buf and alloc ---- */

START_TEST(a_word_is_guessed_where_it_is_near_and_never_from_nothing)
{
    static const char *const known[] = {"a", "b1", "gpu-40"};
    char text[ERR_MSG_SIZE];
    ck_assert_str_eq(word_hint("gpu-04", known, 3, text), "; did you mean \"gpu-40\"?");
    ck_assert_str_eq(word_hint("gpu", known, 3, text), "; did you mean \"gpu-40\"?");
    ck_assert_str_eq(word_hint("b", known, 3, text), "; did you mean \"b1\"?");
    /* A letter is one change away from any other. */
    ck_assert_str_eq(word_hint("c", known, 3, text), "; known here: a, b1, gpu-40");
    ck_assert_str_eq(word_hint("c2", known, 3, text), "; known here: a, b1, gpu-40");
    ck_assert_str_eq(word_hint("c", known, 0, text), "");
}
END_TEST

START_TEST(a_buffer_grows_and_keeps_its_bytes)
{
    struct buf buf = {0};
    for (int i = 0; i < 10000; i++)
        buf_add(&buf, &(uint8_t){(uint8_t)i}, 1);
    ck_assert_uint_eq(buf.len, 10000);
    for (int i = 0; i < 10000; i++)
        ck_assert_uint_eq(buf.data[i], (uint8_t)i);
    size_t capacity = buf.capacity;
    buf_clear(&buf);
    ck_assert_uint_eq(buf.len, 0);
    ck_assert_uint_eq(buf.capacity, capacity);
    buf_printf(&buf, "%d of %s", 3, "four");
    ck_assert_uint_eq(buf.len, 9);
    ck_assert_str_eq((char *)buf.data, "3 of four");
    buf_printf(&buf, "!");
    ck_assert_str_eq((char *)buf.data, "3 of four!");
    buf_add(&buf, NULL, 0);
    buf_release(&buf);
    ck_assert_ptr_null(buf.data);
    ck_assert_uint_eq(buf.len + buf.capacity, 0);
    buf_release(&buf);
}
END_TEST

START_TEST(memory_comes_zeroed_and_is_copied)
{
    char *zeros = xcalloc(100, 1);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(zeros[i], 0);
    memset(zeros, 'z', 100);
    zeros = xrealloc(zeros, 50, 4);
    ck_assert_int_eq(zeros[99], 'z');
    free(zeros);
    char *text = xstrdup("zone a");
    ck_assert_str_eq(text, "zone a");
    free(text);
    free(xcalloc(0, 8));
    size_t bytes = (1 << 20) + 5;
    uint8_t *arena = alloc_arena(bytes);
    ck_assert_ptr_nonnull(arena);
    ck_assert_uint_eq((uintptr_t)arena % 4096, 0);
    ck_assert_uint_eq(arena[0] + arena[bytes - 1], 0);
    arena_release(arena, bytes);
    arena_release(NULL, 5);
    ck_assert_ptr_null(alloc_arena(SIZE_MAX / 2));
}
END_TEST

START_TEST(an_allocation_where_none_may_be_aborts)
{
    alloc_forbid();
    alloc_forbid();
    alloc_allow();
    xcalloc(1, 1);
}
END_TEST

START_TEST(a_count_that_overflows_aborts)
{
    xcalloc(SIZE_MAX / 2, 4);
}
END_TEST

START_TEST(what_must_be_true_aborts_when_it_is_not)
{
    must(1 + 1 == 2);
    must(1 + 1 == 3);
}
END_TEST

/* ---- rng ---- */

/* Known answers of Philox4x32-10 from Random123's kat_vectors: counter words (n low, n
 * high, stream low, stream high), key words (seed low, seed high). */
START_TEST(philox_gives_the_published_numbers)
{
    static const struct {
        uint64_t seed, stream, n;
        uint32_t out[4];
    } list[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        uint32_t out[4];
        rng_block(list[i].seed, list[i].stream, list[i].n, out);
        ck_assert_mem_eq(out, list[i].out, sizeof(out));
    }
}
END_TEST

START_TEST(a_sequence_is_a_value_that_can_be_replayed)
{
    struct rng rng = {.seed = 5, .stream = 6}, copy = rng;
    uint64_t first = rng_next(&rng);
    ck_assert_uint_ne(first, rng_next(&rng));
    ck_assert_uint_eq(rng_next(&copy), first);
    for (uint64_t bound = 1; bound < 1000; bound += 7)
        ck_assert_uint_lt(rng_below(&rng, bound), bound);
    ck_assert_uint_eq(rng_below(&rng, 1), 0);
    unsigned seen[5] = {0};
    for (int i = 0; i < 10000; i++)
        seen[rng_below(&rng, 5)]++;
    for (int i = 0; i < 5; i++)
        ck_assert(seen[i] > 1800 && seen[i] < 2200);
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        double unit = rng_unit(&rng);
        ck_assert(unit >= 0 && unit < 1);
        sum += unit;
    }
    ck_assert(fabs(sum / 10000 - 0.5) < 0.01);
}
END_TEST

START_TEST(normal_numbers_have_the_moments_of_their_law)
{
    enum { COUNT = 200000 };
    double sum[5] = {0};
    int within_one = 0, beyond_three = 0;
    for (uint64_t n = 0; n < COUNT; n++) {
        double x = rng_normal(1, 2, n);
        ck_assert(isfinite(x));
        double power = 1;
        for (int k = 1; k <= 4; k++)
            sum[k] += power *= x;
        within_one += fabs(x) < 1;
        beyond_three += fabs(x) > 3;
    }
    ck_assert(fabs(sum[1] / COUNT) < 0.01);
    ck_assert(fabs(sum[2] / COUNT - 1) < 0.015);
    ck_assert(fabs(sum[3] / COUNT) < 0.03);
    ck_assert(fabs(sum[4] / COUNT - 3) < 0.1);
    ck_assert(fabs(within_one / (double)COUNT - 0.682689) < 0.005);
    ck_assert(fabs(beyond_three / (double)COUNT - 0.0027) < 0.0006);
}
END_TEST

/* Against libm: the polynomials are the functions that they stand for. */
START_TEST(a_normal_number_is_box_and_mullers)
{
    for (uint64_t n = 0; n < 20000; n++) {
        uint32_t words[4];
        rng_block(9, 8, n, words);
        double u = words[0] * 0x1p-32 + words[1] * 0x1p-64 + 0x1p-65;
        double t = (words[2] + words[3] * 0x1p-32) * 0x1p-32;
        double expected = sqrt(-2 * log(u)) * cos(2 * acos(-1) * t);
        ck_assert_double_eq_tol(rng_normal(9, 8, n), expected, 1e-13);
    }
}
END_TEST

START_TEST(a_permutation_visits_each_index_once)
{
    static const uint64_t counts[] = {1,   2,   3,   4,   5,    16,  17,
                                      100, 255, 256, 257, 1000, 4097};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        uint64_t count = counts[c];
        uint8_t *seen = xcalloc(count, 1);
        size_t moved = 0;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t to = rng_permute(7, c, count, i);
            ck_assert_uint_lt(to, count);
            ck_assert_uint_eq(seen[to]++, 0);
            moved += to != i;
        }
        if (count >= 16)
            ck_assert_uint_gt(moved, count / 2);
        free(seen);
    }
    uint64_t huge = UINT64_MAX;
    ck_assert_uint_lt(rng_permute(1, 1, huge, huge - 1), huge);
    ck_assert_uint_ne(rng_permute(1, 1, huge, 5), rng_permute(2, 1, huge, 5));
}
END_TEST

/* What it means that every node has the same numbers: these are part of the protocol. */
START_TEST(numbers_have_fixed_bits)
{
    static const uint64_t normals[4] = {0xbfda7d4d42746e8b, 0xbfec327de4fc7ee7,
                                        0xbfd88f378d304dee, 0x3fdd9c208d159231};
    for (uint64_t n = 0; n < 4; n++) {
        double x = rng_normal(1, 0, n);
        uint64_t bits;
        memcpy(&bits, &x, sizeof(bits));
        ck_assert_uint_eq(bits, normals[n]);
    }
    static const uint64_t order[8] = {539, 110, 291, 807, 719, 48, 920, 164};
    for (uint64_t i = 0; i < 8; i++)
        ck_assert_uint_eq(rng_permute(1, 0, 1000, i), order[i]);
    ck_assert_uint_eq(rng_mix(rng_mix(0, 1), 2), 0x891f21c268eb651au);
    ck_assert_uint_ne(rng_mix(rng_mix(0, 1), 2), rng_mix(rng_mix(0, 2), 1));
}
END_TEST

/* ---- clock ---- */

START_TEST(clocks_go_forward)
{
    int64_t ms = clock_ms(), us = clock_us(), cpu = clock_thread_cpu_us();
    clock_sleep_ms(30);
    ck_assert_int_ge(clock_ms() - ms, 29);
    ck_assert_int_ge(clock_us() - us, 30000);
    int64_t used = clock_thread_cpu_us() - cpu;
    ck_assert(used >= 0 && used < 25000); /* sleeping costs nothing */
    ck_assert_int_gt(clock_wall_ms(), INT64_C(1600000000000));
}
END_TEST

/* ---- mailbox ---- */

START_TEST(a_mailbox_keeps_order_and_says_when_it_is_full)
{
    struct mailbox *box = mailbox_new(sizeof(int), 3);
    int value = 0;
    ck_assert(!mailbox_take(box, &value));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 3; i++)
            ck_assert(mailbox_put(box, &i));
        ck_assert(!mailbox_put(box, &value));
        struct pollfd ready = {.fd = mailbox_fd(box), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, 0), 1);
        mailbox_clear(box);
        ck_assert_int_eq(poll(&ready, 1, 0), 0);
        for (int i = 0; i < 3; i++) {
            ck_assert(mailbox_take(box, &value));
            ck_assert_int_eq(value, i);
        }
        ck_assert(!mailbox_take(box, &value));
    }
    int64_t before = clock_ms();
    mailbox_wait(box, 20);
    ck_assert_int_ge(clock_ms() - before, 19);
    mailbox_free(box);
    mailbox_free(NULL);
}
END_TEST

enum { SENT = 100000 };

static void *
send_all(void *argument)
{
    struct mailbox *box = argument;
    for (uint64_t i = 0; i < SENT; i++) {
        uint64_t message[3] = {i, i * i, ~i};
        while (!mailbox_put(box, message))
            clock_sleep_ms(0);
    }
    return NULL;
}

START_TEST(two_threads_pass_every_message_once_and_in_order)
{
    struct mailbox *box = mailbox_new(3 * sizeof(uint64_t), 64);
    pthread_t sender;
    ck_assert_int_eq(pthread_create(&sender, NULL, send_all, box), 0);
    for (uint64_t i = 0; i < SENT; i++) {
        uint64_t message[3];
        while (!mailbox_take(box, message))
            mailbox_wait(box, 1000);
        if (message[0] != i || message[1] != i * i || message[2] != ~i)
            ck_abort_msg("message %llu came torn or out of order", (unsigned long long)i);
    }
    pthread_join(sender, NULL);
    mailbox_free(box);
}
END_TEST

/* ---- log ---- */

/* What one call writes to standard error. */
static size_t
logged(enum log_level level, const char *text, char *out, size_t room)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ck_assert(saved >= 0 && pipe(ends) == 0);
    dup2(ends[1], STDERR_FILENO);
    log_write(level, "gossip", "%s", text);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    close(saved);
    ssize_t got = read(ends[0], out, room - 1);
    close(ends[0]);
    ck_assert_int_ge(got, 0);
    out[got] = '\0';
    return (size_t)got;
}

START_TEST(a_log_line_is_one_line)
{
    char line[4096];
    log_setup(LOG_INFO, false);
    ck_assert_uint_gt(logged(LOG_WARN, "two\nlines\x1b[2J", line, sizeof(line)), 0);
    ck_assert_str_eq(line + strlen("12:00:03.412"), " warn gossip two lines [2J\n");
    ck_assert_uint_eq(logged(LOG_DEBUG, "not wanted", line, sizeof(line)), 0);
    char huge[5000];
    memset(huge, 'x', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    size_t len = logged(LOG_INFO, huge, line, sizeof(line));
    ck_assert_int_eq(line[len - 1], '\n');
}
END_TEST

START_TEST(a_json_log_line_is_json)
{
    char line[4096], huge[3000];
    log_setup(LOG_DEBUG, true);
    size_t len =
        logged(LOG_DEBUG, "quote \" back \\ tab \t \x01 end", line, sizeof(line));
    struct json *root = json_parse(line, len, sizeof(line), &err);
    ck_assert_msg(root != NULL, "%s: %s", err.msg, line);
    ck_assert_str_eq(json_text(json_get(root, "text"), ""),
                     "quote \" back \\ tab \t \x01 end");
    ck_assert_str_eq(json_text(json_get(root, "level"), ""), "debug");
    ck_assert_str_eq(json_text(json_get(root, "subsystem"), ""), "gossip");
    ck_assert_int_gt(json_int(json_get(root, "t_ms"), 0), 0);
    json_free(root);
    /* A peer's name may be any bytes. */
    len = logged(LOG_INFO, "name=\xff\xc3\xa9\xe2\x82", line, sizeof(line));
    root = json_parse(line, len, sizeof(line), &err);
    ck_assert_msg(root != NULL, "%s: %s", err.msg, line);
    ck_assert_str_eq(json_text(json_get(root, "text"), ""), "name=?\xc3\xa9??");
    json_free(root);
    /* Even one that is too long ends as JSON and with its newline. */
    for (int fill = 0; fill < 5; fill++) {
        memset(huge, "\x01\"x\xff\xc3"[fill], sizeof(huge));
        huge[sizeof(huge) - 1] = '\0';
        len = logged(LOG_INFO, huge, line, sizeof(line));
        ck_assert_int_eq(line[len - 1], '\n');
        root = json_parse(line, len, sizeof(line), &err);
        ck_assert_msg(root != NULL, "%s: %s", err.msg, line);
        json_free(root);
    }
    log_setup(LOG_INFO, false);
}
END_TEST

START_TEST(a_site_logs_once_a_second_and_counts_the_rest)
{
    struct log_site site = {0};
    unsigned left_out = 9;
    ck_assert(log_site_open(&site, &left_out));
    ck_assert_uint_eq(left_out, 0);
    for (int i = 0; i < 5; i++)
        ck_assert(!log_site_open(&site, &left_out));
    clock_sleep_ms(1010);
    ck_assert(log_site_open(&site, &left_out));
    ck_assert_uint_eq(left_out, 5);
}
END_TEST

Suite *
suite_base(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = suite_case(suite, "base", 30);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, an_error_is_a_code_and_a_sentence);
    tcase_add_test(tests, an_error_may_quote_the_one_that_it_replaces);
    tcase_add_test(tests, a_long_error_is_cut_not_overrun);
    tcase_add_test(tests, every_code_has_its_name);
    tcase_add_test(tests, an_id_survives_its_text);
    tcase_add_test(tests, a_text_that_is_no_id_is_refused_and_changes_nothing);
    tcase_add_test(tests, ids_are_ordered_by_their_bytes);
    tcase_add_test(tests, a_word_is_guessed_where_it_is_near_and_never_from_nothing);
    tcase_add_test(tests, a_buffer_grows_and_keeps_its_bytes);
    tcase_add_test(tests, memory_comes_zeroed_and_is_copied);
    tcase_add_test(tests, philox_gives_the_published_numbers);
    tcase_add_test(tests, a_sequence_is_a_value_that_can_be_replayed);
    tcase_add_test(tests, normal_numbers_have_the_moments_of_their_law);
    tcase_add_test(tests, a_normal_number_is_box_and_mullers);
    tcase_add_test(tests, a_permutation_visits_each_index_once);
    tcase_add_test(tests, numbers_have_fixed_bits);
    tcase_add_test(tests, clocks_go_forward);
    tcase_add_test(tests, a_mailbox_keeps_order_and_says_when_it_is_full);
    tcase_add_test(tests, two_threads_pass_every_message_once_and_in_order);
    tcase_add_test(tests, a_log_line_is_one_line);
    tcase_add_test(tests, a_json_log_line_is_json);
    tcase_add_test(tests, a_site_logs_once_a_second_and_counts_the_rest);
    const char *fork_mode = getenv("CK_FORK");
    if (!fork_mode || strcmp(fork_mode, "no") != 0) {
        tcase_add_test_raise_signal(tests, an_allocation_where_none_may_be_aborts,
                                    SIGABRT);
        tcase_add_test_raise_signal(tests, a_count_that_overflows_aborts, SIGABRT);
        tcase_add_test_raise_signal(tests, what_must_be_true_aborts_when_it_is_not,
                                    SIGABRT);
    }
    return suite;
}
