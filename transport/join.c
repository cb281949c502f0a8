#include "transport/join.h"
#include "transport/base/alloc.h"
#include "transport/base/limits.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/socket.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    BURST = 16,       /* requests that are answered without a pause */
    REQUEST_MS = 50,  /* after which there may be one more */
    ANSWER_MS = 5000, /* twice as much after each that did not come: of many joiners, each
                         of whom gives up before its turn, none would ever be answered */
    ANSWER_MS_MAX = 60000,
    HANG_UPS = 3, /* in a row, before the secret is suspected */
    RETRY_MS = 200,
    RETRY_MS_MAX = 1600
};

/* One message of at most `parts_max` parts, the last one kept; false when there is none.
 * `*parts` tells how many came. */
static bool
receive(void *socket, zmq_msg_t *first, zmq_msg_t *second, int *parts)
{
    if (zmq_msg_recv(first, socket, ZMQ_DONTWAIT) < 0)
        return false;
    zmq_msg_t *last = first;
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    for (*parts = 1; zmq_msg_more(last); ++*parts) {
        last = *parts == 1 ? second : &surplus;
        if (zmq_msg_recv(last, socket, ZMQ_DONTWAIT) < 0)
            break;
    }
    zmq_msg_close(&surplus);
    return true;
}

/* ---- the seed's side ---- */

/* A request that was taken: where its answer goes. */
struct waiting {
    uint64_t ticket;
    size_t len;
    uint8_t route[255];
};

struct join_server {
    struct loop *loop;
    struct listener *listener;
    join_request_fn fn;
    void *arg;
    int allowance;
    int64_t counted_at_ms;
    int timer; /* running while requests have to wait */
    uint64_t refused;
    struct buf answer;
    uint64_t tickets;
    struct waiting waiting[JOIN_WAITING_MAX]; /* by ticket */
};

static void
answer_to(struct join_server *server, const struct waiting *waiting, const void *answer,
          size_t len)
{
    void *socket = listener_socket(server->listener);
    loop_socket_used(server->loop, socket);
    if (zmq_send(socket, waiting->route, waiting->len, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(socket, answer, len, ZMQ_DONTWAIT);
}

static void
answer(struct join_server *server, zmq_msg_t *route, zmq_msg_t *body, int parts)
{
    size_t len = zmq_msg_size(body), route_len = zmq_msg_size(route);
    struct join_caller caller = {.ticket = ++server->tickets};
    struct waiting *waiting = &server->waiting[caller.ticket % JOIN_WAITING_MAX];
    bool later = false;
    buf_clear(&server->answer);
    if (parts == 2 && len <= JOIN_BYTES_MAX && route_len <= sizeof(waiting->route)) {
        const char *user = zmq_msg_gets(body, "User-Id");
        if (user)
            id_parse(&caller.invite, user);
        waiting->ticket = caller.ticket;
        waiting->len = route_len;
        memcpy(waiting->route, zmq_msg_data(route), route_len);
        later =
            server->fn(server->arg, &caller, zmq_msg_data(body), len, &server->answer);
    }
    if (server->answer.len > 0 && server->answer.len <= FRAME_BYTES_MAX) {
        answer_to(server, waiting, server->answer.data, server->answer.len);
    } else if (!later) {
        server->refused++;
        log_limited(LOG_WARN, "transport", "request to join not answered bytes=%zu", len);
    }
    if (server->answer.len > 0) /* it may have held a secret */
        key_wipe(server->answer.data, server->answer.len);
}

static void serve(void *arg);

static void
serve_again(void *arg)
{
    struct join_server *server = arg;
    loop_timer_cancel(server->loop, server->timer);
    server->timer = 0;
    loop_socket(server->loop, listener_socket(server->listener), serve, server);
}

static void
serve(void *arg)
{
    struct join_server *server = arg;
    void *socket = listener_socket(server->listener);
    int64_t earned = (loop_now_ms(server->loop) - server->counted_at_ms) / REQUEST_MS;
    server->counted_at_ms += earned * REQUEST_MS;
    server->allowance =
        earned >= BURST - server->allowance ? BURST : server->allowance + (int)earned;
    static const struct id nobody; /* all joiners have one key */
    bool some = true;
    while (some && server->allowance > 0) {
        zmq_msg_t route;
        zmq_msg_t body;
        zmq_msg_init(&route);
        zmq_msg_init(&body);
        int parts;
        some = receive(socket, &route, &body, &parts);
        if (some) {
            server->allowance--;
            listener_heard(server->listener, &route, &nobody);
            answer(server, &route, &body, parts);
        }
        zmq_msg_close(&route);
        zmq_msg_close(&body);
    }
    if (server->allowance == 0) {
        loop_socket_cancel(server->loop, socket);
        server->timer = loop_timer(server->loop, REQUEST_MS, serve_again, server);
    }
}

static void
say_stranger(void *arg, const char *from)
{
    (void)arg;
    log_limited(LOG_WARN, "transport",
                "somebody with another secret tried to join address=%s", from);
}

struct join_server *
join_listen(struct loop *loop, const struct secret *secret, const struct address *listen,
            join_request_fn fn, void *arg, struct err *err)
{
    must(fn);
    struct listener *listener = listener_open(
        loop, SOCKET_JOIN, secret_join_secret(secret), listen, say_stranger, NULL, err);
    if (!listener)
        return NULL;
    struct join_server *server = xcalloc(1, sizeof(*server));
    server->loop = loop;
    server->listener = listener;
    server->fn = fn;
    server->arg = arg;
    server->allowance = BURST;
    server->counted_at_ms = loop_now_ms(loop);
    loop_socket(loop, listener_socket(listener), serve, server);
    return server;
}

void
join_server_close(struct join_server *server)
{
    if (!server)
        return;
    if (server->timer)
        loop_timer_cancel(server->loop, server->timer);
    loop_socket_cancel(server->loop, listener_socket(server->listener));
    listener_close(server->listener);
    buf_release(&server->answer);
    free(server);
}

void
join_server_answer(struct join_server *server, uint64_t ticket, const void *answer,
                   size_t len)
{
    const struct waiting *waiting = &server->waiting[ticket % JOIN_WAITING_MAX];
    if (ticket > 0 && waiting->ticket == ticket && len <= FRAME_BYTES_MAX)
        answer_to(server, waiting, answer, len);
}

uint64_t
join_server_refused(const struct join_server *server)
{
    return server->refused;
}

/* ---- the joiner's side ---- */

struct join_client {
    struct loop *loop;
    uint8_t client_public[KEY_CURVE_BYTES], server_public[KEY_CURVE_BYTES];
    const uint8_t *client_secret; /* borrowed: it stays in its locked place */
    struct address seed;
    void *request;
    size_t len;
    join_result_fn fn;
    void *arg;
    struct dial *dial;
    bool listening; /* for the answer, on the dial's socket */
    int timer;      /* of the next attempt, or of the answer; 0: none */
    int64_t retry_ms, answer_ms;
    int hang_ups;
    bool reported;
    enum join_result result;
};

/* The handler may close the client: nothing is touched afterwards. */
static void
report(struct join_client *client, enum join_result result)
{
    if (client->reported && client->result == result)
        return;
    client->reported = true;
    client->result = result;
    client->fn(client->arg, result, NULL, 0);
}

static void
hang_up(struct join_client *client)
{
    if (client->timer)
        loop_timer_cancel(client->loop, client->timer);
    client->timer = 0;
    if (client->listening)
        loop_socket_cancel(client->loop, dial_socket(client->dial));
    client->listening = false;
    dial_close(client->dial);
    client->dial = NULL;
}

static void attempt(void *arg);

static void
attempt_later(struct join_client *client)
{
    hang_up(client);
    client->timer = loop_timer(client->loop, client->retry_ms, attempt, client);
    client->retry_ms *= 2;
    if (client->retry_ms > RETRY_MS_MAX)
        client->retry_ms = RETRY_MS_MAX;
}

static void
no_answer(void *arg)
{
    struct join_client *client = arg;
    client->answer_ms =
        2 * client->answer_ms < ANSWER_MS_MAX ? 2 * client->answer_ms : ANSWER_MS_MAX;
    attempt_later(client);
    report(client, JOIN_SILENT);
}

static void
take_answer(void *arg)
{
    struct join_client *client = arg;
    zmq_msg_t body;
    zmq_msg_t surplus;
    zmq_msg_init(&body);
    zmq_msg_init(&surplus);
    int parts;
    if (receive(dial_socket(client->dial), &body, &surplus, &parts) && parts == 1) {
        hang_up(client);
        client->fn(client->arg, JOIN_ANSWERED, zmq_msg_data(&body), zmq_msg_size(&body));
    }
    zmq_msg_close(&body);
    zmq_msg_close(&surplus);
}

static void
dialled(void *arg, enum dial_event event)
{
    struct join_client *client = arg;
    switch (event) {
    case DIAL_UP:
        client->hang_ups = 0;
        if (!dial_send(client->dial, client->request, client->len)) {
            attempt_later(client);
            return;
        }
        loop_socket(client->loop, dial_socket(client->dial), take_answer, client);
        client->listening = true;
        client->timer = loop_timer(client->loop, client->answer_ms, no_answer, client);
        return;
    case DIAL_DOWN:
        no_answer(client);
        return;
    case DIAL_NOBODY:
        client->hang_ups = 0;
        attempt_later(client);
        report(client, JOIN_NOBODY);
        return;
    case DIAL_DENIED:
        client->hang_ups = 0;
        attempt_later(client);
        report(client, JOIN_DENIED);
        return;
    case DIAL_HUNG_UP:
        attempt_later(client);
        if (++client->hang_ups >= HANG_UPS)
            report(client, JOIN_HUNG_UP);
        return;
    }
}

static int
dial(struct join_client *client, struct err *err)
{
    struct dial_options options = {
        .plane = SOCKET_JOIN,
        .base = client->seed,
        .curve_public = client->client_public,
        .curve_secret = client->client_secret,
        .server_public = client->server_public,
    };
    client->dial = dial_open(client->loop, &options, dialled, client, err);
    return client->dial ? 0 : -1;
}

static void
attempt(void *arg)
{
    struct join_client *client = arg;
    struct err err;
    hang_up(client);
    if (dial(client, &err) != 0) {
        log_limited(LOG_WARN, "transport", "%s", err.msg);
        attempt_later(client);
    }
}

struct join_client *
join_dial(struct loop *loop, const struct join_keys *keys, const struct address *seed,
          const void *request, size_t len, join_result_fn fn, void *arg, struct err *err)
{
    must(fn && len <= JOIN_BYTES_MAX);
    struct join_client *client = xcalloc(1, sizeof(*client));
    client->loop = loop;
    memcpy(client->client_public, keys->client_public, KEY_CURVE_BYTES);
    memcpy(client->server_public, keys->server_public, KEY_CURVE_BYTES);
    client->client_secret = keys->client_secret;
    client->seed = *seed;
    client->request = xmemdup(request, len);
    client->len = len;
    client->fn = fn;
    client->arg = arg;
    client->retry_ms = RETRY_MS;
    client->answer_ms = ANSWER_MS;
    if (dial(client, err) != 0) {
        join_client_close(client);
        return NULL;
    }
    return client;
}

void
join_client_close(struct join_client *client)
{
    if (!client)
        return;
    hang_up(client);
    free(client->request);
    free(client);
}
