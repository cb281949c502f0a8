#include "gossip/effect.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>

struct effect *
effects_add(struct effects *effects, enum effect_kind kind, const void *bytes, size_t len)
{
    must(bytes || len == 0);
    if (effects->count == effects->capacity) {
        effects->capacity = effects->capacity ? 2 * effects->capacity : 16;
        effects->list =
            xrealloc(effects->list, effects->capacity, sizeof(*effects->list));
    }
    struct effect *effect = &effects->list[effects->count++];
    *effect = (struct effect){.kind = kind, .len = len};
    if (len > 0)
        effect->bytes = xmemdup(bytes, len);
    return effect;
}

void
effects_send(struct effects *effects, const struct id *to, enum frame_kind frame,
             const void *body, size_t len)
{
    must(len <= frame_kind_bytes_max(frame));
    struct effect *effect = effects_add(effects, EFFECT_SEND, body, len);
    effect->frame = frame;
    effect->peer = *to;
}

void
effects_clear(struct effects *effects)
{
    for (size_t i = 0; i < effects->count; i++)
        free(effects->list[i].bytes);
    effects->count = 0;
}

void
effects_release(struct effects *effects)
{
    effects_clear(effects);
    free(effects->list);
    *effects = (struct effects){0};
}
