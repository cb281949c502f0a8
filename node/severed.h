/*
 * severed.h - pairs of members whose data connection breaks in one epoch after another,
 * and who has to do without a part in the run for it.
 *
 * A leader's memory: a step machine without clocks or sockets. A pair that breaks once is
 * mended by a new epoch. One that breaks again in the epoch after has no connection to be
 * had: a firewall, a route. One of the two then rests: never the leader, rather
 * not the submitter, who gathers the checkpoints, else the one that more pairs name, else
 * the larger id. It stays a member and gives what it holds; after
 * REST_MS_MIN it is tried again, and rests twice as long each time that this fails.
 */
#ifndef NODE_SEVERED_H
#define NODE_SEVERED_H

#include "gossip/decree.h"
#include "transport/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { SEVERED_REST_MS_MIN = 30000, SEVERED_REST_MS_MAX = 600000 };

struct severed;

struct severed *severed_new(void);
void severed_free(struct severed *severed);

/* In this epoch the data connection between a and b broke or did not open. `worked`: steps
 * were made in it, so that it was there before. Who rests from now on because of it; NULL:
 * nobody new. Valid until the next call. */
const struct id *severed_broke(struct severed *severed, int64_t now_ms, uint64_t epoch,
                               bool worked, const struct id *leader,
                               const struct id *submitter, const struct id *a,
                               const struct id *b);

bool severed_rests(const struct severed *severed, int64_t now_ms, const struct id *id);

/* For how long it rests, from when it began. */
int64_t severed_rest_ms(const struct severed *severed, const struct id *id);

/* Has a rest ended, so that its node is to be tried again? Once for each. */
bool severed_over(struct severed *severed, int64_t now_ms);

/* A new epoch: pairs of which one is no member are forgotten. */
void severed_epoch(struct severed *severed, const struct decree *decree);

#endif
