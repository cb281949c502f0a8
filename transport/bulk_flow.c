#include "transport/bulk_flow.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/bulk_flow_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    CREDIT_AT_ONCE_BYTES = 16 << 10, /* a chunk this large is credited by itself */
    CREDIT_BATCH_BYTES = 64 << 10    /* smaller ones together */
};

/* ---- what comes out ---- */

void
flow_finish(struct flow *flow, const struct flow_op *op, enum err_code code, uint64_t tag,
            uint64_t bytes)
{
    if (op->port < 0)
        return; /* nobody waits for it */
    struct flow_done done = {op->port, op->handle, code, tag, bytes};
    queue_put(&flow->done, &done);
}

static int
peer_find(const struct flow *flow, const struct id *id)
{
    for (int p = 0; p < flow->peers_count; p++)
        if (id_equal(&flow->peers[p].id, id))
            return p;
    return -1;
}

static void
report(struct flow *flow, enum bulk_event_kind kind, int peer, const struct id *id)
{
    struct bulk_event event = {
        .kind = kind, .peer = peer, .id = *id, .epoch = flow->epoch};
    queue_put(&flow->events, &event);
}

static void
park_count(struct flow *flow, int64_t bytes)
{
    flow->counts.parked_bytes += (uint64_t)bytes;
    if (flow->counts.parked_bytes > flow->counts.parked_bytes_most)
        flow->counts.parked_bytes_most = flow->counts.parked_bytes;
}

void
flow_queued(struct flow *flow, int peer, enum bulk_channel channel, int change)
{
    flow->queued[channel] += change;
    flow->peers[peer].queued += change;
}

void
flow_probe_over(struct flow *flow, int peer)
{
    if (!flow->peers[peer].probing)
        return;
    flow->peers[peer].probing = flow->peers[peer].probe.active = false;
    struct bulk_event event = {.kind = BULK_PROBED,
                               .peer = peer,
                               .id = flow->peers[peer].id,
                               .epoch = flow->epoch,
                               .bytes = (int64_t)flow->peers[peer].probe.sent_bytes};
    queue_put(&flow->events, &event);
    flow_queued(flow, peer, BULK_PROBE, -1);
}

/* ---- life ---- */

struct flow *
flow_new(void)
{
    struct flow *flow = xcalloc(1, sizeof(*flow));
    flow->early = early_new();
    flow->done.element = sizeof(struct flow_done);
    flow->events.element = sizeof(struct bulk_event);
    return flow;
}

/* End every operation and forget every chunk of the epoch. */
static void
stop(struct flow *flow)
{
    struct flow_op op;
    for (int p = 0; p < flow->peers_count; p++) {
        struct peer *peer = &flow->peers[p];
        for (int c = 0; c < BULK_CHANNELS; c++) {
            while (queue_take(&peer->out[c].sends, &op))
                flow_finish(flow, &op, ERR_STOPPED, 0, 0);
            while (queue_take(&peer->in[c].receives, &op))
                flow_finish(flow, &op, ERR_STOPPED, 0, 0);
            while (peer->in[c].first) {
                struct flow_chunk *chunk = peer->in[c].first;
                peer->in[c].first = chunk->next;
                park_count(flow, -(int64_t)chunk->header.length);
                chunk->release(chunk);
            }
            peer->in[c].last = NULL;
            peer->in[c].due = false;
        }
        flow_probe_over(flow, p);
        peer->queued = 0;
        peer->hello = peer->held = false;
        peer->starved = true;
    }
    memset(flow->queued, 0, sizeof(flow->queued));
    flow->hellos = flow->dues = flow->awaited = flow->held = 0;
}

static void
forget(struct flow *flow)
{
    stop(flow);
    for (int p = 0; p < flow->peers_count; p++)
        for (int c = 0; c < BULK_CHANNELS; c++) {
            free(flow->peers[p].out[c].sends.data);
            free(flow->peers[p].in[c].receives.data);
        }
    free(flow->peers);
    flow->peers = NULL;
    flow->peers_count = 0;
}

void
flow_free(struct flow *flow)
{
    if (!flow)
        return;
    forget(flow);
    early_free(flow->early);
    free(flow->done.data);
    free(flow->events.data);
    free(flow);
}

void
flow_enter(struct flow *flow, const struct bulk_epoch *epoch, int64_t now_us)
{
    must(!flow->entered ||
         early_order(epoch->generation, epoch->epoch, flow->generation, flow->epoch) > 0);
    must(epoch->peers_count >= 0 && epoch->peers_count <= PLAN_NODES_MAX);
    must(epoch->self >= -1 && epoch->self < epoch->peers_count);
    forget(flow);
    flow->entered = true;
    flow->halted = epoch->self < 0;
    flow->generation = epoch->generation;
    flow->epoch = epoch->epoch;
    flow->plan_tag = epoch->plan_tag;
    flow->self = epoch->self;
    flow->peers_count = epoch->peers_count;
    flow->peers = xcalloc((size_t)epoch->peers_count + 1, sizeof(*flow->peers));
    memset(flow->turn, 0, sizeof(flow->turn));
    flow->due_turn = 0;
    for (int p = 0; p < epoch->peers_count; p++) {
        struct peer *peer = &flow->peers[p];
        peer->id = epoch->peers[p].id;
        peer->starved = true;
        for (int c = 0; c < BULK_CHANNELS; c++)
            peer->out[c].sends.element = peer->in[c].receives.element =
                sizeof(struct flow_op);
    }
    for (int p = 0; p < epoch->peers_count; p++) {
        struct flow_chunk *chunk;
        struct id id = flow->peers[p].id;
        while ((chunk = early_take(flow->early, &id, flow->generation, flow->epoch,
                                   &flow->counts.parked_bytes)))
            flow_arrive(flow, &id, &chunk, now_us);
    }
    early_drop(flow->early, flow->generation, flow->epoch, &flow->counts.parked_bytes);
}

void
flow_halt(struct flow *flow)
{
    stop(flow);
    flow->halted = true;
}

uint64_t
flow_epoch(const struct flow *flow)
{
    return flow->epoch;
}

void
flow_up(struct flow *flow, int peer, enum bulk_way way, const struct id *via)
{
    must(peer >= 0 && peer < flow->peers_count);
    struct peer *to = &flow->peers[peer];
    if (to->up)
        return;
    struct bulk_event event = {
        .kind = BULK_UP, .peer = peer, .id = to->id, .epoch = flow->epoch, .way = way};
    if (way == BULK_ROUND)
        event.via = *via;
    queue_put(&flow->events, &event);
    to->narrow = way == BULK_ROUND;
    to->up = true;
    to->blocked = false;
    if (flow->halted)
        return;
    to->hello = true;
    flow->hellos++;
}

void
flow_down(struct flow *flow, int peer)
{
    must(peer >= 0 && peer < flow->peers_count);
    struct peer *to = &flow->peers[peer];
    to->up = false;
    flow_probe_over(flow, peer);
    if (to->hello)
        flow->hellos--;
    to->hello = false;
}

void
flow_blocked(struct flow *flow, int peer, bool blocked)
{
    must(peer >= 0 && peer < flow->peers_count);
    flow->peers[peer].blocked = blocked;
}

bool
flow_is_blocked(const struct flow *flow, int peer)
{
    return flow->peers[peer].blocked;
}

bool
flow_wanted(const struct flow *flow, int peer)
{
    return flow->peers[peer].queued > 0;
}

/* ---- receiving ---- */

/* The peer breaks the protocol: its stream cannot go on in this epoch. */
static void
broken(struct flow *flow, int peer)
{
    flow->counts.bad++;
    if (flow->peers[peer].broken)
        return;
    flow->peers[peer].broken = true;
    report(flow, BULK_LOST, peer, &flow->peers[peer].id);
}

bool
flow_reducing(const struct flow *flow)
{
    return flow->awaited > 0 || flow->queued[BULK_REDUCE] > 0;
}

/* Credit is due, and for large chunks at once. A probe's waits while we reduce. */
static void
credit_due(struct flow *flow, struct peer *peer, enum bulk_channel channel, bool at_once)
{
    struct inlet *in = &peer->in[channel];
    if (channel == BULK_PROBE && flow_reducing(flow)) {
        flow->held += !peer->held;
        peer->held = true;
        return;
    }
    if (!in->due && (at_once || in->taken - in->told >= CREDIT_BATCH_BYTES)) {
        in->due = true;
        flow->dues++;
    }
}

void
flow_release_held(struct flow *flow)
{
    for (int p = 0; p < flow->peers_count && flow->held > 0 && !flow_reducing(flow);
         p++) {
        struct peer *peer = &flow->peers[p];
        if (!peer->held)
            continue;
        peer->held = false;
        flow->held--;
        credit_due(flow, peer, BULK_PROBE, true);
    }
}

/* The first parked chunk has served: account for its credit. */
static void
consume(struct flow *flow, struct peer *peer, enum bulk_channel channel)
{
    struct inlet *in = &peer->in[channel];
    struct flow_chunk *chunk = in->first;
    in->first = chunk->next;
    if (!in->first)
        in->last = NULL;
    in->taken += (uint64_t)chunk->header.length + FLOW_CHUNK_COST;
    credit_due(flow, peer, channel,
               chunk->header.length >= CREDIT_AT_ONCE_BYTES || channel == BULK_PROBE);
    park_count(flow, -(int64_t)chunk->header.length);
    chunk->release(chunk);
}

static void
received(struct flow *flow, enum bulk_channel channel, struct inlet *in)
{
    queue_drop(&in->receives);
    if (channel == BULK_REDUCE && --flow->awaited == 0)
        flow_release_held(flow);
}

/* Bring together what was posted and what came. */
static void
match(struct flow *flow, struct peer *peer, enum bulk_channel channel)
{
    struct inlet *in = &peer->in[channel];
    while (in->first) {
        const struct chunk_header *header = &in->first->header;
        bool last = header->offset + header->length == header->total;
        if (in->skipping || channel == BULK_PROBE) {
            in->skipping = !last && in->skipping;
            consume(flow, peer, channel);
            continue;
        }
        if (!in->receives.count)
            return;
        const struct flow_op *op = queue_at(&in->receives, 0);
        if (!header->offset && (header->tag != op->tag || header->total != op->bytes)) {
            flow_finish(flow, op, ERR_WIRE, header->tag, header->total);
            received(flow, channel, in);
            in->skipping = !last;
            consume(flow, peer, channel);
            continue;
        }
        if (header->length)
            memcpy((uint8_t *)op->target + header->offset, in->first->payload,
                   header->length);
        if (last) {
            flow_finish(flow, op, ERR_NONE, 0, 0);
            received(flow, channel, in);
        }
        consume(flow, peer, channel);
    }
}

/* Does the chunk come next in its channel? Says so by moving on. */
static bool
in_order(struct inlet *in, const struct chunk_header *header)
{
    if (header->number != in->number || header->offset != in->offset)
        return false;
    if (in->offset && (header->tag != in->tag || header->total != in->total))
        return false;
    in->tag = header->tag;
    in->total = header->total;
    in->offset += header->length;
    if (in->offset == in->total) {
        in->offset = 0;
        in->number++;
    }
    return true;
}

static void
report_rate(struct flow *flow, const struct peer *peer, const struct rate_sample *sample)
{
    struct bulk_event event = {.kind = BULK_RATE,
                               .peer = (int)(peer - flow->peers),
                               .id = peer->id,
                               .epoch = flow->epoch,
                               .bytes = sample->bytes,
                               .us = sample->us,
                               .limited = sample->limited,
                               .probe = sample->probe};
    memcpy(event.curve, sample->curve, sizeof(event.curve));
    queue_put(&flow->events, &event);
}

/* What the chunk's arrival says of the link that it came by. */
static void
measure(struct flow *flow, struct peer *peer, const struct chunk_header *header,
        int64_t now_us)
{
    struct inlet *in = &peer->in[header->channel];
    struct rate_sample sample;
    bool follows = header->flags & CHUNK_FOLLOWS, told;
    if (header->channel == BULK_PROBE) {
        struct rate_probe_chunk chunk = {.tag = header->tag,
                                         .bytes = header->length,
                                         .follows = follows,
                                         .last = header->flags & CHUNK_LAST};
        told = rate_probed(&peer->rate, &chunk, now_us, &peer->enough, &sample);
    } else {
        if (!header->offset) {
            in->began_us = now_us;
            in->began_bytes = header->length;
        } else {
            rate_message(&peer->rate, in->began_bytes, (int64_t)header->offset,
                         (int64_t)header->offset + header->length, now_us - in->began_us);
        }
        told = rate_arrived(&peer->rate, header->length, follows, now_us, &sample);
    }
    if (told)
        report_rate(flow, peer, &sample);
}

static void
arrive_now(struct flow *flow, int from, struct flow_chunk **chunk, int64_t now_us)
{
    struct peer *peer = &flow->peers[from];
    const struct chunk_header *header = &(*chunk)->header;
    struct inlet *in = &peer->in[header->channel];
    peer->route = (*chunk)->route;
    if (header->type != CHUNK_DATA || peer->broken)
        return;
    uint64_t cost = (uint64_t)header->length + FLOW_CHUNK_COST;
    if (in->arrived - in->taken + cost > BULK_WINDOW_BYTES || !in_order(in, header)) {
        broken(flow, from);
        return;
    }
    in->arrived += cost;
    park_count(flow, header->length);
    measure(flow, peer, header, now_us);
    (*chunk)->next = NULL;
    if (in->last)
        in->last->next = *chunk;
    else
        in->first = *chunk;
    in->last = *chunk;
    enum bulk_channel channel = header->channel;
    *chunk = NULL;
    match(flow, peer, channel);
}

void
flow_arrive(struct flow *flow, const struct id *from, struct flow_chunk **chunk,
            int64_t now_us)
{
    const struct chunk_header *header = &(*chunk)->header;
    int peer = peer_find(flow, from);
    int order = flow->entered ? early_order(header->generation, header->epoch,
                                            flow->generation, flow->epoch)
                              : 1;
    if (order > 0) {
        if (early_report(flow->early, from, true, now_us))
            report(flow, BULK_NEWER, peer, from);
        if (header->type == CHUNK_DATA)
            early_park(flow->early, from, chunk, &flow->counts.parked_bytes);
        park_count(flow, 0);
    } else if (order < 0) {
        flow->counts.stale++;
        if (early_report(flow->early, from, false, now_us))
            report(flow, BULK_STALE, peer, from);
    } else if (flow->halted && header->channel != BULK_PROBE) {
        flow->counts.refused++;
    } else if (peer < 0 || peer == flow->self || header->plan_tag != flow->plan_tag) {
        flow->counts.bad++;
    } else {
        arrive_now(flow, peer, chunk, now_us);
    }
    if (*chunk)
        (*chunk)->release(*chunk);
    *chunk = NULL;
}

bool
flow_next_credit(struct flow *flow, struct flow_out *out)
{
    if (!flow->dues)
        return false;
    for (int i = 0; i < flow->peers_count; i++) {
        int p = (flow->due_turn + i) % flow->peers_count;
        struct peer *peer = &flow->peers[p];
        for (int c = 0; c < BULK_CHANNELS; c++) {
            struct inlet *in = &peer->in[c];
            if (!in->due)
                continue;
            *out = (struct flow_out){
                .peer = p,
                .header = {.type = CHUNK_CREDIT,
                           .channel = (enum bulk_channel)c,
                           .flags = c == BULK_PROBE && peer->enough ? CHUNK_ENOUGH : 0,
                           .generation = flow->generation,
                           .epoch = flow->epoch,
                           .plan_tag = flow->plan_tag,
                           .number = in->taken},
                .route = peer->route};
            in->told = in->taken;
            in->due = false;
            flow->dues--;
            flow->due_turn = (p + 1) % flow->peers_count;
            return true;
        }
    }
    must(flow->dues == 0); /* a credit is due and nobody's */
    return false;
}

void
flow_credit_unsent(struct flow *flow, const struct flow_out *out)
{
    struct inlet *in = &flow->peers[out->peer].in[out->header.channel];
    if (!in->due)
        flow->dues++;
    in->due = true;
}

/* ---- sending ---- */

void
flow_post(struct flow *flow, const struct flow_op *op)
{
    must(op->channel >= 0 && op->channel < BULK_PROBE);
    if (!flow->entered || flow->halted || op->epoch != flow->epoch) {
        flow_finish(flow, op, ERR_STOPPED, 0, 0);
        return;
    }
    if (op->peer < 0 || op->peer >= flow->peers_count || op->peer == flow->self) {
        flow_finish(flow, op, ERR_USAGE, 0, 0);
        return;
    }
    struct peer *peer = &flow->peers[op->peer];
    if (op->receive) {
        queue_put(&peer->in[op->channel].receives, op);
        flow->awaited += op->channel == BULK_REDUCE;
        match(flow, peer, op->channel);
        return;
    }
    struct outlet *out = &peer->out[op->channel];
    queue_put(&out->sends, op);
    if (out->sends.count == 1)
        flow_queued(flow, op->peer, op->channel, 1);
}

/* ---- what the owner pulls ---- */

void
flow_report(struct flow *flow, enum bulk_event_kind kind, int peer)
{
    must(peer >= 0 && peer < flow->peers_count);
    report(flow, kind, peer, &flow->peers[peer].id);
}

bool
flow_take_done(struct flow *flow, struct flow_done *done)
{
    return queue_take(&flow->done, done);
}

bool
flow_take_event(struct flow *flow, struct bulk_event *event)
{
    return queue_take(&flow->events, event);
}

void
flow_count(const struct flow *flow, struct flow_counts *counts)
{
    *counts = flow->counts;
}
