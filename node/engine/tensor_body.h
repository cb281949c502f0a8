/* tensor_body.h - the operations of tensor.h for `real`; see real.h. */
#include "node/engine/matmul.h"
#include "node/engine/tensor.h"
#include "transport/base/must.h"

#include <string.h>

enum {
    PIECE_DEPTH = 512,  /* of a product with the first matrix transposed */
    GRAIN_COLUMNS = 64, /* columns that one thread sums at least */
    GRAIN_ELEMENTS = 4096
};

/* One work for the pool: an operation and its arguments. */
struct job {
    const struct kernels *kernels;
    const struct product *product;
    const struct norm *norm;
    const struct embedding *embedding;
    int64_t rows, columns, stride;
    const real *x, *y;
    const int32_t *targets;
    real *out, *out2;
    bool add;
};

#ifdef REAL_IS_DOUBLE
#define matmul_real matmul_double
#else
#define matmul_real matmul
#endif

/* A product over many rows (a weight's gradient) is summed in pieces: the libraries'
 * blocking suits a depth of hundreds. 113 against 148 GFLOP/s at 1536 x 384 x 2048 in
 * pieces of 512. */
static void
product_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct product *p = job->product;
    const real *a = p->a + (p->transpose_a ? first : first * p->lda);
    (void)thread;
    for (int at = 0; at < p->k; at += PIECE_DEPTH) {
        int depth = p->k - at;
        if (p->transpose_a && depth > PIECE_DEPTH)
            depth = PIECE_DEPTH;
        matmul_real(p->transpose_a, p->transpose_b, (int)(end - first), p->n, depth,
                    p->alpha, a + (p->transpose_a ? (int64_t)at * p->lda : 0), p->lda,
                    p->b + (p->transpose_a ? (int64_t)at * p->ldb : 0), p->ldb,
                    at ? 1 : p->beta, p->c + first * p->ldc, p->ldc);
        if (!p->transpose_a)
            break;
    }
}

void
tensor_product(const struct compute *compute, const struct product *product)
{
    struct job job = {.product = product};
    must(!product->transpose_a || !product->transpose_b);
    pool_run(compute->pool, product->m, MATMUL_ROWS_MIN, product_rows, &job);
}

static void
norm_forward_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct norm *n = job->norm;
    int64_t at = first * n->columns;
    (void)thread;
    job->kernels->norm_forward(end - first, n->columns, n->x + at, n->gain, n->bias,
                               job->out + at, n->mean + first, n->rdev + first);
}

void
tensor_norm_forward(const struct compute *compute, const struct norm *norm, real *out)
{
    struct job job = {.kernels = compute->kernels, .norm = norm, .out = out};
    pool_run(compute->pool, norm->rows, 1, norm_forward_rows, &job);
}

static void
norm_again_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct norm *n = job->norm;
    int64_t at = first * n->columns;
    (void)thread;
    job->kernels->norm_again(end - first, n->columns, n->x + at, n->gain, n->bias,
                             job->out + at, n->mean + first, n->rdev + first);
}

void
tensor_norm_again(const struct compute *compute, const struct norm *norm, real *out)
{
    struct job job = {.kernels = compute->kernels, .norm = norm, .out = out};
    pool_run(compute->pool, norm->rows, 1, norm_again_rows, &job);
}

static void
norm_backward_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct norm *n = job->norm;
    int64_t at = first * n->columns;
    (void)thread;
    job->kernels->norm_backward(end - first, n->columns, n->x + at, n->gain,
                                n->mean + first, n->rdev + first, job->x + at,
                                job->out + at, job->add);
}

static void
norm_parameter_columns(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct norm *n = job->norm;
    (void)thread;
    job->kernels->norm_parameters(first, end, n->rows, n->columns, n->x, n->mean, n->rdev,
                                  job->x, job->out, job->out2, job->add);
}

void
tensor_norm_backward(const struct compute *compute, const struct norm *norm,
                     const real *dout, real *dx, bool add, real *dgain, real *dbias,
                     bool accumulate)
{
    struct job rows = {
        .kernels = compute->kernels, .norm = norm, .x = dout, .out = dx, .add = add};
    pool_run(compute->pool, norm->rows, 1, norm_backward_rows, &rows);
    struct job columns = {.kernels = compute->kernels,
                          .norm = norm,
                          .x = dout,
                          .out = dgain,
                          .out2 = dbias,
                          .add = accumulate};
    pool_run(compute->pool, norm->columns, GRAIN_COLUMNS, norm_parameter_columns,
             &columns);
}

static void
bias_some_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    int64_t at = first * job->columns;
    (void)thread;
    job->kernels->bias_rows(end - first, job->columns, job->x ? job->x + at : NULL,
                            job->y, job->out + at);
}

void
tensor_bias_rows(const struct compute *compute, int64_t rows, int64_t columns,
                 const real *x, const real *bias, real *out)
{
    struct job job = {
        .kernels = compute->kernels, .columns = columns, .x = x, .y = bias, .out = out};
    pool_run(compute->pool, rows, 1, bias_some_rows, &job);
}

static void
sum_columns(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    (void)thread;
    job->kernels->column_sums(first, end, job->rows, job->columns, job->x, job->out,
                              job->add);
}

void
tensor_column_sums(const struct compute *compute, int64_t rows, int64_t columns,
                   const real *x, real *out, bool accumulate)
{
    struct job job = {.kernels = compute->kernels,
                      .rows = rows,
                      .columns = columns,
                      .x = x,
                      .out = out,
                      .add = accumulate};
    pool_run(compute->pool, columns, GRAIN_COLUMNS, sum_columns, &job);
}

static void
gelu_forward_some(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    (void)thread;
    job->kernels->gelu_forward(end - first, job->x + first, job->out + first);
}

void
tensor_gelu_forward(const struct compute *compute, int64_t count, const real *x,
                    real *out)
{
    struct job job = {.kernels = compute->kernels, .x = x, .out = out};
    pool_run(compute->pool, count, GRAIN_ELEMENTS, gelu_forward_some, &job);
}

static void
gelu_backward_some(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    (void)thread;
    job->kernels->gelu_backward(end - first, job->x + first, job->out + first,
                                job->out2 + first);
}

void
tensor_gelu_backward(const struct compute *compute, int64_t count, const real *x,
                     real *out, real *d)
{
    struct job job = {.kernels = compute->kernels, .x = x, .out = out, .out2 = d};
    pool_run(compute->pool, count, GRAIN_ELEMENTS, gelu_backward_some, &job);
}

static void
cross_entropy_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    (void)thread;
    job->kernels->cross_entropy(end - first, job->columns, job->out + first * job->stride,
                                job->stride, job->targets + first, job->out2 + first);
}

void
tensor_cross_entropy(const struct compute *compute, int64_t rows, int64_t columns,
                     real *logits, int64_t stride, const int32_t *targets, real *losses)
{
    struct job job = {.kernels = compute->kernels,
                      .columns = columns,
                      .stride = stride,
                      .targets = targets,
                      .out = logits,
                      .out2 = losses};
    pool_run(compute->pool, rows, 1, cross_entropy_rows, &job);
}

static void
embed_rows(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct embedding *e = job->embedding;
    (void)thread;
    for (int64_t i = first; i < end; i++) {
        int64_t position = i % e->length;
        int32_t token = e->tokens[i / e->length * e->token_stride + position];
        job->kernels->bias_rows(1, e->columns, job->x + token * e->columns,
                                job->y + position * e->columns,
                                job->out + i * e->columns);
    }
}

void
tensor_embedding_forward(const struct compute *compute, const struct embedding *embedding,
                         const real *table, const real *positions, real *out)
{
    struct job job = {.kernels = compute->kernels,
                      .embedding = embedding,
                      .x = table,
                      .y = positions,
                      .out = out};
    pool_run(compute->pool, embedding->sequences * embedding->length, 1, embed_rows,
             &job);
}

/* A token may come twice, so threads share the columns, not the rows. */
static void
embed_backward_columns(void *context, int64_t first, int64_t end, int thread)
{
    const struct job *job = context;
    const struct embedding *e = job->embedding;
    (void)thread;
    for (int64_t i = 0; i < e->sequences * e->length; i++) {
        int64_t position = i % e->length;
        int32_t token = e->tokens[i / e->length * e->token_stride + position];
        const real *from = job->x + i * e->columns;
        real *table = job->out + token * e->columns;
        real *positions = job->out2 + position * e->columns;
        for (int64_t j = first; j < end; j++) {
            table[j] += from[j];
            positions[j] += from[j];
        }
    }
}

void
tensor_embedding_backward(const struct compute *compute,
                          const struct embedding *embedding, const real *dout,
                          real *dtable, real *dpositions)
{
    struct job job = {
        .embedding = embedding, .x = dout, .out = dtable, .out2 = dpositions};
    pool_run(compute->pool, embedding->columns, GRAIN_COLUMNS, embed_backward_columns,
             &job);
}
