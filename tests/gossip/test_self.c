/* What a core says of itself, and what it learns of a twin. */
#include "tests/gossip/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_self(void);

/* A record of node `who` as another process with its key would say it. */
static struct buf
twin_record(size_t who, uint64_t incarnation, uint64_t version, uint64_t twin)
{
    struct record record;
    struct buf bytes = {0};
    net_record(&net, who, &record);
    record.incarnation = incarnation;
    record.version = version;
    record.twin = twin;
    snprintf(record.address, sizeof(record.address), "elsewhere:%zu", 9000 + who);
    record_sign(&record, net.nodes[who].key, &net.swarm, &bytes);
    return bytes;
}

static int
tell(size_t from, const struct buf *record)
{
    struct draft rumors = {0};
    draft_state(&rumors, record->data, record->len, NULL, 0);
    return talk_receive(from, FRAME_RUMORS, &rumors);
}

/* ---- twins ---- */

START_TEST(who_sees_a_later_boot_of_its_key_says_so_in_its_record)
{
    talk_begin(3, 3);
    struct record record;
    uint64_t before = talk_mine()->version;
    struct buf later = twin_record(0, 2ULL << 32, 1, 0);
    ck_assert_int_eq(tell(1, &later), 0);
    const struct effect *conflict = talk_first_effect(EFFECT_CONFLICT);
    ck_assert_ptr_nonnull(conflict);
    ck_assert_ptr_nonnull(strstr(conflict->text, "boot 2"));
    ck_assert_ptr_nonnull(strstr(conflict->text, "elsewhere:9000"));
    ck_assert_uint_eq(talk_mine()->twin, 2ULL << 32);
    ck_assert_uint_eq(talk_mine()->version, before + 1);
    ck_assert_uint_eq(talk_mine()->incarnation, 1ULL << 32); /* it is not outbid */
    bool told = talk_said(talk_sent(1, FRAME_RUMORS), 0, &record) ||
                talk_said(talk_sent(2, FRAME_RUMORS), 0, &record);
    ck_assert(told);

    /* What the glue says next keeps it; a boot of its own ends it. */
    net_record(&net, 0, &record);
    record.epoch = 3;
    gossip_self(us, &record, &effects);
    ck_assert_uint_eq(talk_mine()->twin, 2ULL << 32);
    record.incarnation = 5ULL << 32;
    gossip_self(us, &record, &effects);
    ck_assert_uint_eq(talk_mine()->twin, 0);
    buf_release(&later);
    talk_end();
}
END_TEST

START_TEST(a_third_shows_the_later_boot_that_the_older_one_is_alive)
{
    talk_begin(3, 2);
    struct buf later = talk_record_of(2, 2ULL << 32, 1, false);
    ck_assert_int_eq(tell(1, &later), 0);
    net.now_ms += 5000;
    effects_clear(&effects);

    struct buf leftover = twin_record(2, 1ULL << 32, 7, 0);
    ck_assert_int_eq(tell(1, &leftover), 0);
    ck_assert_ptr_null(talk_sent(2, FRAME_RUMORS)); /* no word of the later one in it */
    effects_clear(&effects);

    struct buf forged = twin_record(2, 1ULL << 32, 8, 2ULL << 32);
    forged.data[forged.len - 1] ^= 1;
    ck_assert_int_eq(tell(1, &forged), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_uint_eq(effects.count, 0);

    struct buf alive = twin_record(2, 1ULL << 32, 8, 2ULL << 32);
    ck_assert_int_eq(tell(1, &alive), 0);
    struct record record;
    ck_assert_ptr_nonnull(talk_said(talk_sent(2, FRAME_RUMORS), 2, &record));
    ck_assert_uint_eq(record.incarnation, 1ULL << 32);
    ck_assert_uint_eq(gossip_find(us, &net.nodes[2].id)->record->incarnation,
                      2ULL << 32); /* it is shown, not believed */
    effects_clear(&effects);
    ck_assert_int_eq(tell(1, &alive), 0);
    ck_assert_ptr_null(talk_sent(2, FRAME_RUMORS)); /* once in a while */
    buf_release(&later);
    buf_release(&leftover);
    buf_release(&forged);
    buf_release(&alive);
    talk_end();
}
END_TEST

START_TEST(the_later_boot_takes_a_leftover_for_one_and_a_living_twin_for_one)
{
    talk_begin(2, 2);
    struct record record;
    net_record(&net, 0, &record);
    record.incarnation = 2ULL << 32;
    gossip_self(us, &record, &effects);
    effects_clear(&effects);
    struct buf leftover = twin_record(0, 1ULL << 32, 90, 0);
    ck_assert_int_eq(tell(1, &leftover), 0);
    ck_assert_ptr_null(talk_first_effect(EFFECT_CONFLICT));
    struct buf older = twin_record(0, 1ULL << 32, 91, 1ULL << 32);
    ck_assert_int_eq(tell(1, &older), 0);
    ck_assert_ptr_null(talk_first_effect(EFFECT_CONFLICT)); /* of another pair */
    struct buf alive = twin_record(0, 1ULL << 32, 91, 2ULL << 32);
    ck_assert_int_eq(tell(1, &alive), 0);
    ck_assert_ptr_nonnull(talk_first_effect(EFFECT_CONFLICT));
    ck_assert_ptr_nonnull(
        strstr(talk_first_effect(EFFECT_CONFLICT)->text, "elsewhere:9000"));
    buf_release(&leftover);
    buf_release(&older);
    buf_release(&alive);
    talk_end();
}
END_TEST

START_TEST(a_record_that_moves_a_member_is_first_sent_to_where_it_was)
{
    talk_begin(3, 3);
    struct buf moved = twin_record(2, 2ULL << 32, 1, 0);
    ck_assert_int_eq(tell(1, &moved), 0);
    size_t sent = SIZE_MAX, changed = SIZE_MAX;
    for (size_t i = effects.count; i-- > 0;) {
        const struct effect *effect = &effects.list[i];
        if (!id_equal(&effect->peer, &net.nodes[2].id))
            continue;
        if (effect->kind == EFFECT_SEND)
            sent = i;
        if (effect->kind == EFFECT_MEMBER)
            changed = i;
    }
    ck_assert_uint_lt(changed, SIZE_MAX);
    ck_assert_uint_lt(sent, changed);
    struct record record;
    ck_assert_ptr_nonnull(talk_said(talk_sent(2, FRAME_RUMORS), 2, &record));
    ck_assert_str_eq(record.address, "elsewhere:9002");
    buf_release(&moved);
    talk_end();
}
END_TEST

START_TEST(an_announced_record_of_ours_that_we_did_not_make_is_asked_for)
{
    talk_begin(3, 3);
    struct draft rumors = {0};
    talk_announce(&rumors, 0, 2ULL << 32, 4, 0, 0, ACCUSE_NOTHING);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    struct message *answer = talk_sent(1, FRAME_RUMORS);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(answer->asks_count, 1);
    ck_assert_uint_eq(answer->asks[0], id_prefix(&net.nodes[0].id));
    ck_assert_ptr_null(talk_first_effect(EFFECT_CONFLICT)); /* not on hearsay */
    talk_end();
}
END_TEST

/* ---- estimates ---- */

START_TEST(in_a_large_swarm_estimates_alone_wait_and_everything_else_does_not)
{
    talk_begin(60, 60);
    struct record record;
    gossip_tick(us, net.now_ms += 60000, &effects);
    uint64_t before = talk_mine()->version;
    net_record(&net, 0, &record);
    record.links_count = 1;
    record.links[0] = (struct record_link){.peer = net.nodes[1].id, .rate = 100};
    gossip_self(us, &record, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 1); /* the last was long ago */
    record.links[0].rate = 130;
    gossip_self(us, &record, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 1);
    gossip_tick(us, net.now_ms += 10000, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 1);
    gossip_tick(us, net.now_ms += 6000, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 2);
    ck_assert_uint_eq(talk_mine()->links[0].rate, 130);
    record.links[0].rate = 160;
    gossip_self(us, &record, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 2);
    gossip_flush(us, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 3);
    ck_assert_uint_eq(talk_mine()->links[0].rate, 160);
    record.links[0].rate = 190;
    gossip_self(us, &record, &effects);
    record.epoch = 9;
    gossip_self(us, &record, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 4);
    ck_assert_uint_eq(talk_mine()->links[0].rate, 190);
    gossip_flush(us, &effects);
    ck_assert_uint_eq(talk_mine()->version, before + 4);
    talk_end();
}
END_TEST

START_TEST(at_rest_records_do_not_change)
{
    net_open(&net, 1, 10);
    net_start_all(&net);
    ck_assert_int_ge(net_until_whole(&net, 20000), 0);
    uint64_t before = gossip_member_self(net.nodes[3].gossip)->record->version;
    struct effects said = {0};
    for (int i = 0; i < 60; i++) {
        struct record record;
        net_record(&net, 3, &record);
        gossip_self(net.nodes[3].gossip, &record, &said);
        ck_assert_uint_eq(said.count, 0);
        net_run(&net, 1000);
    }
    ck_assert_uint_eq(gossip_member_self(net.nodes[3].gossip)->record->version, before);
    effects_release(&said);
    net_close(&net);
}
END_TEST

Suite *
suite_self(void)
{
    Suite *suite = suite_create("self");
    TCase *tests = suite_case(suite, "twins", 30);
    tcase_add_test(tests, who_sees_a_later_boot_of_its_key_says_so_in_its_record);
    tcase_add_test(tests, a_third_shows_the_later_boot_that_the_older_one_is_alive);
    tcase_add_test(tests,
                   the_later_boot_takes_a_leftover_for_one_and_a_living_twin_for_one);
    tcase_add_test(tests, a_record_that_moves_a_member_is_first_sent_to_where_it_was);
    tcase_add_test(tests, an_announced_record_of_ours_that_we_did_not_make_is_asked_for);
    tests = suite_case(suite, "records", 60);
    tcase_add_test(tests,
                   in_a_large_swarm_estimates_alone_wait_and_everything_else_does_not);
    tcase_add_test(tests, at_rest_records_do_not_change);
    return suite;
}
