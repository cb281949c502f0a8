#include "tests/suite.h"

#include <stddef.h>

Suite *suite_choices(void);
Suite *suite_cluster(void);
Suite *suite_cut(void);
Suite *suite_faults(void);
Suite *suite_fill(void);
Suite *suite_fleet(void);
Suite *suite_fleet_search(void);
Suite *suite_framework(void);
Suite *suite_lineup(void);
Suite *suite_muster(void);
Suite *suite_next(void);
Suite *suite_parts(void);
Suite *suite_plan(void);
Suite *suite_repair(void);
Suite *suite_refuse(void);
Suite *suite_schedule(void);
Suite *suite_workload(void);

int
main(void)
{
    Suite *(*const suites[])(void) = {
        suite_cluster,   suite_plan,   suite_schedule,
        suite_workload,  suite_fleet,  suite_fleet_search,
        suite_repair,    suite_muster, suite_next,
        suite_choices,   suite_faults, suite_refuse,
        suite_framework, suite_fill,   suite_cut,
        suite_lineup,    suite_parts,  NULL,
    };
    return suite_run(suites);
}
