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
/* Tell it something, a line of JSON, and do not wait for the answer. False: nobody is
 * there. */
bool control_tell(const char *folder, const char *request);

#endif
