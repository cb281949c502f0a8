#include "planner/repair.h"
#include "planner/climb.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"

#include <stdlib.h>
#include <string.h>

enum { MEND_TRIES = 4000, QUICK_TRIES = 150 };

/* What is left of the plan in force, over the pools of the changed fleet. */
struct remains {
    const struct fleet_request *request;
    const struct fleet *before;
    const struct fleet *after;
    const struct fleet_plan *plan;
    double step_s;   /* of the plan in force, before */
    int16_t *pool;   /* [stages x width]: where a replica is now; -1: it is gone */
    int gone;        /* replicas */
    bool stage_gone; /* all of some stage */
};

void
repair_answer_release(struct repair_answer *answer)
{
    fleet_plan_release(&answer->plan);
}

/* ---- what is left ---- */

static int
same_pool(const struct fleet *before, int pool, const struct fleet *after)
{
    const struct fleet_pool *from = &before->pools[pool];
    for (int p = 0; p < after->pools_count; p++)
        if (strcmp(before->kinds[from->kind].name,
                   after->kinds[after->pools[p].kind].name) == 0 &&
            strcmp(before->zones[from->zone].name,
                   after->zones[after->pools[p].zone].name) == 0)
            return p;
    return -1;
}

/* Which stages are there no more? */
static void
note_gone(struct remains *remains)
{
    const struct fleet_plan *plan = remains->plan;
    for (int s = 0; s < plan->stages_count; s++) {
        bool any = false;
        for (int j = 0; j < plan->width; j++) {
            bool here = remains->pool[(int64_t)s * plan->width + j] >= 0;
            remains->gone += !here;
            any = any || here;
        }
        remains->stage_gone = remains->stage_gone || !any;
    }
}

static int
remains_find(struct remains *remains, struct err *err)
{
    const struct fleet_plan *plan = remains->plan;
    struct estimate in_force;
    if (fleet_plan_check(plan, remains->request, remains->before, err) != 0 ||
        evaluate(plan, remains->request, remains->before, NULL, NULL, &in_force, err) !=
            0)
        return err_wrap(err, "the plan in force");
    remains->step_s = in_force.iteration_s;
    int map[FLEET_POOLS_MAX];
    int left[FLEET_POOLS_MAX] = {0};
    for (int p = 0; p < remains->before->pools_count; p++)
        map[p] = same_pool(remains->before, p, remains->after);
    for (int p = 0; p < remains->after->pools_count; p++)
        left[p] = remains->after->pools[p].devices;
    size_t replicas = (size_t)plan->stages_count * (size_t)plan->width;
    remains->pool = xcalloc(replicas, sizeof(*remains->pool));
    /* The first pipelines keep their devices. */
    for (int j = 0; j < plan->width; j++) {
        for (int s = 0; s < plan->stages_count; s++) {
            const struct replica *replica = fleet_plan_replica(plan, s, j);
            int pool = map[replica->pool];
            bool here = pool >= 0 && left[pool] >= replica->tp;
            if (here)
                left[pool] -= replica->tp;
            remains->pool[(int64_t)s * plan->width + j] = (int16_t)(here ? pool : -1);
        }
    }
    note_gone(remains);
    return 0;
}

/* ---- the price of a plan ---- */

/* State of a layer that moves: weights and two moments; in bf16 the master copy too. */
static double
layer_bytes(const struct fleet *fleet, const struct fleet_plan *plan, int layer)
{
    double each = plan->precision == PRECISION_BF16 ? 14.0 : 12.0;
    return each * (double)fleet->table.sizes[0][layer].parameters;
}

/* The replica in force whose place a replica of the next plan takes: on the same pool with
 * the same degree, with the most layers in common; -1: there is none left. */
static int64_t
predecessor(const struct remains *remains, const struct fleet_plan *next, int stage,
            int pipeline, const bool *taken)
{
    const struct fleet_plan *plan = remains->plan;
    const struct replica *replica = fleet_plan_replica(next, stage, pipeline);
    int first = next->first_layer[stage];
    int end = first + next->layers[stage];
    int64_t best = -1;
    int most = 0;
    for (int s = 0; s < plan->stages_count; s++) {
        int from = plan->first_layer[s] > first ? plan->first_layer[s] : first;
        int to = plan->first_layer[s] + plan->layers[s];
        to = to < end ? to : end;
        if (to - from <= most)
            continue;
        for (int j = 0; j < plan->width; j++) {
            int64_t at = (int64_t)s * plan->width + j;
            if (taken[at] || remains->pool[at] != replica->pool ||
                plan->replicas[at].tp != replica->tp)
                continue;
            best = at;
            most = to - from;
            break;
        }
    }
    return best;
}

/* The fastest way for so many bytes of a layer to a replica: from one that holds it, or, if
 * none is left, from wherever a copy may be. */
static double
fetch_s(const struct remains *remains, const struct replica *to, int layer, double bytes)
{
    const struct fleet_plan *plan = remains->plan;
    const struct fleet *fleet = remains->after;
    double best = FLEET_NEVER_S;
    int stage = 0;
    while (plan->first_layer[stage] + plan->layers[stage] <= layer)
        stage++;
    bool seen[FLEET_POOLS_MAX] = {false};
    bool any = false;
    for (int j = 0; j < plan->width; j++) {
        int pool = remains->pool[(int64_t)stage * plan->width + j];
        if (pool < 0 || seen[pool])
            continue;
        any = true;
        seen[pool] = true;
        const struct fleet_curve *curve = fleet_curve(fleet, pool, 0, to->pool, 0);
        double seconds = curve ? fleet_send_s(curve, bytes) : FLEET_NEVER_S;
        best = seconds < best ? seconds : best;
    }
    for (int p = 0; !any && p < fleet->pools_count; p++) {
        const struct fleet_curve *curve = fleet_curve(fleet, p, 0, to->pool, 0);
        if (fleet->pools[p].devices < 1 || !curve)
            continue;
        double seconds = fleet_send_s(curve, bytes);
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* What has to move, and how long that takes: every replica fetches what it lacks; those
 * that hold a layer serve those that lack it in turn. */
static void
price_moves(const struct remains *remains, const struct fleet_plan *next,
            struct repair_price *out)
{
    const struct fleet_plan *plan = remains->plan;
    int layers = remains->after->table.layers_count;
    size_t replicas = (size_t)plan->stages_count * (size_t)plan->width;
    bool *taken = xcalloc(replicas, sizeof(*taken));
    int *lack = xcalloc((size_t)layers, sizeof(*lack));
    int64_t count = (int64_t)next->stages_count * next->width;
    int64_t *from = xcalloc((size_t)count, sizeof(*from));
    double moved = 0.0;
    for (int s = 0; s < next->stages_count; s++) {
        for (int j = 0; j < next->width; j++) {
            int64_t at = predecessor(remains, next, s, j, taken);
            from[(int64_t)s * next->width + j] = at;
            if (at >= 0)
                taken[at] = true;
            int stage = at >= 0 ? (int)(at / plan->width) : -1;
            for (int l = next->first_layer[s]; l < next->first_layer[s] + next->layers[s];
                 l++) {
                bool has = stage >= 0 && l >= plan->first_layer[stage] &&
                           l < plan->first_layer[stage] + plan->layers[stage];
                lack[l] += !has;
                moved += has ? 0.0 : layer_bytes(remains->after, next, l);
            }
        }
    }
    for (int s = 0; s < next->stages_count; s++) {
        for (int j = 0; j < next->width; j++) {
            int64_t at = from[(int64_t)s * next->width + j];
            int stage = at >= 0 ? (int)(at / plan->width) : -1;
            double seconds = 0.0;
            for (int l = next->first_layer[s]; l < next->first_layer[s] + next->layers[s];
                 l++) {
                if (stage >= 0 && l >= plan->first_layer[stage] &&
                    l < plan->first_layer[stage] + plan->layers[stage])
                    continue;
                int holder = 0;
                while (plan->first_layer[holder] + plan->layers[holder] <= l)
                    holder++;
                int holders = 0;
                for (int i = 0; i < plan->width; i++)
                    holders += remains->pool[(int64_t)holder * plan->width + i] >= 0;
                int turns = holders > 0 ? (lack[l] + holders - 1) / holders : lack[l];
                seconds +=
                    (double)turns * fetch_s(remains, fleet_plan_replica(next, s, j), l,
                                            layer_bytes(remains->after, next, l));
            }
            out->moved_s = seconds > out->moved_s ? seconds : out->moved_s;
        }
    }
    out->moved_bytes = (int64_t)moved;
    free(taken);
    free(lack);
    free(from);
}

static bool
same_plan(const struct remains *remains, const struct fleet_plan *next)
{
    const struct fleet_plan *plan = remains->plan;
    if (remains->gone > 0 || next->micro_batch != plan->micro_batch ||
        next->stages_count != plan->stages_count || next->width != plan->width ||
        next->precision != plan->precision || next->recompute != plan->recompute ||
        next->shard_optimizer != plan->shard_optimizer)
        return false;
    for (int s = 0; s < plan->stages_count; s++)
        if (next->first_layer[s] != plan->first_layer[s])
            return false;
    for (int64_t i = 0; i < (int64_t)plan->stages_count * plan->width; i++)
        if (next->replicas[i].pool != remains->pool[i] ||
            next->replicas[i].tp != plan->replicas[i].tp)
            return false;
    return memcmp(next->micro_batches, plan->micro_batches,
                  (size_t)plan->width * sizeof(*plan->micro_batches)) == 0;
}

static void
price(const struct remains *remains, const struct fleet_plan *next,
      const struct estimate *estimate, const struct repair_terms *terms,
      struct repair_price *out)
{
    memset(out, 0, sizeof(*out));
    out->possible = true;
    out->steps_s = (double)terms->horizon * estimate->iteration_s;
    if (!same_plan(remains, next)) {
        out->lost_s = remains->step_s;
        if (remains->stage_gone)
            out->lost_s += remains->step_s * (double)terms->rollback_steps;
        price_moves(remains, next, out);
    }
    out->total_s = out->lost_s + out->moved_s + out->steps_s;
    out->total_usd = -1.0;
    if (estimate->usd_per_iteration >= 0.0)
        out->total_usd =
            (double)terms->horizon * estimate->usd_per_iteration +
            (out->lost_s + out->moved_s) * estimate->devices_usd / estimate->iteration_s;
}

/* ---- mending ---- */

/* The next pipeline made of what is left: for each stage the first replica that has no place
 * yet, or a new one where there is room. False if a stage stays empty. */
static bool
gather_pipeline(const struct remains *remains, const struct board *board,
                struct draft *draft, int *place, int *spare, bool refill,
                struct crew *crew)
{
    const struct fleet_plan *plan = remains->plan;
    struct crew made = {.count = 1};
    int taken[FLEET_POOLS_MAX] = {0};
    int next[STAGES_MAX];
    draft->crews_count = 1;
    for (int s = 0; s < plan->stages_count; s++) {
        int j = place[s];
        while (j < plan->width && remains->pool[(int64_t)s * plan->width + j] < 0)
            j++;
        next[s] = j;
        if (j < plan->width) {
            const struct replica *replica = fleet_plan_replica(plan, s, j);
            int pool = remains->pool[(int64_t)s * plan->width + j];
            int option = board->option_of[pool][tp_slot(replica->tp)];
            if (option < 0)
                return false;
            made.option[s] = (uint16_t)option;
            next[s] = j + 1;
            continue;
        }
        int found = -1;
        for (int o = 0; refill && o < board->options_count; o++) {
            const struct option *option = &board->options[o];
            draft->crews[0].option[s] = (uint16_t)o;
            if (spare[option->pool] - taken[option->pool] < option->tp ||
                !draft_stage_fits(board, draft, 0, s))
                continue;
            /* The degree and kind that the stage has, if there is a choice. */
            const struct replica *like = fleet_plan_replica(plan, s, 0);
            bool alike = option->tp == like->tp;
            if (found < 0 || alike)
                found = o;
            if (alike)
                break;
        }
        if (found < 0)
            return false;
        made.option[s] = (uint16_t)found;
        taken[board->options[found].pool] += board->options[found].tp;
    }
    memcpy(place, next, (size_t)plan->stages_count * sizeof(*place));
    for (int p = 0; p < board->fleet->pools_count; p++)
        spare[p] -= taken[p];
    *crew = made;
    return true;
}

/* What is left as a draft: whole pipelines first, then pieces put together. */
static bool
gather(const struct remains *remains, const struct board *board, bool refill,
       struct draft *draft)
{
    const struct fleet_plan *plan = remains->plan;
    int setting = 0;
    while (setting < board->settings_count &&
           (board->settings[setting].micro_batch != plan->micro_batch ||
            board->settings[setting].precision != plan->precision ||
            board->settings[setting].recompute != plan->recompute ||
            board->settings[setting].shard_optimizer != plan->shard_optimizer))
        setting++;
    if (setting == board->settings_count || plan->stages_count > DEPTH_MAX)
        return false;
    draft->setting = setting;
    draft->stages = plan->stages_count;
    for (int s = 0; s < plan->stages_count; s++)
        draft->first[s] = (int16_t)plan->first_layer[s];
    draft->first[plan->stages_count] = (int16_t)board->layers;
    draft->width = plan->width;
    int spare[FLEET_POOLS_MAX] = {0};
    for (int p = 0; p < board->fleet->pools_count; p++)
        spare[p] = board->fleet->pools[p].devices;
    for (int64_t i = 0; i < (int64_t)plan->stages_count * plan->width; i++)
        if (remains->pool[i] >= 0)
            spare[remains->pool[i]] -= plan->replicas[i].tp;
    struct crew crews[CREWS_MAX];
    int count = 0;
    int width = 0;
    int place[STAGES_MAX] = {0};
    struct crew crew;
    size_t bytes = (size_t)plan->stages_count * sizeof(crew.option[0]);
    while (width < plan->width &&
           gather_pipeline(remains, board, draft, place, spare, refill, &crew)) {
        int c = 0;
        while (c < count && memcmp(crews[c].option, crew.option, bytes) != 0)
            c++;
        if (c == CREWS_MAX)
            break;
        if (c == count)
            crews[count++] = crew;
        else
            crews[c].count++;
        width++;
    }
    draft->crews_count = count;
    draft->width = width;
    memcpy(draft->crews, crews, (size_t)count * sizeof(*crews));
    return width > 0 && draft_fits(board, draft) && draft_weigh(board, draft);
}

/* ---- choosing ---- */

struct repairer {
    struct remains remains;
    const struct repair_terms *terms;
    struct repair_answer *out;
    bool found;
};

static bool
cheaper(const struct fleet_request *request, const struct repair_price *left,
        const struct repair_price *right)
{
    if (request->objective == OBJECTIVE_COST && left->total_usd >= 0.0 &&
        right->total_usd >= 0.0)
        return left->total_usd < right->total_usd;
    return left->total_s < right->total_s;
}

/* Price a plan; it becomes the answer if it is the cheapest. The plan is taken. */
static void
consider(struct repairer *repairer, enum repair_way way, struct fleet_plan *plan,
         struct repair_price *listed)
{
    const struct remains *remains = &repairer->remains;
    struct err ignored;
    struct estimate estimate;
    struct repair_price cost;
    if (fleet_plan_check(plan, remains->request, remains->after, &ignored) == 0 &&
        evaluate(plan, remains->request, remains->after, NULL, NULL, &estimate,
                 &ignored) == 0 &&
        fleet_keeps_limits(remains->request, &estimate)) {
        price(remains, plan, &estimate, repairer->terms, &cost);
        if (!listed->possible || cheaper(remains->request, &cost, listed))
            *listed = cost;
        if (!repairer->found || cheaper(remains->request, &cost, &repairer->out->price)) {
            fleet_plan_release(&repairer->out->plan);
            repairer->out->plan = *plan;
            repairer->out->estimate = estimate;
            repairer->out->price = cost;
            repairer->out->way = way;
            repairer->found = true;
            memset(plan, 0, sizeof(*plan));
        }
    }
    fleet_plan_release(plan);
}

static void
consider_staying(struct repairer *repairer)
{
    struct fleet_plan plan;
    if (repairer->remains.gone > 0)
        return;
    fleet_plan_copy(repairer->remains.plan, &plan);
    for (int64_t i = 0; i < (int64_t)plan.stages_count * plan.width; i++)
        plan.replicas[i].pool = repairer->remains.pool[i];
    consider(repairer, REPAIR_STAY, &plan, &repairer->out->stay);
}

/* Without what is gone, with it made good from what is spare, and each made better by small
 * steps. */
static void
consider_mending(struct repairer *repairer)
{
    const struct remains *remains = &repairer->remains;
    struct board *board = board_new(remains->request, remains->after);
    struct draft *draft = xcalloc(1, sizeof(*draft));
    for (int refill = 0; refill < 2; refill++) {
        if (!gather(remains, board, refill == 1, draft))
            continue;
        struct fleet_plan plan;
        draft_plan(board, draft, &plan);
        consider(repairer, REPAIR_MEND, &plan, &repairer->out->mend);
        climb(board, draft, remains->request->quick ? QUICK_TRIES : MEND_TRIES, 0.0,
              (uint64_t)refill + 1);
        draft_plan(board, draft, &plan);
        consider(repairer, REPAIR_MEND, &plan, &repairer->out->mend);
    }
    free(draft);
    board_free(board);
}

/* The cheapest of the three ways. */
static int
find_next(struct repairer *repairer, struct err *err)
{
    const struct remains *remains = &repairer->remains;
    consider_staying(repairer);
    consider_mending(repairer);
    struct fleet_answer afresh;
    int rc = fleet_search_plan(remains->request, remains->after, &afresh, err);
    if (rc == 0) {
        struct fleet_plan plan = afresh.plan;
        memset(&afresh.plan, 0, sizeof(afresh.plan));
        consider(repairer, REPAIR_AFRESH, &plan, &repairer->out->afresh);
        fleet_answer_release(&afresh);
    }
    if (repairer->found)
        return 0;
    if (rc == 0)
        rc = err_set(err, ERR_PLAN, "no plan for the changed cluster keeps the limits");
    return rc;
}

int
fleet_repair(const struct fleet_request *request, const struct fleet *before,
             const struct fleet_plan *in_force, const struct fleet *after,
             const struct repair_terms *terms, struct repair_answer *out, struct err *err)
{
    must(terms->horizon > 0 && terms->rollback_steps >= 0);
    struct repairer repairer = {
        .remains = {.request = request,
                    .before = before,
                    .after = after,
                    .plan = in_force},
        .terms = terms,
        .out = out,
    };
    memset(out, 0, sizeof(*out));
    if (fleet_check(before, err) != 0 || fleet_check(after, err) != 0)
        return -1;
    if (before->table.layers_count != after->table.layers_count)
        return err_set(err, ERR_USAGE,
                       "the plan in force is for a model of %d layers, the "
                       "changed cluster has one of %d",
                       before->table.layers_count, after->table.layers_count);
    int rc = remains_find(&repairer.remains, err);
    if (rc == 0)
        rc = find_next(&repairer, err);
    free(repairer.remains.pool);
    return rc;
}

int
fleet_repair_what_is_left(const struct fleet_request *request, const struct fleet *after,
                          const struct fleet_plan *left, double step_s,
                          const struct repair_terms *terms, struct repair_answer *out,
                          struct err *err)
{
    must(terms->horizon > 0 && terms->rollback_steps >= 0);
    struct repairer repairer = {
        .remains = {.request = request,
                    .before = after,
                    .after = after,
                    .plan = left,
                    .step_s = step_s},
        .terms = terms,
        .out = out,
    };
    memset(out, 0, sizeof(*out));
    if (fleet_check(after, err) != 0)
        return -1;
    size_t replicas = (size_t)left->stages_count * (size_t)left->width;
    repairer.remains.pool = xcalloc(replicas, sizeof(*repairer.remains.pool));
    for (size_t i = 0; i < replicas; i++)
        repairer.remains.pool[i] = left->replicas[i].pool;
    note_gone(&repairer.remains);
    int rc = find_next(&repairer, err);
    free(repairer.remains.pool);
    return rc;
}

int
fleet_repair_price(const struct fleet_request *request, const struct fleet *before,
                   const struct fleet_plan *in_force, const struct fleet *after,
                   const struct fleet_plan *next, const struct repair_terms *terms,
                   struct repair_price *out, struct err *err)
{
    struct remains remains = {
        .request = request, .before = before, .after = after, .plan = in_force};
    struct estimate estimate;
    int rc = -1;
    if (fleet_check(before, err) == 0 && fleet_check(after, err) == 0 &&
        remains_find(&remains, err) == 0 &&
        fleet_plan_check(next, request, after, err) == 0 &&
        evaluate(next, request, after, NULL, NULL, &estimate, err) == 0) {
        price(&remains, next, &estimate, terms, out);
        rc = 0;
    }
    free(remains.pool);
    return rc;
}
