/*
 * matmul.h - matrix products through one internal call.
 *
 * Row-major C[m,n] = alpha op(A) op(B) + beta C. Never threaded inside: the
 * caller splits by rows. The provider is chosen at start-up (oneDNN, else OpenBLAS,
 * else our own), checked against our own kernel on odd sizes, and named in the log.
 */
#ifndef NODE_ENGINE_MATMUL_H
#define NODE_ENGINE_MATMUL_H

#include <stdbool.h>

/* A caller that splits a product by rows cuts at multiples of this and leaves no part
 * smaller, so that the parts have the bits of the whole: libraries compute a few rows in
 * another order. */
enum { MATMUL_ROWS_MIN = 32 };

/* Once per process, before any thread computes. Returns the provider's name ("onednn",
 * "openblas", "builtin"). */
const char *matmul_setup(void);

/* The provider chosen; chooses first if nobody has, from any thread.
 * FLOTILLA_MATMUL=builtin, openblas or onednn in the environment names the one to try
 * first. */
const char *matmul_provider_name(void);

void matmul(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
            const float *a, int lda, const float *b, int ldb, float beta, float *c,
            int ldc);

/* The reference, in double: plain, blocked, ours. */
void matmul_double(bool transpose_a, bool transpose_b, int m, int n, int k, double alpha,
                   const double *a, int lda, const double *b, int ldb, double beta,
                   double *c, int ldc);

#endif
