/* What a trainer is told by a peer or finds on its disk that cannot be. */
#include "tests/node/crew.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_train_hostile(void);

static const struct crew_plan one_node = {
    .stages = 1, .pipelines = 1, .micro_batch = 2, .layers = {4}, .nodes = {0}};

/* ---- the disk ---- */

static bool
node_failed(struct crew *crew, void *arg)
{
    return crew->nodes[*(int *)arg].failed;
}

/* A whole checkpoint in the place of another, of the same run and step, but of a model that
 * is twice as wide. */
static void
widen(const char *path)
{
    struct err err;
    struct checkpoint_info info;
    struct checkpoint *checkpoint = checkpoint_open(path, &info, &err);
    ck_assert_msg(checkpoint != NULL, "%s", err.msg);
    checkpoint_close(checkpoint);
    info.shape.hidden *= 2;
    int count = workload_tensor_count(&info.shape);
    int64_t most = 0;
    for (int t = 0; t < count; t++) {
        struct tensor_spec spec;
        workload_tensor(&info.shape, t, &spec);
        most = spec.elements > most ? spec.elements : most;
    }
    float *zeros = xcalloc((size_t)most, sizeof(*zeros));
    const float **tensors = xcalloc((size_t)count, sizeof(*tensors));
    for (int t = 0; t < count; t++)
        tensors[t] = zeros;
    struct checkpoint_state state = {{tensors, tensors, tensors}};
    char folder[PATH_BYTES_MAX], placed[PATH_BYTES_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    ck_assert_msg(checkpoint_write(folder, &info, &state, 0, placed, &err) == 0, "%s",
                  err.msg);
    ck_assert_str_eq(placed, path);
    free(tensors);
    free(zeros);
    checkpoint_info_release(&info);
}

START_TEST(a_checkpoint_of_another_model_is_not_loaded_as_the_jobs)
{
    struct crew crew;
    int node = 0;
    crew_open(&crew, 1);
    crew.job.steps = 2;
    crew_epoch(&crew, &one_node);
    crew_until_done(&crew);
    crew_kill(&crew, 0);
    widen(crew.nodes[0].checkpoint);
    crew_start(&crew, 0);
    crew_halt(&crew);
    crew.job.steps = 4;
    crew_epoch(&crew, &one_node);
    ck_assert_int_eq(crew.recovery.base_step, 2);
    ck_assert(crew_until(&crew, node_failed, &node, 20000));
    ck_assert_str_eq(crew.nodes[0].failure.what, "epoch");
    ck_assert_int_eq(crew.nodes[0].failure.err.code, ERR_CORRUPT);
    ck_assert_msg(strstr(crew.nodes[0].failure.err.msg, "of another model"), "%s",
                  crew.nodes[0].failure.err.msg);
    crew_close(&crew);
}
END_TEST

/* ---- commit messages ---- */

/* One stage, three replicas; this node is the first of them. */
static struct train train;
static struct train_epoch epoch;

static void
make_train(void)
{
    static const struct model_shape shape = {
        .blocks = 1, .heads = 1, .hidden = 2, .context = 8, .vocabulary = 4};
    epoch = (struct train_epoch){
        .request = {.shape = shape, .sequences = 6},
        .plan = {.micro_batch = 2, .stages_count = 1, .pipelines_count = 3}};
    epoch.plan.stages[0] = (struct plan_stage){.layers = 3, .nodes = {0, 1, 2}};
    train = (struct train){.shape = shape, .epoch = &epoch, .applied = 4};
    commit_open(&train);
}

static void
say(int worker, int64_t step, int64_t applied, int64_t tokens)
{
    struct commit_head head = {
        .step = step, .applied = applied, .loss_sum = 8, .tokens = tokens, .samples = 3};
    memcpy(train.commit.messages + (size_t)worker * train.commit.message_bytes_max, &head,
           sizeof(head));
}

static int
add_up(struct commit_result *out, struct err *err)
{
    return commit_add_up(&train, 5, out, err);
}

START_TEST(the_numbers_of_all_workers_are_added_up)
{
    struct commit_result out;
    struct err err;
    make_train();
    for (int i = 0; i < 3; i++)
        say(i, 5, 4, 16);
    ck_assert_int_eq(add_up(&out, &err), 0);
    ck_assert_int_eq(out.tokens, 48);
    ck_assert_uint_eq(out.samples, 9);
    ck_assert_double_eq(out.loss, 0.5);
    ck_assert_double_eq(out.norm, 0);
    commit_close(&train);
}
END_TEST

START_TEST(a_count_of_tokens_that_no_step_has_is_refused)
{
    static const int64_t counts[] = {INT64_MAX, 49, -1, INT64_MIN};
    struct commit_result out;
    struct err err;
    make_train();
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        say(0, 5, 4, 16);
        say(1, 5, 4, counts[i]);
        say(2, 5, 4, counts[i]);
        ck_assert_int_eq(add_up(&out, &err), -1);
        ck_assert_int_eq(err.code, ERR_WIRE);
        ck_assert_msg(strstr(err.msg, "peer 1 counts "), "%s", err.msg);
    }
    commit_close(&train);
}
END_TEST

START_TEST(a_message_of_another_step_is_refused)
{
    struct commit_result out;
    struct err err;
    make_train();
    for (int i = 0; i < 3; i++)
        say(i, 5, 4, 16);
    say(2, 5, 3, 16);
    ck_assert_int_eq(add_up(&out, &err), -1);
    ck_assert_msg(strstr(err.msg, "peer 2 is at step 5 with 3 applied"), "%s", err.msg);
    commit_close(&train);
}
END_TEST

/* ---- copies ---- */

START_TEST(a_copy_that_speaks_of_steps_to_come_is_refused)
{
    const struct state_name due = {.step = 40, .lineage = {7, 9}};
    struct copy_header header = {.name = due, .copied_step = 40};
    struct err err;
    ck_assert_int_eq(copy_header_check(&header, &due, 3, &err), 0);
    header.copied_step = -1;
    ck_assert_int_eq(copy_header_check(&header, &due, 3, &err), 0);
    header.copied_step = 41;
    ck_assert_int_eq(copy_header_check(&header, &due, 3, &err), -1);
    ck_assert_int_eq(err.code, ERR_WIRE);
    ck_assert_msg(strstr(err.msg, "peer 3 says with its copy of step 40"), "%s", err.msg);
    header = (struct copy_header){.name = {.step = 40, .lineage = {7, 8}}};
    ck_assert_int_eq(copy_header_check(&header, &due, 3, &err), -1);
    ck_assert_int_eq(err.code, ERR_WIRE);
}
END_TEST

Suite *
suite_train_hostile(void)
{
    Suite *suite = suite_create("train_hostile");
    TCase *tests = suite_case(suite, "train_hostile", 60);
    tcase_add_test(tests, a_checkpoint_of_another_model_is_not_loaded_as_the_jobs);
    tcase_add_test(tests, the_numbers_of_all_workers_are_added_up);
    tcase_add_test(tests, a_count_of_tokens_that_no_step_has_is_refused);
    tcase_add_test(tests, a_message_of_another_step_is_refused);
    tcase_add_test(tests, a_copy_that_speaks_of_steps_to_come_is_refused);
    return suite;
}
