/*
 * job.h - job.yaml as a request to the planner (docs/planning.md, "Jobs").
 */
#ifndef NODE_PLAN_JOB_H
#define NODE_PLAN_JOB_H

#include "node/plan/cluster.h"
#include "node/plan/job_file.h"
#include "planner/fleet_plan.h"
#include "planner/workload.h"

struct plan_job {
    char name[NAME_BYTES_MAX + 1];
    char model[PROFILE_MODEL_MAX + 1]; /* what its profiles are called */
    bool engine_model; /* the engine has it: `shape` says what it is made of */
    struct model_shape shape;
    struct fleet_request request; /* complete after plan_job_bind() */
    double tokens_per_s_min;      /* 0: no limit */
    bool foreign; /* it tells of another framework: for plans that are given, alone */
    struct job_file *file; /* owned */
};

/* ERR_USAGE with the line, or the key and its range. */
int plan_job_read(const char *path, struct plan_job *out, struct err *err);
int plan_job_parse(const char *name, const char *text, size_t len, struct plan_job *out,
                   struct err *err);
void plan_job_release(struct plan_job *job);

/* Names of zones, devices and nodes, and limits in tokens, by a cluster: completes the
 * request and takes out of the cluster what the job excludes; a job of our engine's is made one
 * of it (engine.h). The cluster may not outlive the job. ERR_USAGE for a name that is
 * not there; ERR_PLAN when nothing is left. */
int plan_job_bind(struct plan_job *job, struct plan_cluster *cluster, struct err *err);

/* The name of an engine's model: gpt2-LAYERSxHEADSxHIDDENxCONTEXT. */
void plan_job_model_name(const struct model_shape *shape,
                         char out[PROFILE_MODEL_MAX + 1]);

#endif
