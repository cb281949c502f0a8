#include "transport/base/clock.h"

#include <errno.h>
#include <time.h>

static int64_t
read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
clock_ms(void)
{
    return read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t
clock_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t
clock_thread_cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

int64_t
clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

void
clock_sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}
