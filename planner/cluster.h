/*
 * cluster.h - the machines that a plan may use: a plain value made of integers,
 * so that every voter that reads the same snapshot plans with the same bits.
 *
 * Nodes are sorted by id, zones by name; a node's number is its place.
 */
#ifndef PLANNER_CLUSTER_H
#define PLANNER_CLUSTER_H

#include "planner/workload.h"
#include "transport/base/id.h"
#include "transport/base/limits.h"

enum { PROFILE_ENTRIES_MAX = 16 };

/* What a device needs for one micro-batch of one layer; nanoseconds of thread CPU
 * time. */
struct profile_entry {
    int micro_batch;
    int64_t forward_ns[LAYER_KINDS];
    int64_t backward_ns[LAYER_KINDS];
    int64_t update_ns[LAYER_KINDS]; /* optimizer step of one layer, once a step */
};

struct profile {
    int count;                                         /* 0: not measured */
    struct profile_entry entries[PROFILE_ENTRIES_MAX]; /* ascending micro_batch */
    int64_t correction_ppm; /* measured over predicted compute of past steps; 1000000:
                               none learnt */
};

struct cluster_node {
    struct id id;
    int zone;
    int64_t memory_bytes; /* what a plan may fill */
    struct profile profile;
};

/* One direction between two zones, or within one. */
enum { CLUSTER_LINK_POINTS = 4 };
struct cluster_link {
    int64_t bytes_per_s;
    int64_t round_trip_us;
    /* What messages of some sizes get, ascending; 0 bytes a second: not measured. */
    int64_t message_bytes[CLUSTER_LINK_POINTS];
    int64_t message_bytes_per_s[CLUSTER_LINK_POINTS];
};

struct cluster {
    int nodes_count;
    struct cluster_node *nodes; /* [nodes_count], owned */
    int zones_count;
    char zones[ZONES_MAX][NAME_BYTES_MAX + 1];
    struct cluster_link *links; /* owned, [zones_count x zones_count]:
                                   from * zones_count + to */
};

/* Zeroed nodes and links, to be filled in by the caller. */
void cluster_init(struct cluster *cluster, int nodes_count, int zones_count);
void cluster_release(struct cluster *cluster);
const struct cluster_link *cluster_link(const struct cluster *cluster, int from_zone,
                                        int to_zone);

/* Times are capped here: a step that takes this long never ends. Sums of capped times
 * saturate at it. */
#define NS_NEVER (INT64_C(1) << 60)
int64_t ns_plus(int64_t left_ns, int64_t right_ns);
int64_t ns_times(int64_t count, int64_t ns);

/* Bytes over a link: half a round trip plus size over rate, in nanoseconds. NS_NEVER over
 * a link that carries nothing (bytes_per_s not above 0). */
int64_t cluster_send_ns(const struct cluster *cluster, int from_zone, int to_zone,
                        int64_t bytes);

/* Interpolated (between entries) or scaled (outside) times of a node for any micro-batch
 * size; 0 or -1 when its profile is empty. `correction_ppm` is applied (not above 0: none
 * learnt). The optimizer step does not grow with the micro-batch outside the entries. No
 * time is above a thousand seconds. */
int cluster_layer_ns(const struct cluster_node *node, enum layer_kind kind,
                     int micro_batch, int64_t *forward_ns, int64_t *backward_ns,
                     int64_t *update_ns);

#endif
