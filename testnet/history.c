#include "testnet/history.h"
#include "transport/base/alloc.h"
#include "transport/base/must.h"
#include "transport/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 4 << 20, STEPS_MAX = 1 << 20, REAL_MOST = 1000000000 };
static const int64_t NUMBER_MOST = INT64_C(1) << 42; /* of each step still no overflow */

void
history_init(struct history *history, const struct scenario *scenario)
{
    *history = (struct history){.scenario = scenario, .leader = -1};
}

void
history_release(struct history *history)
{
    for (size_t i = 0; i < history->epochs_count; i++)
        free(history->epochs[i].plan);
    free(history->epochs);
    free(history->steps);
    free(history->marks);
    *history = (struct history){0};
}

static int
node_index(const struct history *history, const char *name)
{
    for (int i = 0; i < history->scenario->nodes_count; i++)
        if (strcmp(history->scenario->nodes[i].name, name) == 0)
            return i;
    return -1;
}

/* Numbers of a log that a run may have made, or anybody: what no run reaches is cut, so that
 * they can be added up. */
static int64_t
int_of(const struct json *event, const char *key, int64_t otherwise)
{
    int64_t value = json_int(json_get(event, key), otherwise);
    return value < -NUMBER_MOST  ? -NUMBER_MOST
           : value > NUMBER_MOST ? NUMBER_MOST
                                 : value;
}

static double
real_of(const struct json *event, const char *key)
{
    double value = json_double(json_get(event, key), 0);
    return value < -REAL_MOST ? -REAL_MOST : value > REAL_MOST ? REAL_MOST : value;
}

static uint64_t
node_bit(int node)
{
    return node < 0 ? 0 : UINT64_C(1) << node;
}

/* ---- events ---- */

static void
add_mark(struct history *history, enum mark_kind kind, int node, int64_t mono_ms,
         const struct json *event)
{
    if (history->marks_count == history->marks_capacity) {
        history->marks_capacity = history->marks_capacity * 2 + 64;
        history->marks =
            xrealloc(history->marks, history->marks_capacity, sizeof(*history->marks));
    }
    int64_t step = int_of(event, "step", -1);
    history->marks[history->marks_count++] =
        (struct past_mark){.kind = kind,
                           .node = node,
                           .mono_ms = mono_ms,
                           .epoch = int_of(event, "epoch", -1),
                           .step = int_of(event, "to_step", step)};
}

static void
hear_leader(struct history *history, int64_t term, const char *name)
{
    int leader = node_index(history, name);
    if (term < history->term || (term == history->term && leader < 0))
        return;
    history->term = term;
    history->leader = leader;
}

/* The plan as a verdict shows it, and who works in it. */
static void
take_plan(struct history *history, struct past_epoch *epoch, const struct json *plan)
{
    struct buf text = {0};
    struct json_writer writer;
    const struct json *stages = json_get(plan, "stages");
    json_begin(&writer, &text);
    json_object_open(&writer, NULL);
    json_put_int(&writer, "micro_batch", json_int(json_get(plan, "micro_batch"), 0));
    char *raw = stages ? json_print(stages) : xstrdup("[]");
    json_put_raw(&writer, "stages", raw, strlen(raw));
    free(raw);
    json_object_close(&writer);
    buf_add(&text, "", 1);
    epoch->plan = (char *)text.data;
    epoch->stages = (int64_t)json_count(stages);
    for (size_t s = 0; s < json_count(stages); s++) {
        const struct json *replicas = json_get(json_at(stages, s), "replicas");
        epoch->pipelines = (int64_t)json_count(replicas);
        for (size_t r = 0; r < json_count(replicas); r++)
            epoch->workers |= node_bit(node_index(
                history, json_text(json_get(json_at(replicas, r), "node"), "")));
    }
}

static struct past_epoch *
epoch_place(struct history *history, int64_t number)
{
    size_t at = history->epochs_count;
    while (at > 0 && history->epochs[at - 1].epoch > number)
        at--;
    if (at > 0 && history->epochs[at - 1].epoch == number)
        return &history->epochs[at - 1];
    history->epochs =
        xrealloc(history->epochs, history->epochs_count + 1, sizeof(*history->epochs));
    memmove(&history->epochs[at + 1], &history->epochs[at],
            (history->epochs_count - at) * sizeof(*history->epochs));
    history->epochs_count++;
    history->epochs[at] = (struct past_epoch){.epoch = number, .leader = -1};
    return &history->epochs[at];
}

static void
take_voters(const struct history *history, struct past_epoch *epoch,
            const struct json *voters)
{
    int list[VOTERS_MAX], count = 0;
    for (size_t i = 0; i < json_count(voters) && count < VOTERS_MAX; i++) {
        int node = node_index(history, json_text(json_at(voters, i), ""));
        if (node >= 0)
            list[count++] = node;
    }
    if (count <= epoch->voters_count)
        return; /* it does not know more names than others did */
    memcpy(epoch->voters, list, sizeof(list[0]) * (size_t)count);
    epoch->voters_count = count;
}

static void
on_epoch(struct history *history, int node, int64_t mono_ms, const struct json *event)
{
    int64_t number = int_of(event, "epoch", -1);
    const char *hash = json_text(json_get(event, "hash"), "");
    const char *leader = json_text(json_get(event, "leader_name"), "");
    struct past_epoch *epoch = epoch_place(history, number);
    const struct json *members = json_get(event, "members");
    uint64_t bits = 0;
    for (size_t i = 0; i < json_count(members); i++)
        bits |= node_bit(
            node_index(history, json_text(json_get(json_at(members, i), "name"), "")));
    if (epoch->hash[0] && strcmp(epoch->hash, hash) != 0 && !history->conflict[0])
        snprintf(history->conflict, sizeof(history->conflict),
                 "epoch %lld is %.16s at one node and %.16s at %s", (long long)number,
                 epoch->hash, hash, history->scenario->nodes[node].name);
    if (!epoch->hash[0]) {
        snprintf(epoch->hash, sizeof(epoch->hash), "%s", hash);
        snprintf(epoch->cause, sizeof(epoch->cause), "%s",
                 json_text(json_get(event, "cause"), ""));
        epoch->term = int_of(event, "term", 0);
        epoch->base_step = int_of(event, "base_step", -1);
        epoch->first_ms = mono_ms;
        take_plan(history, epoch, json_get(event, "plan"));
        if (epoch == history_newest(history) && epoch->base_step >= 0 &&
            epoch->base_step < history->applied)
            history->applied = epoch->base_step;
    }
    if (mono_ms < epoch->first_ms)
        epoch->first_ms = mono_ms;
    epoch->members |= bits; /* a node may not know another's name yet */
    take_voters(history, epoch, json_get(event, "voters"));
    if (epoch->leader < 0)
        epoch->leader = node_index(history, leader);
    hear_leader(history, int_of(event, "term", 0), leader);
    history->nodes[node].epoch = number;
    history->nodes[node].member = bits >> node & 1;
    add_mark(history, MARK_EPOCH, node, mono_ms, event);
}

static void
on_step(struct history *history, int node, int64_t mono_ms, const struct json *event)
{
    struct past_step step = {
        .mono_ms = mono_ms,
        .node = node,
        .epoch = int_of(event, "epoch", -1),
        .step = int_of(event, "step", -1),
        .tokens = int_of(event, "tokens", 0),
        .loss = real_of(event, "loss"),
        .step_s = real_of(event, "step_s"),
        .samples_hash =
            strtoull(json_text(json_get(event, "samples_hash"), "0"), NULL, 16)};
    if (step.step < 1 || step.step > STEPS_MAX)
        return;
    if (history->steps_count == history->steps_capacity) {
        history->steps_capacity = history->steps_capacity * 2 + 256;
        history->steps =
            xrealloc(history->steps, history->steps_capacity, sizeof(*history->steps));
    }
    history->steps[history->steps_count++] = step;
    if (step.step > history->newest_step)
        history->newest_step = step.step;
    if (step.step > history->applied && !history_void(history, &step))
        history->applied = step.step;
    struct past_node *past = &history->nodes[node];
    past->step = step.step;
    past->loss = step.loss;
    past->tokens_per_s = step.step_s > 0 ? (double)step.tokens / step.step_s : 0;
}

static void
on_job(struct history *history, const struct json *event)
{
    const char *state = json_text(json_get(event, "state"), "");
    if (!history_job_ended(history))
        snprintf(history->job_state, sizeof(history->job_state), "%s", state);
}

static void
on_event(struct history *history, int node, const struct json *event)
{
    static const struct {
        const char *name;
        enum mark_kind kind;
    } marks[] = {{"start", MARK_START},     {"compute", MARK_COMPUTE},
                 {"fenced", MARK_FENCED},   {"paused", MARK_PAUSED},
                 {"resumed", MARK_RESUMED}, {"rollback", MARK_ROLLBACK},
                 {"failed", MARK_FAILED}};
    const char *kind = json_text(json_get(event, "event"), "");
    int64_t mono_ms = int_of(event, "mono_ms", 0);
    struct past_node *past = &history->nodes[node];
    past->seen = true;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strcmp(kind, marks[i].name) == 0)
            add_mark(history, marks[i].kind, node, mono_ms, event);
    if (strcmp(kind, "stop") == 0 &&
        strstr(json_text(json_get(event, "reason"), ""), "was evicted"))
        add_mark(history, MARK_EVICTED, node, mono_ms, event);
    if (strcmp(kind, "epoch") == 0) {
        on_epoch(history, node, mono_ms, event);
    } else if (strcmp(kind, "step") == 0) {
        on_step(history, node, mono_ms, event);
    } else if (strcmp(kind, "leader") == 0) {
        hear_leader(history, int_of(event, "term", 0),
                    json_text(json_get(event, "name"), ""));
    } else if (strcmp(kind, "job") == 0) {
        on_job(history, event);
    } else if (strcmp(kind, "paused") == 0) {
        past->paused = true;
    } else if (strcmp(kind, "resumed") == 0 || strcmp(kind, "start") == 0) {
        past->paused = false;
    } else if (strcmp(kind, "memory") == 0) {
        int64_t bytes = int_of(event, "predicted_bytes", 0);
        if (bytes > past->predicted_bytes)
            past->predicted_bytes = bytes;
    } else if (strcmp(kind, "failed") == 0 && !history->failure[0]) {
        snprintf(history->failure, sizeof(history->failure), "%s: %.40s: %.120s",
                 history->scenario->nodes[node].name,
                 json_text(json_get(event, "what"), ""),
                 json_text(json_get(event, "reason"), ""));
    }
}

void
history_line(struct history *history, int node, const char *text, size_t len)
{
    struct err err;
    must(node >= 0 && node < history->scenario->nodes_count);
    struct json *event = json_parse(text, len, LINE_BYTES_MAX, &err);
    if (!event)
        return; /* the last line of a node that was killed while it wrote */
    on_event(history, node, event);
    json_free(event);
}

const struct past_epoch *
history_newest(const struct history *history)
{
    return history->epochs_count ? &history->epochs[history->epochs_count - 1] : NULL;
}

bool
history_job_ended(const struct history *history)
{
    const char *state = history->job_state;
    return state[0] && strcmp(state, "running") != 0 && strcmp(state, "stopping") != 0;
}

/* ---- faults and joins ---- */

bool
fault_costs(const struct past_fault *fault)
{
    return fault->action == ACTION_KILL || fault->action == ACTION_STOP ||
           fault->action == ACTION_CUT || fault->action == ACTION_LEAVE ||
           fault->action == ACTION_EVICT;
}

struct past_fault *
history_fault(struct history *history, const struct scenario_event *event,
              uint64_t victims, int64_t now_ms)
{
    const struct past_epoch *newest = history_newest(history);
    struct past_fault *fault = &history->faults[history->faults_count++];
    must(history->faults_count <= TESTNET_EVENTS_MAX);
    *fault = (struct past_fault){.action = event->action,
                                 .victims = victims,
                                 .zone = event->target == TARGET_ZONE ? event->index : -1,
                                 .at_ms = now_ms,
                                 .at_step = history->applied,
                                 .epoch = newest ? newest->epoch : 0,
                                 .leader = victims & node_bit(history->leader),
                                 .seconds = -1};
    uint64_t workers = newest ? newest->workers : 0;
    fault->working = victims & workers;
    if (event->action == ACTION_CUT)
        fault->working = (victims & workers) && (workers & ~victims);
    char target[64], names[64] = "";
    event_text(history->scenario, event, target);
    if (event->target != TARGET_NODE && event->target != TARGET_ZONE && event->count <= 1)
        for (int i = 0; i < history->scenario->nodes_count; i++)
            if (victims >> i & 1)
                snprintf(names, sizeof(names), " (%s)", history->scenario->nodes[i].name);
    snprintf(fault->text, sizeof(fault->text), "%.30s%.33s", target, names);
    return fault;
}

void
history_join(struct history *history, int node, int64_t start_ms)
{
    must(history->joins_count < TESTNET_EVENTS_MAX);
    history->joins[history->joins_count++] = (struct past_join){
        .node = node, .start_ms = start_ms, .seconds = -1, .pause_s = 0};
}

void
history_presence(struct history *history, const struct scenario_event *event,
                 uint64_t running, int64_t now_ms)
{
    must(history->presences_count < TESTNET_EVENTS_MAX);
    struct past_presence *presence = &history->presences[history->presences_count++];
    *presence = (struct past_presence){.at_ms = now_ms, .running = running};
    event_text(history->scenario, event, presence->text);
}

bool
history_presence_counts(const struct history *history, int presence)
{
    enum { TOGETHER_MS = 1000 };
    return presence + 1 == history->presences_count ||
           history->presences[presence + 1].at_ms - history->presences[presence].at_ms >
               TOGETHER_MS;
}

/* When the last of these nodes knew of the epoch; -1: not all of them do. */
static int64_t
known_by(const struct history *history, int64_t epoch, uint64_t nodes)
{
    uint64_t know = 0;
    int64_t last = -1;
    for (size_t m = 0; m < history->marks_count; m++) {
        const struct past_mark *mark = &history->marks[m];
        if (mark->kind != MARK_EPOCH || mark->epoch != epoch ||
            !(nodes & node_bit(mark->node)) || know & node_bit(mark->node))
            continue;
        know |= node_bit(mark->node);
        last = mark->mono_ms > last ? mark->mono_ms : last;
    }
    return know == nodes ? last : -1;
}

int64_t
history_settled(const struct history *history, int number)
{
    const struct past_presence *presence = &history->presences[number];
    int64_t end = number + 1 < history->presences_count ? presence[1].at_ms : INT64_MAX;
    for (size_t e = 0; e < history->epochs_count; e++) {
        const struct past_epoch *epoch = &history->epochs[e];
        if (epoch->members != presence->running || epoch->first_ms < presence->at_ms)
            continue;
        int64_t at = known_by(history, epoch->epoch, presence->running);
        if (at >= 0 && at < end)
            return at;
    }
    return -1;
}

/* Was it given up by an epoch up to `last`? */
static bool
void_by(const struct history *history, const struct past_step *step, int64_t last)
{
    for (size_t i = history->epochs_count; i > 0; i--) {
        const struct past_epoch *epoch = &history->epochs[i - 1];
        if (epoch->epoch <= step->epoch)
            return false;
        if (epoch->epoch <= last && epoch->base_step >= 0 &&
            epoch->base_step < step->step)
            return true;
    }
    return false;
}

bool
history_void(const struct history *history, const struct past_step *step)
{
    return void_by(history, step, INT64_MAX);
}

/* From the fault to the first step that somebody who stayed applied after it; where the
 * work was hit, that is a step of a newer epoch (the old epoch's last step may be on its
 * way, and is no sign that training goes on). */
static void
settle_fault(const struct history *history, struct past_fault *fault, int64_t until_ms)
{
    int64_t first = INT64_MAX, applied = 0, base = INT64_MAX;
    for (size_t i = 0; i < history->steps_count; i++) {
        const struct past_step *step = &history->steps[i];
        if (step->mono_ms <= fault->at_ms) {
            if (step->step > applied && !void_by(history, step, fault->epoch))
                applied = step->step;
            continue;
        }
        bool stayed =
            fault->action == ACTION_CUT || !(fault->victims & node_bit(step->node));
        if (stayed && (!fault->working || step->epoch > fault->epoch) &&
            step->mono_ms < first)
            first = step->mono_ms;
    }
    for (size_t i = 0; i < history->epochs_count; i++) {
        const struct past_epoch *epoch = &history->epochs[i];
        if (epoch->epoch > fault->epoch && epoch->first_ms < until_ms &&
            epoch->base_step >= 0 && epoch->base_step < base)
            base = epoch->base_step;
    }
    fault->seconds = first == INT64_MAX ? -1 : (double)(first - fault->at_ms) / 1e3;
    fault->steps_lost = base < applied ? applied - base : 0;
}

static int
compare_times(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* When each step of the others was first applied, and the longest and the median gap. */
static double
longest_gap(const struct history *history, int joiner, int64_t from_ms, int64_t to_ms)
{
    size_t count = (size_t)history->newest_step + 1, gaps_count = 0;
    int64_t *times = xcalloc(count, sizeof(*times));
    int64_t *gaps = xcalloc(count, sizeof(*gaps)), longest = 0;
    for (size_t i = 0; i < history->steps_count; i++) {
        const struct past_step *step = &history->steps[i];
        int64_t *time = &times[step->step];
        if (step->node != joiner && (*time == 0 || step->mono_ms < *time))
            *time = step->mono_ms;
    }
    for (size_t s = 2; s < count; s++) {
        if (times[s - 1] == 0 || times[s] < times[s - 1])
            continue;
        gaps[gaps_count++] = times[s] - times[s - 1];
        if (times[s] > from_ms && times[s - 1] < to_ms && gaps[gaps_count - 1] > longest)
            longest = gaps[gaps_count - 1];
    }
    qsort(gaps, gaps_count, sizeof(*gaps), compare_times);
    int64_t median = gaps_count ? gaps[gaps_count / 2] : 0;
    free(times);
    free(gaps);
    return longest > median ? (double)(longest - median) / 1e3 : 0;
}

static void
settle_join(const struct history *history, struct past_join *join)
{
    enum { AFTERWARDS_MS = 2000 }; /* its first steps may hold the others up, too */
    int64_t compute = INT64_MAX;
    for (size_t i = 0; i < history->marks_count; i++) {
        const struct past_mark *mark = &history->marks[i];
        if (mark->kind == MARK_COMPUTE && mark->node == join->node &&
            mark->mono_ms >= join->start_ms && mark->mono_ms < compute)
            compute = mark->mono_ms;
    }
    bool ever = compute != INT64_MAX;
    join->seconds = ever ? (double)(compute - join->start_ms) / 1e3 : -1;
    join->pause_s = longest_gap(history, join->node, join->start_ms,
                                ever ? compute + AFTERWARDS_MS : INT64_MAX);
}

void
history_settle(struct history *history)
{
    for (int i = 0; i < history->faults_count; i++) {
        int64_t until_ms =
            i + 1 < history->faults_count ? history->faults[i + 1].at_ms : INT64_MAX;
        settle_fault(history, &history->faults[i], until_ms);
    }
    for (int i = 0; i < history->joins_count; i++)
        settle_join(history, &history->joins[i]);
}

/* ---- the curve ---- */

struct past_step *
history_curve(const struct history *history, size_t *count)
{
    size_t slots = (size_t)history->newest_step + 1;
    struct past_step *curve = xcalloc(slots, sizeof(*curve));
    for (size_t i = 0; i < history->steps_count; i++) {
        const struct past_step *step = &history->steps[i];
        struct past_step *slot = &curve[step->step - 1];
        if (history_void(history, step))
            continue;
        if (slot->step == 0 || step->epoch > slot->epoch ||
            (step->epoch == slot->epoch && step->mono_ms < slot->mono_ms))
            *slot = *step;
    }
    *count = 0;
    for (size_t i = 0; i < slots; i++)
        if (curve[i].step)
            curve[(*count)++] = curve[i];
    return curve;
}
