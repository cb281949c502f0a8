/* The engine against PyTorch in float64 (tests/make_fixture.py) and against itself in
 * double. */
#include "node/engine/stage.h"
#include "tests/node/stage_double.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/buf.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_fixture(void);

enum { SEQUENCES = 3, ARRAYS_MAX = 128, STEPS = 3 };

static const struct model_shape fixture_shape = {
    .blocks = 2, .heads = 4, .hidden = 40, .context = 48, .vocabulary = 256};
static const struct adamw fixture_adamw = {.learning_rate = 1e-3,
                                           .beta1 = 0.9,
                                           .beta2 = 0.95,
                                           .epsilon = 1e-5,
                                           .weight_decay = 0.1,
                                           .step = 1,
                                           .clip_scale = 1};

struct fixture {
    struct buf file;
    int count;
    struct {
        char name[96];
        long elements;
        const float *values;
    } arrays[ARRAYS_MAX];
};

static void
fixture_read(struct fixture *fixture)
{
    static float values[1 << 18];
    struct err err = {0};
    memset(fixture, 0, sizeof(*fixture));
    ck_assert_msg(
        file_read("tests/data/gpt2_float64.fixture", 1 << 20, &fixture->file, &err) == 0,
        "%s", err.msg);
    buf_add(&fixture->file, "", 1);
    const char *at = (const char *)fixture->file.data;
    ck_assert_int_eq(strncmp(at, "flotilla fixture 1\n", 19), 0);
    at += 19;
    while (*at != '\n') {
        ck_assert_int_lt(fixture->count, ARRAYS_MAX);
        ck_assert_int_eq(sscanf(at, "%95s %ld", fixture->arrays[fixture->count].name,
                                &fixture->arrays[fixture->count].elements),
                         2);
        fixture->count++;
        at = strchr(at, '\n') + 1;
    }
    size_t bytes =
        fixture->file.len - 1 - (size_t)(at + 1 - (const char *)fixture->file.data);
    ck_assert_uint_le(bytes, sizeof(values));
    memcpy(values, at + 1, bytes);
    const float *next = values;
    for (int i = 0; i < fixture->count; i++) {
        fixture->arrays[i].values = next;
        next += fixture->arrays[i].elements;
    }
    ck_assert_uint_eq(bytes, (size_t)(next - values) * sizeof(float));
}

static const float *
fixture_find(const struct fixture *fixture, const char *kind, const char *name,
             long elements)
{
    char full[96];
    snprintf(full, sizeof(full), "%s%s", kind, name);
    for (int i = 0; i < fixture->count; i++)
        if (strcmp(fixture->arrays[i].name, full) == 0) {
            ck_assert_int_eq(fixture->arrays[i].elements, elements);
            return fixture->arrays[i].values;
        }
    ck_abort_msg("the fixture has no \"%s\"", full);
}

static double
relative(const float *values, const float *right, int64_t count)
{
    double off = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)values[i] - (double)right[i];
        off += d * d;
        norm += (double)right[i] * (double)right[i];
    }
    return sqrt(off / norm);
}

/* The tensor that is worst off, held against a bound. */
struct worst {
    double off;
    char name[64];
};

static void
worst_note(struct worst *worst, double off, const char *name)
{
    if (off > worst->off || isnan(off)) {
        worst->off = off;
        snprintf(worst->name, sizeof(worst->name), "%s", name);
    }
}

static void
worst_check(const struct worst *worst, const char *what, double bound)
{
    printf("%s: worst %s, relative L2 %.2e\n", what, worst->name, worst->off);
    ck_assert_msg(worst->off <= bound, "%s: %s is off by %.2e, bound %.1e", what,
                  worst->name, worst->off, bound);
}

static struct stage *
whole_open(const struct model_shape *shape, int micro_batch)
{
    struct stage_spec spec = {0, workload_layers(shape), micro_batch, 1, false};
    struct err err;
    struct stage *stage = stage_open(shape, &spec, 1, &err);
    ck_assert_ptr_nonnull(stage);
    return stage;
}

static double
whole_step(struct stage *stage, const int32_t *tokens, float scale)
{
    struct err err;
    double loss = 0;
    stage_begin(stage);
    ck_assert_int_eq(stage_forward(stage, 0, tokens, NULL, NULL, &loss, &err), 0);
    ck_assert_int_eq(stage_backward(stage, 0, tokens, scale, NULL, NULL, &err), 0);
    stage_tied_combine(stage, NULL);
    return loss;
}

START_TEST(loss_gradients_and_three_updates_agree_with_pytorch)
{
    struct fixture fixture;
    fixture_read(&fixture);
    const struct model_shape *shape = &fixture_shape;
    int tensors = workload_tensor_count(shape), count = SEQUENCES * (shape->context + 1);
    struct stage *stage = whole_open(shape, SEQUENCES);
    struct tensor_spec tensor;
    for (int t = 0; t < tensors; t++) {
        workload_tensor(shape, t, &tensor);
        memcpy(stage_state(stage, t, STATE_WEIGHT),
               fixture_find(&fixture, "weight:", tensor.name, tensor.elements),
               (size_t)tensor.elements * sizeof(float));
    }
    const float *all_tokens =
        fixture_find(&fixture, "", "tokens", (int64_t)STEPS * count);
    int32_t *tokens = xcalloc((size_t)count, sizeof(*tokens));
    float scale = 1.0F / (float)(SEQUENCES * shape->context);
    struct worst gradients = {0}, after = {0};
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < count; i++)
            tokens[i] = (int32_t)all_tokens[step * count + i];
        double loss = whole_step(stage, tokens, scale) * (double)scale;
        if (step == 0) {
            double right = (double)fixture_find(&fixture, "", "loss", 1)[0];
            printf("loss: %.9f, PyTorch %.9f\n", loss, right);
            ck_assert_double_eq_tol(loss, right, 1e-6 * right);
        }
        for (int t = 0; step == 0 && t < tensors; t++) {
            workload_tensor(shape, t, &tensor);
            worst_note(&gradients,
                       relative(stage_gradient(stage, t),
                                fixture_find(&fixture, "gradient:", tensor.name,
                                             tensor.elements),
                                tensor.elements),
                       tensor.name);
        }
        struct adamw options = fixture_adamw;
        options.step = step + 1;
        stage_update(stage, &options);
    }
    worst_check(&gradients, "gradients against PyTorch", 1e-5);
    for (int t = 0; t < tensors; t++) {
        workload_tensor(shape, t, &tensor);
        worst_note(
            &after,
            relative(stage_state(stage, t, STATE_WEIGHT),
                     fixture_find(&fixture, "after:", tensor.name, tensor.elements),
                     tensor.elements),
            tensor.name);
    }
    worst_check(&after, "weights after three steps against PyTorch", 1e-5);
    free(tokens);
    stage_close(stage);
    buf_release(&fixture.file);
}
END_TEST

static const struct model_shape double_shapes[] = {
    {.blocks = 2, .heads = 2, .hidden = 64, .context = 100, .vocabulary = 256},
    {.blocks = 3, .heads = 3, .hidden = 51, .context = 33, .vocabulary = 77},
};

START_TEST(floats_agree_with_doubles)
{
    const struct model_shape *shape = &double_shapes[_i];
    struct stage_spec spec = {0, workload_layers(shape), 2, 1, false};
    struct err err;
    struct stage *stage = whole_open(shape, 2);
    struct stage_double *wide = double_open(shape, &spec, &err);
    ck_assert_ptr_nonnull(wide);
    stage_init(stage, 4);
    int tensors = workload_tensor_count(shape), count = 2 * (shape->context + 1);
    struct tensor_spec tensor;
    for (int t = 0; t < tensors; t++) {
        workload_tensor(shape, t, &tensor);
        float *from = stage_state(stage, t, STATE_WEIGHT);
        double *to = double_state(wide, t, STATE_WEIGHT);
        for (int64_t i = 0; i < tensor.elements; i++) {
            from[i] += (float)(rng_normal(8, (uint64_t)t, (uint64_t)i) * 0.05);
            to[i] = (double)from[i];
        }
    }
    int32_t *tokens = xcalloc((size_t)count, sizeof(*tokens));
    struct rng rng = {.seed = 2};
    for (int i = 0; i < count; i++)
        tokens[i] = (int32_t)rng_below(&rng, (uint64_t)shape->vocabulary);
    float scale = 1.0F / (float)(2 * shape->context);
    double loss = whole_step(stage, tokens, scale), right = 0;
    double_begin(wide);
    ck_assert_int_eq(double_forward(wide, 0, tokens, &right, &err), 0);
    ck_assert_int_eq(double_backward(wide, 0, tokens, (double)scale, &err), 0);
    double_combine(wide);
    ck_assert_double_eq_tol(loss, right, 1e-6 * right);
    struct worst worst = {0};
    for (int t = 0; t < tensors; t++) {
        workload_tensor(shape, t, &tensor);
        const float *got = stage_gradient(stage, t);
        const double *want = double_gradient(wide, t);
        double off = 0, norm = 0;
        for (int64_t i = 0; i < tensor.elements; i++) {
            off += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
            norm += want[i] * want[i];
        }
        worst_note(&worst, sqrt(off / norm), tensor.name);
    }
    worst_check(&worst, "gradients against double", 1e-5);
    free(tokens);
    stage_close(stage);
    double_close(wide);
}
END_TEST

Suite *
suite_fixture(void)
{
    Suite *suite = suite_create("fixture");
    TCase *tests = suite_case(suite, "fixture", 60);
    tcase_add_test(tests, loss_gradients_and_three_updates_agree_with_pytorch);
    tcase_add_loop_test(tests, floats_agree_with_doubles, 0, 2);
    return suite;
}
