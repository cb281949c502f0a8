#include "node/voters.h"
#include "transport/base/must.h"

#include <string.h>

/* A committee below this takes whom it finds. */
enum { COMMITTEE_LEAST = 5 };

/* The list as it grows, by member numbers. */
struct choice {
    const struct view *view;
    uint32_t count;
    int members[VOTERS_MAX];
};

/* How choosy we are. */
enum fitness { FIT_STEADY, FIT_REACHED, FIT_HERE, FIT_ANY };

static bool
chosen(const struct choice *choice, int member)
{
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->members[i] == member)
            return true;
    return false;
}

static bool
fits(const struct view *view, int member, enum fitness fitness)
{
    const struct report *report = &view->reports[member];
    if (fitness == FIT_ANY)
        return true;
    if (report->record.leaving || id_set_has(&view->policy.silent, &report->id))
        return false;
    if (fitness == FIT_HERE)
        return true;
    return report->record.reach != REACH_NONE &&
           (fitness == FIT_REACHED || report->steady);
}

static const char *
zone_of(const struct choice *choice, int member)
{
    return choice->view->reports[member].record.zone;
}

static int
seats(const struct choice *choice, const char *zone)
{
    int count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        count += strcmp(zone_of(choice, choice->members[i]), zone) == 0;
    return count;
}

static void
seat_drop(struct choice *choice, uint32_t at)
{
    choice->count--;
    memmove(&choice->members[at], &choice->members[at + 1],
            (choice->count - at) * sizeof(choice->members[0]));
}

/* Those who vote now, in their order. */
static void
keep(struct choice *choice, const struct decree *current, uint32_t most,
     enum fitness fitness)
{
    for (uint32_t i = 0; current && i < current->voters_count; i++) {
        int member = view_node(choice->view, &current->voters[i]);
        if (member >= 0 && choice->count < most && !chosen(choice, member) &&
            fits(choice->view, member, fitness))
            choice->members[choice->count++] = member;
    }
}

/* Of the zones with the most seats, the last seat that is not the first of all. */
static uint32_t
fullest(const struct choice *choice)
{
    uint32_t found = 0;
    int most = 0;
    for (uint32_t i = choice->count; i-- > 1;) {
        int count = seats(choice, zone_of(choice, choice->members[i]));
        if (count > most) {
            most = count;
            found = i;
        }
    }
    return found;
}

/* The next to be seated: of the zone with the fewest seats, then the first by zone, then
 * by id (reports ascend); -1: there is nobody. */
static int
candidate(const struct choice *choice, enum fitness fitness)
{
    int found = -1, fewest = 0;
    for (uint32_t i = 0; i < choice->view->reports_count; i++) {
        int member = (int)i;
        if (chosen(choice, member) || !fits(choice->view, member, fitness))
            continue;
        int count = seats(choice, zone_of(choice, member));
        int order =
            found < 0 ? -1 : strcmp(zone_of(choice, member), zone_of(choice, found));
        if (found < 0 || count < fewest || (count == fewest && order < 0)) {
            found = member;
            fewest = count;
        }
    }
    return found;
}

static void
fill(struct choice *choice, uint32_t want, enum fitness fitness)
{
    int member;
    while (choice->count < want && (member = candidate(choice, fitness)) >= 0)
        choice->members[choice->count++] = member;
}

/* One seat from a zone that has at least two more than the candidate's. */
static void
even_out(struct choice *choice)
{
    int member = candidate(choice, FIT_STEADY);
    uint32_t at = fullest(choice);
    if (member < 0 || at == 0 ||
        seats(choice, zone_of(choice, choice->members[at])) <
            seats(choice, zone_of(choice, member)) + 2)
        return;
    seat_drop(choice, at);
    choice->members[choice->count++] = member;
}

static void
everybody(struct choice *choice, const struct decree *current, enum fitness fitness)
{
    keep(choice, current, VOTERS_MAX, fitness);
    for (uint32_t i = 0; i < choice->view->reports_count; i++)
        if (!chosen(choice, (int)i) && fits(choice->view, (int)i, fitness))
            choice->members[choice->count++] = (int)i;
}

static void
committee(struct choice *choice, const struct decree *current, uint32_t want)
{
    keep(choice, current, VOTERS_MAX, FIT_REACHED);
    while (choice->count > want)
        seat_drop(choice, fullest(choice));
    fill(choice, want, FIT_STEADY);
    fill(choice, COMMITTEE_LEAST, FIT_REACHED);
    fill(choice, COMMITTEE_LEAST, FIT_HERE);
    even_out(choice);
}

uint32_t
voters_choose(const struct decree *current, const struct view *view,
              struct id voters[VOTERS_MAX])
{
    struct choice choice = {.view = view};
    must(view->reports_count > 0);
    uint32_t want = decree_voters_most(view->reports_count);
    if (view->reports_count <= VOTERS_MAX)
        everybody(&choice, current, FIT_HERE);
    else
        committee(&choice, current, want);
    if (choice.count == 0) { /* all of them leave */
        keep(&choice, current, want, FIT_ANY);
        fill(&choice, want, FIT_ANY);
    }
    for (uint32_t i = 0; i < choice.count; i++)
        voters[i] = view->reports[choice.members[i]].id;
    return choice.count;
}
