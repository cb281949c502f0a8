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
accusations_decode(struct reader *reader, struct statement *out)
{
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
}

static void
statement_decode(struct reader *reader, struct statement *out)
{
    reader_enter(reader, 2, 2);
    size_t fields = reader_enter(reader, 1, 3);
    if (fields == 1) {
        out->bytes = reader_bytes(reader, RECORD_BYTES_MAX, &out->len);
    } else if (fields == 3) {
        out->prefix = reader_uint(reader, UINT64_MAX);
        out->incarnation = reader_uint(reader, UINT64_MAX);
        out->version = reader_uint(reader, UINT64_MAX);
    } else {
        reader_fail(reader, "a statement names no record");
    }
    reader_leave(reader);
    accusations_decode(reader, out);
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

int
statement_read(struct statement *statement, struct err *err)
{
    struct record record;
    if (statement->record || !statement->bytes)
        return 0;
    if (record_peek(statement->bytes, statement->len, &record, err))
        return -1;
    statement->record = record_dup(&record);
    return 0;
}

const struct record *
statement_record(const struct statement *statement, struct record *room)
{
    struct err err;
    if (statement->record)
        return statement->record;
    must(record_peek(statement->bytes, statement->len, room, &err) == 0);
    return room;
}

void
statement_release(struct statement *statement)
{
    free(statement->record);
    statement->record = NULL;
}

void
message_release(struct message *message)
{
    for (size_t i = 0; i < message->count; i++)
        statement_release(&message->statements[i]);
    free(message->statements);
    free(message->asks);
    *message = (struct message){0};
}

/* ---- writing ---- */

static void
accusations_encode(struct buf *out, const struct accusation *accusations, uint32_t count)
{
    must(count <= ACCUSERS_MAX);
    writer_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        writer_array(out, 4);
        writer_id(out, &accusations[i].accuser);
        writer_uint(out, accusations[i].kind);
        writer_bytes(out, accusations[i].admission, KEY_SIGNATURE_BYTES);
        writer_bytes(out, accusations[i].signature, KEY_SIGNATURE_BYTES);
    }
}

void
draft_state(struct draft *draft, const void *record, size_t len,
            const struct accusation *accusations, uint32_t count)
{
    struct buf *out = &draft->statements;
    must(draft->count < STATEMENTS_MAX);
    writer_array(out, 2);
    writer_array(out, 1);
    writer_bytes(out, record, len);
    accusations_encode(out, accusations, count);
    draft->count++;
}

void
draft_announce(struct draft *draft, const struct record *record,
               const struct accusation *accusations, uint32_t count)
{
    struct buf *out = &draft->statements;
    must(draft->count < STATEMENTS_MAX);
    writer_array(out, 2);
    writer_array(out, 3);
    writer_uint(out, id_prefix(&record->id));
    writer_uint(out, record->incarnation);
    writer_uint(out, record->version);
    accusations_encode(out, accusations, count);
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
