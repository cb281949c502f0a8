#include "node/plan/cluster.h"
#include "node/config.h"
#include "node/plan/cluster_file.h"
#include "node/plan/links.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/word.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER_BYTES_MAX = 1 << 20 };

/* ---- names ---- */

int
plan_cluster_zone(const struct fleet *fleet, const char *name)
{
    for (int z = 0; z < fleet->zones_count; z++)
        if (strcmp(fleet->zones[z].name, name) == 0)
            return z;
    return -1;
}

int
plan_cluster_kind(const struct fleet *fleet, const char *name)
{
    for (int k = 0; k < fleet->kinds_count; k++)
        if (strcmp(fleet->kinds[k].name, name) == 0)
            return k;
    return -1;
}

int
plan_cluster_pool(const struct fleet *fleet, int kind, int zone)
{
    for (int p = 0; p < fleet->pools_count; p++)
        if (fleet->pools[p].kind == kind && fleet->pools[p].zone == zone)
            return p;
    return -1;
}

const char *
plan_cluster_zone_hint(const struct fleet *fleet, const char *name,
                       char text[ERR_MSG_SIZE])
{
    const char *known[ZONES_MAX];
    for (int z = 0; z < fleet->zones_count; z++)
        known[z] = fleet->zones[z].name;
    return word_hint(name, known, (size_t)fleet->zones_count, text);
}

const char *
plan_cluster_kind_hint(const struct fleet *fleet, const char *name,
                       char text[ERR_MSG_SIZE])
{
    const char *known[FLEET_KINDS_MAX];
    for (int k = 0; k < fleet->kinds_count; k++)
        known[k] = fleet->kinds[k].name;
    return word_hint(name, known, (size_t)fleet->kinds_count, text);
}

/* ---- zones and kinds ---- */

static int
take_zones(const struct cluster_file *file, struct fleet *fleet, struct err *err)
{
    const char *regions[ZONES_MAX];
    int regions_count = 0;
    for (uint32_t i = 0; i < file->zones_count; i++) {
        const char *name = file->zones[i].name, *region = file->zones[i].region;
        if (config_name_check("a zone", name, err) ||
            (region && config_name_check("a region", region, err)))
            return -1;
        if (plan_cluster_zone(fleet, name) >= 0)
            return err_set(err, ERR_USAGE, "zones has \"%s\" twice", name);
        struct fleet_zone *zone = &fleet->zones[fleet->zones_count++];
        memcpy(zone->name, name, strlen(name) + 1);
        region = region ? region : name;
        int r = 0;
        while (r < regions_count && strcmp(regions[r], region) != 0)
            r++;
        if (r == regions_count)
            regions[regions_count++] = region;
        zone->region = r;
    }
    return 0;
}

void
plan_cluster_note(struct plan_cluster *cluster, const char *fmt, ...)
{
    size_t used = strlen(cluster->notes);
    va_list args;
    va_start(args, fmt);
    vsnprintf(cluster->notes + used, sizeof(cluster->notes) - used, fmt, args);
    va_end(args);
}

/* The layers' sizes of a profile into the table, or the same as are there already. */
static int
take_sizes(const char *path, const struct profile_file *profile, struct fleet *fleet,
           struct err *err)
{
    struct layer_table *table = &fleet->table;
    if (table->layers_count == 0) {
        table->layers_count = profile->layers;
        table->sequence_tokens = (int)profile->tokens;
    }
    if (table->layers_count != profile->layers ||
        table->sequence_tokens != profile->tokens)
        return err_set(err, ERR_USAGE,
                       "%s: has %d layers of %lld tokens, another profile of the model "
                       "%d of %d",
                       path, profile->layers, (long long)profile->tokens,
                       table->layers_count, table->sequence_tokens);
    for (int i = 0; i < profile->sizes_count; i++) {
        const struct profile_sizes *sizes = &profile->sizes[i];
        int slot = tp_slot(sizes->tp);
        if (slot < 0)
            continue;
        bool known = table->sizes[slot] != NULL;
        if (!known)
            table->sizes[slot] =
                xcalloc((size_t)profile->layers, sizeof(*table->sizes[slot]));
        bool differ = known && table->update_parameters[slot] != sizes->update_parameters;
        table->update_parameters[slot] = sizes->update_parameters;
        for (int l = 0; l < profile->layers; l++) {
            struct layer_size size = {
                .parameters = sizes->parameters[l],
                .output_bytes = sizes->output_elements[l] * profile->element_bytes,
                .kept_bytes = sizes->kept_elements[l] * profile->element_bytes};
            struct layer_size *at = &table->sizes[slot][l];
            if (known && (at->parameters != size.parameters ||
                          at->output_bytes != size.output_bytes ||
                          at->kept_bytes != size.kept_bytes))
                differ = true;
            *at = size;
        }
        if (differ)
            return err_set(err, ERR_USAGE,
                           "%s: the layers' sizes of tp %d are not those of another "
                           "profile of the model; measure both again",
                           path, sizes->tp);
    }
    return 0;
}

static void
take_times(const struct profile_file *profile, struct fleet_kind *kind)
{
    kind->times = xcalloc((size_t)profile->times_count, sizeof(*kind->times));
    for (int i = 0; i < profile->times_count; i++) {
        const struct profile_times *from = &profile->times[i];
        if (tp_slot(from->tp) < 0)
            continue;
        struct fleet_times *to = &kind->times[kind->times_count++];
        to->precision = from->bf16 ? PRECISION_BF16 : PRECISION_FP32;
        to->micro_batch = from->micro_batch;
        to->tp = from->tp;
        to->layers = xcalloc((size_t)profile->layers, sizeof(*to->layers));
        for (int l = 0; l < profile->layers; l++)
            to->layers[l] = (struct layer_time){.forward_s = from->forward_s[l],
                                                .backward_s = from->backward_s[l],
                                                .update_s = from->update_s[l]};
    }
}

/* A device's profile of the model, among those that it names. */
static int
take_profiles(const char *file, const struct device_file *device, const char *model,
              plan_profile_fn *read, struct plan_cluster *out, struct fleet_kind *kind,
              struct err *err)
{
    const char *slash = strrchr(file, '/');
    char path[PATH_BYTES_MAX], other[PROFILE_MODEL_MAX + 1] = "";
    for (uint32_t i = 0; i < device->profiles_count; i++) {
        const char *name = device->profiles[i];
        int folder = slash && name[0] != '/' ? (int)(slash + 1 - file) : 0;
        if (snprintf(path, sizeof(path), "%.*s%s", folder, file, name) >= PATH_BYTES_MAX)
            return err_set(err, ERR_USAGE, "the path of a profile is too long");
        struct profile_file profile;
        if (read(path, &profile, err))
            return err_wrap(err, "device \"%s\"", device->name);
        int result = 0;
        if (strcmp(profile.device, device->name) != 0)
            result = err_set(err, ERR_USAGE,
                             "device \"%s\": the profile \"%s\" is one of \"%s\"",
                             device->name, name, profile.device);
        else if (strcmp(profile.model, model) != 0)
            memcpy(other, profile.model, sizeof(other));
        else if (kind->times)
            result = err_set(err, ERR_USAGE,
                             "device \"%s\" has two profiles of the model \"%s\"",
                             device->name, model);
        else if ((result = take_sizes(path, &profile, out->fleet, err)) == 0)
            take_times(&profile, kind);
        profile_file_release(&profile);
        if (result)
            return -1;
    }
    if (!kind->times)
        plan_cluster_note(
            out, "device \"%s\" has no profile of the model \"%s\"%s%s and is left out\n",
            device->name, model, other[0] ? " but one of " : "", other);
    return 0;
}

static int
take_kind(const char *path, const struct cluster_file *file,
          const struct device_file *device, const char *model, plan_profile_fn *read,
          struct plan_cluster *out, struct err *err)
{
    struct fleet *fleet = out->fleet;
    if (config_name_check("a device", device->name, err))
        return -1;
    if (plan_cluster_kind(fleet, device->name) >= 0)
        return err_set(err, ERR_USAGE, "devices has \"%s\" twice", device->name);
    if (fleet->kinds_count == FLEET_KINDS_MAX)
        return err_set(err, ERR_USAGE, "devices has more than %d types", FLEET_KINDS_MAX);
    struct fleet_kind *kind = &fleet->kinds[fleet->kinds_count++];
    memcpy(kind->name, device->name, strlen(device->name) + 1);
    if (size_parse(device->memory, &kind->memory_bytes, err))
        return err_wrap(err, "device \"%s\": memory", kind->name);
    if (kind->memory_bytes < 1 || kind->memory_bytes > INT64_C(1) << 50)
        return err_set(err, ERR_USAGE,
                       "device \"%s\": memory is \"%s\", it must be from 1 byte to "
                       "1024TiB",
                       kind->name, device->memory);
    int64_t machine = device->per_machine ? *device->per_machine : 1;
    if (machine < 1 || machine > 64)
        return err_set(err, ERR_USAGE,
                       "device \"%s\": per_machine is %lld, it must be from 1 to 64",
                       kind->name, (long long)machine);
    kind->machine_devices = (int)machine;
    kind->correction = device->correction ? *device->correction : 1;
    if (!(kind->correction >= 0.001 && kind->correction <= 1000))
        return err_set(err, ERR_USAGE,
                       "device \"%s\": correction is %g, it must be from 0.001 to 1000",
                       kind->name, kind->correction);
    if (device->usd_per_hour &&
        !(*device->usd_per_hour >= 0 && *device->usd_per_hour <= 1e6))
        return err_set(err, ERR_USAGE,
                       "device \"%s\": usd_per_hour is %g, it must be from 0 to 1e6",
                       kind->name, *device->usd_per_hour);
    return plan_links_inside(file, device, kind, err) ||
                   take_profiles(path, device, model, read, out, kind, err)
               ? -1
               : 0;
}

/* ---- pools ---- */

/* Adds devices to the pool of their type and zone, which may be a new one. */
static int
add_to_pool(const struct cluster_file *file, const char *where,
            const struct pool_file *given, int64_t count, struct fleet *fleet, int *pool,
            struct err *err)
{
    char hints[ERR_MSG_SIZE];
    int kind = plan_cluster_kind(fleet, given->device);
    int zone = plan_cluster_zone(fleet, given->zone);
    if (kind < 0)
        return err_set(err, ERR_USAGE, "%s: there is no device \"%.64s\"%s", where,
                       given->device,
                       plan_cluster_kind_hint(fleet, given->device, hints));
    if (zone < 0)
        return err_set(err, ERR_USAGE, "%s: there is no zone \"%.64s\"%s", where,
                       given->zone, plan_cluster_zone_hint(fleet, given->zone, hints));
    if (count < 0 || count > FLEET_DEVICES_MAX)
        return err_set(err, ERR_USAGE, "%s: count is %lld, it must be from 0 to %d",
                       where, (long long)count, FLEET_DEVICES_MAX);
    const double *price = given->usd_per_hour;
    if (price && !(*price >= 0 && *price <= 1e6))
        return err_set(err, ERR_USAGE, "%s: usd_per_hour is %g, it must be from 0 to 1e6",
                       where, *price);
    price = price ? price : file->devices[kind].usd_per_hour;
    *pool = plan_cluster_pool(fleet, kind, zone);
    if (*pool < 0) {
        if (fleet->pools_count == FLEET_POOLS_MAX)
            return err_set(err, ERR_USAGE,
                           "more than %d pairs of a device type and a zone",
                           FLEET_POOLS_MAX);
        *pool = fleet->pools_count++;
        fleet->pools[*pool] = (struct fleet_pool){
            .kind = kind, .zone = zone, .usd_per_hour = price ? *price : -1};
    } else if (fleet->pools[*pool].usd_per_hour != (price ? *price : -1)) {
        return err_set(err, ERR_USAGE,
                       "%s: two prices of \"%s\" in zone \"%s\"; give them two types",
                       where, given->device, given->zone);
    }
    int64_t all = count;
    for (int p = 0; p < fleet->pools_count; p++)
        all += fleet->pools[p].devices;
    if (all > FLEET_DEVICES_MAX)
        return err_set(err, ERR_USAGE, "%s: all pools together have more than %d devices",
                       where, FLEET_DEVICES_MAX);
    fleet->pools[*pool].devices += (int)count;
    return 0;
}

static int
take_pools(const struct cluster_file *file, struct plan_cluster *out, struct err *err)
{
    struct fleet *fleet = out->fleet;
    char where[128];
    int pool;
    for (uint32_t i = 0; i < file->pools_count; i++) {
        snprintf(where, sizeof(where), "pools entry %u", i + 1);
        if (add_to_pool(file, where, &file->pools[i], *file->pools[i].count, fleet, &pool,
                        err))
            return -1;
    }
    out->nodes = xcalloc(file->nodes_count, sizeof(*out->nodes));
    for (uint32_t i = 0; i < file->nodes_count; i++) {
        const struct pool_file *given = &file->nodes[i];
        struct plan_node *node = &out->nodes[i];
        if (config_name_check("a node", given->name, err))
            return -1;
        snprintf(where, sizeof(where), "node \"%s\"", given->name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(given->name, out->nodes[k].name) == 0)
                return err_set(err, ERR_USAGE, "%s is listed twice", where);
        int kind = plan_cluster_kind(fleet, given->device);
        int64_t most = kind < 0 ? 1 : fleet->kinds[kind].machine_devices;
        int64_t count = given->count ? *given->count : most;
        if (kind >= 0 && count > most)
            return err_set(err, ERR_USAGE,
                           "%s: count is %lld, a machine of \"%s\" has %lld", where,
                           (long long)count, given->device, (long long)most);
        if (add_to_pool(file, where, given, count, fleet, &pool, err))
            return -1;
        memcpy(node->name, given->name, strlen(given->name) + 1);
        node->pool = pool;
        node->devices = (int)count;
        out->nodes_count++;
    }
    return 0;
}

/* What is over in one machine of `devices`, or `machines` of them, beside whole groups. */
static void
add_odd(int *odd, int machines, int devices)
{
    for (int slot = 0; slot < TP_SLOTS; slot++)
        odd[slot] += machines * (devices % (1 << slot));
}

/* A tensor-parallel group lies in one machine: which degrees surely do, however many groups
 * a plan has? Those of which the machines hold as many as their devices would make together,
 * and all below. Fewer machines have no more that is over. */
static void
take_groups(struct plan_cluster *out)
{
    struct fleet *fleet = out->fleet;
    for (int p = 0; p < fleet->pools_count; p++) {
        struct fleet_pool *pool = &fleet->pools[p];
        int machine = fleet->kinds[pool->kind].machine_devices;
        int odd[TP_SLOTS] = {0};
        int unnamed = pool->devices;
        for (int i = 0; i < out->nodes_count; i++) {
            if (out->nodes[i].pool != p)
                continue;
            add_odd(odd, 1, out->nodes[i].devices);
            unnamed -= out->nodes[i].devices;
        }
        add_odd(odd, unnamed / machine, machine);
        add_odd(odd, 1, unnamed % machine);
        int slot = 0;
        while (slot + 1 < TP_SLOTS && odd[slot + 1] < 1 << (slot + 1))
            slot++;
        pool->group_max = 1 << slot;
        if (slot + 1 < TP_SLOTS && 2 << slot <= machine && 2 << slot <= pool->devices)
            plan_cluster_note(out,
                              "\"%s\" in zone \"%s\": not all machines have a multiple "
                              "of %d devices; tensor-parallel groups have at most %d\n",
                              fleet->kinds[pool->kind].name,
                              fleet->zones[pool->zone].name, 2 << slot, 1 << slot);
    }
}

/* ---- prices of what leaves a zone ---- */

static int
take_egress(const struct cluster_file *file, struct fleet *fleet, struct err *err)
{
    char hints[ERR_MSG_SIZE];
    for (int a = 0; a < ZONES_MAX; a++)
        for (int b = 0; b < ZONES_MAX; b++)
            fleet->egress_usd_per_gb[a * ZONES_MAX + b] = a == b ? 0 : -1;
    for (uint32_t i = 0; i < file->egress_count; i++) {
        const struct egress_file *given = &file->egress[i];
        int from = plan_cluster_zone(fleet, given->from),
            to = plan_cluster_zone(fleet, given->to);
        const char *missing = from < 0 ? given->from : given->to;
        if (from < 0 || to < 0)
            return err_set(err, ERR_USAGE,
                           "egress entry %u: there is no zone \"%.64s\"%s", i + 1,
                           missing, plan_cluster_zone_hint(fleet, missing, hints));
        if (!(given->usd_per_gb >= 0 && given->usd_per_gb <= 1e6))
            return err_set(
                err, ERR_USAGE,
                "egress entry %u (%s to %s): usd_per_gb is %g, it must be from 0 to 1e6",
                i + 1, given->from, given->to, given->usd_per_gb);
        fleet->egress_usd_per_gb[from * ZONES_MAX + to] = given->usd_per_gb;
        if (given->both_ways && *given->both_ways)
            fleet->egress_usd_per_gb[to * ZONES_MAX + from] = given->usd_per_gb;
    }
    return 0;
}

/* ---- all of it ---- */

static int
take(const char *path, const struct cluster_file *file, const char *model,
     plan_profile_fn *read, struct plan_cluster *out, struct err *err)
{
    struct fleet *fleet = out->fleet;
    const char *cost_model = file->cost_model ? file->cost_model : "replay";
    if (strcmp(cost_model, "published") == 0)
        fleet->cost_model = COST_MODEL_PUBLISHED;
    else if (strcmp(cost_model, "replay") != 0)
        return err_set(err, ERR_USAGE,
                       "cost_model is \"%.64s\"; it is replay or published", cost_model);
    if (take_zones(file, fleet, err))
        return -1;
    for (uint32_t i = 0; i < file->devices_count; i++)
        if (take_kind(path, file, &file->devices[i], model, read, out, err))
            return -1;
    if (fleet->table.layers_count == 0)
        return err_set(err, ERR_USAGE, "no device has a profile of the model \"%s\"",
                       model);
    if (!fleet->table.sizes[0])
        return err_set(err, ERR_USAGE,
                       "the profiles of \"%s\" have no sizes of tp 1, from which the "
                       "others are checked",
                       model);
    if (take_pools(file, out, err))
        return -1;
    int64_t devices = 0;
    for (int p = 0; p < fleet->pools_count; p++)
        devices += fleet->pools[p].devices;
    if (devices == 0)
        return err_set(err, ERR_PLAN,
                       "the cluster has no devices: pools and nodes count 0 together");
    take_groups(out);
    if (take_egress(file, fleet, err) || plan_links_take(file, fleet, err))
        return -1;
    return fleet_check(fleet, err);
}

int
plan_cluster_parse(const char *path, const char *text, size_t len, const char *model,
                   plan_profile_fn *read, struct plan_cluster *out, struct err *err)
{
    void *parsed;
    if (yaml_parse(path, text, len, &cluster_file_schema, &parsed, err))
        return -1;
    *out = (struct plan_cluster){.fleet = fleet_new()};
    int result = take(path, parsed, model, read, out, err);
    if (result) {
        err_wrap(err, "%s", path);
        plan_cluster_release(out);
    }
    yaml_free(&cluster_file_schema, parsed);
    return result;
}

int
plan_cluster_read(const char *path, const char *model, struct plan_cluster *out,
                  struct err *err)
{
    struct buf text = {0};
    int result = file_read(path, CLUSTER_BYTES_MAX, &text, err);
    if (result)
        err->code = ERR_USAGE;
    else
        result = plan_cluster_parse(path, (const char *)text.data, text.len, model,
                                    profile_file_read, out, err);
    buf_release(&text);
    return result;
}

void
plan_cluster_release(struct plan_cluster *cluster)
{
    fleet_free(cluster->fleet);
    free(cluster->nodes);
    cluster->fleet = NULL;
    cluster->nodes = NULL;
    cluster->nodes_count = 0;
}
