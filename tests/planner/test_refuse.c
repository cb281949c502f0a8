#include "tests/planner/fleets.h"
#include "tests/suite.h"

#include <string.h>

Suite *suite_refuse(void);

/* Two kinds in two zones, 8 devices each, all joined. */
static struct fleet *
cloud(void)
{
    static const int devices[] = {8, 8, 8, 8};
    struct rng rng = {.seed = 7};
    return fleets_cloud(&rng, 2, 2, devices, COST_MODEL_REPLAY);
}

static void
cut_links(struct fleet *fleet)
{
    int ends = fleet->pools_count * TP_SLOTS;
    for (int i = 0; i < ends * ends; i++)
        fleet->links[i] = -1;
}

/* Asks and is refused; the sentence is in `err`. */
static void
refused(const struct fleet_request *request, const struct fleet *fleet, struct err *err)
{
    struct fleet_answer answer;
    ck_assert_int_eq(fleet_search(request, fleet, &answer, err), -1);
    ck_assert_int_eq(err->code, ERR_PLAN);
}

static void
expect_piece(const struct err *err, const char *piece)
{
    ck_assert_msg(strstr(err->msg, piece) != NULL, "\"%s\" is not in: %s", piece,
                  err->msg);
}

START_TEST(limits_that_are_not_kept_are_told_in_their_own_units)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct err err;
    fleet_request_init(&request, 64);
    request.usd_per_hour_max = 1e-5;
    refused(&request, fleet, &err);
    expect_piece(&err, "USD an hour (at most 1e-05)");
    ck_assert_ptr_null(strstr(err.msg, "-1"));
    ck_assert_ptr_null(strstr(err.msg, "an iteration"));
    request.usd_per_iteration_max = 3e-6;
    request.iterations_per_s_min = 1e6;
    refused(&request, fleet, &err);
    expect_piece(&err, "USD an hour (at most 1e-05)");
    expect_piece(&err, "USD an iteration (at most 3e-06)");
    expect_piece(&err, "tokens/s (at least 1e+06 = ");
    fleet_free(fleet);
}
END_TEST

START_TEST(devices_without_links_are_used_one_alone)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct fleet_answer answer;
    struct err err;
    cut_links(fleet);
    for (int k = 0; k < fleet->kinds_count; k++)
        fleet->kinds[k].memory_bytes = INT64_C(1) << 46;
    fleet_request_init(&request, 64);
    request.tp = 1;
    for (int objective = OBJECTIVE_THROUGHPUT; objective <= OBJECTIVE_COST; objective++) {
        request.objective = (enum objective)objective;
        ck_assert_msg(fleet_search(&request, fleet, &answer, &err) == 0, "%s", err.msg);
        ck_assert_int_eq(answer.plan.width * answer.plan.stages_count, 1);
        fleet_answer_release(&answer);
    }
    request.replicas = 2;
    refused(&request, fleet, &err);
    expect_piece(&err, "needs links that the cluster has not");
    expect_piece(&err, "zone");
    fleet_free(fleet);
}
END_TEST

START_TEST(a_plan_that_is_given_is_held_against_the_limits)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct err err;
    struct estimate estimate = {
        .iteration_s = 2.0, .usd_per_iteration = 0.5, .devices_usd = 0.25, .fits = true};
    fleet_request_init(&request, 64);
    ck_assert(fleet_keeps_limits(&request, &estimate));
    request.usd_per_hour_max = 449.0;
    ck_assert(!fleet_keeps_limits(&request, &estimate));
    ck_assert_int_eq(fleet_refuse_limits(&request, fleet, &estimate, &err), -1);
    expect_piece(&err, "the job's limits: it has 450 USD an hour (at most 449)");
    estimate.devices_usd = -1.0;
    ck_assert_int_eq(fleet_refuse_limits(&request, fleet, &estimate, &err), -1);
    expect_piece(&err, "it has a price that is not known");
    fleet_free(fleet);
}
END_TEST

START_TEST(a_job_that_fixes_more_than_there_is_hears_of_it)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct err err;
    fleet_request_init(&request, 64);
    for (int p = 1; p < fleet->pools_count; p++)
        fleet->pools[p].devices = 0;
    request.pipeline = 3;
    request.replicas = 4;
    refused(&request, fleet, &err);
    expect_piece(&err,
                 "fixes 4 pipelines of 3 stages at tp 1, which take 12 devices; 8 can");
    fleet_free(fleet);
}
END_TEST

/* One device of the first kind and no other. */
static struct fleet *
single(void)
{
    struct fleet *fleet = cloud();
    for (int p = 0; p < fleet->pools_count; p++)
        fleet->pools[p].devices = p == 0;
    return fleet;
}

START_TEST(a_model_that_has_no_room_is_told_of_whole_and_a_layer_as_a_layer)
{
    struct fleet *fleet = single();
    struct fleet_request request;
    struct err err;
    fleet_request_init(&request, 64);
    fleet->kinds[fleet->pools[0].kind].memory_bytes = INT64_C(1) << 32;
    refused(&request, fleet, &err);
    expect_piece(&err,
                 "the 1 device that can be used has no room for the model: whole it "
                 "needs ");
    expect_piece(&err, "tp 1, ");
    expect_piece(&err, " has 4 GiB; add devices");
    ck_assert_ptr_null(strstr(err.msg, "layer"));
    fleet->kinds[fleet->pools[0].kind].memory_bytes = INT64_C(1) << 24;
    refused(&request, fleet, &err);
    expect_piece(&err, "cannot place layer 25: needs ");
    ck_assert_ptr_null(strstr(err.msg, "whole"));
    fleet_free(fleet);
}
END_TEST

START_TEST(a_degree_that_the_job_fixes_and_no_machine_has_is_told_with_both_numbers)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct err err;
    fleet_request_init(&request, 64);
    request.tp = 8;
    refused(&request, fleet, &err);
    expect_piece(&err, "fixes tp to 8");
    expect_piece(&err, "has 4 of \"");
    /* A machine of eight, but nobody knows what a model takes on all of them. */
    for (int k = 0; k < fleet->kinds_count; k++)
        fleet->kinds[k].machine_devices = 8;
    refused(&request, fleet, &err);
    expect_piece(&err, "fixes tp to 8, of which no profile has the sizes");
    fleet_free(fleet);
}
END_TEST

START_TEST(what_was_not_measured_is_named_with_its_precision_and_micro_batch)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct err err;
    fleet_request_init(&request, 64);
    request.bf16 = CHOICE_ON;
    refused(&request, fleet, &err);
    expect_piece(&err, "no device was measured in bf16 with a micro-batch that divides");
    request.bf16 = CHOICE_OFF;
    request.micro_batch = 32;
    refused(&request, fleet, &err);
    expect_piece(&err, "measured in fp32 with a micro-batch of 32, which the job fixes");
    request.micro_batch = 0;
    request.tp = 2;
    request.sequences = 1;
    for (int k = 0; k < fleet->kinds_count; k++)
        for (int t = 0; t < fleet->kinds[k].times_count; t++)
            fleet->kinds[k].times[t].micro_batch += 1;
    refused(&request, fleet, &err);
    expect_piece(&err,
                 "with tp 2 and a micro-batch that divides the batch of 1 sequence");
    fleet_free(fleet);
}
END_TEST

START_TEST(more_replicas_than_micro_batches_are_told_so)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct err err;
    fleet_request_init(&request, 4);
    request.replicas = 5;
    refused(&request, fleet, &err);
    expect_piece(&err, "fixes 5 replicas, the batch of 4 sequences has 4 micro-batches");
    fleet_free(fleet);
}
END_TEST

START_TEST(a_plan_that_differs_from_the_jobs_choices_hears_of_the_jobs_own_keys)
{
    struct fleet *fleet = cloud();
    struct fleet_request request;
    struct fleet_answer answer;
    struct err err;
    fleet_request_init(&request, 64);
    ck_assert_int_eq(fleet_search(&request, fleet, &answer, &err), 0);
    answer.plan.shard_optimizer = true;
    ck_assert_int_eq(fleet_plan_check(&answer.plan, &request, fleet, &err), -1);
    ck_assert_str_eq(err.msg, "zero of the job is none, of the plan optimizer");
    answer.plan.shard_optimizer = false;
    request.recompute = CHOICE_ON;
    ck_assert_int_eq(fleet_plan_check(&answer.plan, &request, fleet, &err), -1);
    ck_assert_str_eq(err.msg, "recompute of the job is full, of the plan none");
    request.recompute = CHOICE_OFF;
    request.bf16 = CHOICE_ON;
    ck_assert_int_eq(fleet_plan_check(&answer.plan, &request, fleet, &err), -1);
    ck_assert_str_eq(err.msg, "precision of the job is bf16, of the plan fp32");
    fleet_answer_release(&answer);
    fleet_free(fleet);
}
END_TEST

Suite *
suite_refuse(void)
{
    Suite *suite = suite_create("refuse");
    TCase *all = suite_case(suite, "refuse", 60);
    tcase_add_test(all, limits_that_are_not_kept_are_told_in_their_own_units);
    tcase_add_test(all, devices_without_links_are_used_one_alone);
    tcase_add_test(all, a_plan_that_is_given_is_held_against_the_limits);
    tcase_add_test(all, a_job_that_fixes_more_than_there_is_hears_of_it);
    tcase_add_test(all, a_model_that_has_no_room_is_told_of_whole_and_a_layer_as_a_layer);
    tcase_add_test(
        all, a_degree_that_the_job_fixes_and_no_machine_has_is_told_with_both_numbers);
    tcase_add_test(all,
                   what_was_not_measured_is_named_with_its_precision_and_micro_batch);
    tcase_add_test(all, more_replicas_than_micro_batches_are_told_so);
    tcase_add_test(all,
                   a_plan_that_differs_from_the_jobs_choices_hears_of_the_jobs_own_keys);
    return suite;
}
