#include "node/engine/matmul_provider.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stddef.h>
#include <string.h>

/* oneDNN threads through libgomp, whose count of threads belongs to the calling thread.
 * The library brings libgomp along; we have nothing else to do with it, so it is not
 * linked. */
static void
single_thread(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!symbol)
        return;
    void (*set)(int);
    memcpy(&set, &symbol, sizeof(set));
    set(1);
}

static bool
product(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
        const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    static _Thread_local bool prepared;
    if (!prepared)
        single_thread();
    prepared = true;
    return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a,
                      lda, b, ldb, beta, c, ldc) == dnnl_success;
}

const struct matmul_provider matmul_onednn = {"onednn", product, NULL};
