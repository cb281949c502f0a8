/*
 * matmul_provider.h - what a provider of matrix products offers to matmul.c; for the
 * files of this call only. Others include matmul.h.
 */
#ifndef NODE_ENGINE_MATMUL_PROVIDER_H
#define NODE_ENGINE_MATMUL_PROVIDER_H

#include <stdbool.h>

/* Arguments as matmul(). False when the library failed; C is then undefined. */
typedef bool (*matmul_fn)(bool transpose_a, bool transpose_b, int m, int n, int k,
                          float alpha, const float *a, int lda, const float *b, int ldb,
                          float beta, float *c, int ldc);

struct matmul_provider {
    const char *name;
    matmul_fn product;
    bool (*suits)(void); /* false: slower here than our own; NULL: always suits */
};

extern const struct matmul_provider matmul_onednn, matmul_openblas, matmul_builtin;

/* The provider's products are right on odd sizes, strides and transposes, leave what is
 * not theirs alone, and give a row the same bits whichever rows are computed with it. */
bool matmul_check(const struct matmul_provider *provider);

#endif
