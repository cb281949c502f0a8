#include "node/plan/document.h"
#include "node/plan/strict.h"
#include "transport/base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENT_BYTES_MAX = 64 << 20 };

void
plan_outcome_release(struct plan_outcome *outcome)
{
    fleet_answer_release(&outcome->answer);
    plan_timeline_release(&outcome->timeline);
    free(outcome->gains);
    outcome->gains = NULL;
    outcome->gains_count = 0;
}

const char *
plan_bound_word(enum bound_kind kind)
{
    static const char *const words[] = {"compute", "transfer", "fill", "reduce",
                                        "update"};
    return words[kind];
}

const char *
plan_way_word(enum repair_way way)
{
    static const char *const words[] = {"stay", "mend", "afresh"};
    return words[way];
}

int
plan_groups(const struct fleet_plan *plan, int stage,
            struct plan_group groups[PLAN_GROUPS_MAX])
{
    int count = 0;
    for (int j = 0; j < plan->width; j++) {
        const struct replica *replica = fleet_plan_replica(plan, stage, j);
        int g = 0;
        while (g < count &&
               (groups[g].pool != replica->pool || groups[g].tp != replica->tp ||
                groups[g].micro_batches != plan->micro_batches[j]))
            g++;
        if (g == count && count < PLAN_GROUPS_MAX)
            groups[count++] = (struct plan_group){.pool = replica->pool,
                                                  .tp = replica->tp,
                                                  .micro_batches = plan->micro_batches[j],
                                                  .first = j};
        groups[g < count ? g : count - 1].replicas++;
    }
    return count;
}

/* ---- words ---- */

/* Appends while there is room. */
static void __attribute__((format(printf, 3, 4)))
add(char *text, size_t size, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, size - used, fmt, args);
    va_end(args);
}

void
plan_summary(const struct fleet_plan *plan, const struct fleet *fleet, char *text,
             size_t size)
{
    text[0] = '\0';
    add(text, size, "%d pipeline%s of %d stage%s, micro-batch %d:", plan->width,
        plan->width == 1 ? "" : "s", plan->stages_count,
        plan->stages_count == 1 ? "" : "s", plan->micro_batch);
    for (int s = 0; s < plan->stages_count; s++) {
        struct plan_group groups[PLAN_GROUPS_MAX];
        int count = plan_groups(plan, s, groups);
        add(text, size, "%s %d layer%s", s > 0 ? ";" : "", plan->layers[s],
            plan->layers[s] == 1 ? "" : "s");
        for (int g = 0; g < count; g++) {
            const struct fleet_pool *pool = &fleet->pools[groups[g].pool];
            /* What differs in micro-batches alone is one thing here. */
            int replicas = 0, earlier = 0;
            for (int h = 0; h < count; h++)
                if (groups[h].pool == groups[g].pool && groups[h].tp == groups[g].tp) {
                    replicas += groups[h].replicas;
                    earlier += h < g;
                }
            if (earlier == 0)
                add(text, size, "%s %d %s tp%d in %s", g > 0 ? " +" : ",", replicas,
                    fleet->kinds[pool->kind].name, groups[g].tp,
                    fleet->zones[pool->zone].name);
        }
    }
}

/* ---- writing ---- */

static void
put_price(struct json_writer *writer, const char *key, double usd)
{
    if (usd < 0)
        json_put_raw(writer, key, "null", 4);
    else
        json_put_double(writer, key, usd);
}

static void
put_place(struct json_writer *writer, const struct fleet *fleet, int pool)
{
    const struct fleet_pool *at = &fleet->pools[pool];
    json_put_text(writer, "device", fleet->kinds[at->kind].name);
    json_put_text(writer, "zone", fleet->zones[at->zone].name);
}

static void
put_stages(struct json_writer *writer, const struct fleet *fleet,
           const struct fleet_plan *plan)
{
    json_put_int(writer, "micro_batch", plan->micro_batch);
    json_put_text(writer, "precision",
                  plan->precision == PRECISION_BF16 ? "bf16" : "fp32");
    json_put_text(writer, "recompute",
                  plan->recompute == RECOMPUTE_LAYERS ? "full" : "none");
    json_put_text(writer, "zero", plan->shard_optimizer ? "optimizer" : "none");
    json_array_open(writer, "stages");
    for (int s = 0; s < plan->stages_count; s++) {
        json_object_open(writer, NULL);
        json_put_int(writer, "first_layer", plan->first_layer[s]);
        json_put_int(writer, "layers", plan->layers[s]);
        json_array_open(writer, "replicas");
        for (int j = 0; j < plan->width; j++) {
            const struct replica *replica = fleet_plan_replica(plan, s, j);
            json_object_open(writer, NULL);
            put_place(writer, fleet, replica->pool);
            json_put_int(writer, "tp", replica->tp);
            json_put_int(writer, "micro_batches", plan->micro_batches[j]);
            json_object_close(writer);
        }
        json_array_close(writer);
        json_object_close(writer);
    }
    json_array_close(writer);
}

static void
put_memory(struct json_writer *writer, const struct fleet *fleet,
           const struct fleet_plan *plan, int stage, int pipeline,
           const struct memory_parts *parts)
{
    const struct replica *replica = fleet_plan_replica(plan, stage, pipeline);
    json_object_open(writer, NULL);
    json_put_int(writer, "stage", stage);
    put_place(writer, fleet, replica->pool);
    json_put_int(writer, "tp", replica->tp);
    json_put_int(writer, "weights", parts->weights);
    json_put_int(writer, "gradients", parts->gradients);
    json_put_int(writer, "optimizer", parts->optimizer);
    json_put_int(writer, "activations", parts->activations);
    json_put_int(writer, "workspace", parts->workspace);
    json_put_int(writer, "total", parts->total);
    json_put_int(writer, "room", parts->room);
    json_object_close(writer);
}

static void
put_speed(struct json_writer *writer, const struct estimate *estimate)
{
    json_put_double(writer, "iteration_s", estimate->iteration_s);
    json_put_double(writer, "iterations_per_s", 1 / estimate->iteration_s);
    json_put_double(writer, "tokens_per_s", estimate->tokens_per_s);
    put_price(writer, "usd_per_iteration", estimate->usd_per_iteration);
    put_price(writer, "devices_usd", estimate->devices_usd);
    put_price(writer, "egress_usd", estimate->egress_usd);
}

static void
put_predicted(struct json_writer *writer, const struct plan_outcome *outcome)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_plan *plan = &outcome->answer.plan;
    const struct estimate *estimate = &outcome->answer.estimate;
    json_object_open(writer, "predicted");
    put_speed(writer, estimate);
    json_put_bool(writer, "fits", estimate->fits);
    /* Bytes of one device, of each kind of replica that a stage has. */
    json_array_open(writer, "memory");
    for (int s = 0; s < plan->stages_count; s++) {
        struct plan_group groups[PLAN_GROUPS_MAX];
        int count = plan_groups(plan, s, groups);
        for (int g = 0; g < count; g++) {
            struct memory_parts parts;
            bool known = false;
            for (int h = 0; h < g; h++)
                known = known || (groups[h].pool == groups[g].pool &&
                                  groups[h].tp == groups[g].tp &&
                                  groups[h].micro_batches >= groups[g].micro_batches);
            evaluate_memory(plan, &outcome->job->request, fleet, s, groups[g].first,
                            &parts);
            if (!known)
                put_memory(writer, fleet, plan, s, groups[g].first, &parts);
        }
    }
    json_array_close(writer);
    json_array_open(writer, "stages");
    for (int s = 0; s < estimate->stages_count; s++) {
        const struct stage_estimate *stage = &estimate->stages[s];
        const struct plan_stage_time *times = &outcome->timeline.stages[s];
        json_object_open(writer, NULL);
        json_put_double(writer, "compute_s", stage->compute_s);
        json_put_double(writer, "transfer_s", stage->transfer_s);
        json_put_double(writer, "reduce_s", stage->reduce_s);
        json_put_double(writer, "update_s", stage->update_s);
        json_object_open(writer, "timeline");
        json_put_double(writer, "forward_s", times->forward_s);
        json_put_double(writer, "backward_s", times->backward_s);
        json_put_double(writer, "send_s", times->send_s);
        json_put_double(writer, "reduce_s", times->reduce_s);
        json_put_double(writer, "update_s", times->update_s);
        json_put_double(writer, "idle_s", times->idle_s);
        json_object_close(writer);
        json_object_close(writer);
    }
    json_array_close(writer);
    json_object_close(writer);
}

static void
put_bound(struct json_writer *writer, const struct fleet *fleet,
          const struct bound *bound)
{
    json_object_open(writer, "bound_by");
    json_put_text(writer, "what", plan_bound_word(bound->what));
    json_put_int(writer, "stage",
                 bound->what == BOUND_REDUCE ? bound->reduce_stage : bound->stage);
    json_put_int(writer, "pipeline", bound->pipeline);
    json_object_open(writer, "seconds");
    for (int k = BOUND_COMPUTE; k <= BOUND_UPDATE; k++)
        json_put_double(writer, plan_bound_word((enum bound_kind)k), bound->part_s[k]);
    json_object_close(writer);
    if (bound->link_from >= 0 && bound->link_to >= 0) {
        json_object_open(writer, "link");
        json_object_open(writer, "from");
        put_place(writer, fleet, bound->link_from);
        json_object_close(writer);
        json_object_open(writer, "to");
        put_place(writer, fleet, bound->link_to);
        json_object_close(writer);
        json_object_close(writer);
    }
    json_object_close(writer);
}

static void
put_search(struct json_writer *writer, const struct plan_outcome *outcome)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_answer *answer = &outcome->answer;
    char text[1024];
    json_object_open(writer, "search");
    json_put_double(writer, "seconds", outcome->seconds);
    json_put_int(writer, "candidates", answer->candidates);
    json_object_close(writer);
    if (answer->has_runner_up) {
        plan_summary(&answer->runner_up, fleet, text, sizeof(text));
        json_object_open(writer, "runner_up");
        json_put_text(writer, "summary", text);
        put_stages(writer, fleet, &answer->runner_up);
        json_object_open(writer, "predicted");
        put_speed(writer, &answer->runner_up_estimate);
        json_object_close(writer);
        put_bound(writer, fleet, &answer->runner_up_estimate.bound);
        json_object_close(writer);
    } else {
        json_put_raw(writer, "runner_up", "null", 4);
    }
    json_array_open(writer, "ruled_out");
    for (int i = 0; i < answer->rejections_count; i++) {
        const struct rejection *rejection = &answer->rejections[i];
        json_object_open(writer, NULL);
        json_put_text(writer, "device", fleet->kinds[rejection->kind].name);
        json_put_int(writer, "tp", rejection->tp);
        json_put_int(writer, "micro_batch", rejection->micro_batch);
        json_put_int(writer, "stages", rejection->stages);
        json_put_int(writer, "first_layer", rejection->first_layer);
        json_put_int(writer, "layers", rejection->layers);
        put_price(writer, "iteration_s", rejection->iteration_s);
        json_put_int(writer, "need", rejection->need_bytes);
        json_put_int(writer, "room", rejection->room_bytes);
        json_put_int(writer, "missing", rejection->need_bytes - rejection->room_bytes);
        json_object_close(writer);
    }
    json_array_close(writer);
    json_array_open(writer, "one_more");
    for (int i = 0; i < outcome->gains_count; i++) {
        const struct plan_gain *gain = &outcome->gains[i];
        if (!gain->found)
            continue;
        json_object_open(writer, NULL);
        put_place(writer, fleet, gain->pool);
        json_put_int(writer, "devices", gain->devices);
        put_speed(writer, &gain->estimate);
        json_object_close(writer);
    }
    json_array_close(writer);
}

static void
put_way(struct json_writer *writer, enum repair_way way, const struct repair_price *price)
{
    json_object_open(writer, plan_way_word(way));
    json_put_bool(writer, "possible", price->possible);
    if (price->possible) {
        json_put_double(writer, "lost_s", price->lost_s);
        json_put_double(writer, "moved_s", price->moved_s);
        json_put_int(writer, "moved", price->moved_bytes);
        json_put_double(writer, "steps_s", price->steps_s);
        json_put_double(writer, "total_s", price->total_s);
        put_price(writer, "total_usd", price->total_usd);
    }
    json_object_close(writer);
}

static void
put_repair(struct json_writer *writer, const struct repair_answer *repair)
{
    json_object_open(writer, "repair");
    json_put_text(writer, "way", plan_way_word(repair->way));
    json_put_int(writer, "steps", REPAIR_HORIZON);
    put_way(writer, REPAIR_STAY, &repair->stay);
    put_way(writer, REPAIR_MEND, &repair->mend);
    put_way(writer, REPAIR_AFRESH, &repair->afresh);
    json_object_close(writer);
}

void
plan_document_refuse(const struct plan_job *job, const struct err *why, struct buf *out)
{
    struct json_writer writer;
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "model", job->model);
    json_put_int(&writer, "sequences", job->request.sequences);
    json_put_raw(&writer, "stages", "null", 4);
    json_put_text(&writer, "why", why->msg);
    json_object_close(&writer);
}

void
plan_document_write(const struct plan_outcome *outcome, struct buf *out)
{
    const struct fleet *fleet = outcome->cluster->fleet;
    const struct fleet_plan *plan = &outcome->answer.plan;
    struct json_writer writer;
    char text[1024];
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "model", outcome->job->model);
    json_put_int(&writer, "sequences", outcome->job->request.sequences);
    json_put_int(&writer, "tokens", fleet->table.sequence_tokens);
    json_put_text(&writer, "cost_model",
                  fleet->cost_model == COST_MODEL_PUBLISHED ? "published" : "replay");
    plan_summary(plan, fleet, text, sizeof(text));
    json_put_text(&writer, "summary", text);
    put_stages(&writer, fleet, plan);
    put_predicted(&writer, outcome);
    put_bound(&writer, fleet, &outcome->answer.estimate.bound);
    if (outcome->repaired)
        put_repair(&writer, &outcome->repair);
    else if (!outcome->given)
        put_search(&writer, outcome);
    int used[FLEET_POOLS_MAX];
    fleet_plan_devices(plan, used);
    json_array_open(&writer, "devices");
    for (int p = 0; p < fleet->pools_count; p++) {
        json_object_open(&writer, NULL);
        put_place(&writer, fleet, p);
        json_put_int(&writer, "used", used[p]);
        json_put_int(&writer, "count", fleet->pools[p].devices);
        json_object_close(&writer);
    }
    json_array_close(&writer);
    json_object_close(&writer);
}

/* ---- reading ---- */

/* One replica of a document. */
static int
take_replica(const struct json *value, const char *where, const struct fleet *fleet,
             struct replica *out, int *micro_batches, struct err *err)
{
    static const char *const keys[] = {"device", "zone", "tp", "micro_batches", NULL};
    const char *device, *zone;
    char hints[ERR_MSG_SIZE];
    int64_t tp, count;
    if (strict_keys(value, where, keys, err) ||
        strict_text(value, where, "device", 1024, &device, err) ||
        strict_text(value, where, "zone", 1024, &zone, err) ||
        strict_int(value, where, "tp", 1, 8, &tp, err) ||
        strict_int(value, where, "micro_batches", 1, FLEET_SEQUENCES_MAX, &count, err))
        return -1;
    int kind = plan_cluster_kind(fleet, device), at = plan_cluster_zone(fleet, zone);
    if (kind < 0)
        return err_set(err, ERR_USAGE, "%s: the cluster has no device \"%.40s\"%s", where,
                       device, plan_cluster_kind_hint(fleet, device, hints));
    if (at < 0)
        return err_set(err, ERR_USAGE, "%s: the cluster has no zone \"%.40s\"%s", where,
                       zone, plan_cluster_zone_hint(fleet, zone, hints));
    int pool = plan_cluster_pool(fleet, kind, at);
    if (pool < 0)
        return err_set(err, ERR_USAGE, "%s: the cluster has no \"%s\" in zone \"%s\"",
                       where, device, zone);
    if (tp_slot((int)tp) < 0)
        return err_set(err, ERR_USAGE, "%s: tp is %d, it must be 1, 2, 4 or 8", where,
                       (int)tp);
    *out = (struct replica){.pool = (int16_t)pool, .tp = (int16_t)tp};
    *micro_batches = (int)count;
    return 0;
}

static int
take_stage(const struct json *value, const char *name, int stage,
           const struct fleet *fleet, struct fleet_plan *plan, struct err *err)
{
    static const char *const keys[] = {"first_layer", "layers", "replicas", NULL};
    char where[ERR_MSG_SIZE];
    const struct json *replicas;
    int64_t first, layers;
    snprintf(where, sizeof(where), "%s: stages[%d]", name, stage);
    if (strict_keys(value, where, keys, err) ||
        strict_int(value, where, "first_layer", 0, LAYERS_MAX, &first, err) ||
        strict_int(value, where, "layers", 1, LAYERS_MAX, &layers, err) ||
        strict_array(value, where, "replicas", 1, FLEET_DEVICES_MAX, &replicas, err))
        return -1;
    if (json_count(replicas) != (size_t)plan->width)
        return err_set(err, ERR_USAGE,
                       "%s has %zu replicas, the first stage %d: every stage has as many",
                       where, json_count(replicas), plan->width);
    plan->first_layer[stage] = (int)first;
    plan->layers[stage] = (int)layers;
    for (int j = 0; j < plan->width; j++) {
        int micro_batches = 0;
        snprintf(where, sizeof(where), "%s: stages[%d].replicas[%d]", name, stage, j);
        if (take_replica(json_at(replicas, (size_t)j), where, fleet,
                         &plan->replicas[(int64_t)stage * plan->width + j],
                         &micro_batches, err))
            return -1;
        if (stage > 0 && micro_batches != plan->micro_batches[j])
            return err_set(err, ERR_USAGE,
                           "%s: micro_batches is %d, of the same pipeline's first stage "
                           "%d",
                           where, micro_batches, plan->micro_batches[j]);
        plan->micro_batches[j] = micro_batches;
    }
    return 0;
}

/* One of two words; `second` gets whether it is the second. Left out: the first. */
static int
take_either(const struct json *root, const char *name, const char *key,
            const char *first_word, const char *second_word, bool *second,
            struct err *err)
{
    const char *word = first_word;
    if (json_get(root, key) && strict_text(root, name, key, 64, &word, err))
        return -1;
    *second = strcmp(word, second_word) == 0;
    if (!*second && strcmp(word, first_word) != 0)
        return err_set(err, ERR_USAGE, "%s: %s is \"%s\", it must be %s or %s", name, key,
                       word, first_word, second_word);
    return 0;
}

static int
take(const char *name, const struct json *root, const struct fleet *fleet,
     struct fleet_plan *out, struct err *err)
{
    /* The first five are the plan; what a document says of it besides is passed over. */
    static const char *const keys[] = {
        "micro_batch", "stages",    "precision", "recompute",  "zero",
        "model",       "sequences", "tokens",    "cost_model", "summary",
        "predicted",   "bound_by",  "search",    "runner_up",  "ruled_out",
        "one_more",    "devices",   "repair",    NULL};
    const struct json *stages, *first;
    int64_t micro_batch;
    bool bf16, recompute, shard;
    if (json_is_text(json_get(root, "why")))
        return err_set(err, ERR_USAGE, "%s: is the answer where there is no plan: %s",
                       name, json_text(json_get(root, "why"), ""));
    if (strict_keys(root, name, keys, err) ||
        strict_int(root, name, "micro_batch", 1, FLEET_SEQUENCES_MAX, &micro_batch,
                   err) ||
        take_either(root, name, "precision", "fp32", "bf16", &bf16, err) ||
        take_either(root, name, "recompute", "none", "full", &recompute, err) ||
        take_either(root, name, "zero", "none", "optimizer", &shard, err) ||
        strict_array(root, name, "stages", 1, STAGES_MAX, &stages, err))
        return -1;
    char where[ERR_MSG_SIZE];
    snprintf(where, sizeof(where), "%s: stages[0]", name);
    if (strict_array(json_at(stages, 0), where, "replicas", 1, FLEET_DEVICES_MAX, &first,
                     err))
        return -1;
    fleet_plan_init(out, (int)json_count(stages), (int)json_count(first));
    out->micro_batch = (int)micro_batch;
    out->precision = bf16 ? PRECISION_BF16 : PRECISION_FP32;
    out->recompute = recompute ? RECOMPUTE_LAYERS : RECOMPUTE_NONE;
    out->shard_optimizer = shard;
    for (int s = 0; s < out->stages_count; s++)
        if (take_stage(json_at(stages, (size_t)s), name, s, fleet, out, err)) {
            fleet_plan_release(out);
            return -1;
        }
    return 0;
}

int
plan_document_parse(const char *name, const char *text, size_t len,
                    const struct fleet *fleet, struct fleet_plan *out, struct err *err)
{
    struct json *root = strict_parse(name, text, len, DOCUMENT_BYTES_MAX, err);
    int result = root ? take(name, root, fleet, out, err) : -1;
    json_free(root);
    return result;
}

int
plan_document_read(const char *path, const struct fleet *fleet, struct fleet_plan *out,
                   struct err *err)
{
    struct json *root = strict_read(path, DOCUMENT_BYTES_MAX, err);
    int result = root ? take(path, root, fleet, out, err) : -1;
    json_free(root);
    return result;
}
