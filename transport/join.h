/*
 * join.h - the first words between a joiner and a seed, on the join socket.
 *
 * The server's CURVE key follows from the swarm's secret; the client's does, too, or it is
 * an open invite's. So whoever completes the handshake has the one or the other. One
 * request, one answer, JOIN_BYTES_MAX each way from a joiner, at most FRAME_BYTES_MAX
 * back, sixteen requests at once and twenty a second after that (more wait for their turn);
 * a request that is not decodable closes nothing and is counted.
 */
#ifndef TRANSPORT_JOIN_H
#define TRANSPORT_JOIN_H

#include "transport/address.h"
#include "transport/admit.h"
#include "transport/base/buf.h"

struct join_server;

enum { JOIN_WAITING_MAX = 64 };

/* Who asks. */
struct join_caller {
    struct id invite; /* whose key it came with; empty: the secret's */
    uint64_t ticket;  /* for join_server_answer() */
};

/* Answer a request: append to `answer`, or leave it empty: to say nothing (false), or to
 * answer later (true). */
typedef bool (*join_request_fn)(void *arg, const struct join_caller *caller,
                                const void *body, size_t len, struct buf *answer);

/* ERR_SYSTEM names a port in use and what to do. */
struct join_server *join_listen(struct loop *loop, const struct secret *secret,
                                const struct address *listen, join_request_fn fn,
                                void *arg, struct err *err);
void join_server_close(struct join_server *server);

/* The answer to a request that waits. A caller that is gone, or was followed by
 * JOIN_WAITING_MAX others, gets none. */
void join_server_answer(struct join_server *server, uint64_t ticket, const void *answer,
                        size_t len);

/* Requests that were too long or got no answer. */
uint64_t join_server_refused(const struct join_server *server);

enum join_result {
    JOIN_ANSWERED, /* body is the answer */
    JOIN_NOBODY,   /* nobody listens there, or it does not resolve; retried */
    JOIN_HUNG_UP,  /* three hang-ups during the handshake: the secret is the likely cause;
                      retried */
    JOIN_DENIED,   /* the seed has our server key right and does not know ours: the invite
                      is used up, over or revoked, or not known there yet; retried */
    JOIN_SILENT    /* connected, no answer in 5 s; retried */
};
typedef void (*join_result_fn)(void *arg, enum join_result result, const void *body,
                               size_t len);

/* A client's CURVE keys, 32 bytes each, borrowed. */
struct join_keys {
    const uint8_t *client_public, *client_secret, *server_public;
};

struct join_client;

/* Sends the request when the handshake is done; repeats until answered or closed. Each
 * change of result is reported once. The handler may close the client. */
struct join_client *join_dial(struct loop *loop, const struct join_keys *keys,
                              const struct address *seed, const void *request, size_t len,
                              join_result_fn fn, void *arg, struct err *err);
void join_client_close(struct join_client *client);

#endif
