#include "gossip/member.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_member(void);

/* Members, records of each, and accusers that the updates are drawn from. */
enum { PEOPLE = 3, RECORDS = 24, ACCUSERS = 14, UPDATES = 40, SEEDS = 400 };

static struct key *keys[PEOPLE];
static struct record records[PEOPLE][RECORDS];
static struct buf signed_records[PEOPLE][RECORDS];
static struct id swarm = {{3}};

static void
setup(void)
{
    struct err err;
    ck_assert_int_eq(key_setup(&err), 0);
    for (int who = 0; who < PEOPLE; who++) {
        uint8_t seed[32] = {(uint8_t)who, 9};
        keys[who] = key_from_seed(seed);
        for (unsigned i = 0; i < RECORDS; i++) {
            struct record *record = &records[who][i];
            /* Of each incarnation three versions, and two twins of one of them; some say
             * goodbye. */
            *record = (struct record){.id = *key_id(keys[who]),
                                      .incarnation = 1 + i / 6,
                                      .version = i % 6 < 3 ? i % 6 : 1,
                                      .leaving = i % 6 == 5,
                                      .threads = i};
            record_sign(record, keys[who], &swarm, &signed_records[who][i]);
        }
    }
}

static void
teardown(void)
{
    for (int who = 0; who < PEOPLE; who++) {
        key_free(keys[who]);
        for (int i = 0; i < RECORDS; i++)
            buf_release(&signed_records[who][i]);
    }
}

static struct accusation
accusation(unsigned accuser, enum accusation_kind kind)
{
    return (struct accusation){.accuser = {{(uint8_t)(accuser + 1)}}, .kind = kind};
}

static struct statement
statement(int who, unsigned i)
{
    return (struct statement){.bytes = signed_records[who][i].data,
                              .len = signed_records[who][i].len};
}

static struct statement
some_statement(struct rng *rng)
{
    struct statement out =
        statement((int)rng_below(rng, PEOPLE), (unsigned)rng_below(rng, RECORDS));
    for (unsigned accuser = 0; accuser < ACCUSERS; accuser++)
        if (rng_below(rng, 4) == 0 && out.accusations_count < ACCUSERS_MAX)
            out.accusations[out.accusations_count++] =
                accusation(accuser, rng_below(rng, 2) ? ACCUSE_DEAD : ACCUSE_SUSPECT);
    return out;
}

/* A table that knows the oldest record of each already. */
static struct table *
table_new(void)
{
    struct table *table = xcalloc(1, sizeof(*table));
    for (int who = 0; who < PEOPLE; who++)
        table_add(table, &records[who][0], signed_records[who][0].data,
                  signed_records[who][0].len);
    return table;
}

static void
table_free(struct table *table)
{
    table_release(table);
    free(table);
}

static void
merge_entry(struct table *into, const struct entry *entry)
{
    struct entry *at;
    struct statement out = {.bytes = entry->member.bytes,
                            .len = entry->member.len,
                            .accusations_count = entry_charges(entry)};
    if (entry->charges)
        memcpy(out.accusations, entry->charges->list, sizeof(out.accusations));
    table_merge(into, &out, &at);
}

static void
merge_table(struct table *into, const struct table *from)
{
    for (size_t i = 0; i < from->count; i++)
        merge_entry(into, from->list[i]);
}

static void
same_facts(const struct table *left, const struct table *right)
{
    ck_assert_uint_eq(left->count, right->count);
    for (size_t i = 0; i < left->count; i++) {
        const struct entry *a = left->list[i], *b = right->list[i];
        ck_assert_uint_eq(a->member.len, b->member.len);
        ck_assert_mem_eq(a->member.bytes, b->member.bytes, a->member.len);
        ck_assert_uint_eq(entry_charges(a), entry_charges(b));
        for (uint32_t k = 0; k < entry_charges(a); k++) {
            const struct accusation *left_word = &a->charges->list[k];
            const struct accusation *right_word = &b->charges->list[k];
            ck_assert(id_equal(&left_word->accuser, &right_word->accuser));
            ck_assert_int_eq(left_word->kind, right_word->kind);
        }
        ck_assert_int_eq(entry_state(a), entry_state(b));
    }
}

START_TEST(updates_in_any_order_and_number_give_the_same_facts)
{
    uint64_t seed = suite_seed("updates_in_any_order", 1);
    for (uint64_t round = 0; round < SEEDS; round++) {
        struct rng rng = {.seed = seed + round};
        struct statement updates[UPDATES];
        struct entry *at;
        struct table *left = table_new(), *right = table_new();
        for (int i = 0; i < UPDATES; i++) {
            updates[i] = some_statement(&rng);
            table_merge(left, &updates[i], &at);
        }
        for (int i = UPDATES - 1; i > 0; i--) {
            int k = (int)rng_below(&rng, (uint64_t)i + 1);
            struct statement held = updates[i];
            updates[i] = updates[k];
            updates[k] = held;
        }
        for (int i = 0; i < UPDATES; i++) {
            table_merge(right, &updates[i], &at);
            table_merge(right, &updates[rng_below(&rng, (uint64_t)i + 1)], &at);
        }
        same_facts(left, right);
        table_free(left);
        table_free(right);
    }
}
END_TEST

START_TEST(views_merge_commutatively_associatively_and_idempotently)
{
    uint64_t seed = suite_seed("views_merge", 1);
    for (uint64_t round = 0; round < SEEDS; round++) {
        struct rng rng = {.seed = seed + round};
        struct table *view[3], *sum[4];
        struct entry *at;
        for (int v = 0; v < 3; v++) {
            view[v] = table_new();
            for (int i = 0; i < UPDATES / 3; i++) {
                struct statement update = some_statement(&rng);
                table_merge(view[v], &update, &at);
            }
        }
        for (int i = 0; i < 4; i++)
            sum[i] = table_new();
        merge_table(sum[0], view[0]); /* (0 + 1) + 2 */
        merge_table(sum[0], view[1]);
        merge_table(sum[0], view[2]);
        merge_table(sum[1], view[1]); /* 0 + (1 + 2) */
        merge_table(sum[1], view[2]);
        merge_table(sum[2], view[0]);
        merge_table(sum[2], sum[1]);
        merge_table(sum[3], view[2]); /* 2 + 1 + 0 + 2 + itself */
        merge_table(sum[3], view[1]);
        merge_table(sum[3], view[0]);
        merge_table(sum[3], view[2]);
        merge_table(sum[3], sum[3]);
        same_facts(sum[0], sum[2]);
        same_facts(sum[0], sum[3]);
        for (int i = 0; i < 3; i++)
            table_free(view[i]);
        for (int i = 0; i < 4; i++)
            table_free(sum[i]);
    }
}
END_TEST

START_TEST(no_update_lowers_what_is_known)
{
    uint64_t seed = suite_seed("no_update_lowers", 1);
    for (uint64_t round = 0; round < 100; round++) {
        struct rng rng = {.seed = seed + round};
        struct table *table = table_new();
        for (int i = 0; i < UPDATES; i++) {
            struct record before[PEOPLE];
            struct entry *at;
            struct statement update = some_statement(&rng);
            for (size_t k = 0; k < PEOPLE; k++)
                record_copy(&before[k], table->list[k]->member.record);
            table_merge(table, &update, &at);
            for (size_t k = 0; k < PEOPLE; k++)
                ck_assert_int_ge(
                    record_compare(table->list[k]->member.record, &before[k]), 0);
        }
        table_free(table);
    }
}
END_TEST

START_TEST(a_higher_incarnation_voids_accusations_and_a_version_does_not)
{
    struct table *table = table_new();
    struct entry *at;
    struct statement update = statement(0, 0);
    update.accusations[update.accusations_count++] = accusation(5, ACCUSE_SUSPECT);
    ck_assert_uint_eq(table_merge(table, &update, &at), MERGE_ACCUSED);
    ck_assert_int_eq(entry_state(at), MEMBER_SUSPECT);
    update = statement(0, 2);
    ck_assert_uint_eq(table_merge(table, &update, &at), MERGE_RECORD | MERGE_UNAWARE);
    ck_assert_int_eq(entry_state(at), MEMBER_SUSPECT);
    at->expired = true;
    ck_assert_int_eq(entry_state(at), MEMBER_DEAD);
    update = statement(0, 6);
    ck_assert_uint_eq(table_merge(table, &update, &at), MERGE_RECORD | MERGE_RISEN);
    ck_assert_int_eq(entry_state(at), MEMBER_ALIVE);
    table_free(table);
}
END_TEST

/* al8n/memberlist #197: dead at 10 while already dead at 1, then alive at 2, must not
 * resurrect. */
START_TEST(the_highest_incarnation_is_remembered_though_the_state_stays)
{
    struct table *table = table_new();
    struct entry *at;
    struct statement dead = statement(0, 0);
    dead.accusations[dead.accusations_count++] = accusation(5, ACCUSE_DEAD);
    table_merge(table, &dead, &at);
    at->expired = true;
    struct statement later = statement(0, 18);
    later.accusations[later.accusations_count++] = accusation(6, ACCUSE_DEAD);
    table_merge(table, &later, &at);
    struct statement between = statement(0, 6);
    ck_assert_uint_eq(table_merge(table, &between, &at), MERGE_STALE);
    ck_assert_int_ne(entry_state(at), MEMBER_ALIVE);
    table_free(table);
}
END_TEST

START_TEST(an_accuser_counts_once_and_the_gravest_are_kept)
{
    struct table *table = table_new();
    struct entry *entry = table_find(table, key_id(keys[0]));
    struct accusation word = accusation(3, ACCUSE_SUSPECT);
    ck_assert(entry_accuse(entry, &word));
    ck_assert(!entry_accuse(entry, &word));
    ck_assert_uint_eq(entry_charges(entry), 1);
    word.kind = ACCUSE_DEAD;
    ck_assert(entry_accuse(entry, &word));
    ck_assert_uint_eq(entry_charges(entry), 1);
    word.kind = ACCUSE_SUSPECT;
    ck_assert(!entry_accuse(entry, &word));
    for (unsigned i = 0; i < ACCUSERS; i++) {
        word = accusation(i, ACCUSE_SUSPECT);
        entry_accuse(entry, &word);
    }
    ck_assert_uint_eq(entry_charges(entry), ACCUSERS_MAX);
    word = accusation(13, ACCUSE_DEAD);
    ck_assert(entry_accuse(entry, &word));
    ck_assert_uint_eq(entry_charges(entry), ACCUSERS_MAX);
    ck_assert_uint_eq(entry_accusers(entry, &word.accuser, ACCUSE_DEAD), 1);
    ck_assert_uint_eq(entry_accusers(entry, &swarm, ACCUSE_DEAD), 2);
    for (uint32_t i = 1; i < entry_charges(entry); i++)
        ck_assert_int_lt(id_compare(&entry->charges->list[i - 1].accuser,
                                    &entry->charges->list[i].accuser),
                         0);
    table_free(table);
}
END_TEST

START_TEST(the_unknown_who_are_dead_or_gone_are_not_taken_in)
{
    struct table *table = xcalloc(1, sizeof(*table));
    struct entry *at;
    struct statement update = statement(0, 0);
    update.accusations[update.accusations_count++] = accusation(5, ACCUSE_DEAD);
    ck_assert_uint_eq(table_merge(table, &update, &at), MERGE_IGNORED);
    update = statement(1, 5); /* leaving */
    ck_assert_uint_eq(table_merge(table, &update, &at), MERGE_IGNORED);
    update = statement(2, 0);
    update.accusations[update.accusations_count++] = accusation(5, ACCUSE_SUSPECT);
    ck_assert(table_merge(table, &update, &at) & MERGE_ADDED);
    ck_assert_uint_eq(table->count, 1);
    table_free(table);
}
END_TEST

START_TEST(a_full_table_gives_up_the_longest_gone_and_never_ourselves)
{
    struct table *table = xcalloc(1, sizeof(*table));
    struct record record = {.incarnation = 1};
    for (int i = 0; i < MEMBERS_MAX; i++) {
        record.id = (struct id){{(uint8_t)(i >> 8), (uint8_t)i, 1}};
        struct entry *entry = table_add(table, &record, "x", 1);
        ck_assert_ptr_nonnull(entry);
        table_state(table, entry, MEMBER_ALIVE);
    }
    struct id one_more = {{0xff, 0xff}};
    record.id = one_more;
    ck_assert_ptr_null(table_add(table, &record, "x", 1));
    table_state(table, table->list[7], MEMBER_LEFT);
    table->list[7]->member.since_ms = 1;
    table->keeps = table->list[7];
    table_state(table, table->list[9], MEMBER_DEAD);
    table->list[9]->member.since_ms = 50;
    table_state(table, table->list[11], MEMBER_DEAD);
    table->list[11]->member.since_ms = 40;
    struct id gone = table->list[11]->member.record->id;
    ck_assert_uint_eq(table_active(table), MEMBERS_MAX - 3);
    ck_assert_ptr_nonnull(table_add(table, &record, "x", 1));
    ck_assert_ptr_null(table_find(table, &gone));
    ck_assert_ptr_nonnull(table_find(table, &one_more));
    ck_assert_ptr_nonnull(table_find_prefix(table, id_prefix(&one_more)));
    ck_assert_ptr_null(table_find_prefix(table, id_prefix(&gone)));
    ck_assert_uint_eq(table->count, MEMBERS_MAX);
    for (size_t i = 1; i < table->count; i++)
        ck_assert_int_lt(id_compare(&table->list[i - 1]->member.record->id,
                                    &table->list[i]->member.record->id),
                         0);
    table_free(table);
}
END_TEST

/* What was not verified because it was no news must not come in when the news it was held
 * against is gone. */
START_TEST(what_was_judged_against_a_record_that_is_gone_is_ignored)
{
    struct table *table = table_new();
    struct entry *at;
    struct err err;
    struct statement stale = statement(0, 0), risen = statement(0, 6);
    struct id self = {{0xee}};
    table_merge(table, &risen, &at);
    ck_assert_int_eq(table_judge(table, &self, &stale, &swarm, &swarm, &err), 0);
    table_remove(table, table_find(table, key_id(keys[0])));
    ck_assert_uint_eq(table_merge(table, &stale, &at), MERGE_IGNORED);
    ck_assert_uint_eq(table->count, PEOPLE - 1);
    ck_assert_int_eq(table_judge(table, &self, &stale, &swarm, &swarm, &err), -1);
    ck_assert_int_eq(err.code, ERR_AUTH); /* no such admission */
    statement_release(&stale);
    table_free(table);
}
END_TEST

START_TEST(states_have_names)
{
    ck_assert_str_eq(member_state_name(MEMBER_UNKNOWN), "unknown");
    ck_assert_str_eq(member_state_name(MEMBER_ALIVE), "alive");
    ck_assert_str_eq(member_state_name(MEMBER_SUSPECT), "suspect");
    ck_assert_str_eq(member_state_name(MEMBER_DEAD), "dead");
    ck_assert_str_eq(member_state_name(MEMBER_LEFT), "left");
}
END_TEST

Suite *
suite_member(void)
{
    Suite *suite = suite_create("member");
    TCase *tests = suite_case(suite, "merge", 60);
    tcase_add_unchecked_fixture(tests, setup, teardown);
    tcase_add_test(tests, updates_in_any_order_and_number_give_the_same_facts);
    tcase_add_test(tests, views_merge_commutatively_associatively_and_idempotently);
    tcase_add_test(tests, no_update_lowers_what_is_known);
    tcase_add_test(tests, a_higher_incarnation_voids_accusations_and_a_version_does_not);
    tcase_add_test(tests, the_highest_incarnation_is_remembered_though_the_state_stays);
    tcase_add_test(tests, an_accuser_counts_once_and_the_gravest_are_kept);
    tcase_add_test(tests, the_unknown_who_are_dead_or_gone_are_not_taken_in);
    tcase_add_test(tests, a_full_table_gives_up_the_longest_gone_and_never_ourselves);
    tcase_add_test(tests, what_was_judged_against_a_record_that_is_gone_is_ignored);
    tcase_add_test(tests, states_have_names);
    return suite;
}
