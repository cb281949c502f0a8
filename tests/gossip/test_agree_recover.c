#include "tests/gossip/hearing.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_agree_recover(void);

enum { ALL = 31, LOST = 7, LEFT = 24 }; /* of five */

/* Five, three of whom die: the two that are left decide nothing. */
static struct council *
bereaved(uint64_t seed)
{
    struct council *net = council_new(seed, 5);
    net->delay_ms = 20;
    council_grow(net, 5);
    for (int i = 0; i < 3; i++)
        council_crash(net, i);
    council_run(net, 10000);
    ck_assert_int_eq(council_leader(net), -1);
    ck_assert_str_eq(net->history->wrong, "");
    return net;
}

START_TEST(two_of_five_go_on_after_a_recovery_and_fence_the_others)
{
    struct council *net = bereaved(1);
    uint64_t epoch = council_epoch(net, 3);
    council_recover(net, 3, LEFT);
    const struct decree *decree = agree_decree(net->nodes[3].agree);
    ck_assert_uint_eq(decree->generation, 1);
    ck_assert_uint_eq(epoch_number(decree->epoch), epoch_number(epoch) + 1);
    ck_assert(decree->cause == CAUSE_RECOVERY);
    ck_assert_uint_eq(decree->voters_count, 2);
    ck_assert_int_ge(council_settle(net, LEFT, 6000), 0);
    ck_assert_uint_eq(epoch_generation(council_epoch(net, 4)), 1);

    /* The three come back, a majority of the old voters: they decide nothing any more. */
    for (int i = 0; i < 3; i++)
        council_start(net, i);
    council_run(net, 1500);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(epoch_generation(council_epoch(net, i)), 1);
    for (int i = 0; i < 3; i++)
        net->nodes[i].wanted = true;
    ck_assert_int_ge(council_settle(net, ALL, 10000), 0);
    ck_assert_str_eq(net->history->wrong, "");
    ck_assert_int_eq(net->rivals, 0);
    council_free(net);
}
END_TEST

START_TEST(a_survivor_that_was_further_than_who_recovers_follows_all_the_same)
{
    struct council *net = council_new(2, 5);
    net->delay_ms = 20;
    council_grow(net, 5);
    net->evidence = false;
    /* Node 4 misses some epochs; then only it and node 3 are left. */
    council_split(net, 15, 16, true);
    uint64_t before = council_epoch(net, 4);
    for (int i = 0; i < 3; i++) {
        net->job_permille = 1000;
        council_run(net, 400);
    }
    net->job_permille = 0;
    ck_assert_uint_gt(council_epoch(net, 3), before + 2);
    for (int i = 0; i < 3; i++)
        council_crash(net, i);
    council_recover(net, 4, LEFT);
    council_split(net, ALL, ALL, false);
    ck_assert_int_ge(council_settle(net, LEFT, 10000), 0);
    ck_assert_uint_eq(council_epoch(net, 3), council_epoch(net, 4));
    ck_assert_uint_eq(epoch_generation(council_epoch(net, 3)), 1);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

START_TEST(a_generation_outlives_restarts_and_reaches_joiners_and_the_long_absent)
{
    struct council *net = bereaved(3);
    council_recover(net, 4, 16);
    ck_assert_int_ge(council_settle(net, 16, 6000), 0);
    council_crash(net, 4);
    council_start(net, 4);
    ck_assert_int_ge(council_settle(net, 16, 6000), 0);
    ck_assert_uint_eq(net->nodes[4].agree->decree.generation, 1);
    ck_assert_uint_gt(net->nodes[4].agree->root.len, 0);
    /* So many epochs that the recovery is out of the chain. */
    net->job_permille = 1000;
    while (epoch_number(council_epoch(net, 4)) < 100)
        council_run(net, 50);
    net->job_permille = 0;
    ck_assert_uint_eq(net->nodes[4].agree->chain.count, AGREE_LINKS_MAX);
    net->nodes[3].wanted = true;
    council_start(net, 0); /* was a voter of the old generation, far behind */
    free(net->nodes[1].disk);
    net->nodes[1].disk = NULL;
    net->nodes[1].disk_len = 0;
    council_start(net, 1); /* knows nothing */
    net->nodes[0].wanted = net->nodes[1].wanted = true;
    ck_assert_int_ge(council_settle(net, 1 | 2 | 8 | 16, 15000), 0);
    for (int i = 0; i < 2; i++)
        ck_assert(
            id_equal(&net->nodes[i].agree->root.hash, &net->nodes[4].agree->root.hash));
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

/* Two recoveries to one generation are breaches to a history: it begins anew. */
static void
forget(struct council *net)
{
    struct id admit_id = net->history->admit_id;
    history_free(net->history);
    net->history = history_new();
    net->history->admit_id = admit_id;
}

START_TEST(two_recoveries_are_named_on_both_sides_and_a_third_ends_it)
{
    struct council *net = bereaved(4);
    net->lawless = true;
    council_split(net, 8, 16, true);
    council_recover(net, 3, 8);
    council_run(net, 1000);
    forget(net);
    council_recover(net, 4, 16);
    council_run(net, 1000);
    ck_assert_int_eq(net->rivals, 0);
    struct id roots[2] = {net->nodes[3].agree->root.hash, net->nodes[4].agree->root.hash};
    ck_assert(!id_equal(&roots[0], &roots[1]));

    council_split(net, ALL, ALL, false);
    struct buf body = {0};
    for (int i = 0; i < 2; i++) { /* each tells the other, as a leader tells a joiner */
        struct err err;
        struct effects effects = {0};
        agree_export(net->nodes[3 + i].agree, &body);
        struct frame frame = {.kind = FRAME_COMMIT,
                              .swarm = net->nodes[3].agree->swarm,
                              .from = net->nodes[3 + i].id,
                              .to = net->nodes[4 - i].id,
                              .body = body.data,
                              .body_len = body.len};
        ck_assert_int_eq(
            agree_receive(net->nodes[4 - i].agree, net->now_ms, &frame, &effects, &err),
            -1);
        ck_assert_int_eq(err.code, ERR_AUTH);
        ck_assert_ptr_nonnull(strstr(err.msg, "recovered twice"));
        ck_assert(effects.list[0].kind == EFFECT_RIVAL);
        ck_assert(id_equal(&effects.list[0].hash, &roots[i]));
        ck_assert_ptr_nonnull(
            strstr(effects.list[0].text, id_short(&roots[0], (char[ID_SHORT_SIZE]){0})));
        ck_assert_ptr_nonnull(
            strstr(effects.list[0].text, id_short(&roots[1], (char[ID_SHORT_SIZE]){0})));
        effects_clear(&effects); /* not again at once */
        ck_assert_int_eq(
            agree_receive(net->nodes[4 - i].agree, net->now_ms, &frame, &effects, &err),
            -1);
        ck_assert_uint_eq(effects.count, 0);
        effects_release(&effects);
        buf_clear(&body);
    }
    buf_release(&body);
    ck_assert(id_equal(&roots[0], &net->nodes[3].agree->root.hash));
    ck_assert(id_equal(&roots[1], &net->nodes[4].agree->root.hash));

    forget(net);
    council_recover(net, 4, 24); /* again, where it is to live */
    net->nodes[3].wanted = true;
    ck_assert_int_ge(council_settle(net, 24, 6000), 0);
    ck_assert_uint_eq(net->nodes[3].agree->decree.generation, 2);
    council_free(net);
}
END_TEST

/* ---- what makes a recovery ---- */

static void
nobody_signs(void *arg, const void *bytes, size_t len,
             uint8_t signature[KEY_SIGNATURE_BYTES])
{
    (void)bytes;
    (void)len;
    memset(signature, *(const int *)arg, KEY_SIGNATURE_BYTES);
}

static void
key_signs(void *arg, const void *bytes, size_t len,
          uint8_t signature[KEY_SIGNATURE_BYTES])
{
    key_sign(arg, bytes, len, signature);
}

START_TEST(only_the_secret_makes_a_recovery)
{
    struct hearing hearing = hearing_new(3);
    struct council *net = hearing.net;
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct decree_member self = {.id = agree->self, .incarnation = 1ull << 32};
    struct decree_member other = {.id = net->nodes[OTHER].id, .incarnation = 1ull << 32};
    int zero = 0;
    uint64_t epoch = agree->decree.epoch;
    ck_assert_int_eq(agree_recover(agree, net->now_ms, &self, 1, "x", 1, nobody_signs,
                                   &zero, &hearing.effects, &hearing.err),
                     -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    ck_assert_int_eq(agree_recover(agree, net->now_ms, &self, 1, "x", 1, key_signs,
                                   net->nodes[VOTER].key, &hearing.effects, &hearing.err),
                     -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    ck_assert_int_eq(agree_recover(agree, net->now_ms, &other, 1, "x", 1, key_signs,
                                   net->admission, &hearing.effects, &hearing.err),
                     -1);
    ck_assert_int_eq(hearing.err.code, ERR_USAGE);
    ck_assert_uint_eq(hearing.effects.count, 0);
    ck_assert_uint_eq(agree->decree.epoch, epoch);
    agree_authority(agree, NULL, 0);
    ck_assert_int_eq(agree_recover(agree, net->now_ms, &self, 1, "x", 1, key_signs,
                                   net->admission, &hearing.effects, &hearing.err),
                     -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    /* The new secret, or the one before it. */
    struct id ids[2] = {*key_id(net->nodes[VOTER].key), *key_id(net->admission)};
    agree_authority(agree, ids, 2);
    ck_assert_int_eq(agree_recover(agree, net->now_ms, &self, 1, "x", 1, key_signs,
                                   net->admission, &hearing.effects, &hearing.err),
                     0);
    ck_assert(hearing_effect(&hearing, EFFECT_PERSIST) <
              hearing_effect(&hearing, EFFECT_COMMITTED));
    ck_assert(hearing_effect(&hearing, EFFECT_PERSIST) <
              hearing_frame(&hearing, FRAME_COMMIT));
    ck_assert(agree_role(agree) != AGREE_LEADER);
    hearing_end(&hearing);
}
END_TEST

/* A COMMIT with this link as its only one, and as its root. */
static int
hear_recovery(struct hearing *hearing, int to, const struct decree *decree,
              const struct certificate *certificate)
{
    struct buf link = {0};
    link_encode(decree, certificate, &link);
    struct commit message = {.all = true,
                             .count = 1,
                             .links[0] = {.bytes = link.data, .len = link.len},
                             .body = decree->body,
                             .body_len = decree->body_len,
                             .root = link.data,
                             .root_len = link.len};
    commit_encode(&message, &hearing->body);
    buf_release(&link);
    return hearing_hear(hearing, to, OTHER, FRAME_COMMIT);
}

START_TEST(a_forged_or_foreign_recovery_is_refused)
{
    struct hearing hearing = hearing_new(3);
    struct council *net = hearing.net;
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct decree decree = hearing_next(agree, "again");
    decree.cause = CAUSE_RECOVERY;
    decree.generation = 1;
    decree.epoch = 1ull << EPOCH_NUMBER_BITS | 50;
    struct certificate certificate = {.term = 9, .mask = 1};
    struct id hash;
    decree_hash(&decree, &hash);
    accept_sign(net->nodes[OTHER].key, &decree, &hash, 9, certificate.signatures[0]);
    ck_assert_int_eq(hear_recovery(&hearing, VOTER, &decree, &certificate), -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    accept_sign(net->admission, &decree, &hash, 9, certificate.signatures[0]);
    struct decree foreign = decree;
    foreign.swarm.bytes[0] ^= 1;
    decree_hash(&foreign, &hash);
    struct certificate signed_foreign = {.term = 9, .mask = 1};
    accept_sign(net->admission, &foreign, &hash, 9, signed_foreign.signatures[0]);
    ck_assert_int_eq(hear_recovery(&hearing, VOTER, &foreign, &signed_foreign), -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    certificate.term = 10; /* another than was signed */
    ck_assert_int_eq(hear_recovery(&hearing, VOTER, &decree, &certificate), -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    certificate.term = 9;
    decree.generation = 2; /* not its epoch's */
    ck_assert_int_eq(hear_recovery(&hearing, VOTER, &decree, &certificate), -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    decree.generation = 1;
    ck_assert_uint_eq(agree->decree.generation, 0);
    ck_assert_uint_eq(hearing.effects.count, 0);

    uint64_t term = agree_term(agree);
    ck_assert_int_eq(hear_recovery(&hearing, VOTER, &decree, &certificate), 0);
    ck_assert_uint_eq(agree->decree.generation, 1);
    ck_assert_uint_eq(agree->promised, 9 > term ? 9 : term);
    ck_assert(id_empty(agree_leader(agree)));

    /* It is not proposed, in any term. */
    struct decree next = hearing_next(agree, "third");
    next.cause = CAUSE_RECOVERY;
    ck_assert_int_eq(
        hearing_propose(&hearing, VOTER, OTHER, agree_term(agree) + 1, &next, &hash), -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    decree_release(&decree);
    hearing_end(&hearing);
}
END_TEST

START_TEST(what_an_older_generation_says_counts_for_nothing)
{
    struct hearing hearing = hearing_new(3);
    struct council *net = hearing.net;
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct decree old = hearing_next(agree, "old");
    struct vote_ask ask = {
        .term = agree_term(agree) + 5, .epoch = agree->decree.epoch, .hash = agree->hash};
    struct beat beat = {
        .term = agree_term(agree) + 5, .epoch = agree->decree.epoch, .hash = agree->hash};
    council_recover(net, VOTER, 1u << VOTER | 1u << OTHER);
    uint64_t promised = agree->promised;
    struct id hash;
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, promised + 4, &old, &hash),
                     0);
    ck_assert(hearing_rejected(&hearing).reason == REASON_STALE_EPOCH);
    vote_ask_encode(&ask, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_VOTE), 0);
    const struct effect *reply = hearing_frame(&hearing, FRAME_VOTE_REPLY);
    struct vote_reply vote;
    ck_assert_int_eq(vote_reply_decode(reply->bytes, reply->len, &vote, &hearing.err), 0);
    ck_assert(vote.reason == REASON_STALE_EPOCH);
    net->now_ms += 200;
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_BEAT), 0);
    ck_assert_ptr_nonnull(hearing_frame(&hearing, FRAME_COMMIT)); /* it learns why */
    ck_assert(id_empty(agree_leader(agree)));
    ck_assert_uint_eq(agree->promised, promised);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_generation_on_disk_without_its_recovery_is_refused)
{
    struct hearing hearing = hearing_new(1);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    council_recover(hearing.net, LEADER, 1);
    root_set(&agree->root, NULL, NULL, 0);
    agree_persist(agree, &hearing.effects);
    const struct effect *saved = hearing_effect(&hearing, EFFECT_PERSIST);
    ck_assert_ptr_null(
        agree_new(&agree->options, 0, saved->bytes, saved->len, &hearing.err));
    ck_assert_int_eq(hearing.err.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(hearing.err.msg, "recovery to its generation 1"));
    hearing_end(&hearing);
}
END_TEST

Suite *
suite_agree_recover(void)
{
    Suite *suite = suite_create("agree_recover");
    TCase *t = suite_case(suite, "council", 60);
    tcase_add_test(t, two_of_five_go_on_after_a_recovery_and_fence_the_others);
    tcase_add_test(t, a_survivor_that_was_further_than_who_recovers_follows_all_the_same);
    tcase_add_test(
        t, a_generation_outlives_restarts_and_reaches_joiners_and_the_long_absent);
    tcase_add_test(t, two_recoveries_are_named_on_both_sides_and_a_third_ends_it);
    t = suite_case(suite, "one node", 30);
    tcase_add_test(t, only_the_secret_makes_a_recovery);
    tcase_add_test(t, a_forged_or_foreign_recovery_is_refused);
    tcase_add_test(t, what_an_older_generation_says_counts_for_nothing);
    tcase_add_test(t, a_generation_on_disk_without_its_recovery_is_refused);
    return suite;
}
