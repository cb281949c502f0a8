#include "gossip/agree_state.h"
#include "tests/gossip/council.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_agree_sim(void);

enum { DELAY_MS = 20 };

static struct council *
council_of(int members, uint64_t seed)
{
    struct council *net = council_new(seed, members);
    net->delay_ms = DELAY_MS;
    net->judge_ms = 10;
    council_grow(net, members);
    ck_assert_str_eq(net->history->wrong, "");
    return net;
}

/* The node that is voter `at` of the newest decree. */
static int
voter(const struct council *net, uint32_t at)
{
    const struct agree *agree = net->nodes[council_leader(net)].agree;
    for (int i = 0; i < net->count; i++)
        if (id_equal(&net->nodes[i].id, &agree_decree(agree)->voters[at]))
            return i;
    ck_abort_msg("voter %u is unknown", at);
    return -1;
}

/* ---- chaos ---- */

static void
one_mishap(struct council *net, int leavers)
{
    int node = (int)rng_below(&net->rng, (uint64_t)net->count);
    struct council_node *its = &net->nodes[node];
    unsigned all = (1u << net->count) - 1;
    unsigned side = (unsigned)rng_below(&net->rng, all + 1);
    switch (rng_below(&net->rng, 11)) {
    case 0:
        if (its->agree)
            council_crash(net, node);
        break;
    case 1:
    case 2:
    case 7:
        for (int i = 0; i < net->count; i++)
            if (!net->nodes[i].agree && rng_below(&net->rng, 2))
                council_start(net, i);
        break;
    case 3:
        council_split(net, side, all & ~side, true);
        break;
    case 4:
    case 8:
    case 9:
        council_split(net, all, all, false);
        for (int i = 0; i < net->count; i++)
            net->nodes[i].stopped = false;
        break;
    case 5:
        its->stopped = its->agree && !its->stopped;
        break;
    case 6: /* one direction */
        net->cut[node][rng_below(&net->rng, (uint64_t)net->count)] = true;
        break;
    default:
        if (node >= net->count - leavers && its->boots > 0)
            its->wanted = !its->wanted;
        break;
    }
}

static void
all_well(struct council *net)
{
    unsigned all = (1u << net->count) - 1;
    council_split(net, all, all, false);
    net->loss_percent = net->twice_percent = net->wrong_percent = 0;
    net->job_permille = 0;
    net->crash_permille = 0;
    for (int i = 0; i < net->count; i++) {
        net->nodes[i].stopped = false;
        if (!net->nodes[i].agree)
            council_start(net, i);
        net->nodes[i].wanted = true;
    }
}

static uint64_t
chaos(uint64_t seed, uint64_t *frames)
{
    struct rng rng = {.seed = seed, .stream = 1};
    struct council *net = council_new(seed, 1 + (int)rng_below(&rng, 7));
    net->delay_ms = (int64_t)rng_below(&rng, 60);
    net->jitter_ms = (int64_t)rng_below(&rng, 80);
    net->judge_ms = (int64_t)rng_below(&rng, 120);
    net->loss_percent = rng_below(&rng, 2) ? (int)rng_below(&rng, 25) : 0;
    net->twice_percent = rng_below(&rng, 2) ? (int)rng_below(&rng, 25) : 0;
    net->wrong_percent = rng_below(&rng, 4) ? 0 : (int)rng_below(&rng, 20);
    net->crash_permille = rng_below(&rng, 2) ? (int)rng_below(&rng, 6) : 0;
    net->evidence = rng_below(&rng, 4) > 0;
    net->propose = true;
    net->job_permille = (int)rng_below(&rng, 20);
    int64_t calm_ms = 200 + (int64_t)rng_below(&rng, 4000);
    council_found(net, 0);
    int64_t end = net->now_ms + 30000;
    while (net->now_ms < end && !net->history->wrong[0]) {
        one_mishap(net, net->count / 2);
        council_run(net, 50 + (int64_t)rng_below(&net->rng, (uint64_t)calm_ms));
    }
    /* A founder that crashed before its first write has founded nothing. */
    bool founded = net->history->chains[0].newest > 0;
    if (!founded && !net->history->wrong[0] && net->count > 0) {
        council_free(net);
        return 0;
    }
    all_well(net);
    int64_t took = council_settle(net, (1u << net->count) - 1, 30000);
    if (took < 0)
        for (int i = 0; i < net->count; i++)
            council_print(net, i);
    if (net->history->wrong[0] || took < 0)
        ck_abort_msg("seed %llu: %s", (unsigned long long)seed,
                     net->history->wrong[0] ? net->history->wrong : "did not settle");
    uint64_t trace = rng_mix(net->history->chains[0].newest, net->frames);
    for (uint64_t e = 1; e <= net->history->chains[0].newest; e++)
        trace = rng_mix(trace, id_prefix(&net->history->chains[0].hash[e]));
    *frames += net->frames;
    council_free(net);
    return trace;
}

START_TEST(any_faults_leave_one_chain_of_decrees_and_it_goes_on_when_they_end)
{
    uint64_t base = suite_seed("agree", 1), frames = 0;
    const char *many = getenv("FLOTILLA_SEEDS");
    uint64_t count = many ? strtoull(many, NULL, 10) : 200;
    for (uint64_t seed = base; seed < base + count; seed++)
        chaos(seed, &frames);
    printf("%llu seeds, %llu frames\n", (unsigned long long)count,
           (unsigned long long)frames);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_run)
{
    uint64_t frames = 0;
    for (uint64_t seed = 40; seed < 44; seed++)
        ck_assert_uint_eq(chaos(seed, &frames), chaos(seed, &frames));
}
END_TEST

/* ---- losses and splits ---- */

START_TEST(a_swarm_shrinks_one_by_one_to_the_last)
{
    struct council *net = council_of(5, 11);
    unsigned left = 31;
    while (left & (left - 1)) {
        /* The leader each time; of the last two the second voter. */
        int victim = __builtin_popcount(left) > 2 ? council_leader(net) : voter(net, 1);
        council_crash(net, victim);
        left &= ~(1u << victim);
        int64_t took = council_settle(net, left, 6000);
        ck_assert_str_eq(net->history->wrong, "");
        ck_assert_int_ge(took, 0);
    }
    council_free(net);
}
END_TEST

START_TEST(first_of_two_survives_the_second)
{
    struct council *net = council_of(2, 3);
    int first = voter(net, 0), second = voter(net, 1);
    council_crash(net, second);
    ck_assert_int_ge(council_settle(net, 1u << first, 5000), 0);
    ck_assert(net->nodes[first].quorum);
    council_free(net);
}
END_TEST

START_TEST(second_of_two_pauses_without_the_first_and_goes_on_when_it_is_back)
{
    struct council *net = council_of(2, 3);
    int first = voter(net, 0), second = voter(net, 1);
    uint64_t epoch = council_epoch(net, second);
    council_crash(net, first);
    council_run(net, 3000);
    uint64_t term = agree_term(net->nodes[second].agree);
    council_run(net, 20000);
    ck_assert(!net->nodes[second].quorum);
    ck_assert_uint_eq(council_epoch(net, second), epoch);
    ck_assert_uint_eq(agree_term(net->nodes[second].agree), term);
    ck_assert(agree_role(net->nodes[second].agree) == AGREE_PRECANDIDATE);
    council_start(net, first);
    ck_assert_int_ge(council_settle(net, 3, 6000), 0);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

/* Cut a side off; `on`: it goes on and the other pauses. */
static void
split_and_heal(int members, unsigned on)
{
    struct council *net = council_of(members, 21);
    unsigned all = (1u << members) - 1, side = 0;
    for (int i = 0; i < members; i++)
        if (on >> i & 1)
            side |= 1u << voter(net, (uint32_t)i);
    uint64_t epoch = council_epoch(net, council_leader(net));
    council_split(net, side, all & ~side, true);
    ck_assert_int_ge(council_settle(net, side, 8000), 0);
    council_run(net, 10000);
    for (int i = 0; i < members; i++) {
        bool goes_on = side >> i & 1;
        ck_assert(net->nodes[i].quorum == goes_on);
        ck_assert(goes_on ? council_epoch(net, i) > epoch
                          : council_epoch(net, i) == epoch);
    }
    council_split(net, side, all & ~side, false);
    ck_assert_int_ge(council_settle(net, all, 5000), 0);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}

START_TEST(of_two_halves_the_one_with_the_first_voter_goes_on)
{
    split_and_heal(4, 3);
    split_and_heal(4, 9);
}
END_TEST

START_TEST(of_three_and_two_the_three_go_on)
{
    split_and_heal(5, 28); /* the first voter, that leads, is cut off */
    split_and_heal(5, 7);
}
END_TEST

START_TEST(a_minority_raises_no_term)
{
    struct council *net = council_of(5, 8);
    int alone = voter(net, 4);
    uint64_t term = agree_term(net->nodes[alone].agree);
    council_split(net, 1u << alone, 31u & ~(1u << alone), true);
    council_run(net, 30000);
    ck_assert_uint_eq(net->nodes[alone].agree != NULL, 1);
    ck_assert_uint_eq(agree_term(net->nodes[alone].agree), term);
    ck_assert_uint_eq(agree_term(net->nodes[council_leader(net)].agree), term);
    council_free(net);
}
END_TEST

START_TEST(who_cannot_hear_the_leader_does_not_unseat_it)
{
    struct council *net = council_of(4, 9);
    int leader = council_leader(net), deaf = voter(net, 3);
    ck_assert_int_ne(leader, deaf);
    net->evidence = net->propose = false;
    uint64_t term = agree_term(net->nodes[leader].agree);
    net->cut[leader][deaf] = true;
    council_run(net, 20000);
    ck_assert_int_eq(council_leader(net), leader);
    ck_assert_uint_eq(agree_term(net->nodes[leader].agree), term);
    council_free(net);
}
END_TEST

START_TEST(a_leader_that_hung_comes_back_as_a_follower)
{
    struct council *net = council_of(3, 10);
    int hung = council_leader(net);
    net->nodes[hung].stopped = true;
    ck_assert_int_ge(council_settle(net, 7u & ~(1u << hung), 6000), 0);
    net->nodes[hung].stopped = false;
    ck_assert_int_ge(council_settle(net, 7, 5000), 0);
    ck_assert_int_ne(council_leader(net), hung);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

START_TEST(a_leader_that_restarts_at_once_does_not_wedge_the_rest)
{
    struct council *net = council_of(3, 12);
    for (int round = 0; round < 5; round++) {
        int leader = council_leader(net);
        council_crash(net, leader);
        council_start(net, leader);
        ck_assert_int_ge(council_settle(net, 7, 8000), 0);
    }
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

START_TEST(voters_whose_terms_are_far_apart_meet)
{
    struct council *net = council_of(3, 17);
    int far = voter(net, 2), leader = council_leader(net);
    net->nodes[far].agree->promised += 40ull << 20; /* what no honest run does */
    struct effects effects = {0};
    agree_persist(net->nodes[far].agree, &effects);
    council_carry(net, far, &effects);
    council_crash(net, leader);
    ck_assert_int_ge(council_settle(net, 7u & ~(1u << leader), 30000), 0);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

START_TEST(who_was_removed_learns_it)
{
    struct council *net = council_of(4, 13);
    int out = voter(net, 3);
    net->nodes[out].wanted = false;
    ck_assert_int_ge(council_settle(net, 15u & ~(1u << out), 5000), 0);
    council_run(net, 1500);
    ck_assert_uint_eq(council_epoch(net, out), council_epoch(net, council_leader(net)));
    ck_assert(agree_role(net->nodes[out].agree) == AGREE_OBSERVER);
    ck_assert(!agree_quorum(net->nodes[out].agree));
    council_free(net);
}
END_TEST

START_TEST(a_leader_that_leaves_hands_over_at_once)
{
    struct council *net = council_of(4, 14);
    int leaves = council_leader(net);
    struct effects effects = {0};
    net->nodes[leaves].wanted = false;
    agree_resign(net->nodes[leaves].agree, net->now_ms, &effects);
    council_carry(net, leaves, &effects);
    int64_t took = council_settle(net, 15u & ~(1u << leaves), 5000);
    ck_assert_int_ge(took, 0);
    ck_assert_int_lt(took, 600);
    council_free(net);
}
END_TEST

/* ---- how long it takes ---- */

/* A dead leader's replacement and the epoch without it, in ms. */
static int64_t
failover(bool evidence, uint64_t seed)
{
    struct council *net = council_of(4, seed);
    for (int i = 0; i < net->count; i++)
        net->nodes[i].patience_ms = evidence ? 5 : 100000;
    net->evidence = evidence;
    int dead = council_leader(net);
    council_crash(net, dead);
    net->nodes[dead].wanted = false;
    int64_t took = council_settle(net, 15u & ~(1u << dead), 10000);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
    return took;
}

START_TEST(with_evidence_a_dead_leader_is_replaced_within_half_a_second)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t took = failover(true, seed);
        ck_assert_msg(took >= 0 && took < 500, "seed %d: %d ms", (int)seed, (int)took);
    }
}
END_TEST

START_TEST(by_silence_alone_it_is_replaced_within_three_seconds)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t took = failover(false, seed);
        ck_assert_msg(took > 1500 && took < 3000, "seed %d: %d ms", (int)seed, (int)took);
    }
}
END_TEST

START_TEST(epoch_after_epoch_takes_one_round_trip_each)
{
    struct council *net = council_of(4, 15);
    uint64_t epoch = council_epoch(net, council_leader(net));
    net->judge_ms = 0;
    net->job_permille = 1000;
    council_run(net, 5000);
    uint64_t epochs = council_epoch(net, council_leader(net)) - epoch;
    ck_assert_msg(epochs >= 100, "%d epochs in 5 s", (int)epochs);
    ck_assert_str_eq(net->history->wrong, "");
    council_free(net);
}
END_TEST

/* ---- the history itself ---- */

/*
 * That the invariants bite. These forge histories that break each. Beyond them, agreement
 * was broken by hand, one line at a time, and the chaos above was run over it: ignoring
 * what was accepted (I4), a promise that is not in the blob (I3), half as a quorum (I1),
 * counting one empty vote as proof that nothing was chosen (I4) each failed within 40
 * seeds. What it did not find in 300 seeds (a leader that adopted and stays open, a
 * commit that does not raise the promise) fails in tests/model and has unit tests in
 * test_agree.c.
 */
static struct decree
forged(uint64_t epoch, const struct id *previous, uint8_t body)
{
    struct decree decree = {.epoch = epoch,
                            .previous = *previous,
                            .cause = epoch == 1 ? CAUSE_FOUNDING : CAUSE_JOB,
                            .members_count = 1,
                            .members = xcalloc(1, sizeof(*decree.members)),
                            .voters_count = 1,
                            .body = xmemdup(&body, 1),
                            .body_len = 1};
    decree.members[0].id.bytes[0] = 1;
    decree.voters[0] = decree.members[0].id;
    key_hash(&body, 1, &decree.body_hash);
    return decree;
}

static void
commit_forged(struct history *history, int node, uint64_t epoch,
              const struct id *previous, uint8_t body, struct id *hash)
{
    struct decree decree = forged(epoch, previous, body);
    decree_hash(&decree, hash);
    history_commit(history, node, &decree, hash, 1, NULL);
    decree_release(&decree);
}

static void
breaks(struct history *history, const char *rule)
{
    ck_assert_msg(strstr(history->wrong, rule) == history->wrong, "%s expected: \"%s\"",
                  rule, history->wrong);
    history_free(history);
}

START_TEST(a_forged_history_is_noticed)
{
    struct id nonce = {{1}}, other = {{2}}, hash, second;
    struct history *history = history_new();
    commit_forged(history, 0, 1, &nonce, 1, &hash);
    commit_forged(history, 1, 1, &nonce, 1, &hash);
    commit_forged(history, 0, 2, &hash, 2, &second);
    ck_assert_str_eq(history->wrong, "");
    commit_forged(history, 1, 2, &hash, 3, &second);
    breaks(history, "I1");

    history = history_new();
    commit_forged(history, 0, 1, &nonce, 1, &hash);
    commit_forged(history, 0, 2, &other, 2, &second);
    breaks(history, "I2");

    history = history_new();
    commit_forged(history, 0, 1, &nonce, 1, &hash);
    commit_forged(history, 0, 3, &hash, 2, &second);
    breaks(history, "I2");

    history = history_new();
    history_vote(history, 0, 5, 1);
    history_vote(history, 0, 5, 1);
    history_vote(history, 0, 5, 2);
    breaks(history, "I3");

    history = history_new();
    history_vote(history, 0, 5, 1);
    history_accept(history, 0, 2, 4, &hash);
    breaks(history, "I3");

    history = history_new();
    history_accept(history, 0, 2, 4, &hash);
    history_accept(history, 1, 2, 4, &hash);
    history_accept(history, 0, 2, 4, &other);
    breaks(history, "nodes 0 and 0");

    history = history_new();
    history_propose(history, 0, 2, 4, &hash);
    history_propose(history, 1, 2, 4, &other);
    breaks(history, "nodes 0 and 1");

    history = history_new();
    commit_forged(history, 0, 1, &nonce, 1, &hash);
    history_propose(history, 1, 1, 2, &other);
    breaks(history, "I4");

    history = history_new();
    history_leads(history, 0, 3, 4);
    history_leads(history, 1, 4, 4);
    ck_assert_str_eq(history->wrong, "");
    history_leads(history, 1, 3, 4);
    breaks(history, "I9");
}
END_TEST

START_TEST(a_commit_without_a_quorum_is_noticed)
{
    /* A certificate of the decree before, passed off as this one's. */
    struct council *net = council_of(3, 16);
    const struct agree *agree = net->nodes[council_leader(net)].agree;
    struct buf certified = {0};
    agree_export(agree, &certified);
    struct history *history = history_new();
    struct id nonce = {{1}}, hash;
    commit_forged(history, 0, 1, &nonce, 1, &hash);
    struct decree decree = forged(2, &hash, 2);
    decree_hash(&decree, &hash);
    history_commit(history, 0, &decree, &hash, 1, &certified);
    breaks(history, "I7");
    decree_release(&decree);
    buf_release(&certified);
    council_free(net);
}
END_TEST

Suite *
suite_agree_sim(void)
{
    Suite *suite = suite_create("agree_sim");
    TCase *t = suite_case(suite, "chaos", 240);
    tcase_add_test(t, any_faults_leave_one_chain_of_decrees_and_it_goes_on_when_they_end);
    tcase_add_test(t, the_same_seed_gives_the_same_run);
    t = suite_case(suite, "losses", 60);
    tcase_add_test(t, a_swarm_shrinks_one_by_one_to_the_last);
    tcase_add_test(t, first_of_two_survives_the_second);
    tcase_add_test(t, second_of_two_pauses_without_the_first_and_goes_on_when_it_is_back);
    tcase_add_test(t, of_two_halves_the_one_with_the_first_voter_goes_on);
    tcase_add_test(t, of_three_and_two_the_three_go_on);
    tcase_add_test(t, a_minority_raises_no_term);
    tcase_add_test(t, who_cannot_hear_the_leader_does_not_unseat_it);
    tcase_add_test(t, a_leader_that_hung_comes_back_as_a_follower);
    tcase_add_test(t, a_leader_that_restarts_at_once_does_not_wedge_the_rest);
    tcase_add_test(t, voters_whose_terms_are_far_apart_meet);
    tcase_add_test(t, who_was_removed_learns_it);
    tcase_add_test(t, a_leader_that_leaves_hands_over_at_once);
    t = suite_case(suite, "speed", 60);
    tcase_add_test(t, with_evidence_a_dead_leader_is_replaced_within_half_a_second);
    tcase_add_test(t, by_silence_alone_it_is_replaced_within_three_seconds);
    tcase_add_test(t, epoch_after_epoch_takes_one_round_trip_each);
    t = suite_case(suite, "history", 60);
    tcase_add_test(t, a_forged_history_is_noticed);
    tcase_add_test(t, a_commit_without_a_quorum_is_noticed);
    return suite;
}
