#include "planner/next.h"
#include "planner/muster.h"
#include "planner/repair.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* One request on its way from all that it fixes to what can be had. */
struct step {
    const struct plan_request *asked;
    const struct cluster *cluster;
    const struct plan *in_force; /* NULL: none */
    struct muster muster;
    struct fleet_request whole; /* all that is fixed */
    struct fleet_plan former;   /* of in_force, over the pools; -1: the node is gone */
    int usable;
    int in_zone[ZONES_MAX]; /* usable nodes */
    struct plan *out;
};

static int
request_check(const struct plan_request *request, struct err *err)
{
    if (model_shape_check(&request->shape, err) != 0)
        return -1;
    if (request->sequences < 1)
        return err_set(err, ERR_USAGE, "batch of %d sequences: must be at least 1",
                       request->sequences);
    if (request->sequences > FLEET_SEQUENCES_MAX)
        return err_set(err, ERR_USAGE, "batch of %d sequences: must be at most %d",
                       request->sequences, FLEET_SEQUENCES_MAX);
    if (request->zones_count < 0 || request->zones_count > STAGES_MAX)
        return err_set(err, ERR_USAGE, "plan names %d zones, the limit is %d",
                       request->zones_count, STAGES_MAX);
    return 0;
}

/* ---- one wish ---- */

/* Are there enough nodes, whatever their memory? */
static bool
may_be(const struct step *step, const struct fleet_request *wish)
{
    int width = wish->replicas > 0 ? wish->replicas : 1;
    int stages = wish->pipeline > 0 ? wish->pipeline : 1;
    if (width > REPLICAS_MAX || stages > step->muster.fleet->table.layers_count ||
        (int64_t)stages * width > step->usable ||
        (wish->micro_batch > 0 && (wish->sequences % wish->micro_batch != 0 ||
                                   width > wish->sequences / wish->micro_batch)))
        return false;
    int named[ZONES_MAX] = {0};
    for (int s = 0; s < wish->stage_zones_count; s++) {
        int zone = wish->stage_zones[s];
        if (zone < 0 || (named[zone] += width) > step->in_zone[zone])
            return false;
    }
    return wish->stage_zones_count == 0 || wish->stage_zones_count == wish->pipeline;
}

/* A plan over pools as one over nodes: with the time that it takes. */
static bool
take(const struct step *step, const struct fleet_plan *plan, double iteration_s)
{
    struct err ignored;
    if (!muster_plan(&step->muster, plan, step->in_force, step->out))
        return false;
    step->out->predicted_step_ns = (int64_t)(iteration_s * 1e9);
    step->out->loosened = true; /* for the check: what is fixed is the wish's */
    bool good = plan_check(step->out, step->asked, step->cluster, &ignored) == 0;
    step->out->loosened = false;
    return good;
}

/* The same places for the same nodes. */
static void
stay(const struct step *step, double iteration_s)
{
    *step->out = *step->in_force;
    step->out->predicted_step_ns = (int64_t)(iteration_s * 1e9);
    step->out->loosened = false;
}

static bool
try_repair(const struct step *step, const struct fleet_request *wish)
{
    struct repair_terms terms = {.horizon = REPAIR_HORIZON, .rollback_steps = 1};
    struct repair_answer answer;
    struct err ignored;
    double step_s = (double)step->in_force->predicted_step_ns / 1e9;
    if (fleet_repair_what_is_left(wish, step->muster.fleet, &step->former, step_s, &terms,
                                  &answer, &ignored) != 0)
        return false;
    bool found = true;
    if (answer.stay.possible &&
        !(answer.price.total_s <= answer.stay.total_s * (1.0 - 0.05)))
        stay(step, answer.stay.steps_s / (double)terms.horizon);
    else
        found = take(step, &answer.plan, answer.estimate.iteration_s);
    repair_answer_release(&answer);
    return found;
}

static bool
try_wish(const struct step *step, const struct fleet_request *wish)
{
    struct fleet_answer answer;
    struct err ignored;
    if (!may_be(step, wish))
        return false;
    if (step->in_force)
        return try_repair(step, wish);
    if (fleet_search_plan(wish, step->muster.fleet, &answer, &ignored) != 0)
        return false;
    bool found = take(step, &answer.plan, answer.estimate.iteration_s);
    fleet_answer_release(&answer);
    return found;
}

/* ---- giving way ---- */

/* As many replicas as there can be, up to what is wished for: what fits so many pipelines fits
 * fewer, too. */
static bool
try_replicas(const struct step *step, struct fleet_request wish, bool *whole)
{
    if (try_wish(step, &wish))
        return true;
    *whole = false;
    int low = 1; /* from here on the most that is known to do */
    int high = wish.replicas - 1;
    wish.replicas = 1;
    if (high < 1 || !try_wish(step, &wish))
        return false;
    while (low < high) {
        wish.replicas = low + (high - low + 1) / 2;
        if (try_wish(step, &wish))
            low = wish.replicas;
        else
            high = wish.replicas - 1;
    }
    wish.replicas = low;
    return try_wish(step, &wish);
}

/* Give way from the least important on: fewer replicas, then other zones, then a shorter
 * pipeline, then any, then another micro-batch. */
static bool
try_all(const struct step *step, bool *whole)
{
    const struct fleet_request *asked = &step->whole;
    int zones = asked->stage_zones_count;
    int fixed = asked->pipeline > 0 ? asked->pipeline : zones;
    *whole = fixed == zones || zones == 0;
    for (int free_size = 0; free_size < 2; free_size++) {
        if (free_size == 1 && asked->micro_batch == 0)
            break;
        struct fleet_request wish = *asked;
        if (free_size)
            wish.micro_batch = 0;
        for (wish.pipeline = fixed; wish.pipeline >= 0; wish.pipeline--) {
            for (int keep = zones > 0; keep >= 0; keep--) {
                wish.stage_zones_count = keep ? zones : 0;
                if (keep && wish.pipeline != zones)
                    continue;
                if (try_replicas(step, wish, whole))
                    return true;
                *whole = false;
            }
            /* If nothing at all fits, no depth does. */
            struct fleet_request any = wish;
            any.pipeline = 0;
            any.replicas = 0;
            any.stage_zones_count = 0;
            if (wish.pipeline == fixed && fixed > 1 && !try_wish(step, &any))
                break;
        }
    }
    return false;
}

/* ---- why there is none ---- */

static int64_t
run_bytes(const struct step *step, int micro_batch, int first, int layers)
{
    struct stage_spec spec = {.first_layer = first,
                              .layers = layers,
                              .micro_batch = micro_batch,
                              .in_flight = 1,
                              .copies = step->asked->copies};
    struct stage_bytes bytes;
    workload_stage_bytes(&step->asked->shape, &spec, &bytes);
    return bytes.total;
}

/* The roomiest nodes are filled one after the other: which layer has no room any more. */
static int
no_room(const struct step *step, struct err *err)
{
    const struct cluster *cluster = step->cluster;
    int layers = workload_layers(&step->asked->shape);
    int first = 0;
    bool used[PLAN_NODES_MAX] = {false};
    for (int i = 0; i < step->usable; i++) {
        int roomiest = -1;
        for (int n = 0; n < cluster->nodes_count; n++)
            if (!used[n] && step->muster.pool_of[n] >= 0 &&
                (roomiest < 0 ||
                 cluster->nodes[n].memory_bytes > cluster->nodes[roomiest].memory_bytes))
                roomiest = n;
        const struct cluster_node *node = &cluster->nodes[roomiest];
        used[roomiest] = true;
        int count = 0;
        while (first + count < layers &&
               run_bytes(step, 1, first, count + 1) <= node->memory_bytes)
            count++;
        if (first + count == layers)
            break;
        if (count == 0 || i == step->usable - 1)
            return plan_no_room(err, first, first + count,
                                run_bytes(step, 1, first, count + 1), node, 1);
        first += count;
    }
    return err_set(err, ERR_PLAN,
                   "cannot place the model: found no way to cut %d layers over %d nodes; "
                   "add a node or one with more memory",
                   layers, step->usable);
}

/* ---- the step ---- */

static int
make(struct step *step, struct err *err)
{
    bool whole = true;
    muster_init(&step->muster, step->asked, step->cluster);
    step->whole = step->muster.request;
    for (int n = 0; n < step->cluster->nodes_count; n++)
        if (step->muster.pool_of[n] >= 0)
            step->in_zone[step->cluster->nodes[n].zone]++;
    if (step->in_force)
        muster_fleet_plan(&step->muster, step->in_force, &step->former);
    bool found = try_all(step, &whole);
    step->out->loosened = found && !whole;
    int result = found ? 0 : no_room(step, err);
    fleet_plan_release(&step->former);
    muster_release(&step->muster);
    return result;
}

/* What was asked last, and the answer. */
struct memory {
    bool asked;
    bool has_former;
    struct plan_request request;
    struct plan former;
    int nodes_count, zones_count;
    char zones[ZONES_MAX][NAME_BYTES_MAX + 1];
    struct cluster_node *nodes;
    struct cluster_link *links;
    int result;
    struct plan plan;
    struct err err;
};

static size_t
links_bytes(const struct cluster *cluster)
{
    return (size_t)cluster->zones_count * (size_t)cluster->zones_count *
           sizeof(*cluster->links);
}

static bool
same_bytes(const void *left, const void *right, size_t bytes)
{
    return bytes == 0 || memcmp(left, right, bytes) == 0;
}

static bool
remembers(const struct memory *memory, const struct plan_request *request,
          const struct cluster *cluster, const struct plan *in_force)
{
    return memory->asked && memory->has_former == (in_force != NULL) &&
           memory->nodes_count == cluster->nodes_count &&
           memory->zones_count == cluster->zones_count &&
           memcmp(&memory->request, request, sizeof(*request)) == 0 &&
           memcmp(memory->zones, cluster->zones, sizeof(memory->zones)) == 0 &&
           same_bytes(memory->nodes, cluster->nodes,
                      (size_t)cluster->nodes_count * sizeof(*cluster->nodes)) &&
           same_bytes(memory->links, cluster->links, links_bytes(cluster)) &&
           (!in_force || memcmp(&memory->former, in_force, sizeof(*in_force)) == 0);
}

static void
remember(struct memory *memory, const struct plan_request *request,
         const struct cluster *cluster, const struct plan *in_force)
{
    free(memory->nodes);
    free(memory->links);
    memory->asked = true;
    memory->has_former = in_force != NULL;
    memory->request = *request;
    if (in_force)
        memory->former = *in_force;
    memory->nodes_count = cluster->nodes_count;
    memory->zones_count = cluster->zones_count;
    memcpy(memory->zones, cluster->zones, sizeof(memory->zones));
    memory->nodes =
        xmemdup(cluster->nodes, (size_t)cluster->nodes_count * sizeof(*cluster->nodes));
    memory->links = xmemdup(cluster->links, links_bytes(cluster));
}

int
plan_next(const struct plan_request *request, const struct cluster *cluster,
          const struct plan *in_force, struct plan *out, struct err *err)
{
    static _Thread_local struct memory memory;
    if (request_check(request, err) != 0)
        return -1;
    if (!remembers(&memory, request, cluster, in_force)) {
        struct step step = {.asked = request,
                            .cluster = cluster,
                            .in_force = in_force,
                            .out = &memory.plan};
        remember(&memory, request, cluster, in_force);
        for (int n = 0; n < cluster->nodes_count; n++)
            step.usable += cluster->nodes[n].profile.count > 0;
        memory.result =
            step.usable > 0
                ? make(&step, &memory.err)
                : err_set(&memory.err, ERR_PLAN,
                          "cannot place layer 0: none of %d nodes has a measured "
                          "profile; wait until one is profiled or add a node",
                          cluster->nodes_count);
    }
    if (memory.result == 0)
        *out = memory.plan;
    else
        *err = memory.err;
    return memory.result;
}
