/*
 * stage_double.h - the engine compiled once more for double, for the tests of its
 * numbers: the same sources (node/engine/real.h) under other names.
 */
#ifndef TESTS_NODE_STAGE_DOUBLE_H
#define TESTS_NODE_STAGE_DOUBLE_H

#include "node/engine/stage.h"

struct stage_double;

struct stage_double *double_open(const struct model_shape *shape,
                                 const struct stage_spec *spec, struct err *err);
void double_close(struct stage_double *stage);
void double_init(struct stage_double *stage, uint64_t seed);
void double_begin(struct stage_double *stage);
int double_forward(struct stage_double *stage, int slot, const int32_t *tokens,
                   double *loss_sum, struct err *err);
int double_backward(struct stage_double *stage, int slot, const int32_t *tokens,
                    double loss_scale, struct err *err);
void double_combine(struct stage_double *stage);
double *double_state(struct stage_double *stage, int tensor, enum state_kind kind);
const double *double_gradient(const struct stage_double *stage, int tensor);
void double_update(struct stage_double *stage, const struct adamw *options);

/* ---- single operations, whole matrices, one thread ---- */

void double_norm_forward(int64_t rows, int64_t columns, const double *x,
                         const double *gain, const double *bias, double *out,
                         double *mean, double *rdev);
void double_norm_backward(int64_t rows, int64_t columns, const double *x,
                          const double *gain, const double *bias, double *mean,
                          double *rdev, const double *dout, double *dx, double *dgain,
                          double *dbias);
void double_gelu_forward(int64_t count, const double *x, double *out);
void double_gelu_backward(int64_t count, const double *x, double *d); /* d in place */
/* Losses of rows, and in place of the logits their gradient. */
void double_cross_entropy(int64_t rows, int64_t columns, double *logits, int64_t stride,
                          const int32_t *targets, double *losses);
void double_attention_forward(int64_t sequences, int64_t length, int heads, int columns,
                              const double *qkv, double *out, double *maximum,
                              double *inverse, double *scratch, int64_t scratch_stride);
void double_attention_backward(int64_t sequences, int64_t length, int heads, int columns,
                               const double *qkv, double *out, double *maximum,
                               double *inverse, double *scratch, int64_t scratch_stride,
                               const double *dout, double *dqkv);
void double_embedding_forward(int64_t sequences, int64_t length, int64_t columns,
                              const int32_t *tokens, const double *table,
                              const double *positions, double *out);
void double_embedding_backward(int64_t sequences, int64_t length, int64_t columns,
                               const int32_t *tokens, const double *dout, double *dtable,
                               double *dpositions);

#endif
