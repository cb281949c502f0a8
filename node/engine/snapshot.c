#include "node/engine/train_parts.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* Where a run of layers lies in memory; micro-batches do not matter to weights. */
static void
layout_of(const struct model_shape *shape, int first_layer, int layers,
          struct stage_layout *out)
{
    struct stage_spec spec = {
        .first_layer = first_layer, .layers = layers, .micro_batch = 1, .in_flight = 1};
    workload_stage_layout(shape, &spec, out);
}

struct held *
part_new(const struct model_shape *shape, int first_layer, int layers, struct err *err)
{
    struct held *held = xcalloc(1, sizeof(*held));
    held->first_layer = first_layer;
    held->layers = layers;
    held->header.step = -1;
    layout_of(shape, first_layer, layers, &held->layout);
    held->bytes = (size_t)held->layout.weights * STATE_KINDS * sizeof(float);
    held->state = alloc_arena(held->bytes);
    if (!held->state) {
        err_set(err, ERR_LIMIT,
                "no memory for a copy of layers %d to %d: needs %zu bytes", first_layer,
                first_layer + layers - 1, held->bytes);
        free(held);
        return NULL;
    }
    return held;
}

void
part_free(struct held *part)
{
    if (!part)
        return;
    arena_release(part->state, part->bytes);
    free(part);
}

struct held *
held_new(struct train *train, int first_layer, int layers, struct err *err)
{
    must(train->held_count < HELD_MAX);
    struct held *held = part_new(&train->shape, first_layer, layers, err);
    if (held)
        train->held[train->held_count++] = held;
    return held;
}

void
held_free(struct train *train, struct held *held)
{
    if (!held)
        return;
    int i = 0;
    while (train->held[i] != held)
        i++;
    for (train->held_count--; i < train->held_count; i++)
        train->held[i] = train->held[i + 1];
    if (train->moved == held)
        train->moved = NULL;
    part_free(held);
}

void
held_free_all(struct train *train)
{
    while (train->held_count > 0)
        held_free(train, train->held[train->held_count - 1]);
    train->copied_step = -1;
}

const float *
held_tensor(const struct model_shape *shape, const struct held *held, int tensor,
            enum state_kind kind)
{
    int64_t place = workload_weight_place(shape, &held->layout, tensor);
    return place < 0 ? NULL : held->state + kind * held->layout.weights + place;
}

/* The live stage's state of now, tensor by tensor: nothing else of an arena is anybody's
 * business. */
void
held_copy_stage(struct train *train, struct held *held)
{
    must(held->first_layer == train->spec.first_layer &&
         held->layers == train->spec.layers);
    bool apart =
        held->layout.head && !held->layout.embedding; /* a copy of wte is first */
    for (int i = apart ? -1 : 0; i < held->layout.tensors; i++) {
        int tensor = i < 0 ? 0 : held->layout.first_tensor + i;
        struct tensor_spec spec;
        workload_tensor(&train->shape, tensor, &spec);
        int64_t place = workload_weight_place(&train->shape, &held->layout, tensor);
        for (int kind = 0; kind < STATE_KINDS; kind++)
            memcpy(held->state + kind * held->layout.weights + place,
                   stage_state(train->stage, tensor, (enum state_kind)kind),
                   (size_t)spec.elements * sizeof(float));
    }
    held->header.step = train->applied;
    held->header.samples_hash = train->samples_hash;
}

static bool
readable(const struct held *held)
{
    return held->header.step >= 0 && !held->coming;
}

const struct held *
held_find(const struct train *train, int64_t step, int layer)
{
    for (int i = 0; i < train->held_count; i++) {
        const struct held *held = train->held[i];
        if (readable(held) && held->header.step == step && layer >= held->first_layer &&
            layer < held->first_layer + held->layers)
            return held;
    }
    return NULL;
}

/* May the buffer be written: not on its way, and not what a recovery would need? */
bool
snapshot_overwritable(const struct train *train, const struct held *held)
{
    return held->sends_count == 0 && !held->coming && !held->pending &&
           (held->header.step < 0 || held->header.step != train->copied_step);
}

/* All copies of `step` are complete: what is older has done its duty. */
void
held_copied(struct train *train, int64_t step)
{
    if (step <= train->copied_step)
        return;
    train->copied_step = step;
    for (int i = train->held_count - 1; i >= 0; i--) {
        struct held *held = train->held[i];
        if (held->header.step <= step)
            held->pending = false;
        if (held->header.step >= step || held->sends_count || held->coming)
            continue;
        if (held->reserved)
            held->header.step = -1;
        else
            held_free(train, held);
    }
}

/* ---- what a halted node says ---- */

static void
add_holding(struct progress *out, enum state_source source, int64_t step, int first_layer,
            int layers, uint64_t samples_hash)
{
    if (out->holdings_count == HOLDINGS_MAX)
        return;
    out->holdings[out->holdings_count++] = (struct holding){.source = source,
                                                            .step = step,
                                                            .first_layer = first_layer,
                                                            .layers = layers,
                                                            .samples_hash = samples_hash};
}

/* Runs of layers of which there is a copy of this step. */
static void
add_copies(const struct train *train, struct progress *out, int64_t step)
{
    int layers = workload_layers(&train->shape);
    int first = -1;
    uint64_t hash = 0;
    for (int l = 0; l <= layers; l++) {
        const struct held *held = l < layers ? held_find(train, step, l) : NULL;
        if (held && first < 0) {
            first = l;
            hash = held->header.samples_hash;
        } else if (!held && first >= 0) {
            add_holding(out, SOURCE_COPY, step, first, l - first, hash);
            first = -1;
        }
    }
}

/* The newest step below `below` of which there is a copy, -1: none. */
static int64_t
step_below(const struct train *train, int64_t below)
{
    int64_t step = -1;
    for (int i = 0; i < train->held_count; i++) {
        const struct held *held = train->held[i];
        if (readable(held) && held->header.step < below && held->header.step > step)
            step = held->header.step;
    }
    return step;
}

void
snapshot_holdings(const struct train *train, struct progress *out)
{
    bool ours = !id_empty(&train->job) && id_equal(&train->job, &train->expected);
    out->reported = true;
    out->applied = -1;
    out->has_data = train->has_data;
    if (ours) {
        out->applied = train->applied;
        out->prepared = train->prepared;
        out->epoch = train->computed_epoch;
        out->norm_bits = train->norm_bits;
        out->samples_hash = train->samples_hash;
        if (train->live)
            add_holding(out, SOURCE_LIVE, train->applied, train->spec.first_layer,
                        train->spec.layers, train->samples_hash);
    }
    if (train->disk_step >= 0)
        add_holding(out, SOURCE_DISK, train->disk_step, 0,
                    workload_layers(&train->disk_shape), train->disk_samples_hash);
    if (!ours)
        return;
    /* What is complete everywhere first: it must not be crowded out. */
    if (train->copied_step >= 0)
        add_copies(train, out, train->copied_step);
    for (int64_t step = step_below(train, INT64_MAX); step >= 0;
         step = step_below(train, step))
        if (step != train->copied_step)
            add_copies(train, out, step);
}
