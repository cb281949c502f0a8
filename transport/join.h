/*
 * join.h - the first words between a joiner and a seed, on the join socket.
 *
 * Both keys of the CURVE handshake follow from the swarm's secret, so whoever completes
 * it has the secret. One request, one answer, JOIN_BYTES_MAX each way from a joiner, at
 * most FRAME_BYTES_MAX back, at most 5 requests a second (more wait for their turn); a
 * request that is not decodable closes nothing and is counted.
 */
#ifndef TRANSPORT_JOIN_H
#define TRANSPORT_JOIN_H

#include "transport/address.h"
#include "transport/admit.h"
#include "transport/base/buf.h"

struct join_server;

/* Answer a request: append to `answer`, or leave it empty to say nothing. */
typedef void (*join_request_fn)(void *arg, const void *body, size_t len,
                                struct buf *answer);

/* ERR_SYSTEM names a port in use and what to do. */
struct join_server *join_listen(struct loop *loop, const struct secret *secret,
                                const struct address *listen, join_request_fn fn,
                                void *arg, struct err *err);
void join_server_close(struct join_server *server);

/* Requests that were too long or got no answer. */
uint64_t join_server_refused(const struct join_server *server);

enum join_result {
    JOIN_ANSWERED, /* body is the answer */
    JOIN_NOBODY,   /* nobody listens there, or it does not resolve; retried */
    JOIN_HUNG_UP,  /* three hang-ups during the handshake: the secret is the likely cause;
                      retried */
    JOIN_SILENT    /* connected, no answer in 5 s; retried */
};
typedef void (*join_result_fn)(void *arg, enum join_result result, const void *body,
                               size_t len);

struct join_client;

/* Sends the request when the handshake is done; repeats until answered or closed. Each
 * change of result is reported once. The handler may close the client. */
struct join_client *join_dial(struct loop *loop, const struct secret *secret,
                              const struct address *seed, const void *request, size_t len,
                              join_result_fn fn, void *arg, struct err *err);
void join_client_close(struct join_client *client);

#endif
