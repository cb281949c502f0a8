#include "gossip/member.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

const char *
member_state_name(enum member_state state)
{
    static const char *const names[] = {"unknown", "alive", "suspect", "dead", "left"};
    must((unsigned)state < sizeof(names) / sizeof(*names));
    return names[state];
}

/* ---- one member ---- */

enum member_state
entry_state(const struct entry *entry)
{
    if (entry->member.record->leaving)
        return MEMBER_LEFT;
    if (entry->accusations_count == 0)
        return MEMBER_ALIVE;
    return entry->expired ? MEMBER_DEAD : MEMBER_SUSPECT;
}

const struct accusation *
entry_accused_by(const struct entry *entry, const struct id *id)
{
    for (uint32_t i = 0; i < entry->accusations_count; i++)
        if (id_equal(&entry->accusations[i].accuser, id))
            return &entry->accusations[i];
    return NULL;
}

unsigned
entry_accusers(const struct entry *entry, const struct id *id, enum accusation_kind kind)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < entry->accusations_count; i++)
        if (entry->accusations[i].kind >= kind &&
            !id_equal(&entry->accusations[i].accuser, id))
            count++;
    return count;
}

static bool
graver(const struct accusation *left, const struct accusation *right)
{
    if (left->kind != right->kind)
        return left->kind > right->kind;
    return id_compare(&left->accuser, &right->accuser) < 0;
}

static uint32_t
least_grave(const struct entry *entry)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < entry->accusations_count; i++)
        if (graver(&entry->accusations[least], &entry->accusations[i]))
            least = i;
    return least;
}

/* The gravest ACCUSERS_MAX are kept. What is dropped is outweighed by as many others, and
 * none of them can become lighter, so the order of arrival does not matter. */
bool
entry_accuse(struct entry *entry, const struct accusation *accusation)
{
    struct accusation *list = entry->accusations;
    uint32_t at = 0;
    while (at < entry->accusations_count &&
           id_compare(&list[at].accuser, &accusation->accuser) < 0)
        at++;
    if (at < entry->accusations_count &&
        id_equal(&list[at].accuser, &accusation->accuser)) {
        if (list[at].kind >= accusation->kind)
            return false;
        list[at] = *accusation;
        return true;
    }
    if (entry->accusations_count == ACCUSERS_MAX) {
        uint32_t least = least_grave(entry);
        if (!graver(accusation, &list[least]))
            return false;
        entry->accusations_count--;
        memmove(&list[least], &list[least + 1],
                (entry->accusations_count - least) * sizeof(*list));
        if (least < at)
            at--;
    }
    memmove(&list[at + 1], &list[at], (entry->accusations_count - at) * sizeof(*list));
    list[at] = *accusation;
    entry->accusations_count++;
    return true;
}

void
entry_record(struct entry *entry, const struct record *record, const void *bytes,
             size_t len)
{
    struct member *member = &entry->member;
    if (!member->bytes || record->incarnation != member->record->incarnation) {
        entry->accusations_count = 0;
        entry->expired = false;
        entry->confirmed_ms = entry->refused_ms = entry->told_ms = 0;
    }
    uint8_t *copy = xmemdup(bytes, len);
    struct record *its = record_dup(record);
    free((void *)member->bytes);
    free((void *)member->record);
    member->bytes = copy;
    member->len = len;
    member->record = its;
}

/* ---- the table ---- */

void
table_release(struct table *table)
{
    while (table->count > 0)
        table_remove(table, table->list[table->count - 1]);
}

/* Where an id stands, or would. */
static size_t
place(const struct table *table, const struct id *id)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (id_compare(&table->list[middle]->member.record->id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct entry *
table_find(const struct table *table, const struct id *id)
{
    size_t at = place(table, id);
    if (at == table->count || !id_equal(&table->list[at]->member.record->id, id))
        return NULL;
    return table->list[at];
}

struct entry *
table_find_prefix(const struct table *table, uint64_t prefix)
{
    struct id least = {0};
    for (int i = 0; i < 8; i++)
        least.bytes[i] = (uint8_t)(prefix >> (56 - 8 * i));
    size_t at = place(table, &least);
    if (at == table->count || id_prefix(&table->list[at]->member.record->id) != prefix)
        return NULL;
    return table->list[at];
}

static struct entry *
longest_gone(const struct table *table)
{
    struct entry *oldest = NULL;
    for (size_t i = 0; i < table->count; i++) {
        struct entry *entry = table->list[i];
        if (entry != table->keeps &&
            (entry->member.state == MEMBER_DEAD || entry->member.state == MEMBER_LEFT))
            if (!oldest || entry->member.since_ms < oldest->member.since_ms)
                oldest = entry;
    }
    return oldest;
}

struct entry *
table_add(struct table *table, const struct record *record, const void *bytes, size_t len)
{
    if (table->count == MEMBERS_MAX) {
        struct entry *oldest = longest_gone(table);
        if (!oldest)
            return NULL;
        table_remove(table, oldest);
    }
    size_t at = place(table, &record->id);
    struct entry *entry = xcalloc(1, sizeof(*entry));
    entry_record(entry, record, bytes, len);
    memmove(&table->list[at + 1], &table->list[at],
            (table->count - at) * sizeof(struct entry *));
    table->list[at] = entry;
    table->count++;
    return entry;
}

void
table_remove(struct table *table, struct entry *entry)
{
    size_t at = place(table, &entry->member.record->id);
    must(at < table->count && table->list[at] == entry);
    table->count--;
    table->removals++;
    memmove(&table->list[at], &table->list[at + 1],
            (table->count - at) * sizeof(struct entry *));
    free((void *)entry->member.bytes);
    free((void *)entry->member.record);
    free(entry);
}

size_t
table_active(const struct table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        enum member_state state = table->list[i]->member.state;
        count += state == MEMBER_ALIVE || state == MEMBER_SUSPECT;
    }
    return count;
}

/* ---- merging ---- */

/* Order of two records of one incarnation: by version, then by their bytes, so that all
 * choose the same. */
static int
record_order(const struct entry *entry, const struct record *record, const uint8_t *bytes,
             size_t len)
{
    int order = record_compare(record, entry->member.record);
    if (order != 0)
        return order;
    if (len != entry->member.len)
        return len > entry->member.len ? 1 : -1;
    return memcmp(bytes, entry->member.bytes, len);
}

static int
judge_accusations(const struct table *table, const struct entry *entry,
                  const struct record *record, const struct statement *statement,
                  const struct id *swarm, const struct id *admit_id, struct err *err)
{
    bool same = entry && entry->member.record->incarnation == record->incarnation;
    for (uint32_t i = 0; i < statement->accusations_count; i++) {
        const struct accusation *accusation = &statement->accusations[i];
        if (id_equal(&accusation->accuser, &record->id))
            return err_set(err, ERR_WIRE, "a node accuses itself");
        const struct accusation *known =
            same ? entry_accused_by(entry, &accusation->accuser) : NULL;
        if (known && known->kind >= accusation->kind)
            continue;
        const struct entry *accuser = table_find(table, &accusation->accuser);
        bool admitted =
            accuser && memcmp(accuser->member.record->admission, accusation->admission,
                              KEY_SIGNATURE_BYTES) == 0;
        if (accusation_verify(accusation, swarm, admitted ? NULL : admit_id, &record->id,
                              record->incarnation, err))
            return -1;
    }
    return 0;
}

int
table_judge(const struct table *table, const struct id *self, struct statement *statement,
            const struct id *swarm, const struct id *admit_id, struct err *err)
{
    struct record record;
    if (record_peek(statement->bytes, statement->len, &record, err))
        return -1;
    const struct entry *entry = table_find(table, &record.id);
    statement->leans = entry != NULL;
    statement->removals = table->removals;
    bool mine = id_equal(&record.id, self);
    if (entry && !mine && record.incarnation < entry->member.record->incarnation)
        return 0; /* it is answered, and changes nothing */
    int order =
        entry ? record_order(entry, &record, statement->bytes, statement->len) : 1;
    if (order > 0 || (mine && order != 0)) {
        bool admitted = entry && memcmp(entry->member.record->admission, record.admission,
                                        KEY_SIGNATURE_BYTES) == 0;
        if (record_verify(&record, statement->bytes, statement->len, swarm,
                          admitted ? NULL : admit_id, err))
            return -1;
    }
    return judge_accusations(table, entry, &record, statement, swarm, admit_id, err);
}

/* A member that nobody here knows is not taken in when it is dead or gone already: else
 * the forgotten would come back. */
static bool
gone_already(const struct statement *statement, const struct record *record)
{
    for (uint32_t i = 0; i < statement->accusations_count; i++)
        if (statement->accusations[i].kind == ACCUSE_DEAD)
            return true;
    return record->leaving;
}

unsigned
table_merge(struct table *table, const struct statement *statement, struct entry **at)
{
    struct record record;
    struct err err;
    unsigned found = 0;
    must(record_peek(statement->bytes, statement->len, &record, &err) == 0);
    *at = NULL;
    if (statement->leans && statement->removals != table->removals)
        return MERGE_IGNORED;
    struct entry *entry = *at = table_find(table, &record.id);
    if (!entry) {
        if (!gone_already(statement, &record))
            entry = *at = table_add(table, &record, statement->bytes, statement->len);
        if (!entry)
            return MERGE_IGNORED;
        found = MERGE_ADDED | MERGE_RECORD | MERGE_RISEN;
    } else {
        uint64_t known = entry->member.record->incarnation;
        if (record.incarnation < known)
            return MERGE_STALE;
        if (record.incarnation > known)
            found |= MERGE_RISEN;
        int order = record_order(entry, &record, statement->bytes, statement->len);
        if (order != 0 && record_compare(&record, entry->member.record) == 0)
            found |= MERGE_TWIN;
        if (order > 0) {
            entry_record(entry, &record, statement->bytes, statement->len);
            found |= MERGE_RECORD;
        }
        if (entry->accusations_count > 0 && statement->accusations_count == 0)
            found |= MERGE_UNAWARE;
    }
    for (uint32_t i = 0; i < statement->accusations_count; i++)
        if (entry_accuse(entry, &statement->accusations[i]))
            found |= MERGE_ACCUSED;
    return found;
}
