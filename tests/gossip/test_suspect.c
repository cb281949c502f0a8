/* Who is held for dead, on whose word, and how soon. */
#include "tests/gossip/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_suspect(void);

static void
swarm(const char *test, size_t count)
{
    net_open(&net, suite_seed(test, 1), count);
    net_start_all(&net);
    ck_assert_int_ge(net_until_whole(&net, 20000), 0);
    net_run(&net, 5000);
}

static unsigned
deaths(void)
{
    unsigned count = 0;
    for (size_t i = 0; i < net.count; i++)
        count += net.nodes[i].deaths;
    return count;
}

START_TEST(one_accuser_alone_kills_nobody_where_others_could_say_so)
{
    talk_begin(6, 6);
    struct draft rumors = {0};
    talk_announce(&rumors, 1, 1ULL << 32, 0, 2, 1, ACCUSE_DEAD);
    ck_assert_int_eq(talk_receive(2, FRAME_RUMORS, &rumors), 0);
    for (int i = 0; i < 1200; i++) { /* well beyond the longest time */
        effects_clear(&effects);
        net.now_ms += 100;
        for (size_t k = 2; k < 6; k++)
            gossip_heard(us, net.now_ms, &net.nodes[k].id);
        gossip_tick(us, net.now_ms, &effects);
        /* Our own probes of it are answered through others: we do not accuse. */
        for (size_t k = 0; k < effects.count; k++) {
            const struct effect *effect = &effects.list[k];
            struct message ping;
            if (effect->kind != EFFECT_SEND || effect->frame != FRAME_PING_RELAY)
                continue;
            ck_assert_int_eq(message_decode(effect->bytes, effect->len, &ping, &err), 0);
            size_t helper = 0;
            while (!id_equal(&net.nodes[helper].id, &effect->peer))
                helper++;
            struct draft pong = {
                .nonce = ping.nonce, .subject = ping.subject, .answered = true};
            struct effects held = effects;
            effects = (struct effects){0};
            ck_assert_int_eq(talk_receive(helper, FRAME_PING_REPLY, &pong), 0);
            effects_release(&effects);
            effects = held;
            message_release(&ping);
        }
    }
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_SUSPECT);
    talk_announce(&rumors, 1, 1ULL << 32, 0, 3, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(3, FRAME_RUMORS, &rumors), 0);
    for (int i = 0; i < 10; i++)
        gossip_tick(us, net.now_ms += 100, &effects);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_DEAD);
    talk_end();
}
END_TEST

/* How long a node that gets to run every 400 ms waits before it suspects one of three who
 * say nothing. */
static int64_t
suspects_after(int64_t tick_ms)
{
    talk_begin(4, 4);
    struct gossip *starved =
        gossip_new(&(struct gossip_options){.key = net.nodes[0].key,
                                            .swarm = net.swarm,
                                            .admit_id = *secret_admit_id(net.secret),
                                            .seed = 1,
                                            .tick_ms = tick_ms},
                   net.now_ms);
    struct record record;
    int64_t began_ms = net.now_ms, result = -1;
    net_record(&net, 0, &record);
    gossip_self(starved, &record, &effects);
    for (size_t i = 1; i < 4; i++) {
        struct buf bytes = talk_record_of(i, 1ULL << 32, 0, false);
        ck_assert_int_eq(
            gossip_merge(starved, net.now_ms, bytes.data, bytes.len, &effects, &err), 0);
        buf_release(&bytes);
    }
    while (result < 0 && net.now_ms - began_ms < 60000) {
        effects_clear(&effects);
        gossip_tick(starved, net.now_ms += 400, &effects);
        for (size_t i = 0; i < effects.count; i++)
            if (effects.list[i].kind == EFFECT_MEMBER &&
                effects.list[i].after == MEMBER_SUSPECT)
                result = net.now_ms - began_ms;
    }
    gossip_free(starved);
    talk_end();
    return result;
}

/* Nobody would tell the accused of it, who leaves out what rests on an older secret. */
START_TEST(what_is_said_by_a_secret_that_is_over_is_dropped)
{
    talk_begin(6, 6);
    struct draft rumors = {0};
    struct secret *next = secret_make();
    talk_announce(&rumors, 1, 1ULL << 32, 0, 2, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(2, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_SUSPECT);
    for (int over = 0; over <= 1; over++) {
        struct id before = over ? (struct id){0} : *secret_admit_id(net.secret);
        gossip_admissions(us, secret_admit_id(next), &before, true);
        effects_clear(&effects);
        net.now_ms += 100;
        gossip_tick(us, net.now_ms, &effects);
        ck_assert_int_eq(net_view(&net, 0, 1), over ? MEMBER_ALIVE : MEMBER_SUSPECT);
    }
    secret_free(next);
    talk_end();
}
END_TEST

START_TEST(who_hardly_runs_waits_for_others_up_to_four_times_as_long)
{
    int64_t usual_ms = suspects_after(0), starved_ms = suspects_after(50);
    ck_assert_int_gt(usual_ms, 0);
    ck_assert_int_ge(starved_ms, 2 * usual_ms);
    ck_assert_int_le(starved_ms, 4 * usual_ms + 400);
    ck_assert_int_eq(suspects_after(200), usual_ms); /* not late by three ticks */
}
END_TEST

START_TEST(a_watched_member_that_dies_is_known_dead_within_fifteen_seconds)
{
    for (int lost = 0; lost <= 20; lost += 20) {
        swarm("a_watched_member_that_dies", 60);
        net.loss_percent = (unsigned)lost;
        for (size_t i = 0; i < net.count; i++) {
            struct id near[4];
            for (size_t k = 0; k < 4; k++)
                near[k] = net.nodes[(i + k + (k < 2 ? net.count - 2 : net.count - 1)) %
                                    net.count]
                              .id;
            gossip_watch(net.nodes[i].gossip, near, 4);
        }
        net_run(&net, 10000);
        net_kill(&net, 33);
        int64_t took = net_until(&net, 33, MEMBER_DEAD, 60000);
        printf("watched, %d %% lost: %lld ms\n", lost, (long long)took);
        ck_assert_int_ge(took, 0);
        ck_assert_int_le(took, 15000);
        ck_assert_uint_eq(deaths(), net.count - 1);
        net_close(&net);
    }
}
END_TEST

START_TEST(a_watched_member_is_left_alone_while_it_is_heard)
{
    talk_begin(40, 40);
    gossip_watch(us, &net.nodes[7].id, 1);
    unsigned pings = 0;
    for (int i = 0; i < 200; i++) {
        effects_clear(&effects);
        gossip_heard(us, net.now_ms += 100, &net.nodes[7].id);
        gossip_tick(us, net.now_ms, &effects);
        pings += talk_sent(7, FRAME_PING) != NULL;
    }
    ck_assert_uint_le(pings, 6); /* its turn, of forty, and that one's rounds */
    for (int i = 0; i < 120; i++) {
        effects_clear(&effects);
        gossip_tick(us, net.now_ms += 100, &effects);
        pings += talk_sent(7, FRAME_PING) != NULL;
    }
    ck_assert_uint_ge(pings, 2);
    gossip_watch(us, NULL, 0);
    talk_end();
}
END_TEST

/* consul #5567: one node with a broken network, and the others not much the worse. */
START_TEST(a_node_that_hears_nobody_kills_nobody_and_starts_no_storm)
{
    swarm("a_node_that_hears_nobody", 40);
    uint64_t before = net.sent;
    net_run(&net, 60000);
    uint64_t quiet = net.sent - before;
    for (size_t i = 0; i < net.count; i++)
        net_cut(&net, i, 3, true); /* it is heard, and hears nothing */
    before = net.sent;
    net_run(&net, 60000);
    uint64_t storm = net.sent - before;
    printf("quiet %llu frames, with a deaf one %llu\n", (unsigned long long)quiet,
           (unsigned long long)storm);
    ck_assert_uint_le(storm, 20 * quiet);
    for (size_t i = 0; i < net.count; i++)
        for (size_t k = 0; k < net.count; k++)
            if (i != 3 && k != 3 && k != i)
                ck_assert_int_ne(net_view(&net, i, k), MEMBER_DEAD);
    memset(net.cut, 0, sizeof(net.cut));
    ck_assert_int_ge(net_until_whole(&net, 30000), 0);
    net_close(&net);
}
END_TEST

/* One-way and 80 % loss on a tenth of the nodes (Rapid's case, memberlist #145). */
START_TEST(a_flapping_tenth_does_not_take_the_others_along)
{
    swarm("a_flapping_tenth", 40);
    struct rng rng = {.seed = 5};
    for (int second = 0; second < 120; second++) {
        for (size_t bad = 0; bad < 4; bad++)
            for (size_t i = 4; i < net.count; i++)
                net.cut[i][bad] = rng_below(&rng, 100) < 80; /* toward them only */
        net_run(&net, 1000);
    }
    for (size_t i = 4; i < net.count; i++)
        for (size_t k = 4; k < net.count; k++)
            if (i != k)
                ck_assert_int_ne(net_view(&net, i, k), MEMBER_DEAD);
    memset(net.cut, 0, sizeof(net.cut));
    ck_assert_int_ge(net_until_whole(&net, 30000), 0);
    net_close(&net);
}
END_TEST

START_TEST(a_third_that_dies_at_once_is_known_dead_by_all)
{
    swarm("a_third_that_dies_at_once", 63);
    for (size_t i = 0; i < 21; i++)
        net_kill(&net, 3 * i);
    int64_t begun_ms = net.now_ms;
    size_t known = 0;
    while (known < 21 && net.now_ms - begun_ms < 120000) {
        net_run(&net, 500);
        known = 0;
        for (size_t i = 0; i < 21; i++) {
            bool all = true;
            for (size_t k = 0; k < net.count; k++)
                all = all && (k % 3 == 0 || net_view(&net, k, 3 * i) == MEMBER_DEAD);
            known += all;
        }
    }
    printf("a third known dead after %lld ms\n", (long long)(net.now_ms - begun_ms));
    ck_assert_int_le(net.now_ms - begun_ms, 45000);
    ck_assert_uint_eq(deaths(), 21 * 42);
    net_close(&net);
}
END_TEST

START_TEST(a_seed_is_never_forgotten_and_heals_a_partition_of_a_day)
{
    net_open(&net, 1, 2);
    net_start_all(&net);
    ck_assert_int_ge(net_until_whole(&net, 20000), 0);
    gossip_keep(net.nodes[1].gossip,
                gossip_member_self(net.nodes[0].gossip)->record->address);
    net.cut[0][1] = net.cut[1][0] = true;
    net_run(&net, INT64_C(26) * 3600 * 1000);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_UNKNOWN);
    ck_assert_int_eq(net_view(&net, 1, 0), MEMBER_DEAD);
    net.cut[0][1] = net.cut[1][0] = false;
    ck_assert_int_ge(net_until_whole(&net, 30000), 0);
    net_close(&net);
}
END_TEST

Suite *
suite_suspect(void)
{
    Suite *suite = suite_create("suspect");
    TCase *tests = suite_case(suite, "death", 180);
    tcase_add_test(tests, who_hardly_runs_waits_for_others_up_to_four_times_as_long);
    tcase_add_test(tests, one_accuser_alone_kills_nobody_where_others_could_say_so);
    tcase_add_test(tests, what_is_said_by_a_secret_that_is_over_is_dropped);
    tcase_add_test(tests,
                   a_watched_member_that_dies_is_known_dead_within_fifteen_seconds);
    tcase_add_test(tests, a_watched_member_is_left_alone_while_it_is_heard);
    tcase_add_test(tests, a_third_that_dies_at_once_is_known_dead_by_all);
    tests = suite_case(suite, "life", 180);
    tcase_add_test(tests, a_node_that_hears_nobody_kills_nobody_and_starts_no_storm);
    tcase_add_test(tests, a_flapping_tenth_does_not_take_the_others_along);
    tcase_add_test(tests, a_seed_is_never_forgotten_and_heals_a_partition_of_a_day);
    return suite;
}
