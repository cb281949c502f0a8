#include "planner/parts.h"
#include "planner/climb.h"
#include "planner/exhaust.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    SETS_POOLS_MAX = 5,  /* pools up to which every set may be looked at, */
    SETS_POOLS_COST = 3, /* or under the cost objective, which leaves most alone anyway */
    VISITS_MAX = 96,     /* parts that are looked at: all sets of five pools, and more */
    LESS_POOLS_FEW = 2,
    LEADERS_EARLY = 16,            /* on one pool: the rest is left alone at once; */
    LEADERS = 4,                   /* a step later what these leave alone is, */
    LEADERS_OF_MANY = 8,           /* or these, of many pools */
    TAKEN_OF_ALL = 24,             /* drafts that are kept of the whole fleet, */
    TAKEN_OF_A_PART = 4,           /* and of each part, unless pools are many */
    SETS_REPLAYED_MAX = 160000000, /* operations, after which no more sets are begun */
    ZONES_QUICKLY = 6, /* up to which a quick search looks at each by itself, too */
};

/* A part that was looked at. */
struct visit {
    int devices[FLEET_POOLS_MAX]; /* of each pool */
    bool less;                    /* a set of pools with a machine less of one */
    bool near;                    /* not given up, and its drafts are the whole's */
    bool left;                    /* what takes long was left to a part of it */
    bool found;                   /* then `best` is a draft over the whole's board */
    struct draft best;
};

struct search {
    struct hunt *whole;
    bool many; /* pools: no more than one part is looked at */
    int count;
    struct visit visits[VISITS_MAX];
};

/* ---- sets of pools ---- */

static int
size_of(const int *devices)
{
    int size = 0;
    for (int p = 0; p < FLEET_POOLS_MAX; p++)
        size += devices[p] > 0;
    return size;
}

static bool
within(const int *inner, const int *outer)
{
    for (int p = 0; p < FLEET_POOLS_MAX; p++)
        if (inner[p] > outer[p])
            return false;
    return true;
}

/* The pools that the best drafts of a part use, all of each, by the whole's numbers. */
static void
used_by(const struct hunt *part, int leaders, const int16_t *pool_from, int *devices)
{
    memset(devices, 0, FLEET_POOLS_MAX * sizeof(*devices));
    for (int i = 0; i < part->count && i < leaders; i++) {
        int used[FLEET_POOLS_MAX];
        draft_used(part->board, part->drafts[i], used);
        for (int p = 0; p < part->fleet->pools_count; p++)
            if (used[p] > 0)
                devices[pool_from[p]] = part->fleet->pools[p].devices;
    }
}

/* ---- a visit ---- */

static int visit(struct search *search, const int *devices, bool less);

/* The visit to a set of pools, now or before; -1: there are too many. */
static int
look_at(struct search *search, const int *devices, bool less)
{
    for (int v = 0; v < search->count; v++)
        if (memcmp(search->visits[v].devices, devices,
                   sizeof(search->visits[v].devices)) == 0)
            return v;
    return search->count < VISITS_MAX ? visit(search, devices, less) : -1;
}

/* The visit to the pools that the best drafts of a part use, if they leave others alone and it
 * found something; NULL if not. */
static const struct visit *
look_within(struct search *search, const struct hunt *part, int leaders, int pools_max,
            const int16_t *pool_from, bool less)
{
    int used[FLEET_POOLS_MAX];
    used_by(part, leaders, pool_from, used);
    int size = size_of(used);
    if (size == 0 || size > pools_max || size == part->fleet->pools_count)
        return NULL;
    int inner = look_at(search, used, less);
    return inner >= 0 && search->visits[inner].found ? &search->visits[inner] : NULL;
}

/* Searches part number `number` to its end; false if a rival is out of reach,
 * or its drafts are no more than guesses. */
static bool
search_part(struct search *search, int number, struct hunt *part,
            const int16_t *pool_from)
{
    bool many = search->many;
    bool less = search->visits[number].less;
    bool small = exhaust_feasible(part->board); /* then all its plans are looked at */
    const struct visit *inner = NULL;
    if (!hunt_begin(part))
        return false;
    if (!many && !small)
        inner = look_within(search, part, LEADERS_EARLY, 1, pool_from, less);
    if (!inner) {
        if (!hunt_go_on(part))
            return false;
        if (!small && (!many || number == 0))
            inner = look_within(search, part, many ? LEADERS_OF_MANY : LEADERS,
                                FLEET_POOLS_MAX, pool_from, less);
    }
    if (!inner)
        return hunt_finish(part);
    search->visits[number].left = true;
    if (many) /* no time to go on with all; what it has counts, where it is no guess */
        return part->board->published;
    int16_t pool_to[FLEET_POOLS_MAX];
    for (int p = 0; p < part->fleet->pools_count; p++)
        pool_to[pool_from[p]] = (int16_t)p;
    struct draft *draft = xcalloc(1, sizeof(*draft));
    bool moved =
        draft_move(search->whole->board, &inner->best, pool_to, part->board, draft);
    if (moved)
        hunt_polish(part, draft);
    free(draft);
    return moved || hunt_finish(part);
}

/* The best drafts of a part join those of the whole. */
static void
take_over(struct search *search, int number, const struct hunt *part,
          const int16_t *pool_from)
{
    struct hunt *whole = search->whole;
    struct visit *here = &search->visits[number];
    int most = number == 0 || search->many ? TAKEN_OF_ALL : TAKEN_OF_A_PART;
    struct draft *draft = xcalloc(1, sizeof(*draft));
    for (int i = 0; i < part->count && i < most; i++) {
        if (!draft_move(part->board, part->drafts[i], pool_from, whole->board, draft))
            continue;
        if (!here->found)
            draft_copy(draft, &here->best);
        here->found = true;
        hunt_add(whole, draft);
    }
    free(draft);
}

static int
visit(struct search *search, const int *devices, bool less)
{
    struct hunt *whole = search->whole;
    int number = search->count++;
    struct visit *here = &search->visits[number];
    memcpy(here->devices, devices, sizeof(here->devices));
    here->less = less;
    int16_t pool_from[FLEET_POOLS_MAX];
    struct fleet *fleet = fleet_part(whole->fleet, devices, pool_from);
    struct hunt part;
    hunt_init(&part, whole->request, fleet, EFFORT_WHOLE);
    part.further = less;
    struct worth rival;
    if (whole->count > 0) {
        rival = whole->drafts[0]->worth;
        /* It was replayed, and a part is weighed till its end, which may be wrong by that. */
        if (!whole->board->published)
            rival.goal *= 1.0 + CLIMB_DOUBT;
        part.rival = &rival;
    }
    here->near = search_part(search, number, &part, pool_from);
    whole->weighed += part.weighed;
    whole->replayed += part.replayed;
    if (here->near)
        take_over(search, number, &part, pool_from);
    hunt_release(&part);
    fleet_free(fleet);
    return number;
}

/* ---- which sets ---- */

/* Is a set of pools within one that was given up? */
static bool
given_up(const struct search *search, const int *devices)
{
    for (int v = 0; v < search->count; v++)
        if (!search->visits[v].near && !search->visits[v].less &&
            within(devices, search->visits[v].devices))
            return true;
    return false;
}

/* Each set that is not given up, without each of its pools. */
static void
look_at_parts(struct search *search)
{
    for (int v = 0; v < search->count; v++) {
        const struct visit *from = &search->visits[v];
        if (!from->near || size_of(from->devices) < 2)
            continue;
        for (int p = 0; p < search->whole->fleet->pools_count; p++) {
            int devices[FLEET_POOLS_MAX];
            memcpy(devices, from->devices, sizeof(devices));
            devices[p] = 0;
            if (search->whole->replayed > SETS_REPLAYED_MAX)
                return;
            if (from->devices[p] > 0 && !given_up(search, devices))
                look_at(search, devices, false);
        }
    }
}

/* With a machine less another cut or depth is found by chance. Where all devices are of one kind
 * in many zones that was not seen to happen; and each search with replays takes its time. */
static bool
has_less(const struct search *search)
{
    const struct hunt *whole = search->whole;
    struct variety variety = hunt_variety(whole->fleet);
    return whole->board->published && whole->request->objective == OBJECTIVE_THROUGHPUT &&
           (variety.kinds > 1 || variety.pools <= LESS_POOLS_FEW);
}

/* Each set that was searched to its end, with a machine less of each of its pools that its best
 * uses. */
static void
look_at_less(struct search *search)
{
    const struct fleet *fleet = search->whole->fleet;
    int sets = search->count;
    for (int v = 0; v < sets; v++) {
        const struct visit *from = &search->visits[v];
        if (!from->near || from->left || !from->found)
            continue;
        int used[FLEET_POOLS_MAX];
        draft_used(search->whole->board, &from->best, used);
        for (int p = 0; p < fleet->pools_count; p++) {
            int devices[FLEET_POOLS_MAX];
            int machine = fleet->kinds[fleet->pools[p].kind].machine_devices;
            memcpy(devices, from->devices, sizeof(devices));
            devices[p] -= machine;
            if (search->whole->replayed > SETS_REPLAYED_MAX)
                return;
            if (used[p] > 0 && devices[p] > 0 && !given_up(search, devices))
                look_at(search, devices, true);
        }
    }
}

/* Are parts to be looked at besides the one that the best drafts use? Of a small fleet all plans
 * have been. */
static bool
has_parts(const struct search *search)
{
    const struct hunt *whole = search->whole;
    bool cost = whole->request->objective == OBJECTIVE_COST;
    return whole->count > 0 && !exhaust_feasible(whole->board) &&
           size_of(search->visits[0].devices) <=
               (cost ? SETS_POOLS_COST : SETS_POOLS_MAX);
}

/* A quick search looks at each zone by itself, too: so no fleet is planned worse than a zone of
 * it, however little is tried. */
static void
look_at_zones(struct hunt *whole)
{
    const struct fleet *fleet = whole->fleet;
    if (fleet->zones_count < 2 || fleet->zones_count > ZONES_QUICKLY ||
        whole->request->stage_zones_count > 0)
        return;
    struct fleet *zone = fleet_copy(fleet);
    int16_t same[FLEET_POOLS_MAX];
    struct draft *draft = xcalloc(1, sizeof(*draft));
    for (int z = 0; z < fleet->zones_count; z++) {
        int devices = 0;
        for (int p = 0; p < fleet->pools_count; p++) {
            bool here = fleet->pools[p].zone == z;
            same[p] = (int16_t)p;
            zone->pools[p].devices = here ? fleet->pools[p].devices : 0;
            devices += zone->pools[p].devices;
        }
        if (devices < 2 || devices == whole->board->devices)
            continue;
        struct hunt part;
        hunt_init(&part, whole->request, zone, EFFORT_FEW);
        hunt_quickly(&part);
        if (part.count > 0 &&
            draft_move(part.board, part.drafts[0], same, whole->board, draft))
            hunt_add(whole, draft);
        whole->weighed += part.weighed;
        hunt_release(&part);
    }
    free(draft);
    fleet_free(zone);
}

void
parts_search(struct hunt *whole)
{
    const struct fleet_request *request = whole->request;
    const struct fleet *fleet = whole->fleet;
    if (request->quick) {
        hunt_quickly(whole);
        if (whole->effort != EFFORT_GLANCE)
            look_at_zones(whole);
        return;
    }
    int devices[FLEET_POOLS_MAX] = {0};
    for (int p = 0; p < fleet->pools_count; p++)
        devices[p] = fleet->pools[p].devices;
    /* A job names zones by the whole's numbers. */
    if (request->stage_zones_count > 0 || size_of(devices) == 0) {
        hunt_begin(whole);
        hunt_go_on(whole);
        hunt_finish(whole);
        return;
    }
    struct search *search = xcalloc(1, sizeof(*search));
    search->whole = whole;
    search->many = size_of(devices) > HUNT_POOLS_FEW;
    visit(search, devices, false);
    if (has_parts(search)) {
        look_at_parts(search);
        if (has_less(search))
            look_at_less(search);
    }
    free(search);
}
