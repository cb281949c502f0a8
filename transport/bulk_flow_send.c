#include "transport/base/must.h"
#include "transport/bulk_flow_parts.h"

void
flow_probe(struct flow *flow, int peer, size_t bytes, int64_t bytes_per_s, int64_t now_us)
{
    if (!flow->entered || flow->self < 0 || peer < 0 || peer >= flow->peers_count ||
        peer == flow->self || flow->peers[peer].probing)
        return;
    struct peer *to = &flow->peers[peer];
    probe_begin(&to->probe, bytes, bytes_per_s, now_us);
    to->probing = true;
    flow_queued(flow, peer, BULK_PROBE, 1);
    if (!to->up || to->narrow) { /* what others carry for us is not theirs to measure */
        flow_probe_over(flow, peer);
        return;
    }
    /* Odd: it begins at a known pace. */
    to->probes = (to->probes | 1) + 1 + (bytes_per_s > 0);
    to->probe_base = to->out[BULK_PROBE].sent;
}

/* What may be under way: of copies, and where others hold it for us, little. */
static uint64_t
window(const struct peer *peer, enum bulk_channel channel)
{
    return channel == BULK_COPY || peer->narrow
               ? FLOW_COPY_CHUNKS_MAX * (uint64_t)(CHUNK_BYTES + FLOW_CHUNK_COST)
               : BULK_WINDOW_BYTES;
}

/* Each chunk of a probe is a message, so that it may end at any time. */
static bool
next_of_probe(struct flow *flow, int to, struct flow_out *next, int64_t now_us)
{
    struct peer *peer = &flow->peers[to];
    struct outlet *out = &peer->out[BULK_PROBE];
    struct probe_chunk chunk;
    if (flow_reducing(flow)) {
        probe_interrupted(&peer->probe);
        return false;
    }
    uint64_t acked = out->acked > peer->probe_base ? out->acked : peer->probe_base;
    if (!probe_next(&peer->probe, out->sent - acked, now_us, &chunk) ||
        out->sent - out->acked + chunk.bytes + FLOW_CHUNK_COST > window(peer, BULK_PROBE))
        return false;
    *next = (struct flow_out){.peer = to,
                              .header = {.type = CHUNK_DATA,
                                         .channel = BULK_PROBE,
                                         .flags = (chunk.follows ? CHUNK_FOLLOWS : 0u) |
                                                  (chunk.last ? CHUNK_LAST : 0u),
                                         .generation = flow->generation,
                                         .length = (uint32_t)chunk.bytes,
                                         .epoch = flow->epoch,
                                         .plan_tag = flow->plan_tag,
                                         .tag = peer->probes,
                                         .total = chunk.bytes,
                                         .number = out->number}};
    return true;
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
next_of(struct flow *flow, int to, enum bulk_channel channel, struct flow_out *next,
        int64_t now_us)
{
    struct peer *peer = &flow->peers[to];
    struct outlet *out = &peer->out[channel];
    if (!peer->up || peer->blocked)
        return false;
    if (channel == BULK_PROBE)
        return peer->probe.active && next_of_probe(flow, to, next, now_us);
    if (!out->sends.count)
        return false;
    const struct flow_op *op = queue_at(&out->sends, 0);
    size_t length = op->bytes - out->offset;
    if (length > chunk_bytes(op->bytes))
        length = chunk_bytes(op->bytes);
    if (out->sent - out->acked + length + FLOW_CHUNK_COST > window(peer, channel))
        return false;
    *next = (struct flow_out){.peer = to,
                              .header = {.type = CHUNK_DATA,
                                         .channel = channel,
                                         .flags = peer->starved ? 0 : CHUNK_FOLLOWS,
                                         .generation = flow->generation,
                                         .length = (uint32_t)length,
                                         .epoch = flow->epoch,
                                         .plan_tag = flow->plan_tag,
                                         .tag = op->tag,
                                         .total = op->bytes,
                                         .offset = out->offset,
                                         .number = out->number},
                              .payload = (const uint8_t *)op->source + out->offset};
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
flow_next(struct flow *flow, struct flow_out *out, int64_t now_us)
{
    if (flow->hellos && next_hello(flow, out))
        return true;
    for (int c = 0; c < BULK_CHANNELS; c++) {
        if (!flow->queued[c])
            continue;
        for (int i = 0; i < flow->peers_count; i++) {
            int p = (flow->turn[c] + i) % flow->peers_count;
            if (next_of(flow, p, (enum bulk_channel)c, out, now_us))
                return true;
        }
    }
    return false;
}

/* Is there another chunk to follow at once, if only the connection takes it? */
static bool
more_for(struct flow *flow, int to, int64_t now_us)
{
    struct flow_out next;
    for (int c = 0; c < BULK_PROBE; c++)
        if (next_of(flow, to, (enum bulk_channel)c, &next, now_us))
            return true;
    return false;
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
    if (channel == BULK_PROBE) {
        struct probe_chunk chunk = {.bytes = sent->header.length,
                                    .last = sent->header.flags & CHUNK_LAST};
        out->offset = 0;
        out->number++;
        if (probe_sent(&peer->probe, &chunk, out->sent, now_us))
            flow_probe_over(flow, sent->peer);
    } else if (out->offset == sent->header.total) {
        flow_finish(flow, queue_at(&out->sends, 0), ERR_NONE, 0, 0);
        queue_drop(&out->sends);
        out->offset = 0;
        out->number++;
        if (!out->sends.count)
            flow_queued(flow, sent->peer, channel, -1);
        if (channel == BULK_REDUCE)
            flow_release_held(flow);
    }
    flow->turn[channel] = (sent->peer + 1) % flow->peers_count;
    peer->starved = !more_for(flow, sent->peer, now_us);
}

void
flow_credit(struct flow *flow, int from, const struct chunk_header *header,
            int64_t now_us)
{
    must(from >= 0 && from < flow->peers_count);
    if (early_order(header->generation, header->epoch, flow->generation, flow->epoch) !=
            0 ||
        (flow->halted && header->channel != BULK_PROBE))
        return;
    struct peer *peer = &flow->peers[from];
    struct outlet *out = &peer->out[header->channel];
    if (header->type != CHUNK_CREDIT || header->plan_tag != flow->plan_tag ||
        header->number > out->sent || header->number < out->acked) {
        flow->counts.bad++;
        return;
    }
    uint64_t bytes = header->number - out->acked;
    out->acked = header->number;
    if (header->channel == BULK_PROBE &&
        probe_credited(&peer->probe, out->acked, bytes, header->flags & CHUNK_ENOUGH,
                       now_us))
        flow_probe_over(flow, from);
}
