/* stage_body.h - the stage of stage.h for `real`; see real.h. */
#include "node/engine/matmul.h"
#include "node/engine/stage.h"
#include "node/engine/tensor.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UPDATE_GRAIN = 16384 };

/* Streams of initial weights; others use the same seed for other things. */
static const uint64_t weights_stream = (uint64_t)1 << 40;

/* Tensors of a block in file order (planner/workload.c). */
enum block_tensor {
    NORM1_GAIN,
    NORM1_BIAS,
    QKV_WEIGHT,
    QKV_BIAS,
    PROJECTION_WEIGHT,
    PROJECTION_BIAS,
    NORM2_GAIN,
    NORM2_BIAS,
    UP_WEIGHT,
    UP_BIAS,
    DOWN_WEIGHT,
    DOWN_BIAS,
    BLOCK_TENSORS
};

/* A tensor held here: all whose home is a layer of the stage, and wte on the last
 * stage. */
struct held {
    int tensor;
    bool decay;
    int64_t elements;
    int64_t weight, gradient; /* places */
};

struct stage {
    struct model_shape shape;
    struct stage_spec spec;
    struct stage_layout layout;
    struct compute compute;
    real *weights, *gradients, *moments, *activations, *workspace;
    bool fresh; /* gradients are to be taken as zero */
    int held_count;
    struct held *held; /* in tensor order, the copy of wte first */
};

/* ---- memory ---- */

static int
arena(real **out, int64_t reals, const char *what, struct err *err)
{
    *out = alloc_arena((size_t)reals * sizeof(real));
    if (*out)
        return 0;
    return err_set(
        err, ERR_LIMIT,
        "could not get %.1f MiB of memory for %s of a stage; lower micro_batch or add "
        "a node",
        (double)reals * (double)sizeof(real) / 1048576, what);
}

static void
held_fill(struct stage *stage)
{
    const struct stage_layout *layout = &stage->layout;
    bool copy = layout->head && !layout->embedding;
    stage->held_count = layout->tensors + copy;
    stage->held = xcalloc((size_t)stage->held_count, sizeof(*stage->held));
    for (int i = 0; i < stage->held_count; i++) {
        struct held *held = &stage->held[i];
        held->tensor =
            copy ? (i == 0 ? 0 : layout->first_tensor + i - 1) : layout->first_tensor + i;
        struct tensor_spec spec;
        workload_tensor(&stage->shape, held->tensor, &spec);
        held->decay = spec.decay;
        held->elements = spec.elements;
        held->weight = workload_weight_place(&stage->shape, layout, held->tensor);
        held->gradient = workload_gradient_place(&stage->shape, layout, held->tensor);
    }
}

struct stage *
stage_open(const struct model_shape *shape, const struct stage_spec *spec, int threads,
           struct err *err)
{
    matmul_provider_name(); /* is chosen by now */
    struct stage *stage = xcalloc(1, sizeof(*stage));
    stage->shape = *shape;
    stage->spec = *spec;
    stage->compute.kernels = kernels_choose();
    workload_stage_layout(shape, spec, &stage->layout);
    held_fill(stage);
    const struct stage_layout *layout = &stage->layout;
    if (arena(&stage->weights, layout->weights, "the weights", err) ||
        arena(&stage->gradients, layout->gradients, "the gradients", err) ||
        arena(&stage->moments, layout->weights * 2, "the optimizer", err) ||
        arena(&stage->activations, layout->slot * spec->in_flight, "the activations",
              err) ||
        arena(&stage->workspace, layout->workspace, "the workspace", err))
        goto fail;
    stage->compute.pool = pool_new(threads, err);
    if (!stage->compute.pool)
        goto fail;
    stage->fresh = true;
    return stage;
fail:
    stage_close(stage);
    return NULL;
}

void
stage_close(struct stage *stage)
{
    if (!stage)
        return;
    struct stage_bytes bytes;
    stage_bytes_held(stage, &bytes);
    pool_free(stage->compute.pool);
    arena_release(stage->weights, (size_t)bytes.weights);
    arena_release(stage->gradients, (size_t)bytes.gradients);
    arena_release(stage->moments, (size_t)bytes.optimizer);
    arena_release(stage->activations, (size_t)bytes.activations);
    arena_release(stage->workspace, (size_t)bytes.workspace);
    free(stage->held);
    free(stage);
}

void
stage_bytes_held(const struct stage *stage, struct stage_bytes *out)
{
    const struct stage_layout *layout = &stage->layout;
    const int64_t size = sizeof(real);
    memset(out, 0, sizeof(*out));
    out->weights = layout->weights * size;
    out->gradients = layout->gradients * size;
    out->optimizer = layout->weights * 2 * size;
    out->activations = layout->slot * stage->spec.in_flight * size;
    out->workspace = layout->workspace * size;
    out->total = out->weights + out->gradients + out->optimizer + out->activations +
                 out->workspace;
}

struct init_job {
    real *out;
    uint64_t seed, stream;
    double deviation;
};

static void
init_elements(void *context, int64_t first, int64_t end, int thread)
{
    const struct init_job *job = context;
    (void)thread;
    for (int64_t i = first; i < end; i++)
        job->out[i] =
            (real)(rng_normal(job->seed, job->stream, (uint64_t)i) * job->deviation);
}

void
stage_init(struct stage *stage, uint64_t seed)
{
    memset(stage->moments, 0, (size_t)stage->layout.weights * 2 * sizeof(real));
    for (int i = 0; i < stage->held_count; i++) {
        const struct held *held = &stage->held[i];
        struct tensor_spec spec;
        workload_tensor(&stage->shape, held->tensor, &spec);
        real *out = stage->weights + held->weight;
        struct init_job job = {out, seed, weights_stream + (uint64_t)held->tensor,
                               spec.init == INIT_NORMAL_RESIDUAL
                                   ? 0.02 / sqrt(2.0 * stage->shape.blocks)
                                   : 0.02};
        switch (spec.init) {
        case INIT_NORMAL:
        case INIT_NORMAL_RESIDUAL:
            pool_run(stage->compute.pool, held->elements, UPDATE_GRAIN, init_elements,
                     &job);
            break;
        case INIT_ONE:
        case INIT_ZERO:
            for (int64_t j = 0; j < held->elements; j++)
                out[j] = spec.init == INIT_ONE ? 1 : 0;
        }
    }
    stage->fresh = true;
}

/* ---- places ---- */

/* A block and one slot: its weights and gradients (by enum block_tensor) and
 * activations. */
struct block {
    const real *weight[BLOCK_TENSORS];
    real *gradient[BLOCK_TENSORS];
    struct norm norm1, norm2;
    struct attention attention;
    real *input, *qkv, *attended, *middle, *hidden;
    int rows, columns;
};

static real *
slot_start(const struct stage *stage, int slot)
{
    must(slot >= 0 && slot < stage->spec.in_flight);
    return stage->activations + slot * stage->layout.slot;
}

/* Number of block `j`'s first tensor in stage->held. */
static int
block_first(const struct stage *stage, int j)
{
    int before = stage->layout.embedding ? 2 : stage->held_count - stage->layout.tensors;
    return before + j * BLOCK_TENSORS;
}

static void
block_places(const struct stage *stage, int slot, int j, int sequences, int length,
             struct block *out)
{
    const struct stage_layout *layout = &stage->layout;
    real *base = slot_start(stage, slot) + j * layout->block;
    const struct held *held = stage->held + block_first(stage, j);
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        out->weight[i] = stage->weights + held[i].weight;
        out->gradient[i] = stage->gradients + held[i].gradient;
    }
    out->rows = sequences * length;
    out->columns = stage->shape.hidden;
    out->input = base + layout->block_input;
    out->qkv = base + layout->block_qkv;
    out->attended = base + layout->block_attention;
    out->middle = base + layout->block_middle;
    out->hidden = base + layout->block_hidden;
    real *norms = base + layout->block_norms;
    int64_t rows = layout->rows;
    out->norm1 = (struct norm){out->rows,
                               out->columns,
                               out->input,
                               out->weight[NORM1_GAIN],
                               out->weight[NORM1_BIAS],
                               norms,
                               norms + rows};
    out->norm2 = (struct norm){out->rows,
                               out->columns,
                               out->middle,
                               out->weight[NORM2_GAIN],
                               out->weight[NORM2_BIAS],
                               norms + 2 * rows,
                               norms + 3 * rows};
    out->attention = (struct attention){
        .sequences = sequences,
        .length = length,
        .heads = stage->shape.heads,
        .columns = out->columns,
        .qkv = out->qkv,
        .out = out->attended,
        .maximum = base + layout->block_softmax,
        .inverse = base + layout->block_softmax + rows * stage->shape.heads,
        .scratch = stage->workspace + layout->scratch,
        .scratch_stride = layout->attention_scratch,
    };
}

static struct norm
head_norm(const struct stage *stage, int slot)
{
    const struct stage_layout *layout = &stage->layout;
    real *base = slot_start(stage, slot);
    const struct held *held = stage->held + stage->held_count - 2;
    real *norms = base + layout->head_norms;
    return (struct norm){layout->rows,
                         stage->shape.hidden,
                         base + layout->head_input,
                         stage->weights + held[0].weight,
                         stage->weights + held[1].weight,
                         norms,
                         norms + layout->rows};
}

/* Where the input of block `j` goes; of what follows the last block: the head's input or
 * `out`. */
static real *
stream_place(const struct stage *stage, int slot, int j, real *out)
{
    const struct stage_layout *layout = &stage->layout;
    if (j < layout->blocks)
        return slot_start(stage, slot) + j * layout->block + layout->block_input;
    return layout->head ? slot_start(stage, slot) + layout->head_input : out;
}

static int
tokens_check(const struct stage *stage, const int32_t *tokens, int64_t count,
             struct err *err)
{
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= stage->shape.vocabulary)
            return err_set(
                err, ERR_CORRUPT,
                "token %d at place %lld of a micro-batch is outside the vocabulary of "
                "%d; the data does not fit the model",
                (int)tokens[i], (long long)i, stage->shape.vocabulary);
    return 0;
}

/* ---- forward ---- */

/* y = x W (+ what is in y), with W [in, out]. */
static void
linear_add(const struct stage *stage, int rows, int in, int out, const real *x,
           const real *weight, real *y)
{
    struct product product = {.m = rows,
                              .n = out,
                              .k = in,
                              .alpha = 1,
                              .beta = 1,
                              .a = x,
                              .lda = in,
                              .b = weight,
                              .ldb = out,
                              .c = y,
                              .ldc = out};
    tensor_product(&stage->compute, &product);
}

static void
block_forward(const struct stage *stage, const struct block *b, real *next)
{
    const struct compute *compute = &stage->compute;
    real *norm = stage->workspace + stage->layout.norm;
    real *wide = stage->workspace + stage->layout.wide;
    int rows = b->rows, c = b->columns;

    tensor_norm_forward(compute, &b->norm1, norm);
    tensor_bias_rows(compute, rows, (int64_t)3 * c, NULL, b->weight[QKV_BIAS], b->qkv);
    linear_add(stage, rows, c, 3 * c, norm, b->weight[QKV_WEIGHT], b->qkv);
    attention_forward(compute, &b->attention);
    tensor_bias_rows(compute, rows, c, b->input, b->weight[PROJECTION_BIAS], b->middle);
    linear_add(stage, rows, c, c, b->attended, b->weight[PROJECTION_WEIGHT], b->middle);

    tensor_norm_forward(compute, &b->norm2, norm);
    tensor_bias_rows(compute, rows, (int64_t)4 * c, NULL, b->weight[UP_BIAS], b->hidden);
    linear_add(stage, rows, c, 4 * c, norm, b->weight[UP_WEIGHT], b->hidden);
    tensor_gelu_forward(compute, (int64_t)rows * 4 * c, b->hidden, wide);
    tensor_bias_rows(compute, rows, c, b->middle, b->weight[DOWN_BIAS], next);
    linear_add(stage, rows, 4 * c, c, wide, b->weight[DOWN_WEIGHT], next);
}

/* logits = norm wte^T */
static void
logits_fill(const struct stage *stage, int rows, const real *norm, real *logits,
            int64_t stride)
{
    int hidden = stage->shape.hidden;
    struct product product = {.transpose_b = true,
                              .m = rows,
                              .n = stage->shape.vocabulary,
                              .k = hidden,
                              .alpha = 1,
                              .beta = 0,
                              .a = norm,
                              .lda = hidden,
                              .b = stage->weights + stage->layout.tied_weight,
                              .ldb = hidden,
                              .c = logits,
                              .ldc = (int)stride};
    tensor_product(&stage->compute, &product);
}

static void
head_forward(const struct stage *stage, int slot, const int32_t *tokens, double *loss_sum)
{
    const struct stage_layout *layout = &stage->layout;
    const struct compute *compute = &stage->compute;
    int rows = (int)layout->rows, length = stage->shape.context;
    real *norm = stage->workspace + layout->norm;
    real *losses = stage->workspace + layout->narrow;
    real *logits = slot_start(stage, slot) + layout->head_logits;
    struct norm final = head_norm(stage, slot);
    tensor_norm_forward(compute, &final, norm);
    logits_fill(stage, rows, norm, logits, layout->logits_stride);
    for (int i = 0; i < stage->spec.micro_batch; i++)
        tensor_cross_entropy(
            compute, length, stage->shape.vocabulary,
            logits + (int64_t)i * length * layout->logits_stride, layout->logits_stride,
            tokens + (int64_t)i * (length + 1) + 1, losses + (int64_t)i * length);
    double sum = 0;
    for (int i = 0; i < rows; i++)
        sum += (double)losses[i];
    *loss_sum += sum;
}

static struct embedding
embedding_of(const struct stage *stage, const int32_t *tokens)
{
    return (struct embedding){stage->spec.micro_batch, stage->shape.context,
                              stage->shape.hidden, tokens, stage->shape.context + 1};
}

int
stage_forward(struct stage *stage, int slot, const int32_t *tokens, const real *in,
              real *out, double *loss_sum, struct err *err)
{
    const struct stage_layout *layout = &stage->layout;
    if (layout->embedding || layout->head) {
        must(tokens);
        int64_t count = stage->spec.micro_batch * ((int64_t)stage->shape.context + 1);
        if (tokens_check(stage, tokens, count, err))
            return -1;
    }
    must(layout->head ? loss_sum != NULL : out != NULL);
    alloc_forbid();
    real *start = stream_place(stage, slot, 0, out);
    if (layout->embedding) {
        struct embedding embedding = embedding_of(stage, tokens);
        tensor_embedding_forward(&stage->compute, &embedding,
                                 stage->weights + stage->held[0].weight,
                                 stage->weights + stage->held[1].weight, start);
    } else {
        must(in);
        memcpy(start, in, (size_t)(layout->rows * stage->shape.hidden) * sizeof(real));
    }
    for (int j = 0; j < layout->blocks; j++) {
        struct block block;
        block_places(stage, slot, j, stage->spec.micro_batch, stage->shape.context,
                     &block);
        block_forward(stage, &block, stream_place(stage, slot, j + 1, out));
    }
    if (layout->head)
        head_forward(stage, slot, tokens, loss_sum);
    alloc_allow();
    return 0;
}

/* ---- backward ---- */

/* dx = dy W^T, for y = x W with W [in, out]. */
static void
linear_input(const struct stage *stage, int rows, int in, int out, const real *dy,
             const real *weight, real *dx)
{
    struct product product = {.transpose_b = true,
                              .m = rows,
                              .n = in,
                              .k = out,
                              .alpha = 1,
                              .beta = 0,
                              .a = dy,
                              .lda = out,
                              .b = weight,
                              .ldb = out,
                              .c = dx,
                              .ldc = in};
    tensor_product(&stage->compute, &product);
}

/* dW += x^T dy and dbias += sums of dy; set when the gradients are fresh. */
static void
linear_parameters(const struct stage *stage, int rows, int in, int out, const real *x,
                  const real *dy, real *dweight, real *dbias)
{
    struct product product = {.transpose_a = true,
                              .m = in,
                              .n = out,
                              .k = rows,
                              .alpha = 1,
                              .beta = stage->fresh ? 0 : 1,
                              .a = x,
                              .lda = in,
                              .b = dy,
                              .ldb = out,
                              .c = dweight,
                              .ldc = out};
    tensor_product(&stage->compute, &product);
    tensor_column_sums(&stage->compute, rows, out, dy, dbias, !stage->fresh);
}

/* d: gradient of the block's output in, of its input out. */
static void
block_backward(const struct stage *stage, const struct block *b, real *d)
{
    const struct compute *compute = &stage->compute;
    const struct stage_layout *layout = &stage->layout;
    real *norm = stage->workspace + layout->norm,
         *narrow = stage->workspace + layout->narrow;
    real *wide = stage->workspace + layout->wide,
         *gelu = stage->workspace + layout->scratch;
    int rows = b->rows, c = b->columns;
    bool add = !stage->fresh;

    linear_input(stage, rows, 4 * c, c, d, b->weight[DOWN_WEIGHT], wide);
    tensor_gelu_backward(compute, (int64_t)rows * 4 * c, b->hidden, gelu, wide);
    linear_parameters(stage, rows, 4 * c, c, gelu, d, b->gradient[DOWN_WEIGHT],
                      b->gradient[DOWN_BIAS]);
    tensor_norm_again(compute, &b->norm2, norm);
    linear_parameters(stage, rows, c, 4 * c, norm, wide, b->gradient[UP_WEIGHT],
                      b->gradient[UP_BIAS]);
    linear_input(stage, rows, c, 4 * c, wide, b->weight[UP_WEIGHT], narrow);
    tensor_norm_backward(compute, &b->norm2, narrow, d, true, b->gradient[NORM2_GAIN],
                         b->gradient[NORM2_BIAS], add);

    linear_input(stage, rows, c, c, d, b->weight[PROJECTION_WEIGHT], narrow);
    linear_parameters(stage, rows, c, c, b->attended, d, b->gradient[PROJECTION_WEIGHT],
                      b->gradient[PROJECTION_BIAS]);
    attention_backward(compute, &b->attention, narrow, wide);
    tensor_norm_again(compute, &b->norm1, norm);
    linear_parameters(stage, rows, c, 3 * c, norm, wide, b->gradient[QKV_WEIGHT],
                      b->gradient[QKV_BIAS]);
    linear_input(stage, rows, c, 3 * c, wide, b->weight[QKV_WEIGHT], narrow);
    tensor_norm_backward(compute, &b->norm1, narrow, d, true, b->gradient[NORM1_GAIN],
                         b->gradient[NORM1_BIAS], add);
}

/* d = gradient of the head's input. */
static void
head_backward(const struct stage *stage, int slot, real loss_scale, real *d)
{
    const struct stage_layout *layout = &stage->layout;
    int hidden = stage->shape.hidden, stride = (int)layout->logits_stride;
    real *norm = stage->workspace + layout->norm,
         *narrow = stage->workspace + layout->narrow;
    const real *dlogits = slot_start(stage, slot) + layout->head_logits;
    const struct held *held = stage->held + stage->held_count - 2;
    struct norm final = head_norm(stage, slot);
    tensor_norm_again(&stage->compute, &final, norm);
    struct product table = {.transpose_a = true,
                            .m = stage->shape.vocabulary,
                            .n = hidden,
                            .k = (int)layout->rows,
                            .alpha = loss_scale,
                            .beta = stage->fresh ? 0 : 1,
                            .a = dlogits,
                            .lda = stride,
                            .b = norm,
                            .ldb = hidden,
                            .c = stage->gradients + layout->tied_gradient,
                            .ldc = hidden};
    tensor_product(&stage->compute, &table);
    struct product input = {.m = (int)layout->rows,
                            .n = hidden,
                            .k = stage->shape.vocabulary,
                            .alpha = loss_scale,
                            .beta = 0,
                            .a = dlogits,
                            .lda = stride,
                            .b = stage->weights + layout->tied_weight,
                            .ldb = hidden,
                            .c = narrow,
                            .ldc = hidden};
    tensor_product(&stage->compute, &input);
    tensor_norm_backward(&stage->compute, &final, narrow, d, false,
                         stage->gradients + held[0].gradient,
                         stage->gradients + held[1].gradient, !stage->fresh);
}

static void
embedding_backward(const struct stage *stage, const int32_t *tokens, const real *d)
{
    real *table = stage->gradients + stage->held[0].gradient;
    real *positions = stage->gradients + stage->held[1].gradient;
    if (stage->fresh) {
        memset(table, 0, (size_t)stage->held[0].elements * sizeof(real));
        memset(positions, 0, (size_t)stage->held[1].elements * sizeof(real));
    }
    struct embedding embedding = embedding_of(stage, tokens);
    tensor_embedding_backward(&stage->compute, &embedding, d, table, positions);
}

int
stage_backward(struct stage *stage, int slot, const int32_t *tokens, real loss_scale,
               const real *gradient_in, real *gradient_out, struct err *err)
{
    const struct stage_layout *layout = &stage->layout;
    if (layout->embedding &&
        tokens_check(stage, tokens,
                     stage->spec.micro_batch * ((int64_t)stage->shape.context + 1), err))
        return -1;
    must(layout->head || gradient_in);
    must(layout->embedding || gradient_out);
    alloc_forbid();
    if (layout->embedding && !layout->blocks) {
        embedding_backward(stage, tokens, gradient_in);
    } else {
        real *d = gradient_out ? gradient_out : stage->workspace + layout->stream;
        if (layout->head)
            head_backward(stage, slot, loss_scale, d);
        else
            memmove(d, gradient_in,
                    (size_t)(layout->rows * stage->shape.hidden) * sizeof(real));
        for (int j = layout->blocks - 1; j >= 0; j--) {
            struct block block;
            block_places(stage, slot, j, stage->spec.micro_batch, stage->shape.context,
                         &block);
            block_backward(stage, &block, d);
        }
        if (layout->embedding)
            embedding_backward(stage, tokens, d);
    }
    stage->fresh = false;
    alloc_allow();
    return 0;
}
