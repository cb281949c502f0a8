/*
 * measured.h - what a node measured of itself as a profile file: the one schema of
 * `flotilla profile`, `flotilla status --cluster` and `flotilla plan`.
 */
#ifndef NODE_PLAN_MEASURED_H
#define NODE_PLAN_MEASURED_H

#include "node/plan/profile.h"
#include "planner/cluster.h"

/* Layers as the engine has them, one device (tp 1), times without a learnt correction.
 * The profile has at least one entry; release `out` with profile_file_release(). */
void plan_measured_profile(const struct model_shape *shape, const struct profile *profile,
                           const char *device, struct profile_file *out);

#endif
