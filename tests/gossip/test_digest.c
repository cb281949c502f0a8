/* Finding out where views differ: between two tables, and in a swarm. */
#include "gossip/digest.h"
#include "tests/gossip/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_digest(void);

enum { MANY = 300 };

static struct table left, right;

static void
put(struct table *table, unsigned i, uint64_t incarnation, enum member_state state)
{
    struct record record = {.incarnation = incarnation};
    uint64_t spread = rng_mix(7, i);
    memcpy(record.id.bytes, &spread, sizeof(spread));
    struct entry *entry = table_find(table, &record.id);
    if (entry)
        entry_record(entry, &record, "x", 1);
    else
        entry = table_add(table, &record, "x", 1);
    table_state(table, entry, state);
}

static void
fill(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        put(&left, i, 1, MEMBER_ALIVE);
        put(&right, i, 1, MEMBER_ALIVE);
    }
}

static void
empty(void)
{
    table_release(&left);
    table_release(&right);
}

static size_t
bytes_of(const struct digest *digest)
{
    struct buf body = {0};
    struct digest back;
    digest_encode(digest, &body);
    size_t len = body.len;
    ck_assert_int_eq(digest_decode(body.data, body.len, &back, &err), 0);
    ck_assert_uint_eq(back.salt, digest->salt);
    ck_assert_uint_eq(back.words_count, digest->words_count);
    ck_assert_uint_eq(back.count, digest->count);
    if (back.count > 0)
        ck_assert_mem_eq(back.entries, digest->entries,
                         back.count * sizeof(*back.entries));
    digest_release(&back);
    buf_release(&body);
    return len;
}

START_TEST(the_same_views_cost_one_hash)
{
    struct digest ask, answer;
    fill(MANY);
    for (uint64_t salt = 1; salt < 20; salt++) {
        digest_hash(&left, salt, 0, &ask);
        ck_assert_uint_le(bytes_of(&ask), 32);
        ck_assert(!digest_answer(&right, &ask, &answer));
        digest_release(&ask);
    }
    empty();
}
END_TEST

START_TEST(one_difference_among_hundreds_is_found_in_three_messages)
{
    struct digest ask, hashes, lists;
    for (unsigned which = 0; which < 4; which++) {
        fill(MANY);
        if (which == 0)
            put(&right, 17, 2, MEMBER_ALIVE); /* newer there */
        else if (which == 1)
            put(&left, MANY, 1, MEMBER_ALIVE); /* known here alone */
        else if (which == 2)
            put(&right, MANY, 1, MEMBER_ALIVE);
        else
            put(&right, 17, 1, MEMBER_SUSPECT); /* accused there */
        unsigned wanted = which == 1 || which == 2 ? MANY : 17;
        digest_hash(&left, 5, 0, &ask);
        ck_assert(digest_answer(&right, &ask, &hashes));
        ck_assert(!hashes.lists);
        ck_assert_uint_ge(hashes.bits, 4);
        ck_assert(digest_answer(&left, &hashes, &lists));
        ck_assert(lists.lists);
        ck_assert_uint_eq(lists.words_count, 1);
        uint64_t spread = rng_mix(7, wanted);
        struct id id = {{0}};
        memcpy(id.bytes, &spread, sizeof(spread));
        ck_assert_uint_eq(lists.words[0], id_prefix(&id) >> (64 - lists.bits));
        ck_assert_uint_lt(lists.count, 50);
        ck_assert_uint_lt(bytes_of(&hashes) + bytes_of(&lists), 1500);
        digest_release(&ask);
        digest_release(&hashes);
        digest_release(&lists);
        empty();
    }
}
END_TEST

START_TEST(a_small_view_is_listed_when_it_differs)
{
    struct digest ask, lists;
    fill(40);
    put(&right, 3, 9, MEMBER_ALIVE);
    digest_hash(&left, 5, 0, &ask);
    ck_assert(digest_answer(&right, &ask, &lists));
    ck_assert(lists.lists);
    ck_assert_uint_eq(lists.count, 40);
    digest_release(&ask);
    digest_release(&lists);
    empty();
}
END_TEST

START_TEST(who_is_dead_here_and_forgotten_there_makes_no_difference)
{
    struct digest ask, answer;
    fill(50);
    put(&left, 50, 1, MEMBER_DEAD);
    put(&left, 51, 1, MEMBER_LEFT);
    digest_hash(&left, 5, 0, &ask);
    ck_assert(!digest_answer(&right, &ask, &answer));
    digest_release(&ask);
    put(&left, 7, 1, MEMBER_DEAD); /* and alive there */
    digest_hash(&left, 6, 0, &ask);
    ck_assert(digest_answer(&right, &ask, &answer));
    digest_release(&ask);
    digest_release(&answer);
    empty();
}
END_TEST

START_TEST(a_list_that_does_not_fit_is_cut_at_a_bucket)
{
    struct digest ask, lists;
    uint64_t all[16];
    for (unsigned i = 0; i < 3 * DIGEST_ENTRIES_MAX; i++)
        put(&left, i, 1, MEMBER_ALIVE);
    for (uint64_t i = 0; i < 16; i++)
        all[i] = i;
    digest_hash(&left, 5, 4, &ask);
    ck_assert_uint_eq(ask.words_count, 16);
    digest_list(&left, 5, 4, all, 16, &lists);
    ck_assert_uint_le(lists.count, DIGEST_ENTRIES_MAX);
    ck_assert_uint_gt(lists.words_count, 2);
    ck_assert_uint_lt(lists.words_count, 8);
    size_t listed = 0;
    for (size_t i = 0; i < left.count; i++)
        listed += id_prefix(&left.list[i]->member.record->id) >> 60 < lists.words_count;
    ck_assert_uint_eq(lists.count, listed);
    bytes_of(&lists);
    digest_release(&ask);
    digest_release(&lists);
    empty();
}
END_TEST

START_TEST(a_core_that_is_asked_by_its_own_hash_says_nothing)
{
    talk_begin(40, 40);
    gossip_met(us, net.now_ms, &net.nodes[1].id, &effects);
    const struct effect *last = &effects.list[effects.count - 1];
    ck_assert_int_eq(last->frame, FRAME_DIGEST);
    struct buf same = {0};
    buf_add(&same, last->bytes, last->len);
    effects_clear(&effects);
    ck_assert_int_eq(talk_receive_bytes(1, FRAME_DIGEST, same.data, same.len), 0);
    for (size_t i = 0; i < effects.count; i++)
        ck_assert(effects.list[i].frame != FRAME_DIGEST &&
                  !id_equal(&effects.list[i].peer, &net.nodes[1].id));
    buf_release(&same);
    talk_end();
}
END_TEST

/* The rumor is over before it is back: only a digest can tell it. */
START_TEST(a_node_that_missed_the_rumor_learns_by_digest)
{
    struct effects said = {0};
    struct record record;
    net_open(&net, suite_seed("a_node_that_missed_the_rumor", 1), 70);
    net_start_all(&net);
    ck_assert_int_ge(net_until_whole(&net, 20000), 0);
    net_run(&net, 20000);
    for (size_t i = 0; i < net.count; i++)
        net.cut[i][5] = net.cut[5][i] = i != 5;
    net_record(&net, 9, &record);
    record.epoch = 42;
    gossip_self(net.nodes[9].gossip, &record, &said);
    net_deliver(&net, 9, &said);
    net_run(&net, 1500);
    memset(net.cut, 0, sizeof(net.cut));
    ck_assert_uint_eq(gossip_find(net.nodes[5].gossip, &net.nodes[9].id)->record->epoch,
                      0);
    int64_t begun_ms = net.now_ms;
    while (gossip_find(net.nodes[5].gossip, &net.nodes[9].id)->record->epoch != 42 &&
           net.now_ms - begun_ms < 120000)
        net_run(&net, 100);
    printf("learnt by digest after %lld ms\n", (long long)(net.now_ms - begun_ms));
    ck_assert_int_le(net.now_ms - begun_ms, 61000);
    effects_release(&said);
    net_close(&net);
}
END_TEST

Suite *
suite_digest(void)
{
    Suite *suite = suite_create("digest");
    TCase *tests = suite_case(suite, "views", 30);
    tcase_add_test(tests, the_same_views_cost_one_hash);
    tcase_add_test(tests, one_difference_among_hundreds_is_found_in_three_messages);
    tcase_add_test(tests, a_small_view_is_listed_when_it_differs);
    tcase_add_test(tests, who_is_dead_here_and_forgotten_there_makes_no_difference);
    tcase_add_test(tests, a_list_that_does_not_fit_is_cut_at_a_bucket);
    tests = suite_case(suite, "cores", 120);
    tcase_add_test(tests, a_core_that_is_asked_by_its_own_hash_says_nothing);
    tcase_add_test(tests, a_node_that_missed_the_rumor_learns_by_digest);
    return suite;
}
