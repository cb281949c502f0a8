#include "planner/memory.h"

/* Buckets of gradients under way, and what a framework has beside a plan's own bytes. */
static int64_t
workspace(const struct run_sizes *sizes, const struct run_terms *terms,
          const struct framework *framework, int64_t gradients)
{
    int64_t buffers = 0;
    double bucket = framework->bucket_bytes;
    if (framework->bucket_buffers > 0)
        buffers = (int64_t)(framework->bucket_buffers * bucket);
    else if (terms->width > 1)
        buffers = bucket < (double)gradients ? (int64_t)bucket : gradients;
    int64_t own = (int64_t)framework->extra_bytes_per_parameter * sizes->parameters +
                  (terms->tp > 1 ? framework->fixed_tp_bytes : framework->fixed_bytes);
    int64_t passing = 2 * sizes->boundary_bytes * terms->in_flight +
                      sizes->largest_bytes * framework->working_layers;
    return passing * terms->micro_batch / (terms->precision == PRECISION_BF16 ? 2 : 1) +
           buffers + own;
}

void
memory_of_run(const struct run_sizes *sizes, const struct run_terms *terms,
              const struct framework *framework, struct memory_parts *out)
{
    bool bf16 = terms->precision == PRECISION_BF16;
    out->weights = (bf16 ? 2 : 4) * sizes->parameters;
    out->gradients = out->weights;
    out->optimizer = (bf16 ? 12 : 8) * sizes->parameters;
    if (terms->shard_optimizer)
        out->optimizer = (out->optimizer + terms->width - 1) / terms->width;
    int64_t kept = terms->in_flight * sizes->kept_bytes;
    if (terms->recompute == RECOMPUTE_LAYERS)
        kept = terms->in_flight * sizes->input_bytes + sizes->largest_bytes;
    out->activations = kept * terms->micro_batch / (bf16 ? 2 : 1);
    out->workspace = workspace(sizes, terms, framework, out->gradients);
    out->total = out->weights + out->gradients + out->optimizer + out->activations +
                 out->workspace;
}
