#include "node/plan/document.h"
#include "node/plan/page.h"
#include "node/plan/svg.h"
#include "tests/node/plan_world.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

Suite *suite_plan_document(void);

static struct plan_cluster cluster;
static struct plan_job job;
static struct err err;

static void
setup(void)
{
    static const char text[] =
        "name: t\nmodel: {profiled: tiny}\nbatch: {sequences: 16}\n";
    err = (struct err){0};
    ck_assert_msg(plan_cluster_parse("c.yaml", plan_world_cluster,
                                     strlen(plan_world_cluster), "tiny",
                                     plan_world_profile, &cluster, &err) == 0 &&
                      plan_job_parse("j.yaml", text, strlen(text), &job, &err) == 0 &&
                      plan_job_bind(&job, &cluster, &err) == 0,
                  "%s", err.msg);
}

static void
teardown(void)
{
    plan_cluster_release(&cluster);
    plan_job_release(&job);
}

/* The plan of the world's cluster, with all that is told of it. */
static void
find(struct plan_outcome *outcome)
{
    *outcome = (struct plan_outcome){.job = &job, .cluster = &cluster};
    ck_assert_msg(fleet_search(&job.request, cluster.fleet, &outcome->answer, &err) == 0,
                  "%s", err.msg);
    ck_assert_msg(plan_timeline_make(&outcome->answer.plan, &job.request, cluster.fleet,
                                     &outcome->answer.estimate, &outcome->timeline,
                                     &err) == 0,
                  "%s", err.msg);
}

static bool
same_plan(const struct fleet_plan *left, const struct fleet_plan *right)
{
    if (left->micro_batch != right->micro_batch || left->width != right->width ||
        left->stages_count != right->stages_count ||
        left->precision != right->precision || left->recompute != right->recompute ||
        left->shard_optimizer != right->shard_optimizer)
        return false;
    for (int j = 0; j < left->width; j++)
        if (left->micro_batches[j] != right->micro_batches[j])
            return false;
    for (int s = 0; s < left->stages_count; s++) {
        if (left->first_layer[s] != right->first_layer[s] ||
            left->layers[s] != right->layers[s])
            return false;
        for (int j = 0; j < left->width; j++) {
            const struct replica *a = fleet_plan_replica(left, s, j),
                                 *b = fleet_plan_replica(right, s, j);
            if (a->pool != b->pool || a->tp != b->tp)
                return false;
        }
    }
    return true;
}

START_TEST(a_plan_that_is_written_is_read_again)
{
    struct plan_outcome outcome;
    struct fleet_plan plan;
    struct buf text = {0};
    find(&outcome);
    outcome.answer.plan.recompute = RECOMPUTE_LAYERS;
    outcome.answer.plan.shard_optimizer = true;
    plan_document_write(&outcome, &text);
    ck_assert_msg(plan_document_parse("p.json", (const char *)text.data, text.len,
                                      cluster.fleet, &plan, &err) == 0,
                  "%s", err.msg);
    ck_assert(same_plan(&plan, &outcome.answer.plan));
    fleet_plan_release(&plan);
    plan_outcome_release(&outcome);
    buf_release(&text);
}
END_TEST

START_TEST(a_request_does_not_see_what_an_earlier_one_had)
{
    struct fleet_answer large, small;
    ck_assert_msg(fleet_search(&job.request, cluster.fleet, &large, &err) == 0, "%s",
                  err.msg);
    int used[FLEET_POOLS_MAX];
    int before = fleet_plan_devices(&large.plan, used);
    for (int p = 0; p < cluster.fleet->pools_count; p++)
        cluster.fleet->pools[p].devices = p == 0 ? 2 : 0;
    ck_assert_msg(fleet_search(&job.request, cluster.fleet, &small, &err) == 0, "%s",
                  err.msg);
    ck_assert_int_gt(before, 2);
    ck_assert_int_le(fleet_plan_devices(&small.plan, used), 2);
    ck_assert_int_eq(fleet_plan_check(&small.plan, &job.request, cluster.fleet, &err), 0);
    fleet_answer_release(&large);
    fleet_answer_release(&small);
}
END_TEST

static const char one[] =
    "{\"micro_batch\": 2, \"stages\": [{\"first_layer\": 0, \"layers\": 4, "
    "\"replicas\": [{\"device\": \"fast\", \"zone\": \"a\", \"tp\": 1, "
    "\"micro_batches\": 8}]}]}";

static void
refused_with(const char *piece, const char *other, const char *why)
{
    char text[2048];
    struct fleet_plan plan;
    plan_world_text(one, piece, other, text, sizeof(text));
    err = (struct err){0};
    ck_assert_msg(plan_document_parse("p.json", text, strlen(text), cluster.fleet, &plan,
                                      &err) == -1,
                  "taken: %s", text);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strstr(err.msg, why), "\"%s\" does not say \"%s\"", err.msg, why);
}

START_TEST(what_is_wrong_in_a_plan_is_named_with_its_place)
{
    struct fleet_plan plan;
    ck_assert_msg(
        plan_document_parse("p.json", one, strlen(one), cluster.fleet, &plan, &err) == 0,
        "%s", err.msg);
    ck_assert_int_eq(plan.micro_batches[0], 8);
    ck_assert_int_eq(fleet_plan_check(&plan, &job.request, cluster.fleet, &err), 0);
    fleet_plan_release(&plan);
    refused_with(
        "\"fast\"", "\"fats\"",
        "stages[0].replicas[0]: the cluster has no device \"fats\"; did you mean "
        "\"fast\"?");
    refused_with("\"zone\": \"a\"", "\"zone\": \"c\"", "the cluster has no zone \"c\"");
    refused_with("\"zone\": \"a\"", "\"zone\": \"b\"",
                 "the cluster has no \"fast\" in zone \"b\"");
    refused_with("\"tp\": 1", "\"tp\": 3", "tp is 3, it must be 1, 2, 4 or 8");
    refused_with("\"micro_batches\": 8", "\"micro_batches\": 0", "micro_batches is 0");
    refused_with("\"micro_batch\": 2", "\"micro_bach\": 2",
                 "unknown key \"micro_bach\"; did you mean \"micro_batch\"?");
    refused_with("}]}]}", "}]}, {\"first_layer\": 4, \"layers\": 1, \"replicas\": []}]}",
                 "replicas has 0 entries");
    refused_with("{\"micro_batch\"", "\xef\xbb\xbf{\"micro_batch\"",
                 "begins with a byte order mark");
    refused_with("\"micro_batch\": 2", "\"micro_batch\": 99999999999999999999",
                 "whole ones are from -9223372036854775808 to 9223372036854775807");
    refused_with("{\"micro_batch\"", "[{\"micro_batch\"", "not valid JSON");
}
END_TEST

START_TEST(the_answer_where_there_is_no_plan_is_not_taken_for_one)
{
    struct buf out = {0};
    struct fleet_plan plan;
    struct err why;
    err_set(&why, ERR_PLAN, "there are no devices to plan with");
    plan_document_refuse(&job, &why, &out);
    ck_assert_int_eq(plan_document_parse("p.json", (const char *)out.data, out.len,
                                         cluster.fleet, &plan, &err),
                     -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.msg,
                     "p.json: is the answer where there is no plan: there are no "
                     "devices to plan with");
    buf_release(&out);
}
END_TEST

START_TEST(times_of_a_stage_add_up_to_the_iteration)
{
    struct plan_outcome outcome;
    char text[61];
    find(&outcome);
    for (int s = 0; s < outcome.answer.plan.stages_count; s++) {
        const struct plan_stage_time *times = &outcome.timeline.stages[s];
        double sum =
            times->forward_s + times->backward_s + times->update_s + times->idle_s;
        ck_assert_double_eq_tol(sum, outcome.answer.estimate.iteration_s, 1e-9);
        plan_timeline_text(&outcome.timeline, s, 60, text);
        ck_assert(strlen(text) == 60 && strspn(text, "FBURs.") == 60);
    }
    plan_outcome_release(&outcome);
}
END_TEST

START_TEST(the_page_and_the_picture_name_every_stage)
{
    struct plan_outcome outcome;
    struct buf page = {0}, picture = {0};
    char stage[32];
    find(&outcome);
    plan_page_write(&outcome, true, &page);
    plan_svg_write(&outcome, &picture);
    buf_add(&page, "", 1);
    buf_add(&picture, "", 1);
    for (int s = 0; s < outcome.answer.plan.stages_count; s++) {
        snprintf(stage, sizeof(stage), "stage %d", s);
        ck_assert(strstr((const char *)page.data, stage));
        ck_assert(strstr((const char *)picture.data, stage));
    }
    static const char *const parts[] = {"STAGES BY ZONE", "MEMORY OF A DEVICE",
                                        "ONE STEP",       "WHAT BOUNDS IT",
                                        "RULED OUT",      "ONE MORE MACHINE"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        ck_assert_msg(strstr((const char *)page.data, parts[i]), "%s", parts[i]);
    plan_outcome_release(&outcome);
    buf_release(&page);
    buf_release(&picture);
}
END_TEST

START_TEST(the_short_page_says_whether_to_stay_and_why)
{
    struct plan_outcome outcome;
    struct buf page = {0};
    find(&outcome);
    outcome.repaired = true;
    outcome.repair.way = REPAIR_MEND;
    outcome.repair.mend = (struct repair_price){.possible = true, .total_s = 1234};
    outcome.repair.afresh = (struct repair_price){.possible = true, .total_s = 2345};
    plan_page_write(&outcome, false, &page);
    buf_add(&page, "", 1);
    ck_assert(strstr((const char *)page.data, "next        mend the plan in force"));
    ck_assert_msg(strstr((const char *)page.data,
                         "stay is not possible, mend 1234 s, afresh 2345 s\n"),
                  "%s", (const char *)page.data);
    plan_outcome_release(&outcome);
    buf_release(&page);
}
END_TEST

START_TEST(a_price_that_is_missing_is_said_where_money_counts)
{
    struct fleet_answer answer;
    job.request.objective = OBJECTIVE_COST;
    int result = fleet_search(&job.request, cluster.fleet, &answer, &err);
    ck_assert_int_eq(result, -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strstr(err.msg, "price"), "%s", err.msg);
}
END_TEST

Suite *
suite_plan_document(void)
{
    Suite *suite = suite_create("plan_document");
    TCase *tc = suite_case(suite, "documents", 20);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_plan_that_is_written_is_read_again);
    tcase_add_test(tc, a_request_does_not_see_what_an_earlier_one_had);
    tcase_add_test(tc, what_is_wrong_in_a_plan_is_named_with_its_place);
    tcase_add_test(tc, the_answer_where_there_is_no_plan_is_not_taken_for_one);
    tcase_add_test(tc, times_of_a_stage_add_up_to_the_iteration);
    tcase_add_test(tc, the_short_page_says_whether_to_stay_and_why);
    tcase_add_test(tc, the_page_and_the_picture_name_every_stage);
    tcase_add_test(tc, a_price_that_is_missing_is_said_where_money_counts);
    return suite;
}
