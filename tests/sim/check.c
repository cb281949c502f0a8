#include "tests/sim/check.h"
#include "gossip/agree_state.h"
#include "tests/gossip/agree_history.h"
#include "tests/sim/disk.h"
#include "tests/sim/story_guard.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { JUDGED_MAX = 4096, HEARD_US = 8 * SECOND, BALLOTS_MAX = 1024, PENDING_MAX = 256 };

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

struct vote {
    int voter;
    uint64_t term; /* of what it had accepted; 0: nothing */
    struct id hash;
};

/* What a candidate of a term was told. */
struct ballot {
    int who;
    uint64_t term, epoch;
    int votes_count;
    struct vote votes[VOTERS_MAX];
    bool closed; /* it leads */
    bool adopts; /* bound to that decree */
    struct id bound;
};

static struct {
    struct history *history;
    struct person people[HISTORY_NODES_MAX];
    int people_count;
    struct judged judged[JUDGED_MAX];
    int judged_count;
    struct decree pending[PENDING_MAX]; /* proposed; voters alone */
    struct id pending_hash[PENDING_MAX];
    int pending_count;
    struct ballot ballots[BALLOTS_MAX];
    int ballots_count;
    struct {
        uint64_t epoch, term, led_epoch, life;
        uint64_t promised;
        int person;
    } seen[HOSTS_MAX];
    uint64_t
        known[HOSTS_MAX]; /* the newest epoch that the machine knows, running or not */
    int64_t heard_us[HOSTS_MAX][HISTORY_NODES_MAX];
    uint64_t measured[HOSTS_MAX]; /* the epoch in which its draft's links were measured */
} check;

void
check_open(void)
{
    memset(&check, 0, sizeof(check));
    check.history = history_new();
    check_steps_open();
}

void
check_close(void)
{
    history_free(check.history);
    check_steps_close();
    check.history = NULL;
}

static unsigned long long
big(uint64_t value)
{
    return value;
}

/* ---- people ---- */

static int
person_of(const struct id *id)
{
    const struct host *host = host_of(id);
    int old = -1;
    for (int i = 0; i < check.people_count; i++) {
        if (!id_equal(&check.people[i].id, id))
            continue;
        old = i;
        if (!check.people[i].forgot)
            return i;
    }
    if (old >= 0 && !host)
        return old; /* it has not begun anew, and may never */
    if (check.people_count == HISTORY_NODES_MAX) {
        world_breach("more identities than the simulator counts");
        return 0;
    }
    struct person *who = &check.people[check.people_count];
    who->id = *id;
    who->host = host ? host->index : -1;
    who->amnesia = old >= 0;
    who->anew_boot = old >= 0 ? host->node->boot : 0;
    return check.people_count++;
}

static int
person(const struct host *host)
{
    int who = person_of(&host->node->id);
    check.people[who].host = host->index;
    return who;
}

void
check_forgotten(const struct host *host)
{
    check.known[host->index] = 0;
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

/* ---- ballots: what a leader was elected with ---- */

static struct ballot *
ballot_of(int who, uint64_t term, bool make)
{
    for (int i = check.ballots_count - 1; i >= 0; i--)
        if (check.ballots[i].who == who && check.ballots[i].term == term)
            return &check.ballots[i];
    if (!make || check.ballots_count == BALLOTS_MAX)
        return NULL;
    struct ballot *ballot = &check.ballots[check.ballots_count++];
    *ballot = (struct ballot){.who = who, .term = term};
    return ballot;
}

static void
ballot_add(struct ballot *ballot, int voter, uint64_t accepted_term,
           const struct id *accepted)
{
    for (int i = 0; i < ballot->votes_count; i++)
        if (ballot->votes[i].voter == voter)
            return;
    if (ballot->votes_count == VOTERS_MAX)
        return;
    ballot->votes[ballot->votes_count++] =
        (struct vote){.voter = voter, .term = accepted_term, .hash = *accepted};
}

/* A candidate asks: its own vote, and what it has accepted itself. */
static void
ballot_opens(const struct host *host, uint64_t term)
{
    const struct agree *agree = host->node->agree;
    struct ballot *ballot = ballot_of(person(host), term, true);
    if (!ballot || ballot->votes_count > 0)
        return;
    ballot->epoch = agree->decree.epoch;
    ballot_add(ballot, person(host), agree->accepted_term, &agree->accepted_hash);
}

static void
ballot_hears(const struct host *host, const struct id *from, const void *body, size_t len)
{
    struct vote_reply reply;
    struct err err;
    if (vote_reply_decode(body, len, &reply, &err) || reply.reason != REASON_NONE)
        return;
    struct ballot *ballot = ballot_of(person(host), reply.term, false);
    struct decree decree;
    struct id hash = {{0}};
    if (!ballot || ballot->closed)
        return;
    if (reply.accepted_term > 0) {
        if (decree_decode(reply.accepted, reply.accepted_len, &decree, &err))
            return;
        decree_hash(&decree, &hash);
        decree_release(&decree);
    }
    ballot_add(ballot, person_of(from), reply.accepted_term, &hash);
}

/* It leads now: by a quorum? Is it bound to what they had accepted? */
static void
ballot_closes(const struct host *host)
{
    const struct decree *decree = &host->node->agree->decree;
    struct ballot *ballot =
        ballot_of(person(host), host->node->agree->leader_term, false);
    if (!ballot || ballot->closed)
        return;
    ballot->closed = true;
    if (ballot->epoch != decree->epoch)
        return;
    uint32_t granted = 0, empty = 0, all = (1u << decree->voters_count) - 1;
    uint64_t best = 0;
    for (int i = 0; i < ballot->votes_count; i++)
        for (uint32_t v = 0; v < decree->voters_count; v++) {
            const struct vote *vote = &ballot->votes[i];
            /* A vote stands though its voter has lost its state since: it gives no
             * other one (check_votes()). */
            if (!id_equal(&decree->voters[v], &check.people[vote->voter].id))
                continue;
            granted |= 1u << v;
            empty |= vote->term ? 0 : 1u << v;
            if (vote->term > best) {
                best = vote->term;
                ballot->bound = vote->hash;
            }
        }
    ballot->adopts = best > 0 && decree_quorum(decree, all & ~empty);
    if (!decree_quorum(decree, granted))
        world_breach("%s leads term %llu without a quorum's votes", host->address,
                     big(ballot->term));
}

static void
ballot_binds(const struct host *host, uint64_t epoch, uint64_t term,
             const struct id *hash)
{
    const struct ballot *ballot = ballot_of(person(host), term, false);
    if (!ballot || !ballot->adopts)
        return;
    if (epoch > ballot->epoch + 1)
        world_breach("I4: %s was bound to a proposal when it was elected, and goes on to "
                     "epoch %llu in the same term",
                     host->address, big(epoch));
    else if (!id_equal(hash, &ballot->bound))
        world_breach("I4: %s proposes another decree for epoch %llu than its voters had "
                     "accepted",
                     host->address, big(epoch));
}

void
check_heard(const struct host *host, const struct id *from, enum frame_kind kind,
            const void *body, size_t len)
{
    check.heard_us[host->index][person_of(from)] = world.now_us;
    if (kind == FRAME_VOTE_REPLY)
        ballot_hears(host, from, body, len);
}

/* What an answer rests on is on the disk before it leaves. */
static void
check_durable(const struct host *host, uint64_t term, const struct id *accepted)
{
    struct buf saved = {0};
    struct err err;
    struct agree_options options = {.key = host->node->key};
    struct agree *agree = NULL;
    if (disk_durable(host, "agree.state", &saved))
        agree = agree_new(&options, 1, saved.data, saved.len, &err);
    if (!agree || agree->promised < term)
        world_breach("I3: %s answers in term %llu, and its disk does not know",
                     host->address, big(term));
    else if (accepted &&
             !(agree->accepted_term == term && id_equal(&agree->accepted_hash, accepted)))
        world_breach("I3: %s accepts in term %llu, and its disk does not know",
                     host->address, big(term));
    agree_free(agree);
    buf_release(&saved);
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
    if (reply.reason != REASON_NONE)
        return;
    check_votes(host, "its vote");
    check_durable(host, reply.term, NULL);
    history_vote(check.history, person(host), reply.term, person_of(to));
}

/* Who makes a proposal has connections to a quorum of those who decide after it. */
static void
check_looked(const struct host *host, const struct decree *decree)
{
    uint32_t mask = 0;
    for (uint32_t v = 0; v < decree->voters_count; v++)
        if (id_equal(&decree->voters[v], &host->node->id) ||
            mesh_connected(host->mesh, &decree->voters[v]))
            mask |= 1u << v;
    if (!decree_quorum(decree, mask))
        world_breach(
            "%s proposes epoch %llu, and is connected to no quorum of its voters",
            host->address, big(decree->epoch));
}

static bool
link_known(const struct node *node, const struct id *from, const struct id *to)
{
    const struct record_link *link = measure_link(node, from, to);
    return (link && link->rate > 0 && link->confidence >= LINK_CONFIDENT) ||
           id_equal(from, &node->id) || !decree_member(&node->decree, from) ||
           !decree_member(&node->decree, to);
}

/* A job's first plan rests on links that are measured, unless it was not the first draft:
 * what the links of that one turned out to carry may have made it another plan. */
static void
check_links(const struct host *host, const struct decree *decree)
{
    const struct node *node = host->node;
    struct view view;
    struct err err;
    if (decree->cause != CAUSE_JOB || node->view->state != JOB_NONE ||
        check.measured[host->index] == node->decree.epoch ||
        view_decode(decree->body, decree->body_len, &node->swarm,
                    secret_admit_id(node->secret), &view, &err))
        return;
    const struct plan *plan = &view.plan;
    for (int s = 0; view.planned && s + 1 < plan->stages_count; s++)
        for (int r = 0; r < plan->pipelines_count; r++) {
            const struct id *one = &view.reports[plan->stages[s].nodes[r]].id;
            const struct id *two = &view.reports[plan->stages[s + 1].nodes[r]].id;
            if (!link_known(node, one, two) || !link_known(node, two, one))
                world_breach("%s proposes a job's first plan on links between stages %d "
                             "and %d that it let nobody measure",
                             host->address, s, s + 1);
        }
    view_release(&view);
}

/* It may be chosen some day: who votes after it matters already. */
static void
note_pending(const struct host *host, const struct decree *decree, const struct id *hash)
{
    for (int i = 0; i < check.pending_count; i++)
        if (id_equal(&check.pending_hash[i], hash))
            return; /* repeated, or adopted */
    check_looked(host, decree);
    check_links(host, decree);
    int at = check.pending_count < PENDING_MAX ? check.pending_count++
                                               : (int)(decree->epoch % PENDING_MAX);
    check.pending[at] = *decree;
    check.pending[at].members = NULL;
    check.pending[at].body = NULL;
    check.pending_hash[at] = *hash;
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
    ballot_binds(host, decree.epoch, message.term, &hash);
    note_pending(host, &decree, &hash);
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
    check_durable(host, accept.term, &accept.hash);
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
        if (vote_ask_decode(body, len, &ask, &err))
            break;
        history_vote(check.history, person(host), ask.term, person(host));
        ballot_opens(host, ask.term);
        check_durable(host, ask.term, NULL);
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

/* What the simulator believes, whatever the program compares. */
static bool
one_lineage(const struct lineage *left, const struct lineage *right)
{
    return left->epoch == right->epoch && left->tag == right->tag;
}

/* Is every layer of a step that somebody applied held by members who applied it, or who
 * prepared it in the epoch in which it was computed? */
static bool
held(const struct view *view, int64_t step, const struct lineage *lineage)
{
    int layers = workload_layers(&view->request.shape);
    for (int layer = 0; layer < layers; layer++) {
        bool found = false;
        for (uint32_t i = 0; i < view->reports_count && !found; i++) {
            const struct progress *progress = &view->reports[i].progress;
            bool applied =
                progress->applied == step && one_lineage(&progress->lineage, lineage);
            bool prepared = progress->prepared && progress->applied == step - 1 &&
                            one_lineage(&progress->prepared_in, lineage);
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
        const struct progress *progress = &view->reports[i].progress;
        int64_t step = progress->applied;
        if (id_equal(&view->reports[i].job, &view->job.train.id) && progress->normed &&
            step > view->recovery.base_step && held(view, step, &progress->lineage))
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
    bool first = !check_decree(agree->decree.epoch);
    if (agree->decree.cause == CAUSE_RECOVERY && first)
        guard_authority(&agree->decree, &check.history->admit_id);
    history_commit(check.history, person(host), &agree->decree, &agree->hash,
                   agree->certificate.term, &certified);
    buf_release(&certified);
    take_breach();
    if (agree->promised < agree->certificate.term)
        world_breach("I3: %s took in a decree of term %llu and has promised term %llu",
                     host->address, big(agree->certificate.term), big(agree->promised));
    if (newest && host->node->decree.epoch == agree->decree.epoch)
        check_recovery(host->node);
    if (host->node->decree.epoch == agree->decree.epoch)
        guard_committed(host, first);
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
    check.known[i] = decree->epoch;
    if (decree->epoch != check.seen[i].epoch) {
        if (decree->epoch < check.seen[i].epoch)
            world_breach("I6: %s goes from epoch %llu back to %llu", host->address,
                         big(check.seen[i].epoch), big(decree->epoch));
        check.seen[i].epoch = decree->epoch;
        check_commit(host);
    }
    if (node->lead.links_until_ms != 0)
        check.measured[i] = decree->epoch;
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
        ballot_closes(host);
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

/* Those of the voters who remember what they promised and are not among the lost. */
static uint32_t
remember(const struct decree *decree, uint64_t lost)
{
    uint32_t mask = 0;
    for (uint32_t v = 0; v < decree->voters_count; v++)
        for (int i = 0; i < check.people_count; i++) {
            const struct person *who = &check.people[i];
            if (!who->forgot && !who->amnesia && id_equal(&who->id, &decree->voters[v]) &&
                (who->host < 0 || !(lost >> who->host & 1)))
                mask |= 1u << v;
        }
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

const struct decree *
check_decree(uint64_t epoch)
{
    uint32_t generation = epoch_generation(epoch), number = epoch_number(epoch);
    if (generation >= HISTORY_GENERATIONS_MAX || number >= HISTORY_EPOCHS_MAX)
        return NULL;
    const struct decree *decree = &check.history->chains[generation].decided[number];
    return decree->epoch == epoch && epoch ? decree : NULL;
}

uint64_t
check_newest_epoch(void)
{
    return check_newest_decree()->epoch;
}

/* From the newest epoch that one of those who are left knows on, since the certificates above
 * it may be lost: a quorum of each epoch's voters, who are then bound to what was decided. */
bool
check_decides(uint64_t lost)
{
    const struct history_chain *chain = newest_chain();
    const struct decree *newest = check_newest_decree();
    uint64_t known = 0;
    for (int i = 0; i < world.hosts_count; i++)
        if (!(lost >> i & 1) && !world.hosts[i].banned && check.known[i] > known)
            known = check.known[i];
    if (epoch_generation(known) != epoch_generation(newest->epoch) || known == 0)
        return false;
    for (uint32_t number = epoch_number(known); number <= chain->newest; number++) {
        const struct decree *decided = &chain->decided[number];
        if (!decree_quorum(decided, remember(decided, lost)))
            return false;
    }
    for (int i = 0; i < check.pending_count; i++)
        if (check.pending[i].epoch == newest->epoch + 1 &&
            !decree_quorum(&check.pending[i], remember(&check.pending[i], lost)))
            return false;
    return true;
}
