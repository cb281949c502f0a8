#include "planner/memory.h"
#include "planner/replay.h"
#include "planner/schedule.h"
#include "planner/workload.h"

/* Of our own engine's model: what it lays out. */
static void
engine_memory(const struct fleet_plan *plan, const struct fleet *fleet, int stage,
              struct memory_parts *out)
{
    int most = 1;
    for (int j = 0; j < plan->width; j++)
        most = plan->micro_batches[j] > most ? plan->micro_batches[j] : most;
    struct stage_spec spec = {
        .first_layer = plan->first_layer[stage],
        .layers = plan->layers[stage],
        .micro_batch = plan->micro_batch,
        .in_flight = schedule_in_flight(plan->stages_count, stage, most),
        .copies = fleet->table.engine_copies,
    };
    struct stage_bytes bytes;
    workload_stage_bytes(fleet->table.engine, &spec, &bytes);
    out->weights = bytes.weights;
    out->gradients = bytes.gradients;
    out->optimizer = bytes.optimizer;
    out->activations = bytes.activations;
    out->workspace = bytes.workspace + bytes.communication + bytes.copies;
    out->total = bytes.total;
}

void
replay_memory(const struct fleet_plan *plan, const struct fleet_request *request,
              const struct fleet *fleet, int stage, int pipeline,
              struct memory_parts *out)
{
    const struct replica *replica = fleet_plan_replica(plan, stage, pipeline);
    out->room = fleet->kinds[fleet->pools[replica->pool].kind].memory_bytes;
    if (fleet->table.engine) {
        engine_memory(plan, fleet, stage, out);
        return;
    }
    const struct layer_size *sizes = fleet->table.sizes[tp_slot(replica->tp)];
    const struct layer_size *whole = fleet->table.sizes[0];
    int first = plan->first_layer[stage];
    int end = first + plan->layers[stage];
    struct run_sizes run = {0};
    for (int l = first; l < end; l++) {
        run.parameters += sizes[l].parameters;
        run.kept_bytes += sizes[l].kept_bytes;
        run.input_bytes += l > 0 ? whole[l - 1].output_bytes : 0;
        if (sizes[l].kept_bytes > run.largest_bytes)
            run.largest_bytes = sizes[l].kept_bytes;
    }
    if (stage > 0)
        run.boundary_bytes += whole[first - 1].output_bytes;
    if (stage + 1 < plan->stages_count)
        run.boundary_bytes += whole[end - 1].output_bytes;
    struct run_terms terms = {
        .precision = plan->precision,
        .recompute = plan->recompute,
        .shard_optimizer = plan->shard_optimizer,
        .micro_batch = plan->micro_batch,
        .width = plan->width,
        .tp = replica->tp,
        .in_flight =
            schedule_in_flight(plan->stages_count, stage, plan->micro_batches[pipeline]),
    };
    memory_of_run(&run, &terms, &request->framework, out);
}
