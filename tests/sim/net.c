/*
 * net.c - the control plane's connections (transport/mesh.h, admit.h) between the hosts.
 *
 * A connection is one way, as in the real mesh: from who dialled to who was dialled, in
 * order, until it closes. TCP underneath: what does not come through waits, and the
 * connection closes when it waits for HEARTBEAT_US.
 *
 * With world.ways, who was dialled answers on it where it has no connection of its own
 * (back), and where nobody can dial the other a third host carries (round).
 */
#include "tests/sim/net.h"
#include "tests/sim/check.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/mesh.h"

#include <stdlib.h>
#include <string.h>

enum {
    DIAL_US = 5 * SECOND,
    LOOK_AGAIN_US = 250 * MS,
    HEARTBEAT_US = 15 * SECOND,
    ROUND_US = 600 * MS, /* of dials in vain, until somebody is asked to carry */
    BACKOFF_MS = 100,
    BACKOFF_MS_MAX = 1500,
    SOUND_US = SECOND
};

struct conn *conns;
static size_t conns_count, conns_room;

/* ---- dialling ---- */

struct peer *
net_find(struct mesh *mesh, const struct id *id)
{
    for (int i = 0; i < mesh->count; i++)
        if (id_equal(&mesh->peers[i].id, id))
            return &mesh->peers[i];
    return NULL;
}

static struct peer *
find_dial(struct mesh *mesh, uint64_t dial)
{
    for (int i = 0; i < mesh->count; i++)
        if (mesh->peers[i].dial == dial)
            return &mesh->peers[i];
    return NULL;
}

static void dial(struct mesh *mesh, struct peer *peer);
static void back_gone(struct event *event);

bool
net_both_ways(int a, int b)
{
    return world_path(a, b) && world_path(b, a);
}

/* Who would carry between two that cannot reach each other; -1: nobody. */
static int
carrier(int a, int b)
{
    for (int c = 0; world.ways && c < world.hosts_count; c++) {
        const struct host *host = &world.hosts[c];
        if (c == a || c == b || !host->node || !host->mesh || !host_up(host) ||
            !net_both_ways(a, c) || !net_both_ways(c, b) || world.refused[a][c] ||
            world.refused[c][b] || world.refused[b][c] ||
            !admit_allowed(host->admit, &world.hosts[a].node->id) ||
            !admit_allowed(host->admit, &world.hosts[b].node->id))
            continue;
        return c;
    }
    return -1;
}

/* From its one end to the other, or back. */
static bool
conn_path(const struct conn *conn, bool back)
{
    int from = back ? conn->to : conn->from, to = back ? conn->from : conn->to;
    if (conn->via < 0)
        return world_path(from, to);
    const struct host *via = &world.hosts[conn->via];
    return via->node && via->life == conn->via_life && host_up(via) &&
           world_path(from, conn->via) && world_path(conn->via, to);
}

static int64_t
conn_delay(const struct conn *conn, bool back)
{
    int from = back ? conn->to : conn->from, to = back ? conn->from : conn->to;
    return conn->via < 0 ? world_delay(from, to)
                         : world_delay(from, conn->via) + world_delay(conn->via, to);
}

static void
conn_close(size_t at, bool lossy)
{
    struct conn *conn = &conns[at];
    if (!conn->open)
        return;
    const struct host *to = &world.hosts[conn->to];
    if (world.ways && conn->heard && to->node && to->life == conn->to_life)
        world_in(conn_path(conn, false) ? conn_delay(conn, false) : HEARTBEAT_US, to,
                 back_gone)
            ->a = (int64_t)at;
    conn->open = false;
    conn->lossy = lossy;
    for (size_t i = 0; i < conn->waits_count; i++) {
        free(conn->waits[i]->data);
        free(conn->waits[i]);
    }
    free(conn->waits);
    conn->waits = NULL;
    conn->waits_count = conn->waits_room = 0;
}

/* The owner is told last: it may forget the peer. */
static void
tell(struct mesh *mesh, struct peer *peer, enum mesh_event event)
{
    static const char *const names[] = {"up", "down", "refused", "denied"};
    struct id id = peer->id;
    world_say("connection to n%d: %s", peer->target, names[event]);
    mesh->options.peer(mesh->options.arg, &id, event);
}

/* Is there a way now, and was there one? */
static void
settle(struct mesh *mesh, struct peer *peer)
{
    bool way = peer->up || peer->back;
    if (way == peer->told)
        return;
    peer->told = way;
    tell(mesh, peer, way ? MESH_UP : MESH_DOWN);
}

/* Nobody is there, as far as a dial tells. */
static void
refused(struct mesh *mesh, struct peer *peer)
{
    if (!peer->hidden && !peer->back)
        tell(mesh, peer, MESH_REFUSED);
}

static void
back_gone(struct event *event)
{
    struct mesh *mesh = here->mesh;
    for (int i = 0; mesh && i < mesh->count; i++)
        if (mesh->peers[i].back == (size_t)event->a + 1) {
            mesh->peers[i].back = 0;
            settle(mesh, &mesh->peers[i]);
            return;
        }
}

static void
dial_again(struct event *event)
{
    struct mesh *mesh = here->mesh;
    struct peer *peer = find_dial(mesh, (uint64_t)event->a);
    if (peer && peer->waits)
        dial(mesh, peer);
}

static void
dial_later(struct mesh *mesh, struct peer *peer)
{
    peer->up = false;
    peer->waits = true;
    peer->dial = ++mesh->dials;
    peer->backoff_ms = peer->backoff_ms ? peer->backoff_ms * 2 : BACKOFF_MS;
    if (peer->backoff_ms > BACKOFF_MS_MAX)
        peer->backoff_ms = BACKOFF_MS_MAX;
    world_in(peer->backoff_ms * MS, mesh->host, dial_again)->a = (int64_t)peer->dial;
}

/* The peer has dialled us: no need to wait for the back-off. */
static void
dialled_us(struct event *event)
{
    struct mesh *mesh = here->mesh;
    for (int i = 0; mesh && i < mesh->count; i++)
        if (mesh->peers[i].target == (int)event->a && mesh->peers[i].waits)
            dial(mesh, &mesh->peers[i]);
}

static size_t
conn_new(int from, int to)
{
    if (conns_count == conns_room) {
        conns_room = conns_room ? conns_room * 2 : 256;
        conns = xrealloc(conns, conns_room, sizeof(*conns));
    }
    conns[conns_count] = (struct conn){.from = from,
                                       .to = to,
                                       .from_life = world.hosts[from].life,
                                       .to_life = world.hosts[to].life,
                                       .via = -1,
                                       .open = true};
    return conns_count++;
}

static void
came_up(struct mesh *mesh, struct peer *peer, int via)
{
    peer->up = true;
    peer->evicts = false;
    peer->up_us = world.now_us;
    peer->sequence = 0;
    peer->conn = conn_new(here->index, peer->target);
    struct conn *conn = &conns[peer->conn];
    conn->via = via;
    conn->via_life = via < 0 ? 0 : world.hosts[via].life;
    if (via >= 0)
        world_say("n%d carries to n%d", via, peer->target);
    world_in(conn_delay(conn, false), &world.hosts[peer->target], dialled_us)->a =
        here->index;
    settle(mesh, peer);
}

static void
look(struct event *event)
{
    struct mesh *mesh = here->mesh;
    struct peer *peer = find_dial(mesh, (uint64_t)event->a);
    if (!peer || peer->up || peer->waits)
        return;
    struct host *target = peer->target >= 0 ? &world.hosts[peer->target] : NULL;
    bool silent = target && (!net_both_ways(here->index, target->index) ||
                             (target->node && !host_up(target)));
    if (target && world.refused[here->index][target->index])
        silent = false;
    bool firewall = target && world.refused[here->index][target->index];
    int via = (silent || firewall) && target && target->node && target->mesh &&
                      host_up(target) && id_equal(&target->node->id, &peer->id) &&
                      admit_allowed(target->admit, &here->node->id) &&
                      world.now_us - peer->began_us >= (firewall ? 0 : ROUND_US)
                  ? carrier(here->index, target->index)
                  : -1;
    if (via >= 0) {
        came_up(mesh, peer, via);
        return;
    }
    if (silent && world.now_us - peer->began_us < DIAL_US) {
        world_in(LOOK_AGAIN_US, here, look)->a = event->a;
        return;
    }
    bool nobody = silent || !target || !target->node || !target->mesh ||
                  world.refused[here->index][target->index] ||
                  !id_equal(&target->node->id, &peer->id);
    if (nobody) {
        dial_later(mesh, peer);
        refused(mesh, peer);
    } else if (!admit_allowed(target->mesh->admit, &here->node->id)) {
        net_refuse(target->mesh->admit);
        peer->evicts = net_evicted(target->mesh->admit, &here->node->id);
        dial_later(mesh, peer);
        tell(mesh, peer, MESH_DENIED);
    } else {
        came_up(mesh, peer, -1);
    }
}

static void
dial(struct mesh *mesh, struct peer *peer)
{
    if (peer->up)
        conn_close(peer->conn, true);
    peer->told = peer->back;
    peer->up = peer->waits = false;
    peer->dial = ++mesh->dials;
    peer->began_us = world.now_us;
    int64_t us = 100;
    if (peer->target >= 0) {
        us += 2 * world_delay(mesh->host->index, peer->target);
        us += 2 * world_delay(peer->target, mesh->host->index);
    }
    world_in(us, mesh->host, look)->a = (int64_t)peer->dial;
}

/* ---- a connection ends ---- */

static void
down(struct event *event)
{
    struct mesh *mesh = here->mesh;
    for (int i = 0; mesh && i < mesh->count; i++) {
        struct peer *peer = &mesh->peers[i];
        if (!peer->up || peer->conn != (size_t)event->a)
            continue;
        conn_close(peer->conn, event->b != 0);
        peer->up = false;
        if (world.now_us - peer->up_us >= SOUND_US) {
            peer->backoff_ms = 0;
            dial(mesh, peer);
        } else {
            dial_later(mesh, peer);
        }
        peer->told = true;
        settle(mesh, peer);
        return;
    }
}

static void
say_down(size_t at, int64_t in_us, bool lossy)
{
    const struct host *from = &world.hosts[conns[at].from];
    if (!from->node || from->life != conns[at].from_life)
        return;
    struct event *event = world_in(in_us, from, down);
    event->a = (int64_t)at;
    event->b = lossy;
}

static bool
conn_dead(const struct conn *conn)
{
    const struct host *to = &world.hosts[conn->to];
    return !to->node || to->life != conn->to_life;
}

static bool
conn_blocked(const struct conn *conn)
{
    return !conn_path(conn, false) || !conn_path(conn, true) ||
           !host_up(&world.hosts[conn->to]);
}

/* Was it blocked all the while? */
static void
heartbeat(struct event *event)
{
    struct conn *conn = &conns[event->a];
    if (conn->open && conn->blocked_us == event->b &&
        (conn_blocked(conn) || conn_dead(conn)))
        say_down((size_t)event->a, 0, true);
}

static void deliver(struct event *event);

/* What waited comes through, in order. */
static void
flush(size_t at)
{
    struct conn *conn = &conns[at];
    size_t count = conn->waits_count;
    conn->waits_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct event *frame = conn->waits[i];
        bool back = frame->c != 0;
        if (!conn_path(conn, back)) {
            conn->waits[conn->waits_count++] = frame;
            continue;
        }
        int64_t due = world.now_us + conn_delay(conn, back);
        int64_t *last_us = back ? &conn->back_us : &conn->last_us;
        *last_us = due > *last_us ? due : *last_us;
        struct event *again = world_in(
            *last_us - world.now_us, &world.hosts[back ? conn->from : conn->to], deliver);
        again->from = back ? conn->to : conn->from;
        again->a = frame->a;
        again->b = frame->b;
        again->c = frame->c;
        again->data = frame->data;
        again->len = frame->len;
        free(frame);
    }
}

static void
conn_look(size_t at)
{
    struct conn *conn = &conns[at];
    if (conn->via >= 0 && net_both_ways(conn->from, conn->to) &&
        !world.refused[conn->from][conn->to]) {
        conn->via = -1; /* a dial got through */
    } else if (conn->via >= 0 && conn_blocked(conn) && world.hosts[conn->from].node &&
               !conn_dead(conn)) {
        int via = carrier(conn->from, conn->to);
        conn->via = via >= 0 ? via : conn->via;
        conn->via_life = world.hosts[conn->via].life;
    }
    bool blocked = conn_blocked(conn);
    if (blocked && conn->blocked_us == 0) {
        conn->blocked_us = world.now_us;
        struct event *event =
            world_in(HEARTBEAT_US + (int64_t)world_below(SECOND), NULL, heartbeat);
        event->a = (int64_t)at;
        event->b = conn->blocked_us;
    } else if (!blocked) {
        conn->blocked_us = 0;
    }
    if (!conn_dead(conn))
        flush(at);
}

static void
look_at_all(struct event *event)
{
    (void)event;
    for (size_t i = 0; i < conns_count; i++)
        if (conns[i].open)
            conn_look(i);
}

void
net_paths_changed(void)
{
    look_at_all(NULL);
    /* And when those that are stopped wake up. */
    for (int i = 0; i < world.hosts_count; i++)
        if (world.hosts[i].node && world.hosts[i].paused_us > world.now_us)
            world_in(world.hosts[i].paused_us - world.now_us + 1, NULL, look_at_all);
}

void
net_process_gone(int index)
{
    for (size_t i = 0; i < conns_count; i++) {
        struct conn *conn = &conns[i];
        if (!conn->open)
            continue;
        if (conn->from == index) {
            conn_close(i, world_below(2) == 0);
        } else if (conn->to == index) {
            /* A word from its system, unless the way is blocked. */
            bool comes = world_path(index, conn->from);
            say_down(i, comes ? world_delay(index, conn->from) : HEARTBEAT_US, true);
        }
    }
}

/* ---- frames ---- */

static void
wait_in_conn(struct conn *conn, struct event *event)
{
    struct event *kept = xmemdup(event, sizeof(*event));
    event->data = NULL;
    if (conn->waits_count == conn->waits_room) {
        conn->waits_room = conn->waits_room ? conn->waits_room * 2 : 16;
        conn->waits = xrealloc(conn->waits, conn->waits_room, sizeof(*conn->waits));
    }
    conn->waits[conn->waits_count++] = kept;
}

static bool
gossips(enum frame_kind kind)
{
    return kind <= FRAME_DIGEST;
}

/* Something came by a connection of the peer's: we can answer on it. */
static struct peer *
answer_by(struct mesh *mesh, struct peer *peer, const struct id *id, size_t conn)
{
    if (!peer) {
        must(mesh->count < PEERS_MAX);
        peer = &mesh->peers[mesh->count++];
        *peer = (struct peer){.id = *id, .target = conns[conn].from};
    }
    conns[conn].heard = true;
    peer->back = conn + 1;
    settle(mesh, peer);
    return net_find(mesh, id); /* the handler may have moved it */
}

static void
hand_over(struct mesh *mesh, const struct event *event)
{
    bool back = event->c != 0;
    const struct host *from =
        &world.hosts[back ? conns[event->a].to : conns[event->a].from];
    struct frame frame;
    struct err err;
    if (frame_unpack(event->data, event->len, &frame, &err)) {
        world_breach("a frame from %s does not open: %s", from->address, err.msg);
        return;
    }
    if (!admit_allowed(mesh->admit, &frame.from))
        return;
    world.frames++;
    world_mix((uint64_t)frame.kind << 32 | (uint64_t)here->index << 8 |
              (uint64_t)from->index);
    world_mix_bytes(frame.body, frame.body_len);
    if (world.trace && !gossips(frame.kind) && frame.kind != FRAME_BEAT &&
        frame.kind != FRAME_BEAT_REPLY)
        world_say("hears %s from %s", frame_kind_name(frame.kind), from->address);
    check_heard(here, &frame.from, frame.kind, frame.body, frame.body_len);
    struct peer *peer = net_find(mesh, &frame.from);
    if (world.ways && !back && conns[event->a].open)
        peer = answer_by(mesh, peer, &frame.from, (size_t)event->a);
    if (peer) {
        peer->stats.received_frames++;
        peer->stats.received_bytes += event->len;
        peer->stats.last_heard_ms = loop_now_ms(here->loop);
    }
    mesh->options.frame(mesh->options.arg, &frame);
}

static void
deliver(struct event *event)
{
    struct conn *conn = &conns[event->a];
    bool back = event->c != 0;
    if ((!conn->open && (conn->lossy || back)) || conn->shut ||
        (!back && conn_dead(conn)))
        return;
    bool path = event->arrived || conn_path(conn, back);
    if (conn->open && (conn->waits_count > 0 || !path)) {
        wait_in_conn(conn, event);
        return;
    }
    if (!path)
        return;
    hand_over(here->mesh, event);
}

static void
send_frame(size_t at, bool back, int64_t us, const struct buf *bytes)
{
    const struct conn *conn = &conns[at];
    struct event *event =
        world_in(us, &world.hosts[back ? conn->from : conn->to], deliver);
    event->life = back ? conn->from_life : conn->to_life;
    event->from = back ? conn->to : conn->from;
    event->a = (int64_t)at;
    event->c = back;
    event->data = xmemdup(bytes->data, bytes->len);
    event->len = bytes->len;
}

int
mesh_send(struct mesh *mesh, const struct id *to, enum frame_kind kind, const void *body,
          size_t len, struct err *err)
{
    struct peer *peer = net_find(mesh, to);
    if (!peer || (!peer->up && !peer->back))
        return err_set(err, ERR_PEER, "there is no connection");
    if (mesh->host->dying)
        return 0;
    check_sent(mesh->host, to, kind, body, len);
    if (gossips(kind) && world_chance(world.faults.drop_ppm))
        return 0;
    bool back = !peer->up;
    size_t at = back ? peer->back - 1 : peer->conn;
    struct conn *conn = &conns[at];
    int64_t *last_us = back ? &conn->back_us : &conn->last_us;
    struct buf bytes = {0};
    frame_pack_plain(key_id(mesh->options.key), &mesh->options.swarm, kind, to,
                     ++peer->sequence, body, len, &bytes);
    peer->stats.sent_frames++;
    peer->stats.sent_bytes += bytes.len;
    int64_t due = world.now_us + conn_delay(conn, back);
    if (world_chance(world.faults.stall_ppm))
        due += (int64_t)world_below((uint64_t)world.faults.stall_ms * MS);
    *last_us = due > *last_us ? due : *last_us;
    send_frame(at, back, *last_us - world.now_us, &bytes);
    if (world_chance(world.faults.twice_ppm))
        send_frame(at, back, *last_us - world.now_us + (int64_t)world_below(2 * SECOND),
                   &bytes);
    if (world_chance(world.faults.break_ppm)) {
        int64_t us = (int64_t)world_below(20 * MS);
        say_down(at, us, world_below(2) == 0);
    }
    buf_release(&bytes);
    return 0;
}

/* ---- the rest of mesh.h ---- */

struct mesh *
mesh_open(struct loop *loop, struct admit *admit, const struct mesh_options *options,
          struct err *err)
{
    (void)loop;
    (void)err;
    struct mesh *mesh = xcalloc(1, sizeof(*mesh));
    mesh->host = here;
    mesh->admit = admit;
    mesh->options = *options;
    here->mesh = mesh;
    return mesh;
}

void
mesh_close(struct mesh *mesh)
{
    free(mesh);
}

void
mesh_peer(struct mesh *mesh, const struct id *id, const struct address *base)
{
    struct peer *peer = net_find(mesh, id);
    if (id_equal(id, key_id(mesh->options.key)))
        return;
    if (peer && peer->base.port == base->port && strcmp(peer->base.host, base->host) == 0)
        return;
    if (!peer) {
        must(mesh->count < PEERS_MAX);
        peer = &mesh->peers[mesh->count++];
        *peer = (struct peer){.id = *id};
    }
    if (peer->up)
        conn_close(peer->conn, true);
    peer->up = false;
    peer->told = peer->back != 0;
    peer->base = *base;
    const struct host *target = host_at(base->host);
    peer->target = target ? target->index : -1;
    peer->backoff_ms = 0;
    dial(mesh, peer);
}

/* What the peer has opened to us is closed from here; it learns of it when it can. */
static void
shut_from(const struct host *host, const struct id *id)
{
    for (size_t i = 0; i < conns_count; i++) {
        struct conn *conn = &conns[i];
        const struct host *from = &world.hosts[conn->from];
        if (!conn->open || conn->shut || conn->to != host->index || conn_dead(conn) ||
            !from->node || from->life != conn->from_life ||
            !id_equal(&from->node->id, id))
            continue;
        conn->shut = true;
        bool comes = world_path(host->index, conn->from);
        say_down(i, comes ? world_delay(host->index, conn->from) : HEARTBEAT_US, true);
    }
}

int
net_connections(const struct host *host, const struct host *other)
{
    int count = 0;
    for (size_t i = 0; i < conns_count; i++) {
        const struct conn *conn = &conns[i];
        bool out = conn->from == host->index && conn->to == other->index &&
                   conn->from_life == host->life;
        bool in = conn->from == other->index && conn->to == host->index &&
                  conn->to_life == host->life && conn->from_life == other->life;
        count += conn->open && !conn->shut && (out || in);
    }
    return count;
}

void
mesh_forget(struct mesh *mesh, const struct id *id)
{
    struct peer *peer = net_find(mesh, id);
    if (!peer)
        return;
    if (peer->up)
        conn_close(peer->conn, true);
    shut_from(mesh->host, id);
    *peer = mesh->peers[--mesh->count];
}

void
mesh_redial(struct mesh *mesh, const struct id *id)
{
    struct peer *peer = net_find(mesh, id);
    if (peer && peer->waits)
        dial(mesh, peer);
}

void
net_open(void)
{
    conns_count = 0;
}

void
net_close(void)
{
    world.ways = false; /* nobody is left to be told */
    for (size_t i = 0; i < conns_count; i++)
        conn_close(i, true);
    free(conns);
    conns = NULL;
    conns_count = conns_room = 0;
}
