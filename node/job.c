#include "node/job.h"
#include "node/config.h"
#include "node/plan/job_file.h"
#include "transport/base/alloc.h"
#include "transport/codec.h"
#include "transport/key.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static int
take_int(const char *what, const int64_t *given, int64_t otherwise, int64_t least,
         int64_t most, int64_t *out, struct err *err)
{
    int64_t value = given ? *given : otherwise;
    if (given && (value < least || value > most))
        return err_set(err, ERR_USAGE, "%s is %lld, but must be from %lld to %lld", what,
                       (long long)value, (long long)least, (long long)most);
    *out = value;
    return 0;
}

static int
take_number(const char *what, const double *given, double otherwise, double least,
            double most, double *out, struct err *err)
{
    double value = given ? *given : otherwise;
    if (!(value >= least && value <= most))
        return err_set(err, ERR_USAGE, "%s is %.9g, but must be from %.9g to %.9g", what,
                       value, least, most);
    *out = value;
    return 0;
}

/* What a plan may weigh and a run cannot do yet. */
static int
refuse_foresight(const struct job_file *file, struct err *err)
{
    const struct limits_file *limits = &file->limits;
    const struct choice_file *only = &file->only, *exclude = &file->exclude;
    const char *what = NULL;
    if (limits->usd_per_hour || limits->usd_per_iteration || limits->min_tokens_per_s ||
        limits->min_iterations_per_s)
        what = "limits";
    else if (file->plan.tp)
        what = "plan.tp";
    else if (file->recompute)
        what = "recompute";
    else if (file->zero)
        what = "zero";
    else if (only->zones_count || only->devices_count || only->nodes_count)
        what = "only";
    else if (exclude->zones_count || exclude->devices_count || exclude->nodes_count)
        what = "exclude";
    if (what)
        return err_set(err, ERR_USAGE,
                       "\"%s\" is for flotilla plan; a run of this version cannot keep "
                       "to it; leave it out",
                       what);
    return 0;
}

/* A choice of which this version has one. */
static int
only(const char *what, const char *given, const char *supported, struct err *err)
{
    if (given && strcmp(given, supported) != 0)
        return err_set(err, ERR_USAGE,
                       "%s \"%s\" is not supported by this version; it has \"%s\"", what,
                       given, supported);
    return 0;
}

static int
take_model(const struct job_file *file, struct job *job, struct err *err)
{
    const struct model_file *model = &file->model;
    int64_t layers = 0, heads = 0, hidden = 0, context = 0, sequences = 0;
    if (only("model.family", model->family, "gpt2", err) ||
        only("data.tokenizer", file->data.tokenizer, "bytes", err) ||
        only("precision", file->precision, "fp32", err) ||
        only("objective", file->objective, "throughput", err) ||
        take_int("model.layers", model->layers, 0, 1, 1 << 20, &layers, err) ||
        take_int("model.heads", model->heads, 0, 1, 1024, &heads, err) ||
        take_int("model.hidden", model->hidden, 0, 1, 65536, &hidden, err) ||
        take_int("model.context", model->context, 0, 1, 131072, &context, err) ||
        take_int("batch.sequences", &file->batch.sequences, 0, 1, 1 << 20, &sequences,
                 err))
        return -1;
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
                       "between_zones allows local_sgd alone, which this version has "
                       "not; add exact");
    job->shape = (struct model_shape){.blocks = (int)layers,
                                      .heads = (int)heads,
                                      .hidden = (int)hidden,
                                      .context = (int)context,
                                      .vocabulary = 256};
    job->sequences = (int)sequences;
    return model_shape_check(&job->shape, err);
}

int
job_training(const struct job_file *file, struct train_job *train, struct err *err)
{
    const struct optimizer_file *optimizer = &file->optimizer;
    int64_t keep = 0;
    if (only("optimizer.name", optimizer->name, "adamw", err) ||
        take_int("steps", file->steps, 0, 1, INT64_C(1) << 40, &train->steps, err) ||
        take_number("optimizer.learning_rate", optimizer->learning_rate, 6e-4, 0, 100,
                    &train->learning_rate, err) ||
        take_number("optimizer.beta1", optimizer->beta1, 0.9, 0, 0.9999999, &train->beta1,
                    err) ||
        take_number("optimizer.beta2", optimizer->beta2, 0.95, 0, 0.9999999,
                    &train->beta2, err) ||
        take_number("optimizer.epsilon", optimizer->epsilon, 1e-8, 1e-16, 1,
                    &train->epsilon, err) ||
        take_number("optimizer.weight_decay", optimizer->weight_decay, 0.1, 0, 10,
                    &train->weight_decay, err) ||
        take_number("optimizer.clip_norm", optimizer->clip_norm, 1, 0, 1e9,
                    &train->clip_norm, err) ||
        take_int("optimizer.warmup_steps", optimizer->warmup_steps, 0, 0,
                 INT64_C(1) << 40, &train->warmup_steps, err) ||
        take_int("copy.every_steps", file->copy.every_steps, 20, 0, INT64_C(1) << 40,
                 &train->copy_every, err) ||
        take_int("checkpoint.every_steps", file->checkpoint.every_steps, 200, 0,
                 INT64_C(1) << 40, &train->checkpoint_every, err) ||
        take_int("checkpoint.keep", file->checkpoint.keep, 3, 0, 1000000, &keep, err))
        return -1;
    train->checkpoint_keep = (int)keep;
    train->seed = file->seed ? *file->seed : 1;
    return 0;
}

static int
take_plan(const struct plan_file *plan, struct job *job, struct err *err)
{
    int64_t pipeline = 0, replicas = 0, micro_batch = 0;
    int layers = workload_layers(&job->shape);
    if (take_int("plan.pipeline", plan->pipeline, 0, 1,
                 layers < STAGES_MAX ? layers : STAGES_MAX, &pipeline, err) ||
        take_int("plan.replicas", plan->replicas, 0, 1,
                 job->sequences < REPLICAS_MAX ? job->sequences : REPLICAS_MAX, &replicas,
                 err) ||
        take_int("plan.micro_batch", plan->micro_batch, 0, 1, job->sequences,
                 &micro_batch, err))
        return -1;
    if (micro_batch > 0 && job->sequences % micro_batch != 0)
        return err_set(
            err, ERR_USAGE,
            "plan.micro_batch is %lld, which does not divide batch.sequences %d",
            (long long)micro_batch, job->sequences);
    if (pipeline > 0 && plan->zones_count > 0 && plan->zones_count != (uint32_t)pipeline)
        return err_set(
            err, ERR_USAGE,
            "plan.zones names %u zones for %lld stages; name one for each stage",
            plan->zones_count, (long long)pipeline);
    if (plan->zones_count > (uint32_t)layers)
        return err_set(err, ERR_USAGE, "plan.zones names %u stages for %d layers",
                       plan->zones_count, layers);
    for (uint32_t i = 0; i < plan->zones_count; i++) {
        if (config_name_check("a zone in plan.zones", plan->zones[i], err))
            return -1;
        memcpy(job->zones[i], plan->zones[i], strlen(plan->zones[i]) + 1);
    }
    job->zones_count = (int)plan->zones_count;
    job->pipeline = (int)pipeline;
    job->replicas = (int)replicas;
    job->micro_batch = (int)micro_batch;
    return 0;
}

int
job_parse(const char *name, const char *text, size_t len, struct job *out,
          struct err *err)
{
    if (len > JOB_BYTES_MAX / 2)
        return err_set(err, ERR_USAGE, "%s: a job of %zu bytes is longer than %d", name,
                       len, JOB_BYTES_MAX / 2);
    void *parsed;
    if (yaml_parse(name, text, len, &job_file_to_train, &parsed, err))
        return -1;
    const struct job_file *file = parsed;
    struct job *job = xcalloc(1, sizeof(*job));
    int result = config_name_check("name", file->name, err);
    if (result == 0)
        memcpy(job->train.name, file->name, strlen(file->name) + 1);
    if (result == 0 &&
        (refuse_foresight(file, err) || take_model(file, job, err) ||
         job_training(file, &job->train, err) || take_plan(&file->plan, job, err)))
        result = -1;
    if (result == 0) {
        memcpy(job->pattern, file->data.train, strlen(file->data.train) + 1);
        job->text = xcalloc(len + 1, 1);
        memcpy(job->text, text, len);
        *out = *job;
    } else {
        err_wrap(err, "%s", name);
    }
    yaml_free(&job_file_to_train, parsed);
    free(job);
    return result;
}

void
job_release(struct job *job)
{
    free(job->text);
    memset(job, 0, sizeof(*job));
}

void
job_copy(struct job *to, const struct job *from)
{
    *to = *from;
    to->text = from->text ? xstrdup(from->text) : NULL;
}

void
job_bind(struct job *job, const struct id *data, int64_t data_bytes,
         const struct id *nonce)
{
    job->train.data = *data;
    job->train.data_bytes = data_bytes;
    job->train.id = *nonce;
    struct buf bytes = {0};
    job_encode(job, &bytes);
    key_hash(bytes.data, bytes.len, &job->train.id);
    buf_release(&bytes);
}

/* ---- bytes ---- */

static void
write_number(struct buf *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    writer_uint(out, bits);
}

static double
read_number(struct reader *reader, double least, double most)
{
    uint64_t bits = reader_uint(reader, UINT64_MAX);
    double value;
    memcpy(&value, &bits, sizeof(value));
    if (!(value >= least && value <= most)) {
        reader_fail(reader, "a number of the job is out of its range");
        return least;
    }
    return value;
}

void
job_encode(const struct job *job, struct buf *out)
{
    const struct train_job *train = &job->train;
    writer_array(out, 27);
    writer_id(out, &train->id);
    writer_id(out, &train->data);
    writer_int(out, train->data_bytes);
    writer_text(out, train->name);
    writer_int(out, train->steps);
    writer_uint(out, train->seed);
    write_number(out, train->learning_rate);
    write_number(out, train->beta1);
    write_number(out, train->beta2);
    write_number(out, train->epsilon);
    write_number(out, train->weight_decay);
    write_number(out, train->clip_norm);
    writer_int(out, train->warmup_steps);
    writer_int(out, train->copy_every);
    writer_int(out, train->checkpoint_every);
    writer_int(out, train->checkpoint_keep);
    writer_int(out, job->shape.blocks);
    writer_int(out, job->shape.heads);
    writer_int(out, job->shape.hidden);
    writer_int(out, job->shape.context);
    writer_int(out, job->shape.vocabulary);
    writer_int(out, job->sequences);
    writer_int(out, job->pipeline);
    writer_int(out, job->replicas);
    writer_int(out, job->micro_batch);
    writer_array(out, (size_t)job->zones_count);
    for (int i = 0; i < job->zones_count; i++)
        writer_text(out, job->zones[i]);
    writer_bytes(out, job->text ? job->text : "", job->text ? strlen(job->text) : 0);
}

static void
read_train(struct reader *reader, struct train_job *train)
{
    const int64_t far = INT64_C(1) << 40;
    reader_id(reader, &train->id);
    reader_id(reader, &train->data);
    train->data_bytes = reader_int(reader, 0, INT64_C(1) << 50);
    reader_text(reader, train->name, sizeof(train->name));
    train->steps = reader_int(reader, 1, far);
    train->seed = reader_uint(reader, UINT64_MAX);
    train->learning_rate = read_number(reader, 0, 100);
    train->beta1 = read_number(reader, 0, 0.9999999);
    train->beta2 = read_number(reader, 0, 0.9999999);
    train->epsilon = read_number(reader, 1e-16, 1);
    train->weight_decay = read_number(reader, 0, 10);
    train->clip_norm = read_number(reader, 0, 1e9);
    train->warmup_steps = reader_int(reader, 0, far);
    train->copy_every = reader_int(reader, 0, far);
    train->checkpoint_every = reader_int(reader, 0, far);
    train->checkpoint_keep = (int)reader_int(reader, 0, 1000000);
}

/* The rules of take_plan(), for what a peer sends. */
static bool
decoded_plan_right(const struct job *job)
{
    int layers = workload_layers(&job->shape);
    struct err bad;
    if (job->pipeline > layers || job->replicas > job->sequences ||
        job->zones_count > layers ||
        (job->pipeline > 0 && job->zones_count > 0 && job->zones_count != job->pipeline))
        return false;
    for (int i = 0; i < job->zones_count; i++)
        if (config_name_check("a zone", job->zones[i], &bad))
            return false;
    return true;
}

int
job_decode(const void *bytes, size_t len, struct job *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "job");
    struct job *job = xcalloc(1, sizeof(*job));
    reader_enter(reader, 27, 27);
    read_train(reader, &job->train);
    job->shape.blocks = (int)reader_int(reader, 1, LAYERS_MAX - 2);
    job->shape.heads = (int)reader_int(reader, 1, 1024);
    job->shape.hidden = (int)reader_int(reader, 1, 65536);
    job->shape.context = (int)reader_int(reader, 1, 131072);
    job->shape.vocabulary = (int)reader_int(reader, 256, 1 << 20);
    job->sequences = (int)reader_int(reader, 1, 1 << 20);
    job->pipeline = (int)reader_int(reader, 0, STAGES_MAX);
    job->replicas = (int)reader_int(reader, 0, REPLICAS_MAX);
    job->micro_batch = (int)reader_int(reader, 0, 1 << 20);
    job->zones_count = (int)reader_enter(reader, 0, STAGES_MAX);
    for (int i = 0; i < job->zones_count; i++)
        reader_text(reader, job->zones[i], sizeof(job->zones[i]));
    reader_leave(reader);
    size_t text_len;
    const uint8_t *text = reader_bytes(reader, JOB_BYTES_MAX / 2, &text_len);
    reader_leave(reader);
    struct err bad;
    if (reader_ok(reader) && model_shape_check(&job->shape, &bad))
        reader_fail(reader, "%s", bad.msg);
    if (reader_ok(reader) && job->micro_batch > 0 &&
        job->sequences % job->micro_batch != 0)
        reader_fail(reader, "the micro-batch does not divide the batch");
    if (reader_ok(reader) && !decoded_plan_right(job))
        reader_fail(reader, "what the job fixes of its plan cannot be");
    if (reader_ok(reader) && (config_name_check("name", job->train.name, &bad) ||
                              memchr(text, '\0', text_len)))
        reader_fail(reader,
                    "the job's name or text has characters that it must not have");
    if (reader_ok(reader)) {
        job->text = xcalloc(text_len + 1, 1);
        if (text_len)
            memcpy(job->text, text, text_len);
    }
    int result = reader_close(&reader, err);
    if (result)
        err_wrap(err, "job");
    else
        *out = *job;
    free(job);
    return result;
}

void
job_request(const struct job *job, struct plan_request *out)
{
    memset(out, 0, sizeof(*out));
    out->shape = job->shape;
    out->sequences = job->sequences;
    out->copies = job->train.copy_every > 0;
    out->pipeline = job->pipeline;
    out->replicas = job->replicas;
    out->micro_batch = job->micro_batch;
    out->zones_count = job->zones_count;
    memcpy(out->zones, job->zones, sizeof(out->zones));
}
