#include "node/invite.h"
#include "node/policy.h"
#include "tests/suite.h"
#include "transport/base/rng.h"

#include <stdio.h>
#include <string.h>

Suite *suite_policy(void);

enum { PEOPLE = 6 };

static struct {
    struct id swarm;
    struct key *keys[PEOPLE];
    struct id ids[PEOPLE]; /* who they are; the first three are members */
    struct secret *secrets[3];
    struct policy policy;
} world;
static struct err err;

static void
setup(void)
{
    err = (struct err){0};
    memset(&world, 0, sizeof(world));
    world.swarm = (struct id){{7}};
    for (uint8_t i = 0; i < PEOPLE; i++) {
        world.keys[i] = key_from_seed((const uint8_t[32]){i, 1});
        world.ids[i] = *key_id(world.keys[i]);
    }
    for (int i = 0; i < 3; i++)
        world.secrets[i] = secret_make();
    policy_found(&world.policy, secret_admit_id(world.secrets[0]));
}

static void
teardown(void)
{
    for (int i = 0; i < PEOPLE; i++)
        key_free(world.keys[i]);
    for (int i = 0; i < 3; i++)
        secret_free(world.secrets[i]);
    policy_release(&world.policy);
}

/* Signed by this one for the policy's version, opened and applied. */
static int
apply_by(int who, struct policy *policy, uint64_t version, struct policy_request request)
{
    struct buf bytes = {0};
    struct policy_request opened;
    request.from = world.ids[who];
    request.version = version;
    policy_request_sign(&request, world.keys[who], &world.swarm, &bytes);
    ck_assert_msg(
        policy_request_open(bytes.data, bytes.len, &world.swarm, &opened, &err) == 0,
        "%s", err.msg);
    int result = policy_apply(policy, &opened, &world.swarm, bytes.data, bytes.len, &err);
    policy_request_release(&opened);
    buf_release(&bytes);
    return result;
}

/* The next epoch's policy, with what was applied so far. */
static void
next_epoch(void)
{
    struct policy next;
    policy_begin(&next, &world.policy);
    policy_release(&world.policy);
    world.policy = next;
}

static int
ask(int who, struct policy_request request)
{
    return apply_by(who, &world.policy, world.policy.version, request);
}

static struct policy_request
rotation(enum policy_op op, int secret, const struct id *subject)
{
    struct policy_request request = {.op = op,
                                     .admit_id = *secret_admit_id(world.secrets[secret])};
    if (subject)
        request.subject = *subject;
    return request;
}

static struct policy_request
invite_of(const struct key *key, uint32_t uses)
{
    return (struct policy_request){.op = POLICY_INVITE,
                                   .subject = *key_id(key),
                                   .uses = uses,
                                   .left_s = 60,
                                   .votes = true};
}

static struct policy_request
use_of(const struct key *key, const struct id *user)
{
    struct policy_request request = {
        .op = POLICY_USE, .subject = *key_id(key), .user = *user};
    policy_proof(key, &world.swarm, user, request.proof);
    return request;
}

START_TEST(who_is_evicted_never_comes_back_and_the_secret_is_another)
{
    const struct id *gone = &world.ids[2];
    ck_assert_int_eq(policy_admits(&world.policy, gone, &err), 0);
    ck_assert_int_eq(ask(0, rotation(POLICY_EVICT, 1, gone)), 0);
    ck_assert(id_set_has(&world.policy.evicted, gone));
    ck_assert(id_equal(&world.policy.admit_id, secret_admit_id(world.secrets[1])));
    ck_assert(id_equal(&world.policy.before_id, secret_admit_id(world.secrets[0])));
    ck_assert_uint_eq(world.policy.version, 2);
    ck_assert_int_eq(policy_admits(&world.policy, gone, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "its key cannot return"));
    next_epoch();
    struct policy_request allow = {.op = POLICY_ALLOW,
                                   .ids = {.count = 1, .list = (struct id *)gone}};
    ck_assert_int_eq(ask(0, allow), -1);
    ck_assert_int_eq(ask(0, rotation(POLICY_EVICT, 2, gone)), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "evicted already"));
    /* Nor does it ask for anything. */
    ck_assert_int_eq(ask(2, rotation(POLICY_ROTATE, 2, NULL)), -1);
    ck_assert_int_eq(ask(1, rotation(POLICY_EVICT, 2, &world.ids[1])), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "does not evict itself"));
    ck_assert_uint_eq(world.policy.version, 2);
}
END_TEST

START_TEST(two_rotations_in_one_epoch_keep_the_secret_that_members_have)
{
    ck_assert_int_eq(ask(0, rotation(POLICY_ROTATE, 1, NULL)), 0);
    ck_assert_int_eq(apply_by(1, &world.policy, 1, rotation(POLICY_ROTATE, 2, NULL)), 0);
    ck_assert(id_equal(&world.policy.admit_id, secret_admit_id(world.secrets[2])));
    ck_assert(id_equal(&world.policy.before_id, secret_admit_id(world.secrets[0])));
    ck_assert_uint_eq(world.policy.version, 2);
    /* In the next epoch it is the one that was in force then. */
    next_epoch();
    ck_assert_int_eq(ask(0, rotation(POLICY_ROTATE, 1, NULL)), 0);
    ck_assert(id_equal(&world.policy.before_id, secret_admit_id(world.secrets[2])));
    ck_assert_int_eq(ask(0, rotation(POLICY_ROTATE, 1, NULL)), -1);
}
END_TEST

START_TEST(a_request_is_good_for_one_version)
{
    struct policy_request mode = {.op = POLICY_SET_MODE, .mode = POLICY_LIST};
    ck_assert_int_eq(apply_by(0, &world.policy, 1, mode), 0);
    next_epoch();
    mode.mode = POLICY_SECRET;
    ck_assert_int_eq(apply_by(0, &world.policy, 2, mode), 0);
    next_epoch();
    mode.mode = POLICY_LIST;
    ck_assert_int_eq(apply_by(0, &world.policy, 1, mode), -1);
    ck_assert_int_eq(err.code, ERR_STOPPED);
    ck_assert_int_eq(world.policy.mode, POLICY_SECRET);
}
END_TEST

START_TEST(a_request_that_was_changed_or_is_of_another_swarm_is_refused)
{
    struct policy_request request = rotation(POLICY_ROTATE, 1, NULL), opened;
    struct buf bytes = {0};
    request.from = world.ids[0];
    request.version = 1;
    policy_request_sign(&request, world.keys[0], &world.swarm, &bytes);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= 1;
        ck_assert_int_eq(
            policy_request_open(bytes.data, bytes.len, &world.swarm, &opened, &err), -1);
        bytes.data[i] ^= 1;
        ck_assert_int_eq(policy_request_open(bytes.data, i, &world.swarm, &opened, &err),
                         -1);
    }
    ck_assert_int_eq(
        policy_request_open(bytes.data, bytes.len, &world.ids[0], &opened, &err), -1);
    ck_assert_int_eq(
        policy_request_open(bytes.data, bytes.len, &world.swarm, &opened, &err), 0);
    policy_request_release(&opened);
    buf_release(&bytes);
}
END_TEST

START_TEST(an_invite_lets_in_as_many_as_it_says)
{
    struct key *invite = key_from_seed((const uint8_t[32]){99});
    ck_assert_int_eq(ask(0, invite_of(invite, 2)), 0);
    next_epoch();
    ck_assert_int_eq(ask(1, use_of(invite, &world.ids[3])), 0);
    next_epoch();
    ck_assert_int_eq(ask(1, use_of(invite, &world.ids[3])), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "already"));
    ck_assert_int_eq(ask(1, use_of(invite, &world.ids[4])), 0);
    next_epoch();
    ck_assert_int_eq(ask(1, use_of(invite, &world.ids[5])), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "used up"));
    struct policy_request revoke = {.op = POLICY_REVOKE, .subject = *key_id(invite)};
    ck_assert_int_eq(ask(2, revoke), 0);
    ck_assert_ptr_null(policy_invite(&world.policy, key_id(invite)));
    next_epoch();
    ck_assert_int_eq(ask(1, use_of(invite, &world.ids[5])), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "over or revoked"));
    key_free(invite);
}
END_TEST

START_TEST(the_use_of_an_invite_needs_its_bearers_word_for_this_node)
{
    struct key *invite = key_from_seed((const uint8_t[32]){99});
    ck_assert_int_eq(ask(0, invite_of(invite, 2)), 0);
    next_epoch();
    struct policy_request use = use_of(invite, &world.ids[3]);
    use.user = world.ids[4];
    ck_assert_int_eq(ask(0, use), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "proof"));
    use = use_of(invite, &world.ids[3]);
    policy_proof(world.keys[0], &world.swarm, &use.user, use.proof);
    ck_assert_int_eq(ask(0, use), -1);
    key_free(invite);
}
END_TEST

START_TEST(a_new_secret_ends_all_invites)
{
    struct key *invite = key_from_seed((const uint8_t[32]){99});
    ck_assert_int_eq(ask(0, invite_of(invite, 2)), 0);
    next_epoch();
    ck_assert_int_eq(ask(0, rotation(POLICY_ROTATE, 1, NULL)), 0);
    ck_assert_uint_eq(world.policy.invites_count, 0);
    key_free(invite);
}
END_TEST

START_TEST(on_the_list_are_members_the_named_and_the_invited)
{
    struct key *invite = key_from_seed((const uint8_t[32]){99});
    struct policy_request mode = {.op = POLICY_SET_MODE, .mode = POLICY_LIST};
    for (int i = 0; i < 3; i++)
        id_set_add(&mode.ids, &world.ids[i]);
    ck_assert_int_eq(ask(0, mode), 0);
    id_set_release(&mode.ids);
    struct policy_request allow = {.op = POLICY_ALLOW,
                                   .ids = {.count = 1, .list = &world.ids[3]}};
    next_epoch();
    struct policy_request open = invite_of(invite, 1);
    open.votes = false;
    ck_assert_int_eq(apply_by(0, &world.policy, 2, allow), 0);
    ck_assert_int_eq(apply_by(0, &world.policy, 2, open), 0);
    next_epoch();
    ck_assert_int_eq(ask(0, use_of(invite, &world.ids[4])), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(policy_admits(&world.policy, &world.ids[i], &err), 0);
    ck_assert_int_eq(policy_admits(&world.policy, &world.ids[5], &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "flotilla allow "));
    ck_assert(id_set_has(&world.policy.silent, &world.ids[4]));
    ck_assert(!id_set_has(&world.policy.silent, &world.ids[3]));
    next_epoch();
    allow.op = POLICY_DISALLOW;
    ck_assert_int_eq(ask(0, allow), 0);
    ck_assert_int_eq(policy_admits(&world.policy, &world.ids[3], &err), -1);
    key_free(invite);
}
END_TEST

START_TEST(every_list_has_an_end_with_a_sentence)
{
    struct policy_request allow = {.op = POLICY_ALLOW};
    for (int i = 0; i < POLICY_IDS_MAX; i++)
        id_set_add(&allow.ids, &(struct id){{9, (uint8_t)(i >> 8), (uint8_t)i}});
    ck_assert_int_eq(ask(0, allow), 0);
    id_set_release(&allow.ids);
    next_epoch();
    allow.ids = (struct id_set){.count = 1, .list = &world.ids[3]};
    ck_assert_int_eq(ask(0, allow), -1);
    ck_assert_int_eq(err.code, ERR_LIMIT);
    for (uint8_t i = 0; i < POLICY_INVITES_MAX; i++) {
        struct key *invite = key_from_seed((const uint8_t[32]){i, 5});
        ck_assert_int_eq(ask(0, invite_of(invite, 1)), 0);
        key_free(invite);
        next_epoch();
    }
    ck_assert_int_eq(ask(0, invite_of(world.keys[5], 1)), -1);
    ck_assert_int_eq(err.code, ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, "--revoke"));
    for (int i = 0; i < POLICY_IDS_MAX; i++)
        id_set_add(&world.policy.evicted,
                   &(struct id){{8, (uint8_t)(i >> 8), (uint8_t)i}});
    ck_assert_int_eq(ask(0, rotation(POLICY_EVICT, 1, &world.ids[3])), -1);
    ck_assert_int_eq(err.code, ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, "found a new swarm"));
}
END_TEST

/* ---- judgement ---- */

static int
judged(const struct policy *next, bool changed_over)
{
    return policy_judge(next, &world.policy, world.ids, 3, changed_over, &world.swarm,
                        &err);
}

START_TEST(a_voter_accepts_what_members_asked_for_and_nothing_else)
{
    struct policy next;
    policy_begin(&next, &world.policy);
    ck_assert_int_eq(judged(&next, true), 0);
    ck_assert_int_eq(apply_by(1, &next, 1, rotation(POLICY_EVICT, 1, &world.ids[2])), 0);
    ck_assert_int_eq(judged(&next, false), 0);
    /* A change that nobody asked for. */
    next.mode = POLICY_LIST;
    ck_assert_int_eq(judged(&next, false), -1);
    next.mode = POLICY_SECRET;
    next.version++;
    ck_assert_int_eq(judged(&next, false), -1);
    next.version--;
    struct id kept = next.evicted.list[0];
    next.evicted.list[0] = world.ids[1];
    ck_assert_int_eq(judged(&next, false), -1);
    next.evicted.list[0] = kept;
    /* The secret before counts until all have changed over, and no longer. */
    ck_assert_int_eq(judged(&next, true), -1);
    next.before_id = (struct id){{0}};
    ck_assert_int_eq(judged(&next, false), -1);
    ck_assert_int_eq(judged(&next, true), 0);
    policy_release(&next);
    /* Asked for by somebody who is no member. */
    policy_begin(&next, &world.policy);
    ck_assert_int_eq(apply_by(4, &next, 1, rotation(POLICY_ROTATE, 1, NULL)), 0);
    ck_assert_int_eq(judged(&next, false), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "by no member"));
    policy_release(&next);
}
END_TEST

START_TEST(an_invites_time_only_falls)
{
    struct key *invite = key_from_seed((const uint8_t[32]){99});
    ck_assert_int_eq(ask(0, invite_of(invite, 2)), 0);
    next_epoch();
    struct policy next;
    policy_begin(&next, &world.policy);
    next.invites[0].left_s = 30;
    ck_assert_int_eq(judged(&next, true), 0);
    next.invites[0].left_s = 61;
    ck_assert_int_eq(judged(&next, true), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "time grows"));
    next.invites[0].left_s = 60;
    next.invites[0].uses = 3;
    ck_assert_int_eq(judged(&next, true), -1);
    policy_release(&next);
    key_free(invite);
}
END_TEST

static void
read_back(const struct buf *bytes, struct policy *out)
{
    struct reader *reader = reader_open(bytes->data, bytes->len, &err);
    ck_assert_ptr_nonnull(reader);
    policy_read(reader, out);
    ck_assert_msg(reader_close(&reader, &err) == 0, "%s", err.msg);
}

START_TEST(a_policy_comes_back_from_its_bytes)
{
    struct key *invite = key_from_seed((const uint8_t[32]){99});
    struct policy got = {0};
    struct buf bytes = {0}, again = {0};
    ck_assert_int_eq(
        apply_by(0, &world.policy, 1, rotation(POLICY_EVICT, 1, &world.ids[2])), 0);
    ck_assert_int_eq(apply_by(0, &world.policy, 1, invite_of(invite, 2)), 0);
    ck_assert_int_eq(apply_by(1, &world.policy, 1, use_of(invite, &world.ids[3])), 0);
    policy_write(&world.policy, &bytes);
    read_back(&bytes, &got);
    policy_write(&got, &again);
    ck_assert_uint_eq(bytes.len, again.len);
    ck_assert_mem_eq(bytes.data, again.data, bytes.len);
    ck_assert_uint_eq(got.requests_count, 3);
    policy_release(&got);
    /* Damage is an error or another value, never worse. */
    struct rng rng = {.seed = suite_seed("a_policy_comes_back_from_its_bytes", 1)};
    for (int i = 0; i < 2000; i++) {
        struct policy bad = {0};
        size_t at = rng_below(&rng, bytes.len);
        uint8_t kept = bytes.data[at];
        bytes.data[at] = (uint8_t)rng_next(&rng);
        struct reader *reader = reader_open(bytes.data, bytes.len, &err);
        if (reader) {
            policy_read(reader, &bad);
            reader_close(&reader, &err);
        }
        policy_release(&bad);
        bytes.data[at] = kept;
    }
    buf_release(&bytes);
    buf_release(&again);
    key_free(invite);
}
END_TEST

/* ---- invites as text ---- */

START_TEST(an_invite_comes_back_from_its_string)
{
    struct invite invite = {.seeds_count = 2, .swarm = world.swarm}, got;
    char text[INVITE_TEXT_SIZE];
    ck_assert_int_eq(address_parse("203.0.113.7:7700", &invite.seeds[0], &err), 0);
    ck_assert_int_eq(address_parse("[2001:db8::1]:7703", &invite.seeds[1], &err), 0);
    key_random(invite.token, sizeof(invite.token));
    memcpy(invite.door, secret_join_public(world.secrets[0]), sizeof(invite.door));
    invite_text(&invite, text);
    ck_assert_msg(invite_parse(text, &got, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(got.seeds_count, 2);
    ck_assert_str_eq(got.seeds[1].host, invite.seeds[1].host);
    ck_assert_uint_eq(got.seeds[0].port, 7700);
    ck_assert_mem_eq(got.token, invite.token, sizeof(got.token));
    ck_assert_mem_eq(got.door, invite.door, sizeof(got.door));
    ck_assert(id_equal(&got.swarm, &invite.swarm));
    /* One slip anywhere is told, and the string is not repeated. */
    size_t len = strlen(text);
    for (size_t i = 7; i < len; i++) {
        char kept = text[i];
        text[i] = kept == 'b' ? 'c' : 'b';
        ck_assert_int_eq(invite_parse(text, &got, &err), -1);
        ck_assert_ptr_null(strstr(err.msg, text + 20));
        text[i] = kept;
    }
    text[len - 3] = '\0';
    ck_assert_int_eq(invite_parse(text, &got, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "damaged"));
    ck_assert_int_eq(invite_parse("swarm1:", &got, &err), -1);
    ck_assert_int_eq(invite_parse("203.0.113.7", &got, &err), -1);
}
END_TEST

Suite *
suite_policy(void)
{
    Suite *suite = suite_create("policy");
    TCase *tests = suite_case(suite, "policy", 20);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, who_is_evicted_never_comes_back_and_the_secret_is_another);
    tcase_add_test(tests, two_rotations_in_one_epoch_keep_the_secret_that_members_have);
    tcase_add_test(tests, a_request_is_good_for_one_version);
    tcase_add_test(tests, a_request_that_was_changed_or_is_of_another_swarm_is_refused);
    tcase_add_test(tests, an_invite_lets_in_as_many_as_it_says);
    tcase_add_test(tests, the_use_of_an_invite_needs_its_bearers_word_for_this_node);
    tcase_add_test(tests, a_new_secret_ends_all_invites);
    tcase_add_test(tests, on_the_list_are_members_the_named_and_the_invited);
    tcase_add_test(tests, every_list_has_an_end_with_a_sentence);
    tcase_add_test(tests, a_voter_accepts_what_members_asked_for_and_nothing_else);
    tcase_add_test(tests, an_invites_time_only_falls);
    tcase_add_test(tests, a_policy_comes_back_from_its_bytes);
    tcase_add_test(tests, an_invite_comes_back_from_its_string);
    return suite;
}
