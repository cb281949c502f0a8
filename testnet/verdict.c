#include "testnet/verdict.h"
#include "transport/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
name_of(const struct history *history, int node)
{
    return node < 0 ? "" : history->scenario->nodes[node].name;
}

struct totals {
    int64_t steps, tokens;
    double tokens_per_s, seconds;
};

/* Tokens of the applied steps, over the time from the first forward pass to the last
 * step. */
static struct totals
add_up(const struct history *history, const struct past_step *curve, size_t count)
{
    struct totals totals = {.steps = (int64_t)count};
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < history->marks_count; i++)
        if (history->marks[i].kind == MARK_COMPUTE && history->marks[i].mono_ms < first)
            first = history->marks[i].mono_ms;
    for (size_t i = 0; i < count; i++)
        totals.tokens += curve[i].tokens;
    if (count && curve[count - 1].mono_ms > first) {
        totals.seconds = (double)(curve[count - 1].mono_ms - first) / 1e3;
        totals.tokens_per_s = (double)totals.tokens / totals.seconds;
    }
    return totals;
}

/* ---- JSON ---- */

static void
put_checks(const struct verdict *verdict, struct json_writer *writer)
{
    json_array_open(writer, "checks");
    for (int i = 0; i < verdict->count; i++) {
        json_object_open(writer, NULL);
        json_put_text(writer, "name", verdict->checks[i].name);
        json_put_bool(writer, "passed", verdict->checks[i].passed);
        json_put_text(writer, "detail", verdict->checks[i].detail);
        json_object_close(writer);
    }
    json_array_close(writer);
}

static void
put_epochs(const struct history *history, struct json_writer *writer)
{
    json_array_open(writer, "epochs");
    for (size_t i = 0; i < history->epochs_count; i++) {
        const struct past_epoch *epoch = &history->epochs[i];
        json_object_open(writer, NULL);
        json_put_int(writer, "epoch", epoch->epoch);
        json_put_int(writer, "term", epoch->term);
        json_put_text(writer, "leader", name_of(history, epoch->leader));
        json_put_text(writer, "cause", epoch->cause);
        json_put_raw(writer, "plan", epoch->plan, strlen(epoch->plan));
        json_object_close(writer);
    }
    json_array_close(writer);
}

static void
put_costs(const struct history *history, struct json_writer *writer)
{
    json_array_open(writer, "recoveries");
    for (int i = 0; i < history->faults_count; i++) {
        const struct past_fault *fault = &history->faults[i];
        if (!fault_costs(fault))
            continue;
        json_object_open(writer, NULL);
        json_put_text(writer, "cause", action_name(fault->action));
        json_put_int(writer, "at_step", fault->at_step);
        json_put_int(writer, "steps_lost", fault->steps_lost);
        json_put_double(writer, "seconds", fault->seconds);
        json_object_close(writer);
    }
    json_array_close(writer);
    json_array_open(writer, "joins");
    for (int i = 0; i < history->joins_count; i++) {
        const struct past_join *join = &history->joins[i];
        json_object_open(writer, NULL);
        json_put_text(writer, "id", name_of(history, join->node));
        json_put_double(writer, "seconds", join->seconds);
        json_put_double(writer, "pause_s", join->pause_s);
        json_object_close(writer);
    }
    json_array_close(writer);
}

static void
put_nodes(const struct history *history, const int64_t *peak_rss_bytes,
          struct json_writer *writer)
{
    const struct scenario *scenario = history->scenario;
    json_array_open(writer, "nodes");
    for (int i = 0; i < scenario->nodes_count; i++) {
        json_object_open(writer, NULL);
        json_put_text(writer, "id", scenario->nodes[i].name);
        json_put_text(writer, "zone", scenario->zones[scenario->nodes[i].zone]);
        json_put_int(writer, "peak_rss_bytes", peak_rss_bytes[i]);
        json_put_int(writer, "predicted_bytes", history->nodes[i].predicted_bytes);
        json_object_close(writer);
    }
    json_array_close(writer);
}

void
verdict_json(const struct history *history, const struct verdict *verdict,
             const int64_t *peak_rss_bytes, struct buf *out)
{
    size_t count;
    struct past_step *curve = history_curve(history, &count);
    struct totals totals = add_up(history, curve, count);
    struct json_writer writer;
    char hash[17];
    json_begin(&writer, out);
    json_object_open(&writer, NULL);
    json_put_text(&writer, "name", history->scenario->name);
    json_put_bool(&writer, "passed", verdict->passed);
    put_checks(verdict, &writer);
    json_put_int(&writer, "steps", totals.steps);
    json_put_int(&writer, "tokens", totals.tokens);
    json_put_double(&writer, "tokens_per_s", totals.tokens_per_s);
    snprintf(hash, sizeof(hash), "%016llx",
             (unsigned long long)(count ? curve[count - 1].samples_hash : 0));
    json_put_text(&writer, "samples_hash", hash);
    put_epochs(history, &writer);
    put_costs(history, &writer);
    put_nodes(history, peak_rss_bytes, &writer);
    json_array_open(&writer, "loss");
    for (size_t i = 0; i < count; i++) {
        json_object_open(&writer, NULL);
        json_put_int(&writer, "step", curve[i].step);
        json_put_double(&writer, "value", curve[i].loss);
        json_object_close(&writer);
    }
    json_array_close(&writer);
    json_object_close(&writer);
    buf_add(out, "\n", 1);
    free(curve);
}

/* ---- the page ---- */

enum { CURVE_COLUMNS = 60, CURVE_ROWS = 10 };

/* Each column is the mean of its steps; epochs are marked where they begin. */
static void
draw_curve(const struct past_step *curve, size_t count, struct buf *out)
{
    double means[CURVE_COLUMNS], least = INFINITY, most = -INFINITY;
    bool begins[CURVE_COLUMNS] = {false};
    size_t columns = count < CURVE_COLUMNS ? count : CURVE_COLUMNS;
    for (size_t c = 0; c < columns; c++) {
        size_t from = c * count / columns, to = (c + 1) * count / columns;
        means[c] = 0;
        for (size_t i = from; i < to; i++) {
            means[c] += curve[i].loss / (double)(to - from);
            begins[c] = begins[c] || (i > 0 && curve[i].epoch != curve[i - 1].epoch);
        }
        least = fmin(least, means[c]);
        most = fmax(most, means[c]);
    }
    double row = most > least ? (most - least) / (CURVE_ROWS - 1) : 1;
    buf_printf(out, "\nloss (nats per token)\n");
    for (int r = 0; r < CURVE_ROWS; r++) {
        char line[CURVE_COLUMNS + 1];
        for (size_t c = 0; c < columns; c++)
            line[c] = (int)((most - means[c]) / row + 0.5) == r ? '*' : ' ';
        line[columns] = '\0';
        buf_printf(out, "%8.3f |%s\n", most - r * row, line);
    }
    char ticks[CURVE_COLUMNS + 1], dashes[CURVE_COLUMNS + 1];
    memset(dashes, '-', columns);
    dashes[columns] = '\0';
    for (size_t c = 0; c < columns; c++)
        ticks[c] = begins[c] ? '^' : ' ';
    ticks[columns] = '\0';
    buf_printf(out,
               "         +%s\n          %s\n          step 1 to %lld; ^ a new epoch\n",
               dashes, ticks, (long long)curve[count - 1].step);
}

static void
draw_epochs(const struct history *history, struct buf *out)
{
    buf_printf(out, "\nepochs\n");
    for (size_t i = 0; i < history->epochs_count; i++) {
        const struct past_epoch *epoch = &history->epochs[i];
        double at = (double)(epoch->first_ms - history->epochs[0].first_ms) / 1e3;
        buf_printf(out, "  %3lld  %-9s term %-3lld leader %-8s at %6.2f s  ",
                   (long long)epoch->epoch, epoch->cause, (long long)epoch->term,
                   name_of(history, epoch->leader), at);
        if (epoch->stages == 0)
            buf_printf(out, "no work\n");
        else
            buf_printf(out, "from step %lld: %lld stages x %lld replicas\n",
                       (long long)epoch->base_step + 1, (long long)epoch->stages,
                       (long long)epoch->pipelines);
    }
}

static void
draw_costs(const struct history *history, struct buf *out)
{
    if (history->faults_count)
        buf_printf(out, "\nfaults\n");
    for (int i = 0; i < history->faults_count; i++) {
        const struct past_fault *fault = &history->faults[i];
        buf_printf(out, "  at step %-4lld %-24s ", (long long)fault->at_step,
                   fault->text);
        if (!fault_costs(fault) || history->newest_step == 0)
            buf_printf(out, "\n");
        else if (fault->seconds < 0)
            buf_printf(out, "training never went on\n");
        else
            buf_printf(out, "training went on after %.2f s; %lld steps done again\n",
                       fault->seconds, (long long)fault->steps_lost);
    }
    if (history->joins_count)
        buf_printf(out, "\njoins\n");
    for (int i = 0; i < history->joins_count; i++) {
        const struct past_join *join = &history->joins[i];
        if (join->seconds < 0)
            buf_printf(out, "  %-8s never computed\n", name_of(history, join->node));
        else
            buf_printf(out, "  %-8s computed after %.2f s; the others paused %.2f s\n",
                       name_of(history, join->node), join->seconds, join->pause_s);
    }
}

void
verdict_page(const struct history *history, const struct verdict *verdict, double seconds,
             struct buf *out)
{
    size_t count;
    struct past_step *curve = history_curve(history, &count);
    struct totals totals = add_up(history, curve, count);
    buf_printf(out, "\n---- %s ----\n", history->scenario->name);
    if (count)
        draw_curve(curve, count, out);
    buf_printf(out, "\n%lld steps, %lld tokens in %.1f s: %.0f tokens/s",
               (long long)totals.steps, (long long)totals.tokens, totals.seconds,
               totals.tokens_per_s);
    if (count)
        buf_printf(out, "; loss %.4f to %.4f", curve[0].loss, curve[count - 1].loss);
    buf_printf(out, "\n");
    draw_epochs(history, out);
    draw_costs(history, out);
    buf_printf(out, "\nchecks\n");
    for (int i = 0; i < verdict->count; i++)
        buf_printf(out, "  %-4s  %-15s %s\n", verdict->checks[i].passed ? "ok" : "FAIL",
                   verdict->checks[i].name, verdict->checks[i].detail);
    buf_printf(out, "\n%s: %s in %.1f s\n", history->scenario->name,
               verdict->passed ? "passed" : "failed", seconds);
    free(curve);
}
