#include "planner/layer_table.h"
#include "planner/plan.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

void
layer_table_engine(const struct model_shape *shape, bool copies,
                   struct layer_table *table)
{
    table->layers_count = workload_layers(shape);
    table->sequence_tokens = shape->context;
    table->sizes[0] = xcalloc((size_t)table->layers_count, sizeof(struct layer_size));
    table->engine = shape;
    table->engine_copies = copies;
    for (int l = 0; l < table->layers_count; l++) {
        struct stage_spec spec = {
            .first_layer = l, .layers = 1, .micro_batch = 1, .in_flight = 1};
        struct stage_layout layout;
        workload_stage_layout(shape, &spec, &layout);
        table->sizes[0][l] = (struct layer_size){
            .parameters = workload_layer_parameters(shape, l),
            .output_bytes =
                l + 1 < table->layers_count ? workload_boundary_bytes(shape, 1) : 0,
            .kept_bytes = layout.slot * 4,
        };
    }
}

int
layer_table_sizes(const struct model_shape *shape, int sequences, int fixed, int devices,
                  int sizes[LAYER_TABLE_SIZES_MAX])
{
    int pipelines = devices < REPLICAS_MAX ? devices : REPLICAS_MAX;
    int count = 0;
    for (int size = 1; size <= sequences; size++) {
        if (sequences % size != 0 || (count == LAYER_TABLE_SIZES_MAX && size != fixed) ||
            (int64_t)size * shape->context > MICRO_BATCH_TOKENS_MAX ||
            sequences / size > MICRO_BATCHES_MAX * pipelines)
            continue;
        count -= count == LAYER_TABLE_SIZES_MAX;
        sizes[count++] = size;
    }
    return count;
}

void
layer_table_time(const struct cluster_node *node, enum layer_kind kind, int micro_batch,
                 struct layer_time *out)
{
    int64_t forward_ns, backward_ns, update_ns;
    must(cluster_layer_ns(node, kind, micro_batch, &forward_ns, &backward_ns,
                          &update_ns) == 0);
    *out = (struct layer_time){.forward_s = (double)forward_ns / 1e9,
                               .backward_s = (double)backward_ns / 1e9,
                               .update_s = (double)update_ns / 1e9};
}

void
layer_table_request(struct fleet_request *request)
{
    request->framework = (struct framework){.overlap = true, .bucket_bytes = 1e18};
    request->quick = true;
    request->tp = 1;
}
