/*
 * relay.h - the network between the zones, in user space: TCP connections that pass
 * through here get a directed link's rate and delay.
 *
 *     node of zone a --dial--> [ port for (node of b, from zone a) ] --> node of zone b
 *                                 bytes a -> b: bucket and delay of link a -> b
 *                                 bytes b -> a: bucket and delay of link b -> a
 *
 * All connections of a directed pair of zones share its rate. Queues are bounded: a
 * receiver that does not read stops the sender, as on a real path. A half-close passes
 * on behind the bytes, a broken connection at once; when the target refuses, so does the
 * relay. One thread. TCP ends here, so its congestion control is not tested by it.
 */
#ifndef TESTNET_RELAY_H
#define TESTNET_RELAY_H

#include "transport/address.h"
#include "transport/base/err.h"

#include <stdbool.h>

struct relay;

/* A directed link; a rate of 0 is no limit. */
struct relay_link {
    double mbit_per_s, delay_ms;
};

/* `links` is zones x zones, [from * zones + to]. */
struct relay *relay_start(int zones, const struct relay_link *links, struct err *err);
void relay_stop(struct relay *relay); /* closes everything; NULL is nothing */

/* A node at `base` (three ports) of zone `zone`, to be dialled from zone `from`: `via` is
 * the base address to dial instead. */
int relay_open(struct relay *relay, const struct address *base, int zone, int from,
               struct address *via, struct err *err);

/* Each takes effect before it returns. Cut: connections across the zone's border are
 * closed, new ones refused; stall: they stay open, and nothing passes. */
void relay_cut(struct relay *relay, int zone, bool on);
void relay_stall(struct relay *relay, int zone, bool on);

#endif
