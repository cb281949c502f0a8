#include "node/zones.h"

#include <stdio.h>
#include <string.h>

enum { WARNED_MAX = 64 };

struct pair {
    const char *left, *right; /* zones, in order */
};

static const struct record *
find(const struct record *const *records, size_t count, const struct id *id)
{
    for (size_t i = 0; i < count; i++)
        if (id_equal(&records[i]->id, id))
            return records[i];
    return NULL;
}

static bool
known(const struct pair *pairs, int count, const char *left, const char *right)
{
    for (int i = 0; i < count; i++)
        if (strcmp(pairs[i].left, left) == 0 && strcmp(pairs[i].right, right) == 0)
            return true;
    return false;
}

int
zones_check(const struct record *const *records, size_t count, struct zone_warning *out,
            int out_max)
{
    struct pair pairs[WARNED_MAX];
    int found = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < records[i]->links_count; k++) {
            const struct record_link *link = &records[i]->links[k];
            const struct record *peer = find(records, count, &link->peer);
            if (!peer || link->round_trip_us == 0 || found == out_max ||
                found == WARNED_MAX)
                continue;
            const char *here = records[i]->zone, *there = peer->zone;
            bool same = strcmp(here, there) == 0, swap = strcmp(here, there) > 0;
            if (same ? link->round_trip_us <= ZONE_FAR_US
                     : link->round_trip_us >= ZONE_NEAR_US)
                continue;
            const char *left = swap ? there : here, *right = swap ? here : there;
            if (known(pairs, found, left, right))
                continue;
            pairs[found] = (struct pair){left, right};
            double ms = link->round_trip_us / 1e3;
            if (same)
                snprintf(out[found++].text, sizeof(out[0].text),
                         "zone %s: %s and %s are %.1f ms apart, members of a zone should "
                         "be within %d ms; give one of them another --zone",
                         here, records[i]->name, peer->name, ms, ZONE_FAR_US / 1000);
            else
                snprintf(out[found++].text, sizeof(out[0].text),
                         "zones %s and %s: %s and %s are %.2f ms apart; if their links "
                         "are as fast as those within a zone, give them one --zone",
                         left, right, records[i]->name, peer->name, ms);
        }
    return found;
}
