#include "planner/parts.h"

#include <string.h>

/* Of what the fleet could compute. */
static const double large_least = 0.5;
static const double near_above = 0.88;

/* What a pool's devices could compute by themselves, in sequences a second. */
static double
pool_power(const struct board *board, int pool)
{
    double best = 0.0;
    for (int s = 0; s < board->settings_count; s++) {
        const struct setting *setting = &board->settings[s];
        for (int slot = 0; slot < TP_SLOTS; slot++) {
            int number = board->option_of[pool][slot];
            if (number < 0 || !board_measured(setting, &board->options[number]))
                continue;
            const struct option *option = &board->options[number];
            double all_s = board_compute_s(setting, option, 0, board->layers);
            double rate = (double)setting->micro_batch / (double)option->tp;
            rate = all_s > 1e-12 ? rate / all_s : 1e12;
            best = rate > best ? rate : best;
        }
    }
    return best * (double)board->fleet->pools[pool].devices;
}

/* Does the part with this number lack a pool? */
static bool
part_lacks(const struct fleet *fleet, int number, int pool)
{
    if (number < fleet->zones_count)
        return fleet->pools[pool].zone == number;
    number -= fleet->zones_count;
    if (number < fleet->kinds_count)
        return fleet->pools[pool].kind == number;
    return pool == number - fleet->kinds_count;
}

/* A part goes behind those that it is to be behind; how many there are then. */
static int
place(const struct part *part, enum parts_sort sort, struct part parts[PARTS_MAX],
      int count)
{
    int at = count;
    while (sort == PARTS_NEAR && at > 0 && part->share > parts[at - 1].share)
        at--;
    if (at == PARTS_MAX)
        return count;
    count += count < PARTS_MAX;
    for (int i = count - 1; i > at; i--)
        parts[i] = parts[i - 1];
    parts[at] = *part;
    return count;
}

int
parts_list(const struct board *board, enum parts_sort sort, struct part parts[PARTS_MAX])
{
    const struct fleet *fleet = board->fleet;
    double power[FLEET_POOLS_MAX];
    double all = 0.0;
    for (int p = 0; p < fleet->pools_count; p++) {
        power[p] = pool_power(board, p);
        all += power[p];
    }
    int count = 0;
    int numbers = fleet->zones_count + fleet->kinds_count + fleet->pools_count;
    for (int number = 0; number < numbers; number++) {
        struct part part = {.share = 0.0};
        double left = 0.0;
        bool again = true; /* nothing is lacking */
        for (int p = 0; p < fleet->pools_count; p++) {
            part.lacks[p] = fleet->pools[p].devices > 0 && part_lacks(fleet, number, p);
            again = again && !part.lacks[p];
            left += part.lacks[p] ? 0.0 : power[p];
        }
        for (int i = 0; i < count && !again; i++)
            again = memcmp(parts[i].lacks, part.lacks, sizeof(part.lacks)) == 0;
        bool enough =
            sort == PARTS_LARGE ? left >= all * large_least : left > all * near_above;
        if (again || !enough)
            continue;
        part.share = left / all;
        count = place(&part, sort, parts, count);
    }
    return count;
}

void
parts_take(const struct part *part, const struct fleet *fleet, struct fleet *into)
{
    for (int p = 0; p < fleet->pools_count; p++)
        into->pools[p].devices = part->lacks[p] ? 0 : fleet->pools[p].devices;
}
