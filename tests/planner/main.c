#include "tests/suite.h"

#include <stddef.h>

Suite *suite_cluster(void);
Suite *suite_cut(void);
Suite *suite_fleet(void);
Suite *suite_fleet_search(void);
Suite *suite_next(void);
Suite *suite_plan(void);
Suite *suite_repair(void);
Suite *suite_schedule(void);
Suite *suite_search(void);
Suite *suite_share(void);
Suite *suite_simulate(void);
Suite *suite_workload(void);

int
main(void)
{
    Suite *(*const suites[])(void) = {
        suite_cluster,  suite_cut,          suite_share,  suite_plan,
        suite_schedule, suite_simulate,     suite_search, suite_workload,
        suite_fleet,    suite_fleet_search, suite_repair, suite_next, NULL,
    };
    return suite_run(suites);
}
