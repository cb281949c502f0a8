#include "tests/gossip/hearing.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_agree(void);

/* ---- founding ---- */

START_TEST(a_founder_leads_epoch_one_at_once)
{
    struct err err;
    uint8_t seed[32] = {7}, nonce[ID_BYTES] = {1};
    ck_assert_int_eq(key_setup(&err), 0);
    struct key *key = key_from_seed(seed);
    struct agree_options options = {.key = key};
    struct agree *agree = agree_new(&options, 0, NULL, 0, &err);
    struct hearing hearing = {0};
    ck_assert_ptr_null(agree_decree(agree));
    agree_found(agree, 0, 5, nonce, "plan", 4, &hearing.effects);
    ck_assert(agree_role(agree) == AGREE_LEADER && agree_quorum(agree));
    ck_assert(agree_idle(agree) && id_equal(agree_leader(agree), key_id(key)));
    ck_assert_uint_eq(agree_decree(agree)->epoch, 1);
    ck_assert(hearing_effect(&hearing, EFFECT_PERSIST) <
              hearing_effect(&hearing, EFFECT_COMMITTED));
    ck_assert_ptr_nonnull(hearing_effect(&hearing, EFFECT_COLLECT));
    ck_assert_int_eq(hearing_effect(&hearing, EFFECT_QUORUM)->after, 1);

    /* It decides alone, again and again. */
    struct decree_member self = {.id = *key_id(key), .incarnation = 5};
    for (int i = 0; i < 3; i++) {
        effects_clear(&hearing.effects);
        ck_assert_int_eq(agree_propose(agree, 1, CAUSE_JOB, &self, 1, NULL, 0, "x", 1,
                                       &hearing.effects, &err),
                         0);
        ck_assert_uint_eq(agree_decree(agree)->epoch, (uint64_t)i + 2);
        ck_assert_ptr_nonnull(hearing_effect(&hearing, EFFECT_COLLECT));
    }

    /* And comes back from its blob, in a new term. */
    const struct effect *blob = hearing_effect(&hearing, EFFECT_PERSIST);
    struct agree *back = agree_new(&options, 100, blob->bytes, blob->len, &err);
    ck_assert_ptr_nonnull(back);
    effects_clear(&hearing.effects);
    agree_tick(back, 200, &hearing.effects);
    ck_assert(agree_role(back) == AGREE_LEADER);
    ck_assert_uint_eq(agree_term(back), 2);
    ck_assert_uint_eq(agree_decree(back)->epoch, 4);
    effects_release(&hearing.effects);
    agree_free(back);
    agree_free(agree);
    key_free(key);
}
END_TEST

START_TEST(two_foundings_by_one_key_are_two_swarms)
{
    struct err err;
    struct id ids[2];
    uint8_t seed[32] = {7};
    ck_assert_int_eq(key_setup(&err), 0);
    struct key *key = key_from_seed(seed);
    for (uint8_t i = 0; i < 2; i++) {
        struct agree_options options = {.key = key};
        struct agree *agree = agree_new(&options, 0, NULL, 0, &err);
        struct effects effects = {0};
        uint8_t nonce[ID_BYTES] = {(uint8_t)(i + 1)};
        agree_found(agree, 0, 5, nonce, NULL, 0, &effects);
        ids[i] = agree->swarm;
        ck_assert(id_equal(&ids[i], agree_decree_hash(agree)));
        effects_release(&effects);
        agree_free(agree);
    }
    ck_assert(!id_equal(&ids[0], &ids[1]));
    key_free(key);
}
END_TEST

/* ---- who leads ---- */

START_TEST(a_prevote_is_refused_while_the_leader_lives_and_granted_when_it_is_gone)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t promised = agree->promised, term = agree_term(agree) + 1;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_LEADER_ALIVE);
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_PERSIST));

    /* Evidence: the refusal is taken back without being asked again. */
    effects_clear(&hearing.effects);
    agree_gone(agree, hearing.net->now_ms, &hearing.net->nodes[LEADER].id,
               &hearing.effects);
    const struct effect *reply = hearing_frame(&hearing, FRAME_PREVOTE_REPLY);
    ck_assert_ptr_nonnull(reply);
    ck_assert(id_equal(&reply->peer, &hearing.net->nodes[OTHER].id));
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_NONE);
    ck_assert_uint_eq(agree->promised, promised);

    /* A beat takes the evidence back. */
    struct beat beat = {
        .term = agree_term(agree), .epoch = agree->decree.epoch, .hash = agree->hash};
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_BEAT), 0);
    ck_assert_ptr_nonnull(hearing_frame(&hearing, FRAME_BEAT_REPLY));
    ck_assert_int_eq(agree_current_ms(agree), hearing.net->now_ms);
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_LEADER_ALIVE);

    /* Silence grants it, too; an old term does not. */
    hearing.net->now_ms += 2001;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_NONE);
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term - 1).reason ==
              REASON_STALE_TERM);
    hearing_end(&hearing);
}
END_TEST

/* It promised a term while it voted; those who vote now know nothing of it. */
START_TEST(who_does_not_vote_follows_a_leader_below_its_promise_and_keeps_the_promise)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t led = agree_term(agree), promised = agree->promised + 5;
    struct beat beat = {.term = led, .epoch = agree->decree.epoch, .hash = agree->hash};
    agree->promised = promised;
    for (int votes = 1; votes >= 0; votes--) {
        if (!votes) {
            agree->amnesia = 1;
            agree->role = AGREE_OBSERVER;
        }
        agree->leader = (struct id){0};
        buf_clear(&hearing.body);
        beat_encode(&beat, &hearing.body);
        ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_BEAT), 0);
        ck_assert_int_eq(id_empty(agree_leader(agree)), votes);
        ck_assert_uint_eq(agree_term(agree), votes ? promised : led);
        ck_assert_uint_eq(agree->promised, promised);
    }
    /* Of two leaders it is the later one, of the same epoch, as for everybody, until that
     * one is lost. */
    struct id later = agree->decree.voters[1], earlier = *agree_leader(agree);
    for (int lost = 0; lost <= 1; lost++) {
        agree->leader_term = led + 1;
        agree->leader = lost ? (struct id){0} : later;
        buf_clear(&hearing.body);
        beat_encode(&beat, &hearing.body);
        ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_BEAT), 0);
        ck_assert(id_equal(agree_leader(agree), lost ? &earlier : &later));
        ck_assert_uint_eq(agree_term(agree), lost ? led : led + 1);
    }
    beat.term = agree->certificate.term - 1;
    agree->leader = (struct id){0};
    buf_clear(&hearing.body);
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_BEAT), 0);
    ck_assert(id_empty(agree_leader(agree)));
    hearing_end(&hearing);
}
END_TEST

START_TEST(long_round_trips_stretch_the_silence)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    agree_round_trip(agree, 500);
    hearing.net->now_ms += 4500;
    uint64_t term = agree_term(agree) + 1;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_LEADER_ALIVE);
    hearing.net->now_ms += 600;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_NONE);
    hearing_end(&hearing);
}
END_TEST

START_TEST(who_runs_late_waits_longer_for_its_leader_and_for_its_voters)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t term = agree_term(agree) + 1;
    hearing.net->now_ms += 1900;
    agree_late(agree, hearing.net->now_ms, 1500);
    hearing.net->now_ms += 1500;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_LEADER_ALIVE);
    hearing.net->now_ms += 200;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_PREVOTE, term).reason ==
              REASON_NONE);
    hearing_end(&hearing);

    hearing = hearing_new(3);
    agree = hearing_agree(&hearing, LEADER);
    effects_clear(&hearing.effects);
    hearing.net->now_ms += 2500;
    agree_late(agree, hearing.net->now_ms, 1000);
    agree_tick(agree, hearing.net->now_ms, &hearing.effects);
    ck_assert(agree_role(agree) == AGREE_LEADER);
    agree_late(agree, hearing.net->now_ms, 1 << 30); /* never into the future */
    agree_tick(agree, hearing.net->now_ms + 2500, &hearing.effects);
    ck_assert(agree_role(agree) != AGREE_LEADER);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_vote_is_durable_before_it_leaves_and_there_is_one_per_term)
{
    struct hearing hearing = hearing_new(4);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t term = agree_term(agree) + 3;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, term).reason ==
              REASON_NONE);
    hearing_persisted(&hearing, FRAME_VOTE_REPLY);
    const struct effect *blob = hearing_effect(&hearing, EFFECT_PERSIST);
    struct agree *restarted = agree_new(&agree->options, hearing.net->now_ms, blob->bytes,
                                        blob->len, &hearing.err);
    ck_assert_ptr_nonnull(restarted);
    ck_assert_uint_eq(restarted->promised, term);

    /* Asked again, answered again; nobody else gets it, not from its next life either. */
    for (int life = 0; life < 2; life++) {
        ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, term).reason ==
                  REASON_NONE);
        ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_PERSIST));
        struct vote_reply reply = hearing_vote(&hearing, VOTER, 3, FRAME_VOTE, term);
        ck_assert(reply.reason == REASON_STALE_TERM);
        ck_assert_uint_eq(reply.my_term, term);
        if (life == 0) {
            agree_free(agree);
            hearing.net->nodes[VOTER].agree = restarted;
        }
    }
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_candidate_that_is_behind_gets_the_decree_and_no_vote)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct vote_ask ask = {.term = 50, .epoch = agree->decree.epoch - 1};
    vote_ask_encode(&ask, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, OTHER, FRAME_VOTE), 0);
    const struct effect *reply = hearing_frame(&hearing, FRAME_VOTE_REPLY);
    struct vote_reply vote;
    ck_assert_int_eq(vote_reply_decode(reply->bytes, reply->len, &vote, &hearing.err), 0);
    ck_assert(vote.reason == REASON_STALE_EPOCH);
    ck_assert_ptr_nonnull(hearing_frame(&hearing, FRAME_COMMIT));
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_PERSIST));

    /* One decree per peer and 100 ms. */
    ask.term = 51;
    vote_ask_encode(&ask, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, OTHER, FRAME_VOTE), 0);
    ck_assert_ptr_null(hearing_frame(&hearing, FRAME_COMMIT));
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_leader_that_hears_no_quorum_steps_down_and_says_so)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    ck_assert(agree_role(agree) == AGREE_LEADER);
    effects_clear(&hearing.effects);
    agree_tick(agree, hearing.net->now_ms + 1500, &hearing.effects);
    ck_assert(agree_role(agree) == AGREE_LEADER);
    effects_clear(&hearing.effects);
    agree_tick(agree, hearing.net->now_ms + 2500, &hearing.effects);
    ck_assert(agree_role(agree) != AGREE_LEADER && !agree_quorum(agree));
    ck_assert_int_eq(hearing_effect(&hearing, EFFECT_QUORUM)->after, 0);
    ck_assert(id_empty(&hearing_effect(&hearing, EFFECT_LEADER)->peer));
    ck_assert(id_empty(agree_leader(agree)));
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_leader_that_hears_of_a_higher_term_steps_down)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    struct beat_reply reply = {.term = agree_term(agree) + 4,
                               .epoch = agree->decree.epoch};
    beat_reply_encode(&reply, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, LEADER, VOTER, FRAME_BEAT_REPLY), 0);
    ck_assert(agree_role(agree) == AGREE_FOLLOWER);
    ck_assert_int_eq(agree_heard_ms(agree, &hearing.net->nodes[VOTER].id),
                     hearing.net->now_ms);
    council_run(hearing.net, 500);
    ck_assert_uint_gt(agree_term(hearing_agree(&hearing, council_leader(hearing.net))),
                      reply.term);
    hearing_end(&hearing);
}
END_TEST

START_TEST(beats_from_elsewhere_or_of_another_decree_are_refused)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct beat beat = {.term = 9, .epoch = agree->decree.epoch};
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, LEADER, FRAME_BEAT), -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    struct frame frame = {.kind = FRAME_BEAT, .swarm = {{9}}, .to = agree->self};
    ck_assert_int_eq(
        agree_receive(agree, hearing.net->now_ms, &frame, &hearing.effects, &hearing.err),
        -1);
    frame.swarm = agree->swarm;
    frame.to = hearing.net->nodes[OTHER].id; /* a vote for another is no vote for us */
    ck_assert_int_eq(
        agree_receive(agree, hearing.net->now_ms, &frame, &hearing.effects, &hearing.err),
        -1);
    frame.to = agree->self;
    frame.kind = FRAME_PING;
    ck_assert_int_eq(
        agree_receive(agree, hearing.net->now_ms, &frame, &hearing.effects, &hearing.err),
        -1);
    ck_assert_int_eq(hearing.err.code, ERR_WIRE);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_term_out_of_reach_binds_nobody)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t promised = agree->promised, far = (uint64_t)1 << 40;
    struct id leader = *agree_leader(agree), hash;
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, far).reason ==
              REASON_STALE_TERM);
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, INT64_MAX).reason ==
              REASON_STALE_TERM);
    struct decree decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, OTHER, far, &decree, &hash), 0);
    ck_assert(hearing_rejected(&hearing).reason == REASON_STALE_TERM);
    struct beat beat = {
        .term = INT64_MAX, .epoch = agree->decree.epoch, .hash = agree->hash};
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, OTHER, FRAME_BEAT), 0);
    ck_assert_uint_eq(agree->promised, promised);
    ck_assert(id_equal(agree_leader(agree), &leader));
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_PERSIST));

    /* Nobody takes a stranger for the leader of an epoch that it only names. */
    beat = (struct beat){.term = promised + 1, .epoch = agree->decree.epoch + 9};
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, VOTER, OTHER, FRAME_BEAT), 0);
    ck_assert(id_equal(agree_leader(agree), &leader));
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_leader_is_not_unseated_by_a_rejection_in_its_own_term)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    struct decree_member members[3];
    memcpy(members, agree->decree.members, sizeof(members));
    ck_assert_int_eq(agree_propose(agree, hearing.net->now_ms, CAUSE_JOB, members, 3,
                                   NULL, 0, "x", 1, &hearing.effects, &hearing.err),
                     0);
    struct reject reject = {.term = agree_term(agree),
                            .epoch = agree->decree.epoch + 1,
                            .hash = agree->proposal.hash,
                            .reason = REASON_STALE_TERM,
                            .my_term = agree_term(agree)};
    reject_encode(&reject, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, LEADER, OTHER, FRAME_REJECT), 0);
    ck_assert(agree_role(agree) == AGREE_LEADER);
    reject.my_term++;
    reject_encode(&reject, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, LEADER, OTHER, FRAME_REJECT), 0);
    ck_assert(agree_role(agree) == AGREE_FOLLOWER);
    hearing_end(&hearing);
}
END_TEST

START_TEST(who_resigned_is_no_candidate_and_its_successor_is_at_once)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    agree_resign(agree, hearing.net->now_ms, &hearing.effects);
    const struct effect *sent = hearing_frame(&hearing, FRAME_BEAT);
    struct beat beat;
    ck_assert_int_eq(beat_decode(sent->bytes, sent->len, &beat, &hearing.err), 0);
    ck_assert(!id_empty(&beat.successor) && !id_equal(&beat.successor, &agree->self));
    ck_assert(agree_role(agree) == AGREE_FOLLOWER);
    effects_clear(&hearing.effects);
    agree_tick(agree, hearing.net->now_ms + 9000, &hearing.effects);
    ck_assert(agree_role(agree) == AGREE_FOLLOWER);

    int successor =
        id_equal(&beat.successor, &hearing.net->nodes[VOTER].id) ? VOTER : OTHER;
    beat_encode(&beat, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, successor, LEADER, FRAME_BEAT), 0);
    effects_clear(&hearing.effects);
    agree_tick(hearing_agree(&hearing, successor), hearing.net->now_ms, &hearing.effects);
    ck_assert_ptr_nonnull(hearing_frame(&hearing, FRAME_PREVOTE));
    hearing_end(&hearing);
}
END_TEST

/* ---- what is decided ---- */

START_TEST(a_proposal_is_judged_and_durable_before_it_is_accepted)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t term = agree_term(agree);
    struct id hash;
    struct decree decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, term, &decree, &hash), 0);
    const struct effect *judge = hearing_effect(&hearing, EFFECT_JUDGE);
    ck_assert_ptr_nonnull(judge);
    ck_assert(id_equal(&judge->hash, &hash) && judge->len > 0 && judge->after == 0);
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_PERSIST));

    /* Sent again while it is judged: once is enough. */
    decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, term, &decree, &hash), 0);
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_JUDGE));

    hearing_judge(&hearing, VOTER, &agree->hash, true); /* another one */
    ck_assert_uint_eq(hearing.effects.count, 0);
    hearing_judge(&hearing, VOTER, &hash, true);
    hearing_persisted(&hearing, FRAME_ACCEPT);
    struct accept accept;
    const struct effect *sent = hearing_frame(&hearing, FRAME_ACCEPT);
    ck_assert_int_eq(accept_message_decode(sent->bytes, sent->len, &accept, &hearing.err),
                     0);
    ck_assert(
        accept_verify(&agree->self, &agree->accepted, &hash, term, accept.signature));
    hearing_judge(&hearing, VOTER, &hash, true); /* twice */
    ck_assert_uint_eq(hearing.effects.count, 0);

    /* Accepted: not judged again, not even in a later term by another leader. */
    decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, OTHER, term + 1, &decree, &hash),
                     0);
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_JUDGE));
    hearing_persisted(&hearing, FRAME_ACCEPT);
    hearing_end(&hearing);
}
END_TEST

START_TEST(what_is_judged_wrong_is_rejected_with_the_reason)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    struct id hash;
    for (int again = 0; again < 2; again++) {
        struct decree decree = hearing_next(agree, "next");
        ck_assert_int_eq(
            hearing_propose(&hearing, VOTER, LEADER, agree_term(agree), &decree, &hash),
            0);
        if (again == 0)
            hearing_judge(&hearing, VOTER, &hash, false);
        struct reject reject = hearing_rejected(&hearing);
        ck_assert(reject.reason == REASON_WRONG);
        ck_assert_str_eq(reject.text, "I count 3");
        ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_JUDGE));
    }
    ck_assert_uint_eq(agree->accepted_term, 0);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_verdict_that_comes_too_late_changes_nothing)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t term = agree_term(agree);
    struct id hash;
    struct decree decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, term, &decree, &hash), 0);
    ck_assert(hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, term + 1).reason ==
              REASON_NONE);
    hearing_judge(&hearing, VOTER, &hash, true);
    ck_assert(hearing_rejected(&hearing).reason == REASON_STALE_TERM);
    ck_assert_ptr_null(hearing_effect(&hearing, EFFECT_PERSIST));
    ck_assert_uint_eq(agree->accepted_term, 0);
    hearing_end(&hearing);
}
END_TEST

static void
refused_proposal(struct hearing *hearing, int from, uint64_t term, struct decree decree,
                 const char *why)
{
    struct id hash;
    ck_assert_int_eq(hearing_propose(hearing, VOTER, from, term, &decree, &hash), -1);
    ck_assert_int_eq(hearing->err.code, ERR_WIRE);
    ck_assert_msg(strstr(hearing->err.msg, why), "%s", hearing->err.msg);
    ck_assert_uint_eq(hearing->effects.count, 0);
}

START_TEST(a_proposal_that_breaks_a_rule_is_refused)
{
    struct hearing hearing = hearing_new(4);
    struct agree *agree = hearing_agree(&hearing, VOTER);
    uint64_t term = agree_term(agree);
    struct id hash;
    struct decree decree = hearing_next(agree, "next");
    decree.previous.bytes[0] ^= 1;
    refused_proposal(&hearing, LEADER, term, decree, "follow");
    decree = hearing_next(agree, "next");
    decree.generation++;
    refused_proposal(&hearing, LEADER, term, decree, "of generation 1");
    /* More members than all vote of, and more voters than a committee has. */
    decree = hearing_next(agree, "next");
    decree.members = xrealloc(decree.members, 10, sizeof(*decree.members));
    for (uint32_t i = decree.members_count; i < 10; i++) {
        decree.members[i] = decree.members[i - 1];
        memset(decree.members[i].id.bytes, 0xff, 31);
        decree.members[i].id.bytes[31] = (uint8_t)i;
    }
    decree.members_count = 10;
    for (uint32_t i = 0; i < 8; i++)
        decree.voters[i] = decree.members[i].id;
    decree.voters_count = 8;
    refused_proposal(&hearing, LEADER, term, decree, "8 voters");

    /* In one term there is one proposal. */
    decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, term, &decree, &hash), 0);
    hearing_judge(&hearing, VOTER, &hash, true);
    refused_proposal(&hearing, LEADER, term, hearing_next(agree, "other"),
                     "second proposal");

    /* Below a promise. */
    hearing_vote(&hearing, VOTER, OTHER, FRAME_VOTE, term + 1);
    decree = hearing_next(agree, "next");
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, LEADER, term, &decree, &hash), 0);
    ck_assert(hearing_rejected(&hearing).reason == REASON_STALE_TERM);
    ck_assert_ptr_null(hearing_frame(&hearing, FRAME_ACCEPT));

    /* Two epochs ahead: we ask for the one between. */
    decree = hearing_next(agree, "next");
    decree.epoch++;
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, OTHER, term + 1, &decree, &hash),
                     0);
    ck_assert(hearing_rejected(&hearing).reason == REASON_BEHIND);
    ck_assert_ptr_nonnull(hearing_frame(&hearing, FRAME_FETCH));

    /* An epoch that is over: the sender is told. */
    decree = hearing_next(agree, "next");
    decree.epoch--;
    ck_assert_int_eq(hearing_propose(&hearing, VOTER, OTHER, term + 1, &decree, &hash),
                     0);
    ck_assert(hearing_rejected(&hearing).reason == REASON_STALE_EPOCH);
    ck_assert_ptr_nonnull(hearing_frame(&hearing, FRAME_COMMIT));
    hearing_end(&hearing);
}
END_TEST

/* Node VOTER accepts a decree by LEADER, that nobody else has heard of and that dies. */
static struct id
accepted_and_orphaned(struct hearing *hearing)
{
    struct agree *agree = hearing_agree(hearing, VOTER);
    struct id hash;
    hearing->net->propose = false;
    struct decree decree = hearing_next(agree, "orphan");
    ck_assert_int_eq(
        hearing_propose(hearing, VOTER, LEADER, agree_term(agree), &decree, &hash), 0);
    hearing_judge(hearing, VOTER, &hash, true);
    ck_assert_uint_gt(agree->accepted_term, 0);
    /* Its write and its answer; the answer finds nobody. */
    council_crash(hearing->net, LEADER);
    council_carry(hearing->net, VOTER, &hearing->effects);
    return hash;
}

START_TEST(a_new_leader_proposes_what_was_accepted_and_then_asks_for_votes_again)
{
    struct hearing hearing = hearing_new(3);
    struct id hash = accepted_and_orphaned(&hearing);
    uint64_t epoch = council_epoch(hearing.net, OTHER),
             term = agree_term(hearing_agree(&hearing, OTHER));
    int judges = hearing.net->nodes[VOTER].judges;
    int collects[] = {hearing.net->nodes[VOTER].collects,
                      hearing.net->nodes[OTHER].collects};
    while (council_epoch(hearing.net, VOTER) == epoch ||
           council_epoch(hearing.net, OTHER) == epoch) {
        council_run(hearing.net, 5);
        ck_assert_int_lt((int)hearing.net->now_ms, 60000);
    }
    for (int i = VOTER; i <= OTHER; i++) {
        ck_assert_uint_eq(council_epoch(hearing.net, i), epoch + 1);
        ck_assert(id_equal(agree_decree_hash(hearing_agree(&hearing, i)), &hash));
        ck_assert_uint_eq(hearing_agree(&hearing, i)->certificate.term, term + 1);
        ck_assert_int_eq(hearing.net->nodes[i].collects, collects[i - VOTER]);
    }
    ck_assert_int_eq(hearing.net->nodes[VOTER].judges, judges); /* it had accepted */
    council_run(hearing.net, 500);
    int leader = council_leader(hearing.net);
    ck_assert_uint_eq(agree_term(hearing_agree(&hearing, leader)), term + 2);
    ck_assert(agree_idle(hearing_agree(&hearing, leader)));
    ck_assert_int_eq(hearing.net->nodes[leader].collects, collects[leader - VOTER] + 1);
    ck_assert_str_eq(hearing.net->history->wrong, "");
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_commit_raises_the_promise_to_its_term)
{
    struct hearing hearing = hearing_new(3);
    /* Node OTHER hears of no election and gets the decree alone. */
    struct council *net = hearing.net;
    uint64_t epoch = council_epoch(net, OTHER);
    net->propose = false;
    net->cut[VOTER][OTHER] = net->cut[LEADER][OTHER] = true;
    net->cut[OTHER][VOTER] = net->cut[OTHER][LEADER] = true;
    council_run(net, 300);
    agree_resign(hearing_agree(&hearing, LEADER), net->now_ms, &hearing.effects);
    council_carry(net, LEADER, &hearing.effects);
    council_run(net, 1500);
    int leader = council_leader(net);
    net->job_permille = 1000;
    net->propose = true;
    council_run(net, 100);
    net->propose = false;
    council_run(net, 100);
    uint64_t term = hearing_agree(&hearing, leader)->certificate.term;
    ck_assert_uint_gt(term, hearing_agree(&hearing, OTHER)->promised);
    agree_commit_encode(hearing_agree(&hearing, leader), epoch, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, OTHER, VOTER, FRAME_COMMIT), 0);
    ck_assert_uint_gt(council_epoch(net, OTHER), epoch);
    ck_assert_uint_ge(hearing_agree(&hearing, OTHER)->promised, term);
    ck_assert(hearing_effect(&hearing, EFFECT_PERSIST) <
              hearing_effect(&hearing, EFFECT_COMMITTED));
    hearing_end(&hearing);
}
END_TEST

static int
leader_proposes(struct hearing *hearing, const char *body)
{
    struct agree *agree = hearing_agree(hearing, LEADER);
    effects_clear(&hearing->effects);
    return agree_propose(agree, hearing->net->now_ms, CAUSE_JOB, agree->decree.members,
                         agree->decree.members_count, NULL, 0, body, strlen(body),
                         &hearing->effects, &hearing->err);
}

START_TEST(only_an_idle_leader_may_propose)
{
    struct hearing hearing = hearing_new(3);
    struct agree *follower = hearing_agree(&hearing, VOTER);
    ck_assert_int_eq(agree_propose(follower, hearing.net->now_ms, CAUSE_JOB,
                                   follower->decree.members, 3, NULL, 0, "x", 1,
                                   &hearing.effects, &hearing.err),
                     -1);
    ck_assert_int_eq(hearing.err.code, ERR_STOPPED);
    ck_assert_int_eq(leader_proposes(&hearing, "x"), 0);
    ck_assert(!agree_idle(hearing_agree(&hearing, LEADER)));
    ck_assert_int_eq(leader_proposes(&hearing, "y"), -1);
    ck_assert_int_eq(hearing.err.code, ERR_STOPPED);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_wrong_signature_is_no_acceptance)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    uint64_t epoch = agree->decree.epoch;
    ck_assert_int_eq(leader_proposes(&hearing, "x"), 0);
    struct accept accept = {
        .term = agree_term(agree), .epoch = epoch + 1, .hash = agree->proposal.hash};
    accept_message_encode(&accept, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, LEADER, VOTER, FRAME_ACCEPT), -1);
    ck_assert_int_eq(hearing.err.code, ERR_AUTH);
    ck_assert_uint_eq(agree->proposal.accepted, 0);

    accept_sign(hearing.net->nodes[VOTER].key, &agree->proposal.decree, &accept.hash,
                accept.term, accept.signature);
    accept_message_encode(&accept, &hearing.body);
    ck_assert_int_eq(hearing_hear(&hearing, LEADER, VOTER, FRAME_ACCEPT), 0);
    ck_assert_uint_eq(agree->decree.epoch, epoch + 1);
    hearing_persisted(&hearing, FRAME_COMMIT);
    hearing_end(&hearing);
}
END_TEST

START_TEST(a_refused_leader_pauses_and_may_propose_something_else_in_a_new_term)
{
    struct hearing hearing = hearing_new(3);
    struct agree *agree = hearing_agree(&hearing, LEADER);
    hearing.net->propose = false;
    uint64_t epoch = agree->decree.epoch, term = agree_term(agree);
    ck_assert_int_eq(leader_proposes(&hearing, "bad"), 0);
    struct id hash = agree->proposal.hash;
    council_split(hearing.net, 1, 6, true); /* nobody hears it */
    council_carry(hearing.net, LEADER, &hearing.effects);
    council_split(hearing.net, 1, 6, false);
    for (int i = VOTER; i <= OTHER; i++) {
        struct reject reject = {.term = term,
                                .epoch = epoch + 1,
                                .hash = hash,
                                .reason = REASON_WRONG,
                                .my_term = term,
                                .my_epoch = epoch};
        reject_encode(&reject, &hearing.body);
        ck_assert_int_eq(hearing_hear(&hearing, LEADER, i, FRAME_REJECT), 0);
    }
    ck_assert(agree_role(agree) == AGREE_LEADER && !agree_idle(agree));
    int collects = hearing.net->nodes[LEADER].collects;
    council_run(hearing.net, 200);
    ck_assert_int_eq(hearing.net->nodes[LEADER].collects, collects);
    council_run(hearing.net, 400);
    ck_assert(agree_idle(agree));
    ck_assert_int_eq(hearing.net->nodes[LEADER].collects, collects + 1);
    ck_assert_uint_eq(agree_term(agree), term + 1);
    ck_assert_int_eq(leader_proposes(&hearing, "good"), 0);
    council_carry(hearing.net, LEADER, &hearing.effects);
    council_run(hearing.net, 100);
    ck_assert_uint_eq(council_epoch(hearing.net, OTHER), epoch + 1);
    ck_assert_mem_eq(agree->decree.body, "good", 4);
    hearing_end(&hearing);
}
END_TEST

START_TEST(one_acceptance_that_the_others_rule_out_does_not_bind_the_next_term)
{
    struct hearing hearing = hearing_new(5);
    struct council *net = hearing.net;
    struct agree *agree = hearing_agree(&hearing, LEADER);
    net->propose = false;
    uint64_t epoch = agree->decree.epoch, term = agree_term(agree);
    net->contrary = 28; /* of the four others one accepts it */
    ck_assert_int_eq(leader_proposes(&hearing, "bad"), 0);
    council_carry(net, LEADER, &hearing.effects);
    council_run(net, 1000);
    ck_assert_uint_gt(hearing_agree(&hearing, VOTER)->accepted_term, 0);
    ck_assert(agree_idle(agree));
    ck_assert_uint_eq(agree_term(agree), term + 1);
    net->contrary = 0;
    ck_assert_int_eq(leader_proposes(&hearing, "good"), 0);
    council_carry(net, LEADER, &hearing.effects);
    council_run(net, 200);
    ck_assert_uint_eq(council_epoch(net, VOTER), epoch + 1);
    ck_assert_mem_eq(agree->decree.body, "good", 4);
    ck_assert_str_eq(net->history->wrong, "");
    hearing_end(&hearing);
}
END_TEST

Suite *
suite_agree(void)
{
    Suite *suite = suite_create("agree");
    TCase *t = suite_case(suite, "founding", 30);
    tcase_add_test(t, a_founder_leads_epoch_one_at_once);
    tcase_add_test(t, two_foundings_by_one_key_are_two_swarms);
    t = suite_case(suite, "leading", 30);
    tcase_add_test(
        t, a_prevote_is_refused_while_the_leader_lives_and_granted_when_it_is_gone);
    tcase_add_test(
        t, who_does_not_vote_follows_a_leader_below_its_promise_and_keeps_the_promise);
    tcase_add_test(t, long_round_trips_stretch_the_silence);
    tcase_add_test(t, who_runs_late_waits_longer_for_its_leader_and_for_its_voters);
    tcase_add_test(t, a_vote_is_durable_before_it_leaves_and_there_is_one_per_term);
    tcase_add_test(t, a_candidate_that_is_behind_gets_the_decree_and_no_vote);
    tcase_add_test(t, a_leader_that_hears_no_quorum_steps_down_and_says_so);
    tcase_add_test(t, a_leader_that_hears_of_a_higher_term_steps_down);
    tcase_add_test(t, beats_from_elsewhere_or_of_another_decree_are_refused);
    tcase_add_test(t, a_term_out_of_reach_binds_nobody);
    tcase_add_test(t, a_leader_is_not_unseated_by_a_rejection_in_its_own_term);
    tcase_add_test(t, who_resigned_is_no_candidate_and_its_successor_is_at_once);
    t = suite_case(suite, "deciding", 30);
    tcase_add_test(t, a_proposal_is_judged_and_durable_before_it_is_accepted);
    tcase_add_test(t, what_is_judged_wrong_is_rejected_with_the_reason);
    tcase_add_test(t, a_verdict_that_comes_too_late_changes_nothing);
    tcase_add_test(t, a_proposal_that_breaks_a_rule_is_refused);
    tcase_add_test(t,
                   a_new_leader_proposes_what_was_accepted_and_then_asks_for_votes_again);
    tcase_add_test(t, a_commit_raises_the_promise_to_its_term);
    tcase_add_test(t, only_an_idle_leader_may_propose);
    tcase_add_test(t, a_wrong_signature_is_no_acceptance);
    tcase_add_test(t,
                   a_refused_leader_pauses_and_may_propose_something_else_in_a_new_term);
    tcase_add_test(t,
                   one_acceptance_that_the_others_rule_out_does_not_bind_the_next_term);
    return suite;
}
