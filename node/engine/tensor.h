/*
 * tensor.h - the engine's operations on whole matrices, split over its threads: what a
 * block of a transformer is written in.
 *
 * However many threads there are, the results have the same bits.
 */
#ifndef NODE_ENGINE_TENSOR_H
#define NODE_ENGINE_TENSOR_H

#include "node/engine/kernels.h"
#include "node/engine/pool.h"

/* What an operation computes with. */
struct compute {
    struct pool *pool;
    const struct kernels *kernels;
};

/* c[m, n] = alpha op(a) op(b) + beta c, on dense or strided matrices. */
struct product {
    bool transpose_a, transpose_b;
    int m, n, k;
    real alpha, beta;
    const real *a, *b;
    int lda, ldb;
    real *c;
    int ldc;
};
void tensor_product(const struct compute *compute, const struct product *product);

/* LayerNorm: x [rows, columns], its parameters and what its backward needs. */
struct norm {
    int64_t rows, columns;
    const real *x, *gain, *bias;
    real *mean, *rdev; /* [rows] */
};
void tensor_norm_forward(const struct compute *compute, const struct norm *norm,
                         real *out);
void tensor_norm_again(const struct compute *compute, const struct norm *norm, real *out);
/* dx = (add ? dx : 0) + ...; dgain, dbias likewise with `accumulate`. */
void tensor_norm_backward(const struct compute *compute, const struct norm *norm,
                          const real *dout, real *dx, bool add, real *dgain, real *dbias,
                          bool accumulate);

/* Rows of out = bias (+ x, unless NULL). */
void tensor_bias_rows(const struct compute *compute, int64_t rows, int64_t columns,
                      const real *x, const real *bias, real *out);
/* out[columns] = (accumulate ? out : 0) + column sums of x. */
void tensor_column_sums(const struct compute *compute, int64_t rows, int64_t columns,
                        const real *x, real *out, bool accumulate);

void tensor_gelu_forward(const struct compute *compute, int64_t count, const real *x,
                         real *out);
/* out = gelu(x), d = d gelu'(x). */
void tensor_gelu_backward(const struct compute *compute, int64_t count, const real *x,
                          real *out, real *d);

/* Logits [rows, columns] of a stride become their gradient (softmax - one-hot); losses
 * [rows] in nats. */
void tensor_cross_entropy(const struct compute *compute, int64_t rows, int64_t columns,
                          real *logits, int64_t stride, const int32_t *targets,
                          real *losses);

/* out[i] = table[tokens[i]] + positions[i mod length]. */
struct embedding {
    int64_t sequences, length, columns;
    const int32_t *tokens; /* [sequences, token_stride] */
    int64_t token_stride;
};
void tensor_embedding_forward(const struct compute *compute,
                              const struct embedding *embedding, const real *table,
                              const real *positions, real *out);
/* Adds to the gradients of both. */
void tensor_embedding_backward(const struct compute *compute,
                               const struct embedding *embedding, const real *dout,
                               real *dtable, real *dpositions);

/*
 * Causal self-attention over the rows [sequences x length], in blocks of 64 queries; keys
 * after a block are skipped. qkv rows hold queries, keys and values of all heads, one
 * after the other.
 */
struct attention {
    int64_t sequences, length;
    int heads, columns; /* columns: of all heads together */
    const real *qkv;    /* [rows, 3 columns] */
    real *out;          /* [rows, columns] */
    real *maximum;      /* of each head's row of scores: [sequences, heads, length] */
    real *inverse;      /* 1 / sum of exp(score - maximum) */
    real *scratch;
    int64_t scratch_stride; /* reals that one head needs; scratch has them for each */
};
enum { ATTENTION_BLOCK = 64 };
void attention_forward(const struct compute *compute, const struct attention *attention);
/* dqkv [rows, 3 columns] is overwritten; it may not be any of the others. */
void attention_backward(const struct compute *compute, const struct attention *attention,
                        const real *dout, real *dqkv);

#endif
