#include "testnet/runner.h"
#include "node/status.h"
#include "testnet/control.h"
#include "testnet/port.h"
#include "testnet/process.h"
#include "testnet/relay.h"
#include "testnet/screen.h"
#include "testnet/tail.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TICK_MS = 20,
    VOTER_AGE_S = 10, /* of a committee, where ten minutes is what users have */
    MEASURE_MS = 200, /* memory */
    LINKS_MS = 200,   /* ask for the links again */
    LINKS_MS_MAX = 3000,
    AFTER_END_MS = 500, /* the last lines of all logs */
    SATISFY_MS = 15000, /* what is expected after the last event, if nothing says so */
    STOP_MS = 3000
};

struct machine {
    struct process process;
    struct tail tail;
    struct address base;
    int held[PORT_TRIPLE]; /* its ports, while `holds` */
    bool holds;
    char folder[PATH_BYTES_MAX], log[PATH_BYTES_MAX];
    bool started; /* once at least */
    bool asked;   /* its end is no surprise: killed, evicted or told to leave */
    bool evicted; /* for good */
};

struct runner {
    const struct scenario *scenario;
    const struct runner_options *options;
    struct history *history;
    struct relay *relay;
    struct screen screen;
    struct machine machines[TESTNET_NODES_MAX];
    struct address via[TESTNET_NODES_MAX][TESTNET_ZONES_MAX]; /* of a node, from a zone */
    bool fired[TESTNET_EVENTS_MAX];
    int talks[TESTNET_EVENTS_MAX], talks_count; /* requests, until the end */
    int last_victim[2];                         /* of "leader" and of "worker" */
    struct process train;
    char job[PATH_BYTES_MAX], train_log[PATH_BYTES_MAX];
    bool submitting, submitted;
    int64_t start_ms, measure_ms, links_ms, look_ms, ended_ms, next_start_ms;
    struct links_seen links;
    char trouble[200], deaths[200];
    bool timed_out;
};

static const char *
name_of(const struct runner *runner, int node)
{
    return runner->scenario->nodes[node].name;
}

static void __attribute__((format(printf, 2, 3)))
give_up(struct runner *runner, const char *fmt, ...)
{
    if (runner->trouble[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(runner->trouble, sizeof(runner->trouble), fmt, ap);
    va_end(ap);
}

/* ---- getting ready ---- */

/* Held until the relay has its own; not longer, since a child that has not become a node
 * yet would hold them too. */
static int
find_ports(struct runner *runner, struct err *err)
{
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        struct machine *machine = &runner->machines[i];
        if (port_triple(machine->held, &machine->base, err))
            return -1;
        machine->holds = true;
    }
    return 0;
}

static void
let_ports_go(struct machine *machine)
{
    for (int k = 0; k < PORT_TRIPLE && machine->holds; k++)
        close(machine->held[k]);
    machine->holds = false;
}

static int
start_relay(struct runner *runner, struct err *err)
{
    const struct scenario *scenario = runner->scenario;
    int zones = scenario->zones_count;
    struct relay_link *links = xcalloc((size_t)zones * (size_t)zones, sizeof(*links));
    for (int from = 0; from < zones; from++)
        for (int to = 0; to < zones; to++)
            links[from * zones + to] =
                (struct relay_link){.mbit_per_s = scenario->links[from][to].mbit_per_s,
                                    .delay_ms = scenario->links[from][to].delay_ms};
    runner->relay = relay_start(zones, links, err);
    free(links);
    if (!runner->relay)
        return -1;
    for (int i = 0; i < scenario->nodes_count; i++)
        for (int from = 0; from < zones; from++)
            if (scenario_relayed(scenario, from, scenario->nodes[i].zone) &&
                relay_open(runner->relay, &runner->machines[i].base,
                           scenario->nodes[i].zone, from, &runner->via[i][from], err))
                return -1;
    return 0;
}

/* A running node to join by: of the same zone if there is one, else the first. */
static int
seed_of(const struct runner *runner, int node)
{
    int seed = 0;
    bool found = false;
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        const struct machine *machine = &runner->machines[i];
        if (i == node || !machine->process.pid || machine->process.stopped ||
            !runner->history->nodes[i].member)
            continue;
        if (runner->scenario->nodes[i].zone == runner->scenario->nodes[node].zone)
            return i;
        if (!found)
            seed = i;
        found = true;
    }
    return seed;
}

static int
write_config(const struct runner *runner, int node, struct err *err)
{
    const struct scenario *scenario = runner->scenario;
    const struct machine *machine = &runner->machines[node];
    char address[ADDRESS_BYTES_MAX + 8], via[ADDRESS_BYTES_MAX + 8], path[PATH_BYTES_MAX];
    struct buf text = {0};
    address_text(&machine->base, address);
    buf_printf(&text,
               "name: '%s'\nzone: '%s'\ndata: '%s'\nlisten: '%s'\nadvertise: '%s'\n"
               "threads: 1\n",
               name_of(runner, node), scenario->zones[scenario->nodes[node].zone],
               machine->folder, address, address);
    buf_printf(&text, "voter_age: %d\n", VOTER_AGE_S);
    if (scenario->nodes[node].engine_off)
        buf_printf(&text, "engine: off\n");
    if (scenario->nodes[node].memory[0])
        buf_printf(&text, "memory: '%s'\n", scenario->nodes[node].memory);
    if (node > 0 && runner->history->nodes[node].epoch == 0) {
        /* Who knows the swarm comes back to it by its data folder. */
        address_text(&runner->machines[seed_of(runner, node)].base, address);
        path_join(path, runner->machines[0].folder, STATUS_SECRET_FILE);
        buf_printf(&text, "join: '%s'\nsecret_file: '%s'\n", address, path);
    }
    int routes = 0;
    for (int i = 0; i < scenario->nodes_count; i++) {
        if (!scenario_relayed(scenario, scenario->nodes[node].zone,
                              scenario->nodes[i].zone))
            continue;
        address_text(&runner->machines[i].base, address);
        address_text(&runner->via[i][scenario->nodes[node].zone], via);
        buf_printf(&text, "%s  - {to: '%s', via: '%s'}\n", routes++ ? "" : "routes:\n",
                   address, via);
    }
    path_join(path, machine->folder, "node.yaml");
    int result = file_write(path, text.data, text.len, 0600, err);
    buf_release(&text);
    return result;
}

static void
start_node(struct runner *runner, int node)
{
    struct machine *machine = &runner->machines[node];
    char path[PATH_BYTES_MAX];
    struct err err;
    if (write_config(runner, node, &err)) {
        give_up(runner, "node %s: %s", name_of(runner, node), err.msg);
        return;
    }
    path_join(path, machine->folder, "node.yaml");
    char program[PATH_BYTES_MAX], command[] = "node", option[] = "-c";
    snprintf(program, sizeof(program), "%s", runner->options->program);
    char *argv[] = {program, command, option, path, NULL};
    if (process_start(&machine->process, argv, machine->log, &err))
        give_up(runner, "node %s: %s", name_of(runner, node), err.msg);
    machine->started = true;
    machine->asked = machine->evicted;
    screen_say(&runner->screen, clock_ms(), "node %s starts", name_of(runner, node));
}

static int
prepare(struct runner *runner, struct err *err)
{
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        struct machine *machine = &runner->machines[i];
        char path[PATH_BYTES_MAX];
        path_join(machine->folder, runner->options->folder, name_of(runner, i));
        path_join(machine->log, machine->folder, "node.log");
        tail_init(&machine->tail, path_join(path, machine->folder, STATUS_EVENTS_FILE));
        if (file_make_folder(machine->folder, err))
            return -1;
    }
    path_join(runner->train_log, runner->options->folder, "train.log");
    path_join(runner->job, runner->options->folder, "job.yaml");
    if (runner->scenario->job && file_write(runner->job, runner->scenario->job,
                                            strlen(runner->scenario->job), 0600, err))
        return -1;
    int result = find_ports(runner, err) || start_relay(runner, err) ? -1 : 0;
    for (int i = 0; i < runner->scenario->nodes_count; i++)
        let_ports_go(&runner->machines[i]);
    return result;
}

/* ---- what nodes tell ---- */

struct told {
    struct history *history;
    int node;
};

static void
on_line(void *arg, const char *text, size_t len)
{
    const struct told *told = arg;
    history_line(told->history, told->node, text, len);
}

static void
read_logs(struct runner *runner)
{
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        struct told told = {runner->history, i};
        tail_read(&runner->machines[i].tail, on_line, &told);
    }
}

/* The last line of a file; "" without one. */
static void
last_line(const char *path, char text[160])
{
    struct buf all = {0};
    struct err err;
    text[0] = '\0';
    if (file_read(path, 64 << 20, &all, &err) == 0 && all.len > 0) {
        size_t end = all.len;
        while (end > 0 && all.data[end - 1] == '\n')
            end--;
        size_t start = end;
        while (start > 0 && all.data[start - 1] != '\n')
            start--;
        snprintf(text, 160, "%.*s", (int)(end - start), (const char *)all.data + start);
    }
    buf_release(&all);
}

static void
node_died(struct runner *runner, int node)
{
    struct machine *machine = &runner->machines[node];
    char how[64], line[160];
    process_how(&machine->process, how);
    if (machine->asked) {
        screen_say(&runner->screen, clock_ms(), "node %s is gone: %s",
                   name_of(runner, node), how);
        return;
    }
    last_line(machine->log, line);
    size_t used = strlen(runner->deaths);
    snprintf(runner->deaths + used, sizeof(runner->deaths) - used, "%s%s: %s: %.100s",
             used ? "; " : "", name_of(runner, node), how, line);
    screen_say(&runner->screen, clock_ms(), "node %s died: %s: %s", name_of(runner, node),
               how, line);
    if (!runner->history->formed_ms)
        give_up(runner, "node %s died before the swarm was formed: %.120s",
                name_of(runner, node), line);
}

static void
look_after_nodes(struct runner *runner, int64_t now)
{
    bool measure = now >= runner->measure_ms;
    if (measure)
        runner->measure_ms = now + MEASURE_MS;
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        struct machine *machine = &runner->machines[i];
        if (machine->process.pid && process_ended(&machine->process))
            node_died(runner, i);
        if (measure)
            process_measure(&machine->process);
        runner->screen.state[i] = !machine->started          ? "to come"
                                  : machine->process.stopped ? "stopped"
                                  : machine->process.pid     ? "running"
                                                             : "gone";
    }
}

/* ---- forming ---- */

static void
form(struct runner *runner, int64_t now)
{
    const struct scenario *scenario = runner->scenario;
    const struct past_epoch *newest = history_newest(runner->history);
    bool together = newest != NULL;
    if (!newest)
        return;
    for (int i = 0; i < scenario->nodes_count; i++) {
        if (scenario->nodes[i].late)
            continue;
        if (!runner->machines[i].started && now >= runner->next_start_ms) {
            start_node(runner, i);
            runner->next_start_ms = now + (int64_t)(scenario->start_every_s * 1e3);
        }
        together = together && newest->members >> i & 1 &&
                   runner->history->nodes[i].epoch == newest->epoch;
    }
    if (!together)
        return;
    runner->history->formed_ms = now;
    runner->links_ms = now;
    screen_say(&runner->screen, now, "the swarm is formed");
}

/* ---- the job ---- */

static bool
link_measured(const struct json *links, const char *from, const char *to)
{
    for (size_t i = 0; i < json_count(links); i++) {
        const struct json *link = json_at(links, i);
        if (strcmp(json_text(json_get(link, "from_zone"), ""), from) == 0 &&
            strcmp(json_text(json_get(link, "to_zone"), ""), to) == 0 &&
            strcmp(json_text(json_get(link, "method"), ""), "model") != 0 &&
            json_double(json_get(link, "mbit_per_s"), 0) > 0 &&
            json_int(json_get(link, "confidence"), 0) > 0)
            return true;
    }
    return false;
}

static bool
links_measured(const struct runner *runner)
{
    const struct scenario *scenario = runner->scenario;
    if (scenario->zones_count < 2)
        return true;
    struct json *answer = control_status(runner->machines[0].folder, LINKS_MS);
    const struct json *links = json_get(json_get(answer, "status"), "links");
    bool all = links != NULL;
    for (int i = 0; i < scenario->nodes_count && all; i++)
        for (int k = 0; k < scenario->nodes_count && all; k++)
            if (!scenario->nodes[i].late && !scenario->nodes[k].late &&
                scenario->nodes[i].zone != scenario->nodes[k].zone)
                all = link_measured(links, scenario->zones[scenario->nodes[i].zone],
                                    scenario->zones[scenario->nodes[k].zone]);
    json_free(answer);
    return all;
}

static void
submit(struct runner *runner, int64_t now)
{
    struct err err;
    if (runner->submitting) {
        if (!process_ended(&runner->train))
            return;
        runner->submitting = false;
        runner->submitted = true;
        if (runner->train.status) {
            char line[160];
            last_line(runner->train_log, line);
            static const char prefix[] = "flotilla train: ";
            bool prefixed = strncmp(line, prefix, sizeof(prefix) - 1) == 0;
            give_up(runner, "the job was not taken: %.150s",
                    prefixed ? line + sizeof(prefix) - 1 : line);
        } else {
            screen_say(&runner->screen, now, "the job is submitted");
        }
        return;
    }
    if (now < runner->links_ms)
        return;
    runner->links_ms = now + LINKS_MS;
    if (now - runner->history->formed_ms < LINKS_MS_MAX && !links_measured(runner))
        return;
    char program[PATH_BYTES_MAX], command[] = "train", data[] = "--data",
                                  detach[] = "--detach";
    snprintf(program, sizeof(program), "%s", runner->options->program);
    char *argv[] = {program, command, runner->job, data, runner->machines[0].folder,
                    detach,  NULL};
    if (process_start(&runner->train, argv, runner->train_log, &err))
        give_up(runner, "the job was not submitted: %s", err.msg);
    runner->submitting = true;
}

/* ---- events ---- */

/* The step that all have applied who work, run and are not held up. */
static int64_t
step_reached(const struct runner *runner)
{
    const struct past_epoch *newest = history_newest(runner->history);
    int64_t least = INT64_MAX;
    for (int i = 0; i < runner->scenario->nodes_count && newest; i++) {
        const struct machine *machine = &runner->machines[i];
        if (newest->workers >> i & 1 && machine->process.pid &&
            !machine->process.stopped && runner->history->nodes[i].step < least)
            least = runner->history->nodes[i].step;
    }
    return least == INT64_MAX ? 0 : least;
}

static bool
due(const struct runner *runner, const struct scenario_event *event, int64_t now)
{
    if (event->at_s >= 0)
        return (double)(now - runner->history->formed_ms) >= event->at_s * 1e3;
    return step_reached(runner) >= event->at_step;
}

static bool
runs(const struct runner *runner, int node)
{
    return runner->machines[node].process.pid && !runner->machines[node].process.stopped;
}

static bool
votes(const struct past_epoch *epoch, int node)
{
    for (int i = 0; i < epoch->voters_count; i++)
        if (epoch->voters[i] == node)
            return true;
    return false;
}

/* Does a node that runs fit the word? */
static bool
fits(const struct runner *runner, enum target target, const struct past_epoch *newest,
     int node)
{
    int leader = runner->history->leader;
    switch (target) {
    case TARGET_LEADER:
        return node == leader;
    case TARGET_WORKER:
        return newest->workers >> node & 1 && node != leader;
    case TARGET_BYSTANDER:
        return newest->members >> node & 1 && node != leader && !votes(newest, node);
    default:
        return false;
    }
}

static uint64_t
killed(const struct runner *runner)
{
    uint64_t bits = 0;
    for (int i = 0; i < runner->scenario->nodes_count; i++)
        if (runner->machines[i].started && !runner->machines[i].process.pid)
            bits |= UINT64_C(1) << i;
    return bits;
}

/* The nodes that an event aims at, as bits; 0 while there are not enough. */
static uint64_t
aim(const struct runner *runner, const struct scenario_event *event)
{
    const struct past_epoch *newest = history_newest(runner->history);
    enum target target = event->target;
    uint64_t bits = 0;
    int found = 0;
    if (target == TARGET_NODE)
        return UINT64_C(1) << event->index;
    if (target == TARGET_KILLED)
        return killed(runner);
    if (event->action == ACTION_CONTINUE || event->action == ACTION_JOIN) {
        int last = runner->last_victim[target == TARGET_WORKER];
        return last < 0 ? 0 : UINT64_C(1) << last;
    }
    bool by_vote = target == TARGET_VOTER || target == TARGET_LAST_VOTER;
    for (int i = newest && by_vote ? newest->voters_count : 0; i-- > 0;) {
        int node = newest->voters[i];
        if (found < event->count && runs(runner, node) &&
            (target == TARGET_LAST_VOTER || node != runner->history->leader)) {
            bits |= UINT64_C(1) << node;
            found++;
        }
    }
    for (int i = 0; i < runner->scenario->nodes_count && newest && !by_vote; i++)
        if (found < event->count && runs(runner, i) && fits(runner, target, newest, i)) {
            bits |= UINT64_C(1) << i;
            found++;
        }
    return found == event->count ? bits : 0;
}

static uint64_t
zone_nodes(const struct runner *runner, int zone)
{
    uint64_t bits = 0;
    for (int i = 0; i < runner->scenario->nodes_count; i++)
        if (runner->scenario->nodes[i].zone == zone)
            bits |= UINT64_C(1) << i;
    return bits;
}

static void
fire_at_zone(struct runner *runner, const struct scenario_event *event)
{
    if (event->action == ACTION_CUT) {
        relay_cut(runner->relay, event->index, true);
    } else if (event->action == ACTION_STALL) {
        relay_stall(runner->relay, event->index, true);
    } else {
        relay_cut(runner->relay, event->index, false);
        relay_stall(runner->relay, event->index, false);
    }
}

/* By the word of another node. */
static bool
evict(struct runner *runner, int node)
{
    char request[128];
    snprintf(request, sizeof(request), "{\"command\": \"evict\", \"node\": \"%s\"}\n",
             runner->scenario->nodes[node].name);
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        if (i == node || !runs(runner, i) || runner->machines[i].asked)
            continue;
        int talk = control_tell(runner->machines[i].folder, request);
        if (talk < 0)
            continue;
        runner->talks[runner->talks_count++] = talk;
        runner->machines[node].asked = runner->machines[node].evicted = true;
        return true;
    }
    return false;
}

/* False: not possible yet. */
static bool
fire_at_node(struct runner *runner, const struct scenario_event *event, int node)
{
    struct machine *machine = &runner->machines[node];
    bool running = machine->process.pid != 0;
    if (running == (event->action == ACTION_JOIN))
        return false;
    switch (event->action) {
    case ACTION_KILL:
        machine->asked = true;
        process_kill(&machine->process);
        break;
    case ACTION_STOP:
        process_stop(&machine->process);
        break;
    case ACTION_CONTINUE:
        process_continue(&machine->process);
        break;
    case ACTION_EVICT:
        return evict(runner, node);
    case ACTION_LEAVE:
        machine->asked = true;
        process_ask_to_end(&machine->process);
        break;
    default:
        start_node(runner, node);
        history_join(runner->history, node, machine->process.started_ms);
        break;
    }
    if (event->target == TARGET_LEADER || event->target == TARGET_WORKER)
        runner->last_victim[event->target == TARGET_WORKER] = node;
    return true;
}

/* False: not possible yet. */
static bool
fire_at_nodes(struct runner *runner, const struct scenario_event *event, uint64_t nodes)
{
    bool fired = false;
    for (int i = 0; i < runner->scenario->nodes_count; i++)
        if (nodes >> i & 1)
            fired = fire_at_node(runner, event, i) || fired;
    return fired;
}

static uint64_t
running(const struct runner *runner)
{
    uint64_t bits = 0;
    for (int i = 0; i < runner->scenario->nodes_count; i++)
        if (runs(runner, i) && !(runner->machines[i].asked))
            bits |= UINT64_C(1) << i;
    return bits;
}

static void
do_events(struct runner *runner, int64_t now)
{
    const struct scenario *scenario = runner->scenario;
    for (int i = 0; i < scenario->events_count; i++) {
        const struct scenario_event *event = &scenario->events[i];
        if (runner->fired[i] || !due(runner, event, now))
            continue;
        bool zone = event->target == TARGET_ZONE;
        uint64_t victims = zone ? zone_nodes(runner, event->index) : aim(runner, event);
        if (victims == 0)
            continue;
        int64_t fault_ms = clock_ms();
        if (zone)
            fire_at_zone(runner, event);
        else if (!fire_at_nodes(runner, event, victims))
            continue;
        runner->fired[i] = true;
        if (!zone)
            history_presence(runner->history, event, running(runner), fault_ms);
        if (event->action == ACTION_JOIN)
            continue;
        const struct past_fault *fault =
            history_fault(runner->history, event, victims, fault_ms);
        screen_say(&runner->screen, fault_ms, "%s at step %lld", fault->text,
                   (long long)fault->at_step);
    }
}

/* ---- what the nodes know of their links ---- */

static void
look_at_links(struct runner *runner, int64_t now)
{
    const struct scenario *scenario = runner->scenario;
    struct links_seen *seen = &runner->links;
    int64_t since_ms = now - runner->history->formed_ms;
    if (now < runner->look_ms || !links_due(scenario, seen, since_ms))
        return;
    runner->look_ms = now + LINKS_LOOK_MS;
    struct json *answer = control_status(runner->machines[0].folder, LINKS_LOOK_MS);
    links_look(scenario, json_get(answer, "status"), since_ms, seen);
    json_free(answer);
    seen->probe_bytes = 0;
    seen->spent[0] = '\0';
    for (int i = 0; i < scenario->nodes_count; i++) {
        if (!runner->machines[i].process.pid)
            continue;
        answer = control_status(runner->machines[i].folder, LINKS_LOOK_MS);
        links_spent(json_get(answer, "status"), seen);
        json_free(answer);
    }
}

/* ---- the loop ---- */

static int
events_left(const struct runner *runner, bool in_time)
{
    int left = 0;
    for (int i = 0; i < runner->scenario->events_count; i++)
        left += !runner->fired[i] && (!in_time || runner->scenario->events[i].at_s >= 0);
    return left;
}

/* How long what is expected after the last event may take to come true. */
static int64_t
satisfy_ms(const struct scenario *scenario)
{
    int64_t settled_ms = (int64_t)(scenario->expect.settled_within_s * 1e3);
    return settled_ms > SATISFY_MS ? settled_ms : SATISFY_MS;
}

static bool
over(struct runner *runner, int64_t now)
{
    const struct history *history = runner->history;
    if (runner->trouble[0] || *runner->options->interrupted)
        return true;
    runner->timed_out =
        (double)(now - runner->start_ms) >= runner->scenario->time_limit_s * 1e3;
    if (runner->timed_out)
        return true;
    bool ended = runner->scenario->job ? history_job_ended(history)
                                       : history->formed_ms && !events_left(runner, true);
    if (!ended)
        return false;
    if (history->formed_ms &&
        !links_over(runner->scenario, &runner->links, now - history->formed_ms))
        return false;
    if (runner->ended_ms == 0) {
        runner->ended_ms = now;
        screen_say(&runner->screen, now, "the job ended: %s",
                   runner->scenario->job ? history->job_state : "there was none");
    }
    if (runner->scenario->job && strncmp(history->job_state, "failed", 6) == 0)
        return true;
    if (now - runner->ended_ms < AFTER_END_MS || events_left(runner, true))
        return false;
    return expect_satisfied(history) ||
           now - runner->ended_ms > satisfy_ms(runner->scenario);
}

static void
stop_all(struct runner *runner)
{
    process_kill(&runner->train);
    process_wait(&runner->train, STOP_MS);
    int64_t end = clock_ms() + STOP_MS;
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        struct process *process = &runner->machines[i].process;
        process_measure(process);
        process_continue(process);
        process_ask_to_end(process);
    }
    for (int i = 0; i < runner->scenario->nodes_count; i++) {
        struct process *process = &runner->machines[i].process;
        if (process_wait(process, end - clock_ms()))
            continue;
        process_kill(process);
        process_wait(process, STOP_MS);
    }
}

static void
run_loop(struct runner *runner)
{
    start_node(runner, 0);
    runner->history->began_ms = clock_ms();
    for (int64_t now = clock_ms(); !over(runner, now); now = clock_ms()) {
        read_logs(runner);
        look_after_nodes(runner, now);
        if (!runner->history->formed_ms)
            form(runner, now);
        else if (runner->scenario->job && !runner->submitted)
            submit(runner, now);
        if (runner->history->formed_ms) {
            do_events(runner, now);
            look_at_links(runner, now);
        }
        screen_tick(&runner->screen, runner->history, now);
        clock_sleep_ms(TICK_MS);
    }
    read_logs(runner);
    screen_tick(&runner->screen, runner->history, clock_ms());
    screen_end(&runner->screen);
}

void
runner_run(const struct scenario *scenario, const struct runner_options *options,
           struct report *report)
{
    struct runner *runner = xcalloc(1, sizeof(*runner));
    struct err err;
    *report = (struct report){0};
    history_init(&report->history, scenario);
    *runner = (struct runner){.scenario = scenario,
                              .options = options,
                              .history = &report->history,
                              .last_victim = {-1, -1},
                              .start_ms = clock_ms()};
    screen_init(&runner->screen, options->out, runner->start_ms);
    if (prepare(runner, &err))
        give_up(runner, "%s", err.msg);
    else
        run_loop(runner);
    struct outcome outcome = {.trouble = runner->trouble,
                              .timed_out = runner->timed_out,
                              .interrupted = *options->interrupted,
                              .events_left = events_left(runner, false),
                              .deaths = runner->deaths,
                              .job = scenario->job != NULL,
                              .reference = options->reference,
                              .reference_trouble = options->reference_trouble,
                              .links = &runner->links};
    report->seconds = (double)(clock_ms() - runner->start_ms) / 1e3;
    stop_all(runner);
    relay_stop(runner->relay);
    history_settle(&report->history);
    expect_judge(&report->history, &outcome, &report->verdict);
    for (int i = 0; i < scenario->nodes_count; i++) {
        report->peak_rss_bytes[i] = runner->machines[i].process.peak_rss_bytes;
        tail_release(&runner->machines[i].tail);
    }
    for (int i = 0; i < runner->talks_count; i++)
        close(runner->talks[i]);
    free(runner);
}
