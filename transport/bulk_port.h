/*
 * bulk_port.h - the two ends of a port: operations go in, completions come out.
 *
 *     user's thread  --commands-->  bulk thread
 *                    <--done------
 *
 * bulk.h has what the user's thread calls; here is what the bulk thread calls.
 */
#ifndef TRANSPORT_BULK_PORT_H
#define TRANSPORT_BULK_PORT_H

#include "transport/bulk_flow.h"

#include <stdatomic.h>

/* In place of an epoch: none, all operations are stopped. */
#define PORT_EPOCH_NONE UINT64_MAX

/* `current` is the epoch in force, written by the control thread; borrowed. */
struct bulk_port *port_new(enum bulk_port_kind kind, const _Atomic uint64_t *current);
void port_free(struct bulk_port *port);

/* Readable when an operation may have been started; cleared by port_clear() before
 * port_take(). */
int port_fd(const struct bulk_port *port);
void port_clear(struct bulk_port *port);
bool port_take(struct bulk_port *port, struct flow_op *op);

/* From here on the operation's memory is its user's again. */
void port_done(struct bulk_port *port, const struct flow_done *done);

#endif
