#include "transport/base/must.h"

#include <stdio.h>
#include <stdlib.h>

void
must_fail(const char *cond, const char *file, int line)
{
    fprintf(stderr, "%s:%d: this must be true: %s\n", file, line, cond);
    abort();
}
