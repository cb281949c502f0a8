#include "node/engine/recover.h"
#include "tests/suite.h"
#include "transport/base/rng.h"

#include <string.h>

Suite *suite_recover(void);

enum { NODES_MAX = 6 };

/* A cluster, a plan and what the members said. */
struct scene {
    struct cluster cluster;
    struct plan_request request;
    struct plan plan;
    struct progress progress[NODES_MAX];
    struct recovery recovery;
};

static void
scene_open(struct scene *scene, int nodes, int zones, int stages, int pipelines)
{
    memset(scene, 0, sizeof(*scene));
    cluster_init(&scene->cluster, nodes, zones);
    for (int i = 0; i < nodes; i++) {
        scene->cluster.nodes[i].id.bytes[0] = (uint8_t)(i + 1);
        scene->cluster.nodes[i].zone = i * zones / nodes;
        scene->cluster.nodes[i].memory_bytes = 1 << 30;
    }
    scene->request.shape = (struct model_shape){
        .blocks = 4, .heads = 1, .hidden = 8, .context = 4, .vocabulary = 256};
    scene->request.sequences = pipelines;
    scene->plan = (struct plan){
        .micro_batch = 1, .stages_count = stages, .pipelines_count = pipelines};
    int layers = workload_layers(&scene->request.shape), first = 0;
    for (int s = 0; s < stages; s++) {
        struct plan_stage *stage = &scene->plan.stages[s];
        stage->first_layer = first;
        stage->layers = s == stages - 1 ? layers - first : layers / stages;
        first += stage->layers;
        for (int j = 0; j < pipelines; j++)
            stage->nodes[j] = s * pipelines + j;
    }
    for (int j = 0; j < pipelines; j++)
        scene->plan.micro_batches[j] = 1;
    for (int i = 0; i < nodes; i++)
        scene->progress[i] =
            (struct progress){.reported = true, .applied = -1, .has_data = i == 0};
}

static void
scene_close(struct scene *scene)
{
    recovery_release(&scene->recovery);
    cluster_release(&scene->cluster);
}

static struct lineage
lineage_of(uint64_t epoch)
{
    return (struct lineage){epoch, epoch + 77};
}

static void
hold_in(struct scene *scene, uint64_t epoch, int node, enum state_source source,
        int64_t step, int first, int layers)
{
    struct progress *progress = &scene->progress[node];
    progress->holdings[progress->holdings_count++] = (struct holding){
        source, {step, lineage_of(epoch)}, first, layers, (uint64_t)step * 1000};
    if (source == SOURCE_LIVE) {
        progress->applied = step;
        progress->lineage = lineage_of(epoch);
        progress->normed = true;
        progress->samples_hash = (uint64_t)step * 1000;
        progress->norm_bits = (uint64_t)step + 7;
    }
}

static void
hold(struct scene *scene, int node, enum state_source source, int64_t step, int first,
     int layers)
{
    hold_in(scene, 4, node, source, step, first, layers);
}

static void
prepare(struct scene *scene, int node, uint64_t epoch)
{
    scene->progress[node].prepared = true;
    scene->progress[node].prepared_in = lineage_of(epoch);
}

static int
try_recover(struct scene *scene, struct err *err)
{
    recovery_release(&scene->recovery);
    return recover(&scene->plan, &scene->request, &scene->cluster, scene->progress,
                   &scene->recovery, err);
}

static void
must_recover(struct scene *scene)
{
    struct err err = {0};
    ck_assert_msg(try_recover(scene, &err) == 0, "%s", err.msg);
}

static const struct transfer *
way_of(const struct scene *scene, int to, int layer)
{
    for (int i = 0; i < scene->recovery.transfers_count; i++)
        if (scene->recovery.transfers[i].to == to &&
            scene->recovery.transfers[i].layer == layer)
            return &scene->recovery.transfers[i];
    ck_abort_msg("layer %d does not come to node %d", layer, to);
    return NULL;
}

/* ---- by hand ---- */

START_TEST(a_new_job_begins_from_its_seed)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 2, 1);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 0);
    ck_assert(!scene.recovery.apply_prepared);
    ck_assert_int_eq(scene.recovery.transfers_count, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(scene.recovery.transfers[i].layer, i);
        ck_assert_int_eq(scene.recovery.transfers[i].source, SOURCE_SEED);
        ck_assert_int_eq(scene.recovery.transfers[i].from, i < 3 ? 0 : 1);
    }
    ck_assert_int_eq(scene.recovery.data_from[0], 0);
    ck_assert_int_eq(scene.recovery.data_from[1], 0);
    scene_close(&scene);
}
END_TEST

START_TEST(what_all_remember_and_nobody_has_is_done_again_and_counted)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 2, 1);
    hold(&scene, 0, SOURCE_DISK, 200, 0, 6); /* all were ended; a checkpoint is left */
    scene.progress[0].applied = 260;
    scene.progress[1].applied = 258;
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 200);
    ck_assert_int_eq(scene.recovery.steps_lost, 60);
    ck_assert(!scene.recovery.apply_prepared);
    scene_close(&scene);

    /* Where somebody has live state, what another remembers of an older life is old. */
    scene_open(&scene, 2, 1, 2, 1);
    hold(&scene, 0, SOURCE_LIVE, 205, 0, 6);
    scene.progress[0].applied = 205;
    scene.progress[1].applied = 260;
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 205);
    ck_assert_int_eq(scene.recovery.steps_lost, 0);
    scene_close(&scene);
}
END_TEST

START_TEST(who_prepared_what_another_applied_applies_it_too)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 2, 1);
    hold(&scene, 0, SOURCE_LIVE, 10, 0, 3);
    hold(&scene, 1, SOURCE_LIVE, 9, 3, 3);
    prepare(&scene, 1, 4);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 10);
    ck_assert(scene.recovery.apply_prepared);
    ck_assert_uint_eq(scene.recovery.norm_bits, 17);
    ck_assert_uint_eq(scene.recovery.samples_hash, 10000);
    ck_assert_int_eq(scene.recovery.steps_lost, 0);
    ck_assert_int_eq(way_of(&scene, 1, 4)->source, SOURCE_LIVE);
    ck_assert_int_eq(way_of(&scene, 1, 4)->from, 1);
    scene_close(&scene);
}
END_TEST

START_TEST(a_step_that_nobody_applied_is_done_again)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 2, 1);
    hold(&scene, 0, SOURCE_LIVE, 9, 0, 3);
    hold(&scene, 1, SOURCE_LIVE, 9, 3, 3);
    prepare(&scene, 0, 4);
    prepare(&scene, 1, 4);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 9);
    ck_assert(!scene.recovery.apply_prepared);
    scene_close(&scene);
}
END_TEST

START_TEST(gradients_of_an_epoch_that_was_redone_are_not_applied)
{
    struct scene scene;
    scene_open(&scene, 4, 2, 2, 2);
    hold_in(&scene, 5, 0, SOURCE_LIVE, 10, 0, 3);
    hold_in(&scene, 5, 2, SOURCE_LIVE, 10, 3, 3);
    hold(&scene, 1, SOURCE_LIVE, 9, 0, 3); /* slept through the epoch after */
    prepare(&scene, 1, 4);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 10);
    ck_assert(!scene.recovery.apply_prepared);
    ck_assert_int_eq(way_of(&scene, 1, 0)->from, 0);
    scene_close(&scene);
}
END_TEST

START_TEST(a_step_that_was_done_again_is_not_the_one_that_another_still_holds)
{
    struct scene scene;
    scene_open(&scene, 3, 1, 1, 3);
    hold_in(&scene, 7, 0, SOURCE_LIVE, 48, 0, 6);
    hold_in(&scene, 3, 1, SOURCE_LIVE, 48, 0, 6); /* was away while it was done again */
    hold_in(&scene, 3, 2, SOURCE_DISK, 48, 0, 6);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 48);
    ck_assert_uint_eq(scene.recovery.lineage.epoch, 7);
    for (int node = 0; node < 3; node++)
        for (int layer = 0; layer < 6; layer++)
            ck_assert_int_eq(way_of(&scene, node, layer)->from, 0);
    scene_close(&scene);

    /* Of neither is every layer there: one of both would be nobody's state. */
    scene_open(&scene, 2, 1, 2, 1);
    hold_in(&scene, 7, 0, SOURCE_LIVE, 48, 0, 3);
    hold_in(&scene, 3, 1, SOURCE_LIVE, 48, 3, 3);
    hold_in(&scene, 3, 0, SOURCE_COPY, 40, 0, 3);
    hold_in(&scene, 3, 1, SOURCE_COPY, 40, 3, 3);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 40);
    ck_assert_uint_eq(scene.recovery.lineage.epoch, 3);
    scene_close(&scene);
}
END_TEST

START_TEST(epochs_of_two_swarms_are_told_apart_by_their_decrees)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 1, 2);
    hold(&scene, 0, SOURCE_DISK, 48, 0, 6);
    hold(&scene, 1, SOURCE_DISK, 48, 0, 6);
    scene.progress[0].holdings[0].name.lineage.tag++;
    must_recover(&scene);
    ck_assert_uint_eq(scene.recovery.lineage.tag, lineage_of(4).tag + 1);
    ck_assert_int_eq(way_of(&scene, 1, 0)->from, 0);
    scene_close(&scene);
}
END_TEST

START_TEST(who_got_its_state_from_others_tells_nobody_a_norm_that_it_does_not_know)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 1, 2);
    hold(&scene, 0, SOURCE_LIVE, 10, 0, 6);
    scene.progress[0].normed = false;
    hold(&scene, 1, SOURCE_LIVE, 9, 0, 6);
    prepare(&scene, 1, 4);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 10);
    ck_assert(!scene.recovery.apply_prepared && !scene.recovery.normed);
    ck_assert_int_eq(way_of(&scene, 1, 0)->from, 0);
    scene_close(&scene);
}
END_TEST

START_TEST(a_lost_stage_falls_back_to_the_copies_of_one_step)
{
    struct scene scene;
    scene_open(&scene, 2, 1, 2, 1);
    /* Node 0 had stage 0 and kept stage 1; node 1 is new. */
    hold(&scene, 0, SOURCE_LIVE, 47, 0, 3);
    hold(&scene, 0, SOURCE_COPY, 40, 0, 6);
    hold(&scene, 0, SOURCE_COPY, 20, 0, 3);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 40);
    ck_assert_int_eq(scene.recovery.copied.step, 40);
    ck_assert_int_eq(scene.recovery.steps_lost, 7);
    ck_assert_uint_eq(scene.recovery.samples_hash, 40000);
    ck_assert_int_eq(way_of(&scene, 0, 2)->source, SOURCE_COPY);
    ck_assert_int_eq(way_of(&scene, 1, 5)->from, 0);
    scene_close(&scene);
}
END_TEST

START_TEST(a_copy_that_two_have_is_worth_more_than_a_newer_one_of_one)
{
    struct scene scene;
    scene_open(&scene, 3, 2, 1, 1);
    hold(&scene, 0, SOURCE_LIVE, 25, 0, 6);
    hold(&scene, 0, SOURCE_COPY, 24, 0, 6); /* on its way when all was halted */
    hold(&scene, 0, SOURCE_COPY, 18, 0, 6);
    hold(&scene, 2, SOURCE_COPY, 18, 0, 6);
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.base_step, 25);
    ck_assert_int_eq(scene.recovery.copied.step, 18);
    ck_assert(!scene.recovery.copy_soon);
    scene.progress[2].reported = false;
    must_recover(&scene);
    ck_assert_int_eq(scene.recovery.copied.step, 24);
    ck_assert(scene.recovery.copy_soon);
    scene_close(&scene);
}
END_TEST

START_TEST(state_comes_from_the_own_zone_and_from_who_gives_least)
{
    struct scene scene;
    scene_open(&scene, 6, 2, 1, 6);
    for (int n = 0; n < 5; n++)
        hold(&scene, n, SOURCE_LIVE, 5, 0, 6);
    must_recover(&scene); /* node 5 is of zone 1, as 3 and 4 are */
    int given[NODES_MAX] = {0};
    for (int l = 0; l < 6; l++)
        given[way_of(&scene, 5, l)->from]++;
    ck_assert_int_eq(given[3], 3);
    ck_assert_int_eq(given[4], 3);
    scene_close(&scene);
}
END_TEST

START_TEST(without_the_data_set_there_is_no_way_on)
{
    struct scene scene;
    struct err err = {0};
    scene_open(&scene, 2, 1, 2, 1);
    scene.progress[0].has_data = false;
    ck_assert_int_eq(try_recover(&scene, &err), -1);
    ck_assert_int_eq(err.code, ERR_PLAN);
    ck_assert_ptr_nonnull(strstr(err.msg, "data set"));
    scene.progress[1].has_data = true;
    scene.progress[1].reported = false;
    ck_assert_int_eq(try_recover(&scene, &err), -1);
    scene_close(&scene);
}
END_TEST

/* ---- whatever was said ---- */

static void
random_progress(struct scene *scene, struct rng *rng)
{
    int layers = workload_layers(&scene->request.shape);
    for (int n = 0; n < scene->cluster.nodes_count; n++) {
        struct progress *progress = &scene->progress[n];
        *progress = (struct progress){
            .reported = rng_below(rng, 8) > 0, .applied = -1, .has_data = true};
        int holdings = (int)rng_below(rng, 4);
        for (int i = 0; i < holdings; i++) {
            int first = (int)rng_below(rng, (uint64_t)layers);
            int count = 1 + (int)rng_below(rng, (uint64_t)(layers - first));
            if (rng_below(rng, 2)) { /* or nothing would ever be whole */
                first = 0;
                count = layers;
            }
            enum state_source source =
                i == 0 ? SOURCE_LIVE : (enum state_source)(2 + rng_below(rng, 2));
            hold_in(scene, 1 + rng_below(rng, 2), n, source,
                    1 + (int64_t)rng_below(rng, 5), first, count);
        }
        if (progress->applied >= 0 && rng_below(rng, 2))
            prepare(scene, n, 1 + rng_below(rng, 2));
        progress->reported |= n == 0;
    }
}

/* Written anew and simply: is this layer there at that step, as that epoch computed it? */
static bool
has_layer(const struct scene *scene, int node, int layer, int64_t step, uint64_t epoch,
          enum state_source source)
{
    const struct progress *progress = &scene->progress[node];
    bool applies = false;
    for (int n = 0; n < scene->cluster.nodes_count; n++)
        if (scene->progress[n].reported && scene->progress[n].applied == step &&
            scene->progress[n].lineage.epoch == epoch)
            applies = true;
    applies = applies && progress->prepared && progress->applied + 1 == step &&
              progress->prepared_in.epoch == epoch;
    for (int i = 0; progress->reported && i < progress->holdings_count; i++) {
        const struct holding *holding = &progress->holdings[i];
        bool here = layer >= holding->first_layer &&
                    layer < holding->first_layer + holding->layers;
        bool now = (holding->name.step == step && holding->name.lineage.epoch == epoch) ||
                   (applies && holding->source == SOURCE_LIVE);
        if (here && now && (source == SOURCE_NONE || source == holding->source))
            return true;
    }
    return false;
}

static bool
whole_at(const struct scene *scene, int64_t step, uint64_t epoch)
{
    for (int l = 0; l < workload_layers(&scene->request.shape); l++) {
        bool found = false;
        for (int n = 0; n < scene->cluster.nodes_count; n++)
            found |= has_layer(scene, n, l, step, epoch, SOURCE_NONE);
        if (!found)
            return false;
    }
    return true;
}

static void
check_transfers(const struct scene *scene)
{
    const struct recovery *recovery = &scene->recovery;
    int expected = scene->plan.pipelines_count * workload_layers(&scene->request.shape);
    ck_assert_int_eq(recovery->transfers_count, expected);
    for (int i = 0; i < expected; i++) {
        const struct transfer *way = &recovery->transfers[i];
        if (i > 0)
            ck_assert(way[-1].to < way->to ||
                      (way[-1].to == way->to && way[-1].layer < way->layer));
        if (way->source == SOURCE_SEED) {
            ck_assert_int_eq(recovery->base_step, 0);
            ck_assert_int_eq(way->from, way->to);
        } else {
            ck_assert(has_layer(scene, way->from, way->layer, recovery->base_step,
                                recovery->lineage.epoch, way->source));
        }
        if (has_layer(scene, way->to, way->layer, recovery->base_step,
                      recovery->lineage.epoch, SOURCE_NONE))
            ck_assert_int_eq(way->from, way->to);
    }
}

START_TEST(the_newest_whole_step_wins_and_every_layer_has_a_source)
{
    struct rng rng = {.seed = suite_seed(
                          "the_newest_whole_step_wins_and_every_layer_has_a_source", 11)};
    int prepared = 0, began = 0, older = 0;
    for (int round = 0; round < 3000; round++) {
        struct scene scene;
        int stages = 1 + (int)rng_below(&rng, 3);
        int pipelines = 1 + (int)rng_below(&rng, 2);
        scene_open(&scene, NODES_MAX, 1 + (int)rng_below(&rng, 3), stages, pipelines);
        random_progress(&scene, &rng);
        must_recover(&scene);
        const struct recovery *recovery = &scene.recovery;
        for (int64_t step = 7; step > recovery->base_step; step--)
            ck_assert_msg(!whole_at(&scene, step, 1) && !whole_at(&scene, step, 2),
                          "step %d was whole", (int)step);
        uint64_t epoch = recovery->lineage.epoch;
        ck_assert(recovery->base_step == 0 ||
                  whole_at(&scene, recovery->base_step, epoch));
        ck_assert(epoch != 1 || !whole_at(&scene, recovery->base_step, 2));
        older += epoch == 1;
        check_transfers(&scene);
        bool applied = false;
        int64_t newest = 0;
        for (int n = 0; n < NODES_MAX; n++) {
            if (!scene.progress[n].reported)
                continue;
            applied |= scene.progress[n].applied == recovery->base_step &&
                       scene.progress[n].lineage.epoch == epoch;
            if (scene.progress[n].applied > newest)
                newest = scene.progress[n].applied;
        }
        ck_assert(!recovery->apply_prepared || applied);
        ck_assert_int_eq(recovery->steps_lost,
                         newest > recovery->base_step ? newest - recovery->base_step : 0);
        prepared += recovery->apply_prepared;
        began += recovery->base_step == 0;
        scene_close(&scene);
    }
    ck_assert_int_gt(prepared, 100); /* the chance was not in vain */
    ck_assert_int_gt(older, 100);
    ck_assert_int_gt(began, 10);
    ck_assert_int_lt(began, 2000);
}
END_TEST

START_TEST(every_voter_finds_the_same)
{
    struct rng rng = {.seed = suite_seed("every_voter_finds_the_same", 12)};
    for (int round = 0; round < 200; round++) {
        struct scene scene;
        struct recovery again;
        struct err err;
        scene_open(&scene, NODES_MAX, 2, 2, 2);
        random_progress(&scene, &rng);
        must_recover(&scene);
        ck_assert_int_eq(recover(&scene.plan, &scene.request, &scene.cluster,
                                 scene.progress, &again, &err),
                         0);
        const struct recovery *first = &scene.recovery;
        ck_assert_int_eq(first->base_step, again.base_step);
        ck_assert_uint_eq(first->lineage.epoch, again.lineage.epoch);
        ck_assert_uint_eq(first->norm_bits, again.norm_bits);
        ck_assert_uint_eq(first->samples_hash, again.samples_hash);
        ck_assert_int_eq(first->copied.step, again.copied.step);
        ck_assert(memcmp(first->transfers, again.transfers,
                         (size_t)again.transfers_count * sizeof(struct transfer)) == 0);
        ck_assert(memcmp(first->data_from, again.data_from, NODES_MAX * sizeof(int)) ==
                  0);
        recovery_release(&again);
        scene_close(&scene);
    }
}
END_TEST

/* ---- duties ---- */

START_TEST(a_copy_is_kept_in_another_zone)
{
    struct scene scene;
    struct duties duties;
    scene_open(&scene, 4, 2, 2, 2); /* stage 0 in zone 0, stage 1 in zone 1 */
    recover_duties(&scene.plan, &scene.cluster, 1, &duties);
    ck_assert_int_eq(duties.source[0], 0);
    ck_assert_int_eq(duties.source[1], 2);
    ck_assert_int_eq(duties.keeper[0], 2);
    ck_assert_int_eq(duties.keeper[1], 0);
    ck_assert_int_eq(duties.gatherers_count, 2);
    ck_assert_int_eq(duties.gatherers[0], 1);
    ck_assert_int_eq(duties.gatherers[1], 2);
    ck_assert_int_eq(duties.keeper[2], -1);
    scene_close(&scene);
}
END_TEST

START_TEST(a_copy_is_never_kept_by_a_replica_of_the_stage)
{
    struct scene scene;
    struct duties duties;
    scene_open(&scene, 2, 1, 1, 2);
    recover_duties(&scene.plan, &scene.cluster, -1, &duties);
    ck_assert_int_eq(duties.keeper[0], -1); /* there is nobody else */
    ck_assert_int_eq(duties.gatherers[0], 0);
    ck_assert_int_eq(duties.gatherers[1], 1);
    scene_close(&scene);
    scene_open(&scene, 3, 1, 1, 2);
    recover_duties(&scene.plan, &scene.cluster, -1, &duties);
    ck_assert_int_eq(duties.keeper[0], 2); /* one without a part in the plan */
    scene_close(&scene);
}
END_TEST

START_TEST(keepers_are_spread)
{
    struct scene scene;
    struct duties duties;
    scene_open(&scene, 6, 2, 3, 1); /* nodes 0 to 2 train, 3 to 5 are of the other zone */
    recover_duties(&scene.plan, &scene.cluster, 0, &duties);
    for (int s = 0; s < 3; s++)
        ck_assert_int_eq(duties.keeper[s], 3 + s);
    ck_assert_int_eq(duties.gatherers[1], 3);
    scene_close(&scene);
}
END_TEST

START_TEST(one_node_alone_gathers_for_itself)
{
    struct scene scene;
    struct duties duties;
    scene_open(&scene, 1, 1, 1, 1);
    recover_duties(&scene.plan, &scene.cluster, 0, &duties);
    ck_assert_int_eq(duties.keeper[0], -1);
    ck_assert_int_eq(duties.gatherers_count, 1);
    scene_close(&scene);
}
END_TEST

Suite *
suite_recover(void)
{
    Suite *suite = suite_create("recover");
    TCase *base = suite_case(suite, "base", 10);
    tcase_add_test(base, a_new_job_begins_from_its_seed);
    tcase_add_test(base, what_all_remember_and_nobody_has_is_done_again_and_counted);
    tcase_add_test(base, who_prepared_what_another_applied_applies_it_too);
    tcase_add_test(base, a_step_that_nobody_applied_is_done_again);
    tcase_add_test(base, gradients_of_an_epoch_that_was_redone_are_not_applied);
    tcase_add_test(base,
                   a_step_that_was_done_again_is_not_the_one_that_another_still_holds);
    tcase_add_test(base, epochs_of_two_swarms_are_told_apart_by_their_decrees);
    tcase_add_test(
        base, who_got_its_state_from_others_tells_nobody_a_norm_that_it_does_not_know);
    tcase_add_test(base, a_lost_stage_falls_back_to_the_copies_of_one_step);
    tcase_add_test(base, a_copy_that_two_have_is_worth_more_than_a_newer_one_of_one);
    tcase_add_test(base, state_comes_from_the_own_zone_and_from_who_gives_least);
    tcase_add_test(base, without_the_data_set_there_is_no_way_on);
    TCase *property = suite_case(suite, "property", 30);
    tcase_add_test(property, the_newest_whole_step_wins_and_every_layer_has_a_source);
    tcase_add_test(property, every_voter_finds_the_same);
    TCase *duties = suite_case(suite, "duties", 10);
    tcase_add_test(duties, a_copy_is_kept_in_another_zone);
    tcase_add_test(duties, a_copy_is_never_kept_by_a_replica_of_the_stage);
    tcase_add_test(duties, keepers_are_spread);
    tcase_add_test(duties, one_node_alone_gathers_for_itself);
    return suite;
}
