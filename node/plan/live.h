/*
 * live.h - the swarm as a cluster.yaml and its profiles, from what its members
 * reported for the newest epoch: `flotilla status --cluster`.
 */
#ifndef NODE_PLAN_LIVE_H
#define NODE_PLAN_LIVE_H

#include "node/view.h"

enum { PLAN_LIVE_KINDS_MAX = 32 };

struct plan_live {
    struct buf cluster; /* the text of a cluster.yaml */
    int profiles_count;
    struct buf profiles[PLAN_LIVE_KINDS_MAX]; /* documents, */
    char files[PLAN_LIVE_KINDS_MAX]
              [2 * NAME_BYTES_MAX + 16]; /* in files of these names */
};

/* Types and links are those that the leader plans with (planner/muster.h), to the last bit, so that
 * `plan` is asked about the same fleet; who has measured nothing is of a type without a profile, by device and
 * memory. Profiles are called PREFIX.TYPE.json. */
void plan_live_make(const struct view *view, const char *prefix, struct plan_live *out);
void plan_live_release(struct plan_live *live);

#endif
