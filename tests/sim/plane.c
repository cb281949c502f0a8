#include "tests/sim/plane.h"
#include "tests/sim/mutant.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum {
    PEERS_MAX = HOSTS_MAX * 2,
    INBOX_MAX = 4096,
    EARLY_MAX = 1024,
    EVENTS_KEPT = 256,
    OPEN_AGAIN_US = 2 * SECOND,
    WAIT_US = 50 * MS,
    LOST_US = 20 * SECOND,
    PLANE_FD = 1 << 22,
    RATE_NEAR = 400, /* bytes per microsecond */
    RATE_FAR = 12
};

struct bulk {
    struct host *host;
    bool entered, halted;
    uint64_t epoch, plan_tag;
    uint32_t generation;
    int self, peers_count;
    struct id peers[PEERS_MAX];
    bool lost[PEERS_MAX];
    int64_t blocked_us[PEERS_MAX];
    uint64_t halts; /* changes of epoch or halts, so that timers of before are void */
    struct plane_message *inbox, *early;
    int inbox_count, early_count;
    struct bulk_event events[EVENTS_KEPT];
    size_t first, count;
};

struct bulk *
bulk_open(const struct bulk_options *options, struct err *err)
{
    (void)options;
    (void)err;
    struct bulk *bulk = xcalloc(1, sizeof(*bulk));
    bulk->host = here;
    bulk->inbox = xcalloc(INBOX_MAX, sizeof(*bulk->inbox));
    bulk->early = xcalloc(EARLY_MAX, sizeof(*bulk->early));
    here->bulk = bulk;
    return bulk;
}

void
bulk_close(struct bulk *bulk)
{
    if (!bulk)
        return;
    free(bulk->inbox);
    free(bulk->early);
    free(bulk);
}

/* ---- events ---- */

static void
say(struct bulk *bulk, const struct bulk_event *event)
{
    if (bulk->count == EVENTS_KEPT)
        return;
    bulk->events[(bulk->first + bulk->count++) % EVENTS_KEPT] = *event;
    if (bulk->count == 1)
        loop_ready(bulk->host, PLANE_FD + bulk->host->index);
}

void
bulk_carried(const struct bulk *bulk, uint64_t *chunks, uint64_t *bytes)
{
    (void)bulk; /* whoever can connect here can connect to all */
    *chunks = *bytes = 0;
}

int
bulk_event_fd(const struct bulk *bulk)
{
    return PLANE_FD + bulk->host->index;
}

bool
bulk_event_take(struct bulk *bulk, struct bulk_event *event)
{
    if (bulk->count == 0)
        return false;
    *event = bulk->events[bulk->first];
    bulk->first = (bulk->first + 1) % EVENTS_KEPT;
    bulk->count--;
    return true;
}

static void
say_lost(struct bulk *bulk, int peer)
{
    bulk->lost[peer] = true;
    say(bulk, &(struct bulk_event){.kind = BULK_LOST,
                                   .peer = peer,
                                   .id = bulk->peers[peer],
                                   .epoch = bulk->epoch});
}

/* ---- connections ---- */

static bool
direct(int a, int b)
{
    return world_path(a, b) && world_path(b, a) && !world.split[a][b] &&
           !world.split[b][a];
}

/* Directly, or by a third one that carries. */
static bool
path(int a, int b)
{
    bool found = direct(a, b);
    for (int c = 0; !found && world.ways && c < world.hosts_count; c++)
        found =
            c != a && c != b && host_up(&world.hosts[c]) && direct(a, c) && direct(c, b);
    return found;
}

/* Can these two talk now? -1: nobody is there, 0: not at present, 1: yes. */
static int
reachable(const struct bulk *bulk, int peer)
{
    const struct host *host = host_of(&bulk->peers[peer]);
    if (!host || !host->bulk)
        return -1;
    return path(bulk->host->index, host->index) && host_up(host) ? 1 : 0;
}

/* Twice a second: what is blocked for long is lost; what cannot be opened is said again. */
static void
look_at_peers(struct event *event)
{
    struct bulk *bulk = here->bulk;
    if (!bulk || bulk->halts != (uint64_t)event->a)
        return;
    for (int p = 0; p < bulk->peers_count; p++) {
        if (p == bulk->self)
            continue;
        int there = reachable(bulk, p);
        if (there > 0 && !bulk->lost[p])
            bulk->blocked_us[p] = 0;
        else if (bulk->blocked_us[p] == 0)
            bulk->blocked_us[p] = world.now_us;
        const struct host *peer = host_of(&bulk->peers[p]);
        bool shut = !peer || world.split[here->index][peer->index];
        int64_t patience =
            bulk->lost[p] || event->b == 0 || shut ? OPEN_AGAIN_US : LOST_US;
        if (bulk->blocked_us[p] && world.now_us - bulk->blocked_us[p] >= patience) {
            bulk->blocked_us[p] = world.now_us;
            say_lost(bulk, p);
        }
    }
    struct event *again = world_in(500 * MS, here, look_at_peers);
    again->a = event->a;
    again->b = event->b + 1;
}

void
plane_process_gone(int index)
{
    for (int i = 0; i < world.hosts_count; i++) {
        struct host *host = &world.hosts[i];
        if (i == index || !host->node || !host->bulk || !world_path(index, i))
            continue;
        struct bulk *bulk = host->bulk;
        for (int p = 0; p < bulk->peers_count; p++)
            if (bulk->entered && !host_of(&bulk->peers[p]) && !bulk->lost[p] &&
                p != bulk->self)
                say_lost(bulk, p);
    }
}

/* A connection between two hosts breaks by itself. */
static void
break_between(struct host *a, const struct host *b)
{
    if (!a->node || !a->bulk || !b->node)
        return;
    for (int p = 0; p < a->bulk->peers_count; p++)
        if (a->bulk->entered && id_equal(&a->bulk->peers[p], &b->node->id) &&
            !a->bulk->lost[p])
            say_lost(a->bulk, p);
}

void
plane_break(struct host *a, struct host *b)
{
    break_between(a, b);
    break_between(b, a);
}

void
bulk_cut(struct bulk *bulk, const struct id *node)
{
    for (int p = 0; p < bulk->peers_count; p++)
        if (bulk->entered && id_equal(&bulk->peers[p], node) && !bulk->lost[p])
            say_lost(bulk, p);
}

/* ---- messages ---- */

static void
keep(struct plane_message *list, int *count, int most,
     const struct plane_message *message)
{
    if (*count < most)
        list[(*count)++] = *message;
}

static int
peer_number(const struct bulk *bulk, const struct id *id)
{
    for (int p = 0; p < bulk->peers_count; p++)
        if (id_equal(&bulk->peers[p], id))
            return p;
    return -1;
}

static void
arrive(struct event *event)
{
    struct bulk *bulk = here->bulk;
    const struct host *from = &world.hosts[event->a];
    if (!bulk || (!from->node && event->b == 0))
        return;
    if (from->node && !event->arrived && !path(from->index, here->index)) {
        /* TCP tries again. */
        if (event->c++ < LOST_US / WAIT_US) {
            struct event *again = world_in(WAIT_US, here, arrive);
            again->from = event->from;
            again->a = event->a;
            again->b = event->b;
            again->c = event->c;
            again->data = event->data;
            event->data = NULL;
        }
        return;
    }
    struct plane_message message;
    memcpy(&message, event->data, sizeof(message));
    world_mix((uint64_t)message.kind << 40 ^ message.epoch << 20 ^
              (uint64_t)message.step);
    if (!bulk->entered || message.epoch > bulk->epoch) {
        keep(bulk->early, &bulk->early_count, EARLY_MAX, &message);
        say(bulk, &(struct bulk_event){.kind = BULK_NEWER,
                                       .peer = -1,
                                       .id = message.sender,
                                       .epoch = message.epoch});
        return;
    }
    if (message.epoch < bulk->epoch && !SIM_MUTANT(stale)) {
        say(bulk, &(struct bulk_event){.kind = BULK_STALE,
                                       .peer = -1,
                                       .id = message.sender,
                                       .epoch = message.epoch});
        return;
    }
    if (message.epoch == bulk->epoch && message.plan_tag != bulk->plan_tag)
        world_breach("I1: %s and %s are in epoch %llu with different plans",
                     from->address, here->address, (unsigned long long)bulk->epoch);
    message.from = peer_number(bulk, &message.sender);
    if (message.from < 0 || bulk->halted || bulk->lost[message.from])
        return;
    if (bulk->inbox_count == INBOX_MAX) {
        world_breach("the inbox of %s is full", here->address);
        return;
    }
    keep(bulk->inbox, &bulk->inbox_count, INBOX_MAX, &message);
    engine_look();
}

void
plane_send(struct bulk *bulk, int peer, const struct plane_message *message)
{
    if (bulk->halted || bulk->lost[peer] || bulk->host->dying)
        return;
    const struct host *to = host_of(&bulk->peers[peer]);
    if (!to)
        return;
    struct plane_message sent = *message;
    sent.epoch = bulk->epoch;
    sent.plan_tag = bulk->plan_tag;
    int64_t us = world_delay(bulk->host->index, to->index);
    us += (int64_t)world_below(2 * MS);
    if (world_chance(world.faults.stall_ppm * 4))
        us += (int64_t)world_below((uint64_t)world.faults.stall_ms * MS);
    struct event *event = world_in(us, to, arrive);
    event->a = event->from = bulk->host->index;
    event->b = 1;
    sent.sender = bulk->peers[bulk->self];
    event->len = sizeof(sent);
    event->data = xmemdup(&sent, sizeof(sent));
}

const struct plane_message *
plane_find(const struct bulk *bulk, enum plane_kind kind, int from, int64_t step, int tag)
{
    for (int i = 0; i < bulk->inbox_count; i++) {
        const struct plane_message *message = &bulk->inbox[i];
        if (message->kind == kind && message->from == from &&
            (step < 0 || message->step == step) && (tag < 0 || message->tag == tag))
            return message;
    }
    return NULL;
}

bool
plane_take(struct bulk *bulk, enum plane_kind kind, struct plane_message *out)
{
    for (int i = 0; i < bulk->inbox_count; i++) {
        if (bulk->inbox[i].kind != kind)
            continue;
        *out = bulk->inbox[i];
        bulk->inbox_count--;
        memmove(&bulk->inbox[i], &bulk->inbox[i + 1],
                (size_t)(bulk->inbox_count - i) * sizeof(*bulk->inbox));
        return true;
    }
    return false;
}

void
plane_drop(struct bulk *bulk, enum plane_kind kind, int64_t below_step)
{
    int kept = 0;
    for (int i = 0; i < bulk->inbox_count; i++)
        if (bulk->inbox[i].kind != kind || bulk->inbox[i].step >= below_step)
            bulk->inbox[kept++] = bulk->inbox[i];
    bulk->inbox_count = kept;
}

bool
plane_halted(const struct bulk *bulk)
{
    return bulk->halted;
}

uint64_t
plane_epoch(const struct bulk *bulk)
{
    return bulk->epoch;
}

/* ---- epochs ---- */

static void
take_early(struct bulk *bulk)
{
    int kept = 0;
    for (int i = 0; i < bulk->early_count; i++) {
        struct plane_message message = bulk->early[i];
        if (message.epoch > bulk->epoch)
            bulk->early[kept++] = message;
        message.from = peer_number(bulk, &message.sender);
        if (message.epoch == bulk->epoch && message.plan_tag == bulk->plan_tag &&
            message.from >= 0)
            keep(bulk->inbox, &bulk->inbox_count, INBOX_MAX, &message);
    }
    bulk->early_count = kept;
}

void
bulk_enter(struct bulk *bulk, const struct bulk_epoch *epoch)
{
    if (bulk->entered &&
        (epoch->generation < bulk->generation ||
         (epoch->generation == bulk->generation && epoch->epoch <= bulk->epoch)))
        world_breach("I6: the data plane of %s goes from epoch %llu back to %llu",
                     bulk->host->address, (unsigned long long)bulk->epoch,
                     (unsigned long long)epoch->epoch);
    bulk->entered = true;
    bulk->halted = false;
    bulk->generation = epoch->generation;
    bulk->epoch = epoch->epoch;
    bulk->plan_tag = epoch->plan_tag;
    bulk->self = epoch->self;
    must(epoch->peers_count <= PEERS_MAX);
    bulk->peers_count = epoch->peers_count;
    for (int p = 0; p < epoch->peers_count; p++)
        bulk->peers[p] = epoch->peers[p].id;
    memset(bulk->lost, 0, sizeof(bulk->lost));
    memset(bulk->blocked_us, 0, sizeof(bulk->blocked_us));
    bulk->inbox_count = 0;
    bulk->halts++;
    take_early(bulk);
    world_in(300 * MS, bulk->host, look_at_peers)->a = (int64_t)bulk->halts;
}

void
bulk_halt(struct bulk *bulk)
{
    bulk->halted = true;
    bulk->inbox_count = 0;
    bulk->halts++;
    engine_look();
}

/* ---- probes ---- */

static void
tell_of_probe(struct event *event, enum bulk_event_kind kind)
{
    struct bulk *bulk = here->bulk;
    if (!bulk)
        return;
    struct bulk_event told = {.kind = kind,
                              .peer = -1,
                              .epoch = bulk->epoch,
                              .bytes = event->a,
                              .us = event->b,
                              .probe = true};
    memcpy(&told.id, event->data, sizeof(told.id));
    say(bulk, &told);
}

/* At the receiver, who measures. */
static void
measured(struct event *event)
{
    tell_of_probe(event, BULK_RATE);
}

/* At the sender. */
static void
probed(struct event *event)
{
    tell_of_probe(event, BULK_PROBED);
}

static void
probe_event(const struct host *at, void (*happen)(struct event *event),
            const struct id *about, int64_t bytes, int64_t us)
{
    struct event *event = world_in(us, at, happen);
    event->a = bytes;
    event->b = us + 1;
    event->data = xmemdup(about, sizeof(*about));
    event->len = sizeof(*about);
}

void
bulk_probe(struct bulk *bulk, int peer, size_t bytes, int64_t bytes_per_s)
{
    (void)bytes_per_s;
    const struct host *to = host_of(&bulk->peers[peer]);
    if (!to || !path(bulk->host->index, to->index) || bulk->lost[peer])
        return;
    bool far = strcmp(to->zone, bulk->host->zone) != 0;
    int64_t rate = far ? RATE_FAR : RATE_NEAR;
    if (to->lies)
        rate = rate * 50 + 1;
    rate += (int64_t)rng_below(&bulk->host->rng, (uint64_t)rate / 8 + 1);
    int64_t us = (int64_t)bytes / rate;
    probe_event(to, measured, &bulk->peers[bulk->self], (int64_t)bytes, us);
    probe_event(bulk->host, probed, &bulk->peers[peer], (int64_t)bytes, us);
}
