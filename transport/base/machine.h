/*
 * machine.h - what tells this machine from another one, so that a data folder that was
 * cloned with its disk is noticed.
 */
#ifndef TRANSPORT_BASE_MACHINE_H
#define TRANSPORT_BASE_MACHINE_H

#include "transport/base/buf.h"

/* Appends bytes that stay the same on this machine and differ on others: /etc/machine-id,
 * else the host's name and the addresses of its network cards. Nothing when there is
 * neither. They name the machine: hash them before they are kept or told. */
void machine_marks(struct buf *out);

#endif
