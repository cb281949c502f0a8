#include "node/plan/live.h"
#include "node/plan/measured.h"
#include "planner/link_fit.h"
#include "planner/muster.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Members that are one type. */
struct kind {
    int slowest; /* the member whose times stand for all */
    int64_t memory_bytes;
    char name[NAME_BYTES_MAX + 1];
};

/* Whoever measured the job's layers is of the type that the leader's planner has it in. */
static int
sort_measured(const struct view *view, struct kind *kinds, int *kind_of)
{
    const struct cluster *cluster = &view->cluster;
    bool any = false;
    for (int i = 0; i < cluster->nodes_count; i++) {
        kind_of[i] = -1;
        any = any || cluster->nodes[i].profile.count > 0;
    }
    if (view->state == JOB_NONE || !any)
        return 0;
    struct plan_request request;
    struct muster muster;
    job_request(&view->job, &request);
    muster_init(&muster, &request, cluster);
    int count = muster.fleet->kinds_count;
    for (int k = 0; k < count; k++)
        kinds[k] = (struct kind){.slowest = muster.slowest[k],
                                 .memory_bytes = muster.fleet->kinds[k].memory_bytes};
    for (int i = 0; i < cluster->nodes_count; i++)
        if (muster.pool_of[i] >= 0)
            kind_of[i] = muster.fleet->pools[muster.pool_of[i]].kind;
    muster_release(&muster);
    return count;
}

/* The others by what they name and have; when there are too many types the last is for all
 * that are left. */
static int
sort_others(const struct view *view, struct kind *kinds, int measured, int *kind_of)
{
    int count = measured;
    for (int i = 0; i < view->cluster.nodes_count; i++) {
        int64_t memory_bytes = view->cluster.nodes[i].memory_bytes;
        if (kind_of[i] >= 0)
            continue;
        int k = measured;
        while (k < count && (kinds[k].memory_bytes != memory_bytes ||
                             strcmp(view->reports[kinds[k].slowest].record.device,
                                    view->reports[i].record.device) != 0))
            k++;
        if (k == PLAN_LIVE_KINDS_MAX)
            k--;
        else if (k == count)
            kinds[count++] = (struct kind){.slowest = i, .memory_bytes = memory_bytes};
        if (memory_bytes < kinds[k].memory_bytes)
            kinds[k].memory_bytes = memory_bytes;
        kind_of[i] = k;
    }
    return count;
}

/* A member's device as a name: what a name may not hold is a dash. */
static void
name_kind(const struct view *view, struct kind *kind, int number)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *device = view->reports[kind->slowest].record.device;
    size_t len = 0;
    for (; device[len] && len < NAME_BYTES_MAX - 8; len++) {
        char c = strchr(allowed, device[len]) ? device[len] : '-';
        kind->name[len] = len == 0 && c == '.' ? '-' : c;
    }
    snprintf(kind->name + len, sizeof(kind->name) - len, "%s%d",
             len > 0 ? "-" : "device-", number + 1);
}

/* As few digits as bring the same number back. */
static void
put_number(struct buf *out, const char *before, double value)
{
    char text[32];
    for (int digits = 9; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_printf(out, "%s%s", before, text);
}

static void
write_kinds(const struct view *view, struct kind *kinds, int count, const char *prefix,
            struct plan_live *out)
{
    buf_printf(&out->cluster, "devices:\n");
    for (int k = 0; k < count; k++) {
        const struct cluster_node *node = &view->cluster.nodes[kinds[k].slowest];
        name_kind(view, &kinds[k], k);
        buf_printf(&out->cluster, "  - {name: %s, memory: %lldB", kinds[k].name,
                   (long long)kinds[k].memory_bytes);
        if (node->profile.count > 0) {
            double correction = node->profile.correction_ppm > 0
                                    ? (double)node->profile.correction_ppm / 1e6
                                    : 1;
            struct profile_file profile;
            int n = out->profiles_count++;
            snprintf(out->files[n], sizeof(out->files[n]), "%s.%s.json", prefix,
                     kinds[k].name);
            plan_measured_profile(&view->job.shape, &node->profile, kinds[k].name,
                                  &profile);
            profile_file_write(&profile, &out->profiles[n]);
            buf_add(&out->profiles[n], "\n", 1);
            profile_file_release(&profile);
            put_number(&out->cluster, ", correction: ", correction);
            buf_printf(&out->cluster, ", profiles: [%s]", out->files[n]);
        }
        buf_printf(&out->cluster, "}\n");
    }
}

/* A member's name, with its number where others have the same. */
static void
write_nodes(const struct view *view, const struct kind *kinds, const int *kind_of,
            struct buf *out)
{
    buf_printf(out, "nodes:\n");
    for (int i = 0; i < view->cluster.nodes_count; i++) {
        const char *name = view->reports[i].record.name;
        int same = 0;
        for (int k = 0; k < i; k++)
            same += strcmp(view->reports[k].record.name, name) == 0;
        buf_printf(out, "  - {name: %.*s", NAME_BYTES_MAX - 6, name);
        if (same > 0)
            buf_printf(out, "-%d", same + 1);
        buf_printf(out, ", device: %s, zone: %s, count: 1}\n", kinds[kind_of[i]].name,
                   view->cluster.zones[view->cluster.nodes[i].zone]);
    }
}

static bool
is_plain(const struct fleet_curve *curve)
{
    return curve->c2 == 0 && curve->c1 == 0;
}

/* The links that the leader plans with (planner/muster.h): a curve where members measured
 * one. */
static void
write_curves(const struct cluster *cluster, const struct fleet_curve *curves,
             struct buf *out)
{
    int zones = cluster->zones_count;
    bool any = false;
    for (int i = 0; i < zones * zones; i++) {
        if (is_plain(&curves[i]))
            continue;
        buf_printf(out, "%s  - {name: %s>%s, quadratic: [", any ? "" : "curves:\n",
                   cluster->zones[i / zones], cluster->zones[i % zones]);
        put_number(out, "", curves[i].c2);
        put_number(out, ", ", curves[i].c1);
        put_number(out, ", ", curves[i].c0);
        buf_printf(out, "], smallest: %.0fB, largest: %.0fB}\n", curves[i].low_bytes,
                   curves[i].high_bytes);
        any = true;
    }
}

static void
write_links(const struct cluster *cluster, struct buf *out)
{
    int zones = cluster->zones_count;
    struct fleet_curve *curves = xcalloc((size_t)(zones * zones), sizeof(*curves));
    for (int i = 0; i < zones * zones; i++)
        link_fit(&cluster->links[i], &curves[i]);
    write_curves(cluster, curves, out);
    bool any = false;
    for (int i = 0; i < zones * zones; i++) {
        const struct cluster_link *link = &cluster->links[i];
        const char *from = cluster->zones[i / zones], *to = cluster->zones[i % zones];
        double mbit = (double)link->bytes_per_s * 8 / 1e6;
        if (link->bytes_per_s < 1)
            continue;
        buf_printf(out, "%s  - {from: %s, to: %s, ", any ? "" : "links:\n", from, to);
        if (is_plain(&curves[i]))
            put_number(out, "mbit_per_s: ", mbit < 1e9 ? mbit : 1e9);
        else
            buf_printf(out, "curve: %s>%s", from, to);
        put_number(out, ", round_trip_ms: ",
                   link->round_trip_us > 0 ? (double)link->round_trip_us / 1e3 : 0);
        buf_printf(out, ", shared: %s}\n", i / zones == i % zones ? "false" : "true");
        any = true;
    }
    free(curves);
}

void
plan_live_make(const struct view *view, const char *prefix, struct plan_live *out)
{
    const struct cluster *cluster = &view->cluster;
    struct kind kinds[PLAN_LIVE_KINDS_MAX];
    int *kind_of = xcalloc((size_t)cluster->nodes_count, sizeof(*kind_of));
    memset(out, 0, sizeof(*out));
    memset(kinds, 0, sizeof(kinds));
    int count = sort_others(view, kinds, sort_measured(view, kinds, kind_of), kind_of);
    buf_printf(&out->cluster, "# %s, as its members reported it\ncost_model: replay\n",
               cluster->nodes_count == 1 ? "a swarm of one node" : "a running swarm");
    buf_printf(&out->cluster, "zones:\n");
    for (int z = 0; z < cluster->zones_count; z++)
        buf_printf(&out->cluster, "  - {name: %s}\n", cluster->zones[z]);
    write_kinds(view, kinds, count, prefix, out);
    write_nodes(view, kinds, kind_of, &out->cluster);
    write_links(cluster, &out->cluster);
    free(kind_of);
}

void
plan_live_release(struct plan_live *live)
{
    buf_release(&live->cluster);
    for (int i = 0; i < live->profiles_count; i++)
        buf_release(&live->profiles[i]);
    live->profiles_count = 0;
}
