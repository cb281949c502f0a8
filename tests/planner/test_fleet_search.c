#include "planner/fleet_search.h"
#include "planner/parallel.h"
#include "planner/published.h"
#include "tests/planner/fleets.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- a search of our own: every plan, by the published formulas as they stand ---- */

enum { DEVICES = 8, STAGES = 8, CHAINS = 20000 };

struct link_of {
    int pool;
    int tp;
};

struct chain_of {
    struct link_of links[STAGES];
    double pace_s, sum_s, update_s, usd_per_s;
};

struct reference {
    const struct fleet *fleet;
    const struct fleet_request *request;
    int stages;
    int first[STAGES + 1];
    int micro_batch;
    int chains_count;
    struct chain_of *chains;
    int left[FLEET_POOLS_MAX];
    int picked_count;
    int picked[DEVICES];
    double best; /* seconds or USD; < 0: none */
};

static double
message_s(const struct reference *ref, struct link_of from, struct link_of to, int layer)
{
    return fleet_send_s(
        fleet_curve(ref->fleet, from.pool, tp_slot(from.tp), to.pool, tp_slot(to.tp)),
        (double)ref->fleet->table.sizes[0][layer].output_bytes *
            (double)ref->micro_batch);
}

static bool
has_room(const struct reference *ref, int stage, struct link_of link)
{
    const struct fleet_kind *kind = &ref->fleet->kinds[ref->fleet->pools[link.pool].kind];
    const struct layer_size *sizes = ref->fleet->table.sizes[tp_slot(link.tp)];
    if (!sizes || !fleet_kind_times(kind, PRECISION_FP32, ref->micro_batch, link.tp))
        return false;
    int64_t need = link.tp == 1 ? INT64_C(2000000000) : INT64_C(3000000000);
    for (int l = ref->first[stage]; l < ref->first[stage + 1]; l++)
        need += 24 * sizes[l].parameters +
                (ref->stages - stage) * ref->micro_batch * sizes[l].kept_bytes;
    return need <= kind->memory_bytes;
}

static void
price_chain(const struct reference *ref, struct chain_of *chain)
{
    int last = ref->stages - 1;
    chain->pace_s = 0.0;
    chain->sum_s = 0.0;
    chain->update_s = 0.0;
    chain->usd_per_s = 0.0;
    for (int s = 0; s <= last; s++) {
        struct link_of link = chain->links[s];
        const struct fleet_pool *pool = &ref->fleet->pools[link.pool];
        const struct layer_time *times = fleet_kind_times(
            &ref->fleet->kinds[pool->kind], PRECISION_FP32, ref->micro_batch, link.tp);
        double compute = 0.0;
        for (int l = ref->first[s]; l < ref->first[s + 1]; l++)
            compute += times[l].forward_s + times[l].backward_s;
        double a = s < last
                       ? message_s(ref, link, chain->links[s + 1], ref->first[s + 1] - 1)
                       : 0.0;
        double g = s > 0 ? message_s(ref, link, chain->links[s - 1], ref->first[s]) : 0.0;
        double send = s > 0 && s < last  ? a + g
                      : s == last        ? 2.0 * g
                      : ref->stages <= 3 ? a
                                         : 2.0 * a;
        if (compute + send > chain->pace_s)
            chain->pace_s = compute + send;
        chain->sum_s += compute + send;
        if (times[ref->first[s]].update_s > chain->update_s)
            chain->update_s = times[ref->first[s]].update_s;
        chain->usd_per_s += link.tp * pool->usd_per_hour / 3600.0;
    }
}

static void
list_chains(struct reference *ref, struct chain_of *chain, int stage)
{
    if (stage == ref->stages) {
        ck_assert_int_lt(ref->chains_count, CHAINS);
        price_chain(ref, chain);
        ref->chains[ref->chains_count++] = *chain;
        return;
    }
    for (int p = 0; p < ref->fleet->pools_count; p++) {
        for (int tp = 1; tp <= 4; tp *= 2) {
            chain->links[stage] = (struct link_of){p, tp};
            if (ref->left[p] < tp || !has_room(ref, stage, chain->links[stage]))
                continue;
            ref->left[p] -= tp;
            list_chains(ref, chain, stage + 1);
            ref->left[p] += tp;
        }
    }
}

/* The slowest stage's reduction with the pipelines in this order. */
static double
ring_s(const struct reference *ref, const int *order)
{
    double worst = 0.0;
    for (int s = 0; s < ref->stages; s++) {
        double bytes = 0.0;
        int least = 4;
        for (int l = ref->first[s]; l < ref->first[s + 1]; l++)
            bytes += 4.0 * (double)ref->fleet->table.sizes[0][l].parameters;
        for (int j = 0; j < ref->picked_count; j++)
            if (ref->chains[order[j]].links[s].tp < least)
                least = ref->chains[order[j]].links[s].tp;
        for (int j = 0; j + 1 < ref->picked_count; j++) {
            double here = published_reduce_s(
                fleet_curve(ref->fleet, ref->chains[order[j]].links[s].pool, 0,
                            ref->chains[order[j + 1]].links[s].pool, 0),
                bytes / (double)least, ref->picked_count);
            worst = here > worst ? here : worst;
        }
    }
    return worst;
}

static bool
next_order(int *order, int count)
{
    int i = count - 2;
    while (i >= 0 && order[i] >= order[i + 1])
        i--;
    if (i < 0)
        return false;
    int j = count - 1;
    while (order[j] <= order[i])
        j--;
    int swap = order[i];
    order[i] = order[j];
    order[j] = swap;
    for (int a = i + 1, b = count - 1; a < b; a++, b--) {
        swap = order[a];
        order[a] = order[b];
        order[b] = swap;
    }
    return true;
}

/* Deal micro-batches out one by one, each to the pipeline that then ends first; score the set
 * in every order. */
static void
score_set(struct reference *ref)
{
    int total = ref->request->sequences / ref->micro_batch;
    int n = ref->picked_count;
    if (n > total)
        return;
    double ends[DEVICES];
    double slowest = 0.0;
    double update = 0.0;
    double usd_per_s = 0.0;
    for (int j = 0; j < n; j++) {
        const struct chain_of *chain = &ref->chains[ref->picked[j]];
        ends[j] = chain->sum_s;
        update = chain->update_s > update ? chain->update_s : update;
        usd_per_s += chain->usd_per_s;
    }
    for (int m = n; m < total; m++) {
        int next = 0;
        for (int j = 1; j < n; j++)
            if (ends[j] + ref->chains[ref->picked[j]].pace_s <
                ends[next] + ref->chains[ref->picked[next]].pace_s)
                next = j;
        ends[next] += ref->chains[ref->picked[next]].pace_s;
    }
    for (int j = 0; j < n; j++)
        slowest = ends[j] > slowest ? ends[j] : slowest;
    bool cost = ref->request->objective == OBJECTIVE_COST;
    double least = (slowest + update) * (cost ? usd_per_s : 1.0);
    if (ref->best >= 0.0 && least >= ref->best)
        return;
    int order[DEVICES];
    memcpy(order, ref->picked, sizeof(order));
    double reduce = -1.0;
    do {
        double here = ring_s(ref, order);
        if (reduce < 0.0 || here < reduce)
            reduce = here;
    } while (next_order(order, n));
    double all = (slowest + update + reduce) * (cost ? usd_per_s : 1.0);
    if (ref->best < 0.0 || all < ref->best)
        ref->best = all;
}

static bool
take(struct reference *ref, int chain, int sign)
{
    bool room = true;
    for (int s = 0; s < ref->stages; s++) {
        ref->left[ref->chains[chain].links[s].pool] -=
            sign * ref->chains[chain].links[s].tp;
        room = room && ref->left[ref->chains[chain].links[s].pool] >= 0;
    }
    return room;
}

static void
try_sets(struct reference *ref, int from)
{
    for (int c = from; c < ref->chains_count; c++) {
        if (take(ref, c, 1)) {
            ref->picked[ref->picked_count++] = c;
            score_set(ref);
            try_sets(ref, c);
            ref->picked_count--;
        }
        take(ref, c, -1);
    }
}

static void
try_cuts(struct reference *ref, int stage)
{
    int layers = ref->fleet->table.layers_count;
    if (stage == ref->stages) {
        struct chain_of chain;
        ref->first[stage] = layers;
        ref->chains_count = 0;
        list_chains(ref, &chain, 0);
        ref->picked_count = 0;
        try_sets(ref, 0);
        return;
    }
    for (int l = stage == 0 ? 0 : ref->first[stage - 1] + 1;
         l <= (stage == 0 ? 0 : layers - (ref->stages - stage)); l++) {
        ref->first[stage] = l;
        try_cuts(ref, stage + 1);
    }
}

/* The best that there is, in seconds or USD; < 0: nothing fits. */
static double
best_of_all(const struct fleet *fleet, const struct fleet_request *request)
{
    struct reference ref = {.fleet = fleet, .request = request, .best = -1.0};
    ref.chains = xcalloc(CHAINS, sizeof(*ref.chains));
    for (int p = 0; p < fleet->pools_count; p++)
        ref.left[p] = fleet->pools[p].devices;
    for (ref.micro_batch = 1; ref.micro_batch <= 4; ref.micro_batch *= 2) {
        if (request->sequences % ref.micro_batch != 0)
            continue;
        for (ref.stages = 1;
             ref.stages <= DEVICES && ref.stages <= fleet->table.layers_count;
             ref.stages++)
            try_cuts(&ref, 0);
    }
    free(ref.chains);
    return ref.best;
}

/* ---- the tests ---- */

static bool
ask(const struct fleet_request *request, const struct fleet *fleet,
    struct fleet_answer *answer)
{
    struct err err;
    if (fleet_search(request, fleet, answer, &err) != 0) {
        ck_assert_msg(err.code == ERR_PLAN, "%s", err.msg);
        return false;
    }
    int rc = fleet_plan_check(&answer->plan, request, fleet, &err);
    ck_assert_msg(rc == 0, "plan found is refused: %s", err.msg);
    ck_assert(answer->estimate.fits);
    return true;
}

static void
compare_with_all(uint64_t seed, int devices, int layers, bool cost)
{
    struct rng rng = {.seed = seed};
    struct fleet_request request;
    struct fleet *fleet = fleets_small(&rng, devices, layers, &request);
    if (cost) {
        request.objective = OBJECTIVE_COST;
        memset(fleet->egress_usd_per_gb, 0, ZONES_MAX * ZONES_MAX * sizeof(double));
    }
    double best = best_of_all(fleet, &request);
    struct fleet_answer answer;
    bool found = ask(&request, fleet, &answer);
    ck_assert_msg(found == (best >= 0.0), "seed %llu: found %d, there is %g",
                  (unsigned long long)seed, found, best);
    if (found) {
        double got =
            cost ? answer.estimate.usd_per_iteration : answer.estimate.iteration_s;
        ck_assert_msg(got <= best * (1.0 + 1e-9) && got >= best * (1.0 - 1e-9),
                      "seed %llu: found %.9g, the best is %.9g (P%d D%d)",
                      (unsigned long long)seed, got, best, answer.plan.stages_count,
                      answer.plan.width);
        fleet_answer_release(&answer);
    }
    fleet_free(fleet);
}

START_TEST(small_fleets_get_the_best_plan_that_there_is)
{
    uint64_t seed = suite_seed(__func__, 1);
    int count = suite_rounds(48);
    for (int i = 0; i < count; i++)
        compare_with_all(seed + (uint64_t)i, i % 8 < 2 ? 8 : 5,
                         i % 8 == 1 || i % 8 == 2 ? 8 : 5, i % 4 == 3);
}
END_TEST

/* A cloud of up to three kinds in up to three zones. */
static struct fleet *
random_cloud(struct rng *rng, int *devices)
{
    int kinds = 1 + (int)rng_below(rng, 3);
    int zones = 1 + (int)rng_below(rng, 3);
    for (int i = 0; i < kinds * zones; i++)
        devices[i] = rng_below(rng, 4) == 0 ? 0 : 4 * (int)rng_below(rng, 24);
    devices[0] += 8;
    return fleets_cloud(rng, kinds, zones, devices, COST_MODEL_PUBLISHED);
}

/* Some of a fleet's devices are gone: of pools by chance any number; or of one pool a machine,
 * or half. */
enum loss { LOSS_ANY, LOSS_MACHINE, LOSS_HALF, LOSSES };

static void
take_away(struct rng *rng, enum loss loss, const int *whole, struct fleet *fleet)
{
    int pool = (int)rng_below(rng, (uint64_t)fleet->pools_count);
    while (whole[pool] == 0)
        pool = (pool + 1) % fleet->pools_count;
    for (int p = 0; p < fleet->pools_count; p++) {
        int *devices = &fleet->pools[p].devices;
        *devices = whole[p];
        if (loss == LOSS_ANY && rng_below(rng, 2) == 0)
            *devices = (int)rng_below(rng, (uint64_t)whole[p] + 1);
        if (loss == LOSS_MACHINE && p == pool)
            *devices = whole[p] > 4 ? whole[p] - 4 : 0;
        if (loss == LOSS_HALF && p == pool)
            *devices = whole[p] / 2;
    }
}

START_TEST(no_part_of_a_fleet_is_better_than_all_of_it)
{
    uint64_t seed = suite_seed(__func__, 1);
    int count = suite_rounds(2);
    for (int i = 0; i < count; i++) {
        struct rng rng = {.seed = seed + (uint64_t)i};
        int devices[9];
        struct fleet *fleet = random_cloud(&rng, devices);
        int whole[9] = {0};
        for (int p = 0; p < fleet->pools_count; p++)
            whole[p] = fleet->pools[p].devices;
        struct fleet_request request;
        fleet_request_init(&request, 512);
        struct fleet_answer all;
        bool found = ask(&request, fleet, &all);
        for (enum loss loss = LOSS_ANY; loss < LOSSES; loss++) {
            take_away(&rng, loss, whole, fleet);
            struct fleet_answer part;
            if (!ask(&request, fleet, &part))
                continue;
            ck_assert(found);
            ck_assert_msg(all.estimate.iteration_s <=
                              part.estimate.iteration_s * (1.0 + 1e-9),
                          "seed %llu: %.6f s with all, %.6f s with a part (loss %d)",
                          (unsigned long long)(seed + (uint64_t)i),
                          all.estimate.iteration_s, part.estimate.iteration_s, loss);
            fleet_answer_release(&part);
        }
        if (found)
            fleet_answer_release(&all);
        fleet_free(fleet);
    }
}
END_TEST

/* Items in another order than the caller would do them in, by workers in turn. */
static void
run_backwards(void *context, int count, parallel_fn fn, void *arg)
{
    int *runs = context;
    *runs += 1;
    for (int i = count - 1; i >= 0; i--)
        fn(arg, i, i % 3);
}

START_TEST(any_number_of_workers_finds_the_same)
{
    int devices[] = {8, 12, 8, 4};
    for (int variant = 0; variant < 4; variant += 3) { /* mixed; one kind, replayed */
        struct rng rng = {.seed = 11 + (uint64_t)variant};
        struct fleet *fleet =
            fleets_cloud(&rng, variant < 2 ? 2 : 1, 2, devices,
                         variant % 2 ? COST_MODEL_REPLAY : COST_MODEL_PUBLISHED);
        struct fleet_request request;
        fleet_request_init(&request, 256);
        struct fleet_answer alone;
        struct fleet_answer together;
        ck_assert(ask(&request, fleet, &alone));
        int runs = 0;
        struct parallel parallel = {3, run_backwards, &runs};
        request.parallel = &parallel;
        ck_assert(ask(&request, fleet, &together));
        ck_assert_int_gt(runs, 10);
        ck_assert_int_eq(alone.candidates, together.candidates);
        ck_assert_int_eq(alone.plan.width, together.plan.width);
        ck_assert_int_eq(alone.plan.stages_count, together.plan.stages_count);
        ck_assert_mem_eq(alone.plan.layers, together.plan.layers,
                         (size_t)alone.plan.stages_count * sizeof(*alone.plan.layers));
        ck_assert_mem_eq(alone.plan.replicas, together.plan.replicas,
                         (size_t)alone.plan.width * (size_t)alone.plan.stages_count *
                             sizeof(*alone.plan.replicas));
        ck_assert_mem_eq(&alone.estimate.iteration_s, &together.estimate.iteration_s,
                         sizeof(double));
        fleet_answer_release(&alone);
        fleet_answer_release(&together);
        fleet_free(fleet);
    }
}
END_TEST

START_TEST(same_question_gets_the_same_bits)
{
    int devices[] = {32, 48, 16, 64};
    struct fleet_answer first;
    struct fleet_answer second;
    struct fleet_request request;
    fleet_request_init(&request, 512);
    struct rng rng = {.seed = 7};
    struct fleet *fleet = fleets_cloud(&rng, 2, 2, devices, COST_MODEL_PUBLISHED);
    ck_assert(ask(&request, fleet, &first));
    struct fleet *copy = fleet_copy(fleet);
    ck_assert(ask(&request, copy, &second));
    ck_assert_int_eq(first.candidates, second.candidates);
    ck_assert_int_eq(first.plan.width, second.plan.width);
    ck_assert_int_eq(first.plan.stages_count, second.plan.stages_count);
    ck_assert_mem_eq(first.plan.replicas, second.plan.replicas,
                     (size_t)first.plan.width * (size_t)first.plan.stages_count *
                         sizeof(*first.plan.replicas));
    ck_assert_mem_eq(&first.estimate.iteration_s, &second.estimate.iteration_s,
                     sizeof(double));
    fleet_answer_release(&first);
    fleet_answer_release(&second);
    fleet_free(copy);
    fleet_free(fleet);
}
END_TEST

Suite *suite_fleet_search(void);

Suite *
suite_fleet_search(void)
{
    Suite *suite = suite_create("fleet_search");
    TCase *all = suite_case(suite, "every_plan", 600);
    tcase_add_test(all, small_fleets_get_the_best_plan_that_there_is);
    TCase *parts = suite_case(suite, "parts", 600);
    tcase_add_test(parts, no_part_of_a_fleet_is_better_than_all_of_it);
    TCase *bits = suite_case(suite, "bits", 600);
    tcase_add_test(bits, same_question_gets_the_same_bits);
    tcase_add_test(bits, any_number_of_workers_finds_the_same);
    return suite;
}
