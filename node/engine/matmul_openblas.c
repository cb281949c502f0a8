#include "node/engine/matmul_provider.h"

#include <cblas.h>

static bool
product(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
        const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    static _Thread_local bool prepared;
    if (!prepared)
        openblas_set_num_threads(1);
    prepared = true;
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, m, n, k, alpha, a, lda, b, ldb,
                beta, c, ldc);
    return true;
}

const struct matmul_provider matmul_openblas = {"openblas", product};
