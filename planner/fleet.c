#include "planner/fleet.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int
tp_slot(int tp)
{
    switch (tp) {
    case 1:
        return 0;
    case 2:
        return 1;
    case 4:
        return 2;
    case 8:
        return 3;
    default:
        return -1;
    }
}

double
fleet_log2(double x)
{
    /* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log2 m = 2 atanh(t) / ln 2 with
     * t = (m - 1) / (m + 1), |t| < 0.1716, as an odd series. */
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    must(x > 0.0 && (bits >> 52) > 0 && (bits >> 52) < 2047);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    double m;
    memcpy(&m, &bits, sizeof(m));
    if (m > 1.41421356237309504880) {
        m *= 0.5;
        exponent++;
    }
    double t = (m - 1.0) / (m + 1.0);
    double square = t * t;
    static const double terms[] = {1.0 / 25.0, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0,
                                   1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0,
                                   1.0 / 9.0,  1.0 / 7.0,  1.0 / 5.0,  1.0 / 3.0,
                                   1.0};
    double sum = 0.0;
    for (size_t k = 0; k < sizeof(terms) / sizeof(terms[0]); k++)
        sum = sum * square + terms[k];
    return (double)exponent + t * sum * (2.0 * 1.44269504088896340736);
}

void
fleet_curve_plain(struct fleet_curve *curve, double mbit_per_s, double round_trip_ms)
{
    *curve = (struct fleet_curve){
        .c0 = mbit_per_s / 8000.0,
        .low_bytes = 1.0,
        .high_bytes = 1e18,
        .delay_s = round_trip_ms / 2000.0,
    };
}

double
fleet_send_s(const struct fleet_curve *curve, double bytes)
{
    if (!(bytes > 0.0))
        return 0.0;
    double rate = curve->c0;
    if (curve->c1 != 0.0 || curve->c2 != 0.0) {
        double size = bytes;
        if (size < curve->low_bytes)
            size = curve->low_bytes;
        if (size > curve->high_bytes)
            size = curve->high_bytes;
        double l = fleet_log2(size / 1e6);
        rate = (curve->c2 * l + curve->c1) * l + curve->c0;
    }
    if (!(rate > 0.0))
        return FLEET_NEVER_S;
    double seconds = bytes / 1e9 / rate + curve->delay_s;
    return seconds < FLEET_NEVER_S ? seconds : FLEET_NEVER_S;
}

struct fleet *
fleet_new(void)
{
    struct fleet *fleet = xcalloc(1, sizeof(*fleet));
    fleet->egress_usd_per_gb =
        xcalloc((size_t)ZONES_MAX * ZONES_MAX, sizeof(*fleet->egress_usd_per_gb));
    return fleet;
}

static void
kind_release(struct fleet_kind *kind)
{
    for (int t = 0; t < kind->times_count; t++)
        free(kind->times[t].layers);
    free(kind->times);
}

void
fleet_free(struct fleet *fleet)
{
    if (!fleet)
        return;
    for (int k = 0; k < fleet->kinds_count; k++)
        kind_release(&fleet->kinds[k]);
    for (int slot = 0; slot < TP_SLOTS; slot++)
        free(fleet->table.sizes[slot]);
    free(fleet->curves);
    free(fleet->links);
    free(fleet->egress_usd_per_gb);
    free(fleet);
}

static size_t
links_count(const struct fleet *fleet)
{
    size_t endpoints = (size_t)fleet->pools_count * TP_SLOTS;
    return endpoints * endpoints;
}

void
fleet_pools_done(struct fleet *fleet)
{
    must(fleet->pools_count > 0 && fleet->pools_count <= FLEET_POOLS_MAX);
    free(fleet->links);
    fleet->links = xcalloc(links_count(fleet), sizeof(*fleet->links));
    memset(fleet->links, 0xff, links_count(fleet) * sizeof(*fleet->links));
}

static void *
copy_of(const void *data, size_t count, size_t size)
{
    return data && count > 0 ? xmemdup(data, count * size) : NULL;
}

struct fleet *
fleet_copy(const struct fleet *fleet)
{
    struct fleet *copy = xmemdup(fleet, sizeof(*fleet));
    size_t layers = (size_t)fleet->table.layers_count;
    for (int k = 0; k < fleet->kinds_count; k++) {
        struct fleet_kind *kind = &copy->kinds[k];
        kind->times =
            copy_of(kind->times, (size_t)kind->times_count, sizeof(*kind->times));
        for (int t = 0; t < kind->times_count; t++)
            kind->times[t].layers =
                copy_of(kind->times[t].layers, layers, sizeof(*kind->times[t].layers));
    }
    for (int slot = 0; slot < TP_SLOTS; slot++)
        copy->table.sizes[slot] =
            copy_of(fleet->table.sizes[slot], layers, sizeof(*fleet->table.sizes[slot]));
    copy->curves =
        copy_of(fleet->curves, (size_t)fleet->curves_count, sizeof(*fleet->curves));
    copy->links = copy_of(fleet->links, links_count(fleet), sizeof(*fleet->links));
    copy->egress_usd_per_gb =
        copy_of(fleet->egress_usd_per_gb, (size_t)ZONES_MAX * ZONES_MAX,
                sizeof(*fleet->egress_usd_per_gb));
    return copy;
}

/* Sizes of degrees in which none of the kinds was measured. */
static void
drop_degrees(struct fleet *fleet)
{
    for (int slot = 1; slot < TP_SLOTS; slot++) {
        bool measured = false;
        for (int k = 0; k < fleet->kinds_count; k++)
            for (int t = 0; t < fleet->kinds[k].times_count; t++)
                measured = measured || tp_slot(fleet->kinds[k].times[t].tp) == slot;
        if (measured)
            continue;
        free(fleet->table.sizes[slot]);
        fleet->table.sizes[slot] = NULL;
    }
}

struct fleet *
fleet_part(const struct fleet *fleet, const int *devices, int16_t *pool_from)
{
    struct fleet *part = fleet_copy(fleet);
    int kind_to[FLEET_KINDS_MAX];
    int zone_to[ZONES_MAX];
    memset(kind_to, 0xff, sizeof(kind_to));
    memset(zone_to, 0xff, sizeof(zone_to));
    part->pools_count = 0;
    for (int p = 0; p < fleet->pools_count; p++) {
        if (devices[p] < 1)
            continue;
        kind_to[fleet->pools[p].kind] = 0;
        zone_to[fleet->pools[p].zone] = 0;
        pool_from[part->pools_count] = (int16_t)p;
        part->pools[part->pools_count] = fleet->pools[p];
        part->pools[part->pools_count++].devices = devices[p];
    }
    part->kinds_count = 0;
    for (int k = 0; k < fleet->kinds_count; k++) {
        if (kind_to[k] < 0) {
            kind_release(&part->kinds[k]);
            continue;
        }
        kind_to[k] = part->kinds_count;
        part->kinds[part->kinds_count++] = part->kinds[k];
    }
    drop_degrees(part);
    part->zones_count = 0;
    for (int z = 0; z < fleet->zones_count; z++) {
        if (zone_to[z] < 0)
            continue;
        zone_to[z] = part->zones_count;
        part->zones[part->zones_count++] = fleet->zones[z];
    }
    for (int a = 0; a < fleet->zones_count; a++)
        for (int b = 0; b < fleet->zones_count; b++)
            if (zone_to[a] >= 0 && zone_to[b] >= 0)
                part->egress_usd_per_gb[zone_to[a] * ZONES_MAX + zone_to[b]] =
                    fleet->egress_usd_per_gb[a * ZONES_MAX + b];
    for (int p = 0; p < part->pools_count; p++) {
        part->pools[p].kind = kind_to[part->pools[p].kind];
        part->pools[p].zone = zone_to[part->pools[p].zone];
    }
    fleet_pools_done(part);
    size_t row = TP_SLOTS * sizeof(*part->links);
    for (int a = 0; a < part->pools_count; a++)
        for (int slot = 0; slot < TP_SLOTS; slot++)
            for (int b = 0; b < part->pools_count; b++)
                memcpy(fleet_link(part, a, slot, b, 0),
                       fleet_link(fleet, pool_from[a], slot, pool_from[b], 0), row);
    return part;
}

const struct fleet_curve *
fleet_curve(const struct fleet *fleet, int from_pool, int from_slot, int to_pool,
            int to_slot)
{
    int32_t number = *fleet_link(fleet, from_pool, from_slot, to_pool, to_slot);
    return number < 0 ? NULL : &fleet->curves[number];
}

const struct layer_time *
fleet_kind_times(const struct fleet_kind *kind, enum precision precision, int micro_batch,
                 int tp)
{
    for (int t = 0; t < kind->times_count; t++) {
        const struct fleet_times *times = &kind->times[t];
        if (times->precision == precision && times->micro_batch == micro_batch &&
            times->tp == tp)
            return times->layers;
    }
    return NULL;
}

/* ---- fleet_check ---- */

static bool
sensible(double value, double most)
{
    return value >= 0.0 && value <= most;
}

static int
check_table(const struct layer_table *table, struct err *err)
{
    if (table->layers_count < 1 || table->layers_count > LAYERS_MAX)
        return err_set(err, ERR_USAGE, "the model has %d layers, the limit is 1 to %d",
                       table->layers_count, LAYERS_MAX);
    if (table->sequence_tokens < 1)
        return err_set(err, ERR_USAGE, "a sequence has %d tokens, at least 1 is needed",
                       table->sequence_tokens);
    if (!table->sizes[0])
        return err_set(err, ERR_USAGE, "the layers' sizes of tp 1 are missing");
    const int64_t most = INT64_C(1) << 50;
    for (int slot = 0; slot < TP_SLOTS; slot++) {
        for (int l = 0; table->sizes[slot] && l < table->layers_count; l++) {
            const struct layer_size *size = &table->sizes[slot][l];
            if (size->parameters < 0 || size->parameters > most ||
                size->output_bytes < 0 || size->output_bytes > most ||
                size->kept_bytes < 0 || size->kept_bytes > most)
                return err_set(err, ERR_USAGE,
                               "layer %d at tp %d: a size is negative or above 2^50", l,
                               1 << slot);
        }
        if (table->update_parameters[slot] < 0)
            return err_set(err, ERR_USAGE, "update_parameters of tp %d is negative",
                           1 << slot);
    }
    return 0;
}

static int
check_times(const struct fleet *fleet, const struct fleet_kind *kind, struct err *err)
{
    for (int t = 0; t < kind->times_count; t++) {
        const struct fleet_times *times = &kind->times[t];
        int slot = tp_slot(times->tp);
        if (slot < 0 || times->micro_batch < 1 || times->precision < 0 ||
            times->precision >= PRECISIONS)
            return err_set(err, ERR_USAGE,
                           "device \"%s\": times of tp %d, micro-batch %d; tp is 1, 2, 4 "
                           "or 8, a micro-batch at least 1",
                           kind->name, times->tp, times->micro_batch);
        if (!fleet->table.sizes[slot])
            return err_set(err, ERR_USAGE,
                           "device \"%s\" has times of tp %d, the model has no layer "
                           "sizes of it",
                           kind->name, times->tp);
        for (int l = 0; l < fleet->table.layers_count; l++) {
            const struct layer_time *time = &times->layers[l];
            if (!sensible(time->forward_s, 1e6) || !sensible(time->backward_s, 1e6) ||
                !sensible(time->update_s, 1e6))
                return err_set(
                    err, ERR_USAGE,
                    "device \"%s\", tp %d, micro-batch %d, layer %d: a time is "
                    "negative or above 1e6 s",
                    kind->name, times->tp, times->micro_batch, l);
        }
    }
    return 0;
}

static int
check_curve(const struct fleet_curve *curve, const char *where, struct err *err)
{
    bool finite = curve->c2 - curve->c2 == 0.0 && curve->c1 - curve->c1 == 0.0 &&
                  curve->c0 - curve->c0 == 0.0;
    if (!finite || !sensible(curve->delay_s, 1e6) || !(curve->low_bytes >= 1.0) ||
        !(curve->high_bytes >= curve->low_bytes) || !(curve->high_bytes <= 1e18))
        return err_set(err, ERR_USAGE,
                       "%s: a curve is not finite, or its range or delay is not sensible",
                       where);
    return 0;
}

static int
check_kinds(const struct fleet *fleet, struct err *err)
{
    if (fleet->kinds_count < 1 || fleet->kinds_count > FLEET_KINDS_MAX)
        return err_set(err, ERR_USAGE, "%d kinds of devices, the limit is 1 to %d",
                       fleet->kinds_count, FLEET_KINDS_MAX);
    for (int k = 0; k < fleet->kinds_count; k++) {
        const struct fleet_kind *kind = &fleet->kinds[k];
        if (kind->memory_bytes < 0 || kind->memory_bytes > INT64_C(1) << 50)
            return err_set(err, ERR_USAGE,
                           "device \"%s\" has %" PRId64 " bytes of memory", kind->name,
                           kind->memory_bytes);
        if (kind->machine_devices < 1 || kind->machine_devices > FLEET_DEVICES_MAX)
            return err_set(err, ERR_USAGE, "device \"%s\": %d devices in a machine",
                           kind->name, kind->machine_devices);
        if (!(kind->correction > 0.0) || kind->correction > 1e6)
            return err_set(err, ERR_USAGE,
                           "device \"%s\": a correction has to lie between 0 and 1e6",
                           kind->name);
        for (int slot = 0; kind->has_inside && slot < TP_SLOTS; slot++)
            if (check_curve(&kind->inside[slot], kind->name, err) != 0)
                return -1;
        if (check_times(fleet, kind, err) != 0)
            return -1;
    }
    return 0;
}

int
fleet_pool_group_max(const struct fleet *fleet, int pool)
{
    int whole = fleet->kinds[fleet->pools[pool].kind].machine_devices;
    int most = fleet->pools[pool].group_max;
    return most > 0 && most < whole ? most : whole;
}

static int
check_pools(const struct fleet *fleet, struct err *err)
{
    if (fleet->zones_count < 1 || fleet->zones_count > ZONES_MAX)
        return err_set(err, ERR_USAGE, "%d zones, the limit is 1 to %d",
                       fleet->zones_count, ZONES_MAX);
    if (fleet->pools_count < 1 || fleet->pools_count > FLEET_POOLS_MAX)
        return err_set(err, ERR_USAGE, "%d pools, the limit is 1 to %d",
                       fleet->pools_count, FLEET_POOLS_MAX);
    bool seen[FLEET_KINDS_MAX][ZONES_MAX] = {{false}};
    int64_t devices = 0;
    for (int p = 0; p < fleet->pools_count; p++) {
        const struct fleet_pool *pool = &fleet->pools[p];
        if (pool->kind < 0 || pool->kind >= fleet->kinds_count || pool->zone < 0 ||
            pool->zone >= fleet->zones_count)
            return err_set(err, ERR_USAGE,
                           "pool %d is of a kind or zone that is not there", p);
        const char *kind = fleet->kinds[pool->kind].name;
        const char *zone = fleet->zones[pool->zone].name;
        if (seen[pool->kind][pool->zone])
            return err_set(err, ERR_USAGE, "two pools of \"%s\" in zone \"%s\"", kind,
                           zone);
        seen[pool->kind][pool->zone] = true;
        if (pool->devices < 0 || (devices += pool->devices) > FLEET_DEVICES_MAX)
            return err_set(err, ERR_USAGE,
                           "pool of \"%s\" in zone \"%s\" has %d devices; all pools "
                           "together may have %d",
                           kind, zone, pool->devices, FLEET_DEVICES_MAX);
        if (!(pool->usd_per_hour <= 1e6) || pool->usd_per_hour != pool->usd_per_hour)
            return err_set(err, ERR_USAGE,
                           "pool of \"%s\" in zone \"%s\": a price above 1e6 USD an hour",
                           kind, zone);
    }
    return 0;
}

int
fleet_check(const struct fleet *fleet, struct err *err)
{
    if (check_table(&fleet->table, err) != 0 || check_kinds(fleet, err) != 0 ||
        check_pools(fleet, err) != 0)
        return -1;
    for (int c = 0; c < fleet->curves_count; c++)
        if (check_curve(&fleet->curves[c], "a link", err) != 0)
            return -1;
    for (size_t i = 0; i < links_count(fleet); i++)
        if (fleet->links[i] < -1 || fleet->links[i] >= fleet->curves_count)
            return err_set(err, ERR_USAGE, "a link names curve %d of %d",
                           (int)fleet->links[i], fleet->curves_count);
    for (int i = 0; i < ZONES_MAX * ZONES_MAX; i++)
        if (!(fleet->egress_usd_per_gb[i] <= 1e6))
            return err_set(err, ERR_USAGE, "an egress price is above 1e6 USD per GB");
    return 0;
}
