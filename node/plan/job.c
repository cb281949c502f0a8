#include "node/plan/job.h"
#include "node/config.h"
#include "node/job.h"
#include "node/plan/engine.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HINTED_MAX = 64 };

/* ---- values ---- */

static int
take_int(const char *what, const int64_t *given, int64_t least, int64_t most, int *out,
         struct err *err)
{
    *out = 0;
    if (!given)
        return 0;
    if (*given < least || *given > most)
        return err_set(err, ERR_USAGE, "%s is %lld, it must be from %lld to %lld", what,
                       (long long)*given, (long long)least, (long long)most);
    *out = (int)*given;
    return 0;
}

static int
take_limit(const char *what, const double *given, double otherwise, double least,
           double *out, struct err *err)
{
    *out = otherwise;
    if (!given)
        return 0;
    if (!(*given >= least && *given <= 1e15))
        return err_set(err, ERR_USAGE, "%s is %g, it must be from %g to 1e15", what,
                       *given, least);
    *out = *given;
    return 0;
}

/* Which of these words; the first when nothing is given. -1 with an error. */
static int
take_word(const char *what, const char *given, const char *const *words, size_t count,
          struct err *err)
{
    char hints[ERR_MSG_SIZE];
    if (!given)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(given, words[i]) == 0)
            return (int)i;
    return err_set(err, ERR_USAGE, "%s cannot be \"%.40s\"%s", what, given,
                   word_hint(given, words, count, hints));
}

void
plan_job_model_name(const struct model_shape *shape, char out[PROFILE_MODEL_MAX + 1])
{
    snprintf(out, PROFILE_MODEL_MAX + 1, "gpt2-%dx%dx%dx%d", shape->blocks, shape->heads,
             shape->hidden, shape->context);
}

static int
take_model(const struct model_file *model, struct plan_job *out, struct err *err)
{
    static const char *const families[] = {"gpt2"};
    bool shaped =
        model->family || model->layers || model->heads || model->hidden || model->context;
    if (model->profiled && shaped)
        return err_set(err, ERR_USAGE,
                       "model has both profiled and a shape; give one of the two");
    if (model->profiled) {
        if (strlen(model->profiled) > PROFILE_MODEL_MAX)
            return err_set(err, ERR_USAGE, "model.profiled has more than %d bytes",
                           PROFILE_MODEL_MAX);
        memcpy(out->model, model->profiled, strlen(model->profiled) + 1);
        return 0;
    }
    struct model_shape *shape = &out->shape;
    if (!model->layers || !model->heads || !model->hidden || !model->context)
        return err_set(err, ERR_USAGE,
                       "model needs layers, heads, hidden and context, or profiled and "
                       "the name that its profiles have");
    if (take_word("model.family", model->family, families, 1, err) < 0 ||
        take_int("model.layers", model->layers, 1, 1 << 20, &shape->blocks, err) ||
        take_int("model.heads", model->heads, 1, 1024, &shape->heads, err) ||
        take_int("model.hidden", model->hidden, 1, 65536, &shape->hidden, err) ||
        take_int("model.context", model->context, 1, 131072, &shape->context, err))
        return -1;
    shape->vocabulary = 256;
    out->engine_model = true;
    plan_job_model_name(shape, out->model);
    return model_shape_check(shape, err);
}

static int
take_choices(const struct job_file *file, struct fleet_request *request, struct err *err)
{
    static const char *const precisions[] = {"fp32", "bf16", "open"};
    static const char *const recomputes[] = {"none", "full", "open"};
    static const char *const zeros[] = {"none", "optimizer", "open"};
    static const char *const objectives[] = {"throughput", "cost"};
    static const enum choice choices[] = {CHOICE_OFF, CHOICE_ON, CHOICE_OPEN};
    int precision = take_word("precision", file->precision, precisions, 3, err);
    int recompute =
        precision < 0 ? -1 : take_word("recompute", file->recompute, recomputes, 3, err);
    int zero = recompute < 0 ? -1 : take_word("zero", file->zero, zeros, 3, err);
    int objective =
        zero < 0 ? -1 : take_word("objective", file->objective, objectives, 2, err);
    if (objective < 0)
        return -1;
    request->bf16 = choices[precision];
    request->recompute = choices[recompute];
    request->shard_optimizer = choices[zero];
    request->objective = objective == 1 ? OBJECTIVE_COST : OBJECTIVE_THROUGHPUT;
    bool exact = file->between_zones_count == 0;
    for (uint32_t i = 0; i < file->between_zones_count; i++) {
        const char *mode = file->between_zones[i];
        exact = exact || strcmp(mode, "exact") == 0;
        if (strcmp(mode, "exact") != 0 && strcmp(mode, "local_sgd") != 0)
            return err_set(err, ERR_USAGE,
                           "between_zones has \"%s\"; the modes are exact and local_sgd",
                           mode);
    }
    if (!exact)
        return err_set(err, ERR_USAGE,
                       "between_zones allows local_sgd alone, which is not planned; add "
                       "exact");
    return 0;
}

static int
take_limits(const struct limits_file *limits, struct plan_job *out, struct err *err)
{
    struct fleet_request *request = &out->request;
    const double least = 1e-12; /* a rate of 0 is no limit, and a typing error */
    return take_limit("limits.usd_per_iteration", limits->usd_per_iteration, -1, 0,
                      &request->usd_per_iteration_max, err) ||
                   take_limit("limits.usd_per_hour", limits->usd_per_hour, -1, 0,
                              &request->usd_per_hour_max, err) ||
                   take_limit("limits.min_iterations_per_s", limits->min_iterations_per_s,
                              0, least, &request->iterations_per_s_min, err) ||
                   take_limit("limits.min_tokens_per_s", limits->min_tokens_per_s, 0,
                              least, &out->tokens_per_s_min, err)
               ? -1
               : 0;
}

static int
take_plan(const struct plan_file *plan, struct fleet_request *request, struct err *err)
{
    if (take_int("plan.pipeline", plan->pipeline, 1, STAGES_MAX, &request->pipeline,
                 err) ||
        take_int("plan.replicas", plan->replicas, 1, request->sequences,
                 &request->replicas, err) ||
        take_int("plan.micro_batch", plan->micro_batch, 1, request->sequences,
                 &request->micro_batch, err) ||
        take_int("plan.tp", plan->tp, 1, 8, &request->tp, err))
        return -1;
    if (request->tp > 0 && tp_slot(request->tp) < 0)
        return err_set(err, ERR_USAGE, "plan.tp is %d, it must be 1, 2, 4 or 8",
                       request->tp);
    if (request->micro_batch > 0 && request->sequences % request->micro_batch != 0)
        return err_set(err, ERR_USAGE,
                       "plan.micro_batch is %d, which does not divide batch.sequences %d",
                       request->micro_batch, request->sequences);
    if (request->pipeline > 0 && plan->zones_count > 0 &&
        plan->zones_count != (uint32_t)request->pipeline)
        return err_set(err, ERR_USAGE,
                       "plan.zones names %u zones for %d stages; name one for each stage",
                       plan->zones_count, request->pipeline);
    if (plan->zones_count > 0) /* one for each stage: they say how many */
        request->pipeline = (int)plan->zones_count;
    return 0;
}

/* A size of a framework's; nothing given: untouched. */
static int
take_size(const char *what, const char *given, int64_t *out, struct err *err)
{
    if (!given)
        return 0;
    if (size_parse(given, out, err))
        return err_wrap(err, "%s", what);
    if (*out < 1 || *out > INT64_C(1) << 50)
        return err_set(err, ERR_USAGE, "%s is %lld bytes", what, (long long)*out);
    return 0;
}

static int
take_framework(const struct framework_file *file, struct plan_job *out, struct err *err)
{
    struct framework *framework = &out->request.framework;
    int64_t bucket = 0;
    out->foreign = file->overlap || file->bucket || file->transfer_buffer ||
                   file->fixed || file->fixed_tp || file->bucket_buffers ||
                   file->working_layers || file->extra_bytes_per_parameter;
    if (file->overlap)
        framework->overlap = *file->overlap;
    if (take_size("framework.bucket", file->bucket, &bucket, err) ||
        take_size("framework.transfer_buffer", file->transfer_buffer,
                  &framework->transfer_buffer_bytes, err) ||
        take_size("framework.fixed", file->fixed, &framework->fixed_bytes, err) ||
        take_size("framework.fixed_tp", file->fixed_tp, &framework->fixed_tp_bytes,
                  err) ||
        take_int("framework.bucket_buffers", file->bucket_buffers, 0, 64,
                 &framework->bucket_buffers, err) ||
        take_int("framework.working_layers", file->working_layers, 0, 64,
                 &framework->working_layers, err) ||
        take_int("framework.extra_bytes_per_parameter", file->extra_bytes_per_parameter,
                 0, 64, &framework->extra_bytes_per_parameter, err))
        return -1;
    if (bucket > 0)
        framework->bucket_bytes = (double)bucket;
    return 0;
}

static int
take(const struct job_file *file, struct plan_job *out, struct err *err)
{
    int sequences;
    if (config_name_check("name", file->name, err) ||
        take_int("batch.sequences", &file->batch.sequences, 1, FLEET_SEQUENCES_MAX,
                 &sequences, err))
        return -1;
    memcpy(out->name, file->name, strlen(file->name) + 1);
    /* What only a run needs is right or wrong here, too; steps may be left out. */
    int64_t once = 1;
    struct job_file run = *file;
    struct train_job unused;
    run.steps = run.steps ? run.steps : &once;
    if (job_training(&run, &unused, err))
        return -1;
    fleet_request_init(&out->request, sequences);
    return take_model(&file->model, out, err) || take_choices(file, &out->request, err) ||
                   take_limits(&file->limits, out, err) ||
                   take_plan(&file->plan, &out->request, err) ||
                   take_framework(&file->framework, out, err)
               ? -1
               : 0;
}

int
plan_job_parse(const char *name, const char *text, size_t len, struct plan_job *out,
               struct err *err)
{
    void *parsed;
    if (len > JOB_BYTES_MAX)
        return err_set(err, ERR_USAGE, "%s: a job of %zu bytes is longer than %d", name,
                       len, JOB_BYTES_MAX);
    if (yaml_parse(name, text, len, &job_file_to_plan, &parsed, err))
        return -1;
    *out = (struct plan_job){.file = parsed};
    int result = take(parsed, out, err);
    if (result) {
        err_wrap(err, "%s", name);
        plan_job_release(out);
    }
    return result;
}

int
plan_job_read(const char *path, struct plan_job *out, struct err *err)
{
    struct buf text = {0};
    int result = file_read(path, JOB_BYTES_MAX, &text, err);
    if (result)
        err->code = ERR_USAGE;
    else
        result = plan_job_parse(path, (const char *)text.data, text.len, out, err);
    buf_release(&text);
    return result;
}

void
plan_job_release(struct plan_job *job)
{
    yaml_free(&job_file_to_plan, job->file);
    job->file = NULL;
}

/* ---- what it says of a cluster ---- */

/* How often each pool's devices are named. */
struct named {
    bool zones[ZONES_MAX], kinds[FLEET_KINDS_MAX];
    int node_devices[FLEET_POOLS_MAX];
};

static int
take_names(const char *what, const struct choice_file *choice,
           const struct plan_cluster *cluster, struct named *out, struct err *err)
{
    const struct fleet *fleet = cluster->fleet;
    char hints[ERR_MSG_SIZE];
    *out = (struct named){0};
    for (uint32_t i = 0; i < choice->zones_count; i++) {
        int zone = plan_cluster_zone(fleet, choice->zones[i]);
        if (zone < 0)
            return err_set(err, ERR_USAGE, "%s.zones: there is no zone \"%s\"%s", what,
                           choice->zones[i],
                           plan_cluster_zone_hint(fleet, choice->zones[i], hints));
        out->zones[zone] = true;
    }
    for (uint32_t i = 0; i < choice->devices_count; i++) {
        int kind = plan_cluster_kind(fleet, choice->devices[i]);
        if (kind < 0)
            return err_set(err, ERR_USAGE, "%s.devices: there is no device \"%s\"%s",
                           what, choice->devices[i],
                           plan_cluster_kind_hint(fleet, choice->devices[i], hints));
        out->kinds[kind] = true;
    }
    for (uint32_t i = 0; i < choice->nodes_count; i++) {
        const char *name = choice->nodes[i], *known[HINTED_MAX];
        int n = 0;
        while (n < cluster->nodes_count && strcmp(cluster->nodes[n].name, name) != 0)
            n++;
        int count = cluster->nodes_count < HINTED_MAX ? cluster->nodes_count : HINTED_MAX;
        for (int k = 0; k < count; k++)
            known[k] = cluster->nodes[k].name;
        if (n == cluster->nodes_count)
            return err_set(err, ERR_USAGE, "%s.nodes: there is no node \"%s\"%s", what,
                           name, word_hint(name, known, (size_t)count, hints));
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(choice->nodes[k], name) == 0)
                return err_set(err, ERR_USAGE, "%s.nodes has \"%s\" twice", what, name);
        out->node_devices[cluster->nodes[n].pool] += cluster->nodes[n].devices;
    }
    return 0;
}

static int
keep_to(struct plan_job *job, struct plan_cluster *cluster, struct err *err)
{
    const struct choice_file *only = &job->file->only, *exclude = &job->file->exclude;
    struct named kept, left_out;
    if (take_names("only", only, cluster, &kept, err) ||
        take_names("exclude", exclude, cluster, &left_out, err))
        return -1;
    int64_t left = 0;
    for (int p = 0; p < cluster->fleet->pools_count; p++) {
        struct fleet_pool *pool = &cluster->fleet->pools[p];
        if ((only->zones_count > 0 && !kept.zones[pool->zone]) ||
            (only->devices_count > 0 && !kept.kinds[pool->kind]) ||
            left_out.zones[pool->zone] || left_out.kinds[pool->kind])
            pool->devices = 0;
        if (only->nodes_count > 0 && pool->devices > kept.node_devices[p])
            pool->devices = kept.node_devices[p];
        pool->devices = pool->devices > left_out.node_devices[p]
                            ? pool->devices - left_out.node_devices[p]
                            : 0;
        left += pool->devices;
    }
    if (left == 0)
        return err_set(err, ERR_PLAN,
                       "nothing is left of the cluster with what the job's only and "
                       "exclude say");
    return 0;
}

int
plan_job_bind(struct plan_job *job, struct plan_cluster *cluster, struct err *err)
{
    const struct plan_file *plan = &job->file->plan;
    struct fleet_request *request = &job->request;
    const struct fleet *fleet = cluster->fleet;
    char hints[ERR_MSG_SIZE];
    int layers = fleet->table.layers_count;
    for (uint32_t i = 0; i < plan->zones_count; i++) {
        int zone = plan_cluster_zone(fleet, plan->zones[i]);
        if (zone < 0)
            return err_set(err, ERR_USAGE, "plan.zones: there is no zone \"%s\"%s",
                           plan->zones[i],
                           plan_cluster_zone_hint(fleet, plan->zones[i], hints));
        request->stage_zones[i] = zone;
    }
    request->stage_zones_count = (int)plan->zones_count;
    if (request->pipeline > layers)
        return err_set(err, ERR_USAGE, "plan has %d stages for a model of %d layers",
                       request->pipeline, layers);
    if (job->tokens_per_s_min > 0) {
        double tokens = (double)request->sequences * fleet->table.sequence_tokens;
        double least = job->tokens_per_s_min / tokens;
        if (least > request->iterations_per_s_min)
            request->iterations_per_s_min = least;
    }
    bool published = fleet->cost_model == COST_MODEL_PUBLISHED;
    if (published && request->recompute == CHOICE_ON)
        return err_set(
            err, ERR_USAGE,
            "recompute is full, which cost_model published has no figures for; "
            "plan with cost_model replay, or leave recompute open");
    if (published && request->shard_optimizer == CHOICE_ON)
        return err_set(
            err, ERR_USAGE,
            "zero is optimizer, which cost_model published has no figures for; "
            "plan with cost_model replay, or leave zero open");
    if (keep_to(job, cluster, err))
        return -1;
    plan_engine_bind(job, cluster);
    return 0;
}
