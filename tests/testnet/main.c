#include "tests/suite.h"

#include <stddef.h>

Suite *suite_scenario(void);
Suite *suite_relay(void);
Suite *suite_process(void);
Suite *suite_history(void);
Suite *suite_expect(void);
Suite *suite_verdict(void);
Suite *suite_runner(void);
Suite *suite_links(void);

int
main(void)
{
    Suite *(*const suites[])(void) = {suite_scenario, suite_relay,  suite_process,
                                      suite_history,  suite_expect, suite_verdict,
                                      suite_runner,   suite_links,  NULL};
    return suite_run(suites);
}
