/*
 * checkpoint.h - a model and its training state on disk: a folder that is whole or is not
 * used.
 *
 *     checkpoints/JOB/step-000200/
 *         config.json             as Hugging Face's GPT-2 reads it
 *         generation_config.json  likewise
 *         model.safetensors       weights by tensor name (lm_head omitted: tied)
 *         optimizer.safetensors   "<tensor>.exp_avg", "<tensor>.exp_avg_sq"
 *         trainer_state.json      step, lineage, samples hash, seed, job id and name, data
 *                                 hash and bytes, the job's own text
 *         manifest.json           last: size and BLAKE2b-256 of every other file
 *
 * Written under a temporary name beside it, every file synced, renamed, folder synced; a
 * checkpoint without a manifest that matches is not one. A disk that fills up leaves the
 * older ones untouched.
 */
#ifndef NODE_ENGINE_CHECKPOINT_H
#define NODE_ENGINE_CHECKPOINT_H

#include "node/engine/lineage.h"
#include "planner/workload.h"
#include "transport/base/id.h"
#include "transport/base/limits.h"

struct checkpoint_info {
    int64_t step;
    struct lineage lineage; /* of one written by a version that told none: epoch 0, and a
                               hash of its tensors, so that two that differ are told apart */
    uint64_t samples_hash;
    uint64_t seed;
    struct id job;
    struct id data;
    int64_t data_bytes;
    char name[NAME_BYTES_MAX + 1]; /* the job's */
    struct model_shape shape;
    char *text; /* the job as submitted (YAML), owned; may be NULL */
};

void checkpoint_info_release(struct checkpoint_info *info);

/* State by tensor number: [kind][tensor] with kinds weight, moment 1, moment 2 (enum
 * state_kind); borrowed. */
struct checkpoint_state {
    const float **tensors[3];
};

/* Write `folder`/step-N (folder = .../checkpoints/JOB, made if absent); keeps it and the
 * newest whole ones before it, `keep` together (0: all), and removes older. `path` gets
 * the new folder's path (PATH_BYTES_MAX). On failure nothing is left behind and
 * ERR_SYSTEM says which file and why. */
int checkpoint_write(const char *folder, const struct checkpoint_info *info,
                     const struct checkpoint_state *state, int keep, char *path,
                     struct err *err);

/* The same in three parts, for whom the ones that are there must not change before its time:
 * written beside them; put in its place, in that of an older one of the step; older ones
 * removed. */
int checkpoint_write_aside(const char *folder, const struct checkpoint_info *info,
                           const struct checkpoint_state *state, struct err *err);
int checkpoint_place(const char *folder, int64_t step, char *path, struct err *err);
void checkpoint_remove_old(const char *folder, int64_t step, int keep);

/* Open a whole checkpoint and verify its manifest (sizes and hashes). ERR_CORRUPT names
 * the file and what is wrong. */
struct checkpoint;
struct checkpoint *checkpoint_open(const char *path, struct checkpoint_info *info,
                                   struct err *err);
void checkpoint_close(struct checkpoint *checkpoint);

/* Copy one tensor's weight, moment 1 or 2 to `out` (its elements). ERR_CORRUPT when
 * absent or of another shape or type. */
int checkpoint_tensor(const struct checkpoint *checkpoint, int tensor, int kind,
                      float *out, struct err *err);

/* The newest whole checkpoint in one job's folder (that holds step-N folders); otherwise
 * as checkpoint_newest(). */
int checkpoint_in(const char *folder, const struct id *job, char path[PATH_BYTES_MAX],
                  char *damaged, size_t damaged_size, struct err *err);

/* The newest whole checkpoint below `root` (.../checkpoints) of this job (the largest
 * step), or of any with an empty id (the one written last): its path, else -1 with
 * ERR_USAGE "there is no whole checkpoint". Damaged ones met on the way are passed over
 * and described in `damaged` (may be NULL). */
int checkpoint_newest(const char *root, const struct id *job, char path[PATH_BYTES_MAX],
                      char *damaged, size_t damaged_size, struct err *err);

#endif
