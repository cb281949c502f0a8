#include "planner/reject.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 8 };
static const int64_t room_enough = INT64_C(1) << 50; /* the most that a kind may have */

/* Is this run of layers there already, as what a better plan lacks room for? */
static bool
listed(const struct rejection *list, int count, const struct rejection *one)
{
    for (int i = 0; i < count; i++)
        if (list[i].kind == one->kind && list[i].tp == one->tp &&
            list[i].micro_batch == one->micro_batch &&
            list[i].first_layer == one->first_layer && list[i].layers == one->layers)
            return true;
    return false;
}

/* Bytes of the whole model on an option, by the leanest of the settings with a micro-batch size;
 * -1: not measured. */
static int64_t
whole_bytes(const struct board *board, int micro_batch, const struct option *option)
{
    int64_t least = -1;
    for (int s = 0; s < board->settings_count; s++) {
        const struct setting *setting = &board->settings[s];
        if (setting->micro_batch != micro_batch || !board_measured(setting, option))
            continue;
        int64_t bytes = board_bytes(board, setting, option, 1, 1, 0, board->layers);
        if (least < 0 || bytes < least)
            least = bytes;
    }
    return least;
}

/* The options that cannot hold the whole model, whatever the job leaves open. */
static int
list_whole(const struct board *board, struct rejection *list, int count)
{
    for (int s = 0; s < board->settings_count; s++) {
        int micro_batch = board->settings[s].micro_batch;
        for (int o = 0; o < board->options_count; o++) {
            const struct option *option = &board->options[o];
            struct rejection one = {
                .kind = option->kind,
                .tp = option->tp,
                .micro_batch = micro_batch,
                .stages = 1,
                .layers = board->layers,
                .need_bytes = whole_bytes(board, micro_batch, option),
                .room_bytes = board_room(board, option),
                .iteration_s = -1.0,
            };
            if (one.need_bytes > one.room_bytes && count < REJECTIONS_MAX &&
                !listed(list, count, &one))
                list[count++] = one;
        }
    }
    return count;
}

/* The best plan with micro-batches of this size if memory were no matter, found quickly. */
static bool
find_roomy(const struct board *board, const struct fleet *roomy, int micro_batch,
           struct fleet_plan *plan)
{
    struct fleet_request request = *board->request;
    struct fleet_answer answer;
    struct err ignored;
    request.micro_batch = micro_batch;
    if (fleet_search_glance(&request, roomy, &answer, &ignored) != 0)
        return false;
    *plan = answer.plan;
    memset(&answer.plan, 0, sizeof(answer.plan));
    fleet_answer_release(&answer);
    return true;
}

/* The replica of a plan that lacks the most; false if all have room. */
static bool
find_worst(const struct board *board, const struct fleet_plan *plan,
           struct rejection *worst)
{
    int64_t most = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        for (int j = 0; j < plan->width; j++) {
            const struct replica *replica = fleet_plan_replica(plan, s, j);
            struct memory_parts parts;
            evaluate_memory(plan, board->request, board->fleet, s, j, &parts);
            if (parts.total - parts.room <= most)
                continue;
            most = parts.total - parts.room;
            *worst = (struct rejection){
                .kind = board->fleet->pools[replica->pool].kind,
                .tp = replica->tp,
                .micro_batch = plan->micro_batch,
                .stages = plan->stages_count,
                .first_layer = plan->first_layer[s],
                .layers = plan->layers[s],
                .need_bytes = parts.total,
                .room_bytes = parts.room,
            };
        }
    }
    return most > 0;
}

static bool
better(const struct board *board, const struct estimate *left,
       const struct estimate *right)
{
    return board->request->objective == OBJECTIVE_COST
               ? left->usd_per_iteration < right->usd_per_iteration
               : left->iteration_s < right->iteration_s;
}

/* Plans that would be better than the answer, had they the memory. */
static int
list_better(const struct board *board, const struct estimate *answer,
            struct rejection *list)
{
    struct fleet *roomy = fleet_copy(board->fleet);
    int count = 0;
    int last = 0;
    for (int k = 0; k < roomy->kinds_count; k++)
        roomy->kinds[k].memory_bytes = room_enough;
    for (int s = 0; s < board->settings_count && count < SIZES_MAX; s++) {
        struct fleet_plan plan;
        struct estimate estimate;
        struct rejection one;
        struct err ignored;
        int size = board->settings[s].micro_batch;
        if (size <= last)
            continue;
        last = size;
        if (!find_roomy(board, roomy, size, &plan))
            continue;
        if (evaluate(&plan, board->request, board->fleet, NULL, NULL, &estimate,
                     &ignored) == 0 &&
            better(board, &estimate, answer) && find_worst(board, &plan, &one)) {
            one.iteration_s = estimate.iteration_s;
            list[count++] = one;
        }
        fleet_plan_release(&plan);
    }
    fleet_free(roomy);
    return count;
}

int
reject_list(const struct board *board, const struct estimate *answer,
            struct rejection list[REJECTIONS_MAX])
{
    return list_whole(board, list, list_better(board, answer, list));
}
