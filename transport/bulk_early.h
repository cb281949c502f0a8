/*
 * bulk_early.h - senders that are in another epoch than we: what they sent too early, and
 * when they were last reported.
 *
 * A part of flow. Chunks of one newer epoch wait per sender, at most a credit window per
 * channel; when the sender goes on to a yet newer epoch, the older ones are dropped.
 */
#ifndef TRANSPORT_BULK_EARLY_H
#define TRANSPORT_BULK_EARLY_H

#include "transport/bulk_flow.h"

struct early;

struct early *early_new(void);
void early_free(struct early *early);

/* Keeps the chunk (and nulls it), or leaves it when there is no room; `*bytes` grows by
 * what is kept less what is dropped for it. */
void early_park(struct early *early, const struct id *from, struct flow_chunk **chunk,
                uint64_t *bytes);

/* A chunk that waited for this epoch from this sender, in order of arrival; NULL when
 * there is none (left). */
struct flow_chunk *early_take(struct early *early, const struct id *from,
                              uint32_t generation, uint64_t epoch, uint64_t *bytes);

/* Drop all that waits for this epoch or an older one. */
void early_drop(struct early *early, uint32_t generation, uint64_t epoch,
                uint64_t *bytes);

/* May this sender be reported (again)? `newer` and stale are counted apart. */
bool early_report(struct early *early, const struct id *from, bool newer, int64_t now_us);

/* Is (generation, epoch) a before b (-1), the same (0), after (1)? */
int early_order(uint32_t generation_a, uint64_t epoch_a, uint32_t generation_b,
                uint64_t epoch_b);

#endif
