#include "tests/transport/bulk_cast.h"
#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/base/clock.h"
#include "transport/base/rng.h"

#include <string.h>

void
cast_open(struct cast *cast, int count)
{
    memset(cast, 0, sizeof(*cast));
    struct err err = {0};
    cast->loop = harness_open();
    cast->admit = admit_open(cast->loop, &err);
    ck_assert_msg(cast->admit, "%s", err.msg);
    cast->count = count;
    cast->nowhere = harness_address();
    for (int i = 0; i < count; i++) {
        cast->keys[i] = harness_key((unsigned)i + 1);
        cast->peers[i].id = *key_id(cast->keys[i]);
        cast->peers[i].base = harness_address();
        admit_allow(cast->admit, &cast->peers[i].id);
        cast_revive(cast, i);
    }
}

void
cast_close(struct cast *cast)
{
    for (int i = 0; i < cast->count; i++) {
        bulk_close(cast->bulks[i]);
        key_free(cast->keys[i]);
    }
    admit_close(cast->admit);
    harness_close(cast->loop);
}

void
cast_kill(struct cast *cast, int self)
{
    bulk_close(cast->bulks[self]);
    cast->bulks[self] = NULL;
}

void
cast_revive(struct cast *cast, int self)
{
    struct err err = {0};
    struct bulk_options options = {.key = cast->keys[self],
                                   .listen = cast->peers[self].base};
    /* libzmq gives a closed socket's port back in the background. */
    for (int tries = 0; tries < 200 && !cast->bulks[self]; tries++) {
        if (tries)
            clock_sleep_ms(10);
        cast->bulks[self] = bulk_open(&options, &err);
    }
    ck_assert_msg(cast->bulks[self], "%s", err.msg);
}

void
cast_enter(struct cast *cast, int self, uint64_t epoch)
{
    struct bulk_peer peers[CAST_MAX];
    memcpy(peers, cast->peers, sizeof(peers));
    for (int i = 0; i < cast->count; i++)
        if (cast->blocked[self][i])
            peers[i].base = cast->nowhere;
    struct bulk_epoch entered = {.generation = 1,
                                 .epoch = epoch,
                                 .plan_tag = 77 + epoch,
                                 .self = self,
                                 .peers_count = cast->count,
                                 .peers = peers};
    memset(cast->up[self], 0, sizeof(cast->up[self]));
    cast->epoch = epoch;
    bulk_enter(cast->bulks[self], &entered);
    bulk_port_enter(bulk_port(cast->bulks[self], BULK_ENGINE), epoch);
    bulk_port_enter(bulk_port(cast->bulks[self], BULK_STORE), epoch);
}

static void
take_events(struct cast *cast)
{
    for (int i = 0; i < cast->count; i++) {
        struct bulk_event event;
        while (cast->bulks[i] && bulk_event_take(cast->bulks[i], &event)) {
            cast->events[i][event.kind]++;
            cast->last[i][event.kind] = event;
            if (event.kind == BULK_UP) {
                cast->ways[i][event.peer] = event.way;
                cast->vias[i][event.peer] = event.via;
            }
            if (event.kind == BULK_UP && event.epoch == cast->epoch)
                cast->up[i][event.peer] = true;
        }
    }
}

static bool
all_up(const void *arg)
{
    struct cast *cast = (struct cast *)(uintptr_t)arg;
    take_events(cast);
    for (int i = 0; i < cast->count; i++)
        for (int j = 0; j < cast->count; j++)
            if (i != j && cast->bulks[i] && cast->bulks[j] && !cast->up[i][j])
                return false;
    return true;
}

void
cast_enter_all(struct cast *cast, uint64_t epoch)
{
    for (int i = 0; i < cast->count; i++)
        if (cast->bulks[i])
            cast_enter(cast, i, epoch);
    ck_assert_msg(harness_until(cast->loop, all_up, cast, 10000),
                  "not all are connected");
}

struct wanted {
    struct cast *cast;
    int self;
    enum bulk_event_kind kind;
    int before;
};

static bool
seen(const void *arg)
{
    const struct wanted *wanted = arg;
    take_events(wanted->cast);
    return wanted->cast->events[wanted->self][wanted->kind] > wanted->before;
}

bool
cast_event(struct cast *cast, int self, enum bulk_event_kind kind, int64_t ms)
{
    struct wanted wanted = {cast, self, kind, 0};
    bool got = harness_until(cast->loop, seen, &wanted, ms);
    return got;
}

void
cast_run(struct cast *cast, int64_t ms)
{
    harness_run(cast->loop, ms);
    take_events(cast);
}

struct bulk_port *
cast_port(struct cast *cast, int self, enum bulk_port_kind kind)
{
    return bulk_port(cast->bulks[self], kind);
}

void
cast_fill(uint8_t *data, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at < bytes; at += 16) {
        uint32_t words[4];
        rng_block(seed, 0, at, words);
        memcpy(data + at, words, bytes - at < 16 ? bytes - at : 16);
    }
}

bool
cast_filled(const uint8_t *data, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at < bytes; at += 16) {
        uint32_t words[4];
        rng_block(seed, 0, at, words);
        if (memcmp(data + at, words, bytes - at < 16 ? bytes - at : 16) != 0)
            return false;
    }
    return true;
}
