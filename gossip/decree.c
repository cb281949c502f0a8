#include "gossip/decree.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/base/mutant.h"
#include "transport/codec.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_VERSION = 1, HEADER_FIELDS = 9, COMMITTEE = 7, COMMITTEE_MEMBERS = 200 };

const char *
decree_cause_name(enum decree_cause cause)
{
    static const char *const names[] = {
#define CAUSE_TEXT(name, text) text,
        DECREE_CAUSES(CAUSE_TEXT)
#undef CAUSE_TEXT
    };
    return (unsigned)cause < DECREE_CAUSES_COUNT ? names[cause] : "unknown";
}

uint32_t
epoch_generation(uint64_t epoch)
{
    return (uint32_t)(epoch >> EPOCH_NUMBER_BITS);
}

uint32_t
epoch_number(uint64_t epoch)
{
    return (uint32_t)epoch;
}

void
decree_release(struct decree *decree)
{
    free(decree->members);
    free(decree->body);
    *decree = (struct decree){0};
}

/* A body of no bytes is known, too: its pointer is not NULL. */
static uint8_t *
body_copy(const uint8_t *body, size_t len)
{
    uint8_t *copy = xcalloc(len + 1, 1);
    if (len > 0)
        memcpy(copy, body, len);
    return copy;
}

void
decree_copy(struct decree *to, const struct decree *from)
{
    *to = *from;
    to->members = xcalloc(from->members_count, sizeof(*to->members));
    memcpy(to->members, from->members, from->members_count * sizeof(*to->members));
    to->body = from->body ? body_copy(from->body, from->body_len) : NULL;
}

static const struct decree_member *
member_find(const struct decree_member *members, uint32_t count, const struct id *id)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = id_compare(&members[middle].id, id);
        if (order == 0)
            return &members[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool
decree_member(const struct decree *decree, const struct id *id)
{
    return member_find(decree->members, decree->members_count, id) != NULL;
}

bool
decree_voter(const struct decree *decree, const struct id *id)
{
    for (uint32_t i = 0; i < decree->voters_count; i++)
        if (id_equal(&decree->voters[i], id))
            return true;
    return false;
}

/* ---- encoding ---- */

void
decree_header_encode(const struct decree *decree, struct buf *out)
{
    writer_array(out, HEADER_FIELDS);
    writer_uint(out, HEADER_VERSION);
    writer_id(out, &decree->swarm);
    writer_uint(out, decree->generation);
    writer_uint(out, decree->epoch);
    writer_id(out, &decree->previous);
    writer_uint(out, (uint64_t)decree->cause);
    writer_array(out, (size_t)decree->members_count * 2);
    for (uint32_t i = 0; i < decree->members_count; i++) {
        writer_id(out, &decree->members[i].id);
        writer_uint(out, decree->members[i].incarnation);
    }
    writer_array(out, decree->voters_count);
    for (uint32_t i = 0; i < decree->voters_count; i++)
        writer_id(out, &decree->voters[i]);
    writer_id(out, &decree->body_hash);
}

void
decree_encode(const struct decree *decree, struct buf *out)
{
    must(decree->body != NULL && decree->body_len <= DECREE_BYTES_MAX);
    struct buf header = {0};
    decree_header_encode(decree, &header);
    writer_array(out, 2);
    writer_bytes(out, header.data, header.len);
    writer_bytes(out, decree->body, decree->body_len);
    buf_release(&header);
}

void
decree_hash(const struct decree *decree, struct id *out)
{
    struct buf header = {0};
    decree_header_encode(decree, &header);
    key_hash(header.data, header.len, out);
    buf_release(&header);
}

static void
members_read(struct reader *reader, struct decree *out)
{
    size_t fields = reader_enter(reader, 2, (size_t)PLAN_NODES_MAX * 2);
    if (fields % 2 != 0)
        reader_fail(reader, "decree's list of members ends in the middle of one");
    if (!reader_ok(reader))
        return;
    out->members_count = (uint32_t)(fields / 2);
    out->members = xcalloc(out->members_count, sizeof(*out->members));
    for (uint32_t i = 0; i < out->members_count; i++) {
        reader_id(reader, &out->members[i].id);
        out->members[i].incarnation = reader_uint(reader, UINT64_MAX);
        if (id_empty(&out->members[i].id) ||
            (i > 0 && id_compare(&out->members[i - 1].id, &out->members[i].id) >= 0))
            reader_fail(reader, "decree's members are not in ascending order");
    }
    reader_leave(reader);
}

static void
voters_read(struct reader *reader, struct decree *out)
{
    size_t count = reader_enter(reader, 1, VOTERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct id voter;
        reader_id(reader, &voter);
        if (!reader_ok(reader))
            return;
        if (!decree_member(out, &voter) || decree_voter(out, &voter))
            reader_fail(reader, "decree's voter %u is no member or is named twice", i);
        out->voters[i] = voter;
        out->voters_count = i + 1;
    }
    reader_leave(reader);
}

/* The founding has epoch 1, no swarm yet (its hash becomes the swarm's id) and a nonce in
 * place of a previous hash. */
static void
header_check(struct reader *reader, const struct decree *decree)
{
    if (!reader_ok(reader))
        return;
    bool first = decree->epoch == 1;
    if (epoch_number(decree->epoch) == 0)
        reader_fail(reader, "decree has no epoch");
    if (decree->generation != epoch_generation(decree->epoch))
        reader_fail(reader, "decree of generation %u with an epoch of generation %u",
                    decree->generation, epoch_generation(decree->epoch));
    if (decree->cause == CAUSE_RECOVERY && decree->generation == 0)
        reader_fail(reader, "recovery without a generation of its own");
    if (first != (decree->cause == CAUSE_FOUNDING) || first != id_empty(&decree->swarm))
        reader_fail(reader, "decree of epoch %llu mixes founding and following",
                    (unsigned long long)decree->epoch);
    if (id_empty(&decree->previous))
        reader_fail(reader, "decree of epoch %llu follows nothing",
                    (unsigned long long)decree->epoch);
}

int
decree_header_decode(const void *bytes, size_t len, struct decree *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "decree's header");
    struct decree decree = {0};
    reader_enter(reader, HEADER_FIELDS, HEADER_FIELDS);
    if (reader_uint(reader, UINT32_MAX) != HEADER_VERSION)
        reader_fail(reader, "decree of another version than %d", HEADER_VERSION);
    reader_id(reader, &decree.swarm);
    decree.generation = (uint32_t)reader_uint(reader, UINT32_MAX);
    decree.epoch = reader_uint(reader, INT64_MAX);
    reader_id(reader, &decree.previous);
    decree.cause = (enum decree_cause)reader_uint(reader, DECREE_CAUSES_COUNT - 1);
    members_read(reader, &decree);
    if (reader_ok(reader))
        voters_read(reader, &decree);
    reader_id(reader, &decree.body_hash);
    reader_leave(reader);
    header_check(reader, &decree);
    if (reader_close(&reader, err)) {
        decree_release(&decree);
        return err_wrap(err, "decree's header");
    }
    *out = decree;
    return 0;
}

int
decree_decode(const void *bytes, size_t len, struct decree *out, struct err *err)
{
    struct reader *reader = reader_open(bytes, len, err);
    if (!reader)
        return err_wrap(err, "decree");
    size_t header_len, body_len;
    reader_enter(reader, 2, 2);
    const uint8_t *header = reader_bytes(reader, FRAME_BYTES_MAX, &header_len);
    const uint8_t *body = reader_bytes(reader, DECREE_BYTES_MAX, &body_len);
    reader_leave(reader);
    if (reader_close(&reader, err))
        return err_wrap(err, "decree");
    struct decree decree = {0};
    if (decree_header_decode(header, header_len, &decree, err))
        return -1;
    struct id hash;
    key_hash(body, body_len, &hash);
    if (!id_equal(&hash, &decree.body_hash)) {
        decree_release(&decree);
        return err_set(err, ERR_WIRE, "decree's body does not have the header's hash");
    }
    decree.body = body_copy(body, body_len);
    decree.body_len = body_len;
    *out = decree;
    return 0;
}

/* ---- voters ---- */

uint32_t
decree_voters_most(uint32_t members)
{
    if (members <= VOTERS_MAX)
        return members;
    return members <= COMMITTEE_MEMBERS ? COMMITTEE : VOTERS_MAX;
}

uint32_t
decree_next_voters(const struct decree *current, const struct decree_member *members,
                   uint32_t count, struct id voters[VOTERS_MAX])
{
    uint32_t want = decree_voters_most(count);
    uint32_t got = 0;
    must(members || count == 0);
    for (uint32_t i = 0; current && i < current->voters_count && got < want; i++)
        if (member_find(members, count, &current->voters[i]))
            voters[got++] = current->voters[i];
    for (uint32_t i = 0; i < count && got < want; i++)
        if (!current || !decree_voter(current, &members[i].id))
            voters[got++] = members[i].id;
    return got;
}

bool
decree_quorum(const struct decree *decree, uint32_t mask)
{
    uint32_t count = decree->voters_count;
    uint32_t tie_break = count % 2 == 0 ? 1 : 0;
    if (MUTANT(tie))
        return 2 * (uint32_t)__builtin_popcount(mask) >= count;
    uint32_t weight = (mask & 1) * tie_break;
    for (uint32_t i = 0; i < count; i++)
        weight += mask >> i & 1;
    return 2 * weight > count + tie_break;
}
