/*
 * check_steps.c - what must hold of steps: one outcome for each, one state under each name,
 * everybody prepared for what anybody applies, every sample counted once.
 */
#include "tests/sim/check.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { FACTS_MAX = 1 << 15 };

/* What is known under a key: found by open addressing. */
struct fact {
    uint64_t key; /* 0: free */
    uint64_t value, more;
};

static struct {
    struct fact *facts;
    size_t facts_count;
    int64_t steps;
} check;

void
check_steps_open(void)
{
    memset(&check, 0, sizeof(check));
    check.facts = xcalloc(FACTS_MAX, sizeof(*check.facts));
}

void
check_steps_close(void)
{
    free(check.facts);
    check.facts = NULL;
}

static unsigned long long
big(uint64_t value)
{
    return value;
}

/* ---- facts ---- */

enum fact_kind { FACT_APPLIED = 1, FACT_PREPARED, FACT_BASE, FACT_CHAIN, FACT_SAMPLES };

static struct fact *
fact(enum fact_kind kind, const struct id *job, uint64_t epoch, int64_t step)
{
    uint64_t key =
        rng_mix(rng_mix(rng_mix(id_prefix(job), (uint64_t)kind), epoch), (uint64_t)step);
    key += key == 0;
    size_t at = key % FACTS_MAX;
    while (check.facts[at].key && check.facts[at].key != key)
        at = (at + 1) % FACTS_MAX;
    if (!check.facts[at].key && ++check.facts_count > FACTS_MAX / 2)
        world_breach("the simulator's table of facts is full");
    return &check.facts[at];
}

static bool
fact_new(struct fact *at, enum fact_kind kind, const struct id *job, uint64_t epoch,
         int64_t step)
{
    if (at->key)
        return false;
    at->key =
        rng_mix(rng_mix(rng_mix(id_prefix(job), (uint64_t)kind), epoch), (uint64_t)step);
    at->key += at->key == 0;
    return true;
}

/* ---- steps ---- */

uint64_t
check_samples(const struct train_job *job, int64_t step, int first, int count)
{
    uint64_t sum = 0;
    for (int place = first; place < first + count; place++)
        sum += rng_mix(rng_mix(job->seed, (uint64_t)step), (uint64_t)place);
    return sum;
}

uint64_t
check_seed_chain(const struct train_job *job)
{
    return rng_mix(job->seed, id_prefix(&job->id));
}

/* A lineage, as a key of facts. */
static uint64_t
name_key(const struct lineage *lineage)
{
    return rng_mix(lineage->epoch, lineage->tag);
}

void
check_prepared(const struct host *host, const struct id *job, uint64_t epoch,
               int64_t step, int self, uint64_t workers)
{
    struct fact *at = fact(FACT_PREPARED, job, epoch, step);
    if (fact_new(at, FACT_PREPARED, job, epoch, step))
        at->more = workers;
    else if (at->more != workers)
        world_breach("%s takes other nodes than its peers for the workers of epoch %llu",
                     host->address, big(epoch));
    at->value |= UINT64_C(1) << self;
}

/* The running hash of samples after a step, if each of them is counted once. */
static uint64_t
samples_after(const struct train_job *job, int sequences, int64_t step)
{
    struct fact *at = fact(FACT_SAMPLES, &job->id, 0, step);
    if (!at->key) {
        uint64_t before = step > 1 ? samples_after(job, sequences, step - 1) : 0;
        at = fact(FACT_SAMPLES, &job->id, 0, step);
        fact_new(at, FACT_SAMPLES, &job->id, 0, step);
        at->value = rng_mix(before, check_samples(job, step, 0, sequences));
    }
    return at->value;
}

void
check_applied(const struct host *host, const struct train_job *job,
              const struct lineage *lineage, uint64_t epoch, int64_t step, uint64_t chain,
              uint64_t samples_hash)
{
    const struct node *node = host->node;
    uint64_t computed = lineage->epoch;
    check.steps++;
    struct fact *at = fact(FACT_APPLIED, &job->id, name_key(lineage), step);
    if (fact_new(at, FACT_APPLIED, &job->id, name_key(lineage), step))
        at->value = chain;
    else if (at->value != chain)
        world_breach("step %lld of epoch %llu is applied at %s with another outcome",
                     (long long)step, big(computed), host->address);
    fact_new(fact(FACT_CHAIN, &job->id, chain, step), FACT_CHAIN, &job->id, chain, step);
    const struct fact *prepared = fact(FACT_PREPARED, &job->id, computed, step);
    if (prepared->value != prepared->more)
        world_breach("step %lld of epoch %llu is applied at %s before all are prepared",
                     (long long)step, big(computed), host->address);
    if (samples_hash != samples_after(job, node->view->request.sequences, step))
        world_breach("step %lld of epoch %llu at %s: a sample is left out or counted "
                     "twice",
                     (long long)step, big(computed), host->address);
    if (computed == epoch && node->woken && host->woke_ms > 0 &&
        node->fresh_at_ms > host->woke_ms)
        world_breach("%s was stopped, and applies step %lld of epoch %llu before anybody "
                     "said that it is the newest",
                     host->address, (long long)step, big(epoch));
    world_mix(chain);
    world_say("applies step %lld of epoch %llu", (long long)step, big(computed));
}

void
check_state(const struct host *host, const struct id *job, const struct state_name *name,
            uint64_t chain)
{
    if (name->step == 0)
        return;
    const struct fact *at = fact(FACT_APPLIED, job, name_key(&name->lineage), name->step);
    if (!at->key)
        world_breach("%s holds step %lld of epoch %llu, which nobody applied",
                     host->address, (long long)name->step, big(name->lineage.epoch));
    else if (at->value != chain)
        world_breach("%s holds another step %lld of epoch %llu than was applied",
                     host->address, (long long)name->step, big(name->lineage.epoch));
}

void
check_base(const struct host *host, const struct train_job *job, uint64_t epoch,
           int64_t step, uint64_t chain)
{
    struct fact *at = fact(FACT_BASE, &job->id, epoch, step);
    if (fact_new(at, FACT_BASE, &job->id, epoch, step))
        at->value = chain;
    else if (at->value != chain)
        world_breach("%s goes into epoch %llu with another step %lld than its peers",
                     host->address, big(epoch), (long long)step);
    if (step == 0 ? chain != check_seed_chain(job)
                  : !fact(FACT_CHAIN, &job->id, chain, step)->key)
        world_breach("%s goes into epoch %llu with a step %lld that nobody applied",
                     host->address, big(epoch), (long long)step);
}

int64_t
check_steps(void)
{
    return check.steps;
}
