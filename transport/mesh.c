#include "transport/mesh.h"
#include "transport/base/alloc.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/mesh_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    BACKOFF_MS = 100,
    BACKOFF_MS_MAX = 1500,
    TRY_MS =
        10000, /* between two dials to one that is reached by another, and not kept */
    DENIED_MS = 500,   /* until it has heard of us; if it keeps us, it dials us then */
    HIDDEN_MS = 30000, /* between two dials to an address that is known to be no good */
    SOUND_MS =
        1000, /* a connection that held this long is redialled at once when it closes */
    TICK_MS = 250,
    IDLE_MS = 60000,
    KEEP_FIRST = 24,  /* until the owner says whom to keep: not a thousand at once */
    DEMAND_MAX = 96,  /* connections beyond those that are kept; the idlest gives way */
    DIALLING_MAX = 64 /* dials under way */
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

struct mesh_peer *
mesh_find(const struct mesh *mesh, const struct id *id)
{
    int at = place(mesh, id);
    return at < mesh->count && id_equal(&mesh->peers[at]->id, id) ? mesh->peers[at]
                                                                  : NULL;
}

struct mesh_peer *
mesh_find_or_add(struct mesh *mesh, const struct id *id)
{
    struct mesh_peer *peer = mesh_find(mesh, id);
    if (peer)
        return peer;
    if (mesh->count == MEMBERS_MAX) {
        log_limited(LOG_WARN, "transport", "peer ignored: there are %d already",
                    mesh->count);
        return NULL;
    }
    int at = place(mesh, id);
    int64_t now = loop_now_ms(mesh->loop);
    peer = xcalloc(1, sizeof(*peer));
    peer->mesh = mesh;
    peer->id = *id;
    peer->back_fd = -1;
    peer->kept = mesh->keep_all && (mesh->told || mesh->count < KEEP_FIRST);
    score_init(&peer->words, &score_words, now);
    score_init(&peer->gives, &score_carried, now);
    score_init(&peer->takes, &score_carried, now);
    memmove(&mesh->peers[at + 1], &mesh->peers[at],
            (size_t)(mesh->count - at) * sizeof(struct mesh_peer *));
    mesh->peers[at] = peer;
    mesh->count++;
    return peer;
}

/* ---- ways ---- */

enum mesh_way
mesh_direct(const struct mesh_peer *peer)
{
    if (peer->dial && dial_up(peer->dial))
        return MESH_OUT;
    return peer->back ? MESH_BACK : MESH_NO_WAY;
}

static enum mesh_way
way_of(const struct mesh_peer *peer)
{
    enum mesh_way way = mesh_direct(peer);
    return way == MESH_NO_WAY && peer->detour.state == DETOUR_UP ? MESH_ROUND : way;
}

const char *
mesh_way_name(enum mesh_way way)
{
    static const char *const names[] = {"none", "out", "back", "round"};
    return names[way];
}

bool
mesh_settle(struct mesh_peer *peer)
{
    struct mesh *mesh = peer->mesh;
    struct id id = peer->id;
    bool up = way_of(peer) != MESH_NO_WAY;
    if (up == peer->told_up)
        return true;
    peer->told_up = up;
    mesh->options.peer(mesh->options.arg, &id, up ? MESH_UP : MESH_DOWN);
    return mesh_find(mesh, &id) == peer;
}

/* ---- dialling ---- */

static void dialled(void *arg, enum dial_event event);

static void
forget_waiting(struct mesh_peer *peer)
{
    for (int i = 0; i < peer->waiting_count; i++)
        free(peer->waiting[i].body);
    peer->waiting_count = 0;
    peer->waiting_bytes = 0;
}

static void
hang_up(struct mesh_peer *peer)
{
    if (peer->dial && dial_up(peer->dial))
        loop_socket_cancel(peer->mesh->loop, dial_socket(peer->dial));
    dial_close(peer->dial);
    peer->dial = NULL;
    if (peer->timer)
        loop_timer_cancel(peer->mesh->loop, peer->timer);
    peer->timer = 0;
}

static void redial(void *arg);

static void
redial_in(struct mesh_peer *peer, int64_t ms)
{
    hang_up(peer);
    peer->timer = loop_timer(peer->mesh->loop, ms, redial, peer);
}

/* Is the peer to be dialled at all: kept, or with something that waits for it? */
static bool
dialled_for(const struct mesh_peer *peer)
{
    return peer->wanted && (peer->kept || peer->waiting_count > 0);
}

static void
redial_later(struct mesh_peer *peer)
{
    hang_up(peer);
    if (!peer->kept)
        forget_waiting(peer);
    if (!dialled_for(peer))
        return;
    peer->backoff_ms = peer->backoff_ms ? peer->backoff_ms * 2 : BACKOFF_MS;
    if (peer->backoff_ms > BACKOFF_MS_MAX)
        peer->backoff_ms = BACKOFF_MS_MAX;
    redial_in(peer, peer->hidden ? HIDDEN_MS : peer->backoff_ms);
}

static int
dialling(const struct mesh *mesh)
{
    int count = 0;
    for (int i = 0; i < mesh->count; i++)
        count += mesh->peers[i]->dial && !dial_up(mesh->peers[i]->dial);
    return count;
}

static void
redial(void *arg)
{
    struct mesh_peer *peer = arg;
    struct mesh *mesh = peer->mesh;
    int64_t now = loop_now_ms(mesh->loop);
    hang_up(peer);
    if (score_pruned(&peer->words, now)) {
        redial_in(peer, peer->words.pruned_until_ms - now + 1);
        return;
    }
    if (dialling(mesh) >= DIALLING_MAX) {
        redial_in(peer, BACKOFF_MS / 2);
        return;
    }
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
    peer->used_ms = now;
    peer->dial = dial_open(mesh->loop, &options, dialled, peer, &err);
    if (!peer->dial) {
        log_limited(LOG_WARN, "transport", "%s", err.msg);
        redial_later(peer);
    }
}

static void
say_denied(struct mesh_peer *peer)
{
    char name[ID_SHORT_SIZE];
    char address[ADDRESS_BYTES_MAX + 8];
    bool evicts = peer->dial && dial_evicted(peer->dial);
    address_text(&peer->base, address);
    if (!peer->denied || evicts != peer->evicts)
        log_warn("transport", "peer does not admit us: %s id=%s address=%s",
                 evicts ? "it says that this node was evicted from its swarm"
                        : "it has not heard of us yet, or is in another swarm",
                 id_short(&peer->id, name), address);
    peer->denied = true;
    peer->evicts = evicts;
}

static void
say_waiting(struct mesh_peer *peer)
{
    for (int i = 0; i < peer->waiting_count; i++)
        if (!mesh_send_direct(peer, peer->waiting[i].kind, peer->waiting[i].body,
                              peer->waiting[i].len))
            break;
    forget_waiting(peer);
}

static void
went_up(struct mesh_peer *peer)
{
    peer->up_at_ms = peer->used_ms = loop_now_ms(peer->mesh->loop);
    peer->out_sent = peer->out_heard = 0;
    peer->failing_ms = 0;
    peer->denied = peer->evicts = false;
    peer->detour = (struct detour){0};
    /* Who is connected may carry: what was asked in vain is asked again. */
    for (int i = 0; i < peer->mesh->count; i++)
        peer->mesh->peers[i]->detour.rest_until_ms = 0;
    loop_socket(peer->mesh->loop, dial_socket(peer->dial), mesh_receive_out, peer);
    say_waiting(peer);
}

static void
went_down(struct mesh_peer *peer, int64_t now)
{
    /* Before the dial is closed: hang_up() asks whether it was up, and it is not any
     * more. */
    loop_socket_cancel(peer->mesh->loop, dial_socket(peer->dial));
    if (now - peer->up_at_ms >= SOUND_MS && peer->kept && !peer->hidden) {
        peer->backoff_ms = 0;
        redial(peer);
    } else {
        redial_later(peer);
    }
}

/* The peer's owner is told last: it may forget the peer. */
static void
dialled(void *arg, enum dial_event event)
{
    struct mesh_peer *peer = arg;
    struct mesh *mesh = peer->mesh;
    struct id id = peer->id;
    int64_t now = loop_now_ms(mesh->loop);
    if (event == DIAL_UP) {
        went_up(peer);
        mesh_settle(peer);
        return;
    }
    if (peer->failing_ms == 0 && event != DIAL_DENIED)
        peer->failing_ms = now;
    if (event == DIAL_DOWN) {
        went_down(peer, now);
        mesh_settle(peer);
        return;
    }
    if (event == DIAL_DENIED) {
        say_denied(peer);
        if (peer->backoff_ms < DENIED_MS / 2)
            peer->backoff_ms = DENIED_MS / 2;
    }
    redial_later(peer);
    if (!mesh_settle(peer) || (peer->hidden && event != DIAL_DENIED))
        return;
    if (event == DIAL_DENIED)
        mesh->options.peer(mesh->options.arg, &id, MESH_DENIED);
    else if (way_of(peer) == MESH_NO_WAY)
        mesh->options.peer(mesh->options.arg, &id, MESH_REFUSED);
}

void
mesh_came_back(struct mesh_peer *peer)
{
    peer->failing_ms = 0;
    if (peer->timer && !peer->hidden)
        redial(peer);
}

/* ---- connections that are not kept ---- */

static void
let_go(struct mesh_peer *peer)
{
    /* Our own decision: nobody is told. The next one that comes up is told again. */
    hang_up(peer);
    forget_waiting(peer);
    peer->backoff_ms = 0;
    peer->failing_ms = 0;
    if (way_of(peer) == MESH_NO_WAY)
        peer->told_up = false;
}

static void
on_tick(void *arg)
{
    struct mesh *mesh = arg;
    int64_t now = loop_now_ms(mesh->loop);
    int64_t idle_ms = mesh->options.idle_ms ? mesh->options.idle_ms : IDLE_MS;
    for (int i = 0; i < mesh->count; i++) {
        struct mesh_peer *peer = mesh->peers[i];
        if (!peer->kept && peer->dial && now - peer->used_ms >= idle_ms)
            let_go(peer);
    }
    mesh_carry_tick(mesh, now);
}

/* Room for one more connection of those that are not kept. */
static void
make_room(struct mesh *mesh)
{
    int count = 0;
    struct mesh_peer *idlest = NULL;
    for (int i = 0; i < mesh->count; i++) {
        struct mesh_peer *peer = mesh->peers[i];
        if (peer->kept || !peer->dial)
            continue;
        count++;
        if (!idlest || peer->used_ms < idlest->used_ms)
            idlest = peer;
    }
    if (count >= DEMAND_MAX)
        let_go(idlest);
}

/* Dial, and keep the frame until the connection is there; false: it is not kept. */
static bool
wait_for_dial(struct mesh_peer *peer, enum frame_kind kind, const void *body, size_t len)
{
    if (!peer->wanted || peer->kept || peer->waiting_count == MESH_WAITING_MAX ||
        peer->waiting_bytes + len > MESH_WAITING_BYTES_MAX ||
        score_pruned(&peer->words, loop_now_ms(peer->mesh->loop)))
        return false;
    peer->waiting[peer->waiting_count++] =
        (struct mesh_waiting){kind, xmemdup(body, len), len};
    peer->waiting_bytes += len;
    if (!peer->dial && !peer->timer) {
        make_room(peer->mesh);
        redial(peer);
    }
    return true;
}

/* A way round is dear: who may be reached directly is dialled now and then. */
static void
try_again(struct mesh_peer *peer)
{
    int64_t now = loop_now_ms(peer->mesh->loop);
    if (!peer->wanted || peer->kept || peer->dial || peer->timer ||
        score_pruned(&peer->words, now) ||
        now - peer->used_ms < (peer->hidden ? HIDDEN_MS : TRY_MS))
        return;
    make_room(peer->mesh);
    redial(peer);
}

/* ---- sending ---- */

/* Backwards through the ROUTER. */
static bool
send_back(struct mesh_peer *peer, const struct buf *frame)
{
    void *socket = listener_socket(peer->mesh->listener);
    loop_socket_used(peer->mesh->loop, socket);
    if (zmq_send(socket, peer->route, peer->route_len, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno == EHOSTUNREACH)
            peer->back = false; /* settled in the next tick, or when it dials again */
        return false;
    }
    return zmq_send(socket, frame->data, frame->len, ZMQ_DONTWAIT) >= 0;
}

bool
mesh_send_direct(struct mesh_peer *peer, enum frame_kind kind, const void *body,
                 size_t len)
{
    struct mesh *mesh = peer->mesh;
    enum mesh_way way = mesh_direct(peer);
    if (way == MESH_NO_WAY)
        return false;
    uint64_t sequence = way == MESH_OUT ? ++peer->out_sent : ++peer->back_sent;
    buf_clear(&mesh->out);
    frame_pack_plain(&mesh->self, &mesh->options.swarm, kind, &peer->id, sequence, body,
                     len, &mesh->out);
    bool sent = way == MESH_OUT ? dial_send(peer->dial, mesh->out.data, mesh->out.len)
                                : send_back(peer, &mesh->out);
    if (!sent)
        return false;
    peer->used_ms = loop_now_ms(mesh->loop);
    peer->stats.sent_frames++;
    peer->stats.sent_bytes += mesh->out.len;
    return true;
}

int
mesh_send(struct mesh *mesh, const struct id *to, enum frame_kind kind, const void *body,
          size_t len, struct err *err)
{
    char name[ID_SHORT_SIZE];
    struct mesh_peer *peer = mesh_find(mesh, to);
    enum mesh_way way = peer ? way_of(peer) : MESH_NO_WAY;
    if (peer)
        peer->sought_ms = loop_now_ms(mesh->loop);
    if (way == MESH_ROUND)
        try_again(peer);
    if (way == MESH_NO_WAY) {
        if (peer && wait_for_dial(peer, kind, body, len))
            return 0;
        return err_set(err, ERR_PEER, "could not send to node %s: there is no connection",
                       id_short(to, name));
    }
    if (way == MESH_ROUND ? mesh_send_round(peer, kind, body, len)
                          : mesh_send_direct(peer, kind, body, len))
        return 0;
    return err_set(err, ERR_PEER,
                   "could not send to node %s: its queue is full, or it is going away",
                   id_short(to, name));
}

bool
mesh_connected(const struct mesh *mesh, const struct id *id)
{
    return mesh_way(mesh, id, NULL) != MESH_NO_WAY;
}

bool
mesh_evicts(const struct mesh *mesh, const struct id *id)
{
    const struct mesh_peer *peer = mesh_find(mesh, id);
    return peer && peer->evicts;
}

enum mesh_way
mesh_way(const struct mesh *mesh, const struct id *id, struct id *via)
{
    const struct mesh_peer *peer = mesh_find(mesh, id);
    enum mesh_way way = peer ? way_of(peer) : MESH_NO_WAY;
    if (via && way == MESH_ROUND)
        *via = peer->detour.via;
    return way;
}

/* ---- judging ---- */

void
mesh_judge(struct mesh_peer *peer)
{
    struct mesh *mesh = peer->mesh;
    int64_t now = loop_now_ms(mesh->loop);
    char name[ID_SHORT_SIZE];
    if (!score_prune(&peer->words, now))
        return;
    log_warn("transport",
             "peer hung up on for %d s: it says too much, or what makes no sense id=%s "
             "address=%s over=%llu senseless=%llu",
             SCORE_PRUNED_MS / 1000, id_short(&peer->id, name), peer->host,
             (unsigned long long)peer->words.over,
             (unsigned long long)peer->words.nonsense);
    listener_cut_fd(mesh->listener, peer->back_fd);
    peer->back = false;
    peer->detour.state = DETOUR_NONE;
    forget_waiting(peer);
    if (peer->kept && peer->wanted)
        redial(peer); /* when it is over */
    else
        hang_up(peer);
    mesh_settle(peer);
}

void
mesh_blame(struct mesh *mesh, const struct id *id)
{
    struct mesh_peer *peer = mesh_find(mesh, id);
    if (!peer)
        return;
    score_blame(&peer->words, loop_now_ms(mesh->loop), SCORE_NONSENSE);
    peer->stats.bad_frames++;
    mesh_judge(peer);
}

/* ---- public ---- */

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
    mesh->keep_all = true;
    mesh->listener = listener_open(loop, SOCKET_CONTROL, key_curve_secret(options->key),
                                   &options->listen, say_stranger, mesh, err);
    if (!mesh->listener) {
        free(mesh);
        return NULL;
    }
    listener_watch(mesh->listener, mesh_closed, mesh);
    loop_socket(loop, listener_socket(mesh->listener), mesh_receive, mesh);
    mesh->tick = loop_timer(loop, TICK_MS, on_tick, mesh);
    return mesh;
}

static void
peer_free(struct mesh_peer *peer)
{
    hang_up(peer);
    forget_waiting(peer);
    free(peer);
}

void
mesh_close(struct mesh *mesh)
{
    if (!mesh)
        return;
    mesh_check_close(mesh);
    loop_timer_cancel(mesh->loop, mesh->tick);
    for (int i = 0; i < mesh->count; i++)
        peer_free(mesh->peers[i]);
    loop_socket_cancel(mesh->loop, listener_socket(mesh->listener));
    listener_close(mesh->listener);
    buf_release(&mesh->out);
    buf_release(&mesh->inner);
    buf_release(&mesh->carry);
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
    struct mesh_peer *peer = mesh_find_or_add(mesh, id);
    if (!peer)
        return;
    if (peer->wanted && peer->base.port == base->port &&
        strcmp(peer->base.host, base->host) == 0)
        return;
    bool had = peer->dial || peer->timer;
    peer->wanted = true;
    peer->base = *base;
    peer->backoff_ms = 0;
    if (dialled_for(peer))
        redial(peer);
    else if (had)
        hang_up(peer);
}

void
mesh_forget(struct mesh *mesh, const struct id *id)
{
    int at = place(mesh, id);
    listener_cut(mesh->listener, id);
    if (at == mesh->count || !id_equal(&mesh->peers[at]->id, id))
        return;
    peer_free(mesh->peers[at]);
    mesh->count--;
    memmove(&mesh->peers[at], &mesh->peers[at + 1],
            (size_t)(mesh->count - at) * sizeof(struct mesh_peer *));
}

void
mesh_redial(struct mesh *mesh, const struct id *id)
{
    struct mesh_peer *peer = mesh_find(mesh, id);
    if (peer && peer->timer)
        redial(peer);
}

static int
compare_ids(const void *left, const void *right)
{
    return id_compare(left, right);
}

void
mesh_keep(struct mesh *mesh, const struct id *ids, size_t count)
{
    struct id *sorted = ids && count ? xmemdup(ids, count * sizeof(*ids)) : NULL;
    if (sorted)
        qsort(sorted, count, sizeof(*sorted), compare_ids);
    mesh->keep_all = ids == NULL;
    mesh->told = true;
    for (int i = 0; i < mesh->count; i++) {
        struct mesh_peer *peer = mesh->peers[i];
        bool kept =
            mesh->keep_all || (sorted && bsearch(&peer->id, sorted, count,
                                                 sizeof(*sorted), compare_ids) != NULL);
        if (kept && !peer->kept && peer->wanted && !peer->dial && !peer->timer) {
            peer->kept = true;
            redial(peer);
        }
        peer->kept = kept;
        if (!kept && peer->timer && peer->waiting_count == 0)
            hang_up(peer);
    }
    free(sorted);
}

void
mesh_hidden(struct mesh *mesh, const struct id *id, bool hidden)
{
    struct mesh_peer *peer = mesh_find(mesh, id);
    if (!peer || peer->hidden == hidden)
        return;
    peer->hidden = hidden;
    if (peer->timer && !hidden)
        redial(peer);
}

const char *
mesh_host(const struct mesh *mesh, const struct id *id)
{
    const struct mesh_peer *peer = mesh_find(mesh, id);
    return peer ? peer->host : "";
}

bool
mesh_stats(const struct mesh *mesh, const struct id *id, struct mesh_peer_stats *out)
{
    const struct mesh_peer *peer = mesh_find(mesh, id);
    if (!peer)
        return false;
    *out = peer->stats;
    out->over_frames = peer->words.over;
    out->pruned = score_pruned(&peer->words, loop_now_ms(mesh->loop));
    return true;
}

void
mesh_total(const struct mesh *mesh, struct mesh_totals *out)
{
    *out = (struct mesh_totals){.peers = mesh->count,
                                .carried = mesh->carried,
                                .carried_bytes = mesh->carried_bytes};
    for (int i = 0; i < mesh->count; i++) {
        enum mesh_way way = way_of(mesh->peers[i]);
        out->kept += mesh->peers[i]->kept;
        out->out += way == MESH_OUT;
        out->back += way == MESH_BACK;
        out->round += way == MESH_ROUND;
    }
}
