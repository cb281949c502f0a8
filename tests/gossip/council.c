#include "tests/gossip/council.h"
#include "gossip/agree_state.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 5 };

static bool
chance(struct council *net, int of, uint64_t in)
{
    return of > 0 && rng_below(&net->rng, in) < (uint64_t)of;
}

static int
node_of(const struct council *net, const struct id *id)
{
    for (int i = 0; i < net->count; i++)
        if (id_equal(&net->nodes[i].id, id))
            return i;
    return -1;
}

struct council *
council_new(uint64_t seed, int count)
{
    must(count <= COUNCIL_MAX);
    struct err err;
    must(key_setup(&err) == 0);
    struct council *net = xcalloc(1, sizeof(*net));
    net->rng = (struct rng){.seed = seed, .stream = 77};
    net->now_ms = 1000;
    net->count = count;
    net->history = history_new();
    net->admission = key_from_seed((const uint8_t[32]){42});
    net->history->admit_id = *key_id(net->admission);
    for (int i = 0; i < count; i++) {
        uint8_t bytes[32] = {0};
        uint64_t word = rng_next(&net->rng);
        memcpy(bytes, &word, sizeof(word));
        bytes[31] = (uint8_t)(i + 1);
        net->nodes[i].key = key_from_seed(bytes);
        net->nodes[i].id = *key_id(net->nodes[i].key);
        net->nodes[i].patience_ms = 200 + (int64_t)rng_below(&net->rng, 1000);
    }
    return net;
}

void
council_free(struct council *net)
{
    for (int i = 0; i < net->count; i++) {
        agree_free(net->nodes[i].agree);
        key_free(net->nodes[i].key);
        free(net->nodes[i].disk);
    }
    for (size_t i = 0; i < net->events_count; i++)
        free(net->events[i].body);
    free(net->events);
    key_free(net->admission);
    history_free(net->history);
    free(net);
}

/* ---- events: a heap by time ---- */

static bool
sooner(const struct council_event *a, const struct council_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void
swap(struct council_event *a, struct council_event *b)
{
    struct council_event kept = *a;
    *a = *b;
    *b = kept;
}

static void
event_push(struct council *net, struct council_event event)
{
    if (net->events_count == net->events_capacity) {
        net->events_capacity = net->events_capacity ? 2 * net->events_capacity : 64;
        net->events = xrealloc(net->events, net->events_capacity, sizeof(*net->events));
    }
    event.sequence = net->sequence++;
    size_t at = net->events_count++;
    net->events[at] = event;
    while (at > 0 && sooner(&net->events[at], &net->events[(at - 1) / 2])) {
        swap(&net->events[at], &net->events[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct council_event
event_pop(struct council *net)
{
    struct council_event first = net->events[0];
    net->events[0] = net->events[--net->events_count];
    net->events[net->events_count].body = NULL;
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < net->events_count &&
                sooner(&net->events[child], &net->events[least]))
                least = child;
        if (least == at)
            break;
        swap(&net->events[at], &net->events[least]);
        at = least;
    }
    return first;
}

/* ---- effects ---- */

static void
frame_note(struct council *net, int node, int to, const struct effect *effect)
{
    struct err err;
    struct vote_reply vote;
    struct accept accept;
    struct propose propose;
    struct decree decree;
    struct id hash;
    switch (effect->frame) {
    case FRAME_VOTE_REPLY:
        must(vote_reply_decode(effect->bytes, effect->len, &vote, &err) == 0);
        if (vote.reason == REASON_NONE)
            history_vote(net->history, node, vote.term, to);
        break;
    case FRAME_ACCEPT:
        must(accept_message_decode(effect->bytes, effect->len, &accept, &err) == 0);
        history_accept(net->history, node, accept.epoch, accept.term, &accept.hash);
        break;
    case FRAME_PROPOSE:
        must(propose_decode(effect->bytes, effect->len, &propose, &err) == 0);
        must(decree_decode(propose.decree, propose.decree_len, &decree, &err) == 0);
        decree_hash(&decree, &hash);
        history_propose(net->history, node, decree.epoch, propose.term, &hash);
        decree_release(&decree);
        break;
    default:
        break;
    }
}

static void
frame_send(struct council *net, int from, const struct effect *effect)
{
    int to = node_of(net, &effect->peer);
    if (to < 0)
        return;
    frame_note(net, from, to, effect);
    int copies = 1 + chance(net, net->twice_percent, 100);
    for (int i = 0; i < copies; i++) {
        if (net->cut[from][to] || chance(net, net->loss_percent, 100))
            continue;
        int64_t jitter = (int64_t)rng_below(&net->rng, (uint64_t)net->jitter_ms + 1);
        event_push(net,
                   (struct council_event){.at_ms = net->now_ms + net->delay_ms + jitter,
                                          .from = from,
                                          .to = to,
                                          .kind = effect->frame,
                                          .body = xmemdup(effect->bytes, effect->len),
                                          .len = effect->len});
    }
}

static void
committed_note(struct council *net, int node, const struct effect *effect)
{
    struct err err;
    struct decree decree;
    must(decree_decode(effect->bytes, effect->len, &decree, &err) == 0);
    struct buf certified = {0};
    const struct agree *agree = net->nodes[node].agree;
    bool newest = agree_decree(agree)->epoch == decree.epoch;
    if (newest)
        agree_export(agree, &certified);
    /* A joiner's import skips epochs, and a chain of links shows only its last. */
    history_commit(net->history, node, &decree, &effect->hash, effect->term,
                   newest ? &certified : NULL);
    buf_release(&certified);
    decree_release(&decree);
}

static void
disk_write(struct council_node *node, const struct effect *effect)
{
    free(node->disk);
    node->disk = xmemdup(effect->bytes, effect->len);
    node->disk_len = effect->len;
}

static void
carry_one(struct council *net, int index, const struct effect *effect)
{
    struct council_node *node = &net->nodes[index];
    switch (effect->kind) {
    case EFFECT_SEND:
        frame_send(net, index, effect);
        break;
    case EFFECT_PERSIST:
        disk_write(node, effect);
        break;
    case EFFECT_COMMITTED:
        committed_note(net, index, effect);
        break;
    case EFFECT_JUDGE:
        node->judges++;
        event_push(
            net, (struct council_event){
                     .at_ms = net->now_ms +
                              (int64_t)rng_below(&net->rng, (uint64_t)net->judge_ms + 1),
                     .to = index,
                     .hash = effect->hash,
                     .right = !(net->contrary >> index & 1) &&
                              !chance(net, net->wrong_percent, 100),
                     .boot = node->boots});
        break;
    case EFFECT_COLLECT:
        node->collects++;
        break;
    case EFFECT_LEADER:
        node->leader = effect->peer;
        break;
    case EFFECT_QUORUM:
        node->quorum = effect->after == 1;
        break;
    case EFFECT_RIVAL:
        net->rivals++;
        break;
    default:
        break;
    }
}

void
council_carry(struct council *net, int index, struct effects *effects)
{
    struct council_node *node = &net->nodes[index];
    for (size_t i = 0; i < effects->count; i++) {
        if (chance(net, net->crash_permille, 1000)) {
            /* Just before, or for a write, perhaps just after it. */
            if (effects->list[i].kind == EFFECT_PERSIST && chance(net, 1, 2))
                disk_write(node, &effects->list[i]);
            council_crash(net, index);
            node->back_at_ms = net->now_ms + 50 + (int64_t)rng_below(&net->rng, 4000);
            break;
        }
        carry_one(net, index, &effects->list[i]);
    }
    /* Who crashes before its promise is durable never led. */
    if (node->agree && agree_role(node->agree) == AGREE_LEADER)
        history_leads(net->history, index, agree_decree(node->agree)->epoch,
                      agree_term(node->agree));
    effects_release(effects);
}

/* ---- life ---- */

static struct agree *
agree_make(struct council *net, int index)
{
    struct council_node *node = &net->nodes[index];
    node->boots++;
    struct agree_options options = {
        .key = node->key, .incarnation = node->boots << 32, .seed = rng_next(&net->rng)};
    struct err err;
    struct agree *agree =
        agree_new(&options, net->now_ms, node->disk, node->disk_len, &err);
    must(agree != NULL);
    agree_authority(agree, key_id(net->admission), 1);
    node->quorum = false;
    node->stopped = false;
    node->leader = (struct id){0};
    node->back_at_ms = 0;
    return agree;
}

void
council_found(struct council *net, int node)
{
    struct effects effects = {0};
    uint8_t nonce[ID_BYTES] = {1};
    net->nodes[node].agree = agree_make(net, node);
    net->nodes[node].wanted = true;
    agree_found(net->nodes[node].agree, net->now_ms, net->nodes[node].boots << 32, nonce,
                "plan", 4, &effects);
    council_carry(net, node, &effects);
}

/* Whoever has no decree, or one that nobody can lead on from, asks those who have one. */
static void
join(struct council *net, int index)
{
    struct council_node *node = &net->nodes[index];
    for (int i = 0; i < net->count; i++) {
        const struct agree *seed = net->nodes[i].agree;
        if (i == index || !seed || !agree_decree(seed) || net->nodes[i].stopped ||
            net->cut[i][index] || net->cut[index][i] ||
            !decree_member(agree_decree(seed), &net->nodes[i].id))
            continue;
        struct buf bytes = {0};
        struct effects effects = {0};
        struct err err;
        agree_export(seed, &bytes);
        must(agree_import(node->agree, net->now_ms, bytes.data, bytes.len, &effects,
                          &err) == 0);
        buf_release(&bytes);
        council_carry(net, index, &effects);
        if (!node->agree)
            return;
    }
}

void
council_start(struct council *net, int index)
{
    struct council_node *node = &net->nodes[index];
    must(!node->agree);
    node->wanted = true;
    node->agree = agree_make(net, index);
    const struct decree *decree = agree_decree(node->agree);
    if (!decree) {
        join(net, index);
        return;
    }
    /* It may have crashed after the write and before it said so. */
    struct buf certified = {0};
    agree_export(node->agree, &certified);
    history_commit(net->history, index, decree, agree_decree_hash(node->agree),
                   node->agree->certificate.term, &certified);
    buf_release(&certified);
}

void
council_crash(struct council *net, int index)
{
    agree_free(net->nodes[index].agree);
    net->nodes[index].agree = NULL;
    net->nodes[index].back_at_ms = 0;
}

void
council_split(struct council *net, unsigned left, unsigned right, bool cut)
{
    for (int i = 0; i < net->count; i++)
        for (int k = 0; k < net->count; k++)
            if (left >> i & 1 && right >> k & 1)
                net->cut[i][k] = net->cut[k][i] = cut;
}

/* ---- what node does ---- */

static void
views_update(struct council *net, int index)
{
    struct council_node *node = &net->nodes[index];
    for (int i = 0; i < net->count; i++) {
        bool silent = !net->nodes[i].agree || net->nodes[i].stopped ||
                      net->cut[i][index] || net->cut[index][i];
        if (i == index || !silent) {
            node->silent_ms[i] = 0;
            node->sees_gone[i] = false;
            continue;
        }
        node->silent_ms[i] += STEP_MS;
        if (node->sees_gone[i] || node->silent_ms[i] < node->patience_ms)
            continue;
        node->sees_gone[i] = true;
        if (net->evidence) {
            struct effects effects = {0};
            agree_gone(node->agree, net->now_ms, &net->nodes[i].id, &effects);
            council_carry(net, index, &effects);
            if (!node->agree)
                return;
        }
    }
}

static int
member_compare(const void *left, const void *right)
{
    const struct decree_member *a = left, *b = right;
    return id_compare(&a->id, &b->id);
}

static void
propose_view(struct council *net, int index)
{
    struct council_node *node = &net->nodes[index];
    if (!agree_idle(node->agree))
        return;
    struct decree_member members[COUNCIL_MAX];
    uint32_t count = 0;
    for (int i = 0; i < net->count; i++)
        if (i == index ||
            (net->nodes[i].wanted && net->nodes[i].boots > 0 && !node->sees_gone[i]))
            members[count++] = (struct decree_member){
                .id = net->nodes[i].id, .incarnation = net->nodes[i].boots << 32};
    qsort(members, count, sizeof(*members), member_compare);
    const struct decree *decree = agree_decree(node->agree);
    bool same = count == decree->members_count;
    for (uint32_t i = 0; same && i < count; i++)
        same = id_equal(&members[i].id, &decree->members[i].id) &&
               members[i].incarnation == decree->members[i].incarnation;
    if (same && !chance(net, net->job_permille, 1000))
        return;
    struct effects effects = {0};
    struct err err;
    uint64_t body = rng_next(&net->rng);
    enum decree_cause cause = same                            ? CAUSE_JOB
                              : count < decree->members_count ? CAUSE_LOSS
                                                              : CAUSE_JOIN;
    must(agree_propose(node->agree, net->now_ms, cause, members, count, NULL, 0, &body,
                       sizeof(body), &effects, &err) == 0);
    council_carry(net, index, &effects);
}

static void
admission_sign(void *arg, const void *bytes, size_t len,
               uint8_t signature[KEY_SIGNATURE_BYTES])
{
    key_sign(arg, bytes, len, signature);
}

void
council_recover(struct council *net, int index, unsigned survivors)
{
    struct decree_member members[COUNCIL_MAX];
    uint32_t count = 0;
    for (int i = 0; i < net->count; i++) {
        if (survivors >> i & 1)
            members[count++] = (struct decree_member){
                .id = net->nodes[i].id, .incarnation = net->nodes[i].boots << 32};
        else
            net->nodes[i].wanted = false;
    }
    qsort(members, count, sizeof(*members), member_compare);
    struct effects effects = {0};
    struct err err;
    must(agree_recover(net->nodes[index].agree, net->now_ms, members, count, "recovered",
                       9, admission_sign, net->admission, &effects, &err) == 0);
    council_carry(net, index, &effects);
}

static void
event_happen(struct council *net, const struct council_event *event)
{
    struct council_node *node = &net->nodes[event->to];
    if (!node->agree || node->stopped)
        return;
    struct effects effects = {0};
    struct err err = {0};
    if (event->kind == 0) {
        if (event->boot == node->boots)
            agree_judged(node->agree, net->now_ms, &event->hash, event->right,
                         "another plan", &effects);
    } else if (agree_decree(node->agree)) {
        const struct decree *decree = agree_decree(node->agree);
        struct frame frame = {
            .kind = event->kind,
            .swarm = decree->epoch == 1 ? *agree_decree_hash(node->agree) : decree->swarm,
            .from = net->nodes[event->from].id,
            .to = node->id,
            .body = event->body,
            .body_len = event->len};
        net->frames++;
        if (agree_receive(node->agree, net->now_ms, &frame, &effects, &err) &&
            err.code != ERR_PEER && !net->lawless && !net->history->wrong[0]) {
            /* Honest nodes say nothing that is refused as a breach of the protocol. */
            memcpy(net->history->wrong, err.msg, sizeof(err.msg));
            net->history->wrong[sizeof(err.msg)] = '\0';
        }
    }
    council_carry(net, event->to, &effects);
}

static void
node_step(struct council *net, int index)
{
    struct council_node *node = &net->nodes[index];
    if (!node->agree) {
        if (node->back_at_ms > 0 && net->now_ms >= node->back_at_ms)
            council_start(net, index);
        return;
    }
    if (node->stopped)
        return;
    if (!agree_decree(node->agree) || agree_behind(node->agree, net->now_ms)) {
        join(net, index);
        return;
    }
    views_update(net, index);
    if (!node->agree)
        return;
    struct effects effects = {0};
    agree_tick(node->agree, net->now_ms, &effects);
    council_carry(net, index, &effects);
    if (node->agree && net->propose)
        propose_view(net, index);
}

void
council_run(struct council *net, int64_t ms)
{
    int64_t end = net->now_ms + ms;
    while (net->now_ms < end) {
        net->now_ms += STEP_MS;
        while (net->events_count > 0 && net->events[0].at_ms <= net->now_ms) {
            struct council_event event = event_pop(net);
            event_happen(net, &event);
            free(event.body);
        }
        for (int i = 0; i < net->count; i++)
            node_step(net, i);
    }
}

/* ---- questions ---- */

uint64_t
council_epoch(const struct council *net, int node)
{
    const struct agree *agree = net->nodes[node].agree;
    return agree && agree_decree(agree) ? agree_decree(agree)->epoch : 0;
}

int
council_leader(const struct council *net)
{
    int best = -1;
    for (int i = 0; i < net->count; i++)
        if (net->nodes[i].agree && !net->nodes[i].stopped &&
            agree_role(net->nodes[i].agree) == AGREE_LEADER &&
            (best < 0 || council_epoch(net, i) > council_epoch(net, best)))
            best = i;
    return best;
}

void
council_print(const struct council *net, int index)
{
    const struct agree *agree = net->nodes[index].agree;
    if (!agree) {
        printf("%d: down\n", index);
        return;
    }
    printf(
        "%d: %s epoch %llu term %llu (promised %llu) leader %d quorum %d accepted %llu "
        "amnesia %llx open %d proposal %d of %u voters, %u members:",
        index, agree_role_name(agree_role(agree)),
        (unsigned long long)council_epoch(net, index),
        (unsigned long long)agree_term(agree), (unsigned long long)agree->promised,
        node_of(net, agree_leader(agree)), agree_quorum(agree),
        (unsigned long long)agree->accepted_term, (unsigned long long)agree->amnesia,
        agree->open, agree->proposal.active, agree->decree.voters_count,
        agree->decree.members_count);
    for (uint32_t i = 0; i < agree->decree.voters_count; i++)
        printf(" %d", node_of(net, &agree->decree.voters[i]));
    printf(", links from %llu, behind since %lld\n",
           (unsigned long long)agree->chain.links[0].epoch,
           (long long)agree->behind_since_ms);
}

static bool
settled(const struct council *net, unsigned members)
{
    int leader = council_leader(net);
    if (leader < 0 || !(members >> leader & 1) || !agree_idle(net->nodes[leader].agree))
        return false;
    const struct decree *decree = agree_decree(net->nodes[leader].agree);
    if (decree->members_count != (uint32_t)__builtin_popcount(members))
        return false;
    for (int i = 0; i < net->count; i++) {
        if (!(members >> i & 1))
            continue;
        const struct agree *agree = net->nodes[i].agree;
        if (!agree || council_epoch(net, i) != decree->epoch ||
            !decree_member(decree, &net->nodes[i].id) || !agree_quorum(agree) ||
            !id_equal(agree_leader(agree), &net->nodes[leader].id))
            return false;
    }
    return true;
}

int64_t
council_settle(struct council *net, unsigned members, int64_t limit_ms)
{
    int64_t began = net->now_ms;
    while (net->now_ms - began < limit_ms) {
        if (settled(net, members) || net->history->wrong[0])
            return net->history->wrong[0] ? -1 : net->now_ms - began;
        council_run(net, STEP_MS);
    }
    return -1;
}

void
council_grow(struct council *net, int members)
{
    net->propose = true;
    net->evidence = true;
    council_found(net, 0);
    for (int i = 1; i < members; i++) {
        council_start(net, i);
        must(council_settle(net, (2u << i) - 1, 20000) >= 0);
    }
}
