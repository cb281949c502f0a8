#include "planner/workload.h"
#include "transport/base/limits.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

enum {
    EMBEDDING_TENSORS = 2,
    BLOCK_TENSORS = 12,
    HEAD_TENSORS = 2,
    HIDDEN_MAX = 65536,
    CONTEXT_MAX = 1 << 20,
    VOCABULARY_MAX = 1 << 20,
    ALIGN = 16,         /* floats in a cache line */
    ATTENTION_ROWS = 64 /* rows of a block of attention */
};

/* A tensor of a block: its dimensions as multiples of hidden. */
struct block_tensor {
    const char *name;
    int rows; /* 0: a vector */
    int columns;
    enum tensor_init init;
};

static const struct block_tensor block_tensors[BLOCK_TENSORS] = {
    {"ln_1.weight", 0, 1, INIT_ONE},
    {"ln_1.bias", 0, 1, INIT_ZERO},
    {"attn.c_attn.weight", 1, 3, INIT_NORMAL},
    {"attn.c_attn.bias", 0, 3, INIT_ZERO},
    {"attn.c_proj.weight", 1, 1, INIT_NORMAL_RESIDUAL},
    {"attn.c_proj.bias", 0, 1, INIT_ZERO},
    {"ln_2.weight", 0, 1, INIT_ONE},
    {"ln_2.bias", 0, 1, INIT_ZERO},
    {"mlp.c_fc.weight", 1, 4, INIT_NORMAL},
    {"mlp.c_fc.bias", 0, 4, INIT_ZERO},
    {"mlp.c_proj.weight", 4, 1, INIT_NORMAL_RESIDUAL},
    {"mlp.c_proj.bias", 0, 1, INIT_ZERO},
};

static int
range_check(const char *what, int value, int least, int most, struct err *err)
{
    if (value >= least && value <= most)
        return 0;
    return err_set(err, ERR_USAGE, "model \"%s\" is %d: must be from %d to %d", what,
                   value, least, most);
}

int
model_shape_check(const struct model_shape *shape, struct err *err)
{
    int blocks_max = LAYERS_MAX - 2;
    int by_tensors = (TENSORS_MAX - EMBEDDING_TENSORS - HEAD_TENSORS) / BLOCK_TENSORS;
    if (by_tensors < blocks_max)
        blocks_max = by_tensors;
    if (range_check("layers", shape->blocks, 1, blocks_max, err) ||
        range_check("hidden", shape->hidden, 1, HIDDEN_MAX, err) ||
        range_check("heads", shape->heads, 1, shape->hidden, err) ||
        range_check("context", shape->context, 1, CONTEXT_MAX, err) ||
        range_check("vocabulary", shape->vocabulary, 2, VOCABULARY_MAX, err))
        return -1;
    if (shape->hidden % shape->heads)
        return err_set(err, ERR_USAGE,
                       "model \"hidden\" is %d: not divisible by \"heads\", which is %d",
                       shape->hidden, shape->heads);
    return 0;
}

int
workload_layers(const struct model_shape *shape)
{
    return shape->blocks + 2;
}

enum layer_kind
workload_layer_kind(const struct model_shape *shape, int layer)
{
    must(layer >= 0 && layer < workload_layers(shape));
    if (layer == 0)
        return LAYER_EMBEDDING;
    return layer <= shape->blocks ? LAYER_BLOCK : LAYER_HEAD;
}

int
workload_tensor_count(const struct model_shape *shape)
{
    return EMBEDDING_TENSORS + BLOCK_TENSORS * shape->blocks + HEAD_TENSORS;
}

static void
tensor_fill(struct tensor_spec *out, int layer, int64_t rows, int64_t columns,
            enum tensor_init init)
{
    out->layer = layer;
    out->dims = rows ? 2 : 1;
    out->shape[0] = rows ? rows : columns;
    out->shape[1] = rows ? columns : 1;
    out->elements = (rows ? rows : 1) * columns;
    out->decay = rows != 0;
    out->init = init;
}

/* All of a tensor but its name, which takes longer than the rest. */
static void
tensor_measure(const struct model_shape *shape, int index, struct tensor_spec *out)
{
    must(index >= 0 && index < workload_tensor_count(shape));
    int64_t hidden = shape->hidden;
    int last = EMBEDDING_TENSORS + BLOCK_TENSORS * shape->blocks;
    if (index < EMBEDDING_TENSORS) {
        tensor_fill(out, 0, index == 0 ? shape->vocabulary : shape->context, hidden,
                    INIT_NORMAL);
    } else if (index < last) {
        int block = (index - EMBEDDING_TENSORS) / BLOCK_TENSORS;
        const struct block_tensor *tensor =
            &block_tensors[(index - EMBEDDING_TENSORS) % BLOCK_TENSORS];
        tensor_fill(out, block + 1, tensor->rows * hidden, tensor->columns * hidden,
                    tensor->init);
    } else {
        tensor_fill(out, shape->blocks + 1, 0, hidden,
                    index > last ? INIT_ZERO : INIT_ONE);
    }
}

void
workload_tensor(const struct model_shape *shape, int index, struct tensor_spec *out)
{
    memset(out, 0, sizeof(*out));
    tensor_measure(shape, index, out);
    if (out->layer == 0)
        snprintf(out->name, sizeof(out->name), "transformer.%s.weight",
                 index == 0 ? "wte" : "wpe");
    else if (out->layer <= shape->blocks)
        snprintf(out->name, sizeof(out->name), "transformer.h.%d.%s", out->layer - 1,
                 block_tensors[(index - EMBEDDING_TENSORS) % BLOCK_TENSORS].name);
    else
        snprintf(out->name, sizeof(out->name), "transformer.ln_f.%s",
                 out->init == INIT_ZERO ? "bias" : "weight");
}

void
workload_layer_tensors(const struct model_shape *shape, int layer, int *first, int *count)
{
    switch (workload_layer_kind(shape, layer)) {
    case LAYER_EMBEDDING:
        *first = 0;
        *count = EMBEDDING_TENSORS;
        break;
    case LAYER_BLOCK:
        *first = EMBEDDING_TENSORS + BLOCK_TENSORS * (layer - 1);
        *count = BLOCK_TENSORS;
        break;
    default:
        *first = EMBEDDING_TENSORS + BLOCK_TENSORS * shape->blocks;
        *count = HEAD_TENSORS;
    }
}

int64_t
workload_layer_parameters(const struct model_shape *shape, int layer)
{
    int first, count;
    workload_layer_tensors(shape, layer, &first, &count);
    int64_t sum = 0;
    for (int i = first; i < first + count; i++) {
        struct tensor_spec tensor;
        tensor_measure(shape, i, &tensor);
        sum += tensor.elements;
    }
    return sum;
}

int64_t
workload_boundary_bytes(const struct model_shape *shape, int sequences)
{
    return (int64_t)sequences * shape->context * shape->hidden * 4;
}

double
workload_layer_flops(const struct model_shape *shape, int layer)
{
    double hidden = shape->hidden;
    switch (workload_layer_kind(shape, layer)) {
    case LAYER_BLOCK:
        return 6 * 12 * hidden * hidden + 6.0 * shape->context * hidden;
    case LAYER_HEAD:
        return 6.0 * shape->vocabulary * hidden;
    default:
        return 0;
    }
}

static int64_t
aligned(int64_t floats)
{
    return (floats + ALIGN - 1) / ALIGN * ALIGN;
}

/* Reserves room at the end of an arena; returns where. */
static int64_t
place(int64_t *end, int64_t floats)
{
    int64_t start = *end;
    *end += aligned(floats);
    return start;
}

/* Floats of one tensor in an arena. */
static int64_t
tensor_floats(const struct model_shape *shape, int index)
{
    struct tensor_spec tensor;
    tensor_measure(shape, index, &tensor);
    return aligned(tensor.elements);
}

static int64_t
tensors_floats(const struct model_shape *shape, int first, int count)
{
    int end = first + count;
    int blocks_end = EMBEDDING_TENSORS + BLOCK_TENSORS * shape->blocks;
    int64_t sum = 0;
    for (int i = first; i < end;) {
        int left = (end < blocks_end ? end : blocks_end) - i;
        bool block_starts =
            i >= EMBEDDING_TENSORS && (i - EMBEDDING_TENSORS) % BLOCK_TENSORS == 0;
        if (!block_starts || left < 2 * BLOCK_TENSORS) {
            sum += tensor_floats(shape, i++);
            continue;
        }
        /* All blocks are alike. */
        int64_t block = 0;
        for (int t = 0; t < BLOCK_TENSORS; t++)
            block += tensor_floats(shape, i + t);
        sum += block * (left / BLOCK_TENSORS);
        i += left / BLOCK_TENSORS * BLOCK_TENSORS;
    }
    return sum;
}

static void
layout_parameters(const struct model_shape *shape, const struct stage_spec *spec,
                  struct stage_layout *out)
{
    int end = spec->first_layer + spec->layers, count;
    out->embedding = spec->first_layer == 0;
    out->head = end == workload_layers(shape);
    out->first_block = out->embedding ? 0 : spec->first_layer - 1;
    out->blocks = spec->layers - out->embedding - out->head;
    workload_layer_tensors(shape, spec->first_layer, &out->first_tensor, &count);
    int last;
    workload_layer_tensors(shape, end - 1, &last, &count);
    out->tensors = last + count - out->first_tensor;

    int64_t table = aligned((int64_t)shape->vocabulary * shape->hidden);
    int64_t own = tensors_floats(shape, out->first_tensor, out->tensors);
    bool copy = out->head && !out->embedding;
    out->tied_weight = out->embedding || out->head ? 0 : -1;
    out->weights = own + (copy ? table : 0);
    out->tied_gradient = out->head ? own : -1;
    out->gradients = own + (out->head ? table : 0);
}

static void
layout_activations(const struct model_shape *shape, struct stage_layout *out)
{
    int64_t rows = out->rows, hidden = shape->hidden;
    out->logits_stride = aligned(shape->vocabulary);
    out->block_input = place(&out->block, rows * hidden);
    out->block_qkv = place(&out->block, rows * hidden * 3);
    out->block_attention = place(&out->block, rows * hidden);
    out->block_middle = place(&out->block, rows * hidden);
    out->block_hidden = place(&out->block, rows * hidden * 4);
    out->block_norms = place(&out->block, rows * 4);
    out->block_softmax = place(&out->block, rows * shape->heads * 2);
    out->slot = out->blocks * out->block;
    if (out->head) {
        out->head_input = place(&out->slot, rows * hidden);
        out->head_norms = place(&out->slot, rows * 2);
        out->head_logits = place(&out->slot, rows * out->logits_stride);
    }
}

static void
layout_workspace(const struct model_shape *shape, int micro_batch,
                 struct stage_layout *out)
{
    int64_t rows = out->rows, hidden = shape->hidden;
    if (out->blocks || out->head) {
        out->stream = place(&out->workspace, rows * hidden);
        out->norm = place(&out->workspace, rows * hidden);
        out->narrow = place(&out->workspace, rows * hidden);
    }
    /* Heads are worked on apart from each other; the scratch of attention has room for
     * all of them, so that its size does not depend on the number of threads. */
    out->attention_scratch = ATTENTION_ROWS * (2 * aligned(shape->context) + 1);
    if (out->blocks) {
        int64_t heads = micro_batch * (int64_t)shape->heads * out->attention_scratch;
        int64_t wide = rows * hidden * 4;
        out->wide = place(&out->workspace, wide);
        out->scratch = place(&out->workspace, heads > wide ? heads : wide);
    }
}

void
workload_stage_layout(const struct model_shape *shape, const struct stage_spec *spec,
                      struct stage_layout *out)
{
    must(spec->first_layer >= 0 && spec->layers > 0);
    must(spec->first_layer + spec->layers <= workload_layers(shape));
    must(spec->micro_batch > 0 && spec->in_flight > 0);
    memset(out, 0, sizeof(*out));
    out->rows = (int64_t)spec->micro_batch * shape->context;
    layout_parameters(shape, spec, out);
    layout_activations(shape, out);
    layout_workspace(shape, spec->micro_batch, out);
}

int64_t
workload_weight_place(const struct model_shape *shape, const struct stage_layout *layout,
                      int tensor)
{
    if (tensor == 0)
        return layout->tied_weight;
    if (tensor < layout->first_tensor || tensor >= layout->first_tensor + layout->tensors)
        return -1;
    int64_t table = layout->embedding || !layout->head
                        ? 0
                        : aligned((int64_t)shape->vocabulary * shape->hidden);
    return table +
           tensors_floats(shape, layout->first_tensor, tensor - layout->first_tensor);
}

int64_t
workload_gradient_place(const struct model_shape *shape,
                        const struct stage_layout *layout, int tensor)
{
    if (tensor == 0 && !layout->embedding)
        return layout->tied_gradient;
    if (tensor < layout->first_tensor || tensor >= layout->first_tensor + layout->tensors)
        return -1;
    return tensors_floats(shape, layout->first_tensor, tensor - layout->first_tensor);
}

void
workload_communication_floats(const struct model_shape *shape,
                              const struct stage_spec *spec,
                              struct communication_layout *out)
{
    struct stage_layout layout;
    workload_stage_layout(shape, spec, &layout);
    memset(out, 0, sizeof(*out));
    out->boundary = layout.rows * shape->hidden;
    if (!layout.embedding)
        out->activation_receive = out->gradient_send = spec->in_flight * out->boundary;
    if (!layout.head)
        out->activation_send = out->gradient_receive = spec->in_flight * out->boundary;
    out->reduction = (layout.gradients + 1) / 2;
    if (layout.embedding != layout.head)
        out->tied = (int64_t)shape->vocabulary * shape->hidden;
    out->total = out->activation_receive + out->gradient_send + out->activation_send +
                 out->gradient_receive + out->reduction + out->tied;
}

void
workload_stage_bytes(const struct model_shape *shape, const struct stage_spec *spec,
                     struct stage_bytes *out)
{
    struct stage_layout layout;
    struct communication_layout communication;
    workload_stage_layout(shape, spec, &layout);
    workload_communication_floats(shape, spec, &communication);
    out->weights = layout.weights * 4;
    out->gradients = layout.gradients * 4;
    out->optimizer = layout.weights * 8;
    out->activations = layout.slot * spec->in_flight * 4;
    out->workspace = layout.workspace * 4;
    out->communication = communication.total * 4;
    out->copies = spec->copies ? layout.weights * 12 : 0;
    out->total = out->weights + out->gradients + out->optimizer + out->activations +
                 out->workspace + out->communication + out->copies;
}
