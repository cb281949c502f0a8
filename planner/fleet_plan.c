#include "planner/fleet_plan.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void
fleet_request_init(struct fleet_request *request, int sequences)
{
    *request = (struct fleet_request){
        .sequences = sequences,
        .objective = OBJECTIVE_THROUGHPUT,
        .usd_per_iteration_max = -1.0,
        .usd_per_hour_max = -1.0,
        .iterations_per_s_min = 0.0,
        .framework = {.overlap = true, .bucket_bytes = 25e6},
    };
}

void
fleet_plan_init(struct fleet_plan *plan, int stages_count, int width)
{
    must(stages_count > 0 && stages_count <= STAGES_MAX);
    must(width > 0 && width <= FLEET_DEVICES_MAX);
    memset(plan, 0, sizeof(*plan));
    plan->stages_count = stages_count;
    plan->width = width;
    plan->micro_batches = xcalloc((size_t)width, sizeof(*plan->micro_batches));
    plan->replicas =
        xcalloc((size_t)stages_count * (size_t)width, sizeof(*plan->replicas));
}

void
fleet_plan_release(struct fleet_plan *plan)
{
    free(plan->micro_batches);
    free(plan->replicas);
    memset(plan, 0, sizeof(*plan));
}

void
fleet_plan_copy(const struct fleet_plan *plan, struct fleet_plan *out)
{
    *out = *plan;
    size_t width = (size_t)plan->width;
    out->micro_batches =
        xmemdup(plan->micro_batches, width * sizeof(*out->micro_batches));
    out->replicas = xmemdup(plan->replicas,
                            (size_t)plan->stages_count * width * sizeof(*out->replicas));
}

int
fleet_plan_devices(const struct fleet_plan *plan, int used[FLEET_POOLS_MAX])
{
    int sum = 0;
    memset(used, 0, FLEET_POOLS_MAX * sizeof(*used));
    for (int64_t i = 0; i < (int64_t)plan->stages_count * plan->width; i++) {
        used[plan->replicas[i].pool] += plan->replicas[i].tp;
        sum += plan->replicas[i].tp;
    }
    return sum;
}

static int
check_shape(const struct fleet_plan *plan, const struct fleet *fleet, struct err *err)
{
    int layers = fleet->table.layers_count;
    if (plan->stages_count < 1 || plan->stages_count > STAGES_MAX)
        return err_set(err, ERR_PLAN, "plan has %d stages, the limit is 1 to %d",
                       plan->stages_count, STAGES_MAX);
    if (plan->width < 1 || plan->width > FLEET_DEVICES_MAX)
        return err_set(err, ERR_PLAN, "plan has %d pipelines, the limit is 1 to %d",
                       plan->width, FLEET_DEVICES_MAX);
    int next = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        if (plan->first_layer[s] != next || plan->layers[s] < 1 ||
            plan->layers[s] > layers - next)
            return err_set(
                err, ERR_PLAN,
                "stage %d has %d layers from layer %d, expected some of %d from "
                "layer %d",
                s, plan->layers[s], plan->first_layer[s], layers - next, next);
        next += plan->layers[s];
    }
    if (next != layers)
        return err_set(err, ERR_PLAN, "plan ends at layer %d, the model has %d", next,
                       layers);
    return 0;
}

static int
check_batch(const struct fleet_plan *plan, const struct fleet_request *request,
            struct err *err)
{
    if (plan->micro_batch < 1 || plan->micro_batch > request->sequences)
        return err_set(err, ERR_PLAN, "micro-batch of %d sequences, the batch has %d",
                       plan->micro_batch, request->sequences);
    int64_t sequences = 0;
    for (int j = 0; j < plan->width; j++) {
        if (plan->micro_batches[j] < 1 || plan->micro_batches[j] > request->sequences)
            return err_set(err, ERR_PLAN, "pipeline %d has %d micro-batches", j,
                           plan->micro_batches[j]);
        sequences += (int64_t)plan->micro_batches[j] * plan->micro_batch;
    }
    if (sequences != request->sequences)
        return err_set(err, ERR_PLAN,
                       "plan takes %" PRId64 " sequences an iteration, the batch has %d",
                       sequences, request->sequences);
    return 0;
}

static int
check_replica(const struct fleet_plan *plan, const struct fleet *fleet, int stage,
              int pipeline, struct err *err)
{
    const struct replica *replica = fleet_plan_replica(plan, stage, pipeline);
    if (replica->pool < 0 || replica->pool >= fleet->pools_count)
        return err_set(err, ERR_PLAN, "stage %d names pool %d of %d", stage,
                       replica->pool, fleet->pools_count);
    const struct fleet_kind *kind = &fleet->kinds[fleet->pools[replica->pool].kind];
    if (tp_slot(replica->tp) < 0 || replica->tp > kind->machine_devices)
        return err_set(err, ERR_PLAN,
                       "stage %d: tp %d on \"%s\", of which a machine has %d", stage,
                       replica->tp, kind->name, kind->machine_devices);
    int group_max = fleet_pool_group_max(fleet, replica->pool);
    if (replica->tp > group_max)
        return err_set(err, ERR_PLAN,
                       "stage %d: tp %d on \"%s\" in zone \"%s\", whose machines are of "
                       "sizes that groups of more than %d do not fill",
                       stage, replica->tp, kind->name,
                       fleet->zones[fleet->pools[replica->pool].zone].name, group_max);
    if (plan->precision < 0 || plan->precision >= PRECISIONS ||
        !fleet_kind_times(kind, plan->precision, plan->micro_batch, replica->tp))
        return err_set(
            err, ERR_PLAN,
            "stage %d: \"%s\" was not measured in %s with tp %d and a micro-batch of "
            "%d",
            stage, kind->name, plan->precision == PRECISION_BF16 ? "bf16" : "fp32",
            replica->tp, plan->micro_batch);
    return 0;
}

static int
not_joined(const struct fleet *fleet, int from_pool, int to_pool, struct err *err)
{
    const struct fleet_pool *from = &fleet->pools[from_pool];
    const struct fleet_pool *to = &fleet->pools[to_pool];
    return err_set(err, ERR_PLAN,
                   "the plan joins \"%s\" in zone \"%s\" to \"%s\" in zone \"%s\", which "
                   "have no link",
                   fleet->kinds[from->kind].name, fleet->zones[from->zone].name,
                   fleet->kinds[to->kind].name, fleet->zones[to->zone].name);
}

static int
check_links(const struct fleet_plan *plan, const struct fleet *fleet, int stage,
            int pipeline, struct err *err)
{
    const struct replica *here = fleet_plan_replica(plan, stage, pipeline);
    if (stage + 1 < plan->stages_count) {
        const struct replica *next = fleet_plan_replica(plan, stage + 1, pipeline);
        int slot = tp_slot(here->tp);
        int next_slot = tp_slot(next->tp);
        if (!fleet_curve(fleet, here->pool, slot, next->pool, next_slot) ||
            !fleet_curve(fleet, next->pool, next_slot, here->pool, slot))
            return not_joined(fleet, here->pool, next->pool, err);
    }
    bool closes = fleet->cost_model != COST_MODEL_PUBLISHED;
    if (plan->width > 1 && (closes || pipeline + 1 < plan->width)) {
        const struct replica *next =
            fleet_plan_replica(plan, stage, (pipeline + 1) % plan->width);
        if (!fleet_curve(fleet, here->pool, 0, next->pool, 0))
            return not_joined(fleet, here->pool, next->pool, err);
    }
    return 0;
}

static int
check_fixed(const struct fleet_plan *plan, const struct fleet_request *request,
            const struct fleet *fleet, struct err *err)
{
    const struct {
        const char *name;
        int fixed;
        int planned;
    } parts[] = {{"pipeline", request->pipeline, plan->stages_count},
                 {"replicas", request->replicas, plan->width},
                 {"micro_batch", request->micro_batch, plan->micro_batch},
                 {"zones", request->stage_zones_count, plan->stages_count}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].fixed > 0 && parts[i].fixed != parts[i].planned)
            return err_set(err, ERR_PLAN, "the job fixes %s to %d, the plan has %d",
                           parts[i].name, parts[i].fixed, parts[i].planned);
    for (int s = 0; s < plan->stages_count; s++) {
        for (int j = 0; j < plan->width; j++) {
            const struct replica *replica = fleet_plan_replica(plan, s, j);
            if (request->tp > 0 && replica->tp != request->tp)
                return err_set(err, ERR_PLAN,
                               "the job fixes tp to %d, stage %d of the plan has %d",
                               request->tp, s, replica->tp);
            int zone = fleet->pools[replica->pool].zone;
            if (request->stage_zones_count > 0 && zone != request->stage_zones[s])
                return err_set(
                    err, ERR_PLAN,
                    "the job fixes stage %d to zone \"%s\", the plan has it in "
                    "zone \"%s\"",
                    s, fleet->zones[request->stage_zones[s]].name,
                    fleet->zones[zone].name);
        }
    }
    const struct {
        const char *name;
        enum choice choice;
        bool planned;
        const char *words[2]; /* of the job's key: off, on */
    } choices[] = {
        {"precision", request->bf16, plan->precision == PRECISION_BF16, {"fp32", "bf16"}},
        {"recompute",
         request->recompute,
         plan->recompute == RECOMPUTE_LAYERS,
         {"none", "full"}},
        {"zero", request->shard_optimizer, plan->shard_optimizer, {"none", "optimizer"}}};
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
        if (choices[i].choice != CHOICE_OPEN &&
            choices[i].planned != (choices[i].choice == CHOICE_ON))
            return err_set(err, ERR_PLAN, "%s of the job is %s, of the plan %s",
                           choices[i].name,
                           choices[i].words[choices[i].choice == CHOICE_ON],
                           choices[i].words[choices[i].planned]);
    return 0;
}

int
fleet_plan_check(const struct fleet_plan *plan, const struct fleet_request *request,
                 const struct fleet *fleet, struct err *err)
{
    if (check_shape(plan, fleet, err) != 0 || check_batch(plan, request, err) != 0)
        return -1;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->width; j++)
            if (check_replica(plan, fleet, s, j, err) != 0)
                return -1;
    int used[FLEET_POOLS_MAX];
    fleet_plan_devices(plan, used);
    for (int p = 0; p < fleet->pools_count; p++) {
        const struct fleet_pool *pool = &fleet->pools[p];
        if (used[p] > pool->devices)
            return err_set(err, ERR_PLAN, "plan uses %d of %d \"%s\" in zone \"%s\"",
                           used[p], pool->devices, fleet->kinds[pool->kind].name,
                           fleet->zones[pool->zone].name);
    }
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->width; j++)
            if (check_links(plan, fleet, s, j, err) != 0)
                return -1;
    return check_fixed(plan, request, fleet, err);
}
