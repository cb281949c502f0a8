#include "tests/suite.h"

Suite *suite_gradients(void);
Suite *suite_fixture(void);

int
main(void)
{
    static Suite *(*const suites[])(void) = {suite_gradients, suite_fixture, NULL};
    return suite_run(suites);
}
