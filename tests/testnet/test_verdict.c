#include "testnet/verdict.h"
#include "tests/suite.h"
#include "tests/testnet/stage.h"
#include "transport/json.h"

#include <string.h>

Suite *suite_verdict(void);

enum { ALL = 15 };

static struct scenario scenario;
static struct history history;
static struct verdict verdict;
static int64_t peaks[TESTNET_NODES_MAX] = {1000, 2000, 3000, 4000};

static void
setup(void)
{
    stage_set(&scenario, &history);
}

static void
teardown(void)
{
    history_release(&history);
}

static void
play(void)
{
    stage_epoch(&history, 1, 1, 0, "founding", -1, 1, 0, 50);
    stage_epoch(&history, 2, 1, 0, "job", 0, ALL, ALL, 100);
    stage_line(&history, 0, "{\"mono_ms\":100,\"event\":\"compute\",\"epoch\":2}");
    stage_line(&history, 1, "{\"event\":\"memory\",\"predicted_bytes\":77}");
    stage_line(&history, 1, "{\"event\":\"memory\",\"predicted_bytes\":55}");
    for (int step = 1; step <= 3; step++)
        stage_step(&history, ALL, 2, step, 100 + step * 100);
    stage_fault(&history, ACTION_KILL, TARGET_LEADER, 0, 450);
    stage_fault(&history, ACTION_CONTINUE, TARGET_NODE, 1, 460);
    history_join(&history, 3, 470);
    stage_line(&history, 0, "{\"event\":\"job\",\"state\":\"done\"}");
    stage_judge(&history, &verdict, "finished");
}

static struct json *
written(void)
{
    struct buf text = {0};
    struct err err;
    verdict_json(&history, &verdict, peaks, &text);
    struct json *json = json_parse((char *)text.data, text.len, 1 << 20, &err);
    ck_assert_msg(json != NULL, "%s", err.msg);
    buf_add(&text, "", 1);
    ck_assert_ptr_null(strstr((char *)text.data, "null"));
    buf_release(&text);
    return json;
}

START_TEST(the_json_has_every_field)
{
    play();
    struct json *json = written();
    ck_assert(json_bool(json_get(json, "passed"), false));
    ck_assert_uint_ge(json_count(json_get(json, "checks")), 3);
    ck_assert_int_eq(json_int(json_get(json, "steps"), 0), 3);
    ck_assert_int_eq(json_int(json_get(json, "tokens"), 0), 192);
    ck_assert(json_double(json_get(json, "tokens_per_s"), 0) == 640);
    ck_assert_str_eq(json_text(json_get(json, "samples_hash"), ""), "0000000000000015");
    const struct json *loss = json_get(json, "loss"), *epochs = json_get(json, "epochs");
    ck_assert_uint_eq(json_count(loss), 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(json_int(json_get(json_at(loss, i), "step"), 0), (int)i + 1);
        ck_assert(json_double(json_get(json_at(loss, i), "value"), 0) ==
                  5 - (double)(i + 1) / 100.0);
    }
    ck_assert_uint_eq(json_count(epochs), 2);
    ck_assert_str_eq(json_text(json_get(json_at(epochs, 1), "leader"), ""), "a1");
    ck_assert_str_eq(json_text(json_get(json_at(epochs, 0), "cause"), ""), "founding");
    const struct json *plan = json_get(json_at(epochs, 1), "plan");
    const struct json *stage = json_at(json_get(plan, "stages"), 0);
    ck_assert_int_eq(json_int(json_get(plan, "micro_batch"), 0), 4);
    ck_assert_int_eq(json_int(json_get(stage, "layers"), 0), 6);
    ck_assert_str_eq(
        json_text(json_get(json_at(json_get(stage, "replicas"), 2), "node"), ""), "b1");
    ck_assert_uint_eq(
        json_count(json_get(json_get(json_at(epochs, 0), "plan"), "stages")), 0);
    const struct json *recoveries = json_get(json, "recoveries");
    ck_assert_uint_eq(json_count(recoveries), 1);
    ck_assert_str_eq(json_text(json_get(json_at(recoveries, 0), "cause"), ""), "kill");
    ck_assert_int_eq(json_int(json_get(json_at(recoveries, 0), "at_step"), 0), 3);
    ck_assert_int_eq(json_int(json_get(json_at(recoveries, 0), "steps_lost"), 9), 0);
    ck_assert(json_double(json_get(json_at(recoveries, 0), "seconds"), 0) == -1);
    const struct json *join = json_at(json_get(json, "joins"), 0);
    ck_assert_str_eq(json_text(json_get(join, "id"), ""), "b2");
    ck_assert(json_double(json_get(join, "seconds"), 0) == -1);
    const struct json *node = json_at(json_get(json, "nodes"), 1);
    ck_assert_uint_eq(json_count(json_get(json, "nodes")), 4);
    ck_assert_str_eq(json_text(json_get(node, "id"), ""), "a2");
    ck_assert_str_eq(json_text(json_get(node, "zone"), ""), "a");
    ck_assert_int_eq(json_int(json_get(node, "peak_rss_bytes"), 0), 2000);
    ck_assert_int_eq(json_int(json_get(node, "predicted_bytes"), 0), 77);
    json_free(json);
}
END_TEST

START_TEST(a_run_that_never_began_has_a_verdict_too)
{
    stage_judge(&history, &verdict, "finished");
    struct json *json = written();
    ck_assert(!json_bool(json_get(json, "passed"), true));
    ck_assert_uint_ge(json_count(json_get(json, "checks")), 3);
    ck_assert_uint_eq(json_count(json_get(json, "loss")), 0);
    ck_assert(json_is_array(json_get(json, "epochs")));
    ck_assert(json_is_text(json_get(json, "samples_hash")));
    json_free(json);
    struct buf page = {0};
    verdict_page(&history, &verdict, 1, &page);
    ck_assert_ptr_nonnull(strstr((char *)page.data, "stage: failed in 1.0 s"));
    buf_release(&page);
}
END_TEST

START_TEST(the_page_tells_a_person_what_happened)
{
    static const char *const words[] = {
        "loss (nats per token)",  "*",
        "640 tokens/s",           "founding",
        "1 stages x 4 replicas",  "kill leader (a1)",
        "training never went on", "b2       never computed",
        "ok    finished",         "stage: passed in 12.3 s"};
    play();
    struct buf page = {0};
    verdict_page(&history, &verdict, 12.34, &page);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        ck_assert_msg(strstr((char *)page.data, words[i]) != NULL, "no \"%s\" in:\n%s",
                      words[i], (char *)page.data);
    buf_release(&page);
}
END_TEST

Suite *
suite_verdict(void)
{
    Suite *suite = suite_create("verdict");
    TCase *tests = suite_case(suite, "verdict", 10);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_json_has_every_field);
    tcase_add_test(tests, a_run_that_never_began_has_a_verdict_too);
    tcase_add_test(tests, the_page_tells_a_person_what_happened);
    return suite;
}
