#include "planner/fleet_search.h"
#include "planner/parts.h"
#include "planner/refuse.h"
#include "planner/reject.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum { FINALISTS = 24 /* evaluated */ };

void
fleet_answer_release(struct fleet_answer *answer)
{
    fleet_plan_release(&answer->plan);
    fleet_plan_release(&answer->runner_up);
}

bool
fleet_better(const struct fleet_request *request, const struct estimate *left,
             const struct estimate *right)
{
    if (left->fits != right->fits)
        return left->fits;
    if (request->objective == OBJECTIVE_COST &&
        left->usd_per_iteration != right->usd_per_iteration)
        return left->usd_per_iteration < right->usd_per_iteration;
    if (left->iteration_s != right->iteration_s)
        return left->iteration_s < right->iteration_s;
    if (left->usd_per_iteration != right->usd_per_iteration)
        return left->usd_per_iteration < right->usd_per_iteration;
    return left->stages_count < right->stages_count;
}

/* ---- what an answer has to keep ---- */

bool
fleet_keeps_limits(const struct fleet_request *request, const struct estimate *estimate)
{
    if (!estimate->fits)
        return false;
    if (request->usd_per_iteration_max >= 0.0 &&
        !(estimate->usd_per_iteration >= 0.0 &&
          estimate->usd_per_iteration <= request->usd_per_iteration_max))
        return false;
    if (request->usd_per_hour_max >= 0.0 &&
        !(estimate->devices_usd >= 0.0 &&
          estimate->devices_usd / estimate->iteration_s * 3600.0 <=
              request->usd_per_hour_max * (1.0 + 1e-12)))
        return false;
    return !(request->iterations_per_s_min > 0.0) ||
           estimate->iteration_s * request->iterations_per_s_min <= 1.0;
}

static int
check_prices(const struct fleet_request *request, const struct fleet *fleet,
             struct err *err)
{
    if (request->objective != OBJECTIVE_COST && request->usd_per_iteration_max < 0.0 &&
        request->usd_per_hour_max < 0.0)
        return 0;
    for (int a = 0; a < fleet->pools_count; a++) {
        const struct fleet_pool *pool = &fleet->pools[a];
        if (pool->devices < 1)
            continue;
        if (pool->usd_per_hour < 0.0)
            return err_set(err, ERR_USAGE,
                           "\"%s\" in zone \"%s\" has no price, which the objective or a "
                           "limit needs; give usd_per_hour",
                           fleet->kinds[pool->kind].name, fleet->zones[pool->zone].name);
        for (int b = 0; b < fleet->pools_count; b++) {
            int to = fleet->pools[b].zone;
            if (fleet->pools[b].devices > 0 &&
                fleet->egress_usd_per_gb[pool->zone * ZONES_MAX + to] < 0.0)
                return err_set(
                    err, ERR_USAGE,
                    "egress from zone \"%s\" to zone \"%s\" has no price, which "
                    "the objective or a limit needs; give usd_per_gb%s",
                    fleet->zones[pool->zone].name, fleet->zones[to].name,
                    fleet->zones[pool->zone].region == fleet->zones[to].region
                        ? ", 0 where a region's zones send for nothing"
                        : "");
        }
    }
    return 0;
}

/* ---- the answer ---- */

/* Are two drafts of another shape: depth, micro-batch, kinds or degrees of stages? */
static bool
other_shape(const struct fleet *fleet, const struct fleet_plan *left,
            const struct fleet_plan *right)
{
    if (left->stages_count != right->stages_count ||
        left->micro_batch != right->micro_batch)
        return true;
    for (int s = 0; s < left->stages_count; s++) {
        bool seen[2][FLEET_KINDS_MAX][TP_SLOTS] = {{{false}}};
        for (int side = 0; side < 2; side++) {
            const struct fleet_plan *plan = side ? right : left;
            for (int j = 0; j < plan->width; j++) {
                const struct replica *replica = fleet_plan_replica(plan, s, j);
                seen[side][fleet->pools[replica->pool].kind][tp_slot(replica->tp)] = true;
            }
        }
        if (memcmp(seen[0], seen[1], sizeof(seen[0])) != 0)
            return true;
    }
    return false;
}

/* Evaluate the best drafts; the best plan and the best of another shape are the answer. */
static bool
choose(struct hunt *hunt, struct fleet_answer *out)
{
    int count = hunt->count < FINALISTS ? hunt->count : FINALISTS;
    struct fleet_plan plans[FINALISTS];
    struct estimate *estimates = xcalloc(FINALISTS, sizeof(*estimates));
    bool valid[FINALISTS] = {false};
    int best = -1;
    for (int i = 0; i < count; i++) {
        struct err ignored;
        draft_plan(hunt->board, hunt->drafts[i], &plans[i]);
        valid[i] =
            fleet_plan_check(&plans[i], hunt->request, hunt->fleet, &ignored) == 0 &&
            evaluate(&plans[i], hunt->request, hunt->fleet, NULL, NULL, &estimates[i],
                     &ignored) == 0 &&
            fleet_keeps_limits(hunt->request, &estimates[i]);
        if (valid[i] &&
            (best < 0 || fleet_better(hunt->request, &estimates[i], &estimates[best])))
            best = i;
    }
    int second = -1;
    for (int i = 0; best >= 0 && i < count; i++)
        if (valid[i] && i != best && other_shape(hunt->fleet, &plans[i], &plans[best]) &&
            (second < 0 ||
             fleet_better(hunt->request, &estimates[i], &estimates[second])))
            second = i;
    if (best >= 0) {
        out->plan = plans[best];
        out->estimate = estimates[best];
    }
    if (second >= 0) {
        out->has_runner_up = true;
        out->runner_up = plans[second];
        out->runner_up_estimate = estimates[second];
    }
    for (int i = 0; i < count; i++)
        if (i != best && i != second)
            fleet_plan_release(&plans[i]);
    free(estimates);
    return best >= 0;
}

/* Why there is none. */
static int
no_plan(const struct hunt *hunt, struct err *err)
{
    if (hunt->board->settings_count == 0)
        return refuse_unmeasured(hunt->board, err);
    return hunt->count > 0 ? refuse_nearest(hunt->board, hunt->drafts[0], err)
                           : refuse_room(hunt->board, err);
}

static int
search_once(const struct fleet_request *request, const struct fleet *fleet,
            enum effort effort, bool reasons, struct fleet_answer *out, struct err *err)
{
    if (request->sequences < 1 || request->sequences > FLEET_SEQUENCES_MAX)
        return err_set(err, ERR_USAGE, "a batch of %d sequences, the limit is 1 to %d",
                       request->sequences, FLEET_SEQUENCES_MAX);
    if (fleet_check(fleet, err) != 0 || check_prices(request, fleet, err) != 0)
        return -1;
    struct hunt hunt;
    hunt_init(&hunt, request, fleet, effort);
    memset(out, 0, sizeof(*out));
    parts_search(&hunt);
    int rc = 0;
    if (!choose(&hunt, out))
        rc = no_plan(&hunt, err);
    else if (reasons)
        out->rejections_count = reject_list(hunt.board, &out->estimate, out->rejections);
    out->candidates = hunt.weighed;
    hunt_release(&hunt);
    return rc;
}

/* Near the edge of what can be had, the climb by one objective may see no plan that keeps
 * the limits where the climb by the other ends in one: nobody is told that there is none
 * before both have looked. */
static int
search(const struct fleet_request *request, const struct fleet *fleet, enum effort effort,
       bool reasons, struct fleet_answer *out, struct err *err)
{
    struct fleet_request other = *request;
    struct err ignored;
    bool cost = request->objective == OBJECTIVE_COST;
    bool limited = request->iterations_per_s_min > 0.0 ||
                   request->usd_per_iteration_max >= 0.0 ||
                   request->usd_per_hour_max >= 0.0;
    other.objective = cost ? OBJECTIVE_THROUGHPUT : OBJECTIVE_COST;
    if (search_once(request, fleet, effort, reasons, out, err) == 0)
        return 0;
    if (err->code != ERR_PLAN || !limited)
        return -1;
    return search_once(&other, fleet, effort, reasons, out, &ignored);
}

int
fleet_search(const struct fleet_request *request, const struct fleet *fleet,
             struct fleet_answer *out, struct err *err)
{
    return search(request, fleet, EFFORT_WHOLE, true, out, err);
}

int
fleet_search_plan(const struct fleet_request *request, const struct fleet *fleet,
                  struct fleet_answer *out, struct err *err)
{
    return search(request, fleet, EFFORT_WHOLE, false, out, err);
}

int
fleet_search_glance(const struct fleet_request *request, const struct fleet *fleet,
                    struct fleet_answer *out, struct err *err)
{
    struct fleet_request quick = *request;
    quick.quick = true;
    return search(&quick, fleet, EFFORT_GLANCE, false, out, err);
}

int
fleet_gain(const struct fleet_request *request, const struct fleet *fleet, int pool,
           struct estimate *out, struct err *err)
{
    must(pool >= 0 && pool < fleet->pools_count);
    struct fleet *more = fleet_copy(fleet);
    more->pools[pool].devices += more->kinds[more->pools[pool].kind].machine_devices;
    struct fleet_answer answer;
    int rc = fleet_search_plan(request, more, &answer, err);
    if (rc == 0) {
        *out = answer.estimate;
        fleet_answer_release(&answer);
    }
    fleet_free(more);
    return rc;
}
