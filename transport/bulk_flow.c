#include "transport/bulk_flow.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/bulk_early.h"
#include "transport/bulk_rate.h"

#include <stdlib.h>
#include <string.h>

enum {
    CREDIT_AT_ONCE_BYTES =
        16 << 10, /* a chunk this large is credited by itself: its time is measured */
    CREDIT_BATCH_BYTES = 64 << 10,  /* smaller ones together */
    RATE_MESSAGE_BYTES = 256 << 10, /* a message this large begins a burst */
    RATE_BURST_BYTES = 16 << 20     /* a burst this long is reported before its end */
};

/* A ring of fixed-size elements that grows. */
struct queue {
    uint8_t *data;
    size_t element, head, count, capacity;
};

struct outlet { /* what we send to one peer on one channel */
    struct queue sends;
    uint64_t offset;      /* into the first of them */
    uint64_t number;      /* messages sent whole */
    uint64_t sent, acked; /* cost */
    uint64_t mark;        /* the burst ends when this much is acked */
};

struct inlet { /* what one peer sends us on one channel */
    struct queue receives;
    struct flow_chunk *first, *last; /* parked */
    uint64_t arrived, taken, told; /* cost: came, left for a buffer, said to the sender */
    uint64_t number, offset;       /* the next chunk that may come */
    uint64_t tag, total;           /* of the message that is on its way, if offset > 0 */
    bool waited;                   /* some of what is taken and not told */
    bool skipping;                 /* the rest of a message that nobody wants */
    bool due;                      /* credit to be told */
};

struct peer {
    struct id id;
    bool up, blocked, hello, broken;
    struct flow_route route;
    struct outlet out[BULK_CHANNELS];
    struct inlet in[BULK_CHANNELS];
    int queued;     /* outlets with something to send */
    uint64_t acked; /* bytes, all channels */
    struct rate rate;
};

struct flow {
    bool entered, halted;
    uint32_t generation;
    uint64_t epoch;
    uint64_t plan_tag;
    int self;
    int peers_count;
    struct peer *peers;
    int queued[BULK_CHANNELS]; /* peers with something to send */
    int turn[BULK_CHANNELS];   /* whose turn it is */
    int hellos;
    int dues;
    int due_turn;
    struct early *early;
    struct queue done;
    struct queue events;
    struct flow_counts counts;
};

/* ---- queues ---- */

static void *
queue_at(const struct queue *queue, size_t place)
{
    return queue->data + (queue->head + place) % queue->capacity * queue->element;
}

static void
queue_put(struct queue *queue, const void *element)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : 8;
        uint8_t *data = xcalloc(capacity, queue->element);
        for (size_t i = 0; i < queue->count; i++)
            memcpy(data + i * queue->element, queue_at(queue, i), queue->element);
        free(queue->data);
        queue->data = data;
        queue->capacity = capacity;
        queue->head = 0;
    }
    queue->count++;
    memcpy(queue_at(queue, queue->count - 1), element, queue->element);
}

static void
queue_drop(struct queue *queue)
{
    queue->head = (queue->head + 1) % queue->capacity;
    queue->count--;
}

static bool
queue_take(struct queue *queue, void *element)
{
    if (!queue->count)
        return false;
    memcpy(element, queue_at(queue, 0), queue->element);
    queue_drop(queue);
    return true;
}

/* ---- what comes out ---- */

static void
finish(struct flow *flow, const struct flow_op *op, enum err_code code, uint64_t tag,
       uint64_t bytes)
{
    if (op->port < 0)
        return; /* a probe: its answer is the rate */
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
                finish(flow, &op, ERR_STOPPED, 0, 0);
            while (queue_take(&peer->in[c].receives, &op))
                finish(flow, &op, ERR_STOPPED, 0, 0);
            while (peer->in[c].first) {
                struct flow_chunk *chunk = peer->in[c].first;
                peer->in[c].first = chunk->next;
                park_count(flow, -(int64_t)chunk->header.length);
                chunk->release(chunk);
            }
            peer->in[c].last = NULL;
            peer->in[c].due = false;
        }
        peer->queued = 0;
        peer->hello = false;
        peer->rate.active = false;
    }
    memset(flow->queued, 0, sizeof(flow->queued));
    flow->hellos = flow->dues = 0;
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
flow_up(struct flow *flow, int peer)
{
    must(peer >= 0 && peer < flow->peers_count);
    struct peer *to = &flow->peers[peer];
    if (to->up)
        return;
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
    to->rate.active = false;
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

/* The first parked chunk has served: account for its credit. */
static void
consume(struct flow *flow, enum bulk_channel channel, struct inlet *in)
{
    struct flow_chunk *chunk = in->first;
    in->first = chunk->next;
    if (!in->first)
        in->last = NULL;
    in->taken += (uint64_t)chunk->header.length + FLOW_CHUNK_COST;
    in->waited |= chunk->waited;
    bool at_once = chunk->header.length >= CREDIT_AT_ONCE_BYTES || channel == BULK_PROBE;
    if (!in->due && (at_once || in->taken - in->told >= CREDIT_BATCH_BYTES)) {
        in->due = true;
        flow->dues++;
    }
    park_count(flow, -(int64_t)chunk->header.length);
    chunk->release(chunk);
}

/* Bring together what was posted and what came. */
static void
match(struct flow *flow, enum bulk_channel channel, struct inlet *in)
{
    while (in->first) {
        const struct chunk_header *header = &in->first->header;
        bool last = header->offset + header->length == header->total;
        if (in->skipping || channel == BULK_PROBE) {
            in->skipping = !last && in->skipping;
            consume(flow, channel, in);
            continue;
        }
        if (!in->receives.count)
            return;
        const struct flow_op *op = queue_at(&in->receives, 0);
        if (!header->offset && (header->tag != op->tag || header->total != op->bytes)) {
            finish(flow, op, ERR_WIRE, header->tag, header->total);
            queue_drop(&in->receives);
            in->skipping = !last;
            consume(flow, channel, in);
            continue;
        }
        if (header->length)
            memcpy((uint8_t *)op->target + header->offset, in->first->payload,
                   header->length);
        if (last) {
            finish(flow, op, ERR_NONE, 0, 0);
            queue_drop(&in->receives);
        }
        consume(flow, channel, in);
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
arrive_now(struct flow *flow, int from, struct flow_chunk **chunk)
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
    (*chunk)->next = NULL;
    (*chunk)->waited = false;
    if (in->last)
        in->last->next = *chunk;
    else
        in->first = *chunk;
    in->last = *chunk;
    enum bulk_channel channel = header->channel;
    *chunk = NULL;
    match(flow, channel, in);
    if (in->last)
        in->last->waited = true;
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
    } else if (flow->halted) {
        flow->counts.refused++;
    } else if (peer < 0 || peer == flow->self || header->plan_tag != flow->plan_tag) {
        flow->counts.bad++;
    } else {
        arrive_now(flow, peer, chunk);
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
            *out = (struct flow_out){.peer = p,
                                     .header = {.type = CHUNK_CREDIT,
                                                .channel = (enum bulk_channel)c,
                                                .flags = in->waited ? CHUNK_WAITED : 0,
                                                .generation = flow->generation,
                                                .epoch = flow->epoch,
                                                .plan_tag = flow->plan_tag,
                                                .number = in->taken},
                                     .route = peer->route};
            in->told = in->taken;
            in->waited = false;
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
    in->waited |= (out->header.flags & CHUNK_WAITED) != 0;
    if (!in->due)
        flow->dues++;
    in->due = true;
}

/* ---- sending ---- */

static void
queued(struct flow *flow, int peer, enum bulk_channel channel, int change)
{
    flow->queued[channel] += change;
    flow->peers[peer].queued += change;
}

void
flow_post(struct flow *flow, const struct flow_op *op)
{
    must(op->channel >= 0 && op->channel < BULK_CHANNELS);
    if (!flow->entered || flow->halted || op->epoch != flow->epoch) {
        finish(flow, op, ERR_STOPPED, 0, 0);
        return;
    }
    if (op->peer < 0 || op->peer >= flow->peers_count || op->peer == flow->self) {
        finish(flow, op, ERR_USAGE, 0, 0);
        return;
    }
    struct peer *peer = &flow->peers[op->peer];
    if (op->receive) {
        queue_put(&peer->in[op->channel].receives, op);
        match(flow, op->channel, &peer->in[op->channel]);
        return;
    }
    struct outlet *out = &peer->out[op->channel];
    queue_put(&out->sends, op);
    if (out->sends.count == 1)
        queued(flow, op->peer, op->channel, 1);
}

/* A message is sent in about four chunks where it can be: they overlap, and their credits
 * can be timed. */
static size_t
chunk_bytes(size_t total)
{
    size_t quarter = (total + 3) / 4;
    if (quarter > CHUNK_BYTES)
        return CHUNK_BYTES;
    return quarter < FLOW_CHUNK_BYTES_MIN ? FLOW_CHUNK_BYTES_MIN : quarter;
}

/* The next chunk of the channel to this peer, if its window has room. */
static bool
next_of(struct flow *flow, int to, enum bulk_channel channel, struct flow_out *next)
{
    struct peer *peer = &flow->peers[to];
    struct outlet *out = &peer->out[channel];
    if (!out->sends.count || !peer->up || peer->blocked)
        return false;
    const struct flow_op *op = queue_at(&out->sends, 0);
    size_t length = op->bytes - out->offset;
    if (length > chunk_bytes(op->bytes))
        length = chunk_bytes(op->bytes);
    uint64_t window = BULK_WINDOW_BYTES;
    if (channel == BULK_COPY)
        window = FLOW_COPY_CHUNKS_MAX * (uint64_t)(CHUNK_BYTES + FLOW_CHUNK_COST);
    if (out->sent - out->acked + length + FLOW_CHUNK_COST > window) {
        if (channel == BULK_COPY)
            peer->rate.limited = true;
        return false;
    }
    *next = (struct flow_out){
        .peer = to,
        .header = {.type = CHUNK_DATA,
                   .channel = channel,
                   .generation = flow->generation,
                   .length = (uint32_t)length,
                   .epoch = flow->epoch,
                   .plan_tag = flow->plan_tag,
                   .tag = op->tag,
                   .total = op->bytes,
                   .offset = out->offset,
                   .number = out->number},
        .payload = op->source ? (const uint8_t *)op->source + out->offset : NULL};
    return true;
}

static bool
next_hello(struct flow *flow, struct flow_out *next)
{
    for (int p = 0; p < flow->peers_count; p++) {
        if (!flow->peers[p].hello || flow->peers[p].blocked)
            continue;
        *next = (struct flow_out){.peer = p,
                                  .header = {.type = CHUNK_HELLO,
                                             .generation = flow->generation,
                                             .epoch = flow->epoch,
                                             .plan_tag = flow->plan_tag}};
        return true;
    }
    return false;
}

bool
flow_next(struct flow *flow, struct flow_out *out)
{
    if (flow->hellos && next_hello(flow, out))
        return true;
    for (int c = 0; c < BULK_CHANNELS; c++) {
        if (!flow->queued[c])
            continue;
        for (int i = 0; i < flow->peers_count; i++) {
            int p = (flow->turn[c] + i) % flow->peers_count;
            if (next_of(flow, p, (enum bulk_channel)c, out))
                return true;
        }
    }
    return false;
}

/* A chunk went out: does it belong to a burst that is measured? */
static void
measure_sent(struct peer *peer, struct outlet *out, const struct flow_out *sent,
             int64_t now_us)
{
    bool probe = sent->header.channel == BULK_PROBE;
    struct rate *rate = &peer->rate;
    if (!rate->active && (probe || sent->header.total >= RATE_MESSAGE_BYTES)) {
        rate_begin(rate, peer->acked, now_us);
        for (int c = 0; c < BULK_CHANNELS; c++)
            peer->out[c].mark = 0;
    }
    if (!rate->active || rate->ended)
        return;
    rate->probe |= probe;
    if (sent->header.length >= CREDIT_AT_ONCE_BYTES || probe)
        out->mark = out->sent;
    if (!peer->queued)
        rate->ended = true;
}

void
flow_sent(struct flow *flow, const struct flow_out *sent, int64_t now_us)
{
    struct peer *peer = &flow->peers[sent->peer];
    if (sent->header.type == CHUNK_HELLO) {
        peer->hello = false;
        flow->hellos--;
        return;
    }
    enum bulk_channel channel = sent->header.channel;
    struct outlet *out = &peer->out[channel];
    out->sent += (uint64_t)sent->header.length + FLOW_CHUNK_COST;
    out->offset += sent->header.length;
    if (out->offset == sent->header.total) {
        finish(flow, queue_at(&out->sends, 0), ERR_NONE, 0, 0);
        queue_drop(&out->sends);
        out->offset = 0;
        out->number++;
        if (!out->sends.count)
            queued(flow, sent->peer, channel, -1);
    }
    flow->turn[channel] = (sent->peer + 1) % flow->peers_count;
    measure_sent(peer, out, sent, now_us);
}

static void
measure_credit(struct flow *flow, int from, bool waited, int64_t now_us)
{
    struct peer *peer = &flow->peers[from];
    struct rate *rate = &peer->rate;
    rate->limited |= waited;
    rate_credit(rate, peer->acked, now_us);
    bool over = rate->ended;
    for (int c = 0; c < BULK_CHANNELS; c++)
        over = over && peer->out[c].acked >= peer->out[c].mark;
    if (!over && rate->last_bytes - rate->base_bytes < RATE_BURST_BYTES)
        return;
    struct rate_sample sample;
    if (rate_sample(rate, &sample)) {
        struct bulk_event event = {.kind = BULK_RATE,
                                   .peer = from,
                                   .id = peer->id,
                                   .epoch = flow->epoch,
                                   .bytes = sample.bytes,
                                   .us = sample.us,
                                   .limited = sample.limited};
        queue_put(&flow->events, &event);
    }
    if (over) {
        rate->active = false;
        return;
    }
    bool ended = rate->ended, probe = rate->probe;
    rate_begin(rate, peer->acked, now_us);
    rate_credit(rate, peer->acked, now_us);
    rate->ended = ended;
    rate->probe = probe;
}

void
flow_credit(struct flow *flow, int from, const struct chunk_header *header,
            int64_t now_us)
{
    must(from >= 0 && from < flow->peers_count);
    if (early_order(header->generation, header->epoch, flow->generation, flow->epoch) !=
            0 ||
        flow->halted)
        return;
    struct peer *peer = &flow->peers[from];
    struct outlet *out = &peer->out[header->channel];
    if (header->type != CHUNK_CREDIT || header->plan_tag != flow->plan_tag ||
        header->number > out->sent || header->number < out->acked) {
        flow->counts.bad++;
        return;
    }
    peer->acked += header->number - out->acked;
    out->acked = header->number;
    if (peer->rate.active)
        measure_credit(flow, from, header->flags & CHUNK_WAITED, now_us);
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
