#include "tests/suite.h"
#include "tests/transport/harness.h"
#include "transport/base/clock.h"
#include "transport/loop.h"

#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

Suite *suite_loop(void);

struct tally {
    struct loop *loop;
    int timer;
    int other;
    int count;
    int fd;
    int64_t first_ms, second_ms;
};

static void
count_one(void *arg)
{
    struct tally *tally = arg;
    tally->count++;
}

static void
stop(void *arg)
{
    loop_stop(arg);
}

static void
count_three_then_cancel(void *arg)
{
    struct tally *tally = arg;
    if (++tally->count == 3)
        loop_timer_cancel(tally->loop, tally->timer);
}

START_TEST(a_timer_fires_every_period_until_it_is_cancelled)
{
    struct loop *loop = harness_open();
    struct tally tally = {.loop = loop};
    tally.timer = loop_timer(loop, 5, count_three_then_cancel, &tally);
    ck_assert_int_gt(tally.timer, 0);
    int64_t start = clock_ms();
    harness_run(loop, 60);
    ck_assert_int_eq(tally.count, 3);
    ck_assert_int_ge(clock_ms() - start, 60);
    harness_close(loop);
}
END_TEST

static void
cancel_other(void *arg)
{
    struct tally *tally = arg;
    tally->count++;
    loop_timer_cancel(tally->loop, tally->other);
    loop_timer_cancel(tally->loop, tally->timer);
}

START_TEST(a_timer_cancelled_by_another_in_the_same_turn_does_not_fire)
{
    struct loop *loop = harness_open();
    struct tally first = {.loop = loop};
    struct tally second = {.loop = loop};
    first.timer = loop_timer(loop, 5, cancel_other, &first);
    first.other = loop_timer(loop, 5, count_one, &second);
    harness_run(loop, 30);
    ck_assert_int_eq(first.count, 1);
    ck_assert_int_eq(second.count, 0);
    harness_close(loop);
}
END_TEST

static void
hold_up(void *arg)
{
    struct tally *tally = arg;
    loop_timer_cancel(tally->loop, tally->timer);
    clock_sleep_ms(100);
}

static bool
counted(const void *arg)
{
    const struct tally *tally = arg;
    return tally->count > 0;
}

START_TEST(a_loop_that_was_held_up_fires_a_timer_once)
{
    struct loop *loop = harness_open();
    struct tally slow = {.loop = loop};
    struct tally quick = {.loop = loop};
    loop_timer(loop, 20, count_one, &quick);
    slow.timer =
        loop_timer(loop, 10, hold_up, &slow); /* five periods pass in the handler */
    ck_assert(harness_until(loop, counted, &quick, 2000));
    ck_assert_int_eq(quick.count, 1);
    harness_close(loop);
}
END_TEST

static void
make_timers(void *arg)
{
    struct tally *tally = arg;
    loop_timer_cancel(tally->loop, tally->timer);
    for (int i = 0; i < 100; i++)
        loop_timer(tally->loop, 1, count_one, tally);
}

START_TEST(a_handler_may_make_timers)
{
    struct loop *loop = harness_open();
    struct tally tally = {.loop = loop};
    tally.timer = loop_timer(loop, 1, make_timers, &tally);
    harness_run(loop, 30);
    ck_assert_int_ge(tally.count, 100);
    harness_close(loop);
}
END_TEST

static void
read_twice_then_cancel(void *arg, int fd)
{
    struct tally *tally = arg;
    ck_assert_int_eq(fd, tally->fd);
    if (++tally->count == 2)
        loop_fd_cancel(tally->loop, fd);
}

START_TEST(a_descriptor_is_served_until_it_cancels_itself)
{
    struct loop *loop = harness_open();
    struct tally tally = {.loop = loop,
                          .fd = eventfd(1, EFD_CLOEXEC)}; /* stays readable */
    loop_fd(loop, tally.fd, read_twice_then_cancel, &tally);
    harness_run(loop, 30);
    ck_assert_int_eq(tally.count, 2);
    close(tally.fd);
    harness_close(loop);
}
END_TEST

static void
cancel_both(void *arg, int fd)
{
    struct tally *tally = arg;
    (void)fd;
    tally->count++;
    loop_fd_cancel(tally->loop, tally->fd);
    loop_fd_cancel(tally->loop, tally->other);
}

START_TEST(a_descriptor_cancelled_by_another_in_the_same_turn_is_not_served)
{
    struct loop *loop = harness_open();
    struct tally tally = {
        .loop = loop, .fd = eventfd(1, EFD_CLOEXEC), .other = eventfd(1, EFD_CLOEXEC)};
    loop_fd(loop, tally.fd, cancel_both, &tally);
    loop_fd(loop, tally.other, cancel_both, &tally);
    harness_run(loop, 20);
    ck_assert_int_eq(tally.count, 1);
    close(tally.fd);
    close(tally.other);
    harness_close(loop);
}
END_TEST

static void
take_one(void *arg, int fd)
{
    struct tally *tally = arg;
    uint64_t value;
    ck_assert_int_eq(read(fd, &value, sizeof(value)), sizeof(value));
    tally->first_ms = loop_now_ms(tally->loop);
    clock_sleep_ms(20);
    tally->second_ms = loop_now_ms(tally->loop);
}

static void
expect_event(void *arg)
{
    struct tally *tally = arg;
    if (tally->first_ms && !tally->count++)
        ck_assert_int_eq(loop_now_ms(tally->loop),
                         tally->second_ms); /* still the same turn */
}

START_TEST(the_time_stands_still_in_a_turn_and_after_follows_its_events)
{
    struct loop *loop = harness_open();
    struct tally tally = {.loop = loop, .fd = eventfd(1, EFD_CLOEXEC)};
    loop_fd(loop, tally.fd, take_one, &tally);
    loop_after(loop, expect_event, &tally);
    harness_run(loop, 40);
    ck_assert_int_gt(tally.first_ms, 0);
    ck_assert_int_eq(tally.first_ms, tally.second_ms);
    ck_assert_int_gt(tally.count, 0);
    close(tally.fd);
    harness_close(loop);
}
END_TEST

static volatile sig_atomic_t alarms;

static void
alarmed(int signal_number)
{
    (void)signal_number;
    alarms++;
}

START_TEST(a_signal_does_not_end_the_loop)
{
    struct loop *loop = harness_open();
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = alarmed;
    struct sigaction before;
    sigaction(SIGALRM, &action, &before);
    struct itimerval every = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &every, NULL);
    int stopper = loop_timer(loop, 50, stop, loop);
    int64_t start = clock_ms();
    loop_run(loop);
    ck_assert_int_ge(clock_ms() - start, 49);
    ck_assert_int_gt(alarms, 3);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    loop_timer_cancel(loop, stopper);
    harness_close(loop);
}
END_TEST

START_TEST(a_loop_runs_again_after_it_was_stopped)
{
    struct loop *loop = harness_open();
    loop_stop(loop);
    loop_run(loop); /* returns: it was stopped before */
    struct tally tally = {.loop = loop};
    loop_timer(loop, 2, count_one, &tally);
    harness_run(loop, 20);
    int count = tally.count;
    ck_assert_int_gt(count, 0);
    harness_run(loop, 20);
    ck_assert_int_gt(tally.count, count);
    harness_close(loop);
}
END_TEST

Suite *
suite_loop(void)
{
    Suite *suite = suite_create("loop");
    TCase *tests = suite_case(suite, "loop", 10);
    tcase_add_test(tests, a_timer_fires_every_period_until_it_is_cancelled);
    tcase_add_test(tests, a_timer_cancelled_by_another_in_the_same_turn_does_not_fire);
    tcase_add_test(tests, a_loop_that_was_held_up_fires_a_timer_once);
    tcase_add_test(tests, a_handler_may_make_timers);
    tcase_add_test(tests, a_descriptor_is_served_until_it_cancels_itself);
    tcase_add_test(tests,
                   a_descriptor_cancelled_by_another_in_the_same_turn_is_not_served);
    tcase_add_test(tests, the_time_stands_still_in_a_turn_and_after_follows_its_events);
    tcase_add_test(tests, a_signal_does_not_end_the_loop);
    tcase_add_test(tests, a_loop_runs_again_after_it_was_stopped);
    return suite;
}
