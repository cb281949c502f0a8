#include "node/engine/profile.h"
#include "tests/node/crew.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct crew_plan one_node = {
    .stages = 1, .pipelines = 1, .micro_batch = 2, .layers = {4}, .nodes = {0}};
static const struct crew_plan two_stages = {
    .stages = 2, .pipelines = 1, .micro_batch = 2, .layers = {2, 2}, .nodes = {0, 1}};
static const struct crew_plan two_by_two = {.stages = 2,
                                            .pipelines = 2,
                                            .micro_batch = 2,
                                            .layers = {2, 2},
                                            .nodes = {0, 1, 2, 3}};

/* What a run leaves. */
struct outcome {
    double loss[CREW_STEPS_MAX];
    uint64_t hash[CREW_STEPS_MAX];
    float *state;
    size_t count;
};

static void
keep_outcome(struct crew *crew, struct outcome *out)
{
    crew_halt(crew);
    memcpy(out->loss, crew->loss, sizeof(out->loss));
    memcpy(out->hash, crew->hash, sizeof(out->hash));
    out->state = crew_state(crew, 0, &out->count);
}

/* An undisturbed run of `steps` steps. */
static void
run_plain(const struct crew_plan *plan, int nodes, int64_t steps, struct outcome *out)
{
    struct crew crew;
    crew_open(&crew, nodes);
    crew.job.steps = steps;
    crew_epoch(&crew, plan);
    crew_until_step(&crew, steps);
    keep_outcome(&crew, out);
    crew_close(&crew);
}

START_TEST(a_pipeline_of_two_gives_the_bits_of_one_node)
{
    struct outcome single, pipeline;
    run_plain(&one_node, 1, 10, &single);
    run_plain(&two_stages, 2, 10, &pipeline);
    ck_assert(single.loss[1] > 5 && single.loss[1] < 6);
    ck_assert(single.loss[10] < single.loss[1] - 0.1);
    for (int s = 1; s <= 10; s++) {
        ck_assert_msg(single.loss[s] == pipeline.loss[s], "step %d: %.17g, %.17g", s,
                      single.loss[s], pipeline.loss[s]);
        ck_assert(single.hash[s] == pipeline.hash[s]);
    }
    ck_assert_uint_eq(single.count, pipeline.count);
    ck_assert(memcmp(single.state, pipeline.state, single.count * sizeof(float)) == 0);
    free(single.state);
    free(pipeline.state);
}
END_TEST

START_TEST(two_pipelines_give_the_losses_of_one_node_and_equal_replicas)
{
    struct outcome single, both;
    run_plain(&one_node, 1, 10, &single);
    struct crew crew;
    crew_open(&crew, 4);
    crew_epoch(&crew, &two_by_two);
    crew_until_step(&crew, 10);
    keep_outcome(&crew, &both);
    size_t count;
    float *replica = crew_state(&crew, 1, &count);
    ck_assert(memcmp(replica, both.state, count * sizeof(float)) == 0);
    for (int s = 1; s <= 10; s++) {
        ck_assert_double_le(fabs(single.loss[s] - both.loss[s]), 1e-5 * single.loss[s]);
        ck_assert(single.hash[s] == both.hash[s]);
    }
    ck_assert_double_le(crew_distance(&crew, single.state, both.state), 1e-3);
    crew_close(&crew);
    free(replica);
    free(single.state);
    free(both.state);
}
END_TEST

/* ---- halts ---- */

static bool
never(struct crew *crew, void *arg)
{
    (void)crew, (void)arg;
    return false;
}

static bool
copied(struct crew *crew, void *arg)
{
    return crew->copied_everywhere >= *(int64_t *)arg;
}

/* Plans for four nodes, and for those that are left when one is away. */
static const struct crew_plan shapes[] = {
    {2, 2, 2, {2, 2}, {0, 1, 2, 3}},
    {1, 4, 2, {4}, {0, 1, 2, 3}},
    {2, 1, 4, {1, 3}, {3, 0}},
    {4, 1, 2, {1, 1, 1, 1}, {2, 3, 0, 1}},
    {1, 1, 2, {4}, {2}},
    {3, 1, 1, {1, 2, 1}, {0, 2, 3}},
    {2, 2, 1, {3, 1}, {1, 3, 0, 2}},
    {1, 2, 2, {4}, {1, 3}},
};

static bool
plan_lives(const struct crew *crew, const struct crew_plan *plan)
{
    for (int i = 0; i < plan->stages * plan->pipelines; i++)
        if (!crew->nodes[plan->nodes[i]].train)
            return false;
    return true;
}

static const struct crew_plan *
random_plan(const struct crew *crew, struct rng *rng)
{
    for (;;) {
        const struct crew_plan *plan =
            &shapes[rng_below(rng, sizeof(shapes) / sizeof(shapes[0]))];
        if (plan_lives(crew, plan))
            return plan;
    }
}

static void
same_losses(const struct crew *crew, const struct outcome *plain, int64_t steps,
            int deaths)
{
    int untold = 0; /* applied by one that died before it could say so */
    for (int64_t s = 1; s <= steps; s++) {
        if (crew->applied_by[s] == 0) {
            ck_assert_int_le(++untold, deaths);
            continue;
        }
        /* Another plan adds in another order, and training doubles the difference in
         * time. */
        double near = s <= 50 ? 1e-4 : 1e-3;
        ck_assert_msg(fabs(crew->loss[s] - plain->loss[s]) <= near,
                      "step %d: %.9g instead of %.9g", (int)s, crew->loss[s],
                      plain->loss[s]);
        ck_assert(crew->hash[s] == plain->hash[s]);
    }
}

static int64_t
most_applied(const struct crew *crew)
{
    int64_t most = 0;
    for (int i = 0; i < crew->count; i++)
        if (crew->nodes[i].train && crew->nodes[i].applied > most)
            most = crew->nodes[i].applied;
    return most;
}

static bool
beyond_base(struct crew *crew, void *arg)
{
    (void)arg;
    return most_applied(crew) > crew->recovery.base_step;
}

START_TEST(a_run_halted_at_any_moment_goes_on_under_any_plan_and_loses_nothing)
{
    enum { STEPS = 100 };
    struct rng rng = {
        .seed = suite_seed(
            "a_run_halted_at_any_moment_goes_on_under_any_plan_and_loses_nothing", 21)};
    struct outcome plain;
    run_plain(&one_node, 1, STEPS, &plain);
    struct crew crew;
    crew_open(&crew, 4);
    crew.job.steps = STEPS;
    crew.job.copy_every = 4;
    crew_epoch(&crew, &two_by_two);
    int rounds = 0;
    int64_t reached = 0;
    for (; rounds < 60 && most_applied(&crew) < STEPS; rounds++) {
        if (rng_below(&rng, 4)) /* or at the very beginning */
            crew_until(&crew, beyond_base, NULL, 2000);
        crew_until(&crew, never, NULL, (int64_t)rng_below(&rng, 10));
        int64_t before = most_applied(&crew), asked_ms = clock_ms();
        crew_halt(&crew);
        ck_assert_int_lt(clock_ms() - asked_ms, 500);
        if (most_applied(&crew) > before)
            before = most_applied(&crew);
        crew_epoch(&crew, random_plan(&crew, &rng));
        ck_assert_int_eq(crew.recovery.base_step, before);
        ck_assert_int_eq(crew.recovery.steps_lost, 0);
        reached = before;
    }
    crew_until_step(&crew, STEPS);
    same_losses(&crew, &plain, STEPS, 0);
    ck_assert_int_gt(rounds, 3);
    printf("halts %d, last from step %d\n", rounds, (int)reached);
    crew_close(&crew);
    free(plain.state);
}
END_TEST

START_TEST(nodes_that_die_and_come_back_cost_at_most_the_steps_since_the_copy)
{
    enum { STEPS = 200 };
    struct rng rng = {
        .seed = suite_seed(
            "nodes_that_die_and_come_back_cost_at_most_the_steps_since_the_copy", 31)};
    struct outcome plain;
    run_plain(&one_node, 1, STEPS, &plain);
    struct crew crew;
    crew_open(&crew, 4);
    crew.job.steps = STEPS;
    crew.job.copy_every = 3;
    crew_epoch(&crew, &two_by_two);
    crew_until_step(&crew, 1); /* everybody has the data */
    int away = -1, lost = 0, deaths = 0;
    for (int rounds = 0; rounds < 100 && most_applied(&crew) < STEPS; rounds++) {
        int64_t new_copy = crew.recovery.base_step + 1;
        if (away < 0) /* one loss at a time: what was lost is copied again */
            crew_until(&crew, copied, &new_copy, 2000);
        crew_until(&crew, never, NULL, (int64_t)rng_below(&rng, 10));
        int64_t copied_step = crew.copied_everywhere;
        if (away >= 0) {
            crew_start(&crew, away);
            away = -1;
        } else if (copied_step >= new_copy) {
            away = (int)rng_below(&rng, 4);
            crew_kill(&crew, away);
            deaths++;
        }
        crew_halt(&crew);
        crew_epoch(&crew, random_plan(&crew, &rng));
        ck_assert_int_ge(crew.recovery.base_step, copied_step);
        lost += crew.recovery.steps_lost > 0;
    }
    crew_until_step(&crew, STEPS);
    same_losses(&crew, &plain, STEPS, deaths);
    printf("deaths %d, of which %d cost steps\n", deaths, lost);
    ck_assert_int_gt(deaths, 0);
    crew_close(&crew);
    free(plain.state);
}
END_TEST

/* ---- disk ---- */

static void
kill_all(struct crew *crew)
{
    for (int i = 0; i < crew->count; i++)
        crew_kill(crew, i);
}

static void
start_all(struct crew *crew)
{
    for (int i = 0; i < crew->count; i++)
        crew_start(crew, i);
    crew_halt(crew);
}

static void
same_bits(const struct outcome *left, const struct outcome *right, int64_t from,
          int64_t to)
{
    for (int64_t s = from; s <= to; s++) {
        ck_assert_msg(left->loss[s] == right->loss[s], "step %d: %.17g, %.17g", (int)s,
                      left->loss[s], right->loss[s]);
        ck_assert(left->hash[s] == right->hash[s]);
    }
    ck_assert_uint_eq(left->count, right->count);
    ck_assert(memcmp(left->state, right->state, left->count * sizeof(float)) == 0);
}

START_TEST(a_run_resumed_from_disk_under_another_plan_has_the_bits_of_one_never_stopped)
{
    static const struct crew_plan elsewhere = {.stages = 3,
                                               .pipelines = 1,
                                               .micro_batch = 2,
                                               .layers = {2, 1, 1},
                                               .nodes = {3, 1, 2}};
    struct outcome plain, resumed;
    run_plain(&one_node, 1, 14, &plain);
    struct crew crew;
    crew_open(&crew, 4);
    crew.job.steps = 7;
    crew.job.checkpoint_every = 3;
    crew_epoch(&crew, &two_stages);
    crew_until_done(&crew);
    ck_assert_int_eq(crew.nodes[0].checkpoints, 3); /* of 3, 6 and 7: the submitter's */
    ck_assert_int_eq(crew.nodes[2].checkpoints,
                     3); /* one of the other zone, without a part */
    kill_all(&crew);
    start_all(&crew);
    crew.job.steps = 14;
    crew_epoch(&crew, &elsewhere);
    ck_assert_int_eq(crew.recovery.base_step, 7);
    crew_until_done(&crew);
    keep_outcome(&crew, &resumed);
    same_bits(&resumed, &plain, 1, 14);
    crew_close(&crew);
    free(plain.state);
    free(resumed.state);
}
END_TEST

START_TEST(a_run_that_is_stopped_ends_with_a_checkpoint_of_where_it_was)
{
    struct crew crew;
    crew_open(&crew, 4);
    crew.job.steps = 1000;
    crew.job.copy_every = 5;
    crew_epoch(&crew, &two_by_two);
    crew_until_step(&crew, 12);
    crew_halt(&crew);
    int64_t reached = most_applied(&crew);
    crew.job.steps = reached;
    crew_epoch(&crew, &two_by_two);
    crew_until_done(&crew);
    ck_assert_int_eq(crew.recovery.base_step, reached);
    ck_assert_int_eq(crew.nodes[0].checkpoints, 1);
    ck_assert_int_eq(crew.nodes[2].checkpoints, 1);
    ck_assert_int_eq(most_applied(&crew), reached);
    struct err err = {0};
    struct checkpoint_info info = {0};
    struct checkpoint *checkpoint =
        checkpoint_open(crew.nodes[2].checkpoint, &info, &err);
    ck_assert_msg(checkpoint, "%s", err.msg);
    ck_assert_int_eq(info.step, reached);
    ck_assert(info.samples_hash == crew.hash[reached]);
    ck_assert(id_equal(&info.job, &crew.job.id));
    ck_assert_str_eq(info.text, "name: crew\n");
    checkpoint_info_release(&info);
    checkpoint_close(checkpoint);
    crew_close(&crew);
}
END_TEST

static bool
node_failed(struct crew *crew, void *arg)
{
    return crew->nodes[*(int *)arg].failed;
}

START_TEST(a_checkpoint_that_cannot_be_written_is_reported_and_training_goes_on)
{
    struct crew crew;
    struct err err = {0};
    char path[PATH_BYTES_MAX];
    crew_open(&crew, 1);
    crew.job.steps = 30;
    crew.job.checkpoint_every = 4;
    path_join(path, crew.nodes[0].folder, "checkpoints");
    ck_assert_int_eq(file_write(path, "in the way", 10, 0600, &err), 0);
    crew_epoch(&crew, &one_node);
    int node = 0;
    ck_assert(crew_until(&crew, node_failed, &node, 10000));
    ck_assert_str_eq(crew.nodes[0].failure.what, "checkpoint");
    crew.nodes[0].failed = false;
    for (int64_t s = most_applied(&crew); s < 30; s = most_applied(&crew)) {
        crew_until(&crew, never, NULL, 5);
        crew.nodes[0].failed = false;
    }
    crew_halt(&crew);
    ck_assert_int_eq(crew.nodes[0].progress.applied, 30);
    crew_close(&crew);
}
END_TEST

START_TEST(a_data_set_with_another_content_than_its_name_says_is_refused)
{
    struct crew crew;
    struct err err = {0};
    struct buf text = {0};
    char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX], name[ID_TEXT_SIZE];
    crew_open(&crew, 2);
    crew_halt(&crew); /* node 0 has looked at it */
    path_join(folder, crew.nodes[0].folder, "data");
    path_join(path, folder, id_text(&crew.job.data, name));
    ck_assert_int_eq(file_read(path, 1 << 20, &text, &err), 0);
    text.data[100] ^= 1;
    ck_assert_int_eq(file_write(path, text.data, text.len, 0600, &err), 0);
    crew_epoch(&crew, &two_stages);
    int node = 1;
    ck_assert(crew_until(&crew, node_failed, &node, 10000));
    ck_assert_int_eq(crew.nodes[1].failure.err.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(crew.nodes[1].failure.err.msg, "content"));
    crew_halt(&crew);
    ck_assert(!crew.nodes[1].progress.has_data);
    kill_all(&crew);
    start_all(&crew);
    ck_assert(!crew.nodes[0].progress.has_data); /* looked at anew */
    ck_assert_int_eq(crew_try_epoch(&crew, &two_stages, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    buf_release(&text);
    crew_close(&crew);
}
END_TEST

/* ---- copies ---- */

START_TEST(a_node_without_a_part_keeps_the_copy_that_saves_the_run)
{
    enum { STEPS = 150 };
    static const struct crew_plan on_another = {
        .stages = 1, .pipelines = 1, .micro_batch = 2, .layers = {4}, .nodes = {1}};
    struct outcome plain;
    run_plain(&one_node, 1, STEPS, &plain);
    struct crew crew;
    crew_open(&crew, 3); /* node 2 is of the other zone */
    crew.job.steps = STEPS;
    crew.job.copy_every = 6;
    crew.mute_copied = true; /* nobody hears that a copy is complete */
    crew_epoch(&crew, &one_node);
    crew_until_step(&crew, 18);
    crew_until(&crew, never, NULL, 50);
    /* Two buffers are full, there is no third: training waits. */
    ck_assert_int_eq(most_applied(&crew), 18);
    ck_assert_int_eq(crew.nodes[2].copies, 2);
    crew.mute_copied = false;
    train_copied(crew.nodes[0].train, 12); /* the keeper learns it with the next copy */
    crew_until_step(&crew, 22);
    int64_t step = 18;
    ck_assert(crew_until(&crew, copied, &step, 5000));
    crew_halt(&crew); /* node 1 has no data: nothing can go on without node 0 */
    crew_epoch(&crew, &two_stages);
    crew_until_step(&crew, 24);
    int64_t base = crew.recovery.base_step + 1;
    ck_assert(crew_until(&crew, copied, &base, 5000));
    crew_kill(&crew, 0);
    crew_halt(&crew);
    crew_epoch(&crew, &on_another);
    ck_assert_int_ge(crew.recovery.base_step, base);
    crew_until_step(&crew, STEPS);
    same_losses(&crew, &plain, STEPS, 1);
    crew_close(&crew);
    free(plain.state);
}
END_TEST

/* ---- what a node waits for ---- */

static bool
node_stalls(struct crew *crew, void *arg)
{
    return crew->nodes[*(int *)arg].stalls > 0;
}

START_TEST(nothing_is_applied_on_old_knowledge_and_others_say_whom_they_wait_for)
{
    struct crew crew;
    crew_open(&crew, 2);
    crew.job.steps = 20;
    crew_epoch(&crew, &two_stages);
    crew_until_step(&crew, 3);
    atomic_store(&crew.nodes[1].fresh_at_ms, clock_ms() - 100000); /* it was stopped */
    int node = 0;
    ck_assert(crew_until(&crew, node_stalls, &node, 20000));
    int64_t slept_at = crew.nodes[1].applied;
    ck_assert_int_eq(crew.nodes[0].applied, slept_at + 1);
    crew_halt(&crew);
    const struct progress *slept = &crew.nodes[1].progress;
    ck_assert_int_eq(slept->applied, slept_at);
    ck_assert(slept->prepared);
    crew_epoch(&crew, &two_stages);
    ck_assert_int_eq(crew.recovery.base_step, slept_at + 1);
    ck_assert(crew.recovery.apply_prepared);
    atomic_store(&crew.nodes[1].fresh_at_ms, INT64_MAX / 2);
    crew_until_step(&crew, 20);
    struct outcome plain, after;
    keep_outcome(&crew, &after);
    crew_close(&crew);
    run_plain(&one_node, 1, 20, &plain);
    same_bits(&after, &plain, 1, 20);
    free(plain.state);
    free(after.state);
}
END_TEST

START_TEST(a_run_that_diverges_says_so_and_applies_nothing_of_it)
{
    struct crew crew;
    crew_open(&crew, 1);
    crew.job.learning_rate = 1e30;
    crew.job.warmup_steps = 0;
    crew_epoch(&crew, &one_node);
    int node = 0;
    ck_assert(crew_until(&crew, node_failed, &node, 10000));
    ck_assert_str_eq(crew.nodes[0].failure.what, "step");
    ck_assert_ptr_nonnull(strstr(crew.nodes[0].failure.err.msg, "learning_rate"));
    crew_halt(&crew);
    ck_assert_int_eq(crew.nodes[0].progress.applied, crew.nodes[0].applied);
    crew_close(&crew);
}
END_TEST

/* Node 1 is away while node 0, which lost all, does every step again, with a plan that adds in
 * another order: the same step, other bits. */
START_TEST(who_comes_back_with_a_step_that_was_done_again_takes_the_others)
{
    static const struct crew_plan both = {
        .stages = 1, .pipelines = 2, .micro_batch = 2, .layers = {4}, .nodes = {0, 1}};
    struct crew crew;
    struct outcome first, again, after;
    struct err err;
    crew_open(&crew, 2);
    crew.job.steps = 6;
    crew_epoch(&crew, &both);
    crew_until_done(&crew); /* both have it on disk, too */
    keep_outcome(&crew, &first);

    struct train *away = crew.nodes[1].train;
    crew.nodes[1].train = NULL;
    crew_kill(&crew, 0);
    char path[PATH_BYTES_MAX];
    ck_assert_int_eq(
        file_remove_tree(path_join(path, crew.nodes[0].folder, "checkpoints"), &err), 0);
    crew_start(&crew, 0);
    crew_halt(&crew);
    crew_epoch(&crew, &one_node);
    ck_assert_int_eq(crew.recovery.base_step, 0);
    crew_until_done(&crew);
    keep_outcome(&crew, &again);
    ck_assert_uint_eq(first.count, again.count);
    ck_assert(memcmp(first.state, again.state, first.count * sizeof(float)) != 0);

    crew.nodes[1].train = away;
    crew.job.steps = 9;
    crew_epoch(&crew, &both);
    ck_assert_int_eq(crew.recovery.base_step, 6);
    ck_assert_uint_eq(crew.recovery.lineage.epoch, 2);
    crew_until_step(&crew, 9);
    keep_outcome(&crew, &after);
    size_t count;
    float *replica = crew_state(&crew, 1, &count);
    ck_assert(memcmp(replica, after.state, count * sizeof(float)) == 0);
    crew_close(&crew);
    free(replica);
    free(first.state);
    free(again.state);
    free(after.state);
}
END_TEST

static bool
checkpoints_written(struct crew *crew, void *arg)
{
    return crew->nodes[0].checkpoints >= *(int *)arg;
}

/* A checkpoint that is finished between a report and the epoch that rests on it. */
START_TEST(what_was_reported_of_the_disk_stays_until_the_next_epoch_has_it)
{
    struct crew crew;
    struct err err;
    char folder[PATH_BYTES_MAX], late[PATH_BYTES_MAX], aside[PATH_BYTES_MAX];
    crew_open(&crew, 1);
    crew_epoch(&crew, &one_node);
    crew_until_done(&crew);
    crew_halt(&crew);
    int written = crew.nodes[0].checkpoints + 1;
    path_join(folder, crew.nodes[0].folder, "checkpoints");
    path_join(late, folder, crew.job.name);
    memcpy(folder, late, sizeof(folder));
    path_join(late, folder, "step-000015");
    ck_assert_int_eq(file_make_folder(path_join(aside, folder, ".step-000015.new"), &err),
                     0);
    struct train *train = crew.nodes[0].train;
    struct write_job *job = xcalloc(1, sizeof(*job)); /* as the writer gives it back */
    snprintf(job->folder, sizeof(job->folder), "%s", folder);
    job->info.step = 15;
    job->info.job = crew.job.id;
    job->path = xcalloc(1, PATH_BYTES_MAX);
    ck_assert(mailbox_put(train->from_writer, &job));
    crew_halt(&crew);
    const struct holding *disk = &crew.nodes[0].progress.holdings[1];
    ck_assert_int_eq(disk->source, SOURCE_DISK);
    ck_assert_int_eq(disk->name.step, 10);
    ck_assert(!file_exists(late));
    crew.job.steps = 12;
    crew_epoch(&crew, &one_node);
    ck_assert(crew_until(&crew, checkpoints_written, &written, 10000));
    ck_assert(file_exists(late));
    crew_until_step(&crew, 12);
    crew_close(&crew);
}
END_TEST

START_TEST(what_is_dropped_is_gone)
{
    struct crew crew;
    crew_open(&crew, 1);
    crew_epoch(&crew, &one_node);
    crew_until_done(&crew);
    crew_halt(&crew);
    ck_assert_int_eq(crew.nodes[0].progress.applied, 10);
    ck_assert_int_eq(crew.nodes[0].progress.holdings[0].source, SOURCE_LIVE);
    train_drop(crew.nodes[0].train);
    crew_halt(&crew);
    ck_assert_int_eq(crew.nodes[0].progress.applied, -1);
    ck_assert_int_eq(crew.nodes[0].progress.holdings_count, 0);
    train_expect(crew.nodes[0].train, &crew.job.id, &crew.job.data);
    crew_halt(&crew); /* but for what is on disk */
    ck_assert_int_eq(crew.nodes[0].progress.holdings_count, 1);
    ck_assert_int_eq(crew.nodes[0].progress.holdings[0].source, SOURCE_DISK);
    ck_assert_int_eq(crew.nodes[0].progress.holdings[0].name.step, 10);
    ck_assert(crew.nodes[0].progress.has_data);
    crew_close(&crew);
}
END_TEST

/* ---- numbers for the planner ---- */

static bool
profiled(struct crew *crew, void *arg)
{
    return crew->nodes[*(int *)arg].profile != NULL;
}

static bool
enough(void *arg)
{
    int *passes = arg;
    return ++*passes > 3;
}

START_TEST(a_measurement_that_is_not_wanted_any_more_ends_between_two_passes)
{
    struct model_shape shape = {
        .blocks = 2, .heads = 4, .hidden = 64, .context = 64, .vocabulary = 256};
    struct err err;
    int passes = 0;
    ck_assert_ptr_null(profile_measure(&shape, 16, 1 << 30, 1, enough, &passes, &err));
    ck_assert_int_eq(err.code, ERR_STOPPED);
    ck_assert_int_eq(passes, 4);
    /* The one that was stopped says so, and the next one is measured. */
    struct crew crew;
    struct train_report report;
    int reports = 0;
    crew_open(&crew, 1);
    struct train *train = crew.nodes[0].train;
    train_profile(train, &shape, 16, 1 << 30);
    train_profile_stop(train);
    train_profile(train, &shape, 16, 1 << 30);
    for (int64_t until = clock_ms() + 20000; reports < 2 && clock_ms() < until;) {
        if (!train_report_take(train, &report)) {
            clock_sleep_ms(1);
            continue;
        }
        ck_assert_int_eq(report.kind, REPORT_PROFILED);
        ck_assert((report.profile != NULL) == (reports == 1));
        free(report.profile);
        reports++;
    }
    ck_assert_int_eq(reports, 2);
    crew_close(&crew);
}
END_TEST

START_TEST(a_profile_is_measured_quickly_and_predicts_a_step)
{
    struct crew crew;
    struct model_shape shape = {
        .blocks = 2, .heads = 4, .hidden = 128, .context = 128, .vocabulary = 256};
    crew_open(&crew, 1);
    int node = 0;
    int64_t started_ms = clock_ms();
    train_profile(crew.nodes[0].train, &shape, 16, 1 << 30);
    ck_assert(crew_until(&crew, profiled, &node, 20000));
    int64_t took_ms = clock_ms() - started_ms;
    ck_assert_int_lt(took_ms, 5000); /* well below 1 s where nobody else computes */
    const struct profile *profile = crew.nodes[0].profile;
    ck_assert_int_ge(profile->count, 1);
    ck_assert_int_eq(profile->correction_ppm, 1000000);
    for (int i = 0; i < profile->count; i++) {
        const struct profile_entry *entry = &profile->entries[i];
        ck_assert_int_eq(entry->micro_batch, 1 << i);
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            ck_assert_int_gt(entry->forward_ns[kind], 0);
            ck_assert_int_gt(entry->backward_ns[kind], 0);
            ck_assert_int_gt(entry->update_ns[kind], 0);
        }
        ck_assert_int_gt(entry->backward_ns[LAYER_BLOCK], entry->forward_ns[LAYER_BLOCK]);
    }
    crew.request.shape = shape;
    crew.job.steps = 4;
    crew_epoch(&crew, &one_node);
    crew_until_step(&crew, 4);
    const struct train_report *step = &crew.nodes[0].step;
    ck_assert_int_gt(step->compute_us, 0);
    ck_assert_int_gt(step->predicted_compute_us, step->compute_us / 3);
    ck_assert_int_lt(step->predicted_compute_us, step->compute_us * 3);
    crew_close(&crew);
}
END_TEST

/* All that the trainer of a run that is done has taken for state and buffers. */
static int64_t
bytes_taken(const struct train *train)
{
    int64_t total = 0;
    if (train->stage) {
        struct stage_bytes held;
        stage_bytes_held(train->stage, &held);
        total += held.weights + held.gradients + held.optimizer + held.activations +
                 held.workspace + train->communication.total * (int64_t)sizeof(float);
    }
    for (int i = 0; i < train->held_count; i++)
        total += (int64_t)train->held[i]->bytes;
    for (int i = 0; train->gather.job && i < train->gather.job->parts_count; i++)
        total += (int64_t)train->gather.job->parts[i]->bytes;
    return total;
}

START_TEST(the_bytes_that_are_predicted_are_those_that_are_taken)
{
    struct crew crew;
    crew_open(&crew, 5);
    crew.job.copy_every = 3;
    crew_epoch(&crew, &two_by_two);
    crew_until_done(&crew);
    for (int i = 0; i < 5; i++) {
        int64_t taken = bytes_taken(crew.nodes[i].train);
        ck_assert_msg(crew.nodes[i].predicted_bytes == taken, "node %d: %lld, took %lld",
                      i, (long long)crew.nodes[i].predicted_bytes, (long long)taken);
    }
    crew_close(&crew);
}
END_TEST

Suite *suite_train(void);

Suite *
suite_train(void)
{
    Suite *suite = suite_create("train");
    TCase *steps = suite_case(suite, "steps", 60);
    tcase_add_test(steps, a_pipeline_of_two_gives_the_bits_of_one_node);
    tcase_add_test(steps, two_pipelines_give_the_losses_of_one_node_and_equal_replicas);
    TCase *halts = suite_case(suite, "halts", 120);
    tcase_add_test(halts,
                   a_run_halted_at_any_moment_goes_on_under_any_plan_and_loses_nothing);
    tcase_add_test(halts,
                   nodes_that_die_and_come_back_cost_at_most_the_steps_since_the_copy);
    TCase *disk = suite_case(suite, "disk", 60);
    tcase_add_test(
        disk,
        a_run_resumed_from_disk_under_another_plan_has_the_bits_of_one_never_stopped);
    tcase_add_test(disk, a_run_that_is_stopped_ends_with_a_checkpoint_of_where_it_was);
    tcase_add_test(disk,
                   a_checkpoint_that_cannot_be_written_is_reported_and_training_goes_on);
    tcase_add_test(disk, a_data_set_with_another_content_than_its_name_says_is_refused);
    TCase *copies = suite_case(suite, "copies", 60);
    tcase_add_test(copies, a_node_without_a_part_keeps_the_copy_that_saves_the_run);
    TCase *waits = suite_case(suite, "waits", 60);
    tcase_add_test(waits,
                   nothing_is_applied_on_old_knowledge_and_others_say_whom_they_wait_for);
    tcase_add_test(waits, a_run_that_diverges_says_so_and_applies_nothing_of_it);
    tcase_add_test(waits,
                   who_comes_back_with_a_step_that_was_done_again_takes_the_others);
    tcase_add_test(waits,
                   what_was_reported_of_the_disk_stays_until_the_next_epoch_has_it);
    tcase_add_test(waits, what_is_dropped_is_gone);
    TCase *numbers = suite_case(suite, "numbers", 60);
    tcase_add_test(numbers,
                   a_measurement_that_is_not_wanted_any_more_ends_between_two_passes);
    tcase_add_test(numbers, a_profile_is_measured_quickly_and_predicts_a_step);
    tcase_add_test(numbers, the_bytes_that_are_predicted_are_those_that_are_taken);
    return suite;
}
