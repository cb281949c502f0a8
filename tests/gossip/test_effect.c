#include "gossip/effect.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_effect(void);

START_TEST(an_effect_owns_a_copy_of_its_bytes)
{
    struct effects effects = {0};
    char bytes[] = "abc";
    struct effect *effect = effects_add(&effects, EFFECT_PERSIST, bytes, 3);
    bytes[0] = 'x';
    ck_assert_int_eq(effect->kind, EFFECT_PERSIST);
    ck_assert_uint_eq(effect->len, 3);
    ck_assert_mem_eq(effect->bytes, "abc", 3);
    ck_assert(id_empty(&effect->peer));
    ck_assert_int_eq(effect->text[0], 0);
    effects_release(&effects);
}
END_TEST

START_TEST(effects_keep_their_order_as_the_list_grows)
{
    struct effects effects = {0};
    for (uint8_t i = 0; i < 100; i++)
        effects_add(&effects, EFFECT_MEMBER, &i, 1);
    ck_assert_uint_eq(effects.count, 100);
    for (uint8_t i = 0; i < 100; i++)
        ck_assert_uint_eq(effects.list[i].bytes[0], i);
    effects_release(&effects);
}
END_TEST

START_TEST(a_send_names_peer_and_frame)
{
    struct effects effects = {0};
    struct id peer = {{1, 2, 3}};
    effects_send(&effects, &peer, FRAME_DIGEST, "body", 4);
    ck_assert_uint_eq(effects.count, 1);
    ck_assert_int_eq(effects.list[0].kind, EFFECT_SEND);
    ck_assert_int_eq(effects.list[0].frame, FRAME_DIGEST);
    ck_assert(id_equal(&effects.list[0].peer, &peer));
    ck_assert_mem_eq(effects.list[0].bytes, "body", 4);
    effects_release(&effects);
}
END_TEST

START_TEST(a_cleared_list_starts_anew_and_a_released_one_holds_nothing)
{
    struct effects effects = {0};
    effects_add(&effects, EFFECT_QUORUM, "1", 1);
    effects_clear(&effects);
    ck_assert_uint_eq(effects.count, 0);
    struct effect *effect = effects_add(&effects, EFFECT_LEADER, NULL, 0);
    ck_assert_ptr_null(effect->bytes);
    ck_assert_uint_eq(effects.count, 1);
    effects_release(&effects);
    ck_assert_ptr_null(effects.list);
    ck_assert_uint_eq(effects.count + effects.capacity, 0);
}
END_TEST

Suite *
suite_effect(void)
{
    Suite *suite = suite_create("effect");
    TCase *tests = suite_case(suite, "effect", 10);
    tcase_add_test(tests, an_effect_owns_a_copy_of_its_bytes);
    tcase_add_test(tests, effects_keep_their_order_as_the_list_grows);
    tcase_add_test(tests, a_send_names_peer_and_frame);
    tcase_add_test(tests, a_cleared_list_starts_anew_and_a_released_one_holds_nothing);
    return suite;
}
