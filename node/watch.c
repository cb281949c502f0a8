#include "node/watch.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { INTERVALS = 32 };

struct entry {
    struct id id;
    int64_t heard_ms;
    int64_t intervals[INTERVALS]; /* between its words, the latest ones */
    int interval_count, interval_next;
    int64_t deadline_ms; /* follows from the intervals */
    bool up;
    int refused_count;
    int64_t refused_since_ms; /* of an unbroken run of refusals; 0: none */
    int64_t told_ms;          /* 0: nobody told us since it was heard */
};

struct watch {
    struct entry *entries; /* ascending id */
    size_t count;
};

const char *
watch_reason_name(enum watch_reason reason)
{
    static const char *const names[] = {"here", "refused", "told", "silent"};
    return names[reason];
}

struct watch *
watch_new(void)
{
    return xcalloc(1, sizeof(struct watch));
}

void
watch_free(struct watch *watch)
{
    if (!watch)
        return;
    free(watch->entries);
    free(watch);
}

static struct entry *
find(const struct watch *watch, const struct id *id)
{
    return watch->count == 0 ? NULL
                             : bsearch(id, watch->entries, watch->count,
                                       sizeof(struct entry), id_compare);
}

void
watch_set(struct watch *watch, int64_t now_ms, const struct id *members, size_t count)
{
    struct entry *entries = xcalloc(count, sizeof(*entries));
    for (size_t i = 0; i < count; i++) {
        const struct entry *known = find(watch, &members[i]);
        if (known)
            entries[i] = *known;
        else
            entries[i] = (struct entry){.id = members[i],
                                        .heard_ms = now_ms,
                                        .deadline_ms = 2L * WATCH_DEADLINE_MIN_MS};
    }
    qsort(entries, count, sizeof(*entries), id_compare);
    free(watch->entries);
    watch->entries = entries;
    watch->count = count;
}

static int
compare_int64(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Median + 8 x median absolute deviation of the intervals, and three more of them for
 * good measure. */
static int64_t
deadline(const struct entry *entry)
{
    if (entry->interval_count < 4)
        return 2L * WATCH_DEADLINE_MIN_MS;
    int64_t sorted[INTERVALS];
    size_t count = (size_t)entry->interval_count;
    memcpy(sorted, entry->intervals, count * sizeof(sorted[0]));
    qsort(sorted, count, sizeof(sorted[0]), compare_int64);
    int64_t median = sorted[count / 2];
    for (size_t i = 0; i < count; i++)
        sorted[i] = sorted[i] > median ? sorted[i] - median : median - sorted[i];
    qsort(sorted, count, sizeof(sorted[0]), compare_int64);
    int64_t wait = 4 * median + 8 * sorted[count / 2];
    if (wait < WATCH_DEADLINE_MIN_MS)
        return WATCH_DEADLINE_MIN_MS;
    return wait < WATCH_DEADLINE_MAX_MS ? wait : WATCH_DEADLINE_MAX_MS;
}

void
watch_heard(struct watch *watch, int64_t now_ms, const struct id *member)
{
    struct entry *entry = find(watch, member);
    if (!entry)
        return;
    int64_t interval = now_ms - entry->heard_ms;
    /* Words that come together say nothing about the rhythm. */
    if (interval >= 20) {
        entry->intervals[entry->interval_next] = interval;
        entry->interval_next = (entry->interval_next + 1) % INTERVALS;
        if (entry->interval_count < INTERVALS)
            entry->interval_count++;
        entry->deadline_ms = deadline(entry);
    }
    entry->heard_ms = now_ms;
    entry->told_ms = 0;
}

void
watch_up(struct watch *watch, int64_t now_ms, const struct id *member)
{
    struct entry *entry = find(watch, member);
    if (!entry)
        return;
    entry->up = true;
    entry->refused_count = 0;
    entry->refused_since_ms = 0;
    entry->told_ms = 0;
    entry->heard_ms = now_ms;
}

void
watch_down(struct watch *watch, int64_t now_ms, const struct id *member)
{
    struct entry *entry = find(watch, member);
    if (!entry)
        return;
    entry->up = false;
    if (entry->refused_since_ms == 0)
        entry->refused_since_ms = now_ms;
}

void
watch_refused(struct watch *watch, int64_t now_ms, const struct id *member)
{
    struct entry *entry = find(watch, member);
    if (!entry)
        return;
    entry->up = false;
    entry->refused_count++;
    if (entry->refused_since_ms == 0)
        entry->refused_since_ms = now_ms;
}

void
watch_told(struct watch *watch, int64_t now_ms, const struct id *member)
{
    struct entry *entry = find(watch, member);
    if (entry && entry->told_ms == 0)
        entry->told_ms = now_ms;
}

void
watch_late(struct watch *watch, int64_t now_ms, int64_t gap_ms)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct entry *entry = &watch->entries[i];
        entry->heard_ms += gap_ms;
        if (entry->heard_ms > now_ms)
            entry->heard_ms = now_ms;
    }
}

void
watch_slept(struct watch *watch, int64_t now_ms, int64_t gap_ms)
{
    watch_late(watch, now_ms, gap_ms);
    for (size_t i = 0; i < watch->count; i++)
        watch->entries[i].told_ms = 0;
}

enum watch_reason
watch_gone(const struct watch *watch, int64_t now_ms, const struct id *member)
{
    const struct entry *entry = find(watch, member);
    if (!entry)
        return WATCH_HERE;
    int64_t silent = now_ms - entry->heard_ms;
    if (!entry->up && entry->refused_count >= 2 && silent >= WATCH_REFUSED_MS &&
        now_ms - entry->refused_since_ms >= WATCH_REFUSED_MS)
        return WATCH_REFUSED;
    if (entry->told_ms != 0 && silent >= 2L * WATCH_REFUSED_MS)
        return WATCH_TOLD;
    /* No deadline is shorter, and this is looked at often. */
    if (silent >= WATCH_DEADLINE_MIN_MS && silent >= entry->deadline_ms)
        return WATCH_SILENT;
    return WATCH_HERE;
}

int64_t
watch_deadline_ms(const struct watch *watch, const struct id *member)
{
    const struct entry *entry = find(watch, member);
    return entry ? entry->deadline_ms : WATCH_DEADLINE_MAX_MS;
}

int64_t
watch_heard_ms(const struct watch *watch, const struct id *member)
{
    const struct entry *entry = find(watch, member);
    return entry ? entry->heard_ms : 0;
}

bool
watch_is_up(const struct watch *watch, const struct id *member)
{
    const struct entry *entry = find(watch, member);
    return entry && entry->up;
}
