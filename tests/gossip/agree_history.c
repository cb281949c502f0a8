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
    for (int g = 0; g < HISTORY_GENERATIONS_MAX; g++)
        for (int i = 0; i < HISTORY_EPOCHS_MAX; i++)
            decree_release(&history->chains[g].decided[i]);
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

static struct history_chain *
chain_of(struct history *history, uint64_t epoch)
{
    must(epoch_generation(epoch) < HISTORY_GENERATIONS_MAX &&
         epoch_number(epoch) < HISTORY_EPOCHS_MAX);
    return &history->chains[epoch_generation(epoch)];
}

void
history_propose(struct history *history, int node, uint64_t epoch, uint64_t term,
                const struct id *hash)
{
    one_hash(history, 'p', node, false, epoch, term, hash);
    const struct history_chain *chain = chain_of(history, epoch);
    uint32_t number = epoch_number(epoch);
    if (number <= chain->newest && term > chain->term[number] &&
        !id_equal(hash, &chain->hash[number]))
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
    uint32_t number = epoch_number(decree->epoch);
    struct history_chain *chain = chain_of(history, decree->epoch);
    bool root = decree->cause == CAUSE_RECOVERY;
    if (root != (decree->generation > 0 && chain->newest == 0))
        breach(history, "I2: node %d committed generation %u without its recovery", node,
               decree->generation);
    else if (!root && number != chain->newest + 1)
        breach(history, "I2: node %d committed epoch %u after epoch %u", node, number,
               chain->newest);
    else if (!root && number > 1 &&
             !id_equal(&decree->previous, &chain->hash[number - 1]))
        breach(history, "I2: epoch %u does not follow what was decided", number);
    decree_copy(&chain->decided[number], decree);
    chain->hash[number] = *hash;
    chain->term[number] = term;
    chain->newest = number;
}

void
history_commit(struct history *history, int node, const struct decree *decree,
               const struct id *hash, uint64_t term, const struct buf *certified)
{
    uint64_t epoch = decree->epoch;
    uint32_t number = epoch_number(epoch);
    struct history_chain *chain = chain_of(history, epoch);
    if (epoch < history->epoch[node])
        breach(history, "node %d went back to epoch %llu", node, big(epoch));
    history->epoch[node] = epoch;
    bool seen = number <= chain->newest && term == chain->term[number];
    bool first = number == 1 || decree->cause == CAUSE_RECOVERY;
    if (number > chain->newest)
        decide(history, node, decree, hash, term);
    else if (!id_equal(hash, &chain->hash[number]))
        breach(history, "I1: node %d committed a second decree of epoch %u", node,
               number);
    if (term < chain->term[number])
        chain->term[number] = term;
    struct err err;
    if (certified && !seen && !history->wrong[0] &&
        agree_verify(first ? NULL : &chain->decided[number - 1], &history->admit_id,
                     certified->data, certified->len, &err))
        breach(history, "I7: epoch %u at node %d: %.150s", number, node, err.msg);
}
