#include "transport/handshakes.h"
#include "transport/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLED_MS = HANDSHAKE_MS + 1000 };

struct handshake {
    int fd;
    int64_t since_ms;
    char host[HANDSHAKE_HOST_SIZE];
};

struct handshakes {
    int count;
    struct handshake list[HANDSHAKES_MAX]; /* oldest first */
};

struct handshakes *
handshakes_new(void)
{
    return xcalloc(1, sizeof(struct handshakes));
}

void
handshakes_free(struct handshakes *handshakes)
{
    free(handshakes);
}

static void
drop(struct handshakes *handshakes, int at)
{
    handshakes->count--;
    memmove(&handshakes->list[at], &handshakes->list[at + 1],
            (size_t)(handshakes->count - at) * sizeof(handshakes->list[0]));
}

static int
held_by(const struct handshakes *handshakes, const char *host)
{
    int count = 0;
    for (int i = 0; i < handshakes->count; i++)
        count += strcmp(handshakes->list[i].host, host) == 0;
    return count;
}

/* Whose turn it is to go: the oldest of the address that holds the most. */
static int
victim(const struct handshakes *handshakes)
{
    int worst = 0, most = HANDSHAKES_EACH;
    for (int i = 0; i < handshakes->count; i++) {
        int held = held_by(handshakes, handshakes->list[i].host);
        if (held > most) {
            most = held;
            worst = i;
        }
    }
    return worst;
}

int
handshakes_begin(struct handshakes *handshakes, int64_t now_ms, int fd, const char *host,
                 int *held)
{
    handshakes_end(handshakes, fd); /* its close was not told */
    while (handshakes->count > 0 && now_ms - handshakes->list[0].since_ms >= SETTLED_MS)
        drop(handshakes, 0);
    int gone = -1;
    if (handshakes->count == HANDSHAKES_MAX) {
        int at = victim(handshakes);
        gone = handshakes->list[at].fd;
        drop(handshakes, at);
    }
    struct handshake *mine = &handshakes->list[handshakes->count++];
    *mine = (struct handshake){.fd = fd, .since_ms = now_ms};
    snprintf(mine->host, sizeof(mine->host), "%s", host);
    *held = held_by(handshakes, host);
    return gone;
}

void
handshakes_end(struct handshakes *handshakes, int fd)
{
    for (int i = 0; i < handshakes->count; i++)
        if (handshakes->list[i].fd == fd) {
            drop(handshakes, i);
            return;
        }
}

int
handshakes_count(const struct handshakes *handshakes)
{
    return handshakes->count;
}
