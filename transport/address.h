/*
 * address.h - "host:port" texts, and the routes that a machine needs to reach them.
 *
 * A node's base port is the join socket; control is base + 1, bulk base + 2. A route
 * says: to reach that base address, dial this one instead (a port forward, a relay),
 * again with base, + 1 and + 2.
 */
#ifndef TRANSPORT_ADDRESS_H
#define TRANSPORT_ADDRESS_H

#include "transport/base/err.h"
#include "transport/base/limits.h"

#include <stdint.h>

enum {
    ADDRESS_JOIN = 0,
    ADDRESS_CONTROL = 1,
    ADDRESS_BULK = 2,
    ADDRESS_DEFAULT_PORT = 7700
};

struct address {
    char host[ADDRESS_BYTES_MAX];
    uint16_t port;
};

/* "host:port", "[v6]:port", or "host" (default port). Host characters are checked;
 * nothing is resolved. ERR_USAGE. */
int address_parse(const char *text, struct address *out, struct err *err);
void address_text(const struct address *address, char out[ADDRESS_BYTES_MAX + 8]);

/* "tcp://host:port" of one of the three sockets. */
void address_endpoint(const struct address *base, int which,
                      char out[ADDRESS_BYTES_MAX + 16]);

struct address_route {
    struct address to;
    struct address via;
};

struct address_routes {
    int count;
    struct address_route *list; /* owned by whoever made it */
};

/* Where to dial for `to`: its route's `via`, or `to` itself. */
const struct address *address_route(const struct address_routes *routes,
                                    const struct address *to);

#endif
