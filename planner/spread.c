#include "planner/spread.h"

#include <string.h>

/* A pool's devices, each with the whole model. */
struct whole {
    int option;
    double busy_s;
};

/* The options of a zone (of all zones: -1) that hold the whole model, fastest first. */
static int
list_whole(const struct board *board, int number, int zone, struct whole *list)
{
    const struct setting *setting = &board->settings[number];
    int count = 0;
    for (int o = 0; o < board->options_count; o++) {
        const struct option *option = &board->options[o];
        const struct fleet_pool *pool = &board->fleet->pools[option->pool];
        if (option->tp != 1 || pool->devices < 1 || (zone >= 0 && pool->zone != zone) ||
            !board_measured(setting, option) ||
            board_bytes(board, setting, option, 1, 1, 0, board->layers) >
                board_room(board, option))
            continue;
        double busy_s = board_compute_s(setting, option, 0, board->layers);
        int at = count < CREWS_MAX ? count : CREWS_MAX;
        while (at > 0 && busy_s < list[at - 1].busy_s)
            at--;
        if (at == CREWS_MAX)
            continue;
        if (count < CREWS_MAX)
            count++;
        memmove(&list[at + 1], &list[at], (size_t)(count - 1 - at) * sizeof(*list));
        list[at] = (struct whole){o, busy_s};
    }
    return count;
}

/* Add the fastest pools one by one, as far as there are micro-batches; every draft is
 * weighed. */
static bool
add_one_by_one(const struct board *board, const struct whole *list, int count,
               struct draft *draft, bool found, struct draft *best, int64_t *weighed)
{
    int total = board->settings[draft->setting].total;
    draft->crews_count = 0;
    draft->width = 0;
    for (int i = 0; i < count && draft->width < total; i++) {
        const struct option *option = &board->options[list[i].option];
        int devices = board->fleet->pools[option->pool].devices;
        int room = total - draft->width;
        if (board->request->replicas > 0 &&
            board->request->replicas - draft->width < room)
            room = board->request->replicas - draft->width;
        if (room < 1)
            break;
        struct crew *crew = &draft->crews[draft->crews_count++];
        *crew = (struct crew){.count = devices < room ? devices : room};
        crew->option[0] = (uint16_t)list[i].option;
        draft->width += crew->count;
        (*weighed)++;
        if (!draft_fits(board, draft) || !draft_weigh(board, draft))
            continue;
        if (!found || worth_before(&draft->worth, &best->worth))
            draft_copy(draft, best);
        found = true;
    }
    return found;
}

bool
spread_best(const struct board *board, int setting, struct draft *out, int64_t *weighed)
{
    struct draft draft;
    memset(&draft, 0, offsetof(struct draft, crews));
    draft.setting = setting;
    draft.stages = 1;
    draft.first[1] = (int16_t)board->layers;
    bool found = false;
    int zones = board->fleet->zones_count;
    for (int zone = zones > 1 ? 0 : zones; zone <= zones; zone++) {
        struct whole list[CREWS_MAX + 1];
        int count = list_whole(board, setting, zone < zones ? zone : -1, list);
        found = add_one_by_one(board, list, count, &draft, found, out, weighed);
    }
    return found;
}

bool
spread_alone(const struct board *board, struct draft *out, int64_t *weighed)
{
    bool found = false;
    for (int s = 0; s < board->settings_count; s++) {
        for (int o = 0; o < board->options_count; o++) {
            const struct option *option = &board->options[o];
            if (board->fleet->pools[option->pool].devices < option->tp ||
                !board_measured(&board->settings[s], option))
                continue;
            struct draft draft;
            memset(&draft, 0, offsetof(struct draft, crews));
            draft.setting = s;
            draft.stages = 1;
            draft.first[1] = (int16_t)board->layers;
            draft.width = 1;
            draft.crews_count = 1;
            draft.crews[0] = (struct crew){.count = 1};
            draft.crews[0].option[0] = (uint16_t)o;
            (*weighed)++;
            if (!draft_fits(board, &draft) || !draft_weigh(board, &draft) ||
                (found && !worth_before(&draft.worth, &out->worth)))
                continue;
            draft_copy(&draft, out);
            found = true;
        }
    }
    return found;
}
