/*
 * cluster_file.h - the form of cluster.yaml: its keys and what libcyaml makes of them
 * (docs/planning.md, "Clusters"). What the values may be is the business of
 * cluster.c.
 */
#ifndef NODE_PLAN_CLUSTER_FILE_H
#define NODE_PLAN_CLUSTER_FILE_H

#include "transport/yaml.h"

struct zone_file {
    char *name, *region;
};

/* Devices of one machine that talk to each other. */
struct inside_file {
    int64_t devices;
    char *curve;
    double *mbit_per_s;
};

struct device_file {
    char *name, *memory;
    double *usd_per_hour, *correction;
    int64_t *per_machine;
    char **profiles;
    uint32_t profiles_count;
    struct inside_file *inside;
    uint32_t inside_count;
};

/* Devices of one type in one zone, or one named machine of them. */
struct pool_file {
    char *name, *device, *zone;
    int64_t *count;
    double *usd_per_hour;
};

struct curve_file {
    char *name, *smallest, *largest;
    double *quadratic;
    uint32_t quadratic_count;
};

struct link_file {
    char *from, *to, *from_device, *to_device, *curve;
    int64_t *from_tp, *to_tp;
    uint32_t from_tp_count, to_tp_count;
    double *mbit_per_s, *round_trip_ms;
    bool *both_ways, *shared;
};

struct egress_file {
    char *from, *to;
    double usd_per_gb;
    bool *both_ways;
};

struct cluster_file {
    char *cost_model;
    struct zone_file *zones;
    struct device_file *devices;
    struct pool_file *pools, *nodes;
    struct curve_file *curves;
    struct link_file *links;
    struct egress_file *egress;
    uint32_t zones_count, devices_count, pools_count, nodes_count, curves_count,
        links_count, egress_count;
};

/* Top: a pointer to a struct cluster_file. */
extern const cyaml_schema_value_t cluster_file_schema;

#endif
