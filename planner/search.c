#include "planner/search.h"
#include "planner/explore.h"

/* One request on its way from all that it fixes to what can be had. */
struct attempt {
    const struct plan_request *request;
    struct explorer *explorer;
    struct plan *plan;
    struct prediction *prediction;
    bool whole; /* nothing had to give */
};

/* Give way from the least important on: fewer replicas, then other zones. */
static bool
explore_zones_and_replicas(struct attempt *attempt, struct wish wish)
{
    const int replicas = attempt->request->replicas;
    for (int keep = attempt->request->zones_count > 0; keep >= 0; keep--) {
        if (keep && wish.pipeline != attempt->request->zones_count)
            continue;
        wish.zones = keep;
        wish.replicas = replicas;
        do {
            if (explore(attempt->explorer, &wish, attempt->plan, attempt->prediction))
                return true;
            attempt->whole = false;
        } while (--wish.replicas > 0);
    }
    return false;
}

/* Then a shorter pipeline, then any, then another micro-batch. */
static bool
explore_all(struct attempt *attempt)
{
    const struct plan_request *request = attempt->request;
    int fixed = request->pipeline > 0 ? request->pipeline : request->zones_count;
    attempt->whole = fixed == request->zones_count || request->zones_count == 0;
    for (int free_size = 0; free_size < 2; free_size++) {
        if (free_size == 1 && request->micro_batch == 0)
            break;
        struct wish wish = {
            .micro_batch = free_size ? 0 : request->micro_batch,
            .pipeline = fixed,
        };
        do {
            if (explore_zones_and_replicas(attempt, wish))
                return true;
        } while (wish.pipeline-- > 0);
    }
    return false;
}

static int
request_check(const struct plan_request *request, struct err *err)
{
    if (model_shape_check(&request->shape, err) != 0)
        return -1;
    if (request->sequences < 1)
        return err_set(err, ERR_USAGE, "batch of %d sequences: must be at least 1",
                       request->sequences);
    if (request->zones_count < 0 || request->zones_count > STAGES_MAX)
        return err_set(err, ERR_USAGE, "plan names %d zones, the limit is %d",
                       request->zones_count, STAGES_MAX);
    return 0;
}

int
search(const struct plan_request *request, const struct cluster *cluster,
       struct plan *plan, struct prediction *prediction, struct err *err)
{
    if (request_check(request, err) != 0)
        return -1;
    struct attempt attempt = {
        .request = request,
        .explorer = explorer_new(request, cluster),
        .plan = plan,
        .prediction = prediction,
    };
    int rc = 0;
    if (explore_all(&attempt))
        plan->loosened = !attempt.whole;
    else
        rc = explorer_room(attempt.explorer, err);
    explorer_free(attempt.explorer);
    return rc;
}

bool
search_worth_it(const struct plan *current, const struct plan *better,
                const struct plan_request *request, const struct cluster *cluster)
{
    struct prediction now;
    struct prediction then;
    struct err err;
    if (plan_check(better, request, cluster, &err) != 0 ||
        simulate(better, request, cluster, &then, &err) != 0)
        return false;
    if (plan_check(current, request, cluster, &err) != 0 ||
        simulate(current, request, cluster, &now, &err) != 0)
        return true;
    int64_t gain_ns = now.step_ns - then.step_ns;
    return gain_ns > 0 && gain_ns >= now.step_ns / 20 + (now.step_ns % 20 != 0);
}
