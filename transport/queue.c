#include "transport/queue.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

void *
queue_at(const struct queue *queue, size_t place)
{
    return queue->data + (queue->head + place) % queue->capacity * queue->element;
}

void
queue_put(struct queue *queue, const void *element)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : 8;
        uint8_t *data = xcalloc(capacity, queue->element);
        for (size_t i = 0; i < queue->count; i++)
            memcpy(data + i * queue->element, queue_at(queue, i), queue->element);
        free(queue->data);
        queue->data = data;
        queue->capacity = capacity;
        queue->head = 0;
    }
    queue->count++;
    memcpy(queue_at(queue, queue->count - 1), element, queue->element);
}

void
queue_drop(struct queue *queue)
{
    queue->head = (queue->head + 1) % queue->capacity;
    queue->count--;
}

bool
queue_take(struct queue *queue, void *element)
{
    if (!queue->count)
        return false;
    memcpy(element, queue_at(queue, 0), queue->element);
    queue_drop(queue);
    return true;
}
