#include "transport/twin.h"
#include "transport/base/alloc.h"
#include "transport/socket.h"

#include <stdlib.h>

struct twin {
    struct address base;
    struct dial *dial;
    void (*fn)(void *arg, const struct address *base, bool lives);
    void *arg;
};

static void
dialled(void *arg, enum dial_event event)
{
    const struct twin *twin = arg;
    struct address base = twin->base;
    if (event != DIAL_DOWN)
        twin->fn(twin->arg, &base, event == DIAL_DENIED || event == DIAL_UP);
}

struct twin *
twin_look(struct loop *loop, const struct key *key, const struct address *base,
          void (*fn)(void *arg, const struct address *base, bool lives), void *arg,
          struct err *err)
{
    struct twin *twin = xcalloc(1, sizeof(*twin));
    twin->base = *base;
    twin->fn = fn;
    twin->arg = arg;
    struct dial_options options = {.plane = SOCKET_CONTROL,
                                   .base = *base,
                                   .curve_public = key_curve_public(key),
                                   .curve_secret = key_curve_secret(key),
                                   .server_public = key_curve_public(key)};
    twin->dial = dial_open(loop, &options, dialled, twin, err);
    if (!twin->dial) {
        free(twin);
        return NULL;
    }
    return twin;
}

void
twin_close(struct twin *twin)
{
    if (!twin)
        return;
    dial_close(twin->dial);
    free(twin);
}
