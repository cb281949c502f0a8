#include "tests/gossip/net.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net_event {
    int64_t at_ms;
    uint64_t sequence;
    size_t from, to;
    uint64_t boot; /* of the receiver: a frame does not outlive it */
    enum frame_kind kind;
    uint8_t *bytes;
    size_t len;
};

/* ---- the queue ---- */

static bool
sooner(const struct net_event *left, const struct net_event *right)
{
    if (left->at_ms != right->at_ms)
        return left->at_ms < right->at_ms;
    return left->sequence < right->sequence;
}

static void
swap(struct net_event *left, struct net_event *right)
{
    struct net_event held = *left;
    *left = *right;
    *right = held;
}

static void
put(struct net *net, const struct net_event *event)
{
    if (net->events_count == net->events_capacity) {
        net->events_capacity = net->events_capacity ? 2 * net->events_capacity : 1024;
        net->events =
            xrealloc(net->events, net->events_capacity, sizeof(struct net_event));
    }
    size_t at = net->events_count++;
    net->events[at] = *event;
    while (at > 0 && sooner(&net->events[at], &net->events[(at - 1) / 2])) {
        swap(&net->events[at], &net->events[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct net_event
take(struct net *net)
{
    struct net_event first = net->events[0];
    net->events[0] = net->events[--net->events_count];
    net->events[net->events_count].bytes = NULL;
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < net->events_count &&
                sooner(&net->events[child], &net->events[least]))
                least = child;
        if (least == at)
            return first;
        swap(&net->events[at], &net->events[least]);
        at = least;
    }
}

/* ---- nodes ---- */

void
net_open(struct net *net, uint64_t seed, size_t count)
{
    struct err err;
    char text[SECRET_TEXT_SIZE];
    ck_assert_int_eq(key_setup(&err), 0);
    ck_assert_uint_le(count, NET_NODES_MAX);
    *net = (struct net){.count = count, .delay_ms = 10, .now_ms = 1000, .seed = seed};
    net->rng.seed = seed;
    memset(text, '7', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    net->secret = secret_parse(text, &err);
    ck_assert_ptr_nonnull(net->secret);
    memset(net->swarm.bytes, 0x5a, ID_BYTES);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[32] = {(uint8_t)i, (uint8_t)(i >> 8), 1};
        net->nodes[i].key = key_from_seed(bytes);
        net->nodes[i].id = *key_id(net->nodes[i].key);
    }
}

void
net_close(struct net *net)
{
    while (net->events_count > 0) {
        struct net_event event = take(net);
        free(event.bytes);
    }
    free(net->events);
    for (size_t i = 0; i < net->count; i++) {
        gossip_free(net->nodes[i].gossip);
        key_free(net->nodes[i].key);
    }
    secret_free(net->secret);
}

static size_t
index_of(const struct net *net, const struct id *id)
{
    for (size_t i = 0; i < net->count; i++)
        if (id_equal(&net->nodes[i].id, id))
            return i;
    ck_abort_msg("a frame to a node that nobody made");
}

static void
note(struct net_node *node, const struct effect *effect)
{
    if (effect->kind == EFFECT_CONFLICT)
        node->conflicts++;
    else if (effect->before == effect->after || effect->after < MEMBER_SUSPECT)
        return;
    node->deaths += effect->kind == EFFECT_MEMBER && effect->after == MEMBER_DEAD;
    node->suspicions += effect->kind == EFFECT_MEMBER && effect->after == MEMBER_SUSPECT;
    if (effect->after != MEMBER_SUSPECT)
        memcpy(node->why, effect->text, sizeof(node->why));
}

static void
post(struct net *net, size_t from, struct effect *effect)
{
    size_t to = index_of(net, &effect->peer);
    net->sent++;
    net->bytes += effect->len;
    if (net->cut[from][to] || rng_below(&net->rng, 100) < net->loss_percent)
        return;
    struct net_event event = {.sequence = net->sequence++,
                              .from = from,
                              .to = to,
                              .boot = net->nodes[to].boot,
                              .kind = effect->frame,
                              .bytes = effect->bytes,
                              .len = effect->len};
    event.at_ms = net->now_ms + net->delay_ms;
    if (net->jitter_ms > 0)
        event.at_ms += (int64_t)rng_below(&net->rng, (uint64_t)net->jitter_ms);
    effect->bytes = NULL;
    put(net, &event);
}

void
net_deliver(struct net *net, size_t from, struct effects *effects)
{
    struct net_node *node = &net->nodes[from];
    for (size_t i = 0; i < effects->count; i++) {
        if (effects->list[i].kind == EFFECT_SEND)
            post(net, from, &effects->list[i]);
        else
            note(node, &effects->list[i]);
    }
    effects_clear(effects);
}

void
net_record(const struct net *net, size_t node, struct record *out)
{
    const struct net_node *it = &net->nodes[node];
    *out = (struct record){.id = it->id, .incarnation = it->boot << 32, .threads = 2};
    snprintf(out->name, sizeof(out->name), "n%zu", node);
    snprintf(out->zone, sizeof(out->zone), "%c", (char)('a' + node % 2));
    snprintf(out->address, sizeof(out->address), "127.0.0.1:%zu", 7700 + 10 * node);
    snprintf(out->device, sizeof(out->device), "cpu");
    secret_admit(net->secret, &net->swarm, &it->id, out->admission);
}

void
net_start(struct net *net, size_t node)
{
    struct net_node *it = &net->nodes[node];
    struct effects effects = {0};
    struct record record;
    ck_assert_ptr_null(it->gossip);
    it->boot++;
    it->hung = false;
    it->gossip =
        gossip_new(&(struct gossip_options){.key = it->key,
                                            .swarm = net->swarm,
                                            .admit_id = *secret_admit_id(net->secret),
                                            .seed = net->seed},
                   net->now_ms);
    net_record(net, node, &record);
    gossip_self(it->gossip, &record, &effects);
    net_deliver(net, node, &effects);
    effects_release(&effects);
}

void
net_kill(struct net *net, size_t node)
{
    gossip_free(net->nodes[node].gossip);
    net->nodes[node].gossip = NULL;
}

void
net_meet(struct net *net, size_t node, size_t seed_node)
{
    struct effects effects = {0};
    struct err err;
    size_t pair[2] = {node, seed_node};
    for (int i = 0; i < 2; i++) {
        const struct member *other = gossip_member_self(net->nodes[pair[1 - i]].gossip);
        ck_assert_int_eq(gossip_merge(net->nodes[pair[i]].gossip, net->now_ms,
                                      other->bytes, other->len, &effects, &err),
                         0);
        net_deliver(net, pair[i], &effects);
    }
    effects_release(&effects);
}

void
net_start_all(struct net *net)
{
    for (size_t i = 0; i < net->count; i++) {
        net_start(net, i);
        if (i > 0)
            net_meet(net, i, 0);
    }
}

void
net_cut(struct net *net, size_t from, size_t to, bool cut)
{
    net->cut[from][to] = cut;
}

void
net_leave(struct net *net, size_t node)
{
    struct effects effects = {0};
    struct record record;
    net_record(net, node, &record);
    record.leaving = true;
    gossip_self(net->nodes[node].gossip, &record, &effects);
    net_deliver(net, node, &effects);
    effects_release(&effects);
}

/* ---- time ---- */

static void
arrive(struct net *net, struct net_event *event)
{
    struct effects effects = {0};
    struct err err = {0};
    struct net_node *to = &net->nodes[event->to], *from = &net->nodes[event->from];
    if (to->gossip && !to->hung && to->boot == event->boot) {
        struct frame frame = {.kind = event->kind,
                              .swarm = net->swarm,
                              .from = from->id,
                              .to = to->id,
                              .body = event->bytes,
                              .body_len = event->len};
        int result = gossip_receive(to->gossip, net->now_ms, &frame, &effects, &err);
        ck_assert_msg(result == 0, "%s", err.msg);
        net_deliver(net, event->to, &effects);
    } else if (!to->gossip && net->refusals && from->gossip && !from->hung) {
        gossip_refused(from->gossip, net->now_ms, &to->id, &effects);
        net_deliver(net, event->from, &effects);
    }
    effects_release(&effects);
    free(event->bytes);
}

void
net_run(struct net *net, int64_t ms)
{
    struct effects effects = {0};
    for (int64_t end = net->now_ms + ms; net->now_ms < end;) {
        int64_t turn = net->now_ms + 100 < end ? net->now_ms + 100 : end;
        while (net->events_count > 0 && net->events[0].at_ms <= turn) {
            struct net_event event = take(net);
            net->now_ms = event.at_ms > net->now_ms ? event.at_ms : net->now_ms;
            arrive(net, &event);
        }
        net->now_ms = turn;
        for (size_t i = 0; i < net->count; i++) {
            if (!net->nodes[i].gossip || net->nodes[i].hung)
                continue;
            gossip_tick(net->nodes[i].gossip, turn, &effects);
            net_deliver(net, i, &effects);
        }
    }
    effects_release(&effects);
}

enum member_state
net_view(const struct net *net, size_t node, size_t of)
{
    const struct member *member =
        gossip_find(net->nodes[node].gossip, &net->nodes[of].id);
    return member ? member->state : MEMBER_UNKNOWN;
}

static bool
runs(const struct net *net, size_t node)
{
    return net->nodes[node].gossip && !net->nodes[node].hung;
}

static bool
all_see(const struct net *net, size_t of, enum member_state state)
{
    for (size_t i = 0; i < net->count; i++)
        if (i != of && runs(net, i) && net_view(net, i, of) != state)
            return false;
    return true;
}

int64_t
net_until(struct net *net, size_t of, enum member_state state, int64_t ms)
{
    for (int64_t begin = net->now_ms;; net_run(net, 100)) {
        if (all_see(net, of, state))
            return net->now_ms - begin;
        if (net->now_ms - begin >= ms)
            return -1;
    }
}

static bool
whole(const struct net *net)
{
    for (size_t i = 0; i < net->count; i++)
        if (runs(net, i) && !all_see(net, i, MEMBER_ALIVE))
            return false;
    return true;
}

int64_t
net_until_whole(struct net *net, int64_t ms)
{
    for (int64_t begin = net->now_ms;; net_run(net, 100)) {
        if (whole(net))
            return net->now_ms - begin;
        if (net->now_ms - begin >= ms)
            return -1;
    }
}
