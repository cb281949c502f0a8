/*
 * admit.c - who may connect (transport/admit.h), and looks for a second process with one's
 * key (transport/twin.h), between invented hosts.
 */
#include "transport/admit.h"
#include "tests/sim/world.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/twin.h"

#include <stdlib.h>
#include <string.h>

enum { PEERS_MAX = HOSTS_MAX * 4 }; /* ids that hosts had before count, too */

/* ---- who may connect ---- */

struct admit {
    size_t count, evicted_count, invites_count;
    struct id list[PEERS_MAX], evicted[PEERS_MAX], invites[ADMIT_INVITES_MAX];
    uint64_t refused;
};

struct admit *
admit_open(struct loop *loop, struct err *err)
{
    (void)loop;
    (void)err;
    here->admit = xcalloc(1, sizeof(struct admit));
    return here->admit;
}

void
admit_close(struct admit *admit)
{
    free(admit);
}

void
admit_joiner(struct admit *admit, const uint8_t curve_public[KEY_CURVE_BYTES])
{
    (void)admit;
    (void)curve_public; /* join.c compares the secrets */
}

bool
admit_allowed(const struct admit *admit, const struct id *node)
{
    for (size_t i = 0; i < admit->count; i++)
        if (id_equal(&admit->list[i], node))
            return true;
    return false;
}

bool
net_evicted(const struct admit *admit, const struct id *node)
{
    for (size_t i = 0; i < admit->evicted_count; i++)
        if (id_equal(&admit->evicted[i], node))
            return true;
    return false;
}

void
admit_allow(struct admit *admit, const struct id *node)
{
    if (net_evicted(admit, node))
        return;
    if (!admit_allowed(admit, node) && admit->count < PEERS_MAX)
        admit->list[admit->count++] = *node;
}

void
admit_evict(struct admit *admit, const struct id *node)
{
    admit_deny(admit, node);
    if (admit->evicted_count < PEERS_MAX)
        admit->evicted[admit->evicted_count++] = *node;
}

void
admit_invites(struct admit *admit, const struct id *invites, size_t count)
{
    admit->invites_count = count;
    memcpy(admit->invites, invites, count * sizeof(*invites));
}

void
admit_self(struct admit *admit, const struct id *self,
           void (*fn)(void *arg, const char *from), void *arg)
{
    (void)admit;
    (void)self;
    (void)fn;
    (void)arg; /* no identity runs twice here */
}

void
admit_deny(struct admit *admit, const struct id *node)
{
    for (size_t i = 0; i < admit->count; i++)
        if (id_equal(&admit->list[i], node))
            admit->list[i--] = admit->list[--admit->count];
}

uint64_t
admit_refused(const struct admit *admit)
{
    return admit->refused;
}

/* ---- looks for a second process with our key (transport/twin.h): there is none ---- */

struct twin {
    struct host *host;
    uint64_t number;
    struct address base;
    void (*fn)(void *arg, const struct address *base, bool lives);
    void *arg;
};

static struct twin *twins[HOSTS_MAX * 2];
static uint64_t twins_made;

static void
twin_answers(struct event *event)
{
    for (size_t i = 0; i < sizeof(twins) / sizeof(*twins); i++)
        if (twins[i] && twins[i]->number == (uint64_t)event->a) {
            twins[i]->fn(twins[i]->arg, &twins[i]->base, false);
            return;
        }
}

struct twin *
twin_look(struct loop *loop, const struct key *key, const struct address *base,
          void (*fn)(void *arg, const struct address *base, bool lives), void *arg,
          struct err *err)
{
    (void)loop;
    (void)key;
    (void)err;
    size_t at = 0;
    while (at < sizeof(twins) / sizeof(*twins) && twins[at])
        at++;
    must(at < sizeof(twins) / sizeof(*twins));
    struct twin *twin = xcalloc(1, sizeof(*twin));
    *twin = (struct twin){
        .host = here, .number = ++twins_made, .base = *base, .fn = fn, .arg = arg};
    twins[at] = twin;
    world_in(50 * MS, here, twin_answers)->a = (int64_t)twin->number;
    return twin;
}

void
twin_close(struct twin *twin)
{
    for (size_t i = 0; i < sizeof(twins) / sizeof(*twins); i++)
        if (twins[i] == twin)
            twins[i] = NULL;
    free(twin);
}

void
net_refuse(struct admit *admit)
{
    admit->refused++;
}

bool
net_invited(const struct host *host, const uint8_t curve_public[KEY_CURVE_BYTES],
            struct id *invite)
{
    const struct admit *admit = host->admit;
    for (size_t i = 0; admit && i < admit->invites_count; i++) {
        uint8_t curve[KEY_CURVE_BYTES];
        if (!key_curve_of(&admit->invites[i], curve) ||
            memcmp(curve, curve_public, KEY_CURVE_BYTES) != 0)
            continue;
        *invite = admit->invites[i];
        return true;
    }
    return false;
}
