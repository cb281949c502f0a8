#include "node/engine/profile.h"
#include "node/engine/stage.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <stdlib.h>

enum {
    PROFILE_RUNS = 3,
    PROFILE_BUDGET_US = 500000,
    LONG_PASS_US = 1000000 /* the first pass, of cold caches, is as good as others */
};

/* One kind of layer by itself, in a model of one block. */
struct sample {
    struct stage *stage;
    const struct model_shape *shape;
    int micro_batch;
    int32_t *tokens;
    float *activation; /* in, and the gradient that comes back */
    float *out;
    enum layer_kind kind;
    int threads;
    profile_stop_fn *stop;
    void *stop_arg;
};

struct times {
    int64_t forward_us, backward_us, update_us;
};

static int
wanted(const struct sample *sample, struct err *err)
{
    if (sample->stop && sample->stop(sample->stop_arg))
        return err_set(err, ERR_STOPPED, "the measurement is not wanted any more");
    return 0;
}

static int
run_once(struct sample *sample, struct times *times, struct err *err)
{
    bool first = sample->kind == LAYER_EMBEDDING, last = sample->kind == LAYER_HEAD;
    const int32_t *tokens = first || last ? sample->tokens : NULL;
    const float *in = first ? NULL : sample->activation;
    const float *gradient = last ? NULL : sample->activation;
    float scale = 1.0F / ((float)sample->micro_batch * (float)sample->shape->context);
    double loss = 0;
    stage_begin(sample->stage);
    int64_t start_us = clock_thread_cpu_us();
    if (wanted(sample, err) || stage_forward(sample->stage, 0, tokens, in,
                                             last ? NULL : sample->out, &loss, err))
        return -1;
    int64_t forward_us = clock_thread_cpu_us();
    if (wanted(sample, err) || stage_backward(sample->stage, 0, tokens, scale, gradient,
                                              first ? NULL : sample->out, err))
        return -1;
    int64_t backward_us = clock_thread_cpu_us();
    /* A stage with one end of the tied embedding takes its own for the other's. */
    size_t tied;
    stage_tied_combine(sample->stage, stage_tied_gradient(sample->stage, &tied));
    int64_t combined_us = clock_thread_cpu_us();
    struct adamw options = {.learning_rate = 1e-6,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .epsilon = 1e-8,
                            .step = 1,
                            .clip_scale = 1};
    stage_update(sample->stage, &options);
    times->forward_us = forward_us - start_us;
    times->backward_us = backward_us - forward_us;
    times->update_us = clock_thread_cpu_us() - combined_us;
    return 0;
}

static int64_t
median_ns(int64_t a, int64_t b, int64_t c)
{
    int64_t low = a < b ? a : b, high = a < b ? b : a;
    int64_t middle = c < low ? low : c > high ? high : c;
    return middle > 0 ? middle * 1000 : 500; /* below the clock's grain */
}

static int
measure_kind(struct sample *sample, struct profile_entry *entry, struct err *err)
{
    struct stage_spec spec = {.first_layer = (int)sample->kind,
                              .layers = 1,
                              .micro_batch = sample->micro_batch,
                              .in_flight = 1};
    struct times times[PROFILE_RUNS + 1];
    sample->stage = stage_open(sample->shape, &spec, sample->threads, err);
    if (!sample->stage)
        return -1;
    stage_init(sample->stage, 1);
    int failed = 0;
    int64_t began_us = clock_us();
    for (int i = 0; i <= PROFILE_RUNS && !failed; i++) {
        failed = run_once(sample, &times[i], err);
        if (i == 0 && clock_us() - began_us > LONG_PASS_US) {
            times[1] = times[2] = times[3] = times[0];
            break;
        }
    }
    stage_close(sample->stage);
    if (failed)
        return -1;
    entry->forward_ns[sample->kind] =
        median_ns(times[1].forward_us, times[2].forward_us, times[3].forward_us);
    entry->backward_ns[sample->kind] =
        median_ns(times[1].backward_us, times[2].backward_us, times[3].backward_us);
    entry->update_ns[sample->kind] =
        median_ns(times[1].update_us, times[2].update_us, times[3].update_us);
    return 0;
}

static int64_t
sample_bytes(const struct model_shape *shape, int micro_batch)
{
    int64_t most = 0;
    for (int layer = 0; layer < LAYER_KINDS; layer++) {
        struct stage_spec spec = {.first_layer = layer,
                                  .layers = 1,
                                  .micro_batch = micro_batch,
                                  .in_flight = 1};
        struct stage_bytes bytes;
        workload_stage_bytes(shape, &spec, &bytes);
        most = bytes.total > most ? bytes.total : most;
    }
    return most + 2 * workload_boundary_bytes(shape, micro_batch);
}

static int
measure_size(struct sample *of, int micro_batch, struct profile_entry *entry,
             struct err *err)
{
    const struct model_shape *shape = of->shape;
    size_t rows = (size_t)micro_batch * (size_t)shape->context;
    size_t boundary = (size_t)workload_boundary_bytes(shape, micro_batch);
    struct sample sample = *of;
    sample.micro_batch = micro_batch;
    sample.activation = alloc_arena(2 * boundary);
    if (!sample.activation)
        return err_set(err, ERR_LIMIT, "no memory to profile a micro-batch of %d",
                       micro_batch);
    sample.out = sample.activation + boundary / sizeof(float);
    sample.tokens = xcalloc(rows + (size_t)micro_batch, sizeof(*sample.tokens));
    struct rng rng = {.seed = 1};
    for (size_t i = 0; i < rows + (size_t)micro_batch; i++)
        sample.tokens[i] = (int32_t)rng_below(&rng, (uint64_t)shape->vocabulary);
    for (size_t i = 0; i < boundary / sizeof(float); i++)
        sample.activation[i] = (float)(rng_unit(&rng) - 0.5);
    int failed = 0;
    for (int kind = 0; kind < LAYER_KINDS && !failed; kind++) {
        sample.kind = (enum layer_kind)kind;
        failed = measure_kind(&sample, entry, err);
    }
    entry->micro_batch = micro_batch;
    free(sample.tokens);
    arena_release(sample.activation, 2 * boundary);
    return failed;
}

/* Doubling sizes while memory and patience last: beyond the last one the planner
 * scales. */
struct profile *
profile_measure(const struct model_shape *shape, int sequences, int64_t memory_bytes,
                int threads, profile_stop_fn *stop, void *stop_arg, struct err *err)
{
    if (model_shape_check(shape, err))
        return NULL;
    struct model_shape small = *shape;
    small.blocks = 1;
    struct sample sample = {
        .shape = &small, .threads = threads, .stop = stop, .stop_arg = stop_arg};
    struct profile *profile = xcalloc(1, sizeof(*profile));
    profile->correction_ppm = 1000000;
    int64_t spent_us = 0;
    for (int size = 1; size <= sequences && profile->count < PROFILE_ENTRIES_MAX;
         size *= 2) {
        int64_t started_us = clock_us();
        if (sample_bytes(&small, size) > memory_bytes)
            break;
        if (measure_size(&sample, size, &profile->entries[profile->count], err)) {
            free(profile);
            return NULL;
        }
        profile->count++;
        /* The next takes about twice as long as this one. */
        int64_t took_us = clock_us() - started_us;
        spent_us += took_us;
        if (spent_us + 2 * took_us > PROFILE_BUDGET_US)
            break;
    }
    if (!profile->count) {
        err_set(err, ERR_LIMIT,
                "cannot profile: one sequence needs %lld bytes, there are %lld",
                (long long)sample_bytes(&small, 1), (long long)memory_bytes);
        free(profile);
        return NULL;
    }
    return profile;
}
