#include "node/engine/matmul.h"

#include <stdint.h>

enum { BLOCK = 64 };

/* Rows [0, m) of one block of columns and of the summed index. */
static void
block_add(bool transpose_a, bool transpose_b, int m, int n, int k, double alpha,
          const double *a, int64_t lda, const double *b, int64_t ldb, double *c,
          int64_t ldc)
{
    double packed[BLOCK * BLOCK];
    for (int p = 0; p < k; p++)
        for (int j = 0; j < n; j++)
            packed[p * BLOCK + j] = transpose_b ? b[j * ldb + p] : b[p * ldb + j];
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++) {
            double factor = alpha * (transpose_a ? a[p * lda + i] : a[i * lda + p]);
            const double *row = packed + (int64_t)p * BLOCK;
            for (int j = 0; j < n; j++)
                c[i * ldc + j] += factor * row[j];
        }
}

void
matmul_double(bool transpose_a, bool transpose_b, int m, int n, int k, double alpha,
              const double *a, int lda, const double *b, int ldb, double beta, double *c,
              int ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
    for (int64_t j = 0; j < n; j += BLOCK)
        for (int64_t p = 0; p < k; p += BLOCK)
            block_add(transpose_a, transpose_b, m, (int)(n - j < BLOCK ? n - j : BLOCK),
                      (int)(k - p < BLOCK ? k - p : BLOCK), alpha,
                      a + (transpose_a ? p * lda : p), lda,
                      b + (transpose_b ? j * ldb + p : p * ldb + j), ldb, c + j, ldc);
}
