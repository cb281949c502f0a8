#include "planner/starts.h"

#include <string.h>

/* Does the part with this number have a pool? */
static bool
part_has(const struct fleet *fleet, int number, int p)
{
    const struct fleet_pool *pool = &fleet->pools[p];
    if (number < fleet->zones_count)
        return pool->zone != number;
    number -= fleet->zones_count;
    if (number < fleet->kinds_count)
        return pool->kind != number;
    number -= fleet->kinds_count;
    if (number < fleet->pools_count)
        return p != number;
    number -= fleet->pools_count;
    if (number < fleet->zones_count)
        return pool->zone == number;
    return pool->kind == number - fleet->zones_count;
}

int
starts_list(const struct fleet *fleet, struct start starts[STARTS_MAX])
{
    int count = 0;
    /* Of one kind all sets of a few zones are seated anyway. */
    int numbers =
        fleet->kinds_count == 1
            ? fleet->zones_count
            : 2 * fleet->zones_count + 2 * fleet->kinds_count + fleet->pools_count;
    for (int number = 0; number < numbers && count < STARTS_MAX; number++) {
        struct start start = {{0}};
        bool any = false;
        bool all = true;
        for (int p = 0; p < fleet->pools_count; p++) {
            if (fleet->pools[p].devices < 1)
                continue;
            bool has = part_has(fleet, number, p);
            start.devices[p] = has ? fleet->pools[p].devices : 0;
            any = any || has;
            all = all && has;
        }
        bool again = false;
        for (int i = 0; i < count && !again; i++)
            again = memcmp(&starts[i], &start, sizeof(start)) == 0;
        if (any && !all && !again)
            starts[count++] = start;
    }
    return count;
}
