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
    held->header.name.step = -1;
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
    train->copied.step = -1;
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
    held->header.name = (struct state_name){train->applied, train->lineage};
    held->header.samples_hash = train->samples_hash;
}

static bool
readable(const struct held *held)
{
    return held->header.name.step >= 0 && !held->coming;
}

const struct held *
held_find(const struct train *train, const struct state_name *name, int layer)
{
    for (int i = 0; i < train->held_count; i++) {
        const struct held *held = train->held[i];
        if (readable(held) && state_same(&held->header.name, name) &&
            layer >= held->first_layer && layer < held->first_layer + held->layers)
            return held;
    }
    return NULL;
}

/* May the buffer be written: not on its way, and not what a recovery would need? */
bool
snapshot_overwritable(const struct train *train, const struct held *held)
{
    return held->sends_count == 0 && !held->coming && !held->pending &&
           (held->header.name.step < 0 ||
            !state_same(&held->header.name, &train->copied));
}

int
copy_header_check(const struct copy_header *header, const struct state_name *due,
                  int peer, struct err *err)
{
    if (!state_same(&header->name, due))
        return err_set(err, ERR_WIRE,
                       "peer %d sent a copy of step %lld as epoch %llu computed it, "
                       "instead of step %lld of epoch %llu",
                       peer, (long long)header->name.step,
                       (unsigned long long)header->name.lineage.epoch,
                       (long long)due->step, (unsigned long long)due->lineage.epoch);
    /* Believed, it would cost the copies that are. */
    if (header->copied_step > due->step)
        return err_set(err, ERR_WIRE,
                       "peer %d says with its copy of step %lld that those of step %lld, "
                       "which is to come, are complete",
                       peer, (long long)due->step, (long long)header->copied_step);
    return 0;
}

/* All copies of `step` are complete: what is older has done its duty. */
void
held_copied(struct train *train, int64_t step)
{
    if (step <= train->copied.step)
        return;
    train->copied = (struct state_name){step, train->newest};
    for (int i = train->held_count - 1; i >= 0; i--) {
        struct held *held = train->held[i];
        if (held->header.name.step <= step)
            held->pending = false;
        if (held->header.name.step >= step || held->sends_count || held->coming)
            continue;
        if (held->reserved)
            held->header.name.step = -1;
        else
            held_free(train, held);
    }
}

/* ---- what a halted node says ---- */

static void
add_holding(struct progress *out, enum state_source source, const struct state_name *name,
            int first_layer, int layers, uint64_t samples_hash)
{
    if (out->holdings_count == HOLDINGS_MAX)
        return;
    out->holdings[out->holdings_count++] = (struct holding){.source = source,
                                                            .name = *name,
                                                            .first_layer = first_layer,
                                                            .layers = layers,
                                                            .samples_hash = samples_hash};
}

/* Runs of layers of which there is a copy in this state. */
static void
add_copies(const struct train *train, struct progress *out, const struct state_name *name)
{
    int layers = workload_layers(&train->shape);
    int first = -1;
    uint64_t hash = 0;
    for (int l = 0; l <= layers; l++) {
        const struct held *held = l < layers ? held_find(train, name, l) : NULL;
        if (held && first < 0) {
            first = l;
            hash = held->header.samples_hash;
        } else if (!held && first >= 0) {
            add_holding(out, SOURCE_COPY, name, first, l - first, hash);
            first = -1;
        }
    }
}

/* The newest state below `below` of which there is a copy; false: none. */
static bool
name_below(const struct train *train, const struct state_name *below,
           struct state_name *out)
{
    bool found = false;
    for (int i = 0; i < train->held_count; i++) {
        const struct held *held = train->held[i];
        if (!readable(held) || state_compare(&held->header.name, below) >= 0 ||
            (found && state_compare(&held->header.name, out) <= 0))
            continue;
        *out = held->header.name;
        found = true;
    }
    return found;
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
        out->lineage = train->lineage;
        out->normed = train->normed;
        out->prepared = train->prepared;
        out->prepared_in = train->prepared_in;
        out->norm_bits = train->norm_bits;
        out->samples_hash = train->samples_hash;
        if (train->live)
            add_holding(out, SOURCE_LIVE,
                        &(struct state_name){train->applied, train->lineage},
                        train->spec.first_layer, train->spec.layers, train->samples_hash);
    }
    if (train->disk.step >= 0)
        add_holding(out, SOURCE_DISK, &train->disk, 0,
                    workload_layers(&train->disk_shape), train->disk_samples_hash);
    if (!ours)
        return;
    /* What is complete everywhere first: it must not be crowded out. */
    if (train->copied.step >= 0)
        add_copies(train, out, &train->copied);
    struct state_name name = {.step = INT64_MAX}, next;
    for (; name_below(train, &name, &next); name = next)
        if (!state_same(&next, &train->copied))
            add_copies(train, out, &next);
}
