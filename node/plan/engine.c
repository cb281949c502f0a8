#include "node/plan/engine.h"
#include "planner/layer_table.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Is it a job that the engine carries out as it is? */
static bool
is_ours(const struct plan_job *job, const struct fleet *fleet)
{
    const struct fleet_request *request = &job->request;
    return job->engine_model && !job->foreign && !fleet->table.engine &&
           fleet->cost_model == COST_MODEL_REPLAY && request->bf16 == CHOICE_OFF &&
           request->recompute == CHOICE_OFF && request->shard_optimizer == CHOICE_OFF &&
           request->tp <= 1;
}

/* Do the profiles have the engine's own layers, and nothing else? */
static bool
same_layers(const struct layer_table *told, const struct layer_table *own)
{
    bool same = told->layers_count == own->layers_count &&
                told->sequence_tokens == own->sequence_tokens &&
                told->update_parameters[0] == 0;
    for (int slot = 1; slot < TP_SLOTS; slot++)
        same = same && !told->sizes[slot];
    return same && memcmp(told->sizes[0], own->sizes[0],
                          (size_t)own->layers_count * sizeof(own->sizes[0][0])) == 0;
}

static int64_t
whole_ns(double seconds)
{
    return (int64_t)(seconds * 1e9 + 0.5);
}

/* What a type measured of one layer, as a node's report has it; false when that are more sizes
 * than a report has. */
static bool
layer_profile(const struct fleet_kind *kind, int layer, struct cluster_node *out)
{
    struct profile *profile = &out->profile;
    *out = (struct cluster_node){0};
    for (int t = 0; t < kind->times_count; t++) {
        const struct fleet_times *times = &kind->times[t];
        if (times->precision != PRECISION_FP32 || times->tp != 1)
            continue;
        if (profile->count == PROFILE_ENTRIES_MAX)
            return false;
        struct profile_entry *entry = &profile->entries[profile->count++];
        entry->micro_batch = times->micro_batch;
        for (int k = 0; k < LAYER_KINDS; k++) {
            entry->forward_ns[k] = whole_ns(times->layers[layer].forward_s);
            entry->backward_ns[k] = whole_ns(times->layers[layer].backward_s);
            entry->update_ns[k] = whole_ns(times->layers[layer].update_s);
        }
    }
    profile->correction_ppm = (int64_t)(kind->correction * 1e6 + 0.5);
    return profile->count > 0;
}

/* A type's times at these sizes, its correction in them. */
static void
widen(const struct model_shape *shape, const int *sizes, int sizes_count, int layers,
      struct fleet_kind *kind)
{
    struct cluster_node node;
    if (!layer_profile(kind, 0, &node))
        return;
    struct fleet_times *wide = xcalloc((size_t)sizes_count + 1, sizeof(*wide));
    for (int i = 0; i < sizes_count; i++) {
        wide[i] = (struct fleet_times){
            .precision = PRECISION_FP32, .micro_batch = sizes[i], .tp = 1};
        wide[i].layers = xcalloc((size_t)layers, sizeof(*wide[i].layers));
    }
    for (int l = 0; l < layers; l++) {
        layer_profile(kind, l, &node);
        for (int i = 0; i < sizes_count; i++)
            layer_table_time(&node, workload_layer_kind(shape, l), sizes[i],
                             &wide[i].layers[l]);
    }
    for (int t = 0; t < kind->times_count; t++)
        free(kind->times[t].layers);
    free(kind->times);
    kind->times = wide;
    kind->times_count = sizes_count;
    kind->correction = 1;
}

void
plan_engine_bind(struct plan_job *job, struct plan_cluster *cluster)
{
    struct fleet *fleet = cluster->fleet;
    struct fleet_request *request = &job->request;
    struct layer_table own = {0};
    const int64_t *copies = job->file->copy.every_steps;
    if (!is_ours(job, fleet))
        return;
    layer_table_engine(&job->shape, !copies || *copies > 0, &own);
    bool same = same_layers(&fleet->table, &own);
    free(own.sizes[0]);
    if (!same) {
        plan_cluster_note(cluster,
                          "the profiles of \"%s\" have other layers than this version's "
                          "engine; the plan is for what they say, not for the engine\n",
                          job->model);
        return;
    }
    int devices = 0, sizes[LAYER_TABLE_SIZES_MAX];
    for (int p = 0; p < fleet->pools_count; p++)
        if (fleet->kinds[fleet->pools[p].kind].times_count > 0)
            devices += fleet->pools[p].devices;
    int count = layer_table_sizes(&job->shape, request->sequences, request->micro_batch,
                                  devices, sizes);
    for (int k = 0; k < fleet->kinds_count; k++)
        widen(&job->shape, sizes, count, fleet->table.layers_count, &fleet->kinds[k]);
    fleet->table.engine = &job->shape;
    fleet->table.engine_copies = own.engine_copies;
    layer_table_request(request);
}
