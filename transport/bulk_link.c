#include "transport/base/alloc.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/bulk_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 20,
    REDIAL_FAST_MS = 20, /* a peer's admission may not know us for a moment */
    REDIAL_SLOW_MS = 100,
    REDIAL_HIDDEN_MS = 1000,
    REDIAL_FAST_FOR_MS = 1000,
    LOST_AFTER_MS = 2000,
    BACK_AFTER_MS = 300, /* our dial fails for so long: its connection will do */
    ROUND_VAGUE_MS = 1500,
    ROUND_AFTER_MS = 600, /* ... and there is none: somebody else may carry */
    CARRIERS_MAX = 64
};

struct conn *
link_find(const struct bulk *bulk, const struct id *id)
{
    for (int p = 0; p < bulk->conns_count; p++)
        if (bulk->conns[p] && id_equal(&bulk->conns[p]->peer.id, id))
            return bulk->conns[p];
    return NULL;
}

/* ---- their connections to us ---- */

static struct back *
find_back(const struct bulk *bulk, const struct id *id)
{
    for (size_t i = 0; i < bulk->backs_count; i++)
        if (id_equal(&bulk->backs[i].id, id))
            return &bulk->backs[i];
    return NULL;
}

void
link_back(struct bulk *bulk, const struct id *id, const struct flow_route *route, int fd)
{
    struct back *back = find_back(bulk, id);
    if (fd < 0)
        return;
    if (!back && bulk->backs_count == bulk->backs_capacity) {
        if (bulk->backs_capacity >= PLAN_NODES_MAX)
            return;
        bulk->backs_capacity = bulk->backs_capacity ? 2 * bulk->backs_capacity : 16;
        bulk->backs = xrealloc(bulk->backs, bulk->backs_capacity, sizeof(*bulk->backs));
    }
    if (!back)
        back = &bulk->backs[bulk->backs_count++];
    *back = (struct back){.id = *id, .fd = fd, .route = *route};
}

static bool
same_route(const struct flow_route *a, const struct flow_route *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

void
link_back_closed(void *arg, int fd)
{
    struct bulk *bulk = arg;
    for (size_t i = 0; i < bulk->backs_count; i++) {
        struct back back = bulk->backs[i];
        if (back.fd != fd)
            continue;
        bulk->backs[i] = bulk->backs[--bulk->backs_count];
        struct conn *conn = link_find(bulk, &back.id);
        if (conn && conn->way == BULK_BACK && same_route(&conn->back, &back.route))
            link_lost(conn);
        return;
    }
}

/* ---- ways ---- */

static void
take_way(struct conn *conn, enum bulk_way way)
{
    conn->way = way;
    flow_up(conn->bulk->flow, conn->number, way, &conn->detour.via);
}

/* The best way that there is, if none was chosen in this epoch. */
static void
choose_way(struct conn *conn, int64_t now)
{
    if (conn->way != BULK_NO_WAY || conn->lost)
        return;
    const struct back *back = find_back(conn->bulk, &conn->peer.id);
    bool failing = conn->failed_ms && now - conn->failed_ms >= BACK_AFTER_MS;
    if (conn->up) {
        take_way(conn, BULK_OUT);
    } else if (back && (failing || conn->peer.hidden)) {
        conn->back = back->route;
        take_way(conn, BULK_BACK);
    } else if (conn->detour.state == DETOUR_UP && (failing || conn->peer.hidden)) {
        take_way(conn, BULK_ROUND);
    }
}

void
link_lost(struct conn *conn)
{
    if (conn->way == BULK_NO_WAY)
        return;
    conn->way = BULK_NO_WAY;
    conn->lost = true;
    conn->credit_stuck = false;
    flow_down(conn->bulk->flow, conn->number);
    flow_report(conn->bulk->flow, BULK_LOST, conn->number);
    carry_forget(conn);
}

/* ---- our connections ---- */

static void
hang_up(struct conn *conn)
{
    if (!conn->dial)
        return;
    loop_fd_cancel(conn->bulk->loop, conn->fd);
    dial_close(conn->dial);
    conn->dial = NULL;
    conn->up = false;
}

static void
conn_event(void *arg, enum dial_event event)
{
    struct conn *conn = arg;
    int64_t now = loop_now_ms(conn->bulk->loop);
    if (event == DIAL_UP) {
        conn->up = true;
        choose_way(conn, now);
        return;
    }
    hang_up(conn);
    if (event == DIAL_DOWN && conn->way == BULK_OUT) {
        link_lost(conn);
        return;
    }
    /* Who denies us is there, and will know us soon; who hangs up may only be slow. */
    if (!conn->failed_ms && event != DIAL_DENIED)
        conn->failed_ms = now;
    conn->vague = event != DIAL_NOBODY;
    bool fast = now - conn->began_ms < REDIAL_FAST_FOR_MS;
    conn->dial_at_ms = now + (conn->peer.hidden ? REDIAL_HIDDEN_MS
                              : fast            ? REDIAL_FAST_MS
                                                : REDIAL_SLOW_MS);
}

static void
stirred(void *arg, int fd)
{
    (void)arg;
    (void)fd; /* all sockets are looked at in each turn */
}

static void
dial(struct conn *conn)
{
    struct bulk *bulk = conn->bulk;
    uint8_t server[KEY_CURVE_BYTES];
    conn->dial_at_ms = loop_now_ms(bulk->loop) + REDIAL_SLOW_MS; /* if it cannot be */
    if (!key_curve_of(&conn->peer.id, server))
        return; /* nobody can have this id; reported as lost after a while */
    struct dial_options options = {
        .plane = SOCKET_BULK,
        .base = bulk->routes ? *address_route(bulk->routes, &conn->peer.base)
                             : conn->peer.base,
        .curve_public = key_curve_public(bulk->key),
        .curve_secret = key_curve_secret(bulk->key),
        .server_public = server,
    };
    struct err err;
    conn->dial = dial_open(bulk->loop, &options, conn_event, conn, &err);
    if (!conn->dial) {
        log_limited(LOG_WARN, "transport", "no bulk connection: %s", err.msg);
        if (!conn->failed_ms)
            conn->failed_ms = loop_now_ms(bulk->loop);
        return;
    }
    conn->fd = wire_fd(dial_socket(conn->dial));
    loop_fd(bulk->loop, conn->fd, stirred, conn);
}

/* ---- ways round ---- */

/* Ask for a way round, or look after the one there is. */
static void
look_round(struct conn *conn, int64_t now, const struct id *self)
{
    struct bulk *bulk = conn->bulk;
    bool failing = conn->failed_ms && now - conn->failed_ms >=
                                          (conn->vague ? ROUND_VAGUE_MS : ROUND_AFTER_MS);
    if (conn->lost || conn->way == BULK_OUT || conn->way == BULK_BACK ||
        (conn->detour.state == DETOUR_NONE && !failing && !conn->peer.hidden))
        return;
    struct id carriers[CARRIERS_MAX];
    size_t count = 0;
    for (int p = 0; p < bulk->conns_count && count < CARRIERS_MAX; p++)
        if (bulk->conns[p] && bulk->conns[p] != conn &&
            (bulk->conns[p]->way == BULK_OUT || bulk->conns[p]->way == BULK_BACK))
            carriers[count++] = bulk->conns[p]->peer.id;
    struct id via_before = conn->detour.via;
    const struct id *via =
        detour_tick(&conn->detour, now, self, &conn->peer.id, carriers, count);
    if (conn->way == BULK_ROUND &&
        (conn->detour.state != DETOUR_UP || !id_equal(&conn->detour.via, &via_before)))
        link_lost(conn);
    if (!via)
        return;
    struct chunk_header hello = bulk->epoch;
    hello.type = CHUNK_HELLO;
    carry_send(conn, via, &hello, NULL);
}

/* ---- time ---- */

/* True: it has to be looked at again. */
static bool
look_after(struct conn *conn, int64_t now)
{
    struct bulk *bulk = conn->bulk;
    bool idle = conn->peer.lazy && !flow_wanted(bulk->flow, conn->number);
    if (conn->lost || (conn->way == BULK_OUT && !conn->credit_stuck && !conn->first))
        return false;
    conn->credit_stuck = false;
    if (!conn->up && !conn->dial && now >= conn->dial_at_ms && !idle &&
        conn->way == BULK_NO_WAY)
        dial(conn);
    choose_way(conn, now);
    look_round(conn, now, key_id(bulk->key));
    choose_way(conn, now);
    if (conn->way == BULK_BACK || conn->way == BULK_ROUND)
        flow_blocked(bulk->flow, conn->number, false); /* nothing tells when it is over */
    if (conn->way == BULK_NO_WAY && !conn->lost && now >= conn->lost_at_ms) {
        conn->lost_at_ms = now + LOST_AFTER_MS;
        if (!idle)
            flow_report(bulk->flow, BULK_LOST, conn->number);
    }
    return true;
}

static void
tick(void *arg)
{
    struct bulk *bulk = arg;
    int64_t now = loop_now_ms(bulk->loop);
    bool more = false;
    for (int p = 0; p < bulk->conns_count; p++)
        if (bulk->conns[p])
            more |= look_after(bulk->conns[p], now);
    if (!more && bulk->tick) {
        loop_timer_cancel(bulk->loop, bulk->tick);
        bulk->tick = 0;
    }
}

void
link_tick_on(struct bulk *bulk)
{
    if (!bulk->tick)
        bulk->tick = loop_timer(bulk->loop, TICK_MS, tick, bulk);
}

/* ---- epochs ---- */

static void
conn_free(struct conn *conn)
{
    if (!conn)
        return;
    hang_up(conn);
    carry_forget(conn);
    free(conn);
}

/* The connection to this peer, if one from the last epoch is healthy: it is kept, since a
 * new one costs round trips. */
static struct conn *
conn_keep(struct conn **old, int old_count, const struct bulk_peer *peer)
{
    for (int i = 0; i < old_count; i++) {
        struct conn *conn = old[i];
        if (!conn || !id_equal(&conn->peer.id, &peer->id) || !conn->up ||
            strcmp(conn->peer.base.host, peer->base.host) != 0 ||
            conn->peer.base.port != peer->base.port)
            continue;
        old[i] = NULL;
        return conn;
    }
    return NULL;
}

void
link_renew(struct bulk *bulk, const struct bulk_epoch *epoch)
{
    struct conn **old = bulk->conns;
    int old_count = bulk->conns_count;
    bool member = epoch->self >= 0;
    bulk->epoch = (struct chunk_header){.generation = epoch->generation,
                                        .epoch = epoch->epoch,
                                        .plan_tag = epoch->plan_tag};
    bulk->conns_count = member ? epoch->peers_count : 0;
    bulk->conns = xcalloc((size_t)bulk->conns_count + 1, sizeof(struct conn *));
    int64_t now = loop_now_ms(bulk->loop);
    for (int p = 0; p < bulk->conns_count; p++) {
        if (p == epoch->self)
            continue;
        struct conn *conn = conn_keep(old, old_count, &epoch->peers[p]);
        if (!conn) {
            conn = xcalloc(1, sizeof(*conn));
            conn->bulk = bulk;
        }
        carry_forget(conn);
        conn->peer = epoch->peers[p];
        conn->number = p;
        conn->began_ms = conn->dial_at_ms = now;
        conn->failed_ms = 0;
        conn->vague = false;
        conn->lost_at_ms = now + LOST_AFTER_MS;
        conn->way = BULK_NO_WAY;
        conn->lost = conn->credit_stuck = false;
        conn->detour = (struct detour){0};
        key_random(conn->session, sizeof(conn->session));
        conn->sealed = 0;
        bulk->conns[p] = conn;
        choose_way(conn, now);
    }
    for (int i = 0; i < old_count; i++)
        conn_free(old[i]);
    free(old);
    link_tick_on(bulk);
    tick(bulk);
}

void
link_close(struct bulk *bulk)
{
    for (int p = 0; p < bulk->conns_count; p++)
        conn_free(bulk->conns[p]);
    free(bulk->conns);
    free(bulk->backs);
}
