#include "planner/fleet.h"
#include "tests/suite.h"
#include "transport/base/rng.h"

#include <math.h>

START_TEST(own_log2_is_exact_to_the_last_bits)
{
    struct rng rng = {.seed = suite_seed(__func__, 1)};
    for (int i = 0; i < 100000; i++) {
        double x = (1.0 + rng_unit(&rng)) * (double)(UINT64_C(1) << rng_below(&rng, 50));
        x /= 1e6;
        ck_assert_double_eq_tol(fleet_log2(x), log2(x), 2e-15 * (1.0 + fabs(log2(x))));
    }
    for (int e = -20; e <= 40; e++)
        ck_assert_double_eq(fleet_log2(ldexp(1.0, e)), (double)e);
}
END_TEST

START_TEST(curve_is_clamped_to_the_range_it_was_fitted_in)
{
    const struct fleet_curve curve = {.c2 = -0.0024,
                                      .c1 = 0.14,
                                      .c0 = 1.1,
                                      .low_bytes = 65536.0,
                                      .high_bytes = 1073741824.0};
    ck_assert_double_eq(fleet_send_s(&curve, 0.0), 0.0);
    ck_assert_double_eq_tol(fleet_send_s(&curve, 100.0) * 655.36,
                            fleet_send_s(&curve, 65536.0), 1e-15);
    ck_assert_double_eq_tol(fleet_send_s(&curve, 4.0 * 1073741824.0),
                            4.0 * fleet_send_s(&curve, 1073741824.0), 1e-12);
    const struct fleet_curve dead = {.low_bytes = 1.0, .high_bytes = 1e9};
    ck_assert_double_ge(fleet_send_s(&dead, 1.0), FLEET_NEVER_S);
}
END_TEST

Suite *suite_fleet(void);

Suite *
suite_fleet(void)
{
    Suite *suite = suite_create("fleet");
    TCase *all = suite_case(suite, "fleet", 20);
    tcase_add_test(all, own_log2_is_exact_to_the_last_bits);
    tcase_add_test(all, curve_is_clamped_to_the_range_it_was_fitted_in);
    return suite;
}
