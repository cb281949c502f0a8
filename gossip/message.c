#include "gossip/message.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

/* ---- accusations ---- */

enum { COVERED_BYTES = 4 + 2 * ID_BYTES + 8 + 1 };

static const uint8_t purpose[4] = {'a', 'c', 'c', '1'};

/* What an accuser signs: purpose, swarm, target, incarnation, kind. */
static void
covered(uint8_t out[COVERED_BYTES], const struct id *swarm, const struct id *target,
        uint64_t incarnation, enum accusation_kind kind)
{
    memcpy(out, purpose, sizeof(purpose));
    memcpy(out + 4, swarm->bytes, ID_BYTES);
    memcpy(out + 4 + ID_BYTES, target->bytes, ID_BYTES);
    for (int i = 0; i < 8; i++)
        out[4 + 2 * ID_BYTES + i] = (uint8_t)(incarnation >> (56 - 8 * i));
    out[COVERED_BYTES - 1] = (uint8_t)kind;
}

void
accusation_sign(struct accusation *accusation, const struct key *key,
                const struct id *swarm, const struct id *target, uint64_t incarnation)
{
    uint8_t bytes[COVERED_BYTES];
    must(id_equal(&accusation->accuser, key_id(key)));
    covered(bytes, swarm, target, incarnation, accusation->kind);
    key_sign(key, bytes, sizeof(bytes), accusation->signature);
}

int
accusation_verify(const struct accusation *accusation, const struct id *swarm,
                  const struct id *admit_id, const struct id *target,
                  uint64_t incarnation, struct err *err)
{
    uint8_t bytes[COVERED_BYTES];
    char name[ID_SHORT_SIZE];
    covered(bytes, swarm, target, incarnation, accusation->kind);
    if (admit_id &&
        !secret_admitted(admit_id, swarm, &accusation->accuser, accusation->admission))
        return err_set(err, ERR_AUTH,
                       "accusation by node %s, which is not admitted to this swarm",
                       id_short(&accusation->accuser, name));
    if (!key_verify(&accusation->accuser, bytes, sizeof(bytes), accusation->signature))
        return err_set(err, ERR_AUTH, "accusation in the name of node %s is not by it",
                       id_short(&accusation->accuser, name));
    return 0;
}

/* ---- reading ---- */

static void
statement_decode(struct reader *reader, struct statement *out)
{
    reader_enter(reader, 2, 2);
    out->bytes = reader_bytes(reader, RECORD_BYTES_MAX, &out->len);
    out->accusations_count = (uint32_t)reader_enter(reader, 0, ACCUSERS_MAX);
    for (uint32_t i = 0; i < out->accusations_count; i++) {
        struct accusation *accusation = &out->accusations[i];
        reader_enter(reader, 4, 4);
        reader_id(reader, &accusation->accuser);
        accusation->kind = (enum accusation_kind)reader_uint(reader, ACCUSE_DEAD);
        reader_fixed(reader, accusation->admission, KEY_SIGNATURE_BYTES);
        reader_fixed(reader, accusation->signature, KEY_SIGNATURE_BYTES);
        reader_leave(reader);
        if (!reader_ok(reader))
            return;
        if (accusation->kind == ACCUSE_NOTHING)
            reader_fail(reader, "accusation of nothing");
        if (i > 0 && id_compare(&accusation[-1].accuser, &accusation->accuser) >= 0)
            reader_fail(reader, "accusers are not in ascending order");
    }
    reader_leave(reader);
    reader_leave(reader);
}

int
message_decode(const void *bytes, size_t len, struct message *out, struct err *err)
{
    struct message message = {0};
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    reader_enter(reader, 7, 7);
    message.nonce = reader_uint(reader, UINT64_MAX);
    reader_id(reader, &message.subject);
    message.answered = reader_bool(reader);
    message.incarnation = reader_uint(reader, UINT64_MAX);
    message.version = reader_uint(reader, UINT64_MAX);
    message.count = reader_enter(reader, 0, STATEMENTS_MAX);
    message.statements = xcalloc(message.count, sizeof(*message.statements));
    for (size_t i = 0; i < message.count && reader_ok(reader); i++)
        statement_decode(reader, &message.statements[i]);
    reader_leave(reader);
    message.asks_count = reader_enter(reader, 0, ASKS_MAX);
    message.asks = xcalloc(message.asks_count, sizeof(*message.asks));
    for (size_t i = 0; i < message.asks_count && reader_ok(reader); i++)
        message.asks[i] = reader_uint(reader, UINT64_MAX);
    reader_leave(reader);
    reader_leave(reader);
    if (reader_close(&reader, err)) {
        message_release(&message);
        return -1;
    }
    *out = message;
    return 0;
}

void
message_release(struct message *message)
{
    free(message->statements);
    free(message->asks);
    *message = (struct message){0};
}

/* ---- writing ---- */

void
draft_state(struct draft *draft, const void *record, size_t len,
            const struct accusation *accusations, uint32_t count)
{
    struct buf *out = &draft->statements;
    must(draft->count < STATEMENTS_MAX && count <= ACCUSERS_MAX);
    writer_array(out, 2);
    writer_bytes(out, record, len);
    writer_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        writer_array(out, 4);
        writer_id(out, &accusations[i].accuser);
        writer_uint(out, accusations[i].kind);
        writer_bytes(out, accusations[i].admission, KEY_SIGNATURE_BYTES);
        writer_bytes(out, accusations[i].signature, KEY_SIGNATURE_BYTES);
    }
    draft->count++;
}

void
draft_ask(struct draft *draft, uint64_t prefix)
{
    must(draft->asks_count < ASKS_MAX);
    writer_uint(&draft->asks, prefix);
    draft->asks_count++;
}

void
draft_encode(const struct draft *draft, struct buf *out)
{
    writer_array(out, 7);
    writer_uint(out, draft->nonce);
    writer_id(out, &draft->subject);
    writer_bool(out, draft->answered);
    writer_uint(out, draft->incarnation);
    writer_uint(out, draft->version);
    writer_array(out, draft->count);
    buf_add(out, draft->statements.data, draft->statements.len);
    writer_array(out, draft->asks_count);
    buf_add(out, draft->asks.data, draft->asks.len);
}

void
draft_release(struct draft *draft)
{
    buf_release(&draft->statements);
    buf_release(&draft->asks);
    *draft = (struct draft){0};
}

/* ---- digests ---- */

void
digest_encode(const struct digest_entry *entries, size_t count, struct buf *out)
{
    writer_array(out, count);
    for (size_t i = 0; i < count; i++) {
        must(i == 0 || entries[i - 1].prefix < entries[i].prefix);
        writer_array(out, 4);
        writer_uint(out, entries[i].prefix);
        writer_uint(out, entries[i].incarnation);
        writer_uint(out, entries[i].version);
        writer_uint(out, entries[i].state);
    }
}

int
digest_decode(const void *bytes, size_t len, struct digest_entry **entries, size_t *count,
              struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return -1;
    size_t most = reader_enter(reader, 0, CODEC_COUNT_MAX);
    struct digest_entry *list = xcalloc(most, sizeof(*list));
    for (size_t i = 0; i < most && reader_ok(reader); i++) {
        struct digest_entry *entry = &list[i];
        reader_enter(reader, 4, 4);
        entry->prefix = reader_uint(reader, UINT64_MAX);
        entry->incarnation = reader_uint(reader, UINT64_MAX);
        entry->version = reader_uint(reader, UINT64_MAX);
        entry->state = (enum member_state)reader_uint(reader, MEMBER_LEFT);
        reader_leave(reader);
        if (i > 0 && reader_ok(reader) && entry[-1].prefix >= entry->prefix)
            reader_fail(reader, "digest is not in ascending order");
    }
    reader_leave(reader);
    if (reader_close(&reader, err)) {
        free(list);
        return -1;
    }
    *entries = list;
    *count = most;
    return 0;
}
