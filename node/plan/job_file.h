/*
 * job_file.h - the form of job.yaml: its keys and what libcyaml makes of them.
 *
 * One form for those who train and those who plan. A text to be trained needs its data
 * and its steps; a text to be planned may lack them, and may say what the runtime cannot
 * do yet. What the values may be is the business of job.c and job.c.
 */
#ifndef NODE_PLAN_JOB_FILE_H
#define NODE_PLAN_JOB_FILE_H

#include "transport/yaml.h"

struct model_file {
    char *profiled; /* the name that its profiles give it; then nothing else */
    char *family;
    int64_t *layers, *heads, *hidden, *context;
};

struct data_file {
    char *train, *tokenizer;
};

struct batch_file {
    int64_t sequences;
};

struct optimizer_file {
    char *name;
    double *learning_rate, *beta1, *beta2, *epsilon, *weight_decay, *clip_norm;
    int64_t *warmup_steps;
};

struct limits_file {
    double *usd_per_hour, *usd_per_iteration, *min_tokens_per_s, *min_iterations_per_s;
};

struct plan_file {
    int64_t *pipeline, *replicas, *micro_batch, *tp;
    char **zones;
    uint32_t zones_count;
};

/* What a plan may use, or must not. */
struct choice_file {
    char **zones, **devices, **nodes;
    uint32_t zones_count, devices_count, nodes_count;
};

struct checkpoint_file {
    int64_t *every_steps, *keep;
};

struct copy_file {
    int64_t *every_steps;
};

/* How a framework other than ours carries a plan out: for measured runs of it. */
struct framework_file {
    bool *overlap;
    char *bucket, *transfer_buffer, *fixed, *fixed_tp;
    int64_t *bucket_buffers, *working_layers, *extra_bytes_per_parameter;
};

struct job_file {
    char *name;
    struct model_file model;
    struct data_file data;
    struct batch_file batch;
    int64_t *steps;
    struct optimizer_file optimizer;
    char *precision, *objective, *recompute, *zero;
    struct limits_file limits;
    char **between_zones;
    uint32_t between_zones_count;
    uint64_t *seed;
    struct plan_file plan;
    struct choice_file only, exclude;
    struct checkpoint_file checkpoint;
    struct copy_file copy;
    struct framework_file framework;
};

/* Tops: a pointer to a struct job_file. */
extern const cyaml_schema_value_t job_file_to_train;
extern const cyaml_schema_value_t job_file_to_plan;

#endif
