#include "node/plan/job.h"
#include "tests/node/plan_world.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

Suite *suite_plan_job(void);

static struct plan_cluster cluster;
static struct plan_job job;
static struct err err;

static void
setup(void)
{
    err = (struct err){0};
    ck_assert_msg(plan_cluster_parse("c.yaml", plan_world_cluster,
                                     strlen(plan_world_cluster), "tiny",
                                     plan_world_profile, &cluster, &err) == 0,
                  "%s", err.msg);
}

static void
teardown(void)
{
    plan_cluster_release(&cluster);
}

static const char tiny[] = "name: t\nmodel: {profiled: tiny}\nbatch: {sequences: 16}\n";

static int
parse_with(const char *more)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s%s\n", tiny, more);
    return plan_job_parse("j.yaml", text, strlen(text), &job, &err);
}

static void
refused(const char *more, const char *why)
{
    err = (struct err){0};
    ck_assert_msg(parse_with(more) == -1, "taken: %s", more);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strstr(err.msg, why), "\"%s\" does not say \"%s\"", err.msg, why);
}

static int
bind_with(const char *more)
{
    err = (struct err){0};
    ck_assert_msg(parse_with(more) == 0, "%s", err.msg);
    int result = plan_job_bind(&job, &cluster, &err);
    plan_job_release(&job);
    return result;
}

START_TEST(what_a_job_says_is_what_the_planner_is_asked)
{
    ck_assert_msg(parse_with("objective: cost\n"
                             "limits: {usd_per_iteration: 1.2, usd_per_hour: 9, "
                             "min_iterations_per_s: 0.01, min_tokens_per_s: 2048}\n"
                             "precision: open\nrecompute: full\nzero: optimizer\n"
                             "plan: {pipeline: 2, replicas: 2, micro_batch: 4, tp: 2, "
                             "zones: [b, a]}\n"
                             "framework: {overlap: false, bucket: 500MB}") == 0,
                  "%s", err.msg);
    ck_assert_msg(plan_job_bind(&job, &cluster, &err) == 0, "%s", err.msg);
    const struct fleet_request *request = &job.request;
    ck_assert_str_eq(job.model, "tiny");
    ck_assert_int_eq(request->sequences, 16);
    ck_assert_int_eq(request->objective, OBJECTIVE_COST);
    ck_assert(request->usd_per_iteration_max == 1.2 && request->usd_per_hour_max == 9);
    ck_assert(request->iterations_per_s_min == 1); /* 2048 / (16 x 128) */
    ck_assert_int_eq(request->pipeline, 2);
    ck_assert_int_eq(request->replicas, 2);
    ck_assert_int_eq(request->micro_batch, 4);
    ck_assert_int_eq(request->tp, 2);
    ck_assert_int_eq(request->stage_zones_count, 2);
    ck_assert(request->stage_zones[0] == 1 && request->stage_zones[1] == 0);
    ck_assert_int_eq(request->bf16, CHOICE_OPEN);
    ck_assert_int_eq(request->recompute, CHOICE_ON);
    ck_assert_int_eq(request->shard_optimizer, CHOICE_ON);
    ck_assert(!request->framework.overlap && request->framework.bucket_bytes == 5e8);
    ck_assert(job.foreign && request->framework.fixed_bytes == 0);
    plan_job_release(&job);
}
END_TEST

START_TEST(what_a_job_leaves_out_is_free)
{
    ck_assert_msg(parse_with("") == 0, "%s", err.msg);
    const struct fleet_request *request = &job.request;
    ck_assert_int_eq(request->objective, OBJECTIVE_THROUGHPUT);
    ck_assert(request->usd_per_iteration_max < 0 && request->usd_per_hour_max < 0);
    ck_assert(request->iterations_per_s_min == 0 && request->pipeline == 0);
    ck_assert(request->bf16 == CHOICE_OFF && request->recompute == CHOICE_OFF);
    plan_job_release(&job);
}
END_TEST

START_TEST(a_job_that_trains_is_a_job_that_is_planned)
{
    static const char text[] =
        "name: first-sail\n"
        "model: {family: gpt2, layers: 6, heads: 6, hidden: 384, context: 256}\n"
        "data: {train: a.txt, tokenizer: bytes}\nbatch: {sequences: 64}\nsteps: 10\n"
        "optimizer: {learning_rate: 6e-4}\nseed: 3\ncheckpoint: {keep: 1}\n"
        "copy: {every_steps: 5}\n";
    ck_assert_msg(plan_job_parse("j.yaml", text, strlen(text), &job, &err) == 0, "%s",
                  err.msg);
    ck_assert(job.engine_model && job.shape.blocks == 6);
    ck_assert_str_eq(job.model, "gpt2-6x6x384x256");
    plan_job_release(&job);
}
END_TEST

START_TEST(a_limit_of_nothing_is_a_limit)
{
    ck_assert_int_eq(parse_with("limits: {usd_per_iteration: 0}"), 0);
    ck_assert(job.request.usd_per_iteration_max == 0);
    plan_job_release(&job);
    refused("limits: {usd_per_iteration: -1}",
            "limits.usd_per_iteration is -1, it must be from 0");
    refused("limits: {min_iterations_per_s: 0}", "limits.min_iterations_per_s is 0");
}
END_TEST

START_TEST(wrong_words_and_numbers_are_named)
{
    refused("objektive: cost",
            "line 4: unknown key \"objektive\"; did you mean \"objective\"?");
    refused("objective: costs", "objective cannot be \"costs\"; did you mean \"cost\"?");
    refused("precision: fp8", "precision cannot be \"fp8\"");
    refused("plan: {tp: 3}", "plan.tp is 3, it must be 1, 2, 4 or 8");
    refused("plan: {micro_batch: 3}", "does not divide batch.sequences 16");
    refused("plan: {pipeline: 0}", "plan.pipeline is 0");
    refused("steps: -3", "steps is -3, but must be from 1");
    refused("copy: {every_steps: -1}", "copy.every_steps is -1");
    refused("checkpoint: {keep: -1}", "checkpoint.keep is -1");
    refused("optimizer: {learning_rate: -1}", "optimizer.learning_rate is -1");
    refused("plan: {pipeline: 3, zones: [a]}", "names 1 zones for 3 stages");
    refused("framework: {bucket: much}", "framework.bucket");
    refused("between_zones: [local_sgd]", "which is not planned");
    static const char none[] = "name: t\nmodel: {layers: 3}\nbatch: {sequences: 1}\n";
    ck_assert_int_eq(plan_job_parse("j.yaml", none, strlen(none), &job, &err), -1);
    ck_assert(strstr(err.msg, "model needs layers, heads, hidden and context"));
    static const char zero[] = "name: t\nmodel: {profiled: x}\nbatch: {sequences: 0}\n";
    ck_assert_int_eq(plan_job_parse("j.yaml", zero, strlen(zero), &job, &err), -1);
    ck_assert(strstr(err.msg, "batch.sequences is 0"));
}
END_TEST

START_TEST(a_job_may_begin_with_a_byte_order_mark)
{
    static const char text[] = "\xef\xbb\xbfname: t\nmodel: {profiled: x}\n"
                               "batch: {sequences: 4}\n";
    ck_assert_msg(plan_job_parse("j.yaml", text, strlen(text), &job, &err) == 0, "%s",
                  err.msg);
    plan_job_release(&job);
}
END_TEST

START_TEST(zones_of_the_stages_say_how_many_stages_there_are)
{
    ck_assert_int_eq(bind_with("plan: {zones: [b, a, a]}"), 0);
    ck_assert_int_eq(parse_with("plan: {zones: [b, a, a]}"), 0);
    ck_assert_int_eq(job.request.pipeline, 3);
    plan_job_release(&job);
}
END_TEST

START_TEST(what_the_published_model_has_no_figures_for_is_refused_by_name)
{
    cluster.fleet->cost_model = COST_MODEL_PUBLISHED;
    ck_assert_int_eq(bind_with("recompute: open\nzero: open"), 0);
    ck_assert_int_eq(bind_with("recompute: full"), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strstr(err.msg, "recompute is full"), "%s", err.msg);
    ck_assert_int_eq(bind_with("zero: optimizer"), -1);
    ck_assert_msg(strstr(err.msg, "zero is optimizer"), "%s", err.msg);
}
END_TEST

START_TEST(what_is_excluded_has_no_devices_left)
{
    struct fleet_pool *pools = cluster.fleet->pools;
    ck_assert_int_eq(bind_with("exclude: {devices: [slow]}"), 0);
    ck_assert(pools[0].devices == 8 && pools[1].devices == 0 && pools[2].devices == 0);
    pools[1].devices = 4;
    pools[2].devices = 2;
    ck_assert_int_eq(bind_with("exclude: {nodes: [b1]}"), 0);
    ck_assert(pools[0].devices == 8 && pools[1].devices == 4 && pools[2].devices == 0);
    pools[2].devices = 2;
    ck_assert_int_eq(bind_with("only: {zones: [b]}"), 0);
    ck_assert(pools[0].devices == 0 && pools[1].devices == 0 && pools[2].devices == 2);
    ck_assert_int_eq(bind_with("exclude: {zones: [b]}"), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert(strstr(err.msg, "nothing is left of the cluster"));
}
END_TEST

START_TEST(names_that_the_cluster_has_not_are_refused)
{
    ck_assert_int_eq(bind_with("exclude: {devices: [slwo]}"), -1);
    ck_assert_msg(strstr(err.msg, "exclude.devices: there is no device \"slwo\"; did you "
                                  "mean \"slow\"?"),
                  "%s", err.msg);
    ck_assert_int_eq(bind_with("only: {zones: [c]}"), -1);
    ck_assert(strstr(err.msg, "only.zones: there is no zone \"c\""));
    ck_assert_int_eq(bind_with("only: {nodes: [b2]}"), -1);
    ck_assert(strstr(err.msg, "only.nodes: there is no node \"b2\""));
    ck_assert_int_eq(bind_with("plan: {zones: [mars]}"), -1);
    ck_assert(strstr(err.msg, "plan.zones: there is no zone \"mars\""));
    ck_assert_int_eq(bind_with("plan: {pipeline: 5}"), -1);
    ck_assert(strstr(err.msg, "5 stages for a model of 4 layers"));
}
END_TEST

Suite *
suite_plan_job(void)
{
    Suite *suite = suite_create("plan_job");
    TCase *tc = suite_case(suite, "jobs", 10);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_a_job_says_is_what_the_planner_is_asked);
    tcase_add_test(tc, what_a_job_leaves_out_is_free);
    tcase_add_test(tc, a_job_that_trains_is_a_job_that_is_planned);
    tcase_add_test(tc, a_limit_of_nothing_is_a_limit);
    tcase_add_test(tc, wrong_words_and_numbers_are_named);
    tcase_add_test(tc, a_job_may_begin_with_a_byte_order_mark);
    tcase_add_test(tc, zones_of_the_stages_say_how_many_stages_there_are);
    tcase_add_test(tc, what_the_published_model_has_no_figures_for_is_refused_by_name);
    tcase_add_test(tc, what_is_excluded_has_no_devices_left);
    tcase_add_test(tc, names_that_the_cluster_has_not_are_refused);
    return suite;
}
