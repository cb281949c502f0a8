/*
 * clock.h - the only place that reads a clock.
 *
 * Monotonic time drives everything; wall time is for people's eyes in a log and
 * is never compared with another machine's.
 */
#ifndef TRANSPORT_BASE_CLOCK_H
#define TRANSPORT_BASE_CLOCK_H

#include <stdint.h>

int64_t
clock_ms(void); /* monotonic, milliseconds; the same for all processes of a machine */
int64_t clock_us(void);            /* monotonic, microseconds */
int64_t clock_thread_cpu_us(void); /* CPU time of this thread, microseconds */
int64_t clock_wall_ms(void);       /* since 1970, milliseconds */
void clock_sleep_ms(int64_t ms);

#endif
