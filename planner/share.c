#include "planner/share.h"
#include "transport/base/must.h"

/* Micro-batches that a pipeline finishes by `limit_ns`, at least one. */
static int
count_within(int64_t limit_ns, int64_t slowest_ns, int64_t others_ns)
{
    if (limit_ns <= others_ns + slowest_ns)
        return 1;
    if (slowest_ns == 0)
        return MICRO_BATCHES_MAX;
    int64_t count = (limit_ns - others_ns) / slowest_ns;
    return count < MICRO_BATCHES_MAX ? (int)count : MICRO_BATCHES_MAX;
}

void
share_evenly(struct plan *plan, int total)
{
    int n = plan->pipelines_count;
    for (int j = 0; j < n; j++)
        plan->micro_batches[j] = total / n + (j < total % n);
}

bool
share_micro_batches(struct plan *plan, int total, const int64_t *slowest_ns,
                    const int64_t *others_ns)
{
    int n = plan->pipelines_count;
    must(n > 0 && n <= REPLICAS_MAX);
    if (total < n || total > n * MICRO_BATCHES_MAX)
        return false;
    bool same = true;
    for (int j = 1; j < n; j++)
        if (slowest_ns[j] != slowest_ns[0] || others_ns[j] != others_ns[0])
            same = false;
    if (same) {
        share_evenly(plan, total);
        return true;
    }
    int64_t low = 0;
    int64_t high = 0;
    for (int j = 0; j < n; j++) {
        int64_t all = ns_plus(others_ns[j], ns_times(MICRO_BATCHES_MAX, slowest_ns[j]));
        high = all > high ? all : high;
    }
    while (high - low > high / 4096) {
        int64_t middle = low + (high - low) / 2;
        int64_t sum = 0;
        for (int j = 0; j < n; j++)
            sum += count_within(middle, slowest_ns[j], others_ns[j]);
        if (sum >= total)
            high = middle;
        else
            low = middle + 1;
    }
    int sum = 0;
    for (int j = 0; j < n; j++) {
        plan->micro_batches[j] = count_within(high, slowest_ns[j], others_ns[j]);
        sum += plan->micro_batches[j];
    }
    if (sum < total)
        return false;
    /* What is too much comes off the pipelines that end last, the later ones first. */
    while (sum > total) {
        int last = -1;
        int64_t last_ns = -1;
        for (int j = 0; j < n; j++) {
            int64_t end = others_ns[j] + plan->micro_batches[j] * slowest_ns[j];
            if (plan->micro_batches[j] > 1 && end >= last_ns) {
                last = j;
                last_ns = end;
            }
        }
        plan->micro_batches[last]--;
        sum--;
    }
    return true;
}
