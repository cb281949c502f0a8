#include "node/plan/cluster_file.h"
#include "transport/base/limits.h"

#include <stddef.h>

#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)
#define TEXT(key, base, field)                                                           \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, base, field, 1, 1023)
#define TEXT_OPTIONAL(key, base, field)                                                  \
    CYAML_FIELD_STRING_PTR(key, OPTIONAL, base, field, 1, 1023)
#define NUMBER(key, base, field) CYAML_FIELD_FLOAT_PTR(key, OPTIONAL, base, field)
#define LIST(key, flags, base, field, entry, least, most)                                \
    CYAML_FIELD_SEQUENCE(key, flags, base, field, entry, least, most)

enum { LINKS_MAX = 65536, LISTS_MAX = 4096, DEGREES_MAX = 16 };

static const cyaml_schema_value_t path = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, PATH_BYTES_MAX / 2)};
static const cyaml_schema_value_t degree = {CYAML_VALUE_INT(CYAML_FLAG_DEFAULT, int64_t)};
static const cyaml_schema_value_t coefficient = {
    CYAML_VALUE_FLOAT(CYAML_FLAG_DEFAULT, double)};

static const cyaml_schema_field_t zone_fields[] = {
    TEXT("name", struct zone_file, name),
    TEXT_OPTIONAL("region", struct zone_file, region), CYAML_FIELD_END};
static const cyaml_schema_value_t zone = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct zone_file, zone_fields)};

static const cyaml_schema_field_t inside_fields[] = {
    CYAML_FIELD_INT("devices", CYAML_FLAG_DEFAULT, struct inside_file, devices),
    TEXT_OPTIONAL("curve", struct inside_file, curve),
    NUMBER("mbit_per_s", struct inside_file, mbit_per_s), CYAML_FIELD_END};
static const cyaml_schema_value_t inside = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct inside_file, inside_fields)};
static const cyaml_schema_field_t device_fields[] = {
    TEXT("name", struct device_file, name),
    TEXT("memory", struct device_file, memory),
    NUMBER("usd_per_hour", struct device_file, usd_per_hour),
    NUMBER("correction", struct device_file, correction),
    CYAML_FIELD_INT_PTR("per_machine", OPTIONAL, struct device_file, per_machine),
    LIST("profiles", OPTIONAL, struct device_file, profiles, &path, 1, 64),
    LIST("inside", OPTIONAL, struct device_file, inside, &inside, 1, DEGREES_MAX),
    CYAML_FIELD_END};
static const cyaml_schema_value_t device = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct device_file, device_fields)};

static const cyaml_schema_field_t pool_fields[] = {
    TEXT("device", struct pool_file, device), TEXT("zone", struct pool_file, zone),
    CYAML_FIELD_INT_PTR("count", CYAML_FLAG_POINTER, struct pool_file, count),
    NUMBER("usd_per_hour", struct pool_file, usd_per_hour), CYAML_FIELD_END};
static const cyaml_schema_value_t pool = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct pool_file, pool_fields)};
static const cyaml_schema_field_t node_fields[] = {
    TEXT("name", struct pool_file, name),
    TEXT("device", struct pool_file, device),
    TEXT("zone", struct pool_file, zone),
    CYAML_FIELD_INT_PTR("count", OPTIONAL, struct pool_file, count),
    NUMBER("usd_per_hour", struct pool_file, usd_per_hour),
    CYAML_FIELD_END};
static const cyaml_schema_value_t node = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct pool_file, node_fields)};

static const cyaml_schema_field_t curve_fields[] = {
    TEXT("name", struct curve_file, name),
    LIST("quadratic", CYAML_FLAG_POINTER, struct curve_file, quadratic, &coefficient, 3,
         3),
    TEXT_OPTIONAL("smallest", struct curve_file, smallest),
    TEXT_OPTIONAL("largest", struct curve_file, largest), CYAML_FIELD_END};
static const cyaml_schema_value_t curve = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct curve_file, curve_fields)};

static const cyaml_schema_field_t link_fields[] = {
    TEXT("from", struct link_file, from),
    TEXT("to", struct link_file, to),
    TEXT_OPTIONAL("from_device", struct link_file, from_device),
    TEXT_OPTIONAL("to_device", struct link_file, to_device),
    LIST("from_tp", OPTIONAL, struct link_file, from_tp, &degree, 1, DEGREES_MAX),
    LIST("to_tp", OPTIONAL, struct link_file, to_tp, &degree, 1, DEGREES_MAX),
    TEXT_OPTIONAL("curve", struct link_file, curve),
    NUMBER("mbit_per_s", struct link_file, mbit_per_s),
    NUMBER("round_trip_ms", struct link_file, round_trip_ms),
    CYAML_FIELD_BOOL_PTR("both_ways", OPTIONAL, struct link_file, both_ways),
    CYAML_FIELD_BOOL_PTR("shared", OPTIONAL, struct link_file, shared),
    CYAML_FIELD_END};
static const cyaml_schema_value_t link = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct link_file, link_fields)};

static const cyaml_schema_field_t egress_fields[] = {
    TEXT("from", struct egress_file, from), TEXT("to", struct egress_file, to),
    CYAML_FIELD_FLOAT("usd_per_gb", CYAML_FLAG_DEFAULT, struct egress_file, usd_per_gb),
    CYAML_FIELD_BOOL_PTR("both_ways", OPTIONAL, struct egress_file, both_ways),
    CYAML_FIELD_END};
static const cyaml_schema_value_t egress = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct egress_file, egress_fields)};

#define CLUSTER_LIST(key, flags, entry, least, most)                                     \
    LIST(#key, flags, struct cluster_file, key, entry, least, most)

static const cyaml_schema_field_t cluster_fields[] = {
    TEXT_OPTIONAL("cost_model", struct cluster_file, cost_model),
    CLUSTER_LIST(zones, CYAML_FLAG_POINTER, &zone, 1, ZONES_MAX),
    CLUSTER_LIST(devices, CYAML_FLAG_POINTER, &device, 1, PLAN_NODES_MAX),
    CLUSTER_LIST(pools, OPTIONAL, &pool, 1, LISTS_MAX),
    CLUSTER_LIST(nodes, OPTIONAL, &node, 1, LISTS_MAX),
    CLUSTER_LIST(curves, OPTIONAL, &curve, 1, LISTS_MAX),
    CLUSTER_LIST(links, OPTIONAL, &link, 1, LINKS_MAX),
    CLUSTER_LIST(egress, OPTIONAL, &egress, 1, LISTS_MAX),
    CYAML_FIELD_END};

const cyaml_schema_value_t cluster_file_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct cluster_file, cluster_fields)};
