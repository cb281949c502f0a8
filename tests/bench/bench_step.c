/*
 * Time of a training step on one thread, and how far it is from what the processor's
 * fused multiply-adds allow: the peak is measured in the same run, so that a shared
 * machine slows both.
 */
#include "node/engine/matmul.h"
#include "node/engine/stage.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { CHAINS = 16, PEAK_ROUNDS = 2000000 };

#ifdef __x86_64__

__attribute__((target("avx512f"))) static double
peak_avx512(void)
{
    __m512 sum[CHAINS];
    __m512 factor = _mm512_set1_ps(0.9999F), term = _mm512_set1_ps(0.0001F);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    int64_t start = clock_thread_cpu_us();
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], factor, term);
    int64_t took = clock_thread_cpu_us() - start;
    float kept = 0;
    for (int i = 0; i < CHAINS; i++)
        kept += _mm512_reduce_add_ps(sum[i]);
    return kept >= 0 ? 2.0 * 16 * CHAINS * PEAK_ROUNDS / (double)took * 1e6 : 0;
}

__attribute__((target("avx2,fma"))) static double
peak_avx2(void)
{
    __m256 sum[CHAINS];
    __m256 factor = _mm256_set1_ps(0.9999F), term = _mm256_set1_ps(0.0001F);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    int64_t start = clock_thread_cpu_us();
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], factor, term);
    int64_t took = clock_thread_cpu_us() - start;
    float kept[8];
    for (int i = 1; i < CHAINS; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    _mm256_storeu_ps(kept, sum[0]);
    return kept[0] >= 0 ? 2.0 * 8 * CHAINS * PEAK_ROUNDS / (double)took * 1e6 : 0;
}

static double
peak(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return peak_avx512();
    return __builtin_cpu_supports("fma") ? peak_avx2() : 0;
}

#else

static double
peak(void)
{
    return 0; /* not measured here */
}

#endif

static double
step_flops(const struct model_shape *shape, int sequences)
{
    double sum = 0;
    for (int layer = 0; layer < workload_layers(shape); layer++)
        sum += workload_layer_flops(shape, layer);
    return sum * sequences * shape->context;
}

static void
bench(const char *name, const struct model_shape *shape, int sequences, int steps)
{
    struct err err;
    struct stage_spec spec = {0, workload_layers(shape), sequences, 1, false};
    struct stage *stage = stage_open(shape, &spec, 1, &err);
    if (!stage) {
        fprintf(stderr, "%s\n", err.msg);
        return;
    }
    stage_init(stage, 1);
    int count = sequences * (shape->context + 1);
    int32_t *tokens = xcalloc((size_t)count, sizeof(*tokens));
    for (int i = 0; i < count; i++)
        tokens[i] = (i * 37 + i * i % 11) % shape->vocabulary;
    double best = 0, best_peak = 0, loss = 0;
    int64_t parts[3] = {0, 0, 0};
    for (int step = 1; step <= steps; step++) {
        double now_peak = peak();
        best_peak = now_peak > best_peak ? now_peak : best_peak;
        int64_t start = clock_thread_cpu_us();
        stage_begin(stage);
        if (stage_forward(stage, 0, tokens, NULL, NULL, &loss, &err))
            break;
        int64_t forward = clock_thread_cpu_us();
        if (stage_backward(stage, 0, tokens, 1.0F / (float)(sequences * shape->context),
                           NULL, NULL, &err))
            break;
        int64_t backward = clock_thread_cpu_us();
        stage_tied_combine(stage, NULL);
        struct adamw options = {1e-3, 0.9, 0.95, 1e-8, 0.1, step, 1};
        stage_update(stage, &options);
        int64_t end = clock_thread_cpu_us();
        if (best == 0 || (double)(end - start) < best) {
            best = (double)(end - start);
            parts[0] = forward - start;
            parts[1] = backward - forward;
            parts[2] = end - backward;
        }
    }
    double tokens_in_step = (double)sequences * shape->context;
    printf("%s_step %.1f ms\n", name, best / 1e3);
    printf("%s_forward %.1f ms\n", name, (double)parts[0] / 1e3);
    printf("%s_backward %.1f ms\n", name, (double)parts[1] / 1e3);
    printf("%s_update %.1f ms\n", name, (double)parts[2] / 1e3);
    printf("%s_rate %.0f tokens/s\n", name, tokens_in_step / best * 1e6);
    if (best_peak > 0) {
        printf("%s_peak %.1f GFLOP/s\n", name, best_peak / 1e9);
        printf("%s_of_peak %.1f %%\n", name,
               100 * step_flops(shape, sequences) / best * 1e6 / best_peak);
    }
    free(tokens);
    stage_close(stage);
}

int
main(void)
{
    static const struct model_shape tiny = {
        .blocks = 6, .heads = 6, .hidden = 384, .context = 256, .vocabulary = 256};
    static const struct model_shape testnet = {
        .blocks = 4, .heads = 4, .hidden = 128, .context = 128, .vocabulary = 256};
    printf("# matrix products: %s\n", matmul_setup());
    bench("testnet_b16", &testnet, 16, 12);
    bench("testnet_b4", &testnet, 4, 24);
    bench("tiny_b8", &tiny, 8, 5);
    return 0;
}
