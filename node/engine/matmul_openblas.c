#include "node/engine/matmul_provider.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* The build with threads starts one for each core as soon as it is loaded, and each of them
 * waits for work by spinning for a tenth of a second. Most commands compute nothing and most
 * machines have oneDNN, so the library is loaded when somebody asks for it. */
static struct {
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&openblas_set_num_threads) set_num_threads;
    __typeof__(&openblas_get_corename) get_corename;
    bool there;
} library;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void
library_load(void)
{
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return;
    const struct {
        const char *name;
        void *function; /* a pointer to it */
    } wanted[] = {{"cblas_sgemm", &library.sgemm},
                  {"openblas_set_num_threads", &library.set_num_threads},
                  {"openblas_get_corename", &library.get_corename}};
    bool all = true;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *symbol = dlsym(handle, wanted[i].name);
        memcpy(wanted[i].function, &symbol, sizeof(symbol));
        all = all && symbol;
    }
    library.there = all;
}

static bool
product(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
        const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    static _Thread_local bool prepared;
    if (!prepared) {
        pthread_once(&library_once, library_load);
        if (!library.there)
            return false;
        library.set_num_threads(1);
    }
    prepared = true;
    library.sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
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
    pthread_once(&library_once, library_load);
    if (!library.there)
        return false;
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
        if (strcmp(library.get_corename(), old[i]) == 0)
            return false;
    return true;
}

const struct matmul_provider matmul_openblas = {"openblas", product, suits};
