#include "transport/bulk_early.h"
#include "transport/base/alloc.h"

#include <stdlib.h>

struct sender {
    struct id id;
    int64_t reported_us[2]; /* stale, newer; 0: never */
    uint32_t generation;    /* what the parked chunks are of */
    uint64_t epoch;
    uint64_t cost[BULK_CHANNELS];
    struct flow_chunk *first, *last;
};

struct early {
    struct sender *senders;
    int count, capacity;
};

struct early *
early_new(void)
{
    return xcalloc(1, sizeof(struct early));
}

static void
drop(struct sender *sender, uint64_t *bytes)
{
    while (sender->first) {
        struct flow_chunk *chunk = sender->first;
        sender->first = chunk->next;
        *bytes -= chunk->header.length;
        chunk->release(chunk);
    }
    sender->last = NULL;
    for (int c = 0; c < BULK_CHANNELS; c++)
        sender->cost[c] = 0;
}

void
early_free(struct early *early)
{
    if (!early)
        return;
    uint64_t bytes = UINT64_MAX;
    for (int i = 0; i < early->count; i++)
        drop(&early->senders[i], &bytes);
    free(early->senders);
    free(early);
}

int
early_order(uint32_t generation_a, uint64_t epoch_a, uint32_t generation_b,
            uint64_t epoch_b)
{
    if (generation_a != generation_b)
        return generation_a < generation_b ? -1 : 1;
    return epoch_a == epoch_b ? 0 : epoch_a < epoch_b ? -1 : 1;
}

/* With `make`, a sender that is not there is added; the table is as large as a swarm, and
 * then whoever has nothing parked makes room. */
static struct sender *
find(struct early *early, const struct id *id, bool make)
{
    struct sender *idle = NULL;
    for (int i = 0; i < early->count; i++) {
        if (id_equal(&early->senders[i].id, id))
            return &early->senders[i];
        if (!early->senders[i].first)
            idle = &early->senders[i];
    }
    if (!make)
        return NULL;
    if (early->count == PLAN_NODES_MAX) {
        if (idle)
            *idle = (struct sender){.id = *id};
        return idle;
    }
    if (early->count == early->capacity) {
        early->capacity = early->capacity ? 2 * early->capacity : 16;
        early->senders =
            xrealloc(early->senders, (size_t)early->capacity, sizeof(*early->senders));
    }
    early->senders[early->count] = (struct sender){.id = *id};
    return &early->senders[early->count++];
}

void
early_park(struct early *early, const struct id *from, struct flow_chunk **chunk,
           uint64_t *bytes)
{
    const struct chunk_header *header = &(*chunk)->header;
    struct sender *sender = find(early, from, true);
    if (!sender)
        return;
    int order =
        early_order(header->generation, header->epoch, sender->generation, sender->epoch);
    if (order < 0 && sender->first)
        return;
    if (order != 0) {
        drop(sender, bytes);
        sender->generation = header->generation;
        sender->epoch = header->epoch;
    }
    uint64_t cost = (uint64_t)header->length + FLOW_CHUNK_COST;
    /* One sender has its windows, and all together no more than BULK_EARLY_BYTES_MAX. */
    if (sender->cost[header->channel] + cost > BULK_WINDOW_BYTES ||
        *bytes + header->length > BULK_EARLY_BYTES_MAX)
        return;
    sender->cost[header->channel] += cost;
    *bytes += header->length;
    (*chunk)->next = NULL;
    if (sender->last)
        sender->last->next = *chunk;
    else
        sender->first = *chunk;
    sender->last = *chunk;
    *chunk = NULL;
}

struct flow_chunk *
early_take(struct early *early, const struct id *from, uint32_t generation,
           uint64_t epoch, uint64_t *bytes)
{
    struct sender *sender = find(early, from, false);
    if (!sender || !sender->first ||
        early_order(sender->generation, sender->epoch, generation, epoch) != 0)
        return NULL;
    struct flow_chunk *chunk = sender->first;
    sender->first = chunk->next;
    if (!sender->first)
        sender->last = NULL;
    chunk->next = NULL;
    sender->cost[chunk->header.channel] -=
        (uint64_t)chunk->header.length + FLOW_CHUNK_COST;
    *bytes -= chunk->header.length;
    return chunk;
}

void
early_drop(struct early *early, uint32_t generation, uint64_t epoch, uint64_t *bytes)
{
    for (int i = 0; i < early->count; i++) {
        struct sender *sender = &early->senders[i];
        if (early_order(sender->generation, sender->epoch, generation, epoch) <= 0)
            drop(sender, bytes);
    }
}

bool
early_report(struct early *early, const struct id *from, bool newer, int64_t now_us)
{
    struct sender *sender = find(early, from, true);
    if (!sender)
        return false;
    int64_t *last = &sender->reported_us[newer];
    if (*last && now_us - *last < FLOW_EVENT_GAP_US)
        return false;
    *last = now_us ? now_us : 1;
    return true;
}
