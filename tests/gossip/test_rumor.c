/* What a core says to whom: one core under test, node 0, and frames made by hand in the
 * name of others. */
#include "tests/gossip/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_rumor(void);

/* ---- probes ---- */

START_TEST(a_ping_is_answered_with_its_nonce)
{
    talk_begin(3, 3);
    struct draft ping = {.nonce = 12345, .subject = net.nodes[0].id};
    ck_assert_int_eq(talk_receive(1, FRAME_PING, &ping), 0);
    struct message *reply = talk_sent(1, FRAME_PING_REPLY);
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->nonce, 12345);
    ck_assert(reply->answered);
    ck_assert(id_equal(&reply->subject, &net.nodes[0].id));
    ck_assert_int_eq(gossip_find(us, &net.nodes[1].id)->heard_ms, net.now_ms);
    talk_end();
}
END_TEST

START_TEST(an_unknown_sender_is_asked_for_its_record_and_then_met)
{
    talk_begin(3, 2);
    struct draft ping = {.nonce = 1, .subject = net.nodes[0].id};
    ck_assert_int_eq(talk_receive(2, FRAME_PING, &ping), 0);
    struct message *reply = talk_sent(2, FRAME_PING_REPLY);
    ck_assert_uint_eq(reply->asks_count, 1);
    ck_assert_uint_eq(reply->asks[0], id_prefix(&net.nodes[2].id));
    effects_clear(&effects);
    net.now_ms += 300; /* since the last that we met */
    struct draft rumors = {0};
    talk_state(&rumors, 2, 1ULL << 32, 0, 0, ACCUSE_NOTHING);
    ck_assert_int_eq(talk_receive(2, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 2), MEMBER_ALIVE);
    const struct effect *news = talk_first_effect(EFFECT_MEMBER);
    ck_assert(id_equal(&news->peer, &net.nodes[2].id));
    ck_assert_int_eq(news->before, MEMBER_UNKNOWN);
    ck_assert_int_eq(news->after, MEMBER_ALIVE);
    bool greeted = false;
    for (size_t i = 0; i < effects.count; i++)
        greeted = greeted || effects.list[i].frame == FRAME_DIGEST;
    ck_assert(greeted);
    talk_end();
}
END_TEST

START_TEST(a_peer_whose_connection_is_up_gets_our_record_and_a_digest)
{
    struct record record;
    talk_begin(3, 2);
    gossip_met(us, net.now_ms, &net.nodes[2].id, &effects);
    ck_assert_ptr_nonnull(talk_said(talk_sent(2, FRAME_RUMORS), 0, &record));
    const struct effect *last = &effects.list[effects.count - 1];
    ck_assert_int_eq(last->frame, FRAME_DIGEST);
    ck_assert(id_equal(&last->peer, &net.nodes[2].id));
    struct digest digest;
    ck_assert_int_eq(digest_decode(last->bytes, last->len, &digest, &err), 0);
    ck_assert(digest.lists); /* so few are listed at once */
    ck_assert_uint_eq(digest.count, 2);
    digest_release(&digest);
    effects_clear(&effects);
    gossip_met(us, net.now_ms, &net.nodes[0].id, &effects);
    ck_assert_uint_eq(effects.count, 0); /* ourselves */
    talk_end();
}
END_TEST

START_TEST(rumors_from_an_unknown_sender_are_not_asked_back_for_ever)
{
    talk_begin(3, 2);
    struct draft rumors = {0};
    talk_state(&rumors, 2, 1ULL << 32, 1, 1, ACCUSE_DEAD); /* not taken in */
    ck_assert_int_eq(talk_receive(2, FRAME_RUMORS, &rumors), 0);
    ck_assert_uint_eq(effects.count, 0);
    talk_end();
}
END_TEST

START_TEST(a_sender_that_is_ahead_is_asked)
{
    talk_begin(2, 2);
    struct draft ping = {.incarnation = 1ULL << 32, .version = 9};
    ck_assert_int_eq(talk_receive(1, FRAME_PING, &ping), 0);
    ck_assert_uint_eq(talk_sent(1, FRAME_PING_REPLY)->asks_count, 1);
    talk_end();
}
END_TEST

START_TEST(an_ask_is_answered)
{
    struct record record;
    talk_begin(4, 4);
    struct draft rumors = {0};
    draft_ask(&rumors, id_prefix(&net.nodes[3].id));
    draft_ask(&rumors, 77); /* nobody's */
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_ptr_nonnull(talk_said(talk_sent(1, FRAME_RUMORS), 3, &record));
    talk_end();
}
END_TEST

START_TEST(a_suspect_is_told_in_the_ping)
{
    struct record record;
    talk_begin(4, 4);
    gossip_refused(us, net.now_ms, &net.nodes[1].id, &effects);
    struct message *ping = talk_sent(1, FRAME_PING);
    const struct statement *word = talk_said(ping, 1, &record);
    ck_assert_ptr_nonnull(word);
    ck_assert_uint_eq(word->accusations_count, 1);
    ck_assert(id_equal(&word->accusations[0].accuser, &net.nodes[0].id));
    ck_assert_int_eq(accusation_verify(&word->accusations[0], &net.swarm,
                                       secret_admit_id(net.secret), &net.nodes[1].id,
                                       record.incarnation, &err),
                     0);
    struct message *relay = talk_sent(2, FRAME_PING_RELAY);
    ck_assert_ptr_nonnull(talk_said(relay, 1, &record)); /* and through others */
    talk_end();
}
END_TEST

START_TEST(a_relay_forwards_an_answer_with_what_it_says_and_a_silence_as_such)
{
    struct record record;
    talk_begin(4, 4);
    struct draft ask = {.nonce = 99, .subject = net.nodes[2].id};
    ck_assert_int_eq(talk_receive(1, FRAME_PING_RELAY, &ask), 0);
    struct message *ping = talk_sent(2, FRAME_PING);
    ck_assert_ptr_nonnull(ping);
    struct draft pong = {
        .nonce = ping->nonce, .subject = net.nodes[2].id, .answered = true};
    effects_clear(&effects);
    ck_assert_int_eq(talk_receive(2, FRAME_PING_REPLY, &pong), 0);
    struct message *reply = talk_sent(1, FRAME_PING_REPLY);
    ck_assert_uint_eq(reply->nonce, 99);
    ck_assert(reply->answered);
    ck_assert(id_equal(&reply->subject, &net.nodes[2].id));
    ck_assert_ptr_nonnull(talk_said(reply, 2, &record));

    effects_clear(&effects);
    ask = (struct draft){.nonce = 100, .subject = net.nodes[3].id};
    ck_assert_int_eq(talk_receive(1, FRAME_PING_RELAY, &ask), 0);
    effects_clear(&effects);
    gossip_tick(us, net.now_ms += 400, &effects);
    reply = talk_sent(1, FRAME_PING_REPLY);
    ck_assert_uint_eq(reply->nonce, 100);
    ck_assert(!reply->answered);
    ck_assert_int_eq(net_view(&net, 0, 3), MEMBER_ALIVE); /* not our evidence */
    talk_end();
}
END_TEST

START_TEST(a_relay_to_the_unknown_is_declined_and_one_to_us_is_answered)
{
    talk_begin(4, 2);
    struct draft ask = {.nonce = 5, .subject = net.nodes[3].id};
    ck_assert_int_eq(talk_receive(1, FRAME_PING_RELAY, &ask), 0);
    ck_assert(!talk_sent(1, FRAME_PING_REPLY)->answered);
    effects_clear(&effects);
    ask = (struct draft){.nonce = 6, .subject = net.nodes[0].id};
    ck_assert_int_eq(talk_receive(1, FRAME_PING_RELAY, &ask), 0);
    ck_assert(talk_sent(1, FRAME_PING_REPLY)->answered);
    talk_end();
}
END_TEST

START_TEST(health_falls_only_when_others_do_not_miss_the_answer_too)
{
    talk_begin(3, 3);
    ck_assert_uint_eq(gossip_health(us), 0);
    for (int i = 0; i < 100; i++)
        gossip_tick(us, net.now_ms += 100, &effects);
    ck_assert_uint_gt(gossip_health(us),
                      0); /* nobody answers, not even helpers: it may be us */
    unsigned at_worst = gossip_health(us);
    ck_assert_uint_le(at_worst, 7);
    for (int i = 0; i < 400; i++) {
        effects_clear(&effects);
        gossip_tick(us, net.now_ms += 100, &effects);
        for (size_t k = 0; k < effects.count; k++) {
            const struct effect *effect = &effects.list[k];
            struct message ping;
            if (effect->kind != EFFECT_SEND || effect->frame != FRAME_PING)
                continue;
            ck_assert_int_eq(message_decode(effect->bytes, effect->len, &ping, &err), 0);
            size_t to = id_equal(&effect->peer, &net.nodes[1].id) ? 1 : 2;
            struct draft pong = {
                .nonce = ping.nonce, .subject = net.nodes[to].id, .answered = true};
            message_release(&ping);
            effects_clear(&effects);
            ck_assert_int_eq(talk_receive(to, FRAME_PING_REPLY, &pong), 0);
        }
    }
    ck_assert_uint_eq(gossip_health(us), 0);
    talk_end();
}
END_TEST

/* The worst health in half a minute in which node 1 says nothing and all others answer for
 * themselves; what helpers say of it: that they got no answer either, or nothing. */
static unsigned
worst_health_by(bool helpers_speak)
{
    unsigned worst = 0;
    talk_begin(5, 5);
    for (int i = 0; i < 600; i++) {
        effects_clear(&effects);
        gossip_tick(us, net.now_ms += 50, &effects);
        struct effects turn = effects;
        effects = (struct effects){0};
        for (size_t k = 0; k < turn.count; k++) {
            const struct effect *effect = &turn.list[k];
            struct message asked;
            bool relay = effect->frame == FRAME_PING_RELAY;
            if (effect->kind != EFFECT_SEND || (effect->frame != FRAME_PING && !relay) ||
                id_equal(&effect->peer, &net.nodes[1].id) || (relay && !helpers_speak))
                continue;
            ck_assert_int_eq(message_decode(effect->bytes, effect->len, &asked, &err), 0);
            size_t from = 2;
            while (!id_equal(&net.nodes[from].id, &effect->peer))
                from++;
            struct draft reply = {
                .nonce = asked.nonce, .subject = asked.subject, .answered = !relay};
            message_release(&asked);
            ck_assert_int_eq(talk_receive(from, FRAME_PING_REPLY, &reply), 0);
        }
        effects_release(&turn);
        worst = gossip_health(us) > worst ? gossip_health(us) : worst;
    }
    ck_assert_int_ne(net_view(&net, 0, 1), MEMBER_ALIVE);
    talk_end();
    return worst;
}

START_TEST(a_nack_says_that_it_is_not_us)
{
    ck_assert_uint_eq(worst_health_by(true), 0);
    ck_assert_uint_gt(worst_health_by(false), 0);
}
END_TEST

/* ---- accusations ---- */

START_TEST(an_accusation_is_refuted_in_the_answer)
{
    struct record record;
    talk_begin(3, 3);
    uint64_t before = talk_mine()->incarnation;
    struct draft ping = {.nonce = 1, .subject = net.nodes[0].id};
    /* Our own record with an accusation, as the accuser would send it. */
    struct accusation word = talk_accusation_by(1, 0, before, ACCUSE_DEAD);
    const struct member *self = gossip_member_self(us);
    draft_state(&ping, self->bytes, self->len, &word, 1);
    ck_assert_int_eq(talk_receive(1, FRAME_PING, &ping), 0);
    ck_assert_uint_eq(talk_mine()->incarnation, before + 1);
    ck_assert_ptr_nonnull(talk_said(talk_sent(1, FRAME_PING_REPLY), 0, &record));
    ck_assert_uint_eq(record.incarnation, before + 1);
    ck_assert_ptr_nonnull(
        talk_said(talk_sent(2, FRAME_RUMORS), 0, &record)); /* and to others at once */
    ck_assert_uint_eq(record.incarnation, before + 1);
    ck_assert_ptr_null(talk_first_effect(EFFECT_CONFLICT));
    ck_assert_uint_eq(gossip_health(us), 1);
    const struct effect *news = talk_first_effect(EFFECT_MEMBER);
    ck_assert(id_equal(&news->peer, &net.nodes[0].id));
    ck_assert_int_eq(strncmp(news->text, "refuted", 7), 0);

    /* The same once more is old, and is answered by what is known. */
    effects_clear(&effects);
    struct draft again = {0};
    struct buf old = talk_record_of(0, before, 1, false);
    draft_state(&again, old.data, old.len, &word, 1);
    buf_release(&old);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &again), 0);
    ck_assert_uint_eq(talk_mine()->incarnation, before + 1);
    ck_assert_ptr_nonnull(talk_said(talk_sent(1, FRAME_RUMORS), 0, &record));
    talk_end();
}
END_TEST

START_TEST(who_leaves_does_not_refute)
{
    talk_begin(3, 3);
    net_leave(&net, 0);
    uint64_t before = talk_mine()->incarnation;
    struct draft rumors = {0};
    struct accusation word = talk_accusation_by(1, 0, before, ACCUSE_SUSPECT);
    const struct member *self = gossip_member_self(us);
    ck_assert_int_eq(self->state, MEMBER_LEFT);
    draft_state(&rumors, self->bytes, self->len, &word, 1);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    ck_assert_uint_eq(talk_mine()->incarnation, before);
    talk_end();
}
END_TEST

START_TEST(a_stale_record_is_answered_with_the_accusation)
{
    struct record record;
    talk_begin(5, 5);
    struct draft rumors = {0};
    talk_state(&rumors, 1, 2ULL << 32, 2, 2, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(3, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_SUSPECT);
    for (uint64_t boot = 1; boot <= 2; boot++) {
        effects_clear(&effects);
        struct draft stale = {0};
        talk_state(&stale, 1, boot << 32, 0, 0, ACCUSE_NOTHING);
        ck_assert_int_eq(talk_receive(4, FRAME_RUMORS, &stale), 0);
        const struct statement *word = talk_said(talk_sent(4, FRAME_RUMORS), 1, &record);
        ck_assert_ptr_nonnull(word);
        ck_assert_uint_eq(record.incarnation, 2ULL << 32);
        ck_assert_uint_eq(word->accusations_count, 2);
    }
    talk_end();
}
END_TEST

START_TEST(a_suspect_that_speaks_is_told_and_its_new_record_clears_it)
{
    struct record record;
    talk_begin(5, 5);
    struct draft rumors = {0};
    talk_state(&rumors, 1, 1ULL << 32, 2, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(3, FRAME_RUMORS, &rumors), 0);
    effects_clear(&effects);
    gossip_heard(us, net.now_ms += 250, &net.nodes[1].id);
    gossip_tick(us, net.now_ms += 10, &effects);
    const struct statement *word = talk_said(talk_sent(1, FRAME_RUMORS), 1, &record);
    if (!word)
        word = talk_said(talk_sent(1, FRAME_PING), 1,
                         &record); /* it was its turn just then */
    ck_assert_ptr_nonnull(word);
    ck_assert_uint_eq(word->accusations_count, 1);
    ck_assert_int_eq(net_view(&net, 0, 1),
                     MEMBER_SUSPECT); /* its word alone is not enough */
    struct draft refuted = {.incarnation = (1ULL << 32) + 1};
    talk_state(&refuted, 1, (1ULL << 32) + 1, 0, 0, ACCUSE_NOTHING);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &refuted), 0);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_ALIVE);
    talk_end();
}
END_TEST

/* How long from accusation by nodes 2.. to death, as node 0 sees it when nobody
 * speaks. */
static int64_t
time_to_death(uint32_t accusers, enum accusation_kind kind)
{
    talk_begin(12, 12);
    struct draft rumors = {0};
    talk_state(&rumors, 1, 1ULL << 32, 2, accusers, kind);
    ck_assert_int_eq(talk_receive(2, FRAME_RUMORS, &rumors), 0);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_SUSPECT); /* nobody dies of hearsay */
    int64_t began_ms = net.now_ms;
    while (net_view(&net, 0, 1) == MEMBER_SUSPECT) {
        effects_clear(&effects);
        net.now_ms += 20;
        for (size_t i = 2; i < 12; i++)
            gossip_heard(us, net.now_ms, &net.nodes[i].id);
        gossip_tick(us, net.now_ms, &effects);
        /* Its own probes of it would confirm: let them be answered by a helper that knows
         * better. */
        for (size_t k = 0; k < effects.count; k++) {
            const struct effect *effect = &effects.list[k];
            struct message relay;
            if (effect->kind != EFFECT_SEND || effect->frame != FRAME_PING ||
                kind == ACCUSE_DEAD)
                continue;
            size_t to = 0;
            while (!id_equal(&net.nodes[to].id, &effect->peer))
                to++;
            ck_assert_int_eq(message_decode(effect->bytes, effect->len, &relay, &err), 0);
            if (to != 1) {
                struct draft pong = {
                    .nonce = relay.nonce, .subject = net.nodes[to].id, .answered = true};
                struct effects held = effects;
                effects = (struct effects){0};
                ck_assert_int_eq(talk_receive(to, FRAME_PING_REPLY, &pong), 0);
                effects_release(&effects);
                effects = held;
            }
            message_release(&relay);
        }
        ck_assert_int_lt(net.now_ms - began_ms, 60000);
    }
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_DEAD);
    int64_t took = net.now_ms - began_ms;
    talk_end();
    return took;
}

START_TEST(each_accuser_more_shortens_suspicion_and_a_second_word_of_death_most)
{
    int64_t four = time_to_death(4, ACCUSE_SUSPECT);
    int64_t two = time_to_death(2, ACCUSE_SUSPECT);
    int64_t dead = time_to_death(2, ACCUSE_DEAD);
    printf("to death: %lld ms with two accusers, %lld with four, %lld with two that say "
           "dead\n",
           (long long)two, (long long)four, (long long)dead);
    ck_assert_int_le(four, 6000);
    ck_assert_int_gt(two, four);
    ck_assert_int_le(dead, 3500);
    ck_assert_int_ge(dead, 900); /* not without a try of our own */
}
END_TEST

START_TEST(a_shared_accuser_counts_once_however_often_it_is_heard)
{
    talk_begin(6, 6);
    for (int i = 0; i < 5; i++) {
        struct draft rumors = {0};
        talk_state(&rumors, 1, 1ULL << 32, 2, 1, ACCUSE_SUSPECT);
        ck_assert_int_eq(talk_receive(3, FRAME_RUMORS, &rumors), 0);
    }
    unsigned news = 0;
    for (size_t i = 0; i < effects.count; i++)
        news += effects.list[i].kind == EFFECT_MEMBER;
    ck_assert_uint_eq(news, 1);
    talk_end();
}
END_TEST

START_TEST(false_accusations_are_refused_and_change_nothing)
{
    talk_begin(5, 5);
    uint64_t before = talk_fingerprint();
    struct accusation word[3] = {talk_accusation_by(1, 1, 1ULL << 32, ACCUSE_DEAD),
                                 talk_accusation_by(2, 1, 5, ACCUSE_DEAD),
                                 talk_accusation_by(2, 1, 1ULL << 32, ACCUSE_DEAD)};
    memset(word[2].admission, 0, sizeof(word[2].admission));
    enum err_code codes[3] = {ERR_WIRE, ERR_AUTH, ERR_AUTH};
    for (int i = 0; i < 3; i++) {
        struct draft rumors = {0};
        struct buf record = talk_record_of(1, 1ULL << 32, 0, false);
        talk_state(&rumors, 3, 7ULL << 32, 0, 0,
                   ACCUSE_NOTHING); /* good, but in bad company */
        draft_state(&rumors, record.data, record.len, &word[i], 1);
        buf_release(&record);
        ck_assert_int_eq(talk_receive(4, FRAME_RUMORS, &rumors), -1);
        ck_assert_int_eq(err.code, codes[i]);
        ck_assert_ptr_nonnull(strstr(err.msg, "FRAME_RUMORS from node "));
        ck_assert_uint_eq(talk_fingerprint(), before);
        ck_assert_uint_eq(effects.count, 0);
    }
    talk_end();
}
END_TEST

START_TEST(an_accusation_cannot_name_an_incarnation_that_its_target_never_had)
{
    talk_begin(4, 4);
    struct draft rumors = {0};
    struct buf bytes = talk_record_of(1, 900ULL << 32, 0, false);
    struct accusation word = talk_accusation_by(2, 1, 900ULL << 32, ACCUSE_DEAD);
    bytes.data[bytes.len - 1] ^= 1;
    draft_state(&rumors, bytes.data, bytes.len, &word, 1);
    ck_assert_int_eq(talk_receive(2, FRAME_RUMORS, &rumors), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_int_eq(net_view(&net, 0, 1), MEMBER_ALIVE);
    buf_release(&bytes);
    talk_end();
}
END_TEST

/* ---- digests ---- */

/* Take up all rumors, so that none rides along with what comes next. */
static void
drain(void)
{
    for (int i = 0; i < 20; i++) {
        struct draft ping = {0};
        ck_assert_int_eq(talk_receive(1, FRAME_PING, &ping), 0);
    }
    effects_clear(&effects);
}

START_TEST(a_digest_is_answered_with_what_is_newer_and_asks_for_what_is_older)
{
    struct record record;
    talk_begin(6, 4);
    struct draft rumors = {0};
    talk_state(&rumors, 2, 5ULL << 32, 0, 0, ACCUSE_NOTHING);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
    drain();
    struct digest_entry entries[5] = {
        {id_prefix(&net.nodes[1].id), 1ULL << 32, 0, MEMBER_ALIVE}, /* the same */
        {id_prefix(&net.nodes[2].id), 4ULL << 32, 9, MEMBER_ALIVE}, /* older */
        {id_prefix(&net.nodes[3].id), 1ULL << 32, 3, MEMBER_ALIVE}, /* newer */
        {id_prefix(&net.nodes[4].id), 1ULL << 32, 0, MEMBER_ALIVE}, /* not known here */
        {id_prefix(&net.nodes[5].id), 1ULL << 32, 0,
         MEMBER_DEAD}}; /* nor this, but dead */
    talk_digest(1, entries, 5);
    struct message *answer = talk_sent(1, FRAME_RUMORS);
    ck_assert_ptr_nonnull(talk_said(answer, 2, &record));
    ck_assert_uint_eq(record.incarnation, 5ULL << 32);
    ck_assert_ptr_nonnull(talk_said(answer, 0, &record)); /* not in the digest */
    ck_assert_ptr_null(talk_said(answer, 1, &record));
    ck_assert_ptr_null(talk_said(answer, 3, &record));
    ck_assert_uint_eq(answer->asks_count, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert(answer->asks[i] == id_prefix(&net.nodes[3].id) ||
                  answer->asks[i] == id_prefix(&net.nodes[4].id));
    /* At once again: not answered, since each answer may be long. */
    effects_clear(&effects);
    talk_digest(1, entries, 5);
    ck_assert_ptr_null(talk_sent(1, FRAME_RUMORS));
    talk_end();
}
END_TEST

START_TEST(a_digest_shows_accusations_either_way)
{
    struct record record;
    talk_begin(5, 5);
    struct draft rumors = {0};
    talk_state(&rumors, 2, 1ULL << 32, 3, 1, ACCUSE_SUSPECT);
    ck_assert_int_eq(talk_receive(3, FRAME_RUMORS, &rumors), 0);
    drain();
    struct digest_entry entries[5];
    for (size_t i = 0; i < 5; i++)
        entries[i] = (struct digest_entry){id_prefix(&net.nodes[i].id), 1ULL << 32,
                                           i == 0, MEMBER_ALIVE};
    entries[4].state = MEMBER_DEAD;
    talk_digest(1, entries, 5);
    struct message *answer = talk_sent(1, FRAME_RUMORS);
    ck_assert_uint_eq(talk_said(answer, 2, &record)->accusations_count, 1);
    ck_assert_uint_eq(answer->asks_count, 1);
    ck_assert_uint_eq(answer->asks[0], id_prefix(&net.nodes[4].id));
    talk_end();
}
END_TEST

/* ---- twins ---- */

START_TEST(a_record_with_our_key_that_we_did_not_make_is_a_conflict)
{
    talk_begin(3, 3);
    struct {
        uint64_t incarnation, version;
        bool conflict;
    } cases[] = {
        {1ULL << 32, 9, true},       /* a version to come */
        {(1ULL << 32) + 3, 1, true}, /* a refutation that we did not make */
        {2ULL << 32, 1, true},       /* a later boot */
        {0, 9, false},               /* left over from an older boot */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        net.now_ms += 20000;
        effects_clear(&effects);
        uint64_t before = talk_mine()->incarnation;
        struct buf bytes =
            talk_record_of(0, cases[i].incarnation, cases[i].version, false);
        struct draft rumors = {0};
        draft_state(&rumors, bytes.data, bytes.len, NULL, 0);
        ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), 0);
        const struct effect *conflict = talk_first_effect(EFFECT_CONFLICT);
        ck_assert_msg((conflict != NULL) == cases[i].conflict, "case %zu", i);
        if (conflict) {
            ck_assert(id_equal(&conflict->peer, &net.nodes[1].id));
            ck_assert_ptr_nonnull(strstr(conflict->text, "127.0.0.1:7700"));
        }
        ck_assert_uint_eq(talk_mine()->incarnation, before); /* not outbid */
        /* Once in a while is enough. */
        effects_clear(&effects);
        struct draft again = {0};
        draft_state(&again, bytes.data, bytes.len, NULL, 0);
        ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &again), 0);
        ck_assert_ptr_null(talk_first_effect(EFFECT_CONFLICT));
        buf_release(&bytes);
    }
    talk_end();
}
END_TEST

START_TEST(a_twin_of_the_same_boot_and_version_is_a_conflict_and_our_own_old_word_is_none)
{
    talk_begin(2, 2);
    struct record record;
    const struct member *self = gossip_member_self(us);
    struct buf old = {0}, twin = {0};
    buf_add(&old, self->bytes, self->len);
    net_record(&net, 0, &record);
    record.epoch = 5;
    gossip_self(us, &record, &effects);
    struct draft ours = {0};
    draft_state(&ours, old.data, old.len, NULL, 0);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &ours), 0);
    ck_assert_ptr_null(talk_first_effect(EFFECT_CONFLICT));
    record.version = talk_mine()->version;
    snprintf(record.address, sizeof(record.address), "elsewhere:1");
    record_sign(&record, net.nodes[0].key, &net.swarm, &twin);
    struct draft theirs = {0};
    draft_state(&theirs, twin.data, twin.len, NULL, 0);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &theirs), 0);
    ck_assert_ptr_nonnull(talk_first_effect(EFFECT_CONFLICT));
    ck_assert_ptr_nonnull(
        strstr(talk_first_effect(EFFECT_CONFLICT)->text, "elsewhere:1"));
    buf_release(&old);
    buf_release(&twin);
    talk_end();
}
END_TEST

START_TEST(only_the_key_itself_can_make_a_conflict)
{
    talk_begin(2, 2);
    struct buf forged = talk_record_of(0, 9ULL << 32, 1, false);
    forged.data[forged.len - 1] ^= 1;
    struct draft rumors = {0};
    draft_state(&rumors, forged.data, forged.len, NULL, 0);
    ck_assert_int_eq(talk_receive(1, FRAME_RUMORS, &rumors), -1);
    ck_assert_int_eq(err.code, ERR_AUTH);
    ck_assert_uint_eq(effects.count, 0);
    buf_release(&forged);
    struct draft ping = {0};
    ck_assert_int_eq(talk_receive(0, FRAME_PING, &ping),
                     0); /* a frame signed with our key */
    ck_assert_uint_eq(effects.count, 1);
    ck_assert_int_eq(effects.list[0].kind, EFFECT_CONFLICT);
    talk_end();
}
END_TEST

START_TEST(of_two_twins_a_third_shows_the_loser_the_winner)
{
    talk_begin(3, 2);
    struct record record;
    struct buf one = talk_record_of(2, 1ULL << 32, 1, false), two = {0};
    net_record(&net, 2, &record);
    record.version = 1;
    record.epoch = 1;
    record_sign(&record, net.nodes[2].key, &net.swarm, &two);
    bool one_wins =
        one.len != two.len ? one.len > two.len : memcmp(one.data, two.data, one.len) > 0;
    struct buf *winner = one_wins ? &one : &two, *loser = one_wins ? &two : &one;
    ck_assert_int_eq(
        gossip_merge(us, net.now_ms, winner->data, winner->len, &effects, &err), 0);
    effects_clear(&effects);
    ck_assert_int_eq(
        gossip_merge(us, net.now_ms, loser->data, loser->len, &effects, &err), 0);
    struct message *answer = talk_sent(2, FRAME_RUMORS);
    ck_assert_ptr_nonnull(talk_said(answer, 2, &record));
    const struct member *kept = gossip_find(us, &net.nodes[2].id);
    ck_assert_uint_eq(kept->len, winner->len);
    ck_assert_mem_eq(kept->bytes, winner->data, winner->len);
    buf_release(&one);
    buf_release(&two);
    talk_end();
}
END_TEST

/* ---- bad input ---- */

START_TEST(frames_for_others_of_others_and_of_no_concern_are_refused)
{
    talk_begin(2, 2);
    uint64_t before = talk_fingerprint();
    struct draft draft = {.incarnation = 1ULL << 32};
    struct buf body = {0};
    draft_encode(&draft, &body);
    struct frame good = {.kind = FRAME_PING,
                         .swarm = net.swarm,
                         .from = net.nodes[1].id,
                         .to = net.nodes[0].id,
                         .body = body.data,
                         .body_len = body.len};
    struct frame bad[3] = {good, good, good};
    memset(&bad[0].swarm, 1, sizeof(bad[0].swarm));
    bad[1].to = net.nodes[1].id;
    bad[2].kind = FRAME_BEAT;
    enum err_code codes[3] = {ERR_AUTH, ERR_WIRE, ERR_WIRE};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(gossip_receive(us, net.now_ms, &bad[i], &effects, &err), -1);
        ck_assert_int_eq(err.code, codes[i]);
        ck_assert_uint_eq(effects.count, 0);
        ck_assert_uint_eq(talk_fingerprint(), before);
    }
    ck_assert_int_eq(gossip_merge(us, net.now_ms, "junk", 4, &effects, &err), -1);
    ck_assert_int_eq(gossip_merge(us, net.now_ms, "", 0, &effects, &err), -1);
    buf_release(&body);
    talk_end();
}
END_TEST

START_TEST(a_core_without_a_record_of_its_own_learns_and_says_nothing)
{
    net_open(&net, 1, 2);
    struct gossip *mute =
        gossip_new(&(struct gossip_options){.key = net.nodes[0].key,
                                            .swarm = net.swarm,
                                            .admit_id = *secret_admit_id(net.secret)},
                   1000);
    net.nodes[1].boot = 1;
    ck_assert_ptr_null(gossip_member_self(mute));
    struct buf bytes = talk_record_of(1, 1ULL << 32, 0, false);
    ck_assert_int_eq(gossip_merge(mute, 1000, bytes.data, bytes.len, &effects, &err), 0);
    ck_assert_uint_eq(gossip_count(mute), 1);
    for (int i = 0; i < 30; i++)
        gossip_tick(mute, 1000 + 100 * i, &effects);
    gossip_refused(mute, 5000, &net.nodes[1].id, &effects);
    for (size_t i = 0; i < effects.count; i++)
        ck_assert_int_ne(effects.list[i].kind, EFFECT_SEND);
    gossip_free(mute);
    gossip_free(NULL);
    buf_release(&bytes);
    effects_release(&effects);
    net_close(&net);
}
END_TEST

Suite *
suite_rumor(void)
{
    Suite *suite = suite_create("rumor");
    TCase *tests = suite_case(suite, "probe", 60);
    tcase_add_test(tests, a_ping_is_answered_with_its_nonce);
    tcase_add_test(tests, an_unknown_sender_is_asked_for_its_record_and_then_met);
    tcase_add_test(tests, a_peer_whose_connection_is_up_gets_our_record_and_a_digest);
    tcase_add_test(tests, rumors_from_an_unknown_sender_are_not_asked_back_for_ever);
    tcase_add_test(tests, a_sender_that_is_ahead_is_asked);
    tcase_add_test(tests, an_ask_is_answered);
    tcase_add_test(tests, a_suspect_is_told_in_the_ping);
    tcase_add_test(tests,
                   a_relay_forwards_an_answer_with_what_it_says_and_a_silence_as_such);
    tcase_add_test(tests, a_relay_to_the_unknown_is_declined_and_one_to_us_is_answered);
    tcase_add_test(tests, health_falls_only_when_others_do_not_miss_the_answer_too);
    tcase_add_test(tests, a_nack_says_that_it_is_not_us);
    tests = suite_case(suite, "accusation", 60);
    tcase_add_test(tests, an_accusation_is_refuted_in_the_answer);
    tcase_add_test(tests, who_leaves_does_not_refute);
    tcase_add_test(tests, a_stale_record_is_answered_with_the_accusation);
    tcase_add_test(tests, a_suspect_that_speaks_is_told_and_its_new_record_clears_it);
    tcase_add_test(tests,
                   each_accuser_more_shortens_suspicion_and_a_second_word_of_death_most);
    tcase_add_test(tests, a_shared_accuser_counts_once_however_often_it_is_heard);
    tcase_add_test(tests, false_accusations_are_refused_and_change_nothing);
    tcase_add_test(tests,
                   an_accusation_cannot_name_an_incarnation_that_its_target_never_had);
    tests = suite_case(suite, "digest", 30);
    tcase_add_test(tests,
                   a_digest_is_answered_with_what_is_newer_and_asks_for_what_is_older);
    tcase_add_test(tests, a_digest_shows_accusations_either_way);
    tests = suite_case(suite, "twin", 30);
    tcase_add_test(tests, a_record_with_our_key_that_we_did_not_make_is_a_conflict);
    tcase_add_test(
        tests,
        a_twin_of_the_same_boot_and_version_is_a_conflict_and_our_own_old_word_is_none);
    tcase_add_test(tests, only_the_key_itself_can_make_a_conflict);
    tcase_add_test(tests, of_two_twins_a_third_shows_the_loser_the_winner);
    tests = suite_case(suite, "input", 30);
    tcase_add_test(tests, frames_for_others_of_others_and_of_no_concern_are_refused);
    tcase_add_test(tests, a_core_without_a_record_of_its_own_learns_and_says_nothing);
    return suite;
}
