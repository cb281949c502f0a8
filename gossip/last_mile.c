#include "gossip/last_mile.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

/* A measured link, by the places of its ends. */
struct measured {
    size_t from, to;
    uint16_t rate;
    bool far; /* between two zones */
};

struct last_mile {
    const struct record *const *records;
    size_t count;
    struct measured *list;
    size_t list_count;
};

static size_t
place(const struct last_mile *model, const struct id *id)
{
    for (size_t i = 0; i < model->count; i++)
        if (id_equal(&model->records[i]->id, id))
            return i;
    return model->count;
}

static bool
one_zone(const struct last_mile *model, size_t a, size_t b)
{
    return strcmp(model->records[a]->zone, model->records[b]->zone) == 0;
}

struct last_mile *
last_mile_new(const struct record *const *records, size_t count)
{
    struct last_mile *model = xcalloc(1, sizeof(*model));
    size_t most = 0;
    *model = (struct last_mile){.records = records, .count = count};
    for (size_t i = 0; i < count; i++)
        most += records[i]->links_count;
    model->list = xcalloc(most + 1, sizeof(*model->list));
    for (size_t to = 0; to < count; to++)
        for (uint32_t k = 0; k < records[to]->links_count; k++) {
            const struct record_link *link = &records[to]->links[k];
            size_t from = place(model, &link->peer);
            if (from < count && link->rate > 0 && link->confidence > 0)
                model->list[model->list_count++] =
                    (struct measured){.from = from,
                                      .to = to,
                                      .rate = link->rate,
                                      .far = !one_zone(model, from, to)};
        }
    return model;
}

void
last_mile_free(struct last_mile *model)
{
    if (!model)
        return;
    free(model->list);
    free(model);
}

static int
compare(const void *left, const void *right)
{
    return *(const uint16_t *)left - *(const uint16_t *)right;
}

static uint16_t
percentile_80(uint16_t *rates, size_t count)
{
    if (count == 0)
        return 0;
    qsort(rates, count, sizeof(rates[0]), compare);
    return rates[count * 4 / 5 < count ? count * 4 / 5 : count - 1];
}

uint16_t
last_mile_rate(const struct last_mile *model, size_t from, size_t to)
{
    must(from < model->count && to < model->count && from != to);
    bool far = !one_zone(model, from, to);
    size_t room = model->list_count + 1, counts[3] = {0};
    uint16_t *rates = xcalloc(3 * room, sizeof(*rates));
    for (size_t i = 0; i < model->list_count; i++) {
        const struct measured *link = &model->list[i];
        if (link->far != far)
            continue;
        if (link->from == from)
            rates[counts[0]++] = link->rate;
        if (link->to == to)
            rates[room + counts[1]++] = link->rate;
        if (one_zone(model, link->from, from) && one_zone(model, link->to, to))
            rates[2 * room + counts[2]++] = link->rate;
    }
    uint16_t least = 0;
    for (size_t i = 0; i < 3; i++) {
        uint16_t rate = percentile_80(rates + i * room, counts[i]);
        if (rate > 0 && (least == 0 || rate < least))
            least = rate;
    }
    free(rates);
    return least;
}
