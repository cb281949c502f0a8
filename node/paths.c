/*
 * paths.c - the ways between nodes: peers are asked to dial us back and we dial them, the
 * record says what came of it, and the mesh is told whom to keep a connection to.
 */
#include "node/node.h"
#include "node/reach.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_EVERY_MS = 1000,
    ASK_GAP_MS = 300,  /* between two checks that we make for one peer */
    SETTLE_MS = 1000,  /* our record has to be known to whom we ask */
    OUTSIDE_MS = 10000 /* who waits to be a member has more urgent things to do */
};

/* ---- asking ---- */

static void
ask(struct node *node, int64_t now)
{
    struct id *peers = xcalloc(gossip_count(node->gossip), sizeof(*peers));
    size_t count = 0;
    for (size_t i = 0; i < gossip_count(node->gossip); i++) {
        const struct member *member = gossip_at(node->gossip, i);
        if (member->state == MEMBER_ALIVE && !id_equal(&member->record->id, &node->id) &&
            mesh_connected(node->mesh, &member->record->id))
            peers[count++] = member->record->id;
    }
    struct id peer;
    struct address base;
    uint64_t nonce;
    if (reach_ask(node->reach, now, peers, count, &peer, &base, &nonce)) {
        char text[ADDRESS_BYTES_MAX + 8];
        struct buf body = {0};
        address_text(&base, text);
        writer_array(&body, 2);
        writer_uint(&body, nonce);
        writer_text(&body, text);
        node_send(node, &peer, FRAME_REACH_ASK, &body);
        buf_release(&body);
    }
    free(peers);
}

static void
say_unreachable(struct node *node, const struct id *peer, const enum mesh_port ports[3])
{
    static const char *const uses[] = {"join", "control", "data"};
    char name[NAME_BYTES_MAX + 1], shut[96] = "";
    const struct address *base = reach_address(node->reach);
    for (int i = 0; i < 3; i++)
        if (ports[i] == MESH_PORT_SHUT || ports[i] == MESH_PORT_OTHER) {
            size_t at = strlen(shut);
            snprintf(shut + at, sizeof(shut) - at, "%s%d (%s%s)", at ? ", " : "",
                     base->port + i, uses[i],
                     ports[i] == MESH_PORT_OTHER ? ": somebody else answers" : "");
        }
    log_warn(
        "node",
        "%s cannot reach this node at %s, port %s; open the ports in the firewall or "
        "forward them, and say which address leads here with --advertise; meanwhile "
        "others speak to it by the connections that it opens itself",
        node_name_of(node, peer, name), base->host, shut);
}

/* What is known of our address changed: others hear it by our record. */
static void
changed(struct node *node, const struct id *peer, const enum mesh_port ports[3])
{
    enum record_reach verdict = reach_verdict(node->reach);
    char text[ADDRESS_BYTES_MAX + 8];
    node->config.advertise = *reach_address(node->reach);
    address_text(&node->config.advertise, text);
    log_info("node", "this node is %s address=%s", reach_verdict_name(verdict), text);
    if (verdict == REACH_NONE || verdict == REACH_SOME)
        say_unreachable(node, peer, ports);
    struct json_writer *writer = events_begin(node->events, "reach");
    json_put_text(writer, "address", text);
    json_put_text(writer, "verdict", reach_verdict_name(verdict));
    events_end(node->events);
    enter_record(node);
}

int
paths_reply(struct node *node, const struct frame *frame, struct err *err)
{
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    char host[MESH_HOST_BYTES_MAX];
    enum mesh_port ports[3];
    reader_enter(reader, 3, 3);
    uint64_t nonce = reader_uint(reader, UINT64_MAX);
    reader_text(reader, host, sizeof(host));
    reader_enter(reader, 3, 3);
    for (int i = 0; i < 3; i++)
        ports[i] = (enum mesh_port)reader_uint(reader, MESH_PORT_UNTRIED);
    reader_leave(reader);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (reach_answered(node->reach, clock_ms(), &frame->from, nonce, host, ports))
        changed(node, &frame->from, ports);
    return 0;
}

/* ---- answering ---- */

static void
answer(struct node *node, const struct id *to, uint64_t nonce,
       const enum mesh_port ports[3])
{
    struct buf body = {0};
    writer_array(&body, 3);
    writer_uint(&body, nonce);
    writer_text(&body, mesh_host(node->mesh, to));
    writer_array(&body, 3);
    for (int i = 0; i < 3; i++)
        writer_uint(&body, ports[i]);
    node_send(node, to, FRAME_REACH_REPLY, &body);
    buf_release(&body);
}

static void
checked(void *arg, const struct id *peer, const struct address *base,
        const enum mesh_port ports[3])
{
    (void)base;
    struct node *node = arg;
    answer(node, peer, node->checks.nonce, ports);
    node_effects(node);
}

/* We dial what is its own: the address of its record, or the one that it comes from. */
static bool
its_own(const struct node *node, const struct id *id, const struct address *base)
{
    const struct member *member = gossip_find(node->gossip, id);
    struct address recorded;
    struct err err;
    if (!member || address_parse(member->record->address, &recorded, &err) ||
        recorded.port != base->port)
        return false;
    return strcmp(recorded.host, base->host) == 0 ||
           strcmp(mesh_host(node->mesh, id), base->host) == 0;
}

int
paths_ask(struct node *node, const struct frame *frame, struct err *err)
{
    static const enum mesh_port untried[3] = {MESH_PORT_UNTRIED, MESH_PORT_UNTRIED,
                                              MESH_PORT_UNTRIED};
    struct reader *reader = reader_open(frame->body, frame->body_len, err);
    if (!reader)
        return -1;
    char text[ADDRESS_BYTES_MAX + 8];
    struct address base;
    reader_enter(reader, 2, 2);
    uint64_t nonce = reader_uint(reader, UINT64_MAX);
    reader_text(reader, text, sizeof(text));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return -1;
    if (address_parse(text, &base, err))
        return err_set(err, ERR_WIRE, "what is to be dialled back is no address");
    int64_t now = clock_ms();
    struct err busy;
    struct id from = frame->from;
    bool early =
        id_equal(&node->checks.last, &from) && now - node->checks.at_ms < ASK_GAP_MS;
    if (early || !its_own(node, &from, &base) ||
        mesh_check(node->mesh, &from, &base, node->secret, checked, node, &busy)) {
        answer(node, &from, nonce, untried);
        return 0;
    }
    node->checks.last = from;
    node->checks.nonce = nonce;
    node->checks.at_ms = now;
    return 0;
}

/* ---- whom to keep ---- */

static bool
let_in(const struct node *node, const struct id *id)
{
    for (int i = 0; i < node->let_in_count; i++)
        if (id_equal(&node->let_in[i].id, id))
            return true;
    return false;
}

/* Those who decide or work with us, and those by whom we are in the swarm. */
static bool
to_keep(const struct node *node, const struct member *member)
{
    const struct id *id = &member->record->id;
    if (agree_role(node->agree) == AGREE_LEADER && member->state == MEMBER_ALIVE)
        return true;
    if (decree_voter(&node->decree, id) || id_equal(agree_leader(node->agree), id) ||
        let_in(node, id))
        return true;
    if (!node->member) { /* a joiner is known by its seed alone, at first */
        char seed[ADDRESS_BYTES_MAX + 8];
        address_text(&node->seed, seed);
        if (strcmp(seed, member->record->address) == 0)
            return true;
    }
    return node->view->planned &&
           view_worker(node->view, view_node(node->view, &node->id)) &&
           view_worker(node->view, view_node(node->view, id));
}

static void
keep(struct node *node)
{
    size_t known = gossip_count(node->gossip), count = 0, alive = 0;
    if (known <= REACH_KEEP_ALL_MAX) {
        mesh_keep(node->mesh, NULL, 0);
        return;
    }
    struct id *kept = xcalloc(known + REACH_NEIGHBOURS, sizeof(*kept));
    struct id *others = xcalloc(known, sizeof(*others));
    for (size_t i = 0; i < known; i++) {
        const struct member *member = gossip_at(node->gossip, i);
        if (id_equal(&member->record->id, &node->id))
            continue;
        if (member->state == MEMBER_ALIVE)
            others[alive++] = member->record->id;
        if (to_keep(node, member))
            kept[count++] = member->record->id;
    }
    for (int i = 0; i < node->let_in_count; i++)
        if (!gossip_find(node->gossip, &node->let_in[i].id) && count < known)
            kept[count++] = node->let_in[i].id;
    count += reach_neighbours(&node->id, others, alive, kept + count, REACH_NEIGHBOURS);
    mesh_keep(node->mesh, kept, count);
    free(others);
    free(kept);
}

/* ---- what others are ---- */

bool
paths_hidden(const struct node *node, const struct id *id)
{
    const struct member *member = gossip_find(node->gossip, id);
    return member && member->record->reach == REACH_NONE;
}

void
paths_met(struct node *node, const struct id *id)
{
    mesh_hidden(node->mesh, id, paths_hidden(node, id));
}

void
paths_tick(struct node *node, int64_t now)
{
    if (now - node->entered_ms >= (node->member ? SETTLE_MS : OUTSIDE_MS) &&
        !node->leaving_ms)
        ask(node, now);
    if (now - node->checks.kept_ms < KEEP_EVERY_MS)
        return;
    node->checks.kept_ms = now;
    keep(node);
}
