#include "planner/fit.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* As many devices as there are pipelines, which serve one stage. */
struct block {
    int zone; /* -1: any stage */
    int64_t room_bytes;
    uint16_t *option; /* [width] */
};

struct fit {
    const struct board *board;
    const struct setting *setting;
    int stages;
    int width;
    struct block blocks[FIT_STAGES_MAX];
    uint16_t *options; /* of all blocks */
};

static int
stage_zone(const struct fit *fit, int stage)
{
    const struct fleet_request *request = fit->board->request;
    return request->stage_zones_count > 0 ? request->stage_zones[stage] : -1;
}

/* The options of a zone, roomiest first. */
static int
list_roomiest(const struct fit *fit, int zone, uint16_t *list)
{
    const struct board *board = fit->board;
    int count = 0;
    for (int o = 0; o < board->options_count; o++) {
        const struct option *option = &board->options[o];
        const struct fleet_pool *pool = &board->fleet->pools[option->pool];
        if (option->tp != 1 || (zone >= 0 && pool->zone != zone) ||
            !board_measured(fit->setting, option))
            continue;
        int at = count++;
        while (at > 0 && board_room(board, option) >
                             board_room(board, &board->options[list[at - 1]])) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = (uint16_t)o;
    }
    return count;
}

/* Blocks for the stages of one zone from its roomiest devices. False: too few. */
static bool
fill_blocks(struct fit *fit, int zone)
{
    const struct board *board = fit->board;
    uint16_t list[BOARD_OPTIONS_MAX];
    int count = list_roomiest(fit, zone, list);
    int at = 0;
    int taken = 0;
    for (int s = 0; s < fit->stages; s++) {
        if (stage_zone(fit, s) != zone)
            continue;
        struct block *block = &fit->blocks[s];
        block->zone = zone;
        for (int j = 0; j < fit->width; j++) {
            while (at < count &&
                   taken == board->fleet->pools[board->options[list[at]].pool].devices) {
                at++;
                taken = 0;
            }
            if (at == count)
                return false;
            block->option[j] = list[at];
            taken++;
        }
        block->room_bytes =
            board_room(board, &board->options[block->option[fit->width - 1]]);
    }
    return true;
}

/* The last layer + 1 that a block holds from `first` on, as this stage; leaves a layer for each
 * later one. `first` itself: not even one. */
static int
reach(const struct fit *fit, int stage, const struct block *block, int first)
{
    const struct board *board = fit->board;
    const struct option *option = &board->options[block->option[0]];
    int last = board->layers - (fit->stages - stage - 1);
    int low = first;
    int high = last;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (board_bytes(board, fit->setting, option, fit->stages - stage, fit->width,
                        first, middle) <= block->room_bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Which block serves which stage: by the furthest that the first stages come with each set of
 * blocks. */
static bool
assign(const struct fit *fit, int *block_of_stage, int16_t *first)
{
    int sets = 1 << fit->stages;
    int16_t *end = xcalloc((size_t)sets, sizeof(*end));
    int8_t *last = xcalloc((size_t)sets, sizeof(*last));
    for (int set = 1; set < sets; set++)
        end[set] = -1;
    for (int set = 0; set < sets - 1; set++) {
        if (end[set] < 0)
            continue;
        int stage = 0;
        for (int bits = set; bits; bits &= bits - 1)
            stage++;
        for (int b = 0; b < fit->stages; b++) {
            const struct block *block = &fit->blocks[b];
            if (set >> b & 1 || block->zone != stage_zone(fit, stage))
                continue;
            int there = reach(fit, stage, block, end[set]);
            int with = set | 1 << b;
            if (there == end[set] || there <= end[with])
                continue;
            end[with] = (int16_t)there;
            last[with] = (int8_t)b;
        }
    }
    bool found = end[sets - 1] == fit->board->layers;
    int set = sets - 1;
    for (int s = fit->stages - 1; found && s >= 0; s--) {
        first[s + 1] = end[set];
        block_of_stage[s] = last[set];
        set &= ~(1 << last[set]);
    }
    free(end);
    free(last);
    return found;
}

static bool
fill_draft(const struct fit *fit, const int *block_of_stage, struct draft *out)
{
    size_t bytes = (size_t)fit->stages * sizeof(out->crews[0].option[0]);
    out->setting = (int)(fit->setting - fit->board->settings);
    out->stages = fit->stages;
    out->width = fit->width;
    out->crews_count = 0;
    for (int j = 0; j < fit->width; j++) {
        struct crew crew = {.count = 1};
        for (int s = 0; s < fit->stages; s++)
            crew.option[s] = fit->blocks[block_of_stage[s]].option[j];
        int c = 0;
        while (c < out->crews_count &&
               memcmp(out->crews[c].option, crew.option, bytes) != 0)
            c++;
        if (c == CREWS_MAX)
            return false;
        if (c == out->crews_count)
            out->crews[out->crews_count++] = crew;
        else
            out->crews[c].count++;
    }
    return draft_fits(fit->board, out) && draft_weigh(fit->board, out);
}

bool
fit_draft(const struct board *board, int setting, int stages, int width,
          struct draft *out, int64_t *weighed)
{
    if (stages > FIT_STAGES_MAX || stages > board->layers || stages > DEPTH_MAX ||
        width > board->settings[setting].total || stages * width > board->devices)
        return false;
    struct fit fit = {.board = board,
                      .setting = &board->settings[setting],
                      .stages = stages,
                      .width = width};
    fit.options = xcalloc((size_t)stages * (size_t)width, sizeof(*fit.options));
    for (int s = 0; s < stages; s++)
        fit.blocks[s].option = &fit.options[s * width];
    bool found = true;
    for (int s = 0; s < stages && found; s++) {
        bool before = false;
        for (int i = 0; i < s; i++)
            before = before || stage_zone(&fit, i) == stage_zone(&fit, s);
        found = before || fill_blocks(&fit, stage_zone(&fit, s));
    }
    int block_of_stage[FIT_STAGES_MAX];
    out->first[0] = 0;
    found = found && assign(&fit, block_of_stage, out->first);
    (*weighed)++;
    found = found && fill_draft(&fit, block_of_stage, out);
    free(fit.options);
    return found;
}
