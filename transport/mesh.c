#include "transport/mesh.h"
#include "transport/base/alloc.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/socket.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    FRAMES_PER_TURN = 256, /* then others have their turn */
    BACKOFF_MS = 100,
    BACKOFF_MS_MAX = 1500,
    SOUND_MS =
        1000, /* a connection that held this long is redialled at once when it closes */
    ROUTE_BYTES_MAX = 255
};

struct peer {
    struct mesh *mesh;
    struct id id;
    bool wanted; /* by mesh_peer(); otherwise it was only heard from */
    struct address base;
    struct dial *dial;
    int timer; /* of the next dial; 0: none */
    int64_t backoff_ms;
    int64_t up_at_ms;
    bool denied; /* and it was said */
    uint64_t sequence_sent;
    uint64_t sequence_heard; /* on the connection that `route` names */
    uint8_t route[ROUTE_BYTES_MAX];
    size_t route_len;
    struct mesh_peer_stats stats;
};

struct mesh {
    struct loop *loop;
    struct admit *admit;
    struct mesh_options options;
    struct id self;
    struct listener *listener;
    int count;
    struct peer *peers[MEMBERS_MAX]; /* sorted by id */
    struct buf out;
};

/* ---- the table of peers ---- */

/* Where the peer is in the table, or should be. */
static int
place(const struct mesh *mesh, const struct id *id)
{
    int low = 0;
    int high = mesh->count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (id_compare(&mesh->peers[mid]->id, id) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct peer *
find(const struct mesh *mesh, const struct id *id)
{
    int at = place(mesh, id);
    return at < mesh->count && id_equal(&mesh->peers[at]->id, id) ? mesh->peers[at]
                                                                  : NULL;
}

/* The peer, made if need be; NULL when the table is full. */
static struct peer *
find_or_add(struct mesh *mesh, const struct id *id)
{
    struct peer *peer = find(mesh, id);
    if (peer)
        return peer;
    if (mesh->count == MEMBERS_MAX) {
        log_limited(LOG_WARN, "transport", "peer ignored: there are %d already",
                    mesh->count);
        return NULL;
    }
    int at = place(mesh, id);
    peer = xcalloc(1, sizeof(*peer));
    peer->mesh = mesh;
    peer->id = *id;
    memmove(&mesh->peers[at + 1], &mesh->peers[at],
            (size_t)(mesh->count - at) * sizeof(struct peer *));
    mesh->peers[at] = peer;
    mesh->count++;
    return peer;
}

/* ---- dialling ---- */

static void dialled(void *arg, enum dial_event event);

static void
hang_up(struct peer *peer)
{
    dial_close(peer->dial);
    peer->dial = NULL;
    if (peer->timer)
        loop_timer_cancel(peer->mesh->loop, peer->timer);
    peer->timer = 0;
}

static void redial(void *arg);

static void
redial_later(struct peer *peer)
{
    hang_up(peer);
    peer->backoff_ms = peer->backoff_ms ? peer->backoff_ms * 2 : BACKOFF_MS;
    if (peer->backoff_ms > BACKOFF_MS_MAX)
        peer->backoff_ms = BACKOFF_MS_MAX;
    peer->timer = loop_timer(peer->mesh->loop, peer->backoff_ms, redial, peer);
}

static void
redial(void *arg)
{
    struct peer *peer = arg;
    struct mesh *mesh = peer->mesh;
    hang_up(peer);
    uint8_t server[KEY_CURVE_BYTES];
    bool valid = key_curve_of(&peer->id, server);
    must(valid); /* mesh_peer() has asked */
    struct dial_options options = {
        .plane = SOCKET_CONTROL,
        .base = mesh->options.routes ? *address_route(mesh->options.routes, &peer->base)
                                     : peer->base,
        .curve_public = key_curve_public(mesh->options.key),
        .curve_secret = key_curve_secret(mesh->options.key),
        .server_public = server,
    };
    struct err err;
    peer->dial = dial_open(mesh->loop, &options, dialled, peer, &err);
    if (!peer->dial) {
        log_limited(LOG_WARN, "transport", "%s", err.msg);
        redial_later(peer);
    }
}

static void
say_denied(struct peer *peer)
{
    char name[ID_SHORT_SIZE];
    char address[ADDRESS_BYTES_MAX + 8];
    address_text(&peer->base, address);
    if (!peer->denied)
        log_warn("transport",
                 "peer does not admit us: it has not heard of us yet, or has evicted us, "
                 "or is "
                 "in another swarm id=%s address=%s",
                 id_short(&peer->id, name), address);
    peer->denied = true;
}

/* The peer's owner is told last: it may forget the peer. */
static void
dialled(void *arg, enum dial_event event)
{
    struct peer *peer = arg;
    struct mesh *mesh = peer->mesh;
    int64_t now = loop_now_ms(mesh->loop);
    struct id id = peer->id;
    enum mesh_event told = MESH_REFUSED;
    switch (event) {
    case DIAL_UP:
        peer->up_at_ms = now;
        peer->sequence_sent = 0;
        peer->denied = false;
        told = MESH_UP;
        break;
    case DIAL_DOWN:
        told = MESH_DOWN;
        if (now - peer->up_at_ms >= SOUND_MS) {
            peer->backoff_ms = 0;
            redial(peer);
        } else {
            redial_later(peer);
        }
        break;
    case DIAL_DENIED:
        told = MESH_DENIED;
        say_denied(peer);
        redial_later(peer);
        break;
    case DIAL_NOBODY:
    case DIAL_HUNG_UP:
        redial_later(peer);
        break;
    }
    mesh->options.peer(mesh->options.arg, &id, told);
}

/* ---- receiving ---- */

/* What arrived as one message: the connection's name, the bytes, and who the ZAP handler
 * says it is. */
struct arrival {
    zmq_msg_t route;
    zmq_msg_t bytes;
    int parts;
};

static bool
arrival_take(void *socket, struct arrival *arrival)
{
    zmq_msg_init(&arrival->route);
    zmq_msg_init(&arrival->bytes);
    arrival->parts = 0;
    if (zmq_msg_recv(&arrival->route, socket, ZMQ_DONTWAIT) < 0)
        return false;
    zmq_msg_t *last = &arrival->route;
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    for (arrival->parts = 1; zmq_msg_more(last); arrival->parts++) {
        last = arrival->parts == 1 ? &arrival->bytes : &surplus;
        if (zmq_msg_recv(last, socket, ZMQ_DONTWAIT) < 0)
            break;
    }
    zmq_msg_close(&surplus);
    return true;
}

static void
arrival_release(struct arrival *arrival)
{
    zmq_msg_close(&arrival->route);
    zmq_msg_close(&arrival->bytes);
}

/* Is this frame later than all others of its connection? A new connection counts from the
 * start. */
static bool
fresh(struct peer *peer, zmq_msg_t *route, uint64_t sequence)
{
    size_t len = zmq_msg_size(route);
    if (len > ROUTE_BYTES_MAX)
        return false;
    if (len != peer->route_len || memcmp(peer->route, zmq_msg_data(route), len) != 0) {
        memcpy(peer->route, zmq_msg_data(route), len);
        peer->route_len = len;
        peer->sequence_heard = 0;
        if (peer->timer) /* it has come back: no need to wait for the back-off */
            redial(peer);
    }
    if (sequence <= peer->sequence_heard)
        return false;
    peer->sequence_heard = sequence;
    return true;
}

/* NULL when the frame is to be delivered, else what is wrong with it. */
static const char *
judge(const struct mesh *mesh, struct peer *peer, struct arrival *arrival,
      struct frame *frame, struct err *err)
{
    if (arrival->parts != 2)
        return "it has several parts";
    if (frame_unpack(zmq_msg_data(&arrival->bytes), zmq_msg_size(&arrival->bytes), frame,
                     err) != 0)
        return err->msg;
    if (!id_equal(&frame->from, &peer->id))
        return "it is signed by somebody else than the one who is connected";
    if (!id_equal(&frame->to, &mesh->self))
        return "it is meant for another node";
    if (!id_equal(&frame->swarm, &mesh->options.swarm))
        return "it belongs to another swarm";
    if (!fresh(peer, &arrival->route, frame->sequence))
        return "its sequence number was used before";
    return NULL;
}

static void
take(struct mesh *mesh, struct arrival *arrival)
{
    struct id user;
    const char *text =
        arrival->parts > 1 ? zmq_msg_gets(&arrival->bytes, "User-Id") : NULL;
    bool named = text && id_parse(&user, text);
    if (named)
        listener_heard(mesh->listener, &arrival->bytes, &user);
    if (!named || !admit_allowed(mesh->admit, &user)) {
        log_limited(LOG_WARN, "transport",
                    "frame dropped: its sender is no longer admitted");
        if (named)
            listener_cut(mesh->listener, &user);
        return;
    }
    struct peer *peer = find_or_add(mesh, &user);
    if (!peer)
        return;
    size_t bytes = zmq_msg_size(&arrival->bytes);
    peer->stats.received_bytes += bytes;
    struct frame frame;
    struct err err;
    const char *why = judge(mesh, peer, arrival, &frame, &err);
    if (why) {
        char name[ID_SHORT_SIZE];
        peer->stats.bad_frames++;
        log_limited(LOG_WARN, "transport", "frame dropped: %s from=%s bytes=%zu", why,
                    id_short(&user, name), bytes);
        return;
    }
    peer->stats.received_frames++;
    peer->stats.last_heard_ms = loop_now_ms(mesh->loop);
    mesh->options.frame(mesh->options.arg, &frame);
}

static void
receive(void *arg)
{
    struct mesh *mesh = arg;
    void *socket = listener_socket(mesh->listener);
    bool some = true;
    for (int i = 0; i < FRAMES_PER_TURN && some; i++) {
        struct arrival arrival;
        some = arrival_take(socket, &arrival);
        if (some)
            take(mesh, &arrival);
        arrival_release(&arrival);
    }
}

static void
say_stranger(void *arg, const char *from)
{
    (void)arg;
    log_limited(
        LOG_WARN, "transport",
        "connection refused: it was meant for a node with another key; that node may "
        "have been here before, or is in another swarm domain=control address=%s",
        from);
}

/* ---- public ---- */

struct mesh *
mesh_open(struct loop *loop, struct admit *admit, const struct mesh_options *options,
          struct err *err)
{
    must(admit && options->frame && options->peer);
    struct mesh *mesh = xcalloc(1, sizeof(*mesh));
    mesh->loop = loop;
    mesh->admit = admit;
    mesh->options = *options;
    mesh->self = *key_id(options->key);
    mesh->listener = listener_open(loop, SOCKET_CONTROL, key_curve_secret(options->key),
                                   &options->listen, say_stranger, mesh, err);
    if (!mesh->listener) {
        free(mesh);
        return NULL;
    }
    loop_socket(loop, listener_socket(mesh->listener), receive, mesh);
    return mesh;
}

void
mesh_close(struct mesh *mesh)
{
    if (!mesh)
        return;
    for (int i = 0; i < mesh->count; i++) {
        hang_up(mesh->peers[i]);
        free(mesh->peers[i]);
    }
    loop_socket_cancel(mesh->loop, listener_socket(mesh->listener));
    listener_close(mesh->listener);
    buf_release(&mesh->out);
    free(mesh);
}

void
mesh_peer(struct mesh *mesh, const struct id *id, const struct address *base)
{
    uint8_t curve[KEY_CURVE_BYTES];
    char name[ID_SHORT_SIZE];
    if (id_equal(id, &mesh->self))
        return;
    if (!key_curve_of(id, curve)) {
        log_limited(LOG_WARN, "transport", "peer ignored: its id is no key id=%s",
                    id_short(id, name));
        return;
    }
    struct peer *peer = find_or_add(mesh, id);
    if (!peer)
        return;
    if (peer->wanted && peer->base.port == base->port &&
        strcmp(peer->base.host, base->host) == 0)
        return;
    peer->wanted = true;
    peer->base = *base;
    peer->backoff_ms = 0;
    redial(peer);
}

void
mesh_forget(struct mesh *mesh, const struct id *id)
{
    int at = place(mesh, id);
    listener_cut(mesh->listener, id);
    if (at == mesh->count || !id_equal(&mesh->peers[at]->id, id))
        return;
    hang_up(mesh->peers[at]);
    free(mesh->peers[at]);
    mesh->count--;
    memmove(&mesh->peers[at], &mesh->peers[at + 1],
            (size_t)(mesh->count - at) * sizeof(struct peer *));
}

void
mesh_redial(struct mesh *mesh, const struct id *id)
{
    struct peer *peer = find(mesh, id);
    if (peer && peer->timer)
        redial(peer);
}

int
mesh_send(struct mesh *mesh, const struct id *to, enum frame_kind kind, const void *body,
          size_t len, struct err *err)
{
    char name[ID_SHORT_SIZE];
    struct peer *peer = find(mesh, to);
    if (!peer || !peer->dial || !dial_up(peer->dial))
        return err_set(err, ERR_PEER, "could not send to node %s: there is no connection",
                       id_short(to, name));
    buf_clear(&mesh->out);
    frame_pack(mesh->options.key, &mesh->options.swarm, kind, to, ++peer->sequence_sent,
               body, len, &mesh->out);
    if (!dial_send(peer->dial, mesh->out.data, mesh->out.len))
        return err_set(
            err, ERR_PEER,
            "could not send to node %s: its queue is full, or it is going away",
            id_short(to, name));
    peer->stats.sent_frames++;
    peer->stats.sent_bytes += mesh->out.len;
    return 0;
}

bool
mesh_connected(const struct mesh *mesh, const struct id *id)
{
    const struct peer *peer = find(mesh, id);
    return peer && peer->dial && dial_up(peer->dial);
}

bool
mesh_stats(const struct mesh *mesh, const struct id *id, struct mesh_peer_stats *out)
{
    const struct peer *peer = find(mesh, id);
    if (peer)
        *out = peer->stats;
    return peer != NULL;
}
