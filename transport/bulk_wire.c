#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/bulk_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* A chunk that came, in the message that it came in. */
struct frame {
    struct flow_chunk chunk;
    zmq_msg_t msg;
};

int
wire_fd(void *socket)
{
    int fd = -1;
    size_t size = sizeof(fd);
    int rc = zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    must(rc == 0);
    return fd;
}

/* What the socket is ready for; also takes in libzmq's news for it, so that its
 * descriptor speaks again. */
int
wire_events(void *socket)
{
    int events = 0;
    size_t size = sizeof(events);
    int rc = zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size);
    return rc == 0 ? events : 0;
}

/* ---- what comes in ---- */

static void
frame_release(struct flow_chunk *chunk)
{
    struct frame *frame = (struct frame *)chunk;
    zmq_msg_close(&frame->msg);
    free(frame);
}

struct flow_chunk *
wire_chunk(const uint8_t *bytes, size_t len, const struct chunk_header *header)
{
    struct frame *frame = xcalloc(1, sizeof(*frame));
    must(zmq_msg_init_size(&frame->msg, len) == 0);
    uint8_t *data = zmq_msg_data(&frame->msg);
    memcpy(data, bytes, len);
    frame->chunk.release = frame_release;
    frame->chunk.header = *header;
    frame->chunk.payload = data + CHUNK_HEADER_BYTES;
    return &frame->chunk;
}

void
wire_refuse(const struct id *from, const char *why)
{
    char text[ID_SHORT_SIZE];
    log_limited(LOG_WARN, "transport", "bulk frame dropped: %s from=%s", why,
                id_short(from, text));
}

/* A chunk of this node, with the way back to it. Takes the message. */
static void
take(struct bulk *bulk, const struct id *from, zmq_msg_t *msg,
     const struct flow_route *route)
{
    struct chunk_header header;
    struct err err;
    const uint8_t *data = zmq_msg_data(msg);
    if (chunk_decode(data, zmq_msg_size(msg), &header, &err) != 0) {
        wire_refuse(from, err.msg);
        return;
    }
    struct conn *conn = link_find(bulk, from);
    if (conn && conn->way == BULK_BACK)
        flow_blocked(bulk->flow, conn->number, false); /* it may have room again */
    if (header.type == CHUNK_CREDIT) {
        if (conn)
            flow_credit(bulk->flow, conn->number, &header, clock_us());
        return;
    }
    if (header.type >= CHUNK_CARRY) {
        carry_take(bulk, from, &header, data + CHUNK_HEADER_BYTES);
        return;
    }
    struct frame *frame = xcalloc(1, sizeof(*frame));
    zmq_msg_init(&frame->msg);
    zmq_msg_move(&frame->msg, msg);
    frame->chunk.release = frame_release;
    frame->chunk.header = header;
    frame->chunk.route = *route;
    frame->chunk.payload =
        (const uint8_t *)zmq_msg_data(&frame->msg) + CHUNK_HEADER_BYTES;
    struct flow_chunk *chunk = &frame->chunk;
    flow_arrive(bulk->flow, from, &chunk, clock_us());
}

/* A message of the ROUTER: its sender's routing id, then a chunk. */
static void
arrived(struct bulk *bulk, zmq_msg_t *name, zmq_msg_t *msg)
{
    struct id from = {0};
    struct flow_route route = {.by = FLOW_BY_ROUTER};
    const char *user = zmq_msg_gets(msg, "User-Id");
    if (!user || !id_parse(&from, user)) {
        wire_refuse(&from, "the connection has no user");
        return;
    }
    int fd = listener_heard(bulk->listener, msg, &from);
    if (zmq_msg_size(name) > FLOW_ROUTE_BYTES) {
        wire_refuse(&from, "its routing id is too long");
        return;
    }
    route.len = (uint8_t)zmq_msg_size(name);
    memcpy(route.bytes, zmq_msg_data(name), zmq_msg_size(name));
    link_back(bulk, &from, &route, fd);
    take(bulk, &from, msg, &route);
}

/* One whole message: the first two parts of it and how many there were; 0 when there is
 * none. */
static int
receive(void *socket, zmq_msg_t parts[2])
{
    int count = 0;
    bool more = true;
    while (more) {
        zmq_msg_t spare;
        zmq_msg_t *part = count < 2 ? &parts[count] : &spare;
        zmq_msg_init(part);
        if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(part);
            break;
        }
        more = zmq_msg_more(part);
        if (part == &spare)
            zmq_msg_close(part);
        count++;
    }
    return count;
}

static void
parts_close(zmq_msg_t parts[2], int count)
{
    for (int i = 0; i < count && i < 2; i++)
        zmq_msg_close(&parts[i]);
}

static bool
serve_router(struct bulk *bulk)
{
    void *router = listener_socket(bulk->listener);
    size_t bytes = 0;
    for (int i = 0; i < BULK_FRAMES_PER_TURN && bytes < BULK_BYTES_PER_TURN; i++) {
        zmq_msg_t parts[2];
        int count = receive(router, parts);
        if (!count)
            return false;
        if (count == 2)
            bytes += zmq_msg_size(&parts[1]);
        if (count == 2)
            arrived(bulk, &parts[0], &parts[1]);
        else
            log_limited(LOG_WARN, "transport", "bulk message dropped: %d parts", count);
        parts_close(parts, count);
    }
    return true;
}

/* What came back on our connection to a peer: credits, and chunks where the peer cannot
 * dial us. */
static bool
serve_dial(struct bulk *bulk, const struct conn *conn)
{
    static const struct flow_route ours = {.by = FLOW_BY_DIAL};
    size_t bytes = 0;
    for (int i = 0; i < BULK_FRAMES_PER_TURN && bytes < BULK_BYTES_PER_TURN; i++) {
        zmq_msg_t parts[2];
        int count = receive(dial_socket(conn->dial), parts);
        if (!count)
            return false;
        if (count == 1) {
            struct id from = conn->peer.id;
            bytes += zmq_msg_size(&parts[0]);
            take(bulk, &from, &parts[0], &ours);
        } else {
            wire_refuse(&conn->peer.id, "a chunk has several parts");
        }
        parts_close(parts, count);
    }
    return true;
}

bool
wire_serve(struct bulk *bulk)
{
    bool more = false;
    if (wire_events(listener_socket(bulk->listener)) & ZMQ_POLLIN)
        more = serve_router(bulk);
    for (int p = 0; p < bulk->conns_count; p++) {
        struct conn *conn = bulk->conns[p];
        if (!conn || !conn->up)
            continue;
        int events = wire_events(dial_socket(conn->dial));
        if (events & ZMQ_POLLIN)
            more |= serve_dial(bulk, conn);
        if (conn->way == BULK_OUT && events & ZMQ_POLLOUT)
            flow_blocked(bulk->flow, p, false);
    }
    return more;
}

/* Sending takes in a socket's news, too: is there any that nobody has acted on? */
bool
wire_idle(const struct bulk *bulk)
{
    if (wire_events(listener_socket(bulk->listener)) & ZMQ_POLLIN)
        return false;
    for (int p = 0; p < bulk->conns_count; p++) {
        const struct conn *conn = bulk->conns[p];
        if (!conn || !conn->up)
            continue;
        bool stuck = conn->way == BULK_OUT &&
                     (flow_is_blocked(bulk->flow, p) || conn->credit_stuck);
        int wanted = ZMQ_POLLIN | (stuck ? ZMQ_POLLOUT : 0);
        if (wire_events(dial_socket(conn->dial)) & wanted)
            return false;
    }
    return true;
}

/* ---- what goes out ---- */

static enum wire_result
give(void *socket, const struct flow_route *route, zmq_msg_t *msg)
{
    if (route &&
        zmq_send(socket, route->bytes, route->len, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return errno == EAGAIN ? WIRE_FULL : WIRE_GONE;
    return zmq_msg_send(msg, socket, ZMQ_DONTWAIT) >= 0 ? WIRE_SENT : WIRE_FULL;
}

enum wire_result
wire_send(struct conn *conn, enum bulk_way way, const struct flow_route *route,
          const struct wire_part parts[3])
{
    bool out = way == BULK_OUT;
    if (way == BULK_NO_WAY || way == BULK_ROUND || (out && !conn->up))
        return WIRE_GONE;
    void *socket = out ? dial_socket(conn->dial) : listener_socket(conn->bulk->listener);
    if (out && !(wire_events(socket) & ZMQ_POLLOUT))
        return WIRE_FULL;
    zmq_msg_t msg;
    must(zmq_msg_init_size(&msg, parts[0].len + parts[1].len + parts[2].len) == 0);
    uint8_t *at = zmq_msg_data(&msg);
    for (int i = 0; i < 3; at += parts[i++].len) {
        if (parts[i].len && parts[i].data)
            memcpy(at, parts[i].data, parts[i].len);
        else if (parts[i].len)
            memset(at, 0, parts[i].len);
    }
    enum wire_result result = give(socket, out ? NULL : route, &msg);
    if (result != WIRE_SENT)
        zmq_msg_close(&msg);
    return result;
}

static enum wire_result
send_out(struct conn *conn, const struct flow_out *out)
{
    if (conn->way == BULK_ROUND)
        return carry_send(conn, &conn->detour.via, &out->header, out->payload);
    uint8_t header[CHUNK_HEADER_BYTES];
    chunk_encode(&out->header, header);
    struct wire_part parts[3] = {
        {header, sizeof(header)}, {out->payload, out->header.length}, {0}};
    return wire_send(conn, conn->way, &conn->back, parts);
}

bool
wire_send_chunks(struct bulk *bulk)
{
    struct flow_out out;
    size_t bytes = 0;
    for (int i = 0; i < BULK_FRAMES_PER_TURN && bytes < BULK_BYTES_PER_TURN;) {
        if (!flow_next(bulk->flow, &out, clock_us()))
            return false;
        struct conn *conn = bulk->conns[out.peer];
        enum wire_result result = send_out(conn, &out);
        if (result == WIRE_SENT) {
            flow_sent(bulk->flow, &out, clock_us());
            bytes += out.header.length;
            i++;
            continue;
        }
        flow_blocked(bulk->flow, out.peer, true);
        if (result == WIRE_GONE)
            link_lost(conn);
        else
            link_tick_on(bulk);
    }
    return true;
}

/* Credits go back by the connection that the chunks came on. When it is gone, its chunks'
 * sender knows. */
static enum wire_result
send_credit(struct bulk *bulk, const struct flow_out *out)
{
    uint8_t header[CHUNK_HEADER_BYTES];
    chunk_encode(&out->header, header);
    struct wire_part parts[3] = {{header, sizeof(header)}, {0}, {0}};
    struct conn *conn = bulk->conns[out->peer];
    switch (out->route.by) {
    case FLOW_BY_ROUTER:
        return wire_send(conn, BULK_BACK, &out->route, parts);
    case FLOW_BY_DIAL:
        return wire_send(conn, BULK_OUT, NULL, parts);
    default:
        if (out->route.carrier >= bulk->conns_count || !bulk->conns[out->route.carrier])
            return WIRE_GONE;
        return carry_send(conn, &bulk->conns[out->route.carrier]->peer.id, &out->header,
                          NULL);
    }
}

void
wire_send_credits(struct bulk *bulk)
{
    struct flow_out out;
    while (flow_next_credit(bulk->flow, &out)) {
        if (send_credit(bulk, &out) != WIRE_FULL)
            continue;
        flow_credit_unsent(bulk->flow, &out);
        bulk->conns[out.peer]->credit_stuck = true;
        link_tick_on(bulk);
        return; /* there is room again soon */
    }
}
