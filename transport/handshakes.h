/*
 * handshakes.h - connections that were accepted and have said nothing yet, so that nobody
 * can hold all descriptors of a node without a key. A pure step machine.
 *
 * libzmq ends a handshake after 5 s. Until then at most HANDSHAKES_MAX wait: beyond that
 * the address that holds the most of them, if it holds more than HANDSHAKES_EACH, loses
 * its oldest; else the oldest of all goes. A sound handshake takes a few round trips, so
 * it is never among the oldest of a flood.
 */
#ifndef TRANSPORT_HANDSHAKES_H
#define TRANSPORT_HANDSHAKES_H

#include <stdint.h>

enum {
    HANDSHAKES_MAX = 128,
    HANDSHAKES_EACH = 8,
    HANDSHAKE_MS = 5000,
    HANDSHAKE_HOST_SIZE = 48 /* of an address, IPv6 too */
};

struct handshakes;

struct handshakes *handshakes_new(void);
void handshakes_free(struct handshakes *handshakes);

/* Accepted: the descriptor that has to be closed for it, or -1; `*held`: how many its
 * address holds. */
int handshakes_begin(struct handshakes *handshakes, int64_t now_ms, int fd,
                     const char *host, int *held);
/* It has spoken, or is closed. */
void handshakes_end(struct handshakes *handshakes, int fd);
int handshakes_count(const struct handshakes *handshakes);

#endif
