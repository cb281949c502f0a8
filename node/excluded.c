#include "node/excluded.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Of more the one whose time is over first is forgotten. */
enum { ENTRIES_MAX = 256 };

struct entry {
    struct id id;
    int64_t until_ms, rest_ms;
};

struct excluded {
    size_t count;
    struct entry entries[ENTRIES_MAX];
};

struct excluded *
excluded_new(void)
{
    return xcalloc(1, sizeof(struct excluded));
}

void
excluded_free(struct excluded *excluded)
{
    free(excluded);
}

static size_t
find(const struct excluded *excluded, const struct id *id)
{
    size_t at = 0;
    while (at < excluded->count && !id_equal(&excluded->entries[at].id, id))
        at++;
    return at;
}

static size_t
make_room(struct excluded *excluded)
{
    if (excluded->count < ENTRIES_MAX)
        return excluded->count++;
    size_t first = 0;
    for (size_t i = 1; i < excluded->count; i++)
        if (excluded->entries[i].until_ms < excluded->entries[first].until_ms)
            first = i;
    return first;
}

int64_t
excluded_add(struct excluded *excluded, int64_t now_ms, const struct id *id)
{
    size_t at = find(excluded, id);
    if (at == excluded->count) {
        at = make_room(excluded);
        excluded->entries[at] = (struct entry){.id = *id, .rest_ms = EXCLUDED_MS_MIN / 2};
    }
    struct entry *entry = &excluded->entries[at];
    entry->rest_ms =
        2 * entry->rest_ms < EXCLUDED_MS_MAX ? 2 * entry->rest_ms : EXCLUDED_MS_MAX;
    entry->until_ms = now_ms + entry->rest_ms;
    return entry->rest_ms;
}

bool
excluded_is(const struct excluded *excluded, int64_t now_ms, const struct id *id)
{
    size_t at = find(excluded, id);
    return at < excluded->count && now_ms < excluded->entries[at].until_ms;
}

void
excluded_heard(struct excluded *excluded, const struct id *id)
{
    size_t at = find(excluded, id);
    if (at < excluded->count)
        excluded->entries[at] = excluded->entries[--excluded->count];
}
