/*
 * link.h - what a directed link to a peer can carry: estimates from real transfers first,
 * short capped probes second.
 */
#ifndef GOSSIP_LINK_H
#define GOSSIP_LINK_H

#include "gossip/record.h"

struct links;

struct links *links_new(void);
void links_free(struct links *links);

/* A transfer of `bytes` took `us`; fewer than 4 KiB tell nothing. `limited`: the sender,
 * not the link, set the pace: counts only upwards. */
void links_sample(struct links *links, int64_t now_ms, const struct id *peer,
                  int64_t bytes, int64_t us, bool limited);
void links_round_trip(struct links *links, int64_t now_ms, const struct id *peer,
                      int64_t us);
void links_forget(struct links *links, const struct id *peer);

/* The peer whose link most needs a probe now, or NULL: never measured, or not for 10
 * minutes, among `peers`, the earliest in the list among equals; at most one probe every
 * 0.4 s and a hundredth of our fastest link's rate averaged over an hour (16 to 80 MiB).
 * The caller sends `*bytes` (1 to 8 MiB), says so with links_probe_sent() and reports the
 * sample. */
const struct id *links_probe_due(struct links *links, int64_t now_ms,
                                 const struct id *peers, size_t count, int64_t *bytes);
void links_probe_sent(struct links *links, int64_t now_ms, const struct id *peer,
                      int64_t bytes);

/* Estimates for a record, ascending peer; at most RECORD_LINKS_MAX, the freshest.
 * Confidence halves every 30 minutes. */
uint32_t links_fill(struct links *links, int64_t now_ms, struct record_link *out);

/* An estimate moved by more than a quarter, or appeared, since the last links_fill(); a
 * round trip, by more than a quarter and a millisecond. */
bool links_changed(const struct links *links);

#endif
