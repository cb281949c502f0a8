#include "node/plan_cluster.h"
#include "node/plan_job.h"
#include "node/plan_live.h"
#include "planner/muster.h"
#include "tests/node/reporters.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_plan_live(void);

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

Suite *
suite_plan_live(void)
{
    Suite *suite = suite_create("plan_live");
    TCase *tc = suite_case(suite, "swarms", 30);
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, a_live_swarm_is_a_cluster_that_is_planned_as_it_is);
    tcase_add_test(tc, members_are_of_the_types_that_the_leader_plans_with);
    tcase_add_test(tc, many_different_members_are_gathered_into_the_types_that_there_are);
    return suite;
}
