#include "tests/sim/check.h"
#include "gossip/agree_state.h"
#include "tests/gossip/agree_history.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { FACTS_MAX = 1 << 15, JUDGED_MAX = 4096, HEARD_US = 8 * SECOND };

/* What is known under a key: found by open addressing. */
struct fact {
    uint64_t key; /* 0: free */
    uint64_t value, more;
};

/* An identity, as long as it remembers what it promised. */
struct person {
    struct id id;
    int host;     /* that it ran on */
    bool forgot;  /* it is nobody's any more, or begins anew */
    bool amnesia; /* it may not vote yet */
    uint64_t
        anew_boot; /* its boot when it began anew with an old identity; 0: it did not */
};

struct judged {
    int person;
    struct id hash;
};

static struct {
    struct history *history;
    struct person people[HISTORY_NODES_MAX];
    int people_count;
    struct judged judged[JUDGED_MAX];
    int judged_count;
    struct fact *facts;
    size_t facts_count;
    struct {
        uint64_t epoch, term, led_epoch, life;
        uint64_t promised;
        int person;
    } seen[HOSTS_MAX];
    int64_t heard_us[HOSTS_MAX][HISTORY_NODES_MAX];
    int64_t steps;
} check;

void
check_open(void)
{
    memset(&check, 0, sizeof(check));
    check.history = history_new();
    check.facts = xcalloc(FACTS_MAX, sizeof(*check.facts));
}

void
check_close(void)
{
    history_free(check.history);
    free(check.facts);
    check.history = NULL;
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

/* ---- people ---- */

static int
person_of(const struct id *id)
{
    for (int i = 0; i < check.people_count; i++)
        if (!check.people[i].forgot && id_equal(&check.people[i].id, id))
            return i;
    if (check.people_count == HISTORY_NODES_MAX) {
        world_breach("more identities than the simulator counts");
        return 0;
    }
    const struct host *host = host_of(id);
    for (int i = 0; host && i < check.people_count; i++)
        if (id_equal(&check.people[i].id, id))
            check.people[check.people_count].anew_boot = host->node->boot;
    check.people[check.people_count].id = *id;
    check.people[check.people_count].host = host ? host->index : -1;
    return check.people_count++;
}

static int
person(const struct host *host)
{
    return person_of(&host->node->id);
}

void
check_forgotten(const struct host *host)
{
    for (int i = 0; i < check.people_count; i++)
        if (check.people[i].host == host->index)
            check.people[i].forgot = true;
}

static void
take_breach(void)
{
    if (check.history->wrong[0])
        world_breach("%s", check.history->wrong);
}

/* ---- agreement ---- */

/* Who lost its agreement's state is nobody until an epoch lists it anew. */
static void
check_votes(const struct host *host, const char *what)
{
    int who = person(host);
    const struct decree *decree = &host->node->agree->decree;
    uint64_t boot = check.people[who].anew_boot;
    for (uint32_t i = 0; boot && i < decree->members_count; i++)
        if (id_equal(&decree->members[i].id, &host->node->id) &&
            decree->members[i].incarnation >> 32 >= boot)
            boot = 0;
    if (boot)
        world_breach("I3: %s lost its agreement's state and sends %s before an epoch "
                     "lists it anew",
                     host->address, what);
}

static void
sent_vote(const struct host *host, const struct id *to, const void *body, size_t len)
{
    struct vote_reply reply;
    struct err err;
    if (vote_reply_decode(body, len, &reply, &err)) {
        world_breach("%s sends a vote that does not decode: %s", host->address, err.msg);
        return;
    }
    if (reply.reason == REASON_NONE)
        check_votes(host, "its vote");
    if (reply.reason == REASON_NONE)
        history_vote(check.history, person(host), reply.term, person_of(to));
}

static void
sent_proposal(const struct host *host, const void *body, size_t len)
{
    struct propose message;
    struct decree decree;
    struct id hash;
    struct err err;
    if (propose_decode(body, len, &message, &err) ||
        decree_decode(message.decree, message.decree_len, &decree, &err)) {
        world_breach("%s sends a proposal that does not decode: %s", host->address,
                     err.msg);
        return;
    }
    decree_hash(&decree, &hash);
    history_propose(check.history, person(host), decree.epoch, message.term, &hash);
    decree_release(&decree);
}

static bool
was_judged(int who, const struct id *hash)
{
    for (int i = check.judged_count - 1; i >= 0; i--)
        if (check.judged[i].person == who && id_equal(&check.judged[i].hash, hash))
            return true;
    return false;
}

void
check_judged(const struct host *host, const struct id *hash)
{
    int who = person(host);
    if (!was_judged(who, hash) && check.judged_count < JUDGED_MAX) {
        check.judged[check.judged_count].person = who;
        check.judged[check.judged_count++].hash = *hash;
    }
}

void
check_heard(const struct host *host, const struct id *from)
{
    check.heard_us[host->index][person_of(from)] = world.now_us;
}

/* L2: its own candidacy raised its term. */
static void
check_raised(const struct host *host)
{
    const struct agree *agree = host->node->agree;
    uint32_t mask = 0;
    for (uint32_t v = 0; v < agree->decree.voters_count; v++) {
        const struct id *voter = &agree->decree.voters[v];
        int64_t heard = check.heard_us[host->index][person_of(voter)];
        if (id_equal(voter, &host->node->id) ||
            (heard && world.now_us - heard < HEARD_US))
            mask |= 1u << v;
    }
    if (!decree_quorum(&agree->decree, mask))
        world_breach("L2: %s raises its term to %llu without a quorum", host->address,
                     big(agree->promised));
}

static void
sent_acceptance(const struct host *host, const void *body, size_t len)
{
    struct accept accept;
    struct err err;
    const struct decree *decree = agree_decree(host->node->agree);
    if (accept_message_decode(body, len, &accept, &err) || !decree) {
        world_breach("%s sends an acceptance that it cannot have made", host->address);
        return;
    }
    int who = person(host);
    check_votes(host, "an acceptance");
    if (accept.epoch != decree->epoch + 1)
        world_breach("I5: %s is in epoch %llu and accepts a decree of epoch %llu",
                     host->address, big(decree->epoch), big(accept.epoch));
    if (!was_judged(who, &accept.hash))
        world_breach("I5: %s accepts a decree of epoch %llu that it has not found right",
                     host->address, big(accept.epoch));
    history_accept(check.history, who, accept.epoch, accept.term, &accept.hash);
}

void
check_sent(const struct host *host, const struct id *to, enum frame_kind kind,
           const void *body, size_t len)
{
    struct vote_ask ask;
    struct err err;
    switch (kind) {
    case FRAME_VOTE_REPLY:
        sent_vote(host, to, body, len);
        break;
    case FRAME_VOTE:
        if (vote_ask_decode(body, len, &ask, &err) == 0)
            history_vote(check.history, person(host), ask.term, person(host));
        break;
    case FRAME_PROPOSE:
        sent_proposal(host, body, len);
        break;
    case FRAME_ACCEPT:
        sent_acceptance(host, body, len);
        break;
    default:
        return;
    }
    take_breach();
}

/* ---- a new epoch ---- */

/* Is every layer of step `s` held by members who applied it, or who prepared it in the
 * epoch in which it was applied? */
static bool
held(const struct view *view, int64_t step)
{
    int layers = workload_layers(&view->request.shape);
    uint64_t witness = 0;
    for (uint32_t i = 0; i < view->reports_count; i++) {
        const struct progress *progress = &view->reports[i].progress;
        if (id_equal(&view->reports[i].job, &view->job.train.id) &&
            progress->applied == step && progress->epoch > witness)
            witness = progress->epoch;
    }
    if (!witness)
        return false;
    for (int layer = 0; layer < layers; layer++) {
        bool found = false;
        for (uint32_t i = 0; i < view->reports_count && !found; i++) {
            const struct progress *progress = &view->reports[i].progress;
            bool applied = progress->applied == step;
            bool prepared = progress->prepared && progress->applied == step - 1 &&
                            progress->epoch == witness;
            if (!id_equal(&view->reports[i].job, &view->job.train.id) ||
                (!applied && !prepared))
                continue;
            for (int h = 0; h < progress->holdings_count; h++)
                found = found || (progress->holdings[h].source == SOURCE_LIVE &&
                                  layer >= progress->holdings[h].first_layer &&
                                  layer < progress->holdings[h].first_layer +
                                              progress->holdings[h].layers);
        }
        if (!found)
            return false;
    }
    return true;
}

static void
check_recovery(const struct node *node)
{
    const struct view *view = node->view;
    if (!view->planned)
        return;
    for (uint32_t i = 0; i < view->reports_count; i++) {
        int64_t step = view->reports[i].progress.applied;
        if (id_equal(&view->reports[i].job, &view->job.train.id) &&
            step > view->recovery.base_step && held(view, step))
            world_breach(
                "step %lld is given up in epoch %llu, though its members hold it",
                (long long)step, big(node->decree.epoch));
    }
}

static void
check_commit(struct host *host)
{
    const struct agree *agree = host->node->agree;
    struct buf certified = {0};
    agree_export(agree, &certified);
    bool newest = agree->decree.epoch > check_newest_epoch();
    history_commit(check.history, person(host), &agree->decree, &agree->hash,
                   agree->certificate.term, &certified);
    buf_release(&certified);
    take_breach();
    if (newest && host->node->decree.epoch == agree->decree.epoch)
        check_recovery(host->node);
    world_mix(id_prefix(&agree->hash));
    world_say("is in epoch %llu (%s), term %llu", big(agree->decree.epoch),
              decree_cause_name(agree->decree.cause), big(agree->certificate.term));
}

void
check_process(struct host *host)
{
    const struct node *node = host->node;
    if (!node->agree || !agree_decree(node->agree))
        return;
    const struct decree *decree = agree_decree(node->agree);
    int i = host->index;
    if (decree->epoch != check.seen[i].epoch) {
        if (decree->epoch < check.seen[i].epoch)
            world_breach("I6: %s goes from epoch %llu back to %llu", host->address,
                         big(check.seen[i].epoch), big(decree->epoch));
        check.seen[i].epoch = decree->epoch;
        check_commit(host);
    }
    if (check.seen[i].life != host->life ||
        check.people[check.seen[i].person].amnesia != (node->agree->amnesia != 0)) {
        check.seen[i].life = host->life;
        check.seen[i].person = person(host);
        check.people[check.seen[i].person].amnesia = node->agree->amnesia != 0;
    }
    if (node->agree->promised > check.seen[i].promised) {
        if (check.seen[i].promised && node->agree->role == AGREE_CANDIDATE)
            check_raised(host);
        check.seen[i].promised = node->agree->promised;
    }
    if (agree_role(node->agree) == AGREE_LEADER &&
        (agree_term(node->agree) != check.seen[i].term ||
         decree->epoch != check.seen[i].led_epoch)) {
        check.seen[i].term = agree_term(node->agree);
        check.seen[i].led_epoch = decree->epoch;
        history_leads(check.history, person(host), decree->epoch,
                      agree_term(node->agree));
        take_breach();
    }
}

void
check_process_starts(struct host *host)
{
    check_process(host);
}

void
check_process_gone(const struct host *host)
{
    memset(&check.seen[host->index], 0, sizeof(check.seen[0]));
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
check_applied(const struct host *host, const struct train_job *job, uint64_t computed,
              uint64_t epoch, int64_t step, uint64_t chain, uint64_t samples_hash)
{
    const struct node *node = host->node;
    check.steps++;
    struct fact *at = fact(FACT_APPLIED, &job->id, computed, step);
    if (fact_new(at, FACT_APPLIED, &job->id, computed, step))
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

uint32_t
check_remember(const struct host *without)
{
    const struct decree *decree = check_newest_decree();
    uint32_t mask = 0;
    for (uint32_t v = 0; v < decree->voters_count; v++)
        for (int i = 0; i < check.people_count; i++)
            if (!check.people[i].forgot && !check.people[i].amnesia &&
                id_equal(&check.people[i].id, &decree->voters[v]) &&
                (!without || check.people[i].host != without->index))
                mask |= 1u << v;
    return mask;
}

/* ---- the end ---- */

/* The chain of the highest generation that there is. */
static const struct history_chain *
newest_chain(void)
{
    const struct history_chain *chains = check.history->chains;
    int at = HISTORY_GENERATIONS_MAX - 1;
    while (at > 0 && chains[at].newest == 0)
        at--;
    return &chains[at];
}

const struct decree *
check_newest_decree(void)
{
    const struct history_chain *chain = newest_chain();
    return &chain->decided[chain->newest];
}

uint64_t
check_newest_epoch(void)
{
    return check_newest_decree()->epoch;
}

int64_t
check_steps(void)
{
    return check.steps;
}
