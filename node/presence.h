/*
 * presence.h - who is here, as a leader sees it, and whether those who are here can
 * decide.
 *
 * A proposal that most voters have no part in must not leave a leader that is deaf: they
 * would take it over, and be out of their own swarm. Nor one whose own voters have gone
 * since they reported: those who are left would wait for them for ever. Both are looked at
 * again at the last moment (docs/protocol.md, section 8).
 */
#ifndef NODE_PRESENCE_H
#define NODE_PRESENCE_H

#include "node/node.h"

bool lead_leaving(const struct node *node, const struct id *id);
/* Watched and silent, refused, dead, or left out for a while. */
bool lead_gone(const struct node *node, const struct id *id, int64_t now);

/* Are those who are chosen for the next epoch (`reported`: those of them who reported and are
 * connected), with the voters who leave but are here, a quorum of the present voters? */
bool lead_chosen_decide(const struct node *node, int64_t now, bool reported);

/* Are enough of the next epoch's voters connected to decide on the one after it? */
bool lead_next_decide(const struct node *node, int64_t now, const struct id *voters,
                      uint32_t count);

#endif
