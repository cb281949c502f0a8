/*
 * net_figures.c - what the control plane (transport/mesh.h) says of its peers, and how it
 * tries an address.
 */
#include "tests/sim/net.h"

bool
mesh_connected(const struct mesh *mesh, const struct id *id)
{
    for (int i = 0; i < mesh->count; i++)
        if (id_equal(&mesh->peers[i].id, id))
            return mesh->peers[i].up || mesh->peers[i].back;
    return false;
}

bool
mesh_stats(const struct mesh *mesh, const struct id *id, struct mesh_peer_stats *out)
{
    for (int i = 0; i < mesh->count; i++)
        if (id_equal(&mesh->peers[i].id, id)) {
            *out = mesh->peers[i].stats;
            return true;
        }
    return false;
}

/* ---- what this network does without: it keeps all connections ---- */

void
mesh_keep(struct mesh *mesh, const struct id *peers, size_t count)
{
    (void)mesh;
    (void)peers;
    (void)count;
}

void
mesh_hidden(struct mesh *mesh, const struct id *id, bool hidden)
{
    struct peer *peer = net_find(mesh, id);
    if (peer)
        peer->hidden = hidden;
}

bool
mesh_evicts(const struct mesh *mesh, const struct id *id)
{
    for (int i = 0; i < mesh->count; i++)
        if (id_equal(&mesh->peers[i].id, id))
            return mesh->peers[i].evicts;
    return false;
}

enum mesh_way
mesh_way(const struct mesh *mesh, const struct id *peer, struct id *via)
{
    for (int i = 0; i < mesh->count; i++) {
        const struct peer *at = &mesh->peers[i];
        if (!id_equal(&at->id, peer) || !(at->up || at->back))
            continue;
        const struct conn *conn = &conns[at->up ? at->conn : at->back - 1];
        const struct host *carries = conn->via < 0 ? NULL : &world.hosts[conn->via];
        if (via && carries && carries->node)
            *via = carries->node->id;
        return carries && carries->node ? MESH_ROUND : at->up ? MESH_OUT : MESH_BACK;
    }
    return MESH_NO_WAY;
}

const char *
mesh_way_name(enum mesh_way way)
{
    return way == MESH_OUT     ? "out"
           : way == MESH_BACK  ? "back"
           : way == MESH_ROUND ? "round"
                               : "none";
}

const char *
mesh_host(const struct mesh *mesh, const struct id *peer)
{
    (void)mesh;
    (void)peer;
    return "";
}

void
mesh_blame(struct mesh *mesh, const struct id *peer)
{
    world_say("finds a frame of n%d without sense", net_find(mesh, peer)->target);
}

void
mesh_total(const struct mesh *mesh, struct mesh_totals *out)
{
    *out = (struct mesh_totals){.peers = mesh->count, .kept = mesh->count};
}

static void
checked(struct event *event)
{
    struct mesh *mesh = here->mesh;
    const struct host *target =
        mesh->check_target >= 0 ? &world.hosts[mesh->check_target] : NULL;
    (void)event;
    bool open = target && target->node && host_up(target) &&
                net_both_ways(here->index, target->index) &&
                !world.refused[here->index][target->index];
    enum mesh_port ports[3];
    for (int i = 0; i < 3; i++)
        ports[i] = open ? MESH_PORT_OPEN : MESH_PORT_SHUT;
    mesh_checked_fn fn = mesh->check_fn;
    mesh->check_fn = NULL;
    fn(mesh->check_arg, &mesh->check_id, &mesh->check_base, ports);
}

int
mesh_check(struct mesh *mesh, const struct id *peer, const struct address *base,
           const struct secret *secret, mesh_checked_fn fn, void *arg, struct err *err)
{
    (void)secret;
    if (mesh->check_fn)
        return err_set(err, ERR_LIMIT, "another check is under way");
    const struct host *target = host_at(base->host);
    mesh->check_target = target ? target->index : -1;
    mesh->check_fn = fn;
    mesh->check_arg = arg;
    mesh->check_id = *peer;
    mesh->check_base = *base;
    world_in(100 * MS, mesh->host, checked);
    return 0;
}
