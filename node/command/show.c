#include "node/command/show.h"

#include <string.h>

enum { STEP_LINE_MS = 1000, SECONDS_MOST = 1000000000 };
static const int64_t INT_MOST = INT64_C(1) << 53;

/* ---- parts ---- */

const char *
show_count(int64_t count, const char *noun)
{
    static char texts[8][48];
    static unsigned next;
    char *text = texts[next++ % 8];
    size_t len = strlen(noun);
    const char *many = len > 1 && strcmp(noun + len - 2, "ch") == 0 ? "es" : "s";
    snprintf(text, sizeof(texts[0]), "%lld %.24s%s", (long long)count, noun,
             count == 1 ? "" : many);
    return text;
}

static const char *
text_of(const struct json *object, const char *key)
{
    return json_text(json_get(object, key), "");
}

int64_t
show_int(const struct json *object, const char *key, int64_t otherwise)
{
    int64_t value = json_int(json_get(object, key), otherwise);
    return value < -INT_MOST ? -INT_MOST : value > INT_MOST ? INT_MOST : value;
}

static int64_t
int_of(const struct json *object, const char *key)
{
    return show_int(object, key, 0);
}

/* Seconds, none of them negative or for ever. */
static double
seconds_of(const struct json *object, const char *key)
{
    double value = json_double(json_get(object, key), 0);
    return value < 0 ? 0 : value > SECONDS_MOST ? SECONDS_MOST : value;
}

static void
add(char *text, size_t size, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", more);
}

static void
add_number(const struct json *fixed, const char *key, int64_t is, char *text, size_t size)
{
    char part[96];
    int64_t wanted = int_of(fixed, key);
    if (wanted == 0 || wanted == is)
        return;
    snprintf(part, sizeof(part), "%s%s %lld, not %lld", text[0] ? "; " : "", key,
             (long long)is, (long long)wanted);
    add(text, size, part);
}

static const char *
stage_zone(const struct json *stages, size_t stage)
{
    return text_of(json_at(json_get(json_at(stages, stage), "replicas"), 0), "zone");
}

static void
add_zones(const struct json *plan, char *text, size_t size)
{
    const struct json *zones = json_get(json_get(plan, "fixed"), "zones");
    const struct json *stages = json_get(plan, "stages");
    size_t wanted = json_count(zones), count = json_count(stages);
    bool same = wanted == count;
    for (size_t s = 0; same && s < count; s++)
        same = strcmp(json_text(json_at(zones, s), ""), stage_zone(stages, s)) == 0;
    if (wanted == 0 || same)
        return;
    add(text, size, text[0] ? "; zones" : "zones");
    for (size_t s = 0; s < count; s++) {
        add(text, size, s ? ", " : " ");
        add(text, size, stage_zone(stages, s));
    }
    add(text, size, ", not");
    for (size_t s = 0; s < wanted; s++) {
        add(text, size, s ? ", " : " ");
        add(text, size, json_text(json_at(zones, s), ""));
    }
}

void
show_loosened(const struct json *plan, char *text, size_t size)
{
    char what[512] = "";
    const struct json *fixed = json_get(plan, "fixed");
    add_number(fixed, "pipeline", (int64_t)json_count(json_get(plan, "stages")), what,
               sizeof(what));
    add_number(fixed, "replicas", int_of(plan, "pipelines"), what, sizeof(what));
    add_number(fixed, "micro_batch", int_of(plan, "micro_batch"), what, sizeof(what));
    add_zones(plan, what, sizeof(what));
    snprintf(text, size, "the job's fixed plan could not be kept%s%s",
             what[0] ? ": " : "", what);
}

/* ---- lines ---- */

static void
show_step_line(struct show *show, int64_t now_ms)
{
    fprintf(show->out, "%s%s%s", show->live ? "\r\033[K" : "", show->line,
            show->live ? "" : "\n");
    show->on_screen = show->live;
    show->waiting = false;
    show->shown_ms = now_ms;
    fflush(show->out);
}

/* A line of another kind; on a terminal the step line stays below it. */
static void
show_line(struct show *show, const char *text)
{
    fprintf(show->out, "%s%s\n%s", show->on_screen ? "\r\033[K" : "", text,
            show->on_screen ? show->line : "");
    fflush(show->out);
}

static void
show_step(struct show *show, int64_t now_ms, const struct json *event)
{
    int64_t step = int_of(event, "step");
    double step_s = seconds_of(event, "step_s");
    double tokens = (double)int_of(event, "tokens");
    int64_t at_ms = show_int(event, "mono_ms", now_ms);
    if (step <= show->last_step)
        return;
    if (show->first_step == 0) {
        show->first_step = step;
        show->measured_ms = at_ms - (int64_t)(step_s * 1e3);
        show->tokens = tokens;
    } else {
        /* Not every step is told of to a node without a part in it. */
        show->tokens += tokens * (double)(step - show->last_step);
    }
    show->measured_to = at_ms;
    show->last_step = step;
    show->loss = json_double(json_get(event, "loss"), 0);
    show->epoch = show_int(event, "epoch", show->epoch);
    show->nodes = show_int(event, "nodes", show->nodes);
    snprintf(show->line, sizeof(show->line),
             "step %lld  loss %.4f  %.0f tokens/s  epoch %lld  %s", (long long)step,
             show->loss, step_s > 0 ? tokens / step_s : 0, (long long)show->epoch,
             show_count(show->participating ? show->participating : show->nodes, "node"));
    show->waiting = true;
    if (show->live)
        show_step_line(show, now_ms);
    else
        show_tick(show, now_ms);
}

/* Who takes part, and why not everybody. */
static void
show_plan(struct show *show, const struct json *plan)
{
    char text[640];
    const struct json *fixed = json_get(plan, "fixed");
    if (show->participating > 0 && show->participating < show->nodes) {
        snprintf(
            text, sizeof(text), "planned on %lld of %lld nodes%s",
            (long long)show->participating, (long long)show->nodes,
            json_count(fixed) > 0
                ? ", as the job fixes it"
                : ": for this model more would be slower (plan: in the job fixes it)");
        show_line(show, text);
    }
    if (json_bool(json_get(plan, "loosened"), false)) {
        show_loosened(plan, text, sizeof(text));
        show_line(show, text);
    }
}

/* An epoch, or where the run stands when one begins to follow it. The epoch that ends a
 * job has none, and is not of interest. */
static void
show_epoch(struct show *show, const struct json *event)
{
    char text[320], cause[64] = "";
    const struct json *plan = json_get(event, "plan");
    const struct json *members = json_get(event, "members");
    size_t stages = json_count(json_get(plan, "stages"));
    int64_t epoch = int_of(event, "epoch");
    if (text_of(event, "job")[0] == '\0' || epoch <= show->epoch)
        return;
    show->epoch = epoch;
    show->nodes = members ? (int64_t)json_count(members) : int_of(event, "nodes");
    show->participating = stages > 0 ? int_of(plan, "nodes") : 0;
    if (text_of(event, "cause")[0])
        snprintf(cause, sizeof(cause), " (%.60s)", text_of(event, "cause"));
    snprintf(text, sizeof(text), "epoch %lld%s: %s, leader %.64s, %s", (long long)epoch,
             cause, show_count(show->nodes, "node"), text_of(event, "leader_name"),
             stages > 0 ? show_count((int64_t)stages, "stage")
                        : "the job waits for members that can carry it");
    show_line(show, text);
    show_plan(show, plan);
}

static void
show_summary(struct show *show, int64_t now_ms)
{
    double seconds = (double)(now_ms - show->began_ms) / 1e3;
    int64_t measured = show->measured_to - show->measured_ms;
    if (show->first_step == 0)
        return;
    if (show->first_step == show->last_step)
        fprintf(show->out, "step %lld", (long long)show->last_step);
    else
        fprintf(show->out, "steps %lld to %lld", (long long)show->first_step,
                (long long)show->last_step);
    fprintf(show->out, ", loss %.4f, ", show->loss);
    if (seconds < 60)
        fprintf(show->out, "%.1f s", seconds);
    else
        fprintf(show->out, "%lld min %lld s", (long long)seconds / 60,
                (long long)seconds % 60);
    if (measured > 0)
        fprintf(show->out, ", %.0f tokens/s", show->tokens * 1e3 / (double)measured);
    fprintf(show->out, "%s%s\n", show->checkpoint[0] ? ", checkpoint " : "",
            show->checkpoint);
}

static void
show_job(struct show *show, int64_t now_ms, const struct json *event)
{
    const char *state = text_of(event, "state");
    if (strcmp(state, "running") == 0 || strcmp(state, "stopping") == 0)
        return;
    snprintf(show->ended, sizeof(show->ended), "%s", state);
    show->failed = strncmp(state, "failed", 6) == 0;
    show_finish(show);
    fprintf(show->out, "the run ended: %s\n", state);
    show_summary(show, now_ms);
}

static void
show_word(struct show *show, const struct json *event, const char *kind)
{
    char text[PATH_BYTES_MAX + 32];
    if (strcmp(kind, "submitted") == 0) {
        show_line(show, "submitted; the members measure themselves on this model");
    } else if (strcmp(kind, "checkpoint") == 0) {
        snprintf(show->checkpoint, sizeof(show->checkpoint), "%s",
                 text_of(event, "path"));
        snprintf(text, sizeof(text), "checkpoint %s", show->checkpoint);
        show_line(show, text);
    } else if (strcmp(kind, "paused") == 0 || strcmp(kind, "failed") == 0) {
        snprintf(text, sizeof(text), "%s: %.400s", kind, text_of(event, "reason"));
        show_line(show, text);
    } else if (strcmp(kind, "rollback") == 0) {
        snprintf(text, sizeof(text), "steps %lld to %lld are done again",
                 (long long)int_of(event, "to_step") + 1,
                 (long long)int_of(event, "from_step"));
        show_line(show, text);
        show->last_step = int_of(event, "to_step");
    }
}

void
show_begin(struct show *show, FILE *out, bool live, int64_t now_ms)
{
    memset(show, 0, sizeof(*show));
    show->out = out;
    show->live = live;
    show->began_ms = now_ms;
    show->shown_ms = now_ms - STEP_LINE_MS;
}

bool
show_event(struct show *show, int64_t now_ms, const struct json *event)
{
    static const char *const words[] = {"submitted", "checkpoint", "paused", "failed",
                                        "rollback"};
    const char *kind = text_of(event, "event");
    /* What came before a change is shown before it. */
    if (show->waiting && (strcmp(kind, "epoch") == 0 || strcmp(kind, "paused") == 0 ||
                          strcmp(kind, "failed") == 0 || strcmp(kind, "rollback") == 0))
        show_step_line(show, now_ms);
    if (strcmp(kind, "step") == 0 || strcmp(kind, "progress") == 0)
        show_step(show, now_ms, event);
    else if (strcmp(kind, "epoch") == 0)
        show_epoch(show, event);
    else if (strcmp(kind, "job") == 0)
        show_job(show, now_ms, event);
    else if (strcmp(kind, "stop") == 0)
        show->left = strncmp(text_of(event, "reason"), "left", 4) == 0;
    if (strcmp(kind, "run") == 0) {
        show->accepted = true;
        show_epoch(show, event);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(kind, words[i]) == 0)
            show_word(show, event, kind);
    fflush(show->out);
    return show->ended[0] == '\0';
}

void
show_tick(struct show *show, int64_t now_ms)
{
    if (show->waiting && now_ms - show->shown_ms >= STEP_LINE_MS)
        show_step_line(show, now_ms);
}

void
show_finish(struct show *show)
{
    if (show->waiting)
        show_step_line(show, show->shown_ms);
    if (show->on_screen)
        fputc('\n', show->out);
    show->on_screen = false;
    fflush(show->out);
}
