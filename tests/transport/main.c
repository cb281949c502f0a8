#include "tests/suite.h"

#include <stddef.h>

Suite *suite_codec(void);
Suite *suite_key(void);
Suite *suite_yaml(void);
Suite *suite_loop(void);
Suite *suite_admit(void);

int
main(void)
{
    Suite *(*const suites[])(void) = {suite_codec, suite_key, suite_loop, suite_admit,
                                      NULL};
    return suite_run(suites);
}
