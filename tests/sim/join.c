/*
 * join.c - the join socket (transport/join.h): one request, one answer, between hosts
 * whose secrets are the same.
 */
#include "transport/join.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { AGAIN_US = SECOND, SILENT_US = 5 * SECOND, HANG_UPS = 3 };

struct join_server {
    struct host *host;
    uint8_t secret[KEY_CURVE_BYTES]; /* public half of the pair that follows from it */
    uint8_t joiner[KEY_CURVE_BYTES]; /* the key of who has the secret, too */
    join_request_fn fn;
    void *arg;
    uint64_t refused;
};

struct join_client {
    struct host *host;
    uint8_t secret[KEY_CURVE_BYTES]; /* of the door that it wants */
    uint8_t
        key[KEY_CURVE_BYTES]; /* its own: that of who has the secret, or an invite's */
    int target;
    uint8_t *request;
    size_t len;
    join_result_fn fn;
    void *arg;
    uint64_t attempt; /* the one at hand: others are void */
    int hang_ups;
    int said; /* the last result, -1: none */
};

static uint64_t attempts; /* over all clients, so that a number names its client */
static struct join_client *clients[HOSTS_MAX];

/* Requests that are to be answered later. */
static struct {
    uint64_t ticket; /* 0: free */
    int64_t attempt;
    int host;
    uint64_t life;
} waiting[JOIN_WAITING_MAX];
static uint64_t tickets;

struct join_server *
join_listen(struct loop *loop, const struct secret *secret, const struct address *listen,
            join_request_fn fn, void *arg, struct err *err)
{
    (void)loop;
    (void)listen;
    (void)err;
    struct join_server *server = xcalloc(1, sizeof(*server));
    server->host = here;
    memcpy(server->secret, secret_join_public(secret), KEY_CURVE_BYTES);
    memcpy(server->joiner, secret_joiner_public(secret), KEY_CURVE_BYTES);
    server->fn = fn;
    server->arg = arg;
    here->door = server;
    return server;
}

void
join_server_close(struct join_server *server)
{
    if (server && server->host->door == server)
        server->host->door = NULL;
    free(server);
}

uint64_t
join_server_refused(const struct join_server *server)
{
    return server->refused;
}

/* ---- the joiner ---- */

static void attempt(struct join_client *client, int64_t in_us);

static struct join_client *
client_of(const struct event *event)
{
    struct join_client *client = clients[event->host];
    return client && client->attempt == (uint64_t)event->a ? client : NULL;
}

/* Each change of result is said once; the handler may close the client. */
static void
say(struct join_client *client, enum join_result result)
{
    if (client->said == (int)result)
        return;
    client->said = (int)result;
    client->fn(client->arg, result, NULL, 0);
}

static void
answered(struct event *event)
{
    struct join_client *client = client_of(event);
    if (!client)
        return;
    client->attempt = 0;
    client->said = JOIN_ANSWERED;
    client->fn(client->arg, JOIN_ANSWERED, event->data, event->len);
}

static void
answer_to(int from, int to, uint64_t life, int64_t number, const void *bytes, size_t len)
{
    const struct host *client = &world.hosts[to];
    if (!world_path(from, to) || client->life != life)
        return;
    struct event *back = world_in(world_delay(from, to), client, answered);
    back->a = number;
    back->data = xmemdup(bytes, len);
    back->len = len;
}

static void
asked(struct event *event)
{
    struct join_server *server = here->door;
    if (!server)
        return;
    struct buf answer = {0};
    struct join_caller caller = {.ticket = ++tickets};
    memcpy(&caller.invite, event->data, ID_BYTES);
    bool later = server->fn(server->arg, &caller, event->data + ID_BYTES,
                            event->len - ID_BYTES, &answer);
    if (answer.len > 0) {
        answer_to(here->index, (int)event->b, (uint64_t)event->c, event->a, answer.data,
                  answer.len);
    } else if (later) {
        size_t at = caller.ticket % JOIN_WAITING_MAX;
        waiting[at].ticket = caller.ticket;
        waiting[at].attempt = event->a;
        waiting[at].host = (int)event->b;
        waiting[at].life = (uint64_t)event->c;
    } else {
        server->refused++;
    }
    buf_release(&answer);
}

void
join_server_answer(struct join_server *server, uint64_t ticket, const void *answer,
                   size_t len)
{
    size_t at = ticket % JOIN_WAITING_MAX;
    if (waiting[at].ticket != ticket || server->host->dying)
        return;
    waiting[at].ticket = 0;
    answer_to(server->host->index, waiting[at].host, waiting[at].life,
              waiting[at].attempt, answer, len);
}

static void
silent(struct event *event)
{
    struct join_client *client = client_of(event);
    if (!client)
        return;
    attempt(client, AGAIN_US);
    say(client, JOIN_SILENT);
}

static void
reach(struct event *event)
{
    struct join_client *client = client_of(event);
    if (!client)
        return;
    const struct host *target = client->target >= 0 ? &world.hosts[client->target] : NULL;
    if (!target || !target->node || !target->door ||
        !world_path(here->index, target->index) ||
        !world_path(target->index, here->index)) {
        attempt(client, AGAIN_US);
        say(client, JOIN_NOBODY);
        return;
    }
    if (memcmp(target->door->secret, client->secret, KEY_CURVE_BYTES) != 0) {
        client->hang_ups++;
        attempt(client, AGAIN_US);
        if (client->hang_ups >= HANG_UPS)
            say(client, JOIN_HUNG_UP);
        return;
    }
    struct id invite = {{0}};
    if (memcmp(target->door->joiner, client->key, KEY_CURVE_BYTES) != 0 &&
        !net_invited(target, client->key, &invite)) {
        attempt(client, AGAIN_US);
        say(client, JOIN_DENIED);
        return;
    }
    struct event *request =
        world_in(world_delay(here->index, target->index), target, asked);
    request->a = event->a;
    request->b = here->index;
    request->c = (int64_t)here->life;
    request->len = ID_BYTES + client->len; /* whose key it came with, and what it says */
    request->data = xcalloc(1, request->len);
    memcpy(request->data, &invite, ID_BYTES);
    memcpy(request->data + ID_BYTES, client->request, client->len);
    world_in(SILENT_US, here, silent)->a = event->a;
}

static void
attempt(struct join_client *client, int64_t in_us)
{
    client->attempt = ++attempts;
    int64_t us = in_us + 1000;
    if (client->target >= 0)
        us += 2 * world_delay(client->host->index, client->target);
    world_in(us, client->host, reach)->a = (int64_t)client->attempt;
}

struct join_client *
join_dial(struct loop *loop, const struct join_keys *keys, const struct address *seed,
          const void *request, size_t len, join_result_fn fn, void *arg, struct err *err)
{
    (void)loop;
    (void)err;
    struct join_client *client = xcalloc(1, sizeof(*client));
    client->host = here;
    memcpy(client->secret, keys->server_public, KEY_CURVE_BYTES);
    memcpy(client->key, keys->client_public, KEY_CURVE_BYTES);
    const struct host *target = host_at(seed->host);
    client->target = target ? target->index : -1;
    client->request = xmemdup(request, len);
    client->len = len;
    client->fn = fn;
    client->arg = arg;
    client->said = -1;
    clients[here->index] = client;
    attempt(client, 0);
    return client;
}

void
join_client_close(struct join_client *client)
{
    if (!client)
        return;
    if (clients[client->host->index] == client)
        clients[client->host->index] = NULL;
    free(client->request);
    free(client);
}
