#include "tests/suite.h"
#include "tests/transport/bulk_cast.h"
#include "tests/transport/harness.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"
#include "transport/group_ring.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct member {
    struct cast *cast;
    int self;
    int count; /* members */
    size_t floats;
    int rounds;
    int64_t stall_ms;
    float *data; /* in and out */
    int result;
    int stalls, stalled_peer;
    struct err err;
    _Atomic bool ended;
};

static void
stalled(void *arg, int peer, int64_t waited_ms)
{
    struct member *member = arg;
    ck_assert_int_gt(waited_ms, 0);
    member->stalls++;
    member->stalled_peer = peer;
}

static void *
sum(void *arg)
{
    struct member *member = arg;
    struct group_ring group = {.port = cast_port(member->cast, member->self, BULK_ENGINE),
                               .count = member->count,
                               .rank = member->self};
    for (int i = 0; i < member->count; i++)
        group.members[i] = i;
    size_t scratch_count = group_ring_scratch(member->floats, member->count);
    float *scratch = xcalloc(scratch_count + 1, sizeof(float));
    scratch[scratch_count] = 5;
    for (int round = 0; round < member->rounds && !member->result; round++)
        member->result = group_ring_sum(
            &group, (uint64_t)round, member->data, member->floats, scratch,
            member->stall_ms, member->stall_ms ? stalled : NULL, member, &member->err);
    ck_assert(scratch[scratch_count] == 5);
    free(scratch);
    member->ended = true;
    return NULL;
}

static void
fill(struct member *member, bool integers)
{
    member->data = xcalloc(member->floats + 1, sizeof(float));
    for (size_t i = 0; i < member->floats; i++) {
        uint32_t words[4];
        rng_block(11, (uint64_t)member->self, i, words);
        member->data[i] = integers
                              ? (float)(words[0] % 2001) - 1000.0F
                              : (float)words[0] / 65536.0F - (float)words[1] / 777.0F;
    }
    member->data[member->floats] = 9;
}

static float
integer_sum(const struct member *member, size_t place)
{
    float total = 0;
    for (int m = 0; m < member->count; m++) {
        uint32_t words[4];
        rng_block(11, (uint64_t)m, place, words);
        total += (float)(words[0] % 2001) - 1000.0F;
    }
    return total;
}

/* All members sum at once, each in a thread of its own. */
static void
sum_together(struct cast *cast, int count, size_t floats, bool integers)
{
    struct member members[CAST_MAX] = {0};
    pthread_t threads[CAST_MAX];
    for (int m = 0; m < count; m++) {
        members[m].cast = cast;
        members[m].self = m;
        members[m].count = count;
        members[m].floats = floats;
        members[m].rounds = 1;
        fill(&members[m], integers);
    }
    for (int m = 0; m < count; m++)
        ck_assert_int_eq(pthread_create(&threads[m], NULL, sum, &members[m]), 0);
    for (int m = 0; m < count; m++)
        pthread_join(threads[m], NULL);
    for (int m = 0; m < count; m++) {
        ck_assert_msg(members[m].result == 0, "%s", members[m].err.msg);
        ck_assert(members[m].data[floats] == 9);
        ck_assert_msg(memcmp(members[m].data, members[0].data, floats * sizeof(float)) ==
                          0,
                      "member %d of %d ends with other bits", m, count);
    }
    for (size_t i = 0; integers && i < floats; i += 1 + floats / 5000)
        ck_assert_msg(members[0].data[i] == integer_sum(&members[0], i),
                      "%d members, %zu floats: element %zu", count, floats, i);
    for (int m = 0; m < count; m++)
        free(members[m].data);
}

START_TEST(the_sum_is_exact_and_has_the_same_bits_everywhere)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 1000, 65537};
    int count = _i;
    struct cast cast;
    cast_open(&cast, count);
    cast_enter_all(&cast, 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        sum_together(&cast, count, sizes[i], true);
        sum_together(&cast, count, sizes[i], false);
    }
    sum_together(&cast, count, 700001, true); /* several chunks a slice */
    cast_close(&cast);
}
END_TEST

START_TEST(a_member_alone_is_done_at_once)
{
    struct group_ring group = {.count = 1};
    float data[3] = {1, 2, 3};
    struct err err = {0};
    ck_assert_uint_eq(group_ring_scratch(3, 1), 0);
    ck_assert_int_eq(group_ring_sum(&group, 1, data, 3, NULL, 0, NULL, NULL, &err), 0);
    ck_assert(data[0] == 1 && data[2] == 3);
}
END_TEST

static bool
all_ended(const void *arg)
{
    const struct member *members = arg;
    for (int m = 0; m < members->count - 1; m++)
        if (!members[m].ended)
            return false;
    return true;
}

START_TEST(a_member_that_stays_away_is_named_and_a_halt_ends_the_wait)
{
    struct cast cast;
    struct member members[3] = {0};
    pthread_t threads[2];
    cast_open(&cast, 3);
    cast_enter_all(&cast, 1);
    for (int m = 0; m < 2; m++) { /* the third never comes */
        members[m].cast = &cast;
        members[m].self = m;
        members[m].count = 3;
        members[m].floats = 300000;
        members[m].rounds = 1;
        members[m].stall_ms = 20;
        fill(&members[m], true);
        ck_assert_int_eq(pthread_create(&threads[m], NULL, sum, &members[m]), 0);
    }
    cast_run(&cast, 150);
    for (int m = 0; m < 3; m++)
        bulk_halt(cast.bulks[m]);
    int64_t began_ms = clock_ms();
    ck_assert(harness_until(cast.loop, all_ended, members, 2000));
    ck_assert_int_lt(clock_ms() - began_ms, 1000);
    for (int m = 0; m < 2; m++) {
        pthread_join(threads[m], NULL);
        ck_assert_int_eq(members[m].result, -1);
        ck_assert_int_eq(members[m].err.code, ERR_STOPPED);
        free(members[m].data);
    }
    ck_assert_int_ge(members[0].stalls, 3);
    ck_assert_int_eq(members[0].stalled_peer, 2);
    /* The next epoch is as good as new. */
    cast_enter_all(&cast, 2);
    sum_together(&cast, 3, 1000, true);
    cast_close(&cast);
}
END_TEST

START_TEST(a_halt_in_the_middle_ends_every_member_soon)
{
    struct cast cast;
    struct member members[4] = {0};
    pthread_t threads[3];
    cast_open(&cast, 3);
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        cast_enter_all(&cast, epoch);
        memset(members, 0, sizeof(members));
        for (int m = 0; m < 3; m++) {
            members[m].cast = &cast;
            members[m].self = m;
            members[m].count = 3;
            members[m].floats = 3 << 20;
            members[m].rounds = 10000;
            fill(&members[m], true);
            ck_assert_int_eq(pthread_create(&threads[m], NULL, sum, &members[m]), 0);
        }
        cast_run(&cast, 40 * (int64_t)epoch);
        for (int m = 0; m < 3; m++)
            bulk_halt(cast.bulks[m]);
        int64_t began_ms = clock_ms();
        for (int m = 0; m < 3; m++) {
            pthread_join(threads[m], NULL);
            ck_assert_int_eq(members[m].err.code, ERR_STOPPED);
            free(members[m].data);
        }
        ck_assert_int_lt(clock_ms() - began_ms, 2000);
    }
    cast_close(&cast);
}
END_TEST

Suite *suite_group_ring(void);

Suite *
suite_group_ring(void)
{
    Suite *suite = suite_create("group_ring");
    TCase *sums = suite_case(suite, "sums", 60);
    tcase_add_loop_test(sums, the_sum_is_exact_and_has_the_same_bits_everywhere, 2, 6);
    tcase_add_test(sums, a_member_alone_is_done_at_once);
    TCase *ends = suite_case(suite, "ends", 60);
    tcase_add_test(ends, a_member_that_stays_away_is_named_and_a_halt_ends_the_wait);
    tcase_add_test(ends, a_halt_in_the_middle_ends_every_member_soon);
    return suite;
}
