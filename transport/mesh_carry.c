#include "transport/base/alloc.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/codec.h"
#include "transport/mesh_parts.h"

#include <stdlib.h>

enum {
    FAILING_MS = 600, /* a dial that fails for so long may need a way round */
    CARRIERS_MAX = 64 /* that are thought of */
};

/* ---- at the ends ---- */

bool
mesh_send_round(struct mesh_peer *peer, enum frame_kind kind, const void *body,
                size_t len)
{
    struct mesh *mesh = peer->mesh;
    struct mesh_peer *carrier = mesh_find(mesh, &peer->detour.via);
    if (!carrier || mesh_direct(carrier) == MESH_NO_WAY)
        return false;
    uint64_t sequence = mesh->options.boot << 32 | ++peer->round_sent;
    buf_clear(&mesh->inner);
    frame_pack(mesh->options.key, &mesh->options.swarm, kind, &peer->id, sequence, body,
               len, &mesh->inner);
    if (mesh->inner.len + 64 > frame_kind_bytes_max(FRAME_CARRY))
        return false;
    buf_clear(&mesh->carry);
    writer_array(&mesh->carry, 2);
    writer_id(&mesh->carry, &peer->id);
    writer_bytes(&mesh->carry, mesh->inner.data, mesh->inner.len);
    if (!mesh_send_direct(carrier, FRAME_CARRY, mesh->carry.data, mesh->carry.len))
        return false;
    peer->stats.sent_frames++;
    peer->stats.sent_bytes += mesh->inner.len;
    return true;
}

/* Are you there? Or: I am. */
static void
hello(struct mesh_peer *peer, const struct id *via, bool answer)
{
    struct buf body = {0};
    struct id before = peer->detour.via;
    peer->detour.via = *via;
    writer_array(&body, 1);
    writer_bool(&body, answer);
    mesh_send_round(peer, FRAME_HELLO, body.data, body.len);
    peer->detour.via = before;
    buf_release(&body);
}

static const char *
take_hello(struct mesh_peer *peer, const struct frame *frame, const struct id *via,
           struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return err->msg;
    reader_enter(reader, 1, 1);
    bool answer = reader_bool(reader);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err->msg;
    if (!answer)
        hello(peer, via, true);
    return NULL;
}

/* A frame of somebody else that `via` brought. What is wrong with it is the carrier's
 * fault, or its maker's: only the maker's signature tells. */
static const char *
take_carried(struct mesh *mesh, const struct id *via, const uint8_t *bytes, size_t len,
             struct err *err)
{
    struct frame inner;
    if (frame_unpack(bytes, len, &inner, err) != 0)
        return err->msg;
    if (!inner.proven)
        return "it carries a frame that its maker did not sign";
    if (!id_equal(&inner.to, &mesh->self) ||
        !id_equal(&inner.swarm, &mesh->options.swarm) ||
        id_equal(&inner.from, &mesh->self))
        return "it carries a frame that is not for this node";
    if (inner.kind >= FRAME_CARRY && inner.kind < FRAME_HELLO)
        return "it carries a frame that carries another";
    if (!admit_allowed(mesh->admit, &inner.from))
        return NULL; /* the carrier may know it already, or still */
    struct mesh_peer *peer = mesh_find_or_add(mesh, &inner.from);
    int64_t now = loop_now_ms(mesh->loop);
    if (!peer || score_pruned(&peer->words, now))
        return NULL;
    if (inner.sequence <= peer->round_heard)
        return NULL; /* it went another way round, too, or was kept back */
    peer->round_heard = inner.sequence;
    peer->stats.received_bytes += len;
    if (!score_take(&peer->words, now, len)) {
        mesh_judge(peer);
        return NULL;
    }
    detour_heard(&peer->detour, now, via);
    peer->stats.received_frames++;
    peer->stats.last_heard_ms = now;
    if (inner.kind == FRAME_HELLO) {
        const char *why = take_hello(peer, &inner, via, err);
        mesh_settle(peer);
        return why;
    }
    if (mesh_settle(peer))
        mesh->options.frame(mesh->options.arg, &inner);
    return NULL;
}

/* ---- at the carrier ---- */

/* What a node gives us to carry has to be its own and whole, so that nobody can make us
 * say nonsense. */
static const char *
judge_carry(const struct mesh_peer *from, const struct id *to, const uint8_t *bytes,
            size_t len, struct err *err)
{
    struct frame inner;
    if (id_equal(to, &from->id) || id_equal(to, &from->mesh->self))
        return "it asks to carry a frame to where it needs no carrying";
    if (frame_unpack(bytes, len, &inner, err) != 0)
        return err->msg;
    if (!inner.proven)
        return "it asks to carry a frame that it did not sign";
    if (!id_equal(&inner.from, &from->id) || !id_equal(&inner.to, to) ||
        !id_equal(&inner.swarm, &from->mesh->options.swarm))
        return "it asks to carry a frame that is not its own";
    if (inner.kind >= FRAME_CARRY && inner.kind < FRAME_HELLO)
        return "it asks to carry a frame that carries another";
    return NULL;
}

static const char *
take_carry(struct mesh_peer *from, const struct id *to, const uint8_t *bytes, size_t len,
           struct err *err)
{
    struct mesh *mesh = from->mesh;
    struct mesh_peer *target = mesh_find(mesh, to);
    int64_t now = loop_now_ms(mesh->loop);
    const char *why = judge_carry(from, to, bytes, len, err);
    if (why)
        return why;
    if (!target || mesh_direct(target) == MESH_NO_WAY ||
        !admit_allowed(mesh->admit, to)) {
        buf_clear(&mesh->carry);
        writer_array(&mesh->carry, 1);
        writer_id(&mesh->carry, to);
        mesh_send_direct(from, FRAME_CARRY_LOST, mesh->carry.data, mesh->carry.len);
        return NULL;
    }
    /* What is over the rate is lost, as on a network that is too narrow. */
    if (!score_take(&from->gives, now, len) || !score_take(&target->takes, now, len)) {
        char name[ID_SHORT_SIZE];
        log_limited(LOG_WARN, "transport",
                    "frame not carried: it is more than is carried for one node from=%s",
                    id_short(&from->id, name));
        return NULL;
    }
    buf_clear(&mesh->carry);
    writer_array(&mesh->carry, 1);
    writer_bytes(&mesh->carry, bytes, len);
    if (mesh_send_direct(target, FRAME_CARRIED, mesh->carry.data, mesh->carry.len)) {
        mesh->carried++;
        mesh->carried_bytes += len;
    }
    return NULL;
}

static const char *
take_lost(struct mesh_peer *from, const struct id *to)
{
    struct mesh_peer *peer = mesh_find(from->mesh, to);
    if (peer) {
        detour_lost(&peer->detour, &from->id);
        mesh_settle(peer);
    }
    return NULL;
}

const char *
mesh_carry_take(struct mesh_peer *from, const struct frame *frame, struct err *err)
{
    struct id to = {0};
    const uint8_t *bytes = NULL;
    size_t len = 0;
    struct id via = from->id;
    if (frame->kind == FRAME_HELLO)
        return "a hello came without a carrier";
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return err->msg;
    size_t fields = frame->kind == FRAME_CARRY ? 2 : 1;
    reader_enter(reader, fields, fields);
    if (frame->kind != FRAME_CARRIED)
        reader_id(reader, &to);
    if (frame->kind != FRAME_CARRY_LOST)
        bytes = reader_bytes(reader, frame_kind_bytes_max(FRAME_CARRY), &len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err->msg;
    switch (frame->kind) {
    case FRAME_CARRY:
        return take_carry(from, &to, bytes, len, err);
    case FRAME_CARRIED:
        return take_carried(from->mesh, &via, bytes, len, err);
    default:
        return take_lost(from, &to);
    }
}

/* ---- time ---- */

/* Does this peer need a way round? One that is not kept only while somebody has something
 * to say: here, or there (we answer by the way that it found). */
static bool
needs(const struct mesh_peer *peer, int64_t now)
{
    if (!peer->wanted || mesh_direct(peer) != MESH_NO_WAY ||
        score_pruned(&peer->words, now))
        return false;
    int64_t used_ms = peer->sought_ms;
    if (peer->detour.state == DETOUR_UP && peer->stats.last_heard_ms > used_ms)
        used_ms = peer->stats.last_heard_ms;
    if (!peer->kept && (used_ms == 0 || now - used_ms >= MESH_SOUGHT_MS))
        return false;
    if (peer->detour.state != DETOUR_NONE)
        return true;
    return peer->failing_ms != 0 && now - peer->failing_ms >= FAILING_MS;
}

/* Nobody has anything to say any more. */
static void
give_up(struct mesh_peer *peer)
{
    peer->detour.state = DETOUR_NONE;
    if (mesh_direct(peer) == MESH_NO_WAY)
        peer->told_up = false; /* our own decision: nobody is told */
}

/* Those who may carry: connected, and admitted still. */
static size_t
find_carriers(const struct mesh *mesh, struct id carriers[CARRIERS_MAX])
{
    size_t count = 0;
    for (int i = 0; i < mesh->count && count < CARRIERS_MAX; i++) {
        const struct mesh_peer *peer = mesh->peers[i];
        if (mesh_direct(peer) != MESH_NO_WAY && peer->wanted &&
            admit_allowed(mesh->admit, &peer->id))
            carriers[count++] = peer->id;
    }
    return count;
}

void
mesh_carry_tick(struct mesh *mesh, int64_t now)
{
    struct id carriers[CARRIERS_MAX];
    struct id *looked = xcalloc((size_t)mesh->count, sizeof(*looked));
    size_t count = 0, looks = 0;
    bool needed = false;
    for (int i = 0; i < mesh->count; i++) {
        const struct mesh_peer *peer = mesh->peers[i];
        bool lost = needs(peer, now);
        needed = needed || lost;
        if (lost || peer->told_up || peer->detour.state != DETOUR_NONE)
            looked[looks++] = peer->id;
    }
    if (needed)
        count = find_carriers(mesh, carriers);
    for (size_t i = 0; i < looks; i++) {
        struct mesh_peer *peer = mesh_find(mesh, &looked[i]);
        if (!peer)
            continue; /* forgotten by who was told of another one */
        if (!needs(peer, now)) {
            if (!peer->kept && peer->detour.state != DETOUR_NONE)
                give_up(peer);
            mesh_settle(peer);
            continue;
        }
        const struct id *via =
            detour_tick(&peer->detour, now, &mesh->self, &peer->id, carriers, count);
        if (via)
            hello(peer, via, false);
        mesh_settle(peer);
    }
    free(looked);
}
