/* How a framework that overlaps nothing passes boundaries on, against times that were reckoned
 * by hand: two stages of one layer, three micro-batches, a message of 1 GB takes 1 s. */
#include "planner/evaluate.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"

#include <math.h>
#include <stdio.h>

enum { STAGES = 2, MICRO_BATCHES = 3, TP = 4, WIDTH_MAX = 2 };

/* Seconds of either pass of each stage's layer, whatever the degree. */
static struct fleet *
two_layers(double first_s, double second_s)
{
    static const int degrees[] = {1, TP};
    struct fleet *fleet = fleet_new();
    fleet->cost_model = COST_MODEL_REPLAY;
    fleet->table.layers_count = STAGES;
    fleet->table.sequence_tokens = 1;
    fleet->kinds_count = fleet->zones_count = fleet->pools_count = 1;
    struct fleet_kind *kind = &fleet->kinds[0];
    (void)snprintf(kind->name, sizeof(kind->name), "card");
    kind->memory_bytes = INT64_C(1) << 50;
    kind->machine_devices = TP;
    kind->correction = 1.0;
    kind->times = xcalloc(2, sizeof(*kind->times));
    kind->times_count = 2;
    (void)snprintf(fleet->zones[0].name, sizeof(fleet->zones[0].name), "here");
    fleet->pools[0] =
        (struct fleet_pool){.devices = STAGES * TP * WIDTH_MAX, .usd_per_hour = -1.0};
    fleet_pools_done(fleet);
    fleet->curves = xcalloc(1, sizeof(*fleet->curves));
    fleet->curves_count = 1;
    fleet_curve_plain(&fleet->curves[0], 8000.0, 0.0);
    for (int i = 0; i < 2; i++) {
        int slot = tp_slot(degrees[i]);
        fleet->table.sizes[slot] = xcalloc(STAGES, sizeof(*fleet->table.sizes[slot]));
        struct fleet_times *times = &kind->times[i];
        times->micro_batch = 1;
        times->tp = degrees[i];
        times->layers = xcalloc(STAGES, sizeof(*times->layers));
        times->layers[0] = (struct layer_time){first_s, first_s, 0.0};
        times->layers[1] = (struct layer_time){second_s, second_s, 0.0};
        for (int l = 0; l < STAGES; l++)
            fleet->table.sizes[slot][l] = (struct layer_size){
                .parameters = 1, .output_bytes = 1000000000, .kept_bytes = 1};
        for (int j = 0; j < 2; j++)
            *fleet_link(fleet, 0, slot, 0, tp_slot(degrees[j])) = 0;
    }
    return fleet;
}

/* Of `width` equal pipelines. */
static double
iteration_of(const struct fleet *fleet, const struct framework *framework, int tp,
             int width)
{
    struct fleet_request request;
    fleet_request_init(&request, MICRO_BATCHES * width);
    request.framework = *framework;
    struct fleet_plan plan;
    fleet_plan_init(&plan, STAGES, width);
    plan.micro_batch = 1;
    for (int s = 0; s < STAGES; s++) {
        plan.first_layer[s] = s;
        plan.layers[s] = 1;
        for (int j = 0; j < width; j++) {
            plan.micro_batches[j] = MICRO_BATCHES;
            plan.replicas[s * width + j] = (struct replica){.pool = 0, .tp = (int16_t)tp};
        }
    }
    struct err err;
    struct estimate estimate;
    ck_assert_msg(fleet_check(fleet, &err) == 0, "%s", err.msg);
    ck_assert_msg(fleet_plan_check(&plan, &request, fleet, &err) == 0, "%s", err.msg);
    ck_assert_msg(evaluate(&plan, &request, fleet, NULL, NULL, &estimate, &err) == 0,
                  "%s", err.msg);
    fleet_plan_release(&plan);
    return estimate.iteration_s;
}

static void
takes(double seconds, double first_s, double second_s, int tp, bool overlap,
      int64_t buffer)
{
    struct fleet *fleet = two_layers(first_s, second_s);
    struct framework framework = {
        .overlap = overlap, .bucket_bytes = 1e9, .transfer_buffer_bytes = buffer};
    double own = iteration_of(fleet, &framework, tp, 1);
    ck_assert_msg(fabs(own - seconds) < 1e-9, "%g s, not %g", own, seconds);
    fleet_free(fleet);
}

enum { ALL = 1000000000, QUARTER = 250000000 };

/* The last stage waits for the gradient's way there and the activation's way back, each time:
 * 1 to fill, 1 s of each message, (3 + 3) s for each micro-batch; ours has the next input ready. */
START_TEST(neighbours_exchange_a_gradient_and_an_activation_before_either_goes_on)
{
    takes(26.0, 1.0, 3.0, 1, false, ALL);
    takes(22.0, 1.0, 3.0, 1, true, 0);
}
END_TEST

/* The gradient has come long before the first stage looks for it, and what goes out fits. */
START_TEST(buffers_hide_messages_where_the_first_stage_is_the_slowest)
{
    takes(24.0, 4.0, 1.0, 1, false, ALL);
}
END_TEST

/* Three quarters hold up who sends, and who looks for it late: the first stage by three
 * activations and three gradients, 3 / 4 s each; without buffers by the former, 1 s each. */
START_TEST(what_the_buffers_do_not_take_holds_up_both_ends)
{
    takes(28.5, 4.0, 1.0, 1, false, QUARTER);
    takes(27.0, 4.0, 1.0, 1, false, 0);
}
END_TEST

START_TEST(each_device_of_a_group_has_buffers_of_its_own)
{
    takes(24.0, 4.0, 1.0, TP, false, QUARTER);
}
END_TEST

/* The second stage ends its last backward at 19 s and reduces for 1 s, the first ends at 24. */
START_TEST(no_stage_reduces_before_the_last_backward_of_all)
{
    struct fleet *fleet = two_layers(4.0, 1.0);
    fleet->table.sizes[0][1].parameters = ALL / 4;
    struct framework framework = {.bucket_bytes = 1e9, .transfer_buffer_bytes = ALL};
    ck_assert(fabs(iteration_of(fleet, &framework, 1, WIDTH_MAX) - 25.0) < 1e-6);
    framework.overlap = true;
    ck_assert(fabs(iteration_of(fleet, &framework, 1, WIDTH_MAX) - 24.0) < 1e-6);
    fleet_free(fleet);
}
END_TEST

Suite *suite_framework(void);

Suite *
suite_framework(void)
{
    Suite *suite = suite_create("framework");
    TCase *all = suite_case(suite, "framework", 20);
    tcase_add_test(
        all, neighbours_exchange_a_gradient_and_an_activation_before_either_goes_on);
    tcase_add_test(all, buffers_hide_messages_where_the_first_stage_is_the_slowest);
    tcase_add_test(all, what_the_buffers_do_not_take_holds_up_both_ends);
    tcase_add_test(all, each_device_of_a_group_has_buffers_of_its_own);
    tcase_add_test(all, no_stage_reduces_before_the_last_backward_of_all);
    return suite;
}
