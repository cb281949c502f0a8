#include "node/voters.h"
#include "tests/node/reporters.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

Suite *suite_view(void);

static struct reporters people;
static struct job job;
static struct err err;

/* The words of `count` people in this order, as a leader collects them. */
static void
collect(struct view *view, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        const struct buf *bytes = &people.list[order[i]].bytes;
        ck_assert_msg(view_report(view, bytes->data, bytes->len, &people.swarm,
                                  &people.admit_id, &err) == 0,
                      "%s", err.msg);
    }
}

static void
run_job(struct view *view)
{
    view->state = JOB_RUNNING;
    job_copy(&view->job, &job);
    view->submitter = *key_id(people.list[0].key);
}

static struct view *
leader_view(int count)
{
    int order[PLAN_NODES_MAX];
    struct view *view = xcalloc(1, sizeof(*view));
    for (int i = 0; i < count; i++)
        order[i] = i;
    run_job(view);
    collect(view, order, count);
    ck_assert_msg(view_derive(view, NULL, &err) == 0, "%s", err.msg);
    return view;
}

static void
view_drop(struct view *view)
{
    view_release(view);
    free(view);
}

static struct decree
decree_of(const struct view *view)
{
    struct decree decree = {.epoch = 7, .members_count = view->reports_count};
    decree.members = xcalloc(view->reports_count, sizeof(*decree.members));
    for (uint32_t i = 0; i < view->reports_count; i++)
        decree.members[i] = (struct decree_member){view->reports[i].id,
                                                   view->reports[i].record.incarnation};
    decree.voters_count = voters_choose(NULL, view, decree.voters);
    return decree;
}

/* What a voter sees of a view: the bytes that came over the wire. */
static struct view *
received(const struct view *view)
{
    struct buf bytes = {0};
    view_encode(view, &bytes);
    struct view *out = xcalloc(1, sizeof(*out));
    ck_assert_msg(view_decode(bytes.data, bytes.len, &people.swarm, &people.admit_id, out,
                              &err) == 0,
                  "%s", err.msg);
    buf_release(&bytes);
    return out;
}

static void
setup(void)
{
    reporters_job(4, &job);
    reporters_open(&people, 5, 2, &job);
    err = (struct err){0};
}

static void
teardown(void)
{
    reporters_close(&people);
    job_release(&job);
}

START_TEST(the_same_reports_in_any_order_give_the_same_bytes)
{
    struct rng rng = {
        .seed = suite_seed("the_same_reports_in_any_order_give_the_same_bytes", 3)};
    struct buf first = {0};
    for (int round = 0; round < 30; round++) {
        int order[] = {0, 1, 2, 3, 4, 2};
        for (int i = 4; i > 0; i--) {
            int j = (int)rng_below(&rng, (uint64_t)i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        struct view view = {0};
        run_job(&view);
        collect(&view, order, 6); /* one of them comes twice */
        ck_assert_uint_eq(view.reports_count, 5);
        for (uint32_t i = 0; i < 5; i++)
            ck_assert(id_equal(&view.reports[i].id, key_id(people.list[i].key)));
        ck_assert_msg(view_derive(&view, NULL, &err) == 0, "%s", err.msg);
        ck_assert(view.planned);
        struct buf bytes = {0};
        view_encode(&view, &bytes);
        if (round == 0) {
            first = bytes;
        } else {
            ck_assert_uint_eq(bytes.len, first.len);
            ck_assert_mem_eq(bytes.data, first.data, first.len);
            buf_release(&bytes);
        }
        view_release(&view);
    }
    buf_release(&first);
}
END_TEST

START_TEST(a_later_report_of_a_member_replaces_its_earlier_one)
{
    struct view view = {0};
    int order[] = {0, 1};
    collect(&view, order, 2);
    people.list[1].report.progress.applied = 17;
    reporter_sign(&people, 1);
    collect(&view, order + 1, 1);
    ck_assert_uint_eq(view.reports_count, 2);
    ck_assert_int_eq(view.reports[1].progress.applied, 17);
    ck_assert_int_eq(view_node(&view, key_id(people.list[1].key)), 1);
    ck_assert_int_eq(view_node(&view, key_id(people.list[4].key)), -1);
    view_release(&view);
}
END_TEST

START_TEST(a_view_comes_back_whole)
{
    struct view *view = leader_view(5);
    view->former_count = 2;
    view->former[0] = (struct id){{1}};
    view->former[1] = (struct id){{2}};
    struct view *out = received(view);
    struct buf one = {0}, two = {0};
    view_encode(view, &one);
    view_encode(out, &two);
    ck_assert_uint_eq(one.len, two.len);
    ck_assert_mem_eq(one.data, two.data, one.len);
    /* What is derived follows from the bytes. */
    ck_assert(out->planned && out->state == JOB_RUNNING);
    ck_assert_int_eq(out->recovery.base_step, view->recovery.base_step);
    ck_assert_int_eq(out->recovery.transfers_count, view->recovery.transfers_count);
    ck_assert_mem_eq(out->recovery.transfers, view->recovery.transfers,
                     (size_t)view->recovery.transfers_count *
                         sizeof(*view->recovery.transfers));
    ck_assert_int_eq(out->duties.gatherers_count, view->duties.gatherers_count);
    ck_assert_int_eq(out->duties.gatherers[0], view->duties.gatherers[0]);
    ck_assert_int_eq(out->cluster.zones_count, 2);
    ck_assert_int_eq(out->plan.predicted_step_ns, view->plan.predicted_step_ns);
    ck_assert_uint_eq(out->former_count, 2);
    bool works = false;
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(view_worker(view, i), view_worker(out, i));
        works = works || view_worker(view, i);
    }
    ck_assert(works && !view_worker(view, -1));
    buf_release(&one);
    buf_release(&two);
    view_drop(out);
    view_drop(view);
}
END_TEST

START_TEST(a_view_without_a_job_has_members_and_no_plan)
{
    struct view view = {0};
    int order[] = {3, 1};
    collect(&view, order, 2);
    ck_assert_int_eq(view_derive(&view, NULL, &err), 0);
    ck_assert(!view.planned);
    ck_assert(!view_worker(&view, 0));
    ck_assert_int_eq(view.cluster.nodes_count, 2);
    struct view *out = received(&view);
    struct decree decree = decree_of(&view);
    ck_assert_msg(view_judge(&decree, out, NULL, NULL, &err) == 0, "%s", err.msg);
    decree_release(&decree);
    view_drop(out);
    view_release(&view);
}
END_TEST

START_TEST(links_are_the_median_of_what_members_measured)
{
    struct record *record = &people.list[0].report.record;
    for (uint32_t i = 0; i < record->links_count; i++)
        record->links[i].rate = rate_encode(1000000); /* one of three is slow */
    reporter_sign(&people, 0);
    struct view *view = leader_view(5); /* zone a: 0, 2, 4; zone b: 1, 3 */
    /* A record tells of the ways to its node. */
    const struct cluster_link *far = cluster_link(&view->cluster, 1, 0);
    ck_assert_int_eq(far->bytes_per_s, rate_decode(rate_encode(100000000)));
    ck_assert_int_eq(far->round_trip_us, 20000);
    ck_assert_int_eq(cluster_link(&view->cluster, 1, 1)->bytes_per_s,
                     rate_decode(rate_encode(1000000000)));
    view_drop(view);
    /* Nobody has measured anything yet: still a plan. */
    for (int i = 0; i < 5; i++) {
        people.list[i].report.record.links_count = 0;
        reporter_sign(&people, i);
    }
    view = leader_view(5);
    ck_assert_int_gt(cluster_link(&view->cluster, 0, 0)->bytes_per_s,
                     cluster_link(&view->cluster, 0, 1)->bytes_per_s);
    view_drop(view);
}
END_TEST

START_TEST(a_plan_rests_on_the_low_rate_and_unmeasured_zones_on_the_last_mile)
{
    for (int i = 0; i < 5; i++) {
        struct record *record = &people.list[i].report.record;
        for (uint32_t k = 0; k < record->links_count; k++) {
            record->links[k].rate = rate_encode(80000000);
            record->links[k].low = rate_encode(40000000);
            record->links[k].curve[1] = rate_encode(20000000);
        }
        if (record->zone[0] == 'b') /* into b nobody measured anything */
            record->links_count = 0;
        reporter_sign(&people, i);
    }
    struct view *view = leader_view(5);
    int64_t low = rate_decode(rate_encode(40000000));
    ck_assert_int_eq(cluster_link(&view->cluster, 1, 0)->bytes_per_s, low);
    ck_assert_int_eq(cluster_link(&view->cluster, 0, 0)->bytes_per_s, low);
    /* What a size gets of the rate it is taken to get of the low one. */
    const struct cluster_link *near = cluster_link(&view->cluster, 0, 0);
    double half = (double)low / (double)rate_decode(rate_encode(80000000)) *
                  (double)rate_decode(rate_encode(20000000));
    ck_assert_int_eq(near->message_bytes[1], 1 << 20);
    ck_assert_double_eq_tol((double)near->message_bytes_per_s[1], half, 1.0);
    ck_assert_int_eq(near->message_bytes_per_s[0], 0);
    /* Nothing is known of what a sends or b takes. */
    ck_assert_int_eq(cluster_link(&view->cluster, 0, 1)->bytes_per_s, 10000000);
    ck_assert_int_eq(cluster_link(&view->cluster, 0, 1)->round_trip_us, 20000);
    view_drop(view);
    /* A third zone's experience with a's sending is something. */
    people.list[3].report.record.zone[0] = 'c';
    people.list[3].report.record.links_count = 1;
    people.list[3].report.record.links[0] =
        (struct record_link){.peer = *key_id(people.list[0].key),
                             .rate = rate_encode(25000000),
                             .confidence = 60};
    reporter_sign(&people, 3);
    view = leader_view(5);
    ck_assert_int_eq(cluster_link(&view->cluster, 0, 1)->bytes_per_s,
                     rate_decode(rate_encode(25000000)));
    view_drop(view);
}
END_TEST

START_TEST(a_profile_of_another_job_says_nothing)
{
    people.list[2].report.job = (struct id){{99}};
    people.list[2].report.progress.applied = 50;
    reporter_sign(&people, 2);
    struct view *view = leader_view(5);
    ck_assert_int_eq(view->cluster.nodes[2].profile.count, 0);
    ck_assert(!view_worker(view, 2));
    ck_assert_int_eq(view->recovery.base_step, 0);
    view_drop(view);
}
END_TEST

START_TEST(a_voter_accepts_what_the_leader_made)
{
    struct view *view = leader_view(5);
    struct view *out = received(view);
    struct decree decree = decree_of(view);
    ck_assert_msg(view_judge(&decree, out, NULL, NULL, &err) == 0, "%s", err.msg);
    decree_release(&decree);
    view_drop(out);
    view_drop(view);
}
END_TEST

static void
judge_refuses(const struct view *view, const struct decree *decree, const char *why)
{
    err = (struct err){0};
    ck_assert_msg(view_judge(decree, view, NULL, NULL, &err) == -1, "%s", why);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_msg(strstr(err.msg, why) != NULL, "%s", err.msg);
}

START_TEST(a_voter_refuses_a_plan_that_does_not_follow)
{
    struct view *view = leader_view(5);
    struct decree decree = decree_of(view);
    struct view *out = received(view);
    out->plan.predicted_step_ns++;
    judge_refuses(out, &decree, "the plan computed here from the same reports differs");
    out->plan.predicted_step_ns--;
    int used = out->plan.stages[0].nodes[0];
    for (int other = 0; other < 5; other++) {
        if (view_worker(view, other))
            continue;
        out->plan.stages[0].nodes[0] = other;
        judge_refuses(out, &decree, "differs");
    }
    out->plan.stages[0].nodes[0] = used;
    out->planned = false; /* a leader that says nothing fits, though something does */
    judge_refuses(out, &decree, "differs");
    out->planned = true;
    ck_assert_int_eq(view_judge(&decree, out, NULL, NULL, &err), 0);
    decree_release(&decree);
    view_drop(out);
    view_drop(view);
}
END_TEST

START_TEST(a_voter_refuses_members_who_did_not_report_and_reports_left_out)
{
    struct view *five = leader_view(5), *four = leader_view(4);
    struct decree of_five = decree_of(five), of_four = decree_of(four);
    judge_refuses(four, &of_five, "5 members, but 4 reports");
    judge_refuses(five, &of_four, "4 members, but 5 reports");
    of_four.members[2].id.bytes[5] ^= 1;
    judge_refuses(four, &of_four, "member 2 is not the one that reported");
    of_five.members[1].incarnation += UINT64_C(1) << 32; /* another boot of it */
    judge_refuses(five, &of_five, "member 1 is not the one that reported");
    of_five.members[1].incarnation -= UINT64_C(1) << 32;
    of_five.members[1].incarnation += 7; /* refutations do not matter */
    ck_assert_msg(view_judge(&of_five, five, NULL, NULL, &err) == 0, "%s", err.msg);
    decree_release(&of_five);
    decree_release(&of_four);
    view_drop(five);
    view_drop(four);
}
END_TEST

/* A member's answer to an earlier question says how far it was then. */
START_TEST(a_voter_refuses_a_report_of_another_epoch_or_term)
{
    for (int what = 0; what < 3; what++) {
        struct report *report = &people.list[1].report;
        report->epoch = what == 0 ? 5 : what == 1 ? 7 : 6;
        report->term = what == 2 ? 3 : 4;
        reporter_sign(&people, 1);
        struct view *view = leader_view(3);
        struct decree decree = decree_of(view);
        judge_refuses(view, &decree, "member 1 reported in epoch");
        decree_release(&decree);
        view_drop(view);
    }
}
END_TEST

static bool
same_places(const struct view *left, const struct view *right)
{
    const struct plan *a = &left->plan, *b = &right->plan;
    if (a->stages_count != b->stages_count || a->pipelines_count != b->pipelines_count ||
        a->micro_batch != b->micro_batch)
        return false;
    for (int s = 0; s < a->stages_count; s++)
        for (int r = 0; r < a->pipelines_count; r++)
            if (!id_equal(&left->reports[a->stages[s].nodes[r]].id,
                          &right->reports[b->stages[s].nodes[r]].id))
                return false;
    return true;
}

/* Two members, room for one of them in the plan: which one? */
static void
one_of_two(void)
{
    job.pipeline = 1;
    job.replicas = 1;
}

START_TEST(a_voter_who_stays_does_not_accept_its_own_removal)
{
    struct view *view = leader_view(3); /* two of five are left out */
    struct decree decree = decree_of(view);
    struct id in = view->reports[1].id, out = *key_id(people.list[4].key);
    ck_assert_int_eq(view_node(view, &out), -1);
    ck_assert_int_eq(view_keeps(&decree, &in, false, &err), 0);
    ck_assert_int_eq(view_keeps(&decree, &out, true, &err), 0); /* it said that it goes */
    ck_assert_int_eq(view_keeps(&decree, &out, false, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_ptr_nonnull(strstr(err.msg, "does not hear it"));
    decree_release(&decree);
    view_drop(view);
}
END_TEST

START_TEST(a_plan_is_kept_while_no_other_is_better_by_5_percent)
{
    one_of_two();
    reporter_speed(&people, 0, 104);
    reporter_sign(&people, 0);
    int order[] = {0, 1};
    struct view before = {0};
    run_job(&before);
    collect(&before, order, 1); /* alone at first */
    ck_assert_msg(view_derive(&before, NULL, &err) == 0, "%s", err.msg);
    ck_assert(view_worker(&before, 0));

    struct view fresh = {0}, kept = {0};
    run_job(&fresh);
    collect(&fresh, order, 2);
    ck_assert_int_eq(view_derive(&fresh, NULL, &err), 0);
    ck_assert_msg(view_worker(&fresh, 1), "the faster one, when there is no plan yet");
    run_job(&kept);
    collect(&kept, order, 2);
    ck_assert_int_eq(view_derive(&kept, &before, &err), 0);
    ck_assert_msg(same_places(&before, &kept), "4 %% are not worth a move");
    ck_assert_int_gt(kept.plan.predicted_step_ns, fresh.plan.predicted_step_ns);
    view_release(&kept);

    /* Of another run's plan nothing is kept. */
    struct view other = {0};
    run_job(&other);
    other.job.train.id.bytes[0] ^= 1;
    for (int i = 0; i < 2; i++) {
        people.list[i].report.job = other.job.train.id;
        reporter_sign(&people, i);
    }
    collect(&other, order, 2);
    ck_assert_int_eq(view_derive(&other, &before, &err), 0);
    ck_assert(view_worker(&other, 1));
    view_release(&other);

    reporter_speed(&people, 0, 120);
    for (int i = 0; i < 2; i++) {
        people.list[i].report.job = job.train.id;
        reporter_sign(&people, i);
    }
    struct view moved = {0};
    run_job(&moved);
    collect(&moved, order, 2);
    ck_assert_int_eq(view_derive(&moved, &before, &err), 0);
    ck_assert_msg(view_worker(&moved, 1), "20 %% are");
    view_release(&moved);
    view_release(&fresh);
    view_release(&before);
}
END_TEST

/* Between epochs: news that change the plan, and news that do not. */
START_TEST(a_plan_is_outdated_by_speeds_or_links_that_make_another_worth_it)
{
    struct view *view = leader_view(5); /* zone a: 0, 2, 4; zone b: 1, 3 */
    const struct record *records[5] = {NULL};
    int64_t none[5] = {0}, corrections[5] = {0};
    ck_assert(!view_outdated(view, NULL, none));
    ck_assert(!view_outdated(view, records, none));

    /* A little slower than reported is no reason; a worker of ten times is. */
    int worker = 0;
    while (!view_worker(view, worker))
        worker++;
    corrections[worker] = 1010000;
    ck_assert(!view_outdated(view, NULL, corrections));
    corrections[worker] = 10000000;
    ck_assert(view_outdated(view, NULL, corrections));

    /* All links become a thousandth of what they were, by the records alone. */
    static struct record slow[5];
    for (int i = 0; i < 5; i++) {
        slow[i] = people.list[i].report.record;
        for (uint32_t k = 0; k < slow[i].links_count; k++) {
            slow[i].links[k].rate = rate_encode(10000);
            slow[i].links[k].low = 0;
        }
        records[i] = &slow[i];
    }
    bool alone = view->plan.stages_count * view->plan.pipelines_count == 1;
    ck_assert_msg(!alone, "a plan of one node has no links");
    ck_assert(view_outdated(view, records, none));
    view_drop(view);
}
END_TEST

START_TEST(a_plan_is_not_kept_when_one_of_its_nodes_is_gone)
{
    struct view *before = leader_view(5);
    int gone = before->plan.stages[0].nodes[0], order[4], count = 0;
    for (int i = 0; i < 5; i++)
        if (i != gone)
            order[count++] = i;
    struct view after = {0};
    run_job(&after);
    collect(&after, order, 4);
    ck_assert_msg(view_derive(&after, before, &err) == 0, "%s", err.msg);
    ck_assert(after.planned && !same_places(before, &after));
    view_release(&after);
    view_drop(before);
}
END_TEST

START_TEST(a_kept_plan_is_renumbered_for_the_members_of_now)
{
    one_of_two();
    int alone[] = {4}, all[] = {0, 1, 2, 3, 4};
    struct view before = {0}, after = {0};
    run_job(&before);
    collect(&before, alone, 1);
    ck_assert_int_eq(view_derive(&before, NULL, &err), 0);
    ck_assert_int_eq(before.plan.stages[0].nodes[0], 0);
    run_job(&after);
    collect(&after, all, 5);
    ck_assert_int_eq(view_derive(&after, &before, &err), 0);
    ck_assert_int_eq(after.plan.stages[0].nodes[0], 4);
    /* Voters who know the plan in force find the same; who do not, refuse. */
    struct view *out = received(&after);
    struct decree decree = decree_of(&after);
    ck_assert_msg(view_judge(&decree, out, NULL, &before, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(view_judge(&decree, out, NULL, NULL, &err), -1);
    decree_release(&decree);
    view_drop(out);
    view_release(&before);
    view_release(&after);
}
END_TEST

START_TEST(a_run_waits_while_it_fits_no_member)
{
    for (int i = 0; i < 2; i++) {
        people.list[i].report.record.memory_bytes = 100000;
        reporter_sign(&people, i);
    }
    int order[] = {0, 1};
    struct view view = {0};
    run_job(&view);
    collect(&view, order, 2);
    ck_assert_int_eq(view_derive(&view, NULL, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_msg(strstr(err.msg, "layer") && strstr(err.msg, "needs"), "%s", err.msg);
    ck_assert(!view.planned);
    /* The run stays, without a plan; voters agree to that. */
    struct view *out = received(&view);
    ck_assert(out->state == JOB_RUNNING && !out->planned);
    ck_assert(id_equal(&out->job.train.id, &job.train.id));
    struct decree decree = decree_of(&view);
    ck_assert_msg(view_judge(&decree, out, NULL, NULL, &err) == 0, "%s", err.msg);
    /* With more room it goes on. */
    struct view next;
    view_begin(&next, out);
    for (int i = 0; i < 2; i++) {
        people.list[i].report.record.memory_bytes = 1 << 30;
        reporter_sign(&people, i);
    }
    collect(&next, order, 2);
    ck_assert_msg(view_derive(&next, out, &err) == 0, "%s", err.msg);
    ck_assert(next.planned);
    view_release(&next);
    decree_release(&decree);
    view_drop(out);
    view_release(&view);
}
END_TEST

START_TEST(nobody_with_the_data_is_no_plan)
{
    for (int i = 0; i < 2; i++) {
        people.list[i].report.progress.has_data = false;
        reporter_sign(&people, i);
    }
    int order[] = {0, 1};
    struct view view = {0};
    run_job(&view);
    collect(&view, order, 2);
    ck_assert_int_eq(view_derive(&view, NULL, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_msg(strstr(err.msg, "data set"), "%s", err.msg);
    ck_assert(!view.planned);
    view_release(&view);
}
END_TEST

START_TEST(a_view_begins_where_the_last_one_ended)
{
    struct view *view = leader_view(3);
    view->state = JOB_STOPPING;
    view->stop_after = 40;
    view->former_count = 1;
    view->former[0] = (struct id){{5}};
    struct view next;
    view_begin(&next, view);
    ck_assert_int_eq(next.state, JOB_STOPPING);
    ck_assert_int_eq(next.stop_after, 40);
    ck_assert_uint_eq(next.reports_count, 0);
    ck_assert_uint_eq(next.former_count, 1);
    ck_assert(!next.planned && next.job.text != view->job.text);
    ck_assert_str_eq(next.job.text, view->job.text);
    view_release(&next);
    view_begin(&next, NULL);
    ck_assert_int_eq(next.state, JOB_NONE);
    view_drop(view);
}
END_TEST

static void
all_halted_at(int64_t step)
{
    for (int i = 0; i < 3; i++) {
        struct progress *progress = &people.list[i].report.progress;
        progress->applied = step;
        progress->holdings_count = 1;
        progress->holdings[0] =
            (struct holding){.source = SOURCE_LIVE, .name.step = step, .layers = 6};
        reporter_sign(&people, i);
    }
}

/* The first step at which a stopping run ends is its base step, and stays it. */
START_TEST(a_stopping_run_ends_at_the_step_where_it_halted)
{
    all_halted_at(33);
    int order[] = {0, 1, 2};
    struct view view = {0}, next;
    run_job(&view);
    view.state = JOB_STOPPING;
    collect(&view, order, 3);
    ck_assert_msg(view_derive(&view, NULL, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(view.recovery.base_step, 33);
    ck_assert_int_eq(view.stop_after, 33);
    view_begin(&next, &view);
    ck_assert_int_eq(next.stop_after, 33);
    view_release(&next);
    view_release(&view);
}
END_TEST

/* Else nobody would ever be done with it: all hold a later step than the last one. */
START_TEST(a_stopping_run_that_gets_back_later_steps_ends_there)
{
    int order[] = {0, 1, 2};
    for (int64_t stop = 4; stop <= 50; stop += 46) {
        all_halted_at(48);
        struct view view = {0};
        run_job(&view);
        view.state = JOB_STOPPING;
        view.stop_after = stop;
        collect(&view, order, 3);
        ck_assert_msg(view_derive(&view, NULL, &err) == 0, "%s", err.msg);
        ck_assert_int_eq(view.recovery.base_step, 48);
        ck_assert_int_eq(view.stop_after, stop < 48 ? 48 : stop);
        view_release(&view);
    }
}
END_TEST

START_TEST(damaged_bytes_of_a_view_are_refused_or_harmless)
{
    struct view *view = leader_view(3);
    struct decree decree = decree_of(view);
    struct buf bytes = {0};
    view_encode(view, &bytes);
    uint8_t *bad = xmemdup(bytes.data, bytes.len);
    for (size_t i = 0; i < bytes.len; i += 1 + i % 7) {
        struct view out;
        bad[i] ^= (uint8_t)(1u << (i % 8));
        err = (struct err){0};
        if (view_decode(bad, bytes.len, &people.swarm, &people.admit_id, &out, &err)) {
            ck_assert_msg(err.code != ERR_NONE && strlen(err.msg) > 0, "byte %zu", i);
        } else {
            /* A job's seed or name may differ: then it says so again as it is. */
            struct buf again = {0};
            view_encode(&out, &again);
            ck_assert_uint_eq(again.len, bytes.len);
            ck_assert_mem_eq(again.data, bad, again.len);
            buf_release(&again);
            view_release(&out);
        }
        bad[i] = bytes.data[i];
    }
    for (size_t len = 0; len < bytes.len; len += 1 + len % 13) {
        struct view out;
        uint8_t *cut = xmemdup(bytes.data, len);
        ck_assert_int_eq(
            view_decode(cut, len, &people.swarm, &people.admit_id, &out, &err), -1);
        free(cut);
    }
    free(bad);
    buf_release(&bytes);
    decree_release(&decree);
    view_drop(view);
}
END_TEST

START_TEST(sixty_four_members_fit_into_a_decree)
{
    reporters_close(&people);
    reporters_open(&people, 64, 4, &job);
    for (int i = 0; i < 64; i++) {
        struct report *report = &people.list[i].report;
        report->progress.holdings_count = HOLDINGS_MAX;
        for (int k = 0; k < HOLDINGS_MAX; k++)
            report->progress.holdings[k] =
                (struct holding){.source = SOURCE_COPY,
                                 .name = {1 << 30, {UINT64_MAX, UINT64_MAX}},
                                 .layers = 3,
                                 .samples_hash = UINT64_MAX};
        report->profile.count = PROFILE_ENTRIES_MAX;
        for (int k = 0; k < PROFILE_ENTRIES_MAX; k++) {
            report->profile.entries[k] = report->profile.entries[0];
            report->profile.entries[k].micro_batch = k + 1;
        }
        reporter_sign(&people, i);
    }
    struct view *view = leader_view(64);
    struct buf bytes = {0};
    view_encode(view, &bytes);
    ck_assert_uint_lt(bytes.len, DECREE_BYTES_MAX);
    buf_release(&bytes);
    struct view *out = received(view);
    struct decree decree = decree_of(view);
    ck_assert_msg(view_judge(&decree, out, NULL, NULL, &err) == 0, "%s", err.msg);
    decree_release(&decree);
    view_drop(out);
    view_drop(view);
}
END_TEST

Suite *
suite_view(void)
{
    Suite *suite = suite_create("view");
    TCase *tests = suite_case(suite, "view", 30);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_same_reports_in_any_order_give_the_same_bytes);
    tcase_add_test(tests, a_later_report_of_a_member_replaces_its_earlier_one);
    tcase_add_test(tests, a_view_comes_back_whole);
    tcase_add_test(tests, a_view_without_a_job_has_members_and_no_plan);
    tcase_add_test(tests, links_are_the_median_of_what_members_measured);
    tcase_add_test(tests,
                   a_plan_rests_on_the_low_rate_and_unmeasured_zones_on_the_last_mile);
    tcase_add_test(tests, a_profile_of_another_job_says_nothing);
    tcase_add_test(tests, a_voter_accepts_what_the_leader_made);
    tcase_add_test(tests, a_voter_refuses_a_plan_that_does_not_follow);
    tcase_add_test(tests,
                   a_voter_refuses_members_who_did_not_report_and_reports_left_out);
    tcase_add_test(tests, a_voter_refuses_a_report_of_another_epoch_or_term);
    tcase_add_test(tests, a_voter_who_stays_does_not_accept_its_own_removal);
    tcase_add_test(tests, a_plan_is_kept_while_no_other_is_better_by_5_percent);
    tcase_add_test(tests,
                   a_plan_is_outdated_by_speeds_or_links_that_make_another_worth_it);
    tcase_add_test(tests, a_plan_is_not_kept_when_one_of_its_nodes_is_gone);
    tcase_add_test(tests, a_kept_plan_is_renumbered_for_the_members_of_now);
    tcase_add_test(tests, a_run_waits_while_it_fits_no_member);
    tcase_add_test(tests, nobody_with_the_data_is_no_plan);
    tcase_add_test(tests, a_view_begins_where_the_last_one_ended);
    tcase_add_test(tests, a_stopping_run_ends_at_the_step_where_it_halted);
    tcase_add_test(tests, a_stopping_run_that_gets_back_later_steps_ends_there);
    tcase_add_test(tests, damaged_bytes_of_a_view_are_refused_or_harmless);
    tcase_add_test(tests, sixty_four_members_fit_into_a_decree);
    return suite;
}
