#include "tests/testnet/stage.h"
#include "tests/suite.h"
#include "transport/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
stage_set(struct scenario *scenario, struct history *history)
{
    *scenario = (struct scenario){.name = "stage",
                                  .zones_count = 2,
                                  .zones = {"a", "b"},
                                  .nodes_count = 4,
                                  .nodes = {{.name = "a1", .zone = 0},
                                            {.name = "a2", .zone = 0},
                                            {.name = "b1", .zone = 1},
                                            {.name = "b2", .zone = 1}},
                                  .time_limit_s = 100,
                                  .expect = {.loss_below = -1,
                                             .steps = -1,
                                             .stages = -1,
                                             .replicas = -1,
                                             .steps_lost_max = -1,
                                             .recovered_within_s = -1,
                                             .joined_within_s = -1,
                                             .pause_below_s = -1,
                                             .rejoined_within_s = -1,
                                             .healed_within_s = -1,
                                             .links_within = -1,
                                             .links_by_s = 10,
                                             .formed_within_s = -1,
                                             .settled_within_s = -1,
                                             .evicted_within_s = -1,
                                             .within = 1e-3,
                                             .steps_compared = 2}};
    history_init(history, scenario);
}

void
stage_line(struct history *history, int node, const char *fmt, ...)
{
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    ck_assert_int_lt(len, (int)sizeof(line));
    history_line(history, node, line, (size_t)len);
}

static void
list_nodes(const struct history *history, unsigned nodes, const char *key,
           const char *more, struct buf *out)
{
    int count = 0;
    for (int i = 0; i < 4; i++)
        if (nodes >> i & 1)
            buf_printf(out, "%s{\"%s\": \"%s\"%s}", count++ ? ", " : "", key,
                       history->scenario->nodes[i].name, more);
}

void
stage_epoch(struct history *history, int epoch, int term, int leader, const char *cause,
            int base_step, unsigned members, unsigned workers, int ms)
{
    struct buf named = {0}, placed = {0};
    list_nodes(history, members, "name", "", &named);
    list_nodes(history, workers, "node",
               ", \"zone\": \"z\", \"device\": \"cpu\", \"tp\": 1, \"micro_batches\": 2",
               &placed);
    for (int i = 0; i < 4; i++)
        if (members >> i & 1)
            stage_line(history, i,
                       "{\"mono_ms\": %d, \"event\": \"epoch\", \"epoch\": %d, "
                       "\"term\": %d, \"leader_name\": \"%s\", \"cause\": \"%s\", "
                       "\"hash\": \"h%d\", \"base_step\": %d, \"members\": [%s], "
                       "\"plan\": {\"micro_batch\": %d, \"stages\": [%s%s%s]}}",
                       ms, epoch, term, history->scenario->nodes[leader].name, cause,
                       epoch, workers ? base_step : -1,
                       named.data ? (char *)named.data : "", workers ? 4 : 0,
                       workers ? "{\"first_layer\": 0, \"layers\": 6, \"replicas\": ["
                               : "",
                       placed.data ? (char *)placed.data : "", workers ? "]}" : "");
    buf_release(&named);
    buf_release(&placed);
}

void
stage_step(struct history *history, unsigned nodes, int epoch, int step, int ms)
{
    for (int i = 0; i < 4; i++)
        if (nodes >> i & 1)
            stage_line(history, i,
                       "{\"mono_ms\": %d, \"event\": \"step\", \"epoch\": %d, \"step\": "
                       "%d, \"loss\": %.17g, \"tokens\": 64, \"norm\": 1.5, \"step_s\": "
                       "0.1, \"samples_hash\": \"%016x\"}",
                       ms, epoch, step, 5 - step / 100.0, step * 7);
}

struct past_fault *
stage_fault(struct history *history, enum action action, enum target target, int index,
            int ms)
{
    struct scenario_event event = {.action = action, .target = target, .index = index};
    uint64_t victims =
        target == TARGET_ZONE ? UINT64_C(3) << (2 * index) : UINT64_C(1) << index;
    return history_fault(history, &event, victims, ms);
}

const struct check *
stage_judge(struct history *history, struct verdict *verdict, const char *name)
{
    struct outcome outcome = {
        .trouble = "", .deaths = "", .job = true, .reference_trouble = ""};
    history_settle(history);
    expect_judge(history, &outcome, verdict);
    for (int i = 0; i < verdict->count; i++)
        if (strcmp(verdict->checks[i].name, name) == 0)
            return &verdict->checks[i];
    ck_abort_msg("there is no check \"%s\"", name);
    return NULL;
}
