#include "tests/suite.h"

#include <stddef.h>

Suite *suite_codec(void);
Suite *suite_key(void);

int
main(void)
{
    Suite *(*const suites[])(void) = {suite_codec, suite_key, NULL};
    return suite_run(suites);
}
