/* What is announced, what is believed of whom, and what may not wait. */
#include "tests/gossip/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_absorb(void);

static size_t
suspects(void)
{
    size_t count = 0;
    for (size_t i = 0; i < gossip_count(us); i++)
        count += gossip_at(us, i)->state == MEMBER_SUSPECT;
    return count;
}

/* ---- announcements ---- */

START_TEST(an_announced_record_is_asked_for_until_it_is_here)
{
    talk_begin(4, 4);
    struct draft rumors = {0};
    talk_announce(&rumors, 2, 1ULL << 32, 5, 0, 0, ACCUSE_NOTHING);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    struct message *answer = talk_sent(1, FRAME_RUMORS);
    ck_assert_uint_eq(answer->asks_count, 1);
    ck_assert_uint_eq(answer->asks[0], id_prefix(&net.nodes[2].id));
    /* Another announces the same at once: one ask is enough. */
    effects_clear(&effects);
    talk_announce(&rumors, 2, 1ULL << 32, 5, 0, 0, ACCUSE_NOTHING);
    ck_assert_int_eq(talk_receive(3, FRAME_RUMORS, &rumors), 0);
    ck_assert_ptr_null(talk_sent(3, FRAME_RUMORS));
    /* The answer is lost: again, from that one. */
    effects_clear(&effects);
    gossip_tick(us, net.now_ms += 500, &effects);
    answer = talk_sent(3, FRAME_RUMORS);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(answer->asks_count, 1);
    struct buf record = talk_record_of(2, 1ULL << 32, 5, false);
    draft_state(&rumors, record.data, record.len, NULL, 0);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_uint_eq(gossip_find(us, &net.nodes[2].id)->record->version, 5);
    effects_clear(&effects);
    for (int i = 0; i < 10; i++)
        gossip_tick(us, net.now_ms += 100, &effects);
    for (size_t i = 0; i < effects.count; i++) {
        struct message message;
        if (effects.list[i].kind != EFFECT_SEND || effects.list[i].frame == FRAME_DIGEST)
            continue;
        ck_assert_int_eq(
            message_decode(effects.list[i].bytes, effects.list[i].len, &message, &err),
            0);
        ck_assert_uint_eq(message.asks_count, 0);
        message_release(&message);
    }
    buf_release(&record);
    talk_end();
}
END_TEST

START_TEST(an_ask_that_nobody_answers_ends)
{
    talk_begin(3, 2);
    struct draft rumors = {0};
    unsigned asks = 0;
    talk_announce(&rumors, 2, 1ULL << 32, 5, 0, 0, ACCUSE_NOTHING); /* not known here */
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    for (int i = 0; i < 100; i++) {
        struct message *message = talk_sent(1, FRAME_RUMORS);
        asks += message && message->asks_count > 0;
        effects_clear(&effects);
        gossip_heard(us, net.now_ms += 100, &net.nodes[1].id);
        gossip_tick(us, net.now_ms, &effects);
    }
    ck_assert_uint_ge(asks, 15);
    ck_assert_uint_le(asks, 21);
    talk_end();
}
END_TEST

START_TEST(an_accusation_that_announces_counts_for_that_very_incarnation)
{
    talk_begin(5, 5);
    struct draft rumors = {0};
    talk_announce(&rumors, 2, 2ULL << 32, 0, 3, 2, ACCUSE_SUSPECT); /* not known here */
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 2), MEMBER_ALIVE);
    ck_assert_uint_eq(talk_sent(1, FRAME_RUMORS)->asks_count, 1);
    talk_announce(&rumors, 2, 0, 0, 3, 2, ACCUSE_SUSPECT); /* old */
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 2), MEMBER_ALIVE);
    talk_announce(&rumors, 2, 1ULL << 32, 0, 3, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 2), MEMBER_SUSPECT);
    /* And whoever is named falsely is not. */
    struct accusation word = talk_accusation_by(4, 1, 1ULL << 32, ACCUSE_SUSPECT);
    struct record about = {.id = net.nodes[3].id, .incarnation = 1ULL << 32};
    draft_announce(&rumors, &about, &word, 1);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_int_eq(net_view(&net, 0, 3), MEMBER_ALIVE);
    talk_end();
}
END_TEST

/* A record with all its links is several times what goes along unasked. */
START_TEST(a_large_record_reaches_all_at_heavy_loss)
{
    struct effects said = {0};
    struct record record;
    net_open(&net, suite_seed("a_large_record_reaches_all", 1), 60);
    net_start_all(&net);
    ck_assert_int_ge(net_until_whole(&net, 20000), 0);
    net_run(&net, 10000);
    net.loss_percent = 20;
    net_record(&net, 9, &record);
    record.epoch = 42;
    record.links_count = RECORD_LINKS_MAX;
    for (uint32_t i = 0; i < RECORD_LINKS_MAX; i++)
        record.links[i] = (struct record_link){.peer = {{(uint8_t)i, 1}}, .rate = 300};
    gossip_self(net.nodes[9].gossip, &record, &said);
    ck_assert_uint_gt(gossip_member_self(net.nodes[9].gossip)->len, 2500);
    uint64_t before = net.bytes;
    net_deliver(&net, 9, &said);
    int64_t begun_ms = net.now_ms;
    size_t have = 0;
    while (have < net.count && net.now_ms - begun_ms < 20000) {
        net_run(&net, 100);
        have = 0;
        for (size_t i = 0; i < net.count; i++)
            have +=
                gossip_find(net.nodes[i].gossip, &net.nodes[9].id)->record->epoch == 42;
    }
    printf("a large record: %lld ms, %llu bytes a node\n",
           (long long)(net.now_ms - begun_ms),
           (unsigned long long)((net.bytes - before) / net.count));
    ck_assert_uint_eq(have, net.count);
    ck_assert_int_le(net.now_ms - begun_ms, 2500);
    /* Once to each and what was lost, not a dozen times. */
    ck_assert_uint_le((net.bytes - before) / net.count, 10000);
    effects_release(&said);
    net_close(&net);
}
END_TEST

START_TEST(an_accusation_goes_before_any_number_of_records)
{
    talk_begin(120, 120);
    for (size_t i = 1; i < 118; i++) { /* many kilobytes of news */
        struct draft rumors = {0};
        struct buf record = talk_record_of(i, 1ULL << 32, 3, false);
        draft_state(&rumors, record.data, record.len, NULL, 0);
        ck_assert_int_eq(talk_receive(119, FRAME_RUMORS, &rumors), 0);
        buf_release(&record);
    }
    struct draft rumors = {0};
    talk_announce(&rumors, 118, 1ULL << 32, 0, 119, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(119, FRAME_RUMORS, &rumors), 0);
    effects_clear(&effects);
    struct draft ping = {
        .nonce = 1, .subject = net.nodes[0].id, .incarnation = 1ULL << 32, .version = 3};
    ck_assert_int_eq(talk_receive(5, FRAME_PING, &ping), 0);
    struct message *reply = talk_sent(5, FRAME_PING_REPLY);
    const struct statement *word = talk_announced(reply, 118);
    ck_assert_ptr_nonnull(word);
    ck_assert_ptr_eq(word, &reply->statements[0]);
    ck_assert_uint_gt(reply->count, 20); /* and what else fits */
    talk_end();
}
END_TEST

START_TEST(an_answer_is_bounded_however_much_is_asked_for)
{
    talk_begin(128, 128);
    struct draft rumors = {0};
    for (size_t i = 1; i < 128; i++) {
        struct record record;
        struct buf bytes = {0};
        net_record(&net, i, &record);
        record.version = 2;
        record.links_count = RECORD_LINKS_MAX;
        for (uint32_t k = 0; k < RECORD_LINKS_MAX; k++)
            record.links[k] =
                (struct record_link){.peer = {{(uint8_t)k, 1}}, .rate = 300};
        record_sign(&record, net.nodes[i].key, &net.swarm, &bytes);
        ck_assert_int_eq(
            gossip_merge(us, net.now_ms, bytes.data, bytes.len, &effects, &err), 0);
        buf_release(&bytes);
        draft_ask(&rumors, id_prefix(&net.nodes[i].id));
    }
    effects_clear(&effects);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    size_t sent = 0;
    for (size_t i = 0; i < effects.count; i++)
        sent += effects.list[i].kind == EFFECT_SEND ? effects.list[i].len : 0;
    ck_assert_uint_ge(sent, 250 << 10);
    ck_assert_uint_le(sent, 300 << 10);
    talk_end();
}
END_TEST

/* ---- belief ---- */

START_TEST(who_accuses_everybody_is_believed_so_many_times)
{
    talk_begin(100, 100);
    for (size_t i = 2; i < 100; i++) {
        struct draft rumors = {0};
        talk_announce(&rumors, i, 1ULL << 32, 0, 1, 1, ACCUSE_SUSPECT);
        ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    }
    ck_assert_uint_eq(suspects(), 64);
    /* The same said again is no news and costs nothing; another accuser is believed. */
    struct draft rumors = {0};
    talk_announce(&rumors, 2, 1ULL << 32, 0, 1, 1, ACCUSE_SUSPECT);
    talk_announce(&rumors, 99, 1ULL << 32, 0, 3, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_uint_eq(suspects(), 65);
    net.now_ms += 5001;
    for (size_t i = 2; i < 99; i++)
        gossip_heard(us, net.now_ms, &net.nodes[i].id); /* nobody dies meanwhile */
    for (size_t i = 90; i < 99; i++) {
        talk_announce(&rumors, i, 1ULL << 32, 0, 1, 1, ACCUSE_SUSPECT);
        ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    }
    ck_assert_uint_eq(suspects(), 67);
    talk_end();
}
END_TEST

START_TEST(a_node_that_hears_nobody_accuses_a_bounded_number)
{
    talk_begin(120, 120);
    for (size_t i = 1; i < 120; i++)
        gossip_refused(us, net.now_ms, &net.nodes[i].id, &effects);
    ck_assert_uint_le(suspects(), 32);
    ck_assert_uint_ge(suspects(), 30);
    for (int i = 0; i < 600; i++) {
        effects_clear(&effects);
        gossip_tick(us, net.now_ms += 100, &effects);
    }
    size_t dead = 0;
    for (size_t i = 1; i < 120; i++)
        dead += net_view(&net, 0, i) == MEMBER_DEAD;
    ck_assert_uint_eq(dead, 0); /* nobody else said so */
    talk_end();
}
END_TEST

Suite *
suite_absorb(void)
{
    Suite *suite = suite_create("absorb");
    TCase *tests = suite_case(suite, "announced", 60);
    tcase_add_test(tests, an_announced_record_is_asked_for_until_it_is_here);
    tcase_add_test(tests, an_ask_that_nobody_answers_ends);
    tcase_add_test(tests, an_accusation_that_announces_counts_for_that_very_incarnation);
    tcase_add_test(tests, a_large_record_reaches_all_at_heavy_loss);
    tcase_add_test(tests, an_accusation_goes_before_any_number_of_records);
    tcase_add_test(tests, an_answer_is_bounded_however_much_is_asked_for);
    tests = suite_case(suite, "belief", 60);
    tcase_add_test(tests, who_accuses_everybody_is_believed_so_many_times);
    tcase_add_test(tests, a_node_that_hears_nobody_accuses_a_bounded_number);
    return suite;
}
