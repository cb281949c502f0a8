#include "transport/bulk_chunk.h"

#include <string.h>

static const uint8_t magic[4] = {'F', 'L', 'C', 'K'};

static void
put(uint8_t *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t
take(const uint8_t *in, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

void
chunk_encode(const struct chunk_header *header, uint8_t out[CHUNK_HEADER_BYTES])
{
    memcpy(out, magic, sizeof(magic));
    out[4] = CHUNK_VERSION;
    out[5] = (uint8_t)header->type;
    out[6] = (uint8_t)header->channel;
    out[7] = (uint8_t)header->flags;
    put(out + 8, header->generation, 4);
    put(out + 12, header->length, 4);
    put(out + 16, header->epoch, 8);
    put(out + 24, header->plan_tag, 8);
    put(out + 32, header->tag, 8);
    put(out + 40, header->total, 8);
    put(out + 48, header->offset, 8);
    put(out + 56, header->number, 8);
}

static int
check_data(const struct chunk_header *header, struct err *err)
{
    unsigned known = CHUNK_FOLLOWS | (header->channel == BULK_PROBE ? CHUNK_LAST : 0);
    if (header->flags & ~known)
        return err_set(err, ERR_WIRE, "data chunk has unknown flags %u", header->flags);
    if (header->length > CHUNK_BYTES)
        return err_set(err, ERR_WIRE, "data chunk of %u bytes, at most %d are allowed",
                       (unsigned)header->length, (int)CHUNK_BYTES);
    if (header->offset > header->total || header->length > header->total - header->offset)
        return err_set(err, ERR_WIRE, "data chunk ends behind its message of %llu bytes",
                       (unsigned long long)header->total);
    if (!header->length && header->total)
        return err_set(err, ERR_WIRE, "data chunk is empty and its message is not");
    return 0;
}

static int
check_other(const struct chunk_header *header, struct err *err)
{
    if (header->length || header->total || header->offset || header->tag)
        return err_set(err, ERR_WIRE, "credit or hello has fields of a data chunk");
    unsigned known = header->channel == BULK_PROBE ? CHUNK_ENOUGH : 0;
    if (header->type == CHUNK_CREDIT && header->flags & ~known)
        return err_set(err, ERR_WIRE, "credit has unknown flags %u", header->flags);
    if (header->type != CHUNK_CREDIT &&
        (header->flags || header->number || header->channel))
        return err_set(err, ERR_WIRE, "hello has fields of a credit");
    return 0;
}

static int
check_carry(const struct chunk_header *header, struct err *err)
{
    if (header->total || header->offset || header->tag || header->number ||
        header->flags || header->channel)
        return err_set(err, ERR_WIRE, "a chunk that carries has fields of another");
    bool sized = header->type == CHUNK_LOST ? header->length == ID_BYTES
                                            : header->length >= CHUNK_CARRY_BYTES_MIN &&
                                                  header->length <= CHUNK_CARRY_BYTES_MAX;
    if (!sized)
        return err_set(err, ERR_WIRE, "a chunk carries %u bytes, and cannot",
                       (unsigned)header->length);
    return 0;
}

int
chunk_decode(const uint8_t *frame, size_t bytes, struct chunk_header *out,
             struct err *err)
{
    if (bytes < CHUNK_HEADER_BYTES)
        return err_set(err, ERR_WIRE, "frame of %zu bytes is shorter than a chunk header",
                       bytes);
    if (memcmp(frame, magic, sizeof(magic)) != 0)
        return err_set(err, ERR_WIRE, "frame is no chunk: other first bytes");
    if (frame[4] != CHUNK_VERSION)
        return err_set(err, ERR_WIRE, "chunk has version %u, this node speaks %d",
                       (unsigned)frame[4], (int)CHUNK_VERSION);
    if (frame[5] < CHUNK_DATA || frame[5] > CHUNK_HERE)
        return err_set(err, ERR_WIRE, "chunk has unknown type %u", (unsigned)frame[5]);
    if (frame[6] >= BULK_CHANNELS)
        return err_set(err, ERR_WIRE, "chunk names channel %u, there are %d",
                       (unsigned)frame[6], (int)BULK_CHANNELS);
    *out = (struct chunk_header){
        .type = (enum chunk_type)frame[5],
        .channel = (enum bulk_channel)frame[6],
        .flags = frame[7],
        .generation = (uint32_t)take(frame + 8, 4),
        .length = (uint32_t)take(frame + 12, 4),
        .epoch = take(frame + 16, 8),
        .plan_tag = take(frame + 24, 8),
        .tag = take(frame + 32, 8),
        .total = take(frame + 40, 8),
        .offset = take(frame + 48, 8),
        .number = take(frame + 56, 8),
    };
    if (bytes - CHUNK_HEADER_BYTES != out->length)
        return err_set(err, ERR_WIRE, "chunk announces %u bytes and carries %zu",
                       (unsigned)out->length, bytes - CHUNK_HEADER_BYTES);
    if (out->type >= CHUNK_CARRY && out->type <= CHUNK_LOST)
        return check_carry(out, err);
    return out->type == CHUNK_DATA ? check_data(out, err) : check_other(out, err);
}
