#include "node/engine/matmul.h"
#include "node/engine/matmul_provider.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(const struct matmul_provider *) chosen;

struct check_case {
    bool transpose_a, transpose_b;
    int m, n, k;
    int slack; /* of every stride */
    float alpha, beta;
};

static const struct check_case check_cases[] = {
    {false, false, 1, 1, 1, 0, 1, 0},       {false, true, 7, 65, 129, 3, 1, 0},
    {true, false, 33, 17, 257, 1, 0.5f, 1}, {true, true, 29, 31, 37, 5, 1, 1},
    {false, false, 61, 111, 67, 0, 1, 1},   {false, true, 64, 64, 32, 96, 0.125f, 0},
    {true, false, 64, 48, 64, 0, 1, 0},     {false, false, 5, 300, 19, 7, 2, 0.5f},
    {false, true, 67, 1, 96, 0, 1, 0},      {true, false, 128, 3, 130, 2, 1, 1},
};

enum { CHECK_FLOATS = 1 << 16 };

static void
check_fill(float *out, uint64_t stream)
{
    struct rng rng = {.seed = 1, .stream = stream, .n = 0};
    for (int i = 0; i < CHECK_FLOATS; i++)
        out[i] = (float)(rng_unit(&rng) * 2 - 1);
}

struct check_room {
    float a[CHECK_FLOATS], b[CHECK_FLOATS], c[CHECK_FLOATS], start[CHECK_FLOATS];
    double wide_a[CHECK_FLOATS], wide_b[CHECK_FLOATS], wide_c[CHECK_FLOATS];
};

static bool
check_one(const struct matmul_provider *provider, const struct check_case *test,
          struct check_room *room)
{
    int lda = (test->transpose_a ? test->m : test->k) + test->slack;
    int ldb = (test->transpose_b ? test->k : test->n) + test->slack;
    int ldc = test->n + test->slack;
    memcpy(room->c, room->start, sizeof(room->c));
    for (int i = 0; i < CHECK_FLOATS; i++)
        room->wide_c[i] = (double)room->start[i];
    if (!provider->product(test->transpose_a, test->transpose_b, test->m, test->n,
                           test->k, test->alpha, room->a, lda, room->b, ldb, test->beta,
                           room->c, ldc))
        return false;
    matmul_double(test->transpose_a, test->transpose_b, test->m, test->n, test->k,
                  (double)test->alpha, room->wide_a, lda, room->wide_b, ldb,
                  (double)test->beta, room->wide_c, ldc);
    double bound = 4e-7 * (test->k + 4);
    for (int i = 0; i < CHECK_FLOATS; i++) {
        bool inside = i / ldc < test->m && i % ldc < test->n;
        double off = fabs((double)room->c[i] - room->wide_c[i]);
        if (inside ? !(off <= bound) : room->c[i] != room->start[i])
            return false;
    }
    /* The same in two calls, cut where the pool cuts. */
    if (test->m < 2 * MATMUL_ROWS_MIN)
        return true;
    int cut = MATMUL_ROWS_MIN;
    float *again = (float *)room->wide_c;
    memcpy(again, room->start, sizeof(room->start));
    const float *rest = room->a + (test->transpose_a ? cut : (int64_t)cut * lda);
    return provider->product(test->transpose_a, test->transpose_b, cut, test->n, test->k,
                             test->alpha, room->a, lda, room->b, ldb, test->beta, again,
                             ldc) &&
           provider->product(test->transpose_a, test->transpose_b, test->m - cut, test->n,
                             test->k, test->alpha, rest, lda, room->b, ldb, test->beta,
                             again + (int64_t)cut * ldc, ldc) &&
           /* Bit for bit. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
           memcmp(again, room->c, sizeof(room->c)) == 0;
}

bool
matmul_check(const struct matmul_provider *provider)
{
    struct check_room *room = xcalloc(1, sizeof(*room));
    check_fill(room->a, 1);
    check_fill(room->b, 2);
    check_fill(room->start, 3);
    for (int i = 0; i < CHECK_FLOATS; i++) {
        room->wide_a[i] = (double)room->a[i];
        room->wide_b[i] = (double)room->b[i];
    }
    bool good = true;
    for (size_t i = 0; good && i < sizeof(check_cases) / sizeof(check_cases[0]); i++)
        good = check_one(provider, &check_cases[i], room);
    free(room);
    return good;
}

const char *
matmul_setup(void)
{
    static const struct matmul_provider *const order[] = {
        &matmul_onednn, &matmul_openblas, &matmul_builtin};
    const char *wanted = getenv("FLOTILLA_MATMUL");
    const struct matmul_provider *found = NULL;
    for (int pass = wanted ? 0 : 1; pass < 2 && !found; pass++)
        for (int i = 0; i < 3 && !found; i++)
            if ((pass == 1 ? !order[i]->suits || order[i]->suits()
                           : strcmp(order[i]->name, wanted) == 0) &&
                matmul_check(order[i]))
                found = order[i];
    if (!found)
        found = &matmul_builtin;
    chosen = found;
    return found->name;
}

static void
setup_unless_done(void)
{
    if (!chosen)
        matmul_setup();
}

const char *
matmul_provider_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, setup_unless_done);
    const struct matmul_provider *provider = chosen;
    return provider->name;
}

void
matmul(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
       const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
    const struct matmul_provider *provider =
        atomic_load_explicit(&chosen, memory_order_relaxed);
    must(provider);
    if (m <= 0 || n <= 0)
        return;
    bool done = provider->product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b,
                                  ldb, beta, c, ldc);
    must(done);
}
