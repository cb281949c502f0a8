/*
 * last_mile.h - what a link that nobody measured should carry: no more than its sender
 * sends elsewhere, its receiver takes from elsewhere, or anybody gets between the two
 * zones (Beaumont, Eyraud-Dubois, Won: Using the last-mile model as a distributed scheme
 * for available bandwidth prediction, Euro-Par 2011). Of each the 80th percentile of what
 * was measured, since the most of many drifts upwards.
 */
#ifndef GOSSIP_LAST_MILE_H
#define GOSSIP_LAST_MILE_H

#include "gossip/record.h"

struct last_mile;

/* From the records of all nodes that are here; they are borrowed until it is freed. */
struct last_mile *last_mile_new(const struct record *const *records, size_t count);
void last_mile_free(struct last_mile *model);

/* Code of the rate from records[from] to records[to]; 0: nothing is known of either. */
uint16_t last_mile_rate(const struct last_mile *model, size_t from, size_t to);

#endif
