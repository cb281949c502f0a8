#include "node/engine/train_parts.h"
#include "transport/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAITS_ENOUGH = 8, WAIT_SLICE_MS = 100 };

static const char *const wait_names[WAIT_KINDS] = {
    "activation",    "gradient",         "all-reduce",   "tied gradient",
    "norms of step", "state of a layer", "room to send", "copies to be complete",
};

static int
compare_us(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Median and spread (median absolute deviation) of what was measured. */
static int64_t
deadline_ms(const struct wait_history *history)
{
    int64_t sorted[WAITS_KEPT];
    int count = history->count < WAITS_KEPT ? history->count : WAITS_KEPT;
    memcpy(sorted, history->recent_us, (size_t)count * sizeof(*sorted));
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_us);
    int64_t median = sorted[count / 2];
    for (int i = 0; i < count; i++)
        sorted[i] = llabs(sorted[i] - median);
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_us);
    int64_t ms = (median + 4 * sorted[count / 2]) / 1000;
    return ms < STALL_MS_MIN ? STALL_MS_MIN : ms > STALL_MS_MAX ? STALL_MS_MAX : ms;
}

void
train_waited(struct train *train, enum wait_kind kind, int64_t us)
{
    struct wait_history *history = &train->waits[kind];
    if (kind == WAIT_STATE)
        return; /* once an epoch, and never twice the same */
    history->recent_us[history->count++ % WAITS_KEPT] = us;
    if (history->count >= WAITS_ENOUGH)
        history->interval_ms = deadline_ms(history);
}

/* A new plan has other waits: until they are measured, what the planner expects. */
void
train_waits_reset(struct train *train)
{
    int64_t expected_ms = train->epoch->plan.predicted_step_ns / 500000;
    if (expected_ms < STALL_MS_MIN)
        expected_ms = STALL_MS_MIN;
    if (expected_ms > STALL_MS_MAX)
        expected_ms = STALL_MS_MAX;
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        train->waits[kind] = (struct wait_history){.interval_ms = expected_ms};
}

int64_t
train_wait_ms(const struct train *train, enum wait_kind kind)
{
    return train->waits[kind].interval_ms;
}

void
train_stalled(struct train *train, enum wait_kind kind, int peer, int64_t waited_ms)
{
    struct train_report report = {
        .kind = REPORT_STALL, .peer = peer, .waited_ms = waited_ms};
    snprintf(report.what, sizeof(report.what), "%s", wait_names[kind]);
    train_report(train, &report);
}

int
train_wait(struct train *train, enum bulk_channel channel, uint32_t *handle,
           enum wait_kind kind, int peer, struct err *err)
{
    if (!*handle)
        return 0;
    int64_t started_us = clock_us(), stalls = 0;
    for (;;) {
        struct err why;
        if (bulk_wait(train_port(train, channel), *handle, WAIT_SLICE_MS, &why) == 0)
            break;
        if (why.code != ERR_PEER) {
            *handle = 0; /* it is over, and released */
            *err = why;
            return -1;
        }
        flow_pump(train);
        if (train_listen(train, err))
            return -1;
        int64_t waited_ms = (clock_us() - started_us) / 1000;
        if (waited_ms >= train_wait_ms(train, kind) * (stalls + 1)) {
            stalls = waited_ms / train_wait_ms(train, kind);
            train_stalled(train, kind, peer, waited_ms);
        }
    }
    *handle = 0;
    train_waited(train, kind, clock_us() - started_us);
    return 0;
}
