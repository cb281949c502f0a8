/* Bulk frames from a peer: the header's parser, then the flow core that acts upon it. */
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/bulk_flow.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
release(struct flow_chunk *chunk)
{
    free(chunk);
}

/* In a current epoch with one peer, who sends what follows and whose link is being
 * measured. */
static struct flow *
flow_ready(uint8_t target[4096], const struct id *from)
{
    struct flow *flow = flow_new();
    struct bulk_peer peers[2];
    memset(peers, 0, sizeof(peers));
    peers[1].id = *from;
    struct bulk_epoch epoch = {.epoch = 1, .peers_count = 2, .peers = peers};
    flow_enter(flow, &epoch, 1);
    flow_up(flow, 1, BULK_OUT, NULL);
    for (int c = 0; c < BULK_PROBE; c++) {
        struct flow_op op = {.epoch = 1,
                             .receive = true,
                             .peer = 1,
                             .channel = (enum bulk_channel)c,
                             .target = target,
                             .bytes = 4096};
        flow_post(flow, &op);
    }
    flow_probe(flow, 1, 2 << 20, 0, 1);
    struct flow_out out;
    while (flow_next(flow, &out, 1))
        flow_sent(flow, &out, 2);
    return flow;
}

/* The input is frames, each behind two bytes of length. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t target[4096];
    struct id from = {.bytes = {1}};
    struct flow *flow = flow_ready(target, &from);
    int64_t now_us = 3;
    while (size >= 2) {
        size_t bytes = data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (bytes > size)
            bytes = size;
        struct chunk_header header;
        struct err err;
        now_us += 50000;
        if (chunk_decode(data, bytes, &header, &err) == 0) {
            uint8_t again[CHUNK_HEADER_BYTES];
            chunk_encode(&header, again);
            must(memcmp(again, data, sizeof(again)) == 0);
            if (header.type == CHUNK_CREDIT) {
                flow_credit(flow, 1, &header, now_us);
            } else {
                struct flow_chunk *chunk = xcalloc(1, sizeof(*chunk) + header.length);
                uint8_t *payload = (uint8_t *)(chunk + 1);
                memcpy(payload, data + CHUNK_HEADER_BYTES, header.length);
                chunk->header = header;
                chunk->payload = payload;
                chunk->release = release;
                flow_arrive(flow, &from, &chunk, now_us);
            }
        }
        data += bytes;
        size -= bytes;
    }
    struct flow_out out;
    while (flow_next_credit(flow, &out) || flow_next(flow, &out, 1))
        if (out.header.type != CHUNK_CREDIT)
            flow_sent(flow, &out, now_us);
    struct flow_counts counts;
    flow_count(flow, &counts);
    must(counts.parked_bytes <= 2 * (uint64_t)BULK_WINDOW_BYTES * BULK_CHANNELS);
    flow_free(flow);
    return 0;
}
