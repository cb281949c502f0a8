/*
 * Any bytes as a cluster.yaml, a job.yaml, a profile or a plan (the first byte says which):
 * refused with a sentence, or taken with every value in its range; what is taken can be
 * checked, planned or written again.
 */
#include "node/plan/document.h"
#include "node/plan/job.h"
#include "node/plan/measured.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
small_profile(const char *path, struct profile_file *out, struct err *err)
{
    (void)err;
    profile_file_init(out, 3, 2, 2);
    snprintf(out->model, sizeof(out->model), "m");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(out->device, sizeof(out->device), "%.*s", (int)strcspn(name, "."), name);
    out->tokens = 16;
    out->element_bytes = 4;
    for (int i = 0; i < 2; i++) {
        out->sizes[i].tp = 1 + i;
        out->times[i].tp = 1 + i;
        out->times[i].micro_batch = 1;
        for (int l = 0; l < 3; l++) {
            out->sizes[i].parameters[l] = 100;
            out->sizes[i].output_elements[l] = 10;
            out->sizes[i].kept_elements[l] = 100;
            out->times[i].forward_s[l] = 1e-3;
            out->times[i].backward_s[l] = 2e-3;
        }
    }
    return 0;
}

static const char cluster_text[] =
    "zones: [{name: a}, {name: b}]\n"
    "devices: [{name: d, memory: 1GiB, per_machine: 2, profiles: [d.json]}]\n"
    "pools: [{device: d, zone: a, count: 4}, {device: d, zone: b, count: 2}]\n"
    "links: [{from: a, to: a, mbit_per_s: 100}, {from: a, to: b, mbit_per_s: 10}]\n";

static void
said(const struct err *err)
{
    must((err->code == ERR_USAGE || err->code == ERR_PLAN || err->code == ERR_CORRUPT) &&
         err->msg[0]);
}

static void
as_cluster(const char *text, size_t len)
{
    struct plan_cluster cluster;
    struct err err = {0};
    if (plan_cluster_parse("c.yaml", text, len, "m", small_profile, &cluster, &err)) {
        said(&err);
        return;
    }
    must(fleet_check(cluster.fleet, &err) == 0);
    plan_cluster_release(&cluster);
}

/* What our engine would have measured of the job's model. */
static struct model_shape engine_shape;

static int
engine_profile(const char *path, struct profile_file *out, struct err *err)
{
    (void)path, (void)err;
    struct profile profile = {.count = 1};
    profile.entries[0].micro_batch = 2;
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        profile.entries[0].forward_ns[kind] = 1000;
        profile.entries[0].backward_ns[kind] = 2000;
        profile.entries[0].update_ns[kind] = 10;
    }
    plan_measured_profile(&engine_shape, &profile, "d", out);
    return 0;
}

/* A job of the engine's: bound to a cluster that has measured it, it is planned as the leader
 * plans. */
static void
as_engine_job(struct plan_job *job)
{
    struct plan_cluster cluster;
    struct err err = {0};
    engine_shape = job->shape;
    must(plan_cluster_parse("c.yaml", cluster_text, sizeof(cluster_text) - 1, job->model,
                            engine_profile, &cluster, &err) == 0);
    if (plan_job_bind(job, &cluster, &err))
        said(&err);
    else
        must(fleet_check(cluster.fleet, &err) == 0);
    plan_cluster_release(&cluster);
}

static void
as_job(const char *text, size_t len, struct plan_cluster *cluster)
{
    struct plan_job job;
    struct err err = {0};
    if (plan_job_parse("j.yaml", text, len, &job, &err)) {
        said(&err);
        return;
    }
    must(job.request.sequences >= 1 && job.model[0]);
    if (job.engine_model)
        as_engine_job(&job);
    else if (plan_job_bind(&job, cluster, &err))
        said(&err);
    plan_job_release(&job);
}

static void
as_profile(const char *text, size_t len)
{
    struct profile_file profile, again;
    struct err err = {0};
    struct buf out = {0};
    if (profile_file_parse("p.json", text, len, &profile, &err)) {
        said(&err);
        return;
    }
    profile_file_write(&profile, &out);
    must(profile_file_parse("p.json", (const char *)out.data, out.len, &again, &err) ==
         0);
    must(again.layers == profile.layers && again.times_count == profile.times_count);
    profile_file_release(&profile);
    profile_file_release(&again);
    buf_release(&out);
}

static void
as_plan(const char *text, size_t len, const struct fleet *fleet)
{
    struct fleet_request request;
    struct fleet_plan plan;
    struct err err = {0};
    if (plan_document_parse("p.json", text, len, fleet, &plan, &err)) {
        said(&err);
        return;
    }
    fleet_request_init(&request, 8);
    struct estimate estimate;
    if (fleet_plan_check(&plan, &request, fleet, &err))
        said(&err);
    else
        must(evaluate(&plan, &request, fleet, NULL, NULL, &estimate, &err) == 0 ||
             err.msg[0]);
    fleet_plan_release(&plan);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_cluster cluster;
    struct err err = {0};
    if (size < 1 || size > 1 << 16)
        return 0;
    const char *text = (const char *)data + 1;
    must(plan_cluster_parse("c.yaml", cluster_text, sizeof(cluster_text) - 1, "m",
                            small_profile, &cluster, &err) == 0);
    switch (data[0] & 3) {
    case 0:
        as_cluster(text, size - 1);
        break;
    case 1:
        as_job(text, size - 1, &cluster);
        break;
    case 2:
        as_profile(text, size - 1);
        break;
    default:
        as_plan(text, size - 1, cluster.fleet);
    }
    plan_cluster_release(&cluster);
    return 0;
}
