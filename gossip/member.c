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

uint32_t
entry_charges(const struct entry *entry)
{
    return entry->charges ? entry->charges->count : 0;
}

enum member_state
entry_state(const struct entry *entry)
{
    if (entry->member.record->leaving)
        return MEMBER_LEFT;
    if (!entry->charges)
        return MEMBER_ALIVE;
    return entry->expired ? MEMBER_DEAD : MEMBER_SUSPECT;
}

const struct accusation *
entry_accused_by(const struct entry *entry, const struct id *id)
{
    for (uint32_t i = 0; i < entry_charges(entry); i++)
        if (id_equal(&entry->charges->list[i].accuser, id))
            return &entry->charges->list[i];
    return NULL;
}

unsigned
entry_accusers(const struct entry *entry, const struct id *id, enum accusation_kind kind)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < entry_charges(entry); i++)
        if (entry->charges->list[i].kind >= kind &&
            !id_equal(&entry->charges->list[i].accuser, id))
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
least_grave(const struct charges *charges)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < charges->count; i++)
        if (graver(&charges->list[least], &charges->list[i]))
            least = i;
    return least;
}

/* The gravest ACCUSERS_MAX are kept. What is dropped is outweighed by as many others, and
 * none of them can become lighter, so the order of arrival does not matter. */
bool
entry_accuse(struct entry *entry, const struct accusation *accusation)
{
    if (!entry->charges)
        entry->charges = xcalloc(1, sizeof(*entry->charges));
    struct charges *charges = entry->charges;
    struct accusation *list = charges->list;
    uint32_t at = 0;
    while (at < charges->count && id_compare(&list[at].accuser, &accusation->accuser) < 0)
        at++;
    if (at < charges->count && id_equal(&list[at].accuser, &accusation->accuser)) {
        if (list[at].kind >= accusation->kind)
            return false;
        list[at] = *accusation;
        return true;
    }
    if (charges->count == ACCUSERS_MAX) {
        uint32_t least = least_grave(charges);
        if (!graver(accusation, &list[least]))
            return false;
        charges->count--;
        memmove(&list[least], &list[least + 1], (charges->count - least) * sizeof(*list));
        if (least < at)
            at--;
    }
    memmove(&list[at + 1], &list[at], (charges->count - at) * sizeof(*list));
    list[at] = *accusation;
    charges->count++;
    return true;
}

bool
entry_readmit(struct entry *entry, const struct id *swarm, const struct id *admit_id,
              const struct id *before_id)
{
    struct charges *charges = entry->charges;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < entry_charges(entry); i++) {
        const struct accusation *said = &charges->list[i];
        if (secret_admitted(admit_id, swarm, &said->accuser, said->admission) ||
            (!id_empty(before_id) &&
             secret_admitted(before_id, swarm, &said->accuser, said->admission)))
            charges->list[kept++] = *said;
    }
    if (!charges || kept > 0) {
        if (charges)
            charges->count = kept;
        return false;
    }
    free(charges);
    entry->charges = NULL;
    entry->denied = false;
    entry->refused_ms = entry->told_ms = 0;
    return true;
}

void
entry_record(struct entry *entry, const struct record *record, const void *bytes,
             size_t len)
{
    struct member *member = &entry->member;
    if (!member->bytes || record->incarnation != member->record->incarnation) {
        free(entry->charges);
        entry->charges = NULL;
        entry->expired = entry->denied = false;
        entry->refused_ms = entry->told_ms = 0;
    }
    uint8_t *copy = xmemdup(bytes, len);
    struct record *its = record_dup(record);
    free((void *)member->bytes);
    free((void *)member->record);
    member->bytes = copy;
    member->len = len;
    member->record = its;
}

bool
allowance_take(int64_t *filled_ms, int32_t *left, int64_t now_ms, int64_t every_ms,
               int32_t most)
{
    if (*filled_ms == 0 || now_ms - *filled_ms >= every_ms * most) {
        *filled_ms = now_ms;
        *left = most;
    } else if (now_ms - *filled_ms >= every_ms) {
        int64_t more = (now_ms - *filled_ms) / every_ms;
        *filled_ms += more * every_ms;
        *left = *left + more > most ? most : *left + (int32_t)more;
    }
    if (*left <= 0)
        return false;
    --*left;
    return true;
}

/* ---- sets ---- */

bool
entry_in(const struct entry *entry, enum entry_set set)
{
    return entry->place[set] != 0;
}

void
table_put(struct table *table, struct entry *entry, enum entry_set set)
{
    struct set *to = &table->sets[set];
    if (entry->place[set])
        return;
    if (to->count == to->capacity) {
        to->capacity = to->capacity ? 2 * to->capacity : 16;
        to->list = xrealloc(to->list, to->capacity, sizeof(struct entry *));
    }
    to->list[to->count++] = entry;
    entry->place[set] = (uint32_t)to->count;
}

void
table_take(struct table *table, struct entry *entry, enum entry_set set)
{
    struct set *from = &table->sets[set];
    if (!entry->place[set])
        return;
    struct entry *last = from->list[--from->count];
    from->list[entry->place[set] - 1] = last;
    last->place[set] = entry->place[set];
    entry->place[set] = 0;
}

static void
table_mark(struct table *table, struct entry *entry, enum entry_set set, bool in)
{
    if (in)
        table_put(table, entry, set);
    else
        table_take(table, entry, set);
}

void
table_state(struct table *table, struct entry *entry, enum member_state state)
{
    entry->member.state = state;
    table_mark(table, entry, SET_ACTIVE,
               state == MEMBER_ALIVE || state == MEMBER_SUSPECT);
    table_mark(table, entry, SET_SUSPECT, state == MEMBER_SUSPECT);
    table_mark(table, entry, SET_GONE, state == MEMBER_DEAD || state == MEMBER_LEFT);
}

size_t
table_active(const struct table *table)
{
    return table->sets[SET_ACTIVE].count;
}

/* ---- the table ---- */

void
table_release(struct table *table)
{
    while (table->count > 0)
        table_remove(table, table->list[table->count - 1]);
    for (int set = 0; set < SETS; set++)
        free(table->sets[set].list);
    free(table->list);
    free(table->prefixes);
    *table = (struct table){0};
}

/* The first with this prefix or a larger one. */
static size_t
place_prefix(const struct table *table, uint64_t prefix)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->prefixes[middle] < prefix)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where an id stands, or would. */
static size_t
place(const struct table *table, const struct id *id)
{
    uint64_t prefix = id_prefix(id);
    size_t at = place_prefix(table, prefix);
    while (at < table->count && table->prefixes[at] == prefix &&
           id_compare(&table->list[at]->member.record->id, id) < 0)
        at++;
    return at;
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
    size_t at = place_prefix(table, prefix);
    return at < table->count && table->prefixes[at] == prefix ? table->list[at] : NULL;
}

static struct entry *
longest_gone(const struct table *table)
{
    const struct set *gone = &table->sets[SET_GONE];
    struct entry *oldest = NULL;
    for (size_t i = 0; i < gone->count; i++) {
        struct entry *entry = gone->list[i];
        if (entry == table->keeps)
            continue;
        int64_t older = oldest ? entry->member.since_ms - oldest->member.since_ms : -1;
        if (older < 0 || (older == 0 && id_compare(&entry->member.record->id,
                                                   &oldest->member.record->id) < 0))
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
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 16;
        table->list = xrealloc(table->list, table->capacity, sizeof(struct entry *));
        table->prefixes = xrealloc(table->prefixes, table->capacity, sizeof(uint64_t));
    }
    size_t at = place(table, &record->id);
    struct entry *entry = xcalloc(1, sizeof(*entry));
    entry_record(entry, record, bytes, len);
    memmove(&table->list[at + 1], &table->list[at],
            (table->count - at) * sizeof(struct entry *));
    memmove(&table->prefixes[at + 1], &table->prefixes[at],
            (table->count - at) * sizeof(uint64_t));
    table->list[at] = entry;
    table->prefixes[at] = id_prefix(&record->id);
    table->count++;
    return entry;
}

void
table_remove(struct table *table, struct entry *entry)
{
    size_t at = place(table, &entry->member.record->id);
    must(at < table->count && table->list[at] == entry);
    for (int set = 0; set < SETS; set++)
        table_take(table, entry, (enum entry_set)set);
    table->count--;
    table->removals++;
    memmove(&table->list[at], &table->list[at + 1],
            (table->count - at) * sizeof(struct entry *));
    memmove(&table->prefixes[at], &table->prefixes[at + 1],
            (table->count - at) * sizeof(uint64_t));
    free((void *)entry->member.bytes);
    free((void *)entry->member.record);
    free(entry->charges);
    free(entry);
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
                  const struct id *target, uint64_t incarnation,
                  const struct statement *statement, const struct id *swarm,
                  const struct id *admit_id, struct err *err)
{
    bool same = entry && entry->member.record->incarnation == incarnation;
    for (uint32_t i = 0; i < statement->accusations_count; i++) {
        const struct accusation *accusation = &statement->accusations[i];
        if (id_equal(&accusation->accuser, target))
            return err_set(err, ERR_WIRE, "a node accuses itself");
        const struct accusation *known =
            same ? entry_accused_by(entry, &accusation->accuser) : NULL;
        if (known && known->kind >= accusation->kind)
            continue;
        const struct entry *accuser = table_find(table, &accusation->accuser);
        bool admitted =
            accuser && memcmp(accuser->member.record->admission, accusation->admission,
                              KEY_SIGNATURE_BYTES) == 0;
        if (accusation_verify(accusation, swarm, admitted ? NULL : admit_id, target,
                              incarnation, err))
            return -1;
    }
    return 0;
}

/* Of whom only the record's number is told: what is said against it counts when we know
 * that very incarnation, and is looked at no further when we do not. */
static int
judge_head(const struct table *table, struct statement *statement, const struct id *swarm,
           const struct id *admit_id, struct err *err)
{
    const struct entry *entry = table_find_prefix(table, statement->prefix);
    statement->leans = entry != NULL;
    statement->removals = table->removals;
    if (!entry || entry->member.record->incarnation != statement->incarnation)
        return 0;
    return judge_accusations(table, entry, &entry->member.record->id,
                             statement->incarnation, statement, swarm, admit_id, err);
}

/* Most of what comes in is held already, to the byte: it needs no reading. */
static void
read_held(const struct table *table, struct statement *statement)
{
    struct id id;
    if (statement->record || !record_hint(statement->bytes, statement->len, &id))
        return;
    const struct entry *entry = table_find(table, &id);
    if (entry && entry->member.len == statement->len &&
        memcmp(entry->member.bytes, statement->bytes, statement->len) == 0)
        statement->record = record_dup(entry->member.record);
}

int
table_judge(const struct table *table, const struct id *self, struct statement *statement,
            const struct id *swarm, const struct id *admit_id, struct err *err)
{
    if (!statement->bytes)
        return judge_head(table, statement, swarm, admit_id, err);
    read_held(table, statement);
    if (statement_read(statement, err))
        return -1;
    const struct record *record = statement->record;
    const struct entry *entry = table_find(table, &record->id);
    statement->leans = entry != NULL;
    statement->removals = table->removals;
    bool mine = id_equal(&record->id, self);
    if (entry && !mine && !record->twin &&
        record->incarnation < entry->member.record->incarnation)
        return 0; /* it is answered, and changes nothing */
    int order = entry ? record_order(entry, record, statement->bytes, statement->len) : 1;
    if (order > 0 || record->twin || (mine && order != 0)) {
        bool admitted = entry && memcmp(entry->member.record->admission,
                                        record->admission, KEY_SIGNATURE_BYTES) == 0;
        if (record_verify(record, statement->bytes, statement->len, swarm,
                          admitted ? NULL : admit_id, err))
            return -1;
    }
    return judge_accusations(table, entry, &record->id, record->incarnation, statement,
                             swarm, admit_id, err);
}

/* A member that nobody here knows is not taken in when it is dead or gone already: else
 * the forgotten would come back. */
static bool
said_dead(const struct statement *statement)
{
    for (uint32_t i = 0; i < statement->accusations_count; i++)
        if (statement->accusations[i].kind == ACCUSE_DEAD)
            return true;
    return false;
}

static unsigned
merge_accusations(const struct statement *statement, struct entry *entry)
{
    unsigned found = 0;
    if (entry->charges && statement->accusations_count == 0)
        found |= MERGE_UNAWARE;
    for (uint32_t i = 0; i < statement->accusations_count; i++)
        if (entry_accuse(entry, &statement->accusations[i]))
            found |= MERGE_ACCUSED;
    return found;
}

static unsigned
merge_head(const struct table *table, const struct statement *statement,
           struct entry **at)
{
    struct entry *entry = *at = table_find_prefix(table, statement->prefix);
    if (!entry)
        return said_dead(statement) ? MERGE_IGNORED : MERGE_BEHIND;
    struct record theirs = {.incarnation = statement->incarnation,
                            .version = statement->version};
    int order = record_compare(&theirs, entry->member.record);
    unsigned found = order > 0 ? MERGE_BEHIND : order < 0 ? MERGE_STALE : 0;
    if (entry->member.record->incarnation == statement->incarnation)
        found |= merge_accusations(statement, entry);
    return found;
}

unsigned
table_merge(struct table *table, const struct statement *statement, struct entry **at)
{
    struct record room;
    unsigned found = 0;
    *at = NULL;
    if (statement->leans && statement->removals != table->removals)
        return MERGE_IGNORED;
    if (!statement->bytes)
        return merge_head(table, statement, at);
    const struct record *record = statement_record(statement, &room);
    struct entry *entry = *at = table_find(table, &record->id);
    if (!entry) {
        if (!said_dead(statement) && !record->leaving)
            entry = *at = table_add(table, record, statement->bytes, statement->len);
        if (!entry)
            return MERGE_IGNORED;
        found = MERGE_ADDED | MERGE_RECORD | MERGE_RISEN;
    } else {
        const struct record *known = entry->member.record;
        if (record->incarnation < known->incarnation)
            return MERGE_STALE;
        if (record->incarnation > known->incarnation)
            found |= MERGE_RISEN;
        int order = record_order(entry, record, statement->bytes, statement->len);
        if (order != 0 && record_compare(record, known) == 0)
            found |= MERGE_TWIN;
        if (order > 0) {
            if (record->incarnation >> 32 != known->incarnation >> 32 ||
                strcmp(record->address, known->address) != 0)
                found |= MERGE_MOVED;
            entry_record(entry, record, statement->bytes, statement->len);
            found |= MERGE_RECORD;
        }
    }
    return found | merge_accusations(statement, entry);
}
