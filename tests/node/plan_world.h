/*
 * plan_world.h - a small cluster of two zones and two types, and its profiles, for tests of
 * what plans are made of.
 */
#ifndef TESTS_NODE_PLAN_WORLD_H
#define TESTS_NODE_PLAN_WORLD_H

#include "node/plan/profile.h"

#include <stddef.h>

extern const char plan_world_cluster[]; /* a cluster.yaml */

/* A profile of the model "tiny", made up for the last part of a path: fast.json,
 * slow.json; short.json and wide.json are of "slow" and disagree with fast.json, other.json
 * is of another model. */
int plan_world_profile(const char *path, struct profile_file *out, struct err *err);

/* A text with the first `piece` replaced; the piece is there. NULL: as it is. */
void plan_world_text(const char *text, const char *piece, const char *other, char *out,
                     size_t size);

#endif
