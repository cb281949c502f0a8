/*
 * zones.h - do the zones that nodes name themselves fit the round trips between them?
 *
 * A zone is a person's word for "fast links among these", so nothing is changed for it;
 * but a plan rests on it, and a word that is plainly wrong is said.
 */
#ifndef NODE_ZONES_H
#define NODE_ZONES_H

#include "gossip/record.h"

enum {
    ZONE_FAR_US = 20000, /* members of one zone are no further apart */
    ZONE_NEAR_US = 1000  /* zones that are nearer than this are one */
};

struct zone_warning {
    char text[240];
};

/* One for each zone and each pair of zones at most; the number of warnings. */
int zones_check(const struct record *const *records, size_t count,
                struct zone_warning *out, int out_max);

#endif
