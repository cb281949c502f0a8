#include "node/engine/kernels.h"

#include <stddef.h>

extern const struct kernels kernels_base, kernels_avx2, kernels_avx512;

#ifdef __x86_64__

static bool
has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool
has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#else

static bool
has_avx2(void)
{
    return false;
}

static bool
has_avx512(void)
{
    return false;
}

#endif

const struct kernels *
kernels_set(int set)
{
    switch (set) {
    case KERNELS_BASE:
        return &kernels_base;
    case KERNELS_AVX2:
        return has_avx2() ? &kernels_avx2 : NULL;
    case KERNELS_AVX512:
        return has_avx512() ? &kernels_avx512 : NULL;
    default:
        return NULL;
    }
}

const struct kernels *
kernels_choose(void)
{
    const struct kernels *best = NULL;
    for (int set = 0; set < KERNELS_SETS; set++)
        if (kernels_set(set))
            best = kernels_set(set);
    return best;
}
