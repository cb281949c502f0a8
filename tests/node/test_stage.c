#include "node/engine/kernels.h"
#include "node/engine/pool.h"
#include "node/engine/stage.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"

#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_stage(void);

enum { MICRO_BATCH = 2, MICRO_BATCHES = 3, STEPS = 3, TENSORS = 64, STAGES = 5 };

static const struct model_shape shape = {
    .blocks = 3, .heads = 3, .hidden = 48, .context = 70, .vocabulary = 61};

static struct stage *
open_stage(int first, int layers, int in_flight, int threads)
{
    struct stage_spec spec = {first, layers, MICRO_BATCH, in_flight, false};
    struct err err;
    struct stage *stage = stage_open(&shape, &spec, threads, &err);
    ck_assert_ptr_nonnull(stage);
    return stage;
}

/* Tokens of one micro-batch of one step. */
static const int32_t *
tokens_of(int step, int micro_batch)
{
    static int32_t tokens[MICRO_BATCH * 71];
    struct rng rng = {.seed = 77, .stream = (uint64_t)(step * 100 + micro_batch)};
    for (int i = 0; i < MICRO_BATCH * (shape.context + 1); i++)
        tokens[i] = (int32_t)rng_below(&rng, (uint64_t)shape.vocabulary);
    return tokens;
}

/* A model cut into stages, trained by all of them in turn. */
struct run {
    int stages;
    struct stage *stage[STAGES];
    float *act[STAGES + 1], *grad[STAGES + 1];
    double losses[STEPS];
};

static void
run_open(struct run *run, const int *layers, int threads)
{
    memset(run, 0, sizeof(*run));
    size_t floats = (size_t)MICRO_BATCH * (size_t)shape.context * (size_t)shape.hidden;
    int first = 0;
    for (; first < workload_layers(&shape); first += layers[run->stages++]) {
        ck_assert_int_lt(run->stages, STAGES);
        run->stage[run->stages] =
            open_stage(first, layers[run->stages], MICRO_BATCHES, threads);
        stage_init(run->stage[run->stages], 5);
    }
    for (int i = 0; i <= run->stages; i++) {
        run->act[i] = xcalloc(floats, sizeof(float));
        run->grad[i] = xcalloc(floats, sizeof(float));
    }
}

static void
run_close(struct run *run)
{
    for (int i = 0; i < run->stages; i++)
        stage_close(run->stage[i]);
    for (int i = 0; i <= run->stages; i++) {
        free(run->act[i]);
        free(run->grad[i]);
    }
}

static void
run_forward(struct run *run, int step, int micro_batch, int slot)
{
    struct err err;
    int last = run->stages - 1;
    for (int i = 0; i <= last; i++)
        ck_assert_int_eq(
            stage_forward(run->stage[i], slot,
                          i == 0 || i == last ? tokens_of(step, micro_batch) : NULL,
                          i ? run->act[i] : NULL, i < last ? run->act[i + 1] : NULL,
                          i == last ? &run->losses[step] : NULL, &err),
            0);
}

static void
run_backward(struct run *run, int step, int micro_batch, int slot)
{
    struct err err;
    int last = run->stages - 1;
    float scale = 1.0F / (float)(MICRO_BATCHES * MICRO_BATCH * shape.context);
    for (int i = last; i >= 0; i--)
        ck_assert_int_eq(
            stage_backward(run->stage[i], slot,
                           i == 0 || i == last ? tokens_of(step, micro_batch) : NULL,
                           scale, i < last ? run->grad[i + 1] : NULL,
                           i ? run->grad[i] : NULL, &err),
            0);
}

static void
run_combine(struct run *run)
{
    size_t count;
    struct stage *first = run->stage[0], *last = run->stage[run->stages - 1];
    if (first == last) {
        stage_tied_combine(first, NULL);
        return;
    }
    float *head = stage_tied_gradient(last, &count);
    float *head_copy = xmemdup(head, count * sizeof(float));
    float *embedding = stage_tied_gradient(first, &count);
    for (int i = 1; i < run->stages - 1; i++) {
        ck_assert_ptr_null(stage_tied_gradient(run->stage[i], &count));
        stage_tied_combine(run->stage[i], NULL);
    }
    stage_tied_combine(last, embedding);
    stage_tied_combine(first, head_copy);
    free(head_copy);
}

/* In flight together, as a pipeline has them, or one after the other. */
static void
run_step(struct run *run, int step, bool together)
{
    for (int i = 0; i < run->stages; i++)
        stage_begin(run->stage[i]);
    for (int m = 0; m < MICRO_BATCHES; m++) {
        run_forward(run, step, m, together ? m : 0);
        if (!together)
            run_backward(run, step, m, 0);
    }
    for (int m = 0; together && m < MICRO_BATCHES; m++)
        run_backward(run, step, m, m);
    run_combine(run);
    double sums[TENSORS], norm = 0;
    int count = 0;
    for (int i = 0; i < run->stages; i++) {
        stage_norm_sums(run->stage[i], sums + count);
        count += stage_norm_count(run->stage[i]);
    }
    ck_assert_int_eq(count, workload_tensor_count(&shape));
    for (int i = 0; i < count; i++)
        norm += sums[i];
    struct adamw options = {.learning_rate = 1e-2,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .epsilon = 1e-8,
                            .weight_decay = 0.1,
                            .step = step + 1,
                            .clip_scale = fmin(1, 0.5 / sqrt(norm))};
    for (int i = 0; i < run->stages; i++)
        stage_update(run->stage[i], &options);
}

static void
runs_compare(struct run *run, struct run *other)
{
    for (int step = 0; step < STEPS; step++)
        ck_assert_msg(run->losses[step] == other->losses[step],
                      "losses of step %d: %.17g, %.17g", step, run->losses[step],
                      other->losses[step]);
    for (int i = 0; i < run->stages; i++)
        for (int t = 0; t < workload_tensor_count(&shape); t++)
            for (int kind = 0; kind < STATE_KINDS; kind++)
                for (int j = 0; j < other->stages; j++) {
                    struct tensor_spec tensor;
                    workload_tensor(&shape, t, &tensor);
                    size_t bytes = (size_t)tensor.elements * sizeof(float);
                    const float *ours =
                        stage_state(run->stage[i], t, (enum state_kind)kind);
                    const float *theirs =
                        stage_state(other->stage[j], t, (enum state_kind)kind);
                    if (!ours || !theirs)
                        continue;
                    ck_assert_msg(memcmp(ours, theirs, bytes) == 0, "%s differs, kind %d",
                                  tensor.name, kind);
                    ck_assert_msg(memcmp(stage_gradient(run->stage[i], t),
                                         stage_gradient(other->stage[j], t), bytes) == 0,
                                  "gradient of %s differs", tensor.name);
                }
}

static const int whole[STAGES] = {5};
static const int cuts[][STAGES] = {{3, 2}, {1, 4}, {4, 1}, {2, 2, 1}, {1, 1, 1, 1, 1}};

START_TEST(a_model_cut_into_stages_gives_the_bits_of_the_whole)
{
    struct run one, many;
    run_open(&one, whole, 1);
    run_open(&many, cuts[_i], 1);
    for (int step = 0; step < STEPS; step++) {
        run_step(&one, step, false);
        run_step(&many, step, true);
    }
    runs_compare(&one, &many);
    run_close(&one);
    run_close(&many);
}
END_TEST

START_TEST(threads_change_no_bit)
{
    struct run one, many;
    run_open(&one, whole, 1);
    run_open(&many, whole, _i);
    for (int step = 0; step < STEPS; step++) {
        run_step(&one, step, false);
        run_step(&many, step, false);
    }
    runs_compare(&one, &many);
    run_close(&one);
    run_close(&many);
}
END_TEST

START_TEST(what_a_step_does_not_write_it_does_not_read)
{
    struct run clean, dirty;
    run_open(&clean, cuts[3], 1);
    run_open(&dirty, cuts[3], 1);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < dirty.stages; i++)
            stage_poison(dirty.stage[i]);
        run_step(&clean, step, true);
        run_step(&dirty, step, true);
        ck_assert(isfinite(dirty.losses[step]));
    }
    runs_compare(&clean, &dirty);
    run_close(&clean);
    run_close(&dirty);
}
END_TEST

START_TEST(steps_take_no_memory)
{
    struct run run;
    run_open(&run, whole, 1);
    run_step(&run, 0, true);
    run_step(&run, 1, true);
    struct mallinfo2 before = mallinfo2();
    alloc_forbid();
    for (int i = 0; i < 5; i++)
        run_step(&run, 2, true);
    alloc_allow();
    struct mallinfo2 after = mallinfo2();
#ifndef __SANITIZE_ADDRESS__
    ck_assert_uint_eq(after.uordblks, before.uordblks);
#endif
    ck_assert_uint_eq(after.hblkhd, before.hblkhd);
    run_close(&run);
}
END_TEST

START_TEST(arenas_have_the_planned_size)
{
    struct err err;
    int checked = 0;
    for (int first = 0; first < workload_layers(&shape); first++)
        for (int layers = 1; first + layers <= workload_layers(&shape); layers++)
            for (int micro_batch = 1; micro_batch <= 4; micro_batch += 3)
                for (int in_flight = 1; in_flight <= 3; in_flight += 2) {
                    struct stage_spec spec = {first, layers, micro_batch, in_flight,
                                              true};
                    struct stage_bytes planned, held;
                    struct stage *stage = stage_open(&shape, &spec, 1, &err);
                    ck_assert_ptr_nonnull(stage);
                    workload_stage_bytes(&shape, &spec, &planned);
                    stage_bytes_held(stage, &held);
                    ck_assert_int_eq(held.weights, planned.weights);
                    ck_assert_int_eq(held.gradients, planned.gradients);
                    ck_assert_int_eq(held.optimizer, planned.optimizer);
                    ck_assert_int_eq(held.activations, planned.activations);
                    ck_assert_int_eq(held.workspace, planned.workspace);
                    ck_assert_int_eq(held.total + planned.communication + planned.copies,
                                     planned.total);
                    stage_close(stage);
                    checked++;
                }
    ck_assert_int_eq(checked, 60);
}
END_TEST

START_TEST(a_stage_too_large_for_memory_is_refused)
{
    struct stage_spec spec = {0, workload_layers(&shape), 1 << 24, 1 << 12, false};
    struct err err = {0};
    ck_assert_ptr_null(stage_open(&shape, &spec, 1, &err));
    ck_assert_int_eq(err.code, ERR_LIMIT);
    ck_assert_ptr_nonnull(
        strstr(err.msg, "for the activations of a stage; lower micro_batch"));
}
END_TEST

START_TEST(initial_weights_depend_on_seed_and_place_in_the_model_alone)
{
    struct run one, many;
    run_open(&one, whole, 1);
    run_open(&many, cuts[4], 1);
    struct tensor_spec tensor;
    for (int t = 0; t < workload_tensor_count(&shape); t++) {
        workload_tensor(&shape, t, &tensor);
        const float *weights = stage_state(one.stage[0], t, STATE_WEIGHT);
        double sum = 0, squares = 0;
        int64_t n = tensor.elements;
        for (int64_t i = 0; i < n; i++) {
            sum += (double)weights[i];
            squares += (double)weights[i] * (double)weights[i];
        }
        double deviation = tensor.init == INIT_NORMAL ? 0.02 : 0.02 / sqrt(6);
        if (tensor.init == INIT_ONE || tensor.init == INIT_ZERO) {
            double value = tensor.init == INIT_ONE;
            ck_assert_msg(sum == value * (double)n && squares == value * (double)n, "%s",
                          tensor.name);
        } else {
            ck_assert_double_eq_tol(sqrt(squares / (double)n), deviation,
                                    deviation * 0.08);
            ck_assert_double_eq_tol(sum / (double)n, 0, deviation * 0.1);
        }
        for (int i = 0; i < many.stages; i++) {
            const float *cut = stage_state(many.stage[i], t, STATE_WEIGHT);
            ck_assert(!cut || memcmp(cut, weights, (size_t)n * sizeof(float)) == 0);
        }
    }
    ck_assert_ptr_nonnull(
        stage_state(many.stage[4], 0, STATE_WEIGHT)); /* the tied copy */
    ck_assert_ptr_null(stage_state(many.stage[1], 0, STATE_WEIGHT));
    ck_assert_ptr_null(stage_state(many.stage[0], 2, STATE_WEIGHT));
    float before = stage_state(one.stage[0], 0, STATE_WEIGHT)[0];
    stage_init(one.stage[0], 6);
    ck_assert(stage_state(one.stage[0], 0, STATE_WEIGHT)[0] != before);
    run_close(&one);
    run_close(&many);
}
END_TEST

START_TEST(updates_agree_with_adamw_in_double)
{
    struct run run;
    run_open(&run, whole, 1);
    struct stage *stage = run.stage[0];
    int tensors = workload_tensor_count(&shape);
    double *state[3][TENSORS];
    struct tensor_spec tensor;
    for (int kind = 0; kind < 3; kind++)
        for (int t = 0; t < tensors; t++) {
            workload_tensor(&shape, t, &tensor);
            const float *from = stage_state(stage, t, (enum state_kind)kind);
            state[kind][t] = xcalloc((size_t)tensor.elements, sizeof(double));
            for (int64_t i = 0; i < tensor.elements; i++)
                state[kind][t][i] = (double)from[i];
        }
    for (int step = 1; step <= 4; step++) {
        stage_begin(stage);
        run_forward(&run, 0, step, 0);
        run_backward(&run, 0, step, 0);
        stage_tied_combine(stage, NULL);
        struct adamw o = {3e-3, 0.9, 0.99, 1e-6, 0.2, step, 0.7};
        stage_update(stage, &o);
        for (int t = 0; t < tensors; t++) {
            workload_tensor(&shape, t, &tensor);
            const float *weights = stage_state(stage, t, STATE_WEIGHT);
            const float *gradient = stage_gradient(stage, t);
            double off = 0, moved = 0;
            for (int64_t i = 0; i < tensor.elements; i++) {
                double *w = &state[0][t][i], *m = &state[1][t][i], *v = &state[2][t][i];
                double g = (double)gradient[i] * o.clip_scale, before = *w;
                *m = o.beta1 * *m + (1 - o.beta1) * g;
                *v = o.beta2 * *v + (1 - o.beta2) * g * g;
                double corrected = *m / (1 - pow(o.beta1, step));
                double root = sqrt(*v / (1 - pow(o.beta2, step)));
                if (tensor.decay)
                    *w -= o.learning_rate * o.weight_decay * *w;
                *w -= o.learning_rate * corrected / (root + o.epsilon);
                off += ((double)weights[i] - *w) * ((double)weights[i] - *w);
                moved += (*w - before) * (*w - before);
            }
            ck_assert_msg(sqrt(off / moved) < 1e-4, "%s: %.2e", tensor.name,
                          sqrt(off / moved));
        }
    }
    for (int kind = 0; kind < 3; kind++)
        for (int t = 0; t < tensors; t++)
            free(state[kind][t]);
    run_close(&run);
}
END_TEST

START_TEST(a_token_outside_the_vocabulary_is_refused)
{
    struct run run;
    run_open(&run, whole, 1);
    struct err err = {0};
    int32_t tokens[MICRO_BATCH * 71] = {0};
    double loss = 0;
    tokens[100] = 61;
    ck_assert_int_eq(stage_forward(run.stage[0], 0, tokens, NULL, NULL, &loss, &err), -1);
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, "token 61 at place 100"));
    tokens[100] = -1;
    ck_assert_int_eq(stage_forward(run.stage[0], 0, tokens, NULL, NULL, &loss, &err), -1);
    ck_assert(loss == 0);
    ck_assert_int_eq(stage_backward(run.stage[0], 0, tokens, 1, NULL, NULL, &err), -1);
    run_close(&run);
}
END_TEST

START_TEST(a_step_without_micro_batches_has_gradients_of_zero)
{
    struct run run;
    run_open(&run, whole, 1);
    run_step(&run, 0, false);
    size_t count;
    stage_begin(run.stage[0]);
    const float *gradients = stage_gradients(run.stage[0], &count);
    struct stage_bytes held;
    stage_bytes_held(run.stage[0], &held);
    ck_assert_uint_eq(count * sizeof(float), (size_t)held.gradients);
    size_t zeros = 0;
    for (size_t i = 0; i < count; i++)
        zeros += gradients[i] == 0;
    ck_assert_uint_eq(zeros, count);
    run_close(&run);
}
END_TEST

/* Gradients of the micro-batches [from, end), as one array of all tensors. */
static float *
gradients_of(struct run *run, int from, int end, size_t *count)
{
    stage_poison(run->stage[0]);
    stage_begin(run->stage[0]);
    for (int m = from; m < end; m++) {
        run_forward(run, 0, m, 0);
        run_backward(run, 0, m, 0);
    }
    const float *gradients = stage_gradients(run->stage[0], count);
    return xmemdup(gradients, *count * sizeof(float));
}

START_TEST(gradients_of_micro_batches_add_up)
{
    struct run run;
    run_open(&run, whole, 1);
    size_t count;
    float *first = gradients_of(&run, 0, 1, &count),
          *second = gradients_of(&run, 1, 2, &count);
    float *both = gradients_of(&run, 0, 2, &count);
    for (int t = 0; t < workload_tensor_count(&shape) + 1; t++) {
        struct tensor_spec tensor;
        struct stage_spec spec = {0, workload_layers(&shape), MICRO_BATCH, 1, false};
        struct stage_layout layout;
        workload_stage_layout(&shape, &spec, &layout);
        bool head = t == workload_tensor_count(&shape); /* its gradient of the table */
        workload_tensor(&shape, head ? 0 : t, &tensor);
        int64_t place =
            head ? layout.tied_gradient : workload_gradient_place(&shape, &layout, t);
        double off = 0, norm = 0;
        for (int64_t i = place; i < place + tensor.elements; i++) {
            double sum = (double)first[i] + (double)second[i];
            off += ((double)both[i] - sum) * ((double)both[i] - sum);
            norm += sum * sum;
        }
        ck_assert_msg(norm > 0 && sqrt(off / norm) < 1e-6, "%s%s: %.2e", tensor.name,
                      head ? " of the head" : "", sqrt(off / norm));
    }
    free(first);
    free(second);
    free(both);
    run_close(&run);
}
END_TEST

START_TEST(logits_of_prefixes_add_up_to_the_loss)
{
    struct stage_spec spec = {0, workload_layers(&shape), 1, 1, false};
    struct err err;
    struct stage *stage = stage_open(&shape, &spec, 1, &err);
    stage_init(stage, 9);
    const int32_t *tokens = tokens_of(0, 0);
    double loss = 0, sum = 0;
    ck_assert_int_eq(stage_forward(stage, 0, tokens, NULL, NULL, &loss, &err), 0);
    float logits[64];
    for (int count = 1; count <= shape.context; count++) {
        ck_assert_int_eq(stage_logits(stage, tokens, count, logits, &err), 0);
        double total = 0;
        for (int i = 0; i < shape.vocabulary; i++)
            total += exp((double)logits[i]);
        sum += log(total) - (double)logits[tokens[count]];
    }
    ck_assert_double_eq_tol(loss, sum, 1e-5 * sum);
    int32_t bad = 99;
    ck_assert_int_eq(stage_logits(stage, &bad, 1, logits, &err), -1);
    stage_close(stage);
}
END_TEST

START_TEST(a_batch_seen_again_and_again_is_learnt)
{
    struct run run;
    run_open(&run, whole, 1);
    for (int i = 0; i < 40; i++) {
        run.losses[0] = 0;
        run_step(&run, 0, false);
    }
    double loss = run.losses[0] / (MICRO_BATCHES * MICRO_BATCH * shape.context);
    ck_assert_double_lt(loss, 2.0); /* from ln 61 = 4.1 */
    run_close(&run);
}
END_TEST

/* ---- kernels and pool ---- */

enum { ROWS = 9, COLUMNS = 83, STRIDE = 96, COUNT = ROWS * STRIDE };

static void
kernels_try(const struct kernels *kernels, float out[8][COUNT])
{
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)rng_normal(1, 1, (uint64_t)i) * 3;
        y[i] = (float)rng_normal(1, 2, (uint64_t)i);
    }
    const int32_t targets[ROWS] = {0, 82, 5, 5, 40, 41, 3, 2, 1};
    memset(out, 0, sizeof(float[8][COUNT]));
    kernels->norm_forward(ROWS, COLUMNS, x, y, y + 100, out[0], out[1], out[1] + ROWS);
    kernels->norm_backward(ROWS, COLUMNS, x, y, out[1], out[1] + ROWS, y, out[2], false);
    kernels->norm_parameters(0, COLUMNS, ROWS, COLUMNS, x, out[1], out[1] + ROWS, y,
                             out[1] + 100, out[1] + 200, false);
    kernels->column_sums(0, COLUMNS, ROWS, COLUMNS, x, out[1] + 300, false);
    kernels->gelu_forward(COUNT - 3, x, out[3]);
    memcpy(out[5], y, sizeof(y));
    kernels->gelu_backward(COUNT - 3, x, out[4], out[5]);
    memcpy(out[6], x, sizeof(x));
    kernels->softmax_forward(ROWS, 70, 79, out[6], STRIDE, out[1] + 400, out[1] + 420);
    memcpy(out[7], x, sizeof(x));
    kernels->cross_entropy(ROWS, COLUMNS, out[7], STRIDE, targets, out[1] + 440);
    kernels->row_dots(ROWS, COLUMNS, x, y, STRIDE, out[1] + 460);
    double squares = kernels->squares(COUNT - 5, x);
    memcpy(out[1] + 480, &squares, sizeof(squares));
    struct adamw_factors factors = {0.5F,  0.9F, 0.1F,  0.99F, 0.01F,
                                    0.01F, 3,    1e-8F, 0.999F};
    kernels->adamw(COUNT - 7, out[2], y, out[3], out[4], &factors);
}

START_TEST(every_instruction_set_gives_the_same_bits)
{
    static float base[8][COUNT], other[8][COUNT];
    kernels_try(kernels_set(KERNELS_BASE), base);
    for (int set = KERNELS_BASE + 1; set < KERNELS_SETS; set++) {
        if (!kernels_set(set)) {
            suite_skip(set == KERNELS_AVX2 ? "AVX2 kernels" : "AVX-512 kernels",
                       "this processor has no such instructions");
            continue;
        }
        kernels_try(kernels_set(set), other);
        for (int i = 0; i < 8; i++)
            /* Bit for bit. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
            ck_assert_msg(memcmp(base[i], other[i], sizeof(base[i])) == 0,
                          "set %d, output %d", set, i);
    }
}
END_TEST

static int
threads_of_this_process(void)
{
    DIR *folder = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(folder);
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

static void
count_items(void *context, int64_t first, int64_t end, int thread)
{
    unsigned char *seen = context;
    (void)thread;
    for (int64_t i = first; i < end; i++)
        seen[i]++;
}

START_TEST(a_pool_gives_every_item_to_one_thread)
{
    static const int64_t grains[] = {1, 7, 32, 100};
    struct err err;
    int before = threads_of_this_process();
    for (int threads = 1; threads <= 4; threads++) {
        struct pool *pool = pool_new(threads, &err);
        ck_assert_ptr_nonnull(pool);
        ck_assert_int_eq(threads_of_this_process(), before + threads - 1);
        for (int grain = 0; grain < 4; grain++)
            for (int count = 0; count < 300; count += 13) {
                unsigned char seen[300] = {0};
                pool_run(pool, count, grains[grain], count_items, seen);
                int wrong = 0;
                for (int i = 0; i < 300; i++)
                    wrong += seen[i] != (i < count);
                ck_assert_int_eq(wrong, 0);
            }
        pool_free(pool);
    }
}
END_TEST

Suite *
suite_stage(void)
{
    Suite *suite = suite_create("stage");
    TCase *tests = suite_case(suite, "stage", 120);
    tcase_add_loop_test(tests, a_model_cut_into_stages_gives_the_bits_of_the_whole, 0, 5);
    tcase_add_loop_test(tests, threads_change_no_bit, 2, 4);
    tcase_add_test(tests, what_a_step_does_not_write_it_does_not_read);
    tcase_add_test(tests, steps_take_no_memory);
    tcase_add_test(tests, arenas_have_the_planned_size);
    tcase_add_test(tests, a_stage_too_large_for_memory_is_refused);
    tcase_add_test(tests, initial_weights_depend_on_seed_and_place_in_the_model_alone);
    tcase_add_test(tests, updates_agree_with_adamw_in_double);
    tcase_add_test(tests, a_token_outside_the_vocabulary_is_refused);
    tcase_add_test(tests, a_step_without_micro_batches_has_gradients_of_zero);
    tcase_add_test(tests, gradients_of_micro_batches_add_up);
    tcase_add_test(tests, logits_of_prefixes_add_up_to_the_loss);
    tcase_add_test(tests, a_batch_seen_again_and_again_is_learnt);
    TCase *parts = suite_case(suite, "kernels", 20);
    tcase_add_test(parts, every_instruction_set_gives_the_same_bits);
    tcase_add_test(parts, a_pool_gives_every_item_to_one_thread);
    return suite;
}
