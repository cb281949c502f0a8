#include "node/plan/cluster.h"
#include "node/plan/job.h"
#include "node/plan/live.h"
#include "planner/muster.h"
#include "planner/next.h"
#include "tests/node/reporters.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_plan_live(void);

enum { SWARMS = 30 };

static struct reporters people;
static struct job job;
static struct err err;
static struct view *view;
static struct plan_live live;

static void
teardown(void)
{
    plan_live_release(&live);
    view_release(view);
    free(view);
    reporters_close(&people);
    job_release(&job);
}

/* A swarm of so many members in two zones, with a job that all have measured. */
static void
open_swarm(int count)
{
    reporters_job(4, &job);
    reporters_open(&people, count, 2, &job);
}

static void
derive(void)
{
    view = xcalloc(1, sizeof(*view));
    view->state = JOB_RUNNING;
    job_copy(&view->job, &job);
    view->submitter = *key_id(people.list[0].key);
    for (int i = 0; i < people.count; i++) {
        const struct buf *bytes = &people.list[i].bytes;
        ck_assert_msg(view_report(view, bytes->data, bytes->len, &people.swarm,
                                  &people.admit_id, &err) == 0,
                      "%s", err.msg);
    }
    ck_assert_msg(view_derive(view, NULL, &err) == 0, "%s", err.msg);
    plan_live_make(view, "now", &live);
}

/* Profiles out of the live swarm's own documents. */
static int
read_profile(const char *path, struct profile_file *out, struct err *why)
{
    for (int i = 0; i < live.profiles_count; i++)
        if (strcmp(path, live.files[i]) == 0)
            return profile_file_parse(path, (const char *)live.profiles[i].data,
                                      live.profiles[i].len, out, why);
    return err_set(why, ERR_USAGE, "there is no \"%s\"", path);
}

static void
read_back(struct plan_cluster *cluster)
{
    ck_assert_msg(plan_cluster_parse("now.yaml", (const char *)live.cluster.data,
                                     live.cluster.len, "gpt2-4x4x64x64", read_profile,
                                     cluster, &err) == 0,
                  "%s:\n%.*s", err.msg, (int)live.cluster.len, live.cluster.data);
}

START_TEST(a_live_swarm_is_a_cluster_that_is_planned_as_it_is)
{
    struct plan_cluster cluster;
    struct plan_job asked;
    struct fleet_answer answer;
    open_swarm(5);
    derive();
    read_back(&cluster);
    const struct fleet *fleet = cluster.fleet;
    ck_assert_int_eq(fleet->zones_count, 2);
    ck_assert_int_eq(fleet->kinds_count, 1);
    ck_assert_int_eq(cluster.nodes_count, 5);
    ck_assert_str_eq(cluster.nodes[2].name, "node-2");
    ck_assert_int_eq(fleet->pools[0].devices, 3);
    ck_assert_int_eq(fleet->pools[1].devices, 2);
    ck_assert_int_eq(fleet->kinds[0].memory_bytes, view->cluster.nodes[0].memory_bytes);
    const struct fleet_curve *far = fleet_curve(fleet, 0, 0, 1, 0);
    const struct cluster_link *link = cluster_link(&view->cluster, 0, 1);
    ck_assert_double_eq_tol(far->c0 * 1e9, (double)link->bytes_per_s, 1e3);
    ck_assert(far->delay_s == 0.01 && far->shared);
    const struct layer_time *times =
        fleet_kind_times(&fleet->kinds[0], PRECISION_FP32, 4, 1);
    ck_assert_double_eq_tol(times[1].forward_s, 0.004, 1e-12);
    ck_assert_msg(plan_job_parse("job.yaml", job.text, strlen(job.text), &asked, &err) ==
                          0 &&
                      plan_job_bind(&asked, &cluster, &err) == 0 &&
                      fleet_search(&asked.request, fleet, &answer, &err) == 0,
                  "%s", err.msg);
    fleet_answer_release(&answer);
    plan_job_release(&asked);
    plan_cluster_release(&cluster);
}
END_TEST

START_TEST(members_are_of_the_types_that_the_leader_plans_with)
{
    struct plan_cluster cluster;
    struct plan_request request;
    struct muster muster;
    open_swarm(5);
    reporter_speed(&people, 2, 300);
    people.list[4].report.profile.count = 0;
    for (int i = 0; i < 5; i++)
        reporter_sign(&people, i);
    derive();
    read_back(&cluster);
    job_request(&job, &request);
    muster_init(&muster, &request, &view->cluster);
    const struct fleet *leaders = muster.fleet, *told = cluster.fleet;
    ck_assert_int_eq(leaders->kinds_count, 2);
    ck_assert_int_eq(told->kinds_count, 3); /* one more: who measured nothing */
    ck_assert_int_eq(told->kinds[2].times_count, 0);
    for (int k = 0; k < leaders->kinds_count; k++) {
        const struct layer_time *ours =
            fleet_kind_times(&leaders->kinds[k], PRECISION_FP32, 1, 1);
        const struct layer_time *theirs =
            fleet_kind_times(&told->kinds[k], PRECISION_FP32, 1, 1);
        ck_assert_double_eq_tol(ours[1].forward_s, theirs[1].forward_s, 1e-12);
        ck_assert_int_eq(leaders->kinds[k].memory_bytes, told->kinds[k].memory_bytes);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(leaders->pools[muster.pool_of[i]].kind,
                         told->pools[cluster.nodes[i].pool].kind);
    muster_release(&muster);
    plan_cluster_release(&cluster);
}
END_TEST

START_TEST(many_different_members_are_gathered_into_the_types_that_there_are)
{
    struct plan_cluster cluster;
    open_swarm(60);
    for (int i = 0; i < 60; i++) {
        reporter_speed(&people, i, 100 + 37 * i);
        reporter_sign(&people, i);
    }
    derive();
    read_back(&cluster);
    ck_assert_int_le(cluster.fleet->kinds_count, PLAN_LIVE_KINDS_MAX);
    ck_assert_int_ge(cluster.fleet->kinds_count, 4);
    ck_assert_int_eq(cluster.nodes_count, 60);
    plan_cluster_release(&cluster);
}
END_TEST

/* A member as no other is: times, their correction, memory, and what it measured of its
 * links. */
static void
vary(struct rng *rng, int number, int blocks)
{
    struct report *report = &people.list[number].report;
    struct record *record = &report->record;
    struct profile *profile = &report->profile;
    reporter_speed(&people, number, 20 + (int)rng_below(rng, 400));
    profile->count = 1 + (int)rng_below(rng, 3);
    profile->correction_ppm = 500000 + (int64_t)rng_below(rng, 1000000);
    for (int i = 0; i < profile->count; i++)
        for (int k = 0; k < LAYER_KINDS; k++) {
            profile->entries[i].forward_ns[k] += (int64_t)rng_below(rng, 999999);
            profile->entries[i].backward_ns[k] += (int64_t)rng_below(rng, 999999);
            profile->entries[i].update_ns[k] += (int64_t)rng_below(rng, 9999);
        }
    /* From hardly a layer to more than the whole model. */
    record->memory_bytes = (1 + rng_below(rng, 4)) * (uint64_t)blocks << 20;
    for (uint32_t k = 0; k < record->links_count; k++) {
        struct record_link *link = &record->links[k];
        int64_t rate = 1000000 + (int64_t)rng_below(rng, 900000000);
        link->rate = rate_encode(rate);
        link->low = rate_encode(rate / 10 * 7);
        link->round_trip_us = (uint32_t)rng_below(rng, 90000);
        bool measured = rng_below(rng, 3) > 0;
        for (int point = 0; point < LINK_CURVE_POINTS; point++)
            link->curve[point] =
                measured ? rate_encode(rate / 8 * (2 + (point < 3 ? point * 2 : 5))) : 0;
    }
    reporter_sign(&people, number);
}

static void
same_curves(const struct fleet_curve *a, const struct fleet_curve *b)
{
    ck_assert(a && b);
    ck_assert(a->c2 == b->c2 && a->c1 == b->c1 && a->c0 == b->c0);
    ck_assert(a->low_bytes == b->low_bytes && a->high_bytes == b->high_bytes);
    ck_assert(a->delay_s == b->delay_s && a->shared == b->shared);
}

static void
same_fleets(const struct fleet *ours, const struct fleet *told)
{
    ck_assert_int_eq(ours->kinds_count, told->kinds_count);
    for (int k = 0; k < ours->kinds_count; k++) {
        const struct fleet_kind *a = &ours->kinds[k], *b = &told->kinds[k];
        ck_assert_int_eq(a->memory_bytes, b->memory_bytes);
        ck_assert(a->correction == b->correction);
        ck_assert_int_eq(a->times_count, b->times_count);
        for (int t = 0; t < a->times_count; t++) {
            ck_assert_int_eq(a->times[t].micro_batch, b->times[t].micro_batch);
            ck_assert_mem_eq(a->times[t].layers, b->times[t].layers,
                             (size_t)ours->table.layers_count *
                                 sizeof(*a->times->layers));
        }
    }
    ck_assert_int_eq(ours->pools_count, told->pools_count);
    for (int a = 0; a < ours->pools_count; a++) {
        ck_assert_int_eq(ours->pools[a].kind, told->pools[a].kind);
        ck_assert_int_eq(ours->pools[a].zone, told->pools[a].zone);
        ck_assert_int_eq(ours->pools[a].devices, told->pools[a].devices);
        for (int b = 0; b < ours->pools_count; b++)
            same_curves(fleet_curve(ours, a, 0, b, 0), fleet_curve(told, a, 0, b, 0));
    }
    ck_assert_mem_eq(ours->table.sizes[0], told->table.sizes[0],
                     (size_t)ours->table.layers_count * sizeof(ours->table.sizes[0][0]));
    ck_assert_int_eq(ours->table.engine_copies, told->table.engine_copies);
    ck_assert(told->table.engine);
}

static void
same_plans(const struct fleet_answer *ours, const struct fleet_answer *told)
{
    const struct fleet_plan *a = &ours->plan, *b = &told->plan;
    double ours_s = ours->estimate.iteration_s;
    ck_assert_double_eq_tol(told->estimate.iteration_s, ours_s, ours_s * 1e-9);
    ck_assert_int_eq(a->micro_batch, b->micro_batch);
    ck_assert_int_eq(a->stages_count, b->stages_count);
    ck_assert_int_eq(a->width, b->width);
    for (int s = 0; s < a->stages_count; s++) {
        ck_assert_int_eq(a->layers[s], b->layers[s]);
        ck_assert_int_eq(ours->estimate.stages[s].memory.total,
                         told->estimate.stages[s].memory.total);
        for (int j = 0; j < a->width; j++) {
            ck_assert_int_eq(a->micro_batches[j], b->micro_batches[j]);
            ck_assert_int_eq(fleet_plan_replica(a, s, j)->pool,
                             fleet_plan_replica(b, s, j)->pool);
        }
    }
}

/* One swarm of the leader's, its file, and what becomes of both. */
static bool
plan_both(uint64_t seed)
{
    struct rng rng = {.seed = seed, .stream = 31};
    struct plan_cluster cluster;
    struct plan_request request;
    struct plan_job asked;
    struct muster muster;
    struct fleet_answer ours, told;
    struct plan plan;
    int count = 2 + (int)rng_below(&rng, 8), blocks = 2 + (int)rng_below(&rng, 6);
    char model[32];
    snprintf(model, sizeof(model), "gpt2-%dx4x64x64", blocks);
    reporters_job(blocks, &job);
    reporters_open(&people, count, 1 + (int)rng_below(&rng, 3), &job);
    for (int i = 0; i < count; i++)
        vary(&rng, i, blocks);
    derive();
    ck_assert_msg(
        plan_cluster_parse("now.yaml", (const char *)live.cluster.data, live.cluster.len,
                           model, read_profile, &cluster, &err) == 0 &&
            plan_job_parse("job.yaml", job.text, strlen(job.text), &asked, &err) == 0 &&
            plan_job_bind(&asked, &cluster, &err) == 0,
        "seed %llu: %s:\n%.*s", (unsigned long long)seed, err.msg, (int)live.cluster.len,
        live.cluster.data);
    job_request(&job, &request);
    muster_init(&muster, &request, &view->cluster);
    same_fleets(muster.fleet, cluster.fleet);
    bool found = fleet_search_plan(&muster.request, muster.fleet, &ours, &err) == 0;
    bool also = fleet_search(&asked.request, cluster.fleet, &told, &err) == 0;
    ck_assert_msg(found == also, "seed %llu", (unsigned long long)seed);
    ck_assert_int_eq(plan_next(&request, &view->cluster, NULL, &plan, &err),
                     found ? 0 : -1);
    if (found) {
        same_plans(&ours, &told);
        ck_assert_int_eq(plan.predicted_step_ns,
                         (int64_t)(told.estimate.iteration_s * 1e9));
        ck_assert_int_eq(plan.pipelines_count, told.plan.width);
        fleet_answer_release(&ours);
        fleet_answer_release(&told);
    }
    muster_release(&muster);
    plan_cluster_release(&cluster);
    plan_job_release(&asked);
    return found;
}

/* The swarm's job with more in it, bound to the swarm's file. */
static void
bind_with(const char *more, struct plan_job *asked, struct plan_cluster *cluster)
{
    char text[1024];
    snprintf(text, sizeof(text), "%s%s\n", job.text, more);
    read_back(cluster);
    ck_assert_msg(plan_job_parse("job.yaml", text, strlen(text), asked, &err) == 0 &&
                      plan_job_bind(asked, cluster, &err) == 0,
                  "%s: %s", more, err.msg);
}

START_TEST(what_the_engine_carries_out_is_planned_as_its_leader_does_and_nothing_else)
{
    static const char *const others[] = {"framework: {bucket: 500MB}",
                                         "framework: {overlap: true}",
                                         "precision: open",
                                         "recompute: full",
                                         "zero: optimizer",
                                         "plan: {tp: 2}"};
    struct plan_cluster cluster;
    struct plan_job asked;
    open_swarm(4);
    derive();
    bind_with("copy: {every_steps: 0}\nplan: {micro_batch: 2}", &asked, &cluster);
    const struct fleet *fleet = cluster.fleet;
    ck_assert(fleet->table.engine == &asked.shape && !fleet->table.engine_copies);
    ck_assert(asked.request.framework.bucket_bytes == 1e18 && asked.request.quick);
    ck_assert_int_eq(fleet->kinds[0].times_count, 6); /* all divisors of 32 */
    /* Bound again it is the same. */
    ck_assert_int_eq(plan_job_bind(&asked, &cluster, &err), 0);
    ck_assert_int_eq(fleet->kinds[0].times_count, 6);
    plan_cluster_release(&cluster);
    plan_job_release(&asked);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        bind_with(others[i], &asked, &cluster);
        ck_assert_msg(!cluster.fleet->table.engine, "%s", others[i]);
        ck_assert_int_eq(cluster.fleet->kinds[0].times_count, 3); /* as measured */
        ck_assert_str_eq(cluster.notes, "");
        plan_cluster_release(&cluster);
        plan_job_release(&asked);
    }
}
END_TEST

START_TEST(a_profile_with_other_layers_than_the_engines_is_planned_as_it_is_and_said)
{
    struct plan_cluster cluster;
    struct plan_job asked;
    open_swarm(2);
    derive();
    struct buf *text = &live.profiles[0];
    buf_add(text, "", 1);
    char *at = strstr((char *)text->data, "\"kept_elements\":");
    ck_assert(at);
    at += strcspn(at, "123456789");
    *at = *at == '9' ? '8' : (char)(*at + 1);
    text->len--;
    bind_with("", &asked, &cluster);
    ck_assert(!cluster.fleet->table.engine);
    ck_assert_msg(strstr(cluster.notes, "other layers than this version's engine"), "%s",
                  cluster.notes);
    plan_cluster_release(&cluster);
    plan_job_release(&asked);
}
END_TEST

START_TEST(what_is_planned_of_a_swarms_file_is_what_its_leader_plans)
{
    uint64_t seed = suite_seed("plan_live", 1);
    int found = 0;
    for (int i = 0; i < SWARMS; i++) {
        found += plan_both(seed + (uint64_t)i);
        if (i + 1 < SWARMS)
            teardown();
    }
    ck_assert_int_ge(found, SWARMS / 2);
}
END_TEST

Suite *
suite_plan_live(void)
{
    Suite *suite = suite_create("plan_live");
    TCase *tc = suite_case(suite, "swarms", 30);
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, a_live_swarm_is_a_cluster_that_is_planned_as_it_is);
    tcase_add_test(tc, what_is_planned_of_a_swarms_file_is_what_its_leader_plans);
    tcase_add_test(
        tc, what_the_engine_carries_out_is_planned_as_its_leader_does_and_nothing_else);
    tcase_add_test(
        tc, a_profile_with_other_layers_than_the_engines_is_planned_as_it_is_and_said);
    tcase_add_test(tc, members_are_of_the_types_that_the_leader_plans_with);
    tcase_add_test(tc, many_different_members_are_gathered_into_the_types_that_there_are);
    return suite;
}
