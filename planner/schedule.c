#include "planner/schedule.h"
#include "transport/base/must.h"

int
schedule_in_flight(int stages, int stage, int micro_batches)
{
    must(stage >= 0 && stage < stages && micro_batches > 0);
    int depth = stages - stage;
    return depth < micro_batches ? depth : micro_batches;
}

int
schedule_length(int micro_batches)
{
    must(micro_batches > 0);
    return 2 * micro_batches + 2;
}

struct schedule_op
schedule_at(int stages, int stage, int micro_batches, int index)
{
    must(index >= 0 && index < schedule_length(micro_batches));
    int slots = schedule_in_flight(stages, stage, micro_batches);
    int m = micro_batches;
    /* Forwards before the first backward, one more stage behind for each stage ahead. */
    int warm_up = stages - stage - 1 < m ? stages - stage - 1 : m;

    struct schedule_op op = {.kind = SCHEDULE_FORWARD, .micro_batch = index, .slot = 0};
    if (index == 2 * m || index == 2 * m + 1) {
        op.kind = index == 2 * m ? SCHEDULE_REDUCE : SCHEDULE_UPDATE;
        op.micro_batch = -1;
        return op;
    }
    if (index >= 2 * m - warm_up) {
        op.kind = SCHEDULE_BACKWARD;
        op.micro_batch = index - m;
    } else if (index >= warm_up) {
        int turn = (index - warm_up) / 2;
        int forward = (index - warm_up) % 2 == 0;
        op.kind = forward ? SCHEDULE_FORWARD : SCHEDULE_BACKWARD;
        op.micro_batch = forward ? warm_up + turn : turn;
    }
    op.slot = op.micro_batch % slots;
    return op;
}

void
schedule_fill(int stages, int stage, int micro_batches, struct schedule_op *ops)
{
    int length = schedule_length(micro_batches);
    for (int i = 0; i < length; i++)
        ops[i] = schedule_at(stages, stage, micro_batches, i);
}
