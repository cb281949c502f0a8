#include "transport/bulk_port.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/mailbox.h"
#include "transport/base/must.h"

#include <stdlib.h>

enum { HANDLE_PLACE_BITS = 12, HANDLE_ROUND_MAX = (1 << 19) - 1 };
_Static_assert(BULK_OPS_MAX == 1 << HANDLE_PLACE_BITS,
               "a handle names its place in so many bits");

struct slot {
    struct flow_op op; /* op.handle is 0 while the slot is free */
    bool done;
    struct flow_done result;
    uint32_t round; /* tells one use of the slot from the next */
};

struct bulk_port {
    enum bulk_port_kind kind;
    const _Atomic uint64_t *current;
    struct mailbox *commands, *done;
    uint64_t epoch; /* from here on the user's thread's */
    int free_count;
    int free[BULK_OPS_MAX];
    struct slot slots[BULK_OPS_MAX];
};

static const char *const channel_names[BULK_CHANNELS] = {
    "commit", "forward", "backward", "reduce", "state", "copy", "probe"};

struct bulk_port *
port_new(enum bulk_port_kind kind, const _Atomic uint64_t *current)
{
    struct bulk_port *port = xcalloc(1, sizeof(*port));
    port->kind = kind;
    port->current = current;
    port->epoch = PORT_EPOCH_NONE - 1;
    /* A slot is in each of them at most once, so neither is ever full. */
    port->commands = mailbox_new(sizeof(struct flow_op), BULK_OPS_MAX);
    port->done = mailbox_new(sizeof(struct flow_done), BULK_OPS_MAX);
    for (int i = BULK_OPS_MAX - 1; i >= 0; i--)
        port->free[port->free_count++] = i;
    return port;
}

void
port_free(struct bulk_port *port)
{
    if (!port)
        return;
    mailbox_free(port->commands);
    mailbox_free(port->done);
    free(port);
}

int
port_fd(const struct bulk_port *port)
{
    return mailbox_fd(port->commands);
}

void
port_clear(struct bulk_port *port)
{
    mailbox_clear(port->commands);
}

bool
port_take(struct bulk_port *port, struct flow_op *op)
{
    return mailbox_take(port->commands, op);
}

void
port_done(struct bulk_port *port, const struct flow_done *done)
{
    must(mailbox_put(port->done, done));
}

/* ---- the user's thread ---- */

void
bulk_port_enter(struct bulk_port *port, uint64_t epoch)
{
    port->epoch = epoch;
}

bool
bulk_port_stopped(const struct bulk_port *port)
{
    return atomic_load_explicit(port->current, memory_order_acquire) != port->epoch;
}

static uint32_t
start(struct bulk_port *port, struct flow_op *op)
{
    bool engine = op->channel <= BULK_REDUCE;
    must(op->channel < BULK_PROBE && engine == (port->kind == BULK_ENGINE));
    must(port->free_count >
         0); /* more operations than BULK_OPS_MAX: some are never waited for */
    int place = port->free[--port->free_count];
    struct slot *slot = &port->slots[place];
    slot->round = slot->round < HANDLE_ROUND_MAX ? slot->round + 1 : 1;
    slot->done = false;
    op->port = (int)port->kind;
    op->epoch = port->epoch;
    op->handle = slot->round << HANDLE_PLACE_BITS | (uint32_t)place;
    slot->op = *op;
    must(mailbox_put(port->commands, op));
    return op->handle;
}

uint32_t
bulk_send(struct bulk_port *port, int peer, enum bulk_channel channel, uint64_t tag,
          const void *data, size_t bytes)
{
    must(data || !bytes);
    struct flow_op op = {
        .peer = peer, .channel = channel, .tag = tag, .source = data, .bytes = bytes};
    return start(port, &op);
}

uint32_t
bulk_receive(struct bulk_port *port, int peer, enum bulk_channel channel, uint64_t tag,
             void *data, size_t bytes)
{
    must(data || !bytes);
    struct flow_op op = {.receive = true,
                         .peer = peer,
                         .channel = channel,
                         .tag = tag,
                         .target = data,
                         .bytes = bytes};
    return start(port, &op);
}

static struct slot *
slot_of(struct bulk_port *port, uint32_t handle)
{
    struct slot *slot = &port->slots[handle & (BULK_OPS_MAX - 1)];
    must(handle && slot->op.handle == handle);
    return slot;
}

/* Note what has completed. */
static void
collect(struct bulk_port *port)
{
    struct flow_done done;
    while (mailbox_take(port->done, &done)) {
        struct slot *slot = slot_of(port, done.handle);
        slot->done = true;
        slot->result = done;
    }
}

static void
release(struct bulk_port *port, struct slot *slot)
{
    slot->op.handle = 0;
    port->free[port->free_count++] = (int)(slot - port->slots);
}

static int
late(const struct flow_op *op, int64_t timeout_ms, struct err *err)
{
    return err_set(err, ERR_PEER,
                   "%s %zu bytes %s peer %d (%s, tag %llu): not done within %lld ms",
                   op->receive ? "receiving" : "sending", op->bytes,
                   op->receive ? "from" : "to", op->peer, channel_names[op->channel],
                   (unsigned long long)op->tag, (long long)timeout_ms);
}

static int
failed(const struct flow_op *op, const struct flow_done *done, struct err *err)
{
    switch (done->code) {
    case ERR_NONE:
        return 0;
    case ERR_WIRE:
        return err_set(
            err, ERR_WIRE,
            "peer %d sent another message (%s, tag %llu, %llu bytes) than the one "
            "expected (tag %llu, %zu bytes)",
            op->peer, channel_names[op->channel], (unsigned long long)done->tag,
            (unsigned long long)done->bytes, (unsigned long long)op->tag, op->bytes);
    case ERR_USAGE:
        return err_set(err, ERR_USAGE, "epoch %llu has no peer %d to exchange data with",
                       (unsigned long long)op->epoch, op->peer);
    default:
        return err_set(err, done->code, "epoch %llu has ended",
                       (unsigned long long)op->epoch);
    }
}

int
bulk_wait(struct bulk_port *port, uint32_t handle, int64_t timeout_ms, struct err *err)
{
    struct slot *slot = slot_of(port, handle);
    int64_t until = timeout_ms < 0 ? INT64_MAX : clock_ms() + timeout_ms;
    collect(port);
    while (!slot->done) {
        int64_t left = until == INT64_MAX ? INT64_MAX : until - clock_ms();
        if (left <= 0)
            return late(&slot->op, timeout_ms, err);
        mailbox_wait(port->done, left > INT32_MAX ? -1 : (int)left);
        collect(port);
    }
    int rc = failed(&slot->op, &slot->result, err);
    release(port, slot);
    return rc;
}

bool
bulk_test(struct bulk_port *port, uint32_t handle)
{
    mailbox_clear(port->done);
    collect(port);
    return slot_of(port, handle)->done;
}

int
bulk_port_fd(const struct bulk_port *port)
{
    return mailbox_fd(port->done);
}

void
bulk_port_drain(struct bulk_port *port)
{
    for (int i = 0; i < BULK_OPS_MAX; i++) {
        struct slot *slot = &port->slots[i];
        while (slot->op.handle && !slot->done) {
            collect(port);
            if (!slot->done)
                mailbox_wait(port->done, -1);
        }
        if (slot->op.handle)
            release(port, slot);
    }
}
