/*
 * cluster.h - cluster.yaml and the profiles that it names, as the planner's fleet
 * (docs/planning.md, "Clusters").
 */
#ifndef NODE_PLAN_CLUSTER_H
#define NODE_PLAN_CLUSTER_H

#include "node/plan/profile.h"
#include "planner/fleet.h"

/* A machine by name; its devices are counted in its pool. */
struct plan_node {
    char name[NAME_BYTES_MAX + 1];
    int pool;
    int devices;
};

struct plan_cluster {
    struct fleet *fleet; /* owned */
    int nodes_count;
    struct plan_node *nodes; /* owned, in the file's order */
    char notes[1024];        /* what a person should know though it is no error: lines */
};

/* What a file is read for. `model` is the name by which its profiles are chosen. */
int plan_cluster_read(const char *path, const char *model, struct plan_cluster *out,
                      struct err *err);
/* The same of a text that is called `path`; profiles are asked of `read`, which is
 * profile_file_read() but for tests. ERR_USAGE with the place in the file; ERR_PLAN when
 * all pools together have no device. */
typedef int plan_profile_fn(const char *path, struct profile_file *out, struct err *err);
int plan_cluster_parse(const char *path, const char *text, size_t len, const char *model,
                       plan_profile_fn *read, struct plan_cluster *out, struct err *err);
void plan_cluster_release(struct plan_cluster *cluster);

/* Adds a line, its end included, to the notes, as far as there is room. */
void plan_cluster_note(struct plan_cluster *cluster, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

int plan_cluster_zone(const struct fleet *fleet, const char *name);   /* or -1 */
int plan_cluster_kind(const struct fleet *fleet, const char *name);   /* or -1 */
int plan_cluster_pool(const struct fleet *fleet, int kind, int zone); /* or -1 */

/* "; did you mean" for a zone's or a device's name that is not there. */
const char *plan_cluster_zone_hint(const struct fleet *fleet, const char *name,
                                   char text[ERR_MSG_SIZE]);
const char *plan_cluster_kind_hint(const struct fleet *fleet, const char *name,
                                   char text[ERR_MSG_SIZE]);

#endif
