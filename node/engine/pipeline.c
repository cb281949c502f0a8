#include "node/engine/train_parts.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

/* A message of a step on the channels between stages. */
static uint64_t
step_tag(int64_t step, int micro_batch)
{
    return (uint64_t)step * MICRO_BATCHES_MAX + (uint64_t)micro_batch;
}

int64_t
pipeline_sample(const struct train *train, int64_t step, int micro_batch, int sequence)
{
    const struct train_epoch *epoch = train->epoch;
    int64_t place =
        train->first_sample + (int64_t)micro_batch * epoch->plan.micro_batch + sequence;
    int64_t n = (step - 1) * epoch->request.sequences + place;
    return data_sample_id(train->data, epoch->job.seed, n);
}

/* Tokens of a micro-batch into its slot; the first stage accounts for the samples. */
static const int32_t *
load_tokens(struct train *train, int64_t step, const struct schedule_op *op)
{
    if (!train->tokens)
        return NULL;
    size_t row = (size_t)train->shape.context + 1;
    size_t micro_batch = (size_t)train->spec.micro_batch;
    int32_t *tokens = train->tokens + (size_t)op->slot * micro_batch * row;
    if (op->kind != SCHEDULE_FORWARD)
        return tokens; /* they are still there */
    for (size_t i = 0; i < micro_batch; i++) {
        int64_t sample = pipeline_sample(train, step, op->micro_batch, (int)i);
        data_tokens(train->data, sample, tokens + i * row);
        if (train->previous >= 0)
            continue;
        uint64_t place = (uint64_t)train->first_sample +
                         (uint64_t)op->micro_batch * micro_batch + (uint64_t)i;
        train->samples_sum += rng_mix(rng_mix((uint64_t)step, place), (uint64_t)sample);
    }
    return tokens;
}

static void
post_activation(struct train *train, int64_t step, int micro_batch)
{
    if (train->previous < 0 || micro_batch >= train->micro_batches)
        return;
    int slot = micro_batch % train->spec.in_flight;
    int64_t floats = train->communication.boundary;
    train->ops_in[slot] = bulk_receive(train_port(train, BULK_FORWARD), train->previous,
                                       BULK_FORWARD, step_tag(step, micro_batch),
                                       train->activation_receive + slot * floats,
                                       (size_t)floats * sizeof(float));
}

static void
post_gradient(struct train *train, int64_t step, int micro_batch)
{
    if (train->next < 0 || micro_batch >= train->micro_batches)
        return;
    int slot = micro_batch % train->spec.in_flight;
    int64_t floats = train->communication.boundary;
    train->ops_back[slot] =
        bulk_receive(train_port(train, BULK_BACKWARD), train->next, BULK_BACKWARD,
                     step_tag(step, micro_batch), train->gradient_receive + slot * floats,
                     (size_t)floats * sizeof(float));
}

static int
forward(struct train *train, int64_t step, const struct schedule_op *op, struct err *err)
{
    int64_t floats = train->communication.boundary;
    float *in = NULL, *out = NULL;
    if (train->previous >= 0) {
        in = train->activation_receive + op->slot * floats;
        if (train_wait(train, BULK_FORWARD, &train->ops_in[op->slot], WAIT_FORWARD,
                       train->previous, err))
            return -1;
    }
    if (train->next >= 0) {
        out = train->activation_send + op->slot * floats;
        if (train_wait(train, BULK_FORWARD, &train->ops_out[op->slot], WAIT_SEND,
                       train->next, err))
            return -1;
    }
    int64_t started_us = clock_thread_cpu_us();
    if (stage_forward(train->stage, op->slot, load_tokens(train, step, op), in, out,
                      &train->loss_sum, err))
        return -1;
    train->compute_us += clock_thread_cpu_us() - started_us;
    post_activation(train, step, op->micro_batch + train->spec.in_flight);
    if (train->next >= 0)
        train->ops_out[op->slot] = bulk_send(
            train_port(train, BULK_FORWARD), train->next, BULK_FORWARD,
            step_tag(step, op->micro_batch), out, (size_t)floats * sizeof(float));
    return 0;
}

static int
backward(struct train *train, int64_t step, const struct schedule_op *op, struct err *err)
{
    int64_t floats = train->communication.boundary;
    float *in = NULL, *out = NULL;
    if (train->next >= 0) {
        in = train->gradient_receive + op->slot * floats;
        if (train_wait(train, BULK_BACKWARD, &train->ops_back[op->slot], WAIT_BACKWARD,
                       train->next, err))
            return -1;
    }
    if (train->previous >= 0) {
        out = train->gradient_send + op->slot * floats;
        if (train_wait(train, BULK_BACKWARD, &train->ops_return[op->slot], WAIT_SEND,
                       train->previous, err))
            return -1;
    }
    int64_t started_us = clock_thread_cpu_us();
    if (stage_backward(train->stage, op->slot, load_tokens(train, step, op),
                       (float)train->loss_scale, in, out, err))
        return -1;
    train->compute_us += clock_thread_cpu_us() - started_us;
    post_gradient(train, step, op->micro_batch + train->spec.in_flight);
    if (train->previous >= 0)
        train->ops_return[op->slot] = bulk_send(
            train_port(train, BULK_BACKWARD), train->previous, BULK_BACKWARD,
            step_tag(step, op->micro_batch), out, (size_t)floats * sizeof(float));
    return 0;
}

int
pipeline_run(struct train *train, int64_t step, struct err *err)
{
    int stages = train->epoch->plan.stages_count;
    for (int i = 0; i < train->spec.in_flight; i++) {
        post_activation(train, step, i);
        post_gradient(train, step, i);
    }
    stage_begin(train->stage);
    for (int i = 0; i < 2 * train->micro_batches; i++) {
        if (train_listen(train, err))
            return -1;
        flow_pump(train);
        struct schedule_op op =
            schedule_at(stages, train->stage_number, train->micro_batches, i);
        if (op.kind == SCHEDULE_FORWARD ? forward(train, step, &op, err)
                                        : backward(train, step, &op, err))
            return -1;
    }
    return 0;
}
