#include "planner/schedule.h"
#include "tests/suite.h"

#include <string.h>

enum { STAGES = 8, MICRO_BATCHES = 32, OPS = 2 * MICRO_BATCHES + 2 };

/* A stage on its way through its list, and what lies in the channels behind it: -1 when
 * empty. */
struct runner {
    struct schedule_op ops[OPS];
    int next;
    int held; /* micro-batches forward, not yet backward */
    int in_slot[STAGES];
    int forwarded; /* so far */
    int returned;
};

/* One op of one stage, if its channels of capacity 1 allow it. */
static bool
advance(struct runner *runners, int *activation, int *gradient, int stages, int s, int m)
{
    struct runner *runner = &runners[s];
    if (runner->next == 2 * m)
        return false;
    struct schedule_op op = runner->ops[runner->next];
    ck_assert_int_ge(op.slot, 0);
    ck_assert_int_lt(op.slot, schedule_in_flight(stages, s, m));
    if (op.kind == SCHEDULE_FORWARD) {
        bool input = s == 0 || activation[s - 1] == op.micro_batch;
        bool room = s == stages - 1 || activation[s] < 0;
        if (!input || !room)
            return false;
        if (s > 0)
            activation[s - 1] = -1;
        if (s < stages - 1)
            activation[s] = op.micro_batch;
        ck_assert_int_eq(runner->in_slot[op.slot], -1);
        ck_assert_int_eq(op.micro_batch, runner->forwarded++);
        runner->in_slot[op.slot] = op.micro_batch;
        runner->held++;
        ck_assert_int_le(runner->held, schedule_in_flight(stages, s, m));
    } else {
        ck_assert_int_eq(op.kind, SCHEDULE_BACKWARD);
        bool input = s == stages - 1 || gradient[s] == op.micro_batch;
        bool room = s == 0 || gradient[s - 1] < 0;
        if (!input || !room)
            return false;
        if (s < stages - 1)
            gradient[s] = -1;
        if (s > 0)
            gradient[s - 1] = op.micro_batch;
        ck_assert_int_eq(runner->in_slot[op.slot], op.micro_batch);
        ck_assert_int_eq(op.micro_batch, runner->returned++);
        runner->in_slot[op.slot] = -1;
        runner->held--;
    }
    runner->next++;
    return true;
}

static void
run(int stages, int m)
{
    static struct runner runners[STAGES];
    int activation[STAGES];
    int gradient[STAGES];
    memset(runners, 0, sizeof(runners));
    for (int s = 0; s < stages; s++) {
        schedule_fill(stages, s, m, runners[s].ops);
        activation[s] = -1;
        gradient[s] = -1;
        for (int slot = 0; slot < STAGES; slot++)
            runners[s].in_slot[slot] = -1;
    }
    bool moved = true;
    while (moved) {
        moved = false;
        for (int s = 0; s < stages; s++)
            while (advance(runners, activation, gradient, stages, s, m))
                moved = true;
    }
    for (int s = 0; s < stages; s++) {
        ck_assert_msg(runners[s].next == 2 * m, "stage %d of %d stuck at %d of %d", s,
                      stages, runners[s].next, 2 * m);
        ck_assert_int_eq(runners[s].forwarded, m);
        ck_assert_int_eq(runners[s].returned, m);
    }
}

START_TEST(channels_of_one_message_never_deadlock)
{
    for (int stages = 1; stages <= STAGES; stages++)
        for (int m = 1; m <= MICRO_BATCHES; m++)
            run(stages, m);
}
END_TEST

START_TEST(list_ends_with_reduce_and_update)
{
    for (int stages = 1; stages <= STAGES; stages++) {
        for (int m = 1; m <= MICRO_BATCHES; m++) {
            struct schedule_op ops[OPS];
            schedule_fill(stages, stages / 2, m, ops);
            ck_assert_int_eq(schedule_length(m), 2 * m + 2);
            int last = 2 * m + 1;
            ck_assert_int_eq(ops[last - 1].kind, SCHEDULE_REDUCE);
            ck_assert_int_eq(ops[last].kind, SCHEDULE_UPDATE);
            ck_assert_int_eq(ops[last - 1].micro_batch, -1);
            ck_assert_int_eq(ops[last].micro_batch, -1);
        }
    }
}
END_TEST

START_TEST(slots_are_all_used_and_no_more)
{
    for (int stages = 1; stages <= STAGES; stages++) {
        for (int s = 0; s < stages; s++) {
            for (int m = 1; m <= MICRO_BATCHES; m++) {
                int expected = stages - s < m ? stages - s : m;
                ck_assert_int_eq(schedule_in_flight(stages, s, m), expected);
                int most = 0;
                for (int i = 0; i < 2 * m; i++) {
                    int slot = schedule_at(stages, s, m, i).slot;
                    most = slot > most ? slot : most;
                }
                ck_assert_int_eq(most + 1, expected);
            }
        }
    }
}
END_TEST

START_TEST(two_stages_alternate_forward_and_backward)
{
    static const char expected[2][9] = {"FFBFBB", "FBFBFB"};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 6; i++)
            ck_assert_int_eq(schedule_at(2, s, 3, i).kind, expected[s][i] == 'F'
                                                               ? SCHEDULE_FORWARD
                                                               : SCHEDULE_BACKWARD);
}
END_TEST

Suite *suite_schedule(void);
Suite *
suite_schedule(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tests = suite_case(suite, "1f1b", 10);
    tcase_add_test(tests, channels_of_one_message_never_deadlock);
    tcase_add_test(tests, list_ends_with_reduce_and_update);
    tcase_add_test(tests, slots_are_all_used_and_no_more);
    tcase_add_test(tests, two_stages_alternate_forward_and_backward);
    return suite;
}
