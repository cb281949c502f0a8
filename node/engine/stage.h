/*
 * stage.h - one replica of a stage: consecutive layers of a GPT-2 with their weights,
 * gradients, optimizer state and activation slots, on one CPU device, fp32.
 *
 * It computes and knows nothing of peers, files or schedules. All memory is taken
 * in stage_open(), laid out by planner/workload; nothing is allocated afterwards.
 *
 *     tokens --stage_forward--> activations -->(next stage)
 *                                gradient  <--(next stage)
 *     (previous) <--gradient-- stage_backward
 *
 * `real` is float (real.h).
 *
 * All gradients are sums over tokens weighted by `loss_scale`, so that reductions are
 * sums.
 */
#ifndef NODE_ENGINE_STAGE_H
#define NODE_ENGINE_STAGE_H

#include "node/engine/real.h"
#include "planner/workload.h"
#include "transport/base/err.h"

struct stage;

/* `threads` compute threads (1 in a testnet). ERR_LIMIT when memory is not to be had. */
struct stage *stage_open(const struct model_shape *shape, const struct stage_spec *spec,
                         int threads, struct err *err);
void stage_close(struct stage *stage);

/* Bytes really held, by category; equals workload_stage_bytes() (communication and copies
 * are the trainer's). */
void stage_bytes_held(const struct stage *stage, struct stage_bytes *out);

/* Initial weights: a function of (seed, tensor number, element number) alone. Optimizer
 * state zero. */
void stage_init(struct stage *stage, uint64_t seed);

/* ---- the step ---- */

/* New step: gradient accumulators start at zero. */
void stage_begin(struct stage *stage);

/* `tokens`: [micro_batch, context + 1], only for the first stage (inputs) and the last
 * (targets: shifted by one); others pass NULL. `in`: [micro_batch, context, hidden] from
 * the previous stage, NULL for the first; kept by reference is not allowed: it is copied
 * into the slot. `out`: the same shape for the next stage, NULL for the last. The last
 * stage adds this micro-batch's sum of token losses (nats) to `*loss_sum` in double.
 * ERR_CORRUPT for a token outside the vocabulary. */
int stage_forward(struct stage *stage, int slot, const int32_t *tokens, const real *in,
                  real *out, double *loss_sum, struct err *err);

/* `tokens` as in forward. `gradient_in`: d(loss)/d(out) from the next stage, NULL for the
 * last. `gradient_out`: for the previous stage, NULL for the first. `loss_scale`: 1 /
 * tokens of the whole step. Accumulates into the gradients. */
int stage_backward(struct stage *stage, int slot, const int32_t *tokens, real loss_scale,
                   const real *gradient_in, real *gradient_out, struct err *err);

/* ---- gradients ---- */

/* All gradients as one flat array for reduction (floats); the tied head's second gradient
 * is part of it. */
real *stage_gradients(struct stage *stage, size_t *count);

/* The tied embedding's gradient held here that the other end needs: layer 0's on the
 * first stage, the head's on the last; NULL when this stage holds neither or both.
 * `count` = vocabulary x hidden. */
real *stage_tied_gradient(struct stage *stage, size_t *count);

/* After reduction: adds the two gradients of the tied embedding, layer 0's first. `other`
 * is the other end's, or NULL when both are here or neither is. */
void stage_tied_combine(struct stage *stage, const real *other);

/* Sum of squares of each tensor's combined gradient, in double, in tensor order, for the
 * tensors whose home is a layer of this stage (so that the tied embedding counts once).
 * `sums` has room for stage_norm_count(). After a
 * backward, stage_gradients() or stage_tied_combine(). */
int stage_norm_count(const struct stage *stage);
void stage_norm_sums(const struct stage *stage, double *sums);

/* ---- the update ---- */

struct adamw {
    double learning_rate;
    double beta1, beta2, epsilon, weight_decay;
    int64_t step;      /* 1 for the first */
    double clip_scale; /* factor on every gradient: min(1, clip / norm) */
};

void stage_update(struct stage *stage, const struct adamw *options);

/* ---- state, by tensor ---- */

enum state_kind { STATE_WEIGHT, STATE_MOMENT1, STATE_MOMENT2, STATE_KINDS };

/* Floats of a tensor held here (workload tensor number; transformer.wte.weight also on
 * the last stage), or NULL. */
real *stage_state(struct stage *stage, int tensor, enum state_kind kind);
const real *stage_gradient(const struct stage *stage, int tensor); /* combined; tests */

/* ---- inference ---- */

/* Logits of the last position of one sequence of `count` <= context tokens; the stage
 * must hold all layers (micro_batch >= 1, slot 0 is used). `logits`: [vocabulary]. */
int stage_logits(struct stage *stage, const int32_t *tokens, int count, real *logits,
                 struct err *err);

/* Fills activations, workspace and gradients with signalling values (not-a-number): a
 * step that reads what it did not write shows. Tests; call before stage_begin(). */
void stage_poison(struct stage *stage);

#endif
