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

/* What is left of the fleet without the part's lacks; false: nothing is lacking, or too much. */
static bool
weigh_part(const struct fleet *fleet, const double *power, enum parts_sort sort,
           struct part *part)
{
    double all = 0.0;
    double left = 0.0;
    bool lacking = false;
    for (int p = 0; p < fleet->pools_count; p++) {
        all += power[p];
        left += part->lacks[p] ? 0.0 : power[p];
        lacking = lacking || part->lacks[p];
    }
    part->share = left / all;
    return lacking &&
           (sort == PARTS_LARGE ? left >= all * large_least : left > all * near_above);
}

/* How many there are when a part is among them. */
static int
add_part(const struct part *part, enum parts_sort sort, struct part parts[PARTS_MAX],
         int count)
{
    for (int i = 0; i < count; i++)
        if (memcmp(parts[i].lacks, part->lacks, sizeof(part->lacks)) == 0)
            return count;
    return place(part, sort, parts, count);
}

/* Parts that lack what two of the parts lack, as long as any are found. */
static int
add_unions(const struct fleet *fleet, const double *power, struct part parts[PARTS_MAX],
           int count)
{
    struct part before[PARTS_MAX];
    do {
        memcpy(before, parts, sizeof(before));
        for (int a = 0; a < count; a++) {
            for (int b = 0; b < a; b++) {
                struct part both = parts[a];
                for (int p = 0; p < fleet->pools_count; p++)
                    both.lacks[p] = both.lacks[p] || parts[b].lacks[p];
                if (weigh_part(fleet, power, PARTS_NEAR, &both))
                    count = add_part(&both, PARTS_NEAR, parts, count);
            }
        }
    } while (memcmp(before, parts, sizeof(before)) != 0);
    return count;
}

int
parts_list(const struct board *board, enum parts_sort sort, struct part parts[PARTS_MAX])
{
    const struct fleet *fleet = board->fleet;
    double power[FLEET_POOLS_MAX];
    for (int p = 0; p < fleet->pools_count; p++)
        power[p] = pool_power(board, p);
    memset(parts, 0, PARTS_MAX * sizeof(*parts));
    int count = 0;
    int numbers = fleet->zones_count + fleet->kinds_count + fleet->pools_count;
    for (int number = 0; number < numbers; number++) {
        struct part part;
        memset(&part, 0, sizeof(part));
        for (int p = 0; p < fleet->pools_count; p++)
            part.lacks[p] = fleet->pools[p].devices > 0 && part_lacks(fleet, number, p);
        if (weigh_part(fleet, power, sort, &part))
            count = add_part(&part, sort, parts, count);
    }
    return sort == PARTS_NEAR ? add_unions(fleet, power, parts, count) : count;
}

void
parts_take(const struct part *part, const struct fleet *fleet, struct fleet *into)
{
    for (int p = 0; p < fleet->pools_count; p++)
        into->pools[p].devices = part->lacks[p] ? 0 : fleet->pools[p].devices;
}
