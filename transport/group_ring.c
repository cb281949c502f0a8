#include "transport/group_ring.h"
#include "transport/base/must.h"

/* Where slice `i` of the `n` begins; slice n begins at the end. */
static size_t
slice_start(size_t count, int n, int i)
{
    return count / (size_t)n * (size_t)i +
           (count % (size_t)n < (size_t)i ? count % (size_t)n : (size_t)i);
}

size_t
group_ring_scratch(size_t count, int members)
{
    must(members > 0);
    return members == 1 ? 0 : (count + (size_t)members - 1) / (size_t)members;
}

struct ring_wait {
    struct group_ring *group;
    int64_t stall_ms;
    void (*stall)(void *arg, int peer, int64_t waited_ms);
    void *arg;
};

/* Waits until the operation is over, whatever becomes of it, so that its memory is ours
 * again. */
static int
wait_for(const struct ring_wait *wait, uint32_t handle, int peer, struct err *err)
{
    int64_t timeout_ms = wait->stall && wait->stall_ms > 0 ? wait->stall_ms : -1;
    int64_t waited_ms = 0;
    struct err why;
    while (bulk_wait(wait->group->port, handle, timeout_ms, &why) != 0) {
        if (why.code != ERR_PEER || timeout_ms < 0) {
            *err = why;
            return -1;
        }
        waited_ms += timeout_ms;
        wait->stall(wait->arg, peer, waited_ms);
    }
    return 0;
}

/* Send one slice to the next member and receive another from the one before. Empty slices
 * do not travel. */
static int
exchange(const struct ring_wait *wait, uint64_t tag, const float *out, size_t out_count,
         float *in, size_t in_count, struct err *err)
{
    const struct group_ring *group = wait->group;
    int next = group->members[(group->rank + 1) % group->count];
    int before = group->members[(group->rank + group->count - 1) % group->count];
    uint32_t receive = 0, send = 0;
    if (in_count)
        receive = bulk_receive(group->port, before, BULK_REDUCE, tag, in,
                               in_count * sizeof(*in));
    if (out_count)
        send =
            bulk_send(group->port, next, BULK_REDUCE, tag, out, out_count * sizeof(*out));
    struct err why;
    int rc = 0;
    if (receive && wait_for(wait, receive, before, err) != 0)
        rc = -1;
    if (send && wait_for(wait, send, next, &why) != 0 && !rc) {
        *err = why;
        rc = -1;
    }
    return rc;
}

int
group_ring_sum(struct group_ring *group, uint64_t tag, float *data, size_t count,
               float *scratch, int64_t stall_ms,
               void (*stall)(void *arg, int peer, int64_t waited_ms), void *arg,
               struct err *err)
{
    int n = group->count;
    must(n >= 1 && n <= REPLICAS_MAX && group->rank >= 0 && group->rank < n);
    struct ring_wait wait = {group, stall_ms, stall, arg};
    for (int step = 0; step < n - 1; step++) { /* reduce-scatter */
        int out = (group->rank - step + n) % n, in = (out - 1 + n) % n;
        size_t out_at = slice_start(count, n, out), in_at = slice_start(count, n, in);
        size_t in_count = slice_start(count, n, in + 1) - in_at;
        if (exchange(&wait, tag, data + out_at, slice_start(count, n, out + 1) - out_at,
                     scratch, in_count, err) != 0)
            return -1;
        for (size_t i = 0; i < in_count; i++)
            data[in_at + i] = scratch[i] + data[in_at + i];
    }
    for (int step = 0; step < n - 1; step++) { /* all-gather */
        int out = (group->rank + 1 - step + n) % n, in = (out - 1 + n) % n;
        size_t out_at = slice_start(count, n, out), in_at = slice_start(count, n, in);
        if (exchange(&wait, tag, data + out_at, slice_start(count, n, out + 1) - out_at,
                     data + in_at, slice_start(count, n, in + 1) - in_at, err) != 0)
            return -1;
    }
    return 0;
}
