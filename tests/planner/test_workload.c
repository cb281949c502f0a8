#include "planner/workload.h"
#include "tests/suite.h"
#include "transport/base/limits.h"

#include <string.h>

Suite *suite_workload(void);

static const struct model_shape gpt2 = {
    .blocks = 12, .heads = 12, .hidden = 768, .context = 1024, .vocabulary = 50257};
static const struct model_shape small = {
    .blocks = 3, .heads = 2, .hidden = 20, .context = 9, .vocabulary = 33};

static int64_t
parameters(const struct model_shape *shape)
{
    int64_t sum = 0;
    for (int layer = 0; layer < workload_layers(shape); layer++)
        sum += workload_layer_parameters(shape, layer);
    return sum;
}

START_TEST(gpt2_has_the_parameters_it_is_known_for)
{
    ck_assert_int_eq(parameters(&gpt2), 124439808);
    ck_assert_int_eq(workload_layers(&gpt2), 14);
    ck_assert_int_eq(workload_tensor_count(&gpt2), 148);
}
END_TEST

START_TEST(tensors_have_the_names_and_shapes_of_the_files)
{
    struct tensor_spec tensor;
    workload_tensor(&gpt2, 0, &tensor);
    ck_assert_str_eq(tensor.name, "transformer.wte.weight");
    ck_assert(tensor.shape[0] == 50257 && tensor.shape[1] == 768 && tensor.dims == 2);
    workload_tensor(&gpt2, 1, &tensor);
    ck_assert_str_eq(tensor.name, "transformer.wpe.weight");
    ck_assert(tensor.shape[0] == 1024 && tensor.decay && tensor.layer == 0);
    workload_tensor(&gpt2, 2 + 12 * 11 + 2, &tensor);
    ck_assert_str_eq(tensor.name, "transformer.h.11.attn.c_attn.weight");
    ck_assert(tensor.shape[0] == 768 && tensor.shape[1] == 2304 && tensor.layer == 12);
    workload_tensor(&gpt2, 2 + 10, &tensor);
    ck_assert_str_eq(tensor.name, "transformer.h.0.mlp.c_proj.weight");
    ck_assert(tensor.shape[0] == 3072 && tensor.shape[1] == 768);
    ck_assert_int_eq(tensor.init, INIT_NORMAL_RESIDUAL);
    workload_tensor(&gpt2, 147, &tensor);
    ck_assert_str_eq(tensor.name, "transformer.ln_f.bias");
    ck_assert(tensor.dims == 1 && tensor.elements == 768 && !tensor.decay);
    ck_assert_int_eq(tensor.layer, 13);
}
END_TEST

START_TEST(every_tensor_is_in_the_run_of_its_layer)
{
    int next = 0;
    for (int layer = 0; layer < workload_layers(&small); layer++) {
        int first, count;
        workload_layer_tensors(&small, layer, &first, &count);
        ck_assert_int_eq(first, next);
        for (int i = first; i < first + count; i++) {
            struct tensor_spec tensor;
            workload_tensor(&small, i, &tensor);
            ck_assert_int_eq(tensor.layer, layer);
        }
        next += count;
    }
    ck_assert_int_eq(next, workload_tensor_count(&small));
    ck_assert_int_eq(workload_layer_kind(&small, 0), LAYER_EMBEDDING);
    ck_assert_int_eq(workload_layer_kind(&small, 1), LAYER_BLOCK);
    ck_assert_int_eq(workload_layer_kind(&small, 3), LAYER_BLOCK);
    ck_assert_int_eq(workload_layer_kind(&small, 4), LAYER_HEAD);
}
END_TEST

START_TEST(flops_are_those_of_matrix_products_and_causal_attention)
{
    double sum = 0;
    for (int layer = 0; layer < workload_layers(&gpt2); layer++)
        sum += workload_layer_flops(&gpt2, layer);
    double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
    ck_assert_double_eq_tol(sum, 6 * matrices + 6.0 * 12 * 1024 * 768, 1);
}
END_TEST

START_TEST(shapes_out_of_range_are_refused_with_a_sentence)
{
    static const struct {
        struct model_shape shape;
        const char *text;
    } cases[] = {
        {{0, 2, 4, 8, 256}, "\"layers\" is 0: must be from 1 to 341"},
        {{342, 2, 4, 8, 256}, "\"layers\" is 342"},
        {{1, 2, 0, 8, 256}, "\"hidden\" is 0"},
        {{1, 0, 4, 8, 256}, "\"heads\" is 0"},
        {{1, 3, 4, 8, 256}, "not divisible by \"heads\", which is 3"},
        {{1, 5, 4, 8, 256}, "\"heads\" is 5: must be from 1 to 4"},
        {{1, 2, 4, 0, 256}, "\"context\" is 0"},
        {{1, 2, 4, 8, 1}, "\"vocabulary\" is 1"},
        {{1, 2, 1 << 20, 8, 256}, "\"hidden\" is 1048576"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        ck_assert_int_eq(model_shape_check(&cases[i].shape, &err), -1);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_msg(strstr(err.msg, cases[i].text) != NULL, "%s", err.msg);
    }
    struct err err = {0};
    struct model_shape most = {341, 1, 1, 1, 2};
    ck_assert_int_eq(model_shape_check(&most, &err), 0);
    ck_assert_int_le(workload_tensor_count(&most), TENSORS_MAX);
    ck_assert_int_eq(model_shape_check(&gpt2, &err), 0);
}
END_TEST

/* Tensors of an arena, by place: none overlaps, all are aligned, the arena ends after the
 * last. */
static void
arena_check(const struct stage_layout *layout, bool gradients)
{
    int64_t end = 0;
    for (int t = -1; t < workload_tensor_count(&small); t++) {
        struct tensor_spec tensor;
        workload_tensor(&small, t < 0 ? 0 : t, &tensor);
        int64_t place;
        if (t < 0) /* the copy of the table comes first in the weights */
            place = !gradients && !layout->embedding && layout->head ? layout->tied_weight
                                                                     : -1;
        else if (t == 0 && !layout->embedding)
            continue;
        else
            place = gradients ? workload_gradient_place(&small, layout, t)
                              : workload_weight_place(&small, layout, t);
        if (place < 0)
            continue;
        ck_assert_int_eq(place % 16, 0);
        ck_assert_int_eq(place, end);
        end = place + (tensor.elements + 15) / 16 * 16;
    }
    if (gradients && layout->head) {
        ck_assert_int_eq(layout->tied_gradient, end);
        end += (int64_t)(33 * 20 + 15) / 16 * 16;
    }
    ck_assert_int_eq(end, gradients ? layout->gradients : layout->weights);
}

START_TEST(layouts_hold_every_tensor_once)
{
    for (int first = 0; first < workload_layers(&small); first++)
        for (int layers = 1; first + layers <= workload_layers(&small); layers++) {
            struct stage_spec spec = {first, layers, 2, 1, false};
            struct stage_layout layout;
            workload_stage_layout(&small, &spec, &layout);
            arena_check(&layout, false);
            arena_check(&layout, true);
            int held = 0;
            for (int t = 0; t < workload_tensor_count(&small); t++) {
                int64_t weight = workload_weight_place(&small, &layout, t);
                int64_t gradient = workload_gradient_place(&small, &layout, t);
                ck_assert((weight < 0) == (gradient < 0));
                held += weight >= 0;
            }
            ck_assert_int_eq(held, layout.tensors + (layout.head && !layout.embedding));
        }
}
END_TEST

START_TEST(stage_bytes_add_up)
{
    struct stage_spec whole = {0, 5, 2, 1, false}, middle = {1, 2, 2, 3, true},
                      last = {3, 2, 2, 1, true};
    struct stage_bytes bytes;
    struct communication_layout communication;
    workload_stage_bytes(&small, &whole, &bytes);
    ck_assert_int_ge(bytes.weights, parameters(&small) * 4);
    ck_assert_int_le(bytes.weights,
                     parameters(&small) * 4 + 64L * workload_tensor_count(&small));
    ck_assert_int_eq(bytes.optimizer, 2 * bytes.weights);
    ck_assert_int_eq(bytes.copies, 0);
    workload_communication_floats(&small, &whole, &communication);
    ck_assert_int_eq(communication.total, communication.reduction);
    ck_assert_int_eq(communication.reduction * 8, bytes.gradients);

    int64_t boundary = workload_boundary_bytes(&small, 2);
    ck_assert_int_eq(boundary, 2L * 9 * 20 * 4);
    workload_communication_floats(&small, &middle, &communication);
    ck_assert_int_eq(communication.boundary * 4, boundary);
    ck_assert_int_eq(communication.activation_receive, 3 * communication.boundary);
    ck_assert_int_eq(communication.gradient_send, 3 * communication.boundary);
    ck_assert_int_eq(communication.activation_send, 3 * communication.boundary);
    ck_assert_int_eq(communication.gradient_receive, 3 * communication.boundary);
    ck_assert_int_eq(communication.tied, 0);
    workload_stage_bytes(&small, &middle, &bytes);
    ck_assert_int_eq(bytes.copies, 3 * bytes.weights);
    ck_assert_int_eq(bytes.communication, communication.total * 4);
    ck_assert_int_eq(bytes.total, bytes.weights + bytes.gradients + bytes.optimizer +
                                      bytes.activations + bytes.workspace +
                                      bytes.communication + bytes.copies);

    workload_communication_floats(&small, &last, &communication);
    ck_assert_int_eq(communication.activation_send, 0);
    ck_assert_int_eq(communication.gradient_receive, 0);
    ck_assert_int_eq(communication.tied, 33L * 20);
}
END_TEST

START_TEST(more_in_flight_takes_as_much_more_activations)
{
    struct stage_spec spec = {1, 2, 2, 1, false};
    struct stage_bytes one, four;
    workload_stage_bytes(&small, &spec, &one);
    spec.in_flight = 4;
    workload_stage_bytes(&small, &spec, &four);
    ck_assert_int_eq(four.activations, 4 * one.activations);
    ck_assert_int_eq(four.workspace, one.workspace);
    ck_assert_int_eq(four.weights, one.weights);
}
END_TEST

Suite *
suite_workload(void)
{
    Suite *suite = suite_create("workload");
    TCase *tests = suite_case(suite, "workload", 10);
    tcase_add_test(tests, gpt2_has_the_parameters_it_is_known_for);
    tcase_add_test(tests, tensors_have_the_names_and_shapes_of_the_files);
    tcase_add_test(tests, every_tensor_is_in_the_run_of_its_layer);
    tcase_add_test(tests, flops_are_those_of_matrix_products_and_causal_attention);
    tcase_add_test(tests, shapes_out_of_range_are_refused_with_a_sentence);
    tcase_add_test(tests, layouts_hold_every_tensor_once);
    tcase_add_test(tests, stage_bytes_add_up);
    tcase_add_test(tests, more_in_flight_takes_as_much_more_activations);
    return suite;
}
