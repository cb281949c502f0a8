/*
 * kernels.h - the engine's loops over rows and elements, one table for each instruction
 * set.
 *
 * All tables give the same bits: sums run over sixteen lanes in one order, exponentials
 * are polynomials of our own, nothing is contracted into fused operations. Matrices are
 * row-major. A kernel works on the rows (or columns, or elements) that it is given, so
 * that the caller may split them.
 */
#ifndef NODE_ENGINE_KERNELS_H
#define NODE_ENGINE_KERNELS_H

#include "node/engine/real.h"

#include <stdbool.h>
#include <stdint.h>

/* One AdamW step in the engine's precision; made from struct adamw in double. */
struct adamw_factors {
    real gradient;     /* clip scale */
    real beta1, rest1; /* rest: 1 - beta */
    real beta2, rest2;
    real rate; /* learning rate / (1 - beta1^step) */
    real root; /* 1 / sqrt(1 - beta2^step) */
    real epsilon;
    real keep; /* 1 - learning rate x weight decay; 1 without decay */
};

struct kernels {
    /* LayerNorm with eps 1e-5 of rows of x: mean and 1/deviation of each row, and out
     * unless it is NULL. */
    void (*norm_forward)(int64_t rows, int64_t columns, const real *x, const real *gain,
                         const real *bias, real *out, real *mean, real *rdev);
    /* The same output again, from the statistics. */
    void (*norm_again)(int64_t rows, int64_t columns, const real *x, const real *gain,
                       const real *bias, real *out, const real *mean, const real *rdev);
    /* dx = (add ? dx : 0) + d(norm)/dx of dout. */
    void (*norm_backward)(int64_t rows, int64_t columns, const real *x, const real *gain,
                          const real *mean, const real *rdev, const real *dout, real *dx,
                          bool add);
    /* Columns [first, end): dgain, dbias = (add ? themselves : 0) + sums over all
     * rows. */
    void (*norm_parameters)(int64_t first, int64_t end, int64_t rows, int64_t columns,
                            const real *x, const real *mean, const real *rdev,
                            const real *dout, real *dgain, real *dbias, bool add);
    /* Columns [first, end): out = (add ? out : 0) + sum over rows of x. */
    void (*column_sums)(int64_t first, int64_t end, int64_t rows, int64_t columns,
                        const real *x, real *out, bool add);
    /* Every row of out = bias, plus the row of x unless x is NULL. */
    void (*bias_rows)(int64_t rows, int64_t columns, const real *x, const real *bias,
                      real *out);
    /* GELU, tanh form. */
    void (*gelu_forward)(int64_t count, const real *x, real *out);
    /* out = gelu(x) again, and d = d x gelu'(x) in place. */
    void (*gelu_backward)(int64_t count, const real *x, real *out, real *d);
    /* Causal scores of queries first.. against `columns` keys: x = exp(x - maximum), 0
     * after the diagonal; the maximum and 1/sum of each row. Rows may be written up to a
     * multiple of 16. */
    void (*softmax_forward)(int64_t rows, int64_t first, int64_t columns, real *x,
                            int64_t stride, real *maximum, real *inverse);
    /* The probabilities again: x = exp(x - maximum) x inverse, 0 after the diagonal. */
    void (*softmax_again)(int64_t rows, int64_t first, int64_t columns, real *x,
                          int64_t stride, const real *maximum, const real *inverse);
    /* d = p x (d - dot of the row). */
    void (*softmax_backward)(int64_t rows, int64_t columns, const real *p, real *d,
                             int64_t stride, const real *dots);
    void (*scale_rows)(int64_t rows, int64_t columns, real *x, int64_t stride,
                       const real *factors);
    void (*row_dots)(int64_t rows, int64_t columns, const real *x, const real *y,
                     int64_t stride, real *dots);
    /* Logits become softmax minus one-hot of the target; losses in nats. */
    void (*cross_entropy)(int64_t rows, int64_t columns, real *x, int64_t stride,
                          const int32_t *targets, real *losses);
    /* sums, in double, of squares. */
    double (*squares)(int64_t count, const real *x);
    void (*adamw)(int64_t count, real *weights, const real *gradients, real *moment1,
                  real *moment2, const struct adamw_factors *factors);
};

/* The best for this processor. */
const struct kernels *kernels_choose(void);

/* Each table, or NULL where this processor (or build) has no such instructions: for
 * tests. */
enum { KERNELS_BASE, KERNELS_AVX2, KERNELS_AVX512, KERNELS_SETS };
const struct kernels *kernels_set(int set);

#endif
