#include "planner/parts.h"

#include <string.h>

/* Of what the fleet could compute. */
static const double large_least = 0.5;

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

/* Is something lacking, and at least half of the fleet's power left? */
static bool
large_part(const struct fleet *fleet, const double *power, const struct part *part)
{
    double all = 0.0;
    double left = 0.0;
    bool lacking = false;
    for (int p = 0; p < fleet->pools_count; p++) {
        all += power[p];
        left += part->lacks[p] ? 0.0 : power[p];
        lacking = lacking || part->lacks[p];
    }
    return lacking && left >= all * large_least;
}

int
parts_list(const struct board *board, struct part parts[PARTS_MAX])
{
    const struct fleet *fleet = board->fleet;
    double power[FLEET_POOLS_MAX];
    for (int p = 0; p < fleet->pools_count; p++)
        power[p] = pool_power(board, p);
    int count = 0;
    int numbers = fleet->zones_count + fleet->kinds_count + fleet->pools_count;
    for (int number = 0; number < numbers && count < PARTS_MAX; number++) {
        struct part part;
        memset(&part, 0, sizeof(part));
        for (int p = 0; p < fleet->pools_count; p++)
            part.lacks[p] = fleet->pools[p].devices > 0 && part_lacks(fleet, number, p);
        bool again = false;
        for (int i = 0; i < count && !again; i++)
            again = memcmp(parts[i].lacks, part.lacks, sizeof(part.lacks)) == 0;
        if (!again && large_part(fleet, power, &part))
            parts[count++] = part;
    }
    return count;
}

void
parts_take(const struct part *part, const struct fleet *fleet, struct fleet *into)
{
    for (int p = 0; p < fleet->pools_count; p++)
        into->pools[p].devices = part->lacks[p] ? 0 : fleet->pools[p].devices;
}
