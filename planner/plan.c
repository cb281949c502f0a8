#include "planner/plan.h"
#include "planner/schedule.h"
#include "transport/base/must.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "9.1 GiB" in the unit that fits; a need is rounded up, room is rounded down, so that a
 * need above the room reads so. */
static const char *
size_text(int64_t bytes, bool up, char text[32])
{
    static const char *const names[] = {"KiB", "MiB", "GiB"};
    int unit = bytes >= INT64_C(1) << 30 ? 2 : bytes >= INT64_C(1) << 20 ? 1 : 0;
    int64_t size = INT64_C(1) << (10 * (unit + 1));
    int64_t whole = bytes / size;
    int64_t rest = bytes % size * 10;
    int64_t tenths = rest / size + (up && rest % size > 0);
    if (tenths == 10) {
        whole++;
        tenths = 0;
    }
    snprintf(text, 32, "%" PRId64 ".%" PRId64 " %s", whole, tenths, names[unit]);
    return text;
}

int
plan_no_room(struct err *err, int first_layer, int layer, int64_t need_bytes,
             const struct cluster_node *node, int micro_batch)
{
    char run[64] = "needs";
    char need[32];
    char room[32];
    char name[ID_SHORT_SIZE];
    if (first_layer < layer)
        snprintf(run, sizeof(run), "layers %d to %d need", first_layer, layer);
    return err_set(err, ERR_PLAN, "cannot place layer %d: %s %s, node %s has %s free; %s",
                   layer, run, size_text(need_bytes, true, need),
                   id_short(&node->id, name), size_text(node->memory_bytes, false, room),
                   micro_batch > 1 ? "lower micro_batch or add a node"
                                   : "add a node or make the model smaller");
}

static int
most_micro_batches(const struct plan *plan)
{
    int most = 1;
    for (int j = 0; j < plan->pipelines_count; j++)
        if (plan->micro_batches[j] > most)
            most = plan->micro_batches[j];
    return most;
}

static void
run_bytes(const struct plan *plan, const struct plan_request *request, int stage,
          int layers, struct stage_bytes *out)
{
    struct stage_spec spec = {
        .first_layer = plan->stages[stage].first_layer,
        .layers = layers,
        .micro_batch = plan->micro_batch,
        .in_flight =
            schedule_in_flight(plan->stages_count, stage, most_micro_batches(plan)),
        .copies = request->copies,
    };
    workload_stage_bytes(&request->shape, &spec, out);
}

void
plan_stage_bytes(const struct plan *plan, const struct plan_request *request, int stage,
                 struct stage_bytes *out)
{
    must(stage >= 0 && stage < plan->stages_count);
    run_bytes(plan, request, stage, plan->stages[stage].layers, out);
}

bool
plan_same(const struct plan *left, const struct plan *right)
{
    if (left->micro_batch != right->micro_batch ||
        left->stages_count != right->stages_count ||
        left->pipelines_count != right->pipelines_count ||
        left->predicted_step_ns != right->predicted_step_ns ||
        left->loosened != right->loosened ||
        memcmp(left->micro_batches, right->micro_batches,
               (size_t)left->pipelines_count * sizeof(left->micro_batches[0])) != 0)
        return false;
    for (int s = 0; s < left->stages_count; s++) {
        const struct plan_stage *a = &left->stages[s];
        const struct plan_stage *b = &right->stages[s];
        if (a->first_layer != b->first_layer || a->layers != b->layers ||
            memcmp(a->nodes, b->nodes,
                   (size_t)left->pipelines_count * sizeof(a->nodes[0])) != 0)
            return false;
    }
    return true;
}

int
plan_first_sample(const struct plan *plan, int pipeline)
{
    must(pipeline >= 0 && pipeline < plan->pipelines_count);
    int before = 0;
    for (int j = 0; j < pipeline; j++)
        before += plan->micro_batches[j];
    return before * plan->micro_batch;
}

/* Counts within the limits, layers covered once and in order. */
static int
check_stages(const struct plan *plan, const struct plan_request *request, struct err *err)
{
    int layers = workload_layers(&request->shape);
    if (plan->stages_count < 1 || plan->stages_count > STAGES_MAX ||
        plan->stages_count > layers)
        return err_set(err, ERR_PLAN, "plan has %d stages, the model has %d layers",
                       plan->stages_count, layers);
    if (plan->pipelines_count < 1 || plan->pipelines_count > REPLICAS_MAX)
        return err_set(err, ERR_PLAN, "plan has %d pipelines, the limit is %d",
                       plan->pipelines_count, REPLICAS_MAX);
    int next = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (stage->first_layer != next || stage->layers < 1 ||
            stage->layers > layers - next)
            return err_set(err, ERR_PLAN,
                           "stage %d has %d layers from layer %d, expected some of %d "
                           "from layer %d",
                           s, stage->layers, stage->first_layer, layers - next, next);
        next += stage->layers;
    }
    if (next != layers)
        return err_set(err, ERR_PLAN, "plan ends at layer %d, the model has %d", next,
                       layers);
    return 0;
}

static int
check_batch(const struct plan *plan, const struct plan_request *request, struct err *err)
{
    if (plan->micro_batch < 1 || plan->micro_batch > request->sequences)
        return err_set(err, ERR_PLAN, "micro-batch of %d sequences, the batch has %d",
                       plan->micro_batch, request->sequences);
    int64_t tokens = (int64_t)plan->micro_batch * request->shape.context;
    if (tokens > MICRO_BATCH_TOKENS_MAX)
        return err_set(err, ERR_PLAN,
                       "micro-batch of %" PRId64 " tokens, the limit is %d", tokens,
                       MICRO_BATCH_TOKENS_MAX);
    int64_t sequences = 0;
    for (int j = 0; j < plan->pipelines_count; j++) {
        int count = plan->micro_batches[j];
        if (count < 1 || count > MICRO_BATCHES_MAX)
            return err_set(err, ERR_PLAN,
                           "pipeline %d has %d micro-batches, the limit is 1 to %d", j,
                           count, MICRO_BATCHES_MAX);
        sequences += (int64_t)count * plan->micro_batch;
    }
    if (sequences != request->sequences)
        return err_set(err, ERR_PLAN,
                       "plan takes %" PRId64 " sequences a step, the batch has %d",
                       sequences, request->sequences);
    return 0;
}

static int
check_nodes(const struct plan *plan, const struct cluster *cluster, struct err *err)
{
    bool used[PLAN_NODES_MAX] = {false};
    for (int s = 0; s < plan->stages_count; s++) {
        for (int j = 0; j < plan->pipelines_count; j++) {
            int node = plan->stages[s].nodes[j];
            if (node < 0 || node >= cluster->nodes_count)
                return err_set(err, ERR_PLAN, "stage %d names node %d of %d", s, node,
                               cluster->nodes_count);
            if (used[node]) {
                char name[ID_SHORT_SIZE];
                return err_set(err, ERR_PLAN, "plan uses node %s twice",
                               id_short(&cluster->nodes[node].id, name));
            }
            used[node] = true;
        }
    }
    return 0;
}

/* What the job fixes, unless the plan says that it was loosened. */
static int
check_fixed(const struct plan *plan, const struct plan_request *request,
            const struct cluster *cluster, struct err *err)
{
    const struct {
        const char *name;
        int fixed;
        int planned;
    } parts[] = {{"pipeline", request->pipeline, plan->stages_count},
                 {"replicas", request->replicas, plan->pipelines_count},
                 {"micro_batch", request->micro_batch, plan->micro_batch},
                 {"zones", request->zones_count, plan->stages_count}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].fixed > 0 && parts[i].fixed != parts[i].planned)
            return err_set(err, ERR_PLAN, "the job fixes %s to %d, the plan has %d",
                           parts[i].name, parts[i].fixed, parts[i].planned);
    for (int s = 0; s < request->zones_count; s++) {
        for (int j = 0; j < plan->pipelines_count; j++) {
            const struct cluster_node *node = &cluster->nodes[plan->stages[s].nodes[j]];
            if (strcmp(cluster->zones[node->zone], request->zones[s]) != 0)
                return err_set(err, ERR_PLAN,
                               "the job fixes stage %d to zone \"%s\", the plan has it "
                               "in zone \"%s\"",
                               s, request->zones[s], cluster->zones[node->zone]);
        }
    }
    return 0;
}

/* The first layer of the stage that no longer fits, by the run of layers that ends with
 * it. */
static int
check_room(const struct plan *plan, const struct plan_request *request, int stage,
           const struct cluster_node *node, struct err *err)
{
    struct stage_bytes bytes;
    plan_stage_bytes(plan, request, stage, &bytes);
    if (bytes.total <= node->memory_bytes)
        return 0;
    int first = plan->stages[stage].first_layer;
    int layers = 1;
    for (; layers < plan->stages[stage].layers; layers++) {
        run_bytes(plan, request, stage, layers, &bytes);
        if (bytes.total > node->memory_bytes)
            break;
    }
    run_bytes(plan, request, stage, layers, &bytes);
    return plan_no_room(err, first, first + layers - 1, bytes.total, node,
                        plan->micro_batch);
}

int
plan_check(const struct plan *plan, const struct plan_request *request,
           const struct cluster *cluster, struct err *err)
{
    must(cluster->nodes_count <= PLAN_NODES_MAX);
    if (check_stages(plan, request, err) != 0 || check_batch(plan, request, err) != 0 ||
        check_nodes(plan, cluster, err) != 0)
        return -1;
    if (!plan->loosened && check_fixed(plan, request, cluster, err) != 0)
        return -1;
    for (int s = 0; s < plan->stages_count; s++)
        for (int j = 0; j < plan->pipelines_count; j++)
            if (check_room(plan, request, s, &cluster->nodes[plan->stages[s].nodes[j]],
                           err) != 0)
                return -1;
    return 0;
}
