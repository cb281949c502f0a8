#include "transport/base/log.h"
#include "transport/mesh_parts.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum {
    FRAMES_PER_TURN = 256, /* then others have their turn */
    ASK_GAP_MS = 100
};

/* What arrived as one message: the connection's name, the bytes, and who the ZAP handler
 * says it is. On our own connections there is no name. */
struct arrival {
    zmq_msg_t route;
    zmq_msg_t bytes;
    int parts;
};

static bool
arrival_take(void *socket, struct arrival *arrival, bool routed)
{
    zmq_msg_init(&arrival->route);
    zmq_msg_init(&arrival->bytes);
    arrival->parts = routed ? 0 : 1;
    zmq_msg_t *last = routed ? &arrival->route : &arrival->bytes;
    if (zmq_msg_recv(last, socket, ZMQ_DONTWAIT) < 0)
        return false;
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    for (arrival->parts++; zmq_msg_more(last); arrival->parts++) {
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
fresh_back(struct mesh_peer *peer, zmq_msg_t *route, int fd, uint64_t sequence)
{
    size_t len = zmq_msg_size(route);
    if (len > MESH_ROUTE_BYTES_MAX)
        return false;
    bool other =
        len != peer->route_len || memcmp(peer->route, zmq_msg_data(route), len) != 0;
    if (other) {
        memcpy(peer->route, zmq_msg_data(route), len);
        peer->route_len = len;
        peer->back_heard = peer->back_sent = 0;
    }
    peer->back_fd = fd;
    if (sequence <= peer->back_heard)
        return false;
    peer->back_heard = sequence;
    peer->back = true;
    if (other)
        mesh_came_back(peer); /* it is back: no need to wait for the back-off */
    return true;
}

/* NULL when the frame is to be taken, else what is wrong with it. `arrival` NULL: it came
 * on our own connection. */
static const char *
judge(struct mesh_peer *peer, struct arrival *arrival, bool back, int fd,
      struct frame *frame, struct err *err)
{
    const struct mesh *mesh = peer->mesh;
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
    if (back ? !fresh_back(peer, &arrival->route, fd, frame->sequence)
             : frame->sequence <= peer->out_heard)
        return "its sequence number was used before";
    if (!back)
        peer->out_heard = frame->sequence;
    return NULL;
}

static void
refuse(struct mesh_peer *peer, const char *why, size_t bytes)
{
    char name[ID_SHORT_SIZE];
    peer->stats.bad_frames++;
    score_blame(&peer->words, loop_now_ms(peer->mesh->loop), SCORE_NONSENSE);
    log_limited(LOG_WARN, "transport", "frame dropped: %s from=%s address=%s bytes=%zu",
                why, id_short(&peer->id, name), peer->host, bytes);
    mesh_judge(peer);
}

/* What is answered by megabytes is answered now and then: a question that comes too soon
 * after the last one. */
static bool
asks_again(struct mesh_peer *peer, enum frame_kind kind, int64_t now)
{
    if (kind != FRAME_FETCH && kind != FRAME_EPOCH_ASK)
        return false;
    if (peer->asked_ms != 0 && now - peer->asked_ms < ASK_GAP_MS)
        return true;
    peer->asked_ms = now;
    return false;
}

/* A message of this peer. The peer may be gone afterwards. */
static void
take(struct mesh_peer *peer, struct arrival *arrival, bool back, int fd)
{
    struct mesh *mesh = peer->mesh;
    int64_t now = loop_now_ms(mesh->loop);
    size_t bytes = zmq_msg_size(&arrival->bytes);
    peer->stats.received_bytes += bytes;
    if (score_pruned(&peer->words, now)) {
        peer->words.over++;
        listener_cut_fd(mesh->listener, fd);
        return;
    }
    if (!score_take(&peer->words, now, bytes)) {
        char name[ID_SHORT_SIZE];
        log_limited(LOG_WARN, "transport",
                    "frame dropped: its sender says more than it may from=%s address=%s "
                    "bytes=%zu",
                    id_short(&peer->id, name), peer->host, bytes);
        if (fd >= 0)
            peer->back_fd = fd; /* the one to cut */
        mesh_judge(peer);
        return;
    }
    struct frame frame;
    struct err err;
    const char *why = judge(peer, arrival, back, fd, &frame, &err);
    if (!why && asks_again(peer, frame.kind, now)) {
        peer->words.over++;
        return;
    }
    if (!why && frame.kind >= FRAME_CARRY && frame.kind <= FRAME_HELLO) {
        peer->stats.received_frames++;
        why = mesh_carry_take(peer, &frame, &err);
        if (!why)
            return;
    }
    if (why) {
        refuse(peer, why, bytes);
        return;
    }
    peer->stats.received_frames++;
    peer->stats.last_heard_ms = now;
    if (mesh_settle(peer))
        mesh->options.frame(mesh->options.arg, &frame);
}

/* Who a message of the ROUTER is from; NULL: nobody that counts. */
static struct mesh_peer *
sender(struct mesh *mesh, struct arrival *arrival, int *fd)
{
    struct id user;
    zmq_msg_t *named = arrival->parts > 1 ? &arrival->bytes : &arrival->route;
    const char *text = zmq_msg_gets(named, "User-Id");
    bool known = text && id_parse(&user, text);
    *fd = known ? listener_heard(mesh->listener, named, &user) : -1;
    if (!known || !admit_allowed(mesh->admit, &user)) {
        log_limited(LOG_WARN, "transport",
                    "frame dropped: its sender is no longer admitted address=%s",
                    listener_host(named));
        if (known)
            listener_cut(mesh->listener, &user);
        return NULL;
    }
    struct mesh_peer *peer = mesh_find_or_add(mesh, &user);
    if (peer)
        snprintf(peer->host, sizeof(peer->host), "%s", listener_host(named));
    return peer;
}

void
mesh_receive(void *arg)
{
    struct mesh *mesh = arg;
    void *socket = listener_socket(mesh->listener);
    bool some = true;
    for (int i = 0; i < FRAMES_PER_TURN && some; i++) {
        struct arrival arrival;
        some = arrival_take(socket, &arrival, true);
        int fd;
        struct mesh_peer *peer = some ? sender(mesh, &arrival, &fd) : NULL;
        if (peer)
            take(peer, &arrival, true, fd);
        arrival_release(&arrival);
    }
}

void
mesh_receive_out(void *arg)
{
    struct mesh_peer *peer = arg;
    struct mesh *mesh = peer->mesh;
    struct id id = peer->id;
    const struct dial *dial = peer->dial;
    bool some = true;
    for (int i = 0; i < FRAMES_PER_TURN && some; i++) {
        struct arrival arrival;
        some = arrival_take(dial_socket(dial), &arrival, false);
        if (some)
            take(peer, &arrival, false, -1);
        arrival_release(&arrival);
        /* A handler may have forgotten the peer, or hung up. */
        if (mesh_find(mesh, &id) != peer || peer->dial != dial || !dial_up(dial))
            return;
    }
}

void
mesh_closed(void *arg, int fd)
{
    struct mesh *mesh = arg;
    for (int i = 0; i < mesh->count; i++) {
        struct mesh_peer *peer = mesh->peers[i];
        if (peer->back_fd != fd)
            continue;
        peer->back_fd = -1;
        peer->back = false;
        mesh_settle(peer);
        return;
    }
}
