/*
 * What the testnet's runner reads. The first byte says which: a scenario, taken with every
 * value in its range or refused with a sentence; lines of nodes' event logs (the first byte
 * of each says whose), from which a verdict is made; a node's status document.
 */
#include "testnet/expect.h"
#include "testnet/history.h"
#include "testnet/links.h"
#include "testnet/verdict.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char story[] =
    "nodes: [{name: a1, zone: a}, {name: a2, zone: a}, {name: b1, zone: b}, "
    "{name: b2, zone: b, join_step: 2}]\n"
    "links: [{from: a, to: b, mbit_per_s: 100, delay_ms: 20}]\n"
    "job: {name: x}\n"
    "events: [{kill: leader, at_step: 3}, {cut: b, at_s: 2}, {heal: b, at_s: 4}]\n"
    "expect: {steps: 6, loss_below: 2.6, stages: 2, replicas: 2, recovered_within_s: 6, "
    "steps_lost_max: 0, new_leader: true, fenced: false, joined_within_s: 5, "
    "healed_within_s: 5, links_within: 0.15, links_by_s: 10}\n";

/* As a file, since a scenario is one. */
static struct scenario *
read_scenario(const void *bytes, size_t len, struct err *err)
{
    static int file = -1;
    static char path[64];
    if (file < 0)
        file = memfd_create("scenario.yaml", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    must(file >= 0 && ftruncate(file, 0) == 0);
    must(pwrite(file, bytes, len, 0) == (ssize_t)len);
    return scenario_read(path, err);
}

static void
take_scenario(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct scenario *scenario = read_scenario(data, size, &err);
    if (!scenario) {
        must(err.code == ERR_USAGE && err.msg[0]);
        return;
    }
    must(scenario->nodes_count >= 1 && scenario->nodes_count <= TESTNET_NODES_MAX);
    must(scenario->zones_count >= 1 && scenario->zones_count <= TESTNET_ZONES_MAX);
    must(scenario->events_count >= 0 && scenario->events_count <= TESTNET_EVENTS_MAX);
    for (int i = 0; i < scenario->events_count; i++) {
        char text[64];
        const struct scenario_event *event = &scenario->events[i];
        must(event->index < TESTNET_NODES_MAX && event->count <= TESTNET_NODES_MAX);
        must(event_text(scenario, event, text)[0]);
    }
    for (int from = 0; from < scenario->zones_count; from++)
        for (int to = 0; to < scenario->zones_count; to++)
            must(from != to || !scenario_relayed(scenario, from, to));
    scenario_free(scenario);
}

static void
judge(struct history *history)
{
    struct outcome outcome = {.trouble = "",
                              .deaths = "",
                              .job = true,
                              .reference_trouble = "",
                              .links = &(struct links_seen){.looks = 1}};
    int64_t memory[TESTNET_NODES_MAX] = {0};
    struct verdict verdict = {.count = 0};
    struct buf text = {0};
    struct err err = {0};
    history_settle(history);
    expect_judge(history, &outcome, &verdict);
    must(verdict.count > 0 && verdict.count <= CHECKS_MAX);
    (void)expect_satisfied(history);
    verdict_json(history, &verdict, memory, &text);
    struct json *document = json_parse((char *)text.data, text.len, text.len, &err);
    must(json_is_object(document));
    json_free(document);
    buf_clear(&text);
    verdict_page(history, &verdict, 10, &text);
    must(text.len > 0);
    buf_release(&text);
}

static void
tell(const struct scenario *scenario, const char *text, size_t len)
{
    struct history history;
    history_init(&history, scenario);
    for (size_t at = 0, lines = 0; at < len; lines++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line = end ? (size_t)(end - text) - at : len - at;
        if (line > 0)
            history_line(&history, (unsigned char)text[at] % scenario->nodes_count,
                         text + at + 1, line - 1);
        at += line + 1;
        if (lines == 2) {
            history_fault(&history, &scenario->events[0], 1, 1000);
            history_fault(&history, &scenario->events[1], 12, 2000);
            history_join(&history, 3, 1500);
            history_presence(&history, &scenario->events[0], 14, 1000);
        }
    }
    judge(&history);
    history_release(&history);
}

static void
look(const struct scenario *scenario, const char *text, size_t len)
{
    struct links_seen seen = {.looks = 0};
    struct err err;
    struct json *status = json_parse(text, len, len, &err);
    for (int i = 0; i < 3; i++)
        links_look(scenario, status, 11000 + i, &seen);
    links_spent(status, &seen);
    must(seen.looks == 3 && seen.good <= 3 && seen.worst >= 0);
    json_free(status);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct scenario *scenario;
    struct err err;
    if (size < 1 || size > 1 << 16)
        return 0;
    if (!scenario)
        scenario = read_scenario(story, strlen(story), &err);
    must(scenario);
    if (data[0] % 3 == 0)
        take_scenario(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        tell(scenario, (const char *)data + 1, size - 1);
    else
        look(scenario, (const char *)data + 1, size - 1);
    return 0;
}
