/* The engine's sources for double, their public names changed so that both builds fit one
 * program. */
#define REAL_IS_DOUBLE

#define stage stage_double
#define stage_open double_stage_open
#define stage_close double_stage_close
#define stage_bytes_held double_stage_bytes_held
#define stage_init double_stage_init
#define stage_begin double_stage_begin
#define stage_forward double_stage_forward
#define stage_backward double_stage_backward
#define stage_gradients double_stage_gradients
#define stage_tied_gradient double_stage_tied_gradient
#define stage_tied_combine double_stage_tied_combine
#define stage_norm_count double_stage_norm_count
#define stage_norm_sums double_stage_norm_sums
#define stage_update double_stage_update
#define stage_state double_stage_state
#define stage_gradient double_stage_gradient
#define stage_logits double_stage_logits
#define stage_poison double_stage_poison
#define tensor_product double_tensor_product
#define tensor_norm_forward double_tensor_norm_forward
#define tensor_norm_again double_tensor_norm_again
#define tensor_norm_backward double_tensor_norm_backward
#define tensor_bias_rows double_tensor_bias_rows
#define tensor_column_sums double_tensor_column_sums
#define tensor_gelu_forward double_tensor_gelu_forward
#define tensor_gelu_backward double_tensor_gelu_backward
#define tensor_cross_entropy double_tensor_cross_entropy
#define tensor_embedding_forward double_tensor_embedding_forward
#define tensor_embedding_backward double_tensor_embedding_backward
#define attention_forward double_tensor_attention_forward
#define attention_backward double_tensor_attention_backward
#define kernels_choose double_kernels_choose
#define kernels_set double_kernels_set

#define KERNELS kernels_double
#define TARGET
#include "node/engine/kernels_body.h"

#include "node/engine/tensor_body.h"

#include "node/engine/attention_body.h"

#include "node/engine/stage_body.h"

#include "node/engine/stage_state_body.h"

#include "tests/node/stage_double.h"

const struct kernels *
kernels_choose(void)
{
    return &kernels_double;
}

struct stage_double *
double_open(const struct model_shape *shape, const struct stage_spec *spec,
            struct err *err)
{
    return stage_open(shape, spec, 1, err);
}

void
double_close(struct stage_double *model)
{
    stage_close(model);
}

void
double_init(struct stage_double *model, uint64_t seed)
{
    stage_init(model, seed);
}

void
double_begin(struct stage_double *model)
{
    stage_begin(model);
}

int
double_forward(struct stage_double *model, int slot, const int32_t *tokens,
               double *loss_sum, struct err *err)
{
    return stage_forward(model, slot, tokens, NULL, NULL, loss_sum, err);
}

int
double_backward(struct stage_double *model, int slot, const int32_t *tokens,
                double loss_scale, struct err *err)
{
    return stage_backward(model, slot, tokens, loss_scale, NULL, NULL, err);
}

void
double_combine(struct stage_double *model)
{
    stage_tied_combine(model, NULL);
}

double *
double_state(struct stage_double *model, int tensor, enum state_kind kind)
{
    return stage_state(model, tensor, kind);
}

const double *
double_gradient(const struct stage_double *model, int tensor)
{
    return stage_gradient(model, tensor);
}

void
double_update(struct stage_double *model, const struct adamw *options)
{
    stage_update(model, options);
}

static struct pool *
one_thread(void)
{
    static struct pool *pool;
    struct err err;
    if (!pool)
        pool = pool_new(1, &err);
    return pool;
}

static struct compute
compute_double(void)
{
    return (struct compute){one_thread(), &kernels_double};
}

void
double_norm_forward(int64_t rows, int64_t columns, const double *x, const double *gain,
                    const double *bias, double *out, double *mean, double *rdev)
{
    struct compute compute = compute_double();
    struct norm norm = {rows, columns, x, gain, bias, mean, rdev};
    tensor_norm_forward(&compute, &norm, out);
}

void
double_norm_backward(int64_t rows, int64_t columns, const double *x, const double *gain,
                     const double *bias, double *mean, double *rdev, const double *dout,
                     double *dx, double *dgain, double *dbias)
{
    struct compute compute = compute_double();
    struct norm norm = {rows, columns, x, gain, bias, mean, rdev};
    tensor_norm_backward(&compute, &norm, dout, dx, false, dgain, dbias, false);
}

void
double_gelu_forward(int64_t count, const double *x, double *out)
{
    struct compute compute = compute_double();
    tensor_gelu_forward(&compute, count, x, out);
}

void
double_gelu_backward(int64_t count, const double *x, double *d)
{
    struct compute compute = compute_double();
    double *again = xcalloc((size_t)count, sizeof(*again));
    tensor_gelu_backward(&compute, count, x, again, d);
    free(again);
}

void
double_cross_entropy(int64_t rows, int64_t columns, double *logits, int64_t stride,
                     const int32_t *targets, double *losses)
{
    struct compute compute = compute_double();
    tensor_cross_entropy(&compute, rows, columns, logits, stride, targets, losses);
}

void
double_attention_forward(int64_t sequences, int64_t length, int heads, int columns,
                         const double *qkv, double *out, double *maximum, double *inverse,
                         double *scratch, int64_t scratch_stride)
{
    struct compute compute = compute_double();
    struct attention attention = {sequences, length,  heads,   columns, qkv,
                                  out,       maximum, inverse, scratch, scratch_stride};
    attention_forward(&compute, &attention);
}

void
double_attention_backward(int64_t sequences, int64_t length, int heads, int columns,
                          const double *qkv, double *out, double *maximum,
                          double *inverse, double *scratch, int64_t scratch_stride,
                          const double *dout, double *dqkv)
{
    struct compute compute = compute_double();
    struct attention attention = {sequences, length,  heads,   columns, qkv,
                                  out,       maximum, inverse, scratch, scratch_stride};
    attention_backward(&compute, &attention, dout, dqkv);
}

void
double_embedding_forward(int64_t sequences, int64_t length, int64_t columns,
                         const int32_t *tokens, const double *table,
                         const double *positions, double *out)
{
    struct compute compute = compute_double();
    struct embedding embedding = {sequences, length, columns, tokens, length + 1};
    tensor_embedding_forward(&compute, &embedding, table, positions, out);
}

void
double_embedding_backward(int64_t sequences, int64_t length, int64_t columns,
                          const int32_t *tokens, const double *dout, double *dtable,
                          double *dpositions)
{
    struct compute compute = compute_double();
    struct embedding embedding = {sequences, length, columns, tokens, length + 1};
    tensor_embedding_backward(&compute, &embedding, dout, dtable, dpositions);
}
