#include "node/plan/job_file.h"
#include "transport/base/limits.h"

#include <stddef.h>

#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)
#define TEXT(key, base, field)                                                           \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, base, field, 1, 1023)
#define TEXT_OPTIONAL(key, base, field)                                                  \
    CYAML_FIELD_STRING_PTR(key, OPTIONAL, base, field, 1, 1023)
#define WORDS(key, base, field, most)                                                    \
    CYAML_FIELD_SEQUENCE(key, OPTIONAL, base, field, &word, 1, most)

enum { WORDS_MAX = 4096 };

static const cyaml_schema_value_t word = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 64)};

#define WHOLE(key, base, field) CYAML_FIELD_INT_PTR(key, OPTIONAL, base, field)
#define NUMBER(key, base, field) CYAML_FIELD_FLOAT_PTR(key, OPTIONAL, base, field)

static const cyaml_schema_field_t model_to_train_fields[] = {
    TEXT_OPTIONAL("family", struct model_file, family),
    CYAML_FIELD_INT_PTR("layers", CYAML_FLAG_POINTER, struct model_file, layers),
    CYAML_FIELD_INT_PTR("heads", CYAML_FLAG_POINTER, struct model_file, heads),
    CYAML_FIELD_INT_PTR("hidden", CYAML_FLAG_POINTER, struct model_file, hidden),
    CYAML_FIELD_INT_PTR("context", CYAML_FLAG_POINTER, struct model_file, context),
    CYAML_FIELD_END};
static const cyaml_schema_field_t model_to_plan_fields[] = {
    TEXT_OPTIONAL("profiled", struct model_file, profiled),
    TEXT_OPTIONAL("family", struct model_file, family),
    WHOLE("layers", struct model_file, layers),
    WHOLE("heads", struct model_file, heads),
    WHOLE("hidden", struct model_file, hidden),
    WHOLE("context", struct model_file, context),
    CYAML_FIELD_END};
static const cyaml_schema_field_t data_fields[] = {
    TEXT("train", struct data_file, train),
    TEXT_OPTIONAL("tokenizer", struct data_file, tokenizer), CYAML_FIELD_END};
static const cyaml_schema_field_t batch_fields[] = {
    CYAML_FIELD_INT("sequences", CYAML_FLAG_DEFAULT, struct batch_file, sequences),
    CYAML_FIELD_END};
static const cyaml_schema_field_t optimizer_fields[] = {
    TEXT_OPTIONAL("name", struct optimizer_file, name),
    NUMBER("learning_rate", struct optimizer_file, learning_rate),
    WHOLE("warmup_steps", struct optimizer_file, warmup_steps),
    NUMBER("beta1", struct optimizer_file, beta1),
    NUMBER("beta2", struct optimizer_file, beta2),
    NUMBER("epsilon", struct optimizer_file, epsilon),
    NUMBER("weight_decay", struct optimizer_file, weight_decay),
    NUMBER("clip_norm", struct optimizer_file, clip_norm),
    CYAML_FIELD_END};
static const cyaml_schema_field_t limits_fields[] = {
    NUMBER("usd_per_hour", struct limits_file, usd_per_hour),
    NUMBER("usd_per_iteration", struct limits_file, usd_per_iteration),
    NUMBER("min_tokens_per_s", struct limits_file, min_tokens_per_s),
    NUMBER("min_iterations_per_s", struct limits_file, min_iterations_per_s),
    CYAML_FIELD_END};
static const cyaml_schema_field_t plan_fields[] = {
    WHOLE("pipeline", struct plan_file, pipeline),
    WHOLE("replicas", struct plan_file, replicas),
    WHOLE("micro_batch", struct plan_file, micro_batch),
    WHOLE("tp", struct plan_file, tp),
    WORDS("zones", struct plan_file, zones, STAGES_MAX),
    CYAML_FIELD_END};
static const cyaml_schema_field_t choice_fields[] = {
    WORDS("zones", struct choice_file, zones, WORDS_MAX),
    WORDS("devices", struct choice_file, devices, WORDS_MAX),
    WORDS("nodes", struct choice_file, nodes, WORDS_MAX), CYAML_FIELD_END};
static const cyaml_schema_field_t checkpoint_fields[] = {
    WHOLE("every_steps", struct checkpoint_file, every_steps),
    WHOLE("keep", struct checkpoint_file, keep), CYAML_FIELD_END};
static const cyaml_schema_field_t copy_fields[] = {
    WHOLE("every_steps", struct copy_file, every_steps), CYAML_FIELD_END};
static const cyaml_schema_field_t framework_fields[] = {
    CYAML_FIELD_BOOL_PTR("overlap", OPTIONAL, struct framework_file, overlap),
    TEXT_OPTIONAL("bucket", struct framework_file, bucket),
    TEXT_OPTIONAL("transfer_buffer", struct framework_file, transfer_buffer),
    WHOLE("bucket_buffers", struct framework_file, bucket_buffers),
    WHOLE("working_layers", struct framework_file, working_layers),
    WHOLE("extra_bytes_per_parameter", struct framework_file, extra_bytes_per_parameter),
    TEXT_OPTIONAL("fixed", struct framework_file, fixed),
    TEXT_OPTIONAL("fixed_tp", struct framework_file, fixed_tp),
    CYAML_FIELD_END};

#define MAPPING(key, flags, field, fields)                                               \
    CYAML_FIELD_MAPPING(key, flags, struct job_file, field, fields)

/* The keys that both have alike. */
#define COMMON_FIELDS                                                                    \
    TEXT("name", struct job_file, name),                                                 \
        MAPPING("batch", CYAML_FLAG_DEFAULT, batch, batch_fields),                       \
        MAPPING("optimizer", CYAML_FLAG_OPTIONAL, optimizer, optimizer_fields),          \
        TEXT_OPTIONAL("precision", struct job_file, precision),                          \
        TEXT_OPTIONAL("objective", struct job_file, objective),                          \
        MAPPING("limits", CYAML_FLAG_OPTIONAL, limits, limits_fields),                   \
        WORDS("between_zones", struct job_file, between_zones, 2),                       \
        CYAML_FIELD_UINT_PTR("seed", OPTIONAL, struct job_file, seed),                   \
        MAPPING("plan", CYAML_FLAG_OPTIONAL, plan, plan_fields),                         \
        TEXT_OPTIONAL("recompute", struct job_file, recompute),                          \
        TEXT_OPTIONAL("zero", struct job_file, zero),                                    \
        MAPPING("only", CYAML_FLAG_OPTIONAL, only, choice_fields),                       \
        MAPPING("exclude", CYAML_FLAG_OPTIONAL, exclude, choice_fields),                 \
        MAPPING("checkpoint", CYAML_FLAG_OPTIONAL, checkpoint, checkpoint_fields),       \
        MAPPING("copy", CYAML_FLAG_OPTIONAL, copy, copy_fields)

static const cyaml_schema_field_t to_train_fields[] = {
    COMMON_FIELDS, MAPPING("model", CYAML_FLAG_DEFAULT, model, model_to_train_fields),
    MAPPING("data", CYAML_FLAG_DEFAULT, data, data_fields),
    CYAML_FIELD_INT_PTR("steps", CYAML_FLAG_POINTER, struct job_file, steps),
    CYAML_FIELD_END};
static const cyaml_schema_field_t to_plan_fields[] = {
    COMMON_FIELDS,
    MAPPING("model", CYAML_FLAG_DEFAULT, model, model_to_plan_fields),
    MAPPING("data", CYAML_FLAG_OPTIONAL, data, data_fields),
    WHOLE("steps", struct job_file, steps),
    MAPPING("framework", CYAML_FLAG_OPTIONAL, framework, framework_fields),
    CYAML_FIELD_END};

const cyaml_schema_value_t job_file_to_train = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct job_file, to_train_fields)};
const cyaml_schema_value_t job_file_to_plan = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct job_file, to_plan_fields)};
