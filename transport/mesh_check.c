#include "transport/base/alloc.h"
#include "transport/mesh_parts.h"

#include <stdlib.h>
#include <string.h>

/* One port of the address: a dial of its own. */
struct attempt {
    struct mesh_check *check;
    struct dial *dial;
};

struct mesh_check {
    struct mesh *mesh;
    struct id peer;
    struct address base;
    struct attempt attempts[3];
    enum mesh_port ports[3];
    int waiting;
    int timer; /* the result is told in a turn of its own */
    mesh_checked_fn fn;
    void *arg;
};

void
mesh_check_close(struct mesh *mesh)
{
    struct mesh_check *check = mesh->check;
    if (!check)
        return;
    for (int i = 0; i < 3; i++)
        dial_close(check->attempts[i].dial);
    if (check->timer)
        loop_timer_cancel(mesh->loop, check->timer);
    free(check);
    mesh->check = NULL;
}

static void
over(void *arg)
{
    struct mesh *mesh = arg;
    struct mesh_check check = *mesh->check;
    mesh_check_close(mesh);
    check.fn(check.arg, &check.peer, &check.base, check.ports);
}

static void
tried(void *arg, enum dial_event event)
{
    struct attempt *attempt = arg;
    struct mesh_check *check = attempt->check;
    static const enum mesh_port ports[] = {[DIAL_UP] = MESH_PORT_OPEN,
                                           [DIAL_DENIED] = MESH_PORT_OPEN,
                                           [DIAL_DOWN] = MESH_PORT_OPEN,
                                           [DIAL_NOBODY] = MESH_PORT_SHUT,
                                           [DIAL_HUNG_UP] = MESH_PORT_OTHER};
    check->ports[attempt - check->attempts] = ports[event];
    dial_close(attempt->dial);
    attempt->dial = NULL;
    if (--check->waiting == 0)
        check->timer = loop_timer(check->mesh->loop, 1, over, check->mesh);
}

int
mesh_check(struct mesh *mesh, const struct id *peer, const struct address *base,
           const struct secret *secret, mesh_checked_fn fn, void *arg, struct err *err)
{
    uint8_t server[KEY_CURVE_BYTES];
    if (mesh->check)
        return err_set(err, ERR_LIMIT, "another address is being checked; ask again");
    if (!key_curve_of(peer, server))
        return err_set(err, ERR_USAGE, "the id is no key");
    struct mesh_check *check = xcalloc(1, sizeof(*check));
    mesh->check = check;
    check->mesh = mesh;
    check->peer = *peer;
    check->base = *base;
    check->fn = fn;
    check->arg = arg;
    for (int i = 0; i < 3; i++) {
        bool join = i == SOCKET_JOIN;
        check->attempts[i].check = check;
        check->ports[i] = MESH_PORT_UNTRIED;
        if (join && !secret)
            continue;
        struct dial_options options = {
            .plane = (enum socket_plane)i,
            .base =
                mesh->options.routes ? *address_route(mesh->options.routes, base) : *base,
            .curve_public =
                join ? secret_joiner_public(secret) : key_curve_public(mesh->options.key),
            .curve_secret =
                join ? secret_joiner_secret(secret) : key_curve_secret(mesh->options.key),
            .server_public = join ? secret_join_public(secret) : server,
        };
        check->attempts[i].dial =
            dial_open(mesh->loop, &options, tried, &check->attempts[i], err);
        if (!check->attempts[i].dial) {
            mesh_check_close(mesh);
            return -1;
        }
        check->waiting++;
    }
    return 0;
}
