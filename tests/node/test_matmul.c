#include "node/engine/matmul.h"
#include "node/engine/matmul_provider.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_matmul(void);

enum { CASES = 1200, SIZE_MAX_ODD = 90, FLOATS = 1 << 14, GUARD = 64 };

static const struct matmul_provider *const providers[] = {
    &matmul_builtin, &matmul_openblas, &matmul_onednn};

struct fuzz {
    float a[FLOATS], b[FLOATS], c[FLOATS + GUARD], start[FLOATS + GUARD];
    double wide_a[FLOATS], wide_b[FLOATS], wide_c[FLOATS + GUARD];
};

static int
size_of(struct rng *rng)
{
    uint64_t kind = rng_below(rng, 4);
    if (kind == 0)
        return (int)rng_below(rng, 4) + 1;
    if (kind == 1)
        return 16 * ((int)rng_below(rng, 5) + 1) + (int)rng_below(rng, 3) - 1;
    return (int)rng_below(rng, SIZE_MAX_ODD) + 1;
}

static void
fuzz_case(const struct matmul_provider *provider, struct fuzz *f, uint64_t seed,
          uint64_t number)
{
    static const float factors[] = {0, 1, -1, 0.5F, 2};
    struct rng rng = {.seed = seed, .stream = number};
    int m = size_of(&rng), n = size_of(&rng), k = size_of(&rng);
    bool ta = rng_below(&rng, 2), tb = rng_below(&rng, 2);
    int lda = (ta ? m : k) + (int)rng_below(&rng, 20);
    int ldb = (tb ? k : n) + (int)rng_below(&rng, 20), ldc = n + (int)rng_below(&rng, 20);
    float alpha = factors[1 + rng_below(&rng, 4)], beta = factors[rng_below(&rng, 5)];
    for (int i = 0; i < FLOATS; i++) {
        f->wide_a[i] = (double)(f->a[i] = (float)(rng_unit(&rng) * 2 - 1));
        f->wide_b[i] = (double)(f->b[i] = (float)(rng_unit(&rng) * 2 - 1));
    }
    for (int i = 0; i < FLOATS + GUARD; i++) {
        f->c[i] = beta == 0 ? NAN : (float)(rng_unit(&rng) * 2 - 1);
        f->wide_c[i] = (double)f->c[i];
        f->start[i] = f->c[i];
    }
    bool done =
        provider->product(ta, tb, m, n, k, alpha, f->a, lda, f->b, ldb, beta, f->c, ldc);
    ck_assert(done);
    matmul_double(ta, tb, m, n, k, (double)alpha, f->wide_a, lda, f->wide_b, ldb,
                  (double)beta, f->wide_c, ldc);
    double bound = 3e-7 * (k + 4);
    for (int i = 0; i < FLOATS + GUARD; i++) {
        bool inside = i / ldc < m && i % ldc < n;
        /* Bit for bit. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
        bool same = memcmp(&f->c[i], &f->start[i], sizeof(float)) == 0;
        bool right = inside ? fabs((double)f->c[i] - f->wide_c[i]) <= bound : same;
        if (right)
            continue;
        ck_abort_msg(
            "%s: case %llu: m %d n %d k %d%s%s lda %d ldb %d ldc %d, %s: %.9g, not %.9g",
            provider->name, (unsigned long long)number, m, n, k, ta ? " ta" : "",
            tb ? " tb" : "", lda, ldb, ldc, inside ? "element" : "outside",
            (double)f->c[i], f->wide_c[i]);
    }
}

START_TEST(products_of_odd_sizes_agree_with_doubles)
{
    const struct matmul_provider *provider = providers[_i];
    if (!matmul_check(provider)) {
        suite_skip(provider->name,
                   "it does not pass its check on this processor and is not used");
        return;
    }
    uint64_t seed = suite_seed("matmul", 11);
    struct fuzz *fuzz = xcalloc(1, sizeof(*fuzz));
    for (uint64_t number = 0; number < CASES; number++)
        fuzz_case(provider, fuzz, seed, number);
    free(fuzz);
}
END_TEST

/* Larger than every block of the builtin kernel. */
START_TEST(builtin_products_beyond_its_blocks_agree_with_doubles)
{
    int m = 101, n = 395, k = 523;
    float *a = xcalloc((size_t)m * (size_t)k, sizeof(*a)),
          *b = xcalloc((size_t)k * (size_t)n, sizeof(*b));
    float *c = xcalloc((size_t)m * (size_t)n, sizeof(*c));
    double *wa = xcalloc((size_t)m * (size_t)k, sizeof(*wa)),
           *wb = xcalloc((size_t)k * (size_t)n, sizeof(*wb));
    double *wc = xcalloc((size_t)m * (size_t)n, sizeof(*wc));
    struct rng rng = {.seed = 3};
    for (int i = 0; i < m * k; i++)
        wa[i] = (double)(a[i] = (float)(rng_unit(&rng) - 0.5));
    for (int i = 0; i < k * n; i++)
        wb[i] = (double)(b[i] = (float)(rng_unit(&rng) - 0.5));
    for (int kind = 0; kind < 4; kind++) {
        bool ta = kind & 1, tb = kind & 2;
        int lda = ta ? m : k, ldb = tb ? k : n;
        bool done = matmul_builtin.product(ta, tb, m, n, k, 1, a, lda, b, ldb,
                                           kind < 2 ? 0 : 1, c, n);
        ck_assert(done);
        matmul_double(ta, tb, m, n, k, 1, wa, lda, wb, ldb, kind < 2 ? 0 : 1, wc, n);
        double worst = 0;
        for (int i = 0; i < m * n; i++)
            worst = fmax(worst, fabs((double)c[i] - wc[i]));
        ck_assert_double_le(worst, 2e-4);
    }
    free(a);
    free(b);
    free(c);
    free(wa);
    free(wb);
    free(wc);
}
END_TEST

static bool
product_wrong(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda,
              const float *b, int ldb, float beta, float *c, int ldc)
{
    bool done =
        matmul_builtin.product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (m > 60 && n > 60)
        c[(m - 1) * ldc + n - 1] += 0.01F;
    return done;
}

static bool
product_overrun(bool ta, bool tb, int m, int n, int k, float alpha, const float *a,
                int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    bool done =
        matmul_builtin.product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    c[(m - 1) * ldc + n] = 0;
    return done;
}

static bool
product_failing(bool ta, bool tb, int m, int n, int k, float alpha, const float *a,
                int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda;
    (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
    return false;
}

START_TEST(a_provider_that_is_wrong_or_fails_is_refused)
{
    struct matmul_provider wrong = {"wrong", product_wrong, NULL};
    struct matmul_provider overrun = {"overrun", product_overrun, NULL};
    struct matmul_provider failing = {"failing", product_failing, NULL};
    ck_assert(!matmul_check(&wrong));
    ck_assert(!matmul_check(&overrun));
    ck_assert(!matmul_check(&failing));
    ck_assert(matmul_check(&matmul_builtin));
}
END_TEST

START_TEST(the_environment_names_the_provider_to_try_first)
{
    setenv("FLOTILLA_MATMUL", "builtin", 1);
    ck_assert_str_eq(matmul_setup(), "builtin");
    ck_assert_str_eq(matmul_provider_name(), "builtin");
    if (matmul_check(&matmul_openblas)) {
        setenv("FLOTILLA_MATMUL", "openblas", 1);
        ck_assert_str_eq(matmul_setup(), "openblas");
    }
    setenv("FLOTILLA_MATMUL", "no such library", 1);
    const char *fallback = matmul_setup();
    unsetenv("FLOTILLA_MATMUL");
    ck_assert_str_eq(matmul_setup(), fallback);
    printf("matrix products: %s\n", fallback);
}
END_TEST

Suite *
suite_matmul(void)
{
    Suite *suite = suite_create("matmul");
    TCase *tests = suite_case(suite, "matmul", 120);
    tcase_add_loop_test(tests, products_of_odd_sizes_agree_with_doubles, 0, 3);
    tcase_add_test(tests, builtin_products_beyond_its_blocks_agree_with_doubles);
    tcase_add_test(tests, a_provider_that_is_wrong_or_fails_is_refused);
    tcase_add_test(tests, the_environment_names_the_provider_to_try_first);
    return suite;
}
