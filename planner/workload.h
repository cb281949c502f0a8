/*
 * workload.h - what a model is made of, to the tensor and to the byte.
 *
 * The planner and the engine both read it, so that what is planned is what is
 * allocated and sent. Layers are numbered as in Sailor: 0 is the embedding,
 * 1..blocks are transformer blocks, blocks + 1 is final norm, head and loss.
 *
 *     layer   0          1 .. blocks      blocks + 1
 *             wte, wpe   ln, attn, mlp    ln_f, (wte again: the head is tied)
 *
 * A stage is a run of consecutive layers. The tied embedding lives in layer 0
 * and in the head's layer; a stage that holds both keeps one copy of the weights
 * and two of the gradient (docs/protocol.md, section 12).
 */
#ifndef PLANNER_WORKLOAD_H
#define PLANNER_WORKLOAD_H

#include "transport/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A GPT-2: learned positions, LayerNorm, GELU (tanh), tied head. */
struct model_shape {
    int blocks;
    int heads;
    int hidden;     /* divisible by heads */
    int context;    /* tokens of a training sequence */
    int vocabulary; /* 256 for bytes */
};

/* ERR_USAGE with a sentence when a shape is out of range or does not divide. */
int model_shape_check(const struct model_shape *shape, struct err *err);

int workload_layers(const struct model_shape *shape); /* blocks + 2 */

enum layer_kind { LAYER_EMBEDDING, LAYER_BLOCK, LAYER_HEAD, LAYER_KINDS };
enum layer_kind workload_layer_kind(const struct model_shape *shape, int layer);

enum tensor_init { INIT_NORMAL, INIT_NORMAL_RESIDUAL, INIT_ONE, INIT_ZERO };

struct tensor_spec {
    /* As in the Hugging Face GPT-2: "transformer.h.0.attn.c_attn.weight". */
    char name[64];
    int layer;        /* its home; transformer.wte.weight: 0 */
    int dims;         /* 1 or 2 */
    int64_t shape[2]; /* matrices of a block are [in, out], as in the files (Conv1D) */
    int64_t elements;
    bool decay;            /* weight decay applies: matrices only */
    enum tensor_init init; /* N(0, 0.02); residual projections 0.02 / sqrt(2 blocks) */
};

/* All tensors of the model in layer order, then file order; `index` is the tensor's
 * number everywhere. */
int workload_tensor_count(const struct model_shape *shape);
void workload_tensor(const struct model_shape *shape, int index, struct tensor_spec *out);

/* The run of tensor numbers whose home is `layer`. */
void workload_layer_tensors(const struct model_shape *shape, int layer, int *first,
                            int *count);

int64_t workload_layer_parameters(const struct model_shape *shape, int layer);

/* Bytes that one micro-batch of `sequences` moves between two stages, one way (fp32:
 * sequences x context x hidden x 4). */
int64_t workload_boundary_bytes(const struct model_shape *shape, int sequences);

/* Floating-point operations of forward plus backward for one token of this layer: of a
 * block 6 x matmul weights + 6 x context x hidden (as Narayanan et al., SC 2021, less
 * what the causal mask spares).
 */
double workload_layer_flops(const struct model_shape *shape, int layer);

/* What a replica of a stage allocates. */
struct stage_spec {
    int first_layer;
    int layers;
    int micro_batch; /* sequences */
    int in_flight;   /* micro-batches whose activations are kept at once, from the
                      schedule */
    bool copies;     /* keeps a second copy of its own weights and optimizer state for
                      recovery */
};

struct stage_bytes {
    int64_t weights;
    int64_t gradients;
    int64_t optimizer;
    int64_t activations; /* all in_flight slots */
    int64_t workspace;
    int64_t communication; /* boundary buffers and reduction scratch */
    int64_t copies;
    int64_t total;
};

/* Exact: the engine's arenas are laid out by the same arithmetic, and a test holds one
 * against the other. weights, gradients, optimizer, activations and workspace are the
 * engine's (stage_layout); communication is the trainer's (communication_layout); copies
 * is one snapshot of weights and both moments of this stage when spec->copies, else 0. */
void workload_stage_bytes(const struct model_shape *shape, const struct stage_spec *spec,
                          struct stage_bytes *out);

/* Where the tensors of a stage lie, in floats from the start of their arena. Every tensor
 * starts at a multiple of 16 floats; what lies between tensors is zero in every arena and
 * stays so.
 *
 *     weights, moments   [wte copy, if the head is here and layer 0 is not]
 *                        tensors in order
 *     gradients          tensors in order
 *                        [the head's gradient of wte, if the head is here]
 */
struct stage_layout {
    bool embedding;  /* holds layer 0 */
    bool head;       /* holds the last layer */
    int first_block; /* number of the first block here, from 0 */
    int blocks;
    int first_tensor; /* tensors whose home is a layer of this stage */
    int tensors;
    int64_t weights;       /* floats of weights; each moment has as many */
    int64_t gradients;     /* floats */
    int64_t tied_weight;   /* place of wte in weights, -1: not here */
    int64_t tied_gradient; /* place of the head's gradient of wte in gradients, -1: not
                              here */

    /* One activation slot: blocks one after the other, then the head. */
    int64_t rows;          /* micro_batch x context */
    int64_t logits_stride; /* vocabulary, rounded up to 16 */
    int64_t block;         /* floats of one block */
    int64_t block_input, block_qkv, block_attention, block_middle,
        block_hidden;      /* places in a block */
    int64_t block_norms;   /* mean and 1/deviation of both norms: 4 x rows */
    int64_t block_softmax; /* maximum and 1/sum of every row and head: 2 x rows x heads */
    int64_t head_input, head_norms, head_logits; /* places in a slot */
    int64_t slot;                                /* floats of one slot */

    /* Workspace: places and size. The wide buffers are absent (0 floats) without
     * blocks. */
    int64_t stream, norm, narrow, wide, scratch;
    int64_t attention_scratch; /* floats of it that one attention head uses at a time */
    int64_t workspace;
};

void workload_stage_layout(const struct model_shape *shape, const struct stage_spec *spec,
                           struct stage_layout *out);

/* Place of a tensor in the weights (or moments) and in the gradients of a stage; -1 when
 * it is not here. Of wte on a last stage without layer 0, the gradient is the head's. */
int64_t workload_weight_place(const struct model_shape *shape,
                              const struct stage_layout *layout, int tensor);
int64_t workload_gradient_place(const struct model_shape *shape,
                                const struct stage_layout *layout, int tensor);

/* What the trainer of a stage allocates for communication, in floats. */
struct communication_layout {
    int64_t boundary;           /* one micro-batch between two stages */
    int64_t activation_receive; /* in_flight boundaries when there is a previous stage,
                                   else 0 */
    int64_t gradient_send;      /* the same */
    int64_t activation_send; /* in_flight boundaries when there is a next stage, else 0 */
    int64_t gradient_receive; /* the same */
    int64_t reduction;        /* scratch of the ring: half of the gradients, rounded up */
    int64_t
        tied; /* the other end's gradient of wte, when one end alone is here, else 0 */
    int64_t total;
};

void workload_communication_floats(const struct model_shape *shape,
                                   const struct stage_spec *spec,
                                   struct communication_layout *out);

#endif
