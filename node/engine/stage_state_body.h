/* stage_state_body.h - gradients, update and state of a stage for `real`; see real.h.
 * Included after stage_body.h. */

/* ---- gradients ---- */

void
stage_begin(struct stage *stage)
{
    stage->fresh = true;
}

/* Gradients are set, not zeroed, by the first backward of a step; without one they are
 * zero. */
static void
gradients_settle(struct stage *stage)
{
    if (stage->fresh)
        memset(stage->gradients, 0, (size_t)stage->layout.gradients * sizeof(real));
    stage->fresh = false;
}

real *
stage_gradients(struct stage *stage, size_t *count)
{
    gradients_settle(stage);
    *count = (size_t)stage->layout.gradients;
    return stage->gradients;
}

real *
stage_tied_gradient(struct stage *stage, size_t *count)
{
    const struct stage_layout *layout = &stage->layout;
    *count = (size_t)stage->shape.vocabulary * (size_t)stage->shape.hidden;
    if (layout->embedding == layout->head)
        return NULL;
    gradients_settle(stage);
    return stage->gradients +
           (layout->embedding ? stage->held[0].gradient : layout->tied_gradient);
}

void
stage_tied_combine(struct stage *stage, const real *other)
{
    const struct stage_layout *layout = &stage->layout;
    gradients_settle(stage);
    if (!layout->embedding && !layout->head)
        return;
    int64_t count = (int64_t)stage->shape.vocabulary * stage->shape.hidden;
    real *table = stage->gradients + stage->held[0].gradient;
    if (layout->embedding && layout->head)
        other = stage->gradients + layout->tied_gradient;
    must(other);
    if (layout->embedding)
        for (int64_t i = 0; i < count; i++)
            table[i] = table[i] + other[i];
    else
        for (int64_t i = 0; i < count; i++)
            table[i] = other[i] + table[i];
}

int
stage_norm_count(const struct stage *stage)
{
    return stage->layout.tensors;
}

struct squares_job {
    const struct stage *stage;
    int skip; /* held tensors whose home is elsewhere */
    double *sums;
};

static void
square_tensors(void *context, int64_t first, int64_t end, int thread)
{
    const struct squares_job *job = context;
    const struct stage *stage = job->stage;
    (void)thread;
    for (int64_t i = first; i < end; i++) {
        const struct held *held = &stage->held[job->skip + i];
        job->sums[i] = stage->compute.kernels->squares(held->elements,
                                                       stage->gradients + held->gradient);
    }
}

void
stage_norm_sums(const struct stage *stage, double *sums)
{
    must(!stage->fresh);
    struct squares_job job = {stage, stage->held_count - stage->layout.tensors, sums};
    pool_run(stage->compute.pool, stage->layout.tensors, 1, square_tensors, &job);
}

/* ---- the update ---- */

struct update_job {
    const struct stage *stage;
    const struct held *held;
    struct adamw_factors factors;
};

static void
update_elements(void *context, int64_t first, int64_t end, int thread)
{
    const struct update_job *job = context;
    const struct stage *stage = job->stage;
    int64_t at = job->held->weight + first;
    (void)thread;
    stage->compute.kernels->adamw(
        end - first, stage->weights + at, stage->gradients + job->held->gradient + first,
        stage->moments + at, stage->moments + stage->layout.weights + at, &job->factors);
}

void
stage_update(struct stage *stage, const struct adamw *options)
{
    must(options->step >= 1);
    alloc_forbid();
    gradients_settle(stage);
    double step = (double)options->step;
    struct update_job job = {
        .stage = stage,
        .factors = {
            .gradient = (real)options->clip_scale,
            .beta1 = (real)options->beta1,
            .rest1 = (real)(1 - options->beta1),
            .beta2 = (real)options->beta2,
            .rest2 = (real)(1 - options->beta2),
            .rate = (real)(options->learning_rate / (1 - pow(options->beta1, step))),
            .root = (real)(1 / sqrt(1 - pow(options->beta2, step))),
            .epsilon = (real)options->epsilon,
        }};
    for (int i = 0; i < stage->held_count; i++) {
        job.held = &stage->held[i];
        job.factors.keep =
            (real)(job.held->decay ? 1 - options->learning_rate * options->weight_decay
                                   : 1);
        pool_run(stage->compute.pool, job.held->elements, UPDATE_GRAIN, update_elements,
                 &job);
    }
    alloc_allow();
}

/* ---- state, by tensor ---- */

static const struct held *
held_find(const struct stage *stage, int tensor)
{
    for (int i = 0; i < stage->held_count; i++)
        if (stage->held[i].tensor == tensor)
            return &stage->held[i];
    return NULL;
}

real *
stage_state(struct stage *stage, int tensor, enum state_kind kind)
{
    const struct held *held = held_find(stage, tensor);
    if (!held)
        return NULL;
    switch (kind) {
    case STATE_MOMENT1:
        return stage->moments + held->weight;
    case STATE_MOMENT2:
        return stage->moments + stage->layout.weights + held->weight;
    default:
        return stage->weights + held->weight;
    }
}

const real *
stage_gradient(const struct stage *stage, int tensor)
{
    const struct held *held = held_find(stage, tensor);
    must(!stage->fresh);
    return held ? stage->gradients + held->gradient : NULL;
}

/* ---- inference ---- */

int
stage_logits(struct stage *stage, const int32_t *tokens, int count, real *logits,
             struct err *err)
{
    const struct stage_layout *layout = &stage->layout;
    must(layout->embedding && layout->head);
    must(count >= 1 && count <= stage->shape.context);
    if (tokens_check(stage, tokens, count, err))
        return -1;
    struct embedding embedding = {1, count, stage->shape.hidden, tokens, count};
    tensor_embedding_forward(
        &stage->compute, &embedding, stage->weights + stage->held[0].weight,
        stage->weights + stage->held[1].weight, stream_place(stage, 0, 0, NULL));
    for (int j = 0; j < layout->blocks; j++) {
        struct block block;
        block_places(stage, 0, j, 1, count, &block);
        block_forward(stage, &block, stream_place(stage, 0, j + 1, NULL));
    }
    struct norm final = head_norm(stage, 0);
    real *norm = stage->workspace + layout->norm;
    final.x += (int64_t)(count - 1) * stage->shape.hidden;
    final.rows = 1;
    tensor_norm_forward(&stage->compute, &final, norm);
    logits_fill(stage, 1, norm, logits, layout->logits_stride);
    return 0;
}

/* ---- tests ---- */

static void
fill_nan(real *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (real)NAN;
}

void
stage_poison(struct stage *stage)
{
    fill_nan(stage->activations, stage->layout.slot * stage->spec.in_flight);
    fill_nan(stage->workspace, stage->layout.workspace);
    for (int i = 0; i < stage->held_count; i++)
        fill_nan(stage->gradients + stage->held[i].gradient, stage->held[i].elements);
    if (stage->layout.tied_gradient >= 0)
        fill_nan(stage->gradients + stage->layout.tied_gradient,
                 (int64_t)stage->shape.vocabulary * stage->shape.hidden);
    stage->fresh = true;
}
