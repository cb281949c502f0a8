#include "node/engine/matmul_provider.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Vectors are passed between inlined functions only. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* Multiples of every tile; the packed blocks stay in the second level of cache. */
enum { BLOCK_ROWS = 96, BLOCK_COLUMNS = 384, BLOCK_DEPTH = 256 };

static _Thread_local float panel_a[BLOCK_ROWS * BLOCK_DEPTH] __attribute__((aligned(64)));
static _Thread_local float panel_b[BLOCK_COLUMNS * BLOCK_DEPTH]
    __attribute__((aligned(64)));

static void
scale(int m, int n, float beta, float *c, int64_t ldc)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

#define NAME(x) x##_base
#define TARGET
#define LANES 4
#define SPREAD(x) ((vector_base){(x), (x), (x), (x)})
#define FMA(a, b, c) ((a) * (b) + (c))
#define TILE_ROWS 4
#define TILE_VECTORS 2
#include "node/engine/matmul_template.h"

#ifdef __x86_64__

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define SPREAD(x) ((vector_avx2)_mm256_set1_ps(x))
#define FMA(a, b, c) ((vector_avx2)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define TILE_ROWS 6
#define TILE_VECTORS 2
#include "node/engine/matmul_template.h"

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,fma")))
#define LANES 16
#define SPREAD(x) ((vector_avx512)_mm512_set1_ps(x))
#define FMA(a, b, c)                                                                     \
    ((vector_avx512)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define TILE_ROWS 8
#define TILE_VECTORS 3
#include "node/engine/matmul_template.h"

static bool
product(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
        const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    matmul_fn best = __builtin_cpu_supports("avx512f") ? product_avx512
                     : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                         ? product_avx2
                         : product_base;
    return best(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

const struct matmul_provider matmul_builtin = {"builtin", product, NULL};

#else

const struct matmul_provider matmul_builtin = {"builtin", product_base, NULL};

#endif
