#include "tests/gossip/hearing.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_agree_chain(void);

/* Another epoch, decided by all. */
static void
one_more_epoch(struct hearing *hearing)
{
    struct council *net = hearing->net;
    int leader = council_leader(net);
    uint64_t epoch = council_epoch(net, leader);
    net->job_permille = 1000;
    net->propose = true;
    while (council_epoch(net, leader) == epoch)
        council_run(net, 5);
    net->job_permille = 0;
    net->propose = false;
}

/* ---- certificates ---- */

/* The leader's newest link, taken apart. */
struct newest {
    struct decree decree; /* with its body */
    struct certificate certificate;
};

static int
hear_commit(struct hearing *hearing, int to, const struct newest *newest)
{
    struct buf link = {0};
    link_encode(&newest->decree, &newest->certificate, &link);
    struct commit message = {.count = 1,
                             .links[0] = {.bytes = link.data, .len = link.len},
                             .body = newest->decree.body,
                             .body_len = newest->decree.body_len};
    commit_encode(&message, &hearing->body);
    buf_release(&link);
    return hearing_hear(hearing, to, LEADER, FRAME_COMMIT);
}

START_TEST(a_commit_counts_only_with_the_signatures_of_a_quorum)
{
    struct hearing hearing = hearing_new(5);
    struct council *net = hearing.net;
    int behind = 4;
    uint64_t epoch = council_epoch(net, behind);
    struct decree before;
    decree_copy(&before, agree_decree(hearing_agree(&hearing, behind)));
    council_split(net, 15, 16, true);
    one_more_epoch(&hearing);
    const struct agree *leader = hearing_agree(&hearing, LEADER);
    struct newest good = {.certificate = leader->certificate};
    decree_copy(&good.decree, &leader->decree);

    struct newest bad = good; /* a minority */
    bad.certificate.mask &= bad.certificate.mask - 1;
    while (decree_quorum(&before, bad.certificate.mask))
        bad.certificate.mask &= bad.certificate.mask - 1;
    ck_assert_int_eq(hear_commit(&hearing, behind, &bad), -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    bad = good; /* another term than was signed */
    bad.certificate.term++;
    ck_assert_int_eq(hear_commit(&hearing, behind, &bad), -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    bad = good; /* another decree than was signed */
    bad.decree.cause = CAUSE_SLOW;
    ck_assert_int_eq(hear_commit(&hearing, behind, &bad), -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    bad = good; /* another body */
    uint8_t body[] = "another";
    bad.decree.body = body;
    bad.decree.body_len = sizeof(body);
    ck_assert_int_eq(hear_commit(&hearing, behind, &bad), -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    bad = good; /* a voter that there is not */
    bad.certificate.mask |= 1u << 7;
    ck_assert_int_eq(hear_commit(&hearing, behind, &bad), -1);
    bad = good; /* does not follow ours */
    bad.decree.previous.bytes[3] ^= 4;
    ck_assert_int_eq(hear_commit(&hearing, behind, &bad), -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    ck_assert_uint_eq(council_epoch(net, behind), epoch);
    ck_assert_uint_eq(hearing.effects.count, 0);

    ck_assert_int_eq(hear_commit(&hearing, behind, &good), 0);
    ck_assert_uint_eq(council_epoch(net, behind), epoch + 1);
    ck_assert(hearing_effect(&hearing, EFFECT_PERSIST) <
              hearing_effect(&hearing, EFFECT_COMMITTED));
    ck_assert_int_eq(hear_commit(&hearing, behind, &good), 0); /* twice: nothing */
    ck_assert_uint_eq(hearing.effects.count, 0);
    decree_release(&before);
    decree_release(&good.decree);
    hearing_end(&hearing);
}
END_TEST

START_TEST(whoever_has_the_decree_before_can_verify)
{
    struct hearing hearing = hearing_new(3);
    struct decree before;
    decree_copy(&before, agree_decree(hearing_agree(&hearing, LEADER)));
    one_more_epoch(&hearing);
    struct buf certified = {0};
    struct err err;
    agree_export(hearing_agree(&hearing, LEADER), &certified);
    ck_assert_int_eq(agree_verify(&before, NULL, certified.data, certified.len, &err), 0);
    ck_assert_int_eq(agree_verify(NULL, NULL, certified.data, certified.len, &err), -1);
    ck_assert_int_eq(agree_verify(agree_decree(hearing_agree(&hearing, LEADER)), NULL,
                                  certified.data, certified.len, &err),
                     -1); /* not newer */
    buf_clear(&certified);
    agree_commit_encode(hearing_agree(&hearing, LEADER), before.epoch, &certified);
    for (size_t i = 0; i < certified.len; i += 7) {
        certified.data[i] ^= 0x10;
        ck_assert_int_eq(agree_verify(&before, NULL, certified.data, certified.len, &err),
                         -1);
        certified.data[i] ^= 0x10;
    }
    buf_release(&certified);
    decree_release(&before);
    hearing_end(&hearing);
}
END_TEST

/* ---- catching up ---- */

static void
fall_behind(struct hearing *hearing, int epochs)
{
    council_split(hearing->net, 7, 8, true);
    for (int i = 0; i < epochs; i++)
        one_more_epoch(hearing);
    council_split(hearing->net, 7, 8, false);
}

START_TEST(a_chain_of_links_brings_up_who_is_many_epochs_behind)
{
    struct hearing hearing = hearing_new(4);
    uint64_t epoch = council_epoch(hearing.net, 3);
    hearing.net->evidence = false;
    fall_behind(&hearing, 50);
    council_run(hearing.net, 2500);
    ck_assert_uint_ge(council_epoch(hearing.net, 3), epoch + 50);
    ck_assert_uint_eq(council_epoch(hearing.net, 3), council_epoch(hearing.net, LEADER));
    ck_assert_str_eq(hearing.net->history->wrong, "");
    hearing_end(&hearing);
}
END_TEST

START_TEST(who_is_too_far_behind_refuses_and_says_so_until_it_imports)
{
    struct hearing hearing = hearing_new(4);
    struct council *net = hearing.net;
    uint64_t epoch = council_epoch(net, 3);
    net->evidence = false;
    fall_behind(&hearing, AGREE_LINKS_MAX + 6);
    agree_commit_encode(hearing_agree(&hearing, LEADER), epoch, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, 3, LEADER, FRAME_COMMIT), -1);
    ck_assert_int_eq(hearing.err.code, ERR_PEER);
    ck_assert_uint_eq(council_epoch(net, 3), epoch);
    ck_assert(!agree_behind(hearing_agree(&hearing, 3), net->now_ms));
    ck_assert(agree_behind(hearing_agree(&hearing, 3), net->now_ms + 5001));
    council_run(net, 6000); /* the council imports for it */
    ck_assert_uint_eq(council_epoch(net, 3), council_epoch(net, LEADER));
    ck_assert(!agree_behind(hearing_agree(&hearing, 3), net->now_ms));
    hearing_end(&hearing);
}
END_TEST

START_TEST(large_members_keep_fewer_links_and_everything_fits_a_frame)
{
    struct hearing hearing = hearing_new(1);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    struct decree decree = hearing_next(agree, "");
    free(decree.members);
    decree.members_count = PLAN_NODES_MAX;
    decree.members = xcalloc(PLAN_NODES_MAX, sizeof(*decree.members));
    for (uint32_t i = 0; i < PLAN_NODES_MAX; i++) {
        memcpy(decree.members[i].id.bytes, &(uint32_t){__builtin_bswap32(i + 1)}, 4);
        decree.members[i].incarnation = UINT64_MAX;
    }
    free(decree.body);
    decree.body_len = DECREE_BYTES_MAX;
    decree.body = xcalloc(1, decree.body_len);
    key_hash(decree.body, decree.body_len, &decree.body_hash);
    struct certificate certificate = {.mask = (1u << VOTERS_MAX) - 1, .term = INT64_MAX};
    for (int i = 0; i < 40; i++) {
        struct decree copy;
        struct id hash = {{1}};
        decree.epoch = agree->decree.epoch + 1;
        decree_copy(&copy, &decree);
        effects_clear(&hearing.effects);
        decide_store(agree, &copy, &hash, &certificate, &hearing.effects);
        decree_release(&copy);
    }
    ck_assert_uint_gt(agree->chain.count, 10);
    ck_assert_uint_lt(agree->chain.count, 40);
    agree_commit_encode(agree, 0, &hearing.body);
    ck_assert_uint_le(hearing.body.len, frame_kind_bytes_max(FRAME_COMMIT));
    ck_assert_uint_gt(hearing.body.len, DECREE_BYTES_MAX);
    struct commit message;
    ck_assert_int_eq(
        commit_decode(hearing.body.data, hearing.body.len, &message, &hearing.err), 0);
    decree_release(&decree);
    hearing_end(&hearing);
}
END_TEST

/* ---- import ---- */

static struct agree *
newcomer(struct hearing *hearing, struct key *key, uint64_t incarnation)
{
    struct agree_options options = {.key = key, .incarnation = incarnation};
    struct agree *agree =
        agree_new(&options, hearing->net->now_ms, NULL, 0, &hearing->err);
    ck_assert_ptr_nonnull(agree);
    return agree;
}

START_TEST(a_joiner_takes_the_decree_of_its_seed)
{
    struct hearing hearing = hearing_new(3);
    uint8_t seed[32] = {99};
    struct key *key = key_from_seed(seed);
    struct agree *joiner = newcomer(&hearing, key, 1);
    struct frame frame = {.kind = FRAME_BEAT};
    ck_assert_int_eq(agree_receive(joiner, 0, &frame, &hearing.effects, &hearing.err), 0);
    agree_tick(joiner, 0, &hearing.effects);
    ck_assert_uint_eq(hearing.effects.count, 0);
    agree_export(hearing_agree(&hearing, VOTER), &hearing.body);
    for (size_t i = 0; i < hearing.body.len; i += 3) {
        hearing.body.data[i] ^= 0x20;
        struct effects effects = {0};
        struct agree *other = newcomer(&hearing, key, 1);
        if (agree_import(other, 0, hearing.body.data, hearing.body.len, &effects,
                         &hearing.err))
            ck_assert_uint_eq(effects.count, 0);
        effects_release(&effects);
        agree_free(other);
        hearing.body.data[i] ^= 0x20;
    }
    ck_assert_int_eq(agree_import(joiner, 0, hearing.body.data, hearing.body.len,
                                  &hearing.effects, &hearing.err),
                     0);
    ck_assert_ptr_nonnull(hearing_effect(&hearing, EFFECT_PERSIST));
    ck_assert_ptr_nonnull(hearing_effect(&hearing, EFFECT_COMMITTED));
    ck_assert(agree_role(joiner) == AGREE_OBSERVER);
    ck_assert(id_equal(agree_decree_hash(joiner),
                       agree_decree_hash(hearing_agree(&hearing, VOTER))));

    /* Again, or an older one: nothing. Another swarm's: refused. */
    effects_clear(&hearing.effects);
    ck_assert_int_eq(agree_import(joiner, 0, hearing.body.data, hearing.body.len,
                                  &hearing.effects, &hearing.err),
                     0);
    ck_assert_uint_eq(hearing.effects.count, 0);
    struct council *net = council_new(2, 1);
    council_found(net, 0);
    buf_clear(&hearing.body);
    agree_export(net->nodes[0].agree, &hearing.body);
    ck_assert_int_eq(agree_import(joiner, 0, hearing.body.data, hearing.body.len,
                                  &hearing.effects, &hearing.err),
                     -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    council_free(net);
    agree_free(joiner);
    key_free(key);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_voter_that_lost_its_state_does_not_vote_until_it_is_listed_anew)
{
    struct hearing hearing = hearing_new(3);
    struct council *net = hearing.net;
    struct council_node *node = &net->nodes[VOTER];
    net->propose = false;
    council_crash(net, VOTER);
    free(node->disk);
    node->disk = NULL;
    node->disk_len = 0;
    council_start(net, VOTER);
    struct agree *agree = node->agree;
    ck_assert_uint_gt(agree->amnesia, 0);
    ck_assert(agree_role(agree) == AGREE_OBSERVER);
    uint64_t term = agree_term(agree) + 9;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_NOT_VOTER);
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, term).reason ==
              REASON_NOT_VOTER);
    struct id hash;
    struct decree decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, term, &decree, &hash), 0);
    ck_assert(hearing_rejected(&hearing).reason == REASON_NOT_VOTER);

    /* It remembers that it forgot. */
    council_crash(net, VOTER);
    council_start(net, VOTER);
    ck_assert_uint_gt(node->agree->amnesia, 0);

    net->propose = true; /* the others list its new incarnation */
    ck_assert_int_ge(council_settle(net, 7, 5000), 0);
    ck_assert_uint_eq(node->agree->amnesia, 0);
    ck_assert(agree_role(node->agree) == AGREE_FOLLOWER);
    hearing_end(&hearing);
}
END_TEST

/* ---- the blob ---- */

START_TEST(a_damaged_blob_is_refused_with_a_sentence)
{
    struct hearing hearing = hearing_new(3);
    struct id hash;
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct decree decree = hearing_next(agree, "next");
    ck_assert_int_eq(
        hearing_propose(&hearing, VOTER, LEADER, agree_term(agree), &decree, &hash), 0);
    hearing_judge(&hearing, VOTER, &hash, true);
    const struct effect *saved = hearing_effect(&hearing, EFFECT_PERSIST);
    struct agree *back =
        agree_new(&agree->options, 0, saved->bytes, saved->len, &hearing.err);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->promised, agree->promised);
    ck_assert_uint_eq(back->accepted_term, agree->accepted_term);
    ck_assert(id_equal(&back->accepted_hash, &hash));
    ck_assert(id_equal(&back->hash, &agree->hash));
    ck_assert_uint_eq(back->chain.count, agree->chain.count);
    ck_assert_mem_eq(&back->certificate, &agree->certificate, sizeof(back->certificate));
    struct effects again = {0};
    agree_persist(back, &again);
    ck_assert_uint_eq(again.list[0].len, saved->len);
    ck_assert_mem_eq(again.list[0].bytes, saved->bytes, saved->len);
    effects_release(&again);
    agree_free(back);

    uint8_t *copy = xmemdup(saved->bytes, saved->len);
    for (size_t i = 0; i < saved->len; i++) {
        copy[i] ^= 1;
        ck_assert_ptr_null(agree_new(&agree->options, 0, copy, saved->len, &hearing.err));
        ck_assert_int_eq(hearing.err.code, ERR_CORRUPT);
        copy[i] ^= 1;
        ck_assert_ptr_null(agree_new(&agree->options, 0, copy, i, &hearing.err));
        ck_assert_int_eq(hearing.err.code, ERR_CORRUPT);
    }
    /* With a right checksum, too. */
    for (size_t i = 8 + ID_BYTES; i < saved->len; i++) {
        copy[i] ^= 4;
        key_hash(copy + 8 + ID_BYTES, saved->len - 8 - ID_BYTES, &hash);
        memcpy(copy + 8, hash.bytes, ID_BYTES);
        back = agree_new(&agree->options, 0, copy, saved->len, &hearing.err);
        ck_assert(back || hearing.err.code == ERR_CORRUPT);
        agree_free(back);
        copy[i] ^= 4;
    }
    struct agree_options other = {.key = hearing.net->nodes[OTHER].key};
    ck_assert_ptr_null(agree_new(&other, 0, saved->bytes, saved->len, &hearing.err));
    ck_assert_ptr_nonnull(strstr(hearing.err.msg, "another key"));
    free(copy);
    hearing_end(&hearing);
}
END_TEST

/* ---- damage ---- */

struct facts {
    enum agree_role role;
    uint64_t term, promised, accepted_term, epoch;
    struct id leader, hash;
    int64_t election_at_ms, quorum_ms;
};

static struct facts
facts_of(const struct agree *agree)
{
    struct facts facts;
    memset(&facts, 0, sizeof(facts)); /* the gaps are compared, too */
    facts.role = agree->role;
    facts.term = agree_term(agree);
    facts.promised = agree->promised;
    facts.accepted_term = agree->accepted_term;
    facts.epoch = agree->decree.epoch;
    facts.leader = agree->leader;
    facts.hash = agree->hash;
    facts.election_at_ms = agree->election_at_ms;
    facts.quorum_ms = agree->quorum_ms;
    return facts;
}

/* A refused message leaves all as it was. */
static void
try_damaged(struct hearing *hearing, int to, enum frame_kind kind, const uint8_t *bytes,
            size_t len)
{
    struct facts before = facts_of(hearing_agree(hearing, to));
    buf_add(&hearing->body, bytes, len);
    if (hearing_hear(hearing, to, LEADER, kind) == 0)
        return; /* another message, as good as this one; a frame's signature is what
                   tells */
    struct facts after = facts_of(hearing_agree(hearing, to));
    ck_assert(hearing->err.code == ERR_WIRE || hearing->err.code == ERR_AUTH ||
              hearing->err.code == ERR_PEER);
    ck_assert_uint_gt(strlen(hearing->err.msg), 10);
    ck_assert_uint_eq(hearing->effects.count, 0);
    ck_assert_mem_eq(&before, &after, sizeof(before));
}

START_TEST(no_flipped_or_cut_message_does_harm)
{
    struct hearing hearing = hearing_new(4);
    struct council *net = hearing.net;
    net->loss_percent = net->twice_percent = 10;
    net->wrong_percent = 20;
    net->evidence = false;
    net->job_permille = 100;
    int tried[64] = {0};
    for (int round = 0; round < 400; round++) {
        /* What is under way, in a council whose leader hangs now and then. */
        net->propose = true;
        net->nodes[LEADER].stopped = round % 200 > 100;
        council_run(net, 40);
        net->propose = false;
        if (net->events_count == 0)
            continue;
        const struct council_event *event =
            &net->events[rng_below(&net->rng, net->events_count)];
        if (event->kind == 0 || tried[event->kind]++ > 12 || !net->nodes[event->to].agree)
            continue;
        uint8_t *bytes = xmemdup(event->body, event->len);
        size_t len = event->len, step = len / 60 + 1;
        int to = event->to;
        enum frame_kind kind = event->kind;
        for (size_t i = 0; i < len && to != LEADER; i += step) {
            try_damaged(&hearing, to, kind, bytes, i);
            bytes[i] ^= (uint8_t)(1u << rng_below(&net->rng, 8));
            try_damaged(&hearing, to, kind, bytes, len);
            bytes[i] ^= (uint8_t)(1u << rng_below(&net->rng, 8));
        }
        free(bytes);
    }
    ck_assert_int_gt(tried[FRAME_BEAT], 0);
    ck_assert_int_gt(tried[FRAME_PROPOSE], 0);
    ck_assert_int_gt(tried[FRAME_COMMIT], 0);
    hearing_end(&hearing);
}
END_TEST

Suite *
suite_agree_chain(void)
{
    Suite *suite = suite_create("agree_chain");
    TCase *t = suite_case(suite, "certificates", 30);
    tcase_add_test(t, a_commit_counts_only_with_the_signatures_of_a_quorum);
    tcase_add_test(t, whoever_has_the_decree_before_can_verify);
    t = suite_case(suite, "catching up", 60);
    tcase_add_test(t, a_chain_of_links_brings_up_who_is_many_epochs_behind);
    tcase_add_test(t, who_is_too_far_behind_refuses_and_says_so_until_it_imports);
    tcase_add_test(t, large_members_keep_fewer_links_and_everything_fits_a_frame);
    tcase_add_test(t, a_joiner_takes_the_decree_of_its_seed);
    tcase_add_test(t, a_voter_that_lost_its_state_does_not_vote_until_it_is_listed_anew);
    t = suite_case(suite, "damage", 60);
    tcase_add_test(t, a_damaged_blob_is_refused_with_a_sentence);
    tcase_add_test(t, no_flipped_or_cut_message_does_harm);
    return suite;
}
