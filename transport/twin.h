/*
 * twin.h - does a second process somewhere have our key?
 *
 * A dial of our own key at an address: only who has that key can shake hands there, and
 * its ZAP handler then refuses us, since nobody admits itself (admit_self()). So an answer
 * is proof, and both processes know of each other.
 */
#ifndef TRANSPORT_TWIN_H
#define TRANSPORT_TWIN_H

#include "transport/address.h"
#include "transport/key.h"
#include "transport/loop.h"

#include <stdbool.h>

struct twin;

/* One look, at a control port; `fn` is told once whether our key lives there, and may
 * close it. NULL: no socket. */
struct twin *twin_look(struct loop *loop, const struct key *key,
                       const struct address *base,
                       void (*fn)(void *arg, const struct address *base, bool lives),
                       void *arg, struct err *err);
void twin_close(struct twin *twin);

#endif
