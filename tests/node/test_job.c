#include "node/job.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"
#include "transport/codec.h"
#include "transport/key.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_job(void);

static struct err err;
static struct job job;

static void
setup(void)
{
    ck_assert_int_eq(key_setup(&err), 0);
    err = (struct err){0};
    job = (struct job){0};
}

static void
teardown(void)
{
    job_release(&job);
}

#define LEAST                                                                            \
    "name: least\n"                                                                      \
    "model: {layers: 2, heads: 2, hidden: 32, context: 32}\n"                            \
    "data: {train: \"corpus/*.txt\"}\n"                                                  \
    "batch: {sequences: 8}\n"                                                            \
    "steps: 10\n"

static void
taken(const char *text)
{
    job_release(&job);
    ck_assert_msg(job_parse("job.yaml", text, strlen(text), &job, &err) == 0, "%s\n%s",
                  err.msg, text);
}

static void
refused(const char *text, const char *why)
{
    struct job out;
    memset(&out, 0x5a, sizeof(out));
    err = (struct err){0};
    ck_assert_msg(job_parse("job.yaml", text, strlen(text), &out, &err) == -1,
                  "taken:\n%s", text);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strncmp(err.msg, "job.yaml", 8) == 0 && strstr(err.msg, why),
                  "\"%s\" does not say \"%s\"", err.msg, why);
    for (size_t i = 0; i < sizeof(out); i++)
        ck_assert_uint_eq(((unsigned char *)&out)[i], 0x5a);
}

/* LEAST with one more line. */
static void
more_refused(const char *line, const char *why)
{
    char text[1024];
    snprintf(text, sizeof(text), LEAST "%s\n", line);
    refused(text, why);
}

START_TEST(the_example_of_the_design_is_a_job)
{
    static const char text[] =
        "name: first-sail\n"
        "model: {family: gpt2, layers: 6, heads: 6, hidden: 384, context: 256}\n"
        "data: {train: corpus/*.txt, tokenizer: bytes}\n"
        "batch: {sequences: 64}\n"
        "steps: 1000\n"
        "optimizer: {name: adamw, learning_rate: 6e-4, warmup_steps: 50}\n"
        "precision: fp32\n"
        "objective: throughput\n"
        "between_zones: [exact, local_sgd]\n"
        "seed: 7\n"
        "plan: {pipeline: 2, replicas: 2, micro_batch: 4, zones: [a, b]}\n"
        "checkpoint: {every_steps: 100, keep: 5}\n"
        "copy: {every_steps: 10}\n";
    taken(text);
    ck_assert_str_eq(job.train.name, "first-sail");
    ck_assert_int_eq(job.shape.blocks, 6);
    ck_assert_int_eq(job.shape.heads, 6);
    ck_assert_int_eq(job.shape.hidden, 384);
    ck_assert_int_eq(job.shape.context, 256);
    ck_assert_int_eq(job.shape.vocabulary, 256);
    ck_assert_str_eq(job.pattern, "corpus/*.txt");
    ck_assert_int_eq(job.sequences, 64);
    ck_assert_int_eq(job.train.steps, 1000);
    ck_assert(job.train.learning_rate == 6e-4);
    ck_assert_int_eq(job.train.warmup_steps, 50);
    ck_assert_uint_eq(job.train.seed, 7);
    ck_assert_int_eq(job.pipeline, 2);
    ck_assert_int_eq(job.replicas, 2);
    ck_assert_int_eq(job.micro_batch, 4);
    ck_assert_int_eq(job.zones_count, 2);
    ck_assert_str_eq(job.zones[0], "a");
    ck_assert_str_eq(job.zones[1], "b");
    ck_assert_int_eq(job.train.checkpoint_every, 100);
    ck_assert_int_eq(job.train.checkpoint_keep, 5);
    ck_assert_int_eq(job.train.copy_every, 10);
    ck_assert_str_eq(job.text, text);
    struct plan_request request;
    job_request(&job, &request);
    ck_assert_int_eq(request.sequences, 64);
    ck_assert(request.copies);
    ck_assert_int_eq(request.pipeline, 2);
    ck_assert_int_eq(request.replicas, 2);
    ck_assert_int_eq(request.micro_batch, 4);
    ck_assert_int_eq(request.zones_count, 2);
    ck_assert_str_eq(request.zones[1], "b");
    ck_assert_mem_eq(&request.shape, &job.shape, sizeof(job.shape));
}
END_TEST

START_TEST(what_is_left_out_has_the_defaults_of_the_header)
{
    taken(LEAST);
    ck_assert(job.train.learning_rate == 6e-4 && job.train.beta1 == 0.9);
    ck_assert(job.train.beta2 == 0.95 && job.train.epsilon == 1e-8);
    ck_assert(job.train.weight_decay == 0.1 && job.train.clip_norm == 1);
    ck_assert_int_eq(job.train.warmup_steps, 0);
    ck_assert_uint_eq(job.train.seed, 1);
    ck_assert_int_eq(job.train.checkpoint_every, 200);
    ck_assert_int_eq(job.train.checkpoint_keep, 3);
    ck_assert_int_eq(job.train.copy_every, 20);
    ck_assert(job.pipeline == 0 && job.replicas == 0 && job.micro_batch == 0);
    ck_assert_int_eq(job.zones_count, 0);
    /* Nothing of an empty section is set either. */
    taken(LEAST "copy: {every_steps: 0}\n");
    struct plan_request request;
    job_request(&job, &request);
    ck_assert(!request.copies);
}
END_TEST

START_TEST(a_misspelt_key_is_named_with_its_line_and_the_right_one)
{
    more_refused("stepz: 5", "line 6: unknown key \"stepz\"; did you mean \"steps\"?");
    more_refused("optimizer:\n  learning_rat: 1e-3",
                 "line 7: unknown key \"learning_rat\" in \"optimizer\"; did you mean "
                 "\"learning_rate\"?");
    more_refused("checkpoint: {every_step: 5}", "did you mean \"every_steps\"?");
    more_refused("quux: 5", "line 6: unknown key \"quux\"");
    refused("name: x\nmodel: {layers: 2, heads: 2, hiden: 32, context: 32}\n",
            "line 2: unknown key \"hiden\" in \"model\"; did you mean \"hidden\"?");
}
END_TEST

START_TEST(what_must_be_there_is_asked_for)
{
    static const char *const lines[] = {
        "name: least\n", "model: {layers: 2, heads: 2, hidden: 32, context: 32}\n",
        "data: {train: \"corpus/*.txt\"}\n", "batch: {sequences: 8}\n", "steps: 10\n"};
    static const char *const keys[] = {"name", "model", "data", "batch", "steps"};
    for (int missing = 0; missing < 5; missing++) {
        char text[512] = "";
        size_t len = 0;
        for (int i = 0; i < 5; i++)
            if (i != missing)
                len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", lines[i]);
        refused(text, keys[missing]);
    }
    refused("", "job.yaml");
    refused("- a\n- b\n", "job.yaml");
    refused("name: [", "job.yaml");
}
END_TEST

START_TEST(what_a_later_version_will_do_is_refused_and_not_ignored)
{
    more_refused("precision: bf16",
                 "precision \"bf16\" is not supported by this version; it has \"fp32\"");
    more_refused("objective: cost", "it has \"throughput\"");
    more_refused("optimizer: {name: sgd}", "it has \"adamw\"");
    more_refused("between_zones: [local_sgd]", "local_sgd alone");
    more_refused("between_zones: [exakt]", "the modes are exact and local_sgd");
    more_refused("limits: {usd_per_hour: 12.0}", "\"limits\" is for flotilla plan");
    refused("name: x\nmodel: {family: llama, layers: 2, heads: 2, hidden: 32, context: "
            "32}\ndata: {train: a}\nbatch: {sequences: 8}\nsteps: 10\n",
            "it has \"gpt2\"");
    refused("name: x\nmodel: {layers: 2, heads: 2, hidden: 32, context: 32}\n"
            "data: {train: a, tokenizer: bpe}\nbatch: {sequences: 8}\nsteps: 10\n",
            "it has \"bytes\"");
    taken(LEAST "between_zones: [exact]\n");
    taken(LEAST "between_zones: [local_sgd, exact]\n");
}
END_TEST

/* Every number at its ends, and just outside. `form` has one %s. */
static const struct {
    const char *form, *least, *most, *below, *above, *what;
} ranges[] = {
    {"optimizer: {learning_rate: %s}", "0", "100", "-1e-9", "100.1", "learning_rate"},
    {"optimizer: {beta1: %s}", "0", "0.9999999", "-0.1", "1", "beta1"},
    {"optimizer: {beta2: %s}", "0", "0.9999999", "-0.1", "1.5", "beta2"},
    {"optimizer: {epsilon: %s}", "1e-16", "1", "0", "1.1", "epsilon"},
    {"optimizer: {weight_decay: %s}", "0", "10", "-1", "10.5", "weight_decay"},
    {"optimizer: {clip_norm: %s}", "0", "1e9", "-1", "2e9", "clip_norm"},
    {"optimizer: {warmup_steps: %s}", "0", "1099511627776", "-1", "1099511627777",
     "warmup_steps"},
    {"copy: {every_steps: %s}", "0", "1099511627776", "-1", "1099511627777",
     "copy.every_steps"},
    {"checkpoint: {every_steps: %s}", "0", "1099511627776", "-1", "1099511627777",
     "checkpoint.every_steps"},
    {"checkpoint: {keep: %s}", "0", "1000000", "-1", "1000001", "keep"},
    {"seed: %s", "0", "18446744073709551615", "-1", "18446744073709551616", "seed"},
    {"plan: {pipeline: %s}", "1", "4", "0", "5", "plan.pipeline"},
    {"plan: {replicas: %s}", "1", "8", "0", "9", "plan.replicas"},
    {"plan: {micro_batch: %s}", "1", "8", "0", "9", "plan.micro_batch"},
};

START_TEST(every_number_has_its_range)
{
    char line[128], text[512];
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const char *const good[] = {ranges[i].least, ranges[i].most};
        const char *const bad[] = {ranges[i].below, ranges[i].above};
        for (int k = 0; k < 2; k++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(line, sizeof(line), ranges[i].form, good[k]);
            snprintf(text, sizeof(text), LEAST "%s\n", line);
            taken(text);
            snprintf(line, sizeof(line), ranges[i].form, bad[k]);
#pragma GCC diagnostic pop
            more_refused(line, ranges[i].what);
        }
    }
}
END_TEST

static void
with_model(const char *model, const char *sequences, const char *steps, const char *why)
{
    char text[512];
    snprintf(text, sizeof(text),
             "name: x\nmodel: {%s}\ndata: {train: a}\nbatch: {sequences: %s}\nsteps: "
             "%s\n",
             model, sequences, steps);
    if (why)
        refused(text, why);
    else
        taken(text);
}

START_TEST(a_model_has_its_range)
{
    with_model("layers: 1, heads: 1, hidden: 1, context: 1", "1", "1", NULL);
    with_model("layers: 0, heads: 2, hidden: 32, context: 32", "8", "9", "model.layers");
    with_model("layers: 511, heads: 2, hidden: 32, context: 32", "8", "9", "layers");
    with_model("layers: 2, heads: 0, hidden: 32, context: 32", "8", "9", "model.heads");
    with_model("layers: 2, heads: 3, hidden: 32, context: 32", "8", "9", "not divisible");
    with_model("layers: 2, heads: 2, hidden: 65538, context: 32", "8", "9",
               "model.hidden is 65538, but must be from 1 to 65536");
    with_model("layers: 2, heads: 2, hidden: 32, context: 0", "8", "9", "context");
    with_model("layers: 2, heads: 2, hidden: 32, context: 131073", "8", "9", "context");
    with_model("layers: 2, heads: 2, hidden: 32, context: 32", "0", "9", "sequences");
    with_model("layers: 2, heads: 2, hidden: 32, context: 32", "1048577", "9",
               "sequences");
    with_model("layers: 2, heads: 2, hidden: 32, context: 32", "8", "0", "steps");
    with_model("layers: 2, heads: 2, hidden: 32, context: 32", "8", "two", "line 5");
    with_model("layers: 4294967298, heads: 2, hidden: 32, context: 32", "8", "9",
               "layers");
}
END_TEST

START_TEST(a_plan_that_cannot_be_is_refused_before_anybody_plans)
{
    more_refused("plan: {micro_batch: 3}", "does not divide batch.sequences 8");
    more_refused("plan: {pipeline: 2, zones: [a]}",
                 "plan.zones names 1 zones for 2 stages; name one for each stage");
    more_refused("plan: {zones: [a, b, c, d, e]}", "names 5 stages for 4 layers");
    more_refused("plan: {zones: [\"a b\"]}", "a zone in plan.zones");
    more_refused("plan: {zones: []}", "zones");
}
END_TEST

START_TEST(a_name_goes_into_a_path_and_is_checked)
{
    static const char *const bad[] = {"../x", "a/b", ".hidden",
                                      "a b",  "''",  "abcdefghijabcdefghijabcdefghijabc"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "name: %s\n%s", bad[i], strchr(LEAST, '\n') + 1);
        refused(text, "name");
    }
}
END_TEST

START_TEST(a_job_that_is_too_long_is_refused)
{
    size_t len = JOB_BYTES_MAX / 2 + 1;
    char *text = xcalloc(len, 1);
    memset(text, '#', len);
    /* No string. NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(text, LEAST, strlen(LEAST));
    struct job out;
    ck_assert_int_eq(job_parse("job.yaml", text, len, &out, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_int_eq(job_parse("job.yaml", text, len - 1, &job, &err), 0);
    free(text);
}
END_TEST

START_TEST(a_copy_owns_its_text)
{
    taken(LEAST);
    struct job copy;
    job_copy(&copy, &job);
    ck_assert(copy.text != job.text);
    ck_assert_str_eq(copy.text, LEAST);
    job_release(&job);
    ck_assert_ptr_null(job.text);
    ck_assert_str_eq(copy.text, LEAST);
    ck_assert_str_eq(copy.train.name, "least");
    job_release(&copy);
}
END_TEST

START_TEST(a_run_is_named_by_everything_in_it)
{
    struct id data = {{1}}, nonce = {{2}}, first;
    taken(LEAST);
    job_bind(&job, &data, 1000, &nonce);
    first = job.train.id;
    ck_assert(!id_empty(&first) && id_equal(&job.train.data, &data));
    ck_assert_int_eq(job.train.data_bytes, 1000);
    job_bind(&job, &data, 1000, &nonce);
    ck_assert_msg(id_equal(&first, &job.train.id), "the same again");
    job_bind(&job, &data, 1001, &nonce);
    ck_assert(!id_equal(&first, &job.train.id));
    job_bind(&job, &(struct id){{3}}, 1000, &nonce);
    ck_assert(!id_equal(&first, &job.train.id));
    job_bind(&job, &data, 1000, &(struct id){{3}});
    ck_assert(!id_equal(&first, &job.train.id));
    taken(LEAST "seed: 2\n");
    job_bind(&job, &data, 1000, &nonce);
    ck_assert(!id_equal(&first, &job.train.id));
}
END_TEST

static void
bound_job(void)
{
    taken(LEAST "plan: {pipeline: 2, micro_batch: 2, zones: [a, b]}\nseed: "
                "18446744073709551615\noptimizer: {learning_rate: 0.1}\n");
    job_bind(&job, &(struct id){{1}}, 123456, &(struct id){{2}});
}

START_TEST(a_job_comes_back_from_its_bytes)
{
    bound_job();
    struct buf bytes = {0}, again = {0};
    struct job out;
    job_encode(&job, &bytes);
    ck_assert_msg(job_decode(bytes.data, bytes.len, &out, &err) == 0, "%s", err.msg);
    ck_assert_mem_eq(&out.train, &job.train, sizeof(out.train));
    ck_assert_mem_eq(&out.shape, &job.shape, sizeof(out.shape));
    ck_assert_int_eq(out.sequences, job.sequences);
    ck_assert_int_eq(out.pipeline, 2);
    ck_assert_int_eq(out.replicas, 0);
    ck_assert_int_eq(out.micro_batch, 2);
    ck_assert_int_eq(out.zones_count, 2);
    ck_assert_str_eq(out.zones[0], "a");
    ck_assert_str_eq(out.zones[1], "b");
    ck_assert_str_eq(out.text, job.text);
    ck_assert_str_eq(out.pattern, "");
    job_encode(&out, &again);
    ck_assert_uint_eq(again.len, bytes.len);
    ck_assert_mem_eq(again.data, bytes.data, bytes.len);
    job_release(&out);
    buf_release(&bytes);
    buf_release(&again);
}
END_TEST

START_TEST(damaged_bytes_of_a_job_are_refused_or_another_job)
{
    bound_job();
    struct buf bytes = {0};
    job_encode(&job, &bytes);
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        uint8_t *bad = xmemdup(bytes.data, bytes.len);
        struct job out;
        bad[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        err = (struct err){0};
        if (job_decode(bad, bytes.len, &out, &err)) {
            ck_assert_int_eq(err.code, ERR_WIRE);
            ck_assert_msg(strncmp(err.msg, "job: ", 5) == 0, "%s", err.msg);
        } else {
            struct err shape;
            ck_assert_int_eq(model_shape_check(&out.shape, &shape), 0);
            ck_assert(out.train.steps >= 1 && out.sequences >= 1);
            struct buf again = {0};
            job_encode(&out, &again);
            ck_assert_uint_eq(again.len, bytes.len);
            ck_assert_mem_eq(again.data, bad, bytes.len);
            buf_release(&again);
            job_release(&out);
        }
        free(bad);
    }
    for (size_t len = 0; len < bytes.len; len++) {
        uint8_t *cut = xmemdup(bytes.data, len);
        struct job out;
        ck_assert_int_eq(job_decode(cut, len, &out, &err), -1);
        free(cut);
    }
    buf_release(&bytes);
}
END_TEST

/* What one peer's parser would never make, another's might send. */
START_TEST(a_job_that_no_text_gives_is_refused_from_a_peer)
{
    struct job out;
    struct buf bytes = {0};
    bound_job();
    double numbers[] = {NAN, INFINITY, -1, 101};
    for (int i = 0; i < 4; i++) {
        struct job bad = job;
        bad.train.learning_rate = numbers[i];
        buf_clear(&bytes);
        job_encode(&bad, &bytes);
        ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    }
    struct job bad = job;
    bad.shape.heads = 3;
    buf_clear(&bytes);
    job_encode(&bad, &bytes);
    ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    bad = job;
    bad.micro_batch = 3;
    buf_clear(&bytes);
    job_encode(&bad, &bytes);
    ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    bad = job;
    memcpy(bad.train.name, "../../etc", 10);
    buf_clear(&bytes);
    job_encode(&bad, &bytes);
    ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    bad = job;
    memcpy(bad.zones[1], "b c", 4);
    buf_clear(&bytes);
    job_encode(&bad, &bytes);
    ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    bad = job;
    bad.zones_count = 1; /* for two stages */
    buf_clear(&bytes);
    job_encode(&bad, &bytes);
    ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    bad = job;
    bad.pipeline = 5; /* of four layers */
    bad.zones_count = 0;
    buf_clear(&bytes);
    job_encode(&bad, &bytes);
    ck_assert_int_eq(job_decode(bytes.data, bytes.len, &out, &err), -1);
    buf_release(&bytes);
}
END_TEST

Suite *
suite_job(void)
{
    Suite *suite = suite_create("job");
    TCase *tests = suite_case(suite, "job", 20);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_example_of_the_design_is_a_job);
    tcase_add_test(tests, what_is_left_out_has_the_defaults_of_the_header);
    tcase_add_test(tests, a_misspelt_key_is_named_with_its_line_and_the_right_one);
    tcase_add_test(tests, what_must_be_there_is_asked_for);
    tcase_add_test(tests, what_a_later_version_will_do_is_refused_and_not_ignored);
    tcase_add_test(tests, every_number_has_its_range);
    tcase_add_test(tests, a_model_has_its_range);
    tcase_add_test(tests, a_plan_that_cannot_be_is_refused_before_anybody_plans);
    tcase_add_test(tests, a_name_goes_into_a_path_and_is_checked);
    tcase_add_test(tests, a_job_that_is_too_long_is_refused);
    tcase_add_test(tests, a_copy_owns_its_text);
    tcase_add_test(tests, a_run_is_named_by_everything_in_it);
    tcase_add_test(tests, a_job_comes_back_from_its_bytes);
    tcase_add_test(tests, damaged_bytes_of_a_job_are_refused_or_another_job);
    tcase_add_test(tests, a_job_that_no_text_gives_is_refused_from_a_peer);
    return suite;
}
