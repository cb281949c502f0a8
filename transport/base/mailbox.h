/*
 * mailbox.h - fixed-size messages from one thread to one other.
 *
 * A bounded ring of C11 atomics (single producer, single consumer) with an
 * eventfd, so that a reader can wait for it in poll() or in a reactor. What a
 * message points to changes hands with the message.
 *
 *     writer --put--> [ ring ] --take--> reader
 */
#ifndef TRANSPORT_BASE_MAILBOX_H
#define TRANSPORT_BASE_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mailbox;

/* `capacity` messages of `message_bytes` each. */
struct mailbox *mailbox_new(size_t message_bytes, size_t capacity);
void mailbox_free(struct mailbox *mailbox);

/* Copy a message in; false when the ring is full (nothing was put). */
bool mailbox_put(struct mailbox *mailbox, const void *message);

/* Copy the oldest message out; false when there is none. */
bool mailbox_take(struct mailbox *mailbox, void *message);

/* Readable when a message may be there. The reader calls mailbox_clear() before
 * it takes until empty, so that no wake-up is lost. */
int mailbox_fd(const struct mailbox *mailbox);
void mailbox_clear(struct mailbox *mailbox);

/* Reader: block until a message may be there, or `timeout_ms` (-1: for ever) has passed.
 * Clears the descriptor. */
void mailbox_wait(struct mailbox *mailbox, int timeout_ms);

#endif
