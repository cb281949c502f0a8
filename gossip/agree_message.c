#include "gossip/agree_message.h"
#include "transport/base/must.h"
#include "transport/codec.h"

#include <string.h>

/* Terms and epochs leave room for one more. */
static const uint64_t number_max = INT64_MAX;

/* ---- certificates and links ---- */

void
accept_encode(const struct decree *decree, const struct id *hash, uint64_t term,
              struct buf *out)
{
    writer_array(out, 6);
    writer_text(out, decree->cause == CAUSE_RECOVERY ? "recover" : "accept");
    writer_id(out, id_empty(&decree->swarm) ? hash : &decree->swarm);
    writer_uint(out, decree->generation);
    writer_uint(out, decree->epoch);
    writer_uint(out, term);
    writer_id(out, hash);
}

void
accept_sign(const struct key *key, const struct decree *decree, const struct id *hash,
            uint64_t term, uint8_t signature[KEY_SIGNATURE_BYTES])
{
    struct buf text = {0};
    accept_encode(decree, hash, term, &text);
    key_sign(key, text.data, text.len, signature);
    buf_release(&text);
}

bool
accept_verify(const struct id *voter, const struct decree *decree, const struct id *hash,
              uint64_t term, const uint8_t signature[KEY_SIGNATURE_BYTES])
{
    struct buf text = {0};
    accept_encode(decree, hash, term, &text);
    bool right = key_verify(voter, text.data, text.len, signature);
    buf_release(&text);
    return right;
}

/* The swarm's id: the founding decree's hash, which the founding itself cannot name. */
static const struct id *
swarm_of(const struct decree *decree, const struct id *hash)
{
    return decree->epoch == 1 ? hash : &decree->swarm;
}

int
certificate_verify(const struct decree *previous, const struct id *previous_hash,
                   const struct decree *decree, const struct id *hash,
                   const struct certificate *certificate, struct err *err)
{
    unsigned long long epoch = decree->epoch;
    if (!previous) {
        if (decree->epoch != 1)
            return err_set(err, ERR_WIRE, "decree of epoch %llu is no founding", epoch);
        if (decree->members_count != 1)
            return err_set(err, ERR_WIRE, "founding names %u members, not its founder",
                           decree->members_count);
    } else if (decree->epoch != previous->epoch + 1 ||
               !id_equal(&decree->previous, previous_hash) ||
               decree->generation != previous->generation ||
               !id_equal(&decree->swarm, swarm_of(previous, previous_hash))) {
        return err_set(err, ERR_WIRE, "decree of epoch %llu does not follow epoch %llu",
                       epoch, (unsigned long long)previous->epoch);
    }
    const struct decree *by = previous ? previous : decree;
    if (certificate->mask >> by->voters_count != 0)
        return err_set(err, ERR_WIRE, "certificate of epoch %llu names unknown voters",
                       epoch);
    if (!decree_quorum(by, certificate->mask))
        return err_set(err, ERR_AUTH,
                       "certificate of epoch %llu has no majority of the voters", epoch);
    for (uint32_t i = 0; i < by->voters_count; i++)
        if (certificate->mask >> i & 1 &&
            !accept_verify(&by->voters[i], decree, hash, certificate->term,
                           certificate->signatures[i]))
            return err_set(err, ERR_AUTH,
                           "certificate of epoch %llu: signature of voter %u is wrong",
                           epoch, i);
    return 0;
}

int
recovery_verify(const struct authority *authority, const struct id *swarm,
                const struct decree *decree, const struct id *hash,
                const struct certificate *certificate, struct err *err)
{
    if (decree->cause != CAUSE_RECOVERY || !id_equal(&decree->swarm, swarm))
        return err_set(err, ERR_WIRE, "decree of epoch %u is no recovery of this swarm",
                       epoch_number(decree->epoch));
    for (size_t i = 0; i < authority->count && certificate->mask == 1; i++)
        if (accept_verify(&authority->keys[i], decree, hash, certificate->term,
                          certificate->signatures[0]))
            return 0;
    return err_set(err, ERR_AUTH,
                   "recovery to generation %u is not signed with the swarm's secret",
                   decree->generation);
}

void
link_encode(const struct decree *decree, const struct certificate *certificate,
            struct buf *out)
{
    struct buf part = {0};
    writer_array(out, 4);
    decree_header_encode(decree, &part);
    writer_bytes(out, part.data, part.len);
    writer_uint(out, certificate->term);
    writer_uint(out, certificate->mask);
    buf_clear(&part);
    for (uint32_t i = 0; i < VOTERS_MAX; i++)
        if (certificate->mask >> i & 1)
            buf_add(&part, certificate->signatures[i], KEY_SIGNATURE_BYTES);
    writer_bytes(out, part.data, part.len);
    buf_release(&part);
}

int
link_decode(const void *bytes, size_t len, struct decree *header, struct id *hash,
            struct certificate *certificate, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "certificate");
    size_t header_len, signatures_len, at = 0;
    struct certificate read = {0};
    reader_enter(reader, 4, 4);
    const uint8_t *encoded = reader_bytes(reader, FRAME_BYTES_MAX, &header_len);
    read.term = reader_uint(reader, number_max);
    read.mask = (uint32_t)reader_uint(reader, (1u << VOTERS_MAX) - 1);
    const uint8_t *signatures =
        reader_bytes(reader, (size_t)VOTERS_MAX * KEY_SIGNATURE_BYTES, &signatures_len);
    for (uint32_t i = 0; i < VOTERS_MAX; i++)
        if (read.mask >> i & 1 && at + KEY_SIGNATURE_BYTES <= signatures_len) {
            memcpy(read.signatures[i], signatures + at, KEY_SIGNATURE_BYTES);
            at += KEY_SIGNATURE_BYTES;
        }
    if (at != signatures_len ||
        at != (size_t)__builtin_popcount(read.mask) * KEY_SIGNATURE_BYTES)
        reader_fail(reader, "%zu bytes of signatures do not fit the mask",
                    signatures_len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "certificate");
    if (decree_header_decode(encoded, header_len, header, err))
        return -1;
    key_hash(encoded, header_len, hash);
    *certificate = read;
    return 0;
}

/* ---- messages ---- */

void
beat_encode(const struct beat *message, struct buf *out)
{
    writer_array(out, 4);
    writer_uint(out, message->term);
    writer_uint(out, message->epoch);
    writer_id(out, &message->hash);
    writer_id(out, &message->successor);
}

int
beat_decode(const void *bytes, size_t len, struct beat *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "beat");
    struct beat read = {0};
    reader_enter(reader, 4, 4);
    read.term = reader_uint(reader, number_max);
    read.epoch = reader_uint(reader, number_max);
    reader_id(reader, &read.hash);
    reader_id(reader, &read.successor);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "beat");
    *out = read;
    return 0;
}

void
beat_reply_encode(const struct beat_reply *message, struct buf *out)
{
    writer_array(out, 2);
    writer_uint(out, message->term);
    writer_uint(out, message->epoch);
}

int
beat_reply_decode(const void *bytes, size_t len, struct beat_reply *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "answer to a beat");
    struct beat_reply read = {0};
    reader_enter(reader, 2, 2);
    read.term = reader_uint(reader, number_max);
    read.epoch = reader_uint(reader, number_max);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "answer to a beat");
    *out = read;
    return 0;
}

void
vote_ask_encode(const struct vote_ask *message, struct buf *out)
{
    writer_array(out, 3);
    writer_uint(out, message->term);
    writer_uint(out, message->epoch);
    writer_id(out, &message->hash);
}

int
vote_ask_decode(const void *bytes, size_t len, struct vote_ask *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "request for a vote");
    struct vote_ask read = {0};
    reader_enter(reader, 3, 3);
    read.term = reader_uint(reader, number_max);
    read.epoch = reader_uint(reader, number_max);
    reader_id(reader, &read.hash);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "request for a vote");
    *out = read;
    return 0;
}

void
vote_reply_encode(const struct vote_reply *message, struct buf *out)
{
    writer_array(out, 6);
    writer_uint(out, message->term);
    writer_uint(out, (uint64_t)message->reason);
    writer_uint(out, message->my_term);
    writer_uint(out, message->my_epoch);
    writer_uint(out, message->accepted_term);
    writer_bytes(out, message->accepted, message->accepted_len);
}

int
vote_reply_decode(const void *bytes, size_t len, struct vote_reply *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "vote");
    struct vote_reply read = {0};
    reader_enter(reader, 6, 6);
    read.term = reader_uint(reader, number_max);
    read.reason = (enum agree_reason)reader_uint(reader, AGREE_REASONS_COUNT - 1);
    read.my_term = reader_uint(reader, number_max);
    read.my_epoch = reader_uint(reader, number_max);
    read.accepted_term = reader_uint(reader, number_max);
    read.accepted = reader_bytes(reader, FRAME_BYTES_MAX, &read.accepted_len);
    if ((read.accepted_term == 0) != (read.accepted_len == 0))
        reader_fail(reader, "accepted term %llu with a decree of %zu bytes",
                    (unsigned long long)read.accepted_term, read.accepted_len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "vote");
    *out = read;
    return 0;
}

void
propose_encode(const struct propose *message, struct buf *out)
{
    writer_array(out, 3);
    writer_uint(out, message->term);
    writer_bool(out, message->adopted);
    writer_bytes(out, message->decree, message->decree_len);
}

int
propose_decode(const void *bytes, size_t len, struct propose *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "proposal");
    struct propose read = {0};
    reader_enter(reader, 3, 3);
    read.term = reader_uint(reader, number_max);
    read.adopted = reader_bool(reader);
    read.decree = reader_bytes(reader, FRAME_BYTES_MAX, &read.decree_len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "proposal");
    *out = read;
    return 0;
}

void
accept_message_encode(const struct accept *message, struct buf *out)
{
    writer_array(out, 4);
    writer_uint(out, message->term);
    writer_uint(out, message->epoch);
    writer_id(out, &message->hash);
    writer_bytes(out, message->signature, KEY_SIGNATURE_BYTES);
}

int
accept_message_decode(const void *bytes, size_t len, struct accept *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "acceptance");
    struct accept read = {0};
    reader_enter(reader, 4, 4);
    read.term = reader_uint(reader, number_max);
    read.epoch = reader_uint(reader, number_max);
    reader_id(reader, &read.hash);
    reader_fixed(reader, read.signature, KEY_SIGNATURE_BYTES);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "acceptance");
    *out = read;
    return 0;
}

void
reject_encode(const struct reject *message, struct buf *out)
{
    writer_array(out, 7);
    writer_uint(out, message->term);
    writer_uint(out, message->epoch);
    writer_id(out, &message->hash);
    writer_uint(out, (uint64_t)message->reason);
    writer_uint(out, message->my_term);
    writer_uint(out, message->my_epoch);
    writer_text(out, message->text);
}

int
reject_decode(const void *bytes, size_t len, struct reject *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "rejection");
    struct reject read = {0};
    reader_enter(reader, 7, 7);
    read.term = reader_uint(reader, number_max);
    read.epoch = reader_uint(reader, number_max);
    reader_id(reader, &read.hash);
    read.reason = (enum agree_reason)reader_uint(reader, AGREE_REASONS_COUNT - 1);
    if (read.reason == REASON_NONE)
        reader_fail(reader, "no reason is given");
    read.my_term = reader_uint(reader, number_max);
    read.my_epoch = reader_uint(reader, number_max);
    reader_text(reader, read.text, sizeof(read.text));
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "rejection");
    *out = read;
    return 0;
}

void
commit_encode(const struct commit *message, struct buf *out)
{
    must(message->count >= 1 && message->count <= AGREE_LINKS_MAX);
    writer_array(out, 4);
    writer_bool(out, message->all);
    writer_array(out, message->count);
    for (size_t i = 0; i < message->count; i++)
        writer_bytes(out, message->links[i].bytes, message->links[i].len);
    writer_bytes(out, message->body, message->body_len);
    writer_bytes(out, message->root, message->root_len);
}

int
commit_decode(const void *bytes, size_t len, struct commit *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "committed decree");
    struct commit read = {0};
    reader_enter(reader, 4, 4);
    read.all = reader_bool(reader);
    read.count = reader_enter(reader, 1, AGREE_LINKS_MAX);
    for (size_t i = 0; i < read.count; i++)
        read.links[i].bytes =
            reader_bytes(reader, AGREE_LINKS_BYTES_MAX, &read.links[i].len);
    reader_leave(reader);
    read.body = reader_bytes(reader, DECREE_BYTES_MAX, &read.body_len);
    read.root = reader_bytes(reader, AGREE_ROOT_BYTES_MAX, &read.root_len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "committed decree");
    *out = read;
    return 0;
}

void
fetch_encode(const struct fetch *message, struct buf *out)
{
    writer_array(out, 1);
    writer_uint(out, message->epoch);
}

int
fetch_decode(const void *bytes, size_t len, struct fetch *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "request for a decree");
    struct fetch read = {0};
    reader_enter(reader, 1, 1);
    read.epoch = reader_uint(reader, number_max);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "request for a decree");
    *out = read;
    return 0;
}
