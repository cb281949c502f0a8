#include "planner/published.h"
#include "planner/schedule.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* One pipeline's stage. */
struct leg {
    double compute_s; /* forward and backward of a micro-batch */
    double transfer_s;
    double update_s;
    int link_to; /* pool at the other end of its slower transfer; -1: none */
};

double
published_reduce_s(const struct fleet_curve *curve, double bytes, int peers)
{
    double total = 0.0;
    while (bytes > 0.0 && peers > 1) {
        double bucket = bytes < PUBLISHED_BUCKET_BYTES ? bytes : PUBLISHED_BUCKET_BYTES;
        total += 2.0 * (double)(peers - 1) * fleet_send_s(curve, bucket / (double)peers);
        bytes -= bucket;
    }
    return total;
}

void
published_memory(const struct fleet_plan *plan, const struct fleet *fleet, int stage,
                 int pipeline, struct memory_parts *out)
{
    const struct replica *replica = fleet_plan_replica(plan, stage, pipeline);
    const struct layer_size *sizes = fleet->table.sizes[tp_slot(replica->tp)];
    int64_t parameters = 0;
    int64_t kept = 0;
    for (int l = 0; l < plan->layers[stage]; l++) {
        parameters += sizes[plan->first_layer[stage] + l].parameters;
        kept += sizes[plan->first_layer[stage] + l].kept_bytes;
    }
    /* Of the 24 bytes 4 are the model, 4 gradients, 8 Adam's moments; 4 buffers of the
     * communication and 4 further copies of the framework. */
    *out = (struct memory_parts){
        .weights = 4 * parameters,
        .gradients = 4 * parameters,
        .optimizer = 8 * parameters,
        .activations = (plan->stages_count - stage) * plan->micro_batch * kept,
        .workspace = 8 * parameters + (replica->tp == 1 ? PUBLISHED_OVERHEAD_BYTES
                                                        : PUBLISHED_OVERHEAD_TP_BYTES),
        .room = fleet->kinds[fleet->pools[replica->pool].kind].memory_bytes,
    };
    out->total = out->weights + out->gradients + out->optimizer + out->activations +
                 out->workspace;
}

/* What a stage sends to a neighbour stage of its pipeline: the output of `layer`. */
static double
boundary_s(const struct fleet_plan *plan, const struct fleet *fleet, int stage, int to,
           int pipeline, int layer)
{
    const struct replica *here = fleet_plan_replica(plan, stage, pipeline);
    const struct replica *there = fleet_plan_replica(plan, to, pipeline);
    const struct fleet_curve *curve = fleet_curve(fleet, here->pool, tp_slot(here->tp),
                                                  there->pool, tp_slot(there->tp));
    must(curve);
    return fleet_send_s(curve, (double)fleet->table.sizes[0][layer].output_bytes *
                                   (double)plan->micro_batch);
}

static void
leg_fill(const struct fleet_plan *plan, const struct fleet *fleet, int stage,
         int pipeline, struct leg *leg)
{
    const struct replica *replica = fleet_plan_replica(plan, stage, pipeline);
    const struct fleet_kind *kind = &fleet->kinds[fleet->pools[replica->pool].kind];
    const struct layer_time *times =
        fleet_kind_times(kind, plan->precision, plan->micro_batch, replica->tp);
    must(times);
    int first = plan->first_layer[stage];
    int last_stage = plan->stages_count - 1;
    *leg = (struct leg){.update_s = times[first].update_s, .link_to = -1};
    for (int l = first; l < first + plan->layers[stage]; l++)
        leg->compute_s += times[l].forward_s + times[l].backward_s;
    leg->compute_s *= kind->correction;
    leg->update_s *= kind->correction;
    double activation = 0.0;
    double gradient = 0.0;
    if (stage < last_stage) {
        activation = boundary_s(plan, fleet, stage, stage + 1, pipeline,
                                first + plan->layers[stage] - 1);
        leg->link_to = fleet_plan_replica(plan, stage + 1, pipeline)->pool;
    }
    if (stage > 0) {
        gradient = boundary_s(plan, fleet, stage, stage - 1, pipeline, first);
        if (gradient > activation)
            leg->link_to = fleet_plan_replica(plan, stage - 1, pipeline)->pool;
    }
    if (stage > 0 && stage < last_stage)
        leg->transfer_s = activation + gradient;
    else if (stage == last_stage)
        leg->transfer_s = 2.0 * gradient;
    else
        leg->transfer_s = plan->stages_count <= 3 ? activation : 2.0 * activation;
}

/* Does a pipeline run on the same pools with the same degrees as the one before? */
static bool
same_as_before(const struct fleet_plan *plan, int pipeline)
{
    for (int s = 0; pipeline > 0 && s < plan->stages_count; s++) {
        const struct replica *here = fleet_plan_replica(plan, s, pipeline);
        const struct replica *before = fleet_plan_replica(plan, s, pipeline - 1);
        if (here->pool != before->pool || here->tp != before->tp)
            return false;
    }
    return pipeline > 0;
}

/* The stretches of one pipeline under the model's assumptions: stage by stage a stage waits
 * its turn, then computes and sends in one go, the slowest stage setting the pace. */
static void
tell_pipeline(const struct fleet_plan *plan, const struct leg *legs, int pipeline,
              int slowest, step_event_fn *on_event, void *context)
{
    double pace = legs[slowest].compute_s + legs[slowest].transfer_s;
    double before = 0.0;
    for (int s = 0; s < plan->stages_count; s++) {
        const struct leg *leg = &legs[s];
        for (int m = 0; m < plan->micro_batches[pipeline]; m++) {
            double start = before + (double)m * pace;
            double middle = start + leg->compute_s / 3.0;
            double end = start + leg->compute_s;
            struct step_event event = {STEP_FORWARD, s, pipeline, m, -1, start, middle};
            on_event(context, &event);
            event = (struct step_event){STEP_BACKWARD, s, pipeline, m, -1, middle, end};
            on_event(context, &event);
            if (leg->transfer_s > 0.0) {
                int to = s + 1 < plan->stages_count ? s + 1 : s - 1;
                event = (struct step_event){
                    STEP_SEND, s, pipeline, m, to, end, end + leg->transfer_s};
                on_event(context, &event);
            }
        }
        before += leg->compute_s + leg->transfer_s;
    }
}

/* The pipelines' time, all stages' parts and what the slowest pipeline is made of. */
static void
estimate_pipelines(const struct fleet_plan *plan, const struct fleet *fleet,
                   step_event_fn *on_event, void *context, struct estimate *out)
{
    struct leg legs[STAGES_MAX];
    double slowest_s = -1.0;
    struct bound *bound = &out->bound;
    for (int j = 0; j < plan->width; j++) {
        bool repeats = same_as_before(plan, j);
        int slowest = 0;
        double sum = 0.0;
        for (int s = 0; s < plan->stages_count; s++) {
            if (!repeats)
                leg_fill(plan, fleet, s, j, &legs[s]);
            sum += legs[s].compute_s + legs[s].transfer_s;
            if (legs[s].compute_s + legs[s].transfer_s >
                legs[slowest].compute_s + legs[slowest].transfer_s)
                slowest = s;
            struct stage_estimate *stage = &out->stages[s];
            if (legs[s].compute_s > stage->compute_s)
                stage->compute_s = legs[s].compute_s;
            if (legs[s].transfer_s > stage->transfer_s)
                stage->transfer_s = legs[s].transfer_s;
            if (legs[s].update_s > stage->update_s)
                stage->update_s = legs[s].update_s;
        }
        if (on_event)
            tell_pipeline(plan, legs, j, slowest, on_event, context);
        double pace = legs[slowest].compute_s + legs[slowest].transfer_s;
        double count = (double)plan->micro_batches[j];
        double all = (count - 1.0) * pace + sum;
        if (all > slowest_s) {
            slowest_s = all;
            bound->pipeline = j;
            bound->stage = slowest;
            bound->part_s[BOUND_COMPUTE] = count * legs[slowest].compute_s;
            bound->part_s[BOUND_TRANSFER] = count * legs[slowest].transfer_s;
            bound->part_s[BOUND_FILL] = sum - pace;
            bound->link_from = fleet_plan_replica(plan, slowest, j)->pool;
            bound->link_to = legs[slowest].link_to;
        }
    }
    for (int s = 0; s < plan->stages_count; s++)
        if (out->stages[s].update_s > bound->part_s[BOUND_UPDATE])
            bound->part_s[BOUND_UPDATE] = out->stages[s].update_s;
    out->iteration_s = slowest_s;
}

/* The slowest stage's reduction; which pools its slowest neighbours are of. */
static double
estimate_reduce(const struct fleet_plan *plan, const struct fleet *fleet,
                struct estimate *out, int *from_pool, int *to_pool)
{
    double slowest = 0.0;
    *from_pool = -1;
    *to_pool = -1;
    for (int s = 0; s < plan->stages_count; s++) {
        double bytes = 0.0;
        for (int l = 0; l < plan->layers[s]; l++)
            bytes +=
                4.0 * (double)fleet->table.sizes[0][plan->first_layer[s] + l].parameters;
        int least = 4;
        for (int j = 0; j < plan->width; j++)
            if (fleet_plan_replica(plan, s, j)->tp < least)
                least = fleet_plan_replica(plan, s, j)->tp;
        const struct fleet_curve *last = NULL;
        for (int j = 0; j + 1 < plan->width; j++) {
            const struct replica *here = fleet_plan_replica(plan, s, j);
            const struct replica *next = fleet_plan_replica(plan, s, j + 1);
            const struct fleet_curve *curve =
                fleet_curve(fleet, here->pool, 0, next->pool, 0);
            must(curve);
            if (curve == last)
                continue;
            last = curve;
            double seconds =
                published_reduce_s(curve, bytes / (double)least, plan->width);
            if (seconds > out->stages[s].reduce_s)
                out->stages[s].reduce_s = seconds;
            if (seconds > slowest) {
                slowest = seconds;
                out->bound.reduce_stage = s;
                *from_pool = here->pool;
                *to_pool = next->pool;
            }
        }
    }
    return slowest;
}

static void
tell_ends(const struct fleet_plan *plan, const struct estimate *out,
          step_event_fn *on_event, void *context)
{
    double start = out->iteration_s;
    for (int s = 0; s < plan->stages_count; s++) {
        double reduced = start + out->stages[s].reduce_s;
        double all = start + out->bound.part_s[BOUND_REDUCE];
        for (int j = 0; j < plan->width; j++) {
            struct step_event event = {STEP_REDUCE, s, j, -1, -1, start, reduced};
            if (plan->width > 1)
                on_event(context, &event);
            event = (struct step_event){
                STEP_UPDATE, s, j, -1, -1, all, all + out->stages[s].update_s};
            on_event(context, &event);
        }
    }
}

int
published_evaluate(const struct fleet_plan *plan, const struct fleet *fleet,
                   step_event_fn *on_event, void *context, struct estimate *out,
                   struct err *err)
{
    estimate_pipelines(plan, fleet, on_event, context, out);
    struct bound *bound = &out->bound;
    int from_pool;
    int to_pool;
    bound->part_s[BOUND_REDUCE] = estimate_reduce(plan, fleet, out, &from_pool, &to_pool);
    if (on_event)
        tell_ends(plan, out, on_event, context);
    out->iteration_s =
        out->iteration_s + bound->part_s[BOUND_UPDATE] + bound->part_s[BOUND_REDUCE];
    for (int part = 0; part <= BOUND_UPDATE; part++)
        if (bound->part_s[part] > bound->part_s[bound->what])
            bound->what = (enum bound_kind)part;
    if (bound->what == BOUND_REDUCE) {
        bound->link_from = from_pool;
        bound->link_to = to_pool;
    }
    if (out->iteration_s >= FLEET_NEVER_S)
        return err_set(err, ERR_PLAN, "a link of the plan carries nothing");
    return 0;
}
