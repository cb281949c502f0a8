/*
 * queue.h - a ring of fixed-size elements that grows. Set `element`, all else zero; free
 * `data`.
 */
#ifndef TRANSPORT_QUEUE_H
#define TRANSPORT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue {
    uint8_t *data;
    size_t element, head, count, capacity;
};

void *queue_at(const struct queue *queue, size_t place); /* 0: the oldest */
void queue_put(struct queue *queue, const void *element);
void queue_drop(struct queue *queue); /* the oldest */
bool queue_take(struct queue *queue, void *element);

#endif
