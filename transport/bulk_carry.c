#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/must.h"
#include "transport/bulk_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- at the ends ---- */

enum wire_result
carry_send(struct conn *conn, const struct id *via, const struct chunk_header *header,
           const uint8_t *payload)
{
    struct bulk *bulk = conn->bulk;
    struct conn *carrier = link_find(bulk, via);
    if (!carrier || (carrier->way != BULK_OUT && carrier->way != BULK_BACK))
        return WIRE_GONE;
    uint8_t outer[CHUNK_HEADER_BYTES], nonce[KEY_NONCE_BYTES];
    size_t inner_len = CHUNK_HEADER_BYTES + (size_t)header->length;
    uint8_t *inner = bulk->inner, *sealed = bulk->sealed;
    must(header->length <= CHUNK_BYTES);
    chunk_encode(header, inner);
    if (header->length && payload)
        memcpy(inner + CHUNK_HEADER_BYTES, payload, header->length);
    else if (header->length)
        memset(inner + CHUNK_HEADER_BYTES, 0, header->length);

    memcpy(nonce, conn->session, sizeof(conn->session));
    uint64_t number = conn->sealed + 1;
    for (int i = 0; i < 8; i++)
        nonce[sizeof(conn->session) + (size_t)i] = (uint8_t)(number >> (56 - 8 * i));
    memcpy(sealed, conn->peer.id.bytes, ID_BYTES);
    memcpy(sealed + ID_BYTES, nonce, KEY_NONCE_BYTES);
    if (!key_seal(bulk->key, &conn->peer.id, nonce, inner, inner_len,
                  sealed + ID_BYTES + KEY_NONCE_BYTES))
        return WIRE_GONE;
    struct chunk_header carry = bulk->epoch;
    carry.type = CHUNK_CARRY;
    carry.length = (uint32_t)(ID_BYTES + KEY_NONCE_BYTES + inner_len + KEY_SEAL_BYTES);
    chunk_encode(&carry, outer);
    struct wire_part parts[3] = {{outer, sizeof(outer)}, {sealed, carry.length}, {0}};
    enum wire_result result = wire_send(carrier, carrier->way, &carrier->back, parts);
    if (result == WIRE_SENT)
        conn->sealed = number;
    return result;
}

/* Is it newer than all others of its session? */
static bool
fresh(struct conn *conn, const uint8_t nonce[KEY_NONCE_BYTES])
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | nonce[sizeof(conn->session) + (size_t)i];
    if (memcmp(conn->heard_session, nonce, sizeof(conn->heard_session)) != 0) {
        memcpy(conn->heard_session, nonce, sizeof(conn->heard_session));
        conn->heard = 0;
    }
    if (number <= conn->heard)
        return false;
    conn->heard = number;
    return true;
}

/* A chunk of `maker` that `via` brought. */
static void
take_inner(struct bulk *bulk, struct conn *maker, const struct conn *via,
           const uint8_t *frame, size_t len)
{
    struct chunk_header header;
    struct err err = {0};
    if (chunk_decode(frame, len, &header, &err) != 0) {
        wire_refuse(&maker->peer.id, err.msg);
        return;
    }
    detour_heard(&maker->detour, loop_now_ms(bulk->loop), &via->peer.id);
    link_tick_on(bulk);
    struct chunk_header here = bulk->epoch;
    here.type = CHUNK_HERE;
    if (header.type == CHUNK_CREDIT) {
        flow_credit(bulk->flow, maker->number, &header, clock_us());
        return;
    }
    if (header.type != CHUNK_HELLO && header.type != CHUNK_DATA)
        return; /* HERE has said all by coming; others are carried by nobody */
    struct flow_chunk *chunk = wire_chunk(frame, len, &header);
    if (header.type == CHUNK_HELLO)
        carry_send(maker, &via->peer.id, &here, NULL);
    chunk->route =
        (struct flow_route){.by = FLOW_BY_CARRIER, .carrier = (uint16_t)via->number};
    flow_arrive(bulk->flow, &maker->peer.id, &chunk, clock_us());
}

static void
take_carried(struct bulk *bulk, const struct id *from, const uint8_t *payload, size_t len)
{
    struct id maker_id;
    memcpy(maker_id.bytes, payload, ID_BYTES);
    struct conn *maker = link_find(bulk, &maker_id), *via = link_find(bulk, from);
    if (!maker || !via || maker == via)
        return; /* of another epoch, most likely */
    const uint8_t *nonce = payload + ID_BYTES, *sealed = nonce + KEY_NONCE_BYTES;
    size_t sealed_len = len - ID_BYTES - KEY_NONCE_BYTES;
    if (!key_unseal(bulk->key, &maker_id, nonce, sealed, sealed_len, bulk->inner)) {
        wire_refuse(from, "it carries what is not sealed for us, or was altered");
        return;
    }
    if (fresh(maker, nonce))
        take_inner(bulk, maker, via, bulk->inner, sealed_len - KEY_SEAL_BYTES);
}

/* ---- at the carrier ---- */

static void
say_lost(struct bulk *bulk, struct conn *to, const struct id *about)
{
    uint8_t header[CHUNK_HEADER_BYTES];
    struct chunk_header lost = bulk->epoch;
    lost.type = CHUNK_LOST;
    lost.length = ID_BYTES;
    chunk_encode(&lost, header);
    struct wire_part parts[3] = {{header, sizeof(header)}, {about->bytes, ID_BYTES}, {0}};
    wire_send(to, to->way, &to->back, parts);
}

static void
take_carry(struct bulk *bulk, const struct id *from, const uint8_t *payload, size_t len)
{
    struct id target_id;
    memcpy(target_id.bytes, payload, ID_BYTES);
    struct conn *target = link_find(bulk, &target_id), *maker = link_find(bulk, from);
    if (!maker || maker == target)
        return;
    size_t size = CHUNK_HEADER_BYTES + len;
    bool direct = target && (target->way == BULK_OUT || target->way == BULK_BACK);
    if (target && !direct && target->peer.lazy && !target->dial)
        target->dial_at_ms = 0; /* it is asked for now */
    if (!direct || bulk->carry_bytes + size > CARRY_BYTES_MAX) {
        if (direct)
            log_limited(LOG_WARN, "transport",
                        "not carried: %zu bytes wait already for others",
                        bulk->carry_bytes);
        say_lost(bulk, maker, &target_id);
        return;
    }
    struct carried *carried = xcalloc(1, sizeof(*carried) + size);
    struct chunk_header header = bulk->epoch;
    header.type = CHUNK_CARRIED;
    header.length = (uint32_t)len;
    chunk_encode(&header, carried->bytes);
    memcpy(carried->bytes + CHUNK_HEADER_BYTES, payload, len);
    memcpy(carried->bytes + CHUNK_HEADER_BYTES, from->bytes, ID_BYTES);
    carried->len = size;
    if (target->last)
        target->last->next = carried;
    else
        target->first = carried;
    target->last = carried;
    bulk->carry_bytes += size;
}

void
carry_take(struct bulk *bulk, const struct id *from, const struct chunk_header *header,
           const uint8_t *payload)
{
    if (header->epoch != bulk->epoch.epoch ||
        header->generation != bulk->epoch.generation ||
        header->plan_tag != bulk->epoch.plan_tag)
        return; /* asked again when both are in one epoch */
    struct id id;
    struct conn *conn;
    switch (header->type) {
    case CHUNK_CARRY:
        take_carry(bulk, from, payload, header->length);
        return;
    case CHUNK_CARRIED:
        take_carried(bulk, from, payload, header->length);
        return;
    case CHUNK_LOST:
        memcpy(id.bytes, payload, ID_BYTES);
        conn = link_find(bulk, &id);
        if (conn && id_equal(&conn->detour.via, from)) {
            detour_lost(&conn->detour, from);
            if (conn->way == BULK_ROUND)
                link_lost(conn);
        }
        return;
    default:
        wire_refuse(from, "an answer to a hello came without a carrier");
    }
}

static void
fill(struct bulk *bulk)
{
    int64_t now = loop_now_ms(bulk->loop);
    int64_t gap = now - bulk->carry_at_ms;
    bulk->carry_at_ms = now;
    if (gap > 1000)
        gap = 1000;
    bulk->carry_left += gap * (CARRY_BYTES_PER_S / 1000);
    if (bulk->carry_left > CARRY_BURST_BYTES)
        bulk->carry_left = CARRY_BURST_BYTES;
}

void
carry_serve(struct bulk *bulk)
{
    if (bulk->carry_bytes == 0)
        return;
    fill(bulk);
    for (int p = 0; p < bulk->conns_count; p++) {
        struct conn *conn = bulk->conns[p];
        while (conn && conn->first && bulk->carry_left > 0) {
            struct carried *carried = conn->first;
            struct wire_part parts[3] = {{carried->bytes, carried->len}, {0}, {0}};
            if (wire_send(conn, conn->way, &conn->back, parts) != WIRE_SENT)
                break; /* one that is gone is forgotten when it is known to be lost */
            bulk->carry_left -= (int64_t)carried->len;
            bulk->carried++;
            bulk->carried_bytes += carried->len;
            bulk->carry_bytes -= carried->len;
            conn->first = carried->next;
            if (!conn->first)
                conn->last = NULL;
            free(carried);
        }
    }
    if (bulk->carry_bytes > 0)
        link_tick_on(bulk);
}

void
carry_forget(struct conn *conn)
{
    while (conn->first) {
        struct carried *carried = conn->first;
        conn->first = carried->next;
        conn->bulk->carry_bytes -= carried->len;
        free(carried);
    }
    conn->last = NULL;
}
