#include "transport/base/mailbox.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The two counters have a cache line each, so that the two threads do not fight over
 * one. */
struct mailbox { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    size_t message_bytes;
    size_t capacity;
    int event;
    uint8_t *ring;
    _Alignas(64) atomic_size_t put;   /* messages ever put; written by the producer */
    _Alignas(64) atomic_size_t taken; /* messages ever taken; written by the consumer */
};

struct mailbox *
mailbox_new(size_t message_bytes, size_t capacity)
{
    must(message_bytes > 0 && capacity > 0);
    size_t bytes = (sizeof(struct mailbox) + 63) / 64 * 64;
    struct mailbox *mailbox = aligned_alloc(64, bytes);
    must(mailbox);
    memset(mailbox, 0, bytes);
    mailbox->message_bytes = message_bytes;
    mailbox->capacity = capacity;
    mailbox->ring = xcalloc(capacity, message_bytes);
    mailbox->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(mailbox->event >= 0);
    return mailbox;
}

void
mailbox_free(struct mailbox *mailbox)
{
    if (!mailbox)
        return;
    close(mailbox->event);
    free(mailbox->ring);
    free(mailbox);
}

static uint8_t *
slot(struct mailbox *mailbox, size_t n)
{
    return mailbox->ring + n % mailbox->capacity * mailbox->message_bytes;
}

bool
mailbox_put(struct mailbox *mailbox, const void *message)
{
    size_t put = atomic_load_explicit(&mailbox->put, memory_order_relaxed);
    size_t taken = atomic_load_explicit(&mailbox->taken, memory_order_acquire);
    if (put - taken == mailbox->capacity)
        return false;
    memcpy(slot(mailbox, put), message, mailbox->message_bytes);
    atomic_store_explicit(&mailbox->put, put + 1, memory_order_release);
    uint64_t one = 1;
    ssize_t written = write(mailbox->event, &one, sizeof(one));
    (void)written; /* it fails only when the counter is at its end, and then it is
                      readable */
    return true;
}

bool
mailbox_take(struct mailbox *mailbox, void *message)
{
    size_t taken = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);
    size_t put = atomic_load_explicit(&mailbox->put, memory_order_acquire);
    if (put == taken)
        return false;
    memcpy(message, slot(mailbox, taken), mailbox->message_bytes);
    atomic_store_explicit(&mailbox->taken, taken + 1, memory_order_release);
    return true;
}

int
mailbox_fd(const struct mailbox *mailbox)
{
    return mailbox->event;
}

void
mailbox_clear(struct mailbox *mailbox)
{
    uint64_t count;
    ssize_t got = read(mailbox->event, &count, sizeof(count));
    (void)got;
}

void
mailbox_wait(struct mailbox *mailbox, int timeout_ms)
{
    struct pollfd wait = {.fd = mailbox->event, .events = POLLIN};
    poll(&wait, 1, timeout_ms);
    mailbox_clear(mailbox);
}
