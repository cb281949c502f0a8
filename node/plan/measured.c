#include "node/plan/measured.h"
#include "node/plan/job.h"
#include "planner/workload.h"
#include "transport/base/must.h"

#include <stdio.h>

/* What a layer by itself keeps of one sequence, in floats. */
static int64_t
kept_of(const struct model_shape *shape, int layer)
{
    struct stage_spec spec = {
        .first_layer = layer, .layers = 1, .micro_batch = 1, .in_flight = 1};
    struct stage_layout layout;
    workload_stage_layout(shape, &spec, &layout);
    return layout.slot;
}

void
plan_measured_profile(const struct model_shape *shape, const struct profile *profile,
                      const char *device, struct profile_file *out)
{
    int layers = workload_layers(shape);
    must(profile->count > 0);
    profile_file_init(out, layers, 1, profile->count);
    plan_job_model_name(shape, out->model);
    snprintf(out->device, sizeof(out->device), "%s", device);
    out->tokens = shape->context;
    out->element_bytes = sizeof(float);
    struct profile_sizes *sizes = &out->sizes[0];
    sizes->tp = 1;
    for (int l = 0; l < layers; l++) {
        bool head = workload_layer_kind(shape, l) == LAYER_HEAD;
        sizes->parameters[l] = workload_layer_parameters(shape, l);
        sizes->output_elements[l] =
            head ? 0 : workload_boundary_bytes(shape, 1) / (int64_t)sizeof(float);
        sizes->kept_elements[l] = kept_of(shape, l);
    }
    for (int i = 0; i < profile->count; i++) {
        const struct profile_entry *entry = &profile->entries[i];
        struct profile_times *times = &out->times[i];
        times->tp = 1;
        times->micro_batch = entry->micro_batch;
        for (int l = 0; l < layers; l++) {
            enum layer_kind kind = workload_layer_kind(shape, l);
            times->forward_s[l] = (double)entry->forward_ns[kind] / 1e9;
            times->backward_s[l] = (double)entry->backward_ns[kind] / 1e9;
            times->update_s[l] = (double)entry->update_ns[kind] / 1e9;
        }
    }
}
