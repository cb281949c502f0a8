#include "node/engine/matmul_provider.h"

#include <cblas.h>
#include <stddef.h>
#include <string.h>

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

/* A processor newer than the library gets kernels of 2004: a quarter of the speed of
 * ours. */
static bool
suits(void)
{
    static const char *const old[] = {
        "Prescott",   "Core2",        "Katmai",    "Coppermine", "Penryn",
        "Dunnington", "Atom",         "Nano",      "Nehalem",    "Athlon",
        "Opteron",    "Opteron_SSE3", "Barcelona", "Bobcat"};
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
        if (strcmp(openblas_get_corename(), old[i]) == 0)
            return false;
    return true;
}

const struct matmul_provider matmul_openblas = {"openblas", product, suits};
