#include "planner/evaluate.h"
#include "planner/published.h"
#include "planner/replay.h"

#include <string.h>

void
evaluate_memory(const struct fleet_plan *plan, const struct fleet_request *request,
                const struct fleet *fleet, int stage, int pipeline,
                struct memory_parts *out)
{
    if (fleet->cost_model == COST_MODEL_PUBLISHED)
        published_memory(plan, fleet, stage, pipeline, out);
    else
        replay_memory(plan, request, fleet, stage, pipeline, out);
}

static void
estimate_memory(const struct fleet_plan *plan, const struct fleet_request *request,
                const struct fleet *fleet, struct estimate *out)
{
    out->fits = true;
    for (int s = 0; s < plan->stages_count; s++) {
        struct stage_estimate *stage = &out->stages[s];
        const struct replica *before = NULL;
        for (int j = 0; j < plan->width; j++) {
            const struct replica *here = fleet_plan_replica(plan, s, j);
            if (before && here->pool == before->pool && here->tp == before->tp &&
                plan->micro_batches[j] <= plan->micro_batches[j - 1])
                continue;
            before = here;
            struct memory_parts parts;
            evaluate_memory(plan, request, fleet, s, j, &parts);
            out->fits = out->fits && parts.total <= parts.room;
            if (j > 0 &&
                parts.room - parts.total >= stage->memory.room - stage->memory.total)
                continue;
            stage->fullest = j;
            stage->memory = parts;
        }
    }
}

static double
egress_usd(const struct fleet *fleet, int from_pool, int to_pool, double bytes,
           bool *known)
{
    double price = fleet->egress_usd_per_gb[fleet->pools[from_pool].zone * ZONES_MAX +
                                            fleet->pools[to_pool].zone];
    if (price < 0.0)
        *known = false;
    return price * bytes;
}

/* What leaves zones: activations and gradients forward and back, and a ring's share of each
 * replica. */
static void
estimate_money(const struct fleet_plan *plan, const struct fleet *fleet,
               struct estimate *out)
{
    bool known = true;
    double weighed = 0.0; /* price x bytes */
    for (int s = 0; s < plan->stages_count; s++) {
        double weights = 0.0;
        int last = plan->first_layer[s] + plan->layers[s] - 1;
        for (int l = plan->first_layer[s]; l <= last; l++)
            weights += 4.0 * (double)fleet->table.sizes[0][l].parameters;
        double width = (double)plan->width;
        double ring = weights / width * 2.0 * (width - 1.0);
        double boundary =
            (double)fleet->table.sizes[0][last].output_bytes * (double)plan->micro_batch;
        for (int j = 0; j < plan->width; j++) {
            int here = fleet_plan_replica(plan, s, j)->pool;
            int next = fleet_plan_replica(plan, s, (j + 1) % plan->width)->pool;
            weighed += egress_usd(fleet, here, next, ring, &known);
            if (s + 1 == plan->stages_count)
                continue;
            int to = fleet_plan_replica(plan, s + 1, j)->pool;
            double all = boundary * (double)plan->micro_batches[j];
            weighed += egress_usd(fleet, here, to, all, &known) +
                       egress_usd(fleet, to, here, all, &known);
        }
    }
    out->egress_usd = weighed / 1e9;
    int used[FLEET_POOLS_MAX];
    fleet_plan_devices(plan, used);
    double usd_per_s = 0.0;
    for (int p = 0; p < fleet->pools_count; p++) {
        if (used[p] > 0 && fleet->pools[p].usd_per_hour < 0.0)
            known = false;
        usd_per_s += (double)used[p] * fleet->pools[p].usd_per_hour / 3600.0;
    }
    out->devices_usd = out->iteration_s * usd_per_s;
    out->usd_per_iteration = out->devices_usd + out->egress_usd;
    if (!known) {
        out->devices_usd = -1.0;
        out->egress_usd = -1.0;
        out->usd_per_iteration = -1.0;
    }
}

int
evaluate(const struct fleet_plan *plan, const struct fleet_request *request,
         const struct fleet *fleet, step_event_fn *on_event, void *context,
         struct estimate *out, struct err *err)
{
    struct estimate made;
    memset(&made, 0, sizeof(made));
    made.stages_count = plan->stages_count;
    made.bound.link_from = -1;
    made.bound.link_to = -1;
    int rc = fleet->cost_model == COST_MODEL_PUBLISHED
                 ? published_evaluate(plan, fleet, on_event, context, &made, err)
                 : replay_evaluate(plan, request, fleet, on_event, context, &made, err);
    if (rc != 0)
        return -1;
    if (!(made.iteration_s > 0.0))
        return err_set(err, ERR_USAGE,
                       "an iteration would take no time; the layer times are all 0");
    made.tokens_per_s = (double)request->sequences *
                        (double)fleet->table.sequence_tokens / made.iteration_s;
    estimate_memory(plan, request, fleet, &made);
    estimate_money(plan, fleet, &made);
    *out = made;
    return 0;
}
