#include "tests/gossip/agree_history.h"
#include "gossip/agree.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct history *
history_new(void)
{
    return xcalloc(1, sizeof(struct history));
}

void
history_free(struct history *history)
{
    if (!history)
        return;
    for (int i = 0; i < HISTORY_EPOCHS_MAX; i++)
        decree_release(&history->decided[i]);
    free(history);
}

__attribute__((format(printf, 2, 3))) static void
breach(struct history *history, const char *fmt, ...)
{
    if (history->wrong[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(history->wrong, sizeof(history->wrong), fmt, ap);
    va_end(ap);
}

static void
note(struct history *history, struct history_item item)
{
    must(history->count < HISTORY_ITEMS_MAX);
    history->items[history->count++] = item;
}

static unsigned long long
big(uint64_t value)
{
    return value;
}

static void
promise(struct history *history, int node, uint64_t term, const char *what)
{
    if (term < history->promised[node])
        breach(history, "I3: node %d gave %s in term %llu after term %llu", node, what,
               big(term), big(history->promised[node]));
    else
        history->promised[node] = term;
}

void
history_vote(struct history *history, int node, uint64_t term, int candidate)
{
    promise(history, node, term, "its vote");
    for (size_t i = 0; i < history->count; i++) {
        const struct history_item *item = &history->items[i];
        if (item->kind != 'v' || item->node != node || item->term != term)
            continue;
        if (item->epoch != (uint64_t)candidate)
            breach(history, "I3: node %d voted for %d and %llu in term %llu", node,
                   candidate, big(item->epoch), big(term));
        return;
    }
    note(history,
         (struct history_item){
             .kind = 'v', .node = node, .term = term, .epoch = (uint64_t)candidate});
}

/* One hash per kind, epoch and term, over all nodes or per node. */
static void
one_hash(struct history *history, char kind, int node, bool each, uint64_t epoch,
         uint64_t term, const struct id *hash)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct history_item *item = &history->items[i];
        if (item->kind != kind || item->epoch != epoch || item->term != term ||
            (each && item->node != node))
            continue;
        if (!id_equal(&item->hash, hash))
            breach(history, "nodes %d and %d: two of '%c' for epoch %llu in term %llu",
                   item->node, node, kind, big(epoch), big(term));
        return;
    }
    note(history,
         (struct history_item){
             .kind = kind, .node = node, .term = term, .epoch = epoch, .hash = *hash});
}

void
history_accept(struct history *history, int node, uint64_t epoch, uint64_t term,
               const struct id *hash)
{
    promise(history, node, term, "an acceptance");
    one_hash(history, 'a', node, true, epoch, term, hash);
}

void
history_propose(struct history *history, int node, uint64_t epoch, uint64_t term,
                const struct id *hash)
{
    one_hash(history, 'p', node, false, epoch, term, hash);
    if (epoch <= history->newest && term > history->term[epoch] &&
        !id_equal(hash, &history->hash[epoch]))
        breach(history, "I4: node %d proposed another decree for epoch %llu in term %llu",
               node, big(epoch), big(term));
}

void
history_leads(struct history *history, int node, uint64_t epoch, uint64_t term)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct history_item *item = &history->items[i];
        if (item->kind != 'l' || item->epoch != epoch || item->term != term)
            continue;
        if (item->node != node)
            breach(history, "I9: nodes %d and %d lead term %llu at epoch %llu",
                   item->node, node, big(term), big(epoch));
        return;
    }
    note(history,
         (struct history_item){.kind = 'l', .node = node, .term = term, .epoch = epoch});
}

static void
decide(struct history *history, int node, const struct decree *decree,
       const struct id *hash, uint64_t term)
{
    uint64_t epoch = decree->epoch;
    must(epoch < HISTORY_EPOCHS_MAX);
    if (epoch != history->newest + 1)
        breach(history, "I2: node %d committed epoch %llu after epoch %llu", node,
               big(epoch), big(history->newest));
    else if (epoch > 1 && !id_equal(&decree->previous, &history->hash[epoch - 1]))
        breach(history, "I2: epoch %llu does not follow what was decided", big(epoch));
    decree_copy(&history->decided[epoch], decree);
    history->hash[epoch] = *hash;
    history->term[epoch] = term;
    history->newest = epoch;
}

void
history_commit(struct history *history, int node, const struct decree *decree,
               const struct id *hash, uint64_t term, const struct buf *certified)
{
    uint64_t epoch = decree->epoch;
    if (epoch < history->epoch[node])
        breach(history, "node %d went back to epoch %llu", node, big(epoch));
    history->epoch[node] = epoch;
    bool seen = epoch <= history->newest && term == history->term[epoch];
    if (epoch > history->newest)
        decide(history, node, decree, hash, term);
    else if (!id_equal(hash, &history->hash[epoch]))
        breach(history, "I1: node %d committed a second decree of epoch %llu", node,
               big(epoch));
    if (term < history->term[epoch])
        history->term[epoch] = term;
    struct err err;
    if (certified && !seen && !history->wrong[0] &&
        agree_verify(epoch > 1 ? &history->decided[epoch - 1] : NULL, certified->data,
                     certified->len, &err))
        breach(history, "I7: epoch %llu at node %d: %.150s", big(epoch), node, err.msg);
}
