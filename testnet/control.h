/*
 * control.h - asks a node of this machine, over the UNIX socket in its data folder
 * (node/status.h has the protocol).
 */
#ifndef TESTNET_CONTROL_H
#define TESTNET_CONTROL_H

#include "transport/json.h"

/* The status document, or NULL when there is none within `timeout_ms`; free it. Its root
 * is the answer: look under "status". */
struct json *control_status(const char *folder, int timeout_ms);
/* Ask it for something, a line of JSON, without waiting for the answer: the talk, to be
 * closed, since a request ends with it. -1: nobody is there. */
int control_tell(const char *folder, const char *request);

#endif
