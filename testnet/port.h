/*
 * port.h - ports of this machine's loopback that nobody uses.
 */
#ifndef TESTNET_PORT_H
#define TESTNET_PORT_H

#include "transport/address.h"

#include <stdint.h>

enum { PORT_TRIPLE = 3 };

/* The address of this process's ports, in network order: one of 127.0.0.0/8, so that two
 * testnets on one machine do not take each other's between our finding a port and a
 * node's binding it. */
uint32_t port_host(void);

/* Bind three neighbouring ports there; `*base` is the first. The descriptors are the
 * caller's: listen on them, or close them and let a child bind the ports. Ports are taken
 * below the range from which the kernel takes those of outgoing connections. */
int port_triple(int fds[PORT_TRIPLE], struct address *base, struct err *err);

#endif
