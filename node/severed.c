#include "node/severed.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAIRS_MAX = 64,
    RESTS_MAX = 32,
    EPOCHS_BETWEEN = 3, /* other causes come between; more, and it was mended */
};

struct pair {
    struct id a, b;
    uint64_t epoch; /* of the latest break */
};

struct rest {
    struct id id;
    int64_t until_ms, ms;
    bool over; /* and said so */
};

struct severed {
    struct pair pairs[PAIRS_MAX];
    struct rest rests[RESTS_MAX];
    int pairs_count, rests_count;
};

struct severed *
severed_new(void)
{
    return xcalloc(1, sizeof(struct severed));
}

void
severed_free(struct severed *severed)
{
    free(severed);
}

/* -1: it never rested. */
static int
find_rest(const struct severed *severed, const struct id *id)
{
    for (int i = 0; i < severed->rests_count; i++)
        if (id_equal(&severed->rests[i].id, id))
            return i;
    return -1;
}

bool
severed_rests(const struct severed *severed, int64_t now_ms, const struct id *id)
{
    int at = find_rest(severed, id);
    return at >= 0 && now_ms < severed->rests[at].until_ms;
}

int64_t
severed_rest_ms(const struct severed *severed, const struct id *id)
{
    int at = find_rest(severed, id);
    return at >= 0 ? severed->rests[at].ms : 0;
}

/* The pair, in whatever order; a new one takes the place of the one that broke longest
 * ago. */
static struct pair *
find_pair(struct severed *severed, const struct id *a, const struct id *b)
{
    struct pair *oldest = &severed->pairs[0];
    for (int i = 0; i < severed->pairs_count; i++) {
        struct pair *pair = &severed->pairs[i];
        if ((id_equal(&pair->a, a) && id_equal(&pair->b, b)) ||
            (id_equal(&pair->a, b) && id_equal(&pair->b, a)))
            return pair;
        if (pair->epoch < oldest->epoch)
            oldest = pair;
    }
    if (severed->pairs_count < PAIRS_MAX)
        oldest = &severed->pairs[severed->pairs_count++];
    *oldest = (struct pair){.a = *a, .b = *b};
    return oldest;
}

static int
named(const struct severed *severed, const struct id *id)
{
    int count = 0;
    for (int i = 0; i < severed->pairs_count; i++)
        count += id_equal(&severed->pairs[i].a, id) || id_equal(&severed->pairs[i].b, id);
    return count;
}

/* Its rest begins: twice the last one's length, if that ended not long ago. */
static const struct id *
begin_rest(struct severed *severed, int64_t now_ms, const struct id *id)
{
    int at = find_rest(severed, id);
    struct rest *rest = at >= 0 ? &severed->rests[at] : NULL;
    int64_t ms = SEVERED_REST_MS_MIN;
    if (rest && now_ms - rest->until_ms < rest->ms)
        ms = rest->ms < SEVERED_REST_MS_MAX / 2 ? 2 * rest->ms : SEVERED_REST_MS_MAX;
    for (int i = 0; !rest && i < severed->rests_count; i++)
        if (now_ms >= severed->rests[i].until_ms + SEVERED_REST_MS_MAX)
            rest = &severed->rests[i];
    if (!rest && severed->rests_count == RESTS_MAX)
        return NULL;
    if (!rest)
        rest = &severed->rests[severed->rests_count++];
    *rest = (struct rest){.id = *id, .until_ms = now_ms + ms, .ms = ms};
    return &rest->id;
}

const struct id *
severed_broke(struct severed *severed, int64_t now_ms, uint64_t epoch, bool worked,
              const struct id *leader, const struct id *submitter, const struct id *a,
              const struct id *b)
{
    must(!id_equal(a, b));
    struct pair *pair = find_pair(severed, a, b);
    if (pair->epoch == epoch)
        return NULL;
    bool again = pair->epoch != 0 && !worked && epoch - pair->epoch <= EPOCHS_BETWEEN;
    pair->epoch = epoch;
    if (!again || severed_rests(severed, now_ms, a) || severed_rests(severed, now_ms, b))
        return NULL;
    int a_named = named(severed, a), b_named = named(severed, b);
    bool first = a_named != b_named ? a_named > b_named : id_compare(a, b) > 0;
    if (id_equal(a, submitter) || id_equal(b, submitter))
        first = id_equal(b, submitter);
    if (id_equal(a, leader) || id_equal(b, leader))
        first = id_equal(b, leader);
    return begin_rest(severed, now_ms, first ? a : b);
}

bool
severed_over(struct severed *severed, int64_t now_ms)
{
    bool over = false;
    for (int i = 0; i < severed->rests_count; i++) {
        struct rest *rest = &severed->rests[i];
        if (rest->over || now_ms < rest->until_ms)
            continue;
        rest->over = over = true;
    }
    return over;
}

void
severed_epoch(struct severed *severed, const struct decree *decree)
{
    int kept = 0;
    for (int i = 0; i < severed->pairs_count; i++)
        if (decree_member(decree, &severed->pairs[i].a) &&
            decree_member(decree, &severed->pairs[i].b))
            severed->pairs[kept++] = severed->pairs[i];
    severed->pairs_count = kept;
}
