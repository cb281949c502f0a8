#include "node/plan/links.h"
#include "node/config.h"
#include "node/plan/cluster.h"
#include "transport/base/alloc.h"
#include "transport/base/word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sizes that the published curves were fitted to. */
static const int64_t fitted_low = 65536, fitted_high = 1073741824;

enum { HINTED_MAX = 64 };

static const struct curve_file *
find_curve(const struct cluster_file *file, const char *name)
{
    for (uint32_t i = 0; i < file->curves_count; i++)
        if (strcmp(file->curves[i].name, name) == 0)
            return &file->curves[i];
    return NULL;
}

/* A quadratic may dip below 0 at the small end of what it was fitted to; it is read from
 * the smallest power of two above that dip. */
static int
check_rate(struct fleet_curve *curve, const char *where, const char *name,
           struct err *err)
{
    double bytes = curve->high_bytes;
    if (fleet_send_s(curve, bytes) >= FLEET_NEVER_S)
        return err_set(err, ERR_USAGE,
                       "%s: the curve \"%s\" has no rate above 0 for messages of %.0f "
                       "bytes",
                       where, name, bytes);
    while (bytes > curve->low_bytes && fleet_send_s(curve, bytes / 2) < FLEET_NEVER_S)
        bytes = bytes / 2 > curve->low_bytes ? bytes / 2 : curve->low_bytes;
    curve->low_bytes = bytes;
    return 0;
}

/* The sizes of the messages that it was fitted to. */
static int
take_range(const struct curve_file *file, struct fleet_curve *out, struct err *err)
{
    int64_t smallest = fitted_low, largest = fitted_high;
    if ((file->smallest && size_parse(file->smallest, &smallest, err)) ||
        (file->largest && size_parse(file->largest, &largest, err)))
        return err_wrap(err, "curve \"%.64s\"", file->name);
    if (smallest < 1 || largest < smallest || largest > INT64_C(1) << 50)
        return err_set(err, ERR_USAGE,
                       "curve \"%.64s\" is for messages of %lld to %lld bytes; smallest "
                       "is at least 1B, largest not below it and at most 2^50 bytes",
                       file->name, (long long)smallest, (long long)largest);
    out->low_bytes = (double)smallest;
    out->high_bytes = (double)largest;
    return 0;
}

static int
take_curve(const struct cluster_file *file, const char *where, const char *curve,
           const double *mbit_per_s, const double *round_trip_ms, struct fleet_curve *out,
           struct err *err)
{
    if (!curve == !mbit_per_s)
        return err_set(err, ERR_USAGE,
                       "%s: give mbit_per_s or the name of a curve, and not both", where);
    double delay_s = round_trip_ms ? *round_trip_ms / 2000 : 0;
    if (!(delay_s >= 0 && delay_s <= 1e5))
        return err_set(err, ERR_USAGE,
                       "%s: round_trip_ms is %g, it must be from 0 to 2e8", where,
                       *round_trip_ms);
    if (mbit_per_s) {
        if (!(*mbit_per_s > 0 && *mbit_per_s <= 1e9))
            return err_set(err, ERR_USAGE,
                           "%s: mbit_per_s is %g, it must be above 0 and at most 1e9",
                           where, *mbit_per_s);
        fleet_curve_plain(out, *mbit_per_s, round_trip_ms ? *round_trip_ms : 0);
        return 0;
    }
    const struct curve_file *given = find_curve(file, curve);
    if (!given) {
        const char *known[HINTED_MAX];
        char hints[ERR_MSG_SIZE];
        uint32_t count =
            file->curves_count < HINTED_MAX ? file->curves_count : HINTED_MAX;
        for (uint32_t i = 0; i < count; i++)
            known[i] = file->curves[i].name;
        return err_set(err, ERR_USAGE, "%s: there is no curve \"%.64s\"%s", where, curve,
                       word_hint(curve, known, count, hints));
    }
    *out = (struct fleet_curve){.c2 = given->quadratic[0],
                                .c1 = given->quadratic[1],
                                .c0 = given->quadratic[2],
                                .delay_s = delay_s};
    return take_range(given, out, err) || check_rate(out, where, curve, err) ? -1 : 0;
}

int
plan_links_inside(const struct cluster_file *file, const struct device_file *device,
                  struct fleet_kind *kind, struct err *err)
{
    char where[128];
    bool given[TP_SLOTS] = {false};
    for (uint32_t i = 0; i < device->inside_count; i++) {
        const struct inside_file *inside = &device->inside[i];
        int slot = inside->devices >= 0 && inside->devices <= 8
                       ? tp_slot((int)inside->devices)
                       : -1;
        snprintf(where, sizeof(where), "device \"%s\": inside entry %u", kind->name,
                 i + 1);
        if (slot < 0)
            return err_set(err, ERR_USAGE, "%s: devices is %lld, it must be 1, 2, 4 or 8",
                           where, (long long)inside->devices);
        if (take_curve(file, where, inside->curve, inside->mbit_per_s, NULL,
                       &kind->inside[slot], err))
            return -1;
        given[slot] = kind->has_inside = true;
    }
    /* A number that is not given is as the next smaller one; before them all, the first. */
    int first = 0;
    while (first < TP_SLOTS && !given[first])
        first++;
    for (int slot = 0; kind->has_inside && slot < TP_SLOTS; slot++)
        if (!given[slot])
            kind->inside[slot] = kind->inside[slot < first ? first : slot - 1];
    return 0;
}

/* One entry, resolved: which endpoints it joins. */
struct span {
    int zone;
    int kind; /* -1: all */
    bool slots[TP_SLOTS];
};

static int
take_degrees(const char *where, const char *key, const int64_t *degrees, uint32_t count,
             struct span *out, struct err *err)
{
    for (int slot = 0; slot < TP_SLOTS; slot++)
        out->slots[slot] = count == 0;
    for (uint32_t i = 0; i < count; i++) {
        int slot = degrees[i] >= 0 && degrees[i] <= 8 ? tp_slot((int)degrees[i]) : -1;
        if (slot < 0)
            return err_set(err, ERR_USAGE, "%s: %s has %lld, it must be 1, 2, 4 or 8",
                           where, key, (long long)degrees[i]);
        out->slots[slot] = true;
    }
    return 0;
}

static int
take_span(const struct fleet *fleet, const char *where, const char *zone,
          const char *device, struct span *out, struct err *err)
{
    char hints[ERR_MSG_SIZE];
    out->zone = plan_cluster_zone(fleet, zone);
    if (out->zone < 0)
        return err_set(err, ERR_USAGE, "%s: there is no zone \"%.64s\"%s", where, zone,
                       plan_cluster_zone_hint(fleet, zone, hints));
    out->kind = device ? plan_cluster_kind(fleet, device) : -1;
    if (device && out->kind < 0)
        return err_set(err, ERR_USAGE, "%s: there is no device \"%.64s\"%s", where,
                       device, plan_cluster_kind_hint(fleet, device, hints));
    return 0;
}

static void
join(struct fleet *fleet, const struct span *from, const struct span *to, int curve)
{
    for (int a = 0; a < fleet->pools_count; a++) {
        const struct fleet_pool *left = &fleet->pools[a];
        if (left->zone != from->zone || (from->kind >= 0 && left->kind != from->kind))
            continue;
        for (int b = 0; b < fleet->pools_count; b++) {
            const struct fleet_pool *right = &fleet->pools[b];
            if (right->zone != to->zone || (to->kind >= 0 && right->kind != to->kind))
                continue;
            for (int s = 0; s < TP_SLOTS; s++)
                for (int t = 0; t < TP_SLOTS; t++)
                    if (from->slots[s] && to->slots[t])
                        *fleet_link(fleet, a, s, b, t) = curve;
        }
    }
}

/* An entry, resolved. */
struct joint {
    struct span from, to;
    bool both_ways;
    int particulars; /* how much it says of the endpoints that it is for */
};

static int
take_link(const struct cluster_file *file, uint32_t index, struct fleet *fleet,
          struct joint *out, struct err *err)
{
    const struct link_file *link = &file->links[index];
    char where[192];
    snprintf(where, sizeof(where), "links entry %u (%.48s to %.48s)", index + 1,
             link->from, link->to);
    out->both_ways = link->both_ways && *link->both_ways;
    out->particulars = (link->from_device != NULL) + (link->to_device != NULL) +
                       (link->from_tp_count > 0) + (link->to_tp_count > 0);
    if (take_span(fleet, where, link->from, link->from_device, &out->from, err) ||
        take_span(fleet, where, link->to, link->to_device, &out->to, err) ||
        take_degrees(where, "from_tp", link->from_tp, link->from_tp_count, &out->from,
                     err) ||
        take_degrees(where, "to_tp", link->to_tp, link->to_tp_count, &out->to, err))
        return -1;
    if (take_curve(file, where, link->curve, link->mbit_per_s, link->round_trip_ms,
                   &fleet->curves[index], err))
        return -1;
    /* A plain rate between zones is a line between two sites; a curve was measured between
     * machines. */
    fleet->curves[index].shared =
        link->shared ? *link->shared : link->mbit_per_s && out->from.zone != out->to.zone;
    return 0;
}

int
plan_links_take(const struct cluster_file *file, struct fleet *fleet, struct err *err)
{
    for (uint32_t i = 0; i < file->curves_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(file->curves[i].name, file->curves[k].name) == 0)
                return err_set(err, ERR_USAGE, "curves has \"%.64s\" twice",
                               file->curves[i].name);
    fleet_pools_done(fleet);
    fleet->curves_count = (int)file->links_count;
    fleet->curves = xcalloc(file->links_count, sizeof(*fleet->curves));
    struct joint *joints = xcalloc(file->links_count, sizeof(*joints));
    int result = 0;
    for (uint32_t i = 0; i < file->links_count && result == 0; i++)
        result = take_link(file, i, fleet, &joints[i], err);
    /* The most particular entries last. */
    for (int particulars = 0; particulars <= 4 && result == 0; particulars++)
        for (uint32_t i = 0; i < file->links_count; i++) {
            const struct joint *joint = &joints[i];
            if (joint->particulars != particulars)
                continue;
            join(fleet, &joint->from, &joint->to, (int)i);
            if (joint->both_ways)
                join(fleet, &joint->to, &joint->from, (int)i);
        }
    free(joints);
    return result;
}
