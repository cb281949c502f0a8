#include "tests/bench/gossip_world.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 100, DELAY_LEAST_MS = 10, DELAY_MORE_MS = 50, ENVELOPE_BYTES = 190 };

/* ---- each signature once: the linker puts these in place of the real ones ---- */

bool __real_key_verify(const struct id *signer, const void *data, size_t bytes,
                       const uint8_t signature[KEY_SIGNATURE_BYTES]);
bool __wrap_key_verify(const struct id *signer, const void *data, size_t bytes,
                       const uint8_t signature[KEY_SIGNATURE_BYTES]);
bool __real_secret_admitted(const struct id *admit_id, const struct id *swarm,
                            const struct id *node,
                            const uint8_t signature[KEY_SIGNATURE_BYTES]);
bool __wrap_secret_admitted(const struct id *admit_id, const struct id *swarm,
                            const struct id *node,
                            const uint8_t signature[KEY_SIGNATURE_BYTES]);

enum { VERIFIED_SLOTS = 1 << 20 };
static struct id *verified; /* hashes of what was found good */

static struct id *
verified_slot(const struct id *hash)
{
    if (!verified)
        verified = xcalloc(VERIFIED_SLOTS, sizeof(*verified));
    return &verified[id_prefix(hash) % VERIFIED_SLOTS];
}

static void
hash_of(const struct id *a, const struct id *b, const void *data, size_t bytes,
        const uint8_t *signature, struct id *out)
{
    struct key_hash hash;
    key_hash_init(&hash);
    key_hash_add(&hash, a->bytes, ID_BYTES);
    key_hash_add(&hash, b->bytes, ID_BYTES);
    key_hash_add(&hash, signature, KEY_SIGNATURE_BYTES);
    key_hash_add(&hash, data, bytes);
    key_hash_done(&hash, out);
}

bool
__wrap_key_verify(const struct id *signer, const void *data, size_t bytes,
                  const uint8_t signature[KEY_SIGNATURE_BYTES])
{
    struct id hash;
    hash_of(signer, signer, data, bytes, signature, &hash);
    struct id *slot = verified_slot(&hash);
    if (id_equal(slot, &hash))
        return true;
    bool good = __real_key_verify(signer, data, bytes, signature);
    if (good)
        *slot = hash;
    return good;
}

bool
__wrap_secret_admitted(const struct id *admit_id, const struct id *swarm,
                       const struct id *node,
                       const uint8_t signature[KEY_SIGNATURE_BYTES])
{
    struct id hash;
    hash_of(admit_id, swarm, node->bytes, ID_BYTES, signature, &hash);
    struct id *slot = verified_slot(&hash);
    if (id_equal(slot, &hash))
        return true;
    bool good = __real_secret_admitted(admit_id, swarm, node, signature);
    if (good)
        *slot = hash;
    return good;
}

/* ---- nodes ---- */

static void
index_add(struct world *world, uint32_t node)
{
    uint64_t prefix = id_prefix(&world->nodes[node].id);
    size_t at = prefix & world->index_mask;
    while (world->index[at].prefix)
        at = (at + 1) & world->index_mask;
    world->index[at].prefix = prefix;
    world->index[at].at = node;
}

static uint32_t
index_of(const struct world *world, const struct id *id)
{
    uint64_t prefix = id_prefix(id);
    size_t at = prefix & world->index_mask;
    while (world->index[at].prefix != prefix) {
        must(world->index[at].prefix);
        at = (at + 1) & world->index_mask;
    }
    return world->index[at].at;
}

static int
compare_links(const void *left, const void *right)
{
    return id_compare(&((const struct record_link *)left)->peer,
                      &((const struct record_link *)right)->peer);
}

static void
make_record(struct world *world, uint32_t node, uint32_t links)
{
    struct world_node *it = &world->nodes[node];
    struct record *record = &it->record;
    *record = (struct record){.id = it->id,
                              .incarnation = 1ULL << 32,
                              .threads = 16,
                              .memory_bytes = 64ULL << 30,
                              .epoch = 1};
    snprintf(record->name, sizeof(record->name), "node-%u", node);
    snprintf(record->zone, sizeof(record->zone), "zone-%u", node % 16);
    snprintf(record->address, sizeof(record->address), "10.%u.%u.%u:7700", node >> 16,
             node >> 8 & 255, node & 255);
    snprintf(record->device, sizeof(record->device), "cpu");
    secret_admit(world->secret, &world->swarm, &it->id, record->admission);
    world_links(world, node, links);
}

void
world_links(struct world *world, uint32_t node, uint32_t links)
{
    struct record *record = &world->nodes[node].record;
    record->links_count = links;
    for (uint32_t i = 0; i < links; i++) {
        struct record_link *link = &record->links[i];
        uint32_t peer = node + 1 + i;
        *link = (struct record_link){.round_trip_us = 20000 + i, .rate = 200};
        if (links < world->count)
            link->peer = world->nodes[peer % world->count].id;
        else
            memcpy(link->peer.bytes, &peer, sizeof(peer)); /* of some that are gone */
    }
    qsort(record->links, links, sizeof(*record->links), compare_links);
}

/* Who knows all is told so, not made to find out. */
static void
introduce_all(struct world *world)
{
    struct effects effects = {0};
    struct err err;
    for (uint32_t i = 0; i < world->count; i++) {
        struct world_node *it = &world->nodes[i];
        struct buf bytes = {0};
        it->record.version = 1;
        record_sign(&it->record, it->key, &world->swarm, &bytes);
        for (uint32_t k = 0; k < world->real; k++) {
            if (k == i)
                continue;
            must(gossip_merge(world->nodes[k].gossip, world->now_ms, bytes.data,
                              bytes.len, &effects, &err) == 0);
            effects_clear(&effects);
        }
        buf_release(&bytes);
    }
    effects_release(&effects);
}

struct world *
world_new(uint64_t seed, uint32_t count, uint32_t real, uint32_t links)
{
    struct world *world = xcalloc(1, sizeof(*world));
    struct effects effects = {0};
    struct err err;
    char text[SECRET_TEXT_SIZE];
    must(real <= count && count <= WORLD_NODES_MAX && links <= RECORD_LINKS_MAX);
    must(key_setup(&err) == 0);
    memset(text, '5', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    world->secret = secret_parse(text, &err);
    must(world->secret);
    memset(world->swarm.bytes, 0x31, ID_BYTES);
    world->count = count;
    world->real = real;
    world->rng.seed = seed;
    world->now_ms = world->begun_ms = 1000;
    world->nodes = xcalloc(count, sizeof(*world->nodes));
    world->index_mask = (1u << 15) - 1;
    world->index = xcalloc(world->index_mask + 1, sizeof(*world->index));
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[32] = {(uint8_t)i, (uint8_t)(i >> 8), 2};
        world->nodes[i].key = key_from_seed(bytes);
        world->nodes[i].id = *key_id(world->nodes[i].key);
        index_add(world, i);
    }
    for (uint32_t i = 0; i < count; i++)
        make_record(world, i, links);
    for (uint32_t i = 0; i < real; i++) {
        struct world_node *it = &world->nodes[i];
        it->gossip = gossip_new(
            &(struct gossip_options){.key = it->key,
                                     .swarm = world->swarm,
                                     .admit_id = *secret_admit_id(world->secret),
                                     .seed = seed},
            world->now_ms);
        gossip_self(it->gossip, &it->record, &effects);
        effects_clear(&effects);
    }
    effects_release(&effects);
    introduce_all(world);
    return world;
}

void
world_free(struct world *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        gossip_free(world->nodes[i].gossip);
        key_free(world->nodes[i].key);
    }
    for (int slot = 0; slot < WORLD_SLOTS; slot++) {
        for (size_t i = 0; i < world->slots[slot].count; i++)
            free(world->slots[slot].list[i].bytes);
        free(world->slots[slot].list);
    }
    secret_free(world->secret);
    free(world->index);
    free(world->nodes);
    free(world);
}

/* ---- frames ---- */

static void
post(struct world *world, struct world_frame frame)
{
    int64_t at_ms =
        world->now_ms + DELAY_LEAST_MS + (int64_t)rng_below(&world->rng, DELAY_MORE_MS);
    struct world_slot *slot = &world->slots[at_ms % WORLD_SLOTS];
    if (world->loss_percent > 0 && rng_below(&world->rng, 100) < world->loss_percent) {
        free(frame.bytes);
        return;
    }
    if (slot->count == slot->capacity) {
        slot->capacity = slot->capacity ? 2 * slot->capacity : 8;
        slot->list = xrealloc(slot->list, slot->capacity, sizeof(*slot->list));
    }
    slot->list[slot->count++] = frame;
}

static uint32_t
some_modelled(struct world *world)
{
    return world->real + (uint32_t)rng_below(&world->rng, world->count - world->real);
}

/* What a modelled node makes of a frame. */
static void
model(struct world *world, struct world_frame *frame)
{
    struct message message;
    struct err err;
    if (frame->kind == FRAME_PING) {
        must(message_decode(frame->bytes, frame->len, &message, &err) == 0);
        struct draft draft = {.nonce = message.nonce,
                              .subject = world->nodes[frame->to].id,
                              .answered = true,
                              .incarnation = 1ULL << 32,
                              .version = 1};
        struct buf body = {0};
        draft_encode(&draft, &body);
        message_release(&message);
        post(world, (struct world_frame){.from = frame->to,
                                         .to = frame->from,
                                         .kind = FRAME_PING_REPLY,
                                         .bytes = body.data,
                                         .len = body.len});
    }
    if (frame->kind == FRAME_PING || frame->kind == FRAME_DIGEST) {
        post(world,
             (struct world_frame){.from = some_modelled(world),
                                  .to = (uint32_t)rng_below(&world->rng, world->real),
                                  .kind = frame->kind,
                                  .bytes = frame->bytes,
                                  .len = frame->len});
        frame->bytes = NULL;
    }
}

static void
carry_out(struct world *world, uint32_t from, struct effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        struct effect *effect = &effects->list[i];
        if (effect->kind == EFFECT_CONFLICT)
            world->conflicts++;
        if (effect->kind == EFFECT_MEMBER && effect->before != effect->after) {
            world->suspicions += effect->after == MEMBER_SUSPECT;
            if (effect->after == MEMBER_DEAD) {
                world->deaths++;
                world->false_deaths += !world->nodes[index_of(world, &effect->peer)].dead;
            }
        }
        if (effect->kind != EFFECT_SEND)
            continue;
        world->frames++;
        world->bytes += effect->len + ENVELOPE_BYTES;
        post(world, (struct world_frame){.from = from,
                                         .to = index_of(world, &effect->peer),
                                         .kind = effect->frame,
                                         .bytes = effect->bytes,
                                         .len = effect->len});
        effect->bytes = NULL;
    }
    effects_clear(effects);
}

static void
arrive(struct world *world, struct world_frame *it, struct effects *effects)
{
    struct gossip *gossip = world->nodes[it->to].gossip;
    struct err err;
    if (it->to >= world->real) {
        model(world, it);
    } else if (gossip) {
        struct frame frame = {.kind = it->kind,
                              .swarm = world->swarm,
                              .from = world->nodes[it->from].id,
                              .to = world->nodes[it->to].id,
                              .body = it->bytes,
                              .body_len = it->len};
        if (gossip_receive(gossip, world->now_ms, &frame, effects, &err)) {
            fprintf(stderr, "a frame was refused: %s\n", err.msg);
            abort();
        }
        carry_out(world, it->to, effects);
    }
    free(it->bytes);
}

void
world_run(struct world *world, int64_t ms)
{
    struct effects effects = {0};
    for (int64_t end = world->now_ms + ms; world->now_ms < end;) {
        world->now_ms++;
        struct world_slot *slot = &world->slots[world->now_ms % WORLD_SLOTS];
        for (size_t i = 0; i < slot->count; i++) {
            struct world_frame frame = slot->list[i];
            arrive(world, &frame, &effects);
        }
        slot->count = 0;
        for (uint32_t i = (uint32_t)(world->now_ms % TICK_MS); i < world->real;
             i += TICK_MS) {
            if (!world->nodes[i].gossip)
                continue;
            gossip_tick(world->nodes[i].gossip, world->now_ms, &effects);
            carry_out(world, i, &effects);
        }
    }
    effects_release(&effects);
}

void
world_count(struct world *world)
{
    world->frames = world->bytes = 0;
    world->suspicions = world->deaths = world->false_deaths = world->conflicts = 0;
    world->begun_ms = world->now_ms;
}

/* ---- what happens ---- */

void
world_kill(struct world *world, uint32_t node)
{
    gossip_free(world->nodes[node].gossip);
    world->nodes[node].gossip = NULL;
    world->nodes[node].dead = true;
}

static int
compare_ids(const void *left, const void *right)
{
    return id_compare(left, right);
}

void
world_watch(struct world *world, bool watched)
{
    struct id *ids = xcalloc(world->count, sizeof(*ids));
    uint32_t count = world->count, reach = count > 6 ? 3 : (count - 1) / 2;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = world->nodes[i].id;
    qsort(ids, count, sizeof(*ids), compare_ids);
    for (uint32_t i = 0; i < count; i++) {
        struct id near[6];
        size_t close = 0;
        for (uint32_t k = 1; k <= reach && watched; k++) {
            near[close++] = ids[(i + k) % count];
            near[close++] = ids[(i + count - k) % count];
        }
        struct gossip *gossip = world->nodes[index_of(world, &ids[i])].gossip;
        if (gossip)
            gossip_watch(gossip, near, close);
    }
    free(ids);
}

void
world_update(struct world *world, uint32_t node, uint64_t epoch)
{
    struct effects effects = {0};
    struct world_node *it = &world->nodes[node];
    it->record.epoch = epoch;
    gossip_self(it->gossip, &it->record, &effects);
    carry_out(world, node, &effects);
    effects_release(&effects);
}

uint32_t
world_updated(const struct world *world, uint32_t node, uint64_t epoch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->real; i++) {
        const struct gossip *gossip = world->nodes[i].gossip;
        const struct member *member =
            gossip ? gossip_find(gossip, &world->nodes[node].id) : NULL;
        count += member && member->record->epoch >= epoch;
    }
    return count;
}

uint32_t
world_mourned(const struct world *world, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->real; i++) {
        const struct gossip *gossip = world->nodes[i].gossip;
        const struct member *member =
            gossip ? gossip_find(gossip, &world->nodes[node].id) : NULL;
        count += member && member->state == MEMBER_DEAD;
    }
    return count;
}

uint32_t
world_living(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->real; i++)
        count += world->nodes[i].gossip != NULL;
    return count;
}
