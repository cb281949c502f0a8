#include "planner/begin.h"
#include "planner/fit.h"
#include "planner/seat.h"
#include "planner/spread.h"
#include "transport/base/alloc.h"

#include <stdlib.h>

enum {
    FEW_SHAPES = 32,      /* seated, where few are */
    PAIRS_MAX = 96,       /* seated in pairs of zones too, of each sort */
    SEATINGS_MAX = 15000, /* of each sort; then no more pairs */
    SEATED_AT_ONCE = 8,
    QUICK_SHAPES = 16, /* the same of a quick search */
    FITS_MAX = 4,
};

/* Where all devices are different. */
static void
spread_out(struct hunt *hunt)
{
    struct draft *best = xcalloc(1, sizeof(*best));
    struct draft *draft = xcalloc(1, sizeof(*draft));
    bool found = false;
    for (int s = 0; s < hunt->board->settings_count; s++) {
        if (!spread_best(hunt->board, s, draft, &hunt->weighed) ||
            (found && !worth_before(&draft->worth, &best->worth)))
            continue;
        draft_copy(draft, best);
        found = true;
    }
    if (found && hunt->count < HUNT_SHAPES_MAX)
        hunt->drafts[hunt->count++] = best;
    else
        free(best);
    free(draft);
}

void
begin_alone(struct hunt *hunt)
{
    struct draft *draft = xcalloc(1, sizeof(*draft));
    if (hunt->request->replicas <= 1 && hunt->request->pipeline <= 1 &&
        spread_alone(hunt->board, draft, &hunt->weighed))
        hunt->drafts[hunt->count++] = draft;
    else
        free(draft);
}

void
begin_wherever(struct hunt *hunt)
{
    const struct fleet_request *request = hunt->request;
    const struct board *board = hunt->board;
    int width = request->replicas > 0 ? request->replicas : 1;
    int first = request->pipeline > 0 ? request->pipeline : 1;
    int last = request->pipeline > 0 ? request->pipeline : FIT_STAGES_MAX;
    struct draft *draft = xcalloc(1, sizeof(*draft));
    int found = 0;
    for (int stages = first; stages <= last && found < FITS_MAX; stages++) {
        for (int s = 0; s < board->settings_count; s++) {
            if (hunt->count == HUNT_SHAPES_MAX ||
                !fit_draft(board, s, stages, width, draft, &hunt->weighed))
                continue;
            hunt->drafts[hunt->count] = xcalloc(1, sizeof(*draft));
            draft_copy(draft, hunt->drafts[hunt->count++]);
            found++;
            break;
        }
    }
    free(draft);
    hunt_settle(hunt);
}

/* A shape that is seated. */
struct seating {
    struct hunt *hunt;
    const struct shape *shape;
    bool pairs;
    int64_t weighed;
    struct draft *draft; /* NULL: there is none */
};

static void
seat_one(void *arg, int item, int worker)
{
    struct seating *seating = (struct seating *)arg + item;
    struct draft *draft = xcalloc(1, sizeof(*draft));
    if (shape_seat(team_board(&seating->hunt->team, worker), seating->shape,
                   seating->pairs, draft, &seating->weighed))
        seating->draft = draft;
    else
        free(draft);
}

void
begin_shapes(struct hunt *hunt)
{
    struct shape *shapes = xcalloc(HUNT_SHAPES_MAX, sizeof(*shapes));
    bool quick = hunt->request->quick;
    bool few = hunt->effort == EFFORT_FEW;
    int most = quick ? QUICK_SHAPES : few ? FEW_SHAPES : HUNT_SHAPES_MAX;
    int count = shapes_list(&hunt->team,
                            quick ? SHAPES_QUICK
                            : few ? SHAPES_FEW
                                  : SHAPES_ALL,
                            shapes, most, &hunt->weighed);
    struct seating *seatings = xcalloc((size_t)count + 1, sizeof(*seatings));
    int64_t began = 0;
    for (int i = 0; i < count;) {
        int half = i / (most / 2);
        began = i % (most / 2) == 0 ? hunt->weighed : began;
        bool pairs = hunt->weighed - began < SEATINGS_MAX && hunt->effort > EFFORT_GLANCE;
        int some = 0;
        for (;
             some < SEATED_AT_ONCE && i + some < count && (i + some) / (most / 2) == half;
             some++)
            seatings[i + some] = (struct seating){
                .hunt = hunt,
                .shape = &shapes[i + some],
                .pairs = pairs && (i + some) % (most / 2) < PAIRS_MAX,
            };
        team_run(&hunt->team, some, seat_one, &seatings[i]);
        for (int k = i; k < i + some; k++) {
            hunt->weighed += seatings[k].weighed;
            if (seatings[k].draft)
                hunt->drafts[hunt->count++] = seatings[k].draft;
        }
        i += some;
    }
    free(seatings);
    free(shapes);
    if (!quick && hunt_variety(hunt->fleet).kinds > 1)
        hunt_fill(hunt, hunt->count);
    if (quick)
        spread_out(hunt);
    hunt_settle(hunt);
}

void
begin_lineups(struct hunt *hunt)
{
    struct draft *lineups[LINEUPS_MAX];
    int count = lineup_list(&hunt->team, lineups, &hunt->weighed);
    for (int i = 0; i < count; i++) {
        if (hunt->count < HUNT_DRAFTS_MAX)
            hunt->drafts[hunt->count++] = lineups[i];
        else
            free(lineups[i]);
    }
    hunt_settle(hunt);
}

/* The best beginnings of a part of the fleet, over the whole of it. */
struct beginning {
    struct hunt *hunt;
    struct start start;
    int64_t weighed;
    int count;
    struct draft *drafts[START_DRAFTS];
};

static void
begin_in_part(void *arg, int item, int worker)
{
    struct beginning *beginning = (struct beginning *)arg + item;
    const struct hunt *hunt = beginning->hunt;
    int16_t pool_from[FLEET_POOLS_MAX];
    struct fleet *fleet = fleet_part(hunt->fleet, beginning->start.devices, pool_from);
    struct hunt part;
    (void)worker; /* whose board is the part's own */
    hunt_init(&part, hunt->request, fleet, EFFORT_FEW);
    begin_shapes(&part);
    for (int k = 0; k < part.count && k < START_DRAFTS; k++) {
        struct draft *draft = xcalloc(1, sizeof(*draft));
        if (draft_move(part.board, part.drafts[k], pool_from, hunt->board, draft))
            beginning->drafts[beginning->count++] = draft;
        else
            free(draft);
    }
    beginning->weighed = part.weighed;
    hunt_release(&part);
    fleet_free(fleet);
}

void
begin_parts(struct hunt *hunt)
{
    struct start starts[STARTS_MAX];
    int count = starts_list(hunt->fleet, starts);
    struct beginning *beginnings = xcalloc(STARTS_MAX, sizeof(*beginnings));
    for (int i = 0; i < count; i++)
        beginnings[i] = (struct beginning){.hunt = hunt, .start = starts[i]};
    team_run(&hunt->team, count, begin_in_part, beginnings);
    for (int i = 0; i < count; i++) {
        hunt->weighed += beginnings[i].weighed;
        for (int k = 0; k < beginnings[i].count; k++) {
            if (hunt->count < HUNT_DRAFTS_MAX)
                hunt->drafts[hunt->count++] = beginnings[i].drafts[k];
            else
                free(beginnings[i].drafts[k]);
        }
    }
    free(beginnings);
    hunt_settle(hunt);
}
