#include "transport/detour.h"

static uint64_t
mixed(uint64_t x)
{
    /* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t
detour_weight(const struct id *a, const struct id *b, const struct id *carrier)
{
    uint64_t ends = mixed(id_prefix(a)) + mixed(id_prefix(b));
    return mixed(ends ^ mixed(id_prefix(carrier)));
}

/* The carrier that comes at this place in the pair's order. */
static const struct id *
at_place(const struct id *self, const struct id *peer, const struct id *carriers,
         size_t count, size_t place)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t weight = detour_weight(self, peer, &carriers[i]);
        size_t before = 0;
        for (size_t k = 0; k < count; k++) {
            uint64_t other = detour_weight(self, peer, &carriers[k]);
            before += other > weight || (other == weight && k < i);
        }
        if (before == place)
            return &carriers[i];
    }
    return NULL;
}

static bool
listed(const struct id *id, const struct id *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (id_equal(&list[i], id))
            return true;
    return false;
}

static int64_t
rest_ms(unsigned rests)
{
    int64_t ms = DETOUR_REST_MS;
    while (rests-- > 0 && ms < DETOUR_REST_MS_MAX)
        ms *= 2;
    return ms < DETOUR_REST_MS_MAX ? ms : DETOUR_REST_MS_MAX;
}

const struct id *
detour_tick(struct detour *detour, int64_t now_ms, const struct id *self,
            const struct id *peer, const struct id *carriers, size_t count)
{
    if (detour->state != DETOUR_NONE && !listed(&detour->via, carriers, count))
        detour_lost(detour, &detour->via);
    if (detour->state == DETOUR_UP && now_ms - detour->heard_ms >= DETOUR_SILENT_MS)
        detour_lost(detour, &detour->via);
    if (detour->state == DETOUR_ASKING && now_ms - detour->asked_ms >= DETOUR_ASK_MS)
        detour_lost(detour, &detour->via);
    if (detour->state == DETOUR_UP) {
        if (now_ms - detour->asked_ms < DETOUR_AGAIN_MS)
            return NULL;
        detour->asked_ms = now_ms;
        return &detour->via;
    }
    if (detour->state == DETOUR_ASKING || count == 0 || now_ms < detour->rest_until_ms)
        return NULL;
    if (detour->in_row >= (count < DETOUR_ROUND ? count : DETOUR_ROUND)) {
        detour->in_row = 0;
        detour->rest_until_ms = now_ms + rest_ms(detour->rests++);
        return NULL;
    }
    detour->in_row++;
    detour->via = *at_place(self, peer, carriers, count, detour->turn % count);
    detour->state = DETOUR_ASKING;
    detour->asked_ms = now_ms;
    return &detour->via;
}

void
detour_heard(struct detour *detour, int64_t now_ms, const struct id *via)
{
    if (detour->state == DETOUR_UP && !id_equal(&detour->via, via))
        return; /* it uses another carrier than we do */
    detour->state = DETOUR_UP;
    detour->via = *via;
    detour->heard_ms = now_ms;
    detour->rests = detour->in_row = 0;
    detour->rest_until_ms = 0;
}

void
detour_lost(struct detour *detour, const struct id *via)
{
    if (detour->state == DETOUR_NONE || !id_equal(&detour->via, via))
        return;
    detour->state = DETOUR_NONE;
    detour->turn++;
}
