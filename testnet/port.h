/*
 * port.h - ports of this machine's loopback that nobody uses.
 */
#ifndef TESTNET_PORT_H
#define TESTNET_PORT_H

#include "transport/base/err.h"

#include <stdint.h>

enum { PORT_TRIPLE = 3 };

/* Bind three neighbouring ports of 127.0.0.1; `*base` is the first. The descriptors are
 * the caller's: listen on them, or close them and let a child bind the ports. Ports are
 * taken below the range from which the kernel takes those of outgoing connections. */
int port_triple(int fds[PORT_TRIPLE], uint16_t *base, struct err *err);

#endif
