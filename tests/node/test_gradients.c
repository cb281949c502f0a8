/* Gradients against central differences in double: every operation alone, and the whole
 * model. */
#include "tests/node/stage_double.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_gradients(void);

enum { DIRECTIONS = 4 };

static const double step = 1e-4;

static double *
random_doubles(int64_t count, uint64_t stream, double scale)
{
    double *out = xcalloc((size_t)count, sizeof(*out));
    for (int64_t i = 0; i < count; i++)
        out[i] = rng_normal(5, stream, (uint64_t)i) * scale;
    return out;
}

static double
dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Three random unit directions, then the gradient's own. */
static void
direction_fill(double *out, const double *gradient, int64_t count, int number,
               uint64_t stream)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = number < 3 ? rng_normal(6, stream * 8 + (uint64_t)number, (uint64_t)i)
                            : gradient[i];
    double norm = sqrt(dot(out, out, count));
    if (norm > 0)
        for (int64_t i = 0; i < count; i++)
            out[i] /= norm;
}

/* The loss of the model or operation as a function of `values`, which the caller's
 * context reads. */
typedef double (*loss_fn)(void *context);

static void
gradient_check(const char *name, double *values, const double *gradient, int64_t count,
               uint64_t stream, loss_fn loss, void *context)
{
    double *start = xmemdup(values, (size_t)count * sizeof(*values));
    double *direction = xcalloc((size_t)count, sizeof(*direction));
    double norm = sqrt(dot(gradient, gradient, count));
    ck_assert_msg(norm > 0, "%s: the gradient is zero", name);
    for (int number = 0; number < DIRECTIONS; number++) {
        direction_fill(direction, gradient, count, number, stream);
        for (int64_t i = 0; i < count; i++)
            values[i] = start[i] + step * direction[i];
        double above = loss(context);
        for (int64_t i = 0; i < count; i++)
            values[i] = start[i] - step * direction[i];
        double below = loss(context);
        double measured = (above - below) / (2 * step);
        double computed = dot(gradient, direction, count);
        double bound = 1e-6 * fmax(fabs(computed), 1e-3 * norm);
        ck_assert_msg(
            fabs(measured - computed) <= bound,
            "%s, direction %d: difference quotient %.15g, gradient %.15g, off by %.2g, "
            "bound %.2g",
            name, number, measured, computed, fabs(measured - computed), bound);
    }
    memcpy(values, start, (size_t)count * sizeof(*values));
    free(start);
    free(direction);
}

/* ---- single operations: the loss is the dot product of the output and fixed weights
 * ---- */

struct op {
    int64_t rows, columns, length;
    int heads;
    double *x, *y, *z, *out, *weights, *mean, *rdev, *scratch;
    int32_t *tokens;
};

static double
norm_loss(void *context)
{
    struct op *op = context;
    double_norm_forward(op->rows, op->columns, op->x, op->y, op->z, op->out, op->mean,
                        op->rdev);
    return dot(op->out, op->weights, op->rows * op->columns);
}

START_TEST(norm_agrees_with_finite_differences)
{
    int64_t rows = 5, columns = _i == 0 ? 32 : 21, count = rows * columns;
    struct op op = {.rows = rows, .columns = columns};
    op.x = random_doubles(count, 1, 2);
    op.y = random_doubles(columns, 2, 1);
    op.z = random_doubles(columns, 3, 1);
    op.weights = random_doubles(count, 4, 1);
    op.out = random_doubles(count, 5, 1);
    op.mean = random_doubles(rows, 6, 1);
    op.rdev = random_doubles(rows, 7, 1);
    double *dx = random_doubles(count, 8, 1), *dgain = random_doubles(columns, 9, 1);
    double *dbias = random_doubles(columns, 10, 1);
    norm_loss(&op);
    double_norm_backward(rows, columns, op.x, op.y, op.z, op.mean, op.rdev, op.weights,
                         dx, dgain, dbias);
    gradient_check("x of norm", op.x, dx, count, 1, norm_loss, &op);
    gradient_check("gain of norm", op.y, dgain, columns, 2, norm_loss, &op);
    gradient_check("bias of norm", op.z, dbias, columns, 3, norm_loss, &op);
    double *owned[] = {op.x,    op.y,    op.z, op.weights, op.out,
                       op.mean, op.rdev, dx,   dgain,      dbias};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
}
END_TEST

static double
gelu_loss(void *context)
{
    struct op *op = context;
    double_gelu_forward(op->rows, op->x, op->out);
    return dot(op->out, op->weights, op->rows);
}

START_TEST(gelu_agrees_with_finite_differences)
{
    int64_t count = 77;
    struct op op = {.rows = count};
    op.x = random_doubles(count, 1, 2);
    op.weights = random_doubles(count, 2, 1);
    op.out = random_doubles(count, 3, 1);
    double *d = xmemdup(op.weights, (size_t)count * sizeof(double));
    double_gelu_backward(count, op.x, d);
    gradient_check("x of GELU", op.x, d, count, 1, gelu_loss, &op);
    gelu_loss(&op);
    for (int64_t i = 0; i < count; i++) {
        double v = op.x[i];
        double right = 0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        ck_assert_double_eq_tol(op.out[i], right, 1e-13);
    }
    free(op.x);
    free(op.weights);
    free(op.out);
    free(d);
}
END_TEST

static double
cross_entropy_loss(void *context)
{
    struct op *op = context;
    memcpy(op->out, op->x, (size_t)(op->rows * op->columns) * sizeof(double));
    double_cross_entropy(op->rows, op->columns, op->out, op->columns, op->tokens,
                         op->mean);
    double sum = 0;
    for (int64_t i = 0; i < op->rows; i++)
        sum += op->mean[i];
    return sum;
}

START_TEST(cross_entropy_agrees_with_finite_differences)
{
    int64_t rows = 6, columns = 37, count = rows * columns;
    int32_t tokens[] = {0, 36, 5, 5, 17, 31};
    struct op op = {.rows = rows, .columns = columns, .tokens = tokens};
    op.x = random_doubles(count, 1, 3);
    op.out = random_doubles(count, 2, 1);
    op.mean = random_doubles(rows, 3, 1);
    double loss = cross_entropy_loss(&op), right = 0;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < columns; j++)
            sum += exp(op.x[i * columns + j]);
        right += log(sum) - op.x[i * columns + tokens[i]];
    }
    ck_assert_double_eq_tol(loss, right, 1e-12);
    double *gradient = xmemdup(op.out, (size_t)count * sizeof(double));
    gradient_check("logits", op.x, gradient, count, 1, cross_entropy_loss, &op);
    free(op.x);
    free(op.out);
    free(op.mean);
    free(gradient);
}
END_TEST

enum { SEQUENCES = 2 };

static int64_t
scratch_stride(int64_t length)
{
    return 64 * (2 * ((length + 15) / 16 * 16) + 1);
}

static double
attention_loss(void *context)
{
    struct op *op = context;
    double_attention_forward(SEQUENCES, op->length, op->heads, (int)op->columns, op->x,
                             op->out, op->mean, op->rdev, op->scratch,
                             scratch_stride(op->length));
    return dot(op->out, op->weights, SEQUENCES * op->length * op->columns);
}

static const struct {
    int length, heads, columns;
} attention_cases[] = {{1, 1, 3}, {7, 3, 15}, {64, 2, 16}, {65, 1, 8}, {150, 2, 6}};

START_TEST(attention_agrees_with_finite_differences)
{
    int64_t length = attention_cases[_i].length, columns = attention_cases[_i].columns;
    int heads = attention_cases[_i].heads;
    int64_t rows = SEQUENCES * length, count = rows * columns * 3;
    struct op op = {.columns = columns, .length = length, .heads = heads};
    op.x = random_doubles(count, 1, 1);
    op.out = random_doubles(rows * columns, 2, 1);
    op.weights = random_doubles(rows * columns, 3, 1);
    op.mean = random_doubles(rows * heads, 4, 1);
    op.rdev = random_doubles(rows * heads, 5, 1);
    op.scratch =
        random_doubles((int64_t)SEQUENCES * heads * scratch_stride(length), 6, 1);
    double *dqkv = random_doubles(count, 7, 1);
    attention_loss(&op);
    double_attention_backward(SEQUENCES, length, heads, (int)columns, op.x, op.out,
                              op.mean, op.rdev, op.scratch, scratch_stride(length),
                              op.weights, dqkv);
    gradient_check("qkv of attention", op.x, dqkv, count, 1, attention_loss, &op);
    double *owned[] = {op.x, op.out, op.weights, op.mean, op.rdev, op.scratch, dqkv};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
}
END_TEST

static double
embedding_loss(void *context)
{
    struct op *op = context;
    double_embedding_forward(SEQUENCES, op->length, op->columns, op->tokens, op->x, op->y,
                             op->out);
    return dot(op->out, op->weights, SEQUENCES * op->length * op->columns);
}

START_TEST(embedding_of_repeated_tokens_agrees_with_finite_differences)
{
    int64_t length = 5, columns = 9, vocabulary = 7, count = SEQUENCES * length * columns;
    int32_t tokens[] = {3, 3, 0, 6, 3, 1, 2, 2, 4, 5, 0, 1};
    struct op op = {.columns = columns, .length = length, .tokens = tokens};
    op.x = random_doubles(vocabulary * columns, 1, 1);
    op.y = random_doubles(length * columns, 2, 1);
    op.out = random_doubles(count, 3, 1);
    op.weights = random_doubles(count, 4, 1);
    double *dtable = xcalloc((size_t)(vocabulary * columns), sizeof(double));
    double *dpositions = xcalloc((size_t)(length * columns), sizeof(double));
    double_embedding_backward(SEQUENCES, length, columns, tokens, op.weights, dtable,
                              dpositions);
    gradient_check("token table", op.x, dtable, vocabulary * columns, 1, embedding_loss,
                   &op);
    gradient_check("position table", op.y, dpositions, length * columns, 2,
                   embedding_loss, &op);
    double *owned[] = {op.x, op.y, op.out, op.weights, dtable, dpositions};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
}
END_TEST

/* ---- the whole model ---- */

struct model {
    struct stage_double *stage;
    int32_t *tokens;
    double scale;
};

static double
model_loss(void *context)
{
    struct model *model = context;
    struct err err;
    double sum = 0;
    ck_assert_int_eq(double_forward(model->stage, 0, model->tokens, &sum, &err), 0);
    return sum * model->scale;
}

static const struct model_shape model_shapes[] = {
    {.blocks = 2, .heads = 2, .hidden = 16, .context = 12, .vocabulary = 30},
    {.blocks = 1, .heads = 3, .hidden = 15, .context = 70, .vocabulary = 17},
};

START_TEST(every_tensor_agrees_with_finite_differences)
{
    const struct model_shape *shape = &model_shapes[_i];
    struct stage_spec spec = {0, workload_layers(shape), 2, 1, false};
    struct err err;
    struct model model = {.scale = 1.0 / (2 * shape->context)};
    model.stage = double_open(shape, &spec, &err);
    ck_assert_ptr_nonnull(model.stage);
    double_init(model.stage, 3);
    int count = 2 * (shape->context + 1);
    model.tokens = xcalloc((size_t)count, sizeof(int32_t));
    struct rng rng = {.seed = 9};
    for (int i = 0; i < count; i++)
        model.tokens[i] = (int32_t)rng_below(&rng, (uint64_t)shape->vocabulary);

    /* Away from the start, where biases are zero and gains one. */
    int tensors = workload_tensor_count(shape);
    struct tensor_spec tensor;
    for (int t = 0; t < tensors; t++) {
        workload_tensor(shape, t, &tensor);
        double *weights = double_state(model.stage, t, STATE_WEIGHT);
        for (int64_t i = 0; i < tensor.elements; i++)
            weights[i] += rng_normal(4, (uint64_t)t, (uint64_t)i) * 0.1;
    }
    double_begin(model.stage);
    model_loss(&model);
    ck_assert_int_eq(double_backward(model.stage, 0, model.tokens, model.scale, &err), 0);
    double_combine(model.stage);
    for (int t = 0; t < tensors; t++) {
        workload_tensor(shape, t, &tensor);
        gradient_check(tensor.name, double_state(model.stage, t, STATE_WEIGHT),
                       double_gradient(model.stage, t), tensor.elements, (uint64_t)t,
                       model_loss, &model);
    }
    free(model.tokens);
    double_close(model.stage);
}
END_TEST

Suite *
suite_gradients(void)
{
    Suite *suite = suite_create("gradients");
    TCase *tests = suite_case(suite, "gradients", 120);
    tcase_add_loop_test(tests, norm_agrees_with_finite_differences, 0, 2);
    tcase_add_test(tests, gelu_agrees_with_finite_differences);
    tcase_add_test(tests, cross_entropy_agrees_with_finite_differences);
    tcase_add_loop_test(tests, attention_agrees_with_finite_differences, 0, 5);
    tcase_add_test(tests, embedding_of_repeated_tokens_agrees_with_finite_differences);
    tcase_add_loop_test(tests, every_tensor_agrees_with_finite_differences, 0, 2);
    return suite;
}
