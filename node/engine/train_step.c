#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <math.h>
#include <string.h>

/* The optimizer's step with the prepared gradients; nothing interrupts it. */
void
train_apply(struct train *train, int64_t step, double norm)
{
    const struct train_job *job = &train->epoch->job;
    double rate = job->learning_rate;
    if (job->warmup_steps > 0 && step < job->warmup_steps)
        rate *= (double)step / (double)job->warmup_steps;
    struct adamw options = {
        .learning_rate = rate,
        .beta1 = job->beta1,
        .beta2 = job->beta2,
        .epsilon = job->epsilon,
        .weight_decay = job->weight_decay,
        .step = step,
        .clip_scale =
            job->clip_norm > 0 && norm > job->clip_norm ? job->clip_norm / norm : 1,
    };
    int64_t started_us = clock_thread_cpu_us();
    stage_update(train->stage, &options);
    train->compute_us += clock_thread_cpu_us() - started_us;
    train->applied = step;
    train->lineage = train->prepared_in;
    train->normed = true;
    train->prepared = false;
    memcpy(&train->norm_bits, &norm, sizeof(norm));
}

/* Nothing is applied on old knowledge: who was stopped for a while asks first. */
static int
wait_until_fresh(struct train *train, struct err *err)
{
    const struct train_options *options = &train->options;
    while (clock_ms() - atomic_load_explicit(options->fresh_at_ms, memory_order_acquire) >
           options->fresh_ms) {
        if (train_listen(train, err))
            return -1;
        flow_pump(train);
        clock_sleep_ms(2);
    }
    return train_listen(train, err);
}

/* Thread time of one step by our own profile, as measured, without what was learnt
 * since. */
static int64_t
predicted_us(const struct train *train)
{
    const struct train_epoch *epoch = train->epoch;
    struct cluster_node node = epoch->cluster.nodes[epoch->self];
    node.profile.correction_ppm = 1000000;
    int64_t ns = 0;
    for (int l = 0; l < train->spec.layers; l++) {
        enum layer_kind kind =
            workload_layer_kind(&train->shape, train->spec.first_layer + l);
        int64_t forward_ns, backward_ns, update_ns;
        if (cluster_layer_ns(&node, kind, train->spec.micro_batch, &forward_ns,
                             &backward_ns, &update_ns))
            return 0;
        ns += train->micro_batches * (forward_ns + backward_ns) + update_ns;
    }
    return ns / 1000;
}

static int
failed_numbers(int64_t step, const struct commit_result *result, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "step %lld has loss %g and gradient norm %g: training diverged; lower "
                   "learning_rate or set clip_norm",
                   (long long)step, result->loss, result->norm);
}

static int
step_parts(struct train *train, int64_t step, struct commit_result *result,
           struct err *err)
{
    commit_post(train, step);
    if (pipeline_run(train, step, err) || sync_reduce(train, step, err) ||
        commit_exchange(train, step, result, err))
        return -1;
    if (!isfinite(result->loss) || !isfinite(result->norm))
        return failed_numbers(step, result, err);
    return wait_until_fresh(train, err);
}

static void
say_step(struct train *train, const struct commit_result *result)
{
    struct train_report report = {
        .kind = REPORT_STEP,
        .step = train->applied,
        .loss = result->loss,
        .norm = result->norm,
        .tokens = result->tokens,
        .step_us = clock_us() - train->step_started_us,
        .compute_us = train->compute_us,
        .predicted_compute_us = predicted_us(train),
        .samples_hash = train->samples_hash,
    };
    train_report(train, &report);
}

int
train_step(struct train *train, struct err *err)
{
    int64_t step = train->applied + 1;
    train->step_started_us = clock_us();
    train->compute_us = 0;
    train->loss_sum = 0;
    train->samples_sum = 0;
    if (!train->computed) {
        struct train_report report = {.kind = REPORT_COMPUTE, .step = step};
        train_report(train, &report);
        train->computed = true;
    }
    struct commit_result result;
    alloc_forbid();
    int failed = step_parts(train, step, &result, err);
    if (!failed) {
        train_apply(train, step, result.norm);
        train->samples_hash = rng_mix(train->samples_hash, result.samples);
    }
    alloc_allow();
    if (failed)
        return -1;
    if (train->moved) { /* everybody has its state: this one has done its duty */
        held_free(train, train->moved);
        train->moved = NULL;
    }
    say_step(train, &result);
    train->computing = step < train->epoch->job.steps;
    return flow_step(train, step, err);
}
