#include "planner/repair.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const struct repair_terms terms = {.horizon = REPAIR_HORIZON, .rollback_steps = 5};

static void
must_search(const struct fleet_request *request, const struct fleet *fleet,
            struct fleet_answer *answer)
{
    struct err err;
    int rc = fleet_search(request, fleet, answer, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
}

static void
must_repair(const struct fleet_request *request, const struct fleet *before,
            const struct fleet_plan *plan, const struct fleet *after,
            struct repair_answer *out)
{
    struct err err;
    int rc = fleet_repair(request, before, plan, after, &terms, out, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    rc = fleet_plan_check(&out->plan, request, after, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert(out->estimate.fits);
}

/* Devices go, come, and links change. */
static struct fleet *
changed(struct rng *rng, const struct fleet *before)
{
    struct fleet *after = fleet_copy(before);
    for (int p = 0; p < after->pools_count; p++) {
        struct fleet_pool *pool = &after->pools[p];
        int way = (int)rng_below(rng, 4);
        if (way == 0)
            pool->devices -= (int)rng_below(rng, (uint64_t)pool->devices + 1);
        if (way == 1)
            pool->devices += (int)rng_below(rng, 9);
    }
    if (rng_below(rng, 3) == 0)
        for (int c = 0; c < after->curves_count; c++)
            after->curves[c].c0 *= 0.5 + rng_unit(rng);
    return after;
}

/* ---- the price of a next plan, reckoned here once more ---- */

/* Devices that hold layers: a replica in force that is still there, or one of the next plan. */
struct place {
    int pool; /* of the changed fleet; -1: it is gone */
    int tp;
    int first;
    int end;
    bool taken;
};

static int
pool_there(const struct fleet *before, int pool, const struct fleet *after)
{
    const struct fleet_pool *from = &before->pools[pool];
    for (int p = 0; p < after->pools_count; p++)
        if (!strcmp(before->kinds[from->kind].name,
                    after->kinds[after->pools[p].kind].name) &&
            !strcmp(before->zones[from->zone].name,
                    after->zones[after->pools[p].zone].name))
            return p;
    return -1;
}

/* The replicas of a plan, stage by stage. With `before` those whose pool has shrunk are gone, the
 * last pipelines first. */
static struct place *
places_of(const struct fleet_plan *plan, const struct fleet *before,
          const struct fleet *after)
{
    int left[FLEET_POOLS_MAX];
    struct place *places =
        xcalloc((size_t)plan->stages_count * (size_t)plan->width, sizeof(*places));
    for (int p = 0; p < after->pools_count; p++)
        left[p] = after->pools[p].devices;
    for (int j = 0; j < plan->width; j++) {
        for (int s = 0; s < plan->stages_count; s++) {
            const struct replica *replica = fleet_plan_replica(plan, s, j);
            int pool = before ? pool_there(before, replica->pool, after) : replica->pool;
            if (pool >= 0 && left[pool] < replica->tp)
                pool = -1;
            if (pool >= 0)
                left[pool] -= replica->tp;
            places[s * plan->width + j] =
                (struct place){pool, replica->tp, plan->first_layer[s],
                               plan->first_layer[s] + plan->layers[s], false};
        }
    }
    return places;
}

static int
common(const struct place *left, const struct place *right)
{
    int first = left->first > right->first ? left->first : right->first;
    int end = left->end < right->end ? left->end : right->end;
    return end > first ? end - first : 0;
}

/* Seconds for a layer to a place: from the nearest that holds it, or, if there is none, from
 * the nearest device at all. */
static double
fetch_layer_s(const struct fleet *after, const struct place *old, int count, int layer,
              int pool, double bytes)
{
    double best = -1.0;
    for (int i = 0; i < count; i++) {
        if (old[i].pool < 0 || layer < old[i].first || layer >= old[i].end)
            continue;
        double here = fleet_send_s(fleet_curve(after, old[i].pool, 0, pool, 0), bytes);
        best = best < 0.0 || here < best ? here : best;
    }
    for (int p = 0, none = best < 0.0; none && p < after->pools_count; p++) {
        double here = fleet_send_s(fleet_curve(after, p, 0, pool, 0), bytes);
        if (after->pools[p].devices > 0)
            best = best < 0.0 || here < best ? here : best;
    }
    return best;
}

/* Until the last place of the next plan has its layers. */
static double
moves_s(const struct fleet *after, struct place *old, int old_count,
        const struct place *now, int now_count, double *bytes)
{
    int layers = after->table.layers_count;
    int *kept = xcalloc((size_t)now_count, sizeof(*kept));
    double last_s = 0.0;
    for (int i = 0; i < now_count; i++) {
        kept[i] = -1;
        for (int k = 0; k < old_count; k++)
            if (!old[k].taken && old[k].pool == now[i].pool && old[k].tp == now[i].tp &&
                common(&old[k], &now[i]) >
                    (kept[i] < 0 ? 0 : common(&old[kept[i]], &now[i])))
                kept[i] = k;
        if (kept[i] >= 0)
            old[kept[i]].taken = true;
    }
    int *lack = xcalloc((size_t)(layers * 2), sizeof(*lack));
    int *hold = lack + layers;
    for (int l = 0; l < layers; l++) {
        for (int i = 0; i < now_count; i++)
            lack[l] += l >= now[i].first && l < now[i].end &&
                       !(kept[i] >= 0 && l >= old[kept[i]].first && l < old[kept[i]].end);
        for (int k = 0; k < old_count; k++)
            hold[l] += old[k].pool >= 0 && l >= old[k].first && l < old[k].end;
    }
    for (int i = 0; i < now_count; i++) {
        double all_s = 0.0;
        for (int l = now[i].first; l < now[i].end; l++) {
            if (kept[i] >= 0 && l >= old[kept[i]].first && l < old[kept[i]].end)
                continue;
            double size = 12.0 * (double)after->table.sizes[0][l].parameters;
            int turns = hold[l] > 0 ? (lack[l] + hold[l] - 1) / hold[l] : lack[l];
            *bytes += size;
            all_s += turns * fetch_layer_s(after, old, old_count, l, now[i].pool, size);
        }
        last_s = all_s > last_s ? all_s : last_s;
    }
    free(kept);
    free(lack);
    return last_s;
}

/* Is the next plan the one in force, all of which is still there? */
static bool
stays(const struct fleet_plan *plan, const struct place *old,
      const struct fleet_plan *next, const struct place *now)
{
    int count = plan->stages_count * plan->width;
    if (plan->stages_count != next->stages_count || plan->width != next->width ||
        plan->micro_batch != next->micro_batch ||
        memcmp(plan->micro_batches, next->micro_batches,
               (size_t)plan->width * sizeof(int)) != 0)
        return false;
    for (int i = 0; i < count; i++)
        if (old[i].pool < 0 || old[i].pool != now[i].pool || old[i].tp != now[i].tp ||
            old[i].first != now[i].first || old[i].end != now[i].end)
            return false;
    return true;
}

/* Seconds from the plan in force to the end of the horizon with the next one; < 0: it cannot be
 * carried out. */
static double
total_of(const struct fleet_request *request, const struct fleet *before,
         const struct fleet_plan *plan, const struct fleet *after,
         const struct fleet_plan *next, double *bytes)
{
    struct err err;
    struct estimate was, is;
    *bytes = 0.0;
    if (fleet_plan_check(next, request, after, &err) != 0 ||
        evaluate(next, request, after, NULL, NULL, &is, &err) != 0 || !is.fits)
        return -1.0;
    ck_assert_int_eq(evaluate(plan, request, before, NULL, NULL, &was, &err), 0);
    struct place *old = places_of(plan, before, after);
    struct place *now = places_of(next, NULL, after);
    double total = (double)terms.horizon * is.iteration_s;
    if (!stays(plan, old, next, now)) {
        bool lost = false;
        for (int s = 0; s < plan->stages_count; s++) {
            int there = 0;
            for (int j = 0; j < plan->width; j++)
                there += old[s * plan->width + j].pool >= 0;
            lost = lost || there == 0;
        }
        total += was.iteration_s * (1.0 + (lost ? terms.rollback_steps : 0));
        total += moves_s(after, old, plan->stages_count * plan->width, now,
                         next->stages_count * next->width, bytes);
    }
    free(old);
    free(now);
    return total;
}

/* One random change: the answer's total is what it says, and no more than that of staying or of
 * planning afresh. */
static void
change_and_repair(uint64_t seed, bool quick)
{
    struct rng rng = {.seed = seed};
    int devices[4];
    for (int p = 0; p < 4; p++)
        devices[p] = 4 + (int)rng_below(&rng, 24);
    struct fleet *before =
        fleets_cloud(&rng, 2, 2, devices,
                     rng_below(&rng, 4) ? COST_MODEL_PUBLISHED : COST_MODEL_REPLAY);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    request.quick = quick;
    struct fleet_answer answer, afresh;
    struct err err;
    must_search(&request, before, &answer);
    struct fleet *after = changed(&rng, before);
    if (fleet_search(&request, after, &afresh, &err) == 0) {
        struct repair_answer next;
        double moved, ignored;
        must_repair(&request, before, &answer.plan, after, &next);
        double total =
            total_of(&request, before, &answer.plan, after, &next.plan, &moved);
        double anew =
            total_of(&request, before, &answer.plan, after, &afresh.plan, &ignored);
        struct fleet_plan stay;
        fleet_plan_copy(&answer.plan, &stay);
        double staying = total_of(&request, before, &answer.plan, after, &stay, &ignored);
        ck_assert_double_eq_tol(next.price.total_s, total, 1e-9 * total);
        ck_assert_double_eq_tol((double)next.price.moved_bytes, moved,
                                1e-9 * moved + 1.0);
        ck_assert_msg(anew > 0.0 && total <= anew * (1.0 + 1e-9),
                      "seed %llu: %.6f s, afresh %.6f s", (unsigned long long)seed, total,
                      anew);
        ck_assert_msg(staying < 0.0 || total <= staying * (1.0 + 1e-9),
                      "seed %llu: %.6f s, staying %.6f s", (unsigned long long)seed,
                      total, staying);
        ck_assert_int_eq(next.stay.possible, staying > 0.0);
        fleet_plan_release(&stay);
        repair_answer_release(&next);
        fleet_answer_release(&afresh);
    }
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}

START_TEST(repair_is_never_worse_than_staying_or_planning_afresh)
{
    uint64_t seed = suite_seed(__func__, 1);
    int count = suite_rounds(20);
    for (int i = 0; i < count; i++)
        change_and_repair(seed + (uint64_t)i, i % 10 != 0);
}
END_TEST

static struct fleet *
two_zones(int here, int there)
{
    struct rng rng = {.seed = 3};
    int devices[] = {here, there};
    return fleets_cloud(&rng, 1, 2, devices, COST_MODEL_PUBLISHED);
}

START_TEST(nothing_changed_means_staying_for_nothing)
{
    struct fleet *fleet = two_zones(16, 16);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, fleet, &answer);
    struct repair_answer next;
    must_repair(&request, fleet, &answer.plan, fleet, &next);
    ck_assert_int_eq(next.way, REPAIR_STAY);
    ck_assert_double_eq(next.price.lost_s, 0.0);
    ck_assert_int_eq(next.price.moved_bytes, 0);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(fleet);
}
END_TEST

START_TEST(lost_devices_cost_the_step_under_way_and_staying_is_impossible)
{
    struct fleet *before = two_zones(16, 0);
    struct fleet *after = two_zones(12, 0);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    int used[FLEET_POOLS_MAX];
    ck_assert_int_gt(fleet_plan_devices(&answer.plan, used), 12);
    struct repair_answer next;
    must_repair(&request, before, &answer.plan, after, &next);
    ck_assert_int_ne(next.way, REPAIR_STAY);
    ck_assert(!next.stay.possible);
    ck_assert_double_ge(next.price.lost_s, answer.estimate.iteration_s * 0.999);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

/* A change that wins by so little that the moves eat it up within a short horizon. */
START_TEST(short_horizon_does_not_pay_for_moves)
{
    struct fleet *before = two_zones(16, 0);
    struct fleet *after = two_zones(16, 16);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    struct repair_answer next;
    struct err err;
    const struct repair_terms brief = {.horizon = 1, .rollback_steps = 5};
    int rc = fleet_repair(&request, before, &answer.plan, after, &brief, &next, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(next.way, REPAIR_STAY);
    repair_answer_release(&next);
    must_repair(&request, before, &answer.plan, after, &next);
    ck_assert_int_ne(next.way, REPAIR_STAY);
    ck_assert_int_gt(next.price.moved_bytes, 0);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

START_TEST(lost_stage_costs_the_steps_since_the_copies)
{
    struct fleet *before = two_zones(8, 8);
    struct fleet *after = two_zones(8, 0);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    request.pipeline = 2;
    request.stage_zones_count = 2;
    request.stage_zones[1] = 1;
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    request.stage_zones_count = 0;
    struct repair_answer next;
    must_repair(&request, before, &answer.plan, after, &next);
    ck_assert_double_eq_tol(next.price.lost_s, answer.estimate.iteration_s * 6.0,
                            1e-6 * next.price.lost_s);
    repair_answer_release(&next);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

START_TEST(nothing_left_is_said_so)
{
    struct fleet *before = two_zones(8, 8);
    struct fleet *after = two_zones(0, 0);
    struct fleet_request request;
    fleet_request_init(&request, 128);
    struct fleet_answer answer;
    must_search(&request, before, &answer);
    struct repair_answer next;
    struct err err;
    ck_assert_int_eq(
        fleet_repair(&request, before, &answer.plan, after, &terms, &next, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    fleet_answer_release(&answer);
    fleet_free(before);
    fleet_free(after);
}
END_TEST

Suite *suite_repair(void);

Suite *
suite_repair(void)
{
    Suite *suite = suite_create("repair");
    TCase *all = suite_case(suite, "repair", 600);
    tcase_add_test(all, nothing_changed_means_staying_for_nothing);
    tcase_add_test(all, lost_devices_cost_the_step_under_way_and_staying_is_impossible);
    tcase_add_test(all, short_horizon_does_not_pay_for_moves);
    tcase_add_test(all, lost_stage_costs_the_steps_since_the_copies);
    tcase_add_test(all, nothing_left_is_said_so);
    tcase_add_test(all, repair_is_never_worse_than_staying_or_planning_afresh);
    return suite;
}
