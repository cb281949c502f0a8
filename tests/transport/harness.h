/*
 * harness.h - what the tests of sockets share: free ports, keys, a loop that runs until
 * something is so, raw TCP.
 */
#ifndef TESTS_TRANSPORT_HARNESS_H
#define TESTS_TRANSPORT_HARNESS_H

#include "transport/address.h"
#include "transport/key.h"
#include "transport/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts the libraries and makes a loop; the other ends them. Every socket must be closed
 * in between. */
struct loop *harness_open(void);
void harness_close(struct loop *loop);

/* 127.0.0.1 and a base port whose three ports are free. */
struct address harness_address(void);

struct key *harness_key(unsigned number);

/* Run the loop until it is so (true) or the time is over (false). */
bool harness_until(struct loop *loop, bool (*so)(const void *arg), const void *arg,
                   int64_t ms);
void harness_run(struct loop *loop, int64_t ms);

/* A connected TCP socket to one of the address's three ports. */
int harness_tcp(const struct address *base, int which);

/* A TCP socket that listens there and never accepts: a program that hangs. */
int harness_hung(const struct address *base, int which);

/* What this process writes to its standard error from here on, until harness_said(),
 * which puts it into `out`. */
void harness_listen(void);
void harness_said(char *out, size_t size);

#endif
